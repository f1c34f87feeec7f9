/*
 * Printing the facts about a trace; see info.h.  Context: host.
 *
 * The sums and texts of the facts are made once, for both the text and the JSON.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "host/counted.h"
#include "info.h"
#include "json.h"
#include "headway.h"
#include "names.h"
#include "term.h"
#include <host/text.h>

#define SLOW_READ_NS 100
/* Damage that keeps the cursor from getting on must not spin. */
#define DAMAGES_IN_A_ROW 100000u

struct totals {
	uint64_t records, events, lost, wait_ns, bytes, end_ticks;
	uint64_t untimed; /* records that have no time; only where `estimates` says that there may be some */
	struct trace_estimates estimates;
	uint32_t threads, processes, objects, functions;
};

static void count_events(void *headway, uint64_t events)
{
	headway_add(headway, events);
}

/* Count the records that have no time of their own.  The chunks' heads do not say: so read all of them. */
static int count_untimed(const struct trace *trace, struct headway *headway, struct totals *totals,
			 struct calltap_diag *diag)
{
	const struct trace_select select = {
		.size = sizeof(select), .thread = TRACE_NONE, .noted = count_events, .of = headway};
	struct trace_cursor *cursor;
	struct trace_event event;
	unsigned in_a_row = 0;
	int got = 1, ret;

	headway_begin(headway, "reading", 2 * totals->records); /* opening reads all, too */
	ret = trace_cursor_open(&cursor, trace, &select, diag);

	while (!ret && got && in_a_row <= DAMAGES_IN_A_ROW) {
		got = trace_cursor_next(cursor, &event, NULL);
		count_events(headway, 1);
		in_a_row = got < 0 ? in_a_row + 1 : 0;
		totals->untimed += got > 0 && event.brief;
	}
	trace_cursor_close(cursor);
	return ret;
}

static int add_up(const struct trace *trace, struct headway *headway, struct totals *totals, struct calltap_diag *diag)
{
	struct stat file;

	*totals = (struct totals){0};
	if (stat(trace_path(trace), &file))
		return calltap_diag_set(diag, -errno, "cannot read the size of '%s'", trace_path(trace));
	totals->bytes = (uint64_t)file.st_size;
	for (uint32_t i = 0; i < trace_thread_count(trace); i++) {
		const struct trace_thread *thread = trace_thread(trace, i);

		if (!thread)
			continue;
		totals->threads++;
		totals->records += thread->records;
		totals->events += thread->events;
		totals->lost += thread->lost;
		totals->wait_ns += trace_duration_ns(trace, thread->wait_ticks);
		if (thread->end_ticks > totals->end_ticks)
			totals->end_ticks = thread->end_ticks;
	}
	for (uint32_t i = 0; i < trace_process_count(trace); i++)
		totals->processes += trace_process(trace, i) != NULL;
	for (uint32_t i = 0; i < trace_object_count(trace); i++)
		totals->objects += trace_object(trace, i) != NULL;
	for (uint32_t i = 0; i < trace_function_count(trace); i++)
		totals->functions += trace_function(trace, i) != NULL;
	if (trace_end(trace) && trace_end(trace)->ticks > totals->end_ticks)
		totals->end_ticks = trace_end(trace)->ticks;
	trace_estimates(trace, &totals->estimates);
	return totals->estimates.any ? count_untimed(trace, headway, totals, diag) : 0;
}

static uint64_t duration_ns(const struct trace *trace, const struct totals *totals)
{
	uint64_t start = trace_start_ticks(trace);

	return totals->end_ticks > start ? trace_duration_ns(trace, totals->end_ticks - start) : 0;
}

/* The file's bytes per call, which is two records of the graph tracer, one of the function tracer. */
static double bytes_per_call(const struct trace *trace, const struct totals *totals)
{
	const char *tracer = trace_info(trace, "tracer");
	double calls = (double)(totals->records - totals->events) / (tracer && strcmp(tracer, "function") == 0 ? 1 : 2);

	return calls > 0 ? (double)totals->bytes / calls : 0;
}

