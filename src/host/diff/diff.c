/*
 * Comparing two traces; see diff.h.  Context: host.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../view/headway.h"
#include "diff.h"
#include "rank.h"

static const char *const sorts[] = {"self", "total", "calls", "avg", "name"};

int diff_parse_sort(enum diff_sort *sort, const char *text, struct calltap_diag *diag)
{
	for (unsigned i = 0; i < sizeof(sorts) / sizeof(sorts[0]); i++) {
		if (strcmp(text, sorts[i]) == 0) {
			*sort = (enum diff_sort)i;
			return 0;
		}
	}
	return calltap_diag_set(diag, -EINVAL, "'%s' is no column: sort by self, total, calls, avg or name", text);
}

bool diff_is_repeated(const struct diff *diff)
{
	return diff->input_count > SIDES;
}

static int row_of(struct diff_row **row, struct diff *diff, unsigned at, uint32_t function)
{
	uint32_t name;
	int err = pair_name(&name, diff->pair, at, function);

	if (err)
		return err;
	if (name >= diff->room) {
		uint32_t room = name < 128 ? 256 : 2 * name;
		struct diff_row *rows = reallocarray(diff->rows, room, sizeof(*rows));

		if (!rows)
			return -ENOMEM;
		memset(rows + diff->room, 0, (room - diff->room) * sizeof(*rows));
		diff->rows = rows;
		diff->room = room;
	}
	*row = &diff->rows[name];
	if (!diff_is_repeated(diff) || (*row)->runs)
		return 0;
	(*row)->runs = calloc(diff->input_count, sizeof(*(*row)->runs));
	return (*row)->runs ? 0 : -ENOMEM;
}

struct sampling {
	struct diff *diff;
	unsigned at; /* the input */
};

static int take_call(void *ctx, uint32_t function, uint64_t ns)
{
	const struct sampling *sampling = ctx;
	struct diff_row *row;
	int err = row_of(&row, sampling->diff, sampling->at, function);

	if (!err && row->runs)
		runs_take(&row->runs[sampling->at], ns);
	return err ? err : sample_add(&row->samples[sampling->diff->inputs[sampling->at].side], ns);
}

/* Take over a row of the report; functions of one name are one row. */
static int take_row(struct diff *diff, unsigned at, const struct report_row *from)
{
	struct diff_row *row;
	int err = row_of(&row, diff, at, from->key);

	if (!err)
		err = report_add_row(&row->parts[diff->inputs[at].side], from);
	if (err || !row->runs)
		return err;
	row->runs[at].calls += from->calls + from->unfinished;
	return histogram_join(&row->runs[at].histogram, &from->histogram);
}

static int take_rows(struct diff *diff, unsigned at, const struct report *report)
{
	struct diff_side *of = &diff->sides[diff->inputs[at].side];
	int err = 0;

	for (uint32_t i = 0; i < report->row_count && !err; i++) {
		err = take_row(diff, at, &report->rows[i]);
		of->calls += report->rows[i].calls;
		of->unfinished += report->rows[i].unfinished;
		of->measured += report->rows[i].measured;
		of->exact += report->rows[i].exact;
	}
	of->timed = report->timed && (of->timed || !of->traces);
	of->traces++;
	of->self_ns += report->whole_ns;
	of->before += report->before;
	of->lost += report->lost;
	of->missed += trace_calls_missed(diff->inputs[at].trace);
	of->wait_ns += report->wait_ns;
	diff->inputs[at].walk->damages = report->damages;
	diff->inputs[at].walk->damage = report->damage;
	return err;
}

static int count_input(struct diff *diff, unsigned at, struct calltap_diag *diag)
{
	const struct diff_input *input = &diff->inputs[at];
	struct sampling sampling = {diff, at};
	const struct report_options options = {.size = sizeof(options),
					       .sort = REPORT_NAME,
					       .exact_only = true,
					       .on_call = take_call,
					       .ctx = &sampling};
	struct report report;
	int err = report_run(&report, input->trace, input->filter, &options, diag);

	if (!diff->sides[input->side].trace)
		diff->sides[input->side].trace = input->trace;
	if (!err)
		err = take_rows(diff, at, &report);
	report_clear(&report);
	return err;
}

