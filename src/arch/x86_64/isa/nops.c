/*
 * x86-64: decoding the few instructions that stand at a function's entry (see
 * nops.h).  Pure; host context.
 */
#include <string.h>

#include "layout.h"
#include "nops.h"

static uint64_t displacement(const uint8_t *code)
{
	return (uint64_t)isa_signed(isa_load32(code), 32);
}

size_t x86_nop_length(const uint8_t *code, size_t size)
{
	struct x86_layout layout;
	int length = x86_parse(&layout, code, size);

	if (length < 0)
		return 0;
	/* Operand-size and segment prefixes lengthen a no-op; f3 would make `pause` of 90. */
	for (unsigned i = 0; i < layout.prefixes; i++) {
		if (code[i] != 0x66 && code[i] != 0x2e)
			return 0;
	}
	if (layout.map == X86_MAP_ONE && layout.opcode == 0x90 && !layout.rex) /* 49 90 is xchg */
		return layout.length;
	return layout.map == X86_MAP_0F && layout.opcode == 0x1f && (!layout.rex || layout.rex & 8) ? layout.length : 0;
}

size_t x86_endbr64_length(const uint8_t *code, size_t size)
{
	return size >= 4 && code[0] == 0xf3 && code[1] == 0x0f && code[2] == 0x1e && code[3] == 0xfa ? 4 : 0;
}

size_t x86_push_chain_length(const uint8_t *code, size_t size)
{
	return size >= 2 && code[0] == 0x41 && code[1] == 0x52 ? 2 : 0;
}

size_t x86_xray_length(const uint8_t *code, size_t size)
{
	static const uint8_t sled[] = {0xeb, 9, 0x66, 0x0f, 0x1f, 0x84, 0, 0, 2, 0, 0};

	return size >= sizeof(sled) && !memcmp(code, sled, sizeof(sled)) ? sizeof(sled) : 0;
}

size_t x86_call(const uint8_t *code, size_t size, uint64_t address, uint64_t *target)
{
	size_t at = size > 0 && code[0] == 0x67;

	if (size < at + 5 || code[at] != 0xe8)
		return 0;
	*target = address + at + 5 + displacement(code + at + 1);
	return at + 5;
}

size_t x86_call_slot(const uint8_t *code, size_t size, uint64_t address, uint64_t *slot)
{
	if (size < 6 || code[0] != 0xff || code[1] != 0x15)
		return 0;
	*slot = address + 6 + displacement(code + 2);
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
	*target = address + opcode + 4 + displacement(code + opcode);
	return opcode + 4;
}

size_t x86_jump_slot(const uint8_t *code, size_t size, uint64_t address, uint64_t *slot)
{
	size_t at = x86_endbr64_length(code, size);

	if (at < size && code[at] == 0xf2)
		at++;
	if (size < at + 6 || code[at] != 0xff || code[at + 1] != 0x25)
		return 0;
	*slot = address + at + 6 + displacement(code + at + 2);
	return at + 6;
}

bool x86_plt_entry(struct isa_plt_entry *entry, const uint8_t *code, size_t size, uint64_t address)
{
	size_t head = x86_endbr64_length(code, size);
	size_t mov = size >= head + 6 && code[head] == 0x41 && code[head + 1] == 0xbb ? 6 : 0;
	size_t at = head + mov;
	size_t prefix = size > at && code[at] == 0xf2;

	at += prefix;
	if (size < at + 6 || code[at] != 0xff || code[at + 1] != 0x25)
		return false;
	entry->head = (uint8_t)head;
	entry->length = (uint8_t)(mov ? mov : prefix + 6);
	entry->slot = address + at + 6 + displacement(code + at + 2);
	return true;
}
