/*
 * Leading sites from one stub to another while threads run through them (sites.h), on CPUs where a site's own jump is
 * written anew.  Why each write is safe: doc/design/patching.md.
 *
 * All sites take their first step, all cores refetch, all sites take their second step: a few refetches for any number
 * of sites.  Called by the agent room's control thread.  Context: control.
 */
#include <arch.h>
#include <base/mem.h>
#include <patch/sites.h>

#define HOPS_MAX (3 + ARCH_STEPS_MAX)

/* A site leads to its stub by itself: its bytes, which the callers look at next, say all. */
bool patch_site_find(struct patch_piece *piece, const struct patch_poker *poker, const struct patch_region *region,
		     const struct calltap_site *site)
{
	(void)poker;
	*piece = patch_site_piece(region, site);
	return true;
}

void patch_stub_finish(uint8_t *stub)
{
	(void)stub;
}

int patch_stub_reset(struct patch_poker *poker, uint64_t stub)
{
	(void)poker;
	(void)stub;
	return 0;
}

/* One write on a site's way: to the site, or to the trampoline that it leads to. */
struct hop {
	struct patch_piece piece; /* target: where the piece leads when the way begins */
	struct arch_write write;
};

static void add(struct hop *hops, unsigned *count, const struct patch_piece *piece, struct arch_write write)
{
	hops[(*count)++] = (struct hop){*piece, write};
}

static struct arch_write off(const struct patch_piece *piece)
{
	return arch_site_switch(piece->address, piece->length, piece->target, false);
}

/* Add the hops of a switched-off piece: to its new target, and on.  False: there is no way. */
static bool lead(struct hop *hops, unsigned *count, const struct patch_piece *piece, uint64_t to)
{
	struct arch_write writes[ARCH_STEPS_MAX];
	unsigned more = arch_site_lead(writes, piece->address, piece->length, piece->target, to);

	for (unsigned i = 0; i < more; i++)
		add(hops, count, piece, writes[i]);
	return more != 0;
}

/*
 * All hops of a move; 0: it cannot be done.  A trampoline is off only while its site is off; a thread that stands
 * before the trampoline then falls through it.
 */
static unsigned way_of(const struct patch_move *move, struct hop hops[HOPS_MAX])
{
	struct patch_piece site = patch_site_piece(move->from, move->old), tramp;
	unsigned count = 0;

	if (!patch_site_is_same(move->old, move->site) || !patch_site_reaches(move->to, move->site))
		return 0;
	add(hops, &count, &site, off(&site));
	if (!arch_site_is_short(site.length))
		return lead(hops, &count, &site, patch_site_piece(move->to, move->site).target) ? count : 0;
	tramp = patch_tramp_piece(move->from, move->old);
	if (!arch_falls_through(tramp.old))
		return 0;
	add(hops, &count, &tramp, off(&tramp));
	if (!lead(hops, &count, &tramp, patch_tramp_piece(move->to, move->site).target))
		return 0;
	return lead(hops, &count, &site, site.target) ? count : 0;
}

/* The piece's bytes before hop number `step` of the way. */
static void code_before(uint8_t code[ARCH_SITE_MAX], const struct hop *hops, unsigned step)
{
	const struct patch_piece *piece = &hops[step].piece;

	arch_site_make(code, piece->address, piece->length, piece->target);
	for (unsigned i = 0; i < step; i++)
		if (hops[i].piece.address == piece->address)
			memcpy(code + hops[i].write.offset, hops[i].write.bytes, hops[i].write.size);
}

/* Take one hop if the bytes are as expected before it.  True if they are as expected after it, now or already. */
static bool take(struct patch_poker *poker, const struct hop *hops, unsigned step)
{
	const struct hop *hop = &hops[step];
	uint8_t code[ARCH_SITE_MAX];

	code_before(code, hops, step);
	if (patch_piece_is(poker, &hop->piece, code))
		return !patch_piece_write(poker, &hop->piece, &hop->write);
	memcpy(code + hop->write.offset, hop->write.bytes, hop->write.size);
	return patch_piece_is(poker, &hop->piece, code);
}

void patch_sites_move(struct patch_poker *poker, struct patch_move *moves, uint32_t count)
{
	struct hop hops[HOPS_MAX];
	bool more = true;

	for (uint32_t i = 0; i < count; i++)
		moves[i].done = way_of(&moves[i], hops) != 0;
	for (unsigned step = 0; step < HOPS_MAX && more; step++) {
		/*
		 * Sync before each step but the first: a core may still run the old bytes, even of a site that was
		 * switched off long ago.
		 */
		bool synced = !step || !patch_sync();

		more = false;
		for (uint32_t i = 0; i < count; i++) {
			unsigned length = moves[i].done ? way_of(&moves[i], hops) : 0;

			if (step < length)
				moves[i].done = synced && take(poker, hops, step);
			more |= step + 1 < length;
		}
	}
}
