/*
 * The common rules of all relocators.
 *
 * A relocator appends code to *out that does at its new address what one instruction does at `from`: it has the same
 * effect on registers, flags and memory, and goes on at the same places.  A call leaves the return address that it
 * leaves at `from`, so the callee, an unwinder, and readers of the stack see no difference; it returns to the
 * instruction behind the old place.  An instruction that goes on behind itself does so behind the new place: the caller
 * appends a jump.
 *
 * A relocator cannot keep the address that a signal handler gets when the instruction faults or is interrupted, return
 * prediction and a shadow stack, for a call, and the time that the instruction takes.
 *
 * Returns the number of bytes, or, with *out as it was,
 *     -ENODATA  the code ends within the instruction
 *     -EILSEQ   the instruction is unknown
 *     -ENOTSUP  the instruction cannot be moved: a trap, half of an exclusive access, or, where a CPU's relocator takes
 *               a scratch register, an instruction that needs one and has none
 *     -ERANGE   the instruction's target is out of reach from the new place
 *     -ENOSPC   the buffer is too small
 */
#ifndef ARCH_GENERIC_ISA_RELOCATE_H
#define ARCH_GENERIC_ISA_RELOCATE_H

#include <errno.h>

#include "instruction.h"

/* The longest sequence that any relocator makes, bytes. */
#define ISA_RELOCATED_MAX 64

/*
 * The instruction to move, and the number of a register that the sequence may change, where the CPU's relocator takes
 * one.
 */
struct isa_source {
	const uint8_t *code;
	size_t size;
	uint64_t from;
	unsigned scratch;
};

typedef int isa_decoder(struct isa_instruction *in, const uint8_t *code, size_t size, uint64_t address);

/* Append code that does the same as the instruction, which may be moved; 0 or one of the errors. */
typedef int isa_mover(struct isa_out *out, const struct isa_instruction *in, const struct isa_source *source);

/* A relocator, made of a CPU's decoder and what moves one instruction. */
static inline int isa_relocate(struct isa_out *out, const struct isa_source *source, isa_decoder *decode,
			       isa_mover *move)
{
	size_t start = out->length;
	struct isa_instruction in;
	int error = decode(&in, source->code, source->size, source->from);

	if (error < 0)
		return error;
	if (in.kind == ISA_EXCLUSIVE || in.kind == ISA_TRAP)
		return -ENOTSUP;
	error = move(out, &in, source);
	if (!error && out->length > out->size)
		error = -ENOSPC;
	if (!error)
		return (int)(out->length - start);
	out->length = start;
	return error;
}

#endif
