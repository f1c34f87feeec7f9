/*
 * Rows of the report by a value of calls: the texts of an argument or a result, each with a number.
 *
 * Caller: report.c.  Context: host.  Memory follows the number of different values, not the length of the trace.
 */
#ifndef HOST_VIEW_BY_VALUE_H
#define HOST_VIEW_BY_VALUE_H

#include <stdbool.h>
#include <stdint.h>

#include <calltap/diag.h>

#include "../trace/trace.h"

#define BY_VALUE_NONE UINT32_MAX

/* One row: "open(file="/etc/passwd")", or "open() = 3". */
struct by_value_row {
	uint32_t function; /* its id */
	uint32_t key;
	char *value; /* as replay shows it; "?" = the trace does not tell it */
	char *text;
};

struct by_value {
	char *function; /* a glob */
	char *name;	/* of the argument or the result */
	bool result;
	bool told;		    /* some event told the value */
	struct by_value_row **rows; /* by their key */
	uint32_t count, room;
	void *tree; /* of rows, for tsearch() */
};

/* True if the text is meant to be FUNCTION(NAME), FUNCTION:= or FUNCTION:=NAME. */
bool by_value_is(const char *text);
/* Read it; -EINVAL with diag. For by_value_destroy(), whatever is returned. */
int by_value_create(struct by_value **out, const char *text, struct calltap_diag *diag)
	__attribute__((warn_unused_result));
void by_value_destroy(struct by_value *by); /* NULL: nothing is done */

/* The key of the value that the event tells, if it is the one asked for; else BY_VALUE_NONE.  -ENOMEM. */
int by_value_key(uint32_t *key, struct by_value *by, const struct trace *trace, const struct trace_event *event,
		 const char *function) __attribute__((warn_unused_result));
/* The key of calls of a function whose value is not told. */
int by_value_untold(uint32_t *key, struct by_value *by, uint32_t id, const char *function)
	__attribute__((warn_unused_result));

#endif
