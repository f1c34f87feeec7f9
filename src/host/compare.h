/*
 * Is the text of a process what its files say?
 *
 * Callers: target/verify.c when a process has been let go of, the command `status`.  Context: host; the process runs
 * meanwhile, and chooses the contents.
 */
#ifndef HOST_COMPARE_H
#define HOST_COMPARE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define COMPARE_NAME 64

struct compare_result {
	uint64_t verified, differing; /* bytes; the latter are among the former */
	uint64_t first;		      /* offset in the file of the first one that differs */
	char first_in[COMPARE_NAME];  /* that file, without its folder and cut to fit; "" where nothing differs */
};

/*
 * Compare the code of the process with the files that it has mapped.  wants: whether the file open at fd is to be
 * looked at; NULL: each one is.  What cannot be read is left out.
 */
struct compare_result compare_text(pid_t pid, bool (*wants)(const void *context, int fd), const void *context);
/* Add what was found elsewhere. */
void compare_add(struct compare_result *all, const struct compare_result *more);

#endif
