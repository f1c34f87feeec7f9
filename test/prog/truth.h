/*
 * A log in which a test program tells its own calls, beside the trace.
 *
 * Each function of a program opens with TRUTH(), which appends "> name" to the file of the running thread,
 * $CALLTAP_TRUTH/PID.TID, and "< name" when the function is left, each with an address on the stack that it runs on.
 * test/e2e compares the log with the recorded graph.  Lines are written at once, so that a crash loses none.  Without
 * CALLTAP_TRUTH the program logs nothing.  The functions in this file have no site, however the program is built.
 */
#ifndef TEST_PROG_TRUTH_H
#define TEST_PROG_TRUTH_H

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__clang__)
#define UNTRACED __attribute__((no_instrument_function, patchable_function_entry(0), unused))
#define TRACED	 __attribute__((noinline))
#else
#define UNTRACED __attribute__((no_instrument_function, patchable_function_entry(0, 0), unused))
#define TRACED	 __attribute__((noinline, noipa))
#endif

/* In a function whose few instructions may be shorter than a jump to a block: RISC-V's has eight bytes. */
#define ROOM_FOR_JUMP() __asm__ volatile("nop\n\tnop\n\tnop")

/* Opens the log for each line: no descriptor to lose over fork, exec and close. */
UNTRACED static void truth_write(char mark, const char *what, unsigned long number)
{
	const char *folder = getenv("CALLTAP_TRUTH");
	char path[512], line[128];
	int fd, size;

	if (!folder)
		return;
	snprintf(path, sizeof(path), "%s/%ld.%ld", folder, (long)getpid(), (long)syscall(SYS_gettid));
	size = snprintf(line, sizeof(line), "%c %s %lx\n", mark, what, number);
	fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0 || write(fd, line, size) != size)
		_exit(99);
	close(fd);
}

UNTRACED static void truth_line(char mark, const char *name)
{
	/* Less a word: on some CPUs the address is that of the frame's end, where another stack may begin. */
	truth_write(mark, name, (unsigned long)__builtin_frame_address(0) - sizeof(long));
}

/*
 * This memory is a stack, other than a thread's own: what runs on it is a chain of frames of its own.  Told again when
 * something else starts there, for then the frames that were left on it are gone.
 */
UNTRACED static void truth_stack(const void *memory, unsigned long size)
{
	char low[32];

	snprintf(low, sizeof(low), "%lx", (unsigned long)memory);
	truth_write('=', low, (unsigned long)memory + size);
}

UNTRACED static const char *truth_enter(const char *name)
{
	truth_line('>', name);
	return name;
}

UNTRACED static void truth_leave(const char **name)
{
	truth_line('<', *name);
}

/* The function runs from here to its end, however it ends: return or exception. */
#define TRUTH() __attribute__((cleanup(truth_leave), unused)) const char *truth_name = truth_enter(__func__)
/* The function ends with what may become a jump to another one. */
#define TRUTH_TAIL() truth_line('>', __func__)
/* A longjmp arrived here: the frames above this function are gone. */
#define TRUTH_LANDED() truth_line('!', __func__)

#endif
