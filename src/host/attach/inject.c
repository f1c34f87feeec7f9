/*
 * Putting the agent, or another library, into a process that runs (attach.h,
 * doc/design/attach.md).
 *
 * Looks at the process first, then borrows a thread (borrow.c), and talks with
 * it through struct calltap_attach in the memory that it maps.  Context: host;
 * what the target writes there is checked.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <calltap/abi/control.h>
#include <calltap/abi/start.h>
#include <host/files.h>
#include <host/elf/program.h>

#include "borrow.h"
#include "launch.h"

#define PATIENCE_MS   5000u
#define READY_NS      5000000000u  /* for the thread to map the memory */
#define LOOK_NS	      450000000u   /* between two looks whether the thread has come back without memory */
#define LOCK_NS	      5000000000u  /* for a killed tool's tracer to end, which may wait for a thread */
#define LOADED_NS     20000000000u /* for the loader, and the agent */
#define LEFT_NS	      2000000000u
#define ENDED_NS      1000000000u /* for the agent of a session that has just ended to be ready for the next */
#define ENDED_STEP_US 10000
#define ABANDONED_NS  3000000000u /* for threads that killed tools have sent away to come back */
#define ABANDONED_NAP 50	  /* ms between two stops that look whether they have */
#define TRIES	      5u	  /* when this tool was too slow for the thread */
#define MEMORY_LOWEST 0x100000000u
#define MEMORY_APART  (64u << 20) /* bytes from the next mapping, if there is room */

static void pause_us(unsigned microseconds)
{
	const struct timespec pause = {0, microseconds * 1000};

	nanosleep(&pause, NULL);
}

static void take_nap(void)
{
	pause_us(100);
}

/* The middle of the largest hole: nothing grows that far. */
static uint64_t choose_memory(const struct space *space)
{
	uint64_t best = 0, widest = 0, last = MEMORY_LOWEST;

	for (size_t i = 0; i < space->count; i++) {
		const struct map *map = &space->maps[i];

		if (map->lo > 1ull << 47)
			break;
		if (map->lo > last && map->lo - last > widest) {
			widest = map->lo - last;
			best = last + widest / 2;
		}
		if (map->hi > last)
			last = map->hi;
	}
	return widest > 4ull * CALLTAP_BORROWED_SIZE ? best & ~(uint64_t)(PAGE - 1) : 0;
}

static uint64_t main_stack_end(const struct space *space)
{
	for (size_t i = 0; i < space->count; i++)
		if (!strcmp(space->maps[i].path, "[stack]"))
			return space->maps[i].hi;
	return 0;
}

/* True if the process finds the very file under this path. */
static bool same_file(pid_t alive, const char *path)
{
	struct stat ours, theirs;
	char inside[4400];

	if (path[0] != '/')
		return false;
	snprintf(inside, sizeof(inside), "/proc/%d/root%s", (int)alive, path);
	return !stat(path, &ours) && !stat(inside, &theirs) && ours.st_ino == theirs.st_ino &&
	       ours.st_dev == theirs.st_dev;
}

/* The agent for musl lies beside the agent for glibc. */
static void choose_file(struct borrow *borrow, const char *path)
{
	size_t stem = strlen(path);

	if (borrow->libs.musl && !borrow->library && stem > 3 && !strcmp(path + stem - 3, ".so"))
		snprintf(borrow->file, sizeof(borrow->file), "%.*s-musl.so", (int)stem - 3, path);
	else
		snprintf(borrow->file, sizeof(borrow->file), "%s", path);
}

/* A static program: its thread maps what the tool has made, and is told where. */
static int take_placed(struct borrow *borrow, const struct attach_placed *placed, struct calltap_diag *diag)
{
	if (!placed)
		return calltap_diag_set(diag, -EAGAIN,
					"process %d has executed another program meanwhile; attach to it again",
					(int)borrow->pid);
	borrow->placed = placed;
	borrow->libs.placed = true;
	borrow->libs.musl = placed->musl;
	borrow->errand.memfd = placed->bytes != NULL;
	borrow->errand.entry_offset = placed->entry_offset;
	return 0;
}

