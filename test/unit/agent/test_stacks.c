/*
 * The search for the stack that a slot lies on (src/probe/stacks.c): announced stacks side by side, stacks found by
 * their first slot, signal stacks, memory that is used again.  The addresses are made up: no code here reads the
 * stacks themselves.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <probe/thread.h>
#include <probe/unwound.h>

#define KIB  ((uint64_t)1 << 10)
#define MIB  ((uint64_t)1 << 20)
#define AREA ((uint64_t)0x123400000000) /* far from everything of this process */

static struct probe_wiped wiped;

/* A new thread's state, in memory of its own for each test. */
static struct probe_thread *fresh(void)
{
	probe_context.wiped = &wiped;
	probe_thread.stack = &probe_stack_none;
	probe_thread.signal = NULL;
	return &probe_thread;
}

static void side_by_side(void **state)
{
	struct probe_thread *thread = fresh();
	uint64_t low = AREA, high = AREA + 16 * KIB;
	struct probe_stack *a, *b;

	probe_stack_announce(thread, low, low + 16 * KIB, 0);
	probe_stack_announce(thread, high, high + 16 * KIB, 0);
	a = probe_stack_settle(thread, low + 16 * KIB - 8);
	b = probe_stack_settle(thread, high + 8);
	assert_ptr_not_equal(a, b);
	assert_ptr_equal(thread->stack, b);
	assert_ptr_equal(b->from, a);
	assert_ptr_equal(probe_stack_settle(thread, low), a);
	assert_int_equal(a->low, low);
	assert_int_equal(b->low, high);
}

/* A stack that nobody told of reaches 32 KiB below its innermost frame, and not into the next one. */
static void found(void **state)
{
	struct probe_thread *thread = fresh();
	uint64_t first = AREA + MIB + 40;
	struct probe_stack *stack = probe_stack_settle(thread, first), *other;

	assert_ptr_equal(probe_stack_settle(thread, first - 30 * KIB), stack);
	probe_stack_set_top(stack, first - 30 * KIB);
	assert_ptr_equal(probe_stack_settle(thread, first - 60 * KIB), stack);
	other = probe_stack_settle(thread, first - 200 * KIB);
	assert_ptr_not_equal(other, stack);
	assert_ptr_equal(probe_stack_settle(thread, first), stack);
	/* Told of now: the stack above ends there, however far it seemed to reach. */
	probe_stack_announce(thread, first - 80 * KIB, first - 50 * KIB, 0);
	assert_true(stack->lowest >= first - 50 * KIB);
	other = probe_stack_settle(thread, first - 50 * KIB - 16);
	assert_ptr_not_equal(other, stack);
	assert_int_equal(other->end, first - 50 * KIB);
}

/* A stack that was found by a slot in its middle grows upwards. */
static void raised(void **state)
{
	struct probe_thread *thread = fresh();
	uint64_t first = AREA + 4 * MIB + 4000;
	struct probe_stack *stack = probe_stack_settle(thread, first);

	probe_stack_set_top(stack, first);
	stack = probe_stack_settle(thread, first + 6 * KIB);
	assert_ptr_equal(thread->stack, stack);
	assert_ptr_equal(probe_stack_find(thread, first), stack);
	assert_int_equal(probe_stack_top(stack), first);
}

/* A signal stack in a local array of a coroutine; its frames all go through C; another thread has no use for it. */
static void signal_stack(void **state)
{
	struct probe_thread *thread = fresh(), other = {.stack = &probe_stack_none};
	uint64_t lo = AREA + 8 * MIB, hi = lo + 256 * KIB, array = hi - 64 * KIB;
	struct probe_stack *coroutine, *handlers;

	probe_stack_announce(thread, lo, hi, 0);
	coroutine = probe_stack_settle(thread, hi - 64);
	probe_stack_set_top(coroutine, array - 64); /* a frame inside the one with the array */
	probe_stack_made(array, array + 32 * KIB, true);
	assert_non_null(thread->signal);
	handlers = probe_stack_settle(thread, array + 32 * KIB - 8);
	assert_ptr_equal(handlers, thread->signal);
	assert_int_equal(handlers->low, ~(uint64_t)0);
	probe_stack_set_top(handlers, array + 64);
	assert_int_equal(handlers->top, (array + 64) | STACK_TO_C);
	assert_int_equal(probe_stack_top(handlers), array + 64);
	assert_ptr_equal(probe_stack_find(&other, array + 64), coroutine);
	/* Deeper than the array, and above it. */
	assert_ptr_equal(probe_stack_settle(thread, lo + 8), coroutine);
	assert_ptr_equal(probe_stack_settle(thread, array + 40 * KIB), coroutine);
	/* Turned off while it has frames: a coroutine's from now on. */
	probe_stack_disable(thread);
	assert_null(thread->signal);
	assert_ptr_equal(probe_stack_find(thread, array + 64), handlers);
	assert_int_equal(handlers->top, array + 64);
}

static void used_again(void **state)
{
	struct probe_thread *thread = fresh();
	uint64_t lo = AREA + 16 * MIB;
	struct probe_stack *old, *now;

	probe_stack_made(lo, lo + 100 * KIB, false);
	probe_stack_made(lo + 200 * KIB, lo + 300 * KIB, false);
	old = probe_stack_settle(thread, lo + 100 * KIB - 8);
	probe_stack_set_top(old, lo + 90 * KIB);
	/* In the place of both, and of what was between them. */
	probe_stack_made(lo + 50 * KIB, lo + 250 * KIB, false);
	now = probe_stack_settle(thread, lo + 95 * KIB);
	assert_int_equal(now->end, lo + 250 * KIB);
	assert_true(probe_stack_is_empty(now));
	assert_ptr_equal(probe_stack_settle(thread, lo + 240 * KIB), now);
	assert_null(probe_stack_find(thread, lo + 290 * KIB));
}

/* Ranges that make no sense change nothing. */
static void nonsense(void **state)
{
	struct probe_thread *thread = fresh();

	probe_stack_made(AREA + 32 * MIB, AREA + 32 * MIB, false);
	probe_stack_made(AREA + 33 * MIB, AREA + 32 * MIB, true);
	probe_stack_made(~(uint64_t)0 - 64 * KIB, ~(uint64_t)0, false);
	assert_null(thread->signal);
	assert_null(probe_stack_find(thread, AREA + 32 * MIB - 8));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(side_by_side), cmocka_unit_test(found),      cmocka_unit_test(raised),
		cmocka_unit_test(signal_stack), cmocka_unit_test(used_again), cmocka_unit_test(nonsense),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
