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
#include <host/types/types.h>
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

static uint64_t run_bytes(void *data, const uint64_t arguments[BPF_ARGUMENTS])
{
	uint64_t at = text_used, size = arguments[2], most = arguments[3];

	if (!arguments[4])
		return at | (uint64_t)CALLTAP_PLACE_NULL << 16;
	if (size && arguments[1] < NOWHERE)
		return at | (uint64_t)CALLTAP_PLACE_FAULT << 16;
	memcpy(written + at, (const char *)arguments[1], size < most ? size : most);
	text_used += size < most ? size : most;
	return at | ((size < most ? size : most) | (size > most ? CALLTAP_PLACE_CUT : 0)) << 16;
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

static uint64_t run_time(void *data, const uint64_t arguments[BPF_ARGUMENTS])
{
	return 0x1122334455667788;
}

static uint64_t run_pid(void *data, const uint64_t arguments[BPF_ARGUMENTS])
{
	return 4711;
}

static uint64_t run_tid(void *data, const uint64_t arguments[BPF_ARGUMENTS])
{
	return 4712;
}

static uint64_t run_stack(void *data, const uint64_t arguments[BPF_ARGUMENTS])
{
	assert_int_equal(((const struct calltap_program_context *)arguments[0])->function, 77);
	return 815;
}

static uint64_t run_comm(void *data, const uint64_t arguments[BPF_ARGUMENTS])
{
	const uint64_t text[BPF_ARGUMENTS] = {0, (uintptr_t) "worker-1", CALLTAP_PROGRAM_COMM};

	return run_text(data, text);
}

static struct fetch fetch;

#define HEAD 0xd123456789abcdef /* the first word of an event */

/* In front of the last instruction: take the words that the program leaves, and a plain one's head. */
static void take_words(void *arg, uint32_t at, const uint64_t registers[BPF_REGISTERS], const uint8_t *stack)
{
	const uint8_t *words = stack + CALLTAP_PROGRAM_STACK - CALLTAP_PROGRAM_WORDS_AT;

	if (!fetch.words || at != fetch.count - 1)
		return;
	for (uint32_t i = 0; i < fetch.words; i++) {
		memcpy(written + (size_t)i * 7, words + (size_t)8 * i, 7);
		assert_int_equal(words[8 * i + 7], 0);
	}
	assert_true(fetch.words * 7 >= fetch.size && fetch.words * 7 < fetch.size + 7);
	written_size = fetch.size;
	if (fetch_is_plain(&fetch))
		assert_int_equal(*(const uint64_t *)(const void *)(words - 8), HEAD);
}

/* What a plain program gets for the same call. */
static struct fetch_plain_context plain_of(const struct calltap_program_context *context)
{
	static const uint8_t places[REGISTERS] = {14, 13, 12, 11, 9, 8};
	struct fetch_plain_context plain = {.function = context->function, .head = HEAD};

	memset(plain.registers, 0xcc, sizeof(plain.registers));
	plain.registers[10] = context->result;
	plain.registers[12] = context->second;
	for (int i = 0; i < REGISTERS && !context->result; i++)
		plain.registers[places[i]] = context->arguments[i];
	return plain;
}

/* Compile, verify and run; the event's fixed part is in `written`. */
static void run_spec(const struct spec *spec, struct calltap_program_context *context)
{
	struct calltap_diag diag = {0};
	struct fetch_plain_context plain = plain_of(context);
	struct bpf_run job = {.machine = &machine, .context = context, .step = take_words};
	uint64_t verdict;

	fetch_compile(&fetch, spec, REGISTERS);
	job.insns = fetch.insns;
	job.count = fetch.count;
	if (fetch_is_plain(&fetch)) {
		job.machine = &fetch_plain_machine;
		job.context = &plain;
	}
	if (bpf_verify(&(struct bpf_verify){.machine = fetch_machine_of(&fetch),
					    .insns = fetch.insns,
					    .count = fetch.count},
		       &diag))
		fail_msg("%s: %s", spec->fields[0].name, diag.text);
	memset(written, 0xee, sizeof(written));
	text_used = fetch.size;
	assert_int_equal(bpf_interpret(&verdict, &job), 0);
	assert_int_equal(verdict, !fetch_is_plain(&fetch));
	assert_int_equal(written_size, fetch.size);
	assert_memory_equal(written, &context->function, 4);
}

static void run(const char *text, bool result, struct calltap_program_context *context)
{
	struct calltap_diag diag = {0};
	struct spec spec;
	size_t length;

	assert_int_equal(spec_parse(&spec, &length, text, result, &diag), 0);
	run_spec(&spec, context);
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

	memcpy(&value, written + fetch.faults, sizeof(value));
	return fetch.faults ? value : 0;
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
	helpers[CALLTAP_HELPER_BYTES].run = run_bytes;
	helpers[CALLTAP_HELPER_WRITE].run = run_write;
	helpers[CALLTAP_HELPER_VECTOR].run = run_vector;
	helpers[CALLTAP_HELPER_TIME].run = run_time;
	helpers[CALLTAP_HELPER_PID].run = run_pid;
	helpers[CALLTAP_HELPER_TID].run = run_tid;
	helpers[CALLTAP_HELPER_STACK].run = run_stack;
	helpers[CALLTAP_HELPER_COMM].run = run_comm;
	machine = fetch_machine;
	machine.helpers = helpers;
	return 0;
}

static void who_calls(void **state)
{
	struct calltap_program_context context = {.arguments = {7, 8}, .function = 77};

	run("f arg1:s32 $tid $pid $time arg2:u8", false, &context);
	assert_false(fetch_is_plain(&fetch));
	assert_int_equal(number(0, 4), 7);
	assert_int_equal(number(1, 4), 4712);
	assert_int_equal(number(2, 4), 4711);
	assert_int_equal(number(3, 8), 0x1122334455667788);
	assert_int_equal(number(4, 1), 8);
	run("f arg1:s32 $stack $comm", false, &context);
	assert_int_equal(number(1, 4), 815);
	context = (struct calltap_program_context){.result = 5, .function = 77};
	run("f $comm ret:s32 $tid", true, &context);
	expect_text(0, "worker-1", 0);
	assert_int_equal(number(1, 4), 5);
	assert_int_equal(number(2, 4), 4712);
}

static void registers_and_results(void **state)
{
	struct calltap_program_context context = {.arguments = {-2, 0x1122334455667788, 3, 4, 5, 6}, .function = 77};

	run("f arg1:s8 arg2:x64 arg2:u16 arg6:u32", false, &context);
	assert_int_equal(number(0, 1), 0xfe);
	assert_int_equal(number(1, 8), 0x1122334455667788);
	assert_int_equal(number(2, 2), 0x7788);
	assert_int_equal(number(3, 4), 6);
	assert_true(fetch_is_plain(&fetch));
	for (uint32_t i = 0; i < 4; i++)
		assert_true(fetch.places[i] >= FETCH_FIRST);
	run("f arg1 arg2 arg3 arg4 arg5 arg6 arg1:u32 arg2:u16 arg3:u8 arg4:u8 arg5:u16 arg6:u32 arg2:u8 arg2:u32 arg2 "
	    "arg1",
	    false, &context);
	assert_int_equal(number(0, 8), (uint64_t)-2);
	assert_int_equal(number(5, 8), 6);
	assert_int_equal(number(6, 4), 0xfffffffe);
	assert_int_equal(number(7, 2), 0x7788);
	assert_int_equal(number(10, 2), 5);
	assert_int_equal(number(12, 1), 0x88);
	assert_int_equal(number(14, 8), 0x1122334455667788);
	assert_int_equal(number(15, 8), (uint64_t)-2);
	context.result = 42;
	run("f:ret", true, &context);
	assert_true(fetch_is_plain(&fetch));
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

/* A field of a text that a class says. */
static struct spec_field view_field(enum type_view_how how, uint8_t size, uint8_t address_at, uint8_t size_at,
				    uint8_t argument)
{
	return (struct spec_field){.name = "view",
				   .type = SPEC_VIEW,
				   .size = 8,
				   .argument = argument,
				   .view = {how, size, address_at, size_at, 8}};
}

static void texts_of_classes(void **state)
{
	static const char text[] = "0123456789";
	struct {
		uint64_t size;
		const char *text;
	} sized = {3, text}, broken = {3, NULL};
	const char *range[2] = {text + 2, text + 6};
	struct {
		uint64_t size, room, users;
		char text[8];
	} front = {.size = 3, .text = "older"};
	const char *old = front.text;
	union {
		struct {
			uint64_t room, size;
			const char *text;
		} large;
		char small[24];
	} large = {.large = {33, 9, text}}, small = {.small = {2 * 5, 's', 'm', 'a', 'l', 'l'}};
	uint64_t stack[2] = {(uint64_t)text, 5};
	struct calltap_program_context context = {
		.arguments = {(uint64_t)&sized, (uint64_t)range, (uint64_t)&large, (uint64_t)&small, (uint64_t)&old, 0},
		.stack = (uint64_t)stack,
	};
	struct spec spec = {.count = 8};

	spec.fields[0] = view_field(TYPE_VIEW_SIZE, 16, 8, 0, 1);
	spec.fields[1] = view_field(TYPE_VIEW_END, 16, 0, 8, 2);
	spec.fields[2] = view_field(TYPE_VIEW_SHORT, 24, 16, 8, 3);
	spec.fields[3] = view_field(TYPE_VIEW_SHORT, 24, 16, 8, 4);
	spec.fields[4] = view_field(TYPE_VIEW_FRONT, 8, 0, 0, 5);
	spec.fields[5] = view_field(TYPE_VIEW_SIZE, 16, 8, 0, 6); /* the address of none */
	for (uint32_t i = 0; i < 6; i++)
		spec.fields[i].at_address = true;
	spec.fields[6] = view_field(TYPE_VIEW_SIZE, 16, 0, 8, REGISTERS + 1); /* on the stack */
	spec.fields[7] = view_field(TYPE_VIEW_SIZE, 16, 0, 8, 1);	      /* in two registers */
	spec.fields[7].second_argument = 6;
	run_spec(&spec, &context);
	assert_int_equal(faults(), 0);
	expect_text(0, "012", 0);
	expect_text(1, "2345", 0);
	expect_text(2, "01234567", CALLTAP_PLACE_CUT);
	expect_text(3, "small", 0);
	expect_text(4, "old", 0);
	expect_text(5, "", CALLTAP_PLACE_NULL);
	expect_text(6, "01234", 0);
	expect_text(7, "", 0);
	context.arguments[0] = (uint64_t)&broken; /* the size of a text that is nowhere */
	context.arguments[1] = 16;		  /* an object that is nowhere */
	run_spec(&spec, &context);
	assert_int_equal(faults(), 2);
	expect_text(0, "", CALLTAP_PLACE_FAULT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(who_calls),	     cmocka_unit_test(registers_and_results),
		cmocka_unit_test(floating_point),    cmocka_unit_test(arguments_on_the_stack),
		cmocka_unit_test(memory_and_faults), cmocka_unit_test(the_largest),
		cmocka_unit_test(texts_of_classes),
	};

	return cmocka_run_group_tests(tests, setup, NULL);
}
