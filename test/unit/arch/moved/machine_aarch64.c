/*
 * aarch64's registers for moved.c.
 */
#include "moved.h"

#define CONDITIONS 0xf0000000u

/* x0 to x30, sp, then the condition flags. */
enum { X17 = 17, X19 = 19, X20 = 20, SP = 31, PSTATE = 32, COUNT = 33 };

static void trap(void)
{
	__asm__ volatile("brk #0");
}

static void get(const ucontext_t *context, uint64_t *registers, uint64_t *pc)
{
	for (unsigned i = 0; i < SP; i++)
		registers[i] = context->uc_mcontext.regs[i];
	registers[SP] = context->uc_mcontext.sp;
	registers[PSTATE] = context->uc_mcontext.pstate & CONDITIONS;
	*pc = context->uc_mcontext.pc;
}

static void set(ucontext_t *context, const uint64_t *registers, uint64_t pc)
{
	for (unsigned i = 0; i < SP; i++)
		context->uc_mcontext.regs[i] = registers[i];
	context->uc_mcontext.sp = registers[SP];
	context->uc_mcontext.pstate =
		(context->uc_mcontext.pstate & ~(uint64_t)CONDITIONS) | (registers[PSTATE] << 28 & CONDITIONS);
	context->uc_mcontext.pc = pc;
}

const struct machine machine = {
	.cpu = "aarch64",
	.registers = COUNT,
	.scratch = X17,
	.stack = SP,
	.to_landing = X19,
	.to_cell = X20,
	.trap = trap,
	.get = get,
	.set = set,
};
