/*
 * Measuring pieces of functions' time between records; see weights.h.  Context: host.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "weights.h"

#define RUN_MAX	   2048 /* pieces of a run that are looked at */
#define RUN_MIN	   8	/* shorter ones tell little of what one piece takes */
#define RUNS_KEPT  2048 /* of a long trace, evenly */
#define PAIRS_KEPT 8192
#define LEAST_LEFT 8 /* of a weight at least one part in so many is left */

#define LENGTHS_KEPT  64 /* of a function's pieces of one sort, the last ones */
#define LENGTHS_LEAST 12 /* fewer say nothing */
#define DENSE_BEFORE  16 /* pieces in a row that were measured: from then on the CPU has foreseen what recorders do */
#define STEADY	      8	 /* calls in a row that have times: a function of which one in many has them has not so many */
#define SPARSE_BEHIND 16 /* pieces that were not measured: the CPU has not foreseen that this one is */

/* A thread at its last event. */
struct running {
	uint64_t began;	       /* the time of the last record that has one */
	uint32_t run_length;   /* pieces since, if it was followed by a brief record */
	uint32_t run[RUN_MAX]; /* the innermost function in each */
	bool exact;	       /* no brief record has followed it */
	bool unfair; /* that record was made by C, or may have been: what it did behind its time is in the piece */
	bool steady; /* that record is of a function whose calls all have times */
	struct record_open open;
	bool entered[RECORD_OPEN_MAX + 1]; /* by depth: the entry's time is exact; the last one as in `open` */
};

#define OCTAVES	    64 /* of pieces: each twice as long as the one before */
#define USUAL_ABOVE 3  /* octaves above the middle piece's in which pieces are usual ones */

/* Pieces of about one length. */
struct octave {
	double count, sum; /* of pieces, and of their ticks */
	double weight;	   /* so many pieces without a time they stand for; */
	double squares;	   /* of each piece's weight; */
	double weighted;   /* ticks, each piece's times its weight */
};

/* Is a measured piece among others that are, or among ones that are not? */
enum density { DENSE, SPARSE, DENSITIES };

struct lengths {
	uint32_t seen;
	float ticks[LENGTHS_KEPT];
};

/* A function's pieces by their lengths, and the last one, of which is not known yet how many it stands for. */
struct pieces {
	struct octave octaves[OCTAVES];
	struct lengths lengths[DENSITIES];
	uint32_t in_a_row;   /* measured ones, up to the last one */
	uint64_t last_ticks; /* 0: there is none yet */
	double last_weight;  /* from what lies before it */
};

/* A run of brief records: how long it took, and what its pieces were. */
struct brief_run {
	double ticks, surplus;
	uint32_t pieces, parts;
	struct run_part *part; /* by function */
};

struct run_part {
	uint32_t function, pieces;
};

/* A run of one brief record. */
struct pair {
	double ticks;
	uint32_t functions[2]; /* of its pieces */
};

struct weighing {
	uint64_t longest_ticks; /* longer pieces are not seen between brief records */
	uint32_t functions, threads;
	struct pieces **pieces; /* by function, and a last one, outside of all functions; NULL = none */
	uint8_t *in_times;	/* by function: calls in a row that have times, up to STEADY */
	uint32_t *untimed;	/* pieces that were not measured since the last one that was; by function, as in_run */
	struct brief_run *runs; /* each stride-th one */
	uint32_t run_count, stride, runs_seen;
	struct pair *pairs; /* each pair_stride-th one */
	uint32_t pair_count, pair_stride, pairs_seen;
	uint32_t *in_run; /* pieces of the run at hand, by function, outside of all, and not known; else 0 */
	struct running **running;
};

int weighing_create(struct weighing **out, uint32_t functions, uint32_t threads, uint64_t longest_ticks)
{
	struct weighing *weighing = calloc(1, sizeof(*weighing));

	*out = NULL;
	if (!weighing)
		return -ENOMEM;
	weighing->longest_ticks = longest_ticks;
	weighing->functions = functions;
	weighing->threads = threads;
	weighing->pieces = calloc((size_t)weighing->functions + 1, sizeof(*weighing->pieces));
	weighing->running = calloc((size_t)weighing->threads + 1, sizeof(*weighing->running));
	weighing->runs = calloc(RUNS_KEPT, sizeof(*weighing->runs));
	weighing->pairs = calloc(PAIRS_KEPT, sizeof(*weighing->pairs));
	weighing->in_run = calloc((size_t)weighing->functions + 2, sizeof(*weighing->in_run));
	weighing->untimed = calloc((size_t)weighing->functions + 2, sizeof(*weighing->untimed));
	weighing->in_times = calloc((size_t)weighing->functions + 1, sizeof(*weighing->in_times));
	weighing->stride = weighing->pair_stride = 1;
	if (!weighing->pieces || !weighing->running || !weighing->runs || !weighing->pairs || !weighing->in_run ||
	    !weighing->untimed || !weighing->in_times) {
		weighing_destroy(weighing);
		return -ENOMEM;
	}
	*out = weighing;
	return 0;
}

