/*
 * The control thread: the agent's conversation with the tool.
 *
 * A raw thread of the program with every signal blocked, and a descriptor
 * table and working directory of its own: the program never sees the agent's
 * descriptors, cannot close them, and its own are not kept open by us.  It touches no
 * thread-local storage (it shares its creator's).  Started by the constructor
 * and by a forked child's first record.  Context: control.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include <agent/agent.h>
#include <base/mem.h>
#include <base/sys.h>

#define OLD_FD_MAX   4096
#define PATH_BYTES   4096u
#define WAIT_STEP_NS 100000000u
#define LOOK_MIN_NS  5000000
#define LOOK_MAX_NS  999999999
#define AWAY_TICKS   (1ul << 33) /* longest wait for the control thread's end: seconds */
#define AWAY_STEP_NS 1000000u

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
	struct calltap_msg_instance instance;
	char bytes[CALLTAP_MSG_MAX];
};

/* What the tool's last word was. */
enum goodbye {
	GOODBYE_NONE,
	GOODBYE, /* DETACH */
	GOODBYE_RELEASE,
};

static void ready(void)
{
	__atomic_add_fetch(&agent.ready, 1, __ATOMIC_SEQ_CST);
	sys_futex_wake(&agent.ready);
}

/* The copies that came with our descriptor table would keep the program's pipes open. */
static void close_copies(void)
{
	if (!sys_failed(SYS(close_range, 0, ~0u, 0, 0, 0, 0)))
		return;
	for (int fd = 0; fd < OLD_FD_MAX; fd++)
		sys_close(fd);
}

static uint32_t hello_flags(void)
{
	if (agent.back)
		return CALLTAP_HELLO_BACK;
	if (agent.forked)
		return CALLTAP_HELLO_FORKED;
	if (!agent.attached)
		return 0;
	return CALLTAP_HELLO_ATTACHED | (agent_has_leftovers() ? CALLTAP_HELLO_LEFTOVERS : 0);
}

static int say_hello(void)
{
	bool is_known = agent.back || agent.forked;
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
			},
	};

	/* Of an emulated program the tool sees neither; a forked child has its parent's, and may not be allowed to
	 * look. */
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
	void *board = agent_map(fd, CALLTAP_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, F_SEAL_SHRINK);

	if (sys_failed((long)board))
		return (int)(long)board;
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
	probe_context.overwrites = setup->mode == CALLTAP_MODE_OVERWRITE;
	probe_context.timed = probe_wants_times();
	probe_context.wiped->pid = (uint32_t)sys_getpid();
	probe_context.wiped->alive = 1;
	__atomic_store_n(&probe_context.enabled, 1, __ATOMIC_RELEASE);
}

