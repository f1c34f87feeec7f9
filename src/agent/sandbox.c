/*
 * Programs that shut themselves in: seccomp, by prctl() or the system call.
 *
 * A thread under a filter may be killed for a call that the program never makes and a probe does.  So the agent stands
 * in front of the ways in, and tries the filter on its own calls.  If the filter would not let one pass, the agent sees
 * to it that no probe makes any: `quiet` (probe/thread.h). doc/design/control.md has the argument.  Context: control,
 * on the program's thread.
 */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/uio.h>

#include <agent/agent.h>
#include <agent/bpf.h>
#include <agent/sandbox.h>
#include <base/mem.h>
#include <base/sys.h>
#include <probe/frames.h>
#include <probe/program.h>

#define PROGRAM_MAX   4096	  /* instructions: BPF_MAXINSNS */
#define QUIET_TICKS   (1ul << 33) /* longest wait for other threads' calls: seconds */
#define QUIET_STEP_NS 100000
#define STACK_AHEAD   (64ul << 20)
#define STACK_USUAL   (8ul << 20)
#define STACKS_MAX    16	     /* stacks that a thread came by, one after the other */
#define ANY	      0x5a5a5a5a5000 /* any address */

struct call {
	int number;
	uint64_t arguments[6];
};

/* Calls of the probes' slow paths. */
static const struct call probe_calls[] = {
	{SYS_rt_sigprocmask, {0, ANY, ANY, 8}},
	{SYS_rt_sigprocmask, {2, ANY, 0, 8}},
	{SYS_rt_sigprocmask, {SYS_NO_MASK_CHANGE, ANY, 0, 8}},
	{SYS_futex, {ANY, 0, 1, ANY}},
	{SYS_futex, {ANY, 1, 0x7fffffff}},
	{SYS_mmap, {ANY, 1 << 20, 3, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, ~0ul}},
	{SYS_mmap, {0, 1 << 20, 3, MAP_PRIVATE | MAP_ANONYMOUS, ~0ul}},
	{SYS_munmap, {ANY, 1 << 20}},
	{SYS_madvise, {ANY, 1 << 20, MADV_NOHUGEPAGE}},
	{SYS_gettid, {0}},
	{SYS_getpid, {0}},
	{SYS_tgkill, {1000, 1000, 0}},
	{SYS_prctl, {16 /* PR_GET_NAME */, ANY}},
	{SYS_clock_gettime, {1, ANY}},
};

/* Calls of the control thread, and of a forked child that starts one. */
static const struct call control_calls[] = {
	{SYS_clone, {CLONE_VM | CLONE_SIGHAND | CLONE_THREAD, ANY}},
	{SYS_clone, {CLONE_VM | CLONE_SIGHAND | CLONE_THREAD | CLONE_UNTRACED, ANY}},
	{SYS_prctl, {15 /* PR_SET_NAME */, ANY}},
	{SYS_close_range, {0, ~0u}},
	{SYS_close, {3}},
	{SYS_chdir, {ANY}},
	{SYS_openat, {(uint64_t)-100, ANY, 02000000}},
	{SYS_openat, {(uint64_t)-100, ANY, 02000002}},
	{SYS_read, {3, ANY, 1000}},
	{SYS_pwrite64, {3, ANY, 5, ANY}},
	{SYS_pread64, {3, ANY, 1000, 0}},
	{SYS_socket, {1, 5 | 02000000, 0}},
	{SYS_setsockopt, {3, 1, 21, ANY, 16}},
	{SYS_getsockopt, {3, 1, 17, ANY, ANY}},
	{SYS_connect, {3, ANY, 50}},
	{SYS_sendto, {3, ANY, 100, 0x4000}},
	{SYS_recvmsg, {3, ANY, 0x40000000}},
	{SYS_ppoll, {ANY, 1, ANY}},
	{SYS_getppid, {0}},
	{SYS_geteuid, {0}},
	{SYS_fcntl, {3, 1034}},
	{SYS_lseek, {3, 0, 2}},
	{SYS_mmap, {0, 1 << 20, 3, MAP_SHARED | MAP_NORESERVE, 3}},
	{SYS_mmap, {0, 1 << 20, 1, MAP_PRIVATE | MAP_POPULATE, 3}},
	{SYS_mprotect, {ANY, 4096, 5}},
	{SYS_membarrier, {1 << 5}},
	/* When it lets go of the process, or its tool has died, too: */
	{SYS_process_vm_readv, {1000, ANY, 1, ANY, 1, 0}},
	{SYS_process_vm_writev, {1000, ANY, 1, ANY, 1, 0}},
	{SYS_rt_sigprocmask, {0, ANY, ANY, 8}},
	{SYS_futex, {ANY, 0, 1, ANY}},
	{SYS_futex, {ANY, 1, 0x7fffffff}},
	{SYS_munmap, {ANY, 1 << 20}},
	{SYS_madvise, {ANY, 4096, MADV_DONTNEED}},
	{SYS_madvise, {ANY, 1 << 20, MADV_DONTDUMP}},
	{SYS_mincore, {ANY, 4096, ANY}},
	{SYS_fstat, {3, ANY}},
	{SYS_fstatfs, {3, ANY}},
	{SYS_nanosleep, {ANY, 0}},
	{SYS_clock_gettime, {1, ANY}},
	{SYS_gettid, {0}},
	{SYS_getpid, {0}},
	{SYS_tgkill, {1000, 1000, 0}},
	{SYS_prlimit64, {0, 3, 0, ANY}},
	{SYS_exit, {0}},
	ARCH_CONTROL_CALL,
};

