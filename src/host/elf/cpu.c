/*
 * The CPUs whose ELF files can be read (see cpu.h).  Context: host.
 */
#include <elf.h>
#include <stdio.h>

#include "arch/aarch64/isa/nops.h"
#include "arch/aarch64/isa/stub_size.h"
#include "arch/riscv64/isa/nops.h"
#include "arch/riscv64/isa/stub_size.h"
#include "arch/x86_64/isa/entered.h"
#include "arch/x86_64/isa/leaf.h"
#include "arch/x86_64/isa/nops.h"
#include "arch/x86_64/isa/stub_size.h"
#include "arch/x86_64/isa/switches.h"
#include "cpu.h"

#define MIB (1ull << 20)

static const struct elf_cpu cpus[] = {
	{
		.machine = EM_X86_64,
		.name = "x86-64",
		.reloc_relative = R_X86_64_RELATIVE,
		.reloc_absolute = R_X86_64_64,
		.reloc_glob_dat = R_X86_64_GLOB_DAT,
		.reloc_jump_slot = R_X86_64_JUMP_SLOT,
		.code_align = 1,
		.jump_align = 1,
		.jump_bytes = 5,
		.short_jump_bytes = 2,
		.reach = 2048 * MIB,
		.stub_call = X86_STUB_CALL,
		.stub_graph = X86_STUB_GRAPH,
		.stub_gate = X86_STUB_GATE,
		.stub_leaf = X86_STUB_LEAF,
		.stub_unit = X86_STUB_UNIT,
		.stub_unit_gated = X86_STUB_UNIT_GATED,
		.patchable_nops = 5,
		.has_fentry = true,
		.nop = x86_nop_length,
		.landing_pad = x86_endbr64_length,
		.chain_push = x86_push_chain_length,
		.call = x86_call,
		.call_slot = x86_call_slot,
		.may_jump = x86_may_jump,
		.jump = x86_jump_relative,
		.jump_slot = x86_jump_slot,
		.plt_entry = x86_plt_entry,
		.switches = x86_switches_stacks,
		.may_switch = x86_may_switch_stacks,
		.find_entered = x86_find_entered,
		.never_returns = x86_never_returns,
		.leaf = x86_is_leaf,
	},
	{
		/*
		 * Two instructions at a multiple of 4, the second of which links the body's address: the body must
		 * follow.
		 */
		.machine = EM_RISCV,
		.name = "riscv64",
		.reloc_relative = R_RISCV_RELATIVE,
		.reloc_absolute = R_RISCV_64,
		.reloc_glob_dat = R_RISCV_64,
		.reloc_jump_slot = R_RISCV_JUMP_SLOT,
		.vector_calls = 0x80, /* STO_RISCV_VARIANT_CC */
		.code_align = 2,
		.jump_align = 4,
		.jump_bytes = 8,
		.body_follows = true,
		.reach = 2048 * MIB,
		.stub_call = RV_STUB_CALL,
		.stub_graph = RV_STUB_GRAPH,
		.stub_gate = RV_STUB_GATE,
		.stub_veneer = RV_VENEER,
		/* Of five no-ops of 2 bytes, eight bytes are aligned wherever they lie. */
		.patchable_nops = 5,
		.nop = rv_nop_length,
		.landing_pad = rv_landing_pad_length,
		.may_jump = rv_may_jump,
		.jump = rv_jump_relative,
		.jump_slot = rv_jump_slot,
		.plt_entry = rv_plt_entry,
	},
	{
		.machine = EM_AARCH64,
		.name = "aarch64",
		.reloc_relative = R_AARCH64_RELATIVE,
		.reloc_absolute = R_AARCH64_ABS64,
		.reloc_glob_dat = R_AARCH64_GLOB_DAT,
		.reloc_jump_slot = R_AARCH64_JUMP_SLOT,
		.vector_calls = STO_AARCH64_VARIANT_PCS,
		.code_align = 4,
		.jump_align = 4,
		.jump_bytes = 4,
		.reach = 128 * MIB,
		.stub_call = A64_STUB_CALL,
		.stub_graph = A64_STUB_GRAPH,
		.stub_gate = A64_STUB_GATE,
		.patchable_nops = 1,
		.nop = a64_nop_length,
		.landing_pad = a64_landing_pad_length,
		.may_jump = a64_may_jump,
		.jump = a64_jump_relative,
		.jump_slot = a64_jump_slot,
		.plt_entry = a64_plt_entry,
	},
};

#define CPU_COUNT (sizeof(cpus) / sizeof(cpus[0]))

const struct elf_cpu *elf_cpu_find(uint16_t machine)
{
	for (size_t i = 0; i < CPU_COUNT; i++) {
		if (cpus[i].machine == machine)
			return &cpus[i];
	}
	return NULL;
}

void elf_cpu_names(char *text, size_t size)
{
	size_t at = 0;

	for (size_t i = 0; i < CPU_COUNT && at < size; i++)
		at += (size_t)snprintf(text + at, size - at, "%s%s", cpus[i].name,
				       i + 1 == CPU_COUNT   ? ""
				       : i + 2 == CPU_COUNT ? " or "
							    : ", ");
}
