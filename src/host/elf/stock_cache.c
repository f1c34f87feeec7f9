/*
 * What stock_find() found and stock_find_needs() measured, kept by build id in $XDG_CACHE_HOME/calltap or
 * ~/.cache/calltap (stock_cache.h).
 *
 * A file holds for exactly what stock_find() reads, all of which is summed up, and for the tool that wrote it.  The sum
 * starts at a number that is drawn for each file: who makes an object with another one's build id cannot make one with
 * the same sum.  Folder and files must be the user's own or root's, and written to by nobody else.  Context: host.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "stock_cache.h"

#define VERSION	    2u
#define CODE_MIN    (UINT64_C(128) << 10) /* less code is read again as fast */
#define FILE_MAX    (UINT64_C(16) << 20)
#define FOLDER_MAX  (UINT64_C(64) << 20)
#define ENDING	    ".functions"
#define NAME_SIZE   96
#define HEAD_OFFSET 255u

struct kept_head {
	char magic[8];
	uint32_t version, count;
	uint64_t seed[2];
	uint64_t image;	    /* sum of what stock_find() read */
	uint64_t functions; /* sum of the functions below */
};

struct kept_function {
	uint64_t address;
	uint32_t size;
	uint8_t head; /* from address */
	uint8_t length, jump, verdict;
	uint16_t block, frame; /* struct stock_need */
	uint32_t entry, common, unused;
};

static const char MAGIC[8] = "calltapF";

/* Two words at a time, in as many lanes as a CPU multiplies at once. */
struct sum {
	uint64_t seed[2];
	uint64_t lanes[4];
};

static uint64_t load(const uint8_t *at)
{
	uint64_t value;

	memcpy(&value, at, sizeof(value));
	return value;
}

static uint64_t fold(uint64_t a, uint64_t b)
{
	unsigned __int128 product = (unsigned __int128)a * b;

	return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static void add_block(struct sum *sum, const uint8_t *at)
{
	for (unsigned i = 0; i < 4; i++)
		sum->lanes[i] = fold(load(at + 16 * (size_t)i) ^ sum->lanes[i],
				     load(at + 16 * (size_t)i + 8) ^ (sum->seed[1] + 2 * (uint64_t)i));
}

static void add(struct sum *sum, const void *bytes, size_t size)
{
	const uint8_t *at = bytes;
	uint8_t last[64] = {0};
	uint64_t length = size;

	for (; size >= sizeof(last); size -= sizeof(last), at += sizeof(last))
		add_block(sum, at);
	if (size)
		memcpy(last, at, size);
	memcpy(last + 56, &length, sizeof(length)); /* may take the place of bytes: they are added below */
	add_block(sum, last);
	if (size > 56) {
		memset(last, 0, sizeof(last));
		memcpy(last, at + 56, size - 56);
		add_block(sum, last);
	}
}

static void add_number(struct sum *sum, uint64_t number)
{
	sum->lanes[0] = fold(number ^ sum->lanes[0], sum->seed[1]);
}

static struct sum begin_sum(const uint64_t seed[2])
{
	struct sum sum = {{seed[0], seed[1] | 1}, {0}};

	for (unsigned i = 0; i < 4; i++)
		sum.lanes[i] = seed[0] + i;
	return sum;
}

static uint64_t end_sum(const struct sum *sum)
{
	uint64_t value = sum->seed[0];

	for (unsigned i = 0; i < 4; i++)
		value = fold(value ^ sum->lanes[i], sum->seed[1] + i);
	return value;
}

/* A tool that was built anew may find something else. */
static void add_tool(struct sum *sum)
{
	struct stat st = {0};

	if (stat("/proc/self/exe", &st))
		return;
	add_number(sum, (uint64_t)st.st_size);
	add_number(sum, (uint64_t)st.st_mtim.tv_sec);
	add_number(sum, (uint64_t)st.st_mtim.tv_nsec);
}

static uint64_t sum_of_image(const struct stock_image *image, const uint64_t seed[2])
{
	struct sum sum = begin_sum(seed);

	add_tool(&sum);
	add_number(&sum, image->machine | (uint64_t)image->fixed << 16 | (uint64_t)image->loader << 17);
	add_number(&sum, image->lo);
	add_number(&sum, image->hi);
	for (size_t i = 0; i < image->section_count; i++) {
		const struct stock_section *section = &image->sections[i];

		add_number(&sum, section->address);
		add_number(&sum, section->code | section->plt << 1);
		add_number(&sum, section->size);
		add(&sum, section->bytes, section->bytes ? section->size : 0);
	}
	add_number(&sum, image->frames.address);
	add(&sum, image->frames.bytes, image->frames.size);
	for (size_t i = 0; i < image->symbol_count; i++) {
		add_number(&sum, image->symbols[i].address);
		add_number(&sum, (uint64_t)image->symbols[i].size << 3 | image->symbols[i].part << 2 |
					 image->symbols[i].leave << 1 | image->symbols[i].twice);
	}
	add(&sum, image->pointed, image->pointed_count * sizeof(*image->pointed));
	add(&sum, image->relocated, image->relocated_count * sizeof(*image->relocated));
	add(&sum, image->keepers, image->keeper_count * sizeof(*image->keepers));
	return end_sum(&sum);
}

static uint64_t sum_of_functions(const struct kept_head *head, const struct kept_function *functions)
{
	struct sum sum = begin_sum(head->seed);

	add(&sum, functions, head->count * sizeof(*functions));
	return end_sum(&sum);
}

/* True if nobody but the user and root can have made or changed it. */
static bool is_safe(const struct stat *st)
{
	return (st->st_uid == geteuid() || st->st_uid == 0) && !(st->st_mode & (S_IWGRP | S_IWOTH));
}

static bool folder_name(char path[PATH_MAX], bool make)
{
	const char *base = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
	bool is_set = base && base[0] == '/';
	int length;

	if (!is_set && !(home && home[0] == '/'))
		return false;
	length = snprintf(path, PATH_MAX, "%s%s", is_set ? base : home, is_set ? "" : "/.cache");
	if (length < 0 || length >= PATH_MAX - 16)
		return false;
	if (make)
		mkdir(path, 0700);
	snprintf(path + length, (size_t)(PATH_MAX - length), "/calltap");
	if (make)
		mkdir(path, 0700);
	return true;
}

/* The folder, open; -1 = there is none that may be used. */
static int open_folder(bool make)
{
	char path[PATH_MAX];
	struct stat st;
	int fd;

	if (!folder_name(path, make))
		return -1;
	fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd >= 0 && !fstat(fd, &st) && is_safe(&st))
		return fd;
	if (fd >= 0)
		close(fd);
	return -1;
}

