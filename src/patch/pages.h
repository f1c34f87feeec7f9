/*
 * Pages of text that are the file's own, and become so again.
 *
 * A write to a page of a private file mapping makes a copy of it.  When the
 * copy is what the page was, it is given back, and the process has the file's
 * page again, shared with all others.  Context: control.
 */
#ifndef PATCH_PAGES_H
#define PATCH_PAGES_H

#include <stddef.h>
#include <stdint.h>

#include <patch/sites.h>

struct patch_page {
	uint64_t address;
	uint64_t digest; /* of its content */
};

struct patch_pages {
	struct patch_page *list;
	uint32_t count;
	size_t room; /* bytes, 0 = no list */
};

/*
 * Before the sites are patched: note those of their pages that are the file's
 * own.  fresh: the object stays where it is meanwhile.
 */
void patch_pages_note(struct patch_pages *pages, const struct patch_poker *poker, const struct calltap_site *sites,
		      uint32_t count, bool fresh);
/*
 * After the sites were restored: give back each page that holds what it held
 * then, but for starts of sites that can only be restored so.  What others
 * have changed since stays.
 */
void patch_pages_give_back(const struct patch_pages *pages, const struct patch_poker *poker,
			   const struct patch_region *region, const struct calltap_site *sites, uint32_t count);

#endif
