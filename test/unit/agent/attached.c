/* A process to attach to (attached.h). */
#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include <calltap/abi/attach.h>
#include <calltap/abi/control.h>

#include "attached.h"

struct shared *shared;
const char *agent_path;

#if defined(__clang__)
#define TRACED __attribute__((noinline, patchable_function_entry(5)))
#else
#define TRACED __attribute__((noinline, noclone, patchable_function_entry(5)))
#endif

static void wait_while_parked(void)
{
	__atomic_add_fetch(&shared->parked, 1, __ATOMIC_SEQ_CST);
	while (__atomic_load_n(&shared->park, __ATOMIC_SEQ_CST))
		usleep(200);
	__atomic_sub_fetch(&shared->parked, 1, __ATOMIC_SEQ_CST);
}

static bool is_child;

TRACED int outer(int x);
TRACED int middle(int x);
TRACED int inner(int x);

int inner(int x)
{
	if (__atomic_load_n(&shared->park, __ATOMIC_SEQ_CST) && !is_child)
		wait_while_parked();
	return x + 1;
}

int middle(int x)
{
	int sum = inner(x);

	__asm__ volatile("" : "+r"(sum));
	return sum + 10;
}

int outer(int x)
{
	int sum = x ? outer(x - 1) : 0;

	__asm__ volatile("" : "+r"(sum));
	return sum + middle(x);
}

const uint64_t functions[FUNCTIONS] = {(uint64_t)outer, (uint64_t)middle, (uint64_t)inner};
#define DEPTH  6
#define WANTED (DEPTH * (DEPTH + 1) / 2 + (DEPTH + 1) * 11)

/* Words that a loader would have bound to libc's functions. */
void *volatile words[2] = {(void *)longjmp, (void *)sigaltstack};

/* A coroutine that waits within traced functions, on a stack that no thread is on. */
static ucontext_t coroutine, resumed;
static char coroutine_stack[65536] __attribute__((aligned(4096)));
static int coroutine_sum;

TRACED int waits(int x);
int waits(int x)
{
	int sum = 100;

	if (x)
		sum = waits(x - 1) + 1;
	else
		swapcontext(&coroutine, &resumed);
	__asm__ volatile("" : "+r"(sum)); /* without it the compiler makes one frame of all */
	return sum;
}

static void run_coroutine(void)
{
	coroutine_sum = waits(3);
}

static void *work(void *arg)
{
	shared->pointers[(uintptr_t)arg] = (uint64_t)__builtin_thread_pointer();
	for (;;) {
		if (outer(DEPTH) != WANTED)
			__atomic_add_fetch(&shared->wrong, 1, __ATOMIC_SEQ_CST);
		__atomic_add_fetch(&shared->rounds, 1, __ATOMIC_SEQ_CST);
		__atomic_add_fetch(&shared->own_rounds[(uintptr_t)arg], 1, __ATOMIC_SEQ_CST);
	}
	return NULL;
}

static struct calltap_attach *borrow(void)
{
	struct calltap_attach *attach =
		mmap(NULL, CALLTAP_BORROWED_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (attach == MAP_FAILED)
		abort();
	attach->version = CALLTAP_ABI_VERSION;
	attach->memory = (uint64_t)attach;
	attach->memory_size = CALLTAP_BORROWED_SIZE;
	attach->main_thread = (uint64_t)__builtin_thread_pointer();
	attach->main_stack_end = (uint64_t)environ;
	memcpy(attach->session, shared->session, sizeof(attach->session));
	return attach;
}

static void bring_in(void)
{
	struct calltap_attach *attach = borrow();
	void *agent = dlopen(agent_path, RTLD_NOW | RTLD_LOCAL);
	int (*enter)(struct calltap_attach *) = NULL;
	sigset_t all, old;

	if (agent)
		*(void **)&enter = dlsym(agent, "calltap_agent_attach");
	if (!enter) {
		fprintf(stderr, "%s\n", dlerror());
		abort();
	}
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	shared->result = enter(attach);
	memcpy(shared->error, attach->error, sizeof(shared->error));
	if (shared->result)
		munmap(attach, CALLTAP_BORROWED_SIZE);
	else
		__atomic_store_n(&attach->left, 1, __ATOMIC_RELEASE);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
}

static void obey(enum order order)
{
	if (order == LOAD) {
		if (!dlopen(LOADED, RTLD_NOW))
			abort();
	} else if (order == ATTACH) {
		bring_in();
	} else if (order == FORK) {
		shared->child = fork();
		if (!shared->child) {
			is_child = true;
			_exit(outer(DEPTH) == WANTED ? 0 : 1);
		}
		waitpid(shared->child, &shared->result, 0);
	} else if (order == FORK_ATTACH) {
		pid_t child = fork();

		if (!child) {
			is_child = true;
			bring_in();
			while (!shared->result) /* the agent could not begin, or the test ends it */
				pause();
			_exit(1);
		}
		shared->child = child;
		waitpid(child, &shared->result, 0);
	}
}

static void prepare_coroutine(void)
{
	getcontext(&coroutine);
	coroutine.uc_stack.ss_sp = coroutine_stack;
	coroutine.uc_stack.ss_size = sizeof(coroutine_stack);
	coroutine.uc_link = &resumed;
}

void process(void)
{
	uint32_t seen = 0;

	shared->pointers[WORKERS] = (uint64_t)__builtin_thread_pointer();
	for (uintptr_t i = 0; i < WORKERS; i++) {
		pthread_t thread;

		if (pthread_create(&thread, NULL, work, (void *)i))
			abort();
	}
	for (;;) {
		uint32_t order = __atomic_load_n(&shared->order, __ATOMIC_SEQ_CST);

		if (order == seen) {
			usleep(100);
			continue;
		}
		seen = order;
		if ((order & 15) == QUIT)
			_exit(0);
		if ((order & 15) == PARK) { /* start the coroutine, or let it end */
			if (coroutine_sum == 0) {
				prepare_coroutine();
				makecontext(&coroutine, run_coroutine, 0);
				coroutine_sum = -1;
				swapcontext(&resumed, &coroutine);
			} else {
				swapcontext(&resumed, &coroutine);
				if (coroutine_sum != 103)
					__atomic_add_fetch(&shared->wrong, 1, __ATOMIC_SEQ_CST);
				coroutine_sum = 0;
			}
		}
		obey(order & 15);
		__atomic_store_n(&shared->done, order, __ATOMIC_SEQ_CST);
	}
}
