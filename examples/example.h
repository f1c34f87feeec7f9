/* The common part of the examples: functions that can be traced, and the end of a program that cannot open a session.
 */
#ifndef EXAMPLE_H
#define EXAMPLE_H

#include <calltap/calltap.h>
#include <stdio.h>
#include <stdlib.h>

/* A function that the compiler neither inlines nor makes several of. */
#ifdef __clang__
#define TRACED __attribute__((noinline))
#else
#define TRACED __attribute__((noipa))
#endif

static inline void give_up(const struct calltap_diag *diag)
{
	calltap_diag_print(diag, stderr);
	exit(2);
}

#endif
