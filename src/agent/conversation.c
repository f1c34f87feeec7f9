/*
 * The agent's conversation with the tool: the beginning of a session, and the answer to each message (abi/control.h).
 *
 * Callers: the control thread; agent_conversation_decline() is called by the program's thread in the constructor,
 * before there is a control thread.  Context: control.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>

#include <agent/agent.h>
#include <base/mem.h>
#include <base/sys.h>

#define PATH_BYTES 4096u

#define LOOK_MS	      500 /* how often it is looked whether the tool is stopped */
#define STOPPED_LOOKS 4

union message {
	struct calltap_msg head;
	struct calltap_msg_setup setup;
	struct calltap_msg_plan plan;
	struct calltap_msg_arena arena;
	struct calltap_msg_switch change;
	struct calltap_msg_pointers pointers;
	struct calltap_msg_apply apply;
	struct calltap_msg_set set;
	struct calltap_msg_detach detach;
	struct calltap_msg_tables tables;
	struct calltap_msg_triggers triggers;
	struct calltap_msg_handlers handlers;
	struct calltap_msg_programs programs;
	struct calltap_msg_counts counts;
	struct calltap_msg_times times;
	struct calltap_msg_instance instance;
	char bytes[CALLTAP_MSG_MAX];
};

static uint32_t hello_flags(void)
{
	uint32_t memory = agent.poker.mem_fd < 0 ? CALLTAP_HELLO_NO_MEMORY : 0;

	if (agent.is_successor)
		return CALLTAP_HELLO_BACK | memory;
	if (agent.forked)
		return CALLTAP_HELLO_FORKED | memory;
	if (!agent.attached)
		return (agent.put_back ? CALLTAP_HELLO_PUT_BACK : 0) | memory;
	return CALLTAP_HELLO_ATTACHED | (agent_has_leftovers() ? CALLTAP_HELLO_LEFTOVERS : 0) | memory;
}

static int say_hello(void)
{
	bool is_known = agent.is_successor || agent.forked;
	union {
		struct calltap_msg_hello message;
		char bytes[sizeof(struct calltap_msg_hello) + PATH_BYTES];
	} hello = {
		.message =
			{
				.head = {CALLTAP_MSG_HELLO, 0},
				.version = CALLTAP_ABI_VERSION,
				.flags = hello_flags(),
				.pid = (uint32_t)sys_getpid(),
				.tid = (uint32_t)sys_gettid(),
				.ppid = (uint32_t)SYS(getppid, 0, 0, 0, 0, 0, 0),
				.page_size = CALLTAP_PAGE,
				.machine = ARCH_ELF_MACHINE,
				.clock_cost = agent_clock_cost(),
				.ticks = arch_clock(),
				.clock_hz = arch_clock_hz(),
				.image_id = agent.image_id,
				.key = agent_session_key(),
				.process = agent.process,
				.plans = agent.forked && !agent.is_successor ? agent.sites_count : 0,
			},
	};

	/* The tool cannot read the clock and the path of an emulated program.  A forked child has its parent's, and a
	 * sandbox may forbid it to read them. */
	if (!is_known)
		agent_clock_sample(&hello.message.ticks, &hello.message.monotonic_ns);
	if (!is_known &&
	    sys_failed(SYS(readlinkat, AT_FDCWD, "/proc/self/exe", hello.message.exe, PATH_BYTES - 1, 0, 0)))
		hello.message.exe[0] = 0;
	hello.message.head.size = (uint32_t)(sizeof(hello.message) + base_strlen(hello.message.exe) + 1);
	return agent_send(&hello, hello.message.head.size);
}

static int map_board(int fd)
{
	void *old = probe_context.shared.board;
	void *board = agent_map(fd, CALLTAP_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, F_SEAL_SHRINK);

	if (sys_failed((long)board))
		return (int)(long)board;
	/* A forked child has its parent's, at which its other threads may look now: the new one takes that place. */
	if (old && sys_mmap(old, CALLTAP_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) == old) {
		sys_munmap(board, CALLTAP_PAGE);
		return 0;
	}
	probe_context.shared.board = board;
	return 0;
}

static int answer_clock(const struct calltap_msg *clock)
{
	return clock->size == sizeof(*clock) ? agent_clock_tell() : -EPROTO;
}

static void begin_recording(const struct calltap_msg_setup *setup)
{
	agent.emulated = setup->emulated;
	agent.process = setup->process;
	if (agent.emulated) {
		agent_main_stack_note(true);
		agent_threads_note();
	}
	probe_context.shared.wait_max_ms = setup->wait_max_ms;
	probe_context.shared.reader_gone = 0;
	probe_context.threshold_ticks = setup->threshold_ticks;
	probe_context.depth_max = setup->depth_max;
	probe_context.tree_filter = setup->tree_filter;
	probe_context.profile = setup->mode == CALLTAP_MODE_PROFILE;
	probe_context.rises = agent.attached && !probe_context.profile;
	probe_context.tells_open = setup->mode == CALLTAP_MODE_OVERWRITE && !(setup->flags & CALLTAP_SETUP_BRIEF);
	probe_context.timed = probe_wants_times();
	agent_planes_limit();
	probe_context.wiped->pid = (uint32_t)sys_getpid();
	probe_context.wiped->alive = 1;
	__atomic_store_n(&probe_context.enabled, 1, __ATOMIC_RELEASE);
}

