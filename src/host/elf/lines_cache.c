/*
 * Kept source lines (lines_cache.h).  Context: host.
 */
#include <elfutils/libdwelf.h>
#include <gelf.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "debug_file.h"
#include "kept.h"
#include "lines_cache.h"

#define VERSION	  1u
#define NO_FILE	  UINT32_MAX
#define SETTLED_S 2 /* a file that is younger may change once more with the same times */

struct kept_head {
	char magic[8];
	uint32_t version, count;
	uint64_t strings; /* bytes */
	uint64_t seed[2];
	uint64_t place; /* sum of what the lines hold for */
	uint64_t rest;	/* sum of all that follows */
};

struct kept_line {
	uint64_t address, code; /* as they were asked for */
	uint32_t file;		/* offset in the strings behind, NO_FILE = there is no line */
	uint32_t line;
};

/* A line that was found in this run. */
struct fresh_line {
	uint64_t address, code;
	const char *file;
	uint32_t line;
};

struct lines_cache {
	char name[KEPT_NAME_SIZE];
	const struct lines_place *place;
	struct kept_head *head; /* the file's bytes, NULL = there is none */
	struct fresh_line *fresh;
	size_t fresh_count, fresh_room;
};

static const char MAGIC[8] = "calltapL";

static const struct kept_line *lines_of(const struct kept_head *head)
{
	return (const struct kept_line *)(head + 1);
}

static const char *strings_of(const struct kept_head *head)
{
	return (const char *)(lines_of(head) + head->count);
}

static void add_file(struct kept_sum *sum, const struct stat *st)
{
	kept_sum_number(sum, st->st_dev);
	kept_sum_number(sum, st->st_ino);
	kept_sum_number(sum, (uint64_t)st->st_size);
	kept_sum_number(sum, (uint64_t)st->st_mtim.tv_sec);
	kept_sum_number(sum, (uint64_t)st->st_mtim.tv_nsec);
	kept_sum_number(sum, (uint64_t)st->st_ctim.tv_sec);
	kept_sum_number(sum, (uint64_t)st->st_ctim.tv_nsec);
}

static uint64_t sum_of_place(const struct kept_head *head, const struct lines_place *place)
{
	struct kept_sum sum = kept_sum_begin(head->seed);

	kept_sum_tool(&sum);
	add_file(&sum, &place->object);
	add_file(&sum, &place->debug);
	return kept_sum_end(&sum);
}

static size_t rest_size(const struct kept_head *head)
{
	return head->count * sizeof(struct kept_line) + head->strings;
}

static uint64_t sum_of_rest(const struct kept_head *head)
{
	struct kept_sum sum = kept_sum_begin(head->seed);

	kept_sum_number(&sum, head->count);
	kept_sum_add(&sum, head + 1, rest_size(head));
	return kept_sum_end(&sum);
}

static int compare_places(uint64_t address, uint64_t code, uint64_t other_address, uint64_t other_code)
{
	if (address != other_address)
		return address < other_address ? -1 : 1;
	return (code > other_code) - (code < other_code);
}

static bool are_lines_sane(const struct kept_head *head)
{
	const struct kept_line *lines = lines_of(head);

	if (head->strings && strings_of(head)[head->strings - 1])
		return false;
	for (uint32_t i = 0; i < head->count; i++)
		if ((lines[i].file != NO_FILE && lines[i].file >= head->strings) ||
		    (i &&
		     compare_places(lines[i - 1].address, lines[i - 1].code, lines[i].address, lines[i].code) >= 0))
			return false;
	return true;
}

static struct kept_head *read_kept(const char *name, const struct lines_place *place)
{
	size_t size;
	struct kept_head *head = kept_read(name, sizeof(*head), &size);

	if (!head)
		return NULL;
	if (!memcmp(head->magic, MAGIC, sizeof(MAGIC)) && head->version == VERSION && head->strings <= size &&
	    size == sizeof(*head) + rest_size(head) && head->rest == sum_of_rest(head) &&
	    head->place == sum_of_place(head, place) && are_lines_sane(head))
		return head;
	free(head);
	return NULL;
}

/* True if the file has DWARF of its own, packed or not, or shares it with others (dwz). */
static bool has_dwarf(Elf *elf, bool shared)
{
	Elf_Scn *section = NULL;
	size_t names;

	if (elf_getshdrstrndx(elf, &names) < 0)
		return true;
	while ((section = elf_nextscn(elf, section))) {
		GElf_Shdr header;
		const char *name = gelf_getshdr(section, &header) ? elf_strptr(elf, names, header.sh_name) : NULL;

		if (name && (shared ? !strcmp(name, ".gnu_debugaltlink")
				    : !strncmp(name, ".debug_", 7) || !strncmp(name, ".zdebug_", 8)))
			return true;
	}
	return false;
}

static int open_debug(const struct debug_owner *owner)
{
	int fd = -1;

	for (unsigned place = 0; place < DEBUG_PLACES && fd < 0; place++)
		fd = debug_file_open(owner, (enum debug_place)place);
	return fd;
}