static void file_name(char name[NAME_SIZE], const uint8_t *id, size_t id_size)
{
	size_t at = 0;

	for (size_t i = 0; i < id_size && i < 32; i++)
		at += (size_t)snprintf(name + at, NAME_SIZE - at, "%02x", id[i]);
	snprintf(name + at, NAME_SIZE - at, ENDING);
}

static bool read_whole(int fd, void *to, size_t size)
{
	size_t at = 0;

	while (at < size) {
		ssize_t got = pread(fd, (char *)to + at, size - at, (off_t)at);

		if (got <= 0)
			return false;
		at += (size_t)got;
	}
	return true;
}

static bool write_whole(int fd, const void *from, size_t size)
{
	size_t at = 0;

	while (at < size) {
		ssize_t put = write(fd, (const char *)from + at, size - at);

		if (put <= 0)
			return false;
		at += (size_t)put;
	}
	return true;
}

/* The file's bytes, for free(); NULL = it is not there, or may not be used. */
static struct kept_head *read_file(int folder, const char *name)
{
	int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct kept_head *head = NULL;
	struct stat st;

	if (fd < 0)
		return NULL;
	if (!fstat(fd, &st) && S_ISREG(st.st_mode) && is_safe(&st) && st.st_size >= (off_t)sizeof(*head) &&
	    (uint64_t)st.st_size <= FILE_MAX)
		head = malloc((size_t)st.st_size);
	if (head && (!read_whole(fd, head, (size_t)st.st_size) || memcmp(head->magic, MAGIC, sizeof(MAGIC)) != 0 ||
		     head->version != VERSION ||
		     (uint64_t)st.st_size != sizeof(*head) + head->count * sizeof(struct kept_function))) {
		free(head);
		head = NULL;
	}
	close(fd);
	return head;
}

/* False: the functions are not what stock_find() can have said. */
static bool unpack(struct stock_function *to, const struct kept_function *from, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (from[i].verdict >= STOCK_VERDICTS || (i && from[i].address < from[i - 1].address))
			return false;
		to[i] = (struct stock_function){
			.address = from[i].address,
			.head = from[i].address + from[i].head,
			.size = from[i].size,
			.length = from[i].length,
			.jump = from[i].jump,
			.verdict = from[i].verdict,
			.need = {from[i].block, from[i].frame, from[i].entry, from[i].common},
		};
	}
	return true;
}

