/* The interpreter: what each kind of instruction computes, and that it stays where it may be. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <bpf/interpret.h>

#include "program.h"

static uint64_t sum(void *data, const uint64_t arguments[BPF_ARGUMENTS])
{
	++*(int *)data;
	return arguments[0] + arguments[1] + arguments[2] + arguments[3] + arguments[4];
}

static const struct bpf_helper helpers[] = {{.name = NULL}, {.name = "sum", .run = sum}};
static const struct bpf_machine machine = {.context_size = 16, .helpers = helpers, .helper_count = 2};

static int run(uint64_t *result, const char *text)
{
	uint64_t context[2] = {0x8070605040302010, 77};
	int calls = 0;
	struct program program;
	struct bpf_run job = {.machine = &machine, .context = context, .data = &calls};

	assemble(&program, text);
	job.insns = program.insns;
	job.count = program.count;
	return bpf_interpret(result, &job);
}

static void instructions_compute(void **state)
{
	static const struct {
		const char *text;
		uint64_t result;
	} cases[] = {
		{"r0 = -1; exit", UINT64_MAX},
		{"w0 = -1; exit", UINT32_MAX},
		{"r0 = 0x123456789abcdef0 ll; w0 += 1; exit", 0x9abcdef1},
		{"r0 = 7; r0 -= 9; exit", (uint64_t)-2},
		{"r0 = 7; w0 -= 9; exit", 0xfffffffe},
		{"r0 = -6; r0 s/= 4; exit", (uint64_t)-1},
		{"r0 = -6; r0 s%= 4; exit", (uint64_t)-2},
		{"r0 = -6; w0 s/= 4; exit", 0xffffffff},
		{"r0 = 0x8000000000000000 ll; r1 = -1; r0 s/= r1; exit", 0x8000000000000000},
		{"r0 = 0x8000000000000000 ll; r1 = -1; r0 s%= r1; exit", 0},
		{"w0 = 0x80000000; w1 = -1; w0 s/= w1; exit", 0x80000000},
		{"r0 = 5; r1 = 0; r0 /= r1; exit", 0},
		{"r0 = 0x100000005 ll; r1 = 0; w0 %= w1; exit", 5},
		{"r0 = 0x100000005 ll; r1 = 0; r0 %= r1; exit", 0x100000005},
		{"r0 = 1; r1 = 65; r0 <<= r1; exit", 2},
		{"r0 = 1; r1 = 33; w0 <<= w1; exit", 2},
		{"r0 = -8; r0 s>>= 1; exit", (uint64_t)-4},
		{"w0 = -8; w0 s>>= 1; exit", 0xfffffffc},
		{"r1 = 0x80; r0 = (s8)r1; exit", (uint64_t)-128},
		{"r1 = 0x80; w0 = (s8)w1; exit", 0xffffff80},
		{"r0 = -r0; r0 = 3; r0 = -r0; exit", (uint64_t)-3},
		{"r0 = 0x1122334455667788 ll; r0 = be16 r0; exit", 0x8877},
		{"r0 = 0x1122334455667788 ll; r0 = le32 r0; exit", 0x55667788},
		{"r0 = 0x1122334455667788 ll; r0 = bswap64 r0; exit", 0x8877665544332211},
		{"r0 = *(u16 *)(r1 + 1); exit", 0x3020},
		{"r0 = *(s8 *)(r1 + 7); exit", (uint64_t)-128},
		{"*(u64 *)(r10 - 8) = -2; r0 = *(u32 *)(r10 - 4); exit", 0xffffffff},
		{"*(u64 *)(r10 - 8) = 5; r2 = 3; lock *(u64 *)(r10 - 8) += r2; r0 = *(u64 *)(r10 - 8); exit", 8},
		{"*(u64 *)(r10 - 8) = 5; r2 = 3; r2 = atomic_fetch_xor((u64 *)(r10 - 8), r2); r0 = *(u64 *)(r10 - 8);"
		 "r0 <<= 8; r0 |= r2; exit",
		 0x605},
		{"*(u64 *)(r10 - 8) = -1; r2 = 9; r2 = xchg_32(r10 - 8, r2); r0 = *(u64 *)(r10 - 8); exit",
		 0xffffffff00000009},
		{"*(u64 *)(r10 - 8) = 5; r0 = 5; r2 = 9; r0 = cmpxchg_64(r10 - 8, r0, r2); r0 = *(u64 *)(r10 - 8); "
		 "exit",
		 9},
		{"*(u64 *)(r10 - 8) = 5; r0 = 6; r2 = 9; r0 = cmpxchg_64(r10 - 8, r0, r2); exit", 5},
		{"r0 = 1; r2 = -1; if r2 > 5 goto +1; r0 = 2; exit", 1},
		{"r0 = 1; r2 = -1; if r2 s> 5 goto +1; r0 = 2; exit", 2},
		{"r0 = 1; r2 = 0x100000000 ll; if w2 == 0 goto +1; r0 = 2; exit", 1},
		{"r1 = 1; r2 = 2; r3 = 3; r4 = 4; r5 = 5; call 1; exit", 15},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint64_t result = 0x5555;
		int ret = run(&result, cases[i].text);

		if (ret || result != cases[i].result)
			fail_msg("%s: %d, 0x%llx", cases[i].text, ret, (unsigned long long)result);
	}
}

static void accesses_stay_within_what_a_program_has(void **state)
{
	static const struct {
		const char *text;
		int error;
	} cases[] = {
		{"r0 = *(u64 *)(r1 + 8); exit", 0},
		{"r0 = *(u64 *)(r1 + 9); exit", -EFAULT},
		{"r0 = *(u8 *)(r1 - 1); exit", -EFAULT},
		{"*(u8 *)(r1 + 0) = 1; exit", -EFAULT},
		{"r0 = *(u8 *)(r10 - 512); exit", 0},
		{"r0 = *(u16 *)(r10 - 513); exit", -EFAULT},
		{"*(u64 *)(r10 - 7) = 1; exit", -EFAULT},
		{"r2 = 0; r0 = *(u8 *)(r2 + 0); exit", -EFAULT},
		{"r2 = -1; r0 = *(u64 *)(r2 + 0); exit", -EFAULT},
		{"call 2; exit", -ERANGE},
		{"r0 = 1", -ERANGE},
		{"goto +5; exit", -ERANGE},
		{"goto -1", -ELOOP},
	};
	uint64_t result;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		int ret = run(&result, cases[i].text);

		if (ret != cases[i].error)
			fail_msg("%s: %d", cases[i].text, ret);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(instructions_compute),
		cmocka_unit_test(accesses_stay_within_what_a_program_has),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
