/*
 * Stubs, jumps and sites of AArch64 (layout: entry.S).
 *
 * Called by the patch room in the control thread.  Pure: bytes in a buffer.
 */
#include <arch.h>
#include <arch/aarch64/isa/encode.h>
#include <arch/aarch64/isa/stub_size.h>
#include <arch/generic/isa/instruction.h>
#include <calltap/abi/control.h>
#include <calltap/abi/record.h>

#define LDR_MAX 32760 /* greatest offset of ldr */

/* From the exit stub's third instruction to its word. */
#define EXIT_WORD_OFFSET (STUB_EXIT_WORD - STUB_BACK - 8)

static void put_word(struct isa_out *out, enum calltap_record_kind kind, uint32_t id)
{
	isa_put32(out, (uint32_t)kind << CALLTAP_RECORD_ID_BITS | id);
}

/* Load a pointer of the region's table. */
static void put_load(struct isa_out *out, unsigned to, uint64_t pointer)
{
	isa_put32(out, a64_adrp(to, a64_page_offset(isa_out_here(out), pointer)));
	isa_put32(out, a64_ldr_x(to, to, pointer & 0xfff));
}

/* Flags and x17 are free here as well.  tls_gate is far off when the program's own thread-local storage is large. */
static void put_gate(struct isa_out *out, int64_t tls_gate, size_t to_body)
{
	isa_put32(out, a64_mrs_tpidr_el0(A64_X16));
	if (tls_gate <= LDR_MAX) {
		isa_put32(out, a64_ldr_x(A64_X16, A64_X16, (uint32_t)tls_gate));
	} else {
		isa_put32(out, a64_movz_x(A64_X17, (uint32_t)tls_gate, 0));
		isa_put32(out, a64_movk_x(A64_X17, (uint32_t)tls_gate >> 16, 16));
		isa_put32(out, a64_ldr_x_at(A64_X16, A64_X16, A64_X17));
	}
	isa_put32(out, a64_cmp_sp_x(A64_SP, A64_X16));
	isa_put32(out, a64_b_cond(A64_LO, (int64_t)(4 + to_body)));
}

static void put_call(struct isa_out *out, uint64_t body, uint32_t id)
{
	isa_put32(out, a64_b((int64_t)(body - isa_out_here(out))));
	put_word(out, CALLTAP_REC_CALL, id);
}

static void put_pair(struct isa_out *out, uint64_t body, uint64_t exit, uint32_t id)
{
	isa_put32(out, a64_bl((int64_t)(body - isa_out_here(out))));
	put_load(out, A64_X16, exit);
	isa_put32(out, a64_ldr_literal_w(A64_X17, EXIT_WORD_OFFSET));
	isa_put32(out, a64_br(A64_X16));
	isa_put32(out, a64_b((int64_t)(body - isa_out_here(out))));
	put_word(out, CALLTAP_REC_ENTRY, id);
	put_word(out, CALLTAP_REC_EXIT, id);
}

size_t arch_stub_build(uint8_t *at, uint64_t stub, uint64_t region, const struct calltap_site *site, int64_t tls_gate)
{
	bool only_call = site->flags & CALLTAP_SITE_CALL, gated = site->flags & CALLTAP_SITE_GATED;
	size_t size = (only_call ? A64_STUB_CALL : A64_STUB_GRAPH) + (gated ? A64_STUB_GATE : 0);
	struct isa_out out = {.code = at, .size = size, .address = stub};
	uint64_t body = site->address + site->body_off;
	const size_t before_return = 16; /* bytes: mov, adrp, ldr, blr */

	if (gated)
		put_gate(&out, tls_gate, before_return + (only_call ? 0 : STUB_UNTRACED));
	isa_put32(&out, a64_mov_x(A64_X17, A64_X30));
	put_load(&out, A64_X16, region + arch_entry_of(site->flags) * sizeof(uint64_t));
	isa_put32(&out, a64_blr(A64_X16));
	if (only_call)
		put_call(&out, body, site->id);
	else
		put_pair(&out, body, region + arch_exit_of(site->flags) * sizeof(uint64_t), site->id);
	while (out.length < size)
		isa_put32(&out, A64_BRK);
	return size;
}

