/*
 * The dispatcher of handlers (src/arch/<cpu>/runtime/handlers.S, src/probe/handlers.c): what handlers see, when they
 * are called and when not, and that the program has all its registers back; at each instruction, too.
 */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include <calltap/calltap.h>
#include <probe/unwound.h>
#include "handled.h"
#include "traps.h"

#define NOTES 64

enum { CALL, BOTH, LEAF, CALLER, TAIL, TAIL_TO_GRAPH, GRAPH, GRAPH_TO_HANDLED, IN_TRAP, OUTER, FUNCTIONS };

static volatile int turns;
static struct fake_arena fake;

TIMED_SITE static int leaf(int n)
{
	turns += n;
	return n + 1;
}

TIMED_SITE static int graph(int n)
{
	turns += n;
	return n + 2;
}

TIMED_SITE static int caller(int n)
{
	return leaf(n) + leaf(n);
}

TIMED_SITE static int tail(int n)
{
	return leaf(n + 10);
}

TIMED_SITE static int tail_to_graph(int n)
{
	return graph(n + 10);
}

TIMED_SITE static int graph_to_handled(int n)
{
	return leaf(n + 20);
}

TIMED_SITE static int in_trap(int n)
{
	turns += n;
	return n + 1;
}

TIMED_SITE static int outer(int n)
{
	turns += leaf(n);
	turns += leaf(n);
	turns += tail(n);
	return turns;
}

static const struct timed_function functions[FUNCTIONS] = {
	[CALL] = {callee_call, HANDLED_CALL},
	[BOTH] = {callee_both, HANDLED},
	[LEAF] = {leaf, HANDLED},
	[CALLER] = {caller, HANDLED},
	[TAIL] = {tail, HANDLED},
	[TAIL_TO_GRAPH] = {tail_to_graph, HANDLED},
	[GRAPH] = {graph, 0},
	[GRAPH_TO_HANDLED] = {graph_to_handled, 0},
	[IN_TRAP] = {in_trap, HANDLED},
	[OUTER] = {outer, HANDLED},
};

/* The handlers' notes, in order. */
struct note {
	unsigned slot;
	uint32_t id, flags;
	uint64_t data, caller, function, stack, argument, result;
};
static struct note notes[NOTES];
static unsigned noted;
static int answer[CALLTAP_HANDLERS_MAX]; /* answers of the entry handlers */
static uint64_t entries, exits;

static void note(unsigned slot, const struct calltap_call *call)
{
	notes[noted++ % NOTES] = (struct note){
		.slot = slot,
		.id = call->id,
		.flags = call->flags,
		.data = call->data,
		.caller = call->caller,
		.function = call->function,
		.stack = call->stack,
		.argument = calltap_call_argument(call, 0),
		.result = calltap_call_result(call),
	};
}

static int noting_entry(struct calltap_call *call, void *context)
{
	unsigned slot = (unsigned)(uintptr_t)context;

	note(slot, call);
	call->data = 100 + slot;
	entries++;
	return answer[slot];
}

static void noting_exit(struct calltap_call *call, void *context)
{
	note((unsigned)(uintptr_t)context, call);
	exits++;
}

static int counting_entry(struct calltap_call *call, void *context)
{
	++*(uint64_t *)context;
	return 0;
}

static void counting_exit(struct calltap_call *call, void *context)
{
	++((uint64_t *)context)[1];
}

static void put(unsigned slot, uint32_t flags)
{
	handled_register(slot, noting_entry, noting_exit, flags, (void *)(uintptr_t)slot);
}

static int setup(void **state)
{
	handled_start(&fake, 1);
	noted = 0;
	entries = exits = 0;
	memset(answer, 0, sizeof(answer));
	return 0;
}

static int teardown(void **state)
{
	assert_null(probe_thread.running);
	assert_true(probe_thread.stack == &probe_stack_none || probe_stack_is_empty(probe_thread.stack));
	handled_stop(&fake);
	return 0;
}

