/*
 * Handlers that fault (src/agent/faults.c): each is disabled, and the program goes on with its registers; other faults
 * are the program's, as they would have been without the agent.
 */
#include <errno.h>
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

#include <agent/agent.h>
#include "handled.h"

#define PIECED_WORDS 256

enum { CALL, BOTH, LEAF, TAIL, FUNCTIONS };

static volatile int turns;
static struct fake_arena fake;
static char *hole; /* beyond the end of a file */
static volatile int *volatile nowhere = (volatile int *)0x10;

TIMED_SITE static int leaf(int n)
{
	turns += n;
	return n + 1;
}

TIMED_SITE static int tail(int n)
{
	return leaf(n + 10);
}

static const struct timed_function functions[FUNCTIONS] = {
	[CALL] = {callee_call, HANDLED_CALL},
	[BOTH] = {callee_both, HANDLED},
	[LEAF] = {leaf, HANDLED},
	[TAIL] = {tail, HANDLED},
};

static uint64_t entries, exits;

static int counting_entry(struct calltap_call *call, void *context)
{
	entries++;
	return 0;
}

static void counting_exit(struct calltap_call *call, void *context)
{
	exits++;
}

/* The stack is far below. */
static __attribute__((noinline)) void fault(int signal, bool vectors)
{
	volatile char deep[3000];

	turns += deep[turns & 1023] = 1;
	fault_now(signal, vectors, hole);
}

static int faulting_entry(struct calltap_call *call, void *context)
{
	entries++;
	fault((int)(intptr_t)context, call->vectors);
	return 0;
}

static void faulting_exit(struct calltap_call *call, void *context)
{
	exits++;
	fault((int)(intptr_t)context, call->vectors);
}

static int setup(void **state)
{
	handled_start(&fake, 1);
	entries = exits = 0;
	return 0;
}

static int teardown(void **state)
{
	assert_null(probe_thread.running);
	handled_stop(&fake);
	return 0;
}

static void check_disabled(unsigned slot, int signal)
{
	assert_int_equal(handlers.slots[slot].fault, signal);
	assert_int_equal(handlers.slots[slot].entry, 0);
	assert_int_equal(handlers.slots[slot].exit, 0);
	assert_in_range(handlers.slots[slot].fault_pc, (uint64_t)fault_now, (uint64_t)fault_now + 512);
	if (signal == SIGSEGV)
		assert_int_equal(handlers.slots[slot].fault_address, 0x1234);
	if (signal == SIGBUS)
		assert_int_equal(handlers.slots[slot].fault_address, (uint64_t)hole);
	assert_null(probe_thread.running);
}

static void entries_that_fault(void **state)
{
	agent_faults_take(); /* behind cmocka's */
	for (unsigned i = 0; i < fault_kinds_count; i++)
		for (uint32_t flags = 0; flags < 2; flags++)
			for (unsigned warm = 0; warm < 2; warm++)
				for (unsigned call = 0; call < 2; call++) {
					int (*callee)(void) = call ? callee_call : callee_both;

					entries = exits = 0;
					handled_want(call ? CALL : BOTH, 1, 0);
					handled_register(0, counting_entry, NULL, 1, NULL);
					if (warm)
						call_with_registers(callee);
					handled_register(0, faulting_entry, counting_exit, flags,
							 (void *)(intptr_t)fault_kinds[i]);
					for (int k = 0; k < 3; k++) {
						call_with_registers(callee);
						check_registers();
					}
					check_disabled(0, fault_kinds[i]);
					assert_int_equal(entries, 1 + warm);
					assert_int_equal(exits, 0);
				}
	agent_faults_give_back();
}

static void exits_that_fault(void **state)
{
	agent_faults_take(); /* behind cmocka's */
	for (unsigned i = 0; i < fault_kinds_count; i++)
		for (uint32_t flags = 0; flags < 2; flags++)
			for (unsigned warm = 0; warm < 2; warm++) {
				entries = exits = 0;
				handled_want(BOTH, 1, 0);
				handled_register(0, counting_entry, counting_exit, 1, NULL);
				if (warm)
					call_with_registers(callee_both);
				handled_register(0, counting_entry, faulting_exit, flags,
						 (void *)(intptr_t)fault_kinds[i]);
				for (int k = 0; k < 3; k++) {
					call_with_registers(callee_both);
					check_registers();
				}
				check_disabled(0, fault_kinds[i]);
				assert_int_equal(entries, 1 + warm);
				assert_int_equal(exits, 1 + warm);
			}
	agent_faults_give_back();
}

