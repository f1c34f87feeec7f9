/*
 * Vectors for the x86-64 decoders of the instructions at a function's entry.  The no-ops are those that gas and LLVM
 * emit; other instructions must not pass for one.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "arch/aarch64/isa/nops.h"
#include "arch/riscv64/isa/nops.h"
#include "arch/x86_64/isa/entered.h"
#include "arch/x86_64/isa/nops.h"
#include "arch/x86_64/isa/switches.h"

struct vector {
	size_t length; /* 0: no no-op */
	size_t size;
	uint8_t code[16];
};

static const struct vector vectors[] = {
	{1, 1, {0x90}},
	{2, 2, {0x66, 0x90}},
	{3, 3, {0x0f, 0x1f, 0x00}},
	{3, 3, {0x0f, 0x1f, 0xc0}},
	{4, 4, {0x0f, 0x1f, 0x40, 0x00}},
	{5, 5, {0x0f, 0x1f, 0x44, 0x00, 0x00}},
	{6, 6, {0x66, 0x0f, 0x1f, 0x44, 0x00, 0x00}},
	{7, 7, {0x0f, 0x1f, 0x80, 0, 0, 0, 0}},
	{8, 8, {0x0f, 0x1f, 0x84, 0x00, 0, 0, 0, 0}},
	{9, 9, {0x66, 0x0f, 0x1f, 0x84, 0x00, 0, 0, 0, 0}},
	{10, 10, {0x66, 0x2e, 0x0f, 0x1f, 0x84, 0x00, 0, 0, 0, 0}},
	{10, 10, {0x2e, 0x66, 0x0f, 0x1f, 0x84, 0x00, 0, 0, 0, 0}},
	{15, 15, {0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x2e, 0x0f, 0x1f, 0x84, 0x00, 0, 0, 0, 0}},
	{7, 7, {0x0f, 0x1f, 0x05, 1, 2, 3, 4}},	      /* disp32(%rip) */
	{8, 8, {0x0f, 0x1f, 0x04, 0x25, 1, 2, 3, 4}}, /* disp32 */
	{4, 4, {0x48, 0x0f, 0x1f, 0x00}},	      /* nopq (%rax) */
	{1, 3, {0x90, 0x55, 0xc3}},
	/* not no-ops */
	{0, 2, {0xf3, 0x90}},		  /* pause */
	{0, 2, {0x49, 0x90}},		  /* xchg %rax, %r8 */
	{0, 1, {0x55}},			  /* push %rbp */
	{0, 4, {0xf3, 0x0f, 0x1e, 0xfa}}, /* endbr64 */
	{0, 2, {0x0f, 0x0b}},		  /* ud2 */
	{0, 1, {0xc3}},
	/* cut short */
	{0, 0, {0}},
	{0, 1, {0x66}},
	{0, 2, {0x0f, 0x1f}},
	{0, 4, {0x0f, 0x1f, 0x44, 0x00}},
	{0, 3, {0x0f, 0x1f, 0x04}},
	{0, 6, {0x0f, 0x1f, 0x80, 0, 0, 0}},
	/* longer than an instruction may be */
	{0, 16, {0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x90}},
};

static void nops(void **state)
{
	for (size_t i = 0; i < sizeof(vectors) / sizeof(vectors[0]); i++) {
		size_t length = x86_nop_length(vectors[i].code, vectors[i].size);

		if (length != vectors[i].length)
			fail_msg("vector %zu: length %zu, want %zu", i, length, vectors[i].length);
	}
}

static void landing_pads(void **state)
{
	static const uint8_t endbr64[] = {0xf3, 0x0f, 0x1e, 0xfa};
	static const uint8_t endbr32[] = {0xf3, 0x0f, 0x1e, 0xfb};
	static const uint8_t push_r10[] = {0x41, 0x52}, push_r12[] = {0x41, 0x54};

	assert_int_equal(x86_endbr64_length(endbr64, 4), 4);
	assert_int_equal(x86_endbr64_length(endbr64, 3), 0);
	assert_int_equal(x86_endbr64_length(endbr32, 4), 0);
	assert_int_equal(x86_push_chain_length(push_r10, 2), 2);
	assert_int_equal(x86_push_chain_length(push_r10, 1), 0);
	assert_int_equal(x86_push_chain_length(push_r12, 2), 0);
}

