/*
 * A wrapper of the CPU's <arch.h>, for the agent's build for test/e2e/faults.py: the agent's system calls go through
 * faults.c, which lets a chosen call fail.  The agent's own files are unchanged.  Contexts: those of its callers.
 */
#ifndef FAULTS_ARCH_H
#define FAULTS_ARCH_H

#include_next <arch.h>

long faults_syscall(long nr, long a, long b, long c, long d, long e, long f);
long faults_thread_start(unsigned long flags, void *stack_top, int (*fn)(void *), void *arg, int *child_tid);

#ifndef FAULTS_THEMSELVES
#define arch_syscall	  faults_syscall
#define arch_thread_start faults_thread_start
#endif

#endif
