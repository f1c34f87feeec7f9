/*
 * How the vector registers are kept around handlers (vectors.S): which components there are, and how much room they
 * take.
 *
 * Called by the control thread before the first handler runs.  Context: control.  Source: Intel SDM 1, 13
 * (XSAVE-supported features); CPUID leaf 0DH.
 */
#include <stdbool.h>

#include <agent/agent.h>
#include <agent/x86_64/handled.h>
#include <probe/handlers.h>

#define LEGACY	    576u /* FXSAVE's part, and the header */
#define PKRU	    ((uint64_t)1 << 9)
#define TILES	    ((uint64_t)3 << 17) /* 8 KiB that no handler uses, and that the kernel gives for the asking */
#define HAS_OSXSAVE (1u << 27)		/* leaf 1, ecx */
#define HAS_XSAVEC  (1u << 1)		/* leaf 0DH, 1, eax */
#define IS_ALIGNED  (1u << 1)		/* leaf 0DH, i, ecx: in the compacted form */
#define COMPONENTS  63u

uint64_t agent_vectors_mask;

struct cpuid {
	uint32_t eax, ebx, ecx, edx;
};

static struct cpuid cpuid(uint32_t leaf, uint32_t sub)
{
	struct cpuid is;

	__asm__ volatile("cpuid" : "=a"(is.eax), "=b"(is.ebx), "=c"(is.ecx), "=d"(is.edx) : "a"(leaf), "c"(sub));
	return is;
}

static uint64_t enabled_components(void)
{
	uint32_t low, high;

	__asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
	return (uint64_t)high << 32 | low;
}

static uint64_t area_bytes(bool compacted)
{
	uint64_t bytes = LEGACY;

	for (uint32_t i = 2; i < COMPONENTS; i++) {
		const struct cpuid is = cpuid(0xd, i);
		uint64_t at = is.ebx;

		if (!(agent_vectors_mask >> i & 1))
			continue;
		if (compacted)
			at = is.ecx & IS_ALIGNED ? (bytes + 63) & ~63ull : bytes;
		if (at + is.eax > bytes)
			bytes = at + is.eax;
	}
	return bytes;
}

uint64_t agent_vectors_helper(void)
{
	return (uint64_t)agent_vectors_low;
}

void agent_vectors_find(struct probe_handled_table *table)
{
	bool compacted;

	if (cpuid(0, 0).eax < 0xd || !(cpuid(1, 0).ecx & HAS_OSXSAVE)) {
		table->area = LEGACY;
		table->save = agent_vectors_fxsave;
		table->restore = agent_vectors_fxrstor;
		return;
	}
	agent_vectors_mask = enabled_components() & ~(PKRU | TILES);
	compacted = cpuid(0xd, 1).eax & HAS_XSAVEC;
	table->area = area_bytes(compacted);
	table->save = compacted ? agent_vectors_xsavec : agent_vectors_xsave;
	table->restore = agent_vectors_xrstor;
}