static void sleds(void **state)
{
	static const uint8_t sled[] = {0xeb, 9, 0x66, 0x0f, 0x1f, 0x84, 0, 0, 2, 0, 0};
	static const uint8_t other[] = {0xeb, 9, 0x66, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0}; /* another no-op */

	assert_int_equal(x86_xray_length(sled, 11), 11);
	assert_int_equal(x86_xray_length(sled, 10), 0);
	assert_int_equal(x86_xray_length(other, 11), 0);
}

static void calls(void **state)
{
	static const uint8_t back[] = {0xe8, 0xfb, 0xff, 0xff, 0xff};
	static const uint8_t prefixed[] = {0x67, 0xe8, 0x10, 0x00, 0x00, 0x00};
	static const uint8_t jump[] = {0xe9, 0x00, 0x00, 0x00, 0x00};
	uint64_t target;

	assert_int_equal(x86_call(back, 5, 0x401000, &target), 5);
	assert_int_equal(target, 0x401000);
	assert_int_equal(x86_call(prefixed, 6, 0x401000, &target), 6);
	assert_int_equal(target, 0x401016);
	assert_int_equal(x86_call(back, 4, 0x401000, &target), 0);
	assert_int_equal(x86_call(prefixed, 5, 0x401000, &target), 0);
	assert_int_equal(x86_call(jump, 5, 0x401000, &target), 0);
	assert_int_equal(x86_call(back, 0, 0x401000, &target), 0);
}

static void slots(void **state)
{
	static const uint8_t call[] = {0xff, 0x15, 0x4a, 0x2f, 0x00, 0x00};
	static const uint8_t plt[] = {0xff, 0x25, 0xfa, 0xff, 0xff, 0xff};
	static const uint8_t plt_sec[] = {0xf3, 0x0f, 0x1e, 0xfa, 0xf2, 0xff, 0x25, 0x75, 0x2f, 0x00, 0x00};
	static const uint8_t plt_ibt[] = {0xf3, 0x0f, 0x1e, 0xfa, 0xff, 0x25, 0x76, 0x2f, 0x00, 0x00};
	uint64_t slot;

	assert_int_equal(x86_call_slot(call, 6, 0x1090, &slot), 6);
	assert_int_equal(slot, 0x3fe0);
	assert_int_equal(x86_call_slot(call, 5, 0x1090, &slot), 0);
	assert_int_equal(x86_call_slot(plt, 6, 0x1090, &slot), 0);
	assert_int_equal(x86_jump_slot(plt, 6, 0x1000, &slot), 6);
	assert_int_equal(slot, 0x1000);
	assert_int_equal(x86_jump_slot(plt_sec, 11, 0x1040, &slot), 11);
	assert_int_equal(slot, 0x3fc0);
	assert_int_equal(x86_jump_slot(plt_ibt, 10, 0x1040, &slot), 10);
	assert_int_equal(slot, 0x3fc0);
	assert_int_equal(x86_jump_slot(plt_sec, 10, 0x1040, &slot), 0);
	assert_int_equal(x86_jump_slot(plt, 0, 0x1000, &slot), 0);
}

