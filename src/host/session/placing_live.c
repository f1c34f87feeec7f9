/*
 * The agent for a static program that runs: where in its memory the agent is to lie, and the bytes (placing.h).
 *
 * A borrowed thread maps them, as parts of one file (attach/inject.c); the agent leads the heads itself, when all
 * threads are stopped.  Context: host; the target chooses what it has in memory.
 */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <host/elf/object.h>
#include <host/proc.h>
#include <host/space.h>

#include "placing.h"

#define AUXV_MAX 64u
#define TRIES	 64u
#define APART	 (16ull << 20)			/* from other mappings: the heap grows, and stacks do */
#define REACH	 ((1ull << 31) - (64ull << 20)) /* of the program's jumps to the agent, and the other way round */
#define PAGE	 4096ull

struct facts {
	uint64_t entry, headers; /* AT_ENTRY, AT_PHDR */
};

static int read_facts(struct facts *facts, pid_t alive)
{
	uint64_t auxv[2 * AUXV_MAX] = {0};
	char path[40];
	ssize_t got;
	int fd;

	*facts = (struct facts){0};
	snprintf(path, sizeof(path), "/proc/%d/auxv", (int)alive);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	got = fd < 0 ? -1 : read(fd, auxv, sizeof(auxv));
	if (fd >= 0)
		close(fd);
	for (size_t i = 0; got > 0 && i + 1 < (size_t)got / sizeof(auxv[0]); i += 2) {
		if (auxv[i] == AT_PHDR)
			facts->headers = auxv[i + 1];
		else if (auxv[i] == AT_ENTRY)
			facts->entry = auxv[i + 1];
	}
	return facts->entry && facts->headers ? 0 : -EACCES;
}

static int take_libc(struct placing_live *live, const struct placing *placing, pid_t pid, struct calltap_diag *diag)
{
	if (placing->fronts.old_musl)
		return calltap_diag_set(diag, -ENOTSUP,
					"process %d is linked statically with a musl older than 1.1.22, whose setuid() "
					"waits for the agent's thread; link it with a newer one",
					(int)pid);
	if (placing->fronts.glibc == placing->fronts.musl)
		return calltap_diag_set(diag, -ENOTSUP,
					"process %d is linked statically, and its C library is neither glibc nor musl; "
					"it cannot be attached to",
					(int)pid);
	live->placed.musl = placing->fronts.musl;
	return 0;
}

static bool is_free(const struct space *space, uint64_t lo, uint64_t hi)
{
	for (size_t i = 0; i < space->count; i++)
		if (space->maps[i].lo < hi && space->maps[i].hi > lo)
			return false;
	return true;
}

static bool is_near(const struct placing *placing, const struct placing_made *made)
{
	uint64_t lo, hi;

	object_extent(placing->object, &lo, &hi);
	lo += made->base;
	hi += made->base;
	return made->at < lo ? hi - made->at < REACH : made->at + made->size - lo < REACH;
}

/*
 * The first place that is free.  Of two tools that see no agent in the process both choose the same one, and one of
 * them does not get it.
 */
static int choose_place(struct placing_made *made, const struct placing *placing, const struct space *space, pid_t pid,
			struct calltap_diag *diag)
{
	bool found = false;

	for (unsigned i = 0; i < TRIES && !found; i++) {
		placing_candidate(&made->at, placing, made, i);
		found = made->at > APART && is_near(placing, made) &&
			is_free(space, made->at - APART, made->at + made->size + APART);
	}
	return found ? 0
		     : calltap_diag_set(
			       diag, -ENOSPC,
			       "process %d has no room in its address space near its code for the agent; start "
			       "it under 'calltap record'",
			       (int)pid);
}

/* Threads are not to be within the jumps when these are written. */
static void note_jumps(struct placing_live *live, const struct calltap_start *start)
{
	for (size_t i = 0; i < start->function_count && i < FRONTS_MAX; i++)
		if (start->functions[i].length > 1)
			live->jumps[live->jump_count++] = (struct attach_range){
				start->functions[i].head + 1, start->functions[i].head + start->functions[i].length};
}

static void add_part(struct placing_live *live, size_t *count, uint64_t at, uint64_t offset, uint64_t size,
		     int protection, int flags)
{
	live->parts[(*count)++] = (struct calltap_attach_part){
		.address = at + offset,
		.size = size,
		.offset = offset,
		.protection = (uint32_t)protection,
		.flags = (uint32_t)(MAP_PRIVATE | flags),
	};
}

static int collect(struct placing_live *live, const struct placing_made *made, const struct placing *placing)
{
	const struct agent_image *image = &placing->image;
	size_t count = 0, page = made->page - made->at, region = made->region - made->at;

	_Static_assert(IMAGE_PARTS_MAX + 2 < CALLTAP_ATTACH_PARTS, "all of them, and the end");
	live->bytes = calloc(1, made->size);
	if (!live->bytes)
		return -ENOMEM;
	memcpy(live->bytes, image->bytes, image->size);
	memcpy(live->bytes + page, &made->start, sizeof(made->start));
	memcpy(live->bytes + region, made->region_bytes, made->layout.size);
	add_part(live, &count, made->at, 0, made->size, PROT_READ, MAP_FIXED_NOREPLACE);
	for (unsigned i = 0; i < image->part_count; i++)
		add_part(live, &count, made->at, image->parts[i].offset, image->parts[i].size,
			 image->parts[i].protection, MAP_FIXED);
	add_part(live, &count, made->at, page, made->size - page, PROT_READ | PROT_EXEC, MAP_FIXED);
	live->placed.bytes = live->bytes;
	live->placed.size = made->size;
	live->placed.parts = live->parts;
	live->placed.start = made->page;
	return 0;
}

