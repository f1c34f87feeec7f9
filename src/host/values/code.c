/*
 * Programs as the target's code, and the rules for unwinding from them (code.h).  Context: host.
 */
#include <errno.h>
#include <string.h>

#include <bpf/compile.h>
#include <bpf/verify.h>
#include <calltap/abi/program.h>

#include "code.h"

#define CODE_MAX   (BPF_CODE_PER_INSN * FETCH_INSNS + BPF_CODE_MORE)
#define CODE_ALIGN 16u

/*
 * An .eh_frame_hdr with one row, a CIE and an FDE for the page of helpers and all code in front of them: the return
 * address is at rsp, and nothing else has to be put back.  Sources: DWARF 5 6.4, LSB 5.0 "Exception Frames".
 */
static void write_unwind(char *at)
{
	static const uint8_t head[] = {1, 0x1b, 0x03, 0x3b}; /* version; pcrel sdata4; udata4; datarel sdata4 */
	static const uint8_t cie[] = {
		20,   0,    0,	 0,    0, 0,	0,  0, /* length; a CIE */
		1,    'z',  'R', 0,    1, 0x78, 16, /* version, augmentation, code 1, data -8, return address column */
		1,    0x1b,			    /* augmentation data: pointers are pcrel sdata4 */
		0x0c, 7,    8,	 0x90, 1, 0,	0,  /* CFA = rsp + 8; return address at CFA - 8; padding */
	};
	const int32_t span = (int32_t)(CALLTAP_PAGE + CALLTAP_PROGRAM_UNWIND), place = 20 + (int32_t)sizeof(cie);
	const int32_t words[] = {16, 1, -span, place}; /* to .eh_frame; rows; first row: code, FDE */
	const int32_t fde[] = {16, 4 + (int32_t)sizeof(cie), -(span + place + 8), span, 0};

	memcpy(at, head, sizeof(head));
	memcpy(at + 4, words, sizeof(words));
	memcpy(at + 20, cie, sizeof(cie));
	memcpy(at + place, fde, sizeof(fde));
	memset(at + place + sizeof(fde), 0, 4); /* the end of .eh_frame */
	_Static_assert(20 + sizeof(cie) + sizeof(fde) + 4 <= CALLTAP_UNWIND_BYTES, "it has room");
}

void code_begin(struct code *code, char *memory)
{
	*code = (struct code){.memory = memory};
	write_unwind(memory + CALLTAP_PROGRAM_CODE_AT + CALLTAP_PROGRAM_UNWIND);
}

int code_put(struct code *code, uint16_t number, uint32_t type, const struct fetch *fetch, struct calltap_diag *diag)
{
	struct calltap_program *list = (struct calltap_program *)(code->memory + CALLTAP_PROGRAMS_AT);
	uint64_t at = (code->used + CODE_ALIGN - 1) / CODE_ALIGN * CODE_ALIGN;
	const struct bpf_compile job = {
		.insns = fetch->insns,
		.count = fetch->count,
		.helpers_at = -(int64_t)(CALLTAP_PAGE + at), /* in the page in front of all code */
		.bare = true,
	};
	size_t length = 0;
	int ret;

	if (fetch->count > FETCH_INSNS)
		return calltap_diag_set(diag, -E2BIG,
					"the values or the condition of a function make too large a program");
	ret = bpf_verify(&(struct bpf_verify){.machine = &fetch_machine, .insns = fetch->insns, .count = fetch->count},
			 diag);
	if (ret)
		return ret;
	if (at + CODE_MAX > CALLTAP_PROGRAM_UNWIND)
		return calltap_diag_set(diag, -E2BIG, "there are more values than programs have room for");
	ret = bpf_compile_x86_64(&length, (uint8_t *)code->memory + CALLTAP_PROGRAM_CODE_AT + at, CODE_MAX, &job);
	if (ret)
		return calltap_diag_set(diag, ret, "the values of a function make too large a program");
	code->used = at + length;
	list[number] = (struct calltap_program){.code = (uint32_t)at, .type = type, .fixed = fetch->size};
	return 0;
}
