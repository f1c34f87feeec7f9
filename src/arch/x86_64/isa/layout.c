/*
 * x86-64: the parts of an instruction (see layout.h).  Pure.
 */
#include <errno.h>

#include "layout.h"

/*
 * The operands that follow an opcode:
 *
 *     .  nothing             b  8-bit immediate         w  16-bit immediate
 *     m  ModRM               M  ModRM, 8 bits           Z  ModRM, 16 or 32 bits
 *     c  ModRM that is always registers                 V  ModRM, with EVEX alone
 *     z  16 or 32 bits       v  16, 32 or 64 bits       a  an address
 *     J  8-bit offset        j  32-bit offset           e  16 and 8 bits
 *     f  as m, or as M where /0 or /1                   g  as m, or as Z where /0 or /1
 *     -  no instruction; also prefixes and escapes, which are decoded before
 */
static const char one_byte[] = "mmmmbz--mmmmbz--mmmmbz--mmmmbz--" /* 00 */
			       "mmmmbz--mmmmbz--mmmmbz--mmmmbz--" /* 20 */
			       "----------------................" /* 40 */
			       "---m----zZbM....JJJJJJJJJJJJJJJJ" /* 60 */
			       "MZ-Mmmmmmmmmmmmm..........-....." /* 80 */
			       "aaaa....bz......bbbbbbbbvvvvvvvv" /* a0 */
			       "MMw.--MZe.w..b-.mmmm---.mmmmmmmm" /* c0 */
			       "JJJJbbbbjj-J....-.--..fg......mm" /* e0 */;

static const char two_byte[] = "mmmm-.....-.-m.Mmmmmmmmmmmmmmmmm" /* 00 */
			       "cccc----mmmmmmmm......-.--------" /* 20 */
			       "mmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmm" /* 40 */
			       "mmmmmmmmmmmmmmmmMMMMmmm.mmVVmmmm" /* 60 */
			       "jjjjjjjjjjjjjjjjmmmmmmmmmmmmmmmm" /* 80 */
			       "...mMmcc...mMmmmmmmmmmmmmmMmmmmm" /* a0 */
			       "mmMmMMMm........mmmmmmmmmmmmmmmm" /* c0 */
			       "mmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmm" /* e0 */;

_Static_assert(sizeof(one_byte) == 257 && sizeof(two_byte) == 257, "a letter for each opcode");

/* The code that is read, and how far it has been read. */
struct reader {
	const uint8_t *code;
	size_t size;
	size_t at;
};

static int next(struct reader *reader, uint8_t *byte)
{
	if (reader->at >= X86_LENGTH_MAX)
		return -EILSEQ;
	if (reader->at >= reader->size)
		return -ENODATA;
	*byte = reader->code[reader->at++];
	return 0;
}

static bool legacy_prefix(struct x86_layout *layout, uint8_t byte)
{
	switch (byte) {
	case 0x26: /* segments */
	case 0x2e:
	case 0x36:
	case 0x3e:
	case 0x64:
	case 0x65:
		return true;
	case 0x66:
		return layout->data16 = true;
	case 0x67:
		return layout->addr32 = true;
	case 0xf0:
		return layout->lock = true;
	case 0xf2:
		return layout->repne = true;
	case 0xf3:
		return layout->rep = true;
	default:
		return false;
	}
}

/* VEX, EVEX or XOP, of so many bytes behind the first one: the map, then the opcode behind them. */
static int vector_prefix(struct x86_layout *layout, struct reader *reader, unsigned bytes, uint8_t map_mask)
{
	uint8_t byte[3] = {0};
	int error = 0;

	for (unsigned i = 0; i < bytes && !error; i++)
		error = next(reader, &byte[i]);
	if (error)
		return error;
	layout->vector = true;
	layout->map = map_mask ? byte[0] & map_mask : X86_MAP_0F;
	if (layout->rex || layout->data16 || layout->lock || layout->rep || layout->repne)
		return -EILSEQ;
	if (bytes == 3 && (byte[0] & 8 || !(byte[1] & 4))) /* EVEX as it was defined first */
		return -EILSEQ;
	return 0;
}

