/*
 * How many rings a target has: one for each thread that it has at an attach, before its first site is on, and from then
 * on a reserve for threads to come, which is filled up before it is empty.
 *
 * A ring is address space in the target and one page of memory; the rest comes as its thread writes.  Called by the
 * server thread and the drainer, with the session's lock.  Context: host.
 */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include <calltap/abi/handlers.h>
#include <calltap/abi/program.h>
#include <host/cgroup.h>
#include <host/proc.h>
#include <host/session/session.h>

#define RESERVE_MIN 8u	 /* half of what a process begins with */
#define RESERVE_MAX 512u /* at two megabytes of memory */
/* A process has a bounded number of arenas: one that is sent has so many rings, or this part of what there is. */
#define RINGS_MIN   16u
#define GROWTH_PART 2u
#define FILE_GROWTH 2u /* where each ring takes its memory at once: times the rings of the arena before */
/*
 * Rings of threads that have ended wait until they are taken.  Where threads come and go faster than the tool takes
 * their records, such rings have so many bytes in all: then new threads go on in them.
 */
#define ENDED_BYTES (64ull << 20)
#define ENDED_MIN   16u
#define STATM_SIZE  0u /* fields of /proc/PID/statm */
#define STATM_DATA  5u
/* A limit of memory is there for the program: of what is left under it, a part like this is taken at most. */
#define SPACE_SHARE 4u
#define ROOM_AHEAD  4u
#define SUBS_LEAST  2u /* sub-buffers of a ring */
/* Bytes of the tables of handled functions, and of values' programs: a target maps all of them, and they fill up later.
 */
#define HANDLED_SHARED	(CALLTAP_HANDLED_MAX * (sizeof(struct calltap_handled) + sizeof(struct calltap_roles)))
#define HANDLED_PRIVATE (CALLTAP_HANDLED_MAX * sizeof(uint64_t))
#define VALUES_SHARED	(CALLTAP_PROGRAMS_SIZE + CALLTAP_PAGE + CALLTAP_PROGRAM_CODE)

uint32_t rings_count(const struct share *share, bool retired, bool claimed)
{
	uint32_t rings = 0;

	for (uint32_t i = 0; i < share->arena_count; i++) {
		const struct target_arena *arena = &share->arenas[i];

		for (uint32_t k = 0; k < arena->ring_count && arena->retired == retired; k++) {
			uint32_t state = __atomic_load_n(&arena->arena->state[k], __ATOMIC_RELAXED);

			rings += claimed ? ring_is_claimed(state) : state == CALLTAP_RING_FREE;
		}
	}
	return rings;
}

static uint32_t reserve_for(uint32_t threads)
{
	uint32_t reserve = threads / 2;

	return reserve < RESERVE_MIN ? RESERVE_MIN : reserve < RESERVE_MAX ? reserve : RESERVE_MAX;
}

/* A forked child begins with fewer, of which half are the reserve. */
static uint32_t reserve_of(const struct share *share, uint32_t claimed)
{
	uint32_t reserve = reserve_for(claimed), half = share->arenas[0].ring_count / 2;

	return reserve == RESERVE_MIN && half < reserve ? half : reserve;
}

/*
 * Bytes that a limit of the process leaves it; UINT64_MAX: the limit is infinite, or the process has ended.  field: the
 * number in /proc/PID/statm that counts against the limit.
 */
static uint64_t left_under_limit(pid_t pid, __rlimit_resource_t resource, unsigned field)
{
	struct rlimit limit;
	char text[128];
	char *at = text;
	uint64_t used = 0;

	if (prlimit(pid, resource, NULL, &limit) || limit.rlim_cur == RLIM_INFINITY)
		return UINT64_MAX;
	if (proc_text(pid, "statm", text, sizeof(text)))
		return 0;
	for (unsigned i = 0; i <= field; i++)
		used = strtoull(at, &at, 10) * CALLTAP_PAGE;
	return limit.rlim_cur > used ? limit.rlim_cur - used : 0;
}

/* Bytes of all rings that were sent. */
static uint64_t taken_by(const struct target *target)
{
	uint64_t taken = 0;

	for (uint32_t set = 0; set < CALLTAP_INSTANCES; set++)
		for (uint32_t i = 0; target->shares[set] && i < target->shares[set]->arena_count; i++)
			taken += target->shares[set]->arenas[i].size;
	return taken;
}

bool rings_are_limited(const struct target *target)
{
	return left_under_limit(target->pid, RLIMIT_AS, STATM_SIZE) != UINT64_MAX ||
	       left_under_limit(target->pid, RLIMIT_DATA, STATM_DATA) != UINT64_MAX ||
	       cgroup_memory_left(target->pid) != UINT64_MAX;
}

