/*
 * `calltap diff`: two traces, or two parts of one, or several traces of each side, function by function.
 *
 * Caller: main.  Context: host.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host/diff/diff.h"
#include "host/view/parse.h"
#include "cmd.h"
#include "options.h"
#include "reading.h"

static const char help[] =
	"usage: calltap diff [OPTION...] A [OPTION...] B [OPTION...]\n"
	"       calltap diff [OPTION...] --before A --before A2 ... --after B --after B2 ...\n"
	"Show what changed from trace A to trace B, and whether it is more than chance.\n"
	"Several runs of each side tell how much runs differ without a change.\n"
	"Options before the names, or behind them, choose of both; between the names each has its own:\n"
	"  calltap diff calltap.data --time ..1.5 calltap.data --time 1.5..\n\n"
	"      --before FILE     a trace of side A; may be repeated\n"
	"      --after FILE      a trace of side B; may be repeated\n"
	"      --per GLOB        times and numbers per call of this function, as of one request\n"
	"      --sort COLUMN     what changed most of self (default), total, calls, avg; or name\n"
	"      --limit N         only the first N rows\n"
	"      --tree            the merged call tree with differences, folded where nothing changed\n"
	"      --min-percent P   of the tree what differs by P percent of the whole (default 0.5)\n"
	"      --json            JSON, with times in nanoseconds\n" FUNCTION_HELP FILTER_HELP TERMINAL_HELP
	"  -i, --input FILE      a trace, as its name alone\n"
	"  -h, --help            this text\n";

enum {
	OPTION_PER = OPTION_OWN,
	OPTION_SORT,
	OPTION_LIMIT,
	OPTION_TREE,
	OPTION_MIN_PERCENT,
	OPTION_JSON,
	OPTION_BEFORE,
	OPTION_AFTER
};

#define A_WORD 1 /* what getopt_long() returns for a word that is no option, after a '-' in its string */

#define CHOICES_MAX 64u

/* Options that choose of traces, in their order. */
struct choices {
	struct {
		int option;
		char *value;
	} list[CHOICES_MAX];
	unsigned count;
};

/* The traces, and what was asked for. */
struct comparing {
	struct reading shared; /* options before the first name, and the output */
	struct reading readings[DIFF_INPUTS_MAX];
	struct diff_input inputs[DIFF_INPUTS_MAX];
	unsigned count, words; /* traces, and those of them that were named by words */
	struct choices early;  /* before the first name: of all traces */
	struct choices behind; /* behind the last name */
	bool apart;	       /* there are some behind an earlier name: each trace has its own */
	struct diff_options options;
};

static int keep_choice(struct choices *choices, int option, struct calltap_diag *diag)
{
	if (choices->count == CHOICES_MAX)
		return calltap_diag_set(diag, -EINVAL, "%u options at most choose of a trace", CHOICES_MAX);
	choices->list[choices->count].option = option;
	choices->list[choices->count++].value = optarg;
	return 0;
}

static int make_choices(const struct choices *choices, struct reading *reading)
{
	int err = 0;

	for (unsigned i = 0; i < choices->count && !err; i++) {
		optarg = choices->list[i].value;
		err = reading_option(reading, choices->list[i].option, NULL);
	}
	return err;
}

static int add_trace(struct comparing *comparing, unsigned side, const char *name)
{
	const unsigned at = comparing->count;
	const int place = optind; /* which reading_init() sets back */
	int err = 0;

	if (at == DIFF_INPUTS_MAX)
		return calltap_diag_set(&comparing->shared.diag, -EINVAL, "%u traces at most are compared",
					DIFF_INPUTS_MAX);
	reading_init(&comparing->readings[at], "diff", help);
	optind = place;
	comparing->readings[at].filter.headway = &comparing->shared.headway;
	comparing->apart |= comparing->behind.count > 0;
	comparing->behind.count = 0;
	err = make_choices(&comparing->early, &comparing->readings[at]);
	comparing->readings[at].input = name;
	comparing->inputs[at].side = side;
	comparing->count++;
	return err;
}

static int take_word(struct comparing *comparing, const char *word)
{
	if (comparing->words == SIDES || comparing->count != comparing->words)
		return calltap_diag_set(&comparing->shared.diag, -EINVAL,
					"'%s' is one word too many: two traces are compared; name several of a side by "
					"--before and --after ('calltap diff --help')",
					word);
	return add_trace(comparing, comparing->words++, word);
}

static int take_named(struct comparing *comparing, unsigned side, const char *name)
{
	if (comparing->words)
		return calltap_diag_set(&comparing->shared.diag, -EINVAL,
					"'%s' is named without --before or --after: name all traces by them",
					comparing->readings[0].input);
	return add_trace(comparing, side, name);
}

/* An option that all verbs have: of the trace that was named last, or of all. */
static int take_shared(struct comparing *comparing, int option, char **argv)
{
	const bool of_all = option == OPTION_HELP || option == OPTION_COLOR || option == OPTION_NO_PAGER;
	struct reading *reading =
		of_all || !comparing->count ? &comparing->shared : &comparing->readings[comparing->count - 1];
	char *value = optarg;
	int err = reading_option(reading, option, argv);

	optarg = value;
	if (!err && !of_all)
		err = keep_choice(comparing->count ? &comparing->behind : &comparing->early, option, &reading->diag);
	if (err && reading != &comparing->shared)
		comparing->shared.diag = reading->diag;
	return err;
}

