/*
 * Constants in conditions that are no numbers: letters in quotes, escapes in texts, names of enumerations.
 *
 * Callers: condition.c.  Context: host.  Pure.
 */
#ifndef HOST_VALUES_CONSTANT_H
#define HOST_VALUES_CONSTANT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct spec;

/* Take what stands behind a '\' as C does: a byte by its name or its number, or the letter itself.  NULL, or why not.
 */
const char *constant_take_escape(const char **at, char *byte);
/* Take a letter with its quotes, such as 'a' or '\n'.  NULL, or why not, which *at leads to. */
const char *constant_take_letter(const char **at, uint64_t *value);
/* The bytes of a word such as ns::Mode::FAST; 0: there is no word, or none with "::". */
size_t constant_qualified(const char *text);
/*
 * Find the value that the enumerations of these fields' types give to a name, which may have "::" in front; *unlike is
 * set where two of them differ.  sets: NULL = there are none.
 */
bool constant_find_name(int64_t *value, bool *unlike, const struct spec *const sets[2], const char *name,
			size_t length);
/*
 * Find the value that the names "NAME=1f,OTHER=20:3" give to a name, which may have "::" in front; false: none.
 * *others: it is the name of what has all other numbers.
 */
bool constant_find_in(int64_t *value, bool *others, const char *names, const char *name, size_t length);
/* Is it the name of a variant that has all numbers but the others', so that it is none itself? */
bool constant_is_others(const struct spec *const sets[2], const char *name, size_t length);

#endif
