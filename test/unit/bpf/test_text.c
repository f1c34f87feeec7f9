/* Text of eBPF programs: what is written is what was read, and bytes are those that LLVM makes of the same text. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "program.h"

/* Bytes by the tables of RFC 9669; those that LLVM 14 knows are the same there. */
static const struct {
	const char *text;
	uint64_t bytes;
} lines[] = {
	{"r1 = r2", 0x00000000000021bf},
	{"w1 = w2", 0x00000000000021bc},
	{"r3 = -5", 0xfffffffb000003b7},
	{"w3 = 7", 0x00000007000003b4},
	{"r4 += r5", 0x000000000000540f},
	{"w4 -= 1", 0x0000000100000414},
	{"r0 *= r0", 0x000000000000002f},
	{"r1 /= 3", 0x0000000300000137},
	{"r1 s/= 3", 0x0000000300010137},
	{"w1 s%= w2", 0x000000000001219c},
	{"r1 |= 255", 0x000000ff00000147},
	{"r1 &= r9", 0x000000000000915f},
	{"r1 ^= 1", 0x00000001000001a7},
	{"r1 <<= 4", 0x0000000400000167},
	{"w1 >>= w3", 0x000000000000317c},
	{"r1 s>>= 63", 0x0000003f000001c7},
	{"r2 = -r2", 0x0000000000000287},
	{"w2 = -w2", 0x0000000000000284},
	{"r1 = (s8)r2", 0x00000000000821bf},
	{"r1 = (s32)r2", 0x00000000002021bf},
	{"w1 = (s16)w2", 0x00000000001021bc},
	{"r1 = be16 r1", 0x00000010000001dc},
	{"r1 = le64 r1", 0x00000040000001d4},
	{"r1 = bswap32 r1", 0x00000020000001d7},
	{"r2 = *(u8 *)(r1 + 4)", 0x0000000000041271},
	{"r2 = *(u64 *)(r10 - 8)", 0x00000000fff8a279},
	{"r2 = *(s32 *)(r1 + 0)", 0x0000000000001281},
	{"*(u16 *)(r10 - 2) = r3", 0x00000000fffe3a6b},
	{"*(u32 *)(r10 - 4) = 9", 0x00000009fffc0a62},
	{"lock *(u64 *)(r1 + 8) += r2", 0x00000000000821db},
	{"r2 = atomic_fetch_or((u32 *)(r1 + 0), r2)", 0x00000041000021c3},
	{"r2 = xchg_64(r1 + 0, r2)", 0x000000e1000021db},
	{"r0 = cmpxchg_64(r1 + 0, r0, r2)", 0x000000f1000021db},
	{"if r1 == 0 goto +5", 0x0000000000050115},
	{"if w1 s> -1 goto +1", 0xffffffff00010166},
	{"if r1 <= r2 goto -3", 0x00000000fffd21bd},
	{"if r1 & 8 goto +0", 0x0000000800000145},
	{"goto +7", 0x0000000000070005},
	{"gotol -70000", 0xfffeee9000000006},
	{"call 5", 0x0000000500000085},
	{"exit", 0x0000000000000095},
};

static void lines_are_read_and_written(void **state)
{
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		struct program program = {0};
		char text[BPF_TEXT_MAX];
		uint64_t bytes;

		assemble(&program, lines[i].text);
		assert_int_equal(program.count, 1);
		memcpy(&bytes, program.insns, sizeof(bytes));
		if (bytes != lines[i].bytes)
			fail_msg("%s is %016llx", lines[i].text, (unsigned long long)bytes);
		assert_null(bpf_insn_fault(program.insns, 1));
		bpf_disassemble(text, program.insns);
		assert_string_equal(text, lines[i].text);
	}
}

static void constants_of_64_bits_are_two_instructions(void **state)
{
	struct program program;
	char text[BPF_TEXT_MAX];

	assemble(&program, "r1 = 0x8877665544332211 ll; r2 = map 3");
	assert_int_equal(program.count, 4);
	assert_true(bpf_wide_value(program.insns) == 0x8877665544332211);
	bpf_disassemble(text, program.insns);
	assert_string_equal(text, "r1 = 0x8877665544332211 ll");
	bpf_disassemble(text, program.insns + 2);
	assert_string_equal(text, "r2 = map 3");
	assert_string_equal(bpf_insn_fault(program.insns, 1), "the second half of a 64-bit constant is missing");
}

static void labels_are_distances(void **state)
{
	struct program program;

	assemble(&program, "again: if r1 == 1 goto done # over a constant\n"
			   "r2 = 5 ll\n"
			   "goto again; gotol done\n"
			   "done: exit");
	assert_int_equal(program.count, 6);
	assert_int_equal(program.insns[0].off, 4);
	assert_int_equal(program.insns[3].off, -4);
	assert_int_equal(program.insns[4].imm, 0);
}

static void what_is_no_instruction_is_told(void **state)
{
	static const char *const wrong[] = {
		"r11 = 1",
		"r1 = w2",
		"r1 +",
		"w1 = *(u8 *)(r1 + 0)",
		"r1 = 0x1ffffffff",
		"*(s8 *)(r1 + 0) = r1",
		"if r1 = 2 goto +1",
		"r1 = be16 r2",
		"r3 = xchg_64(r1 + 0, r2)",
		"call look_up",
		"exit now",
		"r1 = *(u8 *)(r1 + 40000)",
		"a: exit; a: exit",
	};
	struct bpf_insn insns[8];
	uint32_t count;

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		struct calltap_diag diag = {0};

		assert_int_equal(bpf_assemble(insns, &count, 8, wrong[i], &diag), -EINVAL);
		assert_non_null(strstr(diag.text, "line 1 is no instruction"));
	}
	for (int wide = 0; wide < 2; wide++) {
		struct calltap_diag diag = {0};

		assert_int_equal(bpf_assemble(insns, &count, 1, wide ? "r1 = 1 ll" : "exit;exit", &diag), -E2BIG);
	}
}

static void any_bytes_are_an_instruction_or_not(void **state)
{
	uint32_t valid = 0;

	for (uint32_t code = 0; code < 256; code++)
		for (int32_t number = -1; number < 70; number++) {
			struct bpf_insn in[2] = {{.code = (uint8_t)code, .imm = number}};
			struct program program;
			char text[BPF_TEXT_MAX];

			if (bpf_insn_fault(in, 2))
				continue;
			valid++;
			bpf_disassemble(text, in);
			assemble(&program, text);
			if (memcmp(program.insns, in, sizeof(*in)))
				fail_msg("%s", text);
		}
	assert_in_range(valid, 3500, 4500);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lines_are_read_and_written),
		cmocka_unit_test(constants_of_64_bits_are_two_instructions),
		cmocka_unit_test(labels_are_distances),
		cmocka_unit_test(what_is_no_instruction_is_told),
		cmocka_unit_test(any_bytes_are_an_instruction_or_not),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