static void expect(unsigned i, unsigned slot, uint32_t id, uint32_t flags)
{
	assert_true(i < noted);
	assert_int_equal(notes[i].slot, slot);
	assert_int_equal(notes[i].id, id);
	assert_int_equal(notes[i].flags, flags);
	assert_int_equal(notes[i].function, (uint64_t)functions[id].function);
}

static void handlers_see_the_call(void **state)
{
	put(0, GENERAL | CALLTAP_HANDLER_DATA);
	handled_want(LEAF, 1, 0);
	for (int i = 0; i < 3; i++) { /* the first one goes through C */
		noted = 0;
		assert_int_equal(leaf(7), 8);
		assert_int_equal(noted, 2);
		expect(0, 0, LEAF, 0);
		expect(1, 0, LEAF, CALLTAP_CALL_EXIT);
		assert_int_equal(notes[0].argument, 7);
		assert_int_equal(notes[0].data, 0);
		assert_int_equal(notes[1].data, 100);
		assert_int_equal(notes[1].result, 8);
		assert_int_equal(notes[0].caller, notes[1].caller);
		assert_int_equal(notes[0].stack, notes[1].stack);
		assert_in_range(notes[0].caller, (uint64_t)handlers_see_the_call,
				(uint64_t)handlers_see_the_call + 1024);
	}
}

static void functions_without_handlers_run(void **state)
{
	for (int i = 0; i < 3; i++) {
		assert_int_equal(caller(3), 8);
		call_with_registers(callee_call);
		check_registers();
		call_with_registers(callee_both);
		check_registers();
	}
	handled_want(LEAF, 2, 0); /* a slot that nobody has, or that was disabled */
	assert_int_equal(caller(3), 8);
	assert_int_equal(caller(3), 8);
	assert_int_equal(noted, 0);
}

static void stubs_before_the_table_lead_to_nobody(void **state)
{
	probe_handled_set(NULL);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(caller(3), 8);
		assert_int_equal(tail(3), 14);
		call_with_registers(callee_both);
		check_registers();
	}
	assert_true(probe_thread.stack == &probe_stack_none || probe_stack_is_empty(probe_thread.stack));
}

static int showing_entry(struct calltap_call *call, void *context)
{
	check_shown(&call->registers, 1000);
	entries++;
	return 0;
}

static void showing_exit(struct calltap_call *call, void *context)
{
	check_shown(&call->registers, 2000);
	exits++;
}

static void registers_are_kept(void **state)
{
	for (unsigned flags = 0; flags < 4; flags++)
		for (unsigned slots = 1; slots < 8; slots++) {
			for (unsigned i = 0; i < 3; i++)
				handled_register(i, showing_entry, showing_exit, flags, NULL);
			handled_want(CALL, slots, 0);
			handled_want(BOTH, slots, 0);
			entries = exits = 0;
			for (int i = 0; i < 3; i++) {
				call_with_registers(callee_call);
				check_registers();
				call_with_registers(callee_both);
				check_registers();
			}
			assert_int_equal(entries, 6u * (unsigned)__builtin_popcount(slots));
			assert_int_equal(exits, entries / 2);
		}
}

static void each_slot_has_its_own_exit(void **state)
{
	put(0, GENERAL);
	put(1, GENERAL);
	put(23, GENERAL);
	answer[1] = 1;
	handled_want(LEAF, 1u << 23 | 3, 0);
	leaf(1);
	assert_int_equal(noted, 5);
	expect(0, 0, LEAF, 0);
	expect(1, 1, LEAF, 0);
	expect(2, 23, LEAF, 0);
	expect(3, 0, LEAF, CALLTAP_CALL_EXIT);
	expect(4, 23, LEAF, CALLTAP_CALL_EXIT);
	/* Alone on its function. */
	handled_want(LEAF, 2, 0);
	noted = 0;
	leaf(1);
	leaf(1);
	assert_int_equal(noted, 2);
	expect(1, 1, LEAF, 0);
}