/* Calls of the control thread where functions are handled: for the program's own handlers, or for further instances. */
static const struct call handled_calls[] = {
	{SYS_rt_sigaction, {11 /* SIGSEGV */, ANY, 0, 8}},
	{SYS_rt_sigaction, {11, 0, ANY, 8}},
	{SYS_fstat, {3, ANY}},
	{SYS_mmap, {0, 32 << 20, 1, MAP_SHARED | MAP_NORESERVE, 3}},
	{SYS_tgkill, {1000, 1000, 0}},
	{SYS_futex, {ANY, 0, 0, ANY}},
	{SYS_process_vm_readv, {1000, ANY, 1, ANY, 1, 0}},
	{SYS_munmap, {ANY, 64 << 20}},
};

/* Calls of the control thread when its tool has died. */
static const struct call giving_calls[] = {
	{SYS_madvise, {ANY, 1 << 20, MADV_REMOVE}},
};

/* Calls that a probe can do without: what they tell is not known then (cpu_now(), handles_traps()). */
static const struct call spare_calls[] = {
	{SYS_getcpu, {ANY, 0, 0}},
	{SYS_rt_sigaction, {5 /* SIGTRAP */, 0, ANY, 8}},
};

/* Calls that reading a filter takes. */
static const struct call look_calls[] = {
	{SYS_process_vm_readv, {1000, ANY, 1, ANY, 1, 0}},
	{SYS_prlimit64, {0, 3, 0, ANY}},
};

static bool allows(const struct sock_filter *steps, uint32_t count, int number, const uint64_t arguments[6])
{
	struct seccomp_data data = {
		.nr = number,
		.arch = ARCH_AUDIT,
		.instruction_pointer = (uint64_t)bpf_answer,
	};
	uint32_t action;

	memcpy(data.args, arguments, sizeof(data.args));
	action = bpf_answer(steps, count, &data) & SECCOMP_RET_ACTION_FULL;
	return action == SECCOMP_RET_ALLOW || action == SECCOMP_RET_LOG;
}

static bool allows_all(const struct sock_fprog *program, const struct call *calls, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (!allows(program->filter, program->len, calls[i].number, calls[i].arguments))
			return false;
	return true;
}

#define ALLOWS(program, calls) allows_all(program, calls, sizeof(calls) / sizeof((calls)[0]))

/* Copy from the program's memory.  False: it is not there; the kernel will tell the program. */
static bool copy_in(void *to, const void *from, size_t size)
{
	struct iovec here = {to, size}, there = {(void *)from, size};
	long got = SYS(process_vm_readv, sys_gettid(), &here, 1, &there, 1, 0);

	if (sys_failed(got) && got != -EFAULT) { /* containers may refuse this call */
		memcpy(to, from, size);
		return true;
	}
	return got == (long)size;
}