static void others_are_called_all_the_same(void **state)
{
	agent_faults_take(); /* behind cmocka's */
	for (uint32_t flags = 0; flags < 2; flags++) {
		entries = exits = 0;
		handled_register(0, faulting_entry, counting_exit, flags, (void *)SIGSEGV);
		handled_register(1, counting_entry, faulting_exit, flags, (void *)SIGSEGV);
		handled_register(2, counting_entry, counting_exit, flags, NULL);
		handled_want(BOTH, 7, 0);
		call_with_registers(callee_both);
		check_registers();
		assert_int_equal(entries, 3);
		assert_int_equal(exits, 2);
		check_disabled(0, SIGSEGV);
		check_disabled(1, SIGSEGV);
		assert_int_equal(handlers.slots[2].fault, 0);
		call_with_registers(callee_both);
		check_registers();
		assert_int_equal(entries, 4);
		assert_int_equal(exits, 3);
	}
	agent_faults_give_back();
}

static void tail_calls_that_fault(void **state)
{
	agent_faults_take(); /* behind cmocka's */
	handled_register(0, counting_entry, faulting_exit, GENERAL, (void *)SIGSEGV);
	handled_register(1, counting_entry, counting_exit, 0, NULL);
	handled_want(TAIL, 3, 0);
	handled_want(LEAF, 3, 0);
	assert_int_equal(tail(5), 16);
	check_disabled(0, SIGSEGV);
	assert_int_equal(entries, 3);
	assert_int_equal(exits, 3);
	agent_faults_give_back();
}

static void vectors_come_back(void **state)
{
	static struct vectors in, out;

	agent_faults_take();
	handled_register(0, faulting_entry, counting_exit, 0, (void *)SIGSEGV);
	handled_register(1, counting_entry, faulting_exit, 0, (void *)SIGSEGV);
	handled_want(BOTH, 3, 0);
	for (unsigned i = 0; i < sizeof(in.bytes); i++)
		in.bytes[i] = (uint8_t)(i * 5 + 3);
	in.control = vectors_controls[1];
	call_with_vectors(&in, &out);
	assert_memory_equal(in.bytes, out.bytes, sizeof(in.bytes));
	assert_int_equal(in.control, out.control);
	check_disabled(0, SIGSEGV);
	check_disabled(1, SIGSEGV);
	agent_faults_give_back();
}

static sigjmp_buf way_out;
static volatile int own_faults;

static void own_handler(int signal, siginfo_t *info, void *context)
{
	own_faults++;
	siglongjmp(way_out, 1);
}

static void own_fault(void)
{
	if (!sigsetjmp(way_out, 1))
		*nowhere = 1;
}

static void on_usr1(int number)
{
	own_fault();
}

static int raising_entry(struct calltap_call *call, void *context)
{
	entries++;
	raise(SIGUSR1);
	return 0;
}

/* The program's own handler gets the program's faults, also those in a signal's handler that interrupts ours. */
static void other_faults_are_the_program_s(void **state)
{
	struct sigaction action = {.sa_sigaction = own_handler, .sa_flags = SA_SIGINFO}, now;

	sigaction(SIGSEGV, &action, NULL);
	agent_faults_take();
	own_faults = 0;
	own_fault();
	assert_int_equal(own_faults, 1);
	handled_want(LEAF, 1, 0);
	for (int i = 0; i < 8; i++) {
		const struct sigaction interrupting = {.sa_handler = on_usr1,
						       .sa_flags = (i & 1 ? SA_NODEFER : 0) | (i & 2 ? SA_SIGINFO : 0)};

		sigaction(SIGUSR1, &interrupting, NULL);
		handled_register(0, raising_entry, NULL, i & 4 ? GENERAL : 0, NULL);
		leaf(1);
		leaf(1);
		assert_int_equal(handlers.slots[0].fault, 0);
	}
	assert_int_equal(entries, 16);
	assert_int_equal(own_faults, 17);
	signal(SIGUSR1, SIG_DFL); /* without SA_NODEFER, the agent tells remains of a signal's frame from a frame */
	handled_register(0, faulting_entry, NULL, GENERAL, (void *)SIGSEGV);
	leaf(1);
	check_disabled(0, SIGSEGV);
	assert_int_equal(own_faults, 17);
	agent_faults_give_back();
	sigaction(SIGSEGV, NULL, &now);
	assert_ptr_equal(now.sa_sigaction, own_handler);
	own_fault();
	assert_int_equal(own_faults, 18);
	signal(SIGSEGV, SIG_DFL);
	signal(SIGUSR1, SIG_DFL);
}

