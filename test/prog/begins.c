/*
 * A program that begins in a function of C: what lies where a call would have left a return address is the number of
 * its arguments.  On x86-64, built with -nostartfiles -Wl,-e,begin.
 */
#include "truth.h"

TRACED static long twice(long number)
{
	return 2 * number;
}

__attribute__((used, noreturn)) void begin(void)
{
	const long *frame = __builtin_frame_address(0);

	_exit((int)twice(frame[1]));
}
