/*
 * Stubs, jumps and sites of riscv64 (layout: entry.S).
 *
 * Called by the patch room in the control thread.  Pure: bytes in a buffer.
 * Only 4-byte instructions are written, at addresses that are multiples of 4.
 */
#include <arch.h>
#include <arch/riscv64/isa/encode.h>
#include <arch/riscv64/isa/fields.h>
#include <base/mem.h>
#include <calltap/abi/control.h>
#include <calltap/abi/record.h>

/* What jumps to the exit recorder: the last instruction of a stub. */
#define LEAVE rv_jalr(RV_T3, RV_T1, 0)

struct out {
	uint8_t *at;
	uint64_t address; /* where the next word will run */
};

static void put(struct out *out, uint32_t word)
{
	isa_store32(out->at, word);
	out->at += sizeof(word);
	out->address += sizeof(word);
}

static void put_record(struct out *out, enum calltap_record_kind kind, uint32_t id)
{
	put(out, (uint32_t)kind << CALLTAP_RECORD_ID_BITS | id);
}

/* Load a pointer of the region's table. */
static void put_load(struct out *out, enum rv_register to, uint64_t pointer)
{
	int32_t high, low;

	rv_pcrel_split((int64_t)(pointer - out->address), &high, &low);
	put(out, rv_auipc(to, high));
	put(out, rv_ld(to, low, to));
}

/* A frame below the gate goes on to its body: an S is a multiple of 16 less 8, so sp tells the same. */
static void put_gate(struct out *out, int64_t tls_gate)
{
	int32_t high, low;

	rv_pcrel_split(tls_gate, &high, &low);
	put(out, rv_lui(RV_T1, high));
	put(out, rv_add(RV_T1, RV_T1, RV_TP));
	put(out, rv_ld(RV_T1, low, RV_T1));
	put(out, rv_bgeu(RV_SP, RV_T1, 8));
	put(out, rv_jr(RV_T0));
}

size_t arch_stub_build(uint8_t *at, uint64_t stub, uint64_t region, const struct calltap_site *site, int64_t tls_gate)
{
	struct out out = {at, stub};

	if (site->flags & CALLTAP_SITE_GATED)
		put_gate(&out, tls_gate);
	if (site->flags & CALLTAP_SITE_CALL) {
		put_load(&out, RV_T3, region + arch_entry_of(site->flags) * sizeof(uint64_t));
		put(&out, rv_jalr(RV_T3, RV_T3, 0));
		put_record(&out, CALLTAP_REC_CALL, site->id);
		return (size_t)(out.at - at);
	}
	put(&out, rv_mv(RV_T1, RV_RA));
	put_load(&out, RV_T3, region + arch_entry_of(site->flags) * sizeof(uint64_t));
	put(&out, rv_jalr(RV_RA, RV_T3, 0));
	put(&out, rv_jalr(RV_RA, RV_T0, 0));
	put_load(&out, RV_T1, region + arch_exit_of(site->flags) * sizeof(uint64_t));
	put(&out, LEAVE);
	put_record(&out, CALLTAP_REC_EXIT, site->id);
	put_record(&out, CALLTAP_REC_ENTRY, site->id);
	return (size_t)(out.at - at);
}

/* back: auipc t1; ld t1; LEAVE; the words */
uint32_t arch_stub_word(uint64_t back)
{
	const uint32_t *code = (const uint32_t *)back;

	return back & 3 || code[2] != LEAVE ? 0 : code[3 + STUB_EXIT_WORD / 4];
}

/* The stub is handled if the load that put_load() wrote there is of the dispatcher's exit. */
bool arch_stub_is_handled(uint64_t back, uint64_t region)
{
	const uint32_t *code = (const uint32_t *)back;
	int32_t high, low;

	rv_pcrel_split((int64_t)(region + ARCH_EXIT_HANDLED * sizeof(uint64_t) - back), &high, &low);
	return arch_stub_word(back) && code[0] == rv_auipc(RV_T1, high) && code[1] == rv_ld(RV_T1, low, RV_T1);
}

/* auipc, and the word of a jump from there to target through the same register. */
static void make_jump(uint32_t code[2], uint64_t address, uint64_t target, enum rv_register link,
		      enum rv_register through)
{
	int32_t high, low;

