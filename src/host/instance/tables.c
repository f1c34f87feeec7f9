/*
 * What a flight recorder keeps in memory beside its rings: all of the trace
 * file but the records (abi/tables.h), mapped by its targets, too, so that the
 * trace is in their core files, and in them when the tool was killed.
 * Called by the session and the drainer, with the lock.  Context: host.
 */
#include <errno.h>
#include <sys/random.h>

#include <host/brief/brief.h>
#include <host/session/session.h>

int tables_create(struct instance *instance)
{
	struct brief *brief = instance->brief;
	int fd = -1, ret;

	if (instance->options->mode != CALLTAP_MODE_OVERWRITE)
		return 0;
	do
		if (getrandom(&instance->tables_key, sizeof(instance->tables_key), 0) != sizeof(instance->tables_key))
			return -errno;
	while (!instance->tables_key);
	if (instance->buffers.path) {
		fd = buffers_tables(instance);
		if (fd < 0)
			return fd;
	}
	ret = trace_memory_create(&instance->tables, instance->tables_key, fd, brief != NULL);
	if (!ret)
		trace_writer_mirror(instance->writer, &instance->tables);
	if (!ret && brief)
		ret = brief_keep(brief, &instance->tables);
	return ret;
}

void tables_destroy(struct instance *instance)
{
	trace_memory_destroy(&instance->tables);
}

uint32_t tables_flags(const struct instance *instance)
{
	if (instance->options->mode != CALLTAP_MODE_OVERWRITE)
		return 0;
	return CALLTAP_SETUP_KEEP | (instance->session->images.brief ? CALLTAP_SETUP_BRIEF : 0) |
	       (instance->buffers.path ? CALLTAP_SETUP_FILES : 0);
}

int tables_tell(struct share *share)
{
	const struct instance *instance = share->instance;
	const struct target *target = share->target;
	const struct calltap_msg_tables message = {
		.head = {CALLTAP_MSG_TABLES, sizeof(message)},
		.size = instance->tables.size,
	};

	if (instance->set || !instance->tables.tables || instance->tables.is_file || !target->began || target->alone ||
	    share->tables_told == instance->tables.generation)
		return 0;
	share->tables_told = instance->tables.generation;
	return channel_send(target->socket, &message, sizeof(message), &instance->tables.fd, 1);
}
