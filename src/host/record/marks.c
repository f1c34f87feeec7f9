/*
 * Marks that `calltap mark` asks for.
 *
 * The tool cannot write into the ring of a thread that runs, so a mark goes
 * into the file as the record of a thread of its own: each process gets one,
 * called "calltap mark", with id 0, when the first mark comes.  Called by the
 * server thread, with the session's lock, under which alone the file is written
 * to.  Context: host.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <calltap/abi/profile.h>
#include <calltap/abi/record.h>

#include "session.h"

#define NAME "calltap mark"

/* Bytes of the text that are taken: whole characters, as of calltap_mark(). */
static uint32_t size_of(const char *text)
{
	size_t size = strnlen(text, CALLTAP_EVENT_MARK_BYTES + 1);

	if (size <= CALLTAP_EVENT_MARK_BYTES)
		return (uint32_t)size;
	for (size = CALLTAP_EVENT_MARK_BYTES; size && ((unsigned char)text[size] & 0xc0) == 0x80; size--)
		;
	return (uint32_t)size;
}

/* The process that the session is called by, or one of its children when that has ended. */
static const struct process *process_of(const struct instance *instance)
{
	const struct session *session = instance->session;
	pid_t pid = session->options->pid ? session->options->pid : session->command;
	const struct process *found = NULL;

	for (const struct share *share = instance->shares; share; share = share->next)
		if (!share_is_over(share) && (!found || share->process->pid == pid))
			found = share->process;
	return found;
}

static int find_thread(struct instance *instance, const struct process *process, uint64_t ticks, uint32_t *index)
{
	int ret;

	for (uint32_t i = 0; i < instance->thread_count; i++)
		if (instance->threads[i].row.process == process->index && !instance->threads[i].row.tid &&
		    !strcmp(instance->threads[i].row.name, NAME)) {
			*index = i;
			return 0;
		}
	ret = threads_add(instance, process, 0, ticks, index);
	if (!ret)
		memcpy(instance->threads[*index].row.name, NAME, sizeof(NAME));
	return ret;
}

static int put(struct instance *instance, struct record_encoder *encoder, struct target_thread *thread, uint64_t ticks,
	       const char *text)
{
	uint64_t words[CALLTAP_EVENT_WORDS_MAX];
	struct encode_result encoded;
	const void *payload;
	uint32_t count;
	size_t size;
	int ret;

	count = calltap_event_pack(words + 1, text, size_of(text));
	words[0] = calltap_record_make(CALLTAP_REC_EVENT, calltap_event_id(CALLTAP_EVENT_MARK, 1 + count),
				       (uint32_t)ticks);
	ret = record_encode(encoder, thread->row.thread, thread->next_number, ticks, words, 1 + count, &payload, &size,
			    &encoded);
	thread->row.end_ticks = ticks;
	if (!ret)
		ret = threads_write(instance, thread);
	if (!ret)
		ret = trace_writer_chunk(instance->writer, CALLTAP_CHUNK_DATA, payload, size);
	thread->next_number++;
	instance->result->records += encoded.records;
	return ret;
}

int marks_write(struct instance *instance, const char *text, struct calltap_diag *diag)
{
	const struct process *process = process_of(instance);
	uint64_t ticks = timing_now(instance->session).ticks;
	struct record_encoder *encoder = NULL;
	uint32_t index;
	int ret;

	if (instance->session->options->serves || instance->options->mode == CALLTAP_MODE_PROFILE)
		return calltap_diag_set(diag, -EOPNOTSUPP,
					"this session keeps no trace, in which a mark could be; `calltap attach` makes "
					"one, also beside it (--instance)");
	if (instance->options->mode == CALLTAP_MODE_OVERWRITE)
		return calltap_diag_set(diag, -EOPNOTSUPP,
					"a flight recorder keeps what the program's threads write, and no marks of the "
					"tool; let the program call calltap_mark(), or record in mode block or drop");
	if (!process || !ticks)
		return calltap_diag_set(diag, -EAGAIN, "the process has not begun to record yet, or has ended");
	ret = record_encoder_create(&encoder);
	if (!ret)
		ret = find_thread(instance, process, ticks, &index);
	if (!ret)
		ret = put(instance, encoder, &instance->threads[index], ticks, text);
	record_encoder_destroy(encoder);
	return ret ? calltap_diag_set(diag, ret, "the mark cannot be written: %s", strerror(-ret)) : 0;
}