static int look_at_file(struct borrow *borrow, struct calltap_diag *diag)
{
	const char *path = borrow->file;
	int fd = files_open(path);

	if (fd < 0)
		return calltap_diag_set(diag, fd, "%s%.300s cannot be read: %s", borrow->library ? "" : "the agent ",
					path, strerror(-fd));
	borrow->errand.memfd = !same_file(borrow->alive, path);
	if (borrow->library) {
		close(fd);
		return 0;
	}
	borrow->errand.entry_offset = libs_symbol_value(fd, "calltap_agent_attach");
	close(fd);
	if (!borrow->errand.entry_offset)
		return calltap_diag_set(diag, -ENOEXEC, "%s is no agent that can be attached; install calltap again",
					path);
	return 0;
}

/*
 * Tools that were killed may have left their code in all the places there are,
 * and the threads that they sent away may still wait for them.
 */
static int find_slack(struct borrow *borrow, struct calltap_diag *diag)
{
	uint64_t until = now_ns() + ABANDONED_NS;
	bool again = false;

	for (;;) {
		bool in_use = false;
		int ret = slack_find(&borrow->slack, borrow->alive, &borrow->space, &borrow->libs), cleaned;

		if (ret != -ENOSPC)
			return ret;
		cleaned = slack_clean(borrow->pid, &in_use, &borrow->cut_short);
		/* A living tool may have taken its code back between the two looks. */
		if (cleaned > 0 || (!cleaned && !in_use && !again)) {
			again = cleaned <= 0;
			continue;
		}
		if (cleaned < 0 || !in_use)
			return calltap_diag_set(diag, -ENOSPC,
						"process %d has no room behind its code for what brings the agent in; "
						"start it under 'calltap record'",
						(int)borrow->pid);
		if (now_ns() > until)
			return calltap_diag_set(diag, -EAGAIN,
						"a thread of process %d is still busy for a calltap that is gone; try "
						"again when it has come back",
						(int)borrow->pid);
		pause_us(ABANDONED_NAP * 1000);
	}
}

static int prepare_borrow(struct borrow *borrow, const struct attach_options *options, struct calltap_diag *diag)
{
	int ret;

	borrow->alive = proc_alive(borrow->pid);
	if (!borrow->alive)
		return calltap_diag_set(diag, -ESRCH, "there is no process %d", (int)borrow->pid);
	ret = space_read(&borrow->space, borrow->alive);
	if (ret)
		return calltap_diag_set(diag, ret, "the memory of process %d cannot be looked at: %s", (int)borrow->pid,
					strerror(-ret));
	ret = libs_read(&borrow->libs, borrow->alive, &borrow->space, diag);
	if (ret)
		return ret;
	if (options->resident_entry)
		borrow->libs.entry = options->resident_entry;
	ret = libs_refuse(&borrow->libs, borrow->pid, borrow->library, diag);
	if (borrow->library)
		borrow->libs.entry = 0; /* of an agent that is there, which a library does not need */
	choose_file(borrow, options->agent_path);
	if (!ret && borrow->libs.is_static)
		ret = take_placed(borrow, options->placed, diag);
	else if (!ret && !borrow->libs.entry)
		ret = look_at_file(borrow, diag);
	if (ret)
		return ret;
	borrow->errand.load = borrow->libs.load;
	borrow->errand.load_error = borrow->libs.load_error;
	borrow->errand.load_flags = borrow->libs.load_flags;
	borrow->errand.errno_location = borrow->libs.errno_location;
	borrow->errand.entry = borrow->libs.entry;
	borrow->errand.memory = choose_memory(&borrow->space);
	if (!borrow->errand.memory)
		return calltap_diag_set(
			diag, -ENOSPC,
			"process %d has no room in its address space for what brings the agent in; start "
			"it under 'calltap record'",
			(int)borrow->pid);
	ret = find_slack(borrow, diag);
	if (ret)
		return ret;
	ret = unwinder_open(&borrow->unwinder, borrow->pid, borrow->alive, &borrow->space);
	return ret ? calltap_diag_set(diag, ret, "the code of process %d cannot be read", (int)borrow->pid) : 0;
}

/* A thread by which memory can be read: the borrowed one may end as soon as it is back. */
static pid_t reading_thread(const struct borrow *borrow)
{
	pid_t alive = proc_alive(borrow->pid);

	return alive ? alive : borrow->tid;
}

/* Read what the borrowed thread says; -EFAULT: its memory is not there (yet, or any more). */
static int state_of(const struct borrow *borrow, struct calltap_attach *said)
{
	int ret = memory_read(borrow->tid, borrow->errand.memory, said, sizeof(*said));

	if (ret == -ESRCH)
		ret = memory_read(reading_thread(borrow), borrow->errand.memory, said, sizeof(*said));

	/* The program may have written over any text. */
	said->error[sizeof(said->error) - 1] = 0;
	return ret;
}