static void status_text(const struct trace *trace, char *text, size_t size)
{
	const char *recorded = trace_info(trace, "exit");
	const struct calltap_file_end *end = trace_end(trace);

	if (recorded)
		snprintf(text, size, "%s", recorded);
	else if (!end || end->status == -1)
		snprintf(text, size, "not known");
	else if (WIFSIGNALED(end->status))
		snprintf(text, size, "killed by signal %d", WTERMSIG(end->status));
	else
		snprintf(text, size, "exited %d", WEXITSTATUS(end->status));
}

static void put_line(struct out *out, const char *label, const char *value)
{
	char clean[4096];

	text_clean(clean, sizeof(clean), value);
	out_column(out, label, 18, false);
	out_text(out, clean);
	out_char(out, '\n');
}

/* The kind of a value that the recorder wrote as text. */
enum value_kind { TEXT, BYTES, TICKS, NANOSECONDS };

/* The recorder's keys in the order to show them, with their labels; NULL: shown with the totals. */
static const struct {
	const char *key, *label;
	enum value_kind kind;
} known_keys[] = {
	{"program", "Program", TEXT},
	{"command", "Command", TEXT},
	{"cwd", "Directory", TEXT},
	{"machine", "Machine", TEXT},
	{"emulator", "Emulator", TEXT},
	{"host", "Host", TEXT},
	{"kernel", "Kernel", TEXT},
	{"cpu", "CPU", TEXT},
	{"tracer", "Tracer", TEXT},
	{"mode", "Mode", TEXT},
	{"instance", "Instance", TEXT},
	{"buffer_bytes", "Buffer", BYTES},
	{"options", "Options", TEXT},
	{"clock", "Clock", TEXT},
	{"started", "Started", TEXT},
	{"sites", "Sites", TEXT},
	{"patched", "Patched", TEXT},
	{"failed", "Failed", TEXT},
	{"patch_ticks", "Patching took", TICKS},
	{"snapshot", "Snapshot", TEXT},
	{"reason", "Reason", TEXT},
	{"history_ns", "History", NANOSECONDS},
	{"version", "Calltap", TEXT},
	{"exit", NULL, TEXT},
	{"untraced", NULL, TEXT},
	{"clock_hz", NULL, TEXT},
	{"clock_read_ns", NULL, TEXT},
	{"recorded_ns", NULL, TEXT},
};

#define KNOWN_KEYS (sizeof(known_keys) / sizeof(known_keys[0]))

/* The i-th INFO line's key, if it is not in known_keys and no later line replaces it; else NULL. */
static const char *other_key(const struct trace *trace, uint32_t i, const char **value)
{
	const char *key;

	if (!trace_info_at(trace, i, &key, value) || trace_info(trace, key) != *value)
		return NULL;
	for (size_t known = 0; known < KNOWN_KEYS; known++) {
		if (strcmp(key, known_keys[known].key) == 0)
			return NULL;
	}
	return key;
}

/* A number as text with its unit; a value that is no number stays as it is. */
static const char *readable_value(const struct trace *trace, const char *value, enum value_kind kind,
				  char text[TIMETEXT_MAX])
{
	char *end;
	uint64_t number = strtoull(value, &end, 10);

	if (kind == TEXT || end == value || *end)
		return value;
	if (kind == BYTES)
		return sizetext(number, text);
	return timetext(kind == TICKS ? trace_duration_ns(trace, number) : number, text);
}

static void print_keys(const struct trace *trace, struct out *out)
{
	const char *key, *value;
	char text[TIMETEXT_MAX];

	for (size_t i = 0; i < KNOWN_KEYS; i++) {
		value = trace_info(trace, known_keys[i].key);
		if (value && *value && known_keys[i].label)
			put_line(out, known_keys[i].label, readable_value(trace, value, known_keys[i].kind, text));
	}
	for (uint32_t i = 0; trace_info_at(trace, i, &key, &value); i++) {
		key = other_key(trace, i, &value);
		if (key)
			put_line(out, key, value);
	}
}

