/*
 * The choice of functions whose calls are brief (brief.h).
 *
 * Context: host.  The drainer calls brief_look() for a part of the sub-buffers (instance/peek.c), of all threads of the
 * target together, so it has to be fast.  The words are live memory of an untrusted process: any value is accepted.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <calltap/abi/control.h>
#include <calltap/abi/record.h>
#include <calltap/abi/times.h>
#include <host/sealed.h>
#include <host/target/clock.h>
#include <host/target/target.h>
#include <host/trace/memory.h>
#include <host/trace/writer.h>

#include "brief.h"
#include "late.h"
#include "ticker.h"

#define DEPTH	   512	/* open calls of a thread that are looked at */
#define FORGET	   8192 /* calls after which half of them count no more */
#define BACK_SHARE 25	/* one in so many, among the calls with times, is too many to stay so */
#define LINE_SHARE 64	/* the line of an emulated target's clock is not off by that share of a length of time */

/* Calls of a function whose entries and exits have times. */
struct tally {
	uint32_t calls, longer;
	uint32_t seen, ticked; /* of a brief function: all calls, and those that have met a tick */
};

struct brief {
	struct brief_options options;
	uint32_t set;	    /* of the further instance that it is of; 0: it has the file and the ticker */
	struct brief *base; /* whose they are; itself, if they are its own */
	struct brief *others[CALLTAP_INSTANCES]; /* of the base: those of further instances, by set */
	pthread_mutex_t rows_lock;		 /* of the base: the ticker's rows go to all at a time */
	struct calltap_file_late *rows;		 /* late ticks that are not taken yet (take_rows()) */
	size_t row_count, row_room;
	int rows_error;		     /* some are missing: there was no memory */
	struct calltap_times *times; /* shared with the targets, who only read it */
	int fd;			     /* of it; cannot write */
	struct ticker *ticker;
	pthread_mutex_t lock;	       /* of what is chosen and told: the drainer chooses while others set */
	struct tally *tallies;	       /* by function id */
	uint8_t *chosen;	       /* by function id, 1: it is brief unless `exact` */
	bool exact;		       /* no function is brief, whatever is chosen */
	uint64_t short_ns;	       /* a call that takes less is short */
	uint64_t short_ticks;	       /* the same, once the rate is known */
	double rate;		       /* ticks in a nanosecond of the clock that the records have, 0 = not known yet */
	const struct clock_line *line; /* by which the targets' clock is known, NULL: they are not emulated */
	uint32_t count;		       /* functions that are chosen */
	uint64_t changes;	       /* of what is brief, by durations */
	uint64_t told;		       /* the span that the file's TICKS chunks have, 0 = there is none */
	struct late *kept;	       /* of a flight recorder, else NULL */
	uint64_t kept_until;	       /* all rows from before are kept */
	const struct trace_memory *memory; /* that is told of them */
};

struct brief_calls {
	uint32_t depth;
	uint64_t latest; /* the last time that a record had */
	struct open_frame {
		struct began {
			uint32_t id;
			uint64_t ticks;	 /* of the entry; 0: it has no time */
			uint64_t before; /* the last time in front of it */
		} first, last; /* the function that was called, and the last one that was tail-called from there */
	} open[DEPTH];
};

/* What each has for itself. */
static int prepare(struct brief *brief, const struct brief_options *options)
{
	pthread_mutex_init(&brief->lock, NULL);
	brief->options = *options;
	brief->fd = -1;
	brief->tallies = calloc(CALLTAP_TIMES_FUNCTIONS, sizeof(*brief->tallies));
	brief->chosen = calloc(CALLTAP_TIMES_FUNCTIONS, sizeof(*brief->chosen));
	return brief->tallies && brief->chosen ? 0 : -ENOMEM;
}

static void set_rate(struct brief *brief, double rate)
{
	brief->rate = rate;
	__atomic_store_n(&brief->short_ticks, (uint64_t)((double)brief->short_ns * rate), __ATOMIC_RELAXED);
}

int brief_create_further(struct brief **out, struct brief *base, uint32_t set, uint64_t short_ns)
{
	struct brief *brief = calloc(1, sizeof(*brief));
	const struct brief_options options = {.every = base->options.every};

	*out = NULL;
	if (!brief)
		return -ENOMEM;
	if (prepare(brief, &options)) {
		brief_destroy(brief);
		return -ENOMEM;
	}
	brief->set = set;
	brief->base = base;
	brief->times = base->times;
	brief->ticker = base->ticker;
	brief->line = base->line;
	brief->short_ns = short_ns;
	set_rate(brief, base->rate);
	pthread_mutex_lock(&base->rows_lock);
	base->others[set] = brief;
	pthread_mutex_unlock(&base->rows_lock);
	*out = brief;
	return 0;
}