/* What linkers write: where the head is, how long it is, and which word the entry goes by. */
static void plt_entries(void **state)
{
	static const struct {
		uint8_t code[16], size, head, length; /* length 0: it is no entry */
		uint64_t slot;
	} cases[] = {
		/* a lazy entry: jmp *slot; push; jmp */
		{{0xff, 0x25, 0xe2, 0x2f, 0, 0, 0x68, 0, 0, 0, 0, 0xe9, 0xe0, 0xff, 0xff, 0xff}, 16, 0, 6, 0x3fe8},
		/* .plt.got: jmp *slot; xchg */
		{{0xff, 0x25, 0xda, 0x2f, 0, 0, 0x66, 0x90}, 8, 0, 6, 0x3fe0},
		/* with a landing pad, with and without bnd */
		{{0xf3, 0x0f, 0x1e, 0xfa, 0xff, 0x25, 0x76, 0x2f, 0, 0}, 10, 4, 6, 0x3f80},
		{{0xf3, 0x0f, 0x1e, 0xfa, 0xf2, 0xff, 0x25, 0x75, 0x2f, 0, 0}, 11, 4, 7, 0x3f80},
		{{0xf2, 0xff, 0x25, 0xf9, 0x2f, 0, 0}, 7, 0, 7, 0x4000},
		/* mold's: endbr64; mov $1, %r11d; jmp *slot */
		{{0xf3, 0x0f, 0x1e, 0xfa, 0x41, 0xbb, 1, 0, 0, 0, 0xff, 0x25, 0xf0, 0x2f, 0, 0}, 16, 4, 6, 0x4000},
		/* the head of a table: push; jmp */
		{{0xff, 0x35, 0xe2, 0x2f, 0, 0, 0xff, 0x25, 0xe4, 0x2f, 0, 0}, 12, 0, 0, 0},
		/* what binds: endbr64; push; jmp */
		{{0xf3, 0x0f, 0x1e, 0xfa, 0x68, 0, 0, 0, 0, 0xf2, 0xe9, 0xe1, 0xff, 0xff, 0xff}, 15, 0, 0, 0},
		/* a call by a word, and the end of the code */
		{{0xff, 0x15, 0xe2, 0x2f, 0, 0}, 6, 0, 0, 0},
		{{0xf3, 0x0f, 0x1e, 0xfa, 0xff, 0x25, 0x76, 0x2f, 0, 0}, 9, 0, 0, 0},
		{{0xf3, 0x0f, 0x1e, 0xfa, 0x41, 0xbb, 1, 0, 0, 0}, 10, 0, 0, 0},
		{{0xf2}, 1, 0, 0, 0},
		{{0}, 0, 0, 0, 0},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct isa_plt_entry entry = {0};

		assert_int_equal(x86_plt_entry(&entry, cases[i].code, cases[i].size, 0x1000), cases[i].length != 0);
		if (!cases[i].length)
			continue;
		assert_int_equal(entry.head, cases[i].head);
		assert_int_equal(entry.length, cases[i].length);
		assert_int_equal(entry.slot, cases[i].slot);
	}
}

static void plt_entries_of_aarch64(void **state)
{
	/* adrp x16, page; ldr x17, [x16, #4056]; add x16, x16, #4056; br x17 */
	static const uint32_t plain[] = {0xb0000010, 0xf947ee11, 0x913f6210, 0xd61f0220};
	static const uint32_t padded[] = {0xd503245f, 0xb0000010, 0xf947ee11, 0x913f6210, 0xd61f0220};
	static const uint32_t is_signed[] = {0xb0000010, 0xf947ee11, 0x913f6210, 0xd503219f, 0xd61f0220};
	static const uint32_t first[] = {0xa9bf7bf0, 0xb0000010, 0xf947ee11, 0x913f6210, 0xd61f0220};
	static const uint32_t call[] = {0xb0000010, 0xf947ee11, 0x913f6210, 0xd63f0220};
	static const uint32_t other[] = {0xb0000000, 0xf947ec01, 0x913f6000, 0xd61f0020}; /* x0, x1 */
	struct isa_plt_entry entry;

	assert_true(a64_plt_entry(&entry, (const uint8_t *)plain, sizeof(plain), 0x1010));
	assert_int_equal(entry.head, 0);
	assert_int_equal(entry.length, 4);
	assert_int_equal(entry.slot, 0x2fd8);
	assert_true(a64_plt_entry(&entry, (const uint8_t *)padded, sizeof(padded), 0x1010));
	assert_int_equal(entry.head, 4);
	assert_int_equal(entry.slot, 0x2fd8);
	assert_true(a64_plt_entry(&entry, (const uint8_t *)is_signed, sizeof(is_signed), 0x1010));
	assert_false(a64_plt_entry(&entry, (const uint8_t *)first, sizeof(first), 0x1010));
	assert_false(a64_plt_entry(&entry, (const uint8_t *)call, sizeof(call), 0x1010));
	assert_false(a64_plt_entry(&entry, (const uint8_t *)other, sizeof(other), 0x1010));
	for (size_t cut = 0; cut < sizeof(plain); cut++)
		assert_false(a64_plt_entry(&entry, (const uint8_t *)plain, cut, 0x1010));
}

