/*
 * Programs that fetch values, in the interpreter: each is accepted by the verifier, writes what was asked for, and
 * notes what cannot be read.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <bpf/interpret.h>
#include <bpf/verify.h>
#include <calltap/abi/program.h>
#include <calltap/abi/record.h>
#include <host/values/fetch.h>

#include "memory.h"

static unsigned char written[CALLTAP_PROGRAM_BYTES];
static uint64_t written_size, text_used;
static struct bpf_helper helpers[CALLTAP_HELPERS];
static struct bpf_machine machine;

static uint64_t run_text(void *data, const uint64_t arguments[BPF_ARGUMENTS])
{
	uint64_t at = text_used, length;

	if (arguments[1] < NOWHERE)
		return at | (uint64_t)CALLTAP_PLACE_FAULT << 16;
	length = strnlen((const char *)arguments[1], arguments[2]);
	memcpy(written + at, (const char *)arguments[1], length);
	text_used += length;
	return at | (length | (length == arguments[2] ? CALLTAP_PLACE_CUT : 0)) << 16;
}

static uint64_t run_write(void *data, const uint64_t arguments[BPF_ARGUMENTS])
{
	assert_true(arguments[2] <= text_used);
	memcpy(written, (const void *)arguments[1], arguments[2]);
	written_size = arguments[2];
	return 0;
}

static uint64_t run_vector(void *data, const uint64_t arguments[BPF_ARGUMENTS])
{
	return arguments[0] < CALLTAP_PROGRAM_VECTORS ? 0x4000000040800000 + arguments[0] : 0;
}

static struct fetch fetch;

/* Compile, verify and run; the event's fixed part is in `written`. */
static void run(const char *text, bool result, struct calltap_program_context *context)
{
	struct calltap_diag diag = {0};
	struct bpf_run job = {.machine = &machine, .context = context};
	struct spec spec;
	uint64_t verdict;
	size_t length;

	assert_int_equal(spec_parse(&spec, &length, text, result, &diag), 0);
	fetch_compile(&fetch, &spec, REGISTERS);
	job.insns = fetch.insns;
	job.count = fetch.count;
	if (bpf_verify(&(struct bpf_verify){.machine = &fetch_machine, .insns = fetch.insns, .count = fetch.count},
		       &diag))
		fail_msg("%s: %s", text, diag.text);
	memset(written, 0xee, sizeof(written));
	text_used = fetch.size;
	assert_int_equal(bpf_interpret(&verdict, &job), 0);
	assert_int_equal(verdict, 1);
	assert_int_equal(written_size, fetch.size);
	assert_memory_equal(written, &context->function, 4);
}

static uint64_t number(uint32_t field, size_t size)
{
	uint64_t value = 0;

	memcpy(&value, written + fetch.places[field], size);
	return value;
}

static uint32_t faults(void)
{
	uint32_t value;

	memcpy(&value, written + FETCH_FAULTS, sizeof(value));
	return value;
}

static void expect_text(uint32_t field, const char *text, uint16_t flags)
{
	struct calltap_event_place place;

	memcpy(&place, written + fetch.places[field], sizeof(place));
	assert_int_equal(place.size, strlen(text) | flags);
	assert_memory_equal(written + place.offset, text, strlen(text));
}

static int setup(void **state)
{
	memcpy(helpers, fetch_machine.helpers, sizeof(helpers));
	helpers[CALLTAP_HELPER_READ].run = run_read;
	helpers[CALLTAP_HELPER_TEXT].run = run_text;
	helpers[CALLTAP_HELPER_WRITE].run = run_write;
	helpers[CALLTAP_HELPER_VECTOR].run = run_vector;
	machine = fetch_machine;
	machine.helpers = helpers;
	return 0;
}

