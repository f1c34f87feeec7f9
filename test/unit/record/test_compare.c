/*
 * The text of a process beside its files (host/compare.c), while the process maps another file in the place of the
 * first, and back, all the time.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host/compare.h"
#include "support.h"

enum { FILES = 2, SIZE = 4096, ROUNDS = 2000 };

static struct {
	int fd[FILES];
	struct stat status[FILES];
} made;

static int make_files(void **state)
{
	(void)state;
	for (int i = 0; i < FILES; i++) {
		char name[] = "/tmp/calltap-compare-XXXXXX", bytes[SIZE];

		made.fd[i] = mkstemp(name);
		memset(bytes, 'a' + i, sizeof(bytes));
		if (made.fd[i] < 0 || unlink(name) || write(made.fd[i], bytes, sizeof(bytes)) != SIZE ||
		    fstat(made.fd[i], &made.status[i]))
			return -1;
	}
	return 0;
}

static bool is_ours(const void *context, int fd)
{
	struct stat status;

	(void)context;
	if (fstat(fd, &status))
		return false;
	for (int i = 0; i < FILES; i++)
		if (status.st_ino == made.status[i].st_ino && status.st_dev == made.status[i].st_dev)
			return true;
	return false;
}

static void *map_file(void *at, int i)
{
	void *got = mmap(at, SIZE, PROT_READ | PROT_EXEC, MAP_PRIVATE | (at ? MAP_FIXED : 0), made.fd[i], 0);

	if (got == MAP_FAILED)
		_exit(1);
	return got;
}

/* A child that does what is asked for until it is killed, or this process ends; it says when it has begun. */
static pid_t begin(void (*work)(void *at))
{
	int ready[2];
	pid_t child;
	char byte;

	assert_int_equal(pipe(ready), 0);
	child = fork();
	assert_true(child >= 0);
	if (!child) {
		void *at = map_file(NULL, 0);

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (write(ready[1], "", 1) == 1)
			work(at);
		_exit(1);
	}
	assert_int_equal(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	close(ready[1]);
	return child;
}

static void end(pid_t child)
{
	assert_int_equal(kill(child, SIGKILL), 0);
	assert_int_equal(waitpid(child, NULL, 0), child);
}

static void change(void *at)
{
	for (int i = 1;; i = !i)
		map_file(at, i);
}

static void write_byte(void *at)
{
	if (mprotect(at, SIZE, PROT_READ | PROT_WRITE))
		return;
	((volatile char *)at)[5] = 'x';
	if (mprotect(at, SIZE, PROT_READ | PROT_EXEC))
		return;
	for (;;)
		pause();
}

static void objects_that_come_and_go_do_not_differ(void **state)
{
	pid_t child = begin(change);

	(void)state;
	for (int i = 0; i < ROUNDS; i++)
		assert_int_equal(compare_text(child, is_ours, NULL).differing, 0);
	end(child);
}

static void what_is_written_differs(void **state)
{
	struct compare_result result = {0};
	pid_t child = begin(write_byte);

	(void)state;
	while (!result.differing)
		result = compare_text(child, is_ours, NULL);
	assert_int_equal(result.differing, 1);
	assert_int_equal(result.first, 5);
	assert_int_equal(result.verified, SIZE);
	end(child);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(objects_that_come_and_go_do_not_differ),
		cmocka_unit_test(what_is_written_differs),
	};

	return cmocka_run_group_tests(tests, make_files, NULL);
}
