/*
 * Heads of a static program's functions that the agent stands in front of, where the agent came when the program ran:
 * the agent leads them to its own functions, and gives them their bytes back (abi/start.h; doc/design/loaderless.md).
 *
 * In other programs words and symbols are led instead (pointers.c).  All threads are stopped, and none is within a
 * head's jump.  Called by the control thread.  Context: control.
 */
#include <errno.h>

#include <agent/agent.h>
#include <base/mem.h>
#include <base/sys.h>

static uint32_t count_heads(void)
{
	const struct calltap_start *placed = agent.placed;

	return !placed						  ? 0
	       : placed->function_count < CALLTAP_START_FUNCTIONS ? placed->function_count
								  : CALLTAP_START_FUNCTIONS;
}

static bool has_bytes(const struct calltap_start_function *function, const uint8_t *bytes)
{
	uint8_t now[sizeof(function->old)];

	return function->length <= sizeof(now) && sys_copy_in(now, function->head, function->length) &&
	       !memcmp(now, bytes, function->length);
}

/* Give the first `count` heads their bytes back; true: none leads to the agent any more. */
static bool restore(uint32_t count)
{
	bool all = true;

	for (uint32_t i = 0; i < count; i++) {
		const struct calltap_start_function *function = &agent.placed->functions[i];

		if (function->length && has_bytes(function, function->jump))
			all &= !patch_poke(&agent.poker, function->head, function->old, function->length);
	}
	return all;
}

int agent_fronts_lead(void)
{
	uint32_t count = count_heads();
	int ret = 0;

	if (agent.fronts_led)
		return 0;
	for (uint32_t i = 0; i < count; i++) {
		const struct calltap_start_function *function = &agent.placed->functions[i];

		/* Another agent's, or a debugger's breakpoint. */
		if (function->length && !has_bytes(function, function->old) && !has_bytes(function, function->jump))
			return -EBUSY;
	}
	for (uint32_t i = 0; i < count && !ret; i++) {
		const struct calltap_start_function *function = &agent.placed->functions[i];

		agent.fronts_led |= function->length != 0;
		if (function->length)
			ret = patch_poke(&agent.poker, function->head, function->jump, function->length);
	}
	if (ret)
		agent.fronts_led = !restore(count);
	return ret;
}

void agent_fronts_note(void)
{
	for (uint32_t i = 0; i < count_heads(); i++)
		agent.fronts_led |= agent.placed->functions[i].length != 0;
}

void agent_fronts_restore(void)
{
	if (agent.fronts_led)
		agent.fronts_led = !restore(count_heads());
}
