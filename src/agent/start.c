/*
 * The agent's start: in a new program image, and in a forked child.
 *
 * Called by the constructor (loaded.c), or by the tool's code where no loader brings the agent in (placed.c). Contexts:
 * control on the program's thread; nothing here runs twice at a time.
 */
#include <errno.h>
#include <stddef.h>

#include <agent/agent.h>
#include <agent/libc.h>
#include <agent/sandbox.h>
#include <base/mem.h>
#include <base/sys.h>

#define STATM_BYTES  128u
#define PLANES_SHARE 8u		/* the planes of stacks may take a part like this of it, */
#define MAPS_SHARE   5u		/* and in all of the mappings that a process may have: a thread has two of its own */
#define MAPS_USUAL   65530u	/* Linux's own limit, where nobody has changed it */
#define PLANES_LEAST (4u << 20) /* or those of one stack with times, if they are no more than OWN_SHARE says */
#define OWN_SHARE    4u		/* the agent's own memory is a part like this, or less, of what the program has left */
#define LIMIT_DATA   2		/* RLIMIT_DATA */
#define LIMIT_SIZE   9		/* RLIMIT_AS */

static const char *environment_value(char *const *environment, const char *name)
{
	size_t length = base_strlen(name);

	for (; environment && *environment; environment++)
		if (base_strlen(*environment) > length && !memcmp(*environment, name, length) &&
		    (*environment)[length] == '=')
			return *environment + length + 1;
	return NULL;
}

/*
 * True: the calling thread starts the forked child, whose other threads wait for agent_child_started().  The fork has
 * wiped `starting` with the rest.
 */
static bool begin_child(void)
{
	uint32_t none = 0;

	if (!__atomic_compare_exchange_n(&probe_context.wiped->starting, &none, 1, false, __ATOMIC_ACQ_REL,
					 __ATOMIC_ACQUIRE))
		return false;
	for (unsigned i = 0; i < PROBE_SETS; i++)
		probe_context.writers[i].first = probe_context.writers[i].base = probe_context.writers[i].used;
	agent.forker = probe_self();
	agent.instances_inherited = agent.instances;
	agent.no_handled |= agent.no_handled_children;
	agent.forked = 1;
	agent.attached = 0;
	agent.live = 0;
	agent.control_tid = 0;
	agent.leave = AGENT_STAY;
	agent.sending = 0;
	agent.is_successor = 0;
	agent.borrowed = NULL;
	agent.calls_in = 0;
	return true;
}

/*
 * Another thread starts the child, and waits for the tool no longer than AGENT_CHILD_MS.  Where the tool has made the
 * child call in nobody waits, so the calling thread does.
 */
static void await_start(void)
{
	uint32_t *starting = &probe_context.wiped->starting;
	uint64_t until = sys_monotonic_ns() + AGENT_CHILD_MS * 1000000ull;

	while (__atomic_load_n(starting, __ATOMIC_ACQUIRE) == 1) {
		sys_futex_wait(starting, 1, 100000000u);
		if (__atomic_load_n(&agent.calls_in, __ATOMIC_RELAXED) && sys_monotonic_ns() > until)
			agent_child_started();
	}
}

/*
 * A forked child's first record or dlopen calls this: the child gets its own control thread and rings.  Signals are
 * blocked.
 */
static void new_process(void)
{
	if (!begin_child()) {
		await_start();
		return;
	}
	if (!agent.no_children)
		agent_control_start();
	agent_child_started();
}

int agent_child_call_in(struct calltap_attach *attach)
{
	uint64_t signals;
	long tid;

	if (!begin_child())
		return CALLTAP_ATTACH_ALONE;
	agent.borrowed = attach;
	agent.calls_in = 1;
	/* As in calltap_agent_attach(). */
	sys_signals_block(&signals);
	tid = agent_control_launch();
	sys_signals_restore(&signals);
	if (!sys_failed(tid))
		return 0;
	agent.borrowed = NULL;
	agent.calls_in = 0;
	agent_child_started();
	return (int)tid;
}

uint64_t agent_random_id(void)
{
	uint64_t id = 0;

	if (SYS(getrandom, &id, sizeof(id), 1 /* GRND_NONBLOCK */, 0, 0, 0) != sizeof(id))
		id = arch_clock() * 0x9e3779b97f4a7c15u ^ (uint64_t)sys_getpid();
	return id;
}

/* How much memory the process has, as a field of /proc/self/statm tells it. */
static uint64_t memory_used(unsigned field)
{
	char text[STATM_BYTES];

	return agent_read_text("/proc/self/statm", text, sizeof(text)) ? agent_field(text, field) * CALLTAP_PAGE : 0;
}

/* Bytes of memory that the process' limits (RLIMIT_AS, RLIMIT_DATA) leave it; UINT64_MAX: it has no such limit. */
static uint64_t memory_left(void)
{
	static const struct {
		int resource;
		unsigned field;
	} limits[] = {{LIMIT_SIZE, 0}, {LIMIT_DATA, 5}};
	uint64_t limit[2], least = UINT64_MAX;

	for (unsigned i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
		uint64_t used, left;

		if (sys_failed(SYS(prlimit64, 0, limits[i].resource, 0, limit, 0, 0)) || limit[0] == UINT64_MAX)
			continue;
		used = memory_used(limits[i].field);
		left = limit[0] > used ? limit[0] - used : 0;
		least = left < least ? left : least;
	}
	return least;
}

