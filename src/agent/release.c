/*
 * Letting go of a process: after this nothing of the session is left in it but the idle agent and address space
 * (abi/control.h, RELEASE).
 *
 * All threads of the program are stopped, none in a stub or a recorder.  If one thing cannot be let go of, all stays:
 * text and recording are as they should be already, and the next session begins with another try.
 * doc/design/control.md.  Called by the control thread.  Context: control.
 */
#include <errno.h>

#include <agent/agent.h>
#include <base/mem.h>
#include <base/sys.h>
#include <probe/reset.h>

union message {
	struct calltap_msg head;
	struct calltap_msg_release release;
	char bytes[CALLTAP_MSG_MAX];
};

struct told {
	struct agent_store slots, threads; /* uint64_t */
};

bool agent_has_leftovers(void)
{
	/* A child that was forked in the midst of an attach has its parent's buffers, if nothing else. */
	return probe_context.region_count || agent.pointers.count || agent.fronts_led || probe_context.wiped->alive ||
	       agent.arenas.count || probe_context.shared.board;
}

/* True if the planes missed a frame: it would return to where nothing is. */
static bool is_missed(uint64_t slot)
{
	uint64_t held;

	return sys_copy_in(&held, slot, sizeof(held)) && probe_region_of(held) && probe_mirror_is_covered(slot) &&
	       *arch_mirror(slot);
}

static int release_frames(const struct told *told, uint32_t *frames)
{
	const uint64_t *slots = told->slots.list;
	/* Shadow stacks hold a frame's return address, too, and the agent cannot write them. */
	int ret = probe_frames_release(frames, !agent.shadow && !arch_shadow_stack(), agent.poker.mem_fd);

	for (size_t i = 0; i < told->slots.count && !ret && ARCH_FRAMES_GO_BACK; i++)
		if (is_missed(slots[i]))
			ret = -EBUSY;
	return ret;
}

static void renew_threads(const struct told *told)
{
	const uint64_t *pointers = told->threads.list;
	/* Where blocks are not at one distance from the thread pointer, which is an ended thread's perhaps, none is. */
	const void *own = ARCH_GATES_IN_STUBS ? probe_self() : NULL;

	if (arch_blocks_forget())
		return;
	for (size_t i = 0; i < told->threads.count; i++) {
		struct probe_thread *thread = (struct probe_thread *)arch_block_of(pointers[i], own);

		if (thread && probe_thread_is_one(thread))
			probe_thread_renew(thread);
	}
}

static void release_regions(void)
{
	uint32_t count = probe_context.region_count;

	agent_debugger_forget();
	__atomic_store_n(&probe_context.region_count, 0, __ATOMIC_RELEASE);
	for (uint32_t i = 0; i < count; i++) {
		const struct patch_region region = {probe_context.regions[i].lo, probe_context.regions[i].hi, false};

		patch_region_unmap(&region);
	}
	agent_blocks_forget();
}

static void release(const struct told *told, struct calltap_msg_released *done)
{
	*done = (struct calltap_msg_released){.head = {CALLTAP_MSG_RELEASED, sizeof(*done)}};
	if (agent.sites_count || agent_heads_restore())
		done->error = -ETXTBSY; /* a site leads to its stub (agent_sites_restore()), or a head to its block */
	else
		done->error = agent_handlers_run() ? -EAGAIN : release_frames(told, &done->frames);
	if (done->error)
		return;
	agent_programs_release();
	agent_heads_release();
	done->pointers = agent_pointers_restore();
	agent_fronts_restore();
	renew_threads(told);
	probe_stacks_release();
	release_regions();
	agent_settings_release();
	agent_times_release();
	agent_handlers_release();
	agent_memory_release();
}

static int add(struct agent_store *store, const uint64_t *words, uint32_t count)
{
	store->size = sizeof(*words);
	return agent_store_add(store, words, count);
}

static int tell_unwinders(void)
{
	struct calltap_msg_unwinders_told told = {
		.head = {CALLTAP_MSG_UNWINDERS_TOLD, sizeof(told)},
		.more = agent.unwinders_more,
	};

	for (; told.count < CALLTAP_UNWINDERS_MAX && agent.unwinders[told.count]; told.count++)
		told.addresses[told.count] = agent.unwinders[told.count];
	return agent_send(&told, sizeof(told));
}

/*
 * Heads, and with them what could not be written before the tool sent the file: sites and hooks of a recorder that went
 * on without its tool, in a process that may not open its own mem file.
 */
