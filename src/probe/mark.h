/*
 * Marks: events with a text (CALLTAP_EVENT_MARK).  Context: probe.
 */
#ifndef PROBE_MARK_H
#define PROBE_MARK_H

/* Write text, cut to CALLTAP_EVENT_MARK_BYTES bytes, into the calling thread's rings of each instance that records. */
void probe_mark(const char *text);

#endif
