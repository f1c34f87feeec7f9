/*
 * Leaving a process that was attached to: its text is restored, and now all
 * that the agent has goes: stub regions, buffers, the mirrors of return
 * addresses.  So no thread may be in a stub or a recorder, and no frame may
 * return to a stub any more.  Called by the server thread with the session's
 * lock held.  doc/design/control.md has the argument.  Context: host.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <host/space.h>

#include "attached.h"

#define TEXTS	  8    /* mappings of code of one name, at most */
#define UNWINDING 4096 /* so near to the stack pointer, an address in an unwinder is taken for its frame's */

#define ENDING_MS   500
#define TRYING_NS   5000000000u /* the agent waits for longer (AGENT_RELEASE_MS) */
#define REST_FACTOR 4		/* the program runs for so many times as long as it was stopped, before another try */

enum place { IN_STUBS, IN_AGENT, IN_UNWINDER };

struct places {
	struct attach_range *ranges;
	enum place *kinds;
	size_t count, room;
};

struct look {
	const struct places *places;
	uint64_t *slots; /* words that hold an address in a stub */
	size_t count, room;
	bool busy; /* a thread is where it must not be */
	const struct attach_thread *threads;
	uint8_t *seen; /* of each thread: SEEN_... */
};

enum { SEEN_SLOT = 1, SEEN_UNWINDER = 2 };

static int grow(struct places *places)
{
	struct attach_range *ranges;
	enum place *kinds;

	if (places->count < places->room)
		return 0;
	ranges = reallocarray(places->ranges, places->room + 64, sizeof(*ranges));
	if (ranges)
		places->ranges = ranges;
	kinds = reallocarray(places->kinds, places->room + 64, sizeof(*kinds));
	if (kinds)
		places->kinds = kinds;
	if (!ranges || !kinds)
		return -ENOMEM;
	places->room += 64;
	return 0;
}

/* Sorted, and there is room. */
static void add(struct places *places, const struct attach_range *range, enum place kind)
{
	size_t at = places->count++;

	for (; at && places->ranges[at - 1].lo > range->lo; at--) {
		places->ranges[at] = places->ranges[at - 1];
		places->kinds[at] = places->kinds[at - 1];
	}
	places->ranges[at] = *range;
	places->kinds[at] = kind;
}

static int add_texts(struct places *places, const struct process *process, const char *name, enum place kind)
{
	struct attach_range ranges[TEXTS];
	int count = attached_text_of(process->pid, name, ranges, TEXTS), ret = 0;

	for (int i = 0; i < count && !ret; i++) {
		ret = grow(places);
		if (!ret)
			add(places, &ranges[i], kind);
	}
	return ret;
}

static bool is_in(const struct places *places, enum place kind, uint64_t address)
{
	for (size_t i = 0; i < places->count; i++)
		if (places->kinds[i] == kind &&
		    address - places->ranges[i].lo < places->ranges[i].hi - places->ranges[i].lo)
			return true;
	return false;
}

/*
 * Regions of stubs, of this session or an earlier one that was killed: memory
 * of no file that is run, and that begins with the addresses of recorders.
 */
static int add_regions(struct places *places, const struct process *process)
{
	struct space space;
	char path[64];
	int mem, ret;

	snprintf(path, sizeof(path), "/proc/%d/mem", (int)process->pid);
	mem = open(path, O_RDONLY | O_CLOEXEC);
	if (mem < 0)
		return -ESRCH;
	ret = space_read(&space, process->pid) ? -ESRCH : 0;
	for (size_t i = 0; !ret && i < space.count; i++) {
		const struct map *map = &space.maps[i];
		uint64_t first = 0;

		if (map->inode || map->path[0] || !(map->bits & MAP_EXEC) ||
		    pread(mem, &first, sizeof(first), (off_t)map->lo) != sizeof(first) ||
		    !is_in(places, IN_AGENT, first))
			continue;
		ret = grow(places);
		if (!ret)
			add(places, &(struct attach_range){map->lo, map->hi}, IN_STUBS);
	}
	space_free(&space);
	close(mem);
	return ret;
}

static int find_places(const struct process *process, struct places *places)
{
	int ret = add_texts(places, process, "calltap-agent", IN_AGENT);

	if (!ret)
		ret = add_regions(places, process);
	if (!ret)
		ret = add_texts(places, process, "/libgcc_s.so", IN_UNWINDER);
	return ret ? ret : add_texts(places, process, "/libunwind", IN_UNWINDER);
}

static int note_slot(struct look *look, uint64_t address)
{
	if (look->count == look->room) {
		size_t room = look->room ? look->room * 2 : 1024;
		uint64_t *slots = reallocarray(look->slots, room, sizeof(*slots));

		if (!slots)
			return -ENOMEM;
		look->slots = slots;
		look->room = room;
	}
	look->slots[look->count++] = address;
	return 0;
}

/* Copies of such addresses in dead memory are told, too: the agent knows which words are frames' slots. */
static int visit(void *context, const struct attach_hit *hit)
{
	struct look *look = context;

	switch (look->places->kinds[hit->range]) {
	case IN_STUBS:
		look->seen[hit->thread - look->threads] |= SEEN_SLOT;
		if (hit->address && !hit->is_saved_pc)
			return note_slot(look, hit->address);
		look->busy = true;
		break;
	case IN_AGENT:
		look->busy |= hit->is_pc || hit->is_saved_pc;
		break;
	case IN_UNWINDER:
		if (hit->is_pc || hit->is_saved_pc || (hit->address && hit->address - hit->thread->sp < UNWINDING))
			look->seen[hit->thread - look->threads] |= SEEN_UNWINDER;
		break;
	}
	return look->busy;
}

