/*
 * Marks that `calltap mark` asks for.
 *
 * The tool cannot write into the ring of a thread that runs, so a mark goes
 * into the file as the record of a thread of its own: each process gets one,
 * called "calltap mark", with id 0, when the first mark comes.  A flight recorder
 * keeps its newest marks in memory: they go to each snapshot, and to the file at
 * the end.  Called by the thread of the session's remote side and by who
 * completes a file, with the session's lock.  Context: host.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <calltap/abi/profile.h>
#include <calltap/abi/record.h>

#include "session.h"

#define NAME	   "calltap mark"
#define MARKS_KEPT 1024u /* the newest ones, of a flight recorder */

struct kept_mark {
	uint64_t ticks;
	const struct target *target;
	char text[CALLTAP_EVENT_MARK_BYTES + 1];
};

struct marks {
	struct kept_mark list[MARKS_KEPT];
	uint64_t count; /* that there were; number N lies at N % MARKS_KEPT */
};

/* The process that the session is called by, or one of its children when that has ended. */
static const struct target *target_of(const struct instance *instance)
{
	const struct session *session = instance->session;
	pid_t pid = session_pid(session);
	const struct target *found = NULL;

	for (const struct share *share = instance->shares; share; share = share->next)
		if (!share_is_over(share) && (!found || share->target->pid == pid))
			found = share->target;
	return found;
}

static int find_thread(struct instance *instance, const struct target *target, uint64_t ticks, uint32_t *index)
{
	int ret;

	for (uint32_t i = 0; i < instance->thread_count; i++)
		if (instance->threads[i].row.process == target->index && !instance->threads[i].row.tid &&
		    !strcmp(instance->threads[i].row.name, NAME)) {
			*index = i;
			return 0;
		}
	ret = threads_add(instance, target, 0, ticks, index);
	if (!ret)
		memcpy(instance->threads[*index].row.name, NAME, sizeof(NAME));
	return ret;
}

/* A DATA chunk of one mark. */
static int write_data(struct record_encoder *encoder, struct trace_writer *writer, uint32_t thread, uint64_t number,
		      uint64_t ticks, const char *text)
{
	uint64_t words[CALLTAP_EVENT_WORDS_MAX];
	uint32_t count = calltap_event_pack(words + 1, text, calltap_event_text_size(text));
	struct encode_result encoded;
	const void *payload;
	size_t size;
	int ret;

	words[0] = calltap_record_make(CALLTAP_REC_EVENT, calltap_event_id(CALLTAP_EVENT_MARK, 1 + count),
				       (uint32_t)ticks);
	ret = record_encode(encoder, thread, number, ticks, words, 1 + count, &payload, &size, &encoded);
	return ret ? ret : trace_writer_chunk(writer, CALLTAP_CHUNK_DATA, payload, size);
}

/* To the instance's file. */
static int put_mark(struct instance *instance, const struct target *target, uint64_t ticks, const char *text)
{
	struct record_encoder *encoder = NULL;
	struct target_thread *thread;
	uint32_t index;
	int ret = record_encoder_create(&encoder);

	if (!ret)
		ret = find_thread(instance, target, ticks, &index);
	if (ret) {
		record_encoder_destroy(encoder);
		return ret;
	}
	thread = &instance->threads[index];
	thread->row.end_ticks = ticks;
	ret = threads_write(instance, thread);
	if (!ret)
		ret = write_data(encoder, instance->writer, thread->row.thread, thread->next_number++, ticks, text);
	instance->result->records++;
	record_encoder_destroy(encoder);
	return ret;
}

/* A flight recorder's, until a snapshot or the end of the session. */
static int keep_mark(struct instance *instance, const struct target *target, uint64_t ticks, const char *text)
{
	struct kept_mark *mark;

	if (!instance->marks)
		instance->marks = calloc(1, sizeof(*instance->marks));
	if (!instance->marks)
		return -ENOMEM;
	mark = &instance->marks->list[instance->marks->count++ % MARKS_KEPT];
	mark->ticks = ticks;
	mark->target = target;
	snprintf(mark->text, sizeof(mark->text), "%.*s", (int)calltap_event_text_size(text), text);
	return 0;
}

int marks_write(struct instance *instance, const char *text, struct calltap_diag *diag)
{
	const struct target *target = target_of(instance);
	uint64_t ticks = timing_now(instance->session).ticks;
	int ret;

	if (instance->session->options->serves || instance->options->mode == CALLTAP_MODE_PROFILE)
		return calltap_diag_set(diag, -EOPNOTSUPP,
					"this session keeps no trace, in which a mark could be; `calltap attach` makes "
					"one, also beside it (--instance)");
	if (!target || !ticks)
		return calltap_diag_set(diag, -EAGAIN, "the process has not begun to record yet, or has ended");
	if (instance->options->mode == CALLTAP_MODE_OVERWRITE)
		ret = keep_mark(instance, target, ticks, text);
	else
		ret = put_mark(instance, target, ticks, text);
	return ret ? calltap_diag_set(diag, ret, "the mark cannot be written: %s", strerror(-ret)) : 0;
}

static uint64_t first_kept(const struct marks *marks)
{
	return marks && marks->count > MARKS_KEPT ? marks->count - MARKS_KEPT : 0;
}

int marks_write_kept(struct instance *instance)
{
	struct marks *marks = instance->marks;
	int ret = 0;

	for (uint64_t i = first_kept(marks); marks && i < marks->count && !ret; i++) {
		const struct kept_mark *mark = &marks->list[i % MARKS_KEPT];

		ret = put_mark(instance, mark->target, mark->ticks, mark->text);
	}
	return ret;
}

/* The marks of one target, which a thread of its own has in the snapshot; *count: how many there are. */
static int copy_of(const struct marks *marks, const struct target *target, struct trace_writer *writer,
		   struct record_encoder *encoder, uint64_t from_ticks, uint32_t thread, uint64_t *count)
{
	struct calltap_file_thread row = {.thread = thread, .process = target->index, .name = NAME};
	int ret = 0;

	for (uint64_t i = first_kept(marks); i < marks->count && !ret; i++) {
		const struct kept_mark *mark = &marks->list[i % MARKS_KEPT];

		if (mark->target != target || mark->ticks < from_ticks)
			continue;
		row.start_ticks = *count ? row.start_ticks : mark->ticks;
		row.end_ticks = mark->ticks;
		ret = write_data(encoder, writer, thread, (*count)++, mark->ticks, mark->text);
	}
	return ret || !*count ? ret : trace_writer_chunk(writer, CALLTAP_CHUNK_THREAD, &row, sizeof(row));
}

int marks_copy(const struct instance *instance, struct trace_writer *writer, uint64_t from_ticks, uint32_t *next_thread,
	       uint64_t *records)
{
	struct record_encoder *encoder = NULL;
	int ret;

	if (!instance->marks)
		return 0;
	ret = record_encoder_create(&encoder);
	for (const struct share *share = instance->shares; share && !ret; share = share->next) {
		uint64_t count = 0;

		ret = copy_of(instance->marks, share->target, writer, encoder, from_ticks, *next_thread, &count);
		*next_thread += count != 0;
		*records += count;
	}
	record_encoder_destroy(encoder);
	return ret;
}
