/*
 * `calltap attach` to a process that is traced already.  Context: host.
 */
#ifndef CMD_INSTANCE_H
#define CMD_INSTANCE_H

#include "recording.h"

/*
 * Have the session on that connection make an instance of this recording,
 * until a signal, its duration, or its end; the exit status, or -EPIPE: the
 * session has ended before it made one.  name: NULL = what the session calls
 * it.  named_output: the file was chosen by the user.
 */
int instance_attach(struct recording *recording, int socket, const char *name, bool named_output)
	__attribute__((warn_unused_result));

#endif
