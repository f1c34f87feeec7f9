/*
 * x86-64's registers for moved.c.
 */
#include "moved.h"

#define FLAGS	   0x8d5u /* the arithmetic flags */
#define FLAGS_KEPT 0x202u

/* General registers in the order of a signal's context, r8 to rsp; then the flags. */
enum { COUNT = 17, RSP = REG_RSP };

static void trap(void)
{
	__asm__ volatile("int3");
}

static void get(const ucontext_t *context, uint64_t *registers, uint64_t *pc)
{
	for (unsigned i = 0; i < COUNT - 1; i++)
		registers[i] = (uint64_t)context->uc_mcontext.gregs[i];
	registers[COUNT - 1] = (uint64_t)context->uc_mcontext.gregs[REG_EFL] & FLAGS;
	*pc = (uint64_t)context->uc_mcontext.gregs[REG_RIP] - 1; /* behind int3 */
}

static void set(ucontext_t *context, const uint64_t *registers, uint64_t pc)
{
	for (unsigned i = 0; i < COUNT - 1; i++)
		context->uc_mcontext.gregs[i] = (greg_t)registers[i];
	context->uc_mcontext.gregs[REG_EFL] = (greg_t)((registers[COUNT - 1] & FLAGS) | FLAGS_KEPT);
	context->uc_mcontext.gregs[REG_RIP] = (greg_t)pc;
}

const struct machine machine = {
	.cpu = "x86_64",
	.registers = COUNT,
	.scratch = REGISTERS_MAX, /* none is needed */
	.stack = RSP,
	.to_landing = REG_RAX,
	.to_cell = REG_RBX,
	.trap = trap,
	.get = get,
	.set = set,
};
