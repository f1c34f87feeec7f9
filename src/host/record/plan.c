/*
 * From the objects that a target reports to plans that it carries out.
 *
 * The loader's base address and dynamic section say where an object is;
 * /proc/PID/maps says which file lies there, and that very file (by device and
 * inode) is read.  Context: host, under the session's lock.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "session.h"

struct mapping {
	uint64_t lo, hi;
	unsigned long inode;
	unsigned major, minor;
	char path[4096];
};

/* The line of /proc/PID/maps that address is in. */
static int find_mapping(FILE *maps, uint64_t address, struct mapping *mapping)
{
	char line[4400];

	rewind(maps);
	while (fgets(line, sizeof(line), maps)) {
		unsigned long lo, hi;

		mapping->path[0] = 0;
		if (sscanf(line, "%lx-%lx %*s %*x %x:%x %lu %4095[^\n]", &lo, &hi, &mapping->major, &mapping->minor,
			   &mapping->inode, mapping->path) < 5)
			continue;
		mapping->lo = lo;
		mapping->hi = hi;
		if (address >= lo && address < hi)
			return mapping->path[0] == '/' ? 0 : -ENOENT;
	}
	return -ENOENT;
}

/* Open the file of a mapping as the target sees it; only the very same file will do. */
static int open_mapping(const struct process *process, const struct mapping *mapping)
{
	char path[sizeof(mapping->path) + 64];
	struct stat st;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/root%s", (int)process->pid, mapping->path);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		fd = open(mapping->path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (!fstat(fd, &st) && st.st_ino == mapping->inode && major(st.st_dev) == mapping->major &&
	    minor(st.st_dev) == mapping->minor)
		return fd;
	close(fd);
	return -ESTALE;
}

static int image_at(struct session *session, const struct process *process, FILE *maps, uint64_t dynamic,
		    struct image **image)
{
	struct mapping mapping;
	int fd, ret;

	*image = NULL;
	if (find_mapping(maps, dynamic, &mapping))
		return 0; /* the vdso */
	fd = open_mapping(process, &mapping);
	if (fd < 0)
		return 0; /* replaced or out of sight: left alone */
	ret = images_get(image, &session->images, fd, mapping.path, true);
	close(fd);
	return ret;
}

static struct target_map *known_map(struct process *process, uint64_t base, uint64_t dynamic)
{
	for (uint32_t i = 0; i < process->map_count; i++)
		if (process->maps[i].base == base && process->maps[i].dynamic == dynamic)
			return &process->maps[i];
	return NULL;
}

int plan_write_map(struct session *session, struct process *process, const struct target_map *map)
{
	struct calltap_file_map row = {
		.process = process->index,
		.object = map->image->index,
		.base = map->base,
		.ticks = clock_sample().ticks,
	};
	uint64_t lo, hi;
	int ret = image_announce(map->image, session->writer);

	object_extent(map->image->object, &lo, &hi);
	row.lo = map->base + lo;
	row.hi = map->base + hi;
	return ret ? ret : trace_writer_chunk(session->writer, CALLTAP_CHUNK_MAP, &row, sizeof(row));
}

/* The image's sites at their run-time addresses, in a sealed memfd. */
static int sites_memory(const struct image *image, uint64_t base)
{
	size_t size = image->site_count * sizeof(*image->sites);
	int fd = memfd_create("calltap-plan", MFD_CLOEXEC | MFD_ALLOW_SEALING), error;
	struct calltap_site *sites = MAP_FAILED;

	if (fd < 0)
		return -errno;
	if (!ftruncate(fd, (off_t)size))
		sites = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (sites == MAP_FAILED) {
		error = -errno;
		close(fd);
		return error;
	}
	memcpy(sites, image->sites, size);
	for (uint32_t i = 0; i < image->site_count; i++)
		sites[i].address += base;
	munmap(sites, size);
	fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL);
	return fd;
}

static int send_plan(struct process *process, const struct target_map *map)
{
	uint64_t lo, hi;
	struct calltap_msg_plan plan = {
		.head = {CALLTAP_MSG_PLAN, sizeof(plan)},
		.plan_id = (uint64_t)(map - process->maps),
		.stub_bytes = map->image->stub_bytes,
		.region = map->region,
		.site_count = map->image->site_count,
	};
	int fd = sites_memory(map->image, map->base), ret;

	if (fd < 0)
		return fd;
	object_extent(map->image->object, &lo, &hi);
	plan.near_lo = map->base + lo;
	plan.near_hi = map->base + hi;
	ret = channel_send(process->socket, &plan, sizeof(plan), &fd, 1);
	close(fd);
	if (!ret)
		process->plans_open++;
	return ret;
}

static struct target_map *add_map(struct process *process, const struct calltap_msg_object *object)
{
	struct target_map *maps = reallocarray(process->maps, process->map_count + 1, sizeof(*maps));

	if (!maps)
		return NULL;
	process->maps = maps;
	maps += process->map_count++;
	*maps = (struct target_map){.base = object->base, .dynamic = object->dynamic};
	return maps;
}

static int plan_object(struct session *session, struct process *process, FILE *maps,
		       const struct calltap_msg_object *object)
{
	struct target_map *map = known_map(process, object->base, object->dynamic);
	struct image *image;
	int ret;

	if (map && map->mapped)
		return 0;
	ret = image_at(session, process, maps, object->dynamic, &image);
	if (ret || !image || !image->object)
		return ret;
	/* The same file back at the same place: its stubs are there still. */
	if (!map || map->image != image)
		map = add_map(process, object);
	if (!map)
		return -ENOMEM;
	map->image = image;
	ret = image_decide(&session->images, image);
	if (!ret)
		ret = plan_write_map(session, process, map);
	if (!ret && image->site_count)
		ret = send_plan(process, map);
	map->mapped = true;
	return ret;
}

int plan_report(struct session *session, struct process *process)
{
	char path[64];
	FILE *maps;
	int ret = 0;

	for (uint32_t i = 0; i < process->map_count; i++) {
		bool still = false;

		for (uint32_t k = 0; k < process->report_count && !still; k++)
			still = process->report[k]->base == process->maps[i].base &&
				process->report[k]->dynamic == process->maps[i].dynamic;
		process->maps[i].mapped = process->maps[i].mapped && still;
	}
	snprintf(path, sizeof(path), "/proc/%d/maps", (int)process->pid);
	maps = fopen(path, "re");
	if (!maps)
		return -errno;
	for (uint32_t k = 0; k < process->report_count && !ret; k++)
		ret = plan_object(session, process, maps, process->report[k]);
	fclose(maps);
	return ret;
}
