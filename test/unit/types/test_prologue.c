/* Following a function's first instructions: where the words of its frame get their bytes from. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "host/types/prologue.h"

#define ADDRESS 0x1000u

struct wanted {
	int64_t at; /* bytes behind the return address's place */
	enum origin_of of;
	unsigned number, width;
	int64_t offset;
};

/* Code as text in base 16, with blanks; the bytes that are followed; what is found. */
static const struct {
	const char *code;
	unsigned followed;
	struct wanted wanted[3];
} cases[] = {
	/* sub $0x28,%rsp; mov %rdi,8(%rsp); mov %esi,0x14(%rsp); movsd %xmm0,0x18(%rsp); call */
	{"4883ec28 48897c2408 89742414 f20f11442418 e800000000",
	 19,
	 {{-0x20, ORIGIN_INTEGER, 0, 8, 0}, {-0x14, ORIGIN_INTEGER, 1, 4, 0}, {-0x10, ORIGIN_VECTOR, 0, 8, 0}}},
	/* push %rbx; sub $0x10,%rsp; mov 0x20(%rsp),%rax; mov %rax,(%rsp); jmp */
	{"53 4883ec10 488b442420 48890424 eb00", 14, {{-0x18, ORIGIN_STACK, 0, 8, 0}, {16, ORIGIN_STACK, 0, 1, 8}}},
	/* push %rbp; mov %rsp,%rbp; sub $0x10,%rsp; mov %r9w,-2(%rbp) */
	{"55 4889e5 4883ec10 6644894dfe", 13, {{-10, ORIGIN_INTEGER, 5, 2, 0}}},
	/* mov %dil,%al; and $1,%al; mov %al,-1(%rsp) */
	{"4088f8 2401 884424ff", 9, {{-1, ORIGIN_INTEGER, 0, 1, 0}}},
	/* What is written second does not count: mov %rdi,-8(%rsp); mov %rsi,-8(%rsp) */
	{"48897c24f8 48897424f8", 10, {{-8, ORIGIN_INTEGER, 0, 8, 0}}},
	/* A spilled register comes back: mov %rcx,-8(%rsp); mov %rdx,%rcx; mov -8(%rsp),%rdx; mov %rdx,-16(%rsp) */
	{"48894c24f8 4889d1 488b5424f8 48895424f0", 18, {{-16, ORIGIN_INTEGER, 3, 8, 0}}},
	/* xor %edi,%edi; mov %rdi,-8(%rsp); shr $16,%esi; mov %si,-10(%rsp) */
	{"31ff 48897c24f8 c1ee10 66897424f6", 15, {{-8, ORIGIN_UNKNOWN, 0, 0, 0}, {-10, ORIGIN_UNKNOWN, 0, 0, 0}}},
	/* mov %ah,-1(%rsp) */
	{"886424ff", 4, {{-1, ORIGIN_UNKNOWN, 0, 0, 0}}},
	/* mov %rsi,(%rdi), and no further: mov %rsi,(%rax) may be anything of the frame */
	{"488937 488930 48897c24f8", 3, {{-8, ORIGIN_UNKNOWN, 0, 0, 0}}},
	/* mov %rdi,-8(%rsp), and no further: sub $8,%rsp */
	{"48897c24f8 4883ec08", 5, {{-8, ORIGIN_INTEGER, 0, 8, 0}}},
	/* push %rax; mov %edi,4(%rsp); call */
	{"50 897c2404 e800000000", 5, {{-4, ORIGIN_INTEGER, 0, 4, 0}, {-8, ORIGIN_UNKNOWN, 0, 0, 0}}},
	/* push %rbx; mov %rdi,(%rsp): what is saved is no room */
	{"53 48893c24", 5, {{-8, ORIGIN_UNKNOWN, 0, 0, 0}}},
	/* Half of a word that was written: mov %rdi,-8(%rsp); mov -4(%rsp),%eax; mov %eax,-16(%rsp) */
	{"48897c24f8 8b4424fc 894424f0", 13, {{-16, ORIGIN_UNKNOWN, 0, 0, 0}, {-4, ORIGIN_UNKNOWN, 0, 0, 0}}},
};

