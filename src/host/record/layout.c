/*
 * Where each stub lies in its region: one behind the other, behind the table
 * of pointers at the region's head.  Caller: image_decide().  Context: host.
 */
#include <errno.h>

#include "images.h"

#define REGION_HEAD 64u /* the pointer table of the agent's regions */

uint32_t layout_stub_size(const struct calltap_site *site)
{
	uint32_t size = site->flags & CALLTAP_SITE_CALL ? 16 : 27;

	return size + (site->flags & CALLTAP_SITE_GATED ? 15 : 0);
}

int layout_stubs(struct calltap_site *sites, uint32_t count, uint64_t *bytes)
{
	uint64_t at = REGION_HEAD;

	for (uint32_t i = 0; i < count; i++) {
		sites[i].stub_off = (uint32_t)at;
		at += layout_stub_size(&sites[i]);
	}
	*bytes = at - REGION_HEAD;
	return at > UINT32_MAX ? -EFBIG : 0;
}
