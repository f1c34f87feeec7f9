/*
 * The recorders of tracer profile at each of their instructions: a SIGTRAP comes at every one, and its handler calls
 * profiled functions, too, those that are being called among them.  Every register is kept, no call is lost, and no
 * frame is left over; the caller is found from each instruction.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <ucontext.h>

#include <cmocka.h>

#include <handled_registers.h>
#include <registers_text.h>
#include "timed.h"
#include "traps.h"

#define FLAGS	  (CALLTAP_SITE_TIMED | CALLTAP_SITE_PROFILE)
#define TICKED	  (FLAGS | CALLTAP_SITE_BRIEF)
#define TRIGGERED (CALLTAP_SITE_TIMED | CALLTAP_SITE_TRIGGER)

#define TRAPS_LEAST 200 /* in the recorders of some calls; on x86-64 in the functions, too */

/* The registers in the callee, before it sets them to other values, and in the caller after the call. */
uint64_t seen_inside[REGISTERS] __attribute__((visibility("hidden")));
uint64_t seen_after[REGISTERS] __attribute__((visibility("hidden")));
int callee_profile(void), callee_trigger(void), callee_graph(void), callee_ticked(void);
void call_with_registers(int (*function)(void)) __attribute__((visibility("hidden")));

__asm__(REGISTERS_MACROS "callee callee_profile\n"
			 "callee callee_trigger\n"
			 "callee callee_graph\n"
			 "callee callee_ticked\n" REGISTERS_CALL);

static volatile int turns;

TIMED_SITE static int in_handler(int n)
{
	turns += n;
	return n + 1;
}

TIMED_SITE static int in_both(int n)
{
	turns += n;
	return n + 1;
}

TIMED_SITE static int outer(int n)
{
	turns += in_both(n);
	turns += in_both(n);
	return turns;
}

TIMED_SITE static int ticked_in_handler(int n)
{
	turns += n;
	return n + 1;
}

TIMED_SITE static int ticked_in_both(int n)
{
	turns += n;
	return n + 1;
}

TIMED_SITE static int ticked_recursive(int n)
{
	if (n)
		turns += ticked_recursive(n - 1);
	return turns;
}

TIMED_SITE static int ticked_outer(int n)
{
	turns += ticked_in_both(n);
	turns += ticked_recursive(2);
	turns += ticked_in_both(n);
	return turns;
}

enum {
	PROFILE,
	TRIGGER,
	GRAPH,
	IN_HANDLER,
	IN_BOTH,
	OUTER,
	TICKED_CALLEE,
	TICKED_IN_HANDLER,
	TICKED_IN_BOTH,
	TICKED_RECURSIVE,
	TICKED_OUTER,
	FUNCTIONS
};
static const struct timed_function functions[FUNCTIONS] = {
	[PROFILE] = {callee_profile, FLAGS},
	[TRIGGER] = {callee_trigger, TRIGGERED},
	[GRAPH] = {callee_graph, 0},
	[IN_HANDLER] = {in_handler, FLAGS},
	[IN_BOTH] = {in_both, FLAGS},
	[OUTER] = {outer, FLAGS},
	[TICKED_CALLEE] = {callee_ticked, TICKED},
	[TICKED_IN_HANDLER] = {ticked_in_handler, TICKED},
	[TICKED_IN_BOTH] = {ticked_in_both, TICKED},
	[TICKED_RECURSIVE] = {ticked_recursive, TICKED},
	[TICKED_OUTER] = {ticked_outer, TICKED},
};

static struct fake_arena fake;
static uint64_t traps;

static void on_trap(int number, siginfo_t *info, void *context)
{
	turns += in_handler(1);
	turns += in_both(1);
	traps++;
}

static void check_registers(void)
{
	for (uint64_t i = 0; i < REGISTERS; i++)
		assert_int_equal(seen_inside[i], 1000 + i);
	for (uint64_t i = REGISTERS_FREE_AT_EXIT; i < REGISTERS; i++)
		assert_int_equal(seen_after[i], 2000 + i);
}

static void start_profile(void)
{
	probe_thread = (struct probe_thread)PROBE_THREAD_NEW;
	timed_profile_start(&fake, 1, FUNCTIONS, FUNCTIONS + 1);
}

static void registers_are_kept_by_profile(void **state)
{
	start_profile();
	for (int i = 0; i < 3; i++) {
		memset(seen_after, 0, sizeof(seen_after));
		call_with_registers(callee_profile);
		check_registers();
	}
	assert_int_equal(timed_entry(&fake, 0, PROFILE)->calls, 3);
	timed_profile_stop(&fake);
}

