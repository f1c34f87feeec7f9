/*
 * `calltap status`: which processes are traced, how, and how fast.
 *
 * Every session is asked twice, so that records per second can be told.  A session that does not answer is named on
 * standard error; the others are shown all the same.  Caller: main.  Context: host.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "host/counted.h"
#include "host/text.h"
#include "host/view/json.h"
#include "clearing.h"
#include "cmd.h"
#include "options.h"
#include "steering.h"

#define BETWEEN_MS 500
#define ROWS_MAX   1024

static const char help[] = "usage: calltap status [PID] [--json]\n"
			   "Show which processes you trace, and how: without PID a table of all, with it all that\n"
			   "is known of one.\n\n"
			   "      --json            JSON\n"
			   "  -h, --help            this text\n";

struct row {
	const struct remote_session *session;
	struct remote_status status;
	double rate; /* records per second */
	bool known;
};

struct rows {
	struct row *list; /* a session, then its instances */
	size_t count;
};

/* Take one reading.  False: the session did not answer, which was told. */
static bool ask_row(struct row *row, const char *instance, bool again)
{
	struct calltap_diag diag = {0};
	uint64_t before = row->status.records, before_ns = row->status.counted_ns;
	int err = remote_ask_status(row->session->socket, instance, &row->status, &diag);

	row->known = !err;
	if (again && row->status.records > before && row->status.counted_ns > before_ns)
		row->rate = (double)(row->status.records - before) * 1e9 / (double)(row->status.counted_ns - before_ns);
	if (!err || err == -EPIPE || (err == -ENOENT && instance))
		return true; /* it may end meanwhile */
	fprintf(stderr, "calltap: process %d: %s\n", (int)row->session->pid, diag.text);
	return false;
}

/* Append the rows of the session's instances. */
static bool ask_instances(struct rows *rows, const struct row *of)
{
	char names[sizeof(of->status.instances)];
	const struct remote_session *session = of->session;
	bool all = true;

	memcpy(names, of->status.instances, sizeof(names));
	for (char *rest = names, *name; (name = strsep(&rest, " "));) {
		struct row *row = &rows->list[rows->count];

		if (!*name || rows->count + 1 >= ROWS_MAX)
			continue;
		row->session = session;
		all &= ask_row(row, name, false);
		rows->count += row->known;
	}
	return all;
}

/* Take both readings.  False: a session did not answer, which was told. */
static bool ask_all(const struct remote_session *sessions, struct rows *rows, size_t count)
{
	const struct timespec pause = {.tv_nsec = BETWEEN_MS * 1000000};
	bool all = true;

	for (size_t i = 0; i < count && rows->count < ROWS_MAX; i++) {
		struct row *row = &rows->list[rows->count];

		row->session = &sessions[i];
		all &= ask_row(row, NULL, false);
		rows->count += row->known;
		if (row->known)
			all &= ask_instances(rows, row);
	}
	nanosleep(&pause, NULL);
	for (size_t i = 0; i < rows->count; i++) {
		struct row *row = &rows->list[i];
		char name[sizeof(row->status.instance)];

		memcpy(name, row->status.instance, sizeof(name));
		all &= ask_row(row, i && row[-1].session == row->session ? name : NULL, true);
	}
	return all;
}

static const char *text_since(const struct remote_status *status, char text[32])
{
	time_t began = (time_t)(status->began_ns / 1000000000);
	struct tm fields;

	if (!localtime_r(&began, &fields) || !strftime(text, 32, "%F %T", &fields))
		snprintf(text, 32, "?");
	return text;
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash && slash[1] ? slash + 1 : path;
}

static size_t count_words(const char *text)
{
	size_t count = *text != 0;

	for (const char *blank = strchr(text, ' '); blank; blank = strchr(blank + 1, ' '))
		count++;
	return count;
}

