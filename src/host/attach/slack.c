/*
 * The rest of the last page of an executable segment, where a borrowed thread's code lies while it runs (impl.h).
 *
 * Nobody else reads or runs those bytes.  The tool takes a place only if it holds what the file has there, so that two
 * tools do not take the same, and gives it back by writing what the file has.  Context: host.
 */
#include <errno.h>
#include <gelf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "impl.h"

#define VDSO "[vdso]"

/*
 * The kernel maps the vDSO's pages into all processes alike, so the tool's own copy says what is there.  NULL: the map
 * is none, or not of that kind.
 */
static const unsigned char *own_vdso(const struct map *map, size_t *size)
{
	const unsigned char *vdso = (const unsigned char *)getauxval(AT_SYSINFO_EHDR);
	struct space own;
	const struct map *here;

	*size = 0;
	if (!vdso || strcmp(map->path, VDSO) != 0 || space_read(&own, getpid()))
		return NULL;
	here = space_find(&own, (uint64_t)vdso);
	if (here && here->lo == (uint64_t)vdso && here->hi - here->lo == map->hi - map->lo)
		*size = here->hi - here->lo;
	space_free(&own);
	return *size ? vdso : NULL;
}

/* Behind all that the vDSO's file has, zeros follow up to the page's end. */
static uint64_t end_of_vdso(pid_t alive, const struct map *map)
{
	unsigned char theirs[PAGE];
	size_t size, used;
	const unsigned char *vdso = own_vdso(map, &size);

	for (used = size; used && !vdso[used - 1]; used--)
		;
	for (size_t at = 0; at < used; at += PAGE)
		if (memory_read(alive, map->lo + at, theirs, PAGE) ||
		    memcmp(theirs, vdso + at, used - at < PAGE ? used - at : PAGE) != 0)
			return 0;
	return used ? map->lo + used : 0;
}

int slack_original(pid_t alive, const struct map *map, uint64_t address, unsigned char *bytes, size_t size)
{
	size_t there;
	const unsigned char *vdso = own_vdso(map, &there);
	int fd = vdso ? -1 : proc_open_map(alive, map);
	ssize_t got;

	if (vdso && address - map->lo <= there && size <= there - (address - map->lo)) {
		memcpy(bytes, vdso + (address - map->lo), size);
		return 0;
	}
	if (fd < 0)
		return fd;
	memset(bytes, 0, size);
	got = pread(fd, bytes, size, (off_t)(map->offset + (address - map->lo)));
	close(fd);
	return got < 0 ? -EIO : 0;
}

static bool is_code_map(const struct map *map)
{
	return map->path[0] == '/' &&
	       (map->bits & (MAP_READ | MAP_WRITE | MAP_EXEC | MAP_PUBLIC)) == (MAP_READ | MAP_EXEC);
}

static uint64_t find_end(pid_t alive, const struct map *map)
{
	int fd = proc_open_map(alive, map);
	Elf *elf = fd < 0 ? NULL : elf_begin(fd, ELF_C_READ, NULL);
	uint64_t end = 0;
	size_t count;

	if (elf && elf_kind(elf) == ELF_K_ELF && !elf_getphdrnum(elf, &count)) {
		for (size_t i = 0; i < count; i++) {
			GElf_Phdr header;

			if (!gelf_getphdr(elf, (int)i, &header) || header.p_type != PT_LOAD || !(header.p_flags & PF_X))
				continue;
			if (map->offset + PAGE <= header.p_offset || map->offset >= header.p_offset + header.p_filesz)
				continue;
			end = map->lo + (header.p_offset - map->offset) + header.p_memsz;
		}
	}
	elf_end(elf);
	if (fd >= 0)
		close(fd);
	return end > map->lo && end <= map->hi ? end : 0;
}

uint64_t slack_segment_end(pid_t alive, const struct map *map)
{
	if (!strcmp(map->path, VDSO))
		return end_of_vdso(alive, map);
	return is_code_map(map) ? find_end(alive, map) : 0;
}

bool slack_is_free(pid_t alive, const struct slack *slack)
{
	unsigned char now[NATIVE_CODE_MAX];

	return !memory_read(alive, slack->address, now, slack->size) && !memcmp(now, slack->original, slack->size);
}

