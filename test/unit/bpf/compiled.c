/* Compiled programs; see compiled.h. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include <arch/aarch64/isa/decode.h>
#include <arch/riscv64/isa/decode.h>
#include <arch/x86_64/isa/decode.h>
#include <bpf/isa.h>

#include "compiled.h"

typedef int compiler(size_t *length, uint8_t *code, size_t room, const struct bpf_compile *job);

static const struct cpu {
	const char *name;
	compiler *compile;
	int (*decode)(struct isa_instruction *in, const uint8_t *code, size_t size, uint64_t address);
} cpus[] = {
	{"x86_64", bpf_compile_x86_64, x86_decode},
	{"aarch64", bpf_compile_aarch64, a64_decode},
	{"riscv64", bpf_compile_riscv64, rv_decode},
};

enum { CODE_MAX = BPF_COUNT_MAX * BPF_CODE_PER_INSN + BPF_CODE_MORE };

/* Where this CPU's code lies, and how much of it there is. */
static uint8_t *native;
static size_t native_length;

compiled_function *compiled_make(const struct bpf_compile *job)
{
	if (!native)
		native = mmap(NULL, CODE_MAX, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(native != MAP_FAILED);
	assert_int_equal(COMPILE_NATIVE(&native_length, native, CODE_MAX, job), 0);
	assert_true(native_length <= job->count * (size_t)BPF_CODE_PER_INSN + BPF_CODE_MORE);
	__builtin___clear_cache((char *)native, (char *)native + native_length);
	return (compiled_function *)(uintptr_t)native;
}

void compiled_keep(void)
{
	native = NULL;
}

bool compiled_has(uint64_t address)
{
	return address - (uint64_t)(uintptr_t)native < native_length;
}

/* Calls and ends that a program has, or its code. */
struct ways {
	unsigned calls, ends;
};

static struct ways ways_of(const struct bpf_compile *job)
{
	struct ways ways = {0, 0};

	for (uint32_t i = 0; i < job->count; i++) {
		const struct bpf_insn *in = &job->insns[i];

		ways.calls += in->code == (BPF_JMP | BPF_CALL);
		ways.ends += bpf_is_exit(in);
		i += bpf_is_wide(in);
	}
	return ways;
}

static bool is_own(const struct isa_instruction *in, const bool *begins, size_t length)
{
	return in->target < length && begins[in->target];
}

static const char *instruction_fault(const struct isa_instruction *in, const bool *begins, size_t length,
				     struct ways *ways)
{
	switch (in->kind) {
	case ISA_PLAIN:
	case ISA_EXCLUSIVE:
		return NULL;
	case ISA_JUMP:
	case ISA_BRANCH:
		return is_own(in, begins, length) ? NULL : "a jump leads to no instruction";
	case ISA_CALL_INDIRECT:
		ways->calls++;
		return NULL;
	case ISA_RETURN:
		ways->ends++;
		return NULL;
	default:
		return "an instruction of a kind that does not belong there";
	}
}

static const char *code_fault(const struct cpu *cpu, const uint8_t *code, size_t length, const struct bpf_compile *job)
{
	const struct ways meant = ways_of(job);
	struct ways ways = {0, 0};
	static bool begins[CODE_MAX];
	struct isa_instruction in;

	memset(begins, 0, length);
	for (size_t at = 0; at < length; at += in.length) {
		if (cpu->decode(&in, code + at, length - at, at) <= 0)
			return "some of it is no instruction";
		begins[at] = true;
	}
	for (size_t at = 0; at < length; at += in.length) {
		const char *fault;

		if (cpu->decode(&in, code + at, length - at, at) <= 0)
			abort();
		fault = instruction_fault(&in, begins, length, &ways);
		if (fault)
			return fault;
	}
	if (ways.calls != meant.calls || ways.ends != meant.ends)
		return "it has other calls or returns than the program";
	return NULL;
}

static const char *short_room_fault(const struct cpu *cpu, const uint8_t *code, size_t length,
				    const struct bpf_compile *job)
{
	static uint8_t few[CODE_MAX];
	size_t room = job->count * (size_t)7 % length, needed;

	memset(few, 0xa5, length);
	if (cpu->compile(&needed, few, room, job) != -E2BIG || needed != length)
		return "it does not say how much room it needs";
	for (size_t i = room; i < length; i++)
		if (few[i] != 0xa5)
			return "it is written behind its room";
	return NULL;
}

const char *compiled_fault(const struct bpf_compile *job)
{
	static uint8_t code[CODE_MAX];
	static char text[120];

	for (unsigned i = 0; i < sizeof(cpus) / sizeof(cpus[0]); i++) {
		const char *fault = NULL;
		size_t length;

		if (cpus[i].compile(&length, code, job->count * (size_t)BPF_CODE_PER_INSN + BPF_CODE_MORE, job))
			fault = "it is refused";
		if (!fault)
			fault = code_fault(&cpus[i], code, length, job);
		if (!fault)
			fault = short_room_fault(&cpus[i], code, length, job);
		if (fault) {
			snprintf(text, sizeof(text), "the code for %s: %s", cpus[i].name, fault);
			return text;
		}
	}
	return NULL;
}
