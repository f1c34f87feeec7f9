/*
 * The files of an instance: a row each, with what reading and writing do (tree.h).
 *
 * Names that are not here are not there.  Context: host.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <host/proc.h>

#include "raw.h"
#include "tree.h"

#define NAMES_MAX 4194304u /* PID_MAX_DEFAULT of 64-bit kernels */

static int read_readme(struct tree_open *open, struct tree_text *out)
{
	(void)open;
	tree_text_string(
		out,
		"tracing mini-HOWTO: the functions of one program, behind the names of the kernel's files\n\n"
		"# echo 0 > tracing_on : no more is recorded\n"
		"# echo 1 > tracing_on : it is again\n\n"
		"  attach\t\t- the process; of a tree that was mounted without one: write its PID here\n"
		"  available_tracers\t- the words that current_tracer takes\n"
		"  current_tracer\t- function_graph, function or nop; another one empties the buffer\n"
		"  trace\t\t\t- what the buffer holds; `echo > trace` empties it\n"
		"  trace_pipe\t\t- the same for one reader, who waits for more; what was read is gone\n"
		"  snapshot\t\t- 1: what the buffer holds is kept here; 0: it is freed\n"
		"  trace_marker\t\t- each write is an event with that text; trace_marker_raw: with these bytes\n"
		"  trace_clock\t\t- mono, local, global: the CPU's counter, shown as CLOCK_MONOTONIC\n"
		"  trace_options, options/ - how events are shown\n"
		"  buffer_size_kb\t- of each thread; buffer_total_size_kb of all\n"
		"  buffer_subbuf_size_kb\t- of the sub-buffers of trace_pipe_raw; another size empties the buffer\n"
		"  buffer_percent\t- of the buffer that are full before poll() of trace_pipe_raw tells of it\n"
		"  free_buffer\t\t- when it is closed the buffer is emptied; with disable_on_free tracing ends, too\n"
		"  available_filter_functions - what can be traced: name, and [object] for a library's\n"
		"\t    available_filter_functions_addrs: with the address in front\n"
		"  set_ftrace_filter\t- functions to trace; none: all.  set_ftrace_notrace: functions to leave out\n"
		"\t    accepts: func_full_name or glob-matching-pattern, or the number of a line of\n"
		"\t    available_filter_functions; !func takes it away; :mod:object and func:mod:object are\n"
		"\t    functions of a library.  `>` begins anew, `>>` adds\n"
		"\t    func:command[:count]: traceon, traceoff, snapshot, stacktrace, dump, cpudump, when func is "
		"called;\n"
		"\t    !func:command, or !func:command:0 of a counted one, takes it away\n"
		"  set_graph_function\t- functions to trace with all that they call; set_graph_notrace: without it\n"
		"  max_graph_depth\t- calls deeper than that are left out; 0: none\n"
		"  tracing_thresh\t- calls that take fewer microseconds are left out\n"
		"  set_ftrace_pid\t- threads whose events are kept; none: all\n"
		"  set_ftrace_notrace_pid - threads whose events are left out\n"
		"  function_profile_enabled - 1: calls and times of functions are counted; trace_stat/functionN shows "
		"them\n"
		"  enabled_functions\t- functions that are recorded at present; touched_functions: at any time\n"
		"  tracing_max_latency\t- microseconds of the longest call that function_graph has recorded since it "
		"was "
		"written\n"
		"  saved_cmdlines\t- threads by id, with their names; saved_tgids: with their processes\n"
		"  stack_trace\t\t- the deepest stack of each thread, with the sizes of its frames, while\n"
		"\t    stack_tracer_enabled is 1; of stack_trace_filter's functions; `echo 0 > stack_max_size` begins "
		"anew\n"
		"  error_log\t\t- the newest errors, of all files; `echo > error_log` empties it\n"
		"  instances/\t\t- mkdir makes a buffer with a tracer and filters of its own, rmdir takes it away\n");
	return 0;
}

