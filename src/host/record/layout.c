/*
 * Where each stub lies in its region.
 *
 * A 5-byte site wants its stub at an address whose low byte is its own + 8,
 * so that the site can be switched by one byte (doc/design/stubs.md).  Regions
 * start at a page, so offsets will do.  Stubs are packed row by row, 256 bytes
 * each, always taking the next byte class that still has a site.
 * Caller: image_decide().  Context: host.
 */
#include <errno.h>
#include <stdlib.h>

#include "images.h"

#define ROW	    256u
#define REGION_HEAD 64u /* the pointer table of the agent's regions */
#define NO_SITE	    UINT32_MAX

struct classes {
	uint32_t head[ROW]; /* first site of the class */
	uint32_t *next;	    /* by site */
	uint32_t left;
};

static uint32_t stub_size(const struct calltap_site *site)
{
	uint32_t size = site->flags & CALLTAP_SITE_CALL ? 16 : 27;

	return size + (site->flags & CALLTAP_SITE_GATED ? 15 : 0);
}

/* The first class at or after `from` in this row that has a site; ROW = none. */
static uint32_t next_class(const struct classes *classes, uint32_t from)
{
	while (from < ROW && classes->head[from] == NO_SITE)
		from++;
	return from;
}

static uint64_t place(struct classes *classes, struct calltap_site *sites, uint64_t at)
{
	while (classes->left) {
		uint32_t class = next_class(classes, at % ROW);
		uint32_t site;

		if (class == ROW) {
			at = at / ROW * ROW + ROW;
			continue;
		}
		site = classes->head[class];
		classes->head[class] = classes->next[site];
		classes->left--;
		sites[site].stub_off = (uint32_t)(at / ROW * ROW + class);
		at = sites[site].stub_off + stub_size(&sites[site]);
	}
	return at;
}

int layout_stubs(struct calltap_site *sites, uint32_t count, uint64_t *bytes)
{
	struct classes classes = {.next = calloc(count ? count : 1, sizeof(uint32_t))};
	uint64_t at;

	if (!classes.next)
		return -ENOMEM;
	for (uint32_t i = 0; i < ROW; i++)
		classes.head[i] = NO_SITE;
	for (uint32_t i = count; i-- > 0;) {
		uint8_t class = (uint8_t)(sites[i].address + 8);

		if (sites[i].length != 5)
			continue;
		classes.next[i] = classes.head[class];
		classes.head[class] = i;
		classes.left++;
	}
	at = place(&classes, sites, REGION_HEAD);
	for (uint32_t i = 0; i < count; i++) {
		if (sites[i].length == 5)
			continue;
		sites[i].stub_off = (uint32_t)at;
		at += stub_size(&sites[i]);
	}
	free(classes.next);
	*bytes = at - REGION_HEAD;
	return at > UINT32_MAX ? -EFBIG : 0;
}