static bool slack_of(struct slack *slack, pid_t alive, const struct map *map)
{
	size_t size = (native_code_size() + 7) & ~(size_t)7;
	uint64_t end = slack_segment_end(alive, map), at = (end + SLACK_ALIGN - 1) & ~(uint64_t)(SLACK_ALIGN - 1);

	/* Take only the page that the segment ends in: the map may be longer where the file is. */
	if (!end || at + size > ((end + PAGE - 1) & ~(uint64_t)(PAGE - 1)) || at + size > map->hi)
		return false;
	slack->address = at;
	slack->size = size;
	return !slack_original(alive, map, at, slack->original, size) && slack_is_free(alive, slack);
}

/* True if no thread can unload the mapping's library. */
static bool cannot_unload(const struct libs *libs, const struct map *map)
{
	for (size_t i = 0; i < libs->stays_count; i++)
		if (libs->stays[i].lo == map->lo)
			return true;
	return false;
}

/* True if the errand may be there.  Programs with a loader have so many places that the vDSO's is not needed. */
static bool is_place(const struct libs *libs, const struct map *map)
{
	return cannot_unload(libs, map) || (libs->placed && !strcmp(map->path, VDSO));
}

/* True if the mapping is of the program's own file. */
static bool is_program(pid_t alive, const struct map *map)
{
	struct stat st;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/exe", (int)alive);
	return !stat(path, &st) && space_is_file(map, &st);
}

/*
 * Libraries first: a page that was written to is the process' own from then
 * on, and cannot be taken from the file again when it is detached from, which
 * some sites need (patch/pages.c).  Most sites are the program's.
 */
int slack_find(struct slack *slack, pid_t alive, const struct space *space, const struct libs *libs)
{
	for (unsigned program = 0; program < 2; program++)
		for (size_t i = 0; i < space->count; i++)
			if (is_place(libs, &space->maps[i]) && is_program(alive, &space->maps[i]) == (program == 1) &&
			    slack_of(slack, alive, &space->maps[i]))
				return 0;
	return -ENOSPC;
}

#define LEFTOVERS_MAX	  16u /* taken back in one stop */
#define CLEAN_NS	  1000000000u
#define CLEAN_TRIES	  10u	       /* at least, for on a busy machine one may take a second... */
#define CLEAN_LONG_NS	  20000000000u /* ...but no longer than this in all */
#define CLEAN_STEP_NS	  1000000
#define CLEAN_STEP_MAX_NS 100000000

/* Places where injections have left their code. */
struct leftovers {
	struct attach_range ranges[LEFTOVERS_MAX]; /* sorted */
	const struct map *maps[LEFTOVERS_MAX];
	bool used[LEFTOVERS_MAX];
	unsigned char originals[LEFTOVERS_MAX][NATIVE_CODE_MAX];
	size_t count;
	const struct held *held;
};

static void find_leftovers(const struct attach_stop *stop, struct leftovers *leftovers)
{
	size_t size = (native_code_size() + 7) & ~(size_t)7;
	unsigned char bytes[NATIVE_CODE_MAX];

	for (size_t i = 0; i < stop->space.count && leftovers->count < LEFTOVERS_MAX; i++) {
		const struct map *map = &stop->space.maps[i];
		uint64_t end, at;

		if (!ahead_segment_end(stop->ahead, map, &end))
			end = slack_segment_end(stop->alive, map);
		at = (end + SLACK_ALIGN - 1) & ~(uint64_t)(SLACK_ALIGN - 1);
		if (!end || at + size > map->hi || memory_read(stop->alive, at, bytes, size) || !native_code_is(bytes))
			continue;
		leftovers->ranges[leftovers->count] = (struct attach_range){at, at + size};
		leftovers->maps[leftovers->count++] = map;
	}
}

bool attach_slack_has(pid_t pid)
{
	size_t size = (native_code_size() + 7) & ~(size_t)7;
	unsigned char bytes[NATIVE_CODE_MAX];
	const pid_t alive = proc_alive(pid);
	struct space space;
	bool has = false;

	if (!alive || space_read(&space, alive))
		return false;
	elf_version(EV_CURRENT);
	for (size_t i = 0; !has && i < space.count; i++) {
		const struct map *map = &space.maps[i];
		uint64_t end = slack_segment_end(alive, map);
		uint64_t at = (end + SLACK_ALIGN - 1) & ~(uint64_t)(SLACK_ALIGN - 1);

		has = end && at + size <= map->hi && !memory_read(alive, at, bytes, size) && native_code_is(bytes);
	}
	space_free(&space);
	return has;
}

static int note_use(void *context, const struct attach_hit *hit)
{
	struct leftovers *leftovers = context;

	leftovers->used[hit->range] = true;
	return 0;
}

