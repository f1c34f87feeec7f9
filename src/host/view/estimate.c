/*
 * Durations of calls without exact ones; see estimate.h.  Context: host.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "estimate.h"

/* Sums of the powers 0 to 3 of durations. */
struct sums {
	double of[4];
};

/* Durations in one bucket of a function's histogram: the middle one, and sums over this bucket and all before it. */
struct step {
	double ns;
	struct sums up_to;
};

/*
 * How well a duration d fits to a call's bounds: in how many of its places within the entry's bounds the call has its
 * end within the end's.  It grows from the least duration on, stays as it is, and falls to the greatest one.
 */
struct fit {
	double at[4]; /* the corners, in ns */
	double height;
};

/* The steps of each part of a fit: where it grows, stays as it is, and falls. */
struct parts {
	uint32_t from[3], to[3];
};

/* All of a call that its fit is made of, in ticks.  Calls that lie elsewhere in time have the same answer. */
struct bounds {
	uint64_t entry, end; /* between the bounds of the entry's time, and of the end's */
	uint64_t most;	     /* from the first of them to the last one */
	uint64_t away;
};

/* What a function's exact durations say of a call with such bounds. */
struct answer {
	bool asked;
	struct bounds bounds;
	struct fit fit;
	struct parts parts;
	double weights[3]; /* of the parts */
	double mean, spread, doubt;
	double of[2]; /* the sum of the weights, and of each duration times its weight */
	bool any;     /* some durations fit */
};

#define SURPLUS_ALIKE 8	 /* what clock reads take is alike in all functions but for one part in so many */
#define CELL_BITS     47 /* of a double, below those that tell its cell: 32 cells have durations up to twice as long */
#define RANKS	      64

/* The function's calls as they come. */
struct coming {
	bool any;	     /* a call with an exact duration has come; */
	uint64_t ns;	     /* the last one, */
	uint64_t half_calls; /* and so many halves of estimated calls before it stand for it */
	uint64_t untimed;    /* estimated calls since */
};

struct known {
	struct coming coming;
	struct histogram exact; /* of exact durations, in halves of the estimated calls that they stand for */
	double sum, squares;	/* of these durations, which the histogram has to 1/64, and of the halves' squares */
	double worth;		/* of each half call: so many calls with an exact duration */
	double surplus_ns;	/* what clock reads are of each */
	double surplus_off_ns;	/* and what functions show that it differs between them */
	double per_exact;	/* estimated calls by exact durations */
	double rough;		/* what part of a duration the weights that share it out may be off */
	uint64_t untimed;	/* estimated calls */
	double given;		/* what its calls got, in ticks, of loose ones */
	double doubt;		/* of what they got, so many times it may be another function's, or the reverse */
	double loose;		/* all loose ticks of the runs that its calls begin in */
	struct step *steps;
	uint32_t count;
	/* Where searches begin: by cells of durations, from first_cell on, how many steps are below the cell; */
	uint16_t *below;
	uint32_t first_cell;
	uint16_t ranked[RANKS]; /* the first step with more of all calls up to it than so many parts in RANKS; */
	double ranks_per_call;	/* and RANKS for the number of all calls */
	double rank;		/* from 0 to 1, of the last duration that was drawn */
	struct answer answer;	/* the last one: of neighbouring calls most have the same bounds */
};

#define LEAST_LEFT 8	/* of a duration at least one part in so many is left without what clock reads take */
#define FAINT	   1e-9 /* a part of all that differences of sums do not tell from nothing */

#define SEEN 64 /* functions of a run that are told apart by their numbers' lowest bits */

/* The run in which a function's call began last, of a thread. */
struct seen_run {
	uint64_t lo;
	uint32_t function;
};

struct estimates {
	struct known *functions;
	uint32_t count;
	double ticks_per_ns;
	struct seen_run (*seen)[SEEN]; /* by thread; gone once all is noted */
	uint32_t threads;
};

/* As fmax() and fmin() of numbers, but an instruction and no call. */
static inline double larger(double a, double b)
{
	return a > b ? a : b;
}

static inline double smaller(double a, double b)
{
	return a < b ? a : b;
}

static bool is_within_a_run(const struct call_closed *closed)
{
	return closed->exit_lo == closed->frame->enter_lo && closed->exit_hi == closed->frame->enter_hi;
}

/* True if an end has a time, or is in a run whose loose ticks are known. */
static bool is_known_end(uint64_t lo, uint64_t hi, uint64_t loose)
{
	return lo == hi || loose != TRACE_LOOSE_NOT_KNOWN;
}