static int legacy_map(struct x86_layout *layout, struct reader *reader, uint8_t *opcode)
{
	int error;

	if (*opcode != 0x0f)
		return 0;
	layout->map = X86_MAP_0F;
	error = next(reader, opcode);
	if (error || (*opcode != 0x38 && *opcode != 0x3a))
		return error;
	layout->map = *opcode == 0x38 ? X86_MAP_0F38 : X86_MAP_0F3A;
	return next(reader, opcode);
}

/* Is 8f here the prefix XOP?  As pop it has 0 where XOP has a map from 8 on. */
static bool is_xop(const struct reader *reader)
{
	return reader->at < reader->size && reader->code[reader->at] & 0x18;
}

static int read_opcode(struct x86_layout *layout, struct reader *reader)
{
	uint8_t byte;
	int error = next(reader, &byte);

	while (!error && legacy_prefix(layout, byte))
		error = next(reader, &byte);
	layout->prefixes = (uint8_t)(reader->at - 1);
	if (!error && (byte & 0xf0) == 0x40) {
		layout->rex = byte;
		error = next(reader, &byte);
	}
	if (error)
		return error;
	if (byte == 0xc5)
		error = vector_prefix(layout, reader, 1, 0);
	else if (byte == 0xc4)
		error = vector_prefix(layout, reader, 2, 0x1f);
	else if (byte == 0x62)
		error = vector_prefix(layout, reader, 3, 7);
	else if (byte == 0x8f && is_xop(reader))
		error = vector_prefix(layout, reader, 2, 0x1f);
	else
		error = legacy_map(layout, reader, &byte);
	if (!error && layout->vector)
		error = next(reader, &byte);
	layout->opcode = byte;
	layout->opcode_at = (uint8_t)(reader->at - 1);
	return error;
}

/* Opcodes behind 0f that VEX or EVEX may precede. */
static bool is_vector_opcode(uint8_t opcode)
{
	return (opcode >= 0x10 && opcode <= 0x17) || (opcode >= 0x28 && opcode <= 0x2f) ||
	       (opcode >= 0x41 && opcode <= 0x7f) || (opcode >= 0x90 && opcode <= 0x99) || opcode == 0xae ||
	       opcode == 0xc2 || (opcode >= 0xc4 && opcode <= 0xc6) || (opcode >= 0xd0 && opcode <= 0xfe);
}

/* The letter for what follows the opcode (above). */
static char form_of(const struct x86_layout *layout, uint8_t escape)
{
	bool evex = escape == 0x62, vex = escape == 0xc4 || escape == 0xc5;

	if (layout->vector && !vex && !evex) /* XOP */
		return layout->map == 8 ? 'M' : layout->map == 9 ? 'm' : layout->map == 10 ? 'i' : '-';
	switch (layout->map) {
	case X86_MAP_ONE:
		return layout->vector ? '-' : one_byte[layout->opcode];
	case X86_MAP_0F:
		if (!layout->vector)
			return two_byte[layout->opcode] == 'V' ? '-' : two_byte[layout->opcode];
		if (!is_vector_opcode(layout->opcode))
			return '-';
		return two_byte[layout->opcode] != 'V' ? two_byte[layout->opcode] : evex ? 'm' : '-';
	case X86_MAP_0F38:
		return 'm';
	case X86_MAP_0F3A:
		return 'M';
	case 5: /* half-precision floating point */
	case 6:
		return evex ? 'm' : '-';
	default:
		return '-';
	}
}

static unsigned displacement_bytes(const struct x86_layout *layout, uint8_t sib)
{
	unsigned mod = layout->modrm >> 6, base = (layout->modrm & 7) == 4 ? sib & 7 : layout->modrm & 7;

	if (mod == 0)
		return base == 5 ? 4 : 0;
	return mod == 1 ? 1 : 4;
}

/* ModRM, SIB and the displacement. */
static int read_operand(struct x86_layout *layout, struct reader *reader, bool registers_only)
{
	uint8_t sib = 0, ignored;
	int error = next(reader, &layout->modrm);

	layout->modrm_at = (uint8_t)(reader->at - 1);
	layout->has_modrm = true;
	if (error || registers_only || x86_is_register(layout))
		return error;
	if ((layout->modrm & 7) == 4)
		error = next(reader, &sib);
	layout->pc_base = (layout->modrm & 0xc7) == 5;
	layout->displacement_at = (uint8_t)reader->at;
	layout->displacement_size = (uint8_t)displacement_bytes(layout, sib);
	for (unsigned i = 0; i < layout->displacement_size && !error; i++)
		error = next(reader, &ignored);
	return error;
}