/* Tell the borrowed thread to go on, or to give up. */
static int set_state(const struct borrow *borrow, uint32_t state)
{
	return memory_write(borrow->tid, borrow->errand.memory + offsetof(struct calltap_attach, state), &state,
			    sizeof(state));
}

static int explain_death(const struct borrow *borrow, struct calltap_diag *diag)
{
	return calltap_diag_set(diag, -ESRCH, "process %d has ended", (int)borrow->pid);
}

/* True if no thread is on an errand any more. */
static bool has_returned(struct borrow *borrow)
{
	bool in_use;

	return slack_clean(borrow->pid, &in_use, &borrow->cut_short) >= 0 && !in_use;
}

/* Wait until the thread is ready.  If it comes back without a word, it has had no memory, or this tool was too slow. */
static int await_ready(struct borrow *borrow, struct calltap_attach *said, struct calltap_diag *diag)
{
	uint64_t until = now_ns() + READY_NS, look = now_ns() + LOOK_NS;

	for (;;) {
		int ret = state_of(borrow, said);
		uint64_t now = now_ns();

		if (!ret && said->state == CALLTAP_ATTACH_READY)
			return 0;
		if (ret == -ESRCH)
			return explain_death(borrow, diag);
		if (now > until || (ret && now > look && has_returned(borrow)))
			break;
		if (now > look)
			look = now + LOOK_NS;
		take_nap();
	}
	return calltap_diag_set(
		diag, -ETIME,
		"process %d could not get the 256 KiB of memory that attaching takes; raise its limit, or "
		"try again when it runs",
		(int)borrow->pid);
}

/* True if the thread has been with the agent, as far as one can see. */
static bool agent_is_there(const struct borrow *borrow)
{
	pid_t alive = reading_thread(borrow);
	struct calltap_start start;
	struct space space;
	struct libs libs;
	uint64_t at;
	bool there;

	if (borrow->libs.entry)
		return borrow->in_time || agent_serves(alive);
	if (borrow->placed && borrow->in_time)
		return true;
	if (space_read(&space, alive))
		return false;
	if (borrow->placed) {
		there = !attach_find_placed(alive, &space, &at, &start);
		space_free(&space);
		return there;
	}
	there = !libs_read(&libs, alive, &space, NULL) && libs.entry;
	libs_free(&libs);
	space_free(&space);
	return there;
}

/* True if the process has memory: it loses that before it counts as ended. */
static bool has_memory(const struct borrow *borrow)
{
	struct space space;
	bool has;

	if (space_read(&space, reading_thread(borrow)))
		return false;
	has = space.count != 0;
	space_free(&space);
	return has;
}

/* Tell the thread that it need not wait any longer.  It may have given up by itself, and not be there to be told. */
static int let_go(const struct borrow *borrow, struct calltap_diag *diag)
{
	return set_state(borrow, CALLTAP_ATTACH_NONE) && !has_memory(borrow) ? explain_death(borrow, diag) : 0;
}

/* The borrowed memory is gone: the agent has unmapped it, the program has ended, or the thread has given up. */
static int explain_unmapped(const struct borrow *borrow, const struct calltap_attach *said, struct calltap_diag *diag)
{
	if (said->state == CALLTAP_ATTACH_LOADED || (!borrow->library && agent_is_there(borrow)))
		return 0;
	if (!has_memory(borrow))
		return explain_death(borrow, diag);
	return calltap_diag_set(diag, -ETIME, "process %d gave up before this calltap was ready; try again",
				(int)borrow->pid);
}

/* Open the memfd that the thread has made; -errno. */
static int open_memfd(const struct borrow *borrow, int memfd)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)borrow->tid, memfd);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

/* Write the agent for a static program. */
static int write_placed(const struct borrow *borrow, int memfd)
{
	const struct attach_placed *placed = borrow->placed;
	int to = open_memfd(borrow, memfd), ret = to < 0 ? to : 0;
	size_t done = 0;

	while (!ret && done < placed->size) {
		ssize_t put = write(to, placed->bytes + done, placed->size - done);

		if (put <= 0)
			ret = -EIO;
		else
			done += (size_t)put;
	}
	if (to >= 0)
		close(to);
	return ret;
}