static bool find_kept(struct stock_list *out, const struct stock_image *image, const char *name)
{
	int folder = open_folder(false);
	struct kept_head *head = folder >= 0 ? read_file(folder, name) : NULL;
	const struct kept_function *functions = head ? (const struct kept_function *)(head + 1) : NULL;
	bool found = false;

	if (head && head->functions == sum_of_functions(head, functions) &&
	    head->image == sum_of_image(image, head->seed)) {
		out->functions = calloc(head->count + 1u, sizeof(*out->functions));
		found = out->functions && unpack(out->functions, functions, head->count);
		if (found)
			out->count = head->count;
	}
	if (!found) {
		free(out->functions);
		*out = (struct stock_list){0};
	}
	free(head);
	if (folder >= 0)
		close(folder);
	return found;
}

/* The file's bytes, for free(); NULL = it cannot be kept. */
static struct kept_head *pack(const struct stock_list *list, const struct stock_image *image)
{
	struct kept_head *head;
	struct kept_function *to;

	if (list->count > (FILE_MAX - sizeof(*head)) / sizeof(*to))
		return NULL;
	head = calloc(1, sizeof(*head) + list->count * sizeof(*to));
	if (!head || getrandom(head->seed, sizeof(head->seed), GRND_NONBLOCK) != sizeof(head->seed)) {
		free(head);
		return NULL;
	}
	to = (struct kept_function *)(head + 1);
	for (size_t i = 0; i < list->count; i++) {
		const struct stock_function *from = &list->functions[i];

		if (from->head - from->address > HEAD_OFFSET) {
			free(head);
			return NULL;
		}
		to[i] = (struct kept_function){.address = from->address,
					       .size = from->size,
					       .head = (uint8_t)(from->head - from->address),
					       .length = from->length,
					       .jump = from->jump,
					       .verdict = from->verdict,
					       .block = from->need.size,
					       .frame = from->need.frame,
					       .entry = from->need.entry,
					       .common = from->need.common};
	}
	memcpy(head->magic, MAGIC, sizeof(MAGIC));
	head->version = VERSION;
	head->count = (uint32_t)list->count;
	head->image = sum_of_image(image, head->seed);
	head->functions = sum_of_functions(head, to);
	return head;
}

static bool is_ours(const char *name)
{
	return strstr(name, ENDING) != NULL;
}

/* Keep the folder small: when it has become large, begin anew. */
static void clean(int folder, uint64_t more)
{
	int fd = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
	const struct dirent *entry;
	struct stat st;

	if (!dir) {
		if (fd >= 0)
			close(fd);
		return;
	}
	while ((entry = readdir(dir)))
		if (is_ours(entry->d_name) && !fstatat(folder, entry->d_name, &st, AT_SYMLINK_NOFOLLOW))
			more += (uint64_t)st.st_size;
	if (more > FOLDER_MAX) {
		rewinddir(dir);
		while ((entry = readdir(dir)))
			if (is_ours(entry->d_name))
				unlinkat(folder, entry->d_name, 0);
	}
	closedir(dir);
}

static void write_file(int folder, const char *name, const void *bytes, size_t size)
{
	char fresh[NAME_SIZE + 16];
	bool written;
	int fd;

	clean(folder, size);
	snprintf(fresh, sizeof(fresh), "%s.%ld", name, (long)getpid());
	fd = openat(folder, fresh, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0) {
		unlinkat(folder, fresh, 0); /* of a process that was killed */
		return;
	}
	written = write_whole(fd, bytes, size);
	if (close(fd) || !written || renameat(folder, fresh, folder, name))
		unlinkat(folder, fresh, 0);
}

static void keep(const struct stock_list *list, const struct stock_image *image, const char *name)
{
	int folder = open_folder(true);
	struct kept_head *head;

	if (folder < 0)
		return;
	head = pack(list, image);
	if (head)
		write_file(folder, name, head, sizeof(*head) + head->count * sizeof(struct kept_function));
	free(head);
	close(folder);
}

static bool is_large(const struct stock_image *image)
{
	uint64_t code = 0;

	for (size_t i = 0; i < image->section_count; i++)
		code += image->sections[i].code ? image->sections[i].size : 0;
	return code >= CODE_MIN;
}

int stock_cache_find(struct stock_list *out, const struct stock_image *image, const uint8_t *id, size_t id_size)
{
	bool kept = id_size >= 8 && is_large(image);
	char name[NAME_SIZE];
	int error;

	*out = (struct stock_list){0};
	file_name(name, id, id_size);
	if (kept && find_kept(out, image, name))
		return 0;
	error = stock_find(out, image);
	if (!error)
		error = stock_find_needs(out, image);
	if (!error && kept)
		keep(out, image, name);
	return error;
}