/* A further instance ends: nothing is brief for it any more, and no rows go to it. */
static void leave_base(struct brief *brief)
{
	pthread_mutex_lock(&brief->base->rows_lock);
	brief->base->others[brief->set] = NULL;
	pthread_mutex_unlock(&brief->base->rows_lock);
	brief_set_exact(brief, true);
}

static void free_base(struct brief *brief)
{
	ticker_stop(brief->ticker);
	if (brief->times)
		munmap(brief->times, sizeof(*brief->times));
	if (brief->fd >= 0)
		close(brief->fd);
	pthread_mutex_destroy(&brief->rows_lock);
}

int brief_create(struct brief **out, const struct brief_options *options)
{
	struct brief *brief = calloc(1, sizeof(*brief));
	void *memory = MAP_FAILED;
	char path[32];
	int fd = -1, ret = brief ? 0 : -ENOMEM;

	*out = NULL;
	if (ret)
		return ret;
	pthread_mutex_init(&brief->rows_lock, NULL);
	brief->base = brief;
	ret = prepare(brief, options);
	if (!ret)
		ret = sealed_create("calltap-times", sizeof(*brief->times), &fd, &memory);
	if (!ret) {
		brief->times = memory;
		brief->times->every = options->every;
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		brief->fd = open(path, O_RDONLY | O_CLOEXEC);
		ret = brief->fd < 0 ? -errno : 0;
		close(fd);
	}
	if (ret)
		brief_destroy(brief);
	else
		*out = brief;
	return ret;
}

void brief_destroy(struct brief *brief)
{
	if (!brief)
		return;
	if (brief->base == brief)
		free_base(brief);
	else if (brief->base)
		leave_base(brief);
	free(brief->rows);
	free(brief->tallies);
	free(brief->chosen);
	free(brief->kept);
	pthread_mutex_destroy(&brief->lock);
	free(brief);
}

int brief_keep(struct brief *brief, const struct trace_memory *memory)
{
	brief->kept = calloc(1, sizeof(*brief->kept));
	brief->memory = memory;
	return brief->kept ? 0 : -ENOMEM;
}

int brief_welcome(const struct brief *brief, struct target *target)
{
	struct calltap_msg_times message = {.head = {CALLTAP_MSG_TIMES, sizeof(message)}};

	message.size = sizeof(*brief->times);
	/* A forked child has the file, where its parent has had it from the beginning. */
	if (!brief || (target->row.start == CALLTAP_START_FORK && !brief->options.base_only))
		return 0;
	return channel_send(target->socket, &message, sizeof(message), &brief->fd, 1);
}

/* Tell the targets whether the function is brief. */
static void tell(struct brief *brief, uint32_t id)
{
	bool is_brief = brief->chosen[id] && !brief->exact;
	uint32_t bit = brief->set ? 1u << (brief->set - 1) : 0;

	if (!bit)
		__atomic_store_n(&brief->times->brief[id], is_brief, __ATOMIC_RELAXED);
	else if (is_brief)
		__atomic_fetch_or(&brief->times->further[id], bit, __ATOMIC_RELAXED);
	else
		__atomic_fetch_and(&brief->times->further[id], ~bit, __ATOMIC_RELAXED);
}

/* The span in ticks of the targets' clock; longer than the ticker's, where that clock's rate is an estimate. */
static uint64_t span_of(const struct brief *brief)
{
	double span = (double)ticker_span(brief->ticker) * brief->rate;

	if (!brief->line)
		return ticker_span(brief->ticker);
	/* The told span stays right while the rate changes by no more than one part in LINE_SHARE. */
	return span < (double)brief->told ? brief->told : (uint64_t)(span + span / LINE_SHARE) + 1;
}

static void set(struct brief *brief, uint32_t id, bool is_brief)
{
	pthread_mutex_lock(&brief->lock);
	brief->chosen[id] = is_brief;
	tell(brief, id);
	pthread_mutex_unlock(&brief->lock);
	brief->count += is_brief ? 1u : -1u;
	brief->tallies[id] = (struct tally){0};
}

static int compare_symbols(const void *symbol, const void *known)
{
	return strcmp(symbol, ((const struct record_known *)known)->symbol);
}

