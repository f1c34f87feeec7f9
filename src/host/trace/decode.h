/*
 * The columns of a DATA chunk back to records: the inverse of record_encode().
 *
 * Callers: cursor.c and follow.c, with one decoder per thread of the trace.  Context: host.  The payload is untrusted;
 * the decoder never reads past it.
 */
#ifndef HOST_TRACE_DECODE_H
#define HOST_TRACE_DECODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <calltap/abi/record.h>

struct calltap_file_late;

/* What is known of the times of brief records from outside of their thread (abi/file.h). */
struct record_limits {
	uint64_t span;			      /* UINT64_MAX = not known */
	const struct calltap_file_late *late; /* in order, and apart from each other */
	uint32_t late_count;
	uint64_t end_ticks; /* all records of the trace are older; UINT64_MAX = not known */
};

/*
 * How long it takes from one record to the next, by the function that is innermost meanwhile: for the places of brief
 * records between two times.
 */
struct record_weights {
	/* Weights by function; the last one, at `count`, is for records outside of all functions. */
	const double *ticks; /* mostly; 0 = not known */
	const double *rare;  /* what the few that are far longer come to, for each; NULL = nothing */
	uint32_t count;
	double other; /* of functions for which it is not known */
};

#define RECORD_OPEN_MAX 1024 /* open calls that are known by their functions */
/* The functions that are open in a thread. */
struct record_open {
	uint32_t ids[RECORD_OPEN_MAX + 1]; /* the last one is room for what is not kept */
	uint32_t depth;			   /* may be more than there is room for */
};

/* The innermost of them, below `outside`; `outside` = there is none; UINT32_MAX = it is not known. */
static inline uint32_t record_open_innermost(const struct record_open *open, uint32_t outside)
{
	uint32_t id;

	if (!open->depth)
		return outside;
	id = open->depth <= RECORD_OPEN_MAX ? open->ids[open->depth - 1] : UINT32_MAX;
	return id < outside ? id : UINT32_MAX;
}

/* A record of this kind and id follows: which calls are open then, roughly, as it is for weights alone. */
void record_open_follow(struct record_open *open, unsigned kind, uint32_t id);

/* As record_open_follow(), for the head of a brief record.  The CPU cannot foresee entries and exits: so no branch
 * tells them apart. */
static inline void record_open_follow_brief(struct record_open *open, uint32_t head)
{
	const bool entry = head >> CALLTAP_RECORD_ID_BITS == CALLTAP_REC_BRIEF_ENTRY;

	if (entry && head & CALLTAP_BRIEF_TAIL) {
		record_open_follow(open, CALLTAP_REC_TAIL, calltap_record_brief_id(head));
		return;
	}
	/* An exit writes above the open calls. */
	open->ids[open->depth < RECORD_OPEN_MAX ? open->depth : RECORD_OPEN_MAX] = calltap_record_brief_id(head);
	open->depth += entry ? 1 : -(uint32_t)(open->depth > 0);
}

#define RECORD_PLACES 256 /* records of a run that are placed in one go */
/* With weights: what a thread's decoder keeps from one chunk to the next, zero at first. */
struct record_placing {
	/* Behind the last record read, or behind the last one whose place is known. */
	struct record_open open;
	uint64_t ticks[RECORD_PLACES]; /* the places of records of the run at hand */
};

/* Brief records side by side, which lie between two times. */
struct record_run {
	uint32_t count, at; /* at: how many of them were read */
	uint64_t lo, hi;
	double unit, rare_unit; /* with weights: ticks of the run for a tick of `ticks`, and of `rare` */
	double off;		/* with weights: of the last record placed, from lo */
	uint32_t first, placed; /* with weights: the places of the records from first to placed - 1 are known */
	bool spreads;		/* the records are shown at equal distances from lo to hi, else all at lo */
	uint64_t loose; /* of the ticks from lo to hi, so many were shared out beyond `ticks`; UINT64_MAX = not known */
	bool waits;	/* hi is no time of a record: the thread may have waited behind the run's last one */
};