/* Each thread's block is made new, so each must be known. */
static bool are_known(const struct attach_thread *threads, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (!threads[i].thread_pointer)
			return false;
	return true;
}

/* An unwinder may have a stub's address in its own memory: one that it has found in a frame of that very stack. */
static bool unwinds_stubs(const struct look *look, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (look->seen[i] & SEEN_UNWINDER && (look->seen[i] & SEEN_SLOT || look->threads[i].deep))
			return true;
	return false;
}

/* 0, or -EAGAIN when a thread is in the way. */
static int look_at(struct attach_stop *stop, struct look *look)
{
	size_t count;
	int ret;

	look->threads = attach_threads(stop, &count);
	look->count = 0;
	look->busy = false;
	if (!are_known(look->threads, count))
		return -EAGAIN;
	look->seen = calloc(count + 1, 1);
	if (!look->seen)
		return -ENOMEM;
	ret = attach_scan(stop, look->places->ranges, look->places->count, visit, look);
	if (look->busy || (!ret && unwinds_stubs(look, count)))
		ret = -EAGAIN;
	free(look->seen);
	return ret;
}

/* All slots, then all thread pointers, in messages of bounded size. */
static int send_release(const struct process *process, const struct look *look, const struct attach_thread *threads,
			size_t thread_count)
{
	struct {
		struct calltap_msg_release message;
		uint64_t words[CALLTAP_RELEASE_MAX];
	} out;
	size_t slot = 0, thread = 0, size;
	int ret;

	do {
		uint32_t n = 0, slots;

		while (slot < look->count && n < CALLTAP_RELEASE_MAX)
			out.words[n++] = look->slots[slot++];
		slots = n;
		while (thread < thread_count && n < CALLTAP_RELEASE_MAX)
			out.words[n++] = threads[thread++].thread_pointer;
		size = sizeof(out.message) + n * sizeof(out.words[0]);
		out.message = (struct calltap_msg_release){
			.head = {CALLTAP_MSG_RELEASE, (uint32_t)size},
			.flags = slot < look->count || thread < thread_count ? CALLTAP_RELEASE_MORE : 0,
			.slot_count = slots,
			.thread_count = n - slots,
		};
		ret = channel_send(process->socket, &out, size, NULL, 0);
	} while (!ret && (slot < look->count || thread < thread_count));
	return ret;
}

/* Stopped once, for *stopped_ns: -EAGAIN when a thread is in the way. */
static int try_once(struct session *session, struct process *process, struct look *look, uint64_t *stopped_ns)
{
	struct calltap_msg_released released;
	const struct attach_thread *threads;
	struct attach_stop *stop;
	size_t count;
	int ret = attached_stop(session, process, &stop);

	if (ret)
		return ret;
	threads = attach_threads(stop, &count);
	ret = look_at(stop, look);
	if (!ret)
		ret = send_release(process, look, threads, count);
	if (!ret)
		ret = attached_ask(process, NULL, 0, CALLTAP_MSG_RELEASED, &released, sizeof(released));
	/* What a thread, or a word on some stack, was in the way of then; if it is still, the look at the text tells.
	 */
	if (!ret && process->littered && attach_slack_restore(stop, &process->littered) < 0)
		process->littered = true;
	*stopped_ns = attach_resume(stop);
	session->result->detach_stop_ns = *stopped_ns;
	return ret ? ret : released.error;
}

int attached_let_go(struct session *session, struct process *process)
{
	struct places places = {0};
	struct look look = {.places = &places};
	uint64_t until = clock_now_ns() + TRYING_NS, stopped_ns = 0;
	int ret = find_places(process, &places);

	if (!ret)
		ret = try_once(session, process, &look, &stopped_ns);
	while (ret == -EAGAIN && clock_now_ns() < until) {
		attached_pause(REST_FACTOR * stopped_ns);
		ret = try_once(session, process, &look, &stopped_ns);
	}
	free(look.slots);
	free(places.ranges);
	free(places.kinds);
	return ret;
}

/* Its sockets are closed a moment before it has ended. */
static bool has_ended(pid_t pid)
{
	struct pollfd ended = {.fd = (int)syscall(SYS_pidfd_open, pid, 0), .events = POLLIN};
	bool has = ended.fd < 0 || poll(&ended, 1, ENDING_MS) != 0;

	if (ended.fd >= 0)
		close(ended.fd);
	return has;
}

void attached_release(struct session *session, struct process *process)
{
	int ret = attached_let_go(session, process);

	/* An agent that was kept waiting for too long is gone, too. */
	if ((ret == -EPIPE || ret == -ECONNRESET || ret == -ESRCH) && has_ended(process->pid))
		return;
	if (ret)
		session_diagnose(
			session,
			"the agent stays in process %d, idle: its text is restored, but a thread was in a stub "
			"or had calls open that cannot be let go of (%s); attaching again takes up with it",
			(int)process->pid, strerror(-ret));
	process->released = !ret;
	session->result->let_go = true;
	verify_text(session, process);
}