static void plt_entries_of_riscv64(void **state)
{
	/* auipc t3, 1; ld t3, 16(t3); jalr t1, t3; nop */
	static const uint32_t plain[] = {0x00001e17, 0x010e3e03, 0x000e0367, 0x00000013};
	static const uint32_t padded[] = {0x00000017, 0x00001e17, 0x010e3e03, 0x000e0367};
	static const uint32_t first[] = {0x00001397, 0x41c30333, 0x010e3e03, 0x000e0367};
	static const uint32_t call[] = {0x00001e17, 0x010e3e03, 0x000e00e7, 0x00000013};  /* to ra */
	static const uint32_t tail[] = {0x00001e17, 0x010e3e03, 0x000e0067, 0x00000013};  /* to nowhere */
	static const uint32_t other[] = {0x00001797, 0x0107b783, 0x00078367, 0x00000013}; /* a5 */
	struct isa_plt_entry entry;

	assert_true(rv_plt_entry(&entry, (const uint8_t *)plain, sizeof(plain), 0x1010));
	assert_int_equal(entry.head, 0);
	assert_int_equal(entry.length, 8);
	assert_int_equal(entry.slot, 0x2020);
	assert_true(rv_plt_entry(&entry, (const uint8_t *)padded, sizeof(padded), 0x1010));
	assert_int_equal(entry.head, 4);
	assert_int_equal(entry.slot, 0x2024);
	assert_false(rv_plt_entry(&entry, (const uint8_t *)first, sizeof(first), 0x1010));
	assert_false(rv_plt_entry(&entry, (const uint8_t *)call, sizeof(call), 0x1010));
	assert_false(rv_plt_entry(&entry, (const uint8_t *)tail, sizeof(tail), 0x1010));
	assert_false(rv_plt_entry(&entry, (const uint8_t *)other, sizeof(other), 0x1010));
	for (size_t cut = 0; cut < 12; cut++)
		assert_false(rv_plt_entry(&entry, (const uint8_t *)plain, cut, 0x1010));
}

static void jumps(void **state)
{
	static const uint8_t far_back[] = {0xe9, 0xfb, 0xff, 0xff, 0xff};
	static const uint8_t if_above[] = {0x0f, 0x87, 0x10, 0x00, 0x00, 0x00};
	static const uint8_t near_back[] = {0xeb, 0xfe};
	static const uint8_t if_not_zero[] = {0x75, 0x7f};
	static const uint8_t call[] = {0xe8, 0x00, 0x00, 0x00, 0x00};
	static const uint8_t set_above[] = {0x0f, 0x97, 0xc0, 0x00, 0x00, 0x00};
	uint64_t target;

	assert_int_equal(x86_jump_relative(far_back, 5, 0x1000, &target), 5);
	assert_int_equal(target, 0x1000);
	assert_int_equal(x86_jump_relative(if_above, 6, 0x1000, &target), 6);
	assert_int_equal(target, 0x1016);
	assert_int_equal(x86_jump_relative(near_back, 2, 0x1000, &target), 2);
	assert_int_equal(target, 0x1000);
	assert_int_equal(x86_jump_relative(if_not_zero, 2, 0x1000, &target), 2);
	assert_int_equal(target, 0x1081);
	assert_true(x86_may_jump(0xe9) && x86_may_jump(0x0f) && x86_may_jump(0xeb) && x86_may_jump(0x75));
	assert_true(x86_may_jump(0xff));
	assert_false(x86_may_jump(0xe8) || x86_may_jump(0x90) || x86_may_jump(0x80) || x86_may_jump(0x6f));
	assert_int_equal(x86_jump_relative(far_back, 4, 0x1000, &target), 0);
	assert_int_equal(x86_jump_relative(if_above, 5, 0x1000, &target), 0);
	assert_int_equal(x86_jump_relative(near_back, 1, 0x1000, &target), 0);
	assert_int_equal(x86_jump_relative(near_back, 0, 0x1000, &target), 0);
	assert_int_equal(x86_jump_relative(call, 5, 0x1000, &target), 0);
	assert_int_equal(x86_jump_relative(set_above, 6, 0x1000, &target), 0);
}

