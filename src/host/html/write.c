/*
 * Writing the page; see html.h.  Context: host.
 *
 * The data are two lines of JSON, the trace's facts and the rest, and then the columns' bytes, in the order in which
 * the second line lists them.  All of it is compressed, so no name can be read as a part of the page.
 */
#include <errno.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../view/chosen.h"
#include "../view/headway.h"
#include "../view/info.h"
#include "../view/names.h"
#include "boxes.h"
#include "difference.h"
#include "html.h"
#include "packed.h"
#include "page.h"
#include "paths.h"

#define FORMAT	   1
#define NAME_MAX_1 1000u  /* bytes of a function's name */
#define NAME_MAX_2 200u	  /* where there are many */
#define MANY_NAMES 20000u /* functions */

struct writer {
	const struct trace *trace;
	const struct view_filter *filter;
	const struct diff *diff; /* NULL: the page compares nothing */
	struct names *names;
	struct report report;
	struct paths paths;
	struct levels levels;
	struct boxes boxes;
	struct used used;
	struct difference difference;
	struct texts files; /* source files */
	struct columns columns;
};

/* The table's rows and histograms; a histogram's buckets are quarters of a power of two. */
static uint64_t bucket_of(uint64_t ns)
{
	unsigned power;

	if (ns < 4)
		return ns;
	power = 63 - (unsigned)__builtin_clzll(ns);
	return 4 * (uint64_t)(power - 1) + (ns >> (power - 2) & 3);
}

static void put_histogram(struct columns *columns, struct column *step, struct column *calls, uint64_t *buckets,
			  const struct histogram *histogram)
{
	uint64_t least, count, last = 0, bucket = 0, sum = 0;

	*buckets = 0;
	for (uint32_t at = 0; histogram_next(histogram, &at, &least, &count); sum += count) {
		if (sum && bucket_of(least) != bucket) {
			columns_put(columns, step, bucket - last);
			columns_put(columns, calls, sum);
			++*buckets;
			last = bucket;
			sum = 0;
		}
		bucket = bucket_of(least);
	}
	if (!sum)
		return;
	columns_put(columns, step, bucket - last);
	columns_put(columns, calls, sum);
	++*buckets;
}

/* Two bits for each figure of the row: 0 it is exact, 1 an estimate, 2 it is at most what is told, 3 at least. */
static uint64_t marks_in(const struct report *report, const struct report_row *row)
{
	static const enum report_column columns[] = {REPORT_TOTAL, REPORT_SELF, REPORT_MIN,
						     REPORT_P50,   REPORT_P99,	REPORT_MAX};
	static const char marks[] = {'\0', '~', '<', '>'};
	uint64_t bits = 0, ns;

	for (unsigned i = 0; i < sizeof(columns) / sizeof(columns[0]); i++) {
		const char mark = report_mark(report, row, columns[i], &ns);

		for (uint64_t k = 0; k < sizeof(marks); k++)
			bits |= marks[k] == mark ? k << 2 * i : 0;
	}
	return bits;
}

/* The figure that the row's mark is of. */
static uint64_t marked_ns(const struct report *report, const struct report_row *row, enum report_column column)
{
	uint64_t ns;

	(void)report_mark(report, row, column, &ns);
	return ns;
}

static void put_table(struct writer *writer)
{
	static const char *const names[] = {"table.function", "table.calls", "table.unfinished", "table.total",
					    "table.self",     "table.sum",   "table.min",	 "table.p50",
					    "table.p99",      "table.max",   "table.buckets",	 "table.about"};
	struct columns *columns = &writer->columns;
	struct column *list[sizeof(names) / sizeof(names[0])];
	struct column *step = columns_add(columns, "bucket.step"), *calls = columns_add(columns, "bucket.calls");

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		list[i] = columns_add(columns, names[i]);
	for (uint32_t i = 0; i < writer->report.row_count; i++) {
		const struct report_row *row = &writer->report.rows[i];
		uint64_t buckets;
		size_t at = 0;

		put_histogram(columns, step, calls, &buckets, &row->histogram);
		columns_put(columns, list[at++], used_number(&writer->used, row->key));
		columns_put(columns, list[at++], row->calls);
		columns_put(columns, list[at++], row->unfinished);
		columns_put(columns, list[at++], row->total_ns);
		columns_put(columns, list[at++], row->self_ns);
		columns_put(columns, list[at++], row->sum_ns);
		columns_put(columns, list[at++], row->min_ns);
		columns_put(columns, list[at++], marked_ns(&writer->report, row, REPORT_P50));
		columns_put(columns, list[at++], marked_ns(&writer->report, row, REPORT_P99));
		columns_put(columns, list[at++], marked_ns(&writer->report, row, REPORT_MAX));
		columns_put(columns, list[at++], buckets);
		columns_put(columns, list[at++], marks_in(&writer->report, row));
	}
}

