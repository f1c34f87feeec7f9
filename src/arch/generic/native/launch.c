/*
 * CPUs on which the tool puts no agent into a program by itself (launch.h).  Context: host.
 */
#include "launch.h"

const char *native_launch_refusal(void)
{
	return "static programs of this CPU cannot be traced";
}

long native_call_number(const struct native_regs *regs)
{
	(void)regs;
	return -1;
}

uint64_t native_call_argument(const struct native_regs *regs)
{
	(void)regs;
	return 0;
}

long native_call_result(const struct native_regs *regs)
{
	(void)regs;
	return -1;
}

uint64_t native_call_stores(const struct native_regs *regs, const unsigned char bytes[NATIVE_STORE_MAX])
{
	(void)regs;
	(void)bytes;
	return 0;
}

void native_call_make(struct native_regs *regs, uint64_t pc, long number, const uint64_t arguments[6])
{
	(void)regs;
	(void)pc;
	(void)number;
	(void)arguments;
}

size_t native_launch_code(unsigned char *out, size_t size, const struct native_regs *regs, uint64_t entry,
			  uint64_t argument, size_t *start)
{
	(void)out;
	(void)size;
	(void)regs;
	(void)entry;
	(void)argument;
	*start = 0;
	return 0;
}

void native_launch_go(struct native_regs *regs, uint64_t pc)
{
	(void)regs;
	(void)pc;
}
