/*
 * A wrapper of the CPU's <arch.h> for the fuzzed agent: system calls and the start of a thread lead to fuzz_agent.c.
 * Only the agent's files in that build find this file before the real one.
 */
#ifndef TEST_FUZZ_AGENT_ARCH_H
#define TEST_FUZZ_AGENT_ARCH_H

#define arch_syscall	  real_syscall
#define arch_thread_start real_thread_start
#include_next <arch.h>
#undef arch_syscall
#undef arch_thread_start

long fuzz_syscall(long nr, long a, long b, long c, long d, long e, long f);
long fuzz_thread_start(unsigned long flags, void *stack_top, int (*fn)(void *), void *arg, int *child_tid);

#define arch_syscall	  fuzz_syscall
#define arch_thread_start fuzz_thread_start

#endif
