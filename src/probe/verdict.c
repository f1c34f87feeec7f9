/*
 * Calls that are left out by their result (program.h): their records are taken back, or readers are told.
 *
 * Called by valued.c and handlers.c on the program's thread, when a call returns.  Context: probe.
 */
#include <probe/program.h>
#include <probe/thread.h>

/* Is the word before the address a record of the open sub-buffer? */
static bool is_record(const struct ring_writer *writer, uint64_t end)
{
	/* The cursor may be behind the sub-buffer's end. */
	return end - sizeof(uint64_t) - writer->base < writer->span;
}

/* The words of the EVENT of this type that ends at the address; 0: none does. */
static uint32_t event_before(const struct ring_writer *writer, uint64_t end, uint32_t type)
{
	for (uint32_t words = 1; words <= 1 + PROBE_PROGRAM_WORDS; words++) {
		const uint64_t *head = (const uint64_t *)end - words;

		if (!is_record(writer, (uint64_t)(head + 1)))
			return 0;
		/* Words behind a head have no kind. */
		if (calltap_record_kind(*head))
			return calltap_record_kind(*head) == CALLTAP_REC_EVENT &&
					       calltap_record_id(*head) == calltap_event_id(type, words)
				       ? words
				       : 0;
	}
	return 0;
}

/*
 * Take back the ENTRY of function id and the event of its values, if these are the last records.  As in
 * probe_take_back() the slots are emptied first: between the swap and later stores a handler could have taken them.  If
 * one has recorded meanwhile, the records are put back.  The event goes first and comes back last: so at no time does
 * it stand behind another function's ENTRY.  words: room for the event's.
 */
static bool take_back(struct ring_writer *writer, uint64_t *words, uint32_t id, uint32_t type)
{
	uint64_t cursor = writer->cursor, entry, head;
	uint32_t count = type ? event_before(writer, cursor, type) : 0;
	uint64_t *event = (uint64_t *)cursor - count, *first = event - 1;

	if ((type && !count) || !is_record(writer, (uint64_t)event))
		return false;
	entry = *first;
	if (calltap_record_kind(entry) != CALLTAP_REC_ENTRY || calltap_record_id(entry) != id)
		return false;
	head = count ? *event : 0;
	for (uint32_t i = 0; i < count; i++) {
		if (i)
			words[i - 1] = event[i];
		ring_put(event + i, 0);
	}
	ring_put(first, 0);
	if (arch_local_cas(&writer->cursor, cursor, (uint64_t)first))
		return true;
	ring_put(first, entry);
	if (count)
		ring_put_all(event, head, words, count - 1);
	return false;
}

bool probe_verdict_tell(struct probe_thread *thread, struct probe_run *run, uint32_t id, enum calltap_verdict verdict)
{
	/* struct calltap_event_verdict: all of it is in one word. */
	const uint64_t word = (uint64_t)verdict << 32 | id;

	if (take_back(thread->writer, run->packed, id, probe_program_type(id)))
		return true;
	(void)probe_event(thread, 0, CALLTAP_EVENT_VERDICT, &word, 1); /* a loss is counted there */
	return false;
}
