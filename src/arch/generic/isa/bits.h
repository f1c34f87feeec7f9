/*
 * Reading and writing the fields and the little-endian words of machine code,
 * for the instruction sets of all CPUs.
 *
 * Freestanding and pure; callers: src/arch/<cpu>/isa, in any context.
 */
#ifndef ARCH_GENERIC_ISA_BITS_H
#define ARCH_GENERIC_ISA_BITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bits [low, low + count) of a word. */
static inline uint32_t isa_field(uint32_t word, unsigned low, unsigned count)
{
	return word >> low & (uint32_t)((UINT64_C(1) << count) - 1);
}

/* The lowest bits of a value as a signed number; bits is 1 to 64. */
static inline int64_t isa_signed(uint64_t value, unsigned bits)
{
	return (int64_t)(value << (64 - bits)) >> (64 - bits);
}

/* True if the value is a signed number of that many bits. */
static inline bool isa_fits(int64_t value, unsigned bits)
{
	return isa_signed((uint64_t)value, bits) == value;
}

static inline uint16_t isa_load16(const uint8_t *code)
{
	return (uint16_t)(code[0] | code[1] << 8);
}

static inline uint32_t isa_load32(const uint8_t *code)
{
	return isa_load16(code) | (uint32_t)isa_load16(code + 2) << 16;
}

static inline void isa_store16(uint8_t *code, uint16_t value)
{
	code[0] = (uint8_t)value;
	code[1] = (uint8_t)(value >> 8);
}

static inline void isa_store32(uint8_t *code, uint32_t value)
{
	isa_store16(code, (uint16_t)value);
	isa_store16(code + 2, (uint16_t)(value >> 16));
}

static inline void isa_store64(uint8_t *code, uint64_t value)
{
	isa_store32(code, (uint32_t)value);
	isa_store32(code + 4, (uint32_t)(value >> 32));
}

#endif