static bool is_steady(const struct weighing *weighing, uint32_t function)
{
	return function < weighing->functions && weighing->in_times[function] >= STEADY;
}

/*
 * True if the recorder took no detour before it read the clock: that is made where a record without a time has seen a
 * new tick.  The exit of a call has its time for this reason if the entry has none.  (Of a call that lies deeper than
 * `entered` reaches nobody knows.)  An entry has it for this reason or by choice, which the record does not say. Behind
 * a brief function's record that has a time it is by choice, for next to no tick comes in between; functions whose
 * calls all have times do not look at ticks, so behind a long one of these a new tick is more likely than a choice.
 */
static bool is_fair(const struct weighing *weighing, const struct running *running, const struct trace_event *event)
{
	const uint32_t depth = running->open.depth;

	if (event->kind == CALLTAP_REC_ENTRY || event->kind == CALLTAP_REC_TAIL)
		return !running->steady || is_steady(weighing, event->id);
	return event->kind == CALLTAP_REC_EXIT && depth && depth <= RECORD_OPEN_MAX && running->entered[depth - 1];
}

static unsigned octave_of(uint64_t ticks)
{
	return OCTAVES - 1 - (unsigned)__builtin_clzll(ticks);
}

/* Count the last piece, which stands for `behind` pieces more than for those before it. */
static void settle_last(struct pieces *pieces, double behind)
{
	struct octave *octave = &pieces->octaves[octave_of(pieces->last_ticks)];
	const double weight = pieces->last_weight + behind;

	octave->weight += weight;
	octave->squares += weight * weight;
	octave->weighted += weight * (double)pieces->last_ticks;
}

/*
 * A piece stands for those without times around it: half of what lies between it and the one before, and half of what
 * lies up to the next one.  So where all calls have times they stand for themselves alone.
 */
static void add_piece(struct pieces *pieces, uint64_t ticks, uint32_t *untimed)
{
	struct octave *octave = &pieces->octaves[octave_of(ticks)];
	const double before = *untimed;

	octave->count++;
	octave->sum += (double)ticks;
	if (pieces->last_ticks)
		settle_last(pieces, before / 2);
	pieces->last_weight = pieces->last_ticks ? before / 2 : before;
	pieces->last_ticks = ticks;
	*untimed = 0;
}

static void keep_length(struct pieces *pieces, uint64_t ticks, uint32_t untimed)
{
	struct lengths *lengths = &pieces->lengths[untimed ? SPARSE : DENSE];

	pieces->in_a_row = untimed ? 0 : pieces->in_a_row + 1;
	if (pieces->in_a_row > DENSE_BEFORE || untimed >= SPARSE_BEHIND)
		lengths->ticks[lengths->seen++ % LENGTHS_KEPT] = (float)ticks;
}

/* The event ends a piece of the innermost function.  0 or -ENOMEM. */
static int note_piece(struct weighing *weighing, const struct running *running, const struct trace_event *event,
		      bool fair)
{
	uint64_t ticks = event->ticks - running->began;
	struct pieces **pieces;
	uint32_t function;

	function = record_open_innermost(&running->open, weighing->functions);
	if (function > weighing->functions || !ticks || ticks > weighing->longest_ticks || running->unfair || !fair)
		return 0;
	pieces = &weighing->pieces[function];
	if (!*pieces)
		*pieces = calloc(1, sizeof(**pieces));
	if (!*pieces)
		return -ENOMEM;
	keep_length(*pieces, ticks, weighing->untimed[function]);
	add_piece(*pieces, ticks, &weighing->untimed[function]);
	return 0;
}

static uint32_t place_of(const struct weighing *weighing, uint32_t function)
{
	return function <= weighing->functions ? function : weighing->functions + 1;
}

