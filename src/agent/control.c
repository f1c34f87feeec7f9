/*
 * The control thread, which talks with the tool (conversation.c).
 *
 * The control thread is a raw thread of the program with every signal blocked, and a descriptor table and working
 * directory of its own: the program never sees the agent's descriptors, cannot close them, and the control thread keeps
 * none of the program's open.  It touches no thread-local storage (it shares its creator's).  The constructor starts
 * it, a forked child's first record, and calltap_agent_attach().  Context: control.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include <agent/agent.h>
#include <base/sys.h>

#define OLD_FD_MAX   4096
#define LEFT_STEP_NS 1000000
/* The longest wait for the control thread, which may have much text to write; and one without asking for the time. */
#define AWAY_NS	     20000000000u
#define AWAY_TICKS   (1ul << 33)
#define END_NS	     1000000000u
#define AWAY_STEP_NS 1000000u

/* Close the copies in the thread's new descriptor table, which would keep the program's pipes open. */
static void close_copies(void)
{
	if (!sys_failed(SYS(close_range, 0, ~0u, 0, 0, 0, 0)))
		return;
	for (int fd = 0; fd < OLD_FD_MAX; fd++)
		sys_close(fd);
}

/*
 * Open descriptors 0 to 2: an emulator writes its messages to descriptor 2 of any thread, which must be none of the
 * agent's.
 */
static void keep_standard(void)
{
	long fd;

	do
		fd = SYS(openat, AT_FDCWD, "/dev/null", O_RDWR | O_CLOEXEC, 0, 0, 0);
	while (!sys_failed(fd) && fd < 2);
}

/*
 * Count that this process could not reach the tool, which may live: a forked child still has the board of its parent.
 */
static void count_unreached(void)
{
	if (agent.forked)
		__atomic_add_fetch(&probe_context.shared.board->unreached, 1, __ATOMIC_RELAXED);
}

/* Wait, bounded, until the thread that brought the agent in is on its own stack again, and unmap what it lent. */
static void settle_borrowed(void)
{
	struct calltap_attach *borrowed = agent.borrowed;
	const struct sys_timespec step = {0, LEFT_STEP_NS};

	agent.borrowed = NULL;
	if (!borrowed)
		return;
	for (unsigned i = 0; i < AGENT_LEFT_MS; i++) {
		if (__atomic_load_n(&borrowed->left, __ATOMIC_ACQUIRE)) { /* pairs with the thread's last store */
			sys_munmap((void *)borrowed->memory, borrowed->memory_size);
			return;
		}
		SYS(nanosleep, &step, NULL, 0, 0, 0, 0);
	}
}

/* Steps before the conversation in a process that ran already when the tool came. */
static void prepare_attached(void)
{
	struct calltap_msg_detached detached;

	settle_borrowed();
	patch_sync_prepare();
	/* A forked child has its parent's sites; and a recording may have gone on without its tool. */
	if (agent.sites_count || agent.dlhook_count)
		agent_session_clear(&detached);
}

/* Returns once the conversation is over, if there was one. */
static void control(bool own_files)
{
	enum agent_goodbye goodbye = AGENT_GOODBYE_NONE;
	bool served;
	int ret;

	SYS(prctl, PR_SET_NAME, "calltap", 0, 0, 0, 0);
	__atomic_store_n(&agent.attaching, 0, __ATOMIC_RELEASE); /* pairs with calltap_agent_attach() */
	if (!own_files && sys_failed(SYS(unshare, CLONE_FILES | CLONE_FS, 0, 0, 0, 0, 0))) {
		count_unreached();
		agent_ready();
		return;
	}
	close_copies();
	if (!own_files)
		keep_standard();
	agent.own_numbers = !own_files;
	SYS(chdir, "/", 0, 0, 0, 0, 0); /* so that the agent keeps no folder of the program's busy */
	agent.socket = -1;
	agent.stat_fd = -1;
	patch_poker_open(&agent.poker);
	agent_plan_settle();
	/* A thread that comes back after AGENT_AWAY finds its own session's sites, which stay on. */
	if (agent.attached && !agent.is_successor)
		prepare_attached();
	else if (agent.calls_in)
		settle_borrowed();
	ret = agent_conversation_begin();
	served = !ret;
	if (ret < 0 && !agent.is_successor)
		count_unreached();
	if (served) {
		agent_times_follow(true);
		__atomic_store_n(&agent.live, 1, __ATOMIC_RELEASE);
		do
			ret = agent_conversation_serve(&goodbye);
		while (!ret);
	}
	__atomic_store_n(&agent.live, 0, __ATOMIC_RELEASE);
	/*
	 * The control thread leaves for a while, or its successor found no tool: recording goes on, and the tool looks
	 * at the rings by itself.
	 */
	if (agent.leave == AGENT_AWAY || (agent.is_successor && !served)) {
		agent_times_follow(false);
		agent_ready();
		return;
	}
	agent_session_end(ret, goodbye, served);
}

/*
 * The thread's end closes its descriptors.  If all others have ended meanwhile, its status is the process': the one
 * that the initial thread has left.
 */
static int control_main(void *own_files)
{
	control(own_files);
	(void)!agent_threads_last(&agent.exit_status);
	return agent.exit_status;
}

/*
 * CLONE_UNTRACED, by which a tracer with PTRACE_O_TRACECLONE gets no event of the thread; or 0.  A debugger gets one:
 * it stops all threads while it changes text, and the control thread changes text, too.  A tracer whose own forked
 * child this is gets none: it counts the child's stops, and expects no thread.
 */
