/*
 * Handlers that fault, in every way: such a handler is disabled and its status says so; the program goes on, with its
 * results, its other handlers and its own signal handlers: x86-64.
 */
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include "handled.h"

#define CALLS	10
#define THREADS 8

static char *behind_file; /* a page of a mapping behind its file's end */
static volatile int zero;
static long faulted; /* handlers that were begun and did not return */

TRACED static long whole(long a, long b, long c)
{
	return a * 3 + b * 5 + c * 7;
}

TRACED static double real(double a, double b, long c)
{
	return a * 3 + b * 5 + c * 7;
}

/* ---- the faults ---- */

BY_GENERALS static void of_null(void)
{
	*(volatile int *)8 = 1;
}

BY_GENERALS static void of_rights(void)
{
	*(volatile char *)(uintptr_t) "read only" = 1;
}

BY_GENERALS static void of_jump(void)
{
	((void (*)(void))16)();
}

BY_GENERALS static void of_data(void)
{
	static char data[64];

	((void (*)(void))data)();
}

BY_GENERALS static void of_file(void)
{
	(void)*(volatile char *)behind_file;
}

TRACED static long faulting(long depth)
{
	if (depth)
		return faulting(depth - 1) + 1;
	of_null();
	return 0;
}

/* In a traced function that the handler calls. */
UNTRACED static void of_callee(void)
{
	zero = faulting(3) != 0;
}

struct fault {
	const char *name;
	void (*now)(void);
	int signal;
	long address; /* -1: whatever it is */
	int needs_vectors;
};

static const struct fault faults[] = {{"null", of_null, SIGSEGV, 8, 0},
				      {"rights", of_rights, SIGSEGV, -1, 0},
				      {"instruction", of_instruction, SIGILL, -1, 0},
				      {"jump", of_jump, SIGSEGV, 16, 0},
				      {"data", of_data, SIGSEGV, -1, 0},
				      {"file", of_file, SIGBUS, -1, 0},
				      {"registers", of_registers, SIGSEGV, 0x5555, 0},
				      {"callee", of_callee, SIGSEGV, 8, 1},
				      {"vectors", of_vectors, SIGSEGV, 8, 1},
				      FAULTS_OF_CPU};

BY_GENERALS static int faulting_entry(struct calltap_call *call, void *context)
{
	const struct fault *fault = context;

	handled_add(&faulted);
	fault->now();
	return ANSWERED;
}

BY_GENERALS static void faulting_exit(struct calltap_call *call, void *context)
{
	const struct fault *fault = context;

	handled_add(&faulted);
	fault->now();
}

UNTRACED static void call_all(void)
{
	for (long i = 0; i < CALLS; i++) {
		always("a result", whole(i, 2, 3), i * 3 + 31);
		always("the direction flag", goes_backward(), 0);
		always("a real result", real(i, 0.5, 3) == i * 3 + 23.5, 1);
	}
}

/* Fault once, in the handler between two good ones. */
UNTRACED static void fault_once(struct calltap_session *session, const struct fault *fault, int at_exit, uint32_t flags)
{
	struct counted of[2] = {0};
	struct calltap_ops *ops[3];
	struct calltap_ops_status status;

	faulted = 0;
	ops[0] = handled_on(session, flags, count_entry, count_exit, &of[0], "whole");
	ops[1] = handled_on(session, flags, at_exit ? NULL : faulting_entry, at_exit ? faulting_exit : NULL,
			    (void *)fault, "whole");
	ops[2] = handled_on(session, flags, count_entry, count_exit, &of[1], "whole");
	call_all();
	expect(fault->name, faulted, 1);
	status = handled_status(ops[1]);
	expect("its signal", status.fault, handled_checks ? fault->signal : 0);
	if (fault->address >= 0)
		expect("its address", (long)status.fault_address, fault->address);
	expect("where", status.fault_pc != 0 || fault->now == of_null, handled_checks);
	for (int i = 0; i < 2; i++) {
		expect("entries of one that is well", of[i].entries, CALLS);
		expect("exits of one that is well", of[i].exits, CALLS);
		expect("its status", handled_status(ops[i * 2]).fault, 0);
	}
	for (int i = 0; i < 3; i++)
		handled_off(ops[i]);
}

UNTRACED static void make_file(void)
{
	int fd = memfd_create("short", MFD_CLOEXEC);

	if (fd < 0 || ftruncate(fd, 100))
		always("a file", 0, 1);
	behind_file = (char *)mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) + 4096;
	close(fd);
}

UNTRACED static void every_fault(struct calltap_session *session, int at_exit)
{
	for (unsigned i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
		if (!faults[i].needs_vectors)
			fault_once(session, &faults[i], at_exit, GENERAL);
		fault_once(session, &faults[i], at_exit, 0);
		printf("%s\n", faults[i].name);
	}
}