static void only_entries_or_only_exits(void **state)
{
	handled_register(0, noting_entry, NULL, GENERAL, NULL);
	handled_register(1, NULL, noting_exit, GENERAL | CALLTAP_HANDLER_DATA, (void *)1);
	for (unsigned slots = 1; slots < 4; slots++) {
		noted = 0;
		handled_want(LEAF, slots, 0);
		leaf(1);
		leaf(1);
		assert_int_equal(noted, 2 * __builtin_popcount(slots));
		expect(0, slots == 2, LEAF, slots == 2 ? CALLTAP_CALL_EXIT : 0);
		if (slots == 2)
			assert_int_equal(notes[1].data, 0);
	}
}

static void what_is_registered_meanwhile_has_no_exit(void **state)
{
	put(0, GENERAL);
	handled_want(CALLER, 1, 0);
	handled_want(LEAF, 2, 0);
	handled_register(1, counting_entry, NULL, GENERAL, &entries);
	caller(1);
	assert_int_equal(noted, 2);
	for (int several = 0; several < 2; several++) {
		uint64_t slot;

		noted = 0;
		/* As if it were registered between: the frame's word is from before. */
		handled_want(CALLER, several ? 5 : 1, 0);
		put(0, GENERAL);
		handlers.slots[0].born = handlers.generation + 1;
		caller(1);
		assert_int_equal(noted, 1);
		expect(0, 0, CALLER, 0);
		slot = notes[0].stack - STACK_ABOVE_SLOT;
		assert_int_equal(*arch_who(slot) >> 32, handlers.generation);
	}
	/* The count begins anew at 0. */
	handlers.generation = ~0u - 1;
	noted = 0;
	put(0, GENERAL);
	handlers.generation = 3;
	caller(1);
	assert_int_equal(noted, 2);
}

static int calling_entry(struct calltap_call *call, void *context)
{
	note(0, call);
	leaf(1);
	caller(1);
	return 0;
}

static void calling_exit(struct calltap_call *call, void *context)
{
	note(0, call);
	leaf(1);
}

static void calls_in_handlers_are_missed(void **state)
{
	for (uint32_t flags = 0; flags < 2; flags++) {
		handled_register(0, calling_entry, calling_exit, flags, NULL);
		handled_want(LEAF, 1, 0);
		noted = 0;
		for (uint64_t i = 1; i < 4; i++) {
			leaf(1);
			assert_int_equal(noted, 2 * i);
			assert_int_equal(handlers.slots[0].missed, 4 * i);
		}
	}
}

static void tail_calls_end_the_caller(void **state)
{
	put(0, GENERAL | CALLTAP_HANDLER_DATA);
	put(1, 0);
	handled_want(LEAF, 3, 0);
	handled_want(TAIL, 1, 0);
	for (int i = 0; i < 3; i++) {
		noted = 0;
		assert_int_equal(tail(5), 16);
		assert_int_equal(noted, 6);
		expect(0, 0, TAIL, 0);
		expect(1, 0, TAIL, CALLTAP_CALL_EXIT | CALLTAP_CALL_TAIL);
		expect(2, 0, LEAF, 0);
		expect(3, 1, LEAF, 0);
		expect(4, 0, LEAF, CALLTAP_CALL_EXIT);
		expect(5, 1, LEAF, CALLTAP_CALL_EXIT);
		assert_int_equal(notes[1].data, 100);
		assert_int_equal(notes[2].data, 0);
		assert_int_equal(notes[4].data, 100);
		assert_int_equal(notes[1].caller, notes[0].caller);
		assert_int_equal(notes[4].caller, notes[0].caller);
	}
	/* The one in between wants nothing: its stub has the frame then. */
	handled_want(LEAF, 0, 0);
	noted = 0;
	assert_int_equal(tail(5), 16);
	assert_int_equal(noted, 2);
	expect(1, 0, TAIL, CALLTAP_CALL_EXIT | CALLTAP_CALL_TAIL);
}

