/*
 * Calls that are recorded by way of the dispatcher, for further instances and for the session, without handlers
 * (src/probe/instances.c): each instance gets its records, and the program has all its registers back; at each
 * instruction, too.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <probe/instances.h>
#include "handled.h"
#include "traps.h"

#define DEPTH 64
#define ONE   (1ull << CALLTAP_HANDLED_INSTANCES_AT | CALLTAP_HANDLED_INSTANCES)
#define TWO   (2ull << CALLTAP_HANDLED_INSTANCES_AT | CALLTAP_HANDLED_INSTANCES)
#define OWN   CALLTAP_HANDLED_RECORD

enum { BOTH, LEAF, CALLER, TAIL, IN_TRAP, OUTER, WITHIN, FUNCTIONS };

static volatile int turns;
static struct fake_arena fake, further[PROBE_SETS];
static uint64_t traps, found;

TIMED_SITE static int leaf(int n)
{
	turns += n;
	return n + 1;
}

TIMED_SITE static int caller(int n)
{
	return leaf(n) + leaf(n);
}

TIMED_SITE static int tail(int n)
{
	return leaf(n + 10);
}

TIMED_SITE static int in_trap(int n)
{
	turns += n;
	return n + 1;
}

TIMED_SITE static int outer(int n)
{
	turns += caller(n);
	turns += tail(n);
	turns += leaf(n);
	return turns;
}

static void (*begin_within)(void);

TIMED_SITE static int within(int n)
{
	if (begin_within)
		begin_within();
	turns += n;
	return n + 1;
}

static const struct timed_function functions[FUNCTIONS] = {
	[BOTH] = {callee_both, HANDLED}, [LEAF] = {leaf, HANDLED},	 [CALLER] = {caller, HANDLED},
	[TAIL] = {tail, HANDLED},	 [IN_TRAP] = {in_trap, HANDLED}, [OUTER] = {outer, HANDLED},
	[WITHIN] = {within, HANDLED},
};

static int setup(void **state)
{
	handled_start(&fake, 1);
	memset(probe_context.writers, 0, sizeof(probe_context.writers));
	for (unsigned set = 1; set < PROBE_SETS; set++) {
		/*
		 * Room for at_each_instruction() where its frames lie on both sides of a granule's end: each call takes
		 * the slow way then.
		 */
		fake_arena_create(&further[set], CALLTAP_MODE_DROP, 1, 4 << 20, 2);
		probe_context.wiped->sets[set].arenas[0] = further[set].arena;
		probe_context.wiped->sets[set].arena_count = 1;
		probe_context.wiped->sets[set].on = set;
		probe_context.wiped->plain[set] = set;
	}
	return 0;
}

static int teardown(void **state)
{
	assert_null(probe_thread.running);
	assert_int_equal(probe_thread.sharing, 0);
	assert_true(probe_thread.stack == &probe_stack_none || probe_stack_is_empty(probe_thread.stack));
	for (unsigned set = 1; set < PROBE_SETS; set++) {
		assert_int_equal(probe_thread.further[set - 1].depth, 0);
		fake_arena_destroy(&further[set]);
	}
	handled_stop(&fake);
	return 0;
}

/* The records of a ring, all frames being closed: entries and tails by function, and UNWIND. */
struct told {
	unsigned entries[FUNCTIONS], tails[FUNCTIONS], unwound, deepest;
};

static void take_record(struct told *told, uint64_t word, uint32_t *open, unsigned *depth)
{
	uint32_t id = calltap_record_id(word);

	switch (calltap_record_kind(word)) {
	case CALLTAP_REC_ENTRY:
		assert_true(*depth < DEPTH && id < FUNCTIONS);
		open[(*depth)++] = id;
		told->entries[id]++;
		told->deepest = *depth > told->deepest ? *depth : told->deepest;
		break;
	case CALLTAP_REC_EXIT:
		assert_true(*depth);
		assert_int_equal(open[--*depth], id);
		break;
	case CALLTAP_REC_TAIL:
		assert_true(*depth && id < FUNCTIONS);
		open[*depth - 1] = id;
		told->tails[id]++;
		break;
	case CALLTAP_REC_UNWIND:
		assert_true(*depth >= id);
		*depth -= id;
		told->unwound += id;
		break;
	default:
		break;
	}
}