static void registers_are_kept_with_triggers(void **state)
{
	struct calltap_triggers *triggers;

	probe_thread = (struct probe_thread)PROBE_THREAD_NEW;
	fake_arena_create(&fake, CALLTAP_MODE_OVERWRITE, 1, 4096, 2);
	fake_start(&fake);
	triggers = timed_triggers(FUNCTIONS, 16);
	triggers->min_gap = 1;
	for (uint64_t limit = 0; limit < 5; limit++) {
		timed_limit(triggers, TRIGGER)->ticks = limit < 2 ? limit : (uint64_t)1 << 50;
		call_with_registers(callee_trigger);
		check_registers();
		call_with_registers(callee_graph);
		check_registers();
		assert_int_equal(triggers->taken, limit > 0);
	}
	assert_int_equal(probe_triggers_set(NULL, 0), 0);
	fake_stop();
	fake_arena_destroy(&fake);
}

static void call_outer(int n)
{
	turns += outer(n);
}

static void calls_in_between_are_counted(void **state)
{
	uint64_t calls = 0, in_handlers = 0;

	start_profile();
	outer(1);
	on_trap(0, NULL, NULL);
	in_handlers = 1;
	for (int i = 0; i < 20; i++) {
		traps = 0;
		with_traps(on_trap, 0, call_outer, i);
		assert_true(traps > TRAPS_LEAST);
		in_handlers += traps;
		calls++;
		assert_int_equal(timed_entry(&fake, 0, IN_HANDLER)->calls, in_handlers);
		assert_int_equal(timed_entry(&fake, 0, OUTER)->calls, 1 + calls);
		assert_int_equal(timed_entry(&fake, 0, IN_BOTH)->calls, 2 + 2 * calls + in_handlers);
	}
	assert_int_equal(timed_entry(&fake, 0, IN_BOTH)->outer | timed_entry(&fake, 0, IN_HANDLER)->outer |
				 timed_entry(&fake, 0, OUTER)->outer,
			 0);
	assert_int_equal(timed_head(&fake, 0)->vanished, 0);
	assert_int_equal(timed_histogram_sum(&fake, 0, IN_BOTH) + timed_histogram_sum(&fake, 0, IN_HANDLER) +
				 timed_histogram_sum(&fake, 0, OUTER),
			 3 + 3 * calls + 2 * in_handlers);
	assert_true(probe_stack_is_empty(probe_thread.stack));
	timed_profile_stop(&fake);
}

static struct calltap_times times;
static uint64_t every; /* traps to the next tick */

static void start_ticked(void)
{
	times.tick += 1000;
	probe_times = &times;
	start_profile();
}

static void stop_ticked(void)
{
	timed_profile_stop(&fake);
	probe_times = NULL;
}

static void registers_are_kept_under_ticks(void **state)
{
	start_ticked();
	for (int i = 0; i < 6; i++) {
		memset(seen_after, 0, sizeof(seen_after));
		call_with_registers(callee_ticked);
		check_registers();
		times.tick += i % 2 ? 1000 : 0;
	}
	assert_int_equal(timed_entry(&fake, 0, TICKED_CALLEE)->calls, 6);
	stop_ticked();
}

/* The tick passes between any two instructions, and in a handler's call. */
static void on_ticked_trap(int number, siginfo_t *info, void *context)
{
	if (traps++ % every == 0)
		times.tick += 1000;
	turns += ticked_in_handler(1);
	turns += ticked_in_both(1);
}

static void call_ticked(int n)
{
	turns += ticked_outer(n);
}

static void calls_under_ticks_are_counted(void **state)
{
	uint64_t calls = 0, in_handlers = 1, total = 0;

	start_ticked();
	every = 1;
	traps = 0;
	ticked_outer(1);
	on_ticked_trap(0, NULL, NULL);
	/* In the last rounds the tick does not pass between the entry and the exit of most calls. */
	for (every = 1; every < 1000; every += every < 20 ? 1 : every < 40 ? 7 : 300) {
		traps = 0;
		with_traps(on_ticked_trap, 0, call_ticked, (int)every);
		assert_true(traps > TRAPS_LEAST);
		in_handlers += traps;
		calls++;
		assert_int_equal(timed_entry(&fake, 0, TICKED_IN_HANDLER)->calls, in_handlers);
		assert_int_equal(timed_entry(&fake, 0, TICKED_OUTER)->calls, 1 + calls);
		assert_int_equal(timed_entry(&fake, 0, TICKED_RECURSIVE)->calls, 3 + 3 * calls);
		assert_int_equal(timed_entry(&fake, 0, TICKED_IN_BOTH)->calls, 2 + 2 * calls + in_handlers);
		assert_true(timed_entry(&fake, 0, TICKED_OUTER)->total - total <= (traps / every + 1) * 1000);
		assert_true(timed_entry(&fake, 0, TICKED_OUTER)->total - total >= (traps / every / 2) * 1000);
		total = timed_entry(&fake, 0, TICKED_OUTER)->total;
	}
	for (uint32_t id = TICKED_IN_HANDLER; id < FUNCTIONS; id++)
		assert_int_equal(timed_entry(&fake, 0, id)->outer, 0);
	assert_true(timed_entry(&fake, 0, TICKED_RECURSIVE)->total <= total);
	assert_int_equal(timed_head(&fake, 0)->vanished, 0);
	assert_true(probe_stack_is_empty(probe_thread.stack));
	stop_ticked();
}

