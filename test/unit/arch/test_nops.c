/*
 * Vectors for the functions that recognise no-ops, landing pads, calls and jumps on riscv64 and aarch64 (x86-64:
 * elf/test_nops.c).  The bytes are from linkers and compilers where those make such sequences.
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
#include "support.h"

struct vector {
	const char *hex;
	size_t length; /* 0: not that */
	uint64_t address, target;
};

/* Bytes in a buffer of just their size, so that a sanitizer sees what is read behind it. */
static uint8_t *exact(const uint8_t *bytes, size_t size)
{
	uint8_t *copy = malloc(size + !size);

	memcpy(copy, bytes, size);
	return copy;
}

static void check_plain(isa_recognise *recognise, const struct vector *vectors, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		uint8_t code[64];
		size_t size = isa_bytes(vectors[i].hex, code, sizeof(code));

		for (size_t cut = 0; cut <= size; cut++) {
			uint8_t *copy = exact(code, cut);
			size_t got = recognise(copy, cut), want = cut < vectors[i].length ? 0 : vectors[i].length;

			free(copy);
			if (got != want)
				fail_msg("%s, %zu bytes of it: %zu", vectors[i].hex, cut, got);
		}
	}
}

static void check_aimed(isa_recognise_target *recognise, const struct vector *vectors, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		uint8_t code[64];
		size_t size = isa_bytes(vectors[i].hex, code, sizeof(code));

		for (size_t cut = 0; cut <= size; cut++) {
			uint8_t *copy = exact(code, cut);
			uint64_t target = 0;
			size_t got = recognise(copy, cut, vectors[i].address, &target);
			size_t want = cut < vectors[i].length ? 0 : vectors[i].length;

			free(copy);
			if (got != want || (got && target != vectors[i].target))
				fail_msg("%s, %zu bytes of it: %zu, %#llx", vectors[i].hex, cut, got,
					 (unsigned long long)target);
		}
	}
}

#define CHECK(check, recognise, vectors) check(recognise, vectors, sizeof(vectors) / sizeof((vectors)[0]))

static void riscv64_nops(void **state)
{
	static const struct vector nops[] = {
		{"13000000", 4, 0, 0}, {"0100", 2, 0, 0},
		{"01000100", 2, 0, 0}, {"0f000001", 0, 0, 0}, /* pause, a fence to a CPU that does not know it */
		{"13001000", 0, 0, 0},			      /* addi zero, zero, 1: a hint */
		{"0500", 0, 0, 0},			      /* c.nop 1: a hint */
		{"1f000000", 0, 0, 0},			      /* the beginning of a longer one */
	};
	static const struct vector pads[] = {
		{"17000000", 4, 0, 0}, /* lpad 0 */
		{"17f0ffff", 4, 0, 0},
		{"97000000", 0, 0, 0}, /* auipc ra, 0 */
		{"0100", 0, 0, 0},
	};

	CHECK(check_plain, rv_nop_length, nops);
	CHECK(check_plain, rv_landing_pad_length, pads);
}

static void riscv64_calls(void **state)
{
	static const struct vector calls[] = {
		{"eff09ff2", 4, 0x598, 0x4c0},
		{"97f0ffffe78080ff", 8, 0x5000, 0x3ff8}, /* auipc ra; jalr ra, -8(ra) */
		{"17030000e7000301", 8, 0x1000, 0x1010}, /* auipc t1; jalr ra, 16(t1) */
		{"6f000001", 0, 0, 0},			 /* j */
		{"ef020001", 0, 0, 0},			 /* jal t0: to a helper that saves registers */
		{"97f0ffff67800000", 0, 0, 0},		 /* auipc ra; ret */
	};
	static const struct vector slots[] = {
		{"9727000083b787fce7800700", 12, 0x1000, 0x2fc8}, /* auipc a5; ld a5; jalr a5 */
		{"9727000083b787fc11458297", 12, 0x1000, 0x2fc8}, /* c.li a0, 4; c.jalr a5 */
		{"9727000083b787fc8287", 0, 0, 0},		  /* c.jr a5 */
		{"9727000083a787fc8297", 0, 0, 0},		  /* lw */
		{"9727000083b787fceff09ff28297", 0, 0, 0},	  /* another call comes first */
	};

	CHECK(check_aimed, rv_call, calls);
	CHECK(check_aimed, rv_call_slot, slots);
}