/*
 * Bytes of address space that further rings of the target may take.  All rings together get a part of what the limit
 * would leave the process without them; those that were sent are taken off.
 */
static uint64_t share_of_space(const struct target *target)
{
	uint64_t left = left_under_limit(target->pid, RLIMIT_AS, STATM_SIZE), taken = taken_by(target);

	if (left == UINT64_MAX)
		return left;
	left = (left + taken) / SPACE_SHARE;
	return left > taken ? left - taken : 0;
}

uint64_t rings_beside(const struct session *session)
{
	return (session->images.handlers ? HANDLED_SHARED + HANDLED_PRIVATE : 0) +
	       (session->images.values ? VALUES_SHARED : 0) +
	       (session->images.brief ? 2 * sizeof(struct calltap_times) : 0); /* the file, and zeros in its place */
}

/*
 * The part of what the process' cgroup left it before us that rings may still take; UINT64_MAX: there is no limit.  A
 * ring that was sent counts there only when it is touched, by and by; so all that were are taken off.
 */
static uint64_t share_of_cgroup(struct target *target)
{
	uint64_t now = cgroup_memory_left(target->pid), taken = taken_by(target);

	if (!target->memory.left)
		target->memory.left = now;
	if (now == UINT64_MAX)
		return now;
	now = (now < target->memory.left ? now : target->memory.left) / SPACE_SHARE;
	return now > taken ? now - taken : 0;
}

/* An arena is a file, if one in memory. */
static uint64_t file_limit(void)
{
	struct rlimit limit;

	return getrlimit(RLIMIT_FSIZE, &limit) || limit.rlim_cur == RLIM_INFINITY ? UINT64_MAX : limit.rlim_cur;
}

/* Bytes that limits leave for further rings; UINT64_MAX each: there is no such limit. */
struct left {
	uint64_t space, cgroup; /* for all that may still come */
	uint64_t file;		/* for an arena */
};

static struct left left_for(struct target *target)
{
	return (struct left){share_of_space(target), share_of_cgroup(target), file_limit()};
}

/* Under a limit buffers are smaller rather than fewer: so that there is room for four times as many as are wanted now.
 */
static uint32_t subs_of(const struct instance *instance, const struct left *limits, uint32_t wanted)
{
	uint64_t left = (limits->space < limits->cgroup ? limits->space : limits->cgroup) / ROOM_AHEAD, subs;

	left = limits->file < left ? limits->file : left;
	if (left >= UINT64_MAX / ROOM_AHEAD || instance->buffers.path)
		return instance->sub_count;
	subs = left / ((uint64_t)wanted + 1) / instance->sub_size;
	subs = subs < SUBS_LEAST ? SUBS_LEAST : subs < instance->sub_count ? subs : instance->sub_count;
	return (uint32_t)subs;
}

uint32_t rings_subs(const struct instance *instance, struct target *target, uint32_t wanted)
{
	const struct left left = left_for(target);

	return subs_of(instance, &left, wanted);
}

uint32_t rings_room(const struct instance *instance, struct target *target, uint32_t wanted, uint64_t beside)
{
	const struct left left = left_for(target);
	uint64_t stride = CALLTAP_PAGE + (uint64_t)instance->sub_size * subs_of(instance, &left, wanted), room = wanted;

	if (instance->session->images.handlers &&
	    left_under_limit(target->pid, RLIMIT_DATA, STATM_DATA) / SPACE_SHARE < HANDLED_PRIVATE)
		return 0;
	if (left.space != UINT64_MAX)
		room = left.space > beside ? (left.space - beside) / stride : 0;
	if (left.file / stride <= room)
		room = left.file / stride ? left.file / stride - 1 : 0;
	/* Of what is beside only a little is touched. */
	if (left.cgroup != UINT64_MAX && left.cgroup / stride < room)
		room = left.cgroup / stride;
	return room < wanted ? (uint32_t)room : wanted;
}

/* How many rings may be sent unasked. */
static uint32_t room_for(const struct share *share, uint32_t wanted)
{
	if (share->instance->buffers.path)
		return 0; /* a ring takes all its memory at once: not before somebody asks for it */
	return rings_room(share->instance, share->target, wanted, 0);
}

/* An arena more; *sent: it went out, or failed to.  -errno of what came first. */
static int send_arena(struct share *share, uint32_t rings, bool *sent)
{
	struct calltap_msg_arena message = {.head = {CALLTAP_MSG_ARENA, sizeof(message)}, .set = share->instance->set};
	int fd, ret = arena_add(share, rings, &fd);

	*sent = !ret;
	if (ret)
		return ret;
	message.arena_size = share->arenas[share->arena_count - 1].size;
	ret = channel_send(share->target->socket, &message, sizeof(message), &fd, 1);
	if (ret)
		arena_destroy(share->instance, &share->arenas[--share->arena_count], false);
	close(fd);
	return ret;
}

