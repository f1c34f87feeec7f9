/* A look at the records in rings (peek.h).  Context: host, the drainer. */
#include <stdlib.h>

#include <host/brief/brief.h>
#include <host/session/session.h>

#include "peek.h"
#include "sub.h"

#define STEP_MIN_NS 10000000u  /* from one look to the next while functions become brief, or are so no longer */
#define STEP_MAX_NS 160000000u /* while the choice stays as it is */
#define STEP_PART   8	       /* a look without a change makes the step longer by that part of it */
#define LOOK_WORDS  65536u     /* in a look: half a millisecond's work at the most */

/* The drainer looks so often at the sub-buffers of a ring that it drains: */
#define PACE_NS	     10000000u /* a ring whose last look was longer ago is looked at */
#define PACE_EIGHTHS 128u      /* while the choice stays as it is, one sub-buffer in so many eighths is */
#define PACE_PART    8u	       /* a look without a change adds that part of the distance, and an eighth */

void peek_drained(struct brief *brief, struct ring_reader *reader, const uint64_t *words, uint32_t count,
		  uint64_t ticks, uint64_t now_ns)
{
	struct peek_pace *pace = &reader->pace;
	uint64_t changes;

	if (8 * ++pace->passed < pace->eighths && now_ns < pace->next_ns) {
		brief_skip(reader->calls);
		return;
	}
	brief_look(brief, &reader->calls, words, count, ticks);
	changes = brief_changes(brief);
	pace->eighths += pace->eighths / PACE_PART + 1;
	if (changes != pace->changes)
		pace->eighths /= 2;
	else if (pace->eighths > PACE_EIGHTHS)
		pace->eighths = PACE_EIGHTHS;
	*pace = (struct peek_pace){now_ns + PACE_NS, changes, 0, pace->eighths};
}

static uint32_t words_of(const struct target_arena *arena)
{
	return (uint32_t)((arena->sub_size - sizeof(struct calltap_subbuf)) / sizeof(uint64_t));
}

/* Look at what is new in the sub-buffer; open: its writer goes on in it.  Returns how many words that were. */
static uint32_t look_at(struct instance *instance, struct target_arena *arena, uint32_t index, uint64_t number,
			bool open)
{
	struct brief *brief = instance->brief;
	struct ring_reader *reader = &arena->rings[index];
	const struct calltap_subbuf *sub = sub_of(arena, index, number);
	const uint64_t *words = (const uint64_t *)(sub + 1);
	uint64_t *copy = instance->peek.words, ticks;
	bool goes_on = reader->look.number == number + 1;
	uint32_t from = goes_on ? reader->look.words : 0, end = words_of(arena);
	struct calltap_subbuf head;

	sub_copy_head(&head, sub);
	if (head.number != number + 1)
		return 0; /* overwritten, or scribbled on */
	if (open)
		end = sub_whole_records(words, from, end);
	if (from >= end)
		return 0;
	for (uint32_t i = from; i < end; i++)
		copy[i - from] = __atomic_load_n(&words[i], __ATOMIC_RELAXED);
	if (!sub_is_whole(sub, number))
		return 0;
	if (reader->look.owner != head.owner)
		brief_skip(reader->calls);
	ticks = from ? reader->look.ticks : head.ticks;
	brief_look(brief, &reader->calls, copy, end - from, ticks);
	(void)record_skip_older(copy, end - from, UINT64_MAX, &ticks);
	reader->look = (struct peek_ring){.number = number + 1, .ticks = ticks, .words = end, .owner = head.owner};
	return end - from;
}

/* The newest records of a ring: those since the last look if they are few, else the last whole sub-buffer and the open
 * one. */
static uint32_t look_at_ring(struct instance *instance, struct target_arena *arena, uint32_t index)
{
	/* Acquire: pairs with D in ring_open_next(). */
	uint64_t opened = __atomic_load_n(&ring_of(arena, index)->opened, __ATOMIC_ACQUIRE);
	struct ring_reader *reader = &arena->rings[index];
	uint32_t count = 0;

	if (!opened)
		return 0;
	if (opened != reader->look.number && opened - 1 != reader->look.number)
		brief_skip(reader->calls);
	if (opened != reader->look.number && opened > 1)
		count = look_at(instance, arena, index, opened - 2, false);
	if (opened != reader->look.number && opened - 1 != reader->look.number)
		brief_skip(reader->calls); /* the whole one was overwritten meanwhile */
	return count + look_at(instance, arena, index, opened - 1, true);
}

static void look_at_all(struct instance *instance)
{
	struct peek *peek = &instance->peek;
	uint32_t ring = 0, words = 0;

	for (struct share *share = instance->shares; share; share = share->next)
		for (uint32_t i = 0; i < share->arena_count; i++)
			for (uint32_t k = 0; k < share->arenas[i].ring_count; k++, ring++) {
				if (ring < peek->at)
					continue;
				if (words >= LOOK_WORDS) {
					peek->at = ring;
					return;
				}
				words += look_at_ring(instance, &share->arenas[i], k);
			}
	peek->at = 0;
}

/* Change is looked for all the time, and looked at closely. */
static void plan_next(struct peek *peek, uint64_t changes, uint64_t now_ns)
{
	peek->step_ns += peek->step_ns / STEP_PART;
	if (changes != peek->changes || peek->step_ns < STEP_MIN_NS)
		peek->step_ns = STEP_MIN_NS;
	if (peek->step_ns > STEP_MAX_NS)
		peek->step_ns = STEP_MAX_NS;
	peek->changes = changes;
	peek->next_ns = now_ns + peek->step_ns;
}

void peek_round(struct instance *instance, uint64_t now_ns)
{
	struct peek *peek = &instance->peek;

	if (now_ns < peek->next_ns)
		return;
	if (!peek->words)
		peek->words = malloc(instance->sub_size);
	if (peek->words)
		look_at_all(instance);
	plan_next(peek, brief_changes(instance->brief), now_ns);
}

void peek_destroy(struct peek *peek)
{
	free(peek->words);
	peek->words = NULL;
}
