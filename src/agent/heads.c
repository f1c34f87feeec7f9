/*
 * Heads, and the blocks that they lead to: the agent maps the blocks that the tool has made, leads the heads, and gives
 * them their own bytes back (patch/blocks.h; doc/design/stock.md).
 *
 * A region of blocks belongs to one object at one place.  Plans that come later for the same object (other stubs) use
 * the region of the first.  Called by the control thread.  Context: control.
 */
#include <errno.h>

#include <agent/agent.h>
#include <base/mem.h>
#include <base/sys.h>
#include <patch/blocks.h>

#define ALIGN 16ul /* of the blocks' bytes behind their heads */

static size_t heads_room(const struct calltap_msg_plan *plan)
{
	return (plan->block_sites * sizeof(struct calltap_site) + ALIGN - 1) & ~(ALIGN - 1);
}

size_t agent_heads_room(const struct calltap_msg_plan *plan)
{
	return plan->block_sites ? heads_room(plan) + plan->blocks_size : 0;
}

static struct agent_heads *heads_at(uint64_t blocks)
{
	for (uint32_t i = 0; i < agent.heads_count; i++)
		if (agent.heads[i].blocks.lo == blocks)
			return &agent.heads[i];
	return NULL;
}

const struct calltap_site *agent_heads_of(uint64_t blocks)
{
	const struct agent_heads *heads = blocks ? heads_at(blocks) : NULL;

	return heads ? heads->list : NULL;
}

/* An object has come back to its old place: its blocks still lead to stubs, as they did when it went. */
static int renew_blocks(const struct agent_heads *heads, const struct calltap_msg_plan *plan, const uint8_t *code)
{
	const uint64_t from = CALLTAP_BLOCKS_HEAD;

	if (heads->count != plan->block_sites || heads->blocks.hi - heads->blocks.lo != plan->blocks_size)
		return -EEXIST;
	return patch_poke(&agent.poker, heads->blocks.lo + from, code + from, plan->blocks_size - from);
}

static int map_new(const struct calltap_msg_plan *plan, const struct calltap_site *list, const uint8_t *code,
		   size_t size)
{
	struct agent_heads *heads = &agent.heads[agent.heads_count];
	int ret;

	if (agent.heads_count == PROBE_REGIONS)
		return -ENOSPC;
	*heads = (struct agent_heads){
		.list = list, .size = size, .count = plan->block_sites, .identity = plan->identity};
	ret = patch_blocks_map(&heads->blocks, plan->blocks, code, plan->blocks_size);
	if (ret)
		return ret;
	ret = agent_blocks_add(heads->blocks.lo, heads->blocks.hi, heads->blocks.lo + plan->header_off,
			       plan->header_size);
	if (ret) {
		patch_blocks_unmap(&heads->blocks);
		return ret;
	}
	agent.heads_count++;
	return 0;
}

int agent_heads_take(const struct calltap_msg_plan *plan, const uint8_t *rest, size_t size)
{
	const struct agent_heads *known = heads_at(plan->blocks);
	int ret;

	if (plan->live == CALLTAP_PLAN_STUBS)
		return known ? 0 : -EINVAL;
	if (known)
		ret = renew_blocks(known, plan, rest + heads_room(plan));
	else
		ret = map_new(plan, (const struct calltap_site *)rest, rest + heads_room(plan), size);
	if (known || ret)
		sys_munmap((void *)rest, size);
	return ret;
}

int agent_heads_lead(struct patch_result *result, uint64_t blocks, const struct patch_skips *skips)
{
	struct agent_heads *heads = heads_at(blocks);

	*result = (struct patch_result){0};
	if (!heads)
		return -EINVAL;
	heads->led = true;
	return patch_heads_lead(result, &agent.poker, &heads->blocks, heads->list, heads->count, skips);
}

uint32_t agent_heads_restore(void)
{
	struct agent_store maps;
	uint32_t left = 0;

	if (!agent.heads_count)
		return 0;
	agent_objects_read(&maps);
	for (uint32_t i = 0; i < agent.heads_count; i++) {
		struct agent_heads *heads = &agent.heads[i];
		struct patch_restored restored;

		if (!heads->led || !agent_objects_have(&maps, heads->identity))
			continue; /* an object that has gone: something else lies there */
		patch_heads_restore(&restored, &agent.poker, &heads->blocks, heads->list, heads->count);
		left += restored.leading;
		heads->led = restored.leading != 0;
	}
	agent_store_empty(&maps);
	return left;
}

void agent_heads_release(void)
{
	for (uint32_t i = 0; i < agent.heads_count; i++)
		sys_munmap((void *)agent.heads[i].list, agent.heads[i].size);
	agent.heads_count = 0;
}