/* How many calls have a duration of their own, where not all have. */
static void write_estimated(const struct report *report, struct json *json)
{
	uint64_t measured, exact;

	report_count_exact(report, &measured, &exact);
	json_key(json, "estimated");
	json_object(json);
	json_key_u64(json, "calls", measured);
	json_key_u64(json, "exact", exact);
	json_object_end(json);
}

/* As the trace has it: the page's script takes out what disturbs. */
static const char *name_of(struct writer *writer, uint32_t id, const struct trace_function *function)
{
	if (function && function->name[0])
		return function->name;
	return id == TRACE_NONE ? "(unknown)" : names_function(writer->names, id).text;
}

/* [name, object, source file, line] of each used function; the numbers of the file and the object are one too great. */
static void write_functions(struct writer *writer, struct json *json)
{
	uint32_t max = writer->used.count > MANY_NAMES ? NAME_MAX_2 : NAME_MAX_1;
	char name[NAME_MAX_1];

	json_key(json, "functions");
	json_array(json);
	for (uint32_t i = 0; i < writer->used.count; i++) {
		uint32_t id = writer->used.ids[i];
		const struct trace_function *function = trace_function(writer->trace, id);
		bool owned = function && function->object != TRACE_NONE;

		texts_cut(name, max, name_of(writer, id, function));
		json_array(json);
		json_string(json, name);
		json_u64(json, owned ? (uint64_t)function->object + 1 : 0);
		json_u64(json, function ? texts_add(&writer->files, function->file) : 0);
		json_u64(json, function ? function->line : 0);
		json_array_end(json);
	}
	json_array_end(json);
	json_key(json, "files");
	texts_write(&writer->files, json);
}

/* [name, tid, pid] of each thread, and [thread, stack] of each track, null for those that are not used. */
static void write_threads(struct writer *writer, struct json *json)
{
	json_key(json, "threads");
	json_array(json);
	for (uint32_t i = 0; i < trace_thread_count(writer->trace); i++) {
		const struct trace_thread *thread = trace_thread(writer->trace, i);
		const struct trace_process *process = thread ? trace_process(writer->trace, thread->process) : NULL;

		json_array(json);
		json_string(json, thread ? thread->name : "");
		json_u64(json, thread ? thread->tid : 0);
		json_u64(json, process ? process->pid : 0);
		json_array_end(json);
	}
	json_array_end(json);
	json_key(json, "tracks");
	json_array(json);
	for (uint32_t i = 0; i < writer->boxes.track_count; i++) {
		if (!writer->boxes.tracks[i].used) {
			json_null(json);
			continue;
		}
		json_array(json);
		json_u64(json, writer->boxes.tracks[i].thread);
		json_u64(json, writer->boxes.tracks[i].stack);
		json_array_end(json);
	}
	json_array_end(json);
}

/* Counts of the boxes and paths that the page holds, and of the calls that it leaves out or sums. */
static void write_levels(struct writer *writer, struct json *json)
{
	const struct boxes *boxes = &writer->boxes;

	json_key(json, "levels");
	json_object(json);
	json_key_u64(json, "threshold_ns", writer->levels.threshold_ns);
	json_key_u64(json, "kept", boxes->kept);
	json_key_u64(json, "sums", boxes->sums);
	json_key_u64(json, "small", boxes->small);
	json_key_u64(json, "strays", boxes->strays);
	json_key_u64(json, "crowded", boxes->crowded);
	json_key_u64(json, "moments_left", boxes->moments_left);
	json_key_u64(json, "texts_left", boxes->texts.left_out);
	json_key_u64(json, "whole_left", writer->paths.whole_left);
	json_key_u64(json, "whole_min_ns", writer->paths.whole_min_ns);
	json_key_u64(json, "threads_left", writer->paths.threads_left);
	json_key_u64(json, "threads_min_ns", writer->paths.threads_min_ns);
	json_key_u64(json, "pairs_left", writer->paths.pairs_left);
	json_key_u64(json, "absorbed", writer->paths.threads.absorbed);
	json_key_u64(json, "lost", writer->report.lost);
	json_key_u64(json, "wait_ns", writer->report.wait_ns);
	json_object_end(json);
}

static void write_filter(const struct view_filter *filter, struct json *json)
{
	json_key(json, "filter");
	json_object(json);
	json_key_string(json, "function", filter->function);
	json_key_u64(json, "pid", filter->pid);
	json_key_u64(json, "tid", filter->tid);
	json_key_u64(json, "from_ns", filter->from_ns);
	if (filter->to_ns != UINT64_MAX)
		json_key_u64(json, "to_ns", filter->to_ns);
	json_key_u64(json, "min_ns", filter->min_ns);
	json_key(json, "options");
	json_array(json);
	for (size_t i = 0; chosen_text(filter->chosen, i); i++)
		json_string(json, chosen_text(filter->chosen, i));
	json_array_end(json);
	json_object_end(json);
}

