/*
 * Threads that signals strike in the middle of traced calls, with handlers that do not come back soon, for tests that
 * attach to it and leave it meanwhile (test/stress/attaches.py). Each result is checked; a wrong one ends it at once.
 *
 *     struck KIND...
 *
 * Each KIND (the table below) gets a thread with a timer of its own. Prints "ready PID" when all run, and at the end,
 * at SIGTERM, "all was well". From SIGUSR1 to SIGUSR2 the handlers of "stays" do not return.
 */
#include <errno.h>
#include <initializer_list>
#include <execinfo.h>
#include <linux/futex.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>

#include "truth.h"

typedef unsigned long word;

#define STACK	 (256ul << 10)
#define OFTEN_NS 500000 /* between a thread's signals */

static int stop_now;

UNTRACED static bool stopping()
{
	return __atomic_load_n(&stop_now, __ATOMIC_RELAXED);
}

UNTRACED static void die(const char *what, long value)
{
	char text[200];

	if (write(1, text, snprintf(text, sizeof(text), "wrong: %s (%ld, %s)\n", what, value, strerror(errno))) < 0)
		_exit(2);
	_exit(1);
}

#define CHECK(condition, what, value)                                                                                  \
	do {                                                                                                           \
		if (!(condition))                                                                                      \
			die(what, (long)(value));                                                                      \
	} while (0)

UNTRACED static void pause_us(long us)
{
	struct timespec left = {us / 1000000, us % 1000000 * 1000};

	while (nanosleep(&left, &left) && errno == EINTR)
		;
}

/* A number that is another each time, without state that a signal could spoil. */
UNTRACED static word chance(word below)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return ((word)now.tv_nsec * 2654435761u >> 12) % below;
}

/* ---- what is struck ---- */

TRACED static word leaf(word x)
{
	return x * 2654435761u + 1;
}

TRACED static word pair(word x)
{
	return leaf(x) + leaf(x + 1);
}

TRACED static word nested(word depth)
{
	return depth ? nested(depth - 1) + leaf(depth) - depth * 2654435761u : 0;
}

/* Tiny calls: nearly all of their time is a recorder's. */
TRACED static void calls(word count)
{
	for (word i = 0; i < count; i++)
		CHECK(pair(i) == (2 * i + 1) * 2654435761u + 2, "two calls", i);
	CHECK(nested(count % 20) == count % 20, "a recursion", count);
}

/* ---- how it is struck ---- */

UNTRACED static void *memory(word size)
{
	void *made = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(made != MAP_FAILED, "mmap", size);
	return made;
}

UNTRACED static void take(int number, void (*handler)(int, siginfo_t *, void *), int flags)
{
	struct sigaction act = {};

	act.sa_sigaction = handler;
	act.sa_flags = SA_SIGINFO | SA_RESTART | flags;
	CHECK(!sigaction(number, &act, NULL), "sigaction", number);
}

UNTRACED static void strike(int number, long every_ns)
{
	struct sigevent event = {};
	struct itimerspec often = {{0, every_ns}, {0, every_ns}};
	timer_t timer;

	event.sigev_notify = SIGEV_THREAD_ID;
	event.sigev_signo = number;
	event._sigev_un._tid = gettid();
	CHECK(!timer_create(CLOCK_MONOTONIC, &event, &timer), "timer_create", number);
	CHECK(!timer_settime(timer, 0, &often, NULL), "timer_settime", number);
}

UNTRACED static void other_stack()
{
	stack_t stack = {};

	stack.ss_sp = memory(STACK);
	stack.ss_size = STACK;
	CHECK(!sigaltstack(&stack, NULL), "sigaltstack", 0);
}

/* The thread's own signal, so that the kinds do not share handlers. */
static int next_signal = 34 + 3;
static thread_local int own_signal;

UNTRACED static void struck_by(void (*handler)(int, siginfo_t *, void *), int flags)
{
	own_signal = __atomic_fetch_add(&next_signal, 1, __ATOMIC_RELAXED);
	take(own_signal, handler, flags);
	strike(own_signal, OFTEN_NS);
}

/* ---- handlers that sleep ---- */

