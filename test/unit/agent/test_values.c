/*
 * Calls of functions that tell values: the programs get what the call has, what they write is in the ring within the
 * call, and the program has all its registers back; at each instruction, those of a program's code and its helpers,
 * too.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <unwind.h>

#include <cmocka.h>

#include <host/session/machine.h>
#include <host/values/code.h>
#include <probe/program.h>

#include "handled.h"
#include "traps.h"

#define DEPTH  64
#define VALUES (CALLTAP_HANDLED_RECORD | CALLTAP_HANDLED_VALUES)
#define TYPE   CALLTAP_EVENT_VALUES

void __register_frame(void *frames);

enum { BOTH, LEAF, CALLER, TAIL, IN_TRAP, THROUGH, FUNCTIONS };
enum { NUMBER_PROGRAM = 1, TEXT_PROGRAM, RESULT_PROGRAM, GOOD_PROGRAM, DIVIDING_PROGRAM, PROGRAMS };
enum { TEXT, NUMBER }; /* fields of those with a text; the others have a number alone */

static volatile int turns;
static struct fake_arena fake;
static struct code code;
static char *mapped; /* the page of helpers, and the code */
static struct fetch made[PROGRAMS];

extern const char entered[] __asm__("arch_entry_handled"), left[] __asm__("arch_exit_handled");
extern const char call[] __asm__("arch_program_call");

TIMED_SITE static int leaf(int n, const char *text)
{
	turns += n + text[0];
	return n + 1;
}

TIMED_SITE static int caller(int n, const char *text)
{
	return leaf(n, text) + leaf(n + 1, text);
}

TIMED_SITE static int tail(int n, const char *text)
{
	return leaf(n + 10, text);
}

TIMED_SITE static int in_trap(int n, const char *text)
{
	turns += n;
	return n + 1;
}

static jmp_buf out;

TIMED_SITE static int through(int n, const char *text)
{
	turns += leaf(n, text);
	if (n)
		longjmp(out, 1);
	return n + 1;
}

static const struct timed_function functions[FUNCTIONS] = {
	[BOTH] = {callee_both, HANDLED}, [LEAF] = {leaf, HANDLED},	 [CALLER] = {caller, HANDLED},
	[TAIL] = {tail, HANDLED},	 [IN_TRAP] = {in_trap, HANDLED}, [THROUGH] = {through, HANDLED},
};

static void make(uint16_t number, const char *text, bool result)
{
	struct spec spec;
	size_t length;

	assert_int_equal(spec_parse(&spec, &length, text, result, NULL), 0);
	fetch_compile(&made[number], &spec, code.cpu->registers);
	assert_int_equal(code_put(&code, number, TYPE + number, &made[number], NULL), 0);
}

static const struct spec *no_names(const void *arg, const char *function, size_t length, bool result)
{
	return NULL;
}

/* With a condition that divides, for which x86-64's code needs two registers that it keeps elsewhere meanwhile. */
static void make_dividing(uint16_t number)
{
	static struct condition condition;
	struct spec spec;
	size_t length;

	assert_int_equal(spec_parse(&spec, &length, "f arg1:s32", false, NULL), 0);
	assert_int_equal(condition_parse(&condition, &length, "f: arg1 / (arg1 + 9) + arg1 % 1234567 != 99", no_names,
					 NULL, NULL),
			 0);
	fetch_compile_if(&made[number], &spec, code.cpu->registers, &condition, CALLTAP_VERDICT_LEAVE_OUT, false);
	assert_int_equal(code_put(&code, number, TYPE + number, &made[number], NULL), 0);
}

