/*
 * Libraries that copy parts of stacks away and back, by their files' names: what both sides know them by.
 *
 * Several frames would have one word of the mirror (doc/design/stacks.md), so a process is recorded until such a
 * library comes, and the tool refuses to attach to one that has it.
 */
#ifndef CALLTAP_ABI_MOVERS_H
#define CALLTAP_ABI_MOVERS_H

#include <stddef.h>

/* Does the text begin with this one? */
static inline int calltap_begins_with(const char *text, const char *beginning)
{
	while (*beginning && *text == *beginning)
		text++, beginning++;
	return !*beginning;
}

/*
 * What copies parts of stacks, by the path of a file of it: Python's greenlet, and what Ruby's callcc() comes with.
 * Returns its name and what it does, for messages, which lives as long as the program; or NULL.
 */
static inline const char *calltap_mover(const char *path)
{
	int of_ruby = 0;

	for (; *path; path++) {
		if (*path != '/')
			continue;
		of_ruby |= calltap_begins_with(path, "/ruby/");
		if (calltap_begins_with(path, "/_greenlet."))
			return "greenlet, which copies parts of stacks away and back";
		if (of_ruby && calltap_begins_with(path, "/continuation.so"))
			return "Ruby's callcc, which copies parts of stacks away and back";
	}
	return NULL;
}

/*
 * Guile copies the stack of whoever calls its library, when a continuation is taken that C code is part of.  Frames of
 * the program above it are there still when that continuation is called; those of the library itself may have ended.
 * So the tool leaves out the functions of Guile's library, and no others, if it records returns.  calltap_copies_own()
 * returns true if the path is that of Guile's library.
 */
static inline int calltap_copies_own(const char *path)
{
	const char *name = path;

	for (; *path; path++)
		if (*path == '/')
			name = path + 1;
	return calltap_begins_with(name, "libguile-");
}

#endif
