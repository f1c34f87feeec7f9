/*
 * Text that threads are running: switching sites, and giving text its own
 * bytes back (sites.h).  Why each write is safe: doc/design/patching.md.
 *
 * Called by the agent room's control thread.  Context: control.
 */
#include <errno.h>

#include <arch.h>
#include <base/mem.h>
#include <base/sys.h>
#include <patch/pages.h>
#include <patch/sites.h>

/* From switched on to the bytes that were replaced: write n, refetch, write n + 1. */
struct way {
	struct arch_write writes[1 + ARCH_STEPS_MAX];
	unsigned count;
	uint8_t inert; /* bytes at the start that differ even at its end */
};

#define ROUNDS (2 + ARCH_STEPS_MAX) /* of the longest way, and a trampoline's is one behind its site's */

static struct way way_of(const struct patch_piece *piece)
{
	struct way way;

	way.writes[0] = arch_site_switch(piece->address, piece->length, piece->target, false);
	way.count = 1 + arch_site_restore(way.writes + 1, piece->length, piece->old, &way.inert);
	return way;
}

static void put(uint8_t *code, const struct arch_write *write)
{
	memcpy(code + write->offset, write->bytes, write->size);
}

/* What the piece is after so many steps of its way. */
static void code_after(uint8_t code[ARCH_SITE_MAX], const struct patch_piece *piece, const struct way *way,
		       unsigned steps)
{
	arch_site_make(code, piece->address, piece->length, piece->target);
	for (unsigned i = 0; i < steps && i < way->count; i++)
		put(code, &way->writes[i]);
}

/* Read as it is written: the object may have been unmapped. */
static bool is_now(const struct patch_poker *poker, const struct patch_piece *piece, const uint8_t *code)
{
	uint8_t now[ARCH_SITE_MAX];

	return SYS(pread64, poker->mem_fd, now, piece->length, piece->address, 0, 0) == piece->length &&
	       !memcmp(now, code, piece->length);
}

static bool is_after(const struct patch_poker *poker, const struct patch_piece *piece, const struct way *way,
		     unsigned steps)
{
	uint8_t code[ARCH_SITE_MAX];

	code_after(code, piece, way, steps);
	return is_now(poker, piece, code);
}

static int poke(struct patch_poker *poker, const struct patch_piece *piece, const struct arch_write *write)
{
	return patch_poke(poker, piece->address + write->offset, write->bytes, write->size);
}

int patch_site_switch(struct patch_poker *poker, const struct patch_region *region, const struct calltap_site *site,
		      bool on)
{
	struct patch_piece piece = patch_site_piece(region, site), tramp;
	struct arch_write write = arch_site_switch(piece.address, piece.length, piece.target, on);
	struct arch_write back = arch_site_switch(piece.address, piece.length, piece.target, !on);
	uint8_t code[ARCH_SITE_MAX];

	arch_site_make(code, piece.address, piece.length, piece.target);
	put(code, &write);
	if (is_now(poker, &piece, code))
		return 0;
	put(code, &back);
	if (!is_now(poker, &piece, code))
		return -EINVAL;
	if (arch_site_is_short(site->length)) {
		tramp = patch_tramp_piece(region, site);
		arch_site_make(code, tramp.address, tramp.length, tramp.target);
		if (!is_now(poker, &tramp, code))
			return -EINVAL;
	}
	return poke(poker, &piece, &write);
}

/* One step of a piece's way, if it has come so far; what is not ours any more stays behind. */
static void take_step(struct patch_poker *poker, const struct patch_piece *piece, unsigned step)
{
	struct way way = way_of(piece);

	if (step >= way.count || !is_after(poker, piece, &way, step))
		return;
	if (poke(poker, piece, &way.writes[step]))
		return; /* and stays as it is, which is as good as untraced */
}

/* No thread comes to a trampoline whose site is off; one that is there already runs on through it, whatever it is. */
static void tramp_step(struct patch_poker *poker, const struct patch_region *region, const struct calltap_site *site,
		       unsigned round)
{
	struct patch_piece piece = patch_site_piece(region, site), tramp = patch_tramp_piece(region, site);
	struct way way = way_of(&piece);

	if (round && arch_falls_through(tramp.old) && is_after(poker, &piece, &way, round + 1))
		take_step(poker, &tramp, round - 1);
}

static bool is_restored(const struct patch_poker *poker, const struct patch_region *region,
			const struct calltap_site *site)
{
	struct patch_piece piece = patch_site_piece(region, site), tramp = patch_tramp_piece(region, site);

	return is_now(poker, &piece, piece.old) &&
	       (!arch_site_is_short(site->length) || is_now(poker, &tramp, tramp.old));
}

uint8_t patch_site_inert(uint8_t code[ARCH_SITE_MAX], const struct patch_region *region,
			 const struct calltap_site *site)
{
	struct patch_piece piece = patch_site_piece(region, site);
	struct way way = way_of(&piece);

	code_after(code, &piece, &way, way.count);
	return way.inert;
}

void patch_sites_restore(struct patch_restored *out, struct patch_poker *poker, const struct patch_region *region,
			 const struct calltap_site *sites, uint32_t count, const struct patch_pages *pages)
{
	int ret = 0;

	*out = (struct patch_restored){0};
	for (unsigned round = 0; round < ROUNDS && !ret; round++) {
		for (uint32_t i = 0; i < count; i++) {
			struct patch_piece piece = patch_site_piece(region, &sites[i]);

			take_step(poker, &piece, round);
			if (arch_site_is_short(sites[i].length))
				tramp_step(poker, region, &sites[i], round);
		}
		ret = patch_sync(); /* or a core may still be at what was there: no step further */
	}
	if (!ret)
		patch_pages_give_back(pages, poker, region, sites, count);
	for (uint32_t i = 0; i < count; i++) {
		if (is_restored(poker, region, &sites[i]))
			out->restored++;
		else
			out->left++;
	}
}

int patch_hook_restore(struct patch_poker *poker, uint64_t address, uint64_t target, const uint8_t *old)
{
	struct patch_piece piece = {address, target, old, ARCH_HOOK_BYTES};
	struct arch_write writes[ARCH_STEPS_MAX];
	unsigned count = arch_hook_restore(writes, address, old);
	uint8_t code[ARCH_HOOK_BYTES];

	arch_jump_make(code, address, target);
	for (unsigned step = 0; step < count; step++) {
		int ret = is_now(poker, &piece, code) ? poke(poker, &piece, &writes[step]) : -EINVAL;

		if (!ret)
			ret = patch_sync();
		if (ret)
			return ret;
		put(code, &writes[step]);
	}
	return count ? 0 : -ENOTSUP;
}