/* 1 = the tool wants nothing from this image. */
static int take_setup(void)
{
	union message message = {0};
	int fds[3] = {-1, -1, -1}, ret = agent.attached ? agent_wait_message(AGENT_READY_MS) : 0;

	if (!ret)
		ret = agent_receive(&message, sizeof(message), fds, 3);
	/* The tool may have to know how fast the clock is before it can say what it wants. */
	while (!ret && message.head.type == CALLTAP_MSG_CLOCK && fds[0] < 0) {
		ret = answer_clock(&message.head);
		if (!ret)
			ret = agent_receive(&message, sizeof(message), fds, 3);
	}
	agent.stat_fd = fds[2];
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

/*
 * Whoever may be held now, the tool has been told what is mapped since.  If not, what it says is an answer to an older
 * report: for an object that may be gone, or have threads in it; or the GO of somebody who waits no more, or never did.
 */
static bool is_told(void)
{
	return agent.hold_told == __atomic_load_n(&agent.holds, __ATOMIC_SEQ_CST);
}

static void apply_fresh(const struct calltap_msg_plan *plan, int fd, struct calltap_msg_plan_done *done)
{
	if (!agent_hold_begin()) {
		agent_plan_refuse(plan, -ETIMEDOUT, done);
		return;
	}
	if (is_told())
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
		return 0; /* its instance has ended meanwhile */
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
	if (is_told())
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

/* What is mapped, while nobody can change it; or while the program runs on, where nobody is held. */
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

/*
 * Wait for a message; -EPIPE when nobody is left to serve.  That is looked at
 * after 5 ms, then ever more rarely: a process that lived for a moment is not
 * kept for much longer, and one that stays is looked at each second.
 */
int agent_wait_message(uint64_t wait_ms)
{
	struct pollfd poll = {.fd = agent.socket, .events = POLLIN};
	uint64_t until = wait_ms ? sys_monotonic_ns() + wait_ms * 1000000 : ~(uint64_t)0;
	int64_t step = LOOK_MIN_NS;
	/* The call itself counts it down to nothing. */
	struct sys_timespec left = {0, step};

	while (SYS(ppoll, &poll, 1, &left, NULL, 0, 0) == 0 && !__atomic_load_n(&agent.leave, __ATOMIC_SEQ_CST)) {
		if (agent_threads_last(&agent.exit_status))
			return -EPIPE;
		if (wait_ms && sys_monotonic_ns() >= until)
			return -ETIMEDOUT;
		step = step < LOOK_MAX_NS / 2 ? step * 2 : LOOK_MAX_NS;
		left = (struct sys_timespec){0, step};
	}
	return agent.leave ? -ECANCELED : 0;
}

static enum goodbye goodbye_of(const struct calltap_msg_detach *detach)
{
	return detach->head.size == sizeof(*detach) && detach->flags & CALLTAP_DETACH_RELEASE ? GOODBYE_RELEASE
											      : GOODBYE;
}

static int take(const union message *message, int fd, enum goodbye *goodbye)
{
	switch (message->head.type) {
	case CALLTAP_MSG_PLAN:
		return answer_plan(message, fd);
	case CALLTAP_MSG_GO:
		if (is_told())
			ready();
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
	case CALLTAP_MSG_INSTANCE:
		return answer_instance(&message->instance, fd);
	case CALLTAP_MSG_DETACH:
		*goodbye = goodbye_of(&message->detach);
		return -EPIPE;
	default: /* a tool that we do not understand */
		return -EPIPE;
	}
}

/* One message; 0 to go on, else the conversation is over. */
static int serve(enum goodbye *goodbye)
{
	union message message = {0};
	int fd = -1, ret = agent_wait_message(0);

	if (!ret)
		ret = agent_receive(&message, sizeof(message), &fd, 1);
	if (!ret)
		ret = take(&message, fd, goodbye);
	if (fd >= 0)
		sys_close(fd);
	return ret;
}

/* The tool may live: a forked child still has the board of its parent. */
static void count_unreached(void)
{
	if (agent.forked)
		__atomic_add_fetch(&probe_context.shared.board->unreached, 1, __ATOMIC_RELAXED);
}

void agent_control_decline(int error, const char *what)
{
	if (agent_connect())
		return;
	if (!say_hello())
		agent_complain(error, what);
	sys_close(agent.socket);
}

static int begin(void)
{
	int ret = agent_connect();
	if (!ret)
		ret = say_hello();
	if (agent.back)
		return ret;
	if (!ret && agent.attached)
		ret = agent_leftovers_release();
	if (!ret)
		ret = take_setup();
	if (!ret && !agent.forked)
		ret = report_objects();
	if (ret < 0)
		count_unreached();
	return ret;
}

/* The complaint may fail as what led to it did; the note does not. */
static void break_off(int error)
{
	struct probe_wiped *wiped = probe_context.wiped;

	if (wiped && wiped->sets[0].arenas[0])
		__atomic_fetch_or(&wiped->sets[0].arenas[0]->notes, CALLTAP_NOTE_BROKEN, __ATOMIC_SEQ_CST);
	agent_complain(error, "could not go on with its session; the rest of it ran untraced");
}

/* An emulator says what it has to say on descriptor 2, whichever thread's that is: it must be none of ours. */
static void keep_standard(void)
{
	long fd;

	do
		fd = SYS(openat, AT_FDCWD, "/dev/null", O_RDWR | O_CLOEXEC, 0, 0, 0);
	while (!sys_failed(fd) && fd < 2);
}

/* No more records, nobody waits, text as good as untraced. */
static void let_text_go(struct calltap_msg_detached *detached)
{
	__atomic_store_n(&probe_context.enabled, 0, __ATOMIC_SEQ_CST);
	__atomic_store_n(&probe_context.shared.reader_gone, 1, __ATOMIC_SEQ_CST);
	agent_wake_writers();
	ready();
	agent_sites_restore(detached);
	agent_dlhook_remove();
	agent_handlers_end();
}

/*
 * The connection's other end is closed, and a tool that lives has not done that.  It reads no more then: a process
 * loses its memory before its descriptors.
 */
static bool tool_has_died(void)
{
	const struct calltap_arena *arena = probe_context.wiped->sets[0].arenas[0];
	struct pollfd poll = {.fd = agent.socket};
	struct sys_timespec now = {0, 0};

	return SYS(ppoll, &poll, 1, &now, NULL, 0, 0) == 1 && poll.revents & POLLHUP &&
	       !(__atomic_load_n(&arena->notes, __ATOMIC_SEQ_CST) & CALLTAP_NOTE_READ_ON);
}

/* Rings whose reader, the tool, has died.  In overwrite mode the rings are the history, which outlives the tool. */
static void let_rings_go(void)
{
	if (agent.keep || agent.files || agent.tables || agent.emulated || agent.no_giving ||
	    agent.leave != AGENT_STAY || probe_context.shared.quiet)
		return;
	if (tool_has_died())
		agent_rings_empty();
}

/* In a process that ran already. */
static void prepare_attached(void)
{
	struct calltap_msg_detached detached;

	agent_attach_settle();
	patch_sync_prepare();
	/* A forked child's, or of a recording that went on without its tool. */
	if (agent.sites_count || agent.dlhook_count)
		let_text_go(&detached);
}

/* The tool has gone or wants us to. */
static void end_session(enum goodbye goodbye)
{
	struct calltap_msg_detached detached;

	agent_instances_end();
	if (agent.keep && goodbye == GOODBYE_NONE && agent.leave == AGENT_STAY) {
		__atomic_store_n(&probe_context.shared.reader_gone, 1, __ATOMIC_SEQ_CST);
		ready();
		agent_handlers_end(); /* nobody is left who could take one back */
		return;
	}
	/* The tool reads on: a thread that waits for room gets it, and its record is not lost. */
	if (goodbye != GOODBYE_NONE) {
		__atomic_store_n(&probe_context.enabled, 0, __ATOMIC_SEQ_CST);
		agent_await_writers();
	}
	let_text_go(&detached);
	if (!agent_send(&detached, sizeof(detached)) && goodbye == GOODBYE_RELEASE)
		agent_release_wait();
}

static int control_main(void *own_files)
{
	enum goodbye goodbye = GOODBYE_NONE;
	bool served;
	int ret;

	SYS(prctl, PR_SET_NAME, "calltap", 0, 0, 0, 0);
	__atomic_store_n(&agent.attaching, 0, __ATOMIC_RELEASE); /* pairs with calltap_agent_attach(); we have our id */
	if (!own_files && sys_failed(SYS(unshare, CLONE_FILES | CLONE_FS, 0, 0, 0, 0, 0))) {
		count_unreached();
		ready();
		return 0;
	}
	close_copies();
	if (!own_files)
		keep_standard();
	SYS(chdir, "/", 0, 0, 0, 0, 0); /* keeps no folder of the program's busy */
	agent.socket = -1;
	agent.stat_fd = -1;
	patch_poker_open(&agent.poker);
	if (agent.attached)
		prepare_attached();
	ret = begin();
	served = !ret;
	if (served) {
		__atomic_store_n(&agent.live, 1, __ATOMIC_RELEASE);
		do
			ret = serve(&goodbye);
		while (!ret);
	}
	__atomic_store_n(&agent.live, 0, __ATOMIC_RELEASE);
	/* Away for a while, or back in vain: recording goes on, and the tool looks at the rings by itself. */
	if (agent.leave == AGENT_AWAY || (agent.back && !served)) {
		ready();
		return 0;
	}
	if (ret == -ECANCELED)
		agent_complain(0, "gives up reading the clock; the rest of it runs untraced");
	else if (ret < 0 && ret != -EPIPE)
		break_off(ret);
	end_session(goodbye);
	if (served && goodbye == GOODBYE_NONE)
		let_rings_go();
	return agent.exit_status; /* the thread's end closes its descriptors */
}

void agent_hold_start(void)
{
	/* In this order: who finds it held knows which one it is. */
	__atomic_add_fetch(&agent.holds, 1, __ATOMIC_SEQ_CST);
	__atomic_store_n(&agent.hold, AGENT_HELD, __ATOMIC_SEQ_CST);
}

bool agent_hold_begin(void)
{
	uint32_t held = AGENT_HELD;

	return __atomic_compare_exchange_n(&agent.hold, &held, AGENT_BUSY, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}

void agent_hold_end(void)
{
	__atomic_store_n(&agent.hold, AGENT_HELD, __ATOMIC_SEQ_CST);
	sys_futex_wake(&agent.hold);
}

static void let_go(void)
{
	for (;;) {
		uint32_t hold = AGENT_HELD;

		if (__atomic_compare_exchange_n(&agent.hold, &hold, AGENT_FREE, false, __ATOMIC_SEQ_CST,
						__ATOMIC_SEQ_CST) ||
		    hold == AGENT_FREE)
			return;
		sys_futex_wait(&agent.hold, AGENT_BUSY, WAIT_STEP_NS);
	}
}

void agent_wait_ready(uint32_t seen, uint32_t bound_ms)
{
	uint64_t until = sys_monotonic_ns() + bound_ms * 1000000ull;

	while (__atomic_load_n(&agent.ready, __ATOMIC_ACQUIRE) == seen && sys_monotonic_ns() < until)
		sys_futex_wait(&agent.ready, seen, WAIT_STEP_NS);
	let_go();
}

/* Its tid, or -errno. */
static long start_thread(void)
{
	/* No CLONE_FILES, no CLONE_FS: see the head of this file.  No CLONE_SETTLS: no thread-local storage is used. */
	const unsigned long flags =
		CLONE_VM | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM | CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID;
	void *stack_top = (char *)agent.stack + AGENT_OWN_STACK;
	int *tid_word = (int *)&agent.control_tid;
	long tid = arch_thread_start(flags, stack_top, control_main, &agent, tid_word);

	/* An emulator may know no threads but pthread_create()'s: the new one parts from the others by itself. */
	if (tid == -EINVAL)
		tid = arch_thread_start(flags | CLONE_FILES | CLONE_FS, stack_top, control_main, NULL, tid_word);
	return tid;
}

static long launch(enum agent_hold hold)
{
	if (!agent.stack) {
		void *stack =
			sys_mmap(NULL, AGENT_OWN_STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (sys_failed((long)stack))
			return -ENOMEM;
		SYS(mprotect, stack, CALLTAP_PAGE, PROT_NONE, 0, 0, 0);
		agent.stack = stack;
	}
	agent.hold = hold;
	agent.hold_told = agent.holds;
	agent.text = AGENT_TEXT_FREE; /* a forked child has none of the threads that may have had it */
	probe_context.wiped->served = 1;
	return start_thread();
}

long agent_control_launch(void)
{
	return launch(AGENT_FREE);
}

void agent_control_start(void)
{
	uint32_t seen = agent.ready;
	long tid;

	if (agent.forked && agent.emulated & CALLTAP_EMULATED_NO_FORKS) {
		count_unreached();
		return;
	}
	tid = launch(AGENT_HELD);
	if (sys_failed(tid)) {
		agent.hold = AGENT_FREE;
		count_unreached();
		return;
	}
	agent_wait_ready(seen, agent.forked || agent.back ? AGENT_CHILD_MS : AGENT_READY_MS);
	if (__atomic_load_n(&agent.ready, __ATOMIC_ACQUIRE) == seen)
		count_unreached(); /* not in time: its first calls, at the least, are missing */
}

bool agent_control_leave(enum agent_leave how, bool calls)
{
	struct calltap_arena *arena = probe_context.wiped->sets[0].arenas[0];
	uint64_t start = arch_clock();
	uint32_t tid;

	/* Of two threads that want it, one does it and starts the next: there is one stack for it. */
	if (!__atomic_load_n(&agent.live, __ATOMIC_ACQUIRE) || __atomic_exchange_n(&agent.sending, 1, __ATOMIC_ACQ_REL))
		return false;
	/* Said before its connection ends. */
	__atomic_fetch_or(&arena->notes, how == AGENT_AWAY ? CALLTAP_NOTE_ALONE : CALLTAP_NOTE_END, __ATOMIC_SEQ_CST);
	__atomic_store_n(&agent.leave, how, __ATOMIC_SEQ_CST);
	/* The tool's answer makes it look; else it does by itself within a second. */
	__atomic_add_fetch(&arena->request, 1, __ATOMIC_SEQ_CST);
	if (calls)
		ring_bell(probe_context.shared.board);
	for (tid = agent.control_tid; __atomic_load_n(&agent.control_tid, __ATOMIC_ACQUIRE);) {
		if (arch_clock() - start > AWAY_TICKS) {
			agent.leave = AGENT_STAY;
			__atomic_store_n(&agent.sending, 0, __ATOMIC_RELEASE);
			return false;
		}
		if (calls)
			sys_futex_wait(&agent.control_tid, tid, AWAY_STEP_NS);
		else
			arch_pause();
	}
	/* The word is cleared a little before the kernel counts it out. */
	while (calls && !sys_failed(SYS(tgkill, sys_getpid(), tid, 0, 0, 0, 0)) && arch_clock() - start < AWAY_TICKS)
		sys_futex_wait(&agent.control_tid, 0, AWAY_STEP_NS / 10);
	return true;
}

void agent_control_back(void)
{
	uint64_t signals;

	/* Under a filter that forbids its calls there can be none: recording goes on without. */
	if (agent.no_children || !probe_calls_begin(&signals))
		return;
	agent.leave = AGENT_STAY;
	agent.back = 1;
	agent_control_start();
	__atomic_store_n(&agent.sending, 0, __ATOMIC_RELEASE);
	probe_calls_end(&signals);
}
