/*
 * How many records lie in the rings at this moment, for `calltap status`: a
 * sub-buffer may take a thread seconds to fill, and the file gets it as a
 * whole, so a rate told by the file's records alone would jump between nothing
 * and a multiple of the truth.
 *
 * Called by the server with the session's lock, which the drainer holds when
 * it takes records.  Everything in a ring is the target's to scribble on.
 * Context: host.
 */
#include <calltap/abi/record.h>
#include <host/session/session.h>

#define WHOLE_READ 2 /* whole sub-buffers of a ring that are read; where there are more they count as full */

/* The brief records of a word that has such. */
static unsigned count_brief(uint64_t word)
{
	uint32_t early = (uint32_t)word, late = (uint32_t)(word >> 32);

	return (calltap_record_is_brief(early) && early != CALLTAP_RECORD_PAD) + (late && late != CALLTAP_RECORD_PAD);
}

/* Up to the first slot that is taken and not written yet; what a file would count. */
static uint64_t count_words(const uint64_t *words, uint32_t from, uint32_t end, bool open)
{
	uint64_t count = 0;

	while (from < end) {
		/* Acquire: pairs with ring_put(), as in drain_sub(). */
		uint64_t head = __atomic_load_n(&words[from], __ATOMIC_ACQUIRE);
		unsigned kind = calltap_record_kind(head);

		/* Half a word that may get a second brief record has no kind, either. */
		if (!kind && open)
			break;
		count += calltap_record_has_brief(head) ? count_brief(head) : (unsigned)calltap_record_is_filed(kind);
		from += calltap_record_words(head);
	}
	return count;
}

static uint32_t words_of(const struct target_arena *arena)
{
	return (uint32_t)((arena->sub_size - sizeof(struct calltap_subbuf)) / sizeof(uint64_t));
}

static uint64_t count_sub(const struct target_arena *arena, uint32_t index, uint64_t number, bool open)
{
	const struct ring_reader *reader = &arena->rings[index];
	const struct calltap_subbuf *sub =
		(void *)((char *)ring_of(arena, index) + CALLTAP_PAGE + number % arena->sub_count * arena->sub_size);
	bool begun = reader->part_words && reader->part_number == number;
	uint64_t count;

	if (__atomic_load_n(&sub->number, __ATOMIC_ACQUIRE) != number + 1) /* pairs with D in ring_open_next() */
		return 0;
	count = count_words((const uint64_t *)(sub + 1), begun ? reader->part_words : 0, words_of(arena), open);
	__atomic_thread_fence(__ATOMIC_ACQUIRE); /* pairs with the fence after A in ring_open_next() */
	return __atomic_load_n(&sub->number, __ATOMIC_ACQUIRE) == number + 1 ? count : 0;
}

/*
 * A flight recorder is not drained: its whole sub-buffers, also those that are
 * overwritten by now, count as full.  So do those of a ring that fills faster
 * than it is drained: hundreds of such rings are too much to read for a count.
 */
static uint64_t count_ring(const struct target_arena *arena, uint32_t index, const struct record_options *options)
{
	unsigned words =
		options->tracer->has_exit ? 1 : calltap_record_words(calltap_record_make(CALLTAP_REC_CALL, 0, 0));
	uint64_t opened = __atomic_load_n(&ring_of(arena, index)->opened, __ATOMIC_ACQUIRE);
	uint64_t drained = arena->rings[index].drained, count = 0;

	if (opened <= drained || (options->mode != CALLTAP_MODE_OVERWRITE && opened - drained > arena->sub_count))
		return 0; /* empty, or scribbled on */
	if (options->mode == CALLTAP_MODE_OVERWRITE || opened - drained - 1 > WHOLE_READ) {
		count = (opened - drained - 1) * (words_of(arena) / words);
		drained = opened - 1;
	}
	for (; drained < opened; drained++)
		count += count_sub(arena, index, drained, drained + 1 == opened);
	return count;
}

uint64_t pending_records(const struct share *share)
{
	const struct record_options *options = &share->instance->settings.options;
	uint64_t count = 0;

	if (options->mode > CALLTAP_MODE_OVERWRITE)
		return 0;
	for (uint32_t i = 0; i < share->arena_count; i++)
		for (uint32_t k = 0; k < share->arenas[i].ring_count; k++)
			count += count_ring(&share->arenas[i], k, options);
	return count;
}