/* A frame that an exit handler waits for stays; of one that nobody waits for, what lies in its planes is nothing. */
static void tail_calls_beside_the_tracer(void **state)
{
	put(0, GENERAL);
	handled_want(TAIL_TO_GRAPH, 1, 0);
	for (int i = 0; i < 3; i++) {
		noted = 0;
		assert_int_equal(tail_to_graph(5), 17);
		assert_int_equal(noted, 2);
		expect(1, 0, TAIL_TO_GRAPH, CALLTAP_CALL_EXIT);
		assert_int_equal(notes[1].result, 17);
	}
	assert_int_equal(fake.arena->untraced, 3);
	handled_want(LEAF, 1, 0);
	for (int i = 0; i < 3; i++) {
		noted = 0;
		assert_int_equal(graph_to_handled(5), 26); /* in its place, at_within() says that slot 0 waits */
		assert_int_equal(noted, 2);
		expect(0, 0, LEAF, 0);
		expect(1, 0, LEAF, CALLTAP_CALL_EXIT);
	}
}

static unsigned records(enum calltap_record_kind kind, uint32_t id)
{
	const struct calltap_ring *ring = fake_ring(&fake, 0);
	unsigned found = 0;

	for (uint64_t i = 0; i < ring->sub_count; i++) {
		const struct calltap_subbuf *sub = fake_sub(ring, i);

		for (const uint64_t *word = (const uint64_t *)(sub + 1);
		     word < (const uint64_t *)((const char *)sub + 4096); word++) {
			uint32_t words = calltap_record_kind(*word) == CALLTAP_REC_STACK ||
							 calltap_record_kind(*word) == CALLTAP_REC_TIME
						 ? 2
						 : 1;

			found += *word && calltap_record_kind(*word) == kind && calltap_record_id(*word) == id;
			word += words - 1;
		}
	}
	return found;
}

static void the_tracer_records_besides(void **state)
{
	static const uint32_t kinds[] = {0, CALLTAP_HANDLED_FULL_ENTRY, CALLTAP_HANDLED_FULL_EXIT,
					 CALLTAP_HANDLED_ROOT};

	put(0, GENERAL | CALLTAP_HANDLER_DATA);
	for (unsigned i = 0; i < 4; i++) {
		handled_want(LEAF, 1, CALLTAP_HANDLED_RECORD | kinds[i]);
		handled_want(CALLER, 0, CALLTAP_HANDLED_RECORD);
		noted = 0;
		assert_int_equal(caller(1), 4);
		assert_int_equal(noted, 4);
		assert_int_equal(notes[1].data, 100);
		assert_int_equal(records(CALLTAP_REC_ENTRY, LEAF), 2 * (i + 1));
		assert_int_equal(records(CALLTAP_REC_EXIT, LEAF), 2 * (i + 1));
		assert_int_equal(records(CALLTAP_REC_EXIT, CALLER), i + 1);
	}
	handled_want(LEAF, 1, CALLTAP_HANDLED_RECORD);
	handled_want(TAIL, 1, CALLTAP_HANDLED_RECORD);
	tail(1);
	assert_int_equal(records(CALLTAP_REC_TAIL, LEAF), 1);
	/* From one that is recorded to one that is not, and back. */
	handled_want(LEAF, 1, 0);
	tail(1);
	assert_int_equal(records(CALLTAP_REC_ENTRY, TAIL), 2);
	assert_int_equal(records(CALLTAP_REC_EXIT, TAIL), 1);
	handled_want(LEAF, 1, CALLTAP_HANDLED_RECORD);
	handled_want(TAIL, 1, 0);
	tail(1);
	assert_int_equal(records(CALLTAP_REC_ENTRY, TAIL), 2);
	assert_int_equal(records(CALLTAP_REC_ENTRY, LEAF), 9);
}

static void when_it_has_stopped_only_the_tracer_goes_on(void **state)
{
	put(0, GENERAL);
	handled_want(LEAF, 1, CALLTAP_HANDLED_RECORD);
	leaf(1);
	assert_int_equal(noted, 2);
	probe_handled_stop();
	leaf(1);
	assert_int_equal(noted, 2);
	assert_int_equal(records(CALLTAP_REC_EXIT, LEAF), 2);
}

static sigjmp_buf way_out;
static uint64_t way_out_sp;

