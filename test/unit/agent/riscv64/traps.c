/* The instructions of the dispatcher as breakpoints, riscv64 (traps.h). */
#include <string.h>
#include <ucontext.h>

#include "traps.h"

#define RET	 0x00008067u
#define C_RET	 0x8082u
#define EBREAK	 0x00100073u
#define C_EBREAK 0x9002u

static uint32_t bytes_at(const void *code, size_t size)
{
	uint32_t word = 0;

	memcpy(&word, code, size);
	return word;
}

uint64_t trap_pc(const void *context)
{
	return ((const ucontext_t *)context)->uc_mcontext.__gregs[0];
}

size_t traps_length(const uint8_t *code)
{
	return (*code & 3) == 3 ? 4 : 2;
}

/* The code that is trapped in adds by one instruction. */
size_t traps_loop(const uint8_t *code)
{
	(void)code;
	return 0;
}

uint64_t traps_end(uint64_t last)
{
	size_t length;
	uint32_t code;

	do {
		length = traps_length((const uint8_t *)last);
		code = bytes_at((const void *)last, length);
		last += length;
	} while (code != RET && code != C_RET);
	return last;
}

void traps_make(uint8_t *code, size_t length)
{
	const uint32_t word = length == 4 ? EBREAK : C_EBREAK;

	memcpy(code, &word, length);
}
