/*
 * Stubs, jumps and the toggle byte of x86-64 (layout: entry.S).
 *
 * Called by the patch room in the control thread.  Pure: bytes in a buffer.
 */
#include <arch.h>
#include <arch/x86_64/isa/encode.h>
#include <arch/x86_64/isa/stub_size.h>
#include <base/mem.h>
#include <calltap/abi/control.h>
#include <calltap/abi/record.h>
#include <thread_block.h>

_Static_assert(X86_STUB_LEAF - X86_STUB_AT_LEAF_BODY == LEAF_TO_FRAMED, "brief.S");
_Static_assert((unsigned)ARCH_EXIT_LEAF == X86_STUB_LEAF_EXIT, "stub_size.h");
_Static_assert(ARCH_EXIT_HANDLED == 14, "arch_stub_is_handled()");
_Static_assert(H_RBP - H_KEPT == offsetof(struct calltap_registers, rbp), "handlers.S");
_Static_assert(H_RBX - H_KEPT == offsetof(struct calltap_registers, rbx), "handlers.S");

static void put_push(struct isa_out *out, enum calltap_record_kind kind, uint32_t id)
{
	x86_put_push(out, (uint32_t)kind << CALLTAP_RECORD_ID_BITS | id);
}

/* Where a recorder tests the gate, no-ops take its place: the rest of the stub is where unwind rules look for it. */
static void put_no_gate(struct isa_out *out)
{
	static const uint8_t no_op[X86_STUB_GATE / 2] = {0x0f, 0x1f, 0x84, 0x00};

	for (unsigned i = 0; i < X86_STUB_GATE; i++)
		isa_put8(out, no_op[i % sizeof(no_op)]);
}

_Static_assert(ARCH_REGION_HEAD % X86_STUB_UNIT_GATED == 0, "units begin at multiples of their size");
_Static_assert(X86_STUB_GRAPH <= X86_STUB_UNIT && X86_STUB_GATE + X86_STUB_GRAPH <= X86_STUB_UNIT_GATED,
	       "a stub is a unit");

/*
 * A leaf's unit.  The word stays on the stack, below the caller's address, while the body runs.  LEAF_ENTRY leads to
 * the stub behind this unit where the call needs a frame.
 */
static void put_leaf(struct isa_out *out, uint64_t region, uint64_t body, uint32_t id)
{
	isa_put8(out, X86_CS); /* prefixes without meaning: no place is that of another instruction in other units */
	put_push(out, CALLTAP_REC_ENTRY, id);
	isa_put8(out, X86_CS);
	x86_put_call_slot(out, region + ARCH_ENTRY_LEAF * sizeof(uint64_t));
	x86_put_call(out, body);
	x86_put_jmp_slot(out, region + ARCH_EXIT_LEAF * sizeof(uint64_t));
	while (out->length < X86_STUB_LEAF)
		isa_put8(out, X86_INT3);
}

size_t arch_stub_build(uint8_t *at, uint64_t stub, uint64_t region, const struct calltap_site *site, int64_t tls_gate)
{
	struct isa_out out = {at, X86_STUB_LEAF + X86_STUB_GRAPH, 0, stub};
	uint64_t body = site->address + site->body_off;
	uint64_t entry = region + arch_entry_of(site->flags) * sizeof(uint64_t);

	if (ARCH_GATES_IN_STUBS && site->flags & CALLTAP_SITE_GATED) {
		x86_put_cmp_fs_sp(&out, (int32_t)tls_gate);
		isa_put8(&out, X86_CS); /* of no meaning: it fills the gate's bytes */
		x86_put_jcc(&out, X86_B, body);
	} else if (site->flags & CALLTAP_SITE_GATED) {
		put_no_gate(&out);
	}
	if (site->flags & CALLTAP_SITE_CALL) {
		isa_put8(&out, X86_CS); /* a prefix without meaning: X86_STUB_AT_CALL_ENTRY */
		put_push(&out, CALLTAP_REC_CALL, site->id);
		x86_put_call_slot(&out, entry);
		x86_put_jmp(&out, body);
		return out.length;
	}
	if (site->flags & CALLTAP_SITE_LEAF)
		put_leaf(&out, region, body, site->id);
	put_push(&out, CALLTAP_REC_ENTRY, site->id);
	x86_put_call_slot(&out, entry);
	x86_put_call(&out, body);
	put_push(&out, CALLTAP_REC_EXIT, site->id);
	x86_put_jmp_slot(&out, region + arch_exit_of(site->flags) * sizeof(uint64_t));
	return out.length;
}

void arch_jump_make(uint8_t *code, uint64_t address, uint64_t target)
{
	struct isa_out out = {code, ARCH_HOOK_BYTES, 0, address};

	x86_put_jmp(&out, target);
}

/* Bytes of the jump itself, at the site's end. */
static unsigned jump_bytes(uint8_t length)
{
	return arch_site_is_short(length) ? 2 : 5;
}

