/*
 * The parts of moved.c that depend on the CPU: the registers (machine_<cpu>.c) and the instructions themselves
 * (snippets_<cpu>.S).
 */
#ifndef TEST_UNIT_ARCH_MOVED_H
#define TEST_UNIT_ARCH_MOVED_H

#include <stddef.h>
#include <stdint.h>
#include <ucontext.h>

#define REGISTERS_MAX 36

/* An instruction at start, code behind it that shows its effect, and a trap just before end. */
struct snippet {
	const uint8_t *start, *end;
};

extern const struct snippet snippets[], snippets_end[];
/* A target for jumps, far from the snippets: a trap, too. */
extern const uint8_t landing[];

/* A CPU's registers: to_landing and to_cell are two that the snippets take for pointers. */
struct machine {
	const char *cpu;
	unsigned registers; /* number of registers that are compared */
	unsigned scratch;   /* register that the relocator may use */
	unsigned stack;	    /* index of the stack pointer */
	unsigned to_landing, to_cell;
	void (*trap)(void);
	void (*get)(const ucontext_t *context, uint64_t *registers, uint64_t *pc);
	void (*set)(ucontext_t *context, const uint64_t *registers, uint64_t pc);
};

extern const struct machine machine;

#endif