/* Find out which calls the filter lets pass.  False: the kernel will not take the filter. */
static bool judge(struct agent_shut *shut, const void *program)
{
	const size_t size = PROGRAM_MAX * sizeof(struct sock_filter);
	struct sock_filter *steps;
	struct sock_fprog copy;
	bool read;

	if (!copy_in(&copy, program, sizeof(copy)) || !copy.len || copy.len > PROGRAM_MAX)
		return false;
	steps = sys_mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (sys_failed((long)steps))
		return true; /* the filter's verdicts are not known */
	read = copy_in(steps, copy.filter, copy.len * sizeof(*steps));
	copy.filter = steps;
	if (read) {
		shut->probe_calls = ALLOWS(&copy, probe_calls);
		shut->spare_calls = ALLOWS(&copy, spare_calls);
		shut->handled_calls = ALLOWS(&copy, handled_calls);
		shut->control_calls = ALLOWS(&copy, control_calls) && (!probe_context.handled || shut->handled_calls);
		shut->giving_calls = ALLOWS(&copy, giving_calls);
		shut->look_calls = ALLOWS(&copy, look_calls);
	}
	sys_munmap(steps, size);
	return read;
}

/* Make what cannot be made later: the mirror of this thread's stack as far as it may grow, and its ring. */
static void provide(void)
{
	struct probe_thread *thread = probe_self();
	uint64_t here = (uint64_t)__builtin_frame_address(0), limit[2] = {0, 0}, size;

	if (!probe_thread_attach(thread) || !probe_stack_settle(thread, here))
		return; /* no ring for the thread, or no memory: its calls are counted as untraced */
	if (agent.blind || sys_failed(SYS(prlimit64, 0, 3 /* RLIMIT_STACK */, 0, limit, 0, 0)))
		limit[0] = STACK_USUAL;
	size = limit[0] < STACK_AHEAD ? limit[0] : STACK_AHEAD;
	for (uint64_t back = size >> GRANULE_BITS; back > 0; back--)
		if (!probe_mirror_cover(thread, here - (back << GRANULE_BITS)))
			break;
	if (!probe_mirror_cover(thread, here))
		return;
}

/* Wait for threads that are in a probe's system call. */
static void await_calls(void)
{
	uint64_t start = arch_clock();
	int32_t *calling = &probe_context.wiped->calling, others;

	while ((others = __atomic_load_n(calling, __ATOMIC_SEQ_CST)) > 0 && arch_clock() - start < QUIET_TICKS)
		sys_futex_wait((uint32_t *)calling, (uint32_t)others, QUIET_STEP_NS);
}

/* From here on no probe makes a system call; threads that are in one finish first. */
static void be_quiet(void)
{
	provide();
	__atomic_add_fetch(&probe_context.shared.quiet, 1, __ATOMIC_SEQ_CST); /* pairs with probe_calls_begin() */
	await_calls();
}

/* From here on no program reads memory by the system call that looking at filters takes, too. */
static void be_blind(void)
{
	probe_program_blind(true);
	await_calls();
}

/* From here on no probe makes calls that it can do without. */
static void be_frugal(void)
{
	__atomic_add_fetch(&probe_context.shared.frugal, 1, __ATOMIC_SEQ_CST); /* pairs with cpu_now() */
	await_calls();
}

/* True if the process records.  A forked child that has not recorded yet can do so only if it begins now. */
static bool is_at_work(void)
{
	uint64_t signals;

	if (!probe_context.enabled || !probe_context.wiped)
		return false;
	if (!probe_context.wiped->alive && probe_calls_begin(&signals)) {
		probe_context.on_new_process();
		probe_calls_end(&signals);
	}
	return probe_context.enabled && probe_context.wiped->alive;
}

void agent_shut_begin(struct agent_shut *shut, const void *program, bool all_threads)
{
	bool at_work = is_at_work();

	*shut = (struct agent_shut){0};
	if (all_threads && !probe_context.shared.quiet) {
		agent_control_settle();
		at_work = at_work && is_at_work();
	}
	if (!at_work)
		return;
	if (probe_context.shared.quiet) {
		/*
		 * In a sandbox already.  The control thread comes into it only if all threads do, and cannot be woken.
		 */
		shut->away = all_threads && agent_control_leave(AGENT_AWAY, false);
		return;
	}
	/* vfork's child runs in its parent's memory, but not for long and not under its parent's id. */
	if ((uint32_t)sys_getpid() != probe_context.wiped->pid)
		return;
	if (!program)
		shut->giving_calls = shut->handled_calls = true; /* the control thread makes these */
	else if (!agent.blind && !judge(shut, program))
		return;
	shut->entered = true;
	shut->filters = program != NULL;
	shut->all_threads = all_threads;
	probe_context.locks = 0; /* memory stays as it is mapped: nobody has asked about the calls that change that */
	if (!shut->look_calls)
		be_blind();
	if (!shut->spare_calls)
		be_frugal();
	if (!shut->probe_calls)
		be_quiet();
	if (all_threads && !shut->control_calls) {
		shut->away = agent_control_leave(AGENT_AWAY, true);
		if (!shut->away)
			agent_control_settle(); /* its tool has died meanwhile */
	}
}

