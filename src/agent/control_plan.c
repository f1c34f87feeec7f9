/*
 * Plans in the target: map the tool's list, build stubs, switch sites on,
 * remember them, switch them off at the end.
 * Called by the control thread.  Context: control.
 */
#include <errno.h>
#include <sys/mman.h>

#include <agent/agent.h>
#include <base/sys.h>

#define SHORT_SITE ((uint64_t)1 << 63)

static int64_t tls_gate_offset(void)
{
	uint64_t thread_pointer;

	/* The offset is the same in every thread: initial-exec. */
	thread_pointer = (uint64_t)__builtin_thread_pointer();
	return (int64_t)((uint64_t)&probe_thread.gate - thread_pointer);
}

static void region_add(const struct patch_result *result)
{
	uint32_t n = probe_context.region_count;

	for (uint32_t i = 0; i < n; i++)
		if (probe_context.regions[i].lo == result->region)
			return;
	probe_context.regions[n].lo = result->region;
	probe_context.regions[n].hi = result->region_end;
	__atomic_store_n(&probe_context.region_count, n + 1, __ATOMIC_RELEASE); /* pairs with probe_region_of */
}

static void sites_remember(const struct patch_result *result, const struct calltap_site *sites, uint32_t count)
{
	struct agent_sites *kept = &agent.sites[agent.sites_count];
	uint64_t *packed;

	/* An object that is back at its old place has its old region, and the same sites. */
	for (uint32_t i = 0; i < agent.sites_count; i++)
		if (agent.sites[i].lo == result->region)
			return;
	packed = sys_mmap(NULL, count * sizeof(*packed), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (sys_failed((long)packed))
		return; /* they stay on when the tool goes: slower, not wrong */
	for (uint32_t i = 0; i < count; i++)
		packed[i] = sites[i].address | (sites[i].length == 2 ? SHORT_SITE : 0);
	kept->lo = result->region;
	kept->hi = result->region_end;
	kept->packed = packed;
	kept->count = count;
	agent.sites_count++;
}

static int apply(const struct calltap_msg_plan *plan, const struct calltap_site *sites, struct patch_result *result)
{
	int ret;

	if (!plan->region && (probe_context.region_count >= PROBE_REGIONS || agent.sites_count >= PROBE_REGIONS))
		return -ENOSPC;
	ret = patch_region_build(result, plan, sites, tls_gate_offset());
	if (ret)
		return ret;
	region_add(result);
	ret = patch_sites_apply(result, &agent.poker, sites, plan->site_count);
	sites_remember(result, sites, plan->site_count);
	return ret;
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
	void *sites;

	agent_plan_refuse(plan, -ENOMEM, done);
	sites = sys_mmap(NULL, size, PROT_READ, MAP_PRIVATE | MAP_POPULATE, fd, 0);
	if (sys_failed((long)sites))
		return;
	done->error = apply(plan, sites, &result);
	sys_munmap(sites, size);
	done->region = result.region;
	done->patched = result.patched;
	done->failed = result.failed;
	done->first_failed_id = result.first_failed_id;
	done->elapsed_ticks = arch_clock() - start;
}

void agent_sites_off(void)
{
	for (uint32_t i = 0; i < agent.sites_count; i++) {
		const struct agent_sites *kept = &agent.sites[i];

		for (uint32_t k = 0; k < kept->count; k++) {
			uint64_t at = kept->packed[k] & ~SHORT_SITE;
			uint8_t length = kept->packed[k] & SHORT_SITE ? 2 : 5;

			/* What is no site of ours any more (unmapped, left alone) is none to switch off. */
			if (patch_site_off(&agent.poker, at, length, kept->lo, kept->hi))
				continue;
		}
	}
	patch_sync();
}