/* Prefixes make the jump as long as what it replaces. */
void arch_site_make(uint8_t *code, uint64_t address, uint8_t length, uint64_t target)
{
	unsigned prefixes = length - jump_bytes(length);

	memset(code, X86_CS, prefixes);
	code += prefixes;
	if (arch_site_is_short(length)) {
		code[0] = X86_JMP_SHORT;
		code[1] = (uint8_t)(target - (address + length));
	} else {
		arch_jump_make(code, address + prefixes, target);
	}
}

void arch_lead_make(uint8_t *code, uint64_t address, uint8_t length, uint64_t target)
{
	(void)length;
	arch_site_make(code, address, ARCH_LEAD_BYTES, target);
}

bool arch_lead_is_one(uint8_t length)
{
	(void)length;
	return true;
}

static struct arch_write one_byte(unsigned offset, uint8_t byte)
{
	return (struct arch_write){(uint8_t)offset, 1, {byte}};
}

/* The displacement of a jump is any operand to a comparison, and flags mean nothing at a function's entry. */
struct arch_write arch_site_switch(uint64_t address, uint8_t length, uint64_t target, bool on)
{
	unsigned opcode = length - jump_bytes(length);

	(void)address;
	(void)target;
	if (arch_site_is_short(length))
		return one_byte(opcode, on ? X86_JMP_SHORT : X86_CMP_AL);
	return one_byte(opcode, on ? X86_JMP : X86_CMP_EAX);
}

unsigned arch_site_lead(struct arch_write *writes, uint64_t address, uint8_t length, uint64_t from, uint64_t to)
{
	unsigned operand = jump_bytes(length) - 1u, at = length - operand, count = 0;
	uint8_t code[ARCH_SITE_MAX];

	if (from != to) {
		arch_site_make(code, address, length, to);
		writes[count] = (struct arch_write){(uint8_t)at, (uint8_t)operand, {0}};
		memcpy(writes[count++].bytes, code + at, operand);
	}
	writes[count++] = arch_site_switch(address, length, to, true);
	return count;
}

/*
 * The bytes before the operand, one at a time; each row is one instruction of
 * the same length that does nothing, whatever the operand:
 *
 *     2e 3d   cmp $imm32, %eax         2e 3d   cmp $imm32, %eax
 *     3b 3d   cmp slot(%rip), %edi     67 3d   cmp $imm32, %eax
 *     3b 15   cmp slot(%rip), %edx     67 e8   addr32 call
 *     ff 15   call *slot(%rip)
 *
 * No such way is known to no-ops of 3, 4, and more than 5 bytes.
 */
static unsigned restore_head(struct arch_write *writes, uint8_t length, const uint8_t *old)
{
	if (length == 5 || length == 2) {
		writes[0] = one_byte(0, old[0]);
		return 1;
	}
	if (length == 6 && old[0] == 0xff && old[1] == 0x15) {
		writes[0] = one_byte(0, 0x3b);
		writes[1] = one_byte(1, old[1]);
		writes[2] = one_byte(0, old[0]);
		return 3;
	}
	if (length == 6 && old[0] == 0x67 && old[1] == 0xe8) {
		writes[0] = one_byte(0, old[0]);
		writes[1] = one_byte(1, old[1]);
		return 2;
	}
	return 0;
}

unsigned arch_site_restore(struct arch_write *writes, uint8_t length, const uint8_t *old, uint8_t *inert)
{
	uint8_t operand = (uint8_t)(jump_bytes(length) - 1), at = (uint8_t)(length - operand);
	unsigned head = restore_head(writes + 1, length, old);

	writes[0] = (struct arch_write){at, operand, {0}};
	memcpy(writes[0].bytes, old + at, operand);
	*inert = head ? 0 : at;
	return 1 + head;
}

bool arch_falls_through(const uint8_t *old)
{
	return !memcmp(old, "\x0f\x1f\x44\x00", 4) || !memcmp(old, "\x90\x90\x90\x90\x90", 5);
}

unsigned arch_hook_restore(struct arch_write *writes, uint64_t address, const uint8_t *old)
{
	(void)address;
	writes[0] = one_byte(0, X86_RET);
	writes[1] = (struct arch_write){1, 4, {0}};
	memcpy(writes[1].bytes, old + 1, 4);
	writes[2] = one_byte(0, old[0]);
	return 3;
}

bool arch_is_empty_function(const uint8_t *code)
{
	static const uint8_t known[][5] = {
		{0xf3, 0x0f, 0x1e, 0xfa, 0xc3}, /* endbr64; ret */
		{0xc3, 0x66, 0x66, 0x2e, 0x0f}, /* ret and padding, as assemblers write it */
		{0xc3, 0x66, 0x2e, 0x0f, 0x1f}, {0xc3, 0x0f, 0x1f, 0x80, 0x00}, {0xc3, 0x0f, 0x1f, 0x84, 0x00},
		{0xc3, 0x90, 0x90, 0x90, 0x90}, {0xc3, 0xcc, 0xcc, 0xcc, 0xcc},
	};

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (!memcmp(code, known[i], sizeof(known[i])))
			return true;
	return false;
}

struct arch_write arch_scratch_change(void)
{
	return one_byte(1, 1); /* of `mov $0, %eax` */
}