static bool are_runs_known(const struct call_closed *closed)
{
	const struct call_frame *frame = closed->frame;

	return is_known_end(frame->enter_lo, frame->enter_hi, frame->enter_loose) &&
	       is_known_end(closed->exit_lo, closed->exit_hi, closed->exit_loose);
}

static double part_of_loose(uint64_t ticks, uint64_t lo, uint64_t hi, uint64_t loose)
{
	return lo < hi ? (double)ticks * (double)loose / (double)(hi - lo) : 0;
}

/* How many the call got of the loose ticks of the runs in which it began and ended. */
static double given_to(const struct call_closed *closed)
{
	const struct call_frame *frame = closed->frame;

	if (is_within_a_run(closed))
		return part_of_loose(closed->exit_ticks - frame->enter_ticks, frame->enter_lo, frame->enter_hi,
				     frame->enter_loose);
	return part_of_loose(frame->enter_hi - frame->enter_ticks, frame->enter_lo, frame->enter_hi,
			     frame->enter_loose) +
	       part_of_loose(closed->exit_ticks - closed->exit_lo, closed->exit_lo, closed->exit_hi,
			     closed->exit_loose);
}

/* The run's loose ticks are in question for the function, once. */
static void note_run(struct estimates *estimates, const struct call_closed *closed, uint64_t lo, uint64_t hi,
		     uint64_t loose)
{
	const uint32_t function = closed->frame->function;
	struct seen_run *seen = &estimates->seen[closed->thread][function % SEEN];

	if (lo == hi || (seen->lo == lo && seen->function == function))
		return;
	estimates->functions[function].loose += (double)loose;
	*seen = (struct seen_run){lo, function};
}

static void note_loose(struct estimates *estimates, const struct call_closed *closed)
{
	const struct call_frame *frame = closed->frame;

	if (closed->thread >= estimates->threads || !are_runs_known(closed))
		return;
	estimates->functions[frame->function].given += given_to(closed);
	note_run(estimates, closed, frame->enter_lo, frame->enter_hi, frame->enter_loose);
	note_run(estimates, closed, closed->exit_lo, closed->exit_hi, closed->exit_loose);
}

/* Count the last exact duration, which stands for so many halves of calls more than for those before it. */
static int settle_last(struct known *known, uint64_t half_calls)
{
	const struct coming *coming = &known->coming;
	const uint64_t halves = coming->half_calls + half_calls;

	if (!halves)
		return 0;
	known->sum += (double)halves * (double)coming->ns;
	known->squares += (double)halves * (double)halves;
	return histogram_add_many(&known->exact, coming->ns, halves);
}

/*
 * An exact duration stands for the function's estimated calls around it: half of those since the one before, and half
 * of those up to the next one.  So a phase in which all calls are timed says nothing of calls in other phases.
 */
static int note_exact(struct known *known, uint64_t ns)
{
	struct coming *coming = &known->coming;
	const uint64_t untimed = coming->untimed;
	int err = coming->any ? settle_last(known, untimed) : 0;

	*coming = (struct coming){.any = true, .ns = ns, .half_calls = coming->any ? untimed : 2 * untimed};
	return err;
}

static void note_call(void *ctx, struct walk *walk, const struct call_closed *closed)
{
	struct estimates *estimates = ctx;
	const struct call_frame *frame = closed->frame;
	struct known *known;

	if (frame->function >= estimates->count || !frame->enter_known || closed->how == CALL_OPEN ||
	    closed->how == CALL_LOST)
		return;
	known = &estimates->functions[frame->function];
	if (call_is_estimated(closed)) {
		known->untimed++;
		known->coming.untimed++;
		note_loose(estimates, closed);
	} else if (note_exact(known, walk_running_ns(walk, closed))) {
		walk->error = -ENOMEM;
	}
}

static const struct walk_ops noting = {.on_pop = note_call};

static double middle_of(uint64_t least)
{
	return least < HISTOGRAM_SPLIT ? (double)least : (double)least * (1 + 0.5 / HISTOGRAM_SPLIT);
}

static uint32_t cell_of(double ns)
{
	uint64_t bits;

	memcpy(&bits, &ns, sizeof(bits));
	return (uint32_t)(bits >> CELL_BITS);
}

/* The least duration of a cell. */
static double cell_floor(uint32_t cell)
{
	uint64_t bits = (uint64_t)cell << CELL_BITS;
	double ns;

	memcpy(&ns, &bits, sizeof(ns));
	return ns;
}

