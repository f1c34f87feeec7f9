/*
 * Calls by a PLT of functions that use their return address (images.h): what the called function does with it is known
 * once its own object was read.  Calls of libc's functions are known by their names (elf/verdicts.c).
 *
 * Caller: images.c.  Context: host, under the session's lock.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "images.h"

static bool keeps(const struct object_site *site)
{
	return site->kind != SITE_LIBCALL && site->symbol[0] &&
	       (site->verdict == SITE_LOOKS_AT_CALLER || site->verdict == SITE_RETURNS_TWICE);
}

int keepers_note(struct image *image)
{
	const struct object_site *sites;
	size_t count = object_sites(image->object, &sites), found = 0;

	for (size_t i = 0; i < count; i++)
		found += keeps(&sites[i]);
	image->keepers = calloc(found + 1, sizeof(*image->keepers));
	if (!image->keepers)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++)
		if (keeps(&sites[i]))
			image->keepers[image->keeper_count++] = &sites[i];
	return 0;
}

/* The function of that name, in another object, that uses its return address; NULL: none is known. */
static const struct object_site *keeper_of(const struct images *images, const struct image *caller, const char *name)
{
	for (const struct image *image = images->first; image; image = image->next) {
		if (image->base || image->object == caller->object)
			continue;
		for (size_t i = 0; i < image->keeper_count; i++)
			if (!strcmp(image->keepers[i]->symbol, name))
				return image->keepers[i];
	}
	return NULL;
}

void keepers_refuse(const struct images *images, const struct image *image)
{
	const struct object_site *sites;
	size_t count = object_sites(image->object, &sites);

	for (size_t i = 0; i < count; i++) {
		const struct object_site *keeper;

		if (sites[i].kind != SITE_LIBCALL || sites[i].verdict != SITE_OK)
			continue;
		keeper = keeper_of(images, image, sites[i].symbol);
		if (keeper)
			object_refuse_site(image->object, i, (enum site_verdict)keeper->verdict);
	}
}
