/*
 * bench_trace: the cost of writing and reading the trace file.
 *
 *     bench_trace encode            records/s of the encoder, without and with zstd
 *     bench_trace read FILE         events/s of a cursor, without and with the call stack
 *
 * Run by hand and by the project's benchmark command; prints one line each.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <calltap/abi/record.h>

#include "host/trace/callstack.h"
#include "host/trace/trace.h"
#include "host/trace/writer.h"

#define SUBBUF_WORDS 32768
#define ROUNDS	     2000

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void line(const char *what, uint64_t count, double seconds)
{
	printf("%-28s %10llu in %.3f s  %8.1f M/s\n", what, (unsigned long long)count, seconds,
	       (double)count / seconds / 1e6);
}

/* Calls of a small program: a random tree walk, differences of 20 to 150 ticks and a rare long one. */
static void fill_walk(uint64_t *words, uint64_t *ticks, unsigned *seed)
{
	uint32_t frames[64];
	unsigned depth = 0;

	for (size_t i = 0; i < SUBBUF_WORDS; i++) {
		unsigned r = *seed = *seed * 1103515245u + 12345u;
		bool enter = !depth || (depth < 40 && (r >> 16 & 1));

		if (enter)
			frames[depth] = depth * 5 + (r >> 20 & 7), depth++;
		*ticks += 20 + (r >> 8) % 130 + ((r >> 24) == 7 ? 20000 : 0);
		words[i] = calltap_record_make(enter ? CALLTAP_REC_ENTRY : CALLTAP_REC_EXIT,
					       frames[enter ? depth - 1 : --depth], (uint32_t)*ticks);
	}
}

/* A leaf function in a tight loop: what writes the most records per second. */
static void fill_loop(uint64_t *words, uint64_t *ticks, unsigned *seed)
{
	for (size_t i = 0; i < SUBBUF_WORDS; i++) {
		unsigned r = *seed = *seed * 1103515245u + 12345u;

		*ticks += 26 + 2 * ((r >> 16) % 8 == 0) + 8 * ((r >> 20) % 64 == 0);
		words[i] = calltap_record_make(i & 1 ? CALLTAP_REC_EXIT : CALLTAP_REC_ENTRY, 7, (uint32_t)*ticks);
	}
}

/* As the walk, without times but for one record in 64. */
static void fill_brief(uint64_t *words, uint64_t *ticks, unsigned *seed)
{
	uint32_t frames[64], halves[2];
	unsigned depth = 0;

	for (size_t i = 0; i < SUBBUF_WORDS; i++) {
		for (unsigned half = 0; half < 2; half++) {
			unsigned r = *seed = *seed * 1103515245u + 12345u;
			bool enter = !depth || (depth < 40 && (r >> 16 & 1));

			if (enter)
				frames[depth] = depth * 5 + (r >> 20 & 7), depth++;
			*ticks += 10 + (r >> 8) % 40;
			halves[half] = (enter ? CALLTAP_REC_BRIEF_ENTRY : (uint32_t)CALLTAP_REC_BRIEF_EXIT)
					       << CALLTAP_RECORD_ID_BITS |
				       frames[enter ? depth - 1 : --depth];
		}
		words[i] = i % 32 ? (uint64_t)halves[1] << 32 | halves[0]
				  : calltap_record_make(CALLTAP_REC_ENTRY, 99, (uint32_t)*ticks);
	}
}

/* Encode, and write when writer is not NULL, many sub-buffers; prints the rate without the filling. */
static int encode_rate(const char *what, void (*fill)(uint64_t *, uint64_t *, unsigned *), struct trace_writer *writer)
{
	uint64_t *words = malloc(SUBBUF_WORDS * sizeof(*words));
	struct record_encoder *encoder = NULL;
	struct encode_result result;
	uint64_t ticks = 1, records = 0, head, before = writer ? trace_writer_bytes(writer) : 0;
	const void *payload;
	double seconds = 0;
	unsigned seed = 1;
	size_t size;

	if (!words || record_encoder_create(&encoder))
		return 1;
	for (uint64_t i = 0; i < ROUNDS; i++) {
		double start;

		head = ticks = ticks & 0x7fffffff;
		fill(words, &ticks, &seed);
		start = now();
		if (record_encode(encoder, 0, i, head, words, SUBBUF_WORDS, &payload, &size, &result))
			return 1;
		if (writer && trace_writer_chunk(writer, CALLTAP_CHUNK_DATA, payload, size))
			return 1;
		seconds += now() - start;
		records += result.records;
	}
	line(what, records, seconds);
	if (writer)
		printf("%-28s %.2f bytes per record\n", "",
		       (double)(trace_writer_bytes(writer) - before) / (double)records);
	record_encoder_destroy(encoder);
	free(words);
	return 0;
}

static int bench_encode(void)
{
	struct trace_writer *writer = NULL;
	int bad = trace_writer_create(&writer, "/dev/null", 62, NULL);

	bad = bad || encode_rate("walk: encode", fill_walk, NULL) ||
	      encode_rate("walk: encode, zstd, write", fill_walk, writer) ||
	      encode_rate("loop: encode", fill_loop, NULL) ||
	      encode_rate("loop: encode, zstd, write", fill_loop, writer) ||
	      encode_rate("brief: encode", fill_brief, NULL) ||
	      encode_rate("brief: encode, zstd, write", fill_brief, writer);
	return trace_writer_close(writer) || bad;
}

static void count_close(void *ctx, struct callstack *stack, const struct call_closed *closed)
{
	uint64_t *closes = ctx;

	*closes += 1 + (closed->how == CALL_LOST);
}

static int bench_read(const char *path)
{
	const struct callstack_ops ops = {.on_close = count_close};
	struct calltap_diag diag = {.code = 0};
	struct trace *trace = NULL;

	if (trace_open(&trace, path, &diag)) {
		calltap_diag_print(&diag, stderr);
		return 1;
	}
	for (int pass = 0; pass < 2; pass++) {
		struct trace_cursor *cursor = NULL;
		struct callstack *stack = NULL;
		struct trace_event event;
		uint64_t events = 0, closes = 0;
		double start = now();

		if (trace_cursor_open(&cursor, trace, NULL, &diag) || callstack_create(&stack, trace, &ops, &closes))
			return 1;
		while (trace_cursor_next(cursor, &event, &diag) == 1) {
			events++;
			if (pass && callstack_feed(stack, &event))
				return 1;
		}
		line(pass ? "cursor and call stack" : "cursor", events, now() - start);
		callstack_destroy(stack);
		trace_cursor_close(cursor);
	}
	trace_close(trace);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 2 && strcmp(argv[1], "encode") == 0)
		return bench_encode();
	if (argc == 3 && strcmp(argv[1], "read") == 0)
		return bench_read(argv[2]);
	fprintf(stderr, "usage: bench_trace encode | read FILE\n");
	return 2;
}