/* Bytes are from the assembler; what they are is beside them. */
static void switches(void **state)
{
	static const struct {
		const char *code;
		size_t size;
		bool is;
	} cases[] = {
#define CODE(bytes, is) {bytes, sizeof(bytes) - 1, is}
		/* mov (%rsp), %rdx; lea 8(%rsp), %rcx; ... mov 0x28(%rsi), %rsp; jmp *%rdx, as in libaco */
		CODE("\x48\x8b\x14\x24\x48\x8d\x4c\x24\x08\x4c\x89\x27\x48\x89\x57\x20\x48\x89\x4f\x28"
		     "\x4c\x8b\x26\x48\x8b\x56\x20\x48\x8b\x66\x28\xff\xe2",
		     true),
		/* pop %rax; mov %rax, (%rdi); mov %rsp, 8(%rdi); mov 8(%rsi), %rsp; jmp *(%rsi) */
		CODE("\x58\x48\x89\x07\x48\x89\x67\x08\x48\x8b\x66\x08\xff\x26", true),
		CODE("\x48\x8b\x04\x24\x48\x87\x27\xc3", true),		/* ...; xchg %rsp, (%rdi); ret */
		CODE("\x4c\x8b\x1c\x24\x48\x89\xf4\x41\xff\xe3", true), /* ...; mov %rsi, %rsp; jmp *%r11 */
		/* push %rbp; mov %rsp, %rbp; sub %rax, %rsp; mov (%rsp), %rax; mov -8(%rbp), %rsp; mov %rbp, %rsp; ...
		 */
		CODE("\x55\x48\x89\xe5\x48\x29\xc4\x48\x8b\x04\x24\x48\x8b\x65\xf8\x48\x89\xec\x5d\xc3", false),
		CODE("\x48\x8b\x04\x24\xc3\x48\x8b\x66\x08", false), /* the load is another function's */
		CODE("\x53\x5b\x48\x8b\x66\x08\xc3", false),	     /* push %rbx; pop %rbx; mov 8(%rsi), %rsp */
		CODE("\x48\x8b\x04\x24\x49\x8d\x62\xf8\xc3", false), /* ...; lea -8(%r10), %rsp */
		CODE("\x48\x8b\x44\x24\x08\x48\x8b\x26\xc3", false), /* mov 8(%rsp), %rax; mov (%rsi), %rsp */
		CODE("\x53\x55\x48\x89\x27\x48\x89\xf4\x5d\x5b\xc3",
		     false), /* the stack's address stays on the stack */
#undef CODE
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint8_t *code = malloc(cases[i].size); /* exactly that size, so that a sanitizer sees reads behind it */

		memcpy(code, cases[i].code, cases[i].size);
		if (x86_switches_stacks(code, cases[i].size) != cases[i].is)
			fail_msg("case %zu", i);
		/* The quick look may see too much, but not too little; a pop is not looked for. */
		if (cases[i].is && code[0] != 0x58 && !x86_may_switch_stacks(code, cases[i].size))
			fail_msg("case %zu, quickly", i);
		for (size_t cut = 0; cut < cases[i].size && !cases[i].is; cut++)
			assert_false(x86_switches_stacks(code, cut));
		free(code);
	}
}