static void on_usr1(int number)
{
	if (number == SIGUSR1) /* as the agent does in front of longjmp */
		probe_jump(way_out_sp);
	siglongjmp(way_out, 1);
}

static int raising_entry(struct calltap_call *call, void *context)
{
	entries++;
	raise((int)(intptr_t)context);
	return 0;
}

static void raising_exit(struct calltap_call *call, void *context)
{
	exits++;
	raise((int)(intptr_t)context);
}

static void one_that_is_left_is_not_waited_for(void **state)
{
	way_out_sp = (uint64_t)__builtin_frame_address(0) - 64;
	signal(SIGUSR1, on_usr1);
	signal(SIGUSR2, on_usr1); /* nobody tells of this jump */
	handled_want(LEAF, 1, 0);
	for (int number = 0; number < 4; number++) {
		const bool at_exit = number & 1;

		handled_register(0, at_exit ? NULL : raising_entry, at_exit ? raising_exit : NULL, GENERAL,
				 (void *)(intptr_t)(number & 2 ? SIGUSR2 : SIGUSR1));
		entries = exits = 0;
		for (volatile int i = 0; i < 3; i++) {
			if (!sigsetjmp(way_out, 1))
				caller(1);
			if (!(number & 2))
				assert_null(probe_thread.running);
		}
		assert_int_equal(entries + exits, 3);
		assert_int_equal(handlers.slots[0].missed, 0);
	}
	/* The next call at this depth or above finds out. */
	handled_register(0, counting_entry, NULL, GENERAL, &entries);
	leaf(1);
	signal(SIGUSR1, SIG_DFL);
	signal(SIGUSR2, SIG_DFL);
	leaf(1);
	assert_null(probe_thread.running);
}

static void on_nested(int number)
{
	turns += leaf(1) + in_trap(1);
}

static void signals_in_handlers_find_the_guard(void **state)
{
	signal(SIGUSR1, on_nested);
	handled_register(0, raising_entry, raising_exit, GENERAL, (void *)SIGUSR1);
	handled_want(LEAF, 1, 0);
	leaf(1);
	leaf(1);
	assert_int_equal(entries, 2);
	assert_int_equal(exits, 2);
	assert_int_equal(handlers.slots[0].missed, 4);
	signal(SIGUSR1, SIG_DFL);
}

static int forking_entry(struct calltap_call *call, void *context)
{
	*(pid_t *)context = fork();
	if (!*(pid_t *)context)
		leaf(1); /* must not be handled: it would fork again */
	return 0;
}

static void in_new_process(void)
{
	probe_context.enabled = 0;
}

