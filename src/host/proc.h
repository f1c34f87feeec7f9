/*
 * Readers of /proc/PID: the states, names and numbers of a process and its threads.
 *
 * Callers: attach, record, core.  Context: host; a target chooses names and
 * contents.
 */
#ifndef HOST_PROC_H
#define HOST_PROC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Read a short file of /proc/PID, such as "stat", cut to the room that there is; a NUL ends the text. */
int proc_text(pid_t pid, const char *name, char *text, size_t size) __attribute__((warn_unused_result));
/* The value of a line of /proc/PID/status, copied; -ENOENT: no such line. */
int proc_status(pid_t pid, const char *name, char *value, size_t size) __attribute__((warn_unused_result));
/* The number that a line's value begins with; 0 = no such line. */
long proc_number(pid_t pid, const char *name);
/* The state's letter, 0 = no such thread; flags may be NULL. */
char proc_state(pid_t tid, unsigned long *flags);
/* Has the thread ended, or is it about to?  It has lost its memory, or will in a moment, whatever its state is called.
 */
bool proc_has_ended(pid_t tid);
/* Has the process ended, or does it within so many milliseconds? */
bool proc_ends_within(pid_t pid, int ms);
/* A number of /proc/TID/stat, by its place as proc(5) counts; false: there is no such thread. */
bool proc_stat(pid_t tid, int place, unsigned long long *value);
/* The process' parent; 0 = it has none that this PID namespace knows; -ESRCH: there is no such process. */
pid_t proc_parent(pid_t pid);
/* When it began, in the kernel's ticks since the boot; false: there is no such thread. */
bool proc_began(pid_t tid, unsigned long long *ticks);
/* How long the process has been there, in ns, to a clock tick; 0 = no such process. */
uint64_t proc_age_ns(pid_t pid);
/* How long the process' threads have run, or waited for a CPU, in ns; 0 = the kernel does not say. */
uint64_t proc_wanted_ns(pid_t pid);
/* True if a thread of the process is in that state, a letter as of proc_state(). */
bool proc_has_thread_in(pid_t pid, char state);
/* The tids of a process; the caller frees *tids. */
int proc_threads(pid_t pid, pid_t **tids, size_t *count) __attribute__((warn_unused_result));
/*
 * A thread of the process that has not ended, the initial one if it can be; 0 = none.  The kernel shows the memory of a
 * process under the number of such a thread only: an initial thread that has ended (pthread_exit() in main()) has none.
 */
pid_t proc_alive(pid_t pid);
/* True if the processes run in one memory, as a parent and its child of vfork() do. */
bool proc_share_memory(pid_t one, pid_t other);

#endif
