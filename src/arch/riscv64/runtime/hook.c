/*
 * The loader's empty function is a return of 2 bytes, with another function
 * right behind it.  So its calls are led elsewhere, each a jal of 4 bytes.
 *
 * Called by the agent room in the control thread, in the constructor.
 */
#include <arch.h>
#include <arch/riscv64/isa/encode.h>

#define C_RET	 0x8082u
#define C_J_OVER 0xa011u /* c.j .+4 */
#define RET	 0x00008067u

bool arch_is_empty_function(const uint8_t *code)
{
	return isa_load16(code) == C_RET || isa_load32(code) == RET;
}

/*
 * No instruction is known to begin at every place that is looked at, but a
 * word that is a jal to this very function is one: by chance it would be once
 * in some 100000 loaders.
 */
unsigned arch_hook_places(uint64_t *places, unsigned max, uint64_t function, uint64_t lo, uint64_t hi)
{
	unsigned found = 0;

	if (!arch_is_empty_function((const uint8_t *)function))
		return 0;
	for (uint64_t at = lo; at + 4 <= hi; at += 2) {
		int64_t distance = (int64_t)(function - at);

		if (isa_load32((const uint8_t *)at) != rv_jal(RV_RA, distance) || !rv_jal_reaches(distance))
			continue;
		if (found == max)
			return 0;
		places[found++] = at;
	}
	return found;
}

/* The call from there. */
void arch_jump_make(uint8_t *code, uint64_t address, uint64_t target)
{
	isa_store32(code, rv_jal(RV_RA, (int64_t)(target - address)));
}

static struct arch_write one_write(uint8_t offset, uint8_t size, uint32_t bytes)
{
	struct arch_write write = {offset, size, {0}};

	isa_store32(write.bytes, bytes);
	return write;
}

/*
 * A jal at a multiple of 4 by one store.  One that is not, in halves: while
 * they do not fit together, a jump of 2 bytes leads past the call, which does
 * as much as the call of an empty function.
 */
unsigned arch_hook_restore(struct arch_write *writes, uint64_t address, const uint8_t *old)
{
	if (address % 4 == 0) {
		writes[0] = one_write(0, 4, isa_load32(old));
		return 1;
	}
	writes[0] = one_write(0, 2, C_J_OVER);
	writes[1] = one_write(2, 2, isa_load16(old + 2));
	writes[2] = one_write(0, 2, isa_load16(old));
	return 3;
}
