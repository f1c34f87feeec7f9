/*
 * The columns of a DATA chunk back to records (decode.h).  Context: host.
 */
#include <errno.h>
#include <string.h>

#include <calltap/abi/file.h>
#include <calltap/abi/record.h>

#include "decode.h"

#define LATE_MAX 16 /* times behind a run of brief records that are looked at */

uint64_t record_payload_size(const struct calltap_file_data *data)
{
	return sizeof(*data) + (uint64_t)data->count * sizeof(uint32_t) + data->times_size + data->extras_size;
}

int record_decoder_init(struct record_decoder *decoder, const void *payload, size_t size)
{
	struct calltap_file_data data;
	const unsigned char *bytes = payload;

	memset(decoder, 0, sizeof(*decoder));
	if (size < sizeof(data))
		return -EBADMSG;
	memcpy(&data, payload, sizeof(data));
	if (record_payload_size(&data) != size)
		return -EBADMSG;
	decoder->head = bytes + sizeof(data);
	decoder->time = decoder->head + (size_t)data.count * sizeof(uint32_t);
	decoder->time_end = decoder->time + data.times_size;
	decoder->extra = decoder->time_end;
	decoder->extra_end = decoder->extra + data.extras_size;
	decoder->left = data.count;
	decoder->ticks = data.base_ticks;
	return 0;
}

void record_decoder_bound(struct record_decoder *decoder, const struct record_limits *limits, uint64_t next_ticks)
{
	decoder->limits = limits;
	decoder->next_ticks = next_ticks;
}

/* The place behind a time of the column, which `ticks` is brought to from the time before it; NULL: there is none. */
static inline const unsigned char *read_time(const unsigned char *time, const unsigned char *end, uint64_t *ticks)
{
	unsigned shift = 0;
	uint64_t zigzag = 0;

	do {
		if (time == end || shift > 63)
			return NULL;
		zigzag |= (uint64_t)(*time & 0x7f) << shift;
		shift += 7;
	} while (*time++ & 0x80);
	*ticks += zigzag >> 1 ^ -(zigzag & 1);
	return time;
}

/* The first row that does not end before a time; late_count: there is none. */
static uint32_t late_row(const struct record_limits *limits, uint64_t ticks)
{
	uint32_t first = 0, end = limits->late_count;

	while (first < end) {
		uint32_t middle = first + (end - first) / 2;

		if (limits->late[middle].to < ticks)
			first = middle + 1;
		else
			end = middle;
	}
	return first;
}

/* The `to` of the row that the decoder's time is in; 0 = it is in none. */
static uint64_t late_until(struct record_decoder *decoder)
{
	const struct record_limits *limits = decoder->limits;
	const struct calltap_file_late *late = limits->late;
	const uint64_t ticks = decoder->ticks;
	uint32_t at = decoder->late_at;

	/* Mostly it is the row of the time before.  A trace that grows gets more rows. */
	if (at > limits->late_count || (at && late[at - 1].to >= ticks) ||
	    (at < limits->late_count && late[at].to < ticks))
		at = decoder->late_at = late_row(limits, ticks);
	return at < limits->late_count && late[at].from <= ticks ? late[at].to : 0;
}

/* The latest time that the next brief record can have, by what the trace says of all threads; UINT64_MAX = not known.
 */
static uint64_t latest_by_limits(struct record_decoder *decoder)
{
	const struct record_limits *limits = decoder->limits;
	uint64_t ticks = decoder->ticks, hi = UINT64_MAX, until;

	if (!limits)
		return hi;
	if (ticks < UINT64_MAX - limits->span) {
		hi = ticks + limits->span;
		until = late_until(decoder);
		hi = hi > until ? hi : until;
	}
	/* An end that is no later makes no sense. */
	return hi > limits->end_ticks && limits->end_ticks > ticks ? limits->end_ticks : hi;
}

/*
 * Find the first time behind a run of brief records that is not earlier than the one in front of it.  A signal
 * handler's records come before the older one of the probe that it interrupted, so times may have to be passed over.
 */
static bool find_time_behind(const struct record_decoder *decoder, uint64_t *ticks)
{
	const unsigned char *time = decoder->time;

	*ticks = decoder->ticks;
	for (unsigned i = 0; i < LATE_MAX; i++) {
		time = read_time(time, decoder->time_end, ticks);
		if (!time)
			break;
		if (*ticks >= decoder->ticks)
			return true;
	}
	/* A chunk that goes on with the run has the time in front of it as its base. */
	*ticks = decoder->next_ticks;
	return decoder->next_ticks > decoder->ticks;
}

void record_decoder_weigh(struct record_decoder *decoder, const struct record_weights *weights,
			  struct record_placing *placing)
{
	decoder->weights = weights;
	decoder->placing = placing;
}