void brief_begin(struct brief *brief, uint32_t function, uint32_t bytes, const char *symbol)
{
	const struct record_known *known = NULL;

	if (!brief || brief->options.sampling || function >= CALLTAP_TIMES_FUNCTIONS)
		return;
	if (brief->options.known_count)
		known = bsearch(symbol, brief->options.known, brief->options.known_count, sizeof(*known),
				compare_symbols);
	if (known ? known->is_short : bytes && bytes <= brief->options.small)
		set(brief, function, true);
}

int brief_start(struct brief *brief, uint64_t short_ns, double rate, const struct clock_line *line,
		struct calltap_board *board)
{
	brief->short_ns = short_ns;
	brief->line = rate > 0 ? NULL : line;
	set_rate(brief, rate);
	return ticker_start(&brief->ticker, &brief->times->tick, brief->options.tick_ns, brief->line != NULL,
			    brief->options.sampling, brief->options.sampling ? NULL : board);
}

/* A call of the function took so long, and has both of its times. */
static void note(struct brief *brief, uint32_t id, uint64_t ticks)
{
	struct tally *tally;

	if (id >= CALLTAP_TIMES_FUNCTIONS || brief->rate <= 0)
		return;
	tally = &brief->tallies[id];
	tally->calls++;
	tally->longer += ticks >= __atomic_load_n(&brief->short_ticks, __ATOMIC_RELAXED);
	if (tally->calls < RECORD_SHORT_CALLS)
		return;
	if (!brief->chosen[id] && tally->longer * RECORD_SHORT_SHARE <= tally->calls) {
		set(brief, id, true);
		brief->changes++;
	} else if (brief->chosen[id] && tally->longer * BACK_SHARE > tally->calls) {
		set(brief, id, false);
		brief->changes++;
	} else if (tally->calls >= FORGET) {
		tally->calls /= 2;
		tally->longer /= 2;
	}
}

/*
 * A call of a brief function has ended.  ticked: a tick came while it was open.
 *
 * Calls that take a tenth of the time between two ticks meet one in a tenth of all cases.  So where more than one call
 * in BACK_SHARE meets one, calls take more than that part of a tick on average, and the function is no longer brief,
 * unless such calls count as short (half a span is a tick's time).
 * The samples alone, one call in some hundred, would say so late.
 */
static void note_tick(struct brief *brief, uint32_t id, bool ticked)
{
	struct tally *tally;

	if (id >= CALLTAP_TIMES_FUNCTIONS || !brief->chosen[id])
		return;
	tally = &brief->tallies[id];
	tally->seen++;
	tally->ticked += ticked;
	if (tally->seen < RECORD_SHORT_CALLS)
		return;
	if (tally->ticked * BACK_SHARE > tally->seen &&
	    tally->ticked * (span_of(brief) / 2) > tally->seen * brief->short_ticks) {
		set(brief, id, false);
		brief->changes++;
	} else if (tally->seen >= FORGET) {
		tally->seen /= 2;
		tally->ticked /= 2;
	}
}

static void enter(struct brief_calls *calls, uint32_t id, uint64_t ticks)
{
	if (calls->depth < DEPTH)
		calls->open[calls->depth] =
			(struct open_frame){.first = {id, ticks, calls->latest}, .last = {id, ticks, calls->latest}};
	calls->depth++;
}

/* The innermost function has tail-called another: both end with the frame. */
static void go_on(struct brief_calls *calls, uint32_t id, uint64_t ticks)
{
	if (calls->depth && calls->depth <= DEPTH)
		calls->open[calls->depth - 1].last = (struct began){id, ticks, calls->latest};
}

/*
 * Has a tick come while the call was open, whose entry has no time?  Its exit has one then, or a record of what it has
 * called has: the tick that was present at the entry has ended when more than its span has passed since the time in
 * front of that.
 */
static bool has_met_tick(const struct brief *brief, const struct brief_calls *calls, const struct began *began,
			 uint64_t ticks)
{
	if (began->ticks || (!ticks && calls->latest == began->before))
		return false;
	return ticks || (began->before && calls->latest - began->before > span_of(brief));
}

static void leave(struct brief *brief, struct brief_calls *calls, uint32_t id, uint64_t ticks)
{
	struct open_frame *frame;

	if (!calls->depth || --calls->depth >= DEPTH)
		return;
	frame = &calls->open[calls->depth];
	if (frame->last.id == id)
		note_tick(brief, id, has_met_tick(brief, calls, &frame->last, ticks));
	if (!ticks || frame->last.id != id)
		return;
	if (frame->last.ticks)
		note(brief, id, ticks - frame->last.ticks);
	if (frame->first.ticks && frame->first.id != id)
		note(brief, frame->first.id, ticks - frame->first.ticks);
}

