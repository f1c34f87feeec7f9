/*
 * The unwind table of a stub region: an .eh_frame_hdr and one FDE for all of
 * its stubs.
 *
 * Called by the agent room in the control thread.  A body returns to B_f in
 * its stub with rsp = S + 8; the caller's address is at arch_mirror(S).  The
 * unwinder tells frames apart by CFA, and the body's CFA is S + 8 too, so the
 * stub's is put at S + 9 and rsp is restored from it.  Sources: DWARF 5
 * 6.4, LSB 5.0 "Exception Frames", System V x86-64 psABI 3.7.
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

size_t arch_eh_frame_build(uint8_t *at, uint64_t lo, uint64_t hi)
{
	static const uint8_t cie[] = {
		1,
		'z',
		'R',
		0, /* version, augmentation */
		1,
		0x78,
		16, /* code alignment 1, data alignment -8, return address column */
		1,
		0x00, /* augmentation data: pointers are absolute */
		0x0c,
		7,
		1, /* DW_CFA_def_cfa rsp, 1 */
		0x16,
		7,
		2,
		0x31,
		0x1c, /* DW_CFA_val_expression rsp: CFA - 1 */
		/* DW_CFA_expression rip: (CFA - 9) ^ the mirror's mask, a DW_OP_const8u */
		0x10,
		16,
		12,
		0x39,
		0x1c,
		0x0e,
		MIRROR_MASK_BYTES,
		0x27,
	};
	uint8_t *frames = at + ARCH_EH_HDR_SIZE, *fde;
	struct bytes header = {at}, out = {frames};

	put4(&out, 0);
	put4(&out, 0); /* a CIE */
	put(&out, cie, sizeof(cie));
	close_entry(&out, frames);
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