/* The clock's rate as measured, and as the target's CPU tells it, if it does. */
static void print_clock_rate(const struct trace *trace, struct out *out)
{
	const char *told = trace_info(trace, "clock_hz");
	char line[100];
	int length = snprintf(line, sizeof(line), "%.6g MHz", trace_ticks_per_ns(trace) * 1e3);

	if (told)
		snprintf(line + length, sizeof(line) - (size_t)length, ", %.6g by the CPU's word",
			 strtod(told, NULL) / 1e6);
	put_line(out, "Clock frequency", line);
}

/* The cost of a clock read in the target; a call takes two reads. */
static void print_clock_read(const struct trace *trace, struct out *out)
{
	const char *value = trace_info(trace, "clock_read_ns"), *name = trace_info(trace, "clock");
	char line[200];

	if (!value)
		return;
	snprintf(line, sizeof(line), "%.30s ns", value);
	if (strtod(value, NULL) > SLOW_READ_NS)
		snprintf(line, sizeof(line),
			 "%.30s ns: slow, and each call takes two; %.30s is emulated here, or trapped by the firmware",
			 value, name ? name : "the counter");
	put_line(out, "Clock read", line);
}

/* The processes that ran already when they were attached to. */
static void print_attached(const struct trace *trace, struct out *out)
{
	char line[64];

	for (uint32_t i = 0; i < trace_process_count(trace); i++) {
		const struct trace_process *process = trace_process(trace, i);

		if (!process || process->start != CALLTAP_START_ATTACH)
			continue;
		snprintf(line, sizeof(line), "to process %u, which ran already", process->pid);
		put_line(out, "Attached", line);
	}
}

/* Tell how far back a flight recorder's memory goes; false: no record was overwritten. */
static bool goes_back(const struct trace *trace, char *line, size_t size)
{
	uint64_t least = UINT64_MAX, most = 0;
	char text[TIMETEXT_MAX], other[TIMETEXT_MAX];

	for (uint32_t i = 0; i < trace_thread_count(trace); i++) {
		uint64_t ns = trace_history_ns(trace, i);

		if (ns && ns < least)
			least = ns;
		if (ns > most)
			most = ns;
	}
	if (least < most)
		snprintf(line, size, "%s to %s, by thread", timetext(least, text), timetext(most, other));
	else
		snprintf(line, size, "%s", timetext(most, text));
	return most > 0;
}

/* How many records have a time, and what is known of when the others were written. */
static void print_estimates(const struct trace *trace, const struct totals *totals, struct out *out)
{
	const struct trace_estimates *estimates = &totals->estimates;
	char text[TIMETEXT_MAX], late[TIMETEXT_MAX], line[300];

	if (!estimates->any || !totals->untimed)
		return; /* nothing is an estimate */
	snprintf(line, sizeof(line), "%llu", (unsigned long long)(totals->records - totals->untimed));
	put_line(out, "With a time", line);
	snprintf(line, sizeof(line), "%llu, each written within %s of one that has a time",
		 (unsigned long long)totals->untimed, timetext(trace_duration_ns(trace, estimates->span_ticks), text));
	put_line(out, "Without a time", line);
	if (!estimates->late_count)
		return;
	snprintf(line, sizeof(line), "%u %s, for %s in all, in which it may have been longer", estimates->late_count,
		 counted(estimates->late_count, "time", "times"),
		 timetext(trace_duration_ns(trace, estimates->late_ticks), late));
	put_line(out, "Clock was late", line);
}