/* A local array that nobody writes to, so that old contents of the stack stay in the frame. */
#define ROOM(bytes)                                                                                                    \
	volatile char room[bytes];                                                                                     \
	__asm__ volatile("" : : "r"(room) : "memory")

static __attribute__((noinline)) void be_interrupted(void)
{
	ROOM(8192);
	raise(SIGUSR1);
}

static __attribute__((noinline)) void fault_above(void)
{
	ROOM(32768);
	fault(SIGSEGV, false);
}

static ucontext_t *left; /* the frame of the last signal, of which only remains are there later */

static void leave_frame(int number, siginfo_t *info, void *context)
{
	left = context;
}

/* A handler that is interrupted at the first call, and faults at the second, above the remains of the signal's frame.
 */
static int late_entry(struct calltap_call *call, void *context)
{
	if (entries++)
		fault_above();
	be_interrupted();
	return 0;
}

/* The same, and other code has written over the signals that were blocked. */
static int spoiled_entry(struct calltap_call *call, void *context)
{
	if (entries)
		sigaddset(&left->uc_sigmask, SIGUSR2);
	return late_entry(call, context);
}

/* Leave of such a frame only the words that other code would leave when it writes over the frame. */
static int pieced_entry(struct calltap_call *call, void *context)
{
	uint64_t words[PIECED_WORDS] __attribute__((aligned(16))) = {0};

	piece_frame(words, (uint64_t)(words + PIECED_WORDS - 6));
	__asm__ volatile("" : : "r"(words) : "memory");
	fault(SIGSEGV, false);
	return 0;
}

static void what_a_signal_has_left_is_no_frame(void **state)
{
	const struct sigaction leaving = {.sa_sigaction = leave_frame, .sa_flags = SA_SIGINFO};
	int (*const late[])(struct calltap_call *, void *) = {late_entry, spoiled_entry};

	sigaction(SIGUSR1, &leaving, NULL);
	agent_faults_take();
	handled_want(LEAF, 1, 0);
	for (uint32_t flags = 0; flags < 2; flags++) {
		for (unsigned i = 0; i < 2; i++) {
			entries = 0;
			handled_register(0, late[i], NULL, flags, NULL);
			leaf(1);
			leaf(1);
			check_disabled(0, SIGSEGV);
		}
		handled_register(0, pieced_entry, NULL, flags, NULL);
		leaf(1);
		check_disabled(0, SIGSEGV);
	}
	agent_faults_give_back();
	signal(SIGUSR1, SIG_DFL);
}

static int end_of_child(void (*work)(void))
{
	pid_t child = fork();
	int status = 0;

	if (!child) {
		work();
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	return status;
}

static void write_nowhere(void)
{
	*nowhere = 1;
}

static void be_sent(void)
{
	kill(getpid(), SIGSEGV);
}

static void program_without_handlers_ends(void **state)
{
	for (unsigned i = 0; i < fault_kinds_count; i++)
		signal(fault_kinds[i], SIG_DFL); /* not cmocka's */
	agent_faults_take();
	assert_int_equal(WTERMSIG(end_of_child(write_nowhere)), SIGSEGV);
	assert_int_equal(WTERMSIG(end_of_child(be_sent)), SIGSEGV);
	agent_faults_give_back();
	signal(SIGSEGV, SIG_IGN);
	agent_faults_take();
	assert_int_equal(end_of_child(be_sent), 0);
	assert_int_equal(WTERMSIG(end_of_child(write_nowhere)), SIGSEGV);
	agent_faults_give_back();
	signal(SIGSEGV, SIG_DFL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(entries_that_fault, setup, teardown),
		cmocka_unit_test_setup_teardown(exits_that_fault, setup, teardown),
		cmocka_unit_test_setup_teardown(others_are_called_all_the_same, setup, teardown),
		cmocka_unit_test_setup_teardown(tail_calls_that_fault, setup, teardown),
		cmocka_unit_test_setup_teardown(vectors_come_back, setup, teardown),
		cmocka_unit_test_setup_teardown(other_faults_are_the_program_s, setup, teardown),
		cmocka_unit_test_setup_teardown(what_a_signal_has_left_is_no_frame, setup, teardown),
		cmocka_unit_test_setup_teardown(program_without_handlers_ends, setup, teardown),
	};
	char name[] = "/tmp/calltap-faults-XXXXXX";
	int fd = mkstemp(name);

	unlink(name);
	hole = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (fd < 0 || hole == MAP_FAILED)
		return 1;
	handled_patch(functions, FUNCTIONS);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
