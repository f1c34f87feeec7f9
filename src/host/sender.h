/*
 * Tells signals apart that descendants of this process have sent.
 *
 * A command that the tool has started is in the tool's process group, so a signal that it sends to its own group
 * (kill(0, ...), a shell's `kill 0`) comes to the tool, too.  It is not meant for the tool, and the program has it
 * already.
 *
 * Callers: the tool's signal handlers (session/signals.c, terminal/signals.c, cmd/shell.c).  Context: host, a signal
 * handler.
 */
#ifndef HOST_SENDER_H
#define HOST_SENDER_H

#include <signal.h>
#include <stdbool.h>

/*
 * True if the signal was sent by a descendant of this process.  False: by the kernel or any other process, also by one
 * that has ended since and is not known any more.  Async-signal-safe; errno stays.
 */
bool sender_is_descendant(const siginfo_t *info);

#endif