	rv_pcrel_split((int64_t)(target - address), &high, &low);
	code[0] = rv_auipc(through, high);
	code[1] = rv_jalr(link, through, low);
}

/* The second word of a site that is off adds what the jump would have added, so both tell where the site leads. */
static uint32_t off_of(uint32_t jump)
{
	return rv_addi(RV_T0, RV_T0, (int32_t)rv_imm_i(jump));
}

/* The jump leaves the body's address in t0, for the stub. */
void arch_site_make(uint8_t *code, uint64_t address, uint8_t length, uint64_t target)
{
	uint32_t words[2];

	(void)length;
	make_jump(words, address, target, RV_T0, RV_T0);
	isa_store32(code, words[0]);
	isa_store32(code + 4, words[1]);
}

/* By t1, which no predictor takes for a return address: the call's own has to stay the last one that was pushed. */
void arch_lead_make(uint8_t *code, uint64_t address, uint8_t length, uint64_t target)
{
	uint32_t words[2];

	(void)length;
	make_jump(words, address, target, RV_ZERO, RV_T1);
	isa_store32(code, words[0]);
	isa_store32(code + 4, words[1]);
}

bool arch_lead_is_one(uint8_t length)
{
	(void)length;
	return false;
}

/* jal t1: it tells what the island leads to whose head this is (host/stock/hub_riscv64.c). */
#define SHORT_BYTES 4

uint8_t arch_island_lead_bytes(int64_t distance)
{
	if (distance == SHORT_BYTES)
		return SHORT_BYTES + ARCH_ISLAND_MAX;
	return distance && rv_jal_reaches(distance) ? SHORT_BYTES : 0;
}

/* The island jumps by way of t3, as t1 holds the address that the head's jump has left, which names the head. */
uint8_t arch_island_make(uint8_t *code, uint64_t address, uint64_t target)
{
	uint32_t words[2];

	make_jump(words, address, target, RV_ZERO, RV_T3);
	isa_store32(code, words[0]);
	isa_store32(code + 4, words[1]);
	return ARCH_ISLAND_MAX;
}

void arch_lead_to_island(uint8_t *code, uint64_t address, uint64_t island, uint64_t target)
{
	isa_store32(code, rv_jal(RV_T1, (int64_t)(island - address)));
	if (island == address + SHORT_BYTES)
		arch_island_make(code + SHORT_BYTES, island, target);
}

static struct arch_write one_word(uint8_t offset, uint32_t word)
{
	struct arch_write write = {offset, sizeof(word), {0}};

	isa_store32(write.bytes, word);
	return write;
}

struct arch_write arch_site_switch(uint64_t address, uint8_t length, uint64_t target, bool on)
{
	uint32_t words[2];

	(void)length;
	make_jump(words, address, target, RV_T0, RV_T0);
	return one_word(4, on ? words[1] : off_of(words[1]));
}

bool arch_site_target(uint64_t *target, const uint8_t *code, uint64_t address)
{
	uint32_t high = isa_load32(code), low = isa_load32(code + 4);

	*target = address + (uint64_t)rv_imm_u(high) + (uint64_t)rv_imm_i(low);
	return high == rv_auipc(RV_T0, (int32_t)rv_imm_u(high)) &&
	       (low == rv_jalr(RV_T0, RV_T0, (int32_t)rv_imm_i(low)) ||
		low == rv_addi(RV_T0, RV_T0, (int32_t)rv_imm_i(low)));
}

/* The second word first: t0, which auipc sets, means nothing to the no-ops behind it. */
unsigned arch_site_restore(struct arch_write *writes, uint8_t length, const uint8_t *old, uint8_t *inert)
{
	(void)length;
	writes[0] = one_word(4, isa_load32(old + 4));
	writes[1] = one_word(0, isa_load32(old));
	*inert = 0;
	return 2;
}

/* There are no trampolines. */
bool arch_falls_through(const uint8_t *old)
{
	(void)old;
	return false;
}

struct arch_write arch_scratch_change(void)
{
	return one_word(0, rv_addi(RV_A0, RV_ZERO, 1));
}