int rings_prepare(struct share *share, uint32_t threads)
{
	uint32_t wanted = threads + reserve_for(threads), there = rings_count(share, false, false), rings;
	uint32_t room = threads > there ? room_for(share, UINT32_MAX) : 0;
	bool sent = true;
	int ret = 0;

	while (threads > there && there < wanted && room && sent && !ret) {
		rings = wanted - there < CALLTAP_ARENA_RINGS ? wanted - there : CALLTAP_ARENA_RINGS;
		rings = rings < room ? rings : room;
		ret = send_arena(share, rings, &sent);
		there += rings;
		room -= rings;
	}
	/* Where there can be no more, threads ask, and are told. */
	return sent ? ret : 0;
}

/* The least that is sent, to a target that has so many rings. */
static uint32_t portion_of(const struct share *share, uint32_t there)
{
	if (share->instance->buffers.path)
		return share->arenas[share->arena_count - 1].ring_count * FILE_GROWTH;
	return there / GROWTH_PART < RINGS_MIN ? RINGS_MIN : there / GROWTH_PART;
}

/*
 * Rings that are to be sent: 0 while the target has those of all living threads, a reserve, and some of threads that
 * have ended.
 */
static uint32_t missing_rings(const struct share *share)
{
	const struct target_arena *last = &share->arenas[share->arena_count - 1];
	uint64_t ended = ENDED_BYTES / last->ring_stride;
	uint32_t claimed = rings_count(share, false, true), there = rings_count(share, false, false) + claimed;
	uint32_t threads = rings_threads(share->target), wanted, rings = portion_of(share, there);

	if (!threads) /* the target may have taken /proc away, which is the tool's, too */
		threads = claimed;
	ended = ended < ENDED_MIN ? ENDED_MIN : ended < RESERVE_MAX ? ended : RESERVE_MAX;
	wanted = threads + reserve_for(threads) + (uint32_t)ended;
	if (there >= wanted)
		return 0;
	if (rings < wanted - there && !share->instance->buffers.path)
		rings = wanted - there;
	return rings < CALLTAP_ARENA_RINGS ? rings : CALLTAP_ARENA_RINGS;
}

/* Each thread that waits asks again: what was sent may not have been mapped or taken yet. */
static int answer_starved(struct share *share)
{
	uint32_t rings;
	bool sent;
	int ret;

	if (rings_count(share, false, false))
		return 0;
	rings = missing_rings(share);
	if (!rings)
		return 0; /* those of threads that have ended are full: there is room when they are emptied */
	rings = rings_room(share->instance, share->target, rings, 0);
	sent = rings;
	ret = rings ? send_arena(share, rings, &sent) : 0;
	if (sent)
		return ret;
	instance_diagnose(
		share->instance,
		"process %d has more threads than there are buffers; some were not recorded (a smaller buffer, "
		"-b, leaves room for more)",
		(int)share->target->pid);
	return 0;
}

int rings_supply(struct share *share)
{
	struct calltap_arena *arena = share->arenas[0].arena;
	uint32_t starved = __atomic_load_n(&arena->starved, __ATOMIC_RELAXED), rings;
	bool sent;
	int ret;

	if (share->target->detaching || share->instance->ending)
		return 0; /* it may not understand it any more */
	if (starved != share->arenas[0].starved_seen) {
		share->arenas[0].starved_seen = starved;
		return answer_starved(share);
	}
	if (share->no_reserve || rings_count(share, false, false) >= reserve_of(share, rings_count(share, false, true)))
		return 0;
	rings = missing_rings(share);
	if (!rings)
		return 0;
	rings = room_for(share, rings);
	ret = rings ? send_arena(share, rings, &sent) : -ENOSPC;
	share->no_reserve = !rings || !sent;
	return share->no_reserve ? 0 : ret;
}

uint64_t rings_counted(const struct target *target, uint32_t set)
{
	const struct share *first = target->shares[0];
	const struct calltap_arena *arena;

	if (!first || !first->arena_count)
		return target->shares[set] ? target->shares[set]->untraced : 0;
	arena = first->arenas[0].arena;
	return __atomic_load_n(set ? &arena->untraced_further[set - 1] : &arena->untraced, __ATOMIC_RELAXED);
}

uint64_t rings_untraced(const struct share *share)
{
	return rings_counted(share->target, share->instance->set) - share->untraced_before;
}

uint32_t rings_threads(const struct target *target)
{
	uint32_t threads = 0;
	char path[64];
	DIR *tasks;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)target->pid);
	tasks = opendir(path);
	while (tasks && readdir(tasks))
		threads++;
	if (tasks)
		closedir(tasks);
	return threads;
}
