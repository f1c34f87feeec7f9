/*
 * Switching sites while threads run through them, and giving text its own bytes back (sites.h).  Why each write is
 * safe: doc/design/patching.md.
 *
 * Called by the agent room's control thread.  Context: control.
 */
#include <errno.h>

#include <arch.h>
#include <base/mem.h>
#include <base/sys.h>
#include <patch/pages.h>
#include <patch/sites.h>

/* The steps from a switched-on site to the bytes that it replaced: write n, make all cores refetch, write n + 1. */
struct way {
	struct arch_write writes[1 + ARCH_STEPS_MAX];
	unsigned count;
	uint8_t inert; /* bytes at the start that no step restores: they come back with the page alone */
};

#define GLANCE_SITES 16 /* the last of them is written some 20 us after the bytes were read, at the latest */

#define ROUNDS (2 + ARCH_STEPS_MAX) /* the longest way, and one: a trampoline follows its site */

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

/* The piece's bytes after `steps` steps of its way. */
static void code_after(uint8_t code[ARCH_SITE_MAX], const struct patch_piece *piece, const struct way *way,
		       unsigned steps)
{
	arch_site_make(code, piece->address, piece->length, piece->target);
	for (unsigned i = 0; i < steps && i < way->count; i++)
		put(code, &way->writes[i]);
}

bool patch_piece_is(const struct patch_poker *poker, const struct patch_piece *piece, const uint8_t *code)
{
	uint8_t now[ARCH_SITE_MAX];

	return SYS(pread64, poker->mem_fd, now, piece->length, piece->address, 0, 0) == piece->length &&
	       !memcmp(now, code, piece->length);
}

uint32_t patch_glance(struct patch_glance *glance, const struct patch_poker *poker, const struct calltap_site *sites,
		      uint32_t site_count, const uint32_t *places, uint32_t count)
{
	uint64_t end = 0;
	uint32_t taken = 0;

	glance->size = 0;
	for (; taken < count && taken < GLANCE_SITES && places[taken] < site_count; taken++) {
		const struct calltap_site *site = &sites[places[taken]];

		glance->at = taken ? glance->at : site->address;
		if (site->address < end || site->address + site->length > glance->at + sizeof(glance->bytes))
			break;
		end = site->address + site->length;
	}
	if (taken &&
	    SYS(pread64, poker->mem_fd, glance->bytes, end - glance->at, glance->at, 0, 0) == (long)(end - glance->at))
		glance->size = end - glance->at;
	return taken ? taken : 1;
}

/* patch_glance() of sites[0] and of those behind it. */
static uint32_t glance_at(struct patch_glance *glance, const struct patch_poker *poker,
			  const struct calltap_site *sites, uint32_t count)
{
	uint32_t places[GLANCE_SITES];

	for (uint32_t i = 0; i < GLANCE_SITES; i++)
		places[i] = i;
	return patch_glance(glance, poker, sites, count, places, count < GLANCE_SITES ? count : GLANCE_SITES);
}

/* Compare with the glance where it holds the piece; else read the bytes now. */
static bool glance_shows(const struct patch_glance *glance, const struct patch_poker *poker,
			 const struct patch_piece *piece, const uint8_t *code)
{
	uint64_t offset = piece->address - glance->at;

	if (offset >= glance->size || piece->length > glance->size - offset)
		return patch_piece_is(poker, piece, code);
	return !memcmp(glance->bytes + offset, code, piece->length);
}

static bool is_after(const struct patch_poker *poker, const struct patch_piece *piece, const struct way *way,
		     unsigned steps)
{
	uint8_t code[ARCH_SITE_MAX];

	code_after(code, piece, way, steps);
	return patch_piece_is(poker, piece, code);
}

int patch_piece_write(struct patch_poker *poker, const struct patch_piece *piece, const struct arch_write *write)
{
	return patch_poke(poker, piece->address + write->offset, write->bytes, write->size);
}

/* The bytes of a piece, by the glance where it holds them; false: they cannot be read. */
static bool read_piece(uint8_t now[ARCH_SITE_MAX], const struct patch_poker *poker, const struct patch_piece *piece,
		       const struct patch_glance *glance)
{
	uint64_t offset = glance ? piece->address - glance->at : 0;

	if (!glance || offset >= glance->size || piece->length > glance->size - offset)
		return SYS(pread64, poker->mem_fd, now, piece->length, piece->address, 0, 0) == piece->length;
	memcpy(now, glance->bytes + offset, piece->length);
	return true;
}

