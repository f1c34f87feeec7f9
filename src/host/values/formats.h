/*
 * What programs of values write, as the trace tells it: FORMATS chunks (abi/file.h).
 *
 * Callers: values.c.  Context: host.
 */
#ifndef HOST_VALUES_FORMATS_H
#define HOST_VALUES_FORMATS_H

#include <stdbool.h>
#include <stdint.h>

#include "spec.h"

struct trace_writer;

/* A program, and what its events hold. */
struct format {
	struct spec spec;
	uint32_t places[SPEC_ROWS]; /* of the fields in the event's bytes */
	uint32_t faults;	    /* of the word of faults, 0 = there is none */
	uint32_t type;		    /* of the events */
	uint16_t number;
	bool result;
	bool chosen; /* there is a condition in front: the program is one function's */
};

/* Describe CALLTAP_EVENT_VERDICT: readers look for it in traces that have it described. */
int formats_write_verdict(struct trace_writer *writer) __attribute__((warn_unused_result));
int formats_write(struct trace_writer *writer, const struct format *formats, uint32_t count)
	__attribute__((warn_unused_result));

#endif
