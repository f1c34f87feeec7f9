/*
 * x86-64: decoding the few instructions that stand at a function's entry (see
 * nops.h).  Pure; host context.
 */
#include "nops.h"

#define MAX_INSTRUCTION 15

static int32_t read_disp32(const uint8_t *code)
{
	uint32_t value = code[0] | (uint32_t)code[1] << 8 | (uint32_t)code[2] << 16 | (uint32_t)code[3] << 24;

	return (int32_t)value;
}

/* The length of a memory or register operand (ModRM, SIB, displacement) with 64-bit addressing. */
static size_t operand_length(const uint8_t *code, size_t size)
{
	uint8_t mod, rm;
	size_t length = 1;

	if (size < 1)
		return 0;
	mod = code[0] >> 6;
	rm = code[0] & 7;
	if (mod == 3)
		return 1;
	if (rm == 4) {
		if (size < 2)
			return 0;
		length = 2;
		if (mod == 0 && (code[1] & 7) == 5)
			length += 4;
	} else if (mod == 0 && rm == 5) {
		length += 4;
	}
	if (mod == 1)
		length += 1;
	else if (mod == 2)
		length += 4;
	return length;
}

/* Is the whole instruction, length bytes, there? */
static size_t within(size_t length, size_t size)
{
	return length <= size && length <= MAX_INSTRUCTION ? length : 0;
}

size_t x86_nop_length(const uint8_t *code, size_t size)
{
	size_t at = 0;
	size_t operand;

	/* Operand-size and segment prefixes lengthen a no-op; f3 would make `pause` of 90. */
	while (at < size && at < MAX_INSTRUCTION && (code[at] == 0x66 || code[at] == 0x2e))
		at++;
	if (at < size && code[at] == 0x90)
		return within(at + 1, size);
	if (at < size && code[at] >= 0x48 && code[at] <= 0x4f) /* REX before 0f 1f; 49 90 is xchg */
		at++;
	if (at + 2 > size || code[at] != 0x0f || code[at + 1] != 0x1f)
		return 0;
	at += 2;
	operand = operand_length(code + at, size - at);
	return operand ? within(at + operand, size) : 0;
}

size_t x86_endbr64_length(const uint8_t *code, size_t size)
{
	return size >= 4 && code[0] == 0xf3 && code[1] == 0x0f && code[2] == 0x1e && code[3] == 0xfa ? 4 : 0;
}

size_t x86_call_rel32(const uint8_t *code, size_t size, uint64_t address, uint64_t *target)
{
	size_t at = size > 0 && code[0] == 0x67;

	if (size < at + 5 || code[at] != 0xe8)
		return 0;
	*target = address + at + 5 + (uint64_t)(int64_t)read_disp32(code + at + 1);
	return at + 5;
}

size_t x86_call_slot(const uint8_t *code, size_t size, uint64_t address, uint64_t *slot)
{
	if (size < 6 || code[0] != 0xff || code[1] != 0x15)
		return 0;
	*slot = address + 6 + (uint64_t)(int64_t)read_disp32(code + 2);
	return 6;
}

bool x86_may_jump(uint8_t first)
{
	return first == 0x0f || (first & 0xf0) == 0x70 || first == 0xe9 || first == 0xeb || first == 0xff;
}

size_t x86_jump_relative(const uint8_t *code, size_t size, uint64_t address, uint64_t *target)
{
	size_t opcode = size >= 2 && code[0] == 0x0f && code[1] >= 0x80 && code[1] <= 0x8f ? 2 : 1;

	if (size >= 2 && (code[0] == 0xeb || (code[0] >= 0x70 && code[0] <= 0x7f))) {
		*target = address + 2 + (uint64_t)(int64_t)(int8_t)code[1];
		return 2;
	}
	if (size < opcode + 4 || (opcode == 1 && code[0] != 0xe9))
		return 0;
	*target = address + opcode + 4 + (uint64_t)(int64_t)read_disp32(code + opcode);
	return opcode + 4;
}

size_t x86_jump_slot(const uint8_t *code, size_t size, uint64_t address, uint64_t *slot)
{
	size_t at = x86_endbr64_length(code, size);

	if (at < size && code[at] == 0xf2)
		at++;
	if (size < at + 6 || code[at] != 0xff || code[at + 1] != 0x25)
		return 0;
	*slot = address + at + 6 + (uint64_t)(int64_t)read_disp32(code + at + 2);
	return at + 6;
}