/* Add the tree of an input; only one tree of a trace is in memory at a time. */
static int add_tree(struct diff *diff, unsigned at, struct calltap_diag *diag)
{
	const struct diff_input *input = &diff->inputs[at];
	struct tree tree;
	struct walk walk;
	int err = tree_init(&tree, TREE_NODES_MAX);

	if (!err)
		err = tree_build(&(struct tree_builder){.tree = &tree}, input->trace, input->filter, &walk, diag);
	diff->sides[input->side].absorbed += tree.absorbed;
	diff->sides[input->side].strays += tree.strays;
	if (!err)
		err = twin_add(&diff->twin, diff->pair,
			       &(struct twin_input){.tree = &tree, .at = at, .side = input->side, .per = input->per});
	tree_clear(&tree);
	return err;
}

double diff_tree_least(const struct diff *diff, const struct diff_options *options)
{
	return fmax(twin_total(&diff->twin, SIDE_A, TREE_ROOT), twin_total(&diff->twin, SIDE_B, TREE_ROOT)) *
	       options->min_percent / 100;
}

static int build_tree(struct diff *diff, const struct diff_options *options, struct calltap_diag *diag)
{
	int err = twin_begin(&diff->twin, diff_is_repeated(diff) ? diff->input_count : 0);

	for (unsigned at = 0; at < diff->input_count && !err; at++)
		err = add_tree(diff, at, diag);
	if (!err)
		err = twin_finish(&diff->twin, (const double[]){diff->sides[SIDE_A].per, diff->sides[SIDE_B].per});
	if (!err && diff_is_repeated(diff))
		err = twin_judge(&diff->twin, diff_tree_least(diff, options));
	return err;
}

/* Per name: whether a function of the input that has it matches. */
static bool *mark_names(struct diff *diff, unsigned at, const char *glob)
{
	const struct trace *trace = diff->inputs[at].trace;
	bool *marks = calloc((size_t)diff->room + 1, sizeof(*marks));
	uint32_t name;

	for (uint32_t i = 0; marks && i < trace_function_count(trace); i++) {
		if (!trace_function(trace, i) || !trace_function_matches(trace, i, glob))
			continue;
		if (pair_name(&name, diff->pair, at, i)) {
			free(marks);
			return NULL;
		}
		if (name < diff->room)
			marks[name] = true;
	}
	return marks;
}

/* The finished calls that an input has of a row's function. */
static double finished(const struct diff *diff, const struct diff_row *row, unsigned at)
{
	return row->runs ? (double)row->runs[at].histogram.total : (double)row->parts[diff->inputs[at].side].calls;
}

/* How many calls each input has of the functions that all is to be divided by. */
static int count_per(struct diff *diff, const char *glob, struct calltap_diag *diag)
{
	for (unsigned at = 0; at < diff->input_count; at++) {
		struct diff_input *input = &diff->inputs[at];
		bool *marks;

		input->per = glob ? 0 : 1;
		marks = glob ? mark_names(diff, at, glob) : NULL;
		if (glob && !marks)
			return -ENOMEM;
		for (uint32_t i = 0; i < diff->room && glob; i++)
			input->per += marks[i] ? finished(diff, &diff->rows[i], at) : 0;
		free(marks);
		if (!(input->per > 0))
			return calltap_diag_set(diag, -ENOENT,
						"no finished call of '%s' is in %s: 'calltap report' lists what was "
						"called, and '*part*' matches a part of a name",
						glob, trace_path(input->trace));
		diff->sides[input->side].per += input->per;
	}
	return 0;
}

double diff_per(const struct diff *diff, unsigned side, uint64_t value)
{
	return (double)value / diff->sides[side].per;
}