static int copy_agent(const struct borrow *borrow, int memfd, const char *agent)
{
	int from, to, ret = 0;
	struct stat st;
	off_t at = 0;

	if (borrow->placed)
		return write_placed(borrow, memfd);
	from = files_open(agent);
	to = open_memfd(borrow, memfd);
	if (from < 0 || to < 0 || fstat(from, &st))
		ret = -EIO;
	while (!ret && at < st.st_size)
		if (sendfile(to, from, &at, (size_t)(st.st_size - at)) <= 0)
			ret = -EIO;
	if (from >= 0)
		close(from);
	if (to >= 0)
		close(to);
	return ret;
}

/* This tool was too slow: wait until the thread gives up, or it would take the next errand's words for its own. */
static int too_late(const struct borrow *borrow, struct calltap_diag *diag)
{
	uint64_t until = now_ns() + LEFT_NS;
	struct calltap_attach said = {0};

	while (!state_of(borrow, &said) && now_ns() < until)
		take_nap();
	return explain_unmapped(borrow, &said, diag);
}

/*
 * Tell the thread to go on.  It gives up by itself: only while it has a while to wait yet can one tell that it has
 * heard this.
 */
static int say_go(struct borrow *borrow, struct calltap_diag *diag)
{
	uint64_t before = now_ns();
	struct calltap_attach said = {0};

	if (state_of(borrow, &said) || said.naps < NATIVE_NAPS_LEFT || set_state(borrow, CALLTAP_ATTACH_GO))
		return too_late(borrow, diag);
	borrow->in_time = now_ns() - before < NATIVE_WAITS_NS;
	return 0;
}

static int fill_in(struct borrow *borrow, const struct attach_options *options, const struct calltap_attach *said,
		   struct calltap_diag *diag)
{
	struct calltap_attach told = {
		.version = CALLTAP_ABI_VERSION,
		.state = CALLTAP_ATTACH_READY,
		.memfd = -1,
		.memory = borrow->errand.memory,
		.memory_size = CALLTAP_BORROWED_SIZE,
		.main_thread = borrow->main_thread,
		.main_stack_end = main_stack_end(&borrow->space),
		.filters = options->filters,
		.calls_in = options->calls_in,
	};

	snprintf(told.session, sizeof(told.session), "%s", options->session);
	snprintf(told.agent, sizeof(told.agent), "%s", borrow->file);
	if (borrow->errand.memfd) {
		told.memfd = said->memfd;
		snprintf(told.agent, sizeof(told.agent), "/proc/self/fd/%d", (int)said->memfd);
		if (said->memfd < 0 || copy_agent(borrow, said->memfd, borrow->file)) {
			int ret = let_go(borrow, diag);

			return ret ? ret
				   : calltap_diag_set(diag, -ENOTSUP,
						      "process %d sees other files than this calltap and cannot be "
						      "given %.200s in a memfd; "
						      "make it a file that it can open",
						      (int)borrow->pid, borrow->file);
		}
	}
	if (borrow->placed && borrow->placed->bytes)
		memcpy(told.parts, borrow->placed->parts, sizeof(told.parts));
	if (borrow->placed)
		told.start = borrow->placed->start;
	if (memory_write(borrow->tid, borrow->errand.memory, &told, offsetof(struct calltap_attach, naps)) ||
	    memory_write(borrow->tid, borrow->errand.memory + offsetof(struct calltap_attach, start), &told.start,
			 sizeof(told) - offsetof(struct calltap_attach, start)))
		return explain_unmapped(borrow, said, diag);
	return say_go(borrow, diag);
}

static int await_answer(const struct borrow *borrow, struct calltap_attach *said, struct calltap_diag *diag)
{
	uint64_t until = now_ns() + LOADED_NS;

	for (;;) {
		int ret = state_of(borrow, said);

		if (ret == -ESRCH)
			return explain_death(borrow, diag);
		if (ret)
			return explain_unmapped(borrow, said, diag);
		if (said->state == CALLTAP_ATTACH_FAILED || said->state == CALLTAP_ATTACH_LOADED)
			return 0;
		if (now_ns() > until)
			return calltap_diag_set(
				diag, -ETIMEDOUT,
				"thread %d of process %d has not come back from loading %.200s for 20 s: some other "
				"thread holds the loader's lock%s",
				(int)borrow->tid, (int)borrow->pid, borrow->what,
				borrow->library ? ", or its constructors wait" : "");
		take_nap();
	}
}

