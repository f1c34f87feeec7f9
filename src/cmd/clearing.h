/*
 * The remains of a killed calltap in a process: this tells of them, and has them taken away.
 *
 * Callers: attach.c, detach.c, serve.c, status.c, watching.c.  Context: host.
 */
#ifndef CMD_CLEARING_H
#define CMD_CLEARING_H

#include <sys/types.h>

#include <calltap/diag.h>
#include <host/session/record.h>

/*
 * Take away what is left in a process that no session of the user's traces, and in the others that the killed calltap
 * had followed with it, and print what became of each.  argv: the verb's.  -ESRCH with diag: there is no agent in it,
 * so nothing can be left.  -EIO with diag: in some of the others something is left.
 */
int clearing_run(pid_t pid, char **argv, struct calltap_diag *diag) __attribute__((warn_unused_result));
/*
 * Take away what a recording has left in a process that it had started, or followed, and that runs on, and in the
 * others of that recording: their functions' heads still lead elsewhere.  since: when its tool began (proc_began()).  0
 * also where nothing is left; -EIO with diag: in some of the others something is.
 */
int clearing_finish(pid_t pid, unsigned long long since, char **argv, struct calltap_diag *diag)
	__attribute__((warn_unused_result));
/*
 * Take away what a session has left in children that were forked meanwhile and have not called in; print only where
 * that cannot be.
 */
void clearing_children(struct record_result *result, char **argv);
/* The error of a process that is not traced: what may be left in it is said there. */
int clearing_refuse(pid_t pid, struct calltap_diag *diag) __attribute__((warn_unused_result));

#endif