static thread_local word strikes;

TRACED static void sleeps(int, siginfo_t *, void *)
{
	if (strikes++ % 7 == 0)
		pause_us(20000);
	calls(1);
}

UNTRACED static void sleeps_unseen(int, siginfo_t *, void *)
{
	if (strikes++ % 7 == 0)
		pause_us(20000);
}

TRACED static void sleeps_shortly(int, siginfo_t *, void *)
{
	if (strikes++ % 8 < 2)
		pause_us(3000);
	calls(1);
}

/* Deep in a recursion of its own, so that what it has interrupted is megabytes away. */
TRACED static word sinks(word depth)
{
	volatile char here[4096];

	here[depth % sizeof(here)] = 1;
	if (!depth)
		pause_us(10000);
	return depth ? sinks(depth - 1) + here[depth % sizeof(here)] : 0;
}

TRACED static void sleeps_deep(int, siginfo_t *, void *)
{
	if (strikes++ % 9 == 0)
		CHECK(sinks(600) == 600, "a recursion in a handler", strikes);
}

/* Walks the stack, as a sampling profiler does. */
TRACED static void profiles(int, siginfo_t *, void *)
{
	void *frames[64];

	CHECK(backtrace(frames, 64) > 1, "backtrace", strikes);
	if (strikes++ % 11 == 0)
		pause_us(5000);
}

TRACED static void works()
{
	calls(20 + chance(20));
}

/* Nearly all of its time it is in backtrace(), so that is what is struck. */
TRACED static void walks()
{
	void *frames[64];

	CHECK(backtrace(frames, 64) > 1, "a walk", strikes);
}

TRACED static void is_deep()
{
	CHECK(sinks(700) == 700, "a recursion", 0);
	calls(20);
}

/* ---- one handler inside another ---- */

TRACED static void inner(int, siginfo_t *, void *)
{
	static thread_local word times;

	calls(2);
	if (times++ % 100 == 0)
		pause_us(4000);
}

TRACED static void outer(int, siginfo_t *, void *)
{
	if (strikes++ % 3 == 0)
		for (int i = 0; i < 200; i++)
			calls(5);
}

UNTRACED static void nests_begin(int flags_outer, int flags_inner)
{
	struck_by(outer, flags_outer);
	int second = __atomic_fetch_add(&next_signal, 1, __ATOMIC_RELAXED);
	take(second, inner, flags_inner);
	strike(second, OFTEN_NS / 3);
}

/* ---- handlers that are left by a jump ---- */

static thread_local sigjmp_buf back;
static thread_local volatile bool may_jump;

TRACED static void jumps_out(int, siginfo_t *, void *)
{
	if (strikes++ % 7 == 0)
		pause_us(10000);
	if (may_jump && strikes % 3 == 0) {
		may_jump = false;
		siglongjmp(back, 9);
	}
}

TRACED static void is_left()
{
	if (!sigsetjmp(back, 1)) {
		may_jump = true;
		calls(30);
	}
	may_jump = false;
	calls(3);
}

/* ---- contexts that a handler saves, and goes back to ---- */

TRACED static void goes_back(int, siginfo_t *, void *)
{
	static thread_local ucontext_t here;
	volatile word times = 0;

	CHECK(!getcontext(&here), "getcontext", times);
	calls(1);
	if (strikes++ % 5 == 0)
		pause_us(5000);
	if (times++ < 3)
		CHECK(!setcontext(&here), "setcontext", times);
}

/* ---- a scheduler that takes the processor away from its coroutines, by a signal ---- */

#define COROUTINES 6

struct Scheduler {
	ucontext_t home, contexts[COROUTINES];
	word done[COROUTINES];
	int running; /* -1: the scheduler itself */
};

static thread_local Scheduler *scheduler;

TRACED static void preempts(int, siginfo_t *, void *)
{
	Scheduler *all = scheduler;
	int self = all ? all->running : -1;

	/* swapcontext() lets signals through while it is still on the scheduler's stack. */
	if (self < 0 || (word)__builtin_frame_address(0) - (word)all->contexts[self].uc_stack.ss_sp >= STACK)
		return;
	all->running = -1;
	CHECK(!swapcontext(&all->contexts[self], &all->home), "swapcontext in a handler", self);
}

