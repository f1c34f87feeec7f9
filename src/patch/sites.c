/*
 * Stub regions, and the sites that jump into them (sites.h).
 *
 * Called by the agent room when a plan comes in.  Context: control.
 */
#include <errno.h>
#include <sys/mman.h>

#include <arch.h>
#include <base/mem.h>
#include <base/sys.h>
#include <patch/sites.h>

#define PAGE	   4096ul
#define TRIES	   128		/* places tried within reach of an object */
#define LOW_OBJECT (1ul << 31)	/* an object below this is a position-dependent executable */
#define LOW_PLACE  0x60000000ul /* stubs of such an executable: above the heap's usual growth */
#define LOWEST	   0x10000ul	/* Linux' mmap_min_addr */
#define CHUNK	   (1ul << 16)	/* text is rewritten this much at a time */
#define CODE_MAX   16
#define STUB_MAX   64ul
#define REGION_MAX (1ul << 30)

static uint64_t page_up(uint64_t value)
{
	return (value + PAGE - 1) & ~(PAGE - 1);
}

static int reaches(const struct calltap_msg_plan *plan, uint64_t at, uint64_t size)
{
	uint64_t lo = at < plan->near_lo ? at : plan->near_lo;
	uint64_t hi = at + size > plan->near_hi ? at + size : plan->near_hi;

	return hi - lo < ARCH_REACH;
}