UNTRACED static void at_entry(struct calltap_session *session)
{
	make_file();
	every_fault(session, 0);
}

UNTRACED static void at_exit_too(struct calltap_session *session)
{
	make_file();
	every_fault(session, 1);
}

UNTRACED static const struct fault *of_reals(void)
{
	const struct fault *fault = faults;

	while (fault->now != of_vectors)
		fault++;
	return fault;
}

/* The double's function: argument and result registers are vectors. */
UNTRACED static void reals(struct calltap_session *session)
{
	for (int at_exit = 0; at_exit < 2; at_exit++) {
		struct calltap_ops *ops = handled_on(session, 0, at_exit ? NULL : faulting_entry,
						     at_exit ? faulting_exit : NULL, (void *)of_reals(), "real");
		unsigned before = vectors_control();

		faulted = 0;
		call_all();
		expect("faults", faulted, 1);
		always("how reals are computed", vectors_control(), before);
		handled_off(ops);
	}
}

/* ---- threads that fault at once ---- */

UNTRACED static void *fault_often(void *arg)
{
	for (long i = 0; i < 20000; i++)
		always("a result", whole(i, 2, 3), i * 3 + 31);
	return arg;
}

UNTRACED static void at_once(struct calltap_session *session)
{
	pthread_t threads[THREADS];

	for (int i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, fault_often, NULL);
	for (int round = 0; round < 50; round++) {
		struct calltap_ops *ops =
			handled_on(session, GENERAL, round % 2 ? faulting_entry : NULL,
				   round % 2 ? NULL : faulting_exit, (void *)&faults[round % 4], "whole");

		usleep(1000);
		handled_off(ops);
	}
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
}

/* ---- the program's own handlers of these signals ---- */

static sigjmp_buf back;
static volatile int own_signal, own_code, on_altstack, blocked_other;
static void *volatile own_address;
static char altstack[65536];

TRACED static void own_handler(int signal, siginfo_t *info, void *context)
{
	sigset_t now;

	own_signal = signal;
	own_code = info->si_code;
	own_address = info->si_addr;
	on_altstack = (char *)&now >= altstack && (char *)&now < altstack + sizeof(altstack);
	sigprocmask(SIG_BLOCK, NULL, &now);
	blocked_other = sigismember(&now, SIGUSR1) + 2 * sigismember(&now, signal);
	whole(1, 2, 3);
	if (info->si_code > 0)
		siglongjmp(back, 1);
}

UNTRACED static void own_install(int flags)
{
	struct sigaction action = {.sa_sigaction = own_handler, .sa_flags = SA_SIGINFO | flags};
	const stack_t stack = {.ss_sp = altstack, .ss_size = sizeof(altstack)};

	sigemptyset(&action.sa_mask);
	sigaddset(&action.sa_mask, SIGUSR1);
	sigaltstack(&stack, NULL);
	set_action(SIGSEGV, &action);
	set_action(SIGFPE, &action);
	set_action(SIGILL, &action);
	set_action(SIGBUS, &action);
}

TRACED static int own_fault(const struct fault *fault)
{
	own_signal = 0;
	if (sigsetjmp(back, 1))
		return 1;
	fault->now();
	return 0;
}

/* All of the program's own faults come to its own handler, as they always would. */
UNTRACED static void own_faults(int flags)
{
	for (unsigned i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
		if (faults[i].now == of_registers || faults[i].needs_vectors)
			continue;
		always("a fault of its own", own_fault(&faults[i]), 1);
		always("its signal", own_signal, faults[i].signal);
		if (faults[i].address >= 0)
			always("its address", (long)own_address, faults[i].address);
		always("its stack", on_altstack, !!(flags & SA_ONSTACK));
		always("its mask", blocked_other, flags & SA_NODEFER ? 1 : 3);
	}
	own_signal = 0;
	raise(SIGSEGV);
	always("one that was sent", own_signal, SIGSEGV);
	always("its code", own_code, SI_TKILL);
	kill(getpid(), SIGFPE);
	always("one that was sent", own_signal, SIGFPE);
	always("its code", own_code, SI_USER);
}

static const int flag_sets[] = {0, SA_ONSTACK, SA_NODEFER, SA_ONSTACK | SA_NODEFER | SA_RESTART};

UNTRACED static void faults_of_both(struct calltap_session *session, int flags)
{
	struct counted of = {0};
	struct calltap_ops *ops = handled_on(session, GENERAL, count_entry, count_exit, &of, "whole");

	own_faults(flags);
	for (int i = 0; i < 4; i++) {
		if (handled_checks)
			fault_once(session, &faults[i], i & 1, 0);
		own_faults(flags);
	}
	expect("calls in own handlers", of.entries > 50, 1);
	handled_off(ops);
}