/* *piece: the site's, if it is not alien. */
static enum patch_state state_of(struct patch_piece *piece, const struct patch_poker *poker,
				 const struct patch_region *region, const struct calltap_site *site,
				 const struct patch_glance *glance)
{
	enum patch_state state = PATCH_SITE_ON;
	uint8_t code[ARCH_SITE_MAX], now[ARCH_SITE_MAX];
	struct patch_piece tramp;
	struct arch_write off;

	if (!patch_site_find(piece, poker, region, site) || !read_piece(now, poker, piece, glance))
		return PATCH_SITE_ALIEN;
	off = arch_site_switch(piece->address, piece->length, piece->target, false);
	arch_site_make(code, piece->address, piece->length, piece->target);
	if (memcmp(now, code, piece->length) != 0) {
		put(code, &off);
		state = memcmp(now, code, piece->length) != 0 ? PATCH_SITE_ALIEN : PATCH_SITE_OFF;
	}
	if (state == PATCH_SITE_ALIEN || !arch_site_is_short(site->length))
		return state;
	tramp = patch_tramp_piece(region, site);
	arch_site_make(code, tramp.address, tramp.length, tramp.target);
	return patch_piece_is(poker, &tramp, code) ? state : PATCH_SITE_ALIEN;
}

enum patch_state patch_site_state(const struct patch_poker *poker, const struct patch_region *region,
				  const struct calltap_site *site)
{
	struct patch_piece piece;

	return state_of(&piece, poker, region, site, NULL);
}

int patch_site_switch_seen(struct patch_poker *poker, const struct patch_region *region,
			   const struct calltap_site *site, bool on, const struct patch_glance *glance)
{
	struct patch_piece piece;
	enum patch_state state = state_of(&piece, poker, region, site, glance);
	struct arch_write write;

	if (state == PATCH_SITE_ALIEN)
		return -EINVAL;
	if (state == (on ? PATCH_SITE_ON : PATCH_SITE_OFF))
		return 0;
	write = arch_site_switch(piece.address, piece.length, piece.target, on);
	return patch_piece_write(poker, &piece, &write);
}

int patch_site_switch(struct patch_poker *poker, const struct patch_region *region, const struct calltap_site *site,
		      bool on)
{
	return patch_site_switch_seen(poker, region, site, on, NULL);
}

/* True after `steps` steps or more: another plan of the same site may have taken further ones. */
static bool has_come(const struct patch_poker *poker, const struct patch_piece *piece, const struct way *way,
		     unsigned steps)
{
	for (steps = steps < way->count ? steps : way->count; steps <= way->count; steps++)
		if (is_after(poker, piece, way, steps))
			return true;
	return false;
}

/*
 * Take one step of a piece's way if the piece stands right before that step.  A piece that others have changed is left.
 */
static void take_step(struct patch_poker *poker, const struct patch_piece *piece, unsigned step,
		      const struct patch_glance *glance)
{
	struct way way = way_of(piece);
	uint8_t code[ARCH_SITE_MAX];

	if (step >= way.count)
		return;
	code_after(code, piece, &way, step);
	if (!glance_shows(glance, poker, piece, code))
		return;
	if (patch_piece_write(poker, piece, &way.writes[step]))
		return; /* the site stays as it is; patch_sites_restore() counts it as left */
}

/*
 * No thread comes to a trampoline whose site is off.  A thread that stands before the trampoline falls through it, at
 * every step.
 */
static void tramp_step(struct patch_poker *poker, const struct patch_region *region, const struct calltap_site *site,
		       unsigned round)
{
	struct patch_piece piece = patch_site_piece(region, site), tramp = patch_tramp_piece(region, site);
	const struct patch_glance none = {.size = 0};
	struct way way = way_of(&piece);

	if (round && arch_falls_through(tramp.old) && has_come(poker, &piece, &way, round + 1))
		take_step(poker, &tramp, round - 1, &none);
}

static bool is_restored(const struct patch_poker *poker, const struct patch_region *region,
			const struct calltap_site *site, const struct patch_glance *glance)
{
	struct patch_piece piece = patch_site_piece(region, site), tramp = patch_tramp_piece(region, site);

	return glance_shows(glance, poker, &piece, piece.old) &&
	       (!arch_site_is_short(site->length) || patch_piece_is(poker, &tramp, tramp.old));
}

/* True if the site was unmapped with its object: there is nothing to restore. */
static bool is_gone(const struct patch_poker *poker, const struct calltap_site *site)
{
	uint8_t byte;

	return SYS(pread64, poker->mem_fd, &byte, sizeof(byte), site->address, 0, 0) == -EIO;
}

/*
 * May a thread come to the stub from a site that is not restored?  No, where only the inert bytes at its start remain,
 * or where others have put code of their own.  A debugger's breakpoint over the first byte is not such code: the
 * debugger keeps that byte.
 */
static bool is_leading(const struct patch_poker *poker, const struct patch_region *region,
		       const struct calltap_site *site)
{
	struct patch_piece piece = patch_site_piece(region, site), behind = piece;
	struct way way = way_of(&piece);
	uint8_t code[ARCH_SITE_MAX], byte;

	if (is_after(poker, &piece, &way, way.count))
		return false;
	if (has_come(poker, &piece, &way, 0) ||
	    SYS(pread64, poker->mem_fd, &byte, sizeof(byte), piece.address, 0, 0) != sizeof(byte))
		return true;
	arch_site_make(code, piece.address, piece.length, piece.target);
	behind.address++;
	behind.length--;
	return behind.length && patch_piece_is(poker, &behind, code + 1);
}

