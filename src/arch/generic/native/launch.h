/*
 * The CPU's part of putting the agent into a program at its start: registers, system calls that the tool has the
 * program's thread make, and the code by which that thread calls the agent and goes on.
 *
 * A CPU's native directory defines these functions, or launch.c beside this file, which says that it is not supported.
 * Caller: host/attach.  Context: host.
 */
#ifndef ARCH_GENERIC_NATIVE_LAUNCH_H
#define ARCH_GENERIC_NATIVE_LAUNCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "attach.h"

/* The reason why the agent cannot be put into this CPU's programs so; NULL: it can. */
const char *native_launch_refusal(void);

/* At a stop behind a system call: its number, its first argument and its result. */
long native_call_number(const struct native_regs *regs);
uint64_t native_call_argument(const struct native_regs *regs);
long native_call_result(const struct native_regs *regs);
/*
 * The next instruction, of which these are the first bytes, stores the call's result as 4 bytes: where; 0: it does
 * something else.
 */
#define NATIVE_STORE_MAX 9
uint64_t native_call_stores(const struct native_regs *regs, const unsigned char bytes[NATIVE_STORE_MAX]);
/* Have the thread make a system call by the instruction at pc. */
void native_call_make(struct native_regs *regs, uint64_t pc, long number, const uint64_t arguments[6]);

/*
 * Write the code that calls entry(argument), below the stack that the registers tell, and goes on with these registers:
 * how many bytes, at most `size`; 0: they are too few.  *start: where in the code the thread begins.
 */
#define NATIVE_LAUNCH_MAX 512
size_t native_launch_code(unsigned char *out, size_t size, const struct native_regs *regs, uint64_t entry,
			  uint64_t argument, size_t *start);
/* Change the registers such that the thread goes on in that code, which lies at pc. */
void native_launch_go(struct native_regs *regs, uint64_t pc);

#endif