static void registers_and_results(void **state)
{
	struct calltap_program_context context = {.arguments = {-2, 0x1122334455667788, 3, 4, 5, 6}, .function = 77};

	run("f arg1:s8 arg2:x64 arg2:u16 arg6:u32", false, &context);
	assert_int_equal(number(0, 1), 0xfe);
	assert_int_equal(number(1, 8), 0x1122334455667788);
	assert_int_equal(number(2, 2), 0x7788);
	assert_int_equal(number(3, 4), 6);
	assert_int_equal(faults(), 0);
	for (uint32_t i = 0; i < 4; i++)
		assert_true(fetch.places[i] >= FETCH_FIRST);
	context.result = 42;
	run("f:ret", true, &context);
	assert_int_equal(number(0, 8), 42);
}

static void floating_point(void **state)
{
	double stack[2] = {70.5, -1};
	struct calltap_program_context context = {.stack = (uint64_t)stack, .arguments = {9}};

	run("f %xmm0 %xmm7:f32 arg1:u8 %xmm1 arg7:f64 arg8:x64", false, &context);
	assert_int_equal(number(0, 8), 0x4000000040800000);
	assert_int_equal(number(1, 4), 0x40800007);
	assert_int_equal(number(2, 1), 9);
	assert_int_equal(number(3, 8), 0x4000000040800001);
	assert_int_equal(number(4, 8), 0x4051a00000000000);
	assert_int_equal(number(5, 8), 0xbff0000000000000);
	run("f:ret:f32", true, &context);
	assert_int_equal(number(0, 4), 0x40800000);
}

static void arguments_on_the_stack(void **state)
{
	uint64_t stack[3] = {70, 80, (uint64_t) "ninth"};
	struct calltap_program_context context = {.stack = (uint64_t)stack};

	run("f arg7 arg8:u8 arg9:string", false, &context);
	assert_int_equal(number(0, 8), 70);
	assert_int_equal(number(1, 1), 80);
	expect_text(2, "ninth", 0);
	context.stack = 8;
	run("f arg7 arg1", false, &context);
	assert_int_equal(faults(), 1);
	assert_int_equal(number(0, 8), 0);
}

static void memory_and_faults(void **state)
{
	struct {
		uint32_t number;
		const char *name;
		char within[8];
	} object = {9, "object", "inline"};
	void *pointer = &object;
	struct calltap_program_context context = {.arguments = {(uint64_t)&object, (uint64_t)&pointer, 8}};

	run("f x=+0(arg1):u32 y=+0(+0(arg2)):u32 name=+0(+8(arg1)):string in=+16(arg1):string", false, &context);
	assert_int_equal(number(0, 4), 9);
	assert_int_equal(number(1, 4), 9);
	expect_text(2, "object", 0);
	expect_text(3, "inline", 0);
	assert_int_equal(faults(), 0);
	run("f ok=+0(arg1):u32 bad=+0(arg3):u32 worse=+8(+0(arg3)):u64 text=arg3:string deep=+0(+8(arg3)):string[3] "
	    "last=arg3",
	    false, &context);
	assert_int_equal(number(0, 4), 9);
	assert_int_equal(faults(), 2 | 4 | 16);
	expect_text(3, "", CALLTAP_PLACE_FAULT);
	assert_int_equal(number(5, 8), 8);
	run("f +16(arg1):string[3]", false, &context);
	expect_text(0, "inl", CALLTAP_PLACE_CUT);
}

/* The largest that can be asked for is a program that the verifier takes. */
static void the_largest(void **state)
{
	struct calltap_program_context context = {.arguments = {16}};
	char text[2000] = "f";

	for (int i = 0; i < 16; i++)
		strcat(text, " +1(+2(+3(+4(+5(+6(arg24)))))):u64");
	run(text, false, &context);
	assert_int_equal(faults(), 0xffff);
	assert_true(fetch.count <= FETCH_INSNS - 16);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(registers_and_results),
		cmocka_unit_test(floating_point),
		cmocka_unit_test(arguments_on_the_stack),
		cmocka_unit_test(memory_and_faults),
		cmocka_unit_test(the_largest),
	};

	return cmocka_run_group_tests(tests, setup, NULL);
}
