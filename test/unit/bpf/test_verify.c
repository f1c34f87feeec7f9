/* The verifier: programs that are good, and for each rule one that breaks it, with the reason that is told. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <bpf/verify.h>

#include "program.h"

/* 1: look_up(map, key); 2: fill(memory, size); 3: show(memory, size, number); 4: time(); 5: update(map, key, value) */
static const struct bpf_helper helpers[] = {
	{.name = NULL},
	{.name = "look_up", .arguments = {BPF_ARGUMENT_MAP, BPF_ARGUMENT_KEY}, .result = BPF_RESULT_ENTRY},
	{.name = "fill", .arguments = {BPF_ARGUMENT_WRITE, BPF_ARGUMENT_SIZE}},
	{.name = "show", .arguments = {BPF_ARGUMENT_READ, BPF_ARGUMENT_SIZE0, BPF_ARGUMENT_VALUE}},
	{.name = "time"},
	{.name = "update", .arguments = {BPF_ARGUMENT_MAP, BPF_ARGUMENT_KEY, BPF_ARGUMENT_ENTRY}},
};
static const struct bpf_map maps[] = {{8, 48}, {4, 16}};
static const struct bpf_machine machine = {64, helpers, 6, maps, 2};

static int verify(const char *text, struct calltap_diag *diag)
{
	struct program program;
	struct bpf_verify job = {.machine = &machine};

	assemble(&program, text);
	job.insns = program.insns;
	job.count = program.count;
	return bpf_verify(&job, diag);
}

#define LOOK_UP "*(u64 *)(r10 - 8) = 1; r2 = r10; r2 += -8; r1 = map 0; call 1;"

static void good_programs_are_accepted(void **state)
{
	static const char *const good[] = {
		"r0 = 0; again: r0 += 1; if r0 < 9 goto again; exit",
		"r0 = 0; again: r0 += 1; if r0 < 60000 goto again; exit",
		"r2 = 0; again: r3 = r10; r3 += r2; *(u8 *)(r3 - 8) = 0; r2 += 1; if r2 < 8 goto again;"
		"r0 = *(u64 *)(r10 - 8); exit",
		"r2 = *(u64 *)(r1 + 0); r2 &= 15; r0 = 0; again: r0 += r2; r2 += 1; if r2 < 20 goto again; exit",
		"r0 = 0; r2 = 0; outer: r3 = 0; inner: r0 += r3; r3 += 1; if r3 < 5 goto inner; r2 += 1;"
		"if r2 < 7 goto outer; exit",
		"r0 = 0; r2 = 0; again: r3 = *(u64 *)(r1 + 0); if r3 == 5 goto out; r2 += 1; if r2 < 30 goto again; "
		"out: exit",
		"r0 = 0; exit",
		"r0 = *(u64 *)(r1 + 56); exit",
		"r6 = r1; r0 = *(s32 *)(r6 + 4); exit",
		"*(u64 *)(r10 - 8) = r1; r2 = *(u64 *)(r10 - 8); r0 = *(u8 *)(r2 + 0); exit",
		"*(u32 *)(r10 - 8) = 1; *(u32 *)(r10 - 4) = 2; r0 = *(u64 *)(r10 - 8); exit",
		LOOK_UP "if r0 == 0 goto +1; r0 = *(u64 *)(r0 + 40); r0 = 0; exit",
		LOOK_UP "r6 = r0; if r6 != 0 goto +1; exit; r0 = *(u8 *)(r0 + 47); exit",
		LOOK_UP "if r0 == 0 goto +4; r1 = 7; *(u64 *)(r0 + 0) = r1; lock *(u64 *)(r0 + 8) += r1; r0 = 0; exit",
		"r6 = *(u64 *)(r1 + 0); " LOOK_UP
		"if r0 == 0 goto +4; r6 &= 47; r0 += r6; r0 = *(u8 *)(r0 + 0); exit; exit",
		"r6 = *(u8 *)(r1 + 0); " LOOK_UP "if r0 == 0 goto out; if r6 > 5 goto out; r6 <<= 3; r6 += r0;"
		"r0 = *(u64 *)(r6 + 0); out: r0 = 0; exit",
		"r6 = *(s32 *)(r1 + 0); " LOOK_UP
		"if r0 == 0 goto out; if r6 s< 0 goto out; if r6 s>= 48 goto out; r0 += r6;"
		"r0 = *(u8 *)(r0 + 0); out: r0 = 0; exit",
		"r6 = *(u64 *)(r1 + 0); " LOOK_UP "if r0 == 0 goto out; if w6 > 31 goto out; w6 = w6; r0 += r6;"
		"r0 = *(u8 *)(r0 + 0); out: r0 = 0; exit",
		"r1 = r10; r1 += -16; r2 = 16; call 2; r0 = *(u64 *)(r10 - 16); exit",
		"r6 = *(u8 *)(r1 + 0); r6 &= 15; r1 = r10; r1 += -16; r2 = 16; call 2; r1 = r10; r1 += -16; r2 = r6; "
		"r3 = 5;"
		"call 3; exit",
		"r2 = 0; r1 = r10; r3 = 1; call 3; exit",
		"*(u64 *)(r10 - 8) = 1; r2 = r10; r2 += -8; r1 = map 0;" LOOK_UP
		"if r0 == 0 goto out; r3 = r0; r2 = r10; r2 += -8; r1 = map 0; call 5; r0 = 0; exit; out: r0 = 1; exit",
		/* What is known is known on each way: r7 is the map's value where r6 is 1. */
		"r6 = 0;" LOOK_UP
		"r7 = r0; if r7 == 0 goto +1; r6 = 1; r0 = 0; if r6 == 0 goto +1; r0 = *(u8 *)(r7 + 0); exit",
		/* A way that cannot be gone does no harm. */
		"r0 = 5; if r0 == 5 goto +1; r0 = *(u64 *)(r0 + 0); exit",
		"r0 = *(u8 *)(r1 + 0); if r0 < 256 goto out; r0 = *(u64 *)(r9 + 0); out: r0 = 0; exit",
	};

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		struct calltap_diag diag = {0};

		if (verify(good[i], &diag))
			fail_msg("%s: %s", good[i], diag.text);
	}
}

