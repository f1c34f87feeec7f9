/*
 * The table of find_cpu.h.  Context: host.
 */
#include "find_cpu.h"

const struct find_cpu *find_cpu_of(uint16_t machine)
{
	static const struct find_cpu *const cpus[] = {&find_x86_64, &find_aarch64, &find_riscv64};

	for (size_t i = 0; i < sizeof(cpus) / sizeof(cpus[0]); i++)
		if (cpus[i]->machine == machine)
			return cpus[i];
	return NULL;
}
