/*
 * Where each stub lies in its region, behind the table of pointers at the
 * region's head: one behind the other, with a veneer in front of each on CPUs
 * that have those, or, where unwinders must know by an address alone at which
 * of a stub's instructions it is, each in a unit of its own.  Caller: image_decide().  Context: host.
 */
#include <errno.h>

#include <host/elf/cpu.h>

#include "images.h"

#define REGION_HEAD 256u /* the pointer table of the agent's regions */

uint32_t layout_stub_size(uint16_t machine, const struct calltap_site *site)
{
	const struct elf_cpu *cpu = elf_cpu_find(machine);
	uint32_t size = site->flags & CALLTAP_SITE_CALL ? cpu->stub_call : cpu->stub_graph;

	return size + (site->flags & CALLTAP_SITE_GATED ? cpu->stub_gate : 0u) +
	       (site->flags & CALLTAP_SITE_LEAF ? cpu->stub_leaf : 0u);
}

static bool has_gates(const struct calltap_site *sites, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		if (sites[i].flags & CALLTAP_SITE_GATED)
			return true;
	return false;
}

int layout_stubs(uint16_t machine, struct calltap_site *sites, uint32_t count, uint64_t *bytes)
{
	const struct elf_cpu *cpu = elf_cpu_find(machine);
	bool gated = has_gates(sites, count);
	uint32_t unit = gated ? cpu->stub_unit_gated : cpu->stub_unit;
	uint64_t at = REGION_HEAD;

	for (uint32_t i = 0; i < count; i++) {
		bool unused =
			unit && gated && !(sites[i].flags & CALLTAP_SITE_GATED); /* of the unit, what a gate takes */

		if (gated)
			sites[i].flags &= (uint16_t)~CALLTAP_SITE_LEAF; /* units there have no place for it */
		at += cpu->stub_veneer;
		sites[i].stub_off = (uint32_t)(unused ? at + cpu->stub_gate : at);
		at += unit ? unit + (sites[i].flags & CALLTAP_SITE_LEAF ? cpu->stub_leaf : 0u)
			   : layout_stub_size(machine, &sites[i]);
	}
	*bytes = at - REGION_HEAD;
	return at > UINT32_MAX ? -EFBIG : 0;
}