/* Each second run is dropped, and from now on as many fewer are kept. */
static void thin_out(struct weighing *weighing)
{
	for (uint32_t i = 0; i < weighing->run_count; i++) {
		if (i % 2)
			free(weighing->runs[i].part);
		else
			weighing->runs[i / 2] = weighing->runs[i];
	}
	weighing->run_count /= 2;
	weighing->stride *= 2;
}

static int compare_parts(const void *left, const void *right)
{
	const struct run_part *a = left, *b = right;

	return (a->function > b->function) - (a->function < b->function);
}

/* Keep what the run's pieces are, if it is its turn.  0 or -ENOMEM. */
static int keep_run(struct weighing *weighing, const struct running *running, uint64_t ticks)
{
	const uint32_t length = running->run_length;
	struct brief_run run = {.ticks = (double)ticks, .pieces = length};

	if (weighing->runs_seen++ % weighing->stride)
		return 0;
	if (weighing->run_count == RUNS_KEPT)
		thin_out(weighing);
	for (uint32_t i = 0; i < length; i++)
		run.parts += !weighing->in_run[place_of(weighing, running->run[i])]++;
	run.part = calloc(run.parts, sizeof(*run.part));
	if (!run.part)
		return -ENOMEM;
	for (uint32_t i = 0, part = 0; part < run.parts; i++) {
		uint32_t *pieces = &weighing->in_run[place_of(weighing, running->run[i])];

		if (*pieces)
			run.part[part++] = (struct run_part){running->run[i], *pieces};
		*pieces = 0;
	}
	/* In one order, so that their sums are those of other runs with the same pieces. */
	qsort(run.part, run.parts, sizeof(*run.part), compare_parts);
	weighing->runs[weighing->run_count++] = run;
	return 0;
}

static void keep_pair(struct weighing *weighing, const struct running *running, uint64_t ticks)
{
	if (weighing->pairs_seen++ % weighing->pair_stride)
		return;
	if (weighing->pair_count == PAIRS_KEPT) {
		for (uint32_t i = 0; i < PAIRS_KEPT; i += 2)
			weighing->pairs[i / 2] = weighing->pairs[i];
		weighing->pair_count /= 2;
		weighing->pair_stride *= 2;
	}
	weighing->pairs[weighing->pair_count++] = (struct pair){(double)ticks, {running->run[0], running->run[1]}};
}

/* A record ends a piece of a run. */
static inline void end_piece(struct weighing *weighing, struct running *running, bool measured)
{
	const uint32_t function = record_open_innermost(&running->open, weighing->functions);

	if (running->run_length < RUN_MAX)
		running->run[running->run_length] = function;
	running->run_length++;
	weighing->untimed[place_of(weighing, function)] += !measured;
}

/* The event ends a run.  0 or -ENOMEM. */
static int end_run(struct weighing *weighing, struct running *running, const struct trace_event *event, bool fair)
{
	int err = 0;

	end_piece(weighing, running, running->exact);
	/* In a run that is longer than a tick lets one be the thread has waited. */
	if (running->run_length >= RUN_MIN && running->run_length <= RUN_MAX && running->began &&
	    event->ticks - running->began <= weighing->longest_ticks)
		err = keep_run(weighing, running, event->ticks - running->began);
	if (running->run_length == 2 && running->began && event->ticks - running->began <= weighing->longest_ticks &&
	    !running->unfair && fair)
		keep_pair(weighing, running, event->ticks - running->began);
	running->began = event->ticks;
	running->run_length = 0;
	return err;
}

/* NULL = no memory. */
static inline struct running *running_of(struct weighing *weighing, uint32_t thread)
{
	struct running **place = &weighing->running[thread];

	if (!*place)
		*place = calloc(1, sizeof(**place));
	return *place;
}

/* The record is the one from which on the next piece is measured. */
static void begin_piece(struct weighing *weighing, struct running *running, const struct trace_event *event, bool fair)
{
	const bool enters = event->kind == CALLTAP_REC_ENTRY || event->kind == CALLTAP_REC_TAIL;

	running->unfair = !fair;
	running->exact = true;
	if (enters && event->id < weighing->functions && weighing->in_times[event->id] < STEADY)
		weighing->in_times[event->id]++;
	running->steady = is_steady(weighing, event->id);
	if (event->kind == CALLTAP_REC_ENTRY && running->open.depth < RECORD_OPEN_MAX)
		running->entered[running->open.depth] = true;
	if (event->kind == CALLTAP_REC_TAIL && running->open.depth && running->open.depth <= RECORD_OPEN_MAX)
		running->entered[running->open.depth - 1] = true;
}

