/*
 * The newest lines of a text that grows, and those of them that a filter lets pass.
 *
 * Caller: the screen of `calltap live`.  Context: host.
 */
#ifndef HOST_TERMINAL_ROLL_H
#define HOST_TERMINAL_ROLL_H

#include <stddef.h>
#include <stdint.h>

#define ROLL_LINES 20000u /* older ones are forgotten */
#define ROLL_BYTES 1000u  /* of a line; what is longer is cut */

struct roll;

int roll_create(struct roll **out) __attribute__((warn_unused_result));
void roll_destroy(struct roll *roll);
/* Add a line, without its end; -ENOMEM. */
int roll_add(struct roll *roll, const char *text, size_t size) __attribute__((warn_unused_result));
/* Show only lines that have the text in them, or match the glob; "" = all. */
void roll_filter(struct roll *roll, const char *filter);
/* Lines that pass the filter. */
size_t roll_count(const struct roll *roll);
/* The i-th of them, the oldest first. */
const char *roll_line(const struct roll *roll, size_t i);
/* All lines that ever came. */
uint64_t roll_total(const struct roll *roll);

#endif
