/*
 * The way into a process that runs already: called on a thread of the
 * program's that the tool has borrowed, right after the loader has mapped the
 * agent, or by address when that is there from before (abi/attach.h).
 *
 * It starts a control thread and returns; nobody waits for the tool.  No call
 * may be made here that the kernel restarts in a way of its own (a sleep, a
 * futex with a timeout): the thread may have been in one.  Context: control,
 * on the program's thread with signals blocked.
 */
#include <errno.h>
#include <sys/mman.h>

#include <agent/agent.h>
#include <agent/libc.h>
#include <agent/sandbox.h>
#include <base/mem.h>
#include <base/sys.h>

#define END_TRIES 1000 /* looks for an earlier session's control thread, which is about to end */

static int refuse(struct calltap_attach *attach, int error, const char *why)
{
	base_copy_text(attach->error, sizeof(attach->error), why);
	return error;
}

static int refuse_thread(struct calltap_attach *attach, int error)
{
	return refuse(attach, error,
		      error == -EAGAIN
			      ? "its user has as many processes and threads as it may have, and the agent needs "
				"one (prlimit --pid=PID --nproc tells the limit, and raises it)"
			      : "it can start no thread for the agent");
}

/*
 * Planes, regions and rings are laid out in pages of CALLTAP_PAGE bytes: the kernel refuses an address that is no
 * page's.
 */
static bool has_other_pages(void)
{
	return sys_failed(SYS(madvise, CALLTAP_PAGE, 0, 0 /* MADV_NORMAL */, 0, 0, 0));
}

/* True if a control thread of an earlier session, of this very process, is there. */
static bool has_control_thread(void)
{
	if (!probe_context.wiped || (!probe_context.wiped->served && probe_context.wiped->starting != 1))
		return false;
	if (agent.live || probe_context.wiped->starting == 1) /* a forked child may be about to have one */
		return true;
	/* The control thread has sent its last message, and uses its stack for a moment yet. */
	for (int i = 0; i < END_TRIES && __atomic_load_n(&agent.control_tid, __ATOMIC_ACQUIRE); i++)
		SYS(sched_yield, 0, 0, 0, 0, 0, 0);
	return agent.control_tid != 0;
}

static void begin_session(struct calltap_attach *attach)
{
	base_copy_text(agent.session, sizeof(agent.session), attach->session);
	agent.image_id = agent_random_id();
	agent.forked = 0;
	agent.is_successor = 0;
	agent.sending = 0;
	agent.leave = AGENT_STAY;
	agent.live = 0;
	agent.control_tid = 0;
	agent.exit_status = 0;
	agent.attached = 1;
	agent.borrowed = attach;
	agent.shadow |= arch_shadow_stack();
	agent_main_stack_note(false);
	probe_context.main_stack_end = attach->main_stack_end;
	probe_context.main_thread = (void *)attach->main_thread;
	agent_tid_find();
	agent_cpu_find();
}

/* agent.attaching keeps other threads out. */
static int begin(struct calltap_attach *attach)
{
	uint64_t signals;
	long tid;

	if (agent.no_blocks)
		return refuse(attach, -ENOTSUP, "its threads have no thread-local memory for the agent");
	if (has_control_thread())
		return refuse(attach, -EBUSY, "it is traced already, or was until a moment ago; try again");
	if (has_other_pages() || arch_in_valgrind())
		return refuse(attach, -ENOTSUP,
			      "it has memory pages of another size than 4096 bytes, or valgrind runs it");
	if (sandbox_is_foreign((uint32_t)attach->filters))
		return refuse(attach, -EPERM,
			      "it has a seccomp filter, under which a call of the agent's may be its end");
	agent_locks_look();
	if (agent_process_init())
		return refuse(attach, -ENOMEM, "it has no memory for the agent");
	begin_session(attach);
	/* The control thread has all signals blocked; the borrowed thread perhaps not those of libc's own. */
	sys_signals_block(&signals);
	tid = agent_control_launch();
	sys_signals_restore(&signals);
	if (sys_failed(tid)) {
		agent.borrowed = NULL;
		return refuse_thread(attach, (int)tid);
	}
	return 0;
}

/* A forked child has the agent of its parent, and that one's session. */
static int call_in(struct calltap_attach *attach)
{
	int ret;

	if (!probe_context.wiped || !probe_context.enabled ||
	    base_strlen(attach->session) != base_strlen(agent.session) ||
	    memcmp(attach->session, agent.session, base_strlen(agent.session)) != 0)
		return refuse(attach, -ENOENT, "it is of no recording");
	if (probe_context.wiped->alive)
		return CALLTAP_ATTACH_ALONE;
	if (probe_context.shared.quiet || agent.no_children)
		return refuse(attach, -EPERM,
			      "it has a seccomp filter, under which a call of the agent's may be its end");
	ret = agent_child_call_in(attach);
	return ret < 0 ? refuse_thread(attach, ret) : ret;
}

int calltap_agent_attach(struct calltap_attach *attach)
{
	int pid = sys_getpid(), ret;

	if (attach->version != CALLTAP_ABI_VERSION)
		return refuse(attach, -EPROTO, "the agent is of another version than the tool");
	if (base_strlen(attach->session) >= sizeof(agent.session))
		return refuse(attach, -EINVAL, "the session's name is too long for the agent");
	/*
	 * Two tools may come at once, by two threads.  In a forked child the word may be left by a thread of the
	 * parent.
	 */
	if (__atomic_exchange_n(&agent.attaching, pid, __ATOMIC_ACQ_REL) == pid)
		return refuse(attach, -EBUSY, "it is traced already, or is about to be; try again");
	ret = attach->calls_in ? call_in(attach) : begin(attach);
	/* After a success the control thread clears the word, once it can be seen. */
	if (ret)
		__atomic_store_n(&agent.attaching, 0, __ATOMIC_RELEASE);
	return ret;
}