/* Bytes are from the assembler; what they are is beside them. */
static void entered(void **state)
{
	static const struct {
		const char *code;
		size_t size;
		uint64_t target; /* 0 = none; the code lies at 0x1000 */
	} cases[] = {
#define CODE(bytes, target) {bytes, sizeof(bytes) - 1, target}
		/* lea 0x10(%rip), %rax; mov %rax, 0xa8(%rdx) */
		CODE("\x48\x8d\x05\x10\0\0\0\x48\x89\x82\xa8\0\0\0", 0x1017),
		/* lea -7(%rip), %r9; nop; mov %r9, 0xa8(%r12) */
		CODE("\x4c\x8d\x0d\xf9\xff\xff\xff\x90\x4d\x89\x8c\x24\xa8\0\0\0", 0x1000),
		/* movq $0x401000, 0xa8(%rdx), and the same with a base of %r12 */
		CODE("\x48\xc7\x82\xa8\0\0\0\0\x10\x40\0", 0x401000),
		CODE("\x49\xc7\x84\x24\xa8\0\0\0\0\x10\x40\0", 0x401000),
		/* The address is in another register, the place is another, it is 32 bits, or a load. */
		CODE("\x48\x8d\x0d\x10\0\0\0\x48\x89\x82\xa8\0\0\0", 0),
		CODE("\x48\x8d\x05\x10\0\0\0\x48\x89\x82\xa0\0\0\0", 0),
		CODE("\x48\x8d\x05\x10\0\0\0\x89\x82\xa8\0\0\0", 0),
		CODE("\x48\x8d\x05\x10\0\0\0\x48\x8b\x82\xa8\0\0\0", 0),
		CODE("\xa8\0\0\0", 0),
		CODE("\x89\x82\xa8\0\0\0", 0),
#undef CODE
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint8_t *code = malloc(cases[i].size); /* exactly that size, so that a sanitizer sees reads behind it */
		uint64_t target = 0;
		size_t end;

		memcpy(code, cases[i].code, cases[i].size);
		end = x86_find_entered(code, cases[i].size, 0, 0x1000, &target);
		if (target != cases[i].target || !end != !cases[i].target)
			fail_msg("case %zu", i);
		assert_int_equal(end ? x86_find_entered(code, cases[i].size, end, 0x1000, &target) : 0, 0);
		for (size_t cut = 0; cut < cases[i].size; cut++)
			(void)!x86_find_entered(code, cut, 0, 0x1000, &target);
		free(code);
	}
}

static void functions_that_never_return(void **state)
{
	static const uint8_t calls[] = {0x50, 0xe8, 0, 0, 0, 0, 0x66, 0x90}; /* push; call; a no-op to fill */
	static const uint8_t loops[] = {0x90, 0xeb, 0xfd};
	static const uint8_t returns[] = {0x90, 0xc3};
	static const uint8_t jumps[] = {0x90, 0xe9, 0, 0, 0, 0};
	static const uint8_t by_pointer[] = {0xff, 0xe0};

	assert_true(x86_never_returns(calls, sizeof(calls)));
	assert_true(x86_never_returns(loops, sizeof(loops)));
	assert_false(x86_never_returns(returns, sizeof(returns)));
	assert_false(x86_never_returns(jumps, sizeof(jumps)));
	assert_false(x86_never_returns(by_pointer, sizeof(by_pointer)));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nops),
		cmocka_unit_test(landing_pads),
		cmocka_unit_test(sleds),
		cmocka_unit_test(calls),
		cmocka_unit_test(slots),
		cmocka_unit_test(plt_entries),
		cmocka_unit_test(jumps),
		cmocka_unit_test(switches),
		cmocka_unit_test(entered),
		cmocka_unit_test(functions_that_never_return),
		cmocka_unit_test(plt_entries_of_aarch64),
		cmocka_unit_test(plt_entries_of_riscv64),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
