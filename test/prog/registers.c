/*
 * Fills every register, calls a traced function that only notes the registers and sets each to another value, and
 * looks at the registers after the return.  Prints the registers that were not kept.  Callers know more of their
 * callees than the platform's convention says, so a traced call must keep every register on which a compiler relies.
 *
 * The traced function and its caller are in assembler (registers.h of the CPU); the C code only fills and compares.
 */
#include <stdint.h>

#include "registers.h"
#include "truth.h"

enum { CALLS = 3000 };

/*
 * Spans over which a register is kept: from the caller to the function, from its return to the caller, across the whole
 * call.
 */
enum { IN = 1, OUT = 2, OVER = 4 };

struct part {
	const char *what;
	size_t offset;		 /* in struct state, of the first one */
	int size, stride, count; /* size and distance in bytes, and number */
	int number;		 /* number of the first register */
	int levels, kept;	 /* a bit for each vector_level; IN, OUT, OVER */
};

static const struct part parts[] = {STATE_PARTS};

void call_with_given(void);

UNTRACED static void fill(struct state *state, uint64_t seed)
{
	uint8_t *bytes = (uint8_t *)state;

	for (size_t i = 0; i < sizeof(*state); i++)
		bytes[i] = (uint8_t)((seed += 0x9e3779b97f4a7c15u) >> 56);
	state_make_valid(state, seed);
}

/* The number of differences in what is kept then. */
UNTRACED static int compare(const struct state *before, const struct state *after, int kept, const char *when)
{
	int bad = 0;

	for (const struct part *part = parts; part < parts + sizeof(parts) / sizeof(parts[0]); part++)
		for (int i = 0; i < part->count && part->kept & kept && part->levels & 1 << vector_level; i++) {
			size_t offset = part->offset + (size_t)(i * part->stride);

			if (!memcmp((char *)before + offset, (char *)after + offset, part->size))
				continue;
			printf("%s %d is not the same %s\n", part->what, part->number + i, when);
			bad++;
		}
	return bad;
}

int main(void)
{
	int bad = 0;

	state_learn();
	for (int i = 0; i < CALLS && bad < 20; i++) {
		fill(&given, (uint64_t)i);
		fill(&left, ~(uint64_t)i);
		call_with_given();
		bad += compare(&given, &seen, IN, "in the function");
		bad += compare(&left, &got, OUT, "after the call");
		bad += compare(&seen, &got, OVER, "after the call");
		if (STATE_SP(&seen) + STATE_PUSHED != STATE_SP(&got))
			bad += printf("the stack pointer is not the same\n") > 0;
	}
	printf("%d differences\n", bad);
	return bad != 0;
}
