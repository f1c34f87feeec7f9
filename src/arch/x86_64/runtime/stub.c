/*
 * Stubs, jumps and the toggle byte of x86-64 (layout: entry.S).
 *
 * Called by the patch room in the control thread.  Pure: bytes in a buffer.
 */
#include <arch.h>
#include <base/mem.h>
#include <calltap/abi/control.h>
#include <calltap/abi/record.h>

struct out {
	uint8_t *at;
	uint64_t address; /* where the next byte will run */
};

static void put(struct out *out, const void *bytes, size_t size)
{
	memcpy(out->at, bytes, size);
	out->at += size;
	out->address += size;
}

static void put32(struct out *out, uint64_t value)
{
	uint32_t low = (uint32_t)value;

	put(out, &low, sizeof(low));
}

/* opcode rel32 */
static void put_branch(struct out *out, const char *opcode, size_t size, uint64_t target)
{
	put(out, opcode, size);
	put32(out, target - (out->address + 4));
}

static void put_push(struct out *out, enum calltap_record_kind kind, uint32_t id)
{
	put(out, "\x68", 1); /* push imm32 */
	put32(out, (uint64_t)kind << CALLTAP_RECORD_ID_BITS | id);
}

static enum arch_entry entry_of(uint16_t flags)
{
	if (flags & CALLTAP_SITE_NOTREE)
		return ARCH_ENTRY_NOTREE;
	if (flags & CALLTAP_SITE_ROOT)
		return ARCH_ENTRY_ROOT;
	return flags & CALLTAP_SITE_FULL_ENTRY ? ARCH_ENTRY_FULL : ARCH_ENTRY_FAST;
}

static enum arch_entry exit_of(uint16_t flags)
{
	if (flags & CALLTAP_SITE_NOTREE)
		return ARCH_EXIT_NOTREE;
	return flags & (CALLTAP_SITE_ROOT | CALLTAP_SITE_FULL_EXIT) ? ARCH_EXIT_FULL : ARCH_EXIT_FAST;
}

size_t arch_stub_build(uint8_t *at, uint64_t stub, uint64_t region, const struct calltap_site *site, int64_t tls_gate)
{
	struct out out = {at, stub};
	uint64_t body = site->address + site->body_off;

	if (site->flags & CALLTAP_SITE_GATED) {
		put(&out, "\x64\x48\x3b\x24\x25", 5); /* cmp %fs:gate, %rsp */
		put32(&out, (uint64_t)tls_gate);
		put_branch(&out, "\x0f\x82", 2, body); /* jb body */
	}
	if (site->flags & CALLTAP_SITE_CALL) {
		put_push(&out, CALLTAP_REC_CALL, site->id);
		put_branch(&out, "\xff\x15", 2, region + ARCH_CALL * sizeof(uint64_t)); /* call *CALL */
		put_branch(&out, "\xe9", 1, body);
		return (size_t)(out.at - at);
	}
	put_push(&out, CALLTAP_REC_ENTRY, site->id);
	put_branch(&out, "\xff\x15", 2, region + entry_of(site->flags) * sizeof(uint64_t));
	put_branch(&out, "\xe8", 1, body);
	put_push(&out, CALLTAP_REC_EXIT, site->id);
	put_branch(&out, "\xff\x25", 2, region + exit_of(site->flags) * sizeof(uint64_t)); /* jmp *EXIT */
	return (size_t)(out.at - at);
}

void arch_jump_make(uint8_t code[5], uint64_t address, uint64_t target)
{
	struct out out = {code, address};

	put_branch(&out, "\xe9", 1, target);
}

/*
 * Length 5: the stub lies at an address whose low byte is the site's + 8, so
 * the jump's first displacement byte is 3, and jmp rel32 (e9 03 ...) turns
 * into a short jump over the other three bytes (eb 03) by its first byte.
 * Length 2: a short jump to the trampoline, or to the next instruction.
 */
int arch_site_toggle(struct arch_toggle *toggle, uint64_t address, uint8_t length, const uint8_t now[2])
{
	if (length == 2) {
		*toggle = (struct arch_toggle){address + 1, now[1], 0};
		return now[0] == 0xeb ? 0 : -1;
	}
	*toggle = (struct arch_toggle){address, 0xe9, 0xeb};
	return now[0] == 0xe9 && now[1] == 3 ? 0 : -1;
}

int arch_is_empty_function(const uint8_t code[5])
{
	static const uint8_t known[][5] = {
		{0xf3, 0x0f, 0x1e, 0xfa, 0xc3}, /* endbr64; ret */
		{0xc3, 0x66, 0x66, 0x2e, 0x0f}, /* ret and padding, as assemblers write it */
		{0xc3, 0x66, 0x2e, 0x0f, 0x1f}, {0xc3, 0x0f, 0x1f, 0x80, 0x00}, {0xc3, 0x0f, 0x1f, 0x84, 0x00},
		{0xc3, 0x90, 0x90, 0x90, 0x90}, {0xc3, 0xcc, 0xcc, 0xcc, 0xcc},
	};

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (!memcmp(code, known[i], sizeof(known[i])))
			return 1;
	return 0;
}
