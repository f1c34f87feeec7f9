/*
 * What a flight recorder keeps in memory beside its rings: all of the trace
 * file but the records (abi/tables.h), mapped by its targets, too, so that the
 * trace is in their core files, and in them when the tool was killed.
 * Called by the session and the drainer, with the lock.  Context: host.
 */
#include <errno.h>
#include <sys/random.h>

#include "session.h"

int tables_create(struct session *session)
{
	int fd = -1, ret;

	if (session->options->mode != CALLTAP_MODE_OVERWRITE)
		return 0;
	do
		if (getrandom(&session->tables_key, sizeof(session->tables_key), 0) != sizeof(session->tables_key))
			return -errno;
	while (!session->tables_key);
	if (session->buffers_path) {
		fd = buffers_tables(session);
		if (fd < 0)
			return fd;
	}
	ret = trace_memory_create(&session->tables, session->tables_key, fd);
	if (!ret)
		trace_writer_mirror(session->writer, &session->tables);
	return ret;
}

void tables_destroy(struct session *session)
{
	trace_memory_destroy(&session->tables);
}

uint32_t tables_flags(const struct session *session)
{
	if (session->options->mode != CALLTAP_MODE_OVERWRITE)
		return 0;
	return CALLTAP_SETUP_KEEP | (session->buffers_path ? CALLTAP_SETUP_FILES : 0);
}

int tables_tell(struct session *session, struct process *process)
{
	const struct calltap_msg_tables message = {
		.head = {CALLTAP_MSG_TABLES, sizeof(message)},
		.size = session->tables.size,
	};

	if (session->owner || !session->tables.tables || session->tables.is_file || !process->began || process->alone ||
	    process->tables_told == session->tables.generation)
		return 0;
	process->tables_told = session->tables.generation;
	return channel_send(process->socket, &message, sizeof(message), &session->tables.fd, 1);
}
