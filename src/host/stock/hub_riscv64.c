/*
 * RISC-V 64: the hub, to which all islands of an object lead (blocks_cpu.h).  Pure; context: host.
 *
 * A head's short jump is `jal t1`: it leaves in t1 whose head it is.  The hub looks that up in a table of its own, by
 * the address of the head's end in the object, and goes on in the block.  It changes t1 and t3 to t5, which mean
 * nothing at a function's entry (doc/design/stock.md, "Islands"), and reads its own memory alone.
 */
#include <stdlib.h>

#include "arch/riscv64/isa/encode.h"
#include "blocks_cpu.h"

#define JUMP	   4
#define ISLAND	   8
#define REACH	   ((UINT64_C(1) << 20) - ISLAND)
#define MULTIPLIER 0x9e3779b1u /* 2^32 by the golden ratio: spreads neighbours over the table */
#define CODE_SIZE  72u
#define BASE_OFF   CODE_SIZE /* of the object's address */
#define TABLE_OFF  (BASE_OFF + 8u)
#define ROW_SIZE   8u

/* A row of the table; one without a key is empty. */
struct row {
	uint32_t key;  /* what t1 is, from the object's address on */
	uint32_t hash; /* of the key */
	int32_t to;    /* from the hub to the block */
};

static uint32_t hash_of(uint32_t key, unsigned bits)
{
	return key * MULTIPLIER >> (32 - bits);
}

static int by_hash(const void *a, const void *b)
{
	const struct row *left = a, *right = b;

	return left->hash != right->hash ? (left->hash > right->hash) - (left->hash < right->hash)
					 : (left->key > right->key) - (left->key < right->key);
}

static void put_code(struct isa_out *out, unsigned bits)
{
	const uint32_t code[CODE_SIZE / 4] = {
		rv_auipc(RV_T3, 0),
		rv_ld(RV_T4, BASE_OFF, RV_T3),
		rv_sub(RV_T1, RV_T1, RV_T4),
		rv_lui(RV_T4, (int32_t)((MULTIPLIER + 0x800u) & 0xfffff000u)),
		rv_addiw(RV_T4, RV_T4, MULTIPLIER & 0xfff), /* signed */
		rv_mul(RV_T4, RV_T1, RV_T4),
		rv_srliw(RV_T4, RV_T4, 32 - bits),
		rv_slli(RV_T4, RV_T4, 3),
		rv_add(RV_T4, RV_T4, RV_T3),
		rv_lwu(RV_T5, TABLE_OFF, RV_T4), /* the next row */
		rv_beq(RV_T5, RV_T1, 16),
		rv_addi(RV_T4, RV_T4, ROW_SIZE),
		rv_bne(RV_T5, RV_ZERO, -12),
		RV_EBREAK, /* no head of this region */
		rv_lw(RV_T5, TABLE_OFF + 4, RV_T4),
		rv_add(RV_T5, RV_T5, RV_T3),
		rv_jr(RV_T5),
		0,
	};

	for (size_t i = 0; i < CODE_SIZE / 4; i++)
		isa_put32(out, code[i]);
}

static size_t collect(struct row *rows, const struct stock_block *blocks, size_t count, unsigned bits)
{
	size_t found = 0;

	for (size_t i = 0; i < count; i++) {
		uint32_t key = (uint32_t)(blocks[i].head + JUMP);

		if (!blocks[i].island || !blocks[i].size)
			continue;
		rows[found++] = (struct row){
			.key = key,
			.hash = hash_of(key, bits),
			.to = (int32_t)(blocks[i].offset - STOCK_BLOCKS_HEAD),
		};
	}
	qsort(rows, found, sizeof(*rows), by_hash);
	return found;
}

/* Rows lie at their hash or behind it, without an empty one in between; an empty one is the last. */
static void put_table(struct isa_out *out, const struct row *rows, size_t count)
{
	size_t at = 0;

	for (size_t i = 0; i < count; i++, at++) {
		for (; at < rows[i].hash; at++)
			isa_put64(out, 0);
		isa_put32(out, rows[i].key);
		isa_put32(out, (uint32_t)rows[i].to);
	}
	isa_put64(out, 0);
}

static size_t make(uint8_t *bytes, const struct stock_block *blocks, size_t count, uint64_t at, uint64_t base)
{
	struct isa_out out = {.code = bytes, .size = bytes ? SIZE_MAX / 2 : 0, .address = at};
	struct row *rows;
	unsigned bits = 1;
	size_t led = 0;

	for (size_t i = 0; i < count; i++)
		led += blocks[i].island && blocks[i].size;
	rows = led ? calloc(led, sizeof(*rows)) : NULL;
	if (!rows)
		return 0;
	while (bits < 31 && UINT64_C(1) << bits < 2 * led)
		bits++;
	led = collect(rows, blocks, count, bits);
	put_code(&out, bits);
	isa_put64(&out, base);
	put_table(&out, rows, led);
	free(rows);
	return out.length;
}

const struct blocks_hub blocks_hub_riscv64 = {
	.islands = {.jump = JUMP, .host = JUMP + ISLAND, .reach = REACH},
	.code_size = CODE_SIZE - 4,
	.make = make,
};