struct record_decoder {
	const unsigned char *head, *time, *time_end, *extra, *extra_end; /* into the payload */
	uint32_t left;							 /* records to come */
	uint64_t ticks;
	const struct record_limits *limits; /* NULL = none are known */
	uint32_t late_at;		    /* where a row of the limits was looked for last */
	uint64_t next_ticks;		    /* as record_decoder_bound() was told */
	struct record_run run;
	const struct record_weights *weights; /* NULL: records are shown at equal distances */
	struct record_placing *placing;	      /* with weights */
};

struct record {
	uint64_t ticks;		     /* of a brief record: an estimate */
	uint64_t lo, hi;	     /* the true time is not outside of these; both are `ticks` where it is known */
	uint64_t extra;		     /* the second word of a record of two words, else 0 */
	const unsigned char *behind; /* the words behind the record's head, 8 bytes each, in the payload */
	uint32_t id;
	uint8_t kind;	  /* brief records are ENTRY and EXIT here */
	bool brief, leaf; /* leaf: the ENTRY of a call without a frame */
	uint64_t loose;	  /* of a brief record: its run's */
};

struct calltap_file_data;

/* The payload's size by the fields of its head. */
uint64_t record_payload_size(const struct calltap_file_data *data);
/* Begin with a DATA payload, decompressed, which must outlive the decoder; -EBADMSG when its sizes do not fit. */
int record_decoder_init(struct record_decoder *decoder, const void *payload, size_t size)
	__attribute__((warn_unused_result));
/*
 * Tell what bounds brief records of this payload: `limits` (NULL = nothing is known) has to outlive the decoder, and
 * next_ticks is the base of the thread's next chunk, 0 = there is none, RECORD_NEXT_OPEN = there may be one.
 */
#define RECORD_NEXT_OPEN 1
void record_decoder_bound(struct record_decoder *decoder, const struct record_limits *limits, uint64_t next_ticks);
/* Place brief records by weights; both have to outlive the decoder. */
void record_decoder_weigh(struct record_decoder *decoder, const struct record_weights *weights,
			  struct record_placing *placing);
/* 1 and *record, 0 at the end, -EBADMSG: the rest of the chunk makes no sense. */
int record_decoder_next(struct record_decoder *decoder, struct record *record) __attribute__((warn_unused_result));

/* A run of brief records as a whole. */
struct record_passed {
	const unsigned char *heads; /* in the payload, 4 bytes each */
	uint32_t count;
	uint64_t ticks; /* where the last one is shown */
};
/* Without weights: pass over the brief records that come next.  False: the next record is none, or there is none. */
bool record_decoder_pass(struct record_decoder *decoder, struct record_passed *passed);

/*
 * For who reads millions of records: true if the next one is a brief one whose place is known.  Then the place may be
 * looked at, and record_decoder_take() does what record_decoder_next() would do.
 */
static inline bool record_decoder_has_placed(const struct record_decoder *decoder)
{
	return decoder->run.at < decoder->run.placed;
}

static inline uint64_t record_decoder_placed_ticks(const struct record_decoder *decoder)
{
	return decoder->placing->ticks[decoder->run.at - decoder->run.first];
}

/* Hand out the brief record that comes next, which is shown at ticks. */
static inline void record_decoder_hand_out(struct record_decoder *decoder, uint64_t ticks, struct record *record)
{
	struct record_run *run = &decoder->run;
	uint32_t head;

	memcpy(&head, decoder->head, sizeof(head));
	*record = (struct record){.ticks = ticks,
				  .lo = run->lo,
				  .hi = run->hi,
				  .loose = run->loose,
				  .behind = decoder->extra,
				  .id = calltap_record_brief_id(head),
				  .brief = true,
				  .leaf = calltap_record_brief_leaf(head),
				  .kind = (uint8_t)calltap_record_brief_kind(head)};
	run->at++;
	decoder->head += sizeof(head);
	decoder->left--;
}

static inline void record_decoder_take(struct record_decoder *decoder, struct record *record)
{
	record_decoder_hand_out(decoder, record_decoder_placed_ticks(decoder), record);
}

#endif