/* True if a limit leaves the program so little that the agent would take a good part of it. */
static bool is_short_of_memory(void)
{
	return memory_left() < (uint64_t)OWN_SHARE * AGENT_WIPED_SIZE;
}

/* The bytes of so many granules as planes may be, each of which is a mapping.  The kernel's limit is read once. */
static uint64_t planes_all(void)
{
	static uint64_t maps;
	char text[STATM_BYTES];

	if (!maps)
		maps = agent_read_text("/proc/sys/vm/max_map_count", text, sizeof(text)) ? agent_field(text, 0)
											 : MAPS_USUAL;
	return (maps / MAPS_SHARE) << GRANULE_BITS;
}

void agent_planes_limit(void)
{
	uint64_t left = memory_left(), part = left / PLANES_SHARE;

	if (part < PLANES_LEAST && left / OWN_SHARE >= PLANES_LEAST)
		part = PLANES_LEAST;
	probe_planes_limit(left == UINT64_MAX ? UINT64_MAX : part, planes_all());
}

int agent_process_init(void)
{
	int ret = probe_context.wiped ? 0 : is_short_of_memory() ? -ENOMEM : agent_memory_init();

	if (ret)
		return ret;
	probe_context.on_new_process = new_process;
	probe_context.wiped->starting = 2;
	return 0;
}

static void note_main_thread(char *const *environment)
{
	agent_main_stack_note(false);
	probe_context.main_stack_end = (uint64_t)environment;
	probe_context.main_thread = __builtin_thread_pointer();
}

/* A word of the auxiliary vector, which the kernel puts behind the environment; no constructor ran before the agent's
 * and moved it. */
static uint64_t told_at_start(char *const *environment, uint64_t type, uint64_t otherwise)
{
	const ElfW(auxv_t) * entry;

	while (*environment)
		environment++;
	for (entry = (const void *)(environment + 1); entry->a_type != AT_NULL; entry++)
		if (entry->a_type == type)
			return entry->a_un.a_val;
	return otherwise;
}

/* Planes, regions and rings are laid out in pages of CALLTAP_PAGE bytes. */
static bool has_other_pages(char *const *environment)
{
	return told_at_start(environment, AT_PAGESZ, CALLTAP_PAGE) != CALLTAP_PAGE;
}

void agent_fronts_init(void)
{
	agent_unwind_init();
	agent_names_init();
	agent_backtrace_init();
	agent_calls_init();
	agent_contexts_init();
	agent_exec_init();
	agent_tasks_init();
	agent_locks_init();
	agent_mcount_init();
	agent_marks_init();
	agent_unwinder_look();
}

/* The session is known. */
static void begin(char *const *environment)
{
	uint64_t signals;

	agent.image_id = agent_random_id();
	if (has_other_pages(environment)) {
		agent_conversation_decline(-ENOTSUP,
					   "has memory pages of another size than 4096 bytes and is not traced");
		return;
	}
	if (agent_process_init()) {
		agent_conversation_decline(-ENOMEM,
					   "is not traced: a limit of its memory (ulimit -v or -d) leaves it little");
		return;
	}
	agent.headers = told_at_start(environment, AT_PHDR, 0);
	agent.header_count = (uint32_t)told_at_start(environment, AT_PHNUM, 0);
	note_main_thread(environment);
	agent_tid_find();
	agent_cpu_find();
	/*
	 * Before that version musl's setuid() waits for every thread of /proc/self/task, and the control thread would
	 * not answer.
	 */
	if (agent.musl && !agent.placed && !agent_next("membarrier")) {
		agent_conversation_decline(-ENOTSUP, "runs with a musl libc older than 1.1.22 and is not traced");
		return;
	}
	if (arch_in_valgrind()) {
		agent_conversation_decline(-ENOTSUP, "runs under valgrind and is not traced");
		return;
	}
	patch_sync_prepare();
	sys_signals_block(&signals);
	agent_control_start();
	if (agent.emulated)
		agent_forks_watch();
	sys_signals_restore(&signals);
}

void agent_image_begin(char *const *environment)
{
	const char *session = environment_value(environment, CALLTAP_ENV_SESSION), *filters;
	uint32_t filter_count;
	bool foreign;

	if (!session || !*session || base_strlen(session) >= sizeof(agent.session))
		return;
	filters = environment_value(environment, CALLTAP_ENV_FILTERS);
	filter_count = filters ? (uint32_t)agent_field(filters, 0) : 0;
	exec_variables_note(session, filters);
	base_copy_text(agent.session, sizeof(agent.session), session);
	foreign = sandbox_is_foreign(filter_count);
	exec_environment_clean((char **)environment, !foreign);
	if (foreign)
		agent.session[0] = 0;
	else
		begin(environment);
}

void agent_executed_begin(char *const *environment, const char *session, uint32_t filters)
{
	if (!*session || base_strlen(session) >= sizeof(agent.session) || sandbox_is_foreign(filters))
		return;
	base_copy_text(agent.session, sizeof(agent.session), session);
	agent.put_back = !environment_value(environment, CALLTAP_ENV_SESSION);
	begin(environment);
}