double diff_change(const struct diff *diff, const struct diff_row *row, enum diff_sort column)
{
	const struct report_row *a = &row->parts[SIDE_A], *b = &row->parts[SIDE_B];
	const uint64_t values[][SIDES] = {
		[DIFF_BY_SELF] = {a->self_ns, b->self_ns},
		[DIFF_BY_TOTAL] = {a->total_ns, b->total_ns},
		[DIFF_BY_CALLS] = {a->calls + a->unfinished, b->calls + b->unfinished},
		[DIFF_BY_AVG] = {report_avg_ns(a), report_avg_ns(b)},
	};

	if (column == DIFF_BY_AVG)
		return a->measured && b->measured ? (double)values[column][SIDE_B] - (double)values[column][SIDE_A] : 0;
	return column == DIFF_BY_NAME ? 0
				      : diff_per(diff, SIDE_B, values[column][SIDE_B]) -
						diff_per(diff, SIDE_A, values[column][SIDE_A]);
}

/* Calls that took at least so long, by whole buckets. */
static uint64_t calls_from(const struct histogram *histogram, uint64_t floor)
{
	uint64_t least, count, calls = 0;

	for (uint32_t at = 0; histogram_next(histogram, &at, &least, &count);)
		calls += least >= floor ? count : 0;
	return calls;
}

/* The result of a test: has one side more of both sides' slowest calls than its share of all calls? */
struct tail {
	double p;
	uint64_t floor;		   /* the slowest calls are those from this duration on */
	enum diff_verdict verdict; /* what is claimed if p is small enough; DIFF_SAME = nothing */
};

static struct tail test_tail(const struct diff_row *row, const struct histogram *both, uint64_t slowest)
{
	const uint64_t a_calls = row->parts[SIDE_A].histogram.total, b_calls = row->parts[SIDE_B].histogram.total;
	const uint64_t floor = histogram_floor(both, slowest);
	const uint64_t a = calls_from(&row->parts[SIDE_A].histogram, floor);
	const uint64_t b = calls_from(&row->parts[SIDE_B].histogram, floor);
	const double of_a = (double)a / (double)a_calls, of_b = (double)b / (double)b_calls;
	struct tail tail = {1, floor, DIFF_SAME};

	if (a + b < DIFF_TAIL_MIN)
		return tail;
	tail.p = rank_tail(a, a_calls, b, b_calls,
			   fmax(sample_bursts(&row->samples[SIDE_A], a), sample_bursts(&row->samples[SIDE_B], b)));
	if (of_b >= DIFF_TAIL_TIMES * of_a)
		tail.verdict = DIFF_SLOW_TAIL;
	else if (of_a >= DIFF_TAIL_TIMES * of_b)
		tail.verdict = DIFF_FAST_TAIL;
	return tail;
}

/* The difference b - a, as a part of the greater of the two: from -1 to 1. */
static double growth(uint64_t a, uint64_t b)
{
	return a == b ? 0 : ((double)b - (double)a) / fmax((double)a, (double)b);
}

/* The tails that are tested: the slowest one of so many calls, and the duration that these begin at, in permille. */
static const struct {
	uint64_t one_of;
	unsigned permille;
} tails[] = {{100, 990}, {300, 997}, {1000, 999}};

#define TAILS (sizeof(tails) / sizeof(*tails))

#define TAIL_GROWTH_MIN 0.5 /* of a tail without the mean: twice as long, as machines are not steady that far out */

/*
 * The tail is longer or shorter by far, or by more than is negligible and the mean as well, in the direction that is
 * claimed.  By far, the rest of the calls may have moved the other way meanwhile.
 */
static bool is_tail_moved(const struct report_row *a, const struct report_row *b, const struct tail *tail,
			  unsigned permille)
{
	const double sign = tail->verdict == DIFF_SLOW_TAIL ? 1 : -1;
	const double far = sign * growth(report_percentile(a, permille), report_percentile(b, permille));
	const double mean = sign * growth(report_exact_avg_ns(a), report_exact_avg_ns(b));

	return far >= TAIL_GROWTH_MIN || (mean > 0 && fmax(far, mean) >= DIFF_CHANGE_MIN);
}

/* The best of the tests of tails that claim something. */
static int test_tails(struct tail *best, const struct diff_row *row)
{
	const struct report_row *a = &row->parts[SIDE_A], *b = &row->parts[SIDE_B];
	struct histogram both = {0};
	int err = histogram_join(&both, &a->histogram);

	*best = (struct tail){.p = 1, .verdict = DIFF_SAME};
	if (!err)
		err = histogram_join(&both, &b->histogram);
	for (unsigned i = 0; !err && i < TAILS; i++) {
		const struct tail tail = test_tail(row, &both, both.total / tails[i].one_of);

		if (tail.p < best->p && tail.verdict != DIFF_SAME && is_tail_moved(a, b, &tail, tails[i].permille))
			*best = tail;
	}
	histogram_clear(&both);
	return err;
}

