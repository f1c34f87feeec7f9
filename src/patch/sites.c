/*
 * Stub regions and the sites that jump into them (sites.h).
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
#define STEP	   (1ul << 24)	/* how far apart places are tried */
#define LOW_OBJECT (1ul << 31)	/* below: a position-dependent executable */
#define LOW_PLACE  0x60000000ul /* its stubs: above the heap's usual growth, within reach */
#define CHUNK	   (1ul << 16)	/* text is rewritten this much at a time */
#define CODE_MAX   8
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

/* Below the object: above an executable lies the heap, which must be able to grow. */
static void *map_near(const struct calltap_msg_plan *plan, uint64_t size)
{
	uint64_t at = (plan->near_lo - size - PAGE) & ~(PAGE - 1);

	if (plan->near_lo < LOW_OBJECT)
		at = LOW_PLACE;
	for (; at > STEP && reaches(plan, at, size); at -= STEP) {
		void *got = sys_mmap((void *)at, size, PROT_READ | PROT_WRITE,
				     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

		if (got == (void *)at)
			return got;
		if (!sys_failed((long)got))
			sys_munmap(got, size);
	}
	return NULL;
}

int patch_region_build(struct patch_result *result, const struct calltap_msg_plan *plan,
		       const struct calltap_site *sites, int64_t tls_gate)
{
	uint64_t end = ARCH_REGION_HEAD + plan->stub_bytes;
	uint64_t size = page_up(end + STUB_MAX + ARCH_EH_FRAME_MAX);
	uint8_t *region;
	long ret;

	if (plan->stub_bytes > REGION_MAX)
		return -EINVAL;
	end = (end + 7) & ~7ul;
	result->region = plan->region;
	result->region_end = plan->region + end;
	if (plan->region)
		return 0;
	region = map_near(plan, size);
	if (!region)
		return -ENOMEM;
	memset(region, 0xcc, ARCH_REGION_HEAD);
	memcpy(region, arch_entry_table, sizeof(arch_entry_table[0]) * ARCH_ENTRIES);
	for (uint32_t i = 0; i < plan->site_count; i++)
		if (sites[i].stub_off < end)
			arch_stub_build(region + sites[i].stub_off, (uint64_t)region + sites[i].stub_off,
					(uint64_t)region, &sites[i], tls_gate);
	arch_eh_frame_build(region + end, (uint64_t)region, (uint64_t)region + end);
	ret = SYS(mprotect, region, size, PROT_READ | PROT_EXEC, 0, 0, 0);
	if (sys_failed(ret)) {
		sys_munmap(region, size);
		return (int)ret;
	}
	result->region = (uint64_t)region;
	result->region_end = (uint64_t)region + end;
	return 0;
}

/* The bytes that go to a site and, for length 2, to its trampoline; 0 or -ERANGE. */
static int site_code(const struct patch_result *result, const struct calltap_site *site, uint8_t code[5],
		     uint8_t tramp[5])
{
	uint64_t stub = result->region + site->stub_off;
	uint64_t jump = site->length == 2 ? site->address + (uint64_t)(int64_t)site->tramp_off : site->address;

	if (jump - stub + ARCH_REACH >= 2 * ARCH_REACH)
		return -ERANGE;
	arch_jump_make(site->length == 2 ? tramp : code, jump, stub);
	if (site->length == 2) {
		code[0] = 0xeb;
		code[1] = (uint8_t)(site->tramp_off - 2);
	}
	return 0;
}

static int bytes_match(const struct calltap_site *site)
{
	const uint8_t *at = (const uint8_t *)site->address;

	return !memcmp(at, site->old, site->length) &&
	       (site->length != 2 || !memcmp(at + site->tramp_off, site->tramp_old, 5));
}

/* Text is copied, changed and written back a chunk at a time: sites lie close together. */
struct window {
	uint64_t at;
	size_t size;
	uint8_t *bytes; /* CHUNK + CODE_MAX */
};

static int window_flush(struct window *window, struct patch_poker *poker)
{
	size_t size = window->size;

	window->size = 0;
	return size ? patch_poke_fresh(poker, window->at, window->bytes, size) : 0;
}

static int window_write(struct window *window, struct patch_poker *poker, uint64_t address, const uint8_t *code,
			size_t size)
{
	uint64_t end = window->at + window->size;
	int ret;

	if (!window->size || address < window->at || address + size > window->at + CHUNK || address >= end + PAGE) {
		ret = window_flush(window, poker);
		if (ret)
			return ret;
		window->at = address;
		end = address;
	}
	if (address + size > end) {
		memcpy(window->bytes + (end - window->at), (const void *)end, address + size - end);
		window->size = address + size - window->at;
	}
	memcpy(window->bytes + (address - window->at), code, size);
	return 0;
}

static int apply_one(struct patch_result *result, struct window *window, struct patch_poker *poker,
		     const struct calltap_site *site)
{
	uint8_t code[CODE_MAX], tramp[CODE_MAX];
	int ret;

	if ((site->length != 5 && site->length != 2) || !bytes_match(site) || site_code(result, site, code, tramp)) {
		if (!result->failed++)
			result->first_failed_id = site->id;
		return 0;
	}
	if (site->length == 2) {
		ret = window_write(window, poker, site->address + (uint64_t)(int64_t)site->tramp_off, tramp, 5);
		if (ret)
			return ret;
	}
	ret = window_write(window, poker, site->address, code, site->length);
	if (!ret)
		result->patched++;
	return ret;
}

int patch_sites_apply(struct patch_result *result, struct patch_poker *poker, const struct calltap_site *sites,
		      uint32_t count)
{
	size_t buffer_size = page_up(CHUNK + CODE_MAX);
	struct window window = {0};
	int ret = 0, last;

	window.bytes = sys_mmap(NULL, buffer_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (sys_failed((long)window.bytes))
		return -ENOMEM;
	for (uint32_t i = 0; i < count && !ret; i++)
		ret = apply_one(result, &window, poker, &sites[i]);
	last = window_flush(&window, poker);
	sys_munmap(window.bytes, buffer_size);
	patch_sync();
	return ret ? ret : last;
}

/* Where the jump at address leads; 0 when there is none, or nothing to read. */
static uint64_t jump_target(const struct patch_poker *poker, uint64_t address)
{
	uint8_t code[5] = {0};
	int32_t distance = 0;

	if (SYS(pread64, poker->mem_fd, code, sizeof(code), address, 0, 0) != sizeof(code) || code[0] != 0xe9)
		return 0;
	memcpy(&distance, code + 1, sizeof(distance));
	return address + sizeof(code) + (uint64_t)(int64_t)distance;
}

int patch_site_off(struct patch_poker *poker, uint64_t address, uint8_t length, uint64_t lo, uint64_t hi)
{
	struct arch_toggle toggle;
	uint8_t now[2] = {0};
	uint64_t stub;
	long got;

	/* Read as written: the object may have been unmapped, or its text changed by others. */
	got = SYS(pread64, poker->mem_fd, now, sizeof(now), address, 0, 0);
	if (got != sizeof(now))
		return sys_failed(got) ? (int)got : -EIO;
	if (arch_site_toggle(&toggle, address, length, now))
		return -EINVAL;
	stub = jump_target(poker, length == 2 ? address + 2 + (uint64_t)(int64_t)(int8_t)now[1] : address);
	if (stub < lo || stub >= hi)
		return -EINVAL;
	return patch_poke(poker, toggle.address, &toggle.off, 1);
}
