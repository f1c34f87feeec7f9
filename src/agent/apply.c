/*
 * Writing the text of a process that runs, while the tool holds all of its
 * threads (abi/control.h, APPLY).
 *
 * A thread may be stopped anywhere, in the loader too: so no lock is waited
 * for, and nothing is looked at that could be gone without asking first.
 * doc/design/patching.md.  Called by the control thread.  Context: control.
 */
#include <errno.h>

#include <agent/agent.h>
#include <base/sys.h>

/*
 * Write the sites of the plans that wait for APPLY.  Those of an object that has gone are not written: the tool hears
 * of the object again when it comes back, and plans it anew.
 */
static void write_plans(const struct patch_skips *skips, const struct agent_store *maps,
			struct calltap_msg_apply_done *done)
{
	for (uint32_t i = 0; i < agent.sites_count && !done->error; i++) {
		struct patch_result result;

		if (!agent.sites[i].waits)
			continue;
		agent.sites[i].waits = false;
		if (!agent_objects_have(maps, agent.sites[i].identity))
			continue;
		done->error = agent_plan_write(&agent.sites[i], skips, &result);
		done->patched += result.patched;
		done->failed += result.failed;
		if (result.failed > result.skipped && done->first_failed_id == ~0u)
			done->first_failed_id = result.first_failed_id;
	}
}

/* A thread within a head of a static program's, of which the flag tells, would go on within the jump. */
static int lead_fronts(const struct calltap_msg_apply *message)
{
	if (agent.placed && !agent.fronts_led && message->flags & CALLTAP_APPLY_LEAVE_LOADER)
		return -EAGAIN;
	return agent_fronts_lead();
}

void agent_apply(const struct calltap_msg_apply *message, struct calltap_msg_apply_done *done)
{
	const struct patch_skips skips = {message->skips, message->count};
	uint64_t start = arch_clock();
	struct agent_store maps;

	*done = (struct calltap_msg_apply_done){.head = {CALLTAP_MSG_APPLY_DONE, sizeof(*done)},
						.first_failed_id = ~0u};
	/* Only through /proc can text be given back while threads run; without it the process is left as it is. */
	if (agent.poker.mem_fd < 0) {
		done->error = -ENXIO;
		return;
	}
	if (agent_loader_is_busy() || !agent_text_try()) {
		done->error = -EAGAIN;
		return;
	}
	done->error = agent_objects_are_reported(&maps) ? lead_fronts(message) : -ESTALE;
	if (!done->error) {
		/* The pointers first: from the first site on an unwinder may have to ask the agent. */
		done->pointers = agent_pointers_write(&maps);
		if (!(message->flags & CALLTAP_APPLY_LEAVE_LOADER) && !agent.dlhook_tried)
			agent_dlhook_install();
		write_plans(&skips, &maps, done);
	}
	agent_store_empty(&maps);
	agent_text_release();
	done->flags = agent.dlhook_tried && !agent.no_dlhook ? 0 : CALLTAP_OBJECTS_NO_DLHOOK;
	done->elapsed_ticks = arch_clock() - start;
}
