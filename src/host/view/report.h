/*
 * Statistics of a trace: calls and times by function, object or thread, or of one function by a value of its calls.
 *
 * Caller: the command `report`.  Context: host.  report.c counts, report_text.c prints.
 */
#ifndef HOST_VIEW_REPORT_H
#define HOST_VIEW_REPORT_H

#include <host/text.h>

#include "by_value.h"
#include "estimate.h"
#include "histogram.h"
#include "names.h"
#include "out.h"
#include "walk.h"

#define REPORT_TIME_MAX (TIMETEXT_MAX + 1)

enum report_by { REPORT_BY_FUNCTION, REPORT_BY_OBJECT, REPORT_BY_THREAD, REPORT_BY_VALUE };

enum report_column {
	REPORT_CALLS,
	REPORT_TOTAL,
	REPORT_SELF,
	REPORT_MIN,
	REPORT_AVG,
	REPORT_P50,
	REPORT_P99,
	REPORT_MAX,
	REPORT_NAME,
	REPORT_COLUMNS
};

struct report_options {
	size_t size; /* sizeof(struct report_options) */
	enum report_by by;
	struct by_value *value; /* REPORT_BY_VALUE: the report fills in its rows, and the caller keeps it as long */
	enum report_column sort;
	uint64_t limit; /* rows, 0 = all */
	bool json;
	bool source; /* file:line of functions */
	bool color;
	unsigned width; /* of the terminal: columns are left out and names shortened to fit; 0: no limit */
	/* Histograms, with min_ns, max_ns and the percentiles, of exact durations alone. */
	bool exact_only;
	/*
	 * By function: told of each finished call with an exact duration, in the order of their ends; 0, or -errno.
	 * NULL: nobody is told.
	 */
	int (*on_call)(void *ctx, uint32_t function, uint64_t ns);
	void *ctx;
};

/* A bound of neighbouring calls, of which most have the same one. */
struct report_bound {
	uint64_t ticks, calls;
};

struct report_row {
	uint32_t key;	   /* function, object, thread, or a row of values */
	uint64_t calls;	   /* finished calls */
	uint64_t measured; /* of these, calls with a duration, exact or not */
	uint64_t exact;	   /* of these, calls with an exact one */
	uint64_t total_ns; /* of outermost calls, so that recursion counts once; open calls count up to the end */
	uint64_t sum_ns;   /* of all finished calls, for the average */
	uint64_t exact_ns; /* of all finished calls with an exact duration */
	uint64_t self_ns;
	double variance, doubt, discord, loose; /* of estimates in total_ns: see report_error_ns() */
	uint64_t shown_max_ns;			/* of calls without exact durations */
	uint64_t min_ns,
		max_ns;	     /* of calls with an exact duration, and of others by what is sure: theirs is at least */
	uint64_t most_ns;    /* no call took longer: by the bounds of those without exact durations */
	bool max_estimated;  /* max_ns is an estimate; else, if most_ns is more, some call took at least as long */
	double per_exact;    /* of each estimated call, how many such calls one exact duration stands for */
	uint64_t unfinished; /* calls that are open at the end, whose exit was lost, or whose entry is not known */
	uint64_t p50_ns, p99_ns; /* filled in by report_run() */
	bool alike;		 /* a function of another object has a row of the same name */
	struct histogram histogram;
	/* Where there are estimates: the bounds of all durations, and what exact ones alone say of the others. */
	struct histogram least, most, said;
	/* Meanwhile `histogram`, and those three, have no more than the exact durations, and estimated ones. */
	struct histogram drawn;
	struct report_bound least_run, most_run;
};

/* A row's figure, and an interval: in 95 of 100 cases the true figure is not below low, and not above high. */
struct report_range {
	uint64_t ns, low, high; /* all alike: the figure is exact */
	bool at_least;		/* low is sure, and ns is low */
};

struct report {
	const struct trace *trace;
	struct names *names;
	enum report_by by;
	struct by_value *value;
	uint32_t row_count;
	struct report_row *rows; /* those with calls, in the order asked for */
	bool estimated;		 /* there are calls without exact durations */
	bool timed;		 /* false: the trace has calls without durations (tracer "function") */
	uint64_t lost;
	uint64_t wait_ns;
	uint64_t gap_ns;   /* time of all threads of which there are no records: they were lost, or overwritten */
	uint64_t whole_ns; /* self time of all rows, the base of percentages */
	uint64_t before;   /* frames that were open when the trace began; in no row */
	uint64_t damages;
	struct calltap_diag damage;
};

/* *value: for by_value_destroy(), whatever is returned. */
int report_parse_by(enum report_by *by, struct by_value **value, const char *text, struct calltap_diag *diag)
	__attribute__((warn_unused_result));
int report_parse_sort(enum report_column *column, const char *text, struct calltap_diag *diag)
	__attribute__((warn_unused_result));
const char *report_column_title(enum report_column column);

/* Count and sort; release with report_clear() even after an error. */
int report_run(struct report *report, const struct trace *trace, const struct view_filter *filter,
	       const struct report_options *options, struct calltap_diag *diag) __attribute__((warn_unused_result));
void report_clear(struct report *report);
/* Put the rows into another order. */
void report_sort(struct report *report, enum report_column column);
/* True if the row has a value in the column: unfinished calls have a total and a self time only. */
bool report_has_value(const struct report_row *row, enum report_column column);
/* How many calls have a duration, and how many of these an exact one. */
void report_count_exact(const struct report *report, uint64_t *measured, uint64_t *exact);
/* True if the row's value in the column is an estimate: self times also where callees' are. */
bool report_is_estimated(const struct report *report, const struct report_row *row, enum report_column column);

uint64_t report_avg_ns(const struct report_row *row);
/* The average of exact durations alone. */
uint64_t report_exact_avg_ns(const struct report_row *row);
/* What total_ns may be off because of estimates, in 95 of 100 cases no more (doc/design/estimates.md); 0: it is exact.
 */
uint64_t report_error_ns(const struct report_row *row);
/* A row's p50, p99 or max: what is known of it. */
struct report_range report_range(const struct report_row *row, enum report_column column);
/* The most that the figure is off. */
uint64_t report_range_error(const struct report_range *range);
/*
 * The mark of a time of the row, and in *ns what it is of: ~ an estimate, < and > where no more is known than that the
 * time is not above *ns, or not below; NUL: it is exact.
 */
char report_mark(const struct report *report, const struct report_row *row, enum report_column column, uint64_t *ns);
/* The time with its mark. */
const char *report_time_text(const struct report *report, const struct report_row *row, enum report_column column,
			     char text[REPORT_TIME_MAX]);
/* A percentile of the row: the middle of a histogram's bucket, but within the durations that were seen. */
uint64_t report_percentile(const struct report_row *row, unsigned permille);
/* Add what another row of the same name counted; both are of the same order of percentiles.  0, or -ENOMEM. */
int report_add_row(struct report_row *to, const struct report_row *from) __attribute__((warn_unused_result));
/* A row's value in a column: calls, or nanoseconds. */
uint64_t report_value(const struct report_row *row, enum report_column column);
/* A row's name: that of its function, object or thread, or the call with its value. */
const char *report_row_name(const struct report *report, const struct report_row *row);
/* The row's function, or NULL. */
const struct trace_function *report_row_function(const struct report *report, const struct report_row *row);
void report_print(const struct report *report, const struct report_options *options, struct out *out);

#endif