/* Note contexts on stacks that no thread runs on: no word of a thread's stack tells of them. */
static void note_contexts(const struct attach_stop *stop, struct leftovers *leftovers)
{
	size_t count;
	const struct attach_context *contexts = attach_contexts(stop, &count);

	for (size_t i = 0; i < count; i++)
		for (size_t k = 0; k < leftovers->count; k++)
			leftovers->used[k] |= contexts[i].pc - leftovers->ranges[k].lo <
					      leftovers->ranges[k].hi - leftovers->ranges[k].lo;
}

static const struct held *any_stopped(const struct attach_stop *stop)
{
	for (size_t i = 0; i < stop->count; i++)
		if (stop->held[i].state == HELD_STOPPED)
			return &stop->held[i];
	return NULL;
}

/* Runs in the tracer, which may outlive the tool: it only writes. */
static int write_back(struct attach_stop *stop, void *context)
{
	const struct leftovers *leftovers = context;
	int restored = 0, ret = 0;

	for (size_t i = 0; i < leftovers->count && !ret; i++) {
		const struct attach_range *range = &leftovers->ranges[i];

		if (leftovers->used[i])
			continue;
		/* The first bytes, by which the tool knows its leftovers, go last: the tool may be killed on the way.
		 */
		ret = hold_poke(leftovers->held, range->lo, leftovers->originals[i], range->hi - range->lo, true);
		restored += !ret;
	}
	return ret ? ret : restored;
}

static int restore_leftovers(struct attach_stop *stop, struct leftovers *leftovers, bool *in_use)
{
	int ret = 0;

	find_leftovers(stop, leftovers);
	leftovers->held = any_stopped(stop);
	if (!leftovers->count)
		return 0;
	*in_use = !leftovers->held || attach_ahead_is_late(stop);
	if (*in_use)
		return 0;
	ret = attach_scan(stop, leftovers->ranges, leftovers->count, note_use, leftovers);
	note_contexts(stop, leftovers);
	for (size_t i = 0; i < leftovers->count && !ret; i++) {
		const struct attach_range *range = &leftovers->ranges[i];

		*in_use |= leftovers->used[i];
		ret = slack_original(stop->alive, leftovers->maps[i], range->lo, leftovers->originals[i],
				     range->hi - range->lo);
	}
	return ret ? ret : stop_run(stop, write_back, leftovers);
}

int attach_slack_restore(struct attach_stop *stop, bool *in_use)
{
	struct leftovers *leftovers = calloc(1, sizeof(*leftovers));
	int ret = -ENOMEM;

	*in_use = false;
	elf_version(EV_CURRENT);
	if (leftovers)
		ret = restore_leftovers(stop, leftovers, in_use);
	free(leftovers);
	return ret;
}

int slack_clean(pid_t pid, bool *in_use, uint32_t *cut_short)
{
	struct attach_ahead *ahead;
	struct attach_times times;
	struct attach_stop *stop;
	int ret;

	*in_use = true;
	if (attach_ahead_read(&ahead, pid, ATTACH_AHEAD_SEGMENTS | ATTACH_AHEAD_CONTEXTS))
		ahead = NULL;
	ret = attach_stop(&stop, pid, NULL, 0, NULL);
	if (!ret) {
		attach_use(stop, ahead);
		ret = attach_slack_restore(stop, in_use);
		attach_resume_timed(stop, &times);
		*cut_short += times.cut_short;
	}
	attach_ahead_free(ahead);
	return ret;
}

/* True if another try may succeed: began is the time of the first one. */
static bool may_clean(pid_t pid, uint64_t began, unsigned tries)
{
	uint64_t took = now_ns() - began;

	return took < CLEAN_LONG_NS && (took < CLEAN_NS || tries < CLEAN_TRIES) && proc_alive(pid);
}

uint32_t attach_slack_clean(pid_t pid)
{
	struct timespec pause = {0, CLEAN_STEP_NS};
	uint64_t began = now_ns();
	uint32_t cut_short = 0;
	bool in_use;

	attach_await_transfers(pid, now_ns() + ATTACH_TRANSFERS_NS);
	/* A stop that failed says nothing of the next one. */
	for (unsigned tries = 1; (slack_clean(pid, &in_use, &cut_short) < 0 || in_use) && may_clean(pid, began, tries);
	     tries++) {
		nanosleep(&pause, NULL);
		if (pause.tv_nsec < CLEAN_STEP_MAX_NS)
			pause.tv_nsec *= 2;
	}
	return cut_short;
}
