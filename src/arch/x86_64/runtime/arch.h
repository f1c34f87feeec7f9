/*
 * x86-64's part of the target: what the portable rooms ask of a CPU.
 *
 * Included by base, ring, probe, patch and agent (probe and control contexts) as <arch.h>; the build picks the CPU's
 * directory.  Each name's meaning: generic/runtime/contract.h.
 */
#ifndef ARCH_X86_64_RUNTIME_ARCH_H
#define ARCH_X86_64_RUNTIME_ARCH_H

#include <asm/errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <arch/x86_64/isa/stub_size.h>
#include <calltap/call.h>
#include <offsets.h>

/*
 * The slot at stack address S keeps its return address at arch_mirror(S), and
 * the slot of the traced frame outside it at arch_link(S).  Flipping bit 45
 * takes stacks at 0x7fff... to 0x5fff..., heaps at 0x55... to 0x75... and a
 * low executable's memory to 0x2000...; bit 44 besides, to 0x4fff..., 0x65...
 * and 0x3000...: all unused by Linux.  The planes of timed frames: bit 44
 * alone, 0x6fff..., 0x45... and 0x1000..., and bits 44 and 46, 0x2fff..., 0x05...
 * and 0x5000....  Those of dispatched frames: bit 46 alone, 0x3fff..., 0x15... and 0x4000..., and bits 45 and 46,
 * 0x1fff..., 0x35... and 0x6000....
 */
#define ARCH_ADDRESS_BITS   47
#define ARCH_FRAME_REGISTER 4
#define ARCH_FRAME_PAIR	    0

#define ARCH_ELF_MACHINE  62
#define ARCH_DWARF_RETURN 16

static inline uint64_t *arch_mirror(uint64_t slot)
{
	return (uint64_t *)(slot ^ (uint64_t)1 << MIRROR_BIT ^ MIRROR_SKEW);
}

static inline uint64_t *arch_link(uint64_t slot)
{
	return (uint64_t *)((uint64_t)arch_mirror(slot) ^ (uint64_t)1 << LINK_BIT ^ LINK_SKEW);
}

static inline uint64_t *arch_entered(uint64_t slot)
{
	return (uint64_t *)((uint64_t)arch_link(slot) ^ (uint64_t)1 << ENTERED_BIT ^ ENTERED_SKEW);
}

static inline uint64_t *arch_within(uint64_t slot)
{
	return (uint64_t *)((uint64_t)arch_entered(slot) ^ (uint64_t)1 << WITHIN_BIT ^ WITHIN_SKEW);
}

static inline uint64_t *arch_who(uint64_t slot)
{
	return (uint64_t *)((uint64_t)arch_within(slot) ^ (uint64_t)1 << WHO_BIT ^ WHO_SKEW);
}

static inline uint64_t *arch_data(uint64_t slot)
{
	return (uint64_t *)((uint64_t)arch_who(slot) ^ (uint64_t)1 << DATA_BIT ^ DATA_SKEW);
}

/* A frame is known by the slot of its return address, which the stub's call to the body fills again. */
static inline void arch_frame_open(uint64_t slot, const uint64_t *ret)
{
	*arch_mirror(slot) = *ret;
}

static inline void arch_frame_rename(uint64_t slot, const uint64_t *ret)
{
	(void)slot; /* the stub's call of the body fills the slot */
	(void)ret;
}

static inline uint64_t arch_frame_back(uint64_t slot)
{
	return *(const uint64_t *)slot;
}

static inline uint64_t arch_frame_holds(uint64_t slot, uint64_t low)
{
	(void)low;
	return *(const uint64_t *)slot;
}

#define ARCH_FRAMES_GO_BACK 1
#define ARCH_LEAF(recorder) (uintptr_t)(recorder)

static inline bool arch_is_leaf_back(uint64_t address)
{
	return address % X86_STUB_UNIT == X86_STUB_AT_LEAF_BACK;
}

/*
 * rdsspq, a no-op where there is no shadow stack.  A frame's return address is on that, too, and cannot be changed
 * there.
 */
static inline bool arch_shadow_stack(void)
{
	uint64_t pointer = 0;

	__asm__ volatile("rdsspq %0" : "+r"(pointer));
	return pointer != 0;
}

static inline bool arch_frame_release(uint64_t slot)
{
	*(uint64_t *)slot = *arch_mirror(slot);
	return true;
}