/* Map `size` bytes at the first free place from `at` on downwards; NULL: no place reaches. */
static void *map_below(const struct calltap_msg_plan *plan, uint64_t at, uint64_t size)
{
	const uint64_t step = ARCH_REACH / TRIES & ~(PAGE - 1);

	for (; at >= LOWEST && at + step > at && reaches(plan, at, size); at -= step) {
		void *got = sys_mmap((void *)at, size, PROT_READ | PROT_WRITE,
				     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

		if (got == (void *)at)
			return got;
		if (!sys_failed((long)got))
			sys_munmap(got, size);
	}
	return NULL;
}

/*
 * Map below the object: above an executable lies the heap, which must be able to grow.  Without room there, map as far
 * above as the jumps reach.
 */
static void *map_near(const struct calltap_msg_plan *plan, uint64_t size)
{
	uint64_t below = (plan->near_lo - size - PAGE) & ~(PAGE - 1);
	uint64_t above = (plan->near_lo + ARCH_REACH - size - PAGE) & ~(PAGE - 1);
	void *got = NULL;

	if (plan->near_lo < LOW_OBJECT)
		got = map_below(plan, LOW_PLACE, size);
	if (!got && plan->near_lo > size + PAGE)
		got = map_below(plan, below, size);
	if (!got && size + PAGE < ARCH_REACH)
		got = map_below(plan, above, size);
	return got;
}

/* Bytes to map for stubs that end at offset `end`, and for their unwind tables. */
static uint64_t region_size(uint64_t end)
{
	return page_up(end + STUB_MAX + ARCH_UNWINDERS * ARCH_EH_FRAME_MAX);
}

void patch_region_unmap(const struct patch_region *region)
{
	sys_munmap((void *)region->lo, region_size(region->hi - region->lo));
}

static bool has_gates(const struct calltap_site *sites, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		if (sites[i].flags & CALLTAP_SITE_GATED)
			return true;
	return false;
}

int patch_region_build(struct patch_result *result, const struct calltap_msg_plan *plan,
		       const struct calltap_site *sites, int64_t tls_gate, uint64_t personality)
{
	uint64_t end = (ARCH_REGION_HEAD + plan->stub_bytes + 7) & ~7ul, size = region_size(end);
	uint8_t *region;
	long ret;

	if (plan->stub_bytes > REGION_MAX)
		return -EINVAL;
	result->region = (struct patch_region){plan->region, plan->region + end, has_gates(sites, plan->site_count)};
	if (plan->region)
		return 0;
	region = map_near(plan, size);
	if (!region)
		return -ENOMEM;
	memset(region, 0xcc, end);
	memcpy(region, arch_entry_table, sizeof(arch_entry_table[0]) * ARCH_ENTRIES);
	for (uint32_t i = 0; i < plan->site_count; i++)
		if (sites[i].stub_off < end) {
			arch_stub_build(region + sites[i].stub_off, (uint64_t)region + sites[i].stub_off,
					(uint64_t)region, &sites[i], tls_gate);
			patch_stub_finish(region + sites[i].stub_off);
		}
	for (unsigned i = 0; i < ARCH_UNWINDERS; i++)
		arch_eh_frame_build(region + end + i * ARCH_EH_FRAME_MAX, i, (uint64_t)region, (uint64_t)region + end,
				    result->region.gated, personality);
	arch_text_written((uint64_t)region, size);
	ret = SYS(mprotect, region, size, PROT_READ | PROT_EXEC, 0, 0, 0);
	if (sys_failed(ret)) {
		sys_munmap(region, size);
		return (int)ret;
	}
	result->region.lo = (uint64_t)region;
	result->region.hi = (uint64_t)region + end;
	return 0;
}

bool patch_site_reaches(const struct patch_region *region, const struct calltap_site *site)
{
	return site->address - region->lo - site->stub_off + ARCH_REACH < 2 * ARCH_REACH;
}

bool patch_site_is_same(const struct calltap_site *a, const struct calltap_site *b)
{
	return a->address == b->address && a->length == b->length && a->body_off == b->body_off &&
	       a->tramp_off == b->tramp_off && !memcmp(a->old, b->old, sizeof(a->old));
}

/* True if the site's jump is a short one to a long one near by. */
static bool has_trampoline(const struct calltap_site *site)
{
	return !(site->flags & CALLTAP_SITE_HEAD) && arch_site_is_short(site->length);
}

bool patch_head_has_room(const struct calltap_site *head)
{
	uint8_t bytes = head->tramp_off ? arch_island_lead_bytes(head->tramp_off) : ARCH_LEAD_BYTES;

	return bytes && head->length >= bytes;
}

static bool is_sane(const struct calltap_site *site)
{
	if (site->flags & CALLTAP_SITE_HEAD)
		return patch_head_has_room(site) && site->length <= PATCH_HEAD_MAX;
	if (site->length < ARCH_SITE_MIN || site->length > ARCH_SITE_MAX || site->address % ARCH_SITE_ALIGN)
		return false;
	return !arch_site_is_short(site->length) || site->tramp_off <= -PATCH_TRAMP_BYTES;
}

struct patch_piece patch_site_piece(const struct patch_region *region, const struct calltap_site *site)
{
	uint64_t tramp = site->address + (uint64_t)(int64_t)site->tramp_off;
	struct patch_piece piece = {
		.address = site->address,
		.target = has_trampoline(site) ? tramp : region->lo + site->stub_off,
		.old = site->old,
		.length = site->length,
	};

	if (site->flags & CALLTAP_SITE_HEAD && site->tramp_off) {
		piece.island = tramp;
		piece.target = region->lo + CALLTAP_BLOCKS_HEAD;
	}
	return piece;
}

struct patch_piece patch_tramp_piece(const struct patch_region *region, const struct calltap_site *site)
{
	return (struct patch_piece){
		.address = site->address + (uint64_t)(int64_t)site->tramp_off,
		.target = region->lo + site->stub_off,
		.old = site->old + site->length,
		.length = PATCH_TRAMP_BYTES,
	};
}

void patch_head_make(uint8_t *code, const struct patch_piece *piece)
{
	memcpy(code, piece->old, piece->length);
	if (piece->island)
		arch_lead_to_island(code, piece->address, piece->island, piece->target);
	else
		arch_lead_make(code, piece->address, piece->length, piece->target);
}

static bool bytes_match(const struct patch_piece *piece)
{
	return !memcmp((const void *)piece->address, piece->old, piece->length);
}

/* True for a head that leads to the island in another one. */
static bool needs_island(const struct calltap_site *site)
{
	return site->flags & CALLTAP_SITE_HEAD && site->tramp_off &&
	       (site->tramp_off < 0 || site->tramp_off >= site->length);
}

/* True unless the site needs an island that is not there: its host was left alone. */
static bool has_what_it_needs(const struct calltap_site *site, const struct patch_piece *piece)
{
	uint8_t code[CODE_MAX];

	if (!needs_island(site))
		return true;
	return piece->island &&
	       !memcmp((const void *)piece->island, code, arch_island_make(code, piece->island, piece->target));
}

/* Text is copied, changed and written back a chunk at a time: sites lie close together. */
struct window {
	uint64_t at;
	size_t size;
	uint32_t sites; /* sites within the window */
	uint8_t *bytes; /* the new text, in CHUNK + CODE_MAX bytes */
	uint8_t *old;	/* the text that it replaces, in CHUNK + CODE_MAX bytes */
	uint64_t end;	/* of the last site: sites come in the order of their addresses and share no byte */
	bool has_run;	/* an emulator may have translated the text */
};

static int poke(const struct window *window, struct patch_poker *poker, const uint8_t *bytes)
{
	return window->has_run ? patch_poke(poker, window->at, bytes, window->size)
			       : patch_poke_fresh(poker, window->at, bytes, window->size);
}

/* Write all of the window or nothing: a site that is half a jump would be the program's end. */
static int window_flush(struct window *window, struct patch_poker *poker, struct patch_result *result)
{
	int ret = window->size ? poke(window, poker, window->bytes) : 0;

	if (!ret)
		result->patched += window->sites;
	else if (poke(window, poker, window->old))
		ret = -EIO; /* the old text could not be put back; what was not written needs no putting back */
	window->size = 0;
	window->sites = 0;
	return ret;
}

static int window_write(struct window *window, struct patch_poker *poker, struct patch_result *result, uint64_t address,
			const uint8_t *code, size_t size)
{
	uint64_t end = window->at + window->size;
	int ret;

	if (!window->size || address < window->at || address + size > window->at + CHUNK || address >= end + PAGE) {
		ret = window_flush(window, poker, result);
		if (ret)
			return ret;
		window->at = address;
		end = address;
	}
	if (address + size > end) {
		memcpy(window->bytes + (end - window->at), (const void *)end, address + size - end);
		memcpy(window->old + (end - window->at), (const void *)end, address + size - end);
		window->size = address + size - window->at;
	}
	memcpy(window->bytes + (address - window->at), code, size);
	return 0;
}

static bool is_skipped(const struct patch_skips *skips, const struct patch_piece pieces[2], unsigned first)
{
	for (uint32_t i = 0; skips && i < skips->count; i++)
		if (skips->addresses[i] == pieces[1].address || skips->addresses[i] == pieces[first].address)
			return true;
	return false;
}

static void make_off(uint8_t *code, const struct patch_piece *piece)
{
	struct arch_write off = arch_site_switch(piece->address, piece->length, piece->target, false);

	memcpy(code + off.offset, off.bytes, off.size);
}

static int apply_one(struct patch_result *result, struct window *window, struct patch_poker *poker,
		     const struct calltap_site *site, const struct patch_skips *skips)
{
	struct patch_piece pieces[] = {patch_tramp_piece(&result->region, site),
				       patch_site_piece(&result->region, site)};
	unsigned first = has_trampoline(site) ? 0 : 1;
	uint8_t code[CODE_MAX];
	int ret = 0;

	if (is_skipped(skips, pieces, first)) {
		result->failed++;
		result->skipped++;
		return 0;
	}
	if (!is_sane(site) || !patch_site_reaches(&result->region, site) || pieces[first].address < window->end ||
	    !bytes_match(&pieces[1]) || !bytes_match(&pieces[first]) || !has_what_it_needs(site, &pieces[1]) ||
	    (!(site->flags & CALLTAP_SITE_HEAD) && patch_stub_reset(poker, result->region.lo + site->stub_off))) {
		if (result->failed++ == result->skipped)
			result->first_failed_id = site->id;
		return 0;
	}
	/* The trampoline first: nothing leads there yet. */
	for (unsigned i = first; i < 2 && !ret; i++) {
		if (site->flags & CALLTAP_SITE_HEAD)
			patch_head_make(code, &pieces[i]);
		else
			arch_site_make(code, pieces[i].address, pieces[i].length, pieces[i].target);
		if (i == 1 && site->flags & CALLTAP_SITE_OFF)
			make_off(code, &pieces[1]);
		ret = window_write(window, poker, result, pieces[i].address, code, pieces[i].length);
	}
	window->sites += !ret;
	window->end = site->address + site->length;
	return ret;
}

int patch_sites_apply(struct patch_result *result, struct patch_poker *poker, const struct calltap_site *sites,
		      uint32_t count, const struct patch_skips *skips)
{
	size_t room = page_up(CHUNK + CODE_MAX);
	struct window window = {.has_run = count && sites[0].flags & CALLTAP_SITE_HEAD};
	uint32_t waiting = 0;
	int ret = 0, last;

	window.bytes = sys_mmap(NULL, 2 * room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (sys_failed((long)window.bytes))
		return -ENOMEM;
	window.old = window.bytes + room;
	for (uint32_t i = 0; i < count && !ret; i++) {
		if (needs_island(&sites[i]))
			waiting++;
		else
			ret = apply_one(result, &window, poker, &sites[i], skips);
	}
	/* Islands are in the text before anything leads to them. */
	if (!ret && waiting)
		ret = window_flush(&window, poker, result);
	window.end = 0;
	for (uint32_t i = 0; i < count && waiting && !ret; i++)
		if (needs_island(&sites[i]))
			ret = apply_one(result, &window, poker, &sites[i], skips);
	last = ret ? 0 : window_flush(&window, poker, result);
	sys_munmap(window.bytes, 2 * room);
	patch_sync();
	return ret ? ret : last;
}
