/*
 * Programs: any bytes are instructions.  What the verifier accepts ends, stays in its own memory, reads back from its
 * text, compiles for each CPU, and does the same there as in the interpreter.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <bpf/compile.h>
#include <bpf/interpret.h>
#include <bpf/text.h>
#include <bpf/verify.h>

#include "fuzz.h"

enum { CONTEXT = 64, MAPS = 2, VALUE = 48, INSNS_MAX = 1024, CODE_MAX = BPF_CODE_PER_INSN * INSNS_MAX + BPF_CODE_MORE };

typedef int compiler(size_t *length, uint8_t *code, size_t room, const struct bpf_compile *job);

/*
 * ---- The machine ----
 */

static const struct bpf_map maps[MAPS] = {{8, VALUE}, {4, 16}};
static _Alignas(8) uint8_t values[MAPS][VALUE];

static uint64_t look_up_called(uint64_t map, uint64_t key)
{
	return *(const uint8_t *)(uintptr_t)key & 1 ? 0 : (uint64_t)(uintptr_t)values[map];
}

static uint64_t fill_called(uint64_t at, uint64_t size)
{
	memset((void *)(uintptr_t)at, 0x5a, size);
	return size;
}

static uint64_t add_up_called(uint64_t at, uint64_t size, uint64_t number)
{
	for (uint64_t i = 0; i < size; i++)
		number += ((const uint8_t *)(uintptr_t)at)[i];
	return number;
}

static uint64_t look_up(void *data, const uint64_t arguments[BPF_ARGUMENTS])
{
	(void)data;
	return look_up_called(arguments[0], arguments[1]);
}

static uint64_t fill(void *data, const uint64_t arguments[BPF_ARGUMENTS])
{
	(void)data;
	return fill_called(arguments[0], arguments[1]);
}

static uint64_t add_up(void *data, const uint64_t arguments[BPF_ARGUMENTS])
{
	(void)data;
	return add_up_called(arguments[0], arguments[1], arguments[2]);
}

static const struct bpf_helper helpers[] = {
	{.name = NULL},
	{"look_up", {BPF_ARGUMENT_MAP, BPF_ARGUMENT_KEY}, BPF_RESULT_ENTRY, look_up},
	{"fill", {BPF_ARGUMENT_WRITE, BPF_ARGUMENT_SIZE}, BPF_RESULT_NUMBER, fill},
	{"add_up", {BPF_ARGUMENT_READ, BPF_ARGUMENT_SIZE0, BPF_ARGUMENT_VALUE}, BPF_RESULT_NUMBER, add_up},
};
static const struct bpf_machine machine = {CONTEXT, helpers, sizeof(helpers) / sizeof(helpers[0]), maps, MAPS};

/*
 * ---- Programs that were accepted ----
 */

/* A program's text is the program. */
static void check_text(const struct bpf_insn *insns, uint32_t count)
{
	static char text[INSNS_MAX * (BPF_TEXT_MAX + 1)];
	static struct bpf_insn again[INSNS_MAX];
	struct calltap_diag diag = {0};
	uint32_t got = 0;
	size_t used = 0;

	for (uint32_t i = 0; i < count; i += 1u + bpf_is_wide(&insns[i])) {
		bpf_disassemble(text + used, &insns[i]);
		used += strlen(text + used);
		text[used++] = '\n';
	}
	text[used] = 0;
	fuzz_expect(!bpf_assemble(again, &got, INSNS_MAX, text, &diag), "what was disassembled is assembled");
	fuzz_expect(got == count && !memcmp(again, insns, count * sizeof(*insns)), "the text has the same program");
}

static void run_both(const struct bpf_insn *insns, uint32_t count, uint64_t (*compiled)(void *), uint64_t number)
{
	const struct bpf_memory memory[] = {{values[0], VALUE, true}, {values[1], 16, true}};
	uint64_t context[CONTEXT / 8], result;
	const struct bpf_run run = {.machine = &machine,
				    .insns = insns,
				    .count = count,
				    .context = context,
				    .memory = memory,
				    .memory_count = MAPS,
				    .steps_max = BPF_STEPS_MAX};
	uint8_t after[MAPS][VALUE];

	for (unsigned i = 0; i < CONTEXT / 8; i++)
		context[i] = number * (2 * i + 1);
	memset(values, (uint8_t)number, sizeof(values));
	fuzz_expect(!bpf_interpret(&result, &run), "a program that was accepted stays where it may be, and ends");
	memcpy(after, values, sizeof(after));
	memset(values, (uint8_t)number, sizeof(values));
	fuzz_expect(compiled(context) == result, "compiled code gives the interpreter's result");
	fuzz_expect(!memcmp(after, values, sizeof(after)), "compiled code writes what the interpreter does");
}

static void check_accepted(const struct bpf_insn *insns, uint32_t count)
{
	static const uint64_t numbers[] = {0, 1, UINT64_MAX, 0x0123456789abcdef, 0x8000000080000000},
			      map_numbers[MAPS] = {0, 1},
			      addresses[] = {0, (uint64_t)(uintptr_t)look_up_called, (uint64_t)(uintptr_t)fill_called,
					     (uint64_t)(uintptr_t)add_up_called};
	static compiler *const compilers[] = {bpf_compile_x86_64, bpf_compile_aarch64, bpf_compile_riscv64};
	const struct bpf_compile job = {.insns = insns, .count = count, .helpers = addresses, .maps = map_numbers};
	static uint8_t *native, other[CODE_MAX];
	size_t length;

	if (!native)
		native = mmap(NULL, CODE_MAX, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (native == MAP_FAILED)
		abort();
	for (size_t i = 0; i < sizeof(compilers) / sizeof(compilers[0]); i++)
		fuzz_expect(!compilers[i](&length, other, CODE_MAX, &job) && length <= CODE_MAX,
			    "a program that was accepted is compiled");
	check_text(insns, count);
	fuzz_expect(!COMPILE_NATIVE(&length, native, CODE_MAX, &job), "it is compiled twice");
	__builtin___clear_cache((char *)native, (char *)native + length);
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		run_both(insns, count, (uint64_t(*)(void *))(uintptr_t)native, numbers[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct bpf_insn insns[INSNS_MAX];
	uint32_t count = (uint32_t)(size / sizeof(insns[0]));
	struct calltap_diag diag = {0};
	int ret;

	if (count > INSNS_MAX)
		count = INSNS_MAX;
	memcpy(insns, data, count * sizeof(insns[0]));
	ret = bpf_verify(&(struct bpf_verify){.machine = &machine, .insns = insns, .count = count}, &diag);
	fuzz_expect(!ret || ret == -EINVAL || ret == -E2BIG, "the verifier says yes or no");
	fuzz_expect(!ret || diag.text[0], "a refusal has a reason");
	fuzz_taken = !ret;
	if (!ret)
		check_accepted(insns, count);
	return 0;
}
