/*
 * Text pages: which were the file's own before sites were patched, and how they become so again.
 *
 * A write to a page of a private file mapping makes a copy of it.  Once the copy holds what the page held, the agent
 * gives it back, and the process has the file's page again, shared with all other processes.  Called by the agent
 * room's control thread.  Context: control.
 */
#ifndef PATCH_PAGES_H
#define PATCH_PAGES_H

#include <stddef.h>
#include <stdint.h>

#include <patch/sites.h>

struct patch_page {
	uint64_t address;
	uint64_t digest; /* of the page's content */
};

struct patch_pages {
	struct patch_page *list;
	uint32_t count;
	size_t room; /* bytes mapped for `list`, 0 = no list */
};

/*
 * Call before the sites are patched: notes which of their pages are the file's own. fresh: the object stays mapped
 * during the call.
 */
void patch_pages_note(struct patch_pages *pages, const struct patch_poker *poker, const struct calltap_site *sites,
		      uint32_t count, bool fresh);
/*
 * Call after the sites were restored: gives back each noted page that holds what it held when noted, but for inert
 * bytes at the starts of sites.  A page that others have changed since stays.
 */
void patch_pages_give_back(const struct patch_pages *pages, const struct patch_poker *poker,
			   const struct patch_region *region, const struct calltap_site *sites, uint32_t count);

#endif
