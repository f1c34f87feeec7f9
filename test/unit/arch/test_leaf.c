/*
 * x86-64: which functions are leaves (isa/leaf.h).  Each rule has code that it lets through, and code that differs in
 * just what the rule is about.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "arch/x86_64/isa/leaf.h"
#include "support.h"

#define CODE_MAX 64

/* Bytes in a buffer of just their size, so that a sanitizer sees what is read behind it. */
static bool is_leaf(const char *hex)
{
	uint8_t code[CODE_MAX], *exact;
	size_t size = isa_bytes(hex, code, sizeof(code));
	bool leaf;

	exact = malloc(size + !size);
	assert_non_null(exact);
	memcpy(exact, code, size);
	leaf = x86_is_leaf(exact, size);
	free(exact);
	return leaf;
}

static void check_all(const char *const *codes, size_t count, bool want)
{
	for (size_t i = 0; i < count; i++)
		if (is_leaf(codes[i]) != want)
			fail_msg("%s is %s leaf", codes[i], want ? "no" : "a");
}

#define LEAVES(...)                                                                                                    \
	do {                                                                                                           \
		static const char *const codes[] = {__VA_ARGS__};                                                      \
		check_all(codes, sizeof(codes) / sizeof(codes[0]), true);                                              \
	} while (0)
#define OTHERS(...)                                                                                                    \
	do {                                                                                                           \
		static const char *const codes[] = {__VA_ARGS__};                                                      \
		check_all(codes, sizeof(codes) / sizeof(codes[0]), false);                                             \
	} while (0)

static void an_end_is_needed(void **state)
{
	LEAVES("8d4701c3",	/* lea 1(%rdi), %eax; ret */
	       "c3",		/* ret */
	       "f3c3",		/* rep ret */
	       "0f0b",		/* ud2 */
	       "90ebfd",	/* nop; jmp to the nop */
	       "85ff7401c3c3"); /* test %edi, %edi; je 1f; ret; 1: ret */
	OTHERS("", "8d4701",	/* falls out of its end */
	       "c390",		/* ret; nop */
	       "85ff74fc",	/* ends with a branch */
	       "c3e8",		/* half an instruction */
	       "c38d47",	/* likewise */
	       "c206c3",	/* half a ret $n */
	       "c20800",	/* ret $8 */
	       "cb", "cf", "48cf", "c3cc", "f4c3", "cd80c3", "ccc3", "f1c3");
}

static void jumps_stay_within(void **state)
{
	LEAVES("ffcf75fcc3",	     /* 1: dec %edi; jne 1b; ret */
	       "ffcf0f85f8ffffffc3", /* the same by a long jump */
	       "e2fec3",	     /* loop to itself */
	       "e300c3",	     /* jrcxz */
	       "e900000000c3");	     /* jmp; ret */
	OTHERS("ffcf75fbc3",	     /* in front of the body's first byte: the site */
	       "ffcf75fdc3",	     /* into an instruction */
	       "ffcf7501c3",	     /* behind the end */
	       "ffcf7500",	     /* to the end */
	       "e9fbffffff90", "e90000000090", "e901000000c3", "eb7fc3", "e280c3", "0f8500000100c3",
	       "ffe0c3",    /* jmp *%rax */
	       "ff27c3",    /* jmp *(%rdi) */
	       "ff2fc3",    /* a far jump */
	       "3effe0c3"); /* notrack jmp *%rax */
}

static void nothing_is_called(void **state)
{
	OTHERS("e800000000c3",			   /* call */
	       "ffd0c3", "ff17c3",		   /* indirect calls */
	       "ff1fc3",			   /* a far one */
	       "0f05c3", "0f34c3",		   /* syscall, sysenter */
	       "c7f800000000c3",		   /* xbegin */
	       "c6f800c3",			   /* xabort */
	       "0f01d5c3", "0f01c1c3", "0f01f9c3", /* xend, vmcall, rdtscp */
	       "f30f1ec8c3",			   /* rdssp */
	       "f30faee8c3",			   /* incssp */
	       "f3480faed0c3",			   /* wrfsbase */
	       "0f00d8c3", "0f20c0c3", "0f33c3", "6cc3", "e410c3", "eec3", "fac3", "fdc3", "8ed8c3", "0fb430c3");
	LEAVES("f30f1efac3",			   /* endbr64 */
	       "0f31c3", "0fa2c3",		   /* rdtsc, cpuid */
	       "0faee8c3", "0faef0c3", "0faef8c3", /* fences */
	       "0fae17c3",			   /* ldmxcsr (%rdi) */
	       "fcf3a4c3",			   /* cld; rep movsb */
	       "0f1f442400c3");			   /* a no-op that names rsp */
	OTHERS("f390ebfcc3", "f390c3");		   /* pause: code that waits for another thread */
	OTHERS("0fae27c3", "0fae2fc3");		   /* xsave, xrstor */
}

