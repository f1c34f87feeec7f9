/*
 * The memory that programs read in the tests of this room.
 */
#ifndef TEST_VALUES_MEMORY_H
#define TEST_VALUES_MEMORY_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include <bpf/machine.h>

#define REGISTERS 6	/* of integer arguments */
#define NOWHERE	  4096u /* addresses below are not there */

/* Helper READ: addresses are the test's own. */
static uint64_t run_read(void *data, const uint64_t arguments[BPF_ARGUMENTS])
{
	bool there = arguments[2] >= NOWHERE;

	if (there)
		memcpy((void *)arguments[0], (const void *)arguments[2], arguments[1]);
	else
		memset((void *)arguments[0], 0, arguments[1]);
	return there ? 0 : (uint64_t)-EFAULT;
}

#endif
