/*
 * The CPUs whose ELF files can be read (see cpu.h).  Context: host.
 */
#include <elf.h>

#include "arch/x86_64/isa/nops.h"
#include "cpu.h"

static const struct elf_cpu cpus[] = {
	{
		.machine = EM_X86_64,
		.name = "x86-64",
		.reloc_relative = R_X86_64_RELATIVE,
		.reloc_absolute = R_X86_64_64,
		.reloc_glob_dat = R_X86_64_GLOB_DAT,
		.reloc_jump_slot = R_X86_64_JUMP_SLOT,
		.jump_bytes = 5,
		.short_jump_bytes = 2,
		.nop = x86_nop_length,
		.landing_pad = x86_endbr64_length,
		.call = x86_call,
		.call_slot = x86_call_slot,
		.may_jump = x86_may_jump,
		.jump = x86_jump_relative,
		.jump_slot = x86_jump_slot,
	},
};

const struct elf_cpu *elf_cpu_find(uint16_t machine)
{
	for (size_t i = 0; i < sizeof(cpus) / sizeof(cpus[0]); i++) {
		if (cpus[i].machine == machine)
			return &cpus[i];
	}
	return NULL;
}