static struct told read_ring(const struct fake_arena *arena)
{
	const struct calltap_ring *ring = fake_ring(arena, 0);
	struct told told = {0};
	uint32_t open[DEPTH];
	unsigned depth = 0;

	assert_int_equal(ring->lost, 0);
	for (uint64_t number = 0; number < ring->opened; number++) {
		const uint64_t *words = (const uint64_t *)(fake_sub(ring, number) + 1);
		size_t count = (ring->sub_size - sizeof(struct calltap_subbuf)) / sizeof(*words);

		/* A slot stays empty when a handler opened the next sub-buffer before its taker looked where it lies.
		 */
		for (size_t i = 0; i < count; i += calltap_record_words(words[i]))
			if (words[i])
				take_record(&told, words[i], open, &depth);
	}
	assert_int_equal(depth, 0);
	return told;
}

static void each_has_what_it_wants(void **state)
{
	struct told one, two, own;

	handled_want(CALLER, 0, ONE);
	handled_want(LEAF, 0, ONE | TWO);
	handled_want(OUTER, 0, OWN);
	handled_want(TAIL, 0, OWN | TWO);
	for (int i = 0; i < 5; i++) /* the first one's records are by the slow way */
		outer(i);
	one = read_ring(&further[1]);
	two = read_ring(&further[2]);
	own = read_ring(&fake);
	assert_int_equal(one.entries[CALLER], 5);
	assert_int_equal(one.entries[LEAF], 20);
	assert_int_equal(one.entries[TAIL] + one.entries[OUTER] + one.deepest, 2);
	assert_int_equal(two.entries[LEAF] + two.tails[LEAF], 20);
	assert_int_equal(two.entries[TAIL], 5);
	assert_int_equal(two.entries[CALLER] + two.entries[OUTER], 0);
	assert_int_equal(own.entries[OUTER], 5);
	assert_int_equal(own.entries[TAIL], 5);
	assert_int_equal(own.entries[LEAF] + own.entries[CALLER] + own.unwound, 0);
}

static void registers_are_kept(void **state)
{
	static const uint64_t whose[] = {ONE, TWO, ONE | TWO, OWN, OWN | ONE, OWN | ONE | TWO};

	for (size_t i = 0; i < sizeof(whose) / sizeof(whose[0]); i++) {
		handled_want(BOTH, 0, whose[i]);
		for (int turn = 0; turn < 3; turn++) {
			call_with_registers(callee_both);
			check_registers();
		}
	}
	assert_int_equal(read_ring(&further[1]).entries[BOTH], 12);
	assert_int_equal(read_ring(&fake).entries[BOTH], 9);
}

static void depth_is_limited_for_each_by_itself(void **state)
{
	struct told one;

	for (unsigned function = LEAF; function < FUNCTIONS; function++)
		handled_want(function, 0, ONE | TWO);
	probe_context.wiped->plain[1] = 0;
	probe_context.wiped->sets[1].depth_max = 2;
	for (int i = 0; i < 3; i++)
		outer(1);
	one = read_ring(&further[1]);
	assert_int_equal(one.deepest, 2);
	assert_int_equal(one.entries[OUTER], 3);
	assert_int_equal(one.entries[CALLER], 3);
	assert_int_equal(one.entries[LEAF] + one.tails[LEAF], 6);
	assert_int_equal(read_ring(&further[2]).deepest, 3);
	probe_context.wiped->sets[1].depth_max = 0;
	outer(1);
	assert_int_equal(read_ring(&further[1]).deepest, 3);
}

static void short_calls_leave_no_record(void **state)
{
	struct told one;

	handled_want(CALLER, 0, ONE | TWO);
	handled_want(LEAF, 0, ONE | TWO | OWN);
	probe_context.wiped->plain[1] = 0;
	probe_context.wiped->sets[1].threshold_ticks = 1ull << 31;
	for (int i = 0; i < 4; i++)
		caller(1);
	one = read_ring(&further[1]);
	assert_int_equal(one.entries[CALLER] + one.entries[LEAF], 0);
	assert_int_equal(read_ring(&further[2]).entries[LEAF], 8);
	assert_int_equal(read_ring(&fake).entries[LEAF], 8);
	probe_context.wiped->sets[1].threshold_ticks = 1;
	caller(1);
	assert_int_equal(read_ring(&further[1]).entries[CALLER], 1);
}