uint32_t arch_stub_word(uint64_t back)
{
	const uint32_t *code = (const uint32_t *)back;

	if (back & 3 || code[2] != a64_ldr_literal_w(A64_X17, EXIT_WORD_OFFSET))
		return 0;
	return code[(STUB_EXIT_WORD - STUB_BACK) / 4];
}

/* back: adrp x16, EXIT; ldr x16, [x16, EXIT] */
bool arch_stub_is_handled(uint64_t back, uint64_t region)
{
	uint64_t exit = region + ARCH_EXIT_HANDLED * sizeof(uint64_t);
	const uint32_t *code = (const uint32_t *)back;

	return arch_stub_word(back) && code[0] == a64_adrp(A64_X16, a64_page_offset(back, exit)) &&
	       code[1] == a64_ldr_x(A64_X16, A64_X16, exit & 0xfff);
}

void arch_jump_make(uint8_t *code, uint64_t address, uint64_t target)
{
	isa_store32(code, a64_b((int64_t)(target - address)));
}

void arch_site_make(uint8_t *code, uint64_t address, uint8_t length, uint64_t target)
{
	(void)length;
	arch_jump_make(code, address, target);
}

/* A head of two instructions begins with paciasp: `bti c` is the landing pad in its place (host/stock/find_aarch64.c).
 */
void arch_lead_make(uint8_t *code, uint64_t address, uint8_t length, uint64_t target)
{
	bool pad = !arch_lead_is_one(length);

	if (pad)
		isa_store32(code, A64_BTI_C);
	arch_jump_make(code + (pad ? 4 : 0), address + (pad ? 4 : 0), target);
}

/* A thread may be behind the landing pad. */
bool arch_lead_is_one(uint8_t length)
{
	return length == ARCH_LEAD_BYTES;
}

static struct arch_write one_word(uint8_t offset, uint32_t word)
{
	struct arch_write write = {offset, sizeof(word), {0}};

	isa_store32(write.bytes, word);
	return write;
}

/* nop and b may replace each other while other cores run them (ARM ARM B2.2.5). */
struct arch_write arch_site_switch(uint64_t address, uint8_t length, uint64_t target, bool on)
{
	(void)length;
	return one_word(0, on ? a64_b((int64_t)(target - address)) : A64_NOP);
}

unsigned arch_site_lead(struct arch_write *writes, uint64_t address, uint8_t length, uint64_t from, uint64_t to)
{
	(void)from;
	writes[0] = arch_site_switch(address, length, to, true);
	return 1;
}

/* A site that is off is what the compiler wrote. */
unsigned arch_site_restore(struct arch_write *writes, uint8_t length, const uint8_t *old, uint8_t *inert)
{
	(void)writes;
	*inert = isa_load32(old) == A64_NOP ? 0 : length;
	return 0;
}

/* AArch64 has no trampolines. */
bool arch_falls_through(const uint8_t *old)
{
	(void)old;
	return false;
}

/* The loader runs its hook with its lock held, one thread at a time; what is fetched of it is the word before or after.
 */
unsigned arch_hook_restore(struct arch_write *writes, uint64_t address, const uint8_t *old)
{
	(void)address;
	writes[0] = one_word(0, isa_load32(old));
	return 1;
}

bool arch_is_empty_function(const uint8_t *code)
{
	uint32_t first = isa_load32(code);

	return first == a64_ret(A64_X30) || (first == A64_BTI_C && isa_load32(code + 4) == a64_ret(A64_X30));
}

/* The second instruction of `int f(void)` there: mov w0, #1. */
struct arch_write arch_scratch_change(void)
{
	return one_word(4, 0x52800020);
}