uint8_t patch_site_inert(uint8_t code[ARCH_SITE_MAX], const struct patch_region *region,
			 const struct calltap_site *site)
{
	struct patch_piece piece = patch_site_piece(region, site);
	struct way way = way_of(&piece);

	code_after(code, &piece, &way, way.count);
	return way.inert;
}

/*
 * A uprobe that came while the site led to its stub, or was off, and has gone: the kernel has put the file's byte over
 * the first one of ours.  No thread can run such code, so our byte comes back, and the site goes its way.
 */
static void put_back_first(struct patch_poker *poker, const struct patch_region *region,
			   const struct calltap_site *site, unsigned round, const struct patch_glance *glance)
{
	struct patch_piece piece = patch_site_piece(region, site);
	struct way way = way_of(&piece);
	uint8_t code[ARCH_SITE_MAX], now[ARCH_SITE_MAX];

	(void)round;
	if (!read_piece(now, poker, &piece, glance) || now[0] != piece.old[0] || !memcmp(now, piece.old, piece.length))
		return;
	for (unsigned steps = 0; steps <= way.count; steps++) {
		code_after(code, &piece, &way, steps);
		if (code[0] != now[0] && !memcmp(code + 1, now + 1, piece.length - 1u)) {
			struct arch_write first = {.size = 1, .bytes = {code[0]}};

			if (patch_piece_write(poker, &piece, &first))
				return; /* the site stays as it is, and is counted */
			break;
		}
	}
}

typedef void site_fn(struct patch_poker *poker, const struct patch_region *region, const struct calltap_site *site,
		     unsigned round, const struct patch_glance *glance);

/* Visit sites, with the bytes of some at a time. */
static void each_site(struct patch_poker *poker, const struct patch_region *region, const struct calltap_site *sites,
		      uint32_t count, unsigned round, site_fn *visit)
{
	struct patch_glance glance;
	uint32_t seen = 0;

	for (uint32_t i = 0; i < count; i++) {
		if (i == seen)
			seen += glance_at(&glance, poker, sites + i, count - i);
		visit(poker, region, &sites[i], round, &glance);
	}
}

/* Take one step of a site's way. */
static void site_step(struct patch_poker *poker, const struct patch_region *region, const struct calltap_site *site,
		      unsigned round, const struct patch_glance *glance)
{
	struct patch_piece piece = patch_site_piece(region, site);

	take_step(poker, &piece, round, glance);
	if (arch_site_is_short(site->length))
		tramp_step(poker, region, site, round);
}

void patch_sites_restore(struct patch_restored *out, struct patch_poker *poker, const struct patch_region *region,
			 const struct calltap_site *sites, uint32_t count, const struct patch_pages *pages)
{
	struct patch_glance glance;
	uint32_t seen = 0;
	int ret = 0;

	*out = (struct patch_restored){0};
	each_site(poker, region, sites, count, 0, put_back_first);
	for (unsigned round = 0; round < ROUNDS && !ret; round++) {
		each_site(poker, region, sites, count, round, site_step);
		ret = patch_sync(); /* if this fails, a core may still run the old bytes: no further step */
	}
	if (!ret && pages)
		patch_pages_give_back(pages, poker, region, sites, count);
	for (uint32_t i = 0; i < count; i++) {
		if (i == seen)
			seen += glance_at(&glance, poker, sites + i, count - i);
		if (is_restored(poker, region, &sites[i], &glance)) {
			out->restored++;
		} else if (!is_gone(poker, &sites[i])) {
			out->left++;
			out->leading += is_leading(poker, region, &sites[i]);
		}
	}
}

/*
 * The steps that were taken from the jump to the function's own bytes: a forked child has the text as its parent's
 * control thread had it then.  code: the bytes after them.  count + 1: other bytes are there.
 */
static unsigned hook_steps_taken(const struct patch_poker *poker, const struct patch_piece *piece,
				 const struct arch_write *writes, unsigned count, uint8_t code[ARCH_HOOK_BYTES])
{
	unsigned taken = 0;

	arch_jump_make(code, piece->address, piece->target);
	while (taken <= count && !patch_piece_is(poker, piece, code)) {
		if (taken < count)
			put(code, &writes[taken]);
		taken++;
	}
	return taken;
}

int patch_hook_restore(struct patch_poker *poker, uint64_t address, uint64_t target, const uint8_t *old)
{
	struct patch_piece piece = {.address = address, .target = target, .old = old, .length = ARCH_HOOK_BYTES};
	struct arch_write writes[ARCH_STEPS_MAX];
	unsigned count = arch_hook_restore(writes, address, old);
	uint8_t code[ARCH_HOOK_BYTES];
	unsigned step = hook_steps_taken(poker, &piece, writes, count, code);

	for (; step < count; step++) {
		int ret =
			patch_piece_is(poker, &piece, code) ? patch_piece_write(poker, &piece, &writes[step]) : -EINVAL;

		if (!ret)
			ret = patch_sync();
		if (ret)
			return ret;
		put(code, &writes[step]);
	}
	if (step > count)
		return -EINVAL;
	return count ? 0 : -ENOTSUP;
}