static void the_stack_is_left_alone(void **state)
{
	OTHERS("50c3", "4157c3", "5dc3", "6a01c3", "6801000000c3", "ff37c3", "8f07c3", "9cc3", "9dc3", "c9c3",
	       "c8100000c3", "0fa0c3", "0fa9c3", "4150c3");
	OTHERS("4883ec08c3",					       /* sub $8, %rsp */
	       "4889e0c3",					       /* mov %rsp, %rax */
	       "488bc4c3",					       /* the same, coded otherwise */
	       "4889c4c3",					       /* mov %rax, %rsp */
	       "8b0424c3",					       /* mov (%rsp), %eax */
	       "8b442408c3",					       /* mov 8(%rsp), %eax */
	       "894424fcc3",					       /* mov %eax, -4(%rsp): the red zone */
	       "8b84bc00010000c3",				       /* mov 256(%rsp,%rdi,4), %eax */
	       "488d442408c3",					       /* lea 8(%rsp), %rax */
	       "678d4424f8c3",					       /* lea -8(%esp), %eax */
	       "94c3", "4894c3", "bc01000000c3", "40b401c3", "0fccc3", /* xchg, mov, mov spl, bswap */
	       "48ffc4c3", "48f7dcc3", "48c1e408c3", "480fbae405c3", "480f44c4c3", "480f44e0c3", "0f94c4c3",
	       "4839e7c3", /* cmp %rsp, %rdi */
	       "480fb1e7c3", "480fc1e7c3", "4887e7c3", "4863e7c3", "486be703c3", "480fafe7c3", "480fbde7c3", "0f2ac4c3",
	       "f2480f2ac4c3", "f2480f2ce0c3", "660f7ec4c3", "660f6ec4c3", "0f50e0c3", "660fd7e0c3", "660f3a16c400c3",
	       "660f3a22c400c3", "660fc4c400c3", "f20f38f1e7c3", "f20f10442408c3", /* movsd 8(%rsp), %xmm0 */
	       "0f290424c3",							   /* movaps %xmm0, (%rsp) */
	       "d90424c3",							   /* flds (%rsp) */
	       "0fae1c24c3",							   /* stmxcsr (%rsp) */
	       "0fc70c24c3",							   /* cmpxchg8b (%rsp) */
	       "480fc7f4c3",							   /* rdrand %rsp */
	       "0f180c24c3",							   /* a prefetch there */
	       "c5f8280424c3", "c5fb10442408c3", "62f17c48280424c3",		   /* with VEX and EVEX */
	       "c5f97ec4c3", "c4e2d8f2c0c3", "c4e2f9f7e0c3", "c4e3fbf0e001c3", "c5fb93e0c3", "62f27d087ae0c3");
	LEAVES("4883ef08c3",		   /* sub $8, %rdi */
	       "4989fcc3",		   /* mov %rdi, %r12 */
	       "4c89e0c3",		   /* mov %r12, %rax */
	       "418b0424c3",		   /* mov (%r12), %eax */
	       "8b442708c3",		   /* mov 8(%rdi), %eax; its index is none */
	       "8b04a5000000004883c001c3", /* mov 0(,%riz,4), %eax */
	       "4994c3", "41bc01000000c3", "410fccc3", "41f7dcc3",
	       "48c1e708c3", /* shl $8, %rdi: the middle field is the opcode's */
	       "4883e70fc3", /* and $15, %rdi */
	       "f7e7c3",     /* mul %edi */
	       "0f28e5c3", "0f58c4c3", "f20f59e0c3", "660fefe4c3", "660f73dc08c3", /* xmm4 is no stack pointer */
	       "c5d858e4c3", "c4e359188d0001000001c3", "660f38ddc4c3", "660f3a0fc404c3", "f20f2ac7c3", "f2480f2cc0c3",
	       "660f7ec0c3", "660fd7c0c3", "660f3a16c000c3", "0fb6c7c3", "0fafc7c3", "f00fc107c3", "f0480fb137c3",
	       "0f94c0c3", "0f44c7c3", "f30fb8c7c3", "8b0510000000c3", /* mov 16(%rip), %eax */
	       "64488b042500000000c3", "48a10011223344556677c3", "d9c0ddd8c3", "0fc70fc3", "480fc7f0c3");
}

static void what_is_not_known_is_no_leaf(void **state)
{
	OTHERS("06c3", "0f04c3", "0f0ac3", "0f39c0c3", "0f38f8c0c3", "660f38f807c3", "660f38f607c3", "d5c3",
	       "660f38dc04", "8fe878c0c000c3", "8fe9789ac0c3", "660f380007", "f30f38d8c1c3", "c4e27b49c0c3",
	       "c4e2795ec0c3", "c4e2e1e007c3", "f30fc7f8c3", "0fc7c8c3", "62f57c4858c0c3", "0f3af0c000c3",
	       "f30f3af0c000c3");
}

static void only_short_functions_are_looked_at(void **state)
{
	static uint8_t code[X86_LEAF_MAX + 1];

	memset(code, 0x90, sizeof(code));
	code[X86_LEAF_MAX - 1] = 0xc3;
	assert_true(x86_is_leaf(code, X86_LEAF_MAX));
	code[X86_LEAF_MAX - 1] = 0x90;
	code[X86_LEAF_MAX] = 0xc3;
	assert_false(x86_is_leaf(code, X86_LEAF_MAX + 1));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_end_is_needed),
		cmocka_unit_test(jumps_stay_within),
		cmocka_unit_test(nothing_is_called),
		cmocka_unit_test(the_stack_is_left_alone),
		cmocka_unit_test(what_is_not_known_is_no_leaf),
		cmocka_unit_test(only_short_functions_are_looked_at),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
