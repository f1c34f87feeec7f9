/*
 * Functions that are left alone for what their object, or another one, does with return addresses (images.h).
 *
 * Calls by a PLT of functions that use their return address: what the called function does with it is known once its
 * own object was read.  Calls of libc's functions are known by their names (elf/verdicts.c).
 *
 * Caller: images.c.  Context: host, under the session's lock.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <calltap/abi/movers.h>
#include <tracers/tracer.h>

#include "images.h"

/* Does a function of the image use its return address, or copy it with a part of the stack? */
static bool keeps(const struct image *image, const struct object_site *site)
{
	return site->kind != SITE_LIBCALL && site->symbol[0] &&
	       (site->verdict == SITE_LOOKS_AT_CALLER || site->verdict == SITE_RETURNS_TWICE ||
		calltap_copies_own(object_path(image->object)));
}

int keepers_note(struct image *image)
{
	const struct object_site *sites;
	size_t count = object_sites(image->object, &sites), found = 0;

	for (size_t i = 0; i < count; i++)
		found += keeps(image, &sites[i]);
	image->keepers = calloc(found + 1, sizeof(*image->keepers));
	if (!image->keepers)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++)
		if (keeps(image, &sites[i]))
			image->keepers[image->keeper_count++] = &sites[i];
	return 0;
}

/* The verdict on calls of another object's function of that name; SITE_OK: the function keeps no return address. */
static enum site_verdict verdict_of(const struct images *images, const struct image *caller, const char *name)
{
	for (const struct image *image = images->first; image; image = image->next) {
		const bool copies = image->object && calltap_copies_own(object_path(image->object));

		if (image->base || image->object == caller->object || (copies && !images->tracer->has_exit))
			continue;
		for (size_t i = 0; i < image->keeper_count; i++)
			if (!strcmp(image->keepers[i]->symbol, name))
				return copies ? SITE_COPIES_STACKS : (enum site_verdict)image->keepers[i]->verdict;
	}
	return SITE_OK;
}

void keepers_refuse(const struct images *images, const struct image *image)
{
	const struct object_site *sites;
	size_t count = object_sites(image->object, &sites);

	for (size_t i = 0; i < count; i++)
		if (sites[i].kind == SITE_LIBCALL && sites[i].verdict == SITE_OK)
			object_refuse_site(image->object, i, verdict_of(images, image, sites[i].symbol));
}

void copiers_refuse(const struct images *images, const struct image *image)
{
	const struct object_site *sites;
	size_t count = object_sites(image->object, &sites);

	if (!images->tracer->has_exit || !calltap_copies_own(object_path(image->object)))
		return;
	for (size_t i = 0; i < count; i++)
		if (sites[i].verdict == SITE_OK)
			object_refuse_site(image->object, i, SITE_COPIES_STACKS);
}
