/*
 * Handlers of the program's own: HANDLERS and HANDLERS_WAIT (abi/control.h).
 *
 * Tables that were handed to the dispatcher (probe/handlers.h) stay mapped until the session lets go of the process: a
 * thread may be looking at them.  Called by the control thread.  Context: control.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <agent/agent.h>
#include <base/sys.h>

#define WAIT_STEP_NS 200000u
#define WAIT_MS	     100u  /* longest that one HANDLERS_WAIT takes */
#define END_MS	     1000u /* longest that the session's end waits for handlers */

static struct probe_handled_table *table_now(void)
{
	return agent.handled_count ? &agent.handled[agent.handled_count - 1] : NULL;
}

/*
 * Handlers are told the function's address: it lies a row's `start` before the body.  The body of a function with a
 * block goes on behind its head.
 */
static void note_bodies(const struct probe_handled_table *table, const struct agent_sites *kept)
{
	const struct calltap_site *heads = agent_heads_of(kept->blocks.lo);

	for (uint32_t i = 0; i < kept->count; i++) {
		const struct calltap_site *site = &kept->list[i];

		if (!(site->flags & CALLTAP_SITE_HANDLED) || site->id >= table->functions)
			continue;
		if (heads && i >= kept->block_first)
			site = &heads[i - kept->block_first];
		__atomic_store_n(&table->bodies[site->id], site->address + site->body_off, __ATOMIC_RELAXED);
	}
}

void agent_handlers_note(const struct agent_sites *kept)
{
	const struct probe_handled_table *table = table_now();

	if (table)
		note_bodies(table, kept);
}

static int check(const struct calltap_msg_handlers *message)
{
	struct calltap_handlers table = {0};

	if (agent.no_handled)
		return -EPERM;
	if (!message->functions || message->functions > CALLTAP_HANDLED_MAX)
		return -EINVAL;
	if (!message->handlers)
		return 0;
	if (message->handlers % sizeof(uint64_t) || !agent_copy_in(&table, message->handlers, sizeof(table)))
		return -EFAULT;
	return table.magic == CALLTAP_HANDLERS_MAGIC && table.size == sizeof(table) ? 0 : -EINVAL;
}

/* True if fd is the last table's file: only the address of the handlers is new. */
static bool is_same_file(const struct probe_handled_table *last, uint64_t functions, int fd)
{
	struct stat file = {0};

	return last && last->functions == functions && !sys_failed(SYS(fstat, fd, &file, 0, 0, 0, 0)) &&
	       file.st_ino == agent.handled_file;
}