/* Note where searches for durations and ranks begin.  A function has some 2000 steps at the most. */
static int settle_searches(struct known *known)
{
	const struct step *steps = known->steps;
	uint32_t cells, at = 0;
	double calls;

	if (!known->count)
		return 0;
	/* A duration of 0 is far from all others. */
	known->first_cell = cell_of(larger(steps[0].ns, 0.5));
	cells = cell_of(larger(steps[known->count - 1].ns, 0.5)) - known->first_cell + 1;
	known->below = calloc(cells, sizeof(*known->below));
	if (!known->below)
		return -ENOMEM;
	for (uint32_t cell = 1; cell < cells; cell++) {
		while (at < known->count && steps[at].ns < cell_floor(known->first_cell + cell))
			at++;
		known->below[cell] = (uint16_t)at;
	}
	calls = steps[known->count - 1].up_to.of[0];
	known->ranks_per_call = RANKS / calls;
	at = 0;
	for (uint32_t rank = 0; rank < RANKS; rank++) {
		while (at < known->count - 1 && steps[at].up_to.of[0] * RANKS <= rank * calls)
			at++;
		known->ranked[rank] = (uint16_t)at;
	}
	return 0;
}

/* Sum up the function's histogram, scaled to the true sum. */
static int settle_function(struct known *known)
{
	uint64_t least, count;
	double sum = 0, scale;
	struct sums sums = {{0}};
	int err = known->coming.any ? settle_last(known, 2 * known->coming.untimed) : 0;

	if (err)
		return err;
	known->worth = known->squares > 0 ? (double)known->exact.total / known->squares : 0;
	for (uint32_t at = 0; histogram_next(&known->exact, &at, &least, &count); known->count++)
		sum += (double)count * middle_of(least);
	scale = sum > 0 ? known->sum / sum : 1;
	known->steps = calloc((size_t)known->count + 1, sizeof(*known->steps));
	if (!known->steps)
		return -ENOMEM;
	known->count = 0;
	for (uint32_t at = 0; histogram_next(&known->exact, &at, &least, &count); known->count++) {
		double ns = middle_of(least) * scale, power = (double)count;

		for (unsigned i = 0; i < 4; i++, power *= ns)
			sums.of[i] += power;
		known->steps[known->count] = (struct step){ns, sums};
	}
	histogram_clear(&known->exact);
	return settle_searches(known);
}

/*
 * The effective number of the function's exact durations: some stand for many calls and others for few, so they tell
 * less than as many would that stand for one call each.
 */
static double calls_known(const struct known *known)
{
	return known->count ? known->steps[known->count - 1].up_to.of[0] * known->worth : 0;
}

/*
 * What a function's part of the loose ticks may be off, for each that it got.  The parts are those that rare pieces
 * have, of which few may be known: the interval of Agresti and Coull for a part in so many.  And what its part of the
 * others may be off, as usual pieces are spread, too, and few may have been measured.
 */
static void settle_runs(struct known *known, uint64_t rare_pieces)
{
	double part = 0, pieces = (double)rare_pieces + 4, middle;

	if (known->given > 0 && known->given < known->loose) {
		part = known->given / known->loose;
		middle = (part * (double)rare_pieces + 2) / pieces;
		known->doubt = (fabs(middle - part) + 1.96 * sqrt(middle * (1 - middle) / pieces)) / part;
	} else if (known->given > 0) {
		part = 1;
	}
	known->per_exact = (double)known->untimed / larger(calls_known(known), 1);
	known->rough = (1 - part) / sqrt(larger(calls_known(known), 1));
}

int estimates_create(struct estimates **out, const struct trace *trace, const struct view_filter *filter,
		     struct calltap_diag *diag)
{
	/* All calls of a function are alike here, wanted or not: calls of others are in them. */
	struct view_filter whole = view_filter_whole(filter);
	struct estimates *estimates = NULL;
	struct trace_estimates known;
	struct walk walk;
	int err = 0;