TRACED static void coroutine(unsigned index)
{
	for (;;) {
		calls(10);
		scheduler->done[index]++;
	}
}

TRACED static void schedules()
{
	sigset_t own, before;

	sigemptyset(&own);
	sigaddset(&own, own_signal);
	if (!scheduler) {
		pthread_sigmask(SIG_BLOCK, &own, &before);
		Scheduler *all = (Scheduler *)memory(sizeof(*all));
		for (unsigned i = 0; i < COROUTINES; i++) {
			CHECK(!getcontext(&all->contexts[i]), "getcontext", i);
			all->contexts[i].uc_stack.ss_sp = memory(STACK);
			all->contexts[i].uc_stack.ss_size = STACK;
			sigdelset(&all->contexts[i].uc_sigmask, own_signal);
			makecontext(&all->contexts[i], (void (*)())coroutine, 1, i);
		}
		all->running = -1;
		scheduler = all;
	}
	/* The signal is blocked but in the coroutines, whose contexts unblock it. */
	int next = (int)chance(COROUTINES);
	scheduler->running = next;
	CHECK(!swapcontext(&scheduler->home, &scheduler->contexts[next]), "swapcontext", next);
	calls(2);
}

/* ---- coroutines that give way by what is a jump in the code, for it is the last that they do ---- */

struct Giver {
	ucontext_t home, contexts[COROUTINES];
	word sums[COROUTINES];
	void *stacks[COROUTINES];
	bool over[COROUTINES];
};

static thread_local Giver *giver;

TRACED static int gives_way(unsigned index)
{
	return swapcontext(&giver->contexts[index], &giver->home);
}

TRACED static int resumes(unsigned index)
{
	return swapcontext(&giver->home, &giver->contexts[index]);
}

TRACED static word gives(unsigned index, word depth)
{
	if (!depth)
		return 0;
	CHECK(!gives_way(index), "swapcontext", index);
	return gives(index, depth - 1) + 1;
}

TRACED static void giving(unsigned index)
{
	for (word depth = 0; depth < 12; depth += 3)
		giver->sums[index] += gives(index, depth);
	giver->over[index] = true;
}

TRACED static void gives_ways()
{
	if (!giver)
		giver = (Giver *)memory(sizeof(*giver));
	unsigned index = (unsigned)chance(COROUTINES);
	if (!giver->stacks[index] || giver->over[index]) {
		CHECK(giver->sums[index] == (giver->stacks[index] ? 18 : 0), "a coroutine's sum", giver->sums[index]);
		if (!giver->stacks[index])
			giver->stacks[index] = memory(STACK);
		CHECK(!getcontext(&giver->contexts[index]), "getcontext", index);
		giver->contexts[index].uc_stack.ss_sp = giver->stacks[index];
		giver->contexts[index].uc_stack.ss_size = STACK;
		giver->contexts[index].uc_link = &giver->home;
		giver->sums[index] = 0;
		giver->over[index] = false;
		makecontext(&giver->contexts[index], (void (*)())giving, 1, index);
	}
	CHECK(!resumes(index), "swapcontext", index);
	pause_us(200);
}

/*
 * Coroutines by a switch of the program's own, which keeps a paused coroutine's registers not on its stack but beside
 * it: { address, stack pointer, rbx, rbp, r12 to r15 }.
 */
struct Saved {
	word words[8];
};

