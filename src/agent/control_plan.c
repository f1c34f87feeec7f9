/*
 * Plans in the target: map the tool's list, build stubs, switch sites on and
 * off, give the text its own bytes back at the end.
 * Called by the control thread.  Context: control.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/uio.h>

#include <agent/agent.h>
#include <base/sys.h>
#include <probe/unwound.h>

#define PAGE	     4096ul
#define WAIT_STEP_NS 100000000u

static int64_t tls_gate_offset(void)
{
	uint64_t thread_pointer;

	/* The offset is the same in every thread: initial-exec. */
	thread_pointer = (uint64_t)__builtin_thread_pointer();
	return (int64_t)((uint64_t)&probe_thread.gate - thread_pointer);
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
	agent_debugger_tell(region->lo, region->hi);
}

/* Keeps the list: switching a site needs all that is in it.  False: it is known already. */
static bool sites_keep(const struct calltap_msg_plan *plan, const struct patch_region *region,
		       const struct calltap_site *sites)
{
	/* An object that is back at its old place has its old region, and the same sites. */
	for (uint32_t i = 0; i < agent.sites_count; i++)
		if (agent.sites[i].region.lo == region->lo)
			return false;
	agent.sites[agent.sites_count++] = (struct agent_sites){
		.plan_id = plan->plan_id,
		.region = *region,
		.list = sites,
		.count = plan->site_count,
	};
	patch_pages_note(&agent.sites[agent.sites_count - 1].pages, sites, plan->site_count);
	return true;
}

/* *kept: the list belongs to agent.sites now. */
static int apply(const struct calltap_msg_plan *plan, const struct calltap_site *sites, struct patch_result *result,
		 bool *kept)
{
	int ret;

	if (!plan->region && (probe_context.region_count >= PROBE_REGIONS || agent.sites_count >= PROBE_REGIONS))
		return -ENOSPC;
	ret = patch_region_build(result, plan, sites, tls_gate_offset(), (uint64_t)probe_frame_unwound);
	if (ret)
		return ret;
	region_add(&result->region);
	*kept = sites_keep(plan, &result->region, sites);
	return patch_sites_apply(result, &agent.poker, sites, plan->site_count);
}

/* Can this address be read?  Asked of the kernel: a look would be a fault. */
static bool can_read(uint64_t address)
{
	char byte;
	struct iovec here = {&byte, 1}, there = {(void *)address, 1};
	long ret = SYS(process_vm_readv, sys_getpid(), &here, 1, &there, 1, 0);

	if (ret == -ENOSYS && agent.poker.mem_fd >= 0) /* an emulator's */
		return SYS(pread64, agent.poker.mem_fd, &byte, 1, address, 0, 0) == 1;
	return ret != -EFAULT;
}

/* Is this code of the plan's object, all of which is there?  *seen is the page that was found readable last. */
static bool is_code(const struct calltap_msg_plan *plan, uint64_t address, uint32_t size, uint64_t *seen)
{
	if (address < plan->near_lo || address > plan->near_hi - size || address >> ARCH_ADDRESS_BITS)
		return false;
	/* Code is two pages at the most. */
	for (unsigned i = 0; i < 2; i++) {
		uint64_t page = (i ? address + size - 1 : address) & ~(PAGE - 1);

		if (page != *seen && !can_read(page))
			return false;
		*seen = page;
	}
	return true;
}

static bool site_is_sane(const struct calltap_msg_plan *plan, const struct calltap_site *site, uint64_t *seen)
{
	uint64_t tramp = site->address + (uint64_t)(int64_t)site->tramp_off;

	if (site->length < ARCH_SITE_MIN || site->length > ARCH_SITE_MAX || site->body_off < site->length)
		return false;
	if (site->stub_off < ARCH_REGION_HEAD || site->stub_off >= ARCH_REGION_HEAD + plan->stub_bytes)
		return false;
	return is_code(plan, site->address, site->length, seen) &&
	       (!arch_site_is_short(site->length) || is_code(plan, tramp, PATCH_TRAMP_BYTES, seen));
}

/*
 * The tool is trusted to know what a site is, not to be in its right mind: a
 * plan that would have us look at or jump to what is not there is refused.
 */