int weighing_note(struct weighing *weighing, const struct trace_event *event)
{
	struct running *running;
	bool fair;
	int err = 0;

	if (event->thread >= weighing->threads)
		return 0;
	running = running_of(weighing, event->thread);
	if (!running)
		return -ENOMEM;
	fair = is_fair(weighing, running, event);
	if (running->exact)
		err = note_piece(weighing, running, event, fair);
	err = end_run(weighing, running, event, fair) ? -ENOMEM : err;
	begin_piece(weighing, running, event, fair);
	record_open_follow(&running->open, event->kind, event->id);
	return err;
}

int weighing_note_brief(struct weighing *weighing, uint32_t thread, const unsigned char *heads, uint32_t count)
{
	struct running *running;
	uint32_t head;

	if (thread >= weighing->threads || !count)
		return 0;
	running = running_of(weighing, thread);
	if (!running)
		return -ENOMEM;
	for (uint32_t i = 0; i < count; i++, heads += sizeof(head)) {
		const uint32_t depth = running->open.depth;

		memcpy(&head, heads, sizeof(head));
		end_piece(weighing, running, false);
		/* An exit may write above the open calls.  A brief tail call leaves it as it is whether the exit has a
		 * time. */
		if (calltap_record_brief_kind(head) != CALLTAP_REC_TAIL)
			running->entered[depth < RECORD_OPEN_MAX ? depth : RECORD_OPEN_MAX] = false;
		if (calltap_record_brief_kind(head) != CALLTAP_REC_EXIT &&
		    calltap_record_brief_id(head) < weighing->functions)
			weighing->in_times[calltap_record_brief_id(head)] = 0;
		record_open_follow_brief(&running->open, head);
	}
	running->exact = false;
	return 0;
}

/*
 * Have each octave's count and sum be of the pieces that its pieces stand for.  Where they stand for none, no record
 * without a time asks for the function's weight.
 */
static void weigh_octaves(struct pieces *pieces, uint32_t untimed)
{
	double all = 0;

	if (pieces->last_ticks)
		settle_last(pieces, untimed);
	for (unsigned i = 0; i < OCTAVES; i++)
		all += pieces->octaves[i].weight;
	for (unsigned i = 0; i < OCTAVES; i++) {
		struct octave *octave = &pieces->octaves[i];

		if (!(all > 0)) {
			octave->weight = octave->squares = octave->count;
			octave->weighted = octave->sum;
		}
	}
}

/* The octave up to which pieces are usual ones. */
static unsigned usual_octaves(const struct octave *octaves, double all)
{
	double up_to = 0;
	unsigned octave = 0;

	while (octave < OCTAVES && 2 * (up_to += octaves[octave].weight) < all)
		octave++;
	return octave + USUAL_ABOVE;
}

/*
 * The part of long pieces that lies between two brief records: the pieces in which no tick passes.  A tick is about
 * half of the span.
 */
static double part_in_runs(const struct octave *octave, uint64_t longest)
{
	if (!(octave->weight > 0))
		return 0;
	return fmax(1 - octave->weighted / octave->weight * 2 / (double)longest, 0);
}

/*
 * The effective number of pieces with these sums of weights, and of their squares: so many pieces of one weight would
 * tell as much.
 */
static double worth(double weight, double squares)
{
	return squares > 0 ? weight * weight / squares : 0;
}

/* A function's pieces to its weights; adds to the sum and the number of usual pieces.  Returns how many are rare. */
static double settle_function(const struct octave octaves[OCTAVES], uint64_t longest, double *ticks, double *rare,
			      double *sum, double *count)
{
	double sums[2] = {0}, weights[2] = {0}, squares[2] = {0}, one = 0, all = 0;
	unsigned usual;

	for (unsigned i = 0; i < OCTAVES; i++)
		all += octaves[i].weight;
	usual = usual_octaves(octaves, all);
	for (unsigned i = 0; i < OCTAVES; i++) {
		const struct octave *octave = &octaves[i];
		const double part = i > usual ? part_in_runs(octave, longest) : 1;

		sums[i > usual] += octave->weighted * part;
		weights[i > usual] += octave->weight;
		squares[i > usual] += octave->squares;
		/* The ticks that one piece of the octave stands for, on average. */
		if (i > usual && octave->weight > 0)
			one = fmax(one, octave->weighted / worth(octave->weight, octave->squares) * part);
	}
	*ticks = sums[0] / weights[0];
	*rare = fmax(sums[1] - one, 0) / all;
	*sum += sums[0];
	*count += weights[0];
	return worth(weights[1], squares[1]);
}

