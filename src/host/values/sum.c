/*
 * Sums (sum.h).  Context: host.
 */
#include <stddef.h>

#include "emit.h"
#include "sum.h"

#define TRIES 16 /* to raise a number that others raise, too */

uint32_t sum_put_test(struct fetch *out)
{
	return put_test(out, BPF_JEQ, SUM_NUMBER, 0);
}

/*
 * Raise the number at r3 + offset to VALUE.  An exchange fails where another one has raised it in between, or a
 * signal's handler of this thread; a number that was not raised in so many tries is counted as missed.
 */
static void put_raise(struct fetch *out, size_t offset)
{
	uint32_t again, least, done;

	put_number(out, BPF_REG_2, TRIES);
	again = out->count;
	put_load(out, BPF_REG_1, BPF_REG_3, offset, 8);
	least = put_compare(out, BPF_JLE, VALUE, BPF_REG_1);
	put_move(out, BPF_REG_0, BPF_REG_1);
	put_atomic(out, BPF_CMPXCHG, BPF_REG_3, offset, VALUE);
	done = put_compare(out, BPF_JEQ, BPF_REG_0, BPF_REG_1);
	put_add(out, BPF_REG_2, -1);
	put(out, (struct bpf_insn){.code = BPF_JMP | BPF_K | BPF_JNE,
				   .dst_reg = BPF_REG_2,
				   .off = (int16_t)(again - out->count - 1)});
	put_number(out, BPF_REG_1, 1);
	put_atomic(out, BPF_ADD, BPF_REG_3, offsetof(struct calltap_map_sum, missed), BPF_REG_1);
	put_target(out, least);
	put_target(out, done);
}

void sum_put(struct fetch *out, bool has_sign, bool may_fault)
{
	uint32_t none, end = 0;

	put_add(out, SUM_NUMBER, -1);
	none = put_lookup(out, CALLTAP_MAP_SUMS, SUM_NUMBER);
	put_move(out, BPF_REG_3, BPF_REG_0);
	put_number(out, BPF_REG_1, 1);
	if (may_fault) {
		uint32_t usual = put_test(out, BPF_JEQ, FAULTS, 0);

		put_atomic(out, BPF_ADD, BPF_REG_3, offsetof(struct calltap_map_sum, numberless), BPF_REG_1);
		end = put_way(out);
		put_target(out, usual);
	}
	if (has_sign)
		put(out, (struct bpf_insn){.code = BPF_STX | BPF_MEM | BPF_DW,
					   .dst_reg = BPF_REG_3,
					   .src_reg = BPF_REG_1,
					   .off = offsetof(struct calltap_map_sum, has_sign)});
	put_atomic(out, BPF_ADD, BPF_REG_3, offsetof(struct calltap_map_sum, count), BPF_REG_1);
	put_atomic(out, BPF_ADD, BPF_REG_3, offsetof(struct calltap_map_sum, sum), VALUE);
	if (has_sign) {
		put_wide(out, BPF_REG_1, (uint64_t)1 << 63);
		put_alu_of(out, BPF_XOR, VALUE, BPF_REG_1);
	}
	put_raise(out, offsetof(struct calltap_map_sum, most));
	put_alu(out, BPF_XOR, VALUE, -1);
	put_raise(out, offsetof(struct calltap_map_sum, least));
	put_target(out, none);
	if (may_fault)
		put_target(out, end);
}

static uint64_t load(const uint64_t *word)
{
	return __atomic_load_n(word, __ATOMIC_RELAXED);
}

void sum_read(struct tallied_sum *out, const struct calltap_map *map, uint32_t at)
{
	*out = (struct tallied_sum){.count = 0};
	for (uint32_t lane = 0; lane < CALLTAP_MAP_LANES; lane++) {
		const struct calltap_map_sum *sum = &map->sums[lane][at];
		const struct tallied_sum own = {.has_sign = load(&sum->has_sign) != 0,
						.count = load(&sum->count),
						.sum = load(&sum->sum),
						.most = load(&sum->most),
						.least = load(&sum->least),
						.missed = load(&sum->missed),
						.numberless = load(&sum->numberless)};

		tallied_sum_merge(out, &own);
	}
}
