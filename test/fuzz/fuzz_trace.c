/*
 * Trace files: opening, tables, cursors, call stacks, every view and exporter; and following a file that grows, with
 * the counts of `calltap top`.
 *
 * A random change breaks a chunk's check, and readers would stop there; so the
 * checks are made good again, unless the last reserved byte of the file's head
 * is set.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <host/export/export.h>
#include <host/trace/check.h>
#include <host/view/graph.h>
#include <host/view/info.h>
#include <host/view/replay.h>
#include <host/view/report.h>
#include <host/view/tally.h>

#include "fuzz.h"

static void make_good(uint8_t *at, uint64_t size)
{
	struct calltap_chunk chunk;
	struct calltap_file_data data;
	uint64_t covered;

	memcpy(&chunk, at, sizeof(chunk));
	covered = chunk.stored;
	if (chunk.type == CALLTAP_CHUNK_DATA && chunk.stored >= sizeof(data)) {
		memcpy(&data, at + sizeof(chunk), sizeof(data));
		data.check = (uint32_t)check_bytes(CHECK_START, at + sizeof(chunk) + sizeof(data),
						   chunk.stored - sizeof(data));
		memcpy(at + sizeof(chunk), &data, sizeof(data));
		covered = sizeof(data);
	}
	chunk.check = 0;
	chunk.check =
		(uint32_t)check_bytes(check_bytes(CHECK_START, &chunk, sizeof(chunk)), at + sizeof(chunk), covered);
	memcpy(at, &chunk, sizeof(chunk));
}

/* Give each chunk that fits into the file the check that its bytes have. */
static void make_checks_good(uint8_t *bytes, size_t size)
{
	struct calltap_file_head head;
	struct calltap_chunk chunk;
	uint64_t at;

	if (size < sizeof(head) || bytes[sizeof(head) - 1])
		return;
	memcpy(&head, bytes, sizeof(head));
	for (at = head.head_size; at <= size - sizeof(chunk); at += sizeof(chunk) + (chunk.stored + 7) / 8 * 8) {
		memcpy(&chunk, bytes + at, sizeof(chunk));
		if (chunk.magic != CALLTAP_CHUNK_MAGIC || chunk.stored > size - at - sizeof(chunk))
			return;
		make_good(bytes + at, size);
	}
}

/* An error is an answer like any other here; the compiler must see it taken. */
static void ignore(int error)
{
	(void)error;
}

static void show(const struct trace *trace, const struct view_filter *filter, struct out *out)
{
	const struct graph_options whole = {.size = sizeof(whole)},
				   around = {.size = sizeof(around), .function = "*a*", .json = true};
	const struct replay_options replay = {
		.size = sizeof(replay), .abstime = true, .proc = true, .source = true, .tail = true, .color = true};
	struct calltap_diag diag = {0};
	struct walk walk;

	ignore(info_print(trace, NULL, false, true, out, &diag));
	ignore(info_print(trace, NULL, true, false, out, &diag));
	ignore(replay_run(trace, filter, &replay, out, &walk, &diag));
	ignore(graph_run(trace, filter, &whole, out, &walk, &diag));
	ignore(graph_run(trace, filter, &around, out, &walk, &diag));
	for (enum report_by by = REPORT_BY_FUNCTION; by <= REPORT_BY_THREAD; by++) {
		const struct report_options options = {.size = sizeof(options),
						       .by = by,
						       .sort = REPORT_P99,
						       .json = by == REPORT_BY_OBJECT,
						       .source = true};
		struct report report;

		if (!report_run(&report, trace, filter, &options, &diag))
			report_print(&report, &options, out);
		report_clear(&report);
	}
	for (size_t i = 0; export_at(i); i++) {
		const struct export_options options = {.size = sizeof(options)};

		ignore(export_at(i)->run(trace, filter, &options, out, &walk, &diag));
	}
}

/* Calls by a value of theirs. */
static void report_values(const struct trace *trace, const struct view_filter *filter, struct out *out)
{
	static const char *const texts[] = {"*(box)", "m*(path)", "*:="};

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		struct report_options options = {.size = sizeof(options), .sort = REPORT_CALLS, .json = i == 1};
		struct calltap_diag diag = {0};
		struct report report;

		if (report_parse_by(&options.by, &options.value, texts[i], &diag))
			abort();
		if (!report_run(&report, trace, filter, &options, &diag))
			report_print(&report, &options, out);
		report_clear(&report);
		by_value_destroy(options.value);
	}
}

static void read_counts(struct tally *tally)
{
	struct profile_row *rows;
	size_t count;

	if (tally_read(tally))
		return;
	rows = tally_rows(tally, &count);
	for (size_t i = 0; rows && i < count; i++) {
		fuzz_expect(rows[i].name && rows[i].object, "a row has a name");
		fuzz_expect(rows[i].p50_ns <= rows[i].p99_ns && rows[i].p99_ns <= rows[i].max_ns, "percentiles rise");
		tally_watch(tally, rows[i].function);
	}
	(void)tally_callers(tally, &count);
	(void)tally_totals(tally);
}

/* The file comes in three pieces, cut where its bytes say. */
static void count_growing(const uint8_t *bytes, size_t size)
{
	const size_t cut = size ? bytes[size - 1] * size / 256 : 0, ends[] = {cut / 2, cut, size};
	struct tally *tally;
	size_t written = 0;
	int fd = input_file(bytes, 0);

	if (tally_create(&tally, fd))
		abort();
	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		if (write(fd, bytes + written, ends[i] - written) != (ssize_t)(ends[i] - written))
			abort();
		written = ends[i];
		ignore(tally_take(tally, i == 2));
		read_counts(tally);
		if (i == 1)
			tally_reset(tally);
	}
	tally_destroy(tally);
	close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct view_filter all = {.to_ns = UINT64_MAX},
				 some = {.function = "[a-m]*", .from_ns = 10, .to_ns = 5000, .min_ns = 5};
	uint8_t *bytes = malloc(size ? size : 1);
	struct calltap_diag diag = {0};
	struct trace *trace;
	struct out *out;
	int fd, null = open("/dev/null", O_WRONLY | O_CLOEXEC);
	char path[32];

	if (!bytes || null < 0 || out_create(&out, null))
		abort();
	memcpy(bytes, data, size);
	make_checks_good(bytes, size);
	fd = input_file(bytes, size);
	input_path(path, fd);
	if (!trace_open(&trace, path, &diag)) {
		fuzz_taken = 1;
		show(trace, &all, out);
		show(trace, &some, out);
		report_values(trace, &all, out);
		trace_close(trace);
	}
	close(fd);
	count_growing(bytes, size);
	ignore(out_destroy(out));
	close(null);
	free(bytes);
	return 0;
}