/* The process is in a root without a /proc, by which its loader is to find the file.  root: that root's path. */
static bool is_without_proc(pid_t pid, char *root, size_t size)
{
	char path[64];
	ssize_t length;

	snprintf(path, sizeof(path), "/proc/%d/root%s", (int)pid, "/proc/self/fd");
	if (!access(path, F_OK))
		return false;
	snprintf(path, sizeof(path), "/proc/%d/root", (int)pid);
	length = readlink(path, root, size - 1);
	root[length < 0 ? 0 : length] = 0;
	return length > 0;
}

static int explain_refusal(const struct borrow *borrow, const struct calltap_attach *said, struct calltap_diag *diag)
{
	int ret = let_go(borrow, diag);
	char root[256], enters[40] = "";

	if (ret)
		return ret;
	ret = said->result < 0 ? said->result : -ENOEXEC;
	if (said->state == CALLTAP_ATTACH_LOADED)
		return calltap_diag_set(diag, ret, "the agent does not start in process %d: %s", (int)borrow->pid,
					said->error[0] ? said->error : strerror(-ret));
	if (borrow->placed)
		return calltap_diag_set(
			diag, -ENOMEM,
			"process %d could not map the agent near its code; raise its limit of memory, or "
			"try again",
			(int)borrow->pid);
	if (is_without_proc(borrow->pid, root, sizeof(root))) {
		if (attach_has_own_mounts(borrow->pid))
			snprintf(enters, sizeof(enters), "nsenter -t %d -m ", (int)borrow->pid);
		return calltap_diag_set(
			diag, -ELIBACC,
			"process %d sees no /proc, by which its loader finds %.160s; mount one where its "
			"root is (%smount -t proc proc %.200s/proc)",
			(int)borrow->pid, borrow->what, enters, strcmp(root, "/") ? root : "");
	}
	return calltap_diag_set(diag, -ELIBACC, "the loader of process %d does not take %.160s: %.250s",
				(int)borrow->pid, borrow->what, said->error[0] ? said->error : "it does not say why");
}

/* Wait until the thread is on its own stack again; then its memory is the agent's to unmap, or gone. */
static void await_left(const struct borrow *borrow)
{
	uint64_t until = now_ns() + LEFT_NS;
	struct calltap_attach said;

	while (!state_of(borrow, &said) && !said.left && now_ns() < until)
		take_nap();
}

static int converse_with_thread(struct borrow *borrow, const struct attach_options *options, struct calltap_diag *diag)
{
	struct calltap_attach said = {0};
	int ret = await_ready(borrow, &said, diag);

	borrow->in_time = false;
	if (!ret)
		ret = fill_in(borrow, options, &said, diag);
	if (!ret)
		ret = await_answer(borrow, &said, diag);
	if (ret)
		return ret;
	if (said.state == CALLTAP_ATTACH_LOADED && (borrow->library || borrow->guest || options->calls_in) &&
	    said.result == CALLTAP_ATTACH_ALONE)
		ret = let_go(borrow, diag);
	else if (said.state == CALLTAP_ATTACH_FAILED || said.result)
		ret = explain_refusal(borrow, &said, diag);
	await_left(borrow);
	return ret;
}

static int inject_file(struct borrow *borrow, const struct attach_options *options, struct attach_result *result,
		       struct calltap_diag *diag)
{
	uint64_t began;
	int ret = prepare_borrow(borrow, options, diag);

	if (ret)
		return ret;
	borrow->gives_up = options->gives_up;
	borrow->gives_up_context = options->gives_up_context;
	for (unsigned tries = 1;; tries++) {
		if (options->caught)
			ret = borrow_caught(borrow, options->caught, diag);
		else
			ret = borrow_thread(borrow, options->patience_ms ? options->patience_ms : PATIENCE_MS, diag);
		if (ret)
			return ret;
		began = now_ns();
		ret = converse_with_thread(borrow, options, diag);
		if (ret != -ETIME || tries == TRIES || options->caught)
			break;
		/* The thread did not wait for this tool: its place is to be free for the next try. */
		borrow->cut_short += attach_slack_clean(borrow->pid);
	}
	result->borrow_ns = now_ns() - began;
	if (!options->leave_code || ret)
		borrow->cut_short += attach_slack_clean(borrow->pid);
	result->tid = borrow->tid;
	result->stop_ns = borrow->stop_ns;
	result->resident = borrow->libs.entry != 0;
	result->memfd = borrow->errand.memfd;
	result->entry = borrow->libs.entry;
	return ret;
}

