/*
 * Plans in the target: map the tool's list, build stubs, write the sites. sites.c switches and restores those later.
 *
 * Called by the control thread.  Context: control.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>

#include <agent/agent.h>
#include <base/sys.h>
#include <probe/unwound.h>

#define PAGE 4096ul

/* The gate that stubs test: its distance from the thread pointer, which is equal in every thread. */
static int64_t tls_gate_offset(void)
{
	const struct probe_thread *thread;
	const uint64_t *gate;

	/* The thread pointer that the control thread has may be that of a thread that has ended. */
	if (!ARCH_GATES_IN_STUBS)
		return 0;
	thread = probe_self();
	gate = probe_context.tree_filter ? &thread->tree_gate : &thread->gate;
	return (int64_t)((uint64_t)gate - (uint64_t)__builtin_thread_pointer());
}

static void region_add(const struct patch_region *region)
{
	uint32_t n = probe_context.region_count;

	for (uint32_t i = 0; i < n; i++)
		if (probe_context.regions[i].lo == region->lo)
			return;
	probe_context.regions[n].lo = region->lo;
	probe_context.regions[n].hi = region->hi;
	__atomic_store_n(&probe_context.region_count, n + 1, __ATOMIC_RELEASE); /* pairs with probe_region_of */
	agent_debugger_tell(region);
}

/* Keep the list: switching a site needs all that is in it.  False: the plan's list is known already. */
static bool sites_keep(const struct calltap_msg_plan *plan, const struct patch_region *region,
		       const struct calltap_site *sites)
{
	/* An object that is back at its old place has its old region, and equal sites. */
	struct agent_sites *kept = agent_sites_of(region->lo);
	const struct agent_sites before =
		kept ? *kept : (struct agent_sites){.list = sites, .second = plan->live == CALLTAP_PLAN_STUBS};

	if (!kept)
		kept = &agent.sites[agent.sites_count++];
	*kept = (struct agent_sites){
		.plan_id = plan->plan_id,
		.region = *region,
		.list = before.list,
		.count = plan->site_count,
		.waits = plan->live == CALLTAP_PLAN_STOPPED,
		.second = before.second,
		.near_lo = plan->near_lo,
		.near_hi = plan->near_hi,
		.identity = plan->identity,
		.block_first = plan->site_count - plan->block_sites,
		.blocks = {plan->blocks, plan->blocks + plan->blocks_size, false},
	};
	if (before.pages.room)
		sys_munmap(before.pages.list, before.pages.room);
	/* The text is noted as it is now, not when threads are stopped: that must not take long. */
	if (!kept->second)
		patch_pages_note(&kept->pages, &agent.poker, sites, kept->block_first,
				 plan->live == CALLTAP_PLAN_FRESH);
	return before.list == sites;
}

/* Write the sites in blocks, which lead nobody anywhere until heads lead to them. */
static int write_in_blocks(const struct agent_sites *kept)
{
	struct patch_result blocks = {.region = kept->region};
	uint32_t count = kept->count - kept->block_first;

	return count ? patch_sites_apply(&blocks, &agent.poker, kept->list + kept->block_first, count, NULL) : 0;
}

/* Write the program's text: its sites, and the heads that lead to blocks.  A function in a block counts by its head. */
static int write_text(struct patch_result *result, const struct agent_sites *kept, const struct patch_skips *skips)
{
	struct patch_result heads = {0};
	int ret = patch_sites_apply(result, &agent.poker, kept->list, kept->block_first, skips);

	if (ret || kept->count == kept->block_first)
		return ret;
	ret = agent_heads_lead(&heads, kept->blocks.lo, skips);
	result->patched += heads.patched;
	if (heads.failed > heads.skipped && result->failed == result->skipped)
		result->first_failed_id = heads.first_failed_id;
	result->failed += heads.failed;
	result->skipped += heads.skipped;
	return ret;
}

/* *kept: the list belongs to agent.sites now. */
static int apply(const struct calltap_msg_plan *plan, const struct calltap_site *sites, struct patch_result *result,
		 bool *kept)
{
	int ret;

	if (!plan->region && (probe_context.region_count >= PROBE_REGIONS || agent.sites_count >= PROBE_REGIONS))
		return -ENOSPC;
	agent_handlers_note(&(struct agent_sites){.list = sites,
						  .count = plan->site_count,
						  .block_first = plan->site_count - plan->block_sites,
						  .blocks.lo = plan->blocks});
	ret = patch_region_build(result, plan, sites, tls_gate_offset(), (uint64_t)probe_frame_unwound);
	if (ret)
		return ret;
	region_add(&result->region);
	*kept = sites_keep(plan, &result->region, sites);
	if (plan->live == CALLTAP_PLAN_STUBS)
		return 0;
	/* Sites in blocks lie in the agent's own memory: writing them need not wait until all threads are stopped. */
	if (plan->live == CALLTAP_PLAN_FRESH || agent.poker.mem_fd >= 0)
		ret = write_in_blocks(agent_sites_of(result->region.lo));
	if (ret || plan->live != CALLTAP_PLAN_FRESH)
		return ret;
	agent_plan_writes(result->region.lo);
	return write_text(result, agent_sites_of(result->region.lo), NULL);
}