/* Installed before any handler is registered. */
UNTRACED static void own_before(struct calltap_session *session)
{
	make_file();
	for (unsigned i = 0; i < sizeof(flag_sets) / sizeof(flag_sets[0]); i++) {
		struct calltap_session *mine;

		own_install(flag_sets[i]);
		own_faults(flag_sets[i]);
		mine = handled_open();
		faults_of_both(mine, flag_sets[i]);
		own_faults(flag_sets[i]);
		handled_close(mine);
		own_faults(flag_sets[i]);
	}
}

/* Installed while handlers are registered: its own faults are its own from then on. */
UNTRACED static void own_after(struct calltap_session *session)
{
	struct counted of = {0};
	struct calltap_ops *ops = handled_on(session, GENERAL, count_entry, count_exit, &of, "whole");

	make_file();
	for (unsigned i = 0; i < sizeof(flag_sets) / sizeof(flag_sets[0]); i++) {
		own_install(flag_sets[i]);
		own_faults(flag_sets[i]);
	}
	handled_off(ops);
	own_faults(flag_sets[3]);
}

/* A program puts back what it has found, long after the session: the signals do what they did at first. */
UNTRACED static void put_back(struct calltap_session *session)
{
	struct calltap_session *mine;
	struct sigaction found;
	struct calltap_ops *ops;
	struct counted of = {0};

	make_file();
	own_install(0);
	mine = handled_open();
	ops = handled_on(mine, GENERAL, count_entry, count_exit, &of, "whole");
	always("sigaction", sigaction(SIGSEGV, NULL, &found), 0);
	signal(SIGSEGV, SIG_DFL);
	handled_off(ops);
	handled_close(mine);
	always("sigaction", sigaction(SIGSEGV, &found, NULL), 0);
	own_faults(0);
}

UNTRACED static void ignored(struct calltap_session *session)
{
	struct calltap_session *mine;
	struct calltap_ops *ops;
	struct counted of = {0};
	struct sigaction now;

	signal(SIGFPE, SIG_IGN);
	signal(SIGSEGV, SIG_IGN);
	mine = handled_open();
	ops = handled_on(mine, GENERAL, count_entry, count_exit, &of, "whole");
	raise(SIGFPE);
	raise(SIGSEGV);
	kill(getpid(), SIGSEGV);
	call_all();
	handled_off(ops);
	handled_close(mine);
	sigaction(SIGSEGV, NULL, &now);
	always("the disposition", now.sa_handler == SIG_IGN, 1);
	raise(SIGFPE);
}

/* Ends by a fault of its own, as it does untraced. */
UNTRACED static void dies(struct calltap_session *session)
{
	struct counted of = {0};

	handled_on(session, GENERAL, count_entry, count_exit, &of, "whole");
	call_all();
	printf("soon\n");
	fflush(stdout);
	of_null();
}

UNTRACED static void dies_of_sent(struct calltap_session *session)
{
	struct counted of = {0};

	handled_on(session, GENERAL, count_entry, count_exit, &of, "whole");
	call_all();
	printf("soon\n");
	fflush(stdout);
	kill(getpid(), SIGFPE);
	pause();
}

/* A handler faults on a coroutine's stack, and on a signal stack. */
static ucontext_t outside, inside;
static char coroutine_stack[65536];

UNTRACED static void coroutine(void)
{
	call_all();
}

UNTRACED static void on_signal(int signal)
{
	call_all();
}

UNTRACED static void other_stacks(struct calltap_session *session)
{
	struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK};
	const stack_t stack = {.ss_sp = altstack, .ss_size = sizeof(altstack)};

	sigaltstack(&stack, NULL);
	sigaction(SIGUSR2, &action, NULL);
	for (int i = 0; i < 8; i++) {
		struct calltap_ops *ops = handled_on(session, i & 1 ? GENERAL : 0, i & 2 ? faulting_entry : NULL,
						     i & 2 ? NULL : faulting_exit, (void *)&faults[i / 4], "whole");

		faulted = 0;
		getcontext(&inside);
		inside.uc_stack.ss_sp = coroutine_stack;
		inside.uc_stack.ss_size = sizeof(coroutine_stack);
		inside.uc_link = &outside;
		makecontext(&inside, coroutine, 0);
		if (i & 1)
			raise(SIGUSR2);
		else
			swapcontext(&outside, &inside);
		expect("faults", faulted, 1);
		handled_off(ops);
	}
}

static const struct handled_case cases[] = {
	{"at-entry", at_entry},		{"at-exit", at_exit_too},	{"reals", reals},
	{"at-once", at_once},		{"own-before", own_before, 1},	{"own-after", own_after},
	{"put-back", put_back, 1},	{"ignored", ignored, 1},	{"dies", dies},
	{"dies-of-sent", dies_of_sent}, {"other-stacks", other_stacks}, {NULL, NULL},
};

int main(int argc, char **argv)
{
	return handled_run(cases, argc, argv);
}
