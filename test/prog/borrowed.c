/*
 * Threads of which one is borrowed for an attach, as the argument says:
 *
 *     waits     all wait by a futex: for a semaphore, a condition, one with a time limit, and for a thread's end.  Each
 *               SIGUSR1 has the first one make some calls
 *     churns    threads begin and end all the time, joined and detached; each makes some calls
 *     drops     the same, with the rights of nobody: its mem file in /proc is root's then, and not for itself
 *     unshares  one thread with the rights of nobody, which makes calls, and moves to a user namespace of its own when
 *               SIGUSR1 comes
 *     scans     one thread, which is in strlen() nearly all the time, and in between makes some calls
 *     raises    one thread, of which an instruction raises SIGSEGV most of the time: the handler knows its address, and
 *               goes on behind it (x86-64)
 *
 * Prints "ready PID"; SIGTERM ends it, with "all was well" and status 42.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#define TRACED	  __attribute__((noinline, noclone))
#define STATUS	  42
#define AT_A_TIME 8
#define CALLS	  2000
#define NOBODY	  65534
#define TEXT	  (64u << 20) /* bytes */

static volatile sig_atomic_t ends;
static sem_t turn, detached;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t never = PTHREAD_COND_INITIALIZER, later = PTHREAD_COND_INITIALIZER;
static int is_over;

static TRACED unsigned call(unsigned x)
{
	return x * 1664525u + 1013904223u;
}

static void make_calls(void)
{
	volatile unsigned x = 1;

	for (int i = 0; i < CALLS; i++)
		x = call(x);
}

static void on_signal(int signal)
{
	ends |= signal == SIGTERM;
	sem_post(&turn);
}

static void *take_turns(void *arg)
{
	(void)arg;
	while (!ends) {
		while (sem_wait(&turn))
			continue;
		make_calls();
	}
	return NULL;
}

static void *wait_for_condition(void *arg)
{
	(void)arg;
	pthread_mutex_lock(&lock);
	while (!is_over)
		pthread_cond_wait(&never, &lock);
	pthread_mutex_unlock(&lock);
	return NULL;
}

/* The time limit is half a second off, again and again. */
static void *wait_with_limit(void *arg)
{
	struct timespec until;

	(void)arg;
	pthread_mutex_lock(&lock);
	while (!is_over) {
		clock_gettime(CLOCK_REALTIME, &until);
		until.tv_nsec += 500000000;
		until.tv_sec += until.tv_nsec / 1000000000;
		until.tv_nsec %= 1000000000;
		pthread_cond_timedwait(&later, &lock, &until);
	}
	pthread_mutex_unlock(&lock);
	return NULL;
}

static void say_ready(void)
{
	printf("ready %d\n", (int)getpid());
	fflush(stdout);
}

/* Ready when all threads are there. */
static int waits(void)
{
	pthread_t first, second, third;

	if (pthread_create(&first, NULL, take_turns, NULL) || pthread_create(&second, NULL, wait_for_condition, NULL) ||
	    pthread_create(&third, NULL, wait_with_limit, NULL))
		return 1;
	say_ready();
	pthread_join(first, NULL);
	pthread_mutex_lock(&lock);
	is_over = 1;
	pthread_cond_broadcast(&never);
	pthread_cond_broadcast(&later);
	pthread_mutex_unlock(&lock);
	pthread_join(second, NULL);
	pthread_join(third, NULL);
	return 0;
}

static void *be_short(void *arg)
{
	make_calls();
	if (arg)
		sem_post(&detached);
	return NULL;
}

static int churns(void)
{
	pthread_t threads[AT_A_TIME];

	while (!ends) {
		for (int i = 0; i < AT_A_TIME; i++) {
			int is_detached = i % 4 == 3;

			if (pthread_create(&threads[i], NULL, be_short, is_detached ? &detached : NULL))
				return 1;
			if (is_detached)
				pthread_detach(threads[i]);
		}
		for (int i = 0; i < AT_A_TIME; i++) {
			if (i % 4 != 3)
				pthread_join(threads[i], NULL);
			else
				while (sem_wait(&detached))
					continue;
		}
	}
	return 0;
}

static int unshares(void)
{
	while (!ends) {
		if (!sem_trywait(&turn) && !ends && unshare(CLONE_NEWUSER))
			return 1;
		make_calls();
		usleep(1000);
	}
	return 0;
}

static int scans(void)
{
	static char text[TEXT];

	memset(text, 'a', TEXT - 1);
	while (!ends) {
		if (strlen(text) != TEXT - 1)
			return 1;
		make_calls();
	}
	return 0;
}

#ifdef __x86_64__
extern const char load_begin[], load_end[];

static void on_fault(int number, siginfo_t *info, void *context)
{
	greg_t *pc = &((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];

	(void)number;
	(void)info;
	if ((const char *)*pc != load_begin) {
		static const char text[] = "a fault elsewhere\n";

		_exit(write(1, text, sizeof(text) - 1) < 0 ? 2 : 1);
	}
	*pc = (greg_t)load_end;
}

static __attribute__((noinline, noclone)) void raise_one(void)
{
	__asm__ volatile("load_begin: movl (%0), %%eax\n"
			 "load_end:"
			 :
			 : "r"(0ul)
			 : "eax", "memory");
}

static int raises(void)
{
	struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};

	sigaction(SIGSEGV, &action, NULL);
	while (!ends) {
		for (int i = 0; i < CALLS; i++)
			raise_one();
		make_calls();
	}
	return 0;
}
#else
static int raises(void)
{
	return 1;
}
#endif

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "waits";
	int failed;

	sem_init(&turn, 0, 0);
	sem_init(&detached, 0, 0);
	signal(SIGUSR1, on_signal);
	signal(SIGTERM, on_signal);
	if (strcmp(what, "waits") != 0)
		say_ready();
	if ((!strcmp(what, "drops") || !strcmp(what, "unshares")) && (setgid(NOBODY) || setuid(NOBODY)))
		return 1;
	failed = !strcmp(what, "unshares")			     ? unshares()
		 : !strcmp(what, "churns") || !strcmp(what, "drops") ? churns()
		 : !strcmp(what, "scans")			     ? scans()
		 : !strcmp(what, "raises")			     ? raises()
								     : waits();
	if (failed)
		return 1;
	printf("all was well\n");
	return STATUS;
}
