/*
 * Where each stub lies in its region: one behind the other, behind the table
 * of pointers at the region's head.  Caller: image_decide().  Context: host.
 */
#include <errno.h>

#include <host/elf/cpu.h>

#include "images.h"

#define REGION_HEAD 192u /* the pointer table of the agent's regions */

uint32_t layout_stub_size(uint16_t machine, const struct calltap_site *site)
{
	const struct elf_cpu *cpu = elf_cpu_find(machine);
	uint32_t size = site->flags & CALLTAP_SITE_CALL ? cpu->stub_call : cpu->stub_graph;

	return size + (site->flags & CALLTAP_SITE_GATED ? cpu->stub_gate : 0u);
}

int layout_stubs(uint16_t machine, struct calltap_site *sites, uint32_t count, uint64_t *bytes)
{
	uint64_t at = REGION_HEAD;

	for (uint32_t i = 0; i < count; i++) {
		sites[i].stub_off = (uint32_t)at;
		at += layout_stub_size(machine, &sites[i]);
	}
	*bytes = at - REGION_HEAD;
	return at > UINT32_MAX ? -EFBIG : 0;
}