static unsigned immediate_bytes(const struct x86_layout *layout, char form)
{
	unsigned full = x86_is_data16(layout) ? 2 : 4;

	switch (form) {
	case 'b':
	case 'M':
	case 'J':
		return 1;
	case 'w':
		return 2;
	case 'e':
		return 3;
	case 'z':
	case 'Z':
		return full;
	case 'v':
		return layout->rex & 8 ? 8 : full;
	case 'a':
		return layout->addr32 ? 4 : 8;
	case 'f':
		return x86_reg_field(layout) < 2 ? 1 : 0;
	case 'g':
		return x86_reg_field(layout) < 2 ? full : 0;
	case 'j':
	case 'i': /* XOP's */
		return 4;
	default: /* extrq and insertq of SSE4a are longer than vmread, which they share the opcode with */
		return layout->map == X86_MAP_0F && layout->opcode == 0x78 && !layout->vector &&
				       (layout->data16 || layout->repne)
			       ? 2
			       : 0;
	}
}

/* True if the instruction exists: ModRM's middle field is a part of some opcodes. */
static bool group_has(const struct x86_layout *layout)
{
	unsigned reg = x86_reg_field(layout);

	if (layout->vector)
		return true;
	if (layout->map == X86_MAP_0F && layout->opcode == 0xb8) /* popcnt */
		return layout->rep;
	if (layout->map == X86_MAP_0F && (layout->opcode & 0xfe) == 0xa6) /* VIA's PadLock */
		return x86_is_register(layout) && !(layout->modrm & 7) && reg < (layout->opcode == 0xa6 ? 3 : 6);
	if (layout->map != X86_MAP_ONE)
		return true;
	switch (layout->opcode) {
	case 0x8d: /* lea */
		return !x86_is_register(layout);
	case 0x8f: /* pop */
		return reg == 0;
	case 0xc6: /* mov, and xabort, xbegin */
	case 0xc7:
		return reg == 0 || layout->modrm == 0xf8;
	case 0xfe:
		return reg < 2;
	case 0xff:
		return reg != 7 && !((reg == 3 || reg == 5) && x86_is_register(layout));
	default:
		return true;
	}
}

/* True if the instruction sets the instruction pointer.  CPUs differ in what prefix 66 does to such instructions. */
static bool is_near_branch(const struct x86_layout *layout, char form)
{
	unsigned reg = x86_reg_field(layout);

	if (form == 'J' || form == 'j')
		return true;
	if (layout->vector || layout->map != X86_MAP_ONE)
		return false;
	return layout->opcode == 0xc2 || layout->opcode == 0xc3 || (layout->opcode == 0xc7 && layout->modrm == 0xf8) ||
	       (layout->opcode == 0xff && (reg == 2 || reg == 4));
}

int x86_parse(struct x86_layout *layout, const uint8_t *code, size_t size)
{
	struct reader reader = {code, size, 0};
	uint8_t ignored;
	char form;
	int error;

	*layout = (struct x86_layout){0};
	error = read_opcode(layout, &reader);
	if (error)
		return error;
	form = form_of(layout, code[layout->prefixes]);
	if (form == '-')
		return -EILSEQ;
	if (form == 'm' || form == 'M' || form == 'Z' || form == 'f' || form == 'g' || form == 'c' || form == 'i')
		error = read_operand(layout, &reader, form == 'c');
	layout->immediate_size = (uint8_t)immediate_bytes(layout, form);
	for (unsigned i = 0; i < layout->immediate_size && !error; i++)
		error = next(&reader, &ignored);
	if (error)
		return error;
	if (!group_has(layout) || (layout->pc_base && layout->addr32))
		return -EILSEQ;
	if (x86_is_data16(layout) && is_near_branch(layout, form))
		return -EILSEQ;
	layout->length = (uint8_t)reader.at;
	return layout->length;
}