void lines_place_find(struct lines_place *place, Elf *elf, const char *path, int fd)
{
	const void *id = NULL;
	ssize_t size = dwelf_elf_gnu_build_id(elf, &id);
	struct debug_owner owner = {.elf = elf, .path = path};
	Elf *debug;
	int debug_fd;

	*place = (struct lines_place){0};
	if (has_dwarf(elf, false) || has_dwarf(elf, true))
		return;
	if (size > 0 && (size_t)size <= sizeof(place->id)) {
		place->id_size = (size_t)size;
		memcpy(place->id, id, place->id_size);
	}
	owner.id = place->id;
	owner.id_size = place->id_size;
	debug_fd = open_debug(&owner);
	place->none = debug_fd < 0;
	if (debug_fd < 0)
		return;
	debug = elf_begin(debug_fd, ELF_C_READ, NULL);
	place->is_apart =
		debug && !has_dwarf(debug, true) && !fstat(debug_fd, &place->debug) && !fstat(fd, &place->object);
	elf_end(debug);
	close(debug_fd);
}

static bool is_settled(const struct stat *st)
{
	time_t now = time(NULL);

	return st->st_mtim.tv_sec < now - SETTLED_S && st->st_ctim.tv_sec < now - SETTLED_S;
}

struct lines_cache *lines_cache_open(const struct lines_place *place)
{
	struct lines_cache *cache;

	if (!place->is_apart || place->id_size < KEPT_ID_MIN || !is_settled(&place->object) ||
	    !is_settled(&place->debug))
		return NULL;
	cache = calloc(1, sizeof(*cache));
	if (!cache)
		return NULL;
	cache->place = place;
	kept_name(cache->name, place->id, place->id_size, KEPT_LINES);
	cache->head = read_kept(cache->name, place);
	return cache;
}

bool lines_cache_find(const struct lines_cache *cache, uint64_t address, uint64_t code, const char **file,
		      uint32_t *line)
{
	size_t low = 0, high = cache->head ? cache->head->count : 0;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		const struct kept_line *at = &lines_of(cache->head)[middle];
		int compared = compare_places(at->address, at->code, address, code);

		if (!compared) {
			*file = at->file == NO_FILE ? NULL : strings_of(cache->head) + at->file;
			*line = at->line;
			return true;
		}
		if (compared < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return false;
}

void lines_cache_add(struct lines_cache *cache, uint64_t address, uint64_t code, const char *file, uint32_t line)
{
	if (cache->fresh_count == cache->fresh_room) {
		size_t room = cache->fresh_room ? 2 * cache->fresh_room : 1024;
		struct fresh_line *more = reallocarray(cache->fresh, room, sizeof(*more));

		if (!more)
			return; /* it is looked for again */
		cache->fresh = more;
		cache->fresh_room = room;
	}
	cache->fresh[cache->fresh_count++] = (struct fresh_line){address, code, file, line};
}

static int compare_fresh(const void *a, const void *b)
{
	const struct fresh_line *left = a, *right = b;

	return compare_places(left->address, left->code, right->address, right->code);
}

/* Put what was kept beside what is new, each place once. */
static bool unite(struct lines_cache *cache)
{
	size_t count = 0;

	for (uint32_t i = 0; cache->head && i < cache->head->count; i++) {
		const struct kept_line *line = &lines_of(cache->head)[i];

		lines_cache_add(cache, line->address, line->code,
				line->file == NO_FILE ? NULL : strings_of(cache->head) + line->file, line->line);
	}
	qsort(cache->fresh, cache->fresh_count, sizeof(*cache->fresh), compare_fresh);
	for (size_t i = 0; i < cache->fresh_count; i++)
		if (!count || compare_fresh(&cache->fresh[count - 1], &cache->fresh[i]))
			cache->fresh[count++] = cache->fresh[i];
	cache->fresh_count = count;
	return count <= KEPT_FILE_MAX / sizeof(struct kept_line);
}

/* Lines in order, names behind; neighbours mostly have the same one. */
static void fill(struct kept_head *head, const struct lines_cache *cache)
{
	struct kept_line *lines = (struct kept_line *)(head + 1);
	char *strings = (char *)(lines + cache->fresh_count);
	const char *last = NULL;
	uint32_t at = 0;

	for (size_t i = 0; i < cache->fresh_count; i++) {
		const struct fresh_line *from = &cache->fresh[i];

		lines[i] = (struct kept_line){from->address, from->code, NO_FILE, from->line};
		if (!from->file)
			continue;
		if (!last || strcmp(last, from->file) != 0) {
			at = (uint32_t)head->strings;
			memcpy(strings + at, from->file, strlen(from->file) + 1);
			head->strings += strlen(from->file) + 1;
			last = from->file;
		}
		lines[i].file = at;
	}
}

static void write_kept(struct lines_cache *cache)
{
	struct kept_head *head;
	size_t text = 0;

	if (!unite(cache))
		return;
	for (size_t i = 0; i < cache->fresh_count; i++)
		text += cache->fresh[i].file ? strlen(cache->fresh[i].file) + 1 : 0;
	head = calloc(1, sizeof(*head) + cache->fresh_count * sizeof(struct kept_line) + text);
	if (!head)
		return;
	if (getrandom(head->seed, sizeof(head->seed), GRND_NONBLOCK) == sizeof(head->seed)) {
		memcpy(head->magic, MAGIC, sizeof(MAGIC));
		head->version = VERSION;
		head->count = (uint32_t)cache->fresh_count;
		fill(head, cache);
		head->place = sum_of_place(head, cache->place);
		head->rest = sum_of_rest(head);
		kept_write(cache->name, head, sizeof(*head) + rest_size(head));
	}
	free(head);
}

void lines_cache_close(struct lines_cache *cache, bool keep)
{
	if (!cache)
		return;
	if (keep && cache->fresh_count)
		write_kept(cache);
	free(cache->fresh);
	free(cache->head);
	free(cache);
}
