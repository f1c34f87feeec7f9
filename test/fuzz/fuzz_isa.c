/*
 * Machine code of all CPUs: the functions that recognise, decode and relocate it.
 *
 * Input: one byte that chooses the CPU, the number of the scratch register, the code's address and the address it is
 * moved to, then the code.
 */
#include <string.h>

#include <arch/aarch64/isa/nops.h>
#include <arch/riscv64/isa/nops.h>
#include <arch/x86_64/isa/nops.h>

#include "fuzz.h"
#include "support.h"

static isa_recognise *const plains[][3] = {
	{x86_nop_length, x86_endbr64_length, x86_xray_length},
	{rv_nop_length, rv_landing_pad_length, rv_landing_pad_length},
	{a64_nop_length, a64_landing_pad_length, a64_landing_pad_length},
};

static isa_recognise_target *const aimeds[][4] = {
	{x86_call, x86_call_slot, x86_jump_relative, x86_jump_slot},
	{rv_call, rv_call_slot, rv_jump_relative, rv_jump_slot},
	{a64_call, a64_call_slot, a64_jump_relative, a64_jump_slot},
};

static uint64_t input_u64(struct input *input)
{
	uint64_t value = 0;

	for (int i = 0; i < 4; i++)
		value = value << 16 | input_u16(input);
	return value;
}

static void recognise(size_t cpu, const uint8_t *code, size_t size, uint64_t address)
{
	uint64_t target;

	for (size_t i = 0; i < 3; i++)
		fuzz_expect(plains[cpu][i](code, size) <= size, "what is recognised lies within the bytes");
	for (size_t i = 0; i < 4; i++)
		fuzz_expect(aimeds[cpu][i](code, size, address, &target) <= size,
			    "what is recognised lies within the bytes");
}

/* Check moved code as far as possible without running it: equal where it may be, decodable, and jumps are still jumps.
 */
static void check_moved(const struct isa_cpu *cpu, const struct isa_instruction *in, const uint8_t *code,
			const struct isa_out *out)
{
	struct isa_instruction moved;
	size_t at = 0;

	if (!in->has_target && in->kind != ISA_CALL_INDIRECT) {
		fuzz_expect(out->length == in->length && !memcmp(out->code, code, in->length),
			    "what does not depend on its address is not changed");
		return;
	}
	while (at < out->length) {
		int length = cpu->decode(&moved, out->code + at, out->length - at, out->address + at);

		fuzz_expect(length > 0 || at, "a moved instruction begins with one that is known");
		if (length < 0 || !isa_goes_on((enum isa_kind)moved.kind))
			return; /* a word of data may follow a jump */
		at += (size_t)length;
	}
	fuzz_expect(isa_goes_on((enum isa_kind)in->kind), "a moved jump jumps");
}

static void move(const struct isa_cpu *cpu, const uint8_t *code, size_t size, uint64_t from, uint64_t to,
		 unsigned scratch)
{
	uint8_t moved[ISA_RELOCATED_MAX], again[ISA_RELOCATED_MAX];
	struct isa_out out = {moved, sizeof(moved), 0, to};
	struct isa_instruction in;
	int length = cpu->decode(&in, code, size, from);
	int got = cpu->relocate(&out, code, size, from, scratch);

	fuzz_expect(length <= (int)size && got <= ISA_RELOCATED_MAX, "lengths lie within the bytes");
	fuzz_expect(got != -ENOSPC, "the longest sequence has room");
	fuzz_expect(length > 0 || got == length, "what is not known is not moved");
	if (got < 0) {
		fuzz_expect(out.length == 0, "what is refused leaves nothing");
		return;
	}
	check_moved(cpu, &in, code, &out);
	out = (struct isa_out){again, (size_t)got - 1, 0, to};
	fuzz_expect(cpu->relocate(&out, code, size, from, scratch) == -ENOSPC, "a byte less is too little");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input input = {data, size};
	size_t number = input_byte(&input) % (sizeof(isa_cpus) / sizeof(isa_cpus[0])), count;
	const struct isa_cpu *cpu = &isa_cpus[number];
	unsigned scratch = input_byte(&input) % 32;
	uint64_t from = input_u64(&input) & ~(uint64_t)(cpu->step - 1);
	uint64_t to = input_u64(&input) & ~(uint64_t)(cpu->step - 1);
	const uint8_t *code = input_bytes(&input, size, &count);

	for (size_t at = 0; at < count; at += cpu->step) {
		recognise(number, code + at, count - at, from + at);
		move(cpu, code + at, count - at, from + at, to, scratch);
	}
	return 0;
}
