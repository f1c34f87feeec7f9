/*
 * The choice of stock functions, which no compiler has prepared, beside those with compiled sites.
 *
 * A program's own objects are its executable and the libraries that lie in none of the folders which programs share, or
 * which cross compilers link with.
 *
 * Callers: the command line (--stock, --libcalls), the session's rooms.  Context: host.
 */
#ifndef HOST_STOCK_CHOICE_H
#define HOST_STOCK_CHOICE_H

#include <stdbool.h>

/* Which functions are traced that no compiler has prepared. */
enum stock_choice {
	STOCK_AUTO,   /* those of own objects without compiled sites, and those that filters name by their object */
	STOCK_ALWAYS, /* those of own objects with compiled sites, too */
	STOCK_NEVER,
};

/* Where calls into shared libraries are traced, at the caller's PLT. */
enum libcalls_choice {
	LIBCALLS_AUTO,	 /* in own objects, where their stock functions are traced */
	LIBCALLS_ALWAYS, /* in own objects, and in those that filters name by their object */
	LIBCALLS_NEVER,
};

/* True if a library with this path is a program's own: it lies in none of the folders that programs share. */
bool stock_is_own_library(const char *path);

#endif
