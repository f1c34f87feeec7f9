/*
 * Events that say of themselves what they are: their bytes.
 *
 * Context: host; called by the views and exporters.
 */
#include <string.h>

#include "reader.h"

size_t trace_event_bytes(const struct trace_event *event, unsigned char bytes[CALLTAP_EVENT_BYTES_MAX])
{
	uint32_t words = event->kind == CALLTAP_REC_EVENT ? calltap_event_words(event->id) : 0;

	for (uint32_t i = 1; i < words; i++)
		memcpy(bytes + (size_t)(i - 1) * CALLTAP_EVENT_WORD_BYTES, event->behind + (i - 1) * sizeof(uint64_t),
		       CALLTAP_EVENT_WORD_BYTES);
	return words > 1 ? (size_t)(words - 1) * CALLTAP_EVENT_WORD_BYTES : 0;
}