/* Ended, or nothing is recorded any more: calls go on as they did. */
static void one_that_has_ended_gets_nothing(void **state)
{
	handled_want(OUTER, 0, ONE | OWN);
	handled_want(LEAF, 0, OWN);
	outer(1);
	probe_context.wiped->plain[1] = 0;
	probe_context.wiped->sets[1].on = 0;
	outer(1);
	assert_int_equal(read_ring(&further[1]).entries[OUTER], 1);
	assert_int_equal(read_ring(&fake).entries[OUTER], 2);
	probe_context.enabled = 0;
	outer(1);
	probe_context.enabled = 1;
	assert_int_equal(read_ring(&fake).entries[OUTER], 2);
}

/* From each instruction of the dispatcher, but where a stub is on the way, whose rules nobody has been told here. */
#define SLOTS	    64
#define EVERY_EVENT (CALLTAP_EVENT_ENTERED | CALLTAP_EVENT_LEFT)

static struct calltap_triggers *triggers;

static void begin_triggers(void)
{
	triggers = timed_triggers(FUNCTIONS, SLOTS);
	triggers->min_gap = 0;
	for (uint32_t id = LEAF; id < FUNCTIONS; id++)
		timed_limit(triggers, id)->kinds = EVERY_EVENT;
}

static void end_triggers(void)
{
	assert_int_equal(probe_triggers_set(NULL, 0), 0);
}

/* The next event is this one; its times are in order and not before those of the last one. */
static void expect_event(uint32_t id, uint32_t kind, bool recorded)
{
	static uint64_t last;
	const struct calltap_event *event = timed_event(triggers, (uint32_t)triggers->read++);
	uint64_t time = kind == CALLTAP_EVENT_ENTERED ? event->entry_ticks : event->exit_ticks;

	assert_true(triggers->read <= triggers->taken);
	assert_int_equal(event->function, id);
	assert_int_equal(event->kind, kind);
	assert_int_equal(event->flags, recorded ? CALLTAP_EVENT_RECORDED : 0);
	assert_true(time >= last && time >= event->entry_ticks);
	last = time;
}

/* Each call is told once, with who has recorded it; what tail-calls is left when it jumps. */
static void triggers_see_calls_of_all(void **state)
{
	begin_triggers();
	handled_want(LEAF, 0, ONE);
	handled_want(CALLER, 0, ONE | OWN);
	handled_want(TAIL, 0, ONE);
	handled_want(IN_TRAP, 0, OWN);
	caller(1);
	expect_event(CALLER, CALLTAP_EVENT_ENTERED, true);
	for (int i = 0; i < 2; i++) {
		expect_event(LEAF, CALLTAP_EVENT_ENTERED, false);
		expect_event(LEAF, CALLTAP_EVENT_LEFT, false);
	}
	expect_event(CALLER, CALLTAP_EVENT_LEFT, true);
	tail(1);
	expect_event(TAIL, CALLTAP_EVENT_ENTERED, false);
	expect_event(TAIL, CALLTAP_EVENT_LEFT, false);
	expect_event(LEAF, CALLTAP_EVENT_ENTERED, false);
	expect_event(LEAF, CALLTAP_EVENT_LEFT, false);
	in_trap(1);
	expect_event(IN_TRAP, CALLTAP_EVENT_ENTERED, true);
	expect_event(IN_TRAP, CALLTAP_EVENT_LEFT, true);
	timed_limit(triggers, LEAF)->kinds = 0; /* the usual way from now on */
	leaf(1);
	assert_int_equal(triggers->taken, triggers->read);
	end_triggers();
}