extern "C" int switch_stacks(Saved *from, const Saved *to);
__asm__(".text\n"
	".globl switch_stacks\n"
	".type switch_stacks, @function\n"
	"switch_stacks:\n"
	"	mov (%rsp), %rax\n"
	"	mov %rax, (%rdi)\n"
	"	lea 8(%rsp), %rax\n"
	"	mov %rax, 8(%rdi)\n"
	"	mov %rbx, 16(%rdi)\n"
	"	mov %rbp, 24(%rdi)\n"
	"	mov %r12, 32(%rdi)\n"
	"	mov %r13, 40(%rdi)\n"
	"	mov %r14, 48(%rdi)\n"
	"	mov %r15, 56(%rdi)\n"
	"	mov 16(%rsi), %rbx\n"
	"	mov 24(%rsi), %rbp\n"
	"	mov 32(%rsi), %r12\n"
	"	mov 40(%rsi), %r13\n"
	"	mov 48(%rsi), %r14\n"
	"	mov 56(%rsi), %r15\n"
	"	mov 8(%rsi), %rsp\n"
	"	xor %eax, %eax\n"
	"	jmp *(%rsi)\n"
	".size switch_stacks, . - switch_stacks\n");

struct Hand {
	Saved home, saved[COROUTINES];
	word sums[COROUTINES];
	unsigned running;
	bool begun[COROUTINES], over[COROUTINES];
	void *stacks[COROUTINES];
};

static thread_local Hand *hand;

TRACED static int hands_over()
{
	return switch_stacks(&hand->saved[hand->running], &hand->home);
}

TRACED static int takes_over(unsigned index)
{
	hand->running = index;
	return switch_stacks(&hand->home, &hand->saved[index]);
}

TRACED static word hands(word depth)
{
	if (!depth)
		return 0;
	CHECK(!hands_over(), "a switch", depth);
	return hands(depth - 1) + 1;
}

TRACED static void handing()
{
	for (;;) {
		hand->sums[hand->running] = 0;
		for (word depth = 0; depth < 12; depth += 3)
			hand->sums[hand->running] += hands(depth);
		CHECK(hand->sums[hand->running] == 18, "a coroutine's sum", hand->sums[hand->running]);
	}
}

TRACED static void hands_overs()
{
	if (!hand)
		hand = (Hand *)memory(sizeof(*hand));
	unsigned index = (unsigned)chance(COROUTINES);
	if (!hand->stacks[index]) {
		hand->stacks[index] = memory(STACK);
		hand->saved[index].words[0] = (word)handing;
		hand->saved[index].words[1] = (word)hand->stacks[index] + STACK - 64 - 8;
	}
	CHECK(!takes_over(index), "a switch", index);
	pause_us(200);
}

/* ---- exceptions ---- */

struct Fault {
	word depth;
};

TRACED static word throws_deep(word depth)
{
	struct Guard {
		word *count;
		TRACED ~Guard()
		{
			++*count;
		}
	};
	static thread_local word count;
	Guard guard = {&count};

	if (!depth)
		throw Fault{count};
	return throws_deep(depth - 1) + 1;
}

TRACED static void throws()
{
	bool caught = false;

	try {
		throws_deep(chance(20));
	} catch (Fault &) {
		caught = true;
	}
	CHECK(caught, "an exception", 0);
}

/* ---- a thread that stays in its handler for very long ---- */

static int stay; /* SIGUSR1 to the process sets it, SIGUSR2 takes it back */

TRACED static void stays(int, siginfo_t *, void *)
{
	if (strikes++ % 500 == 499)
		pause_us(300000);
	while (__atomic_load_n(&stay, __ATOMIC_RELAXED) && !stopping())
		pause_us(10000);
}

/* ---- handlers that libc does not know of: what they return to is another piece of code ---- */

extern "C" void own_restorer();
__asm__(".text\n"
	".globl own_restorer\n"
	"own_restorer:\n"
	"	push $15\n"
	"	pop %rax\n"
	"	syscall\n");

struct kernel_action {
	void (*handler)(int, siginfo_t *, void *);
	word flags;
	void (*restorer)();
	word mask;
};

UNTRACED static void raw_begin()
{
	struct kernel_action act = {sleeps, SA_SIGINFO | SA_RESTART | 0x04000000, own_restorer, 0};

	own_signal = __atomic_fetch_add(&next_signal, 1, __ATOMIC_RELAXED);
	CHECK(!syscall(SYS_rt_sigaction, own_signal, &act, NULL, 8), "rt_sigaction", own_signal);
	strike(own_signal, OFTEN_NS);
}

/* ---- a parent that sleeps uninterruptibly ---- */

