/* Blocks of all CPUs: what they consist of, and heads that get none. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "arch/aarch64/isa/block.h"
#include "arch/riscv64/isa/block.h"
#include "arch/x86_64/isa/block.h"
#include "support.h"

#define FROM  UINT64_C(0x400000)
#define BLOCK UINT64_C(0x480000) /* 512 KiB away: in everybody's reach */
#define NONE  99		 /* the CPU's number for no scratch register */

static isa_block_maker *const makers[] = {x86_block, a64_block, rv_block};
enum { X86, A64, RV };
static const char *const names[] = {"x86_64", "aarch64", "riscv64"};

struct made {
	int ret;
	struct isa_block block;
	uint8_t code[ISA_BLOCK_MAX];
	size_t length;
};

static struct made make_of(int cpu, const char *text, uint8_t length, uint64_t at, unsigned scratch, size_t room)
{
	uint8_t bytes[64];
	size_t size = isa_bytes(text, bytes, sizeof(bytes));
	const struct isa_head head = {bytes, size, FROM,
				      scratch == NONE ? isa_cpu_find(names[cpu])->no_scratch : scratch, length};
	struct made made = {0};
	struct isa_out out = {made.code, room, 0, at};

	made.ret = makers[cpu](&out, &made.block, &head);
	made.length = out.length;
	return made;
}

static struct made make(int cpu, const char *text, uint64_t at, unsigned scratch, size_t room)
{
	return make_of(cpu, text, 0, at, scratch, room);
}

static void expect_code(const struct made *made, unsigned head, const char *text)
{
	uint8_t bytes[ISA_BLOCK_MAX];
	size_t size = isa_bytes(text, bytes, sizeof(bytes));

	assert_int_equal(made->ret, 0);
	assert_int_equal(made->block.head, head);
	assert_int_equal(made->length, size);
	assert_memory_equal(made->code, bytes, size);
}

/* A site of no-ops, what was at the head, and a jump behind it. */
static void a_block_has_three_parts(void **state)
{
	struct made made;

	made = make(X86, "554889e54883ec10c3", BLOCK, NONE, ISA_BLOCK_MAX); /* push, mov, sub; ret */
	assert_int_equal(made.block.site, 5);
	expect_code(&made, 8, "0f1f440000554889e54883ec10e9f6fff7ff");
	made = make(A64, "fd7bbfa9fd030091c0035fd6", BLOCK, NONE, ISA_BLOCK_MAX); /* stp, mov; ret */
	assert_int_equal(made.block.site, 4);
	expect_code(&made, 4, "1f2003d5fd7bbfa9fffffd17");
	made = make(RV, "411106e422e00008828082808280", BLOCK, NONE, ISA_BLOCK_MAX); /* addi, sd, sd, addi of 2 bytes */
	assert_int_equal(made.block.site, 8);
	expect_code(&made, 8, "1300000013000000411106e422e000086ff097ff");
}

static void refused(int cpu, const char *text, uint64_t at, unsigned scratch, int error)
{
	struct made made = make(cpu, text, at, scratch, ISA_BLOCK_MAX);

	if (made.ret != error || made.length)
		fail_msg("%s %s: %d, %zu bytes", names[cpu], text, made.ret, made.length);
}

static void what_leads_into_the_head_is_refused(void **state)
{
	refused(X86, "31c0ebfc90909090", BLOCK, NONE, -ENOTSUP);	    /* jmp back to the first byte */
	refused(X86, "85ff74fc4889442408", BLOCK, NONE, -ENOTSUP);	    /* je there */
	refused(X86, "90e8faffffff909090", BLOCK, NONE, -ENOTSUP);	    /* the function calls itself */
	refused(A64, "00000014", BLOCK, NONE, -ENOTSUP);		    /* b to itself */
	refused(RV, "19c1130000001300000013000000", BLOCK, NONE, -ENOTSUP); /* beqz over 6 bytes */
}

static void a_return_into_the_head_is_refused(void **state)
{
	refused(X86, "ffd09090909090", BLOCK, NONE, -ENOTSUP);			/* call *%rax, which ends at 2 */
	refused(RV, "ef000010130000001300000013000000", BLOCK, NONE, -ENOTSUP); /* jal at the first place */
}

static void another_function_behind_is_not_touched(void **state)
{
	refused(X86, "89f8c39090909090", BLOCK, NONE, -ENOTSUP); /* mov, ret */
	refused(RV, "0525828013000000", BLOCK, NONE, -ENOTSUP);	 /* addiw, ret */
	refused(X86, "5548", BLOCK, NONE, -ENODATA);
	refused(X86, "06900000000000", BLOCK, NONE, -EILSEQ); /* push %es */
	refused(X86, "cc90909090", BLOCK, NONE, -ENOTSUP);
}

