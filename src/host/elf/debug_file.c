/*
 * Looking for debug files (debug_file.h).  Context: host.
 */
#include <elfutils/libdwelf.h>
#include <gelf.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <host/files.h>

#include "debug_file.h"

#define DEBUG_ROOT   "/usr/lib/debug"
#define SUMMED_MAX   (INT64_C(1) << 30) /* larger files are not read whole */
#define ID_BYTES_MAX 32

/* What a file must have to be taken. */
struct proof {
	const uint8_t *id;
	size_t id_size;
	bool has_sum;
	uint32_t sum;
	dev_t dev; /* of the object itself, which has its own build id; 0 = not known */
	ino_t ino;
};

/* The file's build id, if it has one; *elf is for elf_end(). */
static size_t read_id(Elf **elf, int fd, const void **id)
{
	ssize_t size;

	elf_version(EV_CURRENT);
	*elf = elf_begin(fd, ELF_C_READ, NULL);
	size = *elf && elf_kind(*elf) == ELF_K_ELF ? dwelf_elf_gnu_build_id(*elf, id) : 0;
	return size > 0 ? (size_t)size : 0;
}

/* The sum of a debug link: CRC-32 as of Ethernet and zip, by half bytes. */
static uint32_t add_bytes(uint32_t sum, const uint8_t *bytes, size_t size)
{
	static const uint32_t table[16] = {
		0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac, 0x76dc4190, 0x6b6b51f4, 0x4db26158, 0x5005713c,
		0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c, 0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c,
	};

	for (size_t i = 0; i < size; i++) {
		sum ^= bytes[i];
		sum = sum >> 4 ^ table[sum & 15];
		sum = sum >> 4 ^ table[sum & 15];
	}
	return sum;
}

static bool has_sum(int fd, uint32_t wanted)
{
	uint8_t bytes[16384];
	uint32_t sum = ~UINT32_C(0);
	struct stat st;
	off_t at = 0;

	if (fstat(fd, &st) || st.st_size > SUMMED_MAX)
		return false;
	while (at < st.st_size) {
		ssize_t got = pread(fd, bytes, sizeof(bytes), at);

		if (got <= 0)
			return false;
		sum = add_bytes(sum, bytes, (size_t)got);
		at += got;
	}
	return ~sum == wanted;
}

static bool belongs(int fd, const struct proof *proof)
{
	const void *id = NULL;
	Elf *elf;
	size_t size = read_id(&elf, fd, &id);
	bool is_elf = elf && elf_kind(elf) == ELF_K_ELF;
	bool both = size && proof->id_size;
	bool same = both && size == proof->id_size && !memcmp(id, proof->id, size);

	elf_end(elf);
	return same || (is_elf && !both && proof->has_sum && has_sum(fd, proof->sum));
}

static int try(const char *path, const struct proof *proof)
{
	int fd = files_open(path);
	struct stat st;

	if (fd < 0)
		return -1;
	if (!fstat(fd, &st) && (st.st_dev != proof->dev || st.st_ino != proof->ino) && belongs(fd, proof))
		return fd;
	close(fd);
	return -1;
}

/* "FOLDER/MIDDLE" and the file's name; the folder is the first `length` bytes of path. */
static int try_in(const char *root, const char *path, size_t length, const char *middle, const char *name,
		  const struct proof *proof)
{
	char *candidate;
	int fd;

	if (asprintf(&candidate, "%s%.*s%s%s", root, (int)length, path, middle, name) < 0)
		return -1;
	fd = try(candidate, proof);
	free(candidate);
	return fd;
}

static void write_hex(char out[2 * ID_BYTES_MAX + 1], const uint8_t *id, size_t size)
{
	out[0] = '\0';
	for (size_t i = 0; i < size && i < ID_BYTES_MAX; i++)
		snprintf(out + 2 * i, 3, "%02x", id[i]);
}

static int by_build_id(const struct proof *proof)
{
	char hex[2 * ID_BYTES_MAX + 1], path[PATH_MAX];

	if (proof->id_size < 2)
		return -1;
	write_hex(hex, proof->id, proof->id_size);
	snprintf(path, sizeof(path), DEBUG_ROOT "/.build-id/%.2s/%s.debug", hex, hex + 2);
	return try(path, proof);
}

/* Beside a file of this path. */
static int by_link_from(const char *path, const char *name, const struct proof *proof)
{
	const char *slash = strrchr(path, '/');
	size_t length = slash ? (size_t)(slash - path) + 1 : 0;
	int fd = try_in("", path, length, "", name, proof);

	if (fd < 0)
		fd = try_in("", path, length, ".debug/", name, proof);
	if (fd < 0 && path[0] == '/')
		fd = try_in(DEBUG_ROOT, path, length, "", name, proof);
	return fd;
}

static int by_link(const struct debug_owner *owner, struct proof *proof)
{
	GElf_Word sum;
	const char *name = dwelf_elf_gnu_debuglink(owner->elf, &sum);
	struct stat st;
	char *real;
	int fd;

	if (!name || !name[0] || strchr(name, '/')) /* a name, and no path to elsewhere */
		return -1;
	proof->has_sum = true;
	proof->sum = sum;
	if (!stat(owner->path, &st)) {
		proof->dev = st.st_dev;
		proof->ino = st.st_ino;
	}
	fd = by_link_from(owner->path, name, proof);
	real = fd < 0 ? realpath(owner->path, NULL) : NULL; /* /lib may be a link to /usr/lib */
	if (real && strcmp(real, owner->path) != 0)
		fd = by_link_from(real, name, proof);
	free(real);
	return fd;
}

bool debug_file_has_servers(void)
{
	const char *urls = getenv("DEBUGINFOD_URLS");

	return urls && urls[strspn(urls, " ")];
}

/* The folder that libdebuginfod keeps its files in; of the older one it says that it is used while it is there. */
static bool cache_folder(char path[PATH_MAX])
{
	const char *own = getenv("DEBUGINFOD_CACHE_PATH"), *base = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
	struct stat st;

	if (own && own[0])
		return snprintf(path, PATH_MAX, "%s", own) < PATH_MAX;
	if (home && home[0] && snprintf(path, PATH_MAX, "%s/.debuginfod_client_cache", home) < PATH_MAX &&
	    !stat(path, &st))
		return true;
	if (base && base[0])
		return snprintf(path, PATH_MAX, "%s/debuginfod_client", base) < PATH_MAX;
	return home && home[0] && snprintf(path, PATH_MAX, "%s/.cache/debuginfod_client", home) < PATH_MAX;
}

static int fetched(const struct proof *proof)
{
	char folder[PATH_MAX], hex[2 * ID_BYTES_MAX + 1], path[2 * PATH_MAX];

	if (!proof->id_size || !debug_file_has_servers() || !cache_folder(folder))
		return -1;
	write_hex(hex, proof->id, proof->id_size);
	snprintf(path, sizeof(path), "%s/%s/debuginfo", folder, hex);
	return try(path, proof);
}

int debug_file_open(const struct debug_owner *owner, enum debug_place place)
{
	struct proof proof = {.id = owner->id, .id_size = owner->id_size};

	switch (place) {
	case DEBUG_BUILD_ID:
		return by_build_id(&proof);
	case DEBUG_LINK:
		return by_link(owner, &proof);
	case DEBUG_FETCHED:
		return fetched(&proof);
	default:
		return -1;
	}
}

int debug_file_open_named(const char *path, const uint8_t *id, size_t id_size)
{
	return try(path, &(struct proof){.id = id, .id_size = id_size});
}
