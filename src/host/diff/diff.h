/*
 * Two traces, or two parts of one, or several traces of each side, function by function: what changed, and is it more
 * than chance?
 *
 * Callers: the command `diff`, the page of `calltap html --diff`.  Context: host.  diff.c counts and judges,
 * diff_text.c prints.  The counts of each side are those of `calltap report`.
 */
#ifndef HOST_DIFF_DIFF_H
#define HOST_DIFF_DIFF_H

#include "../view/json.h"
#include "../view/report.h"
#include "pair.h"
#include "runs.h"
#include "sample.h"
#include "twin.h"

/* A claim is made when as many as this share of all claims may be false (Benjamini and Hochberg's q) ... */
#define DIFF_Q_MAX 0.05
/* ... and the difference is more than negligible: B's call is the longer one of a pair more, or less, often by this. */
#define DIFF_SHARE_MIN 0.0735 /* Cliff's delta of 0.147 */
/* ... and the median or the mean of a call differs by this share, in the same direction. */
#define DIFF_CHANGE_MIN 0.05
/* The slowest calls: so many times as frequent on one side, and at least so many of them. */
#define DIFF_TAIL_TIMES 2.0
#define DIFF_TAIL_MIN	10u
#define DIFF_INPUTS_MAX 64u
#define DIFF_RUNS_FEW	6u /* with fewer traces than that in all, few differences can be told from chance */

enum diff_sort { DIFF_BY_SELF, DIFF_BY_TOTAL, DIFF_BY_CALLS, DIFF_BY_AVG, DIFF_BY_NAME };

enum diff_verdict {
	DIFF_SAME, /* nothing is claimed of the durations, and there are as many calls */
	DIFF_MORE, /* nothing is claimed of the durations; more calls, or fewer */
	DIFF_FEWER,
	DIFF_SLOWER,
	DIFF_FASTER,
	DIFF_SLOW_TAIL, /* more of the slowest calls */
	DIFF_FAST_TAIL, /* fewer of the slowest calls */
	DIFF_NEW,	/* in B only */
	DIFF_GONE,	/* in A only */
	DIFF_VERDICTS
};

struct diff_options {
	size_t size; /* sizeof(struct diff_options) */
	enum diff_sort sort;
	uint64_t limit;	    /* rows, 0 = all */
	const char *per;    /* glob: times and calls per call of these functions; NULL = as they are */
	bool tree;	    /* the differential tree instead of the table */
	bool with_tree;	    /* the tree, too, if both sides have durations */
	double min_percent; /* of the tree: what differs by less of the whole is folded */
	bool json, color;
	unsigned width; /* of the terminal, 0 = no limit */
};

struct diff_input {
	const struct trace *trace;
	const struct view_filter *filter;
	unsigned side;
	struct walk *walk; /* told of damage */
	double per;	   /* set by diff_run(): the calls of the functions of --per; 1 without it */
};

struct diff_row {
	uint32_t name;
	struct report_row parts[SIDES];
	struct sample samples[SIDES];
	struct run *runs;	 /* one for each input, NULL if each side has one trace */
	double share, p, q;	 /* of the durations; share: how often B's call is the longer one */
	double calls_p, calls_q; /* of the numbers of calls, if a side has several traces */
	enum diff_verdict verdict;
};

/* Facts of one side's trace, which the reports print below the rows. */
struct diff_side {
	const struct trace *trace; /* the first one */
	unsigned traces;
	bool timed;
	uint64_t calls, unfinished, before, lost, missed, wait_ns;
	uint64_t measured, exact;  /* calls with a duration, and with an exact one: the tests are of those alone */
	uint64_t absorbed, strays; /* of the tree */
	uint64_t self_ns;	   /* of all rows */
	double per;		   /* calls of the functions of --per; without it the number of traces */
};

struct diff {
	struct diff_input *inputs;
	unsigned input_count;
	struct pair *pair;
	struct diff_side sides[SIDES];
	struct diff_row *rows; /* by name; after diff_run() in the order asked for */
	uint32_t count, room;
	uint32_t claims, tests;
	double pace; /* the functions' medians in B by those in A, in the middle; 0 = too few to say */
	struct twin twin;
};

int diff_parse_sort(enum diff_sort *sort, const char *text, struct calltap_diag *diag)
	__attribute__((warn_unused_result));
/* Compare; each side has an input.  Release with diff_clear() even after an error. */
int diff_run(struct diff *diff, struct diff_input *inputs, unsigned count, const struct diff_options *options,
	     struct calltap_diag *diag) __attribute__((warn_unused_result));
void diff_clear(struct diff *diff);
/* True if a side has several traces. */
bool diff_is_repeated(const struct diff *diff);

/* How much more B has than A of what the rows are sorted by, per what --per says. */
double diff_change(const struct diff *diff, const struct diff_row *row, enum diff_sort column);
/* The least difference that the tree shows. */
double diff_tree_least(const struct diff *diff, const struct diff_options *options);
/* A side's nanoseconds or calls by what --per says. */
double diff_per(const struct diff *diff, unsigned side, uint64_t value);
/* The table as one JSON value in one line, for the page; without --per. */
void diff_json(const struct diff *diff, struct json *json);
int diff_print(const struct diff *diff, const struct diff_options *options, struct out *out)
	__attribute__((warn_unused_result));

#endif