/*
 * Two tools at once would use the same place: so the tool binds a name that only one can have, and that goes with it.
 */
static int try_lock(pid_t pid)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int size = snprintf(address.sun_path + 1, sizeof(address.sun_path) - 1, "calltap-attach-%d", (int)pid);
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0), ret;

	if (fd < 0)
		return -errno;
	if (!bind(fd, (void *)&address, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)size)))
		return fd;
	ret = errno == EADDRINUSE ? -EBUSY : -errno;
	close(fd);
	return ret;
}

/*
 * Take the lock of the process.  The tracer of a tool that was killed has copies of the tool's descriptors, the lock
 * among them, until the tracer has let go of each thread.
 */
static int lock_process(pid_t pid)
{
	uint64_t until = now_ns() + LOCK_NS;
	int ret = try_lock(pid);

	while (ret == -EBUSY && now_ns() < until) {
		take_nap();
		ret = try_lock(pid);
	}
	return ret;
}

static int bring_in(pid_t pid, const struct attach_options *options, bool library, struct attach_result *result,
		    struct calltap_diag *diag)
{
	struct borrow *borrow = calloc(1, sizeof(*borrow));
	struct attach_options own = *options;
	int locked = lock_process(pid), ret;

	memset(result, 0, sizeof(*result));
	if (locked < 0) {
		free(borrow);
		return calltap_diag_set(diag, locked, "process %d cannot be attached to: %s", (int)pid,
					locked == -EBUSY ? "another calltap is doing it just now" : strerror(-locked));
	}
	if (!borrow) {
		close(locked);
		return calltap_diag_set(diag, -ENOMEM, "there is no memory left");
	}
	borrow->pid = pid;
	borrow->library = library;
	borrow->what = library ? options->agent_path : "the agent";
	ret = own.prepare ? own.prepare(own.context, pid, &own, diag) : 0;
	if (!ret)
		ret = inject_file(borrow, &own, result, diag);
	result->cut_short = borrow->cut_short;
	close(locked);
	unwinder_close(borrow->unwinder);
	libs_free(&borrow->libs);
	space_free(&borrow->space);
	free(borrow);
	return ret;
}

int attach_inject(pid_t pid, const struct attach_options *options, struct attach_result *result,
		  struct calltap_diag *diag)
{
	uint64_t until = now_ns() + ENDED_NS;
	int ret = bring_in(pid, options, false, result, diag);
	uint32_t cut_short = result->cut_short;

	/* The agent's thread has said that its last session has ended, and has had no turn since to end itself. */
	while (ret == -EBUSY && !options->caught && now_ns() < until) {
		pause_us(ENDED_STEP_US);
		ret = bring_in(pid, options, false, result, diag);
		cut_short += result->cut_short;
	}
	result->cut_short = cut_short;
	return ret;
}

/* A process that executes, and what its tracer takes along. */
struct hold {
	struct borrow *borrow;
	struct attach_options options;
	const struct attach_guest *guest;
	struct attach_launch launch;
	int locked;
	struct calltap_diag *diag;
};

/* The tool is gone: so is who would put the agent in. */
static bool goes_on(void *context)
{
	const struct hold *hold = context;

	return !tracer_is_alone() && hold->guest->goes_on(hold->guest->context);
}

/* Tracer: set the held program's one thread on its errand. */
static int send_guest(struct hold *hold)
{
	struct borrow *borrow = hold->borrow;
	struct held held = {.tid = borrow->pid, .state = HELD_STOPPED, .regs = hold->launch.regs};
	int ret = space_read(&borrow->space, borrow->pid);

	if (ret)
		return ret;
	ret = take_placed(borrow, hold->options.placed, hold->diag);
	if (ret)
		return ret;
	borrow->main_thread = native_thread_pointer(&held.regs);
	borrow->errand.blocked = ~0ull;
	borrow->errand.memory = choose_memory(&borrow->space);
	ret = slack_find(&borrow->slack, borrow->pid, &borrow->space, &borrow->libs);
	if (ret || !borrow->errand.memory)
		return calltap_diag_set(hold->diag, -ENOSPC, "it has no room for what brings the agent in");
	borrow->why = "it has ended";
	if (tracer_is_alone() || !borrow_send(borrow, &held))
		return calltap_diag_set(hold->diag, -EAGAIN, "%s", borrow->why);
	return 0;
}

