/*
 * What the portable rooms in the target ask of a CPU: x86-64's answers.
 *
 * Included by base, ring, probe, patch and agent (probe and control contexts)
 * as <arch.h>; the build picks the CPU's directory.  A port provides the same
 * names with the same meaning.
 */
#ifndef ARCH_X86_64_RUNTIME_ARCH_H
#define ARCH_X86_64_RUNTIME_ARCH_H

#include <stddef.h>
#include <stdint.h>

#include <offsets.h>

/*
 * The slot at stack address S keeps its return address at arch_mirror(S), and
 * the slot of the traced frame outside it at arch_link(S).  Flipping bit 45
 * takes stacks at 0x7fff... to 0x5fff..., heaps at 0x55... to 0x75... and a
 * low executable's memory to 0x2000...; bit 44 besides, to 0x4fff..., 0x65...
 * and 0x3000...: all unused by Linux.
 */
#define ARCH_ADDRESS_BITS 47

/* In the header of an ELF file for this CPU. */
#define ARCH_ELF_MACHINE 62

static inline uint64_t *arch_mirror(uint64_t slot)
{
	return (uint64_t *)(slot ^ (uint64_t)1 << MIRROR_BIT ^ MIRROR_SKEW);
}

static inline uint64_t *arch_link(uint64_t slot)
{
	return (uint64_t *)((uint64_t)arch_mirror(slot) ^ (uint64_t)1 << LINK_BIT ^ LINK_SKEW);
}

static inline uint64_t arch_clock(void)
{
	uint32_t low, high;

	__asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
	return (uint64_t)high << 32 | low;
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

/* Compare and swap on a word of this thread, with the same guarantee. */
static inline int arch_local_cas(uint64_t *word, uint64_t expected, uint64_t desired)
{
	unsigned char done;

	__asm__ volatile("cmpxchgq %3, %1\n\tsete %0"
			 : "=q"(done), "+m"(*word), "+a"(expected)
			 : "r"(desired)
			 : "memory", "cc");
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

/* entry.S: start fn(arg) on stack_top as a thread that exits with its result; returns the new tid or -errno. */
long arch_thread_start(unsigned long flags, void *stack_top, int (*fn)(void *), void *arg, int *child_tid);

/*
 * The stack pointer that a longjmp to env will set.  glibc keeps it rotated
 * and mixed with a secret of the thread's (PTR_MANGLE); with another libc's
 * layout the result is no stack's address.
 */
static inline uint64_t arch_jump_sp(const void *env)
{
	uint64_t sp = ((const uint64_t *)env)[6];

	__asm__("ror $17, %0\n\txor %%fs:0x30, %0" : "+r"(sp) : : "cc");
	return sp;
}

/* The word that the stub pushes when a body returns to it at `back`; 0 = there is no such stub. */
static inline uint32_t arch_stub_word(uint64_t back)
{
	const uint8_t *code = (const uint8_t *)back;

	if (code[0] != 0x68) /* push imm32 */
		return 0;
	return (uint32_t)code[1] | (uint32_t)code[2] << 8 | (uint32_t)code[3] << 16 | (uint32_t)code[4] << 24;
}

/*
 * forward.S: makecontext(), whose arguments are passed on as they are: to
 * probe_context_made(context), then to arch_next_makecontext.
 */
extern void *arch_next_makecontext __attribute__((visibility("hidden")));

/* Entry points that stubs jump to, in the order of the region's pointer table (entry.S). */
enum arch_entry {
	ARCH_ENTRY_FAST,
	ARCH_EXIT_FAST,
	ARCH_ENTRY_FULL,
	ARCH_EXIT_FULL,
	ARCH_ENTRY_ROOT,
	ARCH_ENTRY_NOTREE,
	ARCH_EXIT_NOTREE,
	ARCH_CALL,
	ARCH_ENTRIES
};
extern const uintptr_t arch_entry_table[ARCH_ENTRIES];

/* A page of the agent's text, 4096 bytes, that is never run. */
extern const uint8_t arch_scratch_page[];

/* Bytes at the start of a stub region that hold the pointer table. */
#define ARCH_REGION_HEAD 64

/* How far a site's jump reaches. */
#define ARCH_REACH ((uint64_t)0x7fff0000)

struct calltap_site;
/*
 * stub.c: write the stub of site to `at` (an ordinary writable buffer whose
 * bytes will run at address stub in the region whose pointer table is at
 * region).  tls_gate is the gate's offset from the thread pointer.  Returns
 * the bytes written.
 */
size_t arch_stub_build(uint8_t *at, uint64_t stub, uint64_t region, const struct calltap_site *site, int64_t tls_gate);
/* The jump to target that is written to address; length 5. */
void arch_jump_make(uint8_t code[5], uint64_t address, uint64_t target);

/*
 * A site replaces whole instructions of the function's by one, which is a
 * jump or does nothing, and the step from one to the other is one byte
 * (doc/design/patching.md): no thread is ever inside it.
 */
#define ARCH_SITE_MIN  2
#define ARCH_SITE_MAX  15
#define ARCH_STEPS_MAX 5

/* What is written at once: bytes at an offset from the site's address. */
struct arch_write {
	uint8_t offset, size;
	uint8_t bytes[4];
};

/* A site that is shorter than a jump: a short one leads to a trampoline near by. */
static inline int arch_site_is_short(uint8_t length)
{
	return length < 5;
}
/* The site's code when on: a jump to target of that length. */
void arch_site_make(uint8_t *code, uint64_t address, uint8_t length, uint64_t target);
/* Switch a site of the length on or off. */
struct arch_write arch_site_switch(uint8_t length, int on);
/*
 * The writes that turn a site that is off into the bytes that it replaced,
 * while threads run through it, if all cores refetch after each; returns how many.
 * Fewer than whole: what is left then differs in the first *inert bytes.
 */
unsigned arch_site_restore(struct arch_write writes[ARCH_STEPS_MAX], uint8_t length, const uint8_t *old,
			   uint8_t *inert);
/* Can a thread that is about to run these 5 bytes run them, when they are a trampoline no more? */
int arch_falls_through(const uint8_t old[5]);
/* The same for a function that arch_is_empty_function() knows and a jump was written over. */
unsigned arch_hook_restore(struct arch_write writes[ARCH_STEPS_MAX], const uint8_t old[5]);
/* True if code is a function that only returns, with room for a jump. */
int arch_is_empty_function(const uint8_t code[5]);

/*
 * unwind.c: write the unwind table for stubs in [lo, hi) to at, where it will
 * be read; returns its bytes, at most ARCH_EH_FRAME_MAX.  It starts with an
 * .eh_frame_hdr of ARCH_EH_HDR_SIZE bytes.  personality: address of the
 * routine that libgcc_s is to call for each stub frame that it ends.
 *
 * An unwinder in an object of another name may be libgcc's or LLVM's, linked
 * statically: the first needs libgcc's rules, the second aborts when a frame
 * has a personality and the stack pointer of the one that catches.
 */
enum arch_unwinder {
	ARCH_UNWINDER_LIBGCC,  /* libgcc_s */
	ARCH_UNWINDER_UNKNOWN, /* libgcc's rules, no personality */
	ARCH_UNWINDER_OTHER,   /* libunwind*, debuggers */
	ARCH_UNWINDERS
};
#define ARCH_EH_FRAME_MAX 256
size_t arch_eh_frame_build(uint8_t *at, enum arch_unwinder unwinder, uint64_t lo, uint64_t hi, uint64_t personality);
#define ARCH_EH_HDR_SIZE 20

#endif