static bool plan_is_sane(const struct calltap_msg_plan *plan, const struct calltap_site *sites)
{
	const struct probe_region *known = plan->region ? probe_region_of(plan->region) : NULL;
	uint64_t seen = 0;

	if (plan->near_hi <= plan->near_lo || plan->near_hi - plan->near_lo < ARCH_SITE_MAX)
		return false;
	if (plan->region &&
	    (!known || known->lo != plan->region || plan->region + ARCH_REGION_HEAD + plan->stub_bytes > known->hi))
		return false;
	for (uint32_t i = 0; i < plan->site_count; i++)
		if (!site_is_sane(plan, &sites[i], &seen))
			return false;
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
	bool kept = false;
	void *sites;

	sites = agent_map(fd, size, PROT_READ, MAP_PRIVATE | MAP_POPULATE, F_SEAL_SHRINK | F_SEAL_WRITE);
	agent_plan_refuse(plan, sys_failed((long)sites) ? (int)(long)sites : -EINVAL, done);
	if (sys_failed((long)sites))
		return;
	if (plan_is_sane(plan, sites))
		done->error = apply(plan, sites, &result, &kept);
	if (!kept)
		sys_munmap(sites, size);
	done->region = result.region.lo;
	done->patched = result.patched;
	done->failed = result.failed;
	done->first_failed_id = result.first_failed_id;
	done->elapsed_ticks = arch_clock() - start;
}

static int switch_one(const struct agent_sites *kept, uint32_t site, bool on)
{
	if (site >= kept->count)
		return -EINVAL;
	return patch_site_switch(&agent.poker, &kept->region, &kept->list[site], on);
}

void agent_sites_switch(const struct calltap_msg_switch *message, struct calltap_msg_switch_done *done)
{
	const struct agent_sites *kept = NULL;

	*done = (struct calltap_msg_switch_done){
		.head = {CALLTAP_MSG_SWITCH_DONE, sizeof(*done)},
		.plan_id = message->plan_id,
		.failed = message->count,
	};
	for (uint32_t i = 0; i < agent.sites_count; i++)
		if (agent.sites[i].plan_id == message->plan_id)
			kept = &agent.sites[i];
	if (!kept || !agent_text_take())
		return;
	for (uint32_t i = 0; i < message->count; i++)
		done->switched += !switch_one(kept, message->sites[i], message->on);
	agent_text_release();
	done->failed -= done->switched;
	/* No refetch needed: a core that still runs the old byte is a moment late, no more. */
}

void agent_sites_restore(struct calltap_msg_detached *done)
{
	bool taken = agent_text_take();

	*done = (struct calltap_msg_detached){.head = {CALLTAP_MSG_DETACHED, sizeof(*done)}};
	for (uint32_t i = 0; i < agent.sites_count; i++) {
		const struct agent_sites *kept = &agent.sites[i];
		struct patch_restored restored = {.left = kept->count};

		if (taken)
			patch_sites_restore(&restored, &agent.poker, &kept->region, kept->list, kept->count,
					    &kept->pages);
		done->restored += restored.restored;
		done->left += restored.left;
		sys_munmap((void *)kept->list, kept->count * sizeof(*kept->list));
		if (kept->pages.room)
			sys_munmap(kept->pages.list, kept->pages.room);
	}
	agent.sites_count = 0;
	if (taken)
		agent_text_release();
}

/*
 * Who may change the text, or the set of objects: the control thread while it
 * switches sites, or a thread in dlclose from before it unmaps an object until
 * after.  Without this, bytes could be read of one object and written to the
 * one that has come to its place.
 */
bool agent_text_take(void)
{
	uint64_t until = sys_monotonic_ns() + AGENT_READY_MS * 1000000ull;

	for (;;) {
		uint32_t now = AGENT_TEXT_FREE;

		if (__atomic_compare_exchange_n(&agent.text, &now, AGENT_TEXT_OURS, false, __ATOMIC_ACQ_REL,
						__ATOMIC_ACQUIRE))
			return true;
		if (sys_monotonic_ns() >= until)
			return false;
		sys_futex_wait(&agent.text, now, WAIT_STEP_NS);
	}
}

void agent_text_release(void)
{
	__atomic_store_n(&agent.text, AGENT_TEXT_FREE, __ATOMIC_RELEASE);
	sys_futex_wake(&agent.text);
}

void agent_text_unmapping(bool begins)
{
	uint32_t from = begins ? AGENT_TEXT_FREE : AGENT_TEXT_LOADER, want = from;

	while (!__atomic_compare_exchange_n(&agent.text, &want, begins ? AGENT_TEXT_LOADER : AGENT_TEXT_FREE, false,
					    __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
		if (want != AGENT_TEXT_OURS || !begins)
			return; /* a second announcement, or one that was not needed */
		sys_futex_wait(&agent.text, want, WAIT_STEP_NS);
		want = from;
	}
	if (!begins)
		sys_futex_wake(&agent.text);
}