/* Calls that the instance's limits leave out are told, too, with their ends. */
static void triggers_see_what_is_not_recorded(void **state)
{
	struct probe_set *set = &probe_context.wiped->sets[1];

	set->depth_max = 1;
	probe_context.wiped->plain[1] = 0;
	begin_triggers();
	handled_want(LEAF, 0, ONE);
	handled_want(CALLER, 0, ONE | OWN);
	caller(1);
	expect_event(CALLER, CALLTAP_EVENT_ENTERED, true);
	for (int i = 0; i < 2; i++) {
		expect_event(LEAF, CALLTAP_EVENT_ENTERED, false);
		expect_event(LEAF, CALLTAP_EVENT_LEFT, false);
	}
	expect_event(CALLER, CALLTAP_EVENT_LEFT, true);
	end_triggers();
	set->depth_max = 0;
	assert_int_equal(read_ring(&further[1]).entries[LEAF], 0);
}

/* A call that was entered before there were triggers has no time, whatever lies in its place. */
static void earlier_calls_are_not_told(void **state)
{
	handled_want(WITHIN, 0, ONE);
	begin_triggers();
	within(1);
	expect_event(WITHIN, CALLTAP_EVENT_ENTERED, false);
	expect_event(WITHIN, CALLTAP_EVENT_LEFT, false);
	end_triggers();
	begin_within = begin_triggers;
	within(1);
	begin_within = NULL;
	assert_int_equal(triggers->taken, 0);
	within(1);
	expect_event(WITHIN, CALLTAP_EVENT_ENTERED, false);
	expect_event(WITHIN, CALLTAP_EVENT_LEFT, false);
	end_triggers();
}

/* A trigger that comes while a call runs: the call was timed without one, for there was the file. */
static void ask_for_the_end(void)
{
	timed_limit(triggers, WITHIN)->kinds = CALLTAP_EVENT_LEFT;
}

static void a_question_may_come_within_the_call(void **state)
{
	uint64_t before = arch_clock();

	handled_want(WITHIN, 0, ONE);
	begin_triggers();
	timed_limit(triggers, WITHIN)->kinds = 0;
	begin_within = ask_for_the_end;
	within(1);
	begin_within = NULL;
	assert_int_equal(triggers->taken, 1);
	assert_true(timed_event(triggers, 0)->entry_ticks > before);
	expect_event(WITHIN, CALLTAP_EVENT_LEFT, false);
	end_triggers();
}

static void check_callers(uint64_t at)
{
	extern const char from[] __asm__("arch_entry_handled"), to[] __asm__("arch_exit_handled");

	if (at < (uint64_t)from || at >= (uint64_t)to + 1024)
		return;
	found += finds_caller();
}

static void on_trap(int number, siginfo_t *info, void *context)
{
	turns += in_trap(1);
	turns += leaf(1);
	traps++;
	check_callers(trap_pc(context));
}

static void call_outer(int n)
{
	turns += outer(n);
}

static void call_both(int n)
{
	call_with_registers(callee_both);
}

/* A SIGTRAP comes after every one, and its handler makes calls that are recorded, too. */
static void at_each_instruction(void **state)
{
	static const uint64_t whose[] = {ONE, ONE | OWN, ONE | TWO | OWN};
	uint64_t all = 0, outers = 0;

	for (size_t i = 0; i < sizeof(whose) / sizeof(whose[0]); i++) {
		struct told one;

		for (unsigned function = 0; function < FUNCTIONS; function++)
			handled_want(function, 0, whose[i]);
		for (int turn = 0; turn < 2; turn++) {
			traps = found = 0;
			with_traps(on_trap, 0, call_outer, turn);
			assert_true(traps > 300 && found > 60);
			all += traps;
			outers++;
			with_traps(on_trap, 0, call_both, turn);
			check_registers();
			all += traps;
		}
		one = read_ring(&further[1]);
		assert_int_equal(one.entries[OUTER], outers);
		assert_int_equal(one.unwound, 0);
		assert_true(one.entries[IN_TRAP] > all / 2);
	}
}

int main(void)
{
#define case_of(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		case_of(each_has_what_it_wants),
		case_of(registers_are_kept),
		case_of(depth_is_limited_for_each_by_itself),
		case_of(short_calls_leave_no_record),
		case_of(one_that_has_ended_gets_nothing),
		case_of(triggers_see_calls_of_all),
		case_of(triggers_see_what_is_not_recorded),
		case_of(earlier_calls_are_not_told),
		case_of(a_question_may_come_within_the_call),
		case_of(at_each_instruction),
	};

	handled_patch(functions, FUNCTIONS);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