/* A recorder's code, up to the end of its fast path: where traps come in, and from how many of them the caller is
 * found. */
struct recorder {
	void (*code)(void);
	uint64_t end, last, trapped, found;
};
static struct recorder recorders[] = {{.code = arch_entry_profile},
				      {.code = arch_exit_profile},
				      {.code = arch_entry_ticked},
				      {.code = arch_exit_ticked}};
#define RECORDERS (sizeof(recorders) / sizeof(recorders[0]))

static void look_for_caller(int number, siginfo_t *info, void *context)
{
	uint64_t pc = trap_pc(context);

	for (unsigned i = 0; i < RECORDERS; i++) {
		struct recorder *recorder = &recorders[i];

		if (pc < (uint64_t)recorder->code || pc >= recorder->end)
			continue;
		recorder->trapped++;
		recorder->found += finds_caller();
		if (pc > recorder->last)
			recorder->last = pc;
	}
}

static void call_in_both(int n)
{
	turns += in_both(n);
}

static void call_ticked_in_both(int n)
{
	turns += ticked_in_both(n);
}

static void callers_are_found_from_recorders(void **state)
{
	if (!RECORDERS_LEAD_TO_CALLERS)
		skip();
	for (unsigned i = 0; i < RECORDERS; i++)
		recorders[i].end = traps_end((uint64_t)recorders[i].code);
	start_profile();
	for (int i = 0; i < 3; i++)
		with_traps(look_for_caller, 0, call_in_both, i);
	timed_profile_stop(&fake);
	start_ticked();
	for (int i = 0; i < 3; i++)
		with_traps(look_for_caller, 0, call_ticked_in_both, i);
	stop_ticked();
	for (unsigned i = 0; i < RECORDERS; i++) {
		assert_true(recorders[i].trapped > 80);
		assert_int_equal(recorders[i].found, recorders[i].trapped);
		assert_true(recorders[i].last + 4 >= recorders[i].end); /* the return was looked at */
	}
}

static uint64_t wiped_at; /* so many traps before a handler forks */
static struct probe_table kept;

/* As in the child of a handler that forks: of what the kernel clears there, the recorders look at the table alone. */
static void wipe_once(int number, siginfo_t *info, void *context)
{
	if (traps++ != wiped_at)
		return;
	kept = *probe_thread.table;
	memset(probe_thread.table, 0, sizeof(*probe_thread.table));
	probe_context.enabled = 0;
}

/* Returns how many traps there are in the work. */
static uint64_t wipe_everywhere(void (*work)(int))
{
	for (wiped_at = 0;; wiped_at += TRAPS_TO_FORK) {
		work(1); /* ends what the call before it has left open in the table */
		traps = 0;
		with_traps(wipe_once, 0, work, 1);
		if (traps <= wiped_at)
			return wiped_at;
		*probe_thread.table = kept;
		probe_context.enabled = 1;
		assert_true(probe_stack_is_empty(probe_thread.stack));
	}
}

/* A child goes on in the midst of a recorder, without a table, and returns to its caller. */
static void children_of_handlers_go_on(void **state)
{
	start_profile();
	in_both(1); /* it has its histogram */
	assert_true(wipe_everywhere(call_in_both) > 80);
	timed_profile_stop(&fake);
	start_ticked();
	assert_true(wipe_everywhere(call_ticked_in_both) > 60);
	stop_ticked();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(registers_are_kept_by_profile), cmocka_unit_test(registers_are_kept_with_triggers),
		cmocka_unit_test(calls_in_between_are_counted),	 cmocka_unit_test(registers_are_kept_under_ticks),
		cmocka_unit_test(calls_under_ticks_are_counted), cmocka_unit_test(callers_are_found_from_recorders),
		cmocka_unit_test(children_of_handlers_go_on),
	};

	timed_patch(functions, FUNCTIONS);
	traps_add((uint64_t)arch_entry_profile, traps_end((uint64_t)arch_exit_profile));
	traps_add((uint64_t)arch_entry_ticked, traps_end((uint64_t)arch_exit_ticked));
	return cmocka_run_group_tests(tests, NULL, NULL);
}
