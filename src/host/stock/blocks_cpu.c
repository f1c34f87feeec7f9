/*
 * The CPUs that have blocks (blocks_cpu.h).  Context: host.
 */
#include <dwarf.h>
#include <elf.h>

#include "arch/aarch64/isa/block.h"
#include "arch/aarch64/isa/encode.h"
#include "arch/riscv64/isa/block.h"
#include "arch/riscv64/isa/encode.h"
#include "arch/x86_64/isa/block.h"
#include "blocks_cpu.h"

#define X86_RSP	   7
#define X86_RETURN 16
#define X86_INT3   0xcc

static const struct blocks_cpu cpus[] = {
	{
		.machine = EM_X86_64,
		.block = &x86_block_cpu,
		.padding = X86_INT3,
		.stack_register = X86_RSP,
		.return_register = X86_RETURN,
		.data_align = -8,
		/* CFA = rsp + 8; the return address at CFA - 8 */
		.entry_size = 5,
		.entry = (const uint8_t[]){DW_CFA_def_cfa, X86_RSP, 8, DW_CFA_offset | X86_RETURN, 1},
	},
	{
		.machine = EM_AARCH64,
		.block = &a64_block_cpu,
		.scratch = A64_X17,
		.padding = 0, /* of four: udf */
		.stack_register = A64_SP,
		.return_register = A64_X30,
		.data_align = -8,
		/* CFA = sp; the return address in x30 */
		.entry_size = 3,
		.entry = (const uint8_t[]){DW_CFA_def_cfa, A64_SP, 0},
	},
	{
		.machine = EM_RISCV,
		.hub = &blocks_hub_riscv64,
		.block = &rv_block_cpu,
		.scratch = RV_T1,
		.padding = 0, /* of two: unimp */
		.stack_register = RV_SP,
		.return_register = RV_RA,
		.data_align = -8,
		/* CFA = sp; the return address in ra */
		.entry_size = 3,
		.entry = (const uint8_t[]){DW_CFA_def_cfa, RV_SP, 0},
	},
};

struct stock_islands stock_islands_of(uint16_t machine)
{
	const struct blocks_cpu *cpu = blocks_cpu_find(machine);

	return cpu && cpu->hub ? cpu->hub->islands : (struct stock_islands){0};
}

const struct blocks_cpu *blocks_cpu_find(uint16_t machine)
{
	for (size_t i = 0; i < sizeof(cpus) / sizeof(cpus[0]); i++)
		if (cpus[i].machine == machine)
			return &cpus[i];
	return NULL;
}