/* Options behind all names are of all traces, where none stand between the names. */
static int share_choices(struct comparing *comparing)
{
	int err = 0;

	for (unsigned i = 0; i + 1 < comparing->count && !comparing->apart && !err; i++) {
		err = make_choices(&comparing->behind, &comparing->readings[i]);
		if (err)
			comparing->shared.diag = comparing->readings[i].diag;
	}
	return err;
}

static int take_own(struct diff_options *diff, int option, struct calltap_diag *diag)
{
	switch (option) {
	case OPTION_PER:
		diff->per = optarg;
		return 0;
	case OPTION_SORT:
		return diff_parse_sort(&diff->sort, optarg, diag);
	case OPTION_LIMIT:
		return parse_number(&diff->limit, optarg, UINT32_MAX, "--limit", diag);
	case OPTION_TREE:
		diff->tree = true;
		return 0;
	case OPTION_MIN_PERCENT:
		return parse_percent(&diff->min_percent, optarg, diag);
	default:
		diff->json = true;
		return 0;
	}
}

static int check_traces(struct comparing *comparing)
{
	struct calltap_diag *diag = &comparing->shared.diag;
	unsigned counts[SIDES] = {0};

	for (unsigned i = 0; i < comparing->count; i++)
		counts[comparing->inputs[i].side]++;
	if (counts[SIDE_A] && counts[SIDE_B])
		return 0;
	if (comparing->count > comparing->words)
		return calltap_diag_set(diag, -EINVAL, "no trace is named by %s",
					counts[SIDE_A] ? "--after" : "--before");
	return calltap_diag_set(diag, -EINVAL,
				"two traces are compared, and %s named: to compare parts of one, name it twice, as "
				"in 'calltap diff T --time ..1 T --time 1..'",
				comparing->words ? "one is" : "none is");
}

static int read_options(struct comparing *comparing, int argc, char **argv)
{
	static const struct option options[] = {{"per", required_argument, NULL, OPTION_PER},
						{"sort", required_argument, NULL, OPTION_SORT},
						{"limit", required_argument, NULL, OPTION_LIMIT},
						{"tree", no_argument, NULL, OPTION_TREE},
						{"min-percent", required_argument, NULL, OPTION_MIN_PERCENT},
						{"json", no_argument, NULL, OPTION_JSON},
						{"before", required_argument, NULL, OPTION_BEFORE},
						{"after", required_argument, NULL, OPTION_AFTER},
						FUNCTION_OPTION,
						FILTER_OPTIONS,
						TERMINAL_OPTIONS,
						READING_OPTIONS,
						{0}};
	struct reading *shared = &comparing->shared;
	int option, err = 0;

	while (!err && !shared->done &&
	       (option = options_next(argc, argv, "-" READING_SHORT FILTER_SHORT "f:", options)) != -1) {
		if (option == A_WORD || option == OPTION_INPUT)
			err = take_word(comparing, optarg);
		else if (option == OPTION_BEFORE || option == OPTION_AFTER)
			err = take_named(comparing, option == OPTION_BEFORE ? SIDE_A : SIDE_B, optarg);
		else if (option >= OPTION_OWN)
			err = take_own(&comparing->options, option, &shared->diag);
		else
			err = take_shared(comparing, option, argv);
	}
	for (; !err && !shared->done && optind < argc; optind++)
		err = take_word(comparing, argv[optind]); /* behind "--" */
	if (!err && !shared->done)
		err = share_choices(comparing);
	return err || shared->done ? err : check_traces(comparing);
}

static int open_all(struct comparing *comparing)
{
	const bool paired = comparing->count == SIDES;
	int err = paired ? reading_open_pair(comparing->readings) : 0;

	if (paired)
		comparing->shared.diag = comparing->readings[0].diag;
	for (unsigned i = 0; i < comparing->count && !err; i++) {
		struct reading *reading = &comparing->readings[i];

		if (!paired) {
			err = reading_open(reading);
			comparing->shared.diag = reading->diag;
		}
		comparing->inputs[i].trace = reading->trace;
		comparing->inputs[i].filter = &reading->filter;
		comparing->inputs[i].walk = &reading->walk;
	}
	return err;
}

static int run(struct comparing *comparing)
{
	struct diff_options *options = &comparing->options;
	struct reading *shared = &comparing->shared;
	struct diff diff;
	int err = diff_run(&diff, comparing->inputs, comparing->count, options, &shared->diag);

	if (!err)
		err = reading_output(shared, options->json);
	options->color = shared->color;
	options->width = term_width(STDOUT_FILENO);
	if (!err)
		err = diff_print(&diff, options, shared->out);
	diff_clear(&diff);
	return err;
}

int cmd_diff(int argc, char **argv)
{
	struct comparing *comparing = calloc(1, sizeof(*comparing));
	int err, status;

	if (!comparing) {
		fprintf(stderr, "calltap: not enough memory\n");
		return 1;
	}
	comparing->options = (struct diff_options){.size = sizeof(comparing->options), .min_percent = 0.5};
	reading_init(&comparing->shared, "diff", help);
	err = read_options(comparing, argc, argv);
	if (!err && !comparing->shared.done)
		err = open_all(comparing);
	if (!err && !comparing->shared.done)
		err = run(comparing);
	status = reading_close(&comparing->shared, err);
	for (unsigned i = 0; i < comparing->count; i++) {
		comparing->readings[i].done |= comparing->shared.done;
		status = reading_close(&comparing->readings[i], 0) || status;
	}
	free(comparing);
	return status;
}
