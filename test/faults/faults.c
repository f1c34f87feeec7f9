/*
 * Lets the n-th system call of one kind fail in the agent, or come up short.
 *
 * CALLTAP_FAULTS in the environment is LOG:NUMBER:N:HOW. The N-th call of the system call NUMBER is not made and
 * returns -HOW; with HOW 0 it is made with half of its size.  With N below 0 all calls from the -N-th on fail so.
 * Then "hit" is appended to the file LOG. With NUMBER -1 nothing fails, and the number of each call is appended.  A
 * forked child goes on from its parent's count.  Used by test/e2e/faults.py.  Contexts: those of the agent's system
 * calls, so raw calls only.
 */
#define FAULTS_THEMSELVES
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>

#include <arch.h>
#include <base/mem.h>

#define VARIABLE "CALLTAP_FAULTS="
#define ALL	 (-1)

static struct {
	int state; /* 0: the environment was not read, 1: nothing to do, 2: at work */
	long number, nth, how;
	long count;
	char log[512];
	char environment[65536];
} faults;

static long parse_number(const char **text)
{
	long sign = **text == '-' ? -1 : 1, value = 0;

	*text += **text == '-';
	for (; **text >= '0' && **text <= '9'; ++*text)
		value = value * 10 + **text - '0';
	*text += **text == ':';
	return sign * value;
}

static void parse(const char *value)
{
	size_t length = 0;

	while (value[length] && value[length] != ':' && length + 1 < sizeof(faults.log))
		length++;
	memcpy(faults.log, value, length);
	value += length + 1;
	faults.number = parse_number(&value);
	faults.nth = parse_number(&value);
	faults.how = parse_number(&value);
	faults.state = 2;
}

/* The first call comes from the agent's constructor, before there are threads and before libc has an environment. */
static void read_environment(void)
{
	long fd = arch_syscall(SYS_openat, AT_FDCWD, (long)"/proc/self/environ", O_RDONLY, 0, 0, 0), got = 0, more;
	const size_t length = sizeof(VARIABLE) - 1;

	faults.state = 1;
	do {
		more = arch_syscall(SYS_read, fd, (long)faults.environment + got,
				    (long)sizeof(faults.environment) - 1 - got, 0, 0, 0);
		got += more > 0 ? more : 0;
	} while (more > 0);
	arch_syscall(SYS_close, fd, 0, 0, 0, 0, 0);
	for (const char *at = faults.environment; at < faults.environment + got; at += base_strlen(at) + 1)
		if (base_strlen(at) > length && !memcmp(at, VARIABLE, length))
			parse(at + length);
}

static void say(const char *text, size_t size)
{
	long fd = arch_syscall(SYS_openat, AT_FDCWD, (long)faults.log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600,
			       0, 0);

	arch_syscall(SYS_write, fd, (long)text, (long)size, 0, 0, 0);
	arch_syscall(SYS_close, fd, 0, 0, 0, 0, 0);
}

static void say_number(long number)
{
	char text[8] = "0000000\n";

	for (int i = 6; i >= 0; i--, number /= 10)
		text[i] = (char)('0' + number % 10);
	say(text, sizeof(text));
}

/* Is this the call that fails? */
static int strikes(long number)
{
	long count;

	if (!faults.state)
		read_environment();
	if (faults.state != 2)
		return 0;
	if (faults.number == ALL)
		say_number(number);
	if (faults.number != number)
		return 0;
	count = __atomic_add_fetch(&faults.count, 1, __ATOMIC_SEQ_CST);
	if (count != faults.nth && (faults.nth > 0 || count < -faults.nth))
		return 0;
	say("hit\n", 4);
	return 1;
}

long faults_syscall(long nr, long a, long b, long c, long d, long e, long f)
{
	if (!strikes(nr))
		return arch_syscall(nr, a, b, c, d, e, f);
	/* The third argument is the size, in all calls that have one: read, write, pread64, pwrite64. */
	return faults.how ? -faults.how : arch_syscall(nr, a, b, c / 2, d, e, f);
}

long faults_thread_start(unsigned long flags, void *stack_top, int (*fn)(void *), void *arg, int *child_tid)
{
	return strikes(SYS_clone) ? -faults.how : arch_thread_start(flags, stack_top, fn, arg, child_tid);
}