/* Threads that have recorded nothing yet: who follows the tree reads the names first. */
static void print_silent(const struct tree *tree, struct tree_text *out)
{
	pid_t *tids = NULL;
	size_t count = 0;
	char name[32];

	if (tree->pid <= 0 || proc_threads(tree->pid, &tids, &count))
		return;
	for (size_t i = 0; i < count; i++) {
		char path[48];
		bool known = false;

		for (uint32_t slot = 0; slot < tree->slot_count && !known; slot++)
			known = tree->slots[slot].tid == (uint32_t)tids[i];
		snprintf(path, sizeof(path), "task/%d/comm", (int)tids[i]);
		if (!known && !proc_text(tree->pid, path, name, sizeof(name)))
			tree_text_format(out, "%d %.*s\n", (int)tids[i], (int)strcspn(name, "\n"), name);
	}
	free(tids);
}

static int read_cmdlines(struct tree_open *open, struct tree_text *out)
{
	const struct tree *tree = open->instance->tree;

	for (uint32_t i = 0; i < tree->slot_count; i++)
		tree_text_format(out, "%u %s\n", tree->slots[i].tid, tree->slots[i].name);
	print_silent(tree, out);
	return 0;
}

/* Names are kept of as many threads as there are; who asks for more, or fewer, is content with that. */
static int read_cmdlines_size(struct tree_open *open, struct tree_text *out)
{
	tree_text_format(out, "%u\n", open->instance->tree->names_asked);
	return 0;
}

static int write_cmdlines_size(struct tree_open *open, const char *text, size_t size)
{
	uint64_t count = 0;
	int ret = control_number(open, text, &count);

	if (!ret && (!count || count > NAMES_MAX))
		ret = control_refuse(open, -EINVAL, "this is no number of threads", text, 0);
	if (ret)
		return ret;
	open->instance->tree->names_asked = (uint32_t)count;
	return (int)size;
}

static int read_tgids(struct tree_open *open, struct tree_text *out)
{
	const struct tree *tree = open->instance->tree;

	for (uint32_t i = 0; i < tree->slot_count; i++)
		if (tree->slots[i].pid)
			tree_text_format(out, "%u %u\n", tree->slots[i].tid, tree->slots[i].pid);
	return 0;
}

/* Times in trace_pipe_raw are differences. */
static int read_timestamp_mode(struct tree_open *open, struct tree_text *out)
{
	(void)open;
	tree_text_string(out, "[delta] absolute\n");
	return 0;
}

static int read_errors(struct tree_open *open, struct tree_text *out)
{
	errors_print(open->instance->tree, out);
	return 0;
}

static int begin_errors(struct tree_open *open)
{
	if (open_truncates(open, O_TRUNC))
		errors_clear(open->instance->tree);
	return 0;
}

#define READABLE 0440
#define CHANGED	 0640
#define WRITTEN	 0220
#define FREED	 0200

