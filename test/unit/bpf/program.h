/* Programs of tests, as text. */
#ifndef TEST_UNIT_BPF_PROGRAM_H
#define TEST_UNIT_BPF_PROGRAM_H

#include <bpf/isa.h>
#include <bpf/text.h>

enum { PROGRAM_MAX = 512 };

struct program {
	struct bpf_insn insns[PROGRAM_MAX];
	uint32_t count;
};

static inline void assemble(struct program *program, const char *text)
{
	struct calltap_diag diag = {0};

	if (bpf_assemble(program->insns, &program->count, PROGRAM_MAX, text, &diag))
		fail_msg("%s", diag.text);
}

#endif