static size_t bytes_of(uint8_t *out, const char *text)
{
	size_t count = 0;

	for (; *text; text += *text == ' ' ? 1 : 2) {
		char digits[3] = {text[0], text[1], 0};

		if (*text != ' ')
			out[count++] = (uint8_t)strtoul(digits, NULL, 16);
	}
	return count;
}

static void words_of_the_frame_have_their_origins(void **state)
{
	static struct prologue prologue;
	uint8_t code[64];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		prologue_follow(&prologue, code, bytes_of(code, cases[i].code), ADDRESS, UINT64_MAX);
		assert_int_equal(prologue.end - ADDRESS, cases[i].followed);
		for (size_t k = 0; k < 3 && cases[i].wanted[k].at; k++) {
			const struct wanted *wanted = &cases[i].wanted[k];
			struct origin origin = prologue_first(&prologue, wanted->at, 1);

			assert_int_equal(origin.of, wanted->of);
			if (wanted->of == ORIGIN_UNKNOWN)
				continue;
			assert_int_equal(origin.number, wanted->number);
			assert_int_equal(origin.width, wanted->width);
			assert_int_equal(origin.offset, wanted->offset);
		}
	}
}

static void a_bit_is_told(void **state)
{
	static struct prologue prologue;
	uint8_t code[64];

	prologue_follow(&prologue, code, bytes_of(code, "4088f8 2401 884424ff"), ADDRESS, UINT64_MAX);
	assert_true(prologue_first(&prologue, -1, 1).is_bit);
	assert_false(prologue_register(&prologue, 5).is_bit); /* rdi itself */
}

static void registers_are_as_they_were_at_an_instruction(void **state)
{
	static struct prologue prologue;
	uint8_t code[64];
	/* mov %rdx,%rax; mov %rcx,%rdx */
	size_t size = bytes_of(code, "4889d0 4889ca");

	prologue_follow(&prologue, code, size, ADDRESS, ADDRESS + 3);
	assert_int_equal(prologue.end, ADDRESS + 3);
	assert_int_equal(prologue_register(&prologue, 0).number, 2);
	assert_int_equal(prologue_register(&prologue, 1).number, 2);
	prologue_follow(&prologue, code, size, ADDRESS, UINT64_MAX);
	assert_int_equal(prologue_register(&prologue, 1).number, 3);
	assert_int_equal(prologue_register(&prologue, 17).of, ORIGIN_VECTOR);
	assert_int_equal(prologue_register(&prologue, 99).of, ORIGIN_UNKNOWN);
}

static void any_bytes_come_to_an_end(void **state)
{
	static struct prologue prologue;
	uint8_t code[PROLOGUE_CODE];
	uint64_t random = 1;

	for (unsigned turn = 0; turn < 20000; turn++) {
		size_t size = turn % sizeof(code);

		for (size_t i = 0; i < size; i++) {
			random = random * 6364136223846793005u + 1442695040888963407u;
			code[i] = (uint8_t)(random >> 56);
			/* Moves between registers and the stack come often, or nothing goes on for long. */
			if (random >> 32 & 1)
				code[i] = (uint8_t) "\x48\x89\x8b\x24\x44\x7c\x41\x66"[random >> 40 & 7];
		}
		prologue_follow(&prologue, code, size, ADDRESS, UINT64_MAX);
		assert_true(prologue.end >= ADDRESS && prologue.end <= ADDRESS + size);
		assert_true(prologue.count <= PROLOGUE_STORES);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(words_of_the_frame_have_their_origins),
		cmocka_unit_test(a_bit_is_told),
		cmocka_unit_test(registers_are_as_they_were_at_an_instruction),
		cmocka_unit_test(any_bytes_come_to_an_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
