/*
 * Writers for tests (scribe.h).
 */
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "scribe.h"

/*
 * The second word that belongs to a record's number, to recognise a torn record.  As a target's addresses and times it
 * has no kind: it is stored before its head, and a writer that is off the CPU in between leaves it alone in the copy.
 */
static uint64_t extra_of(uint32_t id)
{
	return (id * UINT64_C(0x9e3779b97f4a7c15) | 1) & ~(uint64_t)0 >> 4;
}

static uint64_t *take_slot(struct scribe *scribe, const struct ring_shared *shared, unsigned words)
{
	uint64_t *slot = ring_take(&scribe->writer, words);

	if (slot)
		return slot;
	if (scribe->pause_us)
		usleep(scribe->pause_us);
	assert_true(ring_open_next(&scribe->writer, shared));
	slot = ring_take(&scribe->writer, words);
	assert_non_null(slot);
	return slot;
}

void scribe_put(struct scribe *scribe, uint32_t i)
{
	const struct ring_shared here = {.board = scribe->bench->session.board}, *shared = &here;
	unsigned kind = i % 3 ? CALLTAP_REC_ENTRY : CALLTAP_REC_CALL;
	uint32_t id = i & CALLTAP_RECORD_ID_MAX;
	unsigned words = calltap_record_words(calltap_record_make(kind, 0, 0));
	uint64_t *slot = take_slot(scribe, shared, words);
	uint64_t now = arch_clock();

	if ((uint32_t)(now >> 32) != scribe->writer.time_hi) { /* as probe_record() does */
		scribe->writer.time_hi = (uint32_t)(now >> 32);
		ring_put2(take_slot(scribe, shared, 2), calltap_record_make(CALLTAP_REC_TIME, 0, 0), now);
		slot = take_slot(scribe, shared, words);
		now = arch_clock();
	}
	if (words == 2)
		ring_put2(slot, calltap_record_make(kind, id, (uint32_t)now), extra_of(id));
	else
		ring_put(slot, calltap_record_make(kind, id, (uint32_t)now));
}

static void *scribble(void *arg)
{
	struct scribe *scribe = arg;

	ring_attach(&scribe->writer, scribe->ring, gettid(), true);
	for (uint32_t i = 0; !__atomic_load_n(&scribe->stop, __ATOMIC_RELAXED); i++) {
		scribe_put(scribe, i);
		scribe->written = i + 1;
	}
	return NULL;
}

struct bench *scribe_bench(uint32_t sub_size, uint32_t sub_count)
{
	struct bench *bench = bench_create(CALLTAP_MODE_OVERWRITE);
	int fd;

	bench->instance.sub_size = sub_size;
	bench->instance.sub_count = sub_count;
	bench->options.options_text = "";
	bench->process.greeted = true;
	assert_int_equal(target_write(&bench->process, bench->instance.writer), 0);
	assert_int_equal(arena_add(bench->share, WRITERS + 1, &fd), 0);
	close(fd);
	return bench;
}

struct calltap_ring *scribe_ring(struct bench *bench, uint32_t index)
{
	const struct target_arena *arena = &bench->share->arenas[0];

	return (void *)((char *)arena->arena + CALLTAP_PAGE + index * arena->ring_stride);
}

void scribe_start(struct scribe *scribe, struct bench *bench, uint32_t ring, uint32_t pause_us)
{
	*scribe = (struct scribe){.bench = bench, .ring = scribe_ring(bench, ring), .pause_us = pause_us};
	assert_int_equal(pthread_create(&scribe->thread, NULL, scribble, scribe), 0);
}

void scribe_stop(struct scribe *scribe)
{
	__atomic_store_n(&scribe->stop, true, __ATOMIC_RELAXED);
	pthread_join(scribe->thread, NULL);
	while (!syscall(SYS_tgkill, getpid(), scribe->writer.tid, 0)) /* joined is not gone */
		usleep(100);
}

static void see(struct seen *seen, const struct trace_event *event)
{
	uint32_t thread = event->thread;

	assert_true(thread < 16);
	if (event->kind == CALLTAP_REC_LOST) {
		seen->gaps++;
		seen->known[thread] = false;
		return;
	}
	assert_int_equal(event->kind, event->id % 3 ? CALLTAP_REC_ENTRY : CALLTAP_REC_CALL);
	if (event->kind == CALLTAP_REC_CALL)
		assert_int_equal(event->extra, extra_of(event->id));
	if (seen->known[thread])
		assert_int_equal(event->id, seen->next[thread]);
	assert_true(event->ticks >= seen->ticks[thread]);
	seen->ticks[thread] = event->ticks;
	seen->next[thread] = event->id + 1;
	seen->known[thread] = true;
	seen->records++;
}

struct seen scribe_read(const char *path, struct trace **out)
{
	const struct trace_select all = {.size = sizeof(all), .thread = TRACE_NONE};
	struct trace_cursor *cursor;
	struct calltap_diag diag = {0};
	struct seen seen = {0};
	struct trace_event event;
	int ret;

	assert_int_equal(trace_open(out, path, &diag), 0);
	assert_int_equal(trace_cursor_open(&cursor, *out, &all, &diag), 0);
	while ((ret = trace_cursor_next(cursor, &event, &diag)) == 1)
		see(&seen, &event);
	assert_int_equal(ret, 0);
	trace_cursor_close(cursor);
	if (trace_end(*out))
		assert_int_equal(trace_end(*out)->records, seen.records);
	return seen;
}
