/*
 * Programs as the target's code, and the rules for unwinding from them (code.h).  Context: host.
 */
#include <elf.h>
#include <errno.h>
#include <string.h>

#include <bpf/verify.h>
#include <calltap/abi/maps.h>
#include <calltap/abi/program.h>
#include <calltap/abi/record.h>

#include "code.h"

/* What `map N` gives: helpers take the number itself. */
static const uint64_t map_numbers[] = {[CALLTAP_MAP_RANGES] = CALLTAP_MAP_RANGES,
				       [CALLTAP_MAP_SUMS] = CALLTAP_MAP_SUMS,
				       [CALLTAP_MAP_SPANS] = CALLTAP_MAP_SPANS};
_Static_assert(sizeof(map_numbers) / sizeof(map_numbers[0]) == CALLTAP_MAPS, "each has one");

#define CODE_MAX   (BPF_CODE_PER_INSN * FETCH_INSNS + BPF_CODE_MORE)
#define CODE_ALIGN 16u
#define COLUMN	   14 /* of the return address, in the CIE */

#define DEF_CFA(reg, offset) 0x0c, (reg), (offset)
#define OFFSET(reg, words)   0x80 | (reg), (words)
#define REGISTER(reg, in)    0x09, (reg), (in)

/*
 * Registers in rules have DWARF's numbers.  Sources: System V psABI x86-64, figure 3.36; DWARF for the Arm 64-bit
 * Architecture, 4.1; RISC-V DWARF Specification, table 1.
 */
static const struct code_cpu cpus[] = {
	/* The return address is at rsp. */
	{EM_X86_64, 6, "xmm", bpf_compile_x86_64, 16, {DEF_CFA(7, 8), OFFSET(16, 1)}},
	/* It is in x23, and in s6; the caller's sp is the program's. */
	{EM_AARCH64, 8, "d", bpf_compile_aarch64, 30, {DEF_CFA(31, 0), REGISTER(30, 23)}},
	{EM_RISCV, 8, "fa", bpf_compile_riscv64, 1, {DEF_CFA(2, 0), REGISTER(1, 22)}},
};

const struct code_cpu *code_cpu_find(uint16_t machine)
{
	for (size_t i = 0; i < sizeof(cpus) / sizeof(cpus[0]); i++)
		if (cpus[i].machine == machine)
			return &cpus[i];
	return NULL;
}

/*
 * An .eh_frame_hdr with one row, a CIE and an FDE for the page of helpers and all code in front of them: nothing but
 * the return address has to be found.  Sources: DWARF 5 6.4, LSB 5.0 "Exception Frames".
 */
static void write_unwind(char *at, const struct code_cpu *cpu)
{
	static const uint8_t head[] = {1, 0x1b, 0x03, 0x3b}; /* version; pcrel sdata4; udata4; datarel sdata4 */
	static const uint8_t cie[] = {
		20, 0,	  0,   0, 0, 0,	   0, 0, /* length; a CIE */
		1,  'z',  'R', 0, 1, 0x78, 0,	 /* version, augmentation, code 1, data -8, return address column */
		1,  0x1b,			 /* augmentation data: pointers are pcrel sdata4 */
		0,  0,	  0,   0, 0, 0,	   0,	 /* rules, padding */
	};
	const int32_t span = (int32_t)(CALLTAP_PAGE + CALLTAP_PROGRAM_UNWIND), place = 20 + (int32_t)sizeof(cie);
	const int32_t words[] = {16, 1, -span, place}; /* to .eh_frame; rows; first row: code, FDE */
	const int32_t fde[] = {16, 4 + (int32_t)sizeof(cie), -(span + place + 8), span, 0};

	memcpy(at, head, sizeof(head));
	memcpy(at + 4, words, sizeof(words));
	memcpy(at + 20, cie, sizeof(cie));
	at[20 + COLUMN] = (char)cpu->column;
	memcpy(at + 20 + sizeof(cie) - sizeof(cpu->rules), cpu->rules, sizeof(cpu->rules));
	memcpy(at + place, fde, sizeof(fde));
	memset(at + place + sizeof(fde), 0, 4); /* the end of .eh_frame */
	_Static_assert(20 + sizeof(cie) + sizeof(fde) + 4 <= CALLTAP_UNWIND_BYTES, "it has room");
}

void code_begin(struct code *code, char *memory, const struct code_cpu *cpu)
{
	*code = (struct code){.memory = memory, .cpu = cpu};
	write_unwind(memory + CALLTAP_PROGRAM_CODE_AT + CALLTAP_PROGRAM_UNWIND, cpu);
}

static uint32_t head_of(uint32_t type, uint32_t words)
{
	return (uint32_t)(calltap_record_make(CALLTAP_REC_EVENT, calltap_event_id(type, 1 + words), 0) >> 32);
}

int code_put(struct code *code, uint16_t number, uint32_t type, const struct fetch *fetch, struct calltap_diag *diag)
{
	struct calltap_program *list = (struct calltap_program *)(code->memory + CALLTAP_PROGRAMS_AT);
	uint64_t at = (code->used + CODE_ALIGN - 1) / CODE_ALIGN * CODE_ALIGN;
	const struct bpf_machine *machine = fetch_machine_of(fetch);
	uint32_t begin = fetch_is_plain(fetch) ? FETCH_PLAIN_BEGIN : 0;
	const struct bpf_compile job = {
		.insns = fetch->insns + begin,
		.count = fetch->count - begin,
		.maps = map_numbers,
		.helpers_at = -(int64_t)(CALLTAP_PAGE + at), /* in the page in front of all code */
		.bare = true,
	};
	uint8_t *to = (uint8_t *)code->memory + CALLTAP_PROGRAM_CODE_AT + at;
	size_t length = 0;
	int ret;

	if (fetch->count > FETCH_INSNS)
		return calltap_diag_set(diag, -E2BIG,
					"the values or the condition of a function make too large a program");
	ret = bpf_verify(&(struct bpf_verify){.machine = machine, .insns = fetch->insns, .count = fetch->count}, diag);
	if (ret)
		return ret;
	if (at + CODE_MAX > CALLTAP_PROGRAM_UNWIND)
		return calltap_diag_set(diag, -E2BIG, "there are more values than programs have room for");
	ret = code->cpu->compile(&length, to, CODE_MAX, &job);
	if (ret)
		return calltap_diag_set(diag, ret, "the values of a function make too large a program");
	/* Targets that run already see it once they have led a site to their dispatcher, which they tell all cores. */
	__builtin___clear_cache((char *)to, (char *)to + length);
	code->used = at + length;
	list[number] = (struct calltap_program){.code = (uint32_t)at,
						.type = type,
						.fixed = (uint16_t)fetch->size,
						.words = (uint8_t)fetch->words,
						.flags = (uint8_t)fetch->flags,
						.head = head_of(type, fetch->words)};
	return 0;
}
