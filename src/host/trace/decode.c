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

/* The place behind the next time of the column, and that time; NULL: there is none. */
static const unsigned char *peek_time(const struct record_decoder *decoder, uint64_t *ticks)
{
	const unsigned char *time = decoder->time;
	unsigned shift = 0;
	uint64_t zigzag = 0;

	do {
		if (time == decoder->time_end || shift > 63)
			return NULL;
		zigzag |= (uint64_t)(*time & 0x7f) << shift;
		shift += 7;
	} while (*time++ & 0x80);
	*ticks = decoder->ticks + (zigzag >> 1 ^ -(zigzag & 1));
	return time;
}

/* The `to` of the row that a time is in; 0 = it is in none. */
static uint64_t late_until(const struct record_limits *limits, uint64_t ticks)
{
	uint32_t first = 0, end = limits->late_count;

	while (first < end) {
		uint32_t middle = first + (end - first) / 2;

		if (limits->late[middle].to < ticks)
			first = middle + 1;
		else
			end = middle;
	}
	return first < limits->late_count && limits->late[first].from <= ticks ? limits->late[first].to : 0;
}

/* The latest time that the next brief record can have, by what the trace says of all threads; UINT64_MAX = not known.
 */
static uint64_t latest_by_limits(const struct record_decoder *decoder)
{
	const struct record_limits *limits = decoder->limits;
	uint64_t ticks = decoder->ticks, hi = UINT64_MAX, until;

	if (!limits)
		return hi;
	if (ticks < UINT64_MAX - limits->span) {
		hi = ticks + limits->span;
		until = late_until(limits, ticks);
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
	struct record_decoder ahead = *decoder;

	for (unsigned i = 0; i < LATE_MAX; i++) {
		ahead.time = peek_time(&ahead, &ahead.ticks);
		if (!ahead.time)
			break;
		*ticks = ahead.ticks;
		if (ahead.ticks >= decoder->ticks)
			return true;
	}
	/* A chunk that goes on with the run has the time in front of it as its base. */
	*ticks = decoder->next_ticks;
	return decoder->next_ticks > decoder->ticks;
}

void record_decoder_weigh(struct record_decoder *decoder, const struct record_weights *weights,
			  struct record_open *open)
{
	decoder->weights = weights;
	decoder->open = open;
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

static struct weight weight_now(const struct record_weights *weights, const struct record_open *open)
{
	const uint32_t id = record_open_innermost(open, weights->count);

	if (id > weights->count || weights->ticks[id] <= 0)
		return (struct weight){.ticks = weights->other};
	return (struct weight){weights->ticks[id], weights->rare ? weights->rare[id] : 0};
}

static void add_weight(struct weight *sum, struct weight weight)
{
	sum->ticks += weight.ticks;
	sum->rare += weight.rare;
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

/* Look ahead at all records of the run. */
static void weigh_run(struct record_decoder *decoder)
{
	struct record_run *run = &decoder->run;
	struct record_open open; /* of which as much is filled in as is in use */
	const unsigned char *head = decoder->head;
	struct weight sum = {0, 0};
	uint32_t word;

	open.depth = decoder->open->depth;
	memcpy(open.ids, decoder->open->ids,
	       (open.depth < RECORD_OPEN_MAX ? open.depth : RECORD_OPEN_MAX) * sizeof(*open.ids));
	for (uint32_t i = 0; i < run->count; i++, head += sizeof(word)) {
		memcpy(&word, head, sizeof(word));
		add_weight(&sum, weight_now(decoder->weights, &open));
		record_open_follow(&open, calltap_record_brief_kind(word), calltap_record_brief_id(word));
	}
	add_weight(&sum, weight_now(decoder->weights, &open));
	settle_run(run, sum);
}

/* The place of the run's next record, in front of which the innermost function ran for a while. */
static uint64_t weighed_ticks(struct record_decoder *decoder)
{
	struct record_run *run = &decoder->run;
	struct weight weight = weight_now(decoder->weights, decoder->open);

	run->off += weight.ticks * run->unit + weight.rare * run->rare_unit;
	return run->off < (double)(run->hi - run->lo) ? run->lo + (uint64_t)run->off : run->hi;
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

/* The run's next record, at an equal distance from the ones beside it. */
static void take_brief(struct record_decoder *decoder, uint32_t head, struct record *record)
{
	struct record_run *run = &decoder->run;
	uint64_t width, parts, ticks;

	if (run->at == run->count)
		begin_run(decoder);
	run->at++;
	parts = (uint64_t)run->count + 1;
	width = run->hi - run->lo;
	ticks = run->lo;
	if (run->spreads && decoder->weights)
		ticks = weighed_ticks(decoder);
	else if (run->spreads)
		ticks += width <= UINT32_MAX ? width * run->at / parts : width / parts * run->at;
	*record = (struct record){.ticks = ticks,
				  .lo = run->lo,
				  .hi = run->hi,
				  .loose = run->loose,
				  .behind = decoder->extra,
				  .id = calltap_record_brief_id(head),
				  .brief = true,
				  .leaf = calltap_record_brief_leaf(head),
				  .kind = (uint8_t)calltap_record_brief_kind(head)};
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
		take_brief(decoder, head, record);
		if (decoder->weights)
			record_open_follow(decoder->open, record->kind, record->id);
		decoder->head += sizeof(head);
		decoder->left--;
		return 1;
	}
	time = peek_time(decoder, &decoder->ticks);
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
		record_open_follow(decoder->open, kind, head & CALLTAP_RECORD_ID_MAX);
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