static void write_data(struct writer *writer, struct out *out)
{
	struct json json;

	json_begin(&json, out);
	json_object(&json);
	json_key_u64(&json, "format", FORMAT);
	json_key_string(&json, "version", CALLTAP_VERSION);
	write_filter(writer->filter, &json);
	write_functions(writer, &json);
	json_key(&json, "objects");
	json_array(&json);
	for (uint32_t i = 0; i < trace_object_count(writer->trace); i++)
		json_string(&json, trace_object(writer->trace, i) ? trace_object(writer->trace, i)->path : "");
	json_array_end(&json);
	write_threads(writer, &json);
	json_key(&json, "texts");
	texts_write(&writer->boxes.texts, &json);
	write_levels(writer, &json);
	if (writer->report.estimated)
		write_estimated(&writer->report, &json);
	if (writer->diff) {
		json_key(&json, "diff");
		diff_json(writer->diff, &json);
	}
	if (writer->difference.name_count) {
		json_key(&json, "change");
		difference_write(&writer->difference, writer->diff, &json);
	}
	json_key(&json, "columns");
	columns_describe(&writer->columns, &json);
	json_object_end(&json);
	out_char(out, '\n');
	columns_write(&writer->columns, out);
}

/* Compress what is in the file. */
static int write_packed(int fd, struct out *out)
{
	struct stat file;
	void *bytes;
	int err;

	if (fstat(fd, &file))
		return -errno;
	bytes = mmap(NULL, (size_t)file.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (bytes == MAP_FAILED)
		return -errno;
	err = packed_write(out, bytes, (size_t)file.st_size);
	munmap(bytes, (size_t)file.st_size);
	return err;
}

/* Write the page, with the data, which are gathered in a file in memory first. */
static int write_page(struct writer *writer, struct out *out, struct calltap_diag *diag)
{
	int fd = memfd_create("calltap-html", MFD_CLOEXEC), err, flushed;
	struct out *data = NULL;

	if (fd < 0)
		return calltap_diag_set(diag, -errno,
					"no memory for the page's data: choose less with --time or --tid");
	err = out_create(&data, fd);
	if (!err)
		err = info_print(writer->trace, writer->filter->headway, true, false, data, diag);
	if (!err) {
		write_data(writer, data);
		err = writer->files.error;
	}
	flushed = out_destroy(data);
	if (!err)
		err = flushed;
	out_bytes(out, html_page_head, html_page_head_size);
	if (!err)
		err = write_packed(fd, out);
	out_bytes(out, html_page_tail, html_page_tail_size);
	close(fd);
	return err;
}

static int collect(struct writer *writer, struct walk *walk, struct calltap_diag *diag)
{
	const struct report_options options = {.size = sizeof(options), .by = REPORT_BY_FUNCTION, .sort = REPORT_TOTAL};
	int err = names_create(&writer->names, writer->trace);

	if (!err)
		err = used_create(&writer->used, writer->trace);
	if (!err)
		err = report_run(&writer->report, writer->trace, writer->filter, &options, diag);
	if (!err)
		err = paths_collect(&writer->paths, writer->trace, writer->filter, walk, diag);
	if (err)
		return err;
	paths_levels(&writer->paths, writer->trace, &writer->levels);
	err = boxes_collect(&writer->boxes, &writer->levels, &writer->report, writer->filter, &writer->used, walk,
			    diag);
	if (err)
		return err;
	put_table(writer);
	err = paths_put(&writer->paths, &writer->columns, &writer->used);
	boxes_put(&writer->boxes, &writer->columns);
	if (!err && writer->diff)
		err = difference_put(&writer->difference, writer->diff, &writer->columns);
	return err ? err : writer->columns.failed ? -ENOMEM : 0;
}

int html_write(const struct trace *trace, const struct view_filter *filter, const struct diff *diff, struct out *out,
	       struct walk *walk, struct calltap_diag *diag)
{
	struct writer writer = {.trace = trace, .filter = filter, .diff = diff};
	int err = collect(&writer, walk, diag);

	headway_begin(filter->headway, "writing the page", 0);
	if (!err)
		err = write_page(&writer, out, diag);
	if (err == -ENOMEM && !diag->code)
		calltap_diag_set(diag, err, "out of memory for the page: choose less with --time or --tid");
	columns_clear(&writer.columns);
	texts_clear(&writer.files);
	boxes_clear(&writer.boxes);
	paths_clear(&writer.paths);
	difference_clear(&writer.difference);
	used_clear(&writer.used);
	report_clear(&writer.report);
	names_destroy(writer.names);
	return err;
}