/* The memory as the tool makes it, the code as the agent maps it. */
static int make_programs(void **state)
{
	char *memory = mmap(NULL, CALLTAP_PROGRAMS_SIZE, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	static struct probe_programs programs;

	mapped = mmap(NULL, CALLTAP_PAGE + CALLTAP_PROGRAM_CODE, PROT_READ | PROT_WRITE | PROT_EXEC,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	assert_true(memory != MAP_FAILED && mapped != MAP_FAILED);
	code_begin(&code, memory, code_cpu_find(machine_native()->id));
	make(NUMBER_PROGRAM, "f arg1:s32", false);
	make(TEXT_PROGRAM, "f text=arg2:string n=arg1:s32 bad=+0(arg1):u8", false);
	make(RESULT_PROGRAM, "f ret:s32", true);
	make_dividing(DIVIDING_PROGRAM);
	make(GOOD_PROGRAM, "f text=arg2:string n=arg1:s32 first=+0(arg2):u8", false);
	memcpy(mapped, probe_program_helpers, sizeof(probe_program_helpers));
	memcpy(mapped + CALLTAP_PAGE, memory + CALLTAP_PROGRAM_CODE_AT, code.used);
	memcpy(mapped + CALLTAP_PAGE + CALLTAP_PROGRAM_UNWIND,
	       memory + CALLTAP_PROGRAM_CODE_AT + CALLTAP_PROGRAM_UNWIND, CALLTAP_UNWIND_BYTES);
	/* .eh_frame is behind its header: the agent answers unwinders by that, this process' by the frames. */
	__register_frame(mapped + CALLTAP_PAGE + CALLTAP_PROGRAM_UNWIND + 20);
	programs = (struct probe_programs){
		.rows = (void *)memory,
		.list = (void *)(memory + CALLTAP_PROGRAMS_AT),
		.code = (uint64_t)mapped + CALLTAP_PAGE,
	};
	__builtin___clear_cache(mapped, mapped + CALLTAP_PAGE + code.used);
	traps_add((uint64_t)call, traps_end((uint64_t)call));
	traps_add(programs.code, programs.code + code.used);
	probe_program_set(&programs);
	return 0;
}

static void want(uint32_t id, uint16_t entry, uint16_t exit)
{
	struct calltap_program_row *row = (struct calltap_program_row *)code.memory + id;

	handled_want(id, 0, VALUES);
	*row = (struct calltap_program_row){.entry = entry, .exit = exit};
}

static int setup(void **state)
{
	handled_start(&fake, 1);
	memset(probe_context.writers, 0, sizeof(probe_context.writers));
	/* All of this stack can be read without a system call, around which signals are blocked. */
	probe_context.main_stack_end = (uint64_t)environ;
	probe_context.main_stack_size = 8 << 20;
	probe_context.main_thread = __builtin_thread_pointer();
	return 0;
}

static int teardown(void **state)
{
	assert_null(probe_thread.running);
	handled_stop(&fake);
	return 0;
}

/* The events of a ring by function, each of which has to lie within a call of its function. */
struct told {
	unsigned entries[FUNCTIONS], arguments[FUNCTIONS], results[FUNCTIONS], unwound;
	int32_t last[FUNCTIONS];	 /* values of the last event */
	char text[CALLTAP_PROGRAM_TEXT]; /* of the last TEXT_PROGRAM of LEAF */
	uint32_t faults;
};

static void take_event(struct told *told, const uint64_t *record, uint32_t words, uint32_t innermost)
{
	uint32_t type = calltap_event_type(calltap_record_id(*record)) - TYPE, id;
	unsigned char bytes[CALLTAP_EVENT_BYTES_MAX] = {0};
	struct calltap_event_place place;

	for (uint32_t i = 1; i < words; i++)
		memcpy(bytes + (i - 1) * 7, &record[i], 7);
	memcpy(&id, bytes, sizeof(id));
	assert_int_equal(id, innermost);
	if (type == RESULT_PROGRAM)
		told->results[id]++;
	else
		told->arguments[id]++;
	if (type == TEXT_PROGRAM || type == GOOD_PROGRAM) {
		memcpy(&place, bytes + made[type].places[TEXT], sizeof(place));
		memcpy(told->text, bytes + place.offset, place.size & CALLTAP_PLACE_SIZE);
		told->text[place.size & CALLTAP_PLACE_SIZE] = 0;
		memcpy(&told->faults, bytes + made[type].faults, 4);
	}
	memcpy(&told->last[id], bytes + made[type].places[type == TEXT_PROGRAM || type == GOOD_PROGRAM ? NUMBER : 0],
	       4);
}

static struct told read_ring(void)
{
	uint64_t *at = (uint64_t *)probe_thread.writer->base;
	const uint64_t *end = (uint64_t *)probe_thread.writer->cursor;
	struct told told = {0};
	uint32_t open[DEPTH];
	unsigned depth = 0;

	for (uint32_t words; at < end; at += words) {
		uint32_t id = calltap_record_id(*at);

		words = calltap_record_words(*at);
		switch (calltap_record_kind(*at)) {
		case CALLTAP_REC_ENTRY:
			assert_true(depth < DEPTH);
			open[depth++] = id;
			told.entries[id]++;
			break;
		case CALLTAP_REC_TAIL:
			assert_true(depth);
			open[depth - 1] = id;
			told.entries[id]++;
			break;
		case CALLTAP_REC_EXIT:
			assert_true(depth);
			assert_int_equal(open[--depth], id);
			break;
		case CALLTAP_REC_UNWIND:
			told.unwound += id;
			depth -= id;
			break;
		case CALLTAP_REC_EVENT:
			assert_true(depth);
			take_event(&told, at, words, open[depth - 1]);
			break;
		}
	}
	assert_int_equal(depth, 0);
	return told;
}

static void values_are_within_their_calls(void **state)
{
	char some[] = "some text", text[] = "tail text"; /* on the stack, for an emulator may copy no memory */
	struct told told;

	want(LEAF, TEXT_PROGRAM, RESULT_PROGRAM);
	want(CALLER, NUMBER_PROGRAM, 0);
	want(TAIL, NUMBER_PROGRAM, RESULT_PROGRAM);
	assert_int_equal(caller(5, some), 13);
	assert_int_equal(tail(1, text), 12);
	told = read_ring();
	assert_int_equal(told.entries[LEAF], 3);
	assert_int_equal(told.arguments[LEAF], 3);
	assert_int_equal(told.results[LEAF], 3);
	assert_int_equal(told.arguments[CALLER], 1);
	assert_int_equal(told.results[CALLER], 0);
	assert_int_equal(told.arguments[TAIL], 1);
	assert_int_equal(told.results[TAIL], 0); /* it ended by its jump */
	assert_int_equal(told.last[LEAF], 12);
	assert_int_equal(told.last[CALLER], 5);
	assert_string_equal(told.text, "tail text");
	assert_int_equal(told.faults, 4); /* 11 is no address */
}

/* Bytes of all kinds in front of and behind the NUL, at each place of a word. */
static void texts_of_all_lengths(void **state)
{
	uint64_t (*help)(void *, uint64_t, uint64_t) =
		(uint64_t(*)(void *, uint64_t, uint64_t))(uintptr_t)probe_program_helpers[CALLTAP_HELPER_TEXT];
	static const unsigned char kinds[] = {1, 0x7f, 0x80, 0x81, 0xff, 'a'};
	unsigned char buffer[64];
	struct probe_run run;

	for (unsigned round = 0; round < 20 * sizeof(kinds); round++) {
		for (unsigned i = 0; i < sizeof(buffer); i++)
			buffer[i] = kinds[(round + i * (1 + round / sizeof(kinds))) % sizeof(kinds)];
		for (unsigned from = 0; from < 8; from++) {
			for (unsigned length = 0; length < 40; length++) {
				unsigned char kept = buffer[from + length];
				unsigned most = (round * 7 + length) % 48 + 1, want = length < most ? length : most;
				uint64_t place, flags = length > most ? CALLTAP_PLACE_CUT : 0;

				buffer[from + length] = 0;
				run.used = 24;
				place = help(&run.context, (uintptr_t)buffer + from, most);
				assert_int_equal(place, 24 | (want | flags) << 16);
				assert_int_equal(run.used, 24 + want);
				assert_memory_equal(run.bytes + 24, buffer + from, want);
				buffer[from + length] = kept;
			}
		}
	}
}

static void registers_are_kept(void **state)
{
	struct told told;

	want(BOTH, NUMBER_PROGRAM, RESULT_PROGRAM);
	for (int i = 0; i < 3; i++) {
		call_with_registers(callee_both);
		check_registers();
	}
	told = read_ring();
	assert_int_equal(told.arguments[BOTH], 3);
	assert_int_equal(told.results[BOTH], 3);
}

/* A frame that is left by a jump has no result, and those farther out keep theirs. */
static void jumps_leave_no_result(void **state)
{
	struct told told;

	want(LEAF, NUMBER_PROGRAM, RESULT_PROGRAM);
	want(THROUGH, NUMBER_PROGRAM, RESULT_PROGRAM);
	for (volatile int i = 0; i < 3; i++)
		if (!setjmp(out))
			through(i, "x");
	leaf(1, "x");
	told = read_ring();
	assert_int_equal(told.entries[THROUGH], 3);
	assert_int_equal(told.results[THROUGH], 1);
	assert_int_equal(told.results[LEAF], 4);
	assert_int_equal(told.unwound, 2);
}

/*
 * A record of several words takes its place anew when a handler has recorded meanwhile, so a handler that records at
 * each instruction would never let it through.  A prime number: all instructions have their turn in some call.
 */
#define RECORDED_ONE_IN 61
#define TURNS		20

static uint64_t traps, found, in_code, calls;

static bool is_in(const char *function, uint64_t at)
{
	/* It is asked for the address behind a call. */
	return _Unwind_FindEnclosingFunction((void *)(at + 1)) == function;
}

/* The stub that has called the dispatcher is known to nobody here. */
static _Unwind_Reason_Code look(struct _Unwind_Context *context, void *arg)
{
	uintptr_t start = _Unwind_GetRegionStart(context);

	*(bool *)arg |= start == (uintptr_t)entered || start == (uintptr_t)left;
	return _URC_NO_REASON;
}

/* From each instruction of a program, and of what calls it, unwinding comes to the dispatcher. */
static void check_callers(uint64_t at)
{
	bool inside = at - (uint64_t)mapped < CALLTAP_PAGE + CALLTAP_PROGRAM_CODE, reached = false;

	if (!inside && !is_in(call, at))
		return;
	in_code += inside;
	_Unwind_Backtrace(look, &reached);
	if (!reached)
		fail_msg("the dispatcher is not found from %#llx (%s)", (unsigned long long)at,
			 inside ? "program" : "its caller");
	found++;
}

static void on_trap(int number, siginfo_t *info, void *context)
{
	if (traps++ % RECORDED_ONE_IN == 0) {
		turns += in_trap(1, "in trap");
		calls++;
	}
	check_callers(trap_pc(context));
}

static void call_caller(int n)
{
	char text[] = "each";

	turns += caller(n, text);
}

static void call_both(int n)
{
	call_with_registers(callee_both);
}

static void at_each_instruction(void **state)
{
	struct told told;

	want(LEAF, GOOD_PROGRAM, RESULT_PROGRAM);
	want(CALLER, DIVIDING_PROGRAM, RESULT_PROGRAM);
	want(BOTH, NUMBER_PROGRAM, RESULT_PROGRAM);
	want(IN_TRAP, NUMBER_PROGRAM, RESULT_PROGRAM);
	call_caller(1); /* what is made once is there */
	traps = found = in_code = calls = 0;
	for (int i = 0; i < TURNS; i++) {
		with_traps(on_trap, 0, call_caller, 7);
		with_traps(on_trap, 0, call_both, 0);
		check_registers();
	}
	assert_true(traps > TURNS * 500 && in_code > TURNS * 100 && found > TURNS * 200);
	told = read_ring();
	assert_int_equal(told.entries[LEAF], 2 + 2 * TURNS);
	assert_int_equal(told.arguments[LEAF], 2 + 2 * TURNS);
	assert_int_equal(told.results[LEAF], 2 + 2 * TURNS);
	assert_int_equal(told.results[BOTH], TURNS);
	assert_string_equal(told.text, "each");
	assert_int_equal(told.faults, 0);
	assert_int_equal(told.entries[IN_TRAP], calls);
	assert_int_equal(told.arguments[IN_TRAP], calls);
	assert_int_equal(told.results[IN_TRAP], calls);
	assert_int_equal(told.unwound, 0);
}

int main(void)
{
#define case_of(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		case_of(values_are_within_their_calls), case_of(texts_of_all_lengths), case_of(registers_are_kept),
		case_of(jumps_leave_no_result),		case_of(at_each_instruction),
	};

	handled_patch(functions, FUNCTIONS);
	return cmocka_run_group_tests(tests, make_programs, NULL);
}