void agent_shut_end(const struct agent_shut *shut, bool done)
{
	uint32_t told = shut->filters ? CALLTAP_NOTE_FILTER : 0;

	if (!done) {
		if (shut->entered && !shut->probe_calls)
			__atomic_sub_fetch(&probe_context.shared.quiet, 1, __ATOMIC_SEQ_CST);
		if (shut->entered && !shut->spare_calls)
			__atomic_sub_fetch(&probe_context.shared.frugal, 1, __ATOMIC_SEQ_CST);
		if (shut->entered && !shut->look_calls)
			probe_program_blind(agent.blind);
		if (shut->away)
			agent_control_back();
		return;
	}
	if (shut->entered && !shut->probe_calls)
		told |= CALLTAP_NOTE_QUIET;
	if (shut->entered && !shut->control_calls) {
		agent.no_children = 1;
		told |= CALLTAP_NOTE_NO_CHILDREN;
	}
	if (shut->entered && !shut->giving_calls)
		agent.no_giving = 1;
	if (shut->entered && !shut->look_calls)
		agent.blind = 1;
	if (shut->entered && !shut->handled_calls)
		*(shut->all_threads ? &agent.no_handled : &agent.no_handled_children) = 1;
	/* The tool may have let go of the process meanwhile. */
	if (shut->entered && probe_context.wiped->sets[0].arenas[0])
		__atomic_fetch_or(&probe_context.wiped->sets[0].arenas[0]->notes, told, __ATOMIC_RELAXED);
}

bool sandbox_is_foreign(uint32_t filters)
{
	char text[AGENT_STATUS_MAX];

	/* The loader has made the calls that this takes, before the agent came. */
	if (!agent_read_text("/proc/thread-self/status", text, sizeof(text)))
		return false;
	/* Before Linux 5.9 the kernel only says whether there is any filter. */
	return agent_number_after(text, "Seccomp_filters:") > filters ||
	       (agent_number_after(text, "Seccomp:") && !filters);
}

/*
 * Release the open frames of the stack from `from` up: they return to their callers by themselves, not by their stubs.
 * A stack that the thread is not on may have been unmapped.
 */
static void unhook(struct probe_stack *stack, uint64_t from)
{
	for (uint64_t slot = probe_stack_top(stack), next; slot < stack->rest && probe_mirror_is_covered(slot);
	     slot = next) {
		uint64_t *mirror = arch_mirror(slot), held;

		next = *arch_link(slot) & ~FRAME_FLAGS;
		if (slot >= from && *mirror && copy_in(&held, (const void *)slot, sizeof(held)) &&
		    probe_region_of(arch_frame_back(slot)) && arch_frame_release(slot))
			*mirror = 0;
		if (next <= slot)
			break;
	}
	if (stack->end)
		probe_stack_set_top(stack, stack->end);
}

void agent_clock_lost(void)
{
	uint64_t from = (uint64_t)__builtin_frame_address(0);
	struct probe_wiped *wiped = probe_context.wiped;
	struct probe_stack *stack;
	uint32_t stacks = 0;
	bool at_work;

	if (!wiped || probe_context.shared.quiet)
		return;
	at_work = is_at_work();
	if (wiped->alive && (uint32_t)sys_getpid() != wiped->pid)
		return; /* vfork's child */
	if (at_work && !agent_control_leave(AGENT_END, true))
		probe_context.enabled = 0; /* the sites stay, and lead to recorders that ask for no time */
	/* If recording was over already, there may still be frames from before. */
	for (stack = probe_self()->stack; stack && stacks++ < STACKS_MAX; stack = stack->from) {
		unhook(stack, from);
		from = 0;
	}
	probe_self()->granule = PROBE_NO_GRANULE; /* the fast path is not for this thread any more */
	probe_self()->stack = &probe_stack_none;
}