void record_open_follow(struct record_open *open, unsigned kind, uint32_t id)
{
	switch (kind) {
	case CALLTAP_REC_ENTRY:
		if (open->depth < RECORD_OPEN_MAX)
			open->ids[open->depth] = id;
		open->depth++;
		break;
	case CALLTAP_REC_EXIT:
		open->depth -= open->depth > 0;
		break;
	case CALLTAP_REC_UNWIND:
		open->depth -= id < open->depth ? id : open->depth;
		break;
	case CALLTAP_REC_TAIL:
		if (open->depth && open->depth <= RECORD_OPEN_MAX)
			open->ids[open->depth - 1] = id;
		break;
	case CALLTAP_REC_STACK:
		open->depth = 0;
		break;
	default:
		break;
	}
}

struct weight {
	double ticks, rare;
};

static inline struct weight weight_now(const struct record_weights *weights, const struct record_open *open)
{
	const uint32_t id = record_open_innermost(open, weights->count);

	if (id > weights->count || weights->ticks[id] <= 0)
		return (struct weight){.ticks = weights->other};
	return (struct weight){weights->ticks[id], weights->rare ? weights->rare[id] : 0};
}

#define STRETCH_MAX 2.0 /* times that records are farther apart than the weights say; what is left comes last */
#define NOISE	    8	/* usual pieces are off by one part in so many, beside rare ones */

/*
 * Scale the weights so that the run's records fill the time between its bounds.  If there is more time than the weights
 * say, rare long pieces get most of the rest.  If the thread may have waited, all grow up to a limit alone.
 */
static void settle_run(struct record_run *run, struct weight sum)
{
	double width = (double)(run->hi - run->lo), more = width - sum.ticks, share;

	run->unit = run->rare_unit = run->off = 0;
	if (sum.ticks > 0)
		run->unit = more < 0 ? width / sum.ticks : 1;
	if (sum.ticks <= 0)
		return;
	run->loose = 0;
	if (more <= 0)
		return;
	if (!run->waits) {
		run->rare_unit = more / (sum.ticks / NOISE + sum.rare);
		run->unit += run->rare_unit / NOISE;
		run->loose = (uint64_t)more;
		return;
	}
	share = more / (sum.ticks * (STRETCH_MAX - 1) + sum.rare);
	share = share < 1 ? share : 1;
	run->unit += share * (STRETCH_MAX - 1);
	run->rare_unit = share;
	run->loose = (uint64_t)(share * (sum.ticks * (STRETCH_MAX - 1) + sum.rare));
}

/* The weights of what ran in front of each of these records, and in `open` what is open behind them. */
static void follow_run(const struct record_weights *weights, struct record_open *open, const unsigned char *head,
		       uint32_t count, struct weight *of)
{
	uint32_t word;

	for (uint32_t i = 0; i < count; i++, head += sizeof(word)) {
		memcpy(&word, head, sizeof(word));
		of[i] = weight_now(weights, open);
		record_open_follow_brief(open, word);
	}
}

/* Place the next records of the run, one behind the other. */
static void place_records(struct record_decoder *decoder, const struct weight *of, uint32_t count)
{
	struct record_run *run = &decoder->run;
	const double width = (double)(run->hi - run->lo);
	uint64_t *ticks = decoder->placing->ticks;
	double off = run->off;

	for (uint32_t i = 0; i < count; i++) {
		off += of[i].ticks * run->unit + of[i].rare * run->rare_unit;
		ticks[i] = off < width ? run->lo + (uint64_t)off : run->hi;
	}
	run->off = off;
	run->first = run->placed;
	run->placed += count;
}

static void sum_up(struct weight *sum, const struct weight *of, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		sum->ticks += of[i].ticks;
		sum->rare += of[i].rare;
	}
}

/* Place as many of the next records of a long run, whose weights are settled, as there is room for. */
static void place_more(struct record_decoder *decoder)
{
	struct weight of[RECORD_PLACES];
	const uint32_t left = decoder->run.count - decoder->run.placed;
	const uint32_t count = left < RECORD_PLACES ? left : RECORD_PLACES;

	follow_run(decoder->weights, &decoder->placing->open, decoder->head, count, of);
	place_records(decoder, of, count);
}

/* Look ahead at all records of the run, and place the first ones. */
static void weigh_run(struct record_decoder *decoder)
{
	struct record_run *run = &decoder->run;
	const struct record_open *now = &decoder->placing->open;
	struct weight of[RECORD_PLACES], last, sum = {0, 0};
	struct record_open open; /* of which as much is filled in as is in use */

	if (run->count <= RECORD_PLACES) {
		follow_run(decoder->weights, &decoder->placing->open, decoder->head, run->count, of);
		sum_up(&sum, of, run->count);
		last = weight_now(decoder->weights, now);
		sum_up(&sum, &last, 1);
		settle_run(run, sum);
		place_records(decoder, of, run->count);
		return;
	}
	open.depth = now->depth;
	memcpy(open.ids, now->ids, (open.depth < RECORD_OPEN_MAX ? open.depth : RECORD_OPEN_MAX) * sizeof(*open.ids));
	for (uint32_t at = 0, count; at < run->count; at += count) {
		count = run->count - at < RECORD_PLACES ? run->count - at : RECORD_PLACES;
		follow_run(decoder->weights, &open, decoder->head + at * sizeof(uint32_t), count, of);
		sum_up(&sum, of, count);
	}
	last = weight_now(decoder->weights, &open);
	sum_up(&sum, &last, 1);
	settle_run(run, sum);
	place_more(decoder);
}

