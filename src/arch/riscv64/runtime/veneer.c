/*
 * The head of a stub, and the veneer in front of the stub, by which the stub leads to another one, riscv64
 * (contract.h; why this is safe: doc/design/riscv64.md, "From one stub to another").
 *
 *     veneer:   auipc t3, 0
 *               lw    t4, 20(t3)
 *               add   t3, t3, t4
 *               jr    t3
 *               .word the stub's own first instruction
 *               .word distance from the veneer to the other stub
 *     stub:     its own first instruction, or j veneer
 *
 * Called by the patch room in the control thread.  Pure: bytes in a buffer.
 */
#include <arch.h>
#include <arch/riscv64/isa/encode.h>
#include <arch/riscv64/isa/stub_size.h>
#include <base/mem.h>

/* Offsets from the veneer. */
#define OWN	 16
#define DISTANCE 20
#define HEAD	 ARCH_VENEER_BYTES
_Static_assert(HEAD == DISTANCE + 4 && (int)RV_VENEER == HEAD, "the tool lays stubs out by that");
_Static_assert(ARCH_STUB_HEAD_BYTES == HEAD + 4, "the veneer and the stub's first instruction");

static void make(uint8_t *veneer)
{
	isa_store32(veneer, rv_auipc(RV_T3, 0));
	isa_store32(veneer + 4, rv_lw(RV_T4, DISTANCE, RV_T3));
	isa_store32(veneer + 8, rv_add(RV_T3, RV_T3, RV_T4));
	isa_store32(veneer + 12, rv_jr(RV_T3));
}

void arch_veneer_make(uint8_t *code)
{
	make(code);
	memcpy(code + OWN, code + HEAD, 4);
	isa_store32(code + DISTANCE, HEAD);
}

bool arch_head_read(struct arch_head *head, const uint8_t *code, uint64_t stub)
{
	uint32_t first = isa_load32(code + HEAD);
	uint8_t wanted[OWN];

	make(wanted);
	head->led = first == rv_j(-HEAD);
	head->target = head->led ? stub - HEAD + (uint64_t)(int32_t)isa_load32(code + DISTANCE) : stub;
	return !memcmp(code, wanted, OWN) && (head->led || first == isa_load32(code + OWN));
}

struct arch_write arch_head_switch(const uint8_t *code, bool led)
{
	struct arch_write write = {HEAD, 4, {0}};

	isa_store32(write.bytes, led ? rv_j(-HEAD) : isa_load32(code + OWN));
	return write;
}

bool arch_veneer_lead(struct arch_write *write, uint64_t stub, uint64_t target)
{
	int64_t distance = (int64_t)(target - (stub - HEAD));

	*write = (struct arch_write){DISTANCE, 4, {0}};
	isa_store32(write->bytes, (uint32_t)distance);
	return isa_fits(distance, 32);
}
