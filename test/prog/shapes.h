/* Functions of shapes that are hard to trace, each with a result to check: shared by programs that run for a while. */
#ifndef TEST_PROG_SHAPES_H
#define TEST_PROG_SHAPES_H

#include <setjmp.h>
#include <stdarg.h>

#include "truth.h"

/* The end of a tail call. */
TRACED static unsigned last(unsigned x)
{
	return x ^ 0x5a5a;
}

TRACED static unsigned passed(unsigned x)
{
	return x * 2654435761u + 1;
}

TRACED static void leave(jmp_buf *to, unsigned depth)
{
	if (!depth)
		longjmp(*to, 7);
	leave(to, depth - 1);
	passed(depth);
}

/* Over that many frames; 7. */
TRACED static int jump(unsigned depth)
{
	jmp_buf here;
	int back = setjmp(here);

	if (!back)
		leave(&here, depth);
	return back;
}

TRACED static double sum(int count, ...)
{
	double total = 0;
	va_list list;

	va_start(list, count);
	for (int i = 0; i < count; i++)
		total += va_arg(list, double);
	va_end(list);
	return total;
}

#endif