/*
 * A program that begins waits for its tool, for AGENT_READY_MS at most.  A tool that is stopped, as by ^Z, would cost
 * each command of a shell script as much: they run untraced if it is stopped at STOPPED_LOOKS looks, one after the
 * other.  The program of a forked child goes on after AGENT_CHILD_MS, whatever is waited for here.
 */
static int await_setup(void)
{
	unsigned stopped = 0;
	int ret;

	if (agent.attached || agent.forked)
		return agent.attached ? agent_wait_message(AGENT_READY_MS) : 0;
	do {
		ret = agent_wait_message(LOOK_MS);
		stopped = ret == -ETIMEDOUT && agent_tool_is_stopped() ? stopped + 1 : 0;
	} while (ret == -ETIMEDOUT && stopped < STOPPED_LOOKS);
	return ret == -ETIMEDOUT ? -EPIPE : ret;
}

/* 1 = the tool wants nothing from this image, or ends its session just now. */
static int take_setup(void)
{
	union message message = {0};
	int fds[4] = {-1, -1, -1, -1}, ret = await_setup();

	if (!ret)
		ret = agent_receive(&message, sizeof(message), fds, 4);
	/* The tool may have to know how fast the clock is before it can say what it wants. */
	while (!ret && message.head.type == CALLTAP_MSG_CLOCK && fds[0] < 0) {
		ret = answer_clock(&message.head);
		if (!ret)
			ret = agent_receive(&message, sizeof(message), fds, 4);
	}
	agent.stat_fd = fds[2];
	if (fds[3] >= 0) {
		patch_poker_take(&agent.poker, fds[3]);
		sys_close(fds[3]);
	}
	if (!ret && message.head.type == CALLTAP_MSG_DETACH)
		ret = 1;
	if (!ret && (message.head.type != CALLTAP_MSG_SETUP || message.head.size != sizeof(message.setup)))
		ret = -EPROTO;
	if (!ret && message.setup.dormant)
		ret = 1;
	if (!ret) {
		agent.keep = message.setup.flags & CALLTAP_SETUP_KEEP && message.setup.mode == CALLTAP_MODE_OVERWRITE;
		agent.files = (message.setup.flags & CALLTAP_SETUP_FILES) != 0;
		ret = map_board(fds[0]);
		if (!ret)
			ret = agent_arena_add(0, 0, fds[1], message.setup.arena_size);
		if (ret)
			agent_complain(ret, "cannot map the buffers; it runs on untraced");
	}
	for (unsigned i = 0; i < 2; i++)
		if (fds[i] >= 0)
			sys_close(fds[i]);
	if (ret)
		return ret;
	begin_recording(&message.setup);
	return 0;
}

static void apply_fresh(const struct calltap_msg_plan *plan, int fd, struct calltap_msg_plan_done *done)
{
	if (!agent_hold_begin()) {
		agent_plan_refuse(plan, -ETIMEDOUT, done);
		return;
	}
	if (agent_hold_is_told())
		agent_plan_apply(plan, fd, done);
	else
		agent_plan_refuse(plan, -ETIMEDOUT, done);
	agent_hold_end();
}

static int answer_plan(const union message *message, int fd)
{
	struct calltap_msg_plan_done done;

	if (message->head.size != sizeof(message->plan) || fd < 0)
		return -EPROTO;
	if (message->plan.live == CALLTAP_PLAN_FRESH)
		apply_fresh(&message->plan, fd, &done);
	else
		agent_plan_apply(&message->plan, fd, &done);
	return agent_send(&done, sizeof(done));
}

static int take_arena(const union message *message, int fd)
{
	uint32_t set = message->arena.set, generation;
	int error;

	if (message->head.size != sizeof(message->arena) || fd < 0 || set >= PROBE_SETS)
		return -EPROTO;
	generation = set ? probe_context.wiped->sets[set].on : 0;
	if (set && !generation)
		return 0; /* the instance has ended meanwhile */
	error = agent_arena_add(set, generation, fd, message->arena.arena_size);
	if (error)
		agent_complain(error, "cannot map more buffers; some threads are not recorded");
	return 0; /* the rings that there are must do */
}

static int answer_switch(const struct calltap_msg_switch *change)
{
	struct calltap_msg_switch_done done;

	if (change->head.size < sizeof(*change) || change->count > CALLTAP_SWITCH_MAX ||
	    change->head.size != sizeof(*change) + change->count * sizeof(change->sites[0]))
		return -EPROTO;
	agent_sites_switch(change, &done);
	return agent_send(&done, sizeof(done));
}