/* The ranks have moved by more than is negligible, and the median or the mean has moved with them. */
static bool is_moved(const struct report_row *a, const struct report_row *b, double share)
{
	const double sign = share > 0.5 ? 1 : -1;

	return fabs(share - 0.5) >= DIFF_SHARE_MIN &&
	       (sign * growth(a->p50_ns, b->p50_ns) >= DIFF_CHANGE_MIN ||
		sign * growth(report_exact_avg_ns(a), report_exact_avg_ns(b)) >= DIFF_CHANGE_MIN);
}

/*
 * The sides differ by more than their own runs do: p of the runs' mean durations, and of the parts of their calls that
 * took at least `floor`.  A difference whose direction is another one than `up` is none.
 */
static double test_runs(const struct diff *diff, const struct diff_row *row, bool tail, uint64_t floor, bool up)
{
	struct runs_value values[DIFF_INPUTS_MAX];
	unsigned count = 0;
	double change, p;

	for (unsigned at = 0; at < diff->input_count; at++) {
		const struct run *run = &row->runs[at];
		const unsigned side = diff->inputs[at].side;

		if (run->measured && run->histogram.total)
			values[count++] = tail ? runs_tail(run, side, floor) : runs_log_mean(run, side);
	}
	p = runs_test(values, count, &change);
	return (change > 0) == up ? p : 1;
}

/* p of the difference between the sides' numbers of calls, if a side has several traces. */
static double test_calls(const struct diff *diff, const struct diff_row *row)
{
	struct runs_value values[DIFF_INPUTS_MAX];
	double change;

	for (unsigned at = 0; at < diff->input_count; at++)
		values[at] =
			(struct runs_value){.side = diff->inputs[at].side,
					    .value = log(((double)row->runs[at].calls + 1) / diff->inputs[at].per)};
	return runs_test(values, diff->input_count, &change);
}

#define TESTS	4     /* of each function: ranks and three tails; p is that of the best one, times their number */
#define PLAIN_P 0.001 /* a shift as sure as this is told as such, however many of the slowest calls come with it */

/* Test the durations; the verdict is what is claimed if q is small enough. */
static int test_row(const struct diff *diff, struct diff_row *row)
{
	const struct report_row *a = &row->parts[SIDE_A], *b = &row->parts[SIDE_B];
	const struct sample *samples = row->samples;
	struct rank_result rank;
	struct tail tail;
	bool moved;
	double p;
	int err = rank_test(&rank, samples[SIDE_A].values, samples[SIDE_A].count, samples[SIDE_B].values,
			    samples[SIDE_B].count, RANK_EXACT_MAX);

	if (!err)
		err = test_tails(&tail, row);
	if (err)
		return err;
	row->share = rank.share;
	if (row->runs) {
		rank.p = fmax(rank.p, test_runs(diff, row, false, 0, rank.share > 0.5));
		tail.p = fmax(tail.p, test_runs(diff, row, true, tail.floor, tail.verdict == DIFF_SLOW_TAIL));
	}
	moved = is_moved(a, b, rank.share);
	p = fmin(rank.p, tail.p);
	if (moved && (tail.verdict == DIFF_SAME || rank.p <= fmax(tail.p, PLAIN_P))) {
		p = rank.p;
		row->verdict = rank.share > 0.5 ? DIFF_SLOWER : DIFF_FASTER;
	} else if (tail.verdict != DIFF_SAME) {
		p = tail.p;
		row->verdict = tail.verdict;
	}
	row->p = fmin(1, TESTS * p);
	return 0;
}

/* The verdict on a row's numbers of calls: new, gone, more, fewer, or the same. */
static enum diff_verdict counted_verdict(const struct diff *diff, const struct diff_row *row)
{
	const struct report_row *a = &row->parts[SIDE_A], *b = &row->parts[SIDE_B];
	double change = diff_change(diff, row, DIFF_BY_CALLS);

