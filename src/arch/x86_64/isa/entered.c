/*
 * x86-64: stores of a function's address into a signal's context (entered.h).  Pure.
 *
 * Compilers make the address by a `lea` close in front of the store, or have it in the store itself.  Neither is
 * decoded in order: what merely looks like it is one more candidate, whose own code is looked at next.
 */
#include <string.h>

#include "decode.h"
#include "entered.h"

#define CONTEXT_PC 168 /* offset of uc_mcontext.gregs[REG_RIP] in ucontext_t */
#define NEAR	   64  /* bytes in front of the store in which its register gets the address */
#define LEA	   7   /* bytes of lea disp32(%rip), %reg */

enum { REX = 0x40, REX_W = 8, REX_R = 4, OPCODE_STORE = 0x89, OPCODE_STORE_NUMBER = 0xc7, OPCODE_LEA = 0x8d };

static int32_t number_at(const uint8_t *bytes)
{
	int32_t number;

	memcpy(&number, bytes, sizeof(number));
	return number;
}

/* The register's last address, in the bytes in front of `at`. */
static bool find_address(const uint8_t *code, size_t at, uint64_t address, unsigned reg, uint64_t *target)
{
	size_t end = at > NEAR ? at - NEAR : 0;

	for (size_t i = at; i-- > end;) {
		if (at - i < LEA || (code[i] & ~REX_R) != (REX | REX_W) || code[i + 1] != OPCODE_LEA ||
		    (code[i + 2] & 0xc7) != 5)
			continue;
		if ((code[i + 2] >> 3 & 7u) + (code[i] & REX_R ? 8u : 0) != reg)
			continue;
		*target = address + i + LEA + (uint64_t)(int64_t)number_at(code + i + 3);
		return true;
	}
	return false;
}

/*
 * The bytes at `at` are the store's displacement: a base register is in front of it, and in front of that one the
 * opcode.  An index, or a base that takes a byte more, is the same with that byte in between.
 */
static bool read_store(const uint8_t *code, size_t size, size_t at, uint64_t address, uint64_t *target)
{
	for (size_t more = 0; more < 2; more++) {
		const uint8_t *store = code + at - 3 - more;
		uint8_t modrm;

		if (at < 3 + more)
			return false;
		modrm = store[2];
		if ((store[0] & 0xf8) != (REX | REX_W) || modrm >> 6 != 2 || ((modrm & 7) == 4) != (more == 1))
			continue;
		if (store[1] == OPCODE_STORE)
			return find_address(code, at - 3 - more, address,
					    (modrm >> 3 & 7u) + (store[0] & REX_R ? 8u : 0), target);
		if (store[1] == OPCODE_STORE_NUMBER && !(modrm >> 3 & 7) && size - at >= 8) {
			*target = (uint64_t)(int64_t)number_at(code + at + 4);
			return true;
		}
	}
	return false;
}

size_t x86_find_entered(const uint8_t *code, size_t size, size_t from, uint64_t address, uint64_t *target)
{
	static const uint8_t displacement[] = {CONTEXT_PC, 0, 0, 0};

	while (from < size) {
		const uint8_t *found = memmem(code + from, size - from, displacement, sizeof(displacement));

		if (!found)
			return 0;
		from = (size_t)(found - code) + sizeof(displacement);
		if (read_store(code, size, from - sizeof(displacement), address, target))
			return from;
	}
	return 0;
}

bool x86_never_returns(const uint8_t *code, size_t size)
{
	for (size_t at = 0; at < size;) {
		struct isa_instruction in;
		int length = x86_decode(&in, code + at, size - at, at);

		if (length <= 0 || in.kind == ISA_RETURN || in.kind == ISA_JUMP_INDIRECT)
			return false;
		if ((in.kind == ISA_JUMP || in.kind == ISA_BRANCH) && in.target >= size)
			return false;
		at += (size_t)length;
	}
	return true;
}