static bool is_measured(const struct weights *weights, uint32_t function)
{
	return function <= weights->table.count && weights->ticks[function] > 0;
}

/* The piece of a function that was not measured, beside one that was; its number, or UINT32_MAX. */
static uint32_t unmeasured_in(const struct weights *weights, const struct pair *pair)
{
	const bool known[2] = {is_measured(weights, pair->functions[0]), is_measured(weights, pair->functions[1])};
	const uint32_t function = pair->functions[known[0]];

	return known[0] != known[1] && function <= weights->table.count ? function : UINT32_MAX;
}

static int compare_pairs(const void *left, const void *right)
{
	const struct pair *a = left, *b = right;

	if (a->functions[0] != b->functions[0])
		return a->functions[0] < b->functions[0] ? -1 : 1;
	return (a->ticks > b->ticks) - (a->ticks < b->ticks);
}

/*
 * Functions whose pieces never lie between two times, as those of a caller between a brief exit and the next call: a
 * pair of pieces between two times, less the one that was measured, is the other one without any surplus.  The middle
 * of these, by function, goes to net[], which is 0 for all others.
 */
static void weigh_pairs(struct weighing *weighing, const struct weights *weights, double *net)
{
	struct pair *pairs = weighing->pairs;
	uint32_t count = 0, next;

	for (uint32_t i = 0; i < weighing->pair_count; i++) {
		const uint32_t function = unmeasured_in(weights, &pairs[i]);

		if (function == UINT32_MAX)
			continue;
		pairs[count].ticks =
			pairs[i].ticks - weights->ticks[pairs[i].functions[pairs[i].functions[0] == function]];
		pairs[count++].functions[0] = function;
	}
	qsort(pairs, count, sizeof(*pairs), compare_pairs);
	for (uint32_t i = 0; i < count; i = next) {
		for (next = i + 1; next < count && pairs[next].functions[0] == pairs[i].functions[0]; next++)
			;
		net[pairs[i].functions[0]] = fmax(pairs[i + (next - i) / 2].ticks, 1);
	}
}

static double weight_of(const struct weights *weights, uint32_t function)
{
	return function <= weights->table.count && weights->ticks[function] > 0 ? weights->ticks[function]
										: weights->table.other;
}

static int compare_surplus(const void *left, const void *right)
{
	const struct brief_run *a = left, *b = right;

	return (a->surplus > b->surplus) - (a->surplus < b->surplus);
}

static void swap_runs(struct brief_run *one, struct brief_run *other)
{
	struct brief_run kept = *one;

	*one = *other;
	*other = kept;
}

/*
 * The surplus that most runs agree on: of those in order the half that lies closest together, and again of these.  Runs
 * with rare long pieces say less than is true, each another number, so they fall out.
 */
static double usual_surplus(struct brief_run *runs, uint32_t count)
{
	qsort(runs, count, sizeof(*runs), compare_surplus);
	while (count > 3) {
		const uint32_t half = (count + 1) / 2;
		uint32_t best = 0;

		for (uint32_t i = 1; i + half <= count; i++)
			if (runs[i + half - 1].surplus - runs[i].surplus <
			    runs[best + half - 1].surplus - runs[best].surplus)
				best = i;
		runs += best;
		count = half;
	}
	return count ? runs[count / 2].surplus : 0;
}

static int compare_lengths(const void *left, const void *right)
{
	const float *a = left, *b = right;

	return (*a > *b) - (*a < *b);
}

/* The middle one.  They are put in order. */
static double middle_length(struct lengths *lengths)
{
	const uint32_t count = lengths->seen < LENGTHS_KEPT ? lengths->seen : LENGTHS_KEPT;

	qsort(lengths->ticks, count, sizeof(*lengths->ticks), compare_lengths);
	return (double)lengths->ticks[count / 2];
}

/*
 * The doubt about the surplus, in ticks: it differs between functions, and the same is taken off the pieces of all.  A
 * function of which all calls had times once shows its own: there the CPU foresees what recorders do, and among calls
 * without times it does not.  The runs do not tell functions' surpluses apart, for in most the pieces of callers and
 * callees take turns.
 */
