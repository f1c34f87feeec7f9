/* Parsing the values of the reading commands' options.  Context: host. */
#ifndef HOST_VIEW_PARSE_H
#define HOST_VIEW_PARSE_H

#include <stdint.h>

#include <calltap/diag.h>

/* A duration: "10us", "1.5 ms", "2s", "300ns"; "300" are nanoseconds.  -EINVAL: anything else. */
int parse_duration(uint64_t *ns, const char *text, struct calltap_diag *diag) __attribute__((warn_unused_result));
/* "A..B", "A.." or "..B": seconds ("0.5", or any duration with a unit); *to is UINT64_MAX without B. */
int parse_time_range(uint64_t *from_ns, uint64_t *to_ns, const char *text, struct calltap_diag *diag)
	__attribute__((warn_unused_result));
/* A decimal number from 0 to max; `what` names the option in the message. */
int parse_number(uint64_t *value, const char *text, uint64_t max, const char *what, struct calltap_diag *diag)
	__attribute__((warn_unused_result));
/* The value of --min-percent: a number from 0 to 100. */
int parse_percent(double *percent, const char *text, struct calltap_diag *diag) __attribute__((warn_unused_result));
/* An id of a process or thread: a decimal number from 1 to INT32_MAX. */
int parse_id(uint32_t *id, const char *text, const char *what, struct calltap_diag *diag)
	__attribute__((warn_unused_result));

#endif
