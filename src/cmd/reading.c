/* Options, opening and output of the reading verbs; see reading.h.  Context: host. */
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host/diff/similar.h"
#include "host/view/newest.h"
#include "host/view/parse.h"
#include "options.h"
#include "reading.h"

void reading_init(struct reading *reading, const char *verb, const char *help)
{
	memset(reading, 0, sizeof(*reading));
	reading->verb = verb;
	reading->help = help;
	reading->filter.to_ns = UINT64_MAX;
	reading->filter.headway = &reading->headway;
	headway_start(&reading->headway);
	opterr = 0;
	optind = 0;
	/* A reader of the output may go away: then write() fails, and the pager is waited for. */
	signal(SIGPIPE, SIG_IGN);
}

int reading_option(struct reading *reading, int option, char **argv)
{
	struct view_filter *filter = &reading->filter;

	switch (option) {
	case OPTION_HELP:
		fputs(reading->help, stdout);
		reading->done = true;
		return 0;
	case OPTION_INPUT:
		reading->input = optarg;
		return 0;
	case OPTION_FUNCTION:
		if (filter->function)
			return calltap_diag_set(&reading->diag, -EINVAL,
						"-f is given twice, '%s' and '%s': give one, or -l "
						"for each",
						filter->function, optarg);
		filter->function = optarg;
		return 0;
	case OPTION_TRACE:
		return chosen_add(&reading->chosen, FILTER_TRACE, optarg, &reading->diag);
	case OPTION_NOTRACE:
		return chosen_add(&reading->chosen, FILTER_NOTRACE, optarg, &reading->diag);
	case OPTION_GRAPH:
		return chosen_add(&reading->chosen, FILTER_GRAPH, optarg, &reading->diag);
	case OPTION_NO_GRAPH:
		return chosen_add(&reading->chosen, FILTER_NOGRAPH, optarg, &reading->diag);
	case OPTION_THREAD:
		return chosen_add_thread(&reading->chosen, optarg, &reading->diag);
	case OPTION_PID:
		return parse_id(&filter->pid, optarg, "--pid", &reading->diag);
	case OPTION_TID:
		return parse_id(&filter->tid, optarg, "--tid", &reading->diag);
	case OPTION_TIME:
		return parse_time_range(&filter->from_ns, &filter->to_ns, optarg, &reading->diag);
	case OPTION_MIN:
		return parse_duration(&filter->min_ns, optarg, &reading->diag);
	case OPTION_COLOR:
		return term_parse_color(&reading->color_choice, optarg, &reading->diag);
	case OPTION_NO_PAGER:
		reading->no_pager = true;
		return 0;
	default:
		return options_refuse(&reading->diag, option, argv);
	}
}

int reading_arguments(struct reading *reading, int argc, char **argv, int max)
{
	if (argc - optind <= max)
		return 0;
	if (max)
		return calltap_diag_set(&reading->diag, -EINVAL,
					"'%s' is one word too many: name the trace with -i FILE ('calltap %s --help')",
					argv[optind + max], reading->verb);
	if (reading->input || argc - optind > 1)
		return calltap_diag_set(&reading->diag, -EINVAL,
					"'%s' is one word too many: one trace is read at a time ('calltap %s --help')",
					argv[argc - 1], reading->verb);
	reading->input = argv[optind];
	return 0;
}

/* Open the trace and decide on its functions and threads. */
static int open_trace(struct reading *reading)
{
	const char *tracer;
	char path[PATH_MAX];
	int err = 0;

	if (!reading->input) {
		err = newest_trace(path, sizeof(path), ".", &reading->diag);
		if (err)
			return err;
	}
	err = trace_open(&reading->trace, reading->input ? reading->input : path, &reading->diag);
	if (err || !reading->chosen)
		return err;
	tracer = trace_info(reading->trace, "tracer");
	if (chosen_has_trees(reading->chosen) && tracer && strcmp(tracer, "function") == 0)
		return calltap_diag_set(&reading->diag, -EINVAL,
					"-g needs the ends of calls, which the tracer 'function' does not record: "
					"choose functions with -l, or record with -p function_graph");
	reading->filter.chosen = reading->chosen;
	return chosen_settle(reading->chosen, reading->trace, &reading->diag);
}

/* The first filter that matches no function of the trace, nor of the other one; NULL = there is none. */
static const char *find_unmatched(const struct reading *reading, const struct reading *other)
{
	unsigned long matches, others;
	const char *text, *same;

	for (size_t i = 0; reading->chosen && (text = chosen_filter(reading->chosen, i, &matches)); i++) {
		for (size_t k = 0; !matches && other->chosen && (same = chosen_filter(other->chosen, k, &others)); k++)
			matches = strcmp(text, same) == 0 ? others : 0;
		if (!matches)
			return text;
	}
	return NULL;
}

