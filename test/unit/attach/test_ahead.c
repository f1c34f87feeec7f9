/*
 * Facts that were read before a stop hold in the stop only as far as they were checked again: the stop sees a thread
 * that enters a sandbox between the two, and a thread that is new (host/attach/ahead.c, sandbox.c).  It finds a
 * signal's frame, too, that was left on a stack in between (elsewhere.c).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include <host/attach/impl.h>

#define THREADS	     20
#define MANY_THREADS 300
#define STACK_SIZE   (64u << 10)

/* The child's end of two pipes: it does something for each byte, and answers. */
static int orders, answers;

static void shut_in(void)
{
	struct sock_filter allow = {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW};
	struct sock_fprog program = {1, &allow};

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
		_exit(3);
}

/* A coroutine, and the thread that it goes back to. */
static ucontext_t coroutine, caller;
static unsigned char *stack;

static void leave(int number)
{
	swapcontext(&coroutine, &caller);
}

static void take_handler(void)
{
	if (signal(SIGUSR1, leave) == SIG_ERR)
		_exit(3);
}

static void nap(void)
{
	usleep(1);
}

static void be_interrupted(void)
{
	raise(SIGUSR1);
}

static void run_coroutine(void (*function)(void))
{
	getcontext(&coroutine);
	coroutine.uc_stack.ss_sp = stack;
	coroutine.uc_stack.ss_size = STACK_SIZE;
	coroutine.uc_link = &caller;
	makecontext(&coroutine, function, 0);
	swapcontext(&caller, &coroutine);
}

static void *obey(void *arg);

static void *obey_shut_in(void *arg)
{
	shut_in();
	return write(answers, "u", 1) == 1 ? obey(arg) : NULL;
}

static void begin_thread(void *(*body)(void *arg))
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, body, NULL))
		_exit(3);
}

static void do_order(char order)
{
	switch (order) {
	case 's':
		shut_in();
		break;
	case 't':
		begin_thread(obey);
		break;
	case 'u':
		begin_thread(obey_shut_in);
		break;
	case 'h':
		take_handler();
		break;
	case 'r':
		run_coroutine(nap);
		break;
	case 'i':
		run_coroutine(be_interrupted);
		break;
	default:
		_exit(3);
	}
}

/*
 * The bytes go to whichever thread reads first.  's' = shut yourself in, 't' = a thread, 'u' = one that is shut in;
 * 'h' = take a handler, 'r' = run a coroutine, 'i' = leave one that the handler has interrupted.
 */
static void *obey(void *arg)
{
	char order;

	while (read(orders, &order, 1) == 1) {
		do_order(order);
		if (order != 'u' && write(answers, &order, 1) != 1)
			_exit(3);
	}
	return arg;
}

struct child {
	pid_t pid;
	int orders, answers;
};

static void order(const struct child *child, const char *orders_to_give)
{
	for (; *orders_to_give; orders_to_give++) {
		char answer;

		assert_int_equal(write(child->orders, orders_to_give, 1), 1);
		assert_int_equal(read(child->answers, &answer, 1), 1);
		assert_int_equal(answer, *orders_to_give);
	}
}