static inline uint64_t arch_clock(void)
{
	uint32_t low, high;

	__asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
	return (uint64_t)high << 32 | low;
}

/* rdtsc waits for no load that stands before it; lfence does. */
static inline void arch_clock_behind(uint64_t loaded)
{
	(void)loaded;
	__asm__ volatile("lfence" : : : "memory");
}

#define ARCH_TRAP_FLAG 0x100ull /* of the flags: the thread gets a SIGTRAP behind each instruction */

static inline bool arch_is_stepped(void)
{
	return __builtin_ia32_readeflags_u64() & ARCH_TRAP_FLAG;
}

static inline void arch_step(bool on)
{
	uint64_t flags = __builtin_ia32_readeflags_u64() & ~ARCH_TRAP_FLAG;

	__builtin_ia32_writeeflags_u64(on ? flags | ARCH_TRAP_FLAG : flags);
}

/* The kernel calibrates the counter, and CPUID's word on it is no better than a measurement. */
static inline uint64_t arch_clock_hz(void)
{
	return 0;
}

/* The core's own fetch of instructions sees its stores to code; other cores: patch_sync(). */
static inline void arch_text_written(uint64_t lo, size_t size)
{
	(void)lo;
	(void)size;
}

static inline int arch_text_sync(void)
{
	return -ENOSYS;
}

/* This CPU's control thread makes no call of its own: name one that is on the list anyway. */
#define ARCH_CONTROL_CALL                                                                                              \
	{                                                                                                              \
		SYS_exit,                                                                                              \
		{                                                                                                      \
			0                                                                                              \
		}                                                                                                      \
	}

/*
 * Add to a word of this thread: one instruction, so that a signal handler on
 * the thread cannot come in between; other threads never write the word.
 */
static inline uint64_t arch_local_add(uint64_t *word, uint64_t add)
{
	__asm__ volatile("xaddq %0, %1" : "+r"(add), "+m"(*word) : : "memory", "cc");
	return add;
}

/* arch_local_add() without the old value, which takes half as long. */
static inline void arch_local_count(uint64_t *word, int64_t add)
{
	__asm__ volatile("addq %1, %0" : "+m"(*word) : "er"(add) : "memory", "cc");
}

/* The program may run with the direction flag set, which C's string instructions must not find. */
static inline void arch_string_forward(void)
{
	__asm__ volatile("cld" : : : "cc");
}

/* The words were read by another core last: a string instruction need not fetch what it is about to overwrite. */
static inline void arch_clear_words(uint64_t *at, uint64_t count)
{
	__asm__ volatile("rep stosq" : "+D"(at), "+c"(count) : "a"(0) : "memory");
}

static inline unsigned arch_first_bit(uint32_t word)
{
	return (unsigned)__builtin_ctz(word);
}

/* Compare and swap on a word of this thread, by one instruction as arch_local_add(). */
static inline int arch_local_cas(uint64_t *word, uint64_t expected, uint64_t desired)
{
	int done;

	__asm__ volatile("cmpxchgq %3, %1" : "=@ccz"(done), "+m"(*word), "+a"(expected) : "r"(desired) : "memory");
	return done;
}

/* The kernel's name for this CPU in what a system call filter is told (linux/audit.h). */
#define ARCH_AUDIT 0xc000003eu /* AUDIT_ARCH_X86_64 */

/* For loops that wait for another CPU. */
static inline void arch_pause(void)
{
	__asm__ volatile("pause");
}