TRACED static word vforks(word depth)
{
	if (depth)
		return vforks(depth - 1) + 1;
	pid_t pid = vfork();
	if (!pid) {
		pause_us(20000);
		_exit(9);
	}
	int status = 0;
	CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && WEXITSTATUS(status) == 9, "vfork", status);
	return 0;
}

TRACED static void vforking()
{
	word depth = chance(10);

	CHECK(vforks(depth) == depth, "a vfork", depth);
	pause_us(3000);
	calls(20);
}

static const struct Kind {
	const char *name;
	void (*begin)();
	void (*work)();
} kinds[] = {
	{"sleeps", [] { struck_by(sleeps, 0); }, works},
	{"unseen", [] { struck_by(sleeps_unseen, 0); }, works},
	{"alternate",
	 [] {
		 other_stack();
		 struck_by(sleeps_shortly, SA_ONSTACK);
	 },
	 works},
	{"sinks", [] { struck_by(sleeps_deep, 0); }, works},
	{"deep", [] { struck_by(sleeps, 0); }, is_deep},
	{"deep-alternate",
	 [] {
		 other_stack();
		 struck_by(sleeps, SA_ONSTACK);
	 },
	 is_deep},
	{"profiled", [] { struck_by(profiles, 0); }, works},
	{"walks", [] { struck_by(sleeps_unseen, 0); }, walks},
	{"nests", [] { nests_begin(0, 0); }, works},
	{"nests-alternate",
	 [] {
		 other_stack();
		 nests_begin(0, SA_ONSTACK);
	 },
	 works},
	{"alternate-nests",
	 [] {
		 other_stack();
		 nests_begin(SA_ONSTACK, SA_ONSTACK);
	 },
	 works},
	{"jumps", [] { struck_by(jumps_out, 0); }, is_left},
	{"jumps-alternate",
	 [] {
		 other_stack();
		 struck_by(jumps_out, SA_ONSTACK);
	 },
	 is_left},
	{"contexts", [] { struck_by(goes_back, 0); }, works},
	{"preempts", [] { struck_by(preempts, 0); }, schedules},
	{"gives", [] {}, gives_ways},
	{"hands", [] {}, hands_overs},
	{"throws", [] { struck_by(sleeps, 0); }, throws},
	{"throws-alternate",
	 [] {
		 other_stack();
		 struck_by(sleeps, SA_ONSTACK);
	 },
	 throws},
	{"stays", [] { struck_by(stays, 0); }, works},
	{"stays-alternate",
	 [] {
		 other_stack();
		 struck_by(stays, SA_ONSTACK);
	 },
	 works},
	{"raw", raw_begin, works},
	{"vforks", [] {}, vforking},
};

UNTRACED static const Kind *kind_named(const char *name)
{
	for (const Kind &kind : kinds)
		if (!strcmp(kind.name, name))
			return &kind;
	die("there is no such kind", 0);
	return NULL;
}

TRACED static void *keeps_on(void *argument)
{
	const Kind *kind = (const Kind *)argument;

	kind->begin();
	while (!stopping())
		kind->work();
	return NULL;
}

int main(int count, char **arguments)
{
	pthread_t made[64];
	pthread_attr_t attr;
	sigset_t set;
	int began = 0, number;

	CHECK(count > 1, "struck KIND...", count);
	sigemptyset(&set);
	for (int each : {SIGTERM, SIGUSR1, SIGUSR2})
		sigaddset(&set, each);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 8 << 20);
	for (int i = 1; i < count; i++)
		CHECK(!pthread_create(&made[began++], &attr, keeps_on, (void *)kind_named(arguments[i])),
		      "pthread_create", i);
	printf("ready %d\n", getpid());
	fflush(stdout);
	while (sigwait(&set, &number) || number != SIGTERM)
		__atomic_store_n(&stay, number == SIGUSR1, __ATOMIC_RELAXED);
	__atomic_store_n(&stop_now, 1, __ATOMIC_RELAXED);
	for (int i = 0; i < began; i++)
		CHECK(!pthread_join(made[i], NULL), "pthread_join", i);
	printf("all was well\n");
	fflush(stdout);
	return 42;
}
