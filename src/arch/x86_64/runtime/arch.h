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

/* entry.S: start fn(arg) on stack_top as a thread that exits with its result; returns the new tid or -errno. */
long arch_thread_start(unsigned long flags, void *stack_top, int (*fn)(void *), void *arg, int *child_tid);

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
 * The one byte that switches a site on or off while threads run through it,
 * and its place.  Both values leave whole instructions whatever the thread
 * has fetched (doc/design/stubs.md).
 */
struct arch_toggle {
	uint64_t address;
	uint8_t on, off;
};
/* For the site of `length` at address whose first bytes are now[]; -1 when they are not a switched-on site's. */
int arch_site_toggle(struct arch_toggle *toggle, uint64_t address, uint8_t length, const uint8_t now[2]);
/* True if code is a function that only returns, with room for a jump. */
int arch_is_empty_function(const uint8_t code[5]);

/*
 * unwind.c: write the unwind table for stubs in [lo, hi) to at, where it will
 * be read; returns its bytes, at most ARCH_EH_FRAME_MAX.  It starts with an
 * .eh_frame_hdr of ARCH_EH_HDR_SIZE bytes.
 */
#define ARCH_EH_FRAME_MAX 192
size_t arch_eh_frame_build(uint8_t *at, uint64_t lo, uint64_t hi);
#define ARCH_EH_HDR_SIZE 20

#endif