static const struct {
	const char *text, *reason;
} bad[] = {
	{"r0 = r2; exit", "instruction 0, r0 = r2: r2 was never written"},
	{"exit", "instruction 0, exit: r0 was never written"},
	{"r0 = r1; exit", "r0 is an address"},
	{"r0 = 0", "it leads out of the program"},
	{"r0 = 0; goto +5; exit", "it leads out of the program"},
	{"goto +1; r1 = 5 ll; r0 = 0; exit", "instruction 0, goto +1: it leads out of the program"},
	{"r0 = 0; goto +1; r0 = 1; exit", "instruction 2, r0 = 1: nothing leads to it"},
	{"goto -1", "a loop without end"},
	{"r0 = 0; again: r0 ^= 1; if r0 < 9 goto again; exit", "a loop without end"},
	{"r0 = *(u64 *)(r1 + 0); again: r0 |= 4; if r0 != 9 goto again; exit", "a loop without end"},
	{"r2 = 0; again: r3 = r10; r3 += r2; *(u8 *)(r3 - 8) = 0; r2 += 1; if r2 < 9 goto again; r0 = 0; exit",
	 "within the stack"},
	{"again: r0 = *(u64 *)(r1 + 0); if r0 != 0 goto again; exit", "a loop without end"},
	{"r2 = 9; again: r2 += -1; r0 = r3; if r2 != 0 goto again; exit", "r3 was never written"},
	{"r10 = 1; r0 = 0; exit", "r10 can be read only"},
	{"r10 = 1 ll; r0 = 0; exit", "r10 can be read only"},
	{"r10 = *(u64 *)(r1 + 0); r0 = 0; exit", "r10 can be read only"},
	{"r0 = *(u64 *)(r1 + 60); exit", "bytes 60 to 67 are not all within the context, bytes 0 to 63"},
	{"r0 = *(u64 *)(r1 - 8); exit", "within the context"},
	{"r0 = *(u32 *)(r1 + 2); exit", "4 bytes are not at a multiple of 4"},
	{"*(u8 *)(r1 + 0) = 1; r0 = 0; exit", "the context can be read only"},
	{"r0 = *(u64 *)(r10 - 8); exit", "byte -8 of the stack was never written"},
	{"*(u32 *)(r10 - 8) = 1; r0 = *(u64 *)(r10 - 8); exit", "byte -4 of the stack was never written"},
	{"*(u64 *)(r10 + 0) = 1; r0 = 0; exit", "within the stack, bytes -512 to -1"},
	{"*(u64 *)(r10 - 520) = 1; r0 = 0; exit", "within the stack"},
	{"*(u64 *)(r10 - 12) = 1; r0 = 0; exit", "8 bytes are not at a multiple of 8"},
	{"*(u64 *)(r10 - 8) = r1; r0 = *(u32 *)(r10 - 8); exit", "of the stack are an address"},
	{"*(u32 *)(r10 - 8) = r1; r0 = 0; exit", "r1 is an address, which can be stored on the stack alone"},
	{"r0 = 5; r0 = *(u64 *)(r0 + 0); exit", "r0 is a number and no address"},
	{"r0 = r1; r0 *= 2; r0 = 0; exit", "to an address a number can be added"},
	{"r0 = r1; w0 += 2; r0 = 0; exit", "to an address a number can be added"},
	{"r0 = r1; r0 = -r0; exit", "r0 is an address"},
	{"r0 = 5; r0 -= r1; exit", "r1 is an address"},
	{"r2 = *(u64 *)(r1 + 0); r1 += r2; r0 = 0; exit", "a place on the stack or in the context has to be known"},
	{"if r1 > 5 goto +0; r0 = 0; exit", "an address can only be compared with 0"},
	{"if r1 == r10 goto +0; r0 = 0; exit", "an address can only be compared with 0"},
	{"call 77; exit", "there is no helper 77"},
	{"call 0; exit", "there is no helper 0"},
	{"r1 = map 2; r0 = 0; exit", "there is no map 2"},
	{"r1 = map 0; r0 = *(u64 *)(r1 + 0); exit", "r1 is a map, which helpers alone can read"},
	{"r1 = map 0; r1 += 1; r0 = 0; exit", "a map has no address to count with"},
	{LOOK_UP "r0 = *(u64 *)(r0 + 0); exit", "r0 may be 0: it has to be compared with 0 before"},
	{LOOK_UP "r0 += 8; exit", "the address may be 0"},
	{LOOK_UP "if r0 != 0 goto +1; r0 = *(u64 *)(r0 + 0); exit", "r0 is a number and no address"},
	{LOOK_UP "if r0 == 0 goto +1; r0 = *(u64 *)(r0 + 48); exit", "within the map's value, bytes 0 to 47"},
	{LOOK_UP "if r0 == 0 goto +1; *(u64 *)(r0 + 0) = r10; r0 = 0; exit", "can be stored on the stack alone"},
	{LOOK_UP "exit", "r0 is an address"},
	{LOOK_UP "r0 = r1; exit", "r1 was never written"},
	{"r6 = *(u64 *)(r1 + 0); " LOOK_UP "if r0 == 0 goto +2; r0 += r6; r0 = *(u8 *)(r0 + 0); r0 = 0; exit",
	 "the number has to be bounded before"},
	{"r6 = *(u8 *)(r1 + 0); " LOOK_UP "if r0 == 0 goto +2; r0 += r6; r0 = *(u8 *)(r0 + 0); r0 = 0; exit",
	 "bytes 0 to 255 are not all within the map's value"},
	{"r6 = *(u8 *)(r1 + 0); " LOOK_UP "if r0 == 0 goto +3; r6 &= 31; r0 += r6; r0 = *(u64 *)(r0 + 0); r0 = 0; exit",
	 "8 bytes are not at a multiple of 8"},
	{"r2 = r10; r2 += -8; r1 = map 0; call 1; r0 = 0; exit", "byte -8 of the stack was never written"},
	{"r1 = 5; r2 = r10; call 1; r0 = 0; exit", "look_up() takes a map in r1"},
	{"r1 = r10; r1 += -8; r2 = 16; call 2; r0 = 0; exit", "within the stack"},
	{"r1 = r10; r1 += -8; r2 = 0; call 2; r0 = 0; exit", "r2 is a size, and may be 0"},
	{"r2 = *(u64 *)(r1 + 0); r1 = r10; r1 += -8; call 2; r0 = 0; exit", "r2 is a size, which has to be bounded"},
	{"r2 = 4; call 2; r0 = 0; exit", "r1 is of the context, which can be read only"},
	{"r1 = r10; r1 += -8; r2 = r1; call 2; r0 = 0; exit", "r2 is a size, and no number"},
	{"r2 = 0; r3 = r1; call 3; exit", "show() takes a number in r3, not an address"},
	{"r2 = 0; call 3; exit", "show() takes r3, which was never written"},
	{"r6 = *(u8 *)(r1 + 0); r6 &= 7; r6 += 1; r1 = r10; r1 += -8; r2 = r6; call 2; r0 = *(u64 *)(r10 - 8); "
	 "exit",
	 "byte -7 of the stack was never written"},
	/* On one of two ways it was not written. */
	{"r0 = *(u8 *)(r1 + 0); if r0 == 0 goto +1; r2 = 5; r0 = r2; exit", "r2 was never written"},
	{"r0 = *(u8 *)(r1 + 0); if r0 == 0 goto +1; *(u8 *)(r10 - 1) = 5; r0 = *(u8 *)(r10 - 1); exit",
	 "byte -1 of the stack was never written"},
};

