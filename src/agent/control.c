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

#define MESSAGE_MAX  512 /* from the tool */
#define OLD_FD_MAX   4096
#define WAIT_STEP_NS 100000000u

union message {
	struct calltap_msg head;
	struct calltap_msg_setup setup;
	struct calltap_msg_plan plan;
	struct calltap_msg_arena arena;
	char bytes[MESSAGE_MAX];
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

static int say_hello(void)
{
	struct calltap_msg_hello hello = {
		.head = {CALLTAP_MSG_HELLO, sizeof(hello)},
		.version = CALLTAP_ABI_VERSION,
		.flags = agent.forked ? CALLTAP_HELLO_FORKED : 0,
		.pid = (uint32_t)sys_getpid(),
		.tid = (uint32_t)sys_gettid(),
		.ppid = (uint32_t)SYS(getppid, 0, 0, 0, 0, 0, 0),
		.page_size = CALLTAP_PAGE,
		.ticks = arch_clock(),
		.image_id = agent.image_id,
	};

	return agent_send(&hello, sizeof(hello));
}

static int map_board(int fd)
{
	void *board = sys_mmap(NULL, CALLTAP_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (sys_failed((long)board))
		return -ENOMEM;
	probe_context.shared.board = board;
	return 0;
}

/* 1 = the tool wants nothing from this image. */
static int take_setup(void)
{
	union message message = {0};
	int fds[2] = {-1, -1}, ret;

	ret = agent_receive(&message, sizeof(message), fds, 2);
	if (!ret && (message.head.type != CALLTAP_MSG_SETUP || message.head.size != sizeof(message.setup)))
		ret = -EPROTO;
	if (!ret && message.setup.dormant)
		ret = 1;
	if (!ret)
		ret = map_board(fds[0]);
	if (!ret)
		ret = agent_arena_add(fds[1], message.setup.arena_size);
	for (unsigned i = 0; i < 2; i++)
		if (fds[i] >= 0)
			sys_close(fds[i]);
	if (ret)
		return ret;
	probe_context.shared.wait_max_ms = message.setup.wait_max_ms;
	probe_context.shared.reader_gone = 0;
	probe_context.threshold_ticks = message.setup.threshold_ticks;
	probe_context.depth_max = message.setup.depth_max;
	probe_context.tree_filter = message.setup.tree_filter;
	probe_context.wiped->pid = (uint32_t)sys_getpid();
	probe_context.wiped->alive = 1;
	__atomic_store_n(&probe_context.enabled, 1, __ATOMIC_RELEASE);
	return 0;
}

static int answer_plan(const union message *message, int fd)
{
	struct calltap_msg_plan_done done;

	if (message->head.size != sizeof(message->plan) || fd < 0)
		return -EPROTO;
	if (agent_hold_begin()) {
		agent_plan_apply(&message->plan, fd, &done);
		agent_hold_end();
	} else {
		agent_plan_refuse(&message->plan, -ETIMEDOUT, &done);
	}
	return agent_send(&done, sizeof(done));
}

/* What is mapped, while nobody can change it. */
static int report_objects(void)
{
	int ret;

	if (!agent_hold_begin())
		return -ETIMEDOUT;
	if (!agent.dlhook_tried)
		agent_dlhook_install();
	ret = agent_objects_send();
	agent_hold_end();
	return ret;
}

/* The number at the n-th field (from 1; the state is the 3rd) of /proc/PID/stat, whose text from the state on is given.
 */
static long stat_field(const char *state, int n)
{
	long value = 0;

	for (int field = 3; *state; state++) {
		field += *state == ' ';
		if (field == n && *state >= '0' && *state <= '9')
			value = value * 10 + *state - '0';
	}
	return value;
}

/*
 * A program may end by letting each thread call exit (not exit_group); then we
 * are the last one, and must not keep the process, nor change its exit status.
 */
static bool is_last_thread(int *status)
{
	char text[1024] = "", *state = NULL;
	long fd = SYS(openat, AT_FDCWD, "/proc/self/stat", O_RDONLY | O_CLOEXEC, 0, 0, 0), got;

	if (sys_failed(fd))
		return false;
	got = SYS(read, fd, text, sizeof(text) - 1, 0, 0, 0);
	sys_close((int)fd);
	for (long i = 0; i + 2 < got; i++)
		if (text[i] == ')')
			state = &text[i] + 2; /* the name may hold anything; the last one counts */
	if (!state || *state != 'Z')
		return false;
	text[got] = 0;
	*status = (int)(stat_field(state, 52) >> 8 & 0xff);
	return stat_field(state, 20) == 2; /* threads: the leader, gone but listed, and we */
}

/* Wait for a message; -EPIPE when nobody is left to serve. */
static int wait_message(void)
{
	struct pollfd poll = {.fd = agent.socket, .events = POLLIN};
	struct sys_timespec second = {1, 0};

	while (SYS(ppoll, &poll, 1, &second, NULL, 0, 0) == 0)
		if (is_last_thread(&agent.exit_status))
			return -EPIPE;
	return 0;
}

/* One message; 0 to go on, else the conversation is over. */
static int serve(void)
{
	union message message = {0};
	int fd = -1, ret;

	ret = wait_message();
	if (ret)
		return ret;
	ret = agent_receive(&message, sizeof(message), &fd, 1);
	if (ret)
		return ret;
	switch (message.head.type) {
	case CALLTAP_MSG_PLAN:
		ret = answer_plan(&message, fd);
		break;
	case CALLTAP_MSG_GO:
		ready();
		break;
	case CALLTAP_MSG_RESCAN:
		ret = report_objects();
		break;
	case CALLTAP_MSG_ARENA:
		if (message.head.size != sizeof(message.arena) || fd < 0)
			ret = -EPROTO;
		else if (agent_arena_add(fd, message.arena.arena_size))
			ret = 0; /* no memory for it: the rings that there are must do */
		break;
	default: /* DETACH, or a tool that we do not understand */
		ret = -EPIPE;
	}
	if (fd >= 0)
		sys_close(fd);
	return ret;
}

static int begin(void)
{
	int ret = agent_connect();

	if (!ret)
		ret = say_hello();
	if (!ret)
		ret = take_setup();
	if (!ret && !agent.forked)
		ret = report_objects();
	return ret;
}

static int control_main(void *unused)
{
	int ret;

	(void)unused;
	SYS(prctl, PR_SET_NAME, "calltap", 0, 0, 0, 0);
	close_copies();
	SYS(chdir, "/", 0, 0, 0, 0, 0); /* keeps no folder of the program's busy */
	agent.socket = -1;
	patch_poker_open(&agent.poker);
	ret = begin();
	if (!ret) {
		__atomic_store_n(&agent.live, 1, __ATOMIC_RELEASE);
		while (!serve())
			;
	}
	/* The tool has gone or wants us to: no more records, nobody waits, text as good as untraced. */
	__atomic_store_n(&agent.live, 0, __ATOMIC_RELEASE);
	__atomic_store_n(&probe_context.enabled, 0, __ATOMIC_SEQ_CST);
	__atomic_store_n(&probe_context.shared.reader_gone, 1, __ATOMIC_SEQ_CST);
	agent_wake_writers();
	ready();
	agent_sites_off();
	return agent.exit_status; /* the thread's end closes its descriptors */
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

void agent_control_start(void)
{
	/* No CLONE_FILES, no CLONE_FS: see the head of this file.  No CLONE_SETTLS: no thread-local storage is used. */
	const unsigned long flags = CLONE_VM | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM;
	uint32_t seen = agent.ready;
	long tid;

	if (!agent.stack) {
		void *stack =
			sys_mmap(NULL, AGENT_OWN_STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (sys_failed((long)stack))
			return;
		SYS(mprotect, stack, CALLTAP_PAGE, PROT_NONE, 0, 0, 0);
		agent.stack = stack;
	}
	agent.hold = AGENT_HELD;
	tid = arch_thread_start(flags, (char *)agent.stack + AGENT_OWN_STACK, control_main, NULL, NULL);
	if (sys_failed(tid))
		agent.hold = AGENT_FREE;
	else
		agent_wait_ready(seen, agent.forked ? AGENT_CHILD_MS : AGENT_READY_MS);
}
