/*
 * Instructions as every decoder of machine code tells them, and the buffer that every encoder and relocator writes to:
 * the part of the instruction sets' interface that is the same for all CPUs.
 *
 *     int <cpu>_decode(struct isa_instruction *in, const uint8_t *code, size_t size, uint64_t address);
 *     int <cpu>_relocate(struct isa_out *out, const uint8_t *code, size_t size, uint64_t from, ...);
 *
 * Freestanding and pure; callers: src/arch/<cpu>/isa and those who use it, in any context.
 */
#ifndef ARCH_GENERIC_ISA_INSTRUCTION_H
#define ARCH_GENERIC_ISA_INSTRUCTION_H

#include "bits.h"

enum isa_kind {
	ISA_PLAIN,	   /* does the same at any address */
	ISA_ADDRESS,	   /* makes an address out of its own: target */
	ISA_MEMORY,	   /* reads or writes memory at a distance from itself: target */
	ISA_JUMP,	   /* goes to target */
	ISA_BRANCH,	   /* goes to target or goes on */
	ISA_CALL,	   /* goes to target and leaves a return address */
	ISA_JUMP_INDIRECT, /* goes where a register or memory says (has_target: target is that memory) */
	ISA_CALL_INDIRECT, /* goes where a register or memory says, and leaves a return address */
	ISA_RETURN,
	ISA_EXCLUSIVE, /* one half of load-reserved and store-conditional */
	ISA_TRAP, /* stops the thread, or leads out of its world: a break point, a far jump, a return from a trap */
};

/*
 * A decoded instruction.  <cpu>_decode returns its length, -ENODATA when code ends within it, -EILSEQ when it is
 * unknown; it never reads a byte past size.
 */
struct isa_instruction {
	uint64_t target; /* where has_target says so */
	uint8_t kind;	 /* enum isa_kind */
	uint8_t length;
	bool has_target;
};

/* How many instructions a recogniser looks ahead for the end of a sequence. */
#define ISA_SOON 32

/* True if the instruction behind one of this kind always runs next. */
static inline bool isa_goes_on(enum isa_kind kind)
{
	return kind == ISA_PLAIN || kind == ISA_ADDRESS || kind == ISA_MEMORY || kind == ISA_EXCLUSIVE;
}

/*
 * A buffer for code that will run at address.  Bytes that do not fit are counted but not written: length > size tells.
 */
struct isa_out {
	uint8_t *code;
	size_t size;
	size_t length;
	uint64_t address;
};

/* Where the next byte will run. */
static inline uint64_t isa_out_here(const struct isa_out *out)
{
	return out->address + out->length;
}

/* Take room for size bytes more; NULL = there is none. */
static inline uint8_t *isa_out_take(struct isa_out *out, size_t size)
{
	uint8_t *at = out->length <= out->size && size <= out->size - out->length ? out->code + out->length : NULL;

	out->length += size;
	return at;
}

static inline void isa_put8(struct isa_out *out, uint8_t byte)
{
	uint8_t *at = isa_out_take(out, 1);

	if (at)
		*at = byte;
}

static inline void isa_put16(struct isa_out *out, uint16_t value)
{
	uint8_t *at = isa_out_take(out, 2);

	if (at)
		isa_store16(at, value);
}

static inline void isa_put32(struct isa_out *out, uint32_t value)
{
	uint8_t *at = isa_out_take(out, 4);

	if (at)
		isa_store32(at, value);
}

static inline void isa_put64(struct isa_out *out, uint64_t value)
{
	isa_put32(out, (uint32_t)value);
	isa_put32(out, (uint32_t)(value >> 32));
}

static inline void isa_put(struct isa_out *out, const uint8_t *bytes, size_t size)
{
	for (size_t i = 0; i < size; i++)
		isa_put8(out, bytes[i]);
}

#endif