static inline long arch_syscall(long nr, long a, long b, long c, long d, long e, long f)
{
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	register long r9 __asm__("r9") = f;
	long ret = nr;

	__asm__ volatile("syscall"
			 : "+a"(ret)
			 : "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return ret;
}

/*
 * Does valgrind run the program?  Its client request RUNNING_ON_VALGRIND (valgrind.h); the rotations add up to
 * nothing on a real CPU.
 */
static inline int arch_in_valgrind(void)
{
	const uint64_t request[6] = {0x1001};
	uint64_t depth = 0;

	__asm__ volatile("rolq $3, %%rdi\n\trolq $13, %%rdi\n\trolq $61, %%rdi\n\trolq $51, %%rdi\n\t"
			 "xchgq %%rbx, %%rbx"
			 : "+d"(depth)
			 : "a"(request)
			 : "cc", "memory");
	return depth != 0;
}

/*
 * The stack pointer that a longjmp to env will set.  glibc keeps it rotated
 * and mixed with a secret of the thread's (PTR_MANGLE), musl as it is, at the
 * same place; with another libc's layout the result is no stack's address.
 */
static inline uint64_t arch_jump_sp(const void *env, bool mixed)
{
	uint64_t sp = ((const uint64_t *)env)[6];

	if (mixed)
		__asm__("ror $17, %0\n\txor %%fs:0x30, %0" : "+r"(sp) : : "cc");
	return sp;
}

/*
 * A debugger that is to stop where a function returns to puts its breakpoint,
 * one byte, over an instruction of the stub: what follows the opcode is as it was.
 */
static inline bool arch_is_opcode(uint8_t byte, uint8_t opcode)
{
	return byte == opcode || byte == 0xcc;
}

/* The word that the stub pushes when a body returns to it at `back`; 0 = there is no such stub. */
static inline uint32_t arch_stub_word(uint64_t back)
{
	const uint8_t *code = (const uint8_t *)back;

	if (!arch_is_opcode(code[0], 0x68)) /* push imm32 */
		return 0;
	return (uint32_t)code[1] | (uint32_t)code[2] << 8 | (uint32_t)code[3] << 16 | (uint32_t)code[4] << 24;
}

/* Does the body of that stub (of a region) return by way of the dispatcher?  At `back`: push $word; jmp *slot(%rip). */
static inline bool arch_stub_is_handled(uint64_t back, uint64_t region)
{
	const uint8_t *code = (const uint8_t *)back;
	uint64_t exit_slot = region + 14 * sizeof(uint64_t); /* asserted in stub.c */
	uint32_t offset = (uint32_t)(exit_slot - (back + 11));

	return arch_is_opcode(code[0], 0x68) && arch_is_opcode(code[5], 0xff) && code[6] == 0x25 &&
	       code[7] == (uint8_t)offset && code[8] == (uint8_t)(offset >> 8) && code[9] == (uint8_t)(offset >> 16) &&
	       code[10] == (uint8_t)(offset >> 24);
}

/*
 * Behind struct probe_handled lies what the stub has pushed, and S: at the entry where the stub goes on and its word,
 * at the exit the word in S itself.
 */
static inline uint64_t arch_handled_slot(uint64_t end, bool exit)
{
	return end + (exit ? 0 : 2 * sizeof(uint64_t));
}

static inline uint64_t *arch_handled_return(uint64_t end, bool exit)
{
	return (uint64_t *)arch_handled_slot(end, exit);
}

static inline uint32_t arch_handled_word(uint64_t end, bool exit)
{
	return (uint32_t)((const uint64_t *)end)[exit ? 0 : 1];
}

static inline uint64_t arch_entry_sp(uint64_t slot)
{
	return slot;
}

static inline void arch_registers_show(struct calltap_registers *registers, uint64_t caller)
{
	(void)registers;
	(void)caller;
}

/* An XSAVE area need not hold what was as it is after a reset: the word at 512 says which components it holds. */
static inline const void *arch_vectors_shown(void *area)
{
	if (!(*(const uint64_t *)((const char *)area + 512) & 2)) /* SSE's */
		__builtin_memset((char *)area + CALLTAP_CALL_VECTORS_XMM, 0, 256);
	return area;
}

/* As rt_sigaction takes it. */
struct arch_action {
	uint64_t handler, flags, restorer, mask;
};

/* How far a site's jump reaches. */
#define ARCH_REACH ((uint64_t)0x7fff0000)

/*
 * A site replaces whole instructions of the function's by one, which is a
 * jump or does nothing, and the step from one to the other is one byte
 * (doc/design/patching.md): no thread is ever inside it.
 */
#define ARCH_SITE_MIN	2
#define ARCH_SITE_MAX	15
#define ARCH_SITE_ALIGN 1
#define ARCH_STEPS_MAX	5
#define ARCH_HOOK_BYTES 5
#define ARCH_LEAD_BYTES 5
#define ARCH_ISLAND_MAX 0
#define ARCH_HOOK_REACH ARCH_REACH

#define ARCH_VENEER_BYTES 0 /* sites lead to other stubs by themselves */

static inline bool arch_site_is_short(uint8_t length)
{
	return length < 5;
}

#include <arch/generic/runtime/contract.h>

#endif
