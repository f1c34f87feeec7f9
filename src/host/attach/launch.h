/*
 * A program held by ptrace before it runs, for the agent to be put into it without a loader.
 *
 * One thread of the tool calls all of this: the kernel takes it for the tracer.  A program that the tool starts is
 * killed by the kernel when the tool dies before attach_launch_go() or attach_launch_leave(): it has not run any of its
 * own code by then.  A guest, which a traced process executes, goes on where it is: nothing of it has been changed up
 * to there. doc/design/loaderless.md.  Context: host.
 */
#ifndef HOST_ATTACH_LAUNCH_H
#define HOST_ATTACH_LAUNCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <calltap/diag.h>

#include <arch/generic/native/launch.h>

#define LAUNCH_SIGNALS 16u

struct attach_launch {
	pid_t pid;
	int memory;		 /* /proc/PID/mem, -1 = not open */
	struct native_regs regs; /* that the program goes on with */
	uint64_t call_at;	 /* of an instruction that makes a system call; 0 = not reached yet */
	uint64_t environment;	 /* address of the environment's pointers */
	uint64_t headers, entry; /* AT_PHDR, AT_ENTRY */
	int64_t id_offset;	 /* from the thread pointer to where libc notes a thread's id */
	bool musl;		 /* libc is musl's */
	bool guest;		 /* the program is not the tool's child */
	int pending;		 /* a signal that a guest is to get when it is let go of, 0 = none */
	int signals[LAUNCH_SIGNALS];
	unsigned signal_count; /* of signals that have come meanwhile */
};

/* Take hold of a child of the tool's, before it executes the program.  It runs on. */
int attach_launch_seize(struct attach_launch *launch, pid_t pid, struct calltap_diag *diag)
	__attribute__((warn_unused_result));
/*
 * Let the program run until libc knows its first thread, and stop it there.  -ESRCH: it has ended, or could not be
 * executed.  -ENOTSUP, with diag: it is none that this can be done with, and is still held.
 */
int attach_launch_reach(struct attach_launch *launch, struct calltap_diag *diag) __attribute__((warn_unused_result));
/*
 * Take hold of a thread that is about to execute a program, or, spawns, to make a child by vfork that does.  -EPERM:
 * another tracer has, or rights lack.  It runs on.
 */
int attach_launch_seize_guest(struct attach_launch *launch, pid_t tid, bool spawns) __attribute__((warn_unused_result));
/*
 * Wait until the thread has made a child: *child, which is held before its first instruction; so is the thread.  Errors
 * as of attach_launch_await_exec().
 */
int attach_launch_await_child(struct attach_launch *launch, pid_t *child, bool (*goes_on)(void *context), void *context)
	__attribute__((warn_unused_result));
/* Let go of the thread: its child is the guest now. */
void attach_launch_follow(struct attach_launch *launch, pid_t child);
/*
 * Wait until a guest has executed a program, and hold it there.  -ESRCH: it has ended. -EAGAIN: goes_on() has said that
 * it does not any more, and it runs.
 */
int attach_launch_await_exec(struct attach_launch *launch, bool (*goes_on)(void *context), void *context)
	__attribute__((warn_unused_result));
/*
 * attach_launch_reach() for a guest that has executed a program.  It is held behind the system call by which libc tells
 * of its first thread, whose id libc notes in the next instruction.
 */
int attach_launch_reach_guest(struct attach_launch *launch, struct calltap_diag *diag)
	__attribute__((warn_unused_result));
/* Have the program make a system call: its result, or -errno. */
int64_t attach_launch_call(struct attach_launch *launch, long number, const uint64_t arguments[6])
	__attribute__((warn_unused_result));
int attach_launch_read(const struct attach_launch *launch, uint64_t at, void *bytes, size_t size)
	__attribute__((warn_unused_result));
int attach_launch_write(const struct attach_launch *launch, uint64_t at, const void *bytes, size_t size)
	__attribute__((warn_unused_result));
/* Let go of the program, which first runs the code at pc (native_launch_code()). */
int attach_launch_go(struct attach_launch *launch, uint64_t pc) __attribute__((warn_unused_result));
/* Let go of the program as it is. */
void attach_launch_leave(struct attach_launch *launch);

#endif
