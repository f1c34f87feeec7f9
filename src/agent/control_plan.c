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
	const struct probe_thread *thread = probe_self();
	const uint64_t *gate = probe_context.tree_filter ? &thread->tree_gate : &thread->gate;

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

static struct agent_sites *sites_of(uint64_t region)
{
	for (uint32_t i = 0; i < agent.sites_count; i++)
		if (agent.sites[i].region.lo == region)
			return &agent.sites[i];
	return NULL;
}

/* Keep the list: switching a site needs all that is in it.  False: the plan's list is known already. */
static bool sites_keep(const struct calltap_msg_plan *plan, const struct patch_region *region,
		       const struct calltap_site *sites)
{
	/* An object that is back at its old place has its old region, and equal sites. */
	struct agent_sites *kept = sites_of(region->lo);
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
	};
	if (before.pages.room)
		sys_munmap(before.pages.list, before.pages.room);
	/* The text is noted as it is now, not when threads are stopped: that must not take long. */
	if (!kept->second)
		patch_pages_note(&kept->pages, &agent.poker, sites, plan->site_count, plan->live == CALLTAP_PLAN_FRESH);
	return before.list == sites;
}

/* *kept: the list belongs to agent.sites now. */
static int apply(const struct calltap_msg_plan *plan, const struct calltap_site *sites, struct patch_result *result,
		 bool *kept)
{
	int ret;

	if (!plan->region && (probe_context.region_count >= PROBE_REGIONS || agent.sites_count >= PROBE_REGIONS))
		return -ENOSPC;
	agent_handlers_note(sites, plan->site_count);
	ret = patch_region_build(result, plan, sites, tls_gate_offset(), (uint64_t)probe_frame_unwound);
	if (ret)
		return ret;
	region_add(&result->region);
	*kept = sites_keep(plan, &result->region, sites);
	if (plan->live != CALLTAP_PLAN_FRESH)
		return 0;
	return patch_sites_apply(result, &agent.poker, sites, plan->site_count, NULL);
}

/* How far an object was looked at. */
struct looked {
	uint64_t seen; /* the page that was last found readable */
	bool gone;     /* a page was not readable */
};

/* True if this is code of the plan's object, and all of it is there. */
static bool is_code(const struct calltap_msg_plan *plan, uint64_t address, uint32_t size, struct looked *looked)
{
	if (address < plan->near_lo || address > plan->near_hi - size || address >> ARCH_ADDRESS_BITS)
		return false;
	/* A site or a stub lies in two pages at the most. */
	for (unsigned i = 0; i < 2; i++) {
		uint64_t page = (i ? address + size - 1 : address) & ~(PAGE - 1);

		looked->gone = page != looked->seen && !agent_can_read(page);
		if (looked->gone)
			return false;
		looked->seen = page;
	}
	return true;
}

static bool site_is_sane(const struct calltap_msg_plan *plan, const struct calltap_site *site, struct looked *looked)
{
	uint64_t tramp = site->address + (uint64_t)(int64_t)site->tramp_off;

	if (site->length < ARCH_SITE_MIN || site->length > ARCH_SITE_MAX || site->body_off < site->length)
		return false;
	if (site->stub_off < ARCH_REGION_HEAD + ARCH_VENEER_BYTES ||
	    site->stub_off >= ARCH_REGION_HEAD + plan->stub_bytes)
		return false;
	return is_code(plan, site->address, site->length, looked) &&
	       (!arch_site_is_short(site->length) || is_code(plan, tramp, PATCH_TRAMP_BYTES, looked));
}

/*
 * The tool is trusted to know what a site is, not to be in its right mind: a plan that would have the agent look at or
 * jump to what is not there is refused.
 */
static bool plan_is_sane(const struct calltap_msg_plan *plan, const struct calltap_site *sites, bool *gone)
{
	const struct probe_region *known = plan->region ? probe_region_of(plan->region) : NULL;
	struct looked looked = {0};

	*gone = false;
	if (plan->live > CALLTAP_PLAN_STUBS || plan->near_hi <= plan->near_lo ||
	    plan->near_hi - plan->near_lo < ARCH_SITE_MAX)
		return false;
	if (plan->region &&
	    (!known || known->lo != plan->region || plan->region + ARCH_REGION_HEAD + plan->stub_bytes > known->hi))
		return false;
	for (uint32_t i = 0; i < plan->site_count; i++)
		if (!site_is_sane(plan, &sites[i], &looked)) {
			*gone = looked.gone;
			return false;
		}
	return true;
}

void agent_plan_refuse(const struct calltap_msg_plan *plan, int error, struct calltap_msg_plan_done *done)
{
	*done = (struct calltap_msg_plan_done){
		.head = {CALLTAP_MSG_PLAN_DONE, sizeof(*done)},
		.plan_id = plan->plan_id,
		.error = error,
	};
}

void agent_plan_apply(const struct calltap_msg_plan *plan, int fd, struct calltap_msg_plan_done *done)
{
	size_t size = plan->site_count * sizeof(struct calltap_site);
	struct patch_result result = {0};
	uint64_t start = arch_clock();
	bool kept = false, gone;
	void *sites;

	sites = agent_map(fd, size, PROT_READ, MAP_PRIVATE | MAP_POPULATE, F_SEAL_SHRINK | F_SEAL_WRITE);
	agent_plan_refuse(plan, sys_failed((long)sites) ? (int)(long)sites : -EINVAL, done);
	if (sys_failed((long)sites))
		return;
	if (plan_is_sane(plan, sites, &gone))
		done->error = apply(plan, sites, &result, &kept);
	else if (plan->live != CALLTAP_PLAN_FRESH && gone)
		done->error = -ESTALE; /* the program runs, and has unloaded the object */
	if (!kept)
		sys_munmap(sites, size);
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
	};
	struct looked looked = {0};

	*result = (struct patch_result){.region = kept->region};
	/* The object may have gone since the plan came: a look at unmapped memory would be the program's end. */
	for (uint32_t i = 0; i < kept->count; i++)
		if (!site_is_sane(&plan, &kept->list[i], &looked)) {
			result->failed = kept->count;
			result->first_failed_id = kept->list[0].id;
			return 0;
		}
	return patch_sites_apply(result, &agent.poker, kept->list, kept->count, skips);
}