static int restore_heads(void)
{
	struct calltap_msg_heads_done done = {.head = {CALLTAP_MSG_HEADS_DONE, sizeof(done)}};
	struct calltap_msg_detached detached;

	if (agent.sites_count)
		agent_sites_restore(&detached);
	if (agent.dlhook_count)
		agent_dlhook_remove();
	done.left = agent_heads_restore();
	return agent_send(&done, sizeof(done));
}

/*
 * Receive the next RELEASE.  Messages before it, from a tool that has not heard yet that the agent is going, are about
 * objects and plans.  HEADS may come with the process's mem file.
 */
static int receive_part(union message *message, uint64_t wait_ms)
{
	int ret;

	do {
		int fd = -1;

		ret = agent_wait_message(wait_ms);
		if (!ret)
			ret = agent_receive(message, sizeof(*message), &fd, 1);
		if (!ret && message->head.type == CALLTAP_MSG_UNWINDERS) {
			ret = tell_unwinders();
		} else if ((!ret || ret == -EMFILE) && message->head.type == CALLTAP_MSG_HEADS) {
			if (fd >= 0)
				patch_poker_take(&agent.poker, fd);
			ret = restore_heads();
		}
		if (fd >= 0)
			sys_close(fd);
	} while ((!ret && message->head.type != CALLTAP_MSG_RELEASE) ||
		 ret == -EMFILE); /* no room for a message's descriptor, which is not wanted */
	return ret;
}

/* Receive one RELEASE and note its lists; *more: the lists go on. */
static int receive(struct told *told, uint64_t wait_ms, bool *more)
{
	union message message = {0};
	const struct calltap_msg_release *part = &message.release;
	int ret = receive_part(&message, wait_ms);

	if (ret)
		return ret;
	if (part->head.size < sizeof(*part) || part->slot_count > CALLTAP_RELEASE_MAX ||
	    part->thread_count > CALLTAP_RELEASE_MAX ||
	    part->head.size != sizeof(*part) + (part->slot_count + part->thread_count) * sizeof(part->words[0]))
		return -EPROTO;
	*more = part->flags & CALLTAP_RELEASE_MORE;
	ret = add(&told->slots, part->words, part->slot_count);
	return ret ? ret : add(&told->threads, part->words + part->slot_count, part->thread_count);
}

/* The conversation from RELEASE to RELEASED. */
static int converse(uint64_t wait_ms)
{
	struct calltap_msg_released done;
	struct told told = {0};
	bool more = true;
	int ret = 0;

	while (!ret && more)
		ret = receive(&told, wait_ms, &more);
	if (!ret) {
		release(&told, &done);
		ret = agent_send(&done, sizeof(done));
		if (!ret)
			ret = done.error;
	}
	agent_store_empty(&told.slots);
	agent_store_empty(&told.threads);
	return ret;
}

void agent_release_wait(void)
{
	int ret;

	/* The tool tries again for a while when a handler of the program's own was in the way. */
	do
		ret = converse(AGENT_RELEASE_MS);
	while (ret == -EAGAIN);
	if (ret)
		return; /* all stays, and the next session begins with another try */
}

static int send_regions(void)
{
	union {
		struct calltap_msg_regions message;
		uint8_t bytes[sizeof(struct calltap_msg_regions) + 2 * CALLTAP_REGIONS_MAX * sizeof(uint64_t)];
	} out;
	uint32_t at = 0, left;
	size_t size;
	int ret;

	do {
		left = probe_context.region_count - at;
		out.message = (struct calltap_msg_regions){
			.head = {CALLTAP_MSG_REGIONS, 0},
			.count = left < CALLTAP_REGIONS_MAX ? left : CALLTAP_REGIONS_MAX,
			.more = left > CALLTAP_REGIONS_MAX,
		};
		size = out.message.count * 2 * sizeof(out.message.words[0]);
		out.message.head.size = (uint32_t)(sizeof(out.message) + size);
		memcpy(out.message.words, &probe_context.regions[at], size);
		at += out.message.count;
		ret = agent_send(&out, out.message.head.size);
	} while (!ret && out.message.more);
	return ret;
}

int agent_leftovers_release(void)
{
	int ret;

	if (!agent_has_leftovers())
		return 0;
	ret = send_regions();
	while (!ret) {
		ret = converse(AGENT_READY_MS);
		if (ret != -EAGAIN)
			return ret;
		ret = 0;
	}
	return ret;
}