/* True if the program's heads are what the file has. */
static bool heads_are_known(const struct placing_made *made, const struct placing *placing, pid_t pid)
{
	char path[40];
	bool known = true;
	int mem;

	snprintf(path, sizeof(path), "/proc/%d/mem", (int)proc_alive(pid));
	mem = open(path, O_RDONLY | O_CLOEXEC);
	for (size_t i = 0; i < placing->fronts.count && known; i++) {
		const struct front *front = &placing->fronts.list[i];
		uint8_t now[sizeof(front->old)];

		known = mem >= 0 &&
			pread(mem, now, front->length, (off_t)(made->base + front->head)) == front->length &&
			!memcmp(now, front->old, front->length);
	}
	if (mem >= 0)
		close(mem);
	return known;
}

static int make_all(struct placing_live *live, struct placing_made *made, struct placing *placing,
		    const struct space *space, pid_t pid, struct calltap_diag *diag)
{
	uint64_t entry = agent_image_symbol(&placing->image, "calltap_agent_place");
	int ret = placing_lay_out(made, placing);

	if (!entry)
		return calltap_diag_set(diag, -ENOEXEC,
					"the agent for static programs cannot be attached; install calltap "
					"again");
	if (!ret) {
		ret = choose_place(made, placing, space, pid, diag);
		if (ret)
			return ret;
		ret = placing_make(made, placing);
	}
	if (!ret)
		ret = placing_tell_heads(made, placing);
	made->start.magic = CALLTAP_START_MAGIC;
	made->start.version = CALLTAP_START_VERSION;
	made->start.musl = live->placed.musl;
	made->start.entry = made->at + entry;
	live->placed.entry_offset = entry;
	if (!ret)
		ret = collect(live, made, placing);
	return ret ? calltap_diag_set(diag, ret, "the agent could not be prepared for process %d: %s", (int)pid,
				      strerror(-ret))
		   : 0;
}

/* 0: the process has an agent, which is to be called. -ENOENT: it has none. */
static int find_resident(struct placing_live *live, const struct placing_made *made, const struct space *space,
			 pid_t pid, struct calltap_diag *diag)
{
	struct calltap_start start;
	int ret = attach_find_placed(space->alive, space, &live->placed.start, &start);

	if (ret == -ENOENT)
		return ret;
	if (ret || start.base != made->base || start.within != made->start.within)
		return calltap_diag_set(
			diag, -ENOTSUP,
			"process %d holds the agent of another calltap, which cannot be called; start it anew",
			(int)pid);
	live->resident_entry = start.entry;
	note_jumps(live, &start);
	return 0;
}

/* There is no agent in the process yet. */
static int prepare_first(struct placing_live *live, struct placing_made *made, struct placing *placing,
			 const struct space *space, pid_t pid, struct calltap_diag *diag)
{
	int ret;

	if (!heads_are_known(made, placing, pid))
		return calltap_diag_set(
			diag, -ENOTSUP,
			"functions of process %d have been changed by a debugger or another tracer; end "
			"that, or start it anew",
			(int)pid);
	ret = attach_find_note(pid, live->placed.musl, &made->start.id_offset, &live->cut_short, diag);
	if (!ret)
		ret = make_all(live, made, placing, space, pid, diag);
	if (!ret)
		note_jumps(live, &made->start);
	free(made->region_bytes);
	return ret;
}

int placing_prepare_live(struct placing_live *live, struct placing *placing, pid_t pid, struct calltap_diag *diag)
{
	struct placing_made made = {0};
	struct facts facts;
	struct space space;
	int ret = read_facts(&facts, proc_alive(pid));

	*live = (struct placing_live){0};
	if (ret)
		return calltap_diag_set(diag, ret, "process %d does not show where its program lies; attach as root",
					(int)pid);
	made.base = facts.entry - placing->entry;
	made.start.within = facts.headers;
	ret = take_libc(live, placing, pid, diag);
	if (ret)
		return ret;
	if (space_read(&space, proc_alive(pid)))
		return calltap_diag_set(diag, -ESRCH, "process %d has ended", (int)pid);
	ret = find_resident(live, &made, &space, pid, diag);
	if (ret == -ENOENT)
		ret = prepare_first(live, &made, placing, &space, pid, diag);
	space_free(&space);
	return ret;
}

int placing_prepare_guest(struct placing_live *live, struct placing *placing, const struct attach_launch *launch,
			  struct calltap_diag *diag)
{
	struct placing_made made = {
		.base = launch->entry - placing->entry,
		.start = {.within = launch->headers,
			  .environment = launch->environment,
			  .id_offset = launch->id_offset},
	};
	struct space space;
	int ret;

	*live = (struct placing_live){.placed.musl = launch->musl};
	if (!heads_are_known(&made, placing, launch->pid))
		return calltap_diag_set(diag, -ESTALE, "its file was replaced");
	if (space_read(&space, launch->pid))
		return -ESRCH;
	ret = make_all(live, &made, placing, &space, launch->pid, diag);
	free(made.region_bytes);
	space_free(&space);
	return ret;
}

void placing_live_free(struct placing_live *live)
{
	free(live->bytes);
}