static void print_table(const struct row *rows, size_t count, struct out *out)
{
	out_text(out, "    PID  PROGRAM             TOOL  TRACER          MODE       TRACING  THREADS        SITES ON"
		      "   RECORDS/S        LOST  SINCE\n");
	for (size_t i = 0; i < count; i++) {
		const struct remote_status *status = &rows[i].status;
		char text[32], sites[48], more[24] = "", program[sizeof(status->program) + sizeof(status->instance)];

		if (!rows[i].known)
			continue;
		if (status->pids[0])
			snprintf(more, sizeof(more), " +%zu", count_words(status->pids) - 1);
		snprintf(program, sizeof(program), "%s%s%s%s", base_name(status->program), more,
			 strcmp(status->instance, "0") ? ":" : "",
			 strcmp(status->instance, "0") ? status->instance : "");
		snprintf(sites, sizeof(sites), "%" PRIu64 "/%" PRIu64, status->sites_on, status->sites);
		out_u64_width(out, status->pid, 7);
		out_spaces(out, 2);
		out_label(out, program, ':', 16, false);
		out_u64_width(out, status->tool, 8);
		out_spaces(out, 2);
		out_column(out, status->serves ? "(handlers)" : status->tracer, 16, false);
		out_column(out, status->mode, 11, false);
		out_column(out, status->tracing ? "on" : "off", 7, false);
		out_u64_width(out, status->threads, 9);
		out_column(out, sites, 16, true);
		out_u64_width(out, (uint64_t)rows[i].rate, 12);
		out_u64_width(out, status->lost, 12);
		out_format(out, "  %s\n", text_since(status, text));
	}
}

static void print_one(const struct row *row, struct out *out)
{
	const struct remote_status *status = &row->status;
	char text[32], size[TIMETEXT_MAX];

	out_format(out, "process:      %" PRIu64 ", %s%s\n", status->pid, status->program,
		   status->attached ? ", attached to" : "");
	if (status->pids[0])
		out_format(out, "attached to:  %s\n", status->pids);
	if (status->instances[0] || strcmp(status->instance, "0") != 0)
		out_format(out, "instance:     %s\n", status->instance);
	out_format(out, "tool:         process %" PRIu64 ", since %s\n", status->tool, text_since(status, text));
	out_format(out, "tracing:      %s, tracer %s, mode %s\n", status->tracing ? "on" : "off", status->tracer,
		   status->mode);
	out_format(out, "traced:       %" PRIu64 " %s, %" PRIu64 " %s\n", status->processes,
		   counted(status->processes, "process", "processes"), status->threads,
		   counted(status->threads, "thread", "threads"));
	out_format(out, "sites:        %" PRIu64 " patched, %" PRIu64 " of them on\n", status->sites, status->sites_on);
	if (status->serves || status->handlers)
		out_format(out, "handlers:     %" PRIu64 ", of %" PRIu64 " %s%s\n", status->handlers, status->handled,
			   counted(status->handled, "function", "functions"),
			   status->serves ? "; nothing is recorded" : "");
	if (status->serves)
		return;
	out_format(out, "records:      %" PRIu64 ", %.0f per second%s\n", status->records, row->rate,
		   strcmp(status->mode, "overwrite")
			   ? ""
			   : "; the newest are in memory, and `calltap snapshot` writes them to a file");
	out_format(out, "lost:         %" PRIu64 " %s, %" PRIu64 " %s without a buffer\n", status->lost,
		   counted(status->lost, "record", "records"), status->untraced,
		   counted(status->untraced, "call", "calls"));
	if (status->longest_stop_ns)
		out_format(out, "longest stop: %.2f ms, of all its threads\n", (double)status->longest_stop_ns / 1e6);
	if (status->output[0])
		out_format(out, "trace file:   %s, %s\n", status->output, sizetext(status->file_bytes, size));
}

/* All processes that the session was attached to, or the one that it is called by. */
static void print_json_pids(const struct remote_status *status, struct json *json)
{
	const char *at = status->pids;

	json_key(json, "pids");
	json_array(json);
	if (!*at)
		json_u64(json, status->pid);
	while (*at) {
		json_u64(json, strtoull(at, NULL, 10));
		at += strcspn(at, " ");
		at += strspn(at, " ");
	}
	json_array_end(json);
}

