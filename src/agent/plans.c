/*
 * The agent knows here which plans this process has.  A fork may come in the midst of a plan that the control thread
 * carries out: the child then puts the rest of it away, and tells the tool which plans its text has
 * (doc/design/control.md, "fork").
 *
 * A fork copies pages one after the other while the control thread runs on, so a child may have a later store and lack
 * an earlier one in another page.  But the kernel copies them all with the lock of the address space held, which
 * mapping memory takes as well: what was stored before a mapping, a child has if it has anything that was stored after.
 * Called by the control thread.  Context: control.
 */
#include <sys/mman.h>

#include <agent/agent.h>
#include <base/sys.h>

/* No fork has what comes after and lacks what came before. */
static void part_forks(void)
{
	void *page = sys_mmap(NULL, CALLTAP_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (!sys_failed((long)page))
		sys_munmap(page, CALLTAP_PAGE);
}

void agent_plan_begin(const struct calltap_msg_plan *plan)
{
	agent.open.sites_count = agent.sites_count;
	agent.open.heads_count = agent.heads_count;
	agent.open.region = plan->region;
	__atomic_store_n(&agent.open.state, AGENT_PLAN_PREPARED, __ATOMIC_RELEASE); /* pairs with agent_plan_settle() */
	part_forks();
}

void agent_plan_writes(uint64_t region)
{
	part_forks();
	agent.open.region = region;
	__atomic_store_n(&agent.open.state, AGENT_PLAN_WRITTEN, __ATOMIC_RELEASE); /* pairs with agent_plan_settle() */
	part_forks();
}

void agent_plan_end(void)
{
	part_forks();
	__atomic_store_n(&agent.open.state, AGENT_PLAN_NONE, __ATOMIC_RELEASE); /* pairs with agent_plan_settle() */
}

struct agent_sites *agent_sites_of(uint64_t region)
{
	for (uint32_t i = 0; i < agent.sites_count; i++)
		if (region && agent.sites[i].region.lo == region)
			return &agent.sites[i];
	return NULL;
}

void agent_plan_settle(void)
{
	uint32_t state = __atomic_load_n(&agent.open.state, __ATOMIC_ACQUIRE); /* pairs with agent_plan_begin() */
	struct agent_sites *half;

	if (state == AGENT_PLAN_PREPARED) {
		/* Nothing in the text leads there.  The memory stays: nobody knows how much of it there is. */
		agent.sites_count = agent.open.sites_count;
		agent.heads_count = agent.open.heads_count;
		half = agent_sites_of(agent.open.region);
		if (half)
			*half = agent.sites[--agent.sites_count];
	} else if (state == AGENT_PLAN_WRITTEN) {
		half = agent_sites_of(agent.open.region);
		if (half)
			half->torn = true;
	}
	agent.open.state = AGENT_PLAN_NONE;
}

int agent_plans_tell(void)
{
	union {
		struct calltap_msg_plans message;
		uint8_t bytes[sizeof(struct calltap_msg_plans) + CALLTAP_PLANS_MAX * sizeof(struct calltap_had_plan)];
	} out;
	uint32_t next = 0;
	int ret = 0;

	while (!ret && next < agent.sites_count) {
		uint32_t count = 0;

		for (; next < agent.sites_count && count < CALLTAP_PLANS_MAX; next++) {
			const struct agent_sites *kept = &agent.sites[next];

			out.message.plans[count++] = (struct calltap_had_plan){
				.plan_id = kept->plan_id,
				.region = kept->region.lo,
				.blocks = kept->blocks.lo,
				.flags = (kept->waits ? CALLTAP_HAD_WAITS : 0) | (kept->torn ? CALLTAP_HAD_TORN : 0),
			};
		}
		out.message.count = count;
		out.message.reserved = 0;
		out.message.head = (struct calltap_msg){
			CALLTAP_MSG_PLANS,
			(uint32_t)(sizeof(out.message) + count * sizeof(out.message.plans[0])),
		};
		ret = agent_send(&out, out.message.head.size);
	}
	return ret;
}