/* How far an object was looked at. */
struct looked {
	uint64_t lo, hi; /* the pages that were last found readable */
	bool gone;	 /* a page was not readable */
};

/* Several pages are asked for at once: it is done while all threads are stopped, and objects have thousands. */
static bool is_readable(const struct calltap_msg_plan *plan, uint64_t page, struct looked *looked)
{
	if (page - looked->lo < looked->hi - looked->lo)
		return true;
	looked->lo = page;
	looked->hi = page + PAGE * agent_readable_pages(page, (plan->near_hi - page) / PAGE + 1);
	return looked->hi != page;
}

/* True if this is code of the plan's object, and all of it is there. */
static bool is_code(const struct calltap_msg_plan *plan, uint64_t address, uint32_t size, struct looked *looked)
{
	if (address < plan->near_lo || address > plan->near_hi - size || address >> ARCH_ADDRESS_BITS)
		return false;
	/* A site or a stub lies in two pages at the most. */
	for (unsigned i = 0; i < 2; i++) {
		uint64_t page = (i ? address + size - 1 : address) & ~(PAGE - 1);

		looked->gone = !is_readable(plan, page, looked);
		if (looked->gone)
			return false;
	}
	return true;
}

static bool stub_is_sane(const struct calltap_msg_plan *plan, const struct calltap_site *site)
{
	return site->stub_off >= ARCH_REGION_HEAD + ARCH_VENEER_BYTES &&
	       site->stub_off < ARCH_REGION_HEAD + plan->stub_bytes;
}

/* True if the site lies in the blocks, which the agent itself maps. */
static bool is_in_blocks(const struct calltap_msg_plan *plan, const struct calltap_site *site)
{
	return plan->blocks && site->address >= plan->blocks + CALLTAP_BLOCKS_HEAD &&
	       site->address <= plan->blocks + plan->blocks_size - site->length;
}

/* place: of the site in the plan's list. */
static bool site_is_sane(const struct calltap_msg_plan *plan, const struct calltap_site *site, uint32_t place,
			 struct looked *looked)
{
	uint64_t tramp = site->address + (uint64_t)(int64_t)site->tramp_off;
	bool is_short = arch_site_is_short(site->length);

	if (site->length < ARCH_SITE_MIN || site->length > ARCH_SITE_MAX || site->body_off < site->length ||
	    !stub_is_sane(plan, site) || !agent_times_may(site))
		return false;
	if (place >= plan->site_count - plan->block_sites)
		return !is_short && is_in_blocks(plan, site);
	return is_code(plan, site->address, site->length, looked) &&
	       (!is_short || is_code(plan, tramp, PATCH_TRAMP_BYTES, looked));
}

/* A head lies in the object, and its block where the site is that it stands for. */
static bool head_is_sane(const struct calltap_msg_plan *plan, const struct calltap_site *head,
			 const struct calltap_site *site, struct looked *looked)
{
	uint64_t island = head->address + (uint64_t)(int64_t)head->tramp_off;

	return head->flags == CALLTAP_SITE_HEAD && head->id == site->id && patch_head_has_room(head) &&
	       (!head->tramp_off || is_code(plan, island, ARCH_ISLAND_MAX, looked)) && head->length <= PATCH_HEAD_MAX &&
	       plan->blocks + head->stub_off == site->address && is_code(plan, head->address, head->length, looked);
}

static bool blocks_are_sane(const struct calltap_msg_plan *plan)
{
	if (!plan->block_sites)
		return !plan->blocks;
	return plan->block_sites <= plan->site_count && plan->blocks && !(plan->blocks % PAGE) &&
	       !(plan->blocks >> ARCH_ADDRESS_BITS) && plan->blocks_size > CALLTAP_BLOCKS_HEAD + ARCH_SITE_MAX &&
	       plan->header_off <= plan->blocks_size && plan->header_size <= plan->blocks_size - plan->header_off;
}

static bool are_sites_sane(const struct calltap_msg_plan *plan, const struct calltap_site *sites,
			   const struct calltap_site *heads, bool *gone)
{
	uint32_t first = plan->site_count - plan->block_sites;
	struct looked looked = {0};
	bool sane = true;

	for (uint32_t i = 0; sane && i < plan->site_count; i++) {
		sane = site_is_sane(plan, &sites[i], i, &looked);
		if (sane && heads && i >= first)
			sane = head_is_sane(plan, &heads[i - first], &sites[i], &looked);
	}
	*gone = looked.gone;
	return sane;
}