static unsigned long untraced(void)
{
	uint32_t tracer = agent_tracer();

	return !tracer || (agent.forked && tracer == (uint32_t)SYS(getppid, 0, 0, 0, 0, 0, 0)) ? CLONE_UNTRACED : 0;
}

/* Returns the control thread's tid, or -errno. */
static long start_thread(void)
{
	/*
	 * No CLONE_FILES, no CLONE_FS: see the head of this file.  No CLONE_SETTLS: no thread-local storage is used.
	 * No CLONE_SYSVSEM: a list of semaphores is made with it, by which processes can be told apart.
	 */
	const unsigned long flags = CLONE_VM | CLONE_SIGHAND | CLONE_THREAD | CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID;
	void *stack_top = (char *)agent.stack + AGENT_OWN_STACK;
	int *tid_word = (int *)&agent.control_tid;
	long tid = arch_thread_start(flags | untraced(), stack_top, control_main, &agent, tid_word);

	/* An emulator may know no threads but pthread_create()'s: the new thread parts from the others by itself. */
	if (tid == -EINVAL)
		tid = arch_thread_start(flags | CLONE_SYSVSEM | CLONE_FILES | CLONE_FS, stack_top, control_main, NULL,
					tid_word);
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
	agent.text = AGENT_TEXT_FREE; /* a forked child has none of the threads that may have had the lock */
	probe_context.wiped->served = 1;
	return start_thread();
}

long agent_control_launch(void)
{
	return launch(AGENT_FREE);
}

/* Wait until the control thread talks with a tool, or has ended. */
static void await_live_or_end(uint64_t for_ns)
{
	uint64_t until = sys_monotonic_ns() + for_ns;
	uint32_t tid;

	while ((tid = __atomic_load_n(&agent.control_tid, __ATOMIC_ACQUIRE)) &&
	       !__atomic_load_n(&agent.live, __ATOMIC_ACQUIRE) && sys_monotonic_ns() < until)
		sys_futex_wait(&agent.control_tid, tid, AWAY_STEP_NS);
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
	agent_wait_ready(seen, agent.forked || agent.is_successor ? AGENT_CHILD_MS : AGENT_READY_MS);
	if (__atomic_load_n(&agent.ready, __ATOMIC_ACQUIRE) == seen)
		count_unreached(); /* not ready in time: at least the process's first calls are missing */
	else
		/*
		 * A control thread that has nobody to talk to ends.  It does so before the program goes on, which may
		 * end itself in the next moment, by the system call exit(): the status of the thread that ends last is
		 * the process'.
		 */
		await_live_or_end(END_NS);
}

void agent_control_settle(void)
{
	/* A forked child that has started no control thread has its parent's words. */
	if (probe_context.wiped && probe_context.wiped->served)
		await_live_or_end(AWAY_NS);
}

bool agent_control_leave(enum agent_leave how, bool calls)
{
	struct calltap_arena *arena = probe_context.wiped->sets[0].arenas[0];
	uint64_t start = arch_clock(), until = calls ? sys_monotonic_ns() + AWAY_NS : 0;
	uint32_t tid;

	/*
	 * Two threads may come here at once: only one of them sends, and starts the next control thread, for there is
	 * one stack.
	 */
	if (!__atomic_load_n(&agent.live, __ATOMIC_ACQUIRE) || __atomic_exchange_n(&agent.sending, 1, __ATOMIC_ACQ_REL))
		return false;
	/* The note is set before the connection ends. */
	__atomic_fetch_or(&arena->notes, how == AGENT_AWAY ? CALLTAP_NOTE_ALONE : CALLTAP_NOTE_END, __ATOMIC_SEQ_CST);
	__atomic_store_n(&agent.leave, how, __ATOMIC_SEQ_CST);
	/* The tool's answer wakes the control thread; without one it looks by itself within a second. */
	__atomic_add_fetch(&arena->request, 1, __ATOMIC_SEQ_CST);
	if (calls)
		ring_bell(probe_context.shared.board);
	for (tid = agent.control_tid; __atomic_load_n(&agent.control_tid, __ATOMIC_ACQUIRE);) {
		if (calls ? sys_monotonic_ns() > until : arch_clock() - start > AWAY_TICKS) {
			agent.leave = AGENT_STAY;
			__atomic_store_n(&agent.sending, 0, __ATOMIC_RELEASE);
			return false;
		}
		if (calls)
			sys_futex_wait(&agent.control_tid, tid, AWAY_STEP_NS);
		else
			arch_pause();
	}
	/* The kernel clears the word a little before it counts the thread out. */
	while (calls && !sys_failed(SYS(tgkill, sys_getpid(), tid, 0, 0, 0, 0)) && sys_monotonic_ns() < until)
		sys_futex_wait(&agent.control_tid, 0, AWAY_STEP_NS / 10);
	return true;
}

void agent_control_back(void)
{
	uint64_t signals;

	/*
	 * Under a filter that forbids the control thread's calls there can be no control thread: recording goes on
	 * without one.
	 */
	if (agent.no_children || !probe_calls_begin(&signals))
		return;
	agent.leave = AGENT_STAY;
	agent.is_successor = 1;
	agent_control_start();
	__atomic_store_n(&agent.sending, 0, __ATOMIC_RELEASE);
	probe_calls_end(&signals);
}