static const struct tree_row table[] = {
	{.name = "options", .folder = FOLDER_TOP, .leads_to = FOLDER_OPTIONS},
	{.name = "instances", .folder = FOLDER_TOP, .leads_to = FOLDER_INSTANCES, .top = true},
	{.name = "per_cpu", .folder = FOLDER_TOP, .leads_to = FOLDER_CPUS},
	{.name = "events", .folder = FOLDER_TOP, .leads_to = FOLDER_EVENTS},
	{.name = "trace_stat", .folder = FOLDER_TOP, .leads_to = FOLDER_STATS, .top = true},
	{.folder = FOLDER_TOP, .name = "README", .mode = READABLE, .top = true, .read = read_readme},
	{.folder = FOLDER_TOP,
	 .name = "attach",
	 .mode = CHANGED,
	 .top = true,
	 .read = attach_read,
	 .write = attach_write},
	{.folder = FOLDER_TOP,
	 .name = "available_filter_functions",
	 .mode = READABLE,
	 .top = true,
	 .read = filter_read_available},
	{.folder = FOLDER_TOP,
	 .name = "available_filter_functions_addrs",
	 .mode = READABLE,
	 .top = true,
	 .read = filter_read_addresses},
	{.folder = FOLDER_TOP, .name = "available_tracers", .mode = READABLE, .read = control_read_available_tracers},
	{.folder = FOLDER_TOP,
	 .name = "buffer_percent",
	 .mode = CHANGED,
	 .read = buffer_read_percent,
	 .write = buffer_write_percent},
	{.folder = FOLDER_TOP, .name = "buffer_size_kb", .mode = CHANGED, .read = buffer_read, .write = buffer_write},
	{.folder = FOLDER_TOP,
	 .name = "buffer_subbuf_size_kb",
	 .mode = CHANGED,
	 .read = buffer_read_page,
	 .write = buffer_write_page},
	{.folder = FOLDER_TOP, .name = "buffer_total_size_kb", .mode = READABLE, .read = buffer_read_total},
	{.folder = FOLDER_TOP,
	 .name = "current_tracer",
	 .mode = CHANGED,
	 .read = control_read_tracer,
	 .write = control_write_tracer},
	{.folder = FOLDER_TOP,
	 .name = "dyn_ftrace_total_info",
	 .mode = READABLE,
	 .top = true,
	 .read = filter_read_total},
	{.folder = FOLDER_TOP, .name = "enabled_functions", .mode = READABLE, .read = filter_read_enabled},
	{.folder = FOLDER_TOP,
	 .name = "error_log",
	 .mode = CHANGED,
	 .top = true,
	 .read = read_errors,
	 .write = stream_write_trace, /* ignored, too */
	 .begin = begin_errors},
	{.folder = FOLDER_TOP,
	 .name = "free_buffer",
	 .mode = FREED,
	 .write = buffer_write_free,
	 .begin = buffer_begin_free,
	 .end = buffer_free},
	{.folder = FOLDER_TOP,
	 .name = "function_profile_enabled",
	 .mode = CHANGED,
	 .top = true,
	 .read = profiler_read,
	 .write = profiler_write},
	{.folder = FOLDER_TOP, .name = "kallsyms", .mode = READABLE, .top = true, .read = symbols_read},
	{.folder = FOLDER_TOP,
	 .name = "max_graph_depth",
	 .mode = CHANGED,
	 .read = control_read_depth,
	 .write = control_write_depth},
	{.folder = FOLDER_TOP, .name = "saved_cmdlines", .mode = READABLE, .top = true, .read = read_cmdlines},
	{.folder = FOLDER_TOP,
	 .name = "saved_cmdlines_size",
	 .mode = CHANGED,
	 .top = true,
	 .read = read_cmdlines_size,
	 .write = write_cmdlines_size},
	{.folder = FOLDER_TOP, .name = "saved_tgids", .mode = READABLE, .top = true, .read = read_tgids},
	{.folder = FOLDER_TOP, .name = "timestamp_mode", .mode = READABLE, .read = read_timestamp_mode},
#define FILTER_FILE(file)                                                                                              \
	{                                                                                                              \
		.folder = FOLDER_TOP, .name = (file), .mode = CHANGED, .read = filter_read, .write = filter_write,     \
		.begin = filter_begin, .flush = filter_flush, .end = filter_end                                        \
	}
	FILTER_FILE("set_ftrace_filter"),
	FILTER_FILE("set_ftrace_notrace"),
	FILTER_FILE("set_graph_function"),
	FILTER_FILE("set_graph_notrace"),
	{.folder = FOLDER_TOP, .name = "stack_trace", .mode = READABLE, .top = true, .read = stacks_read},
	{.folder = FOLDER_TOP,
	 .name = "stack_max_size",
	 .mode = CHANGED,
	 .top = true,
	 .read = stacks_read_size,
	 .write = stacks_write_size},
	{.folder = FOLDER_TOP,
	 .name = "stack_tracer_enabled",
	 .mode = CHANGED,
	 .top = true,
	 .read = stacks_read_enabled,
	 .write = stacks_write_enabled},
	{.folder = FOLDER_TOP,
	 .name = "stack_trace_filter",
	 .mode = CHANGED,
	 .top = true,
	 .read = filter_read,
	 .write = filter_write,
	 .begin = filter_begin,
	 .flush = filter_flush,
	 .end = filter_end},
	{.folder = FOLDER_TOP,
	 .name = "set_ftrace_pid",
	 .mode = CHANGED,
	 .read = pids_read,
	 .write = pids_write,
	 .begin = pids_begin},
	{.folder = FOLDER_TOP,
	 .name = "set_ftrace_notrace_pid",
	 .mode = CHANGED,
	 .read = pids_read,
	 .write = pids_write,
	 .begin = pids_begin},
	{.folder = FOLDER_TOP,
	 .name = "snapshot",
	 .mode = CHANGED,
	 .write = stream_write_snapshot,
	 .begin = stream_begin_snapshot,
	 .end = stream_end,
	 .stream = STREAM_TRACE},
	{.folder = FOLDER_TOP, .name = "touched_functions", .mode = READABLE, .top = true, .read = filter_read_touched},
	{.folder = FOLDER_TOP,
	 .name = "tracing_max_latency",
	 .mode = CHANGED,
	 .read = control_read_longest,
	 .write = control_write_longest},
	{.folder = FOLDER_TOP,
	 .name = "trace",
	 .mode = CHANGED,
	 .write = stream_write_trace,
	 .begin = stream_begin_trace,
	 .end = stream_end_trace,
	 .stream = STREAM_TRACE},
	{.folder = FOLDER_TOP,
	 .name = "trace_clock",
	 .mode = CHANGED,
	 .read = control_read_clock,
	 .write = control_write_clock},
	{.folder = FOLDER_TOP, .name = "trace_marker", .mode = WRITTEN, .write = marker_write},
	{.folder = FOLDER_TOP, .name = "trace_marker_raw", .mode = WRITTEN, .write = marker_write_raw},
	{.folder = FOLDER_TOP,
	 .name = "trace_options",
	 .mode = CHANGED,
	 .read = control_read_options,
	 .write = control_write_options},
	{.folder = FOLDER_TOP,
	 .name = "trace_pipe",
	 .mode = READABLE,
	 .begin = stream_begin_pipe,
	 .end = stream_end,
	 .stream = STREAM_PIPE},
	{.folder = FOLDER_TOP,
	 .name = "tracing_cpumask",
	 .mode = CHANGED,
	 .read = cpumask_read,
	 .write = cpumask_write},
	{.folder = FOLDER_TOP,
	 .name = "tracing_on",
	 .mode = CHANGED,
	 .read = control_read_tracing,
	 .write = control_write_tracing},
	{.folder = FOLDER_TOP,
	 .name = "tracing_thresh",
	 .mode = CHANGED,
	 .read = control_read_threshold,
	 .write = control_write_threshold},
	{.name = "printk_formats", .folder = FOLDER_TOP, .mode = READABLE, .top = true, .read = formats_read_none},
	/* trace_stat/functionN */
	{.name = "function", .folder = FOLDER_STATS, .mode = READABLE, .read = profiler_read_stat},
	/* per_cpu/cpuN/ */
	{.name = "buffer_size_kb", .folder = FOLDER_CPU, .mode = CHANGED, .read = buffer_read, .write = buffer_write},
	{.name = "snapshot",
	 .folder = FOLDER_CPU,
	 .mode = CHANGED,
	 .write = stream_refuse_snapshot,
	 .begin = stream_begin_snapshot,
	 .end = stream_end,
	 .stream = STREAM_TRACE},
	{.name = "stats", .folder = FOLDER_CPU, .mode = READABLE, .read = buffer_read_stats},
	{.name = "trace",
	 .folder = FOLDER_CPU,
	 .mode = CHANGED,
	 .write = stream_write_trace,
	 .begin = stream_begin_trace,
	 .end = stream_end_trace,
	 .stream = STREAM_TRACE},
	{.name = "trace_pipe",
	 .folder = FOLDER_CPU,
	 .mode = READABLE,
	 .begin = stream_begin_pipe,
	 .end = stream_end,
	 .stream = STREAM_PIPE},
	{.name = "trace_pipe_raw",
	 .folder = FOLDER_CPU,
	 .mode = READABLE,
	 .begin = raw_begin,
	 .end = raw_end,
	 .stream = STREAM_RAW},
	/* events/ */
	{.name = "enable",
	 .folder = FOLDER_EVENTS,
	 .mode = CHANGED,
	 .read = formats_read_enable,
	 .write = formats_write_enable},
	{.name = "ftrace", .folder = FOLDER_EVENTS, .leads_to = FOLDER_FTRACE},
	{.name = "header_event", .folder = FOLDER_EVENTS, .mode = READABLE, .read = formats_read_event},
	{.name = "header_page", .folder = FOLDER_EVENTS, .mode = READABLE, .read = formats_read_page},
	{.name = "format", .folder = FOLDER_EVENT, .mode = READABLE, .read = formats_read},
	{.name = "id", .folder = FOLDER_EVENT, .mode = READABLE, .read = formats_read_id},
};

const struct tree_row *table_at(size_t i)
{
	return i < sizeof(table) / sizeof(table[0]) ? &table[i] : NULL;
}