	*out = NULL;
	whole.to_ns = UINT64_MAX;
	whole.passes = ESTIMATES_PASSES;
	trace_estimates(trace, &known);
	if (!known.any)
		return 0;
	estimates = calloc(1, sizeof(*estimates));
	if (estimates) {
		estimates->count = trace_function_count(trace);
		estimates->ticks_per_ns = trace_ticks_per_ns(trace);
		estimates->threads = trace_thread_count(trace);
		estimates->functions = calloc((size_t)estimates->count + 1, sizeof(*estimates->functions));
		estimates->seen = calloc((size_t)estimates->threads + 1, sizeof(*estimates->seen));
	}
	if (!estimates || !estimates->functions || !estimates->seen)
		err = -ENOMEM;
	else
		err = walk_run(&walk, trace, &whole, &noting, estimates, diag);
	trace_estimates(trace, &known);
	for (uint32_t i = 0; !err && i < estimates->count; i++) {
		estimates->functions[i].surplus_ns = known.surplus_ticks / estimates->ticks_per_ns;
		estimates->functions[i].surplus_off_ns = known.surplus_off_ticks / estimates->ticks_per_ns;
		err = settle_function(&estimates->functions[i]);
		settle_runs(&estimates->functions[i], known.rare_pieces);
	}
	if (err) {
		estimates_destroy(estimates);
		return err == -ENOMEM ? calltap_diag_set(diag, err, "out of memory for the table of functions") : err;
	}
	*out = estimates;
	return 0;
}

void estimates_destroy(struct estimates *estimates)
{
	if (!estimates)
		return;
	for (uint32_t i = 0; estimates->functions && i < estimates->count; i++) {
		histogram_clear(&estimates->functions[i].exact);
		free(estimates->functions[i].steps);
		free(estimates->functions[i].below);
	}
	free(estimates->functions);
	free(estimates->seen);
	free(estimates);
}

/* The number of steps with durations of ns and less. */
static uint32_t steps_up_to(const struct known *known, double ns)
{
	uint32_t cell, at;

	if (ns < 0 || !known->count || !(known->steps[0].ns <= ns))
		return 0;
	if (known->steps[known->count - 1].ns <= ns)
		return known->count;
	cell = cell_of(ns);
	/* A cell has two steps or so. */
	at = known->below[cell > known->first_cell ? cell - known->first_cell : 0];
	while (known->steps[at].ns <= ns)
		at++;
	return at;
}

/* Student's t for an interval of 95 of 100; with more degrees of freedom than the table has, to about 1 %. */
static double student(double freedom)
{
	static const double table[] = {12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23};

	if (freedom < 1)
		return table[0];
	return freedom < 10 ? table[(unsigned)freedom - 1] : 1.96 + 2.7 / freedom;
}

static struct fit fit_of(const struct bounds *bounds, double ticks_per_ns)
{
	double away = bounds->away ? (double)bounds->away / ticks_per_ns : 0,
	       entry = (double)bounds->entry / ticks_per_ns;
	double end = bounds->end == bounds->entry ? entry : (double)bounds->end / ticks_per_ns;
	double most = bounds->most == bounds->entry ? entry : (double)bounds->most / ticks_per_ns;
	double less = smaller(entry, end), more = larger(entry, end);

	most = larger(most - away, 0);
	return (struct fit){{most - entry - end, most - more, most - less, most}, less > 0 ? less : 1};
}

static struct parts parts_of(const struct known *known, const struct fit *fit)
{
	const bool grows = fit->at[0] != fit->at[1], stays = fit->at[1] != fit->at[2];
	uint32_t from = steps_up_to(known, fit->at[0]), to;
	struct parts parts;

	for (unsigned part = 0; part < 3; part++, from = to) {
		to = part == 1 && grows && !stays ? from : steps_up_to(known, fit->at[part + 1]);
		if (!part && !grows) /* the first corner itself fits */
			from = to = steps_up_to(known, fit->at[0] - 1);
		parts.from[part] = from;
		parts.to[part] = to;
	}
	return parts;
}

/* The line by which durations of a part of a fit weigh: base + slope * duration. */
struct line {
	double base, slope;
};

static inline struct line line_of(const struct fit *fit, unsigned part)
{
	if (part == 2)
		return (struct line){fit->at[3], -1};
	return part ? (struct line){fit->height, 0} : (struct line){-fit->at[0], 1};
}

static const double *sums_below(const struct known *known, uint32_t step)
{
	static const struct sums none;

	return step ? known->steps[step - 1].up_to.of : none.of;
}

/* The sum of a power of the durations between two sums; the line weighs each by how well it fits. */
static inline double weigh(struct line line, const double *below, const double *above, unsigned power)
{
	return line.base * (above[power] - below[power]) + line.slope * (above[power + 1] - below[power + 1]);
}

