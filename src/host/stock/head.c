/*
 * A function's head: the instructions that a jump can replace, or why there are none (find.h).  Context: host.
 */
#include "find.h"

#define NEAR_BY (UINT64_C(1) << 16) /* a place that every instruction can be moved to that can be moved at all */

/* True if a function ends at the code, and what follows up to `room` bytes is nothing that is run. */
static bool is_padding(const struct finding *finding, const uint8_t *code, size_t size, size_t at, size_t room)
{
	while (at < room) {
		size_t length = finding->cpu->padding(code + at, size - at);

		if (!length)
			return false;
		at += length;
	}
	return true;
}

static bool is_led_into(const struct finding *finding, uint64_t head, uint8_t jump)
{
	const uint8_t step = finding->cpu->code_align;

	for (uint64_t at = head + step; at < head + jump; at += step)
		if (marks_has(&finding->targets, at))
			return true;
	return false;
}

static uint8_t jump_bytes(const struct finding *finding, const uint8_t *code, size_t size)
{
	return finding->cpu->jump_bytes ? finding->cpu->jump_bytes(code, size) : finding->cpu->block->jump_bytes;
}

/* Find the length of a head for a jump; size: bytes of the section, own: of the function. */
static enum stock_verdict measure(const struct finding *finding, const uint8_t *code, size_t size, size_t own,
				  uint64_t address, uint8_t jump, uint8_t *out)
{
	size_t at = 0;

	if (size < jump)
		return STOCK_TOO_SHORT;
	while (at < jump) {
		struct isa_instruction in;
		int length = at < own ? finding->cpu->block->decode(&in, code + at, own - at, address + at) : 0;

		if (!length)
			return STOCK_TOO_SHORT; /* the function goes on in the next one */
		if (length < 0)
			return STOCK_UNKNOWN_CODE;
		at += (size_t)length;
		if (at >= jump || !isa_ends((enum isa_kind)in.kind))
			continue;
		if (in.kind == ISA_CALL || in.kind == ISA_CALL_INDIRECT)
			return STOCK_CANNOT_MOVE; /* it would return into the jump */
		if (!is_padding(finding, code, size, at, jump))
			return at < own ? STOCK_LED_INTO : STOCK_TOO_SHORT;
		at = jump;
	}
	*out = (uint8_t)at;
	return at > finding->cpu->head_max ? STOCK_CANNOT_MOVE : STOCK_OK;
}

/* True if one of the head's own instructions leads into it. */
static bool leads_into_itself(const struct finding *finding, const uint8_t *code, uint64_t address, uint8_t length)
{
	for (size_t at = 0; at < length;) {
		struct isa_instruction in;
		int size = finding->cpu->block->decode(&in, code + at, length - at, address + at);

		if (size <= 0)
			return false;
		if (in.has_target && (in.kind == ISA_JUMP || in.kind == ISA_BRANCH || in.kind == ISA_CALL) &&
		    in.target - address < length)
			return true;
		at += (size_t)size;
	}
	return false;
}

/* Try to make a block of the head. */
static enum stock_verdict try_block(const struct finding *finding, const uint8_t *code, size_t size, uint64_t address,
				    uint8_t length)
{
	uint8_t bytes[ISA_BLOCK_MAX];
	struct isa_out out = {bytes, sizeof(bytes), 0, address + NEAR_BY};
	const struct isa_head head = {
		.code = code,
		.size = size,
		.from = address,
		.scratch = isa_head_scratch(finding->cpu->block, code, length, finding->cpu->scratch),
		.length = length,
	};
	struct isa_block block;

	return isa_block_make(finding->cpu->block, &out, &block, &head) ? STOCK_CANNOT_MOVE : STOCK_OK;
}

/* True if a relocation changes one of the bytes. */
static bool is_relocated(const struct stock_image *image, uint64_t address, uint8_t length)
{
	size_t low = 0, high = image->relocated_count;
	const uint64_t word = 8;

	while (low < high) { /* the first word that ends behind the address */
		size_t middle = low + (high - low) / 2;

		if (image->relocated[middle] + word <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low < image->relocated_count && image->relocated[low] < address + length;
}

/* Try a jump of so many bytes. */
static enum stock_verdict try_jump(const struct finding *finding, const struct start *start, uint64_t head,
				   uint8_t jump, uint8_t *out)
{
	size_t size;
	const uint8_t *code = find_code(finding->image, head, &size);
	enum stock_verdict verdict;
	uint8_t length = 0;

	if (!code || head >= start->end)
		return STOCK_TOO_SHORT;
	verdict = measure(finding, code, size, start->end - head, head, jump, &length);
	/* Behind a landing pad a loop may begin, which is no function's start. */
	if (head != start->address && marks_has(&finding->unfit, head))
		return STOCK_LED_INTO;
	if (is_led_into(finding, head, jump) && verdict != STOCK_TOO_SHORT)
		return STOCK_LED_INTO;
	if (verdict == STOCK_OK && is_relocated(finding->image, head, length))
		verdict = STOCK_RELOCATED;
	if (verdict == STOCK_OK && is_led_into(finding, head, jump))
		verdict = STOCK_LED_INTO;
	if (verdict == STOCK_OK && leads_into_itself(finding, code, head, length))
		verdict = STOCK_LED_INTO;
	if (verdict == STOCK_OK)
		verdict = try_block(finding, code, size, head, length);
	*out = length;
	return verdict;
}

/* A jump to the block, with an island behind it if there is room; else a short one to another head's island. */
static enum stock_verdict try_head(const struct finding *finding, const struct start *start, uint64_t head,
				   struct stock_function *function)
{
	const struct stock_islands islands = stock_islands_of(finding->image->machine);
	size_t size;
	const uint8_t *code = find_code(finding->image, head, &size);
	uint8_t jump, length = 0, host = 0;
	enum stock_verdict verdict;

	if (!code)
		return STOCK_TOO_SHORT;
	jump = jump_bytes(finding, code, size);
	verdict = try_jump(finding, start, head, jump, &length);
	if (verdict == STOCK_OK && islands.host && !start->led &&
	    try_jump(finding, start, head, islands.host, &host) != STOCK_OK)
		host = 0;
	/* The agent's own jumps in a static program's text have no islands. */
	if (verdict != STOCK_OK && islands.jump && !start->led &&
	    try_jump(finding, start, head, islands.jump, &length) == STOCK_OK) {
		jump = islands.jump;
		verdict = STOCK_OK;
	}
	if (verdict == STOCK_OK) {
		function->head = head;
		function->length = length;
		function->jump = jump;
		function->host = host;
	}
	return verdict;
}

void find_head(const struct finding *finding, const struct start *start, struct stock_function *function)
{
	size_t size, pad;
	const uint8_t *code = find_code(finding->image, start->address, &size);

	if (!code) {
		function->verdict = STOCK_TOO_SHORT;
		return;
	}
	pad = finding->cpu->landing_pad(code, size);
	function->verdict = (uint8_t)try_head(finding, start, start->address + pad, function);
	if (pad && function->verdict != STOCK_OK && !finding->cpu->keeps_pad)
		function->verdict = (uint8_t)try_head(finding, start, start->address, function);
}