	if (!(a->calls + a->unfinished))
		return DIFF_NEW;
	if (!(b->calls + b->unfinished))
		return DIFF_GONE;
	/* Quotients of --per are rounded. */
	if (fabs(change) <= 1e-9 * diff_per(diff, SIDE_A, a->calls + a->unfinished))
		return DIFF_SAME;
	if (row->calls_q > DIFF_Q_MAX)
		return DIFF_SAME;
	return change > 0 ? DIFF_MORE : DIFF_FEWER;
}

static int compare_doubles(const void *left, const void *right)
{
	double a = *(const double *)left, b = *(const double *)right;

	return a < b ? -1 : a > b;
}

#define PACE_CALLS_MIN	   100u
#define PACE_FUNCTIONS_MIN 8u

/* The median of how much longer the functions' median calls take in B: a slower machine slows all of them. */
static double pace_of(const struct diff *diff, double *list)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < diff->count; i++) {
		const struct report_row *a = &diff->rows[i].parts[SIDE_A], *b = &diff->rows[i].parts[SIDE_B];

		if (a->exact >= PACE_CALLS_MIN && b->exact >= PACE_CALLS_MIN && a->p50_ns && b->p50_ns)
			list[count++] = (double)b->p50_ns / (double)a->p50_ns;
	}
	qsort(list, count, sizeof(*list), compare_doubles);
	return count >= PACE_FUNCTIONS_MIN ? list[count / 2] : 0;
}

/* Test the numbers of calls, where runs tell how much they vary; without such runs each difference counts. */
static int judge_calls(struct diff *diff, double *p, double *q)
{
	int err;

	for (uint32_t i = 0; i < diff->count; i++)
		p[i] = diff->rows[i].calls_p = diff_is_repeated(diff) ? test_calls(diff, &diff->rows[i]) : 0;
	err = rank_adjust(q, p, diff->count);
	for (uint32_t i = 0; i < diff->count && !err; i++)
		diff->rows[i].calls_q = q[i];
	return err;
}

static int judge(struct diff *diff, struct headway *headway)
{
	double *p = malloc(((size_t)diff->count + 1) * sizeof(*p)), *q = malloc(((size_t)diff->count + 1) * sizeof(*q));
	bool timed = diff->sides[SIDE_A].timed && diff->sides[SIDE_B].timed;
	uint32_t tests = 0;
	int err = p && q ? judge_calls(diff, p, q) : -ENOMEM;

	headway_begin(headway, "comparing", diff->count);
	for (uint32_t i = 0; i < diff->count && !err; i++) {
		struct diff_row *row = &diff->rows[i];

		headway_add(headway, 1);
		row->share = 0.5;
		row->p = row->q = 1;
		row->verdict = DIFF_SAME;
		for (unsigned side = 0; side < SIDES; side++) {
			row->parts[side].p50_ns = report_percentile(&row->parts[side], 500);
			row->parts[side].p99_ns = report_percentile(&row->parts[side], 990);
		}
		if (!timed || !row->samples[SIDE_A].count || !row->samples[SIDE_B].count)
			continue;
		err = test_row(diff, row);
		p[tests++] = row->p;
	}
	if (!err)
		err = rank_adjust(q, p, tests);
	diff->tests = tests;
	tests = 0;
	for (uint32_t i = 0; i < diff->count && !err; i++) {
		struct diff_row *row = &diff->rows[i];

		if (timed && row->samples[SIDE_A].count && row->samples[SIDE_B].count)
			row->q = q[tests++];
		if (row->q > DIFF_Q_MAX)
			row->verdict = DIFF_SAME;
		diff->claims += row->verdict != DIFF_SAME;
		if (row->verdict == DIFF_SAME)
			row->verdict = counted_verdict(diff, row);
	}
	if (!err)
		diff->pace = pace_of(diff, p);
	free(p);
	free(q);
	return err;
}

struct order {
	const struct diff *diff;
	enum diff_sort sort;
};

