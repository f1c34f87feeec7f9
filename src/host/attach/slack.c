/*
 * The rest of the last page of an executable segment, where a borrowed
 * thread's code lies while it runs (impl.h).
 *
 * Nobody else reads or runs those bytes.  A place is taken only if it holds
 * what the file has there, so two tools do not take the same, and giving it
 * back is writing what the file has.  Context: host.
 */
#include <errno.h>
#include <gelf.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "impl.h"

int slack_original(pid_t alive, const struct map *map, uint64_t address, unsigned char *bytes, size_t size)
{
	int fd = proc_open_map(alive, map);
	ssize_t got;

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

	/* Only the page that the segment ends in: the map may be longer where the file is. */
	if (!end || at + size > ((end + PAGE - 1) & ~(uint64_t)(PAGE - 1)) || at + size > map->hi)
		return false;
	slack->address = at;
	slack->size = size;
	return !slack_original(alive, map, at, slack->original, size) && slack_is_free(alive, slack);
}

/* Another thread may unload a library at any moment, but not these. */
static bool stays(const struct libs *libs, const struct map *map)
{
	for (size_t i = 0; i < libs->stays_count; i++)
		if (libs->stays[i].lo == map->lo)
			return true;
	return false;
}

/* Is it of the program's own file? */
static bool is_program(pid_t alive, const struct map *map)
{
	struct stat st;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/exe", (int)alive);
	return !stat(path, &st) && st.st_ino == map->inode && major(st.st_dev) == map->major &&
	       minor(st.st_dev) == map->minor;
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
			if (stays(libs, &space->maps[i]) && is_program(alive, &space->maps[i]) == (program == 1) &&
			    slack_of(slack, alive, &space->maps[i]))
				return 0;
	return -ENOSPC;
}

bool slack_in_use(const struct held *held, const struct space *space, pid_t alive, uint64_t lo, uint64_t hi)
{
	uint64_t pc = native_pc(&held->regs), words[512];
	struct attach_range live;

	if (pc >= lo && pc < hi)
		return true;
	if (!scan_live(space, native_sp(&held->regs), 1u << 20, &live))
		return false;
	for (uint64_t at = live.lo; at < live.hi; at += sizeof(words)) {
		size_t size = live.hi - at < sizeof(words) ? live.hi - at : sizeof(words);

		if (memory_read(alive, at, words, size))
			continue;
		for (size_t i = 0; i < size / 8; i++)
			if (words[i] >= lo && words[i] < hi)
				return true;
	}
	return false;
}

struct leftover {
	struct attach_range range;
	bool used;
};

static int note_use(void *context, const struct attach_hit *hit)
{
	struct leftover *leftover = context;

	leftover->used = true;
	return 0;
}

static const struct held *any_stopped(const struct attach_stop *stop)
{
	for (size_t i = 0; i < stop->count; i++)
		if (stop->held[i].state == HELD_STOPPED)
			return &stop->held[i];
	return NULL;
}

/* 1: was given back. */
static int restore_one(struct attach_stop *stop, const struct held *held, const struct map *map, bool *in_use)
{
	struct leftover leftover = {{0, 0}, false};
	unsigned char bytes[NATIVE_CODE_MAX];
	size_t size = (native_code_size() + 7) & ~(size_t)7;
	uint64_t end, at;
	int ret;

	if (!ahead_segment_end(stop->ahead, map, &end))
		end = slack_segment_end(stop->alive, map);
	at = (end + SLACK_ALIGN - 1) & ~(uint64_t)(SLACK_ALIGN - 1);
	if (!end || at + size > map->hi || memory_read(stop->alive, at, bytes, size) || !native_code_is(bytes))
		return 0;
	leftover.range = (struct attach_range){at, at + size};
	ret = attach_scan(stop, &leftover.range, 1, note_use, &leftover);
	*in_use |= leftover.used;
	if (ret || leftover.used)
		return ret;
	ret = slack_original(stop->alive, map, at, bytes, size);
	/* What it is known by goes last: we may be killed on the way. */
	if (!ret)
		ret = hold_poke(held, at, bytes, size, true);
	return ret ? ret : 1;
}

static int restore_all(struct attach_stop *stop, void *context)
{
	const struct held *held = any_stopped(stop);
	bool *in_use = context;
	int restored = 0;

	for (size_t i = 0; held && i < stop->space.count; i++) {
		int ret = restore_one(stop, held, &stop->space.maps[i], in_use);

		if (ret < 0)
			return ret;
		restored += ret;
	}
	return restored;
}

int attach_slack_restore(struct attach_stop *stop, bool *in_use)
{
	*in_use = false;
	elf_version(EV_CURRENT);
	return stop_run(stop, restore_all, in_use);
}
