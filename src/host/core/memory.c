/* Memory out of a core file, of a living process, or of files in a folder (memory.h).  Context: host. */
#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <host/proc.h>
#include <host/space.h>

#include "memory.h"

#define REGIONS_MAX (1u << 20)
#define FILES_MAX   1024u
#define FILE_STRIDE (UINT64_C(1) << 44) /* between the addresses of files in a folder */

/* Keep an open file; it is closed on error. */
static int add_file(struct core_memory *memory, int fd)
{
	int *fds = memory->fd_count < FILES_MAX ? reallocarray(memory->fds, memory->fd_count + 1, sizeof(*fds)) : NULL;

	if (!fds) {
		close(fd);
		return memory->fd_count < FILES_MAX ? -ENOMEM : -E2BIG;
	}
	memory->fds = fds;
	fds[memory->fd_count++] = fd;
	return 0;
}

static int add_region(struct core_memory *memory, const struct core_region *region)
{
	struct core_region *regions;

	if (memory->count == REGIONS_MAX)
		return -E2BIG;
	if (!(memory->count & (memory->count - 1))) { /* full: the count is 0 or a power of two */
		regions = reallocarray(memory->regions, memory->count ? memory->count * 2 : 1, sizeof(*regions));
		if (!regions)
			return -ENOMEM;
		memory->regions = regions;
	}
	memory->regions[memory->count++] = *region;
	return 0;
}

static int by_address(const void *a, const void *b)
{
	const struct core_region *x = a, *y = b;

	return x->lo < y->lo ? -1 : x->lo > y->lo;
}

/* Neither the kernel nor a debugger writes segments that overlap: of such, the later one counts. */
static void sort_regions(struct core_memory *memory)
{
	if (memory->count)
		qsort(memory->regions, memory->count, sizeof(*memory->regions), by_address);
	for (uint32_t i = 0; i + 1 < memory->count; i++) {
		struct core_region *region = &memory->regions[i];

		if (region->hi > region[1].lo)
			region->hi = region[1].lo;
		if (region->size > region->hi - region->lo)
			region->size = region->hi - region->lo;
	}
}

static int add_segment(struct core_memory *memory, const GElf_Phdr *segment, uint64_t file_size)
{
	struct core_region region = {
		.fd = memory->fds[0],
		.lo = segment->p_vaddr,
		.hi = segment->p_vaddr + segment->p_memsz,
		.offset = segment->p_offset,
		.size = segment->p_filesz,
	};

	if (segment->p_type != PT_LOAD || region.hi <= region.lo || region.offset >= file_size)
		return 0;
	/* A core file may have been cut short. */
	if (region.size > file_size - region.offset)
		region.size = file_size - region.offset;
	if (region.size > region.hi - region.lo)
		region.size = region.hi - region.lo;
	return region.size ? add_region(memory, &region) : 0;
}

static int add_segments(struct core_memory *memory, Elf *elf, uint64_t file_size)
{
	GElf_Ehdr head;
	GElf_Phdr segment;
	size_t count;
	int ret = 0;

	if (elf_kind(elf) != ELF_K_ELF || !gelf_getehdr(elf, &head) || head.e_type != ET_CORE ||
	    elf_getphdrnum(elf, &count))
		return -EINVAL;
	for (size_t i = 0; i < count && !ret; i++)
		if (gelf_getphdr(elf, (int)i, &segment))
			ret = add_segment(memory, &segment, file_size);
	return ret;
}

int core_memory_file(struct core_memory *memory, const char *path, struct calltap_diag *diag)
{
	struct stat st = {0};
	Elf *elf;
	int fd, ret;

	*memory = (struct core_memory){0};
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return calltap_diag_set(diag, -errno, "cannot open the core file %s: %s", path, strerror(errno));
	ret = add_file(memory, fd);
	if (!ret && (fstat(fd, &st) || !S_ISREG(st.st_mode)))
		ret = -EINVAL;
	if (!ret) {
		memory->file_bytes = (uint64_t)st.st_size;
		elf_version(EV_CURRENT);
		elf = elf_begin(fd, ELF_C_READ, NULL);
		ret = elf ? add_segments(memory, elf, memory->file_bytes) : -EINVAL;
		elf_end(elf);
	}
	if (ret == -EINVAL)
		return calltap_diag_set(diag, ret, "%s is not a core file; name one that the kernel or gdb wrote",
					path);
	if (ret)
		return calltap_diag_set(diag, ret, "cannot read the core file %s: %s", path, strerror(-ret));
	sort_regions(memory);
	return 0;
}