static void riscv64_jumps(void **state)
{
	static const struct vector jumps[] = {
		{"31bf", 2, 0x5a4, 0x4c0},		 /* c.j */
		{"6ff01ff2", 4, 0x5a4, 0x4c4},		 /* j */
		{"e30ab5fe", 4, 0x1000, 0xff4},		 /* beq a0, a1 */
		{"01e9", 2, 0x1000, 0x1010},		 /* c.bnez a0 */
		{"17130000670003ff", 8, 0x1000, 0x1ff0}, /* tail: auipc t1; jr -16(t1) */
		{"8280", 0, 0, 0},			 /* ret */
		{"eff09ff2", 0, 0, 0},			 /* a call */
	};
	static const struct vector slots[] = {
		{"172e0000033e8eb767030e00", 12, 0x4a0, 0x2018},	 /* a PLT entry */
		{"17000000172e0000033e8eb767030e00", 16, 0x49c, 0x2018}, /* behind an lpad */
		{"17230000033383fca26041010283", 14, 0x1000, 0x2fc8},	 /* behind an epilogue */
		{"17230000033383fce7000300", 0, 0, 0},			 /* a call */
		{"17230000033383fc8280", 0, 0, 0},			 /* a return */
		{"172300000333c3fc13000000", 0, 0, 0},
	};

	CHECK(check_aimed, rv_jump_relative, jumps);
	CHECK(check_aimed, rv_jump_slot, slots);
}

/* rv_may_jump never says no to what the two others take. */
static void riscv64_may_jump(void **state)
{
	for (unsigned first = 0; first < 0x10000; first++) {
		uint8_t code[4] = {(uint8_t)first, (uint8_t)(first >> 8), 0x10, 0};
		uint64_t target;

		if (rv_jump_relative(code, 4, 0, &target) || rv_jump_slot(code, 4, 0, &target))
			assert_true(rv_may_jump(code[0]));
	}
	assert_false(rv_may_jump(0x13));
}

static void aarch64_nops(void **state)
{
	static const struct vector nops[] = {
		{"1f2003d5", 4, 0, 0},
		{"3f2003d5", 0, 0, 0}, /* yield */
		{"3f2303d5", 0, 0, 0}, /* paciasp */
		{"5f2403d5", 0, 0, 0}, /* bti c */
	};
	static const struct vector pads[] = {
		{"1f2403d5", 4, 0, 0}, {"5f2403d5", 4, 0, 0}, {"9f2403d5", 4, 0, 0},
		{"df2403d5", 4, 0, 0}, {"3f2303d5", 0, 0, 0}, /* paciasp */
		{"1f2003d5", 0, 0, 0},
	};

	CHECK(check_plain, a64_nop_length, nops);
	CHECK(check_plain, a64_landing_pad_length, pads);
}

static void aarch64_calls(void **state)
{
	static const struct vector calls[] = {
		{"a5ffff97", 4, 0x6dc, 0x570},
		{"a0ffff17", 0, 0, 0}, /* b */
		{"20003fd6", 0, 0, 0}, /* blr x1 */
	};
	static const struct vector slots[] = {
		{"e10000f021e847f920003fd6", 12, 0x6a4, 0x1ffd0},
		{"e10000f021e847f9fd7bbfa9fd03009120003fd6", 20, 0x6a4, 0x1ffd0},
		{"e10000f021e847f920001fd6", 0, 0, 0}, /* br x1 */
		{"e10000f041e847f920003fd6", 0, 0, 0}, /* through another register */
	};

	CHECK(check_aimed, a64_call, calls);
	CHECK(check_aimed, a64_call_slot, slots);
}

static void aarch64_jumps(void **state)
{
	static const struct vector jumps[] = {
		{"a0ffff17", 4, 0x6f0, 0x570},			  /* b */
		{"41ffff54", 4, 0x1000, 0xfe8},			  /* b.ne */
		{"80000034", 4, 0x1000, 0x1010},		  /* cbz w0 */
		{"830028b7", 4, 0x1000, 0x1010},		  /* tbnz x3, #37 */
		{"100000901042009100021fd6", 12, 0x1234, 0x1010}, /* adrp; add; br x16 */
		{"100000901042009120021fd6", 0, 0, 0},		  /* br x17 */
		{"c0035fd6", 0, 0, 0},				  /* ret */
		{"a5ffff97", 0, 0, 0},				  /* bl */
	};
	static const struct vector slots[] = {
		{"10010090110240f91002009120021fd6", 16, 0x540, 0x20000},	  /* a PLT entry */
		{"10010090110a40f9104200919f2103d520021fd6", 20, 0x600, 0x20010}, /* with autia1716 */
		{"5f2403d510010090110a40f91042009120021fd6", 20, 0x600, 0x20010}, /* with bti c */
		{"f00000f010ea47f900021fd6", 12, 0x6c4, 0x1ffd0},		  /* a tail call */
		{"f00000f010ea47f9fd7bc1a800021fd6", 16, 0x6c4, 0x1ffd0},	  /* behind an epilogue */
		{"f00000f010ea47f900023fd6", 0, 0, 0},				  /* a call */
		{"f00000f010ea47f9c0035fd600021fd6", 0, 0, 0},			  /* a return first */
	};

	CHECK(check_aimed, a64_jump_relative, jumps);
	CHECK(check_aimed, a64_jump_slot, slots);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(riscv64_nops),	    cmocka_unit_test(riscv64_calls), cmocka_unit_test(riscv64_jumps),
		cmocka_unit_test(riscv64_may_jump), cmocka_unit_test(aarch64_nops),  cmocka_unit_test(aarch64_calls),
		cmocka_unit_test(aarch64_jumps),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