static int check_filters(struct reading *reading, const struct reading *other)
{
	const char *text = find_unmatched(reading, other);
	char names[512];

	if (!text && chosen_judges(reading->chosen) && !chosen_any_function(reading->chosen) && reading == other)
		return calltap_diag_set(&reading->diag, -ENOENT,
					"the filters together leave no function of the trace; loosen -l, -n or -g");
	if (!text)
		return 0;
	similar_names(names, sizeof(names), reading->trace, text);
	if (names[0])
		return calltap_diag_set(&reading->diag, -ENOENT, "no function of the trace matches '%s'; like it: %s",
					text, names);
	return calltap_diag_set(&reading->diag, -ENOENT,
				"no function of the trace matches '%s': 'calltap report' lists their names, and "
				"'*part*' matches a part of one",
				text);
}

int reading_open(struct reading *reading)
{
	int err = open_trace(reading);

	return err ? err : check_filters(reading, reading);
}

int reading_open_pair(struct reading readings[2])
{
	int err = open_trace(&readings[0]);

	if (err)
		return err;
	err = open_trace(&readings[1]);
	if (!err)
		err = check_filters(&readings[1], &readings[0]);
	if (err)
		readings[0].diag = readings[1].diag;
	return err ? err : check_filters(&readings[0], &readings[1]);
}

int reading_output(struct reading *reading, bool json)
{
	int err;

	reading->color = !json && term_wants_color(reading->color_choice, STDOUT_FILENO);
	term_pager_start(&reading->pager, !json && !reading->no_pager);
	err = out_create(&reading->out, reading->pager.pid ? reading->pager.fd : STDOUT_FILENO);
	if (err)
		return calltap_diag_set(&reading->diag, err, "out of memory for the output");
	reading_yield(reading);
	return 0;
}

static void end_headway(void *of)
{
	headway_end(of);
}

void reading_yield(struct reading *reading)
{
	if (!isatty(STDOUT_FILENO))
		return;
	reading->out->before = end_headway;
	reading->out->of = &reading->headway;
}

static void say_damage(const struct reading *reading)
{
	if (reading->trace && trace_damage(reading->trace))
		fprintf(stderr, "calltap: %s: %s\n", trace_path(reading->trace), trace_damage(reading->trace));
	if (reading->walk.damages)
		fprintf(stderr, "calltap: %s (%llu damaged places in all; the rest was read)\n",
			reading->walk.damage.text, (unsigned long long)reading->walk.damages);
}

/*
 * Tell of calls that were not recorded, and of processes that were not recorded to their ends; `calltap info` has lines
 * of its own for them.
 */
static void say_missed(const struct reading *reading)
{
	static const char *const cut[] = {"moves", "stopped"};
	uint64_t missed;

	if (!reading->trace || strcmp(reading->verb, "info") == 0)
		return;
	for (size_t i = 0; i < sizeof(cut) / sizeof(cut[0]); i++) {
		const char *value = trace_info(reading->trace, cut[i]);

		if (value)
			fprintf(stderr, "calltap: %s: %s only\n", trace_path(reading->trace), value);
	}
	missed = trace_calls_missed(reading->trace);
	if (missed)
		fprintf(stderr,
			"calltap: %s: %llu call%s not recorded: there was no buffer yet for %s, or no memory beside "
			"the stack\n",
			trace_path(reading->trace), (unsigned long long)missed, missed == 1 ? " was" : "s were",
			missed == 1 ? "its thread" : "their threads");
}

int reading_close(struct reading *reading, int err)
{
	struct calltap_diag diag = {0};
	int written, paged;

	headway_end(&reading->headway);
	if (err && reading->out)
		out_discard(reading->out);
	written = out_destroy(reading->out);
	paged = term_pager_wait(&reading->pager, &diag);
	if (!err)
		err = written;
	if (paged && (!err || err == -EPIPE)) {
		reading->diag = diag;
		err = paged;
	}
	chosen_destroy(reading->chosen);
	if (reading->done || err == -EPIPE) {
		trace_close(reading->trace);
		return 0;
	}
	say_damage(reading);
	if (!err)
		say_missed(reading);
	if (err && !reading->diag.code)
		calltap_diag_set(&reading->diag, err, "cannot write the output: %s", strerror(-err));
	if (err)
		calltap_diag_print(&reading->diag, stderr);
	trace_close(reading->trace);
	return err ? 1 : 0;
}