static int map_rows(struct probe_handled_table *table, int fd)
{
	const struct probe_handled_table *last = table_now();
	uint64_t size = table->functions * (sizeof(table->rows[0]) + sizeof(table->roles[0]));
	struct stat file = {0};
	void *rows, *bodies;

	if (is_same_file(last, table->functions, fd)) {
		table->rows = last->rows;
		table->roles = last->roles;
		table->bodies = last->bodies;
		return 0;
	}
	rows = agent_map(fd, size, PROT_READ, MAP_SHARED | MAP_NORESERVE, F_SEAL_SHRINK);
	if (sys_failed((long)rows))
		return (int)(long)rows;
	bodies = sys_mmap(NULL, table->functions * sizeof(table->bodies[0]), PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (sys_failed((long)bodies)) {
		sys_munmap(rows, size);
		return -ENOMEM;
	}
	SYS(fstat, fd, &file, 0, 0, 0, 0);
	agent.handled_file = file.st_ino;
	table->rows = rows;
	table->roles = (const struct calltap_roles *)(table->rows + table->functions);
	table->bodies = bodies;
	for (uint32_t i = 0; i < agent.sites_count; i++)
		note_bodies(table, &agent.sites[i]);
	return 0;
}

static int use(const struct calltap_msg_handlers *message, int fd)
{
	struct probe_handled_table *table = &agent.handled[agent.handled_count];
	int ret;

	if (agent.handled_count >= AGENT_HANDLED)
		return -ENOSPC;
	*table = (struct probe_handled_table){.functions = message->functions};
	ret = map_rows(table, fd);
	if (ret)
		return ret;
	agent_vectors_find(table);
	agent.handled_count++;
	if (message->handlers)
		agent_faults_take();
	table->handlers = (struct calltap_handlers *)message->handlers;
	probe_handled_set(table);
	return 0;
}

int agent_handlers_take(const struct calltap_msg_handlers *message, int fd)
{
	struct calltap_msg_handlers_done done = {.head = {CALLTAP_MSG_HANDLERS_DONE, sizeof(done)}};

	if (message->head.size != sizeof(*message) || fd < 0)
		return -EPROTO;
	done.error = check(message);
	if (!done.error)
		done.error = use(message, fd);
	return agent_send(&done, sizeof(done));
}

/* A copy of two words of a thread's block. */
struct run {
	uint64_t running, runs;
};
_Static_assert(offsetof(struct probe_thread, runs) == offsetof(struct probe_thread, running) + sizeof(uint64_t), "run");

/*
 * In a forked child: the thread that has forked.  Its handler may have done that, and it need not hold a ring here, by
 * which other threads are known.
 */
#define FORKER PROBE_RINGS

static bool look_at_forker(struct run *run)
{
	uint64_t at = (uint64_t)agent.forker + offsetof(struct probe_thread, running);

	return agent.forker && sys_copy_in(run, at, sizeof(*run)) && run->running;
}

/* Read the words of writer i's thread, or the forker's.  True: that thread runs handlers. */
static bool look(uint32_t i, struct run *run)
{
	if (i == FORKER)
		return look_at_forker(run);
	agent_thread_read(i, offsetof(struct probe_thread, running), run, sizeof(*run));
	return run->running && !agent_thread_has_ended(i);
}

bool agent_handlers_run(void)
{
	struct run run;

	/* Called while the program is stopped: no thread is asked where no function was ever handled. */
	if (!agent.handled_count)
		return false;
	for (uint32_t i = 0; i <= FORKER; i++)
		if (look(i, &run))
			return true;
	return false;
}

/* Wait until the thread was seen outside its handlers, or in another call's.  False: it was too late. */
static bool wait_for_one(uint32_t i, uint64_t until)
{
	struct run first, now;
	uint32_t never = 0;

	if (!look(i, &first))
		return true;
	while (look(i, &now) && now.runs == first.runs) {
		if (sys_monotonic_ns() >= until)
			return false;
		sys_futex_wait(&never, never, WAIT_STEP_NS);
	}
	return true;
}

/*
 * The barrier comes first: a thread that marks itself as running after it looks up after it what to call.  So the
 * threads can be waited for one by one.
 */
static int wait_for_all(uint64_t wait_ms)
{
	uint64_t until = sys_monotonic_ns() + wait_ms * 1000000;
	int ret = patch_sync();

	for (uint32_t i = 0; i <= FORKER && !ret; i++)
		if (!wait_for_one(i, until))
			ret = -EAGAIN;
	return ret;
}

int agent_handlers_wait(const struct calltap_msg *message)
{
	struct calltap_msg_handlers_done done = {.head = {CALLTAP_MSG_HANDLERS_DONE, sizeof(done)}};

	if (message->size != sizeof(*message))
		return -EPROTO;
	done.error = wait_for_all(WAIT_MS);
	return agent_send(&done, sizeof(done));
}

void agent_handlers_end(void)
{
	if (!agent.handled_count)
		return;
	probe_handled_stop();
	/* A thread that is still in a handler may fault there. */
	if (!wait_for_all(END_MS))
		agent_faults_give_back();
}

void agent_handlers_release(void)
{
	uint64_t bytes = sizeof(struct calltap_handled) + sizeof(struct calltap_roles), own = sizeof(uint64_t);
	const uint32_t count = agent.handled_count;

	probe_handled_set(NULL);
	agent_faults_give_back();
	/* Not known first, and unmapped then: as agent_unmap(). */
	__atomic_store_n(&agent.handled_count, 0, __ATOMIC_RELEASE);
	for (uint32_t i = 0; i < count; i++) {
		const struct probe_handled_table *table = &agent.handled[i];

		if (i && table->rows == table[-1].rows)
			continue;
		sys_munmap((void *)table->rows, table->functions * bytes);
		sys_munmap(table->bodies, table->functions * own);
	}
}
