/* Small functions with sites, x86-64 (support.h). */
#include <string.h>

#include "support.h"

#define NOP 0x90

static uint8_t *put(uint8_t *at, const void *bytes, size_t size)
{
	memcpy(at, bytes, size);
	return at + size;
}

static uint8_t *put_number(uint8_t *at, uint32_t value)
{
	return put(at, &value, sizeof(value));
}

uint8_t code_length(enum code_kind kind)
{
	static const uint8_t lengths[] = {[CODE_USUAL] = 5, [CODE_SHORT] = 2, [CODE_STUBBORN] = 8};

	return lengths[kind];
}

code_function code_write(uint8_t *at, int n, enum code_kind kind, code_function inner, struct calltap_site *site)
{
	uint8_t length = code_length(kind), *start = kind == CODE_SHORT ? at + 5 : at;

	memset(at, NOP, CODE_STEP);
	if (kind == CODE_SHORT)
		put(start, "\x66\x90", 2);
	*site = (struct calltap_site){
		.address = (uint64_t)start,
		.length = length,
		.body_off = length,
		.tramp_off = kind == CODE_SHORT ? -5 : 0,
	};
	memcpy(site->old, start, length);
	memset(site->old + length, NOP, 5);
	at = start + length;
	if (inner) {
		at = put(at, "\x48\x83\xec\x08\xe8", 5); /* sub $8, %rsp; call inner */
		at = put_number(at, (uint32_t)((uint64_t)inner - (uint64_t)(at + 4)));
		at = put(at, "\x48\x83\xc4\x08\x05", 5); /* add $8, %rsp; add $n, %eax */
	} else {
		at = put(at, "\x8d\x87", 2); /* lea n(%rdi), %eax */
	}
	at = put_number(at, (uint32_t)n);
	*at = 0xc3;
	return (code_function)(uintptr_t)start;
}

uint64_t code_target(const struct calltap_site *site)
{
	const uint8_t *at = (const uint8_t *)site->address;
	int32_t distance;

	if (site->length == 2) {
		if (memcmp(at, "\xeb\xf9", 2)) /* back over itself and five bytes */
			return 0;
		at -= 5;
	} else {
		at += site->length - 5;
	}
	memcpy(&distance, at + 1, sizeof(distance));
	return *at == 0xe9 ? (uint64_t)at + 5 + (uint64_t)(int64_t)distance : 0;
}

size_t code_breakpoint(uint8_t bytes[4])
{
	bytes[0] = 0xcc;
	return 1;
}