static void print_totals(const struct trace *trace, const struct totals *totals, struct out *out)
{
	char text[TIMETEXT_MAX], line[300];

	print_clock_rate(trace, out);
	print_clock_read(trace, out);
	put_line(out, "Duration", timetext(duration_ns(trace, totals), text));
	if (trace_info(trace, "recorded_ns"))
		put_line(out, "Recorded", timetext(strtoull(trace_info(trace, "recorded_ns"), NULL, 10), text));
	status_text(trace, line, sizeof(line));
	put_line(out, "Ended", line);
	snprintf(line, sizeof(line), "%u", totals->processes);
	put_line(out, "Processes", line);
	snprintf(line, sizeof(line), "%u", totals->threads);
	put_line(out, "Threads", line);
	snprintf(line, sizeof(line), "%u in %u %s", totals->functions, totals->objects,
		 counted(totals->objects, "object", "objects"));
	put_line(out, "Functions", line);
	snprintf(line, sizeof(line), "%llu", (unsigned long long)totals->records);
	put_line(out, "Records", line);
	print_estimates(trace, totals, out);
	if (totals->events) {
		snprintf(line, sizeof(line), "%llu, such as marks", (unsigned long long)totals->events);
		put_line(out, "Events", line);
	}
	snprintf(line, sizeof(line), "%llu%s", (unsigned long long)totals->lost,
		 trace_damage(trace) ? ", or more: what is told last of threads may be missing (Damage)" : "");
	put_line(out, "Lost records", line);
	if (trace_calls_missed(trace)) {
		snprintf(line, sizeof(line),
			 "%llu %s: there was no buffer yet for the thread, or no memory beside its stack",
			 (unsigned long long)trace_calls_missed(trace),
			 counted(trace_calls_missed(trace), "call", "calls"));
		put_line(out, "Not recorded", line);
	}
	if (trace_frame_count(trace)) {
		snprintf(line, sizeof(line), "%u %s", trace_frame_count(trace),
			 counted(trace_frame_count(trace), "frame", "frames"));
		put_line(out, "Open at the start", line);
	}
	if (goes_back(trace, line, sizeof(line)))
		put_line(out, "Goes back", line);
	put_line(out, "Waited", timetext(totals->wait_ns, text));
	put_line(out, "File size", sizetext(totals->bytes, text));
	snprintf(line, sizeof(line), "%.2f", bytes_per_call(trace, totals));
	put_line(out, "Bytes per call", line);
	put_line(out, "Damage", trace_damage(trace) ? trace_damage(trace) : "none");
}

static void print_threads(const struct trace *trace, struct out *out, bool color)
{
	char text[TIMETEXT_MAX], name[sizeof(((struct trace_thread *)0)->name)], line[2 * TIMETEXT_MAX + 40];

	bool limited = goes_back(trace, line, sizeof(line));

	out_char(out, '\n');
	if (color)
		out_text(out, TERM_BOLD);
	out_text(out, "     PID       TID       Records          Lost       Waited");
	out_text(out, limited ? "    Goes back  Thread" : "  Thread");
	if (color)
		out_text(out, TERM_RESET);
	out_char(out, '\n');
	for (uint32_t i = 0; i < trace_thread_count(trace); i++) {
		const struct trace_thread *thread = trace_thread(trace, i);
		const struct trace_process *process = thread ? trace_process(trace, thread->process) : NULL;

		if (!thread)
			continue;
		out_u64_width(out, process ? process->pid : 0, 8);
		out_u64_width(out, thread->tid, 10);
		out_u64_width(out, thread->records, 14);
		out_u64_width(out, thread->lost, 14);
		out_column(out, timetext(trace_duration_ns(trace, thread->wait_ticks), text), 13, true);
		if (limited)
			out_column(out, trace_history_ns(trace, i) ? timetext(trace_history_ns(trace, i), text) : "all",
				   13, true);
		out_text(out, "  ");
		text_clean(name, sizeof(name), thread->name);
		out_text(out, name);
		out_char(out, '\n');
	}
}

static void json_processes(const struct trace *trace, struct json *json)
{
	static const char *const starts[] = {"spawn", "fork", "exec", "attached"};

	json_key(json, "processes");
	json_array(json);
	for (uint32_t i = 0; i < trace_process_count(trace); i++) {
		const struct trace_process *process = trace_process(trace, i);

		if (!process)
			continue;
		json_object(json);
		json_key_u64(json, "process", i);
		json_key_u64(json, "pid", process->pid);
		json_key_string(json, "exe", process->exe);
		json_key_string(json, "start", process->start <= CALLTAP_START_ATTACH ? starts[process->start] : NULL);
		json_object_end(json);
	}
	json_array_end(json);
}

