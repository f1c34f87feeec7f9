/* `calltap attach` to a process that is traced already.  Caller: attach.c.  Context: host. */
#ifndef CMD_INSTANCE_H
#define CMD_INSTANCE_H

#include "recording.h"

/*
 * Have the session on that connection make an instance of this recording, and wait for a signal, the end of its
 * duration, or the instance's end.  Returns the exit status, or -EPIPE: the session ended before it made one. name:
 * NULL = the session chooses it. named_output: the user has chosen the file.
 */
int instance_attach(struct recording *recording, int socket, const char *name, bool named_output)
	__attribute__((warn_unused_result));

#endif