/* The end of the function may be the end of the head. */
static void what_ends_with_the_head_is_moved(void **state)
{
	struct made made = make(X86, "89f883c001c3", BLOCK, NONE, ISA_BLOCK_MAX); /* mov, add; ret is not needed */

	expect_code(&made, 5, "0f1f44000089f883c001e9f6fff7ff");
	made = make(A64, "c0035fd6", BLOCK, NONE, ISA_BLOCK_MAX);
	expect_code(&made, 4, "1f2003d5c0035fd6fffffd17");
}

static void refused_of(const char *text, uint8_t length, int error)
{
	struct made made = make_of(X86, text, length, BLOCK, NONE, ISA_BLOCK_MAX);

	assert_int_equal(made.ret, error);
	assert_int_equal(made.length, 0);
}

/* The caller knows the head's bytes: padding behind the function's end is part of it, and is not moved. */
static void a_length_may_be_given(void **state)
{
	struct made made = make_of(X86, "89f8c30f1f00cc", 6, BLOCK, NONE, ISA_BLOCK_MAX); /* mov, ret; a no-op */

	expect_code(&made, 6, "0f1f44000089f8c3e9f9fff7ff");
	made = make_of(X86, "c3cccccccccccccc", 5, BLOCK, NONE, ISA_BLOCK_MAX);
	expect_code(&made, 5, "0f1f440000c3e9fafff7ff");
	made = make_of(X86, "eb70cccccc", 5, BLOCK, NONE, ISA_BLOCK_MAX); /* jmp elsewhere */
	expect_code(&made, 5, "0f1f440000e96800f8ffe9f6fff7ff");
	made = make_of(X86, "554889e54883ec10c3", 8, BLOCK, NONE, ISA_BLOCK_MAX);
	expect_code(&made, 8, "0f1f440000554889e54883ec10e9f6fff7ff");
	made = make_of(X86, "ffd0c3", 2, BLOCK, NONE, ISA_BLOCK_MAX); /* a short jump: the call returns behind it */
	expect_code(&made, 2, "0f1f4400006802004000ffe0e9f1fff7ff");
	refused_of("554889e54883ec10c3", 7, -ENOTSUP); /* within the sub */
	refused_of("ffd0cccccccc", 5, -ENOTSUP);       /* the call returns into the jump */
	refused_of("7502c3cccc", 5, -ENOTSUP);	       /* jne to the padding */
	refused_of("c3cccc", 5, -ENODATA);
}

/* Where each instruction has gone. */
static void the_places_are_told(void **state)
{
	static const struct isa_place places[] = {
		{0, ISA_PLAIN, 5}, {1, ISA_PLAIN, 6}, {4, ISA_CALL, 9}, {9, ISA_JUMP, 19}};
	struct made made = make(X86, "554889e5e800010000", BLOCK, NONE, ISA_BLOCK_MAX); /* push, mov, call */

	assert_int_equal(made.ret, 0);
	assert_int_equal(made.block.count, 4);
	for (unsigned i = 0; i < 4; i++) {
		assert_int_equal(made.block.places[i].from, places[i].from);
		assert_int_equal(made.block.places[i].kind, places[i].kind);
		assert_int_equal(made.block.places[i].to, places[i].to);
	}
	assert_int_equal(made.code[made.block.places[3].to], 0xe9);
	made = make(X86, "89f8c30f1f00", BLOCK, NONE, ISA_BLOCK_MAX);
	assert_int_equal(made.ret, -ENOTSUP);
}

static void the_way_back_must_reach(void **state)
{
	const uint64_t far = FROM + (UINT64_C(1) << 33), middle = FROM + (UINT64_C(1) << 27) + 4096;

	refused(X86, "554889e54883ec10c3", far, NONE, -ERANGE);
	refused(A64, "fd7bbfa9", middle, NONE, -ERANGE);
	refused(RV, "411106e422e00008", middle, NONE, -ENOTSUP); /* it takes a register */
	assert_int_equal(make(RV, "411106e422e00008", middle, 31, ISA_BLOCK_MAX).ret, 0);
	refused(RV, "411106e422e00008", far, 31, -ERANGE);
}

static void too_little_room_changes_nothing(void **state)
{
	const size_t whole = make(X86, "554889e54883ec10c3", BLOCK, NONE, ISA_BLOCK_MAX).length;

	for (size_t room = 0; room < whole; room++) {
		struct made made = make(X86, "554889e54883ec10c3", BLOCK, NONE, room);

		assert_int_equal(made.ret, -ENOSPC);
		assert_int_equal(made.length, 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_block_has_three_parts),
		cmocka_unit_test(what_leads_into_the_head_is_refused),
		cmocka_unit_test(a_return_into_the_head_is_refused),
		cmocka_unit_test(another_function_behind_is_not_touched),
		cmocka_unit_test(what_ends_with_the_head_is_moved),
		cmocka_unit_test(a_length_may_be_given),
		cmocka_unit_test(the_places_are_told),
		cmocka_unit_test(the_way_back_must_reach),
		cmocka_unit_test(too_little_room_changes_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