static void print_json_row(const struct row *row, struct json *json)
{
	const struct remote_status *status = &row->status;

	json_object(json);
	json_key_u64(json, "pid", status->pid);
	print_json_pids(status, json);
	json_key_string(json, "program", status->program);
	json_key_u64(json, "tool", status->tool);
	json_key_string(json, "instance", status->instance);
	json_key(json, "attached");
	json_bool(json, status->attached);
	json_key_string(json, "tracer", status->tracer);
	json_key_string(json, "mode", status->mode);
	json_key(json, "tracing");
	json_bool(json, status->tracing);
	json_key_u64(json, "processes", status->processes);
	json_key_u64(json, "threads", status->threads);
	json_key_u64(json, "sites", status->sites);
	json_key_u64(json, "sites_on", status->sites_on);
	json_key(json, "serves");
	json_bool(json, status->serves);
	json_key_u64(json, "handlers", status->handlers);
	json_key_u64(json, "handled", status->handled);
	json_key_u64(json, "records", status->records);
	json_key_u64(json, "records_per_s", (uint64_t)row->rate);
	json_key_u64(json, "lost", status->lost);
	json_key_u64(json, "untraced", status->untraced);
	json_key_string(json, "output", status->output[0] ? status->output : NULL);
	json_key_u64(json, "file_bytes", status->file_bytes);
	json_key_u64(json, "longest_stop_ns", status->longest_stop_ns);
	json_key_u64(json, "began_ns", status->began_ns);
	json_object_end(json);
}

static void print_json(const struct row *rows, size_t count, struct out *out)
{
	struct json json;

	json_begin(&json, out);
	json_array(&json);
	for (size_t i = 0; i < count; i++)
		if (rows[i].known)
			print_json_row(&rows[i], &json);
	json_array_end(&json);
	out_char(out, '\n');
}

static int print_rows(const struct rows *all, bool one, bool json, struct calltap_diag *diag)
{
	const struct row *rows = all->list;
	size_t count = all->count, known = 0;
	struct out *out;
	int err = out_create(&out, STDOUT_FILENO);

	if (err)
		return calltap_diag_set(diag, err, "out of memory for the output");
	for (size_t i = 0; i < count; i++)
		known += rows[i].known;
	if (json)
		print_json(rows, count, out);
	else if (!known && !one)
		out_text(out, "no process is traced by you\n");
	else if (!one)
		print_table(rows, count, out);
	for (size_t i = 0; i < count && one && !json; i++)
		if (rows[i].known) {
			out_text(out, i ? "\n" : "");
			print_one(&rows[i], out);
		}
	err = out_destroy(out);
	return err && err != -EPIPE ? calltap_diag_set(diag, err, "cannot write the output: %s", strerror(-err)) : 0;
}

static bool is_any_known(const struct rows *rows)
{
	bool known = false;

	for (size_t i = 0; i < rows->count; i++)
		known |= rows->list[i].known;
	return known;
}

static int show_status(struct steering *steering, pid_t pid, bool *all)
{
	struct remote_session *sessions;
	struct rows rows = {0};
	size_t count;
	int err = remote_list(&sessions, &count, pid, &steering->diag);

	if (err)
		return err;
	if (pid && !count)
		return clearing_refuse(pid, &steering->diag);
	rows.list = calloc(ROWS_MAX, sizeof(*rows.list));
	if (rows.list) {
		*all = !count || ask_all(sessions, &rows, count);
		/* The session that the user has named has ended while it was asked: its tool may have been killed. */
		err = pid && *all && !is_any_known(&rows)
			      ? clearing_refuse(pid, &steering->diag)
			      : print_rows(&rows, pid != 0, steering->json, &steering->diag);
	} else {
		err = calltap_diag_set(&steering->diag, -ENOMEM, "not enough memory");
	}
	remote_list_free(sessions, count);
	free(rows.list);
	return err;
}

int cmd_status(int argc, char **argv)
{
	static const struct option options[] = {{"json", no_argument, NULL, STEERING_JSON}, STEERING_OPTIONS, {0}};
	struct steering steering;
	pid_t pid = 0;
	bool all = true;
	int option, err = 0;

	steering_init(&steering, "status", help);
	while (!err && !steering.done && (option = options_next(argc, argv, ":h", options)) != -1)
		err = steering_option(&steering, option, argv);
	if (!err && !steering.done && optind < argc)
		err = steering_pid(&steering, &pid, argc, argv);
	if (!err && !steering.done)
		err = steering_no_more(&steering, argc, argv);
	if (!err && !steering.done)
		err = show_status(&steering, pid, &all);
	return steering_close(&steering, err) || !all;
}
