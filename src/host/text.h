/*
 * Texts for people: durations and sizes, and names that come from a program.
 *
 * Callers: all code that prints tables or messages.  Context: host.
 */
#ifndef HOST_TEXT_H
#define HOST_TEXT_H

#include <stddef.h>
#include <stdint.h>

#define TIMETEXT_MAX 32

/* Four significant digits and a unit, "12.34 us", into text; returns text. */
const char *timetext(uint64_t ns, char text[TIMETEXT_MAX]);
/* Bytes the same way: "512 B", "1.50 MiB". */
const char *sizetext(uint64_t bytes, char text[TIMETEXT_MAX]);
/* The kernel's mark for a duration: '+' over 10 us ... '$' over 1 s, ' ' below. */
char time_mark(uint64_t ns);

/* Last part of a path. */
const char *text_base(const char *path);
/* Copy text to buffer (size > 0), cut to fit, with control and broken bytes replaced. */
void text_clean(char *buffer, size_t size, const char *text);
/*
 * How many letters are to be changed, added, taken out, or swapped with their neighbour to make one word the other; at
 * the most TEXT_FAR, which also stands for long words.
 */
unsigned text_distance(const char *one, const char *other);
#define TEXT_FAR 32

#endif
