/*
 * Raw system calls for code that runs in a target: no errno, no cancellation
 * points, no libc.  Each returns the kernel's value, -errno on failure.
 * Contexts: control; probe only in the slow paths that say so.
 */
#ifndef BASE_SYS_H
#define BASE_SYS_H

#include <asm/errno.h>
#include <stddef.h>
#include <stdint.h>
#include <arch.h>
#include <sys/syscall.h>

#define SYS(nr, a, b, c, d, e, f)                                                                                      \
	arch_syscall(SYS_##nr, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), (long)(f))

static inline int sys_failed(long ret)
{
	return (unsigned long)ret > -4096ul;
}

static inline void *sys_mmap(void *at, size_t size, int prot, int flags, int fd, long offset)
{
	return (void *)SYS(mmap, at, size, prot, flags, fd, offset);
}

static inline long sys_munmap(void *at, size_t size)
{
	return SYS(munmap, at, size, 0, 0, 0, 0);
}

static inline long sys_close(int fd)
{
	return SYS(close, fd, 0, 0, 0, 0, 0);
}

static inline int sys_gettid(void)
{
	return (int)SYS(gettid, 0, 0, 0, 0, 0, 0);
}

static inline int sys_getpid(void)
{
	return (int)SYS(getpid, 0, 0, 0, 0, 0, 0);
}

/*
 * Copy from or to memory of this process that may be unmapped.  False: not all of it was copied.  The kernel is asked
 * by the thread's id: once the initial thread has ended, it knows no memory under the process' id.
 */
static inline int sys_copy(long number, void *here, uint64_t there, size_t size)
{
	uint64_t local[2] = {(uint64_t)here, size}, remote[2] = {there, size};

	return arch_syscall(number, sys_gettid(), (long)local, 1, (long)remote, 1, 0) == (long)size;
}

static inline int sys_copy_in(void *to, uint64_t from, size_t size)
{
	return sys_copy(SYS_process_vm_readv, to, from, size);
}

static inline int sys_copy_out(uint64_t to, const void *from, size_t size)
{
	return sys_copy(SYS_process_vm_writev, (void *)from, to, size);
}

struct sys_timespec {
	int64_t sec;
	int64_t nsec;
};

/* Not FUTEX_PRIVATE: target and tool share the words. */
static inline long sys_futex_wait(uint32_t *word, uint32_t value, uint64_t timeout_ns)
{
	struct sys_timespec ts = {(int64_t)(timeout_ns / 1000000000u), (int64_t)(timeout_ns % 1000000000u)};

	return SYS(futex, word, 0 /* FUTEX_WAIT */, value, &ts, 0, 0);
}

static inline long sys_futex_wake(uint32_t *word)
{
	return SYS(futex, word, 1 /* FUTEX_WAKE */, 0x7fffffff, 0, 0, 0);
}

static inline uint64_t sys_monotonic_ns(void)
{
	struct sys_timespec ts = {0, 0};

	SYS(clock_gettime, 1 /* CLOCK_MONOTONIC */, &ts, 0, 0, 0, 0);
	return (uint64_t)ts.sec * 1000000000u + (uint64_t)ts.nsec;
}

#define SYS_NOT_BLOCKED (~(uint64_t)0) /* no mask of the kernel's: SIGKILL is never blocked */

/*
 * Block every signal of the calling thread; sys_signals_restore(old) undoes it.  Where the kernel refuses, both change
 * nothing.
 */
static inline void sys_signals_block(uint64_t *old)
{
	uint64_t all = ~(uint64_t)0;

	if (sys_failed(SYS(rt_sigprocmask, 0 /* SIG_BLOCK */, &all, old, sizeof(all), 0, 0)))
		*old = SYS_NOT_BLOCKED;
}

static inline void sys_signals_restore(const uint64_t *old)
{
	if (*old == SYS_NOT_BLOCKED)
		return;
	/* Without its mask the program would never see a signal again: a refusal gets a second try. */
	if (sys_failed(SYS(rt_sigprocmask, 2 /* SIG_SETMASK */, old, 0, sizeof(*old), 0, 0)))
		SYS(rt_sigprocmask, 2 /* SIG_SETMASK */, old, 0, sizeof(*old), 0, 0);
}

#define SYS_NO_MASK_CHANGE 3 /* none of SIG_BLOCK, SIG_UNBLOCK, SIG_SETMASK */

/*
 * True if 8 bytes at address can be read.  The kernel reads a mask before it looks at the first argument; probes make
 * this call anyway.
 */
static inline int sys_can_read(uint64_t address)
{
	return SYS(rt_sigprocmask, SYS_NO_MASK_CHANGE, address, 0, sizeof(uint64_t), 0, 0) == -EINVAL;
}

#endif