static int take_pointers(const struct calltap_msg_pointers *pointers)
{
	int ret = 0;

	if (pointers->head.size < sizeof(*pointers) || pointers->count > CALLTAP_POINTERS_MAX ||
	    pointers->head.size != sizeof(*pointers) + pointers->count * sizeof(pointers->pointers[0]))
		return -EPROTO;
	if (!(pointers->flags & CALLTAP_POINTERS_FRESH))
		return agent_pointers_take(pointers);
	if (!agent_hold_begin())
		return 0; /* too late: the object is bound, or gone */
	if (agent_hold_is_told())
		ret = agent_pointers_take(pointers);
	agent_hold_end();
	return ret;
}

static int answer_apply(const struct calltap_msg_apply *apply)
{
	struct calltap_msg_apply_done done;

	if (apply->head.size < sizeof(*apply) || apply->count > CALLTAP_SKIPS_MAX ||
	    apply->head.size != sizeof(*apply) + apply->count * sizeof(apply->skips[0]))
		return -EPROTO;
	agent_apply(apply, &done);
	return agent_send(&done, sizeof(done));
}

static int answer_instance(const struct calltap_msg_instance *instance, int fd)
{
	struct calltap_msg_instance_done done;
	int ret = agent_instance_take(instance, fd, &done);

	return ret ? ret : agent_send(&done, sizeof(done));
}

/* Report the mapped objects: while a thread is held, so that nobody changes them, or while the program runs on. */
static int report_objects(void)
{
	int ret;

	if (!agent_hold_begin())
		return agent.attached ? agent_objects_send_live() : -ETIMEDOUT;
	if (!agent.dlhook_tried)
		agent_dlhook_install();
	agent.hold_told = __atomic_load_n(&agent.holds, __ATOMIC_SEQ_CST);
	ret = agent_objects_send();
	agent_hold_end();
	return ret;
}

static enum agent_goodbye goodbye_of(const struct calltap_msg_detach *detach)
{
	return detach->head.size == sizeof(*detach) && detach->flags & CALLTAP_DETACH_RELEASE ? AGENT_GOODBYE_RELEASE
											      : AGENT_GOODBYE;
}

static int carry_out(const union message *message, int fd, enum agent_goodbye *goodbye)
{
	switch (message->head.type) {
	case CALLTAP_MSG_PLAN:
		return answer_plan(message, fd);
	case CALLTAP_MSG_GO:
		if (fd >= 0)
			patch_poker_take(&agent.poker, fd);
		if (agent.calls_in || agent_hold_is_told())
			agent_ready();
		return 0;
	case CALLTAP_MSG_RESCAN:
		return report_objects();
	case CALLTAP_MSG_ARENA:
		return take_arena(message, fd);
	case CALLTAP_MSG_SWITCH:
		return answer_switch(&message->change);
	case CALLTAP_MSG_CLOCK:
		return answer_clock(&message->head);
	case CALLTAP_MSG_POINTERS:
		return take_pointers(&message->pointers);
	case CALLTAP_MSG_APPLY:
		return answer_apply(&message->apply);
	case CALLTAP_MSG_SET:
		return agent_set_take(&message->set);
	case CALLTAP_MSG_TABLES:
		return agent_tables_take(&message->tables, fd);
	case CALLTAP_MSG_TRIGGERS:
		return agent_triggers_take(&message->triggers, fd);
	case CALLTAP_MSG_HANDLERS:
		return agent_handlers_take(&message->handlers, fd);
	case CALLTAP_MSG_HANDLERS_WAIT:
		return agent_handlers_wait(&message->head);
	case CALLTAP_MSG_PROGRAMS:
		return agent_programs_take(&message->programs, fd);
	case CALLTAP_MSG_COUNTS:
		return agent_counts_take(&message->counts, fd);
	case CALLTAP_MSG_TIMES:
		return agent_times_take(&message->times, fd);
	case CALLTAP_MSG_INSTANCE:
		return answer_instance(&message->instance, fd);
	case CALLTAP_MSG_DETACH:
		*goodbye = goodbye_of(&message->detach);
		return -EPIPE;
	default: /* a tool that we do not understand */
		return -EPIPE;
	}
}

int agent_conversation_serve(enum agent_goodbye *goodbye)
{
	union message message = {0};
	int fd = -1, ret = agent_wait_message(0);

	if (!ret)
		ret = agent_receive(&message, sizeof(message), &fd, 1);
	if (!ret)
		ret = carry_out(&message, fd, goodbye);
	if (fd >= 0)
		sys_close(fd);
	return ret;
}

void agent_conversation_decline(int error, const char *what)
{
	if (agent_connect())
		return;
	if (!say_hello())
		agent_complain(error, what);
	sys_close(agent.socket);
}

int agent_conversation_begin(void)
{
	int ret = agent_connect();

	if (!ret)
		ret = say_hello();
	if (agent.is_successor)
		return ret;
	if (!ret && agent.forked)
		ret = agent_plans_tell();
	if (!ret && agent.attached)
		ret = agent_leftovers_release();
	if (!ret)
		ret = take_setup();
	if (!ret && !agent.forked)
		ret = report_objects();
	return ret;
}