/*
 * The tool is trusted to know what a site is, not to be in its right mind: a plan that would have the agent look at or
 * jump to what is not there is refused.
 */
static bool plan_is_sane(const struct calltap_msg_plan *plan, const struct calltap_site *sites,
			 const struct calltap_site *heads, bool *gone)
{
	const struct probe_region *known = plan->region ? probe_region_of(plan->region) : NULL;

	*gone = false;
	if (plan->live > CALLTAP_PLAN_STUBS || plan->near_hi <= plan->near_lo ||
	    plan->near_hi - plan->near_lo < ARCH_SITE_MAX || !blocks_are_sane(plan))
		return false;
	if (plan->region &&
	    (!known || known->lo != plan->region || plan->region + ARCH_REGION_HEAD + plan->stub_bytes > known->hi))
		return false;
	return are_sites_sane(plan, sites, heads, gone);
}

void agent_plan_refuse(const struct calltap_msg_plan *plan, int error, struct calltap_msg_plan_done *done)
{
	*done = (struct calltap_msg_plan_done){
		.head = {CALLTAP_MSG_PLAN_DONE, sizeof(*done)},
		.plan_id = plan->plan_id,
		.error = error,
	};
}

/* A plan's memory: its sites, and from the next page on what is about blocks. */
struct plan_memory {
	const struct calltap_site *sites;
	size_t sites_room; /* whole pages */
	const uint8_t *rest;
	size_t rest_size;
};

static int map_plan(struct plan_memory *memory, const struct calltap_msg_plan *plan, int fd)
{
	size_t size = plan->site_count * sizeof(struct calltap_site);
	void *at;

	*memory = (struct plan_memory){
		.sites_room = (size + PAGE - 1) & ~(PAGE - 1),
		.rest_size = plan->live == CALLTAP_PLAN_STUBS ? 0 : agent_heads_room(plan),
	};
	at = agent_map(fd, memory->rest_size ? memory->sites_room + memory->rest_size : size, PROT_READ,
		       MAP_PRIVATE | MAP_POPULATE, F_SEAL_SHRINK | F_SEAL_WRITE);
	if (sys_failed((long)at))
		return (int)(long)at;
	memory->sites = at;
	memory->rest = memory->rest_size ? (const uint8_t *)at + memory->sites_room : NULL;
	return 0;
}

void agent_plan_apply(const struct calltap_msg_plan *plan, int fd, struct calltap_msg_plan_done *done)
{
	struct patch_result result = {0};
	uint64_t start = arch_clock();
	struct plan_memory memory;
	bool kept = false, gone;
	int ret = map_plan(&memory, plan, fd);

	agent_plan_refuse(plan, ret ? ret : -EINVAL, done);
	if (!memory.sites)
		return;
	agent_plan_begin(plan);
	if (plan_is_sane(plan, memory.sites, (const struct calltap_site *)memory.rest, &gone)) {
		done->error = plan->block_sites ? agent_heads_take(plan, memory.rest, memory.rest_size) : 0;
		if (!done->error)
			done->error = apply(plan, memory.sites, &result, &kept);
	} else {
		if (plan->live != CALLTAP_PLAN_FRESH && gone)
			done->error = -ESTALE; /* the program runs, and has unloaded the object */
		if (memory.rest)
			sys_munmap((void *)memory.rest, memory.rest_size);
	}
	if (!kept)
		sys_munmap((void *)memory.sites, memory.sites_room);
	agent_plan_end();
	done->region = result.region.lo;
	done->patched = result.patched;
	done->failed = result.failed;
	done->first_failed_id = result.first_failed_id;
	done->elapsed_ticks = arch_clock() - start;
}

int agent_plan_write(struct agent_sites *kept, const struct patch_skips *skips, struct patch_result *result)
{
	const struct calltap_msg_plan plan = {
		.near_lo = kept->near_lo,
		.near_hi = kept->near_hi,
		.stub_bytes = kept->region.hi - kept->region.lo - ARCH_REGION_HEAD,
		.site_count = kept->count,
		.blocks = kept->blocks.lo,
		.blocks_size = (uint32_t)(kept->blocks.hi - kept->blocks.lo),
		.block_sites = kept->count - kept->block_first,
	};
	bool gone;

	*result = (struct patch_result){.region = kept->region};
	/* The object may have gone since the plan came: a look at unmapped memory would be the program's end. */
	if (!are_sites_sane(&plan, kept->list, agent_heads_of(kept->blocks.lo), &gone)) {
		result->failed = kept->count;
		result->first_failed_id = kept->list[0].id;
		return 0;
	}
	return write_text(result, kept, skips);
}
