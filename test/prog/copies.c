/*
 * A program that keeps a part of its stack, and puts it back when the calls that it belongs to have returned long ago,
 * as call/cc does in some interpreters: each of these calls returns several times.
 *
 * Prints a line for each return, and ends with 3.
 */
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "truth.h"

#define TIMES 5
#define BELOW 512  /* bytes of the stack below capture()'s frame that are kept, too */
#define MOST  8192 /* bytes that are kept */

static jmp_buf state;
static char kept[MOST];
static char *low, *high;
static int value;

/* 0, or what come_back() was given. */
UNTRACED static int capture(void)
{
	if (setjmp(state))
		return value;
	low = (char *)__builtin_frame_address(0) - BELOW;
	memcpy(kept, low, (size_t)(high - low));
	return 0;
}

/* Put the stack back as it was, from a frame that lies below. */
UNTRACED static void come_back(int with)
{
	volatile char room[1024];

	room[0] = (char)with;
	if (with && (char *)__builtin_frame_address(0) > low - BELOW)
		come_back(with + room[0] - (char)with);
	value = with;
	memcpy(low, kept, (size_t)(high - low));
	longjmp(state, 1);
}

TRACED int inner(int number)
{
	volatile int own = number;

	return capture() + own;
}

TRACED int outer(int number)
{
	return inner(number) * 2 + 1;
}

TRACED int deep(int depth)
{
	volatile int own = depth;

	return depth ? deep(depth - 1) + own : 0;
}

UNTRACED static void run(void)
{
	static int times;

	printf("returned %d\n", outer(5));
	fflush(stdout);
	if (times++ < TIMES) {
		deep(20);
		come_back(times);
	}
}

int main(void)
{
	high = __builtin_frame_address(0);
	run();
	return 3;
}