static void fork_in_a_handler(void **state)
{
	pid_t child = 1;
	int status;

	handled_register(0, forking_entry, NULL, GENERAL, &child);
	handled_want(LEAF, 1, 0);
	probe_context.on_new_process = in_new_process;
	/* As the agent has it. */
	assert_int_equal(madvise(probe_context.wiped, sizeof(*probe_context.wiped), MADV_WIPEONFORK), 0);
	leaf(1);
	if (!child)
		_exit(handlers.slots[0].missed == 1 && !probe_thread.running ? 0 : 1);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

static void *other_thread(void *unused)
{
	leaf(1);
	return NULL;
}

/* Nobody would know of its handlers, so it calls none. */
static void threads_without_a_ring_miss_all(void **state)
{
	pthread_t thread;

	put(0, GENERAL);
	handled_want(LEAF, 1, 0);
	leaf(1);
	assert_int_equal(noted, 2);
	assert_int_equal(pthread_create(&thread, NULL, other_thread, NULL), 0);
	pthread_join(thread, NULL);
	assert_int_equal(noted, 2);
	assert_int_equal(handlers.slots[0].missed, 1);
}

static int vector_entry(struct calltap_call *call, void *context)
{
	const uint8_t *shown = (const uint8_t *)call->vectors + VECTORS_AT;

	assert_memory_equal(shown, context, VECTORS_BYTES);
	assert_int_equal((uint64_t)__builtin_frame_address(0) % 16, 0);
	spoil_vectors();
	entries++;
	return 0;
}

static void vector_exit(struct calltap_call *call, void *context)
{
	const uint8_t *shown = (const uint8_t *)call->vectors + VECTORS_AT;

	assert_memory_equal(shown, context, VECTORS_BYTES);
	spoil_vectors();
	exits++;
}

static void vectors_are_kept(void **state)
{
	static struct vectors in, out;

	handled_register(0, vector_entry, vector_exit, 0, in.bytes);
	handled_want(BOTH, 1, 0);
	for (int round = 0; round < 3; round++) {
		for (unsigned i = 0; i < sizeof(in.bytes); i++)
			in.bytes[i] = round == 1 ? 0 : (uint8_t)(i * 7 + 1); /* 0: as after a reset */
		in.control = vectors_controls[round == 2];
		memset(&out, 0xee, sizeof(out));
		call_with_vectors(&in, &out);
		assert_memory_equal(in.bytes, out.bytes, sizeof(in.bytes));
		assert_int_equal(in.control, out.control);
	}
	assert_int_equal(entries, 3);
	assert_int_equal(exits, 3);
}

/* At each instruction: a SIGTRAP comes after every one, and its handler calls handled functions, too. */
static uint64_t traps, unwound;
static int trap_flags; /* SA_ONSTACK: it comes on a stack of its own */
static uint64_t outer_counts[2], leaf_counts[2], tail_counts[2], trap_counts[2];

/* Callers are found from each instruction of the dispatcher, but where a stub is on the way, whose rules nobody has
 * been told here. */
static void check_callers(uint64_t at)
{
	extern const char arch_call_handled_code[] __asm__("arch_call_handled");
	extern const char arch_exit_handled_code[] __asm__("arch_exit_handled");
	if (at < (uint64_t)arch_call_handled_code || at >= (uint64_t)arch_exit_handled_code + 1024)
		return;
	unwound += finds_caller();
}

static int walking_entry(struct calltap_call *call, void *context)
{
	entries += finds_caller();
	return 0;
}

static void walking_exit(struct calltap_call *call, void *context)
{
	exits += finds_caller();
}

static void call_leaf(int n)
{
	leaf(n);
	leaf(n);
}

static void on_trap(int number, siginfo_t *info, void *context)
{
	turns += in_trap(1);
	turns += leaf(1);
	traps++;
	check_callers(trap_pc(context));
}

static void trap_all(void (*work)(int), int n)
{
	traps = 0;
	with_traps(on_trap, trap_flags, work, n);
}

static void call_outer(int n)
{
	turns += outer(n);
}

static void call_both(int n)
{
	call_with_registers(callee_both);
}

static void callers_are_found_from_handlers(void **state)
{
	handled_want(LEAF, 1, 0);
	for (uint32_t flags = 0; flags < 2; flags++) {
		entries = exits = 0;
		handled_register(0, walking_entry, walking_exit, flags, NULL);
		with_traps(NULL, 0, call_leaf, 0);
		assert_int_equal(entries, 2);
		assert_int_equal(exits, 2);
	}
}

static void trap_each_instruction(uint32_t flags)
{
	uint64_t calls;

	handled_register(0, counting_entry, counting_exit, flags, outer_counts);
	handled_register(1, counting_entry, counting_exit, flags, leaf_counts);
	handled_register(2, counting_entry, counting_exit, flags | CALLTAP_HANDLER_DATA, tail_counts);
	handled_register(3, counting_entry, counting_exit, flags, trap_counts);
	memset(outer_counts, 0, sizeof(outer_counts));
	memset(leaf_counts, 0, sizeof(leaf_counts));
	memset(tail_counts, 0, sizeof(tail_counts));
	memset(trap_counts, 0, sizeof(trap_counts));
	handled_want(OUTER, 1, 0);
	handled_want(LEAF, 2, 0);
	handled_want(TAIL, 4, 0);
	handled_want(IN_TRAP, 8, 0);
	handled_want(BOTH, 1, 0);
	unwound = 0;
	for (int i = 1; i < 3; i++) {
		trap_all(call_outer, i);
		assert_true(traps > 300);
		assert_int_equal(outer_counts[0], 2 * i - 1);
		trap_all(call_both, i);
		check_registers();
		assert_null(probe_thread.running);
	}
	assert_true(unwound >= FOUND_LEAST(traps));
	assert_int_equal(outer_counts[0], 4);
	assert_int_equal(outer_counts[1], 4);
	assert_int_equal(tail_counts[0], 2);
	assert_int_equal(tail_counts[1], 2);
	assert_int_equal(leaf_counts[0], leaf_counts[1]);
	assert_int_equal(trap_counts[0], trap_counts[1]);
	calls = leaf_counts[0] + handlers.slots[1].missed;
	assert_int_equal(trap_counts[0] + handlers.slots[3].missed, calls - 6);
}

static bool is_empty_stack(uint64_t address)
{
	const struct probe_stack *stack = probe_stack_find(&probe_thread, address);

	return stack && probe_stack_is_empty(stack);
}

static void at_each_instruction(void **state)
{
	for (uint32_t flags = 0; flags < 2; flags++)
		trap_each_instruction(flags);
}

static void at_each_instruction_on_another_stack(void **state)
{
	static char memory[1 << 16];
	const stack_t alternate = {.ss_sp = memory, .ss_size = sizeof(memory)}, none = {.ss_flags = SS_DISABLE};

	assert_int_equal(sigaltstack(&alternate, NULL), 0);
	/* As the agent does, which stands in front of that. */
	probe_stack_announce(&probe_thread, (uint64_t)memory, (uint64_t)memory + sizeof(memory), STACK_SIGNAL);
	trap_flags = SA_ONSTACK;
	for (uint32_t flags = 0; flags < 2; flags++)
		trap_each_instruction(flags);
	trap_flags = 0;
	assert_true(is_empty_stack((uint64_t)&alternate));
	assert_true(is_empty_stack((uint64_t)memory + sizeof(memory) / 2));
	assert_int_equal(sigaltstack(&none, NULL), 0);
	probe_stack_disable(&probe_thread);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(handlers_see_the_call, setup, teardown),
		cmocka_unit_test_setup_teardown(functions_without_handlers_run, setup, teardown),
		cmocka_unit_test_setup_teardown(stubs_before_the_table_lead_to_nobody, setup, teardown),
		cmocka_unit_test_setup_teardown(when_it_has_stopped_only_the_tracer_goes_on, setup, teardown),
		cmocka_unit_test_setup_teardown(registers_are_kept, setup, teardown),
		cmocka_unit_test_setup_teardown(each_slot_has_its_own_exit, setup, teardown),
		cmocka_unit_test_setup_teardown(only_entries_or_only_exits, setup, teardown),
		cmocka_unit_test_setup_teardown(what_is_registered_meanwhile_has_no_exit, setup, teardown),
		cmocka_unit_test_setup_teardown(calls_in_handlers_are_missed, setup, teardown),
		cmocka_unit_test_setup_teardown(tail_calls_end_the_caller, setup, teardown),
		cmocka_unit_test_setup_teardown(tail_calls_beside_the_tracer, setup, teardown),
		cmocka_unit_test_setup_teardown(the_tracer_records_besides, setup, teardown),
		cmocka_unit_test_setup_teardown(one_that_is_left_is_not_waited_for, setup, teardown),
		cmocka_unit_test_setup_teardown(signals_in_handlers_find_the_guard, setup, teardown),
		cmocka_unit_test_setup_teardown(fork_in_a_handler, setup, teardown),
		cmocka_unit_test_setup_teardown(threads_without_a_ring_miss_all, setup, teardown),
		cmocka_unit_test_setup_teardown(vectors_are_kept, setup, teardown),
		cmocka_unit_test_setup_teardown(callers_are_found_from_handlers, setup, teardown),
		cmocka_unit_test_setup_teardown(at_each_instruction, setup, teardown),
		cmocka_unit_test_setup_teardown(at_each_instruction_on_another_stack, setup, teardown),
	};

	handled_patch(functions, FUNCTIONS);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