static void json_threads(const struct trace *trace, struct json *json)
{
	json_key(json, "threads");
	json_array(json);
	for (uint32_t i = 0; i < trace_thread_count(trace); i++) {
		const struct trace_thread *thread = trace_thread(trace, i);

		if (!thread)
			continue;
		json_object(json);
		json_key_u64(json, "process", thread->process);
		json_key_u64(json, "tid", thread->tid);
		json_key_string(json, "name", thread->name);
		json_key_u64(json, "records", thread->records);
		json_key_u64(json, "lost", thread->lost);
		json_key_u64(json, "wait_ns", trace_duration_ns(trace, thread->wait_ticks));
		if (trace_history_ns(trace, i))
			json_key_u64(json, "history_ns", trace_history_ns(trace, i));
		else
			json_key_string(json, "history_ns", NULL);
		json_object_end(json);
	}
	json_array_end(json);
}

static void json_objects(const struct trace *trace, struct json *json)
{
	char id[65];

	json_key(json, "objects");
	json_array(json);
	for (uint32_t i = 0; i < trace_object_count(trace); i++) {
		const struct trace_object *object = trace_object(trace, i);

		if (!object)
			continue;
		id[0] = '\0';
		for (uint32_t at = 0; at < object->build_id_size && at < 32; at++)
			snprintf(id + at * 2, 3, "%02x", object->build_id[at]);
		json_object(json);
		json_key_string(json, "path", object->path);
		json_key_string(json, "build_id", id[0] ? id : NULL);
		json_object_end(json);
	}
	json_array_end(json);
}

static void print_json(const struct trace *trace, const struct totals *totals, struct out *out)
{
	const char *key, *value;
	struct json json;
	char status[300];

	json_begin(&json, out);
	json_object(&json);
	json_key_string(&json, "file", trace_path(trace));
	json_key(&json, "info");
	json_object(&json);
	for (uint32_t i = 0; trace_info_at(trace, i, &key, &value); i++) {
		if (trace_info(trace, key) == value)
			json_key_string(&json, key, value);
	}
	json_object_end(&json);
	status_text(trace, status, sizeof(status));
	json_key_string(&json, "ended", status);
	json_key(&json, "clock_mhz");
	json_milli(&json, (uint64_t)llround(fmin(trace_ticks_per_ns(trace) * 1e6, 1e15)));
	json_key_u64(&json, "duration_ns", duration_ns(trace, totals));
	json_key_u64(&json, "functions", totals->functions);
	json_key_u64(&json, "records", totals->records);
	if (totals->estimates.any) {
		json_key_u64(&json, "untimed", totals->untimed);
		json_key_u64(&json, "untimed_span_ns", trace_duration_ns(trace, totals->estimates.span_ticks));
		json_key_u64(&json, "late_rows", totals->estimates.late_count);
		json_key_u64(&json, "late_ns", trace_duration_ns(trace, totals->estimates.late_ticks));
	}
	json_key_u64(&json, "events", totals->events);
	json_key_u64(&json, "lost", totals->lost);
	json_key_u64(&json, "untraced", trace_calls_missed(trace));
	json_key_u64(&json, "wait_ns", totals->wait_ns);
	json_key_u64(&json, "frames_at_start", trace_frame_count(trace));
	json_key_u64(&json, "bytes", totals->bytes);
	json_key(&json, "bytes_per_call");
	json_milli(&json, (uint64_t)llround(bytes_per_call(trace, totals) * 1e3));
	json_key_string(&json, "damage", trace_damage(trace));
	json_processes(trace, &json);
	json_threads(trace, &json);
	json_objects(trace, &json);
	json_object_end(&json);
	out_char(out, '\n');
}

int info_print(const struct trace *trace, struct headway *headway, bool json, bool color, struct out *out,
	       struct calltap_diag *diag)
{
	struct totals totals;
	int err = add_up(trace, headway, &totals, diag);

	if (err)
		return err;
	if (json) {
		print_json(trace, &totals, out);
		return 0;
	}
	put_line(out, "File", trace_path(trace));
	print_keys(trace, out);
	print_attached(trace, out);
	print_totals(trace, &totals, out);
	print_threads(trace, out, color);
	return 0;
}
