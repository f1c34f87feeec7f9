/*
 * Further instances of a session: rings of their own beside the session's
 * (abi/control.h, INSTANCE; doc/design/instances.md).
 *
 * What one that has ended had mapped stays so until the session lets go of the
 * process: a thread may be storing its last record.
 * Called by the control thread.  Context: control.
 */
#include <errno.h>

#include <agent/agent.h>

/* Nobody finds what the last one of this set had; writers that threads may still hold are not handed out again. */
static int begin(const struct calltap_msg_instance *message, int fd)
{
	uint32_t index = message->set;
	struct probe_set *set = &probe_context.wiped->sets[index];
	int ret;

	__atomic_store_n(&set->on, 0, __ATOMIC_SEQ_CST); /* its end may have been missed */
	__atomic_store_n(&set->arena_count, 0, __ATOMIC_RELEASE);
	set->calls = message->calls;
	set->claim_vain = 0;
	probe_context.writers[index].base = probe_context.writers[index].used;
	ret = agent_arena_add(index, fd, message->arena_size);
	if (!ret)
		__atomic_store_n(&set->on, ++agent.instances, __ATOMIC_RELEASE); /* pairs with probe_set_attach() */
	return ret;
}

int agent_instance_take(const struct calltap_msg_instance *message, int fd, struct calltap_msg_instance_done *done)
{
	if (message->head.size != sizeof(*message) || !message->set || message->set >= PROBE_SETS ||
	    (message->on && fd < 0))
		return -EPROTO;
	*done = (struct calltap_msg_instance_done){.head = {CALLTAP_MSG_INSTANCE_DONE, sizeof(*done)},
						   .set = message->set};
	if (message->on)
		done->error = begin(message, fd);
	else
		__atomic_store_n(&probe_context.wiped->sets[message->set].on, 0, __ATOMIC_SEQ_CST);
	return 0;
}

void agent_instances_end(void)
{
	for (uint32_t i = 1; i < PROBE_SETS && probe_context.wiped; i++)
		__atomic_store_n(&probe_context.wiped->sets[i].on, 0, __ATOMIC_SEQ_CST);
}
