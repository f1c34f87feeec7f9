/*
 * Files that are kept from run to run (kept.h).  Context: host.
 */
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kept.h"

#define FOLDER_MAX (UINT64_C(64) << 20)

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

static void add_block(struct kept_sum *sum, const uint8_t *at)
{
	for (unsigned i = 0; i < 4; i++)
		sum->lanes[i] = fold(load(at + 16 * (size_t)i) ^ sum->lanes[i],
				     load(at + 16 * (size_t)i + 8) ^ (sum->seed[1] + 2 * (uint64_t)i));
}

void kept_sum_add(struct kept_sum *sum, const void *bytes, size_t size)
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

void kept_sum_number(struct kept_sum *sum, uint64_t number)
{
	sum->lanes[0] = fold(number ^ sum->lanes[0], sum->seed[1]);
}

struct kept_sum kept_sum_begin(const uint64_t seed[2])
{
	struct kept_sum sum = {{seed[0], seed[1] | 1}, {0}};

	for (unsigned i = 0; i < 4; i++)
		sum.lanes[i] = seed[0] + i;
	return sum;
}

uint64_t kept_sum_end(const struct kept_sum *sum)
{
	uint64_t value = sum->seed[0];

	for (unsigned i = 0; i < 4; i++)
		value = fold(value ^ sum->lanes[i], sum->seed[1] + i);
	return value;
}

/* A tool that was built anew may find something else. */
void kept_sum_tool(struct kept_sum *sum)
{
	struct stat st = {0};

	if (stat("/proc/self/exe", &st))
		return;
	kept_sum_number(sum, (uint64_t)st.st_size);
	kept_sum_number(sum, (uint64_t)st.st_mtim.tv_sec);
	kept_sum_number(sum, (uint64_t)st.st_mtim.tv_nsec);
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

void kept_name(char name[KEPT_NAME_SIZE], const uint8_t *id, size_t id_size, const char *ending)
{
	size_t at = 0;

	for (size_t i = 0; i < id_size && i < 32; i++)
		at += (size_t)snprintf(name + at, KEPT_NAME_SIZE - at, "%02x", id[i]);
	snprintf(name + at, KEPT_NAME_SIZE - at, "%s", ending);
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
static void *read_file(int folder, const char *name, size_t least, size_t *size)
{
	int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	void *bytes = NULL;
	struct stat st;

	if (fd < 0)
		return NULL;
	if (!fstat(fd, &st) && S_ISREG(st.st_mode) && is_safe(&st) && st.st_size >= (off_t)least &&
	    (uint64_t)st.st_size <= KEPT_FILE_MAX)
		bytes = malloc((size_t)st.st_size);
	if (bytes && !read_whole(fd, bytes, (size_t)st.st_size)) {
		free(bytes);
		bytes = NULL;
	}
	*size = bytes ? (size_t)st.st_size : 0;
	close(fd);
	return bytes;
}

void *kept_read(const char *name, size_t least, size_t *size)
{
	int folder = open_folder(false);
	void *bytes;

	if (folder < 0)
		return NULL;
	bytes = read_file(folder, name, least, size);
	close(folder);
	return bytes;
}

static bool is_ours(const char *name)
{
	return strstr(name, KEPT_FUNCTIONS) || strstr(name, KEPT_LINES);
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
	char fresh[KEPT_NAME_SIZE + 16];
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

void kept_write(const char *name, const void *bytes, size_t size)
{
	int folder = size <= KEPT_FILE_MAX ? open_folder(true) : -1;

	if (folder < 0)
		return;
	write_file(folder, name, bytes, size);
	close(folder);
}
