/*
 * The CPUs whose programs can be recorded (machine.h).  Context: host.
 */
#include <elf.h>
#include <stddef.h>

#include <native.h>

#include "machine.h"

static const struct machine machines[] = {
	{EM_X86_64, "x86_64", "x86_64-linux-gnu", "libc6-amd64-cross", "qemu-x86_64", "tsc"},
	{EM_AARCH64, "aarch64", "aarch64-linux-gnu", "libc6-arm64-cross", "qemu-aarch64", "cntvct_el0"},
	{EM_RISCV, "riscv64", "riscv64-linux-gnu", "libc6-riscv64-cross", "qemu-riscv64", "rdtime"},
};

const struct machine *machine_find(uint16_t id)
{
	for (size_t i = 0; i < sizeof(machines) / sizeof(machines[0]); i++)
		if (machines[i].id == id)
			return &machines[i];
	return NULL;
}

const struct machine *machine_native(void)
{
	return machine_find(NATIVE_MACHINE);
}
