/*
 * riscv64's registers for moved.c.
 */
#include "moved.h"

enum { COUNT = 32, RA = 1, SP = 2, GP = 3, TP = 4, S2 = 18, S3 = 19, T6 = 31 };

static void trap(void)
{
	__asm__ volatile("ebreak");
}

static void get(const ucontext_t *context, uint64_t *registers, uint64_t *pc)
{
	for (unsigned i = 1; i < COUNT; i++)
		registers[i] = context->uc_mcontext.__gregs[i];
	registers[0] = 0;
	*pc = context->uc_mcontext.__gregs[0];
}

/* The handler itself needs gp and tp. */
static void set(ucontext_t *context, const uint64_t *registers, uint64_t pc)
{
	for (unsigned i = 1; i < COUNT; i++) {
		if (i != GP && i != TP)
			context->uc_mcontext.__gregs[i] = registers[i];
	}
	context->uc_mcontext.__gregs[0] = pc;
}

const struct machine machine = {
	.cpu = "riscv64",
	.registers = COUNT,
	.scratch = T6,
	.stack = SP,
	.to_landing = S2,
	.to_cell = S3,
	.trap = trap,
	.get = get,
	.set = set,
};
