/*
 * Marks (mark.h): what a program writes into its trace.
 *
 * Called on the program's thread by a call of its own, perhaps in a signal
 * handler that came into a recorder: ring and slow path are made for that.
 * Context: probe.
 */
#include <probe/frames.h>
#include <probe/instances.h>
#include <probe/mark.h>
#include <probe/thread.h>

#define WORDS_MAX ((CALLTAP_EVENT_MARK_BYTES + CALLTAP_EVENT_WORD_BYTES - 1) / CALLTAP_EVENT_WORD_BYTES)

_Static_assert(WORDS_MAX < CALLTAP_EVENT_WORDS_MAX, "a mark is an event");

void probe_mark(const char *text)
{
	struct probe_thread *thread;
	uint64_t words[WORDS_MAX];
	uint32_t count;

	if (!probe_context.enabled)
		return;
	thread = probe_self();
	count = calltap_event_pack(words, text, calltap_event_text_size(text));
	if (!probe_can_record(thread)) {
		probe_count_untraced(0);
		return;
	}
	(void)probe_event(thread, 0, CALLTAP_EVENT_MARK, words, count); /* a loss is counted there */
	probe_instances_event(thread, CALLTAP_EVENT_MARK, words, count);
}