static double surplus_off(const struct weighing *weighing, double surplus)
{
	double least = INFINITY, most = -INFINITY;

	for (uint32_t i = 0; i <= weighing->functions; i++) {
		struct lengths *of = weighing->pieces[i] ? weighing->pieces[i]->lengths : NULL;
		double shown;

		if (!of || of[DENSE].seen < LENGTHS_LEAST || of[SPARSE].seen < LENGTHS_LEAST)
			continue;
		shown = middle_length(&of[SPARSE]) - middle_length(&of[DENSE]);
		least = fmin(least, shown);
		most = fmax(most, shown);
	}
	return most > least ? fmin((most - least) / 2, surplus) : 0;
}

/*
 * A piece between two times is longer than one between brief records: clocks are read, and by code that the CPU has not
 * foreseen.  That is about as much for each piece, long or short.  How much it is the runs tell, by their length.
 */
static void take_off_surplus(const struct weighing *weighing, struct weights *weights, const double *net)
{
	uint32_t count = 0;
	double surplus;

	for (uint32_t i = 0; i < weighing->run_count; i++) {
		struct brief_run *run = &weighing->runs[i];
		uint32_t with = run->pieces - 1; /* the run has one itself */
		double told = 0;

		for (uint32_t j = 0; j < run->parts; j++) {
			const struct run_part *part = &run->part[j];
			const bool is_net = part->function <= weighing->functions && net[part->function] > 0;

			told += part->pieces * (is_net ? net[part->function] : weight_of(weights, part->function));
			with -= is_net ? part->pieces : 0;
		}
		if (with && with < run->pieces) {
			run->surplus = (told - run->ticks) / with;
			swap_runs(run, &weighing->runs[count++]);
		}
	}
	surplus = fmax(usual_surplus(weighing->runs, count), 0);
	weights->surplus = surplus;
	weights->surplus_off = surplus_off(weighing, surplus);
	for (uint32_t i = 0; i <= weighing->functions; i++)
		if (weights->ticks[i] > 0)
			weights->ticks[i] = fmax(weights->ticks[i] - surplus, weights->ticks[i] / LEAST_LEFT);
		else
			weights->ticks[i] = net[i];
	weights->table.other = fmax(weights->table.other - surplus, weights->table.other / LEAST_LEFT);
}

int weighing_settle(struct weighing *weighing, struct weights *weights)
{
	double sum = 0, count = 0, rare_pieces = 0, *net = calloc((size_t)weighing->functions + 1, sizeof(*net));

	weights->ticks = calloc((size_t)weighing->functions + 1, sizeof(*weights->ticks));
	weights->rare = calloc((size_t)weighing->functions + 1, sizeof(*weights->rare));
	if (!weights->ticks || !weights->rare || !net) {
		free(net);
		return -ENOMEM;
	}
	for (uint32_t i = 0; i <= weighing->functions; i++) {
		if (!weighing->pieces[i])
			continue;
		weigh_octaves(weighing->pieces[i], weighing->untimed[i]);
		rare_pieces += settle_function(weighing->pieces[i]->octaves, weighing->longest_ticks,
					       &weights->ticks[i], &weights->rare[i], &sum, &count);
	}
	weights->rare_pieces = (uint64_t)(rare_pieces + 0.5);
	weights->table = (struct record_weights){.ticks = weights->ticks,
						 .rare = weights->rare,
						 .count = weighing->functions,
						 .other = count > 0 ? sum / count : 0};
	weigh_pairs(weighing, weights, net);
	take_off_surplus(weighing, weights, net);
	free(net);
	weights->ready = true;
	return 0;
}

void weighing_destroy(struct weighing *weighing)
{
	if (!weighing)
		return;
	for (uint32_t i = 0; weighing->running && i < weighing->threads; i++)
		free(weighing->running[i]);
	for (uint32_t i = 0; weighing->pieces && i <= weighing->functions; i++)
		free(weighing->pieces[i]);
	free(weighing->running);
	free(weighing->pieces);
	for (uint32_t i = 0; i < weighing->run_count; i++)
		free(weighing->runs[i].part);
	free(weighing->runs);
	free(weighing->pairs);
	free(weighing->in_run);
	free(weighing->untimed);
	free(weighing->in_times);
	free(weighing);
}