/* From here on nobody else brings anything into the process. */
static int take_process(struct hold *hold, pid_t pid)
{
	hold->locked = lock_process(pid);
	hold->borrow->pid = hold->borrow->alive = hold->borrow->tid = pid;
	if (hold->locked >= 0)
		return 0;
	return calltap_diag_set(hold->diag, hold->locked, "process %d cannot be held: %s", (int)pid,
				hold->locked == -EBUSY ? "another calltap attaches to it just now"
						       : strerror(-hold->locked));
}

/* Tracer: the thread makes the child that executes. The child has asked for nothing: its parent is let go of at once.
 */
static int await_child(struct hold *hold)
{
	const struct attach_guest *guest = hold->guest;
	pid_t child;
	int ret = attach_launch_await_child(&hold->launch, &child, goes_on, hold);

	if (ret)
		return ret;
	guest->made(guest->context, child);
	attach_launch_follow(&hold->launch, child);
	return take_process(hold, child);
}

/* Tracer: hold the process until it has executed, and its libc knows its first thread. */
static int hold_guest(void *context)
{
	struct hold *hold = context;
	const struct attach_guest *guest = hold->guest;
	int ret = attach_launch_seize_guest(&hold->launch, hold->borrow->pid, guest->spawns);

	if (ret == -ESRCH)
		return ret;
	if (ret)
		return calltap_diag_set(hold->diag, ret,
					"process %d cannot be held while it starts: %s; a debugger traces it, or a "
					"sandbox or /proc/sys/kernel/yama/ptrace_scope forbids ptrace",
					(int)hold->borrow->pid, strerror(-ret));
	ret = guest->held(guest->context) ? 0 : -EAGAIN;
	if (!ret && guest->spawns)
		ret = await_child(hold);
	if (!ret)
		ret = attach_launch_await_exec(&hold->launch, goes_on, hold);
	if (ret != -EAGAIN) {
		guest->over(guest->context);
		if (!ret)
			ret = attach_launch_reach_guest(&hold->launch, hold->diag);
		if (!ret)
			ret = guest->prepare(guest->context, &hold->launch, &hold->options, hold->diag);
		if (!ret)
			ret = send_guest(hold);
	}
	attach_launch_leave(&hold->launch);
	return ret; /* what is still held, as it ran on, is let go of by the kernel when the tracer ends */
}

int attach_inject_guest(pid_t tid, const struct attach_options *options, const struct attach_guest *guest,
			struct calltap_diag *diag)
{
	struct borrow *borrow = calloc(1, sizeof(*borrow));
	struct hold hold = {.borrow = borrow, .options = *options, .guest = guest, .locked = -1, .diag = diag};
	int ret;

	if (!borrow)
		return -ENOMEM;
	*borrow = (struct borrow){.pid = tid, .alive = tid, .tid = tid, .guest = true, .what = "the agent"};
	ret = guest->spawns ? 0 : take_process(&hold, tid);
	if (!ret)
		ret = tracer_run(hold_guest, &hold);
	if (!ret) {
		ret = converse_with_thread(borrow, &hold.options, diag);
		if (ret == -ESRCH && borrow->in_time)
			ret = 0; /* it has run with the agent, and to its end */
		else if (ret == -ESRCH)
			ret = calltap_diag_set(diag, -ETIME,
					       "process %d ended before the agent was in it: it was killed, or calltap "
					       "did not answer within half a second",
					       (int)borrow->pid);
		(void)attach_slack_clean(borrow->pid);
	}
	if (hold.locked >= 0)
		close(hold.locked);
	libs_free(&borrow->libs);
	space_free(&borrow->space);
	free(borrow);
	return ret;
}

int attach_load(pid_t pid, const char *library, uint32_t patience_ms, struct attach_result *result,
		struct calltap_diag *diag)
{
	const struct attach_options options = {
		.size = sizeof(options), .agent_path = library, .session = "", .patience_ms = patience_ms};
	struct attach_program program;
	int ret;

	attach_program_of(&program, pid);
	ret = bring_in(pid, &options, true, result, diag);
	return attach_explain(&program, pid, ret, diag);
}
