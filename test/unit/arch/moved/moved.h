/*
 * What the test that runs moved instructions must know of the CPU that it is
 * built for: machine_<cpu>.c; and the instructions themselves:
 * snippets_<cpu>.S.
 */
#ifndef TEST_UNIT_ARCH_MOVED_H
#define TEST_UNIT_ARCH_MOVED_H

#include <stddef.h>
#include <stdint.h>
#include <ucontext.h>

#define REGISTERS_MAX 36

/* One instruction from start on, what shows its effect behind it, and a trap just before end. */
struct snippet {
	const uint8_t *start, *end;
};

extern const struct snippet snippets[], snippets_end[];
/* Somewhere to jump to, far from the snippets' traps: a trap, too. */
extern const uint8_t landing[];

/* The registers that hold where it is, and two that the snippets take for pointers. */
struct machine {
	const char *cpu;
	unsigned registers; /* of those that are compared */
	unsigned scratch;   /* what the relocator may have */
	unsigned stack;	    /* among the registers */
	unsigned to_landing, to_cell;
	void (*trap)(void);
	void (*get)(const ucontext_t *context, uint64_t *registers, uint64_t *pc);
	void (*set)(ucontext_t *context, const uint64_t *registers, uint64_t pc);
};

extern const struct machine machine;

#endif
