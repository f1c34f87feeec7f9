/*
 * The unwind table of a stub region: an .eh_frame_hdr and one FDE, whose rules
 * (the CPU's: arch_unwind_rules()) hold at every instruction of every stub.
 *
 * Called by the patch and agent rooms in the control thread.  Sources: DWARF 5
 * 6.4, LSB 5.0 "Exception Frames".
 */
#include <arch.h>
#include <base/mem.h>

struct bytes {
	uint8_t *at;
};

static void put(struct bytes *out, const void *from, size_t size)
{
	memcpy(out->at, from, size);
	out->at += size;
}

static void put4(struct bytes *out, uint32_t value)
{
	put(out, &value, sizeof(value));
}

static void put8(struct bytes *out, uint64_t value)
{
	put(out, &value, sizeof(value));
}

/* Pad the entry that starts at its length field with DW_CFA_nop and fill the length in. */
static void close_entry(struct bytes *out, uint8_t *start)
{
	uint32_t length;

	while ((out->at - start) % 4 != 0)
		*out->at++ = 0;
	length = (uint32_t)(out->at - start - 4);
	memcpy(start, &length, sizeof(length));
}

/* .eh_frame_hdr with its search table of one row. */
static void put_header(struct bytes *out, uint8_t *frames, uint8_t *fde, uint64_t lo)
{
	uint8_t *start = out->at;

	put(out, "\x01\x1b\x03\x3b", 4); /* version; pcrel sdata4; udata4; datarel sdata4 */
	put4(out, (uint32_t)(frames - out->at));
	put4(out, 1);
	put4(out, (uint32_t)(lo - (uint64_t)start));
	put4(out, (uint32_t)(fde - start));
}

static void put_rule(struct bytes *out, const struct arch_unwind_rule *rule)
{
	uint8_t size[] = {rule->size & 0x7f, 0};
	unsigned size_bytes = 1;

	*out->at++ = rule->rule;
	if (rule->reg >= 0)
		*out->at++ = (uint8_t)rule->reg;
	if (rule->size > 0x7f) { /* LEB128 */
		size[0] |= 0x80;
		size[size_bytes++] = 1;
	}
	put(out, size, size_bytes);
	put(out, rule->bytes, rule->size);
}

static void put_cie(struct bytes *out, enum arch_unwinder unwinder, uint64_t lo, uint64_t hi, bool gated,
		    uint64_t personality)
{
	/* Version, augmentation, code alignment 1, data alignment -8, return address column. */
	static const uint8_t head[] = {1, 'z', 'P', 'R', 0, 1, 0x78, ARCH_DWARF_RETURN};
	struct arch_unwind_rule rules[ARCH_UNWIND_RULES];
	unsigned count = arch_unwind_rules(rules, unwinder, lo, hi, gated);
	uint8_t *start = out->at;

	put4(out, 0);
	put4(out, 0); /* a CIE */
	put(out, head, sizeof(head));
	put(out, "\x0a\x00", 2); /* augmentation data: 10 bytes; the personality is absolute */
	put8(out, unwinder == ARCH_UNWINDER_LIBGCC ? personality : 0);
	put(out, "\x00", 1); /* the FDE's pointers are absolute, too */
	for (unsigned i = 0; i < count; i++)
		put_rule(out, &rules[i]);
	close_entry(out, start);
}

size_t arch_eh_frame_build(uint8_t *at, enum arch_unwinder unwinder, uint64_t lo, uint64_t hi, bool gated,
			   uint64_t personality)
{
	uint8_t *frames = at + ARCH_EH_HDR_SIZE, *fde;
	struct bytes header = {at}, out = {frames};

	put_cie(&out, unwinder, lo, hi, gated, personality);
	fde = out.at;
	put4(&out, 0);
	put4(&out, (uint32_t)(out.at - frames)); /* back to the CIE from here */
	put8(&out, lo);
	put8(&out, hi - lo);
	put(&out, "\0", 1); /* no augmentation data */
	close_entry(&out, fde);
	put4(&out, 0); /* end of .eh_frame */
	put_header(&header, frames, fde, lo);
	return (size_t)(out.at - at);
}