/* In a mapping of its own, that the pages beside keep from growing together with others. */
static int map_stack(void)
{
	unsigned char *pages = mmap(NULL, PAGE + STACK_SIZE + PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (pages == MAP_FAILED)
		return -1;
	stack = pages + PAGE;
	return mprotect(stack, STACK_SIZE, PROT_READ | PROT_WRITE);
}

static int start(void **state)
{
	static struct child child;
	int to[2], from[2];

	if (map_stack() || pipe(to) || pipe(from))
		return -1;
	child.pid = fork();
	if (!child.pid) {
		orders = to[0];
		answers = from[1];
		close(to[1]);
		obey(NULL);
		_exit(0);
	}
	close(to[0]);
	close(from[1]);
	child.orders = to[1];
	child.answers = from[0];
	*state = &child;
	for (int i = 1; i < THREADS; i++)
		order(&child, "t");
	return 0;
}

static int end(void **state)
{
	struct child *child = *state;

	close(child->orders);
	close(child->answers);
	munmap(stack - PAGE, PAGE + STACK_SIZE + PAGE);
	kill(child->pid, SIGKILL);
	return waitpid(child->pid, NULL, 0) == child->pid ? 0 : -1;
}

/* True if the stop finds the thing, by facts that were read before `orders_between`. */
static bool found(const struct child *child, const char *orders_between)
{
	struct attach_ahead *ahead;
	struct attach_stop *stop;
	bool sandboxed;

	assert_int_equal(attach_ahead_read(&ahead, child->pid, ATTACH_AHEAD_THREADS | ATTACH_AHEAD_SEGMENTS), 0);
	order(child, orders_between);
	assert_int_equal(attach_stop(&stop, child->pid, NULL, 0, NULL), 0);
	attach_use(stop, ahead);
	sandboxed = attach_is_sandboxed(stop);
	attach_resume(stop);
	attach_ahead_free(ahead);
	return sandboxed;
}

static void a_filter_that_comes_between_is_seen(void **state)
{
	assert_false(found(*state, ""));
	assert_false(found(*state, "t"));
	assert_true(found(*state, "s"));
	assert_true(found(*state, ""));
}

/* None of those that were known is shut in. */
static void a_thread_that_comes_between_is_looked_at(void **state)
{
	assert_true(found(*state, "tu"));
}

static void without_it_all_is_read_in_the_stop(void **state)
{
	const struct child *child = *state;
	struct attach_stop *stop;
	bool sandboxed;

	order(child, "s");
	assert_int_equal(attach_stop(&stop, child->pid, NULL, 0, NULL), 0);
	sandboxed = attach_is_sandboxed(stop);
	attach_resume(stop);
	assert_true(sandboxed);
}

/* A segment's end holds for the mapping that it was found for, not for another one that lies there later. */
static void a_segments_end_is_the_mappings_own(void **state)
{
	const struct child *child = *state;
	struct attach_ahead *ahead;
	size_t segments = 0;

	assert_int_equal(attach_ahead_read(&ahead, child->pid, ATTACH_AHEAD_THREADS | ATTACH_AHEAD_SEGMENTS), 0);
	for (size_t i = 0; i < ahead->space.count; i++) {
		struct map map = ahead->space.maps[i];
		uint64_t there;

		assert_true(ahead_segment_end(ahead, &map, &there));
		assert_true(there == slack_segment_end(child->pid, &map));
		segments += there != 0;
		map.inode++;
		assert_false(ahead_segment_end(ahead, &map, &there));
		map = ahead->space.maps[i];
		map.hi += PAGE;
		assert_false(ahead_segment_end(ahead, &map, &there));
		assert_false(ahead_segment_end(NULL, &map, &there));
	}
	assert_true(segments > 1); /* the program, libc */
	attach_ahead_free(ahead);
}

enum search { SEARCH_LATE, SEARCH_IN_VAIN, SEARCH_FOUND };

/* Whether the stop finds registers that a signal has saved in the coroutine's stack. */
static enum search search(const struct child *child, const char *orders_before, const char *orders_between)
{
	enum search search = SEARCH_IN_VAIN;
	const struct attach_context *contexts;
	struct attach_ahead *ahead;
	struct attach_stop *stop;
	size_t count;

	order(child, orders_before);
	assert_int_equal(attach_ahead_read(&ahead, child->pid, ATTACH_AHEAD_CONTEXTS), 0);
	order(child, orders_between);
	assert_int_equal(attach_stop(&stop, child->pid, NULL, 0, NULL), 0);
	attach_use(stop, ahead);
	assert_int_equal(attach_scan(stop, NULL, 0, NULL, NULL), 0);
	contexts = attach_contexts(stop, &count);
	for (size_t i = 0; i < count; i++)
		if (contexts[i].address - (uint64_t)(uintptr_t)stack < STACK_SIZE && !contexts[i].thread)
			search = SEARCH_FOUND;
	if (attach_ahead_is_late(stop))
		search = SEARCH_LATE;
	attach_resume(stop);
	attach_ahead_free(ahead);
	return search;
}

static void a_frame_that_was_there_is_found(void **state)
{
	assert_int_equal(search(*state, "hi", ""), SEARCH_FOUND);
}

/* Nobody looks for such frames in a program without handlers. */
static void a_first_handler_makes_it_late(void **state)
{
	assert_int_equal(search(*state, "", ""), SEARCH_IN_VAIN);
	assert_int_equal(search(*state, "", "hi"), SEARCH_LATE);
	assert_int_equal(search(*state, "", ""), SEARCH_FOUND);
}

static void a_frame_in_new_memory_is_found(void **state)
{
	assert_int_equal(search(*state, "h", "i"), SEARCH_FOUND);
}

/* To look at so many threads' stacks as well takes longer than a stop has. */
static void a_frame_in_new_memory_is_found_beside_many_stacks(void **state)
{
	for (int i = 0; i < MANY_THREADS; i++)
		order(*state, "t");
	assert_int_equal(search(*state, "h", "i"), SEARCH_FOUND);
}

static void a_frame_where_a_stack_had_been_is_found(void **state)
{
	assert_int_equal(search(*state, "hr", ""), SEARCH_IN_VAIN);
	assert_int_equal(search(*state, "", "i"), SEARCH_FOUND);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_filter_that_comes_between_is_seen, start, end),
		cmocka_unit_test_setup_teardown(a_thread_that_comes_between_is_looked_at, start, end),
		cmocka_unit_test_setup_teardown(without_it_all_is_read_in_the_stop, start, end),
		cmocka_unit_test_setup_teardown(a_segments_end_is_the_mappings_own, start, end),
		cmocka_unit_test_setup_teardown(a_frame_that_was_there_is_found, start, end),
		cmocka_unit_test_setup_teardown(a_first_handler_makes_it_late, start, end),
		cmocka_unit_test_setup_teardown(a_frame_in_new_memory_is_found, start, end),
		cmocka_unit_test_setup_teardown(a_frame_in_new_memory_is_found_beside_many_stacks, start, end),
		cmocka_unit_test_setup_teardown(a_frame_where_a_stack_had_been_is_found, start, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