static int add_mappings(struct core_memory *memory, pid_t pid)
{
	struct space space;
	int ret = space_read(&space, proc_alive(pid));

	if (ret == -ESRCH) /* the process is ending, and has no memory any more */
		return 0;
	for (size_t i = 0; !ret && i < space.count; i++) {
		const struct map *map = &space.maps[i];
		const struct core_region region = {.lo = map->lo,
						   .hi = map->hi,
						   .offset = map->lo,
						   .size = map->hi - map->lo,
						   .fd = memory->fds[0]};

		if (map->bits & MAP_READ && map->bits & MAP_PUBLIC) /* the tool's arenas are shared mappings */
			ret = add_region(memory, &region);
	}
	space_free(&space);
	return ret;
}

int core_memory_process(struct core_memory *memory, pid_t pid, struct calltap_diag *diag)
{
	char path[64];
	int fd, ret;

	*memory = (struct core_memory){.pid = pid, .file_bytes = UINT64_MAX};
	snprintf(path, sizeof(path), "/proc/%d/mem", (int)proc_alive(pid));
	fd = open(path, O_RDONLY | O_CLOEXEC);
	ret = fd < 0 ? -errno : add_file(memory, fd);
	if (!ret)
		ret = add_mappings(memory, pid);
	if (ret == -ENOENT || ret == -ESRCH)
		return calltap_diag_set(diag, -ESRCH, "there is no process %d", (int)pid);
	if (ret)
		return calltap_diag_set(diag, ret,
					"cannot read the memory of process %d: %s; it takes the same user, and the "
					"right to trace it (CAP_SYS_PTRACE where yama restricts that)",
					(int)pid, strerror(-ret));
	sort_regions(memory);
	return 0;
}

/* A file of a folder, at an address of its own. */
static int add_whole_file(struct core_memory *memory, int folder, const char *name)
{
	struct core_region region;
	struct stat st;
	int fd = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW), ret;

	if (fd < 0 || fstat(fd, &st) || !S_ISREG(st.st_mode) || !st.st_size) {
		if (fd >= 0)
			close(fd);
		return 0;
	}
	ret = add_file(memory, fd);
	if (ret)
		return ret;
	region = (struct core_region){.lo = memory->fd_count * FILE_STRIDE, .size = (uint64_t)st.st_size, .fd = fd};
	if (region.size > FILE_STRIDE)
		region.size = FILE_STRIDE;
	region.hi = region.lo + region.size;
	memory->file_bytes += region.size;
	return add_region(memory, &region);
}

int core_memory_folder(struct core_memory *memory, const char *path, struct calltap_diag *diag)
{
	DIR *folder = opendir(path);
	struct dirent *entry;
	int ret = 0;

	*memory = (struct core_memory){0};
	if (!folder)
		return calltap_diag_set(diag, -errno, "cannot open the folder %s: %s", path, strerror(errno));
	while (!ret && (entry = readdir(folder)))
		if (entry->d_name[0] != '.')
			ret = add_whole_file(memory, dirfd(folder), entry->d_name);
	closedir(folder);
	if (ret)
		return calltap_diag_set(diag, ret, "cannot read the buffers in %s: %s", path, strerror(-ret));
	sort_regions(memory);
	return 0;
}

void core_memory_close(struct core_memory *memory)
{
	for (uint32_t i = 0; i < memory->fd_count; i++)
		close(memory->fds[i]);
	free(memory->fds);
	free(memory->regions);
	*memory = (struct core_memory){0};
}

/* Index of the region that address is in, or of the first one behind it. */
static uint32_t region_at(const struct core_memory *memory, uint64_t address)
{
	uint32_t low = 0, high = memory->count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (memory->regions[middle].hi <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static int read_at(int fd, uint64_t offset, char *to, size_t size)
{
	while (size) {
		ssize_t got = pread(fd, to, size, (off_t)offset);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return -EFAULT;
		to += got;
		offset += (uint64_t)got;
		size -= (size_t)got;
	}
	return 0;
}

int core_memory_read(const struct core_memory *memory, uint64_t address, void *to, size_t size)
{
	char *bytes = to;
	int ret = 0;

	/* A mapping may be several segments: the kernel splits it where its flags differ. */
	for (uint32_t i = region_at(memory, address); size && !ret; i++) {
		const struct core_region *region = &memory->regions[i];
		uint64_t inside = i < memory->count && address >= region->lo ? address - region->lo : UINT64_MAX;
		size_t part;

		if (inside == UINT64_MAX || inside >= region->size)
			return -EFAULT;
		part = region->size - inside < size ? region->size - inside : size;
		ret = read_at(region->fd, region->offset + inside, bytes, part);
		bytes += part;
		address += part;
		size -= part;
	}
	return ret;
}