/* A brief record begins a run: find its length, and the times that it lies between. */
static void begin_run(struct record_decoder *decoder)
{
	const unsigned char *head = decoder->head;
	struct record_run *run = &decoder->run;
	uint32_t word = 0;
	uint64_t next;
	bool bounded = find_time_behind(decoder, &next);

	*run = (struct record_run){
		.lo = decoder->ticks, .hi = latest_by_limits(decoder), .waits = true, .loose = UINT64_MAX};
	for (; run->count < decoder->left; run->count++, head += sizeof(word)) {
		memcpy(&word, head, sizeof(word));
		if (!calltap_record_is_brief(word))
			break;
	}
	if (bounded && next < run->hi) {
		run->waits = run->hi == UINT64_MAX;
		run->hi = next;
	}
	/* Without a time behind it the run may go on in the next chunk, and has to stay in front of times there. */
	run->spreads = run->hi != UINT64_MAX && (bounded || (run->count == decoder->left && !decoder->next_ticks));
	if (decoder->weights && run->spreads)
		weigh_run(decoder);
}

/* The place of a record of the run, the first one being 1, at equal distances. */
static uint64_t spread_ticks(const struct record_run *run, uint32_t at)
{
	const uint64_t width = run->hi - run->lo, parts = (uint64_t)run->count + 1;

	if (!run->spreads)
		return run->lo;
	return run->lo + (width <= UINT32_MAX ? width * at / parts : width / parts * at);
}

/* The run's next record, at an equal distance from the ones beside it. */
static void take_spread(struct record_decoder *decoder, struct record *record)
{
	record_decoder_hand_out(decoder, spread_ticks(&decoder->run, decoder->run.at + 1), record);
	if (decoder->weights)
		record_open_follow(&decoder->placing->open, record->kind, record->id);
}

static void take_brief(struct record_decoder *decoder, struct record *record)
{
	struct record_run *run = &decoder->run;

	if (run->at == run->count)
		begin_run(decoder);
	else if (run->at == run->placed && run->placed)
		place_more(decoder);
	if (record_decoder_has_placed(decoder))
		record_decoder_take(decoder, record);
	else
		take_spread(decoder, record);
}

bool record_decoder_pass(struct record_decoder *decoder, struct record_passed *passed)
{
	struct record_run *run = &decoder->run;
	uint32_t head;

	if (!decoder->left)
		return false;
	memcpy(&head, decoder->head, sizeof(head));
	if (!calltap_record_is_brief(head))
		return false;
	if (run->at == run->count)
		begin_run(decoder);
	*passed = (struct record_passed){decoder->head, run->count - run->at, spread_ticks(run, run->count)};
	run->at = run->count;
	decoder->head += passed->count * sizeof(head);
	decoder->left -= passed->count;
	return true;
}

int record_decoder_next(struct record_decoder *decoder, struct record *record)
{
	const unsigned char *time;
	uint64_t extra = 0;
	unsigned kind, words;
	uint32_t head;
	size_t size;

	if (!decoder->left)
		return 0;
	memcpy(&head, decoder->head, sizeof(head));
	kind = head >> CALLTAP_RECORD_ID_BITS;
	if (!calltap_record_is_filed(kind) ||
	    (kind == CALLTAP_REC_EVENT && !calltap_event_words(head & CALLTAP_RECORD_ID_MAX)))
		return -EBADMSG;
	if (calltap_record_is_brief(head)) {
		take_brief(decoder, record);
		return 1;
	}
	time = read_time(decoder->time, decoder->time_end, &decoder->ticks);
	if (!time)
		return -EBADMSG;
	decoder->time = time;
	words = calltap_record_words((uint64_t)head << 32);
	size = (words - 1) * sizeof(extra);
	if ((size_t)(decoder->extra_end - decoder->extra) < size)
		return -EBADMSG;
	if (words == 2)
		memcpy(&extra, decoder->extra, sizeof(extra));
	if (decoder->weights)
		record_open_follow(&decoder->placing->open, kind, head & CALLTAP_RECORD_ID_MAX);
	decoder->head += sizeof(head);
	decoder->left--;
	*record = (struct record){.ticks = decoder->ticks,
				  .lo = decoder->ticks,
				  .hi = decoder->ticks,
				  .extra = extra,
				  .behind = decoder->extra,
				  .id = head & CALLTAP_RECORD_ID_MAX,
				  .kind = (uint8_t)kind};
	decoder->extra += size;
	return 1;
}