/* The first step of a part up to which the steps from the part's first one on weigh more than rank; end: none does. */
static uint32_t step_at(const struct known *known, const struct fit *fit, unsigned part, uint32_t from, uint32_t end,
			double rank)
{
	const struct line line = line_of(fit, part);
	const double *below = sums_below(known, from);
	/* No call weighs more than the fit is high, so there are as many calls up to the step. */
	const double ranks = (below[0] + rank / fit->height) * known->ranks_per_call;
	uint32_t at = known->ranked[ranks < RANKS - 1 ? (uint32_t)ranks : RANKS - 1];

	at = at < from ? from : at > end ? end : at;
	while (at > from && weigh(line, below, known->steps[at - 1].up_to.of, 0) > rank)
		at--;
	while (at < end && weigh(line, below, known->steps[at].up_to.of, 0) <= rank)
		at++;
	return at;
}

/* The duration up to which the ones that fit weigh more than rank. */
static double duration_at(const struct known *known, double rank)
{
	const struct answer *answer = &known->answer;
	const double *weights = answer->weights;
	unsigned part = 0;
	uint32_t first, end;

	for (; part < 2 && rank >= weights[part]; part++)
		rank -= weights[part];
	first = answer->parts.from[part];
	end = answer->parts.to[part] > first ? answer->parts.to[part] - 1 : first;
	first = step_at(known, &answer->fit, part, first, end, rank);
	return known->steps[first < known->count ? first : known->count - 1].ns;
}

/* The sum of the weights of the durations that fit, up to a step, and of each one times its weight. */
static void sums_up_to(const struct known *known, uint32_t step, double of[2])
{
	const struct answer *answer = &known->answer;

	of[0] = of[1] = 0;
	for (unsigned part = 0; part < 3; part++) {
		const uint32_t from = answer->parts.from[part];
		const uint32_t to = answer->parts.to[part] < step ? answer->parts.to[part] : step;
		const struct line line = line_of(&answer->fit, part);

		if (from >= to)
			continue;
		of[0] += weigh(line, sums_below(known, from), sums_below(known, to), 0);
		of[1] += weigh(line, sums_below(known, from), sums_below(known, to), 1);
	}
}

/*
 * A duration such that the mean of the ones drawn for many calls is what they got, and that otherwise they are as those
 * that fit.  So of these the ones up to what the call got, and the longer ones, each have the share that makes this
 * mean: in a run that has no room for long calls there are none, and in one that has the room of many there are many.
 */
static double draw(struct known *known, double ns)
{
	const struct answer *answer = &known->answer;
	const double mean = ns + known->surplus_ns;
	double below[2], above[2], share, drawn;

	known->rank += 0.6180339887498949; /* multiples of the golden ratio are spread evenly */
	known->rank -= known->rank >= 1;
	sums_up_to(known, steps_up_to(known, mean), below);
	above[0] = answer->of[0] - below[0];
	above[1] = answer->of[1] - below[1];
	/* Where all exact durations are longer than what the call got, or all are shorter, no share makes that mean. */
	if (below[0] < FAINT * answer->of[0] || above[0] < FAINT * answer->of[0])
		return ns;
	below[1] /= below[0];
	above[1] /= above[0];
	share = smaller(larger((above[1] - mean) / (above[1] - below[1]), 0), 1);
	if (known->rank < share)
		drawn = duration_at(known, known->rank / share * below[0]);
	else
		drawn = duration_at(known, below[0] + (known->rank - share) / (1 - share) * above[0]);
	return larger(drawn - known->surplus_ns, drawn / LEAST_LEFT);
}

/* Add the durations of a part to sums of their powers 0 to 2, each weighted by how well it fits. */
static inline void add_part(const struct known *known, struct answer *answer, unsigned part, double of[3])
{
	const uint32_t from = answer->parts.from[part], to = answer->parts.to[part];
	const struct line line = line_of(&answer->fit, part);
	const double *below, *above;

	answer->weights[part] = 0;
	if (from >= to)
		return;
	below = sums_below(known, from);
	above = sums_below(known, to);
	answer->weights[part] = weigh(line, below, above, 0);
	of[0] += answer->weights[part];
	of[1] += weigh(line, below, above, 1);
	of[2] += weigh(line, below, above, 2);
}