static void look_at(struct brief *brief, struct brief_calls *calls, enum calltap_record_kind kind, uint32_t id,
		    uint64_t ticks)
{
	if (ticks && (kind == CALLTAP_REC_ENTRY || kind == CALLTAP_REC_EXIT))
		calls->latest = ticks;
	switch (kind) {
	case CALLTAP_REC_ENTRY:
		enter(calls, id, ticks);
		break;
	case CALLTAP_REC_EXIT:
		leave(brief, calls, id, ticks);
		break;
	case CALLTAP_REC_TAIL:
		go_on(calls, id, ticks);
		break;
	case CALLTAP_REC_UNWIND:
		calls->depth -= id < calls->depth ? id : calls->depth;
		break;
	case CALLTAP_REC_LOST:
	case CALLTAP_REC_STACK:
		calls->depth = 0;
		break;
	default:
		break;
	}
}

static void look_at_half(struct brief *brief, struct brief_calls *calls, uint32_t half)
{
	if (calltap_record_is_brief(half) && half != CALLTAP_RECORD_PAD)
		look_at(brief, calls, calltap_record_brief_kind(half), calltap_record_brief_id(half), 0);
}

void brief_look(struct brief *brief, struct brief_calls **held, const uint64_t *words, size_t count, uint64_t ticks)
{
	struct brief_calls *calls = *held ? *held : calloc(1, sizeof(**held));
	uint64_t high = ticks >> 32 << 32;

	*held = calls;
	for (size_t i = 0; calls && i < count;) {
		uint64_t word = __atomic_load_n(&words[i], __ATOMIC_RELAXED);
		unsigned kind = calltap_record_kind(word);

		if (calltap_record_has_brief(word)) {
			look_at_half(brief, calls, (uint32_t)word);
			look_at_half(brief, calls, (uint32_t)(word >> 32));
			i++;
			continue;
		}
		look_at(brief, calls, (enum calltap_record_kind)kind, calltap_record_id(word), high | (uint32_t)word);
		if (kind == CALLTAP_REC_TIME && i + 1 < count)
			high = __atomic_load_n(&words[i + 1], __ATOMIC_RELAXED) >> 32 << 32;
		i += calltap_record_words(word);
	}
}

void brief_skip(struct brief_calls *calls)
{
	if (calls)
		calls->depth = 0;
}

/*
 * A row of an emulated target's: from nanoseconds to ticks of its clock.  It becomes longer on either side, by the span
 * and by a share of how far its end is from the last time that an agent has told: the line is not off by that much.
 */
static void convert(const struct brief *brief, struct calltap_file_late *row, uint64_t span)
{
	uint64_t beyond_ns = row->to > brief->line->last_ns ? row->to - brief->line->last_ns : 0,
		 off = span + (uint64_t)((double)beyond_ns * brief->rate / LINE_SHARE),
		 from = clock_line_ticks(brief->line, row->from), to = clock_line_ticks(brief->line, row->to);

	row->from = from > off ? from - off : 0;
	row->to = to < UINT64_MAX - off ? to + off : UINT64_MAX;
}

static int write_chunk(struct trace_writer *writer, uint64_t span, const struct calltap_file_late *rows, size_t count)
{
	struct calltap_file_ticks head = {.span = span, .count = (uint32_t)count};
	unsigned char *chunk = malloc(sizeof(head) + count * sizeof(*rows));
	int ret;

	if (!chunk)
		return -ENOMEM;
	memcpy(chunk, &head, sizeof(head));
	if (count)
		memcpy(chunk + sizeof(head), rows, count * sizeof(*rows));
	ret = trace_writer_chunk(writer, CALLTAP_CHUNK_TICKS, chunk, sizeof(head) + count * sizeof(*rows));
	free(chunk);
	return ret;
}

static void add_rows(struct brief *brief, const struct calltap_file_late *rows, size_t count, int error)
{
	brief->rows_error = brief->rows_error ? brief->rows_error : error;
	if (brief->row_count + count > brief->row_room) {
		size_t room = 2 * (brief->row_count + count);
		struct calltap_file_late *more = reallocarray(brief->rows, room, sizeof(*more));

		if (!more) {
			brief->rows_error = -ENOMEM;
			return;
		}
		brief->rows = more;
		brief->row_room = room;
	}
	if (count)
		memcpy(brief->rows + brief->row_count, rows, count * sizeof(*rows));
	brief->row_count += count;
}

