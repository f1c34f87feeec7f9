/*
 * A program that forks without pause while it is told to, in a thread of its own.
 *
 * Prints "ready PID" and takes commands from its input, a line each, which it answers when all is done:
 *
 *     storm   fork children until "calm" comes: every second one calls tick() at once, the others nothing; every fifth
 *             one has a child, too
 *     calm    fork no more; prints the number of children
 *     call N  each process calls the N-th leaf a few times, and children end; prints "PID CALLS" for each
 *     end     ends; prints "all was well" if each child has ended well
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHILDREN_MAX 24
#define LEAVES	     8
#define TRACED	     __attribute__((noinline, noclone))

struct row {
	pid_t pid;
	unsigned calls;
	unsigned done;
};

struct shared {
	unsigned count; /* of children, and children's children */
	unsigned stop;
	struct row rows[CHILDREN_MAX];
};

static struct shared *shared;
static unsigned failed;
static int words[2]; /* a byte for each child */

#define LEAF(n)                                                                                                        \
	TRACED int leaf_##n(int number)                                                                                \
	{                                                                                                              \
		__asm__ volatile("" : "+r"(number));                                                                   \
		return number + n;                                                                                     \
	}                                                                                                              \
	struct shared
LEAF(0);
LEAF(1);
LEAF(2);
LEAF(3);
LEAF(4);
LEAF(5);
LEAF(6);
LEAF(7);

static int (*const leaves[LEAVES])(int) = {leaf_0, leaf_1, leaf_2, leaf_3, leaf_4, leaf_5, leaf_6, leaf_7};

TRACED int tick(int number)
{
	__asm__ volatile("" : "+r"(number));
	return number - 1;
}

static void call(struct row *row, int leaf, unsigned times)
{
	for (unsigned i = 0; i < times; i++)
		if (leaves[leaf]((int)i) != (int)i + leaf)
			_exit(3);
	row->calls = times;
	__atomic_store_n(&row->done, 1, __ATOMIC_RELEASE);
}

/* Wait without a traced call for what call_all() says. */
static int wait_for_leaf(void)
{
	char leaf;

	return read(words[0], &leaf, 1) == 1 ? leaf : 0;
}

static void be_child(unsigned number)
{
	struct row *row = &shared->rows[number];
	unsigned other = CHILDREN_MAX;
	int status = 0;
	pid_t pid = 0;

	row->pid = getpid();
	if (number % 2)
		tick((int)number);
	if (number % 5 == 1)
		other = __atomic_fetch_add(&shared->count, 1, __ATOMIC_SEQ_CST);
	if (other < CHILDREN_MAX) {
		pid = fork();
		if (!pid) {
			row = &shared->rows[other];
			row->pid = getpid();
			if (other % 2)
				tick((int)other);
		}
	}
	call(row, wait_for_leaf(), 1 + number % 7);
	if (pid > 0 && (waitpid(pid, &status, 0) != pid || status))
		_exit(4);
	_exit(pid < 0 ? 5 : 0);
}

static void *storm(void *unused)
{
	while (!__atomic_load_n(&shared->stop, __ATOMIC_ACQUIRE)) {
		unsigned number = __atomic_load_n(&shared->count, __ATOMIC_SEQ_CST);
		pid_t pid;

		if (number < CHILDREN_MAX - 1)
			number = __atomic_fetch_add(&shared->count, 1, __ATOMIC_SEQ_CST);
		if (number < CHILDREN_MAX - 1) {
			pid = fork();
			if (!pid)
				be_child(number);
			failed += pid < 0;
		}
		usleep(1000);
	}
	return unused;
}

static void reap(void)
{
	int status;

	while (waitpid(-1, &status, 0) > 0)
		failed += status != 0;
}

static void call_all(int leaf)
{
	struct row own = {.pid = getpid()};
	char all[CHILDREN_MAX];
	unsigned count = shared->count < CHILDREN_MAX ? shared->count : CHILDREN_MAX;

	call(&own, leaf, 2);
	memset(all, leaf, sizeof(all));
	if (write(words[1], all, sizeof(all)) != sizeof(all))
		failed++;
	reap();
	printf("%d %u\n", (int)own.pid, own.calls);
	for (unsigned i = 0; i < count; i++)
		if (shared->rows[i].pid)
			printf("%d %u\n", (int)shared->rows[i].pid, shared->rows[i].calls);
	memset(shared, 0, sizeof(*shared));
	close(words[0]);
	close(words[1]);
	puts("called");
}

int main(void)
{
	pthread_t thread;
	char line[64];

	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED)
		return 2;
	tick(0);
	printf("ready %d\n", (int)getpid());
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		if (!strcmp(line, "end\n"))
			return puts(failed ? "children failed" : "all was well") < 0;
		if (!strcmp(line, "storm\n")) {
			if (pipe(words) || pthread_create(&thread, NULL, storm, NULL))
				return 3;
			puts("storm");
		} else if (!strcmp(line, "calm\n")) {
			shared->stop = 1;
			pthread_join(thread, NULL);
			printf("%u\n", shared->count);
		} else if (!strncmp(line, "call ", 5)) {
			call_all(line[5] - '0');
		}
		fflush(stdout);
	}
	return 1;
}