/* What the durations that fit have in common. */
static void answer_for(struct known *known, struct answer *answer)
{
	double of[3] = {0}, calls, variance;

	answer->parts = parts_of(known, &answer->fit);
	add_part(known, answer, 0, of);
	add_part(known, answer, 1, of);
	add_part(known, answer, 2, of);
	answer->of[0] = of[0];
	answer->of[1] = of[1];
	calls = of[0] / answer->fit.height * known->worth;
	answer->any = known->count && calls > 1e-3;
	if (!answer->any)
		return;
	answer->mean = of[1] / of[0];
	variance = larger(of[2] / of[0] - answer->mean * answer->mean, 0) * (calls > 2 ? calls / (calls - 1) : 1);
	answer->spread = sqrt(variance);
	answer->doubt = calls > 2 ? student(calls - 1) * answer->spread / sqrt(calls) : answer->mean;
}

static struct bounds bounds_of(const struct call_closed *closed)
{
	const struct call_frame *frame = closed->frame;

	return (struct bounds){frame->enter_hi - frame->enter_lo, closed->exit_hi - closed->exit_lo,
			       closed->exit_hi >= frame->enter_lo ? closed->exit_hi - frame->enter_lo : 0,
			       closed->away_ticks};
}

static bool is_same(const struct bounds *one, const struct bounds *other)
{
	return one->entry == other->entry && one->end == other->end && one->most == other->most &&
	       one->away == other->away;
}

/* What the function's durations say of such a call. */
static const struct answer *ask(const struct estimates *estimates, struct known *known,
				const struct call_closed *closed)
{
	const struct bounds bounds = bounds_of(closed);
	struct answer *answer = &known->answer;

	if (!answer->asked || !is_same(&answer->bounds, &bounds)) {
		answer->fit = fit_of(&bounds, estimates->ticks_per_ns);
		answer_for(known, answer);
		answer->asked = true;
		answer->bounds = bounds;
	}
	return answer;
}

/* The mean of the durations that fit; false: there are none. */
static bool mean_that_fits(struct known *known, struct estimate *estimate)
{
	const struct answer *answer = &known->answer;
	const struct fit *fit = &answer->fit;
	double drawn;

	if (!answer->any)
		return false;
	/* Clocks were read in the exact ones, as in the pieces of which weights are made. */
	estimate->other_ns = larger(answer->mean - known->surplus_ns, answer->mean / LEAST_LEFT);
	estimate->other_ns = smaller(larger(estimate->other_ns, fit->at[0]), fit->at[3]);
	estimate->spread_ns = answer->spread;
	estimate->doubt_ns = answer->doubt + known->surplus_off_ns;
	drawn = draw(known, estimate->ns);
	estimate->said_ns = estimate_whole(duration_at(known, known->rank * answer->of[0]) + 0.5);
	estimate->drawn_ns = estimate_whole(smaller(larger(drawn, fit->at[0]), fit->at[3]) + 0.5);
	return true;
}

/* What the sharing out of runs' times leaves in doubt; where that is not known, what exact calls say. */
static double loose_of(const struct estimates *estimates, const struct known *known, const struct call_closed *closed,
		       const struct estimate *estimate)
{
	if (!are_runs_known(closed))
		return estimate->doubt_ns + fabs(estimate->other_ns - estimate->ns);
	return larger(known->surplus_ns / SURPLUS_ALIKE, known->surplus_off_ns) + estimate->ns * known->rough +
	       given_to(closed) * known->doubt / estimates->ticks_per_ns;
}

void estimate_call(struct estimates *estimates, const struct walk *walk, const struct call_closed *closed,
		   struct estimate *estimate)
{
	/* Behind the last function there is one of which nothing is known. */
	const uint32_t function = closed->frame->function;
	struct known *known = &estimates->functions[function < estimates->count ? function : estimates->count];
	const struct fit *fit = &ask(estimates, known, closed)->fit;
	double least = larger(fit->at[0], 0), most = fit->at[3], shown;

	shown = (double)(closed->exit_ticks - closed->frame->enter_ticks) - (double)closed->away_ticks;
	shown = smaller(larger(shown / estimates->ticks_per_ns, least), most);
	*estimate = (struct estimate){.ns = shown,
				      .other_ns = shown,
				      .drawn_ns = estimate_whole(shown),
				      .said_ns = estimate_whole(shown),
				      .per_exact = known->per_exact};
	if (least >= most / 2) {
		/* A call that is long beside what is not known of it is anywhere between its bounds. */
		estimate->spread_ns = larger(most - shown, shown - least) / sqrt(3);
		return;
	}
	if (!mean_that_fits(known, estimate))
		estimate->doubt_ns = larger(most - shown, shown - least);
	estimate->loose_ns =
		function < estimates->count ? loose_of(estimates, known, closed, estimate) : estimate->doubt_ns;
}