static void each_rule_has_its_reason(void **state)
{
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct calltap_diag diag = {0};
		int ret = verify(bad[i].text, &diag);

		if (ret != -EINVAL || !strstr(diag.text, bad[i].reason))
			fail_msg("%s: %d, %s", bad[i].text, ret, diag.text);
	}
}

/* Paths double at each pair of lines, and each has another number at the end. */
static void too_many_paths_are_told(void **state)
{
	struct calltap_diag diag = {0};
	char *text = calloc(1, 8192);

	assert_non_null(text);
	strcpy(text, "r6 = r1; r0 = 0;");
	for (int i = 0; i < 24; i++)
		sprintf(text + strlen(text), "r2 = *(u8 *)(r6 + %d); if r2 == 7 goto +1; r0 += %d;", i, 1 << i);
	strcat(text, "exit");
	assert_int_equal(verify(text, &diag), -E2BIG);
	assert_non_null(strstr(diag.text, "steps to verify"));
	free(text);
}

/* Each round leaves a way out for later, and a state for each takes memory. */
static void too_many_paths_for_later_are_told(void **state)
{
	struct calltap_diag diag = {0};

	assert_int_equal(verify("r3 = *(u64 *)(r1 + 0); r2 = 0; r0 = 0; again: r2 += 1; if r3 == r2 goto out; goto "
				"again; out: exit",
				&diag),
			 -E2BIG);
	assert_non_null(strstr(diag.text, "to be followed later"));
}

static void paths_that_meet_are_followed_once(void **state)
{
	struct calltap_diag diag = {0};
	char *text = calloc(1, 65536);

	assert_non_null(text);
	strcpy(text, "r6 = r1; r0 = 0;");
	for (int i = 0; i < 150; i++)
		strcat(text, "r2 = *(u8 *)(r6 + 0); if r2 == 7 goto +1; r2 = 9;");
	strcat(text, "exit");
	if (verify(text, &diag))
		fail_msg("%s", diag.text);
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(good_programs_are_accepted),
		cmocka_unit_test(each_rule_has_its_reason),
		cmocka_unit_test(too_many_paths_are_told),
		cmocka_unit_test(too_many_paths_for_later_are_told),
		cmocka_unit_test(paths_that_meet_are_followed_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