/* Rows with the larger change come first; rows of equal change are ordered by name, so the order is always the same. */
static int compare_rows(const void *left, const void *right, void *ctx)
{
	const struct order *order = ctx;
	const struct diff_row *a = left, *b = right;
	double x = fabs(diff_change(order->diff, a, order->sort)), y = fabs(diff_change(order->diff, b, order->sort));

	if (x != y)
		return x < y ? 1 : -1;
	return strcmp(pair_raw(order->diff->pair, a->name), pair_raw(order->diff->pair, b->name));
}

/* The rows with calls, sorted. */
static void sort_rows(struct diff *diff, enum diff_sort sort)
{
	struct order order = {diff, sort};

	qsort_r(diff->rows, diff->count, sizeof(*diff->rows), compare_rows, &order);
}

static void keep_called(struct diff *diff)
{
	uint32_t names = pair_count(diff->pair) < diff->room ? pair_count(diff->pair) : diff->room;

	for (uint32_t i = 0; i < names; i++) {
		struct diff_row *row = &diff->rows[i];
		const struct report_row *a = &row->parts[SIDE_A], *b = &row->parts[SIDE_B];

		if (!(a->calls + a->unfinished + b->calls + b->unfinished))
			continue;
		row->name = i;
		diff->rows[diff->count++] = *row;
	}
}

static bool is_timed(const struct diff *diff)
{
	return diff->sides[SIDE_A].timed && diff->sides[SIDE_B].timed;
}

static int check_sides(const struct diff *diff, const struct diff_options *options, struct calltap_diag *diag)
{
	for (unsigned side = 0; side < SIDES; side++) {
		const struct diff_side *of = &diff->sides[side];

		if (!of->calls && !of->unfinished)
			return calltap_diag_set(diag, -ENODATA,
						"no call is in %s, or none that was asked for: 'calltap info -i %s' "
						"says what it has; choose more with --time, --pid, --tid and -f",
						trace_path(of->trace), trace_path(of->trace));
		if (!of->timed && options->tree)
			return calltap_diag_set(diag, -ENODATA,
						"%s has no calls with a duration, so there is no tree: record with "
						"'-p function_graph', or leave --tree out",
						trace_path(of->trace));
	}
	return 0;
}

static int count_inputs(struct diff *diff, struct calltap_diag *diag)
{
	const struct trace *traces[DIFF_INPUTS_MAX];
	int err;

	for (unsigned at = 0; at < diff->input_count; at++)
		traces[at] = diff->inputs[at].trace;
	err = pair_create(&diff->pair, traces, diff->input_count);
	for (unsigned at = 0; at < diff->input_count && !err; at++)
		err = count_input(diff, at, diag);
	return err;
}

int diff_run(struct diff *diff, struct diff_input *inputs, unsigned count, const struct diff_options *options,
	     struct calltap_diag *diag)
{
	int err;

	memset(diff, 0, sizeof(*diff));
	diff->inputs = inputs;
	diff->input_count = count;
	err = count_inputs(diff, diag);
	if (!err)
		err = check_sides(diff, options, diag);
	if (!err)
		err = count_per(diff, options->per, diag);
	if (!err && (options->tree || (options->with_tree && is_timed(diff))))
		err = build_tree(diff, options, diag);
	if (!err) {
		keep_called(diff);
		err = judge(diff, inputs[0].filter->headway);
	}
	if (!err)
		sort_rows(diff, options->sort);
	if (err == -ENOMEM)
		calltap_diag_set(diag, err, "out of memory for the comparison: choose less with --time, --tid or -f");
	return err;
}

void diff_clear(struct diff *diff)
{
	uint32_t rows = diff->count ? diff->count : diff->room;

	for (uint32_t i = 0; i < rows; i++) {
		for (unsigned at = 0; at < diff->input_count && diff->rows[i].runs; at++)
			histogram_clear(&diff->rows[i].runs[at].histogram);
		free(diff->rows[i].runs);
		for (unsigned side = 0; side < SIDES; side++) {
			histogram_clear(&diff->rows[i].parts[side].histogram);
			sample_clear(&diff->rows[i].samples[side]);
		}
	}
	free(diff->rows);
	twin_clear(&diff->twin);
	pair_destroy(diff->pair);
	memset(diff, 0, sizeof(*diff));
}
