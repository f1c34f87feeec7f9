/*
 * The process' one context, what a thread block starts with, and the way into and out of a slow path's system calls
 * (thread.h).
 *
 * The file depends on no other one of the probe, because all others read it.
 * Context: probe.
 */
#include <base/sys.h>
#include <offsets.h>
#include <probe/stacks.h>
#include <probe/thread.h>

_Static_assert(offsetof(struct probe_thread, writer) == PT_WRITER, "entry.S");
_Static_assert(offsetof(struct probe_thread, granule) == PT_GRANULE, "entry.S");
_Static_assert(offsetof(struct probe_thread, stack) == PT_STACK, "entry.S");
_Static_assert(offsetof(struct probe_stack, top) == PS_TOP, "entry.S");
_Static_assert(offsetof(struct probe_stack, low) == PS_LOW, "entry.S");
_Static_assert(offsetof(struct probe_stack, rest) == PS_REST, "profile.S");
_Static_assert(offsetof(struct probe_thread, gate) == PT_GATE, "entry.S");
_Static_assert(offsetof(struct probe_thread, timed) == PT_TIMED, "profile.S");
_Static_assert(offsetof(struct probe_thread, handled) == PT_HANDLED, "handlers.S");
_Static_assert(offsetof(struct probe_thread, table) == PT_TABLE, "profile.S");
_Static_assert(offsetof(struct probe_thread, running) == PT_RUNNING, "handlers.S");
_Static_assert(offsetof(struct probe_thread, runs) == PT_RUNS, "handlers.S");
_Static_assert(offsetof(struct probe_thread, tree_gate) == PT_TREE_GATE, "gated.S");
_Static_assert(offsetof(struct probe_context, tree_filter) == PC_TREE_FILTER, "gated.S");
_Static_assert(offsetof(struct probe_context, profile) == PC_PROFILE, "handlers.S");
_Static_assert(offsetof(struct probe_context, enabled) == PC_ENABLED, "handlers.S");
_Static_assert(offsetof(struct probe_context, timed) == PC_TIMED, "handlers.S");
_Static_assert(offsetof(struct probe_context, handled) == PC_HANDLED, "recorder.inc");
_Static_assert(PC_HANDLED == PC_TIMED + 4 && PC_TIMED % 8 == 0, "recorder.inc looks at both at once");
_Static_assert(offsetof(struct probe_thread, tree) == PT_TREE, "recorder.inc");
_Static_assert(offsetof(struct probe_thread, region) == PT_REGION, "recorder.inc");
_Static_assert(offsetof(struct probe_region, lo) == RG_LO && offsetof(struct probe_region, hi) == RG_HI,
	       "recorder.inc");
_Static_assert(offsetof(struct probe_thread, root_gate) == PT_ROOT_GATE, "handlers.S");
_Static_assert(offsetof(struct probe_thread, tick) == PT_TICK, "brief.S");
_Static_assert(offsetof(struct probe_thread, sample) == PT_SAMPLE, "brief.S");
_Static_assert(offsetof(struct probe_thread, seed) == PT_SEED, "brief.S");
_Static_assert(offsetof(struct probe_stack, kind) == PS_KIND && PS_SIGNAL == STACK_SIGNAL, "handlers.S");

#define DEPTH_MAX 1024	      /* bytes of stack that slow paths take at the most */
#define TRAP	  5	      /* SIGTRAP */
#define IGNORED	  1	      /* SIG_IGN; SIG_DFL is 0 */
#define STEPPED	  (1ull << 8) /* SIGKILL's bit, which no mask of the kernel's has: the program steps itself */

/* span 0 sends every record to the slow path; the cursor is shared rubbish. */
struct ring_writer probe_writer_none;
struct probe_table probe_table_none;
const struct probe_region probe_region_none;
struct probe_stack probe_stack_none = {.low = ~(uint64_t)0, .lowest = ~(uint64_t)0};

__thread struct probe_thread probe_thread __attribute__((tls_model("initial-exec"))) = PROBE_THREAD_NEW;
struct probe_context probe_context;
const struct calltap_times *probe_times;

const struct probe_region *probe_region_of(uint64_t address)
{
	/* Acquire: pairs with the control side's append (region_add). */
	uint32_t n = __atomic_load_n(&probe_context.region_count, __ATOMIC_ACQUIRE);

	for (uint32_t i = 0; i < n; i++)
		if (probe_region_has(&probe_context.regions[i], address))
			return &probe_context.regions[i];
	return NULL;
}

/*
 * Where the stack ends below this frame, the program may have a SIGSEGV handler for that on another stack; were the
 * fault to come with signals blocked, the kernel would kill the program.  So it comes here, before anything is begun.
 */
static void touch_stack(void)
{
	(void)*((volatile const char *)__builtin_frame_address(0) - DEPTH_MAX);
}

/*
 * A program that steps itself has set its trap flag, and handles SIGTRAP.  Were one to come while it is blocked, the
 * kernel would end the program.  So there are no steps while signals are blocked.
 *
 * A debugger's step has the same flag.  It is left alone: the kernel would take the flag for the program's own as soon
 * as an instruction that changes it is stepped over.
 */
static bool handles_traps(void)
{
	uint64_t action[4] = {0}; /* as the kernel has it: handler, flags, and more */

	/* Sequentially consistent: as in cpu_now(). */
	if (__atomic_load_n(&probe_context.shared.frugal, __ATOMIC_SEQ_CST))
		return true;
	return sys_failed(SYS(rt_sigaction, TRAP, 0, action, sizeof(uint64_t), 0, 0)) || action[0] > IGNORED;
}

bool probe_calls_begin(uint64_t *signals)
{
	bool stepped;

	touch_stack();
	/*
	 * Sequentially consistent, with the store of `quiet` (sandbox.c): this thread sees it, or the storing thread
	 * waits for this one.
	 */
	__atomic_add_fetch(&probe_context.wiped->calling, 1, __ATOMIC_SEQ_CST);
	if (__atomic_load_n(&probe_context.shared.quiet, __ATOMIC_SEQ_CST)) {
		__atomic_sub_fetch(&probe_context.wiped->calling, 1, __ATOMIC_RELEASE);
		return false;
	}
	stepped = arch_is_stepped() && handles_traps();
	if (stepped)
		arch_step(false);
	sys_signals_block(signals);
	if (!stepped)
		return true;
	if (*signals == SYS_NOT_BLOCKED)
		arch_step(true);
	else
		*signals |= STEPPED;
	return true;
}

void probe_calls_end(const uint64_t *signals)
{
	bool stepped = *signals & STEPPED && *signals != SYS_NOT_BLOCKED;
	uint64_t mask = stepped ? *signals & ~STEPPED : *signals;

	sys_signals_restore(&mask);
	__atomic_sub_fetch(&probe_context.wiped->calling, 1, __ATOMIC_RELEASE);
	if (stepped)
		arch_step(true);
}