/*
 * Take the late ticks that are new for this one, as by ticker_take().  The ticker has each row once, so whoever asks
 * hands them out to all.  One lock for both steps: else another one could be told of a later moment before it has the
 * rows from before.
 */
static struct calltap_file_late *take_rows(struct brief *brief, size_t *count, uint64_t *until, int *error)
{
	struct brief *base = brief->base;
	struct calltap_file_late *rows;
	size_t new_count;
	int ret;

	pthread_mutex_lock(&base->rows_lock);
	rows = ticker_take(base->ticker, &new_count, until, &ret);
	if (!base->options.base_only)
		add_rows(base, rows, new_count, ret);
	for (uint32_t i = 1; i < CALLTAP_INSTANCES; i++)
		if (base->others[i])
			add_rows(base->others[i], rows, new_count, ret);
	free(rows);
	rows = brief->rows;
	*count = brief->row_count;
	*error = brief->rows_error;
	brief->rows = NULL;
	brief->row_count = brief->row_room = 0;
	pthread_mutex_unlock(&base->rows_lock);
	return rows;
}

void brief_tell(struct brief *brief)
{
	const struct calltap_file_late lost = {brief->kept_until, UINT64_MAX};
	struct calltap_file_late *rows;
	uint64_t until;
	size_t count;
	int error;

	rows = take_rows(brief, &count, &until, &error);
	if (error) /* rows are missing, and may from now on */
		late_add(brief->kept, &lost);
	for (size_t i = 0; i < count; i++)
		late_add(brief->kept, &rows[i]);
	if (!error) {
		trace_memory_tell(brief->memory, ticker_span(brief->ticker), rows, count, until);
		brief->kept_until = until;
	}
	free(rows);
}

int brief_write_kept(struct brief *brief, struct trace_writer *writer)
{
	brief_tell(brief);
	return write_chunk(writer, ticker_span(brief->ticker), brief->kept->rows, brief->kept->count);
}

/* Write a TICKS chunk to the session's own file, with the late ticks that it does not have yet. */
static int write_new(struct brief *brief, struct trace_writer *writer)
{
	struct late *kept = brief->kept;
	uint32_t written;
	int ret;

	brief_tell(brief);
	written = kept->written;
	if (brief->told && written == kept->count)
		return 0;
	ret = write_chunk(writer, ticker_span(brief->ticker), kept->rows + written, kept->count - written);
	if (!ret) {
		kept->written = kept->count;
		brief->told = ticker_span(brief->ticker);
	}
	return ret;
}

int brief_write(struct brief *brief, struct trace_writer *writer)
{
	struct calltap_file_late *rows;
	uint64_t span, until;
	size_t count;
	int ret;

	if (brief->options.sampling)
		return 0;
	if (brief->kept)
		return write_new(brief, writer);
	if (brief->line)
		set_rate(brief, clock_line_rate(brief->line));
	if (brief->rate <= 0)
		return 0; /* rows wait, and the file says nothing of what the times are bounded by */
	span = span_of(brief);
	rows = take_rows(brief, &count, &until, &ret);
	if (ret || (brief->told == span && !count)) {
		free(rows);
		return ret;
	}
	for (size_t i = 0; brief->line && i < count; i++)
		convert(brief, &rows[i], span);
	ret = write_chunk(writer, span, rows, count);
	if (ret != -ENOMEM)
		brief->told = span;
	free(rows);
	return ret;
}

void brief_set_exact(struct brief *brief, bool exact)
{
	pthread_mutex_lock(&brief->lock);
	brief->exact = exact;
	for (uint32_t id = 0; id < CALLTAP_TIMES_FUNCTIONS; id++)
		if (brief->chosen[id])
			tell(brief, id);
	pthread_mutex_unlock(&brief->lock);
}

void brief_set_short(struct brief *brief, uint64_t short_ns)
{
	brief->short_ns = short_ns;
	set_rate(brief, brief->rate);
}

void brief_set_every(struct brief *brief, uint32_t every)
{
	__atomic_store_n(&brief->times->every, every, __ATOMIC_RELAXED);
}

void brief_look_awake(struct brief *brief)
{
	ticker_look(brief->ticker);
}

struct ticker_stays brief_stays(const struct brief *brief)
{
	return ticker_stays(brief->ticker);
}

uint64_t brief_changes(const struct brief *brief)
{
	return brief->changes;
}

uint32_t brief_further(const struct brief *brief, uint32_t function)
{
	return __atomic_load_n(&brief->times->further[function], __ATOMIC_RELAXED);
}

uint32_t brief_count(const struct brief *brief)
{
	return brief && !brief->exact ? brief->count : 0;
}
