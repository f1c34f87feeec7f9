/*
 * Source lines by DWARF, from the file itself or its debug file (debug_file.h).  Of a debug file, what was asked for is
 * kept (lines_cache.h): libdw is called for what is not there.
 *
 * Callers: the recorder at its end, the commands.  Context: host.
 */
#include <elfutils/libdwelf.h>
#include <elfutils/libdwfl.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "debug_file.h"
#include "lines_cache.h"
#include "object.h"

struct object_lines {
	char *path;
	int fd;
	struct lines_place place;
	struct lines_cache *cache; /* NULL: nothing is kept */
	bool begun;		   /* libdwfl was asked to open the file; `module` tells if it could */
	struct stat read;	   /* the debug file that libdwfl was given last */
	Dwfl *dwfl;
	Dwfl_Module *module;
	GElf_Addr bias; /* libdwfl's addresses less ELF addresses */
};

/* A file that several debug files share parts of (dwz): beside the debug file, and of the build id that this one says.
 */
static int open_shared(Dwfl_Module *module, const char *debug_file, const char *link)
{
	const char *slash = strrchr(debug_file, '/'), *name;
	const void *id;
	GElf_Addr bias;
	Dwarf *dwarf = dwfl_module_getdwarf(module, &bias);
	ssize_t size = dwarf ? dwelf_dwarf_gnu_debugaltlink(dwarf, &name, &id) : 0;
	int length = link[0] != '/' && slash ? (int)(slash - debug_file) + 1 : 0, fd;
	char *path;

	if (size <= 0 || asprintf(&path, "%.*s%s", length, debug_file, link) < 0)
		return -1;
	fd = debug_file_open_named(path, id, (size_t)size);
	free(path);
	return fd;
}

static bool is_debug_link(Elf *elf, const char *link)
{
	GElf_Word sum;
	const char *name = dwelf_elf_gnu_debuglink(elf, &sum);

	return name && !strcmp(name, link);
}

/*
 * libdwfl's own search ends at debuginfod's servers: for these it loads twenty libraries even if none is set, and else
 * waits for them.  What it asks for without a sum, and is no debug link, is a file that debug
 * files share; then it has the DWARF that names that file.
 */
static int search(Dwfl_Module *module, void **user, const char *name, Dwarf_Addr base, const char *path,
		  const char *link, GElf_Word sum, char **found)
{
	int fd = dwfl_build_id_find_debuginfo(module, user, name, base, path, link, sum, found);
	const unsigned char *id = NULL;
	struct debug_owner owner = {.path = path};
	GElf_Addr bias, at;
	int size;

	if (fd >= 0)
		return fd;
	owner.elf = dwfl_module_getelf(module, &bias);
	if (!owner.elf || !path)
		return -1;
	if (link && !sum && !is_debug_link(owner.elf, link))
		return open_shared(module, path, link);
	size = dwfl_module_build_id(module, &id, &at);
	owner.id = id;
	owner.id_size = size > 0 ? (size_t)size : 0;
	fd = debug_file_open(&owner, DEBUG_LINK);
	return fd >= 0 ? fd : debug_file_open(&owner, DEBUG_FETCHED);
}

static int find_debuginfo(Dwfl_Module *module, void **user, const char *name, Dwarf_Addr base, const char *path,
			  const char *link, GElf_Word sum, char **found)
{
	int fd = search(module, user, name, base, path, link, sum, found);
	struct object_lines *lines = *user;

	if (fd >= 0 && lines && fstat(fd, &lines->read))
		lines->read = (struct stat){0};
	return fd;
}

static const Dwfl_Callbacks callbacks = {
	.find_elf = dwfl_build_id_find_elf,
	.find_debuginfo = find_debuginfo,
	.section_address = dwfl_offline_section_address,
};

/* Is it an ELF file at all?  Then find out where its lines are. */
static int look_at(struct object_lines *lines)
{
	Elf *elf;
	bool is_elf;

	elf_version(EV_CURRENT);
	elf = elf_begin(lines->fd, ELF_C_READ, NULL);
	is_elf = elf && elf_kind(elf) == ELF_K_ELF;
	if (is_elf)
		lines_place_find(&lines->place, elf, lines->path, lines->fd);
	elf_end(elf);
	return is_elf ? 0 : -ENOEXEC;
}

int object_lines_open(struct object_lines **out, const char *path, int fd)
{
	struct object_lines *lines = calloc(1, sizeof(*lines));
	int ret;

	*out = NULL;
	if (!lines)
		return -ENOMEM;
	lines->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	lines->path = strdup(path);
	ret = lines->fd < 0 ? -ENOEXEC : lines->path ? look_at(lines) : -ENOMEM;
	if (ret) {
		object_lines_close(lines);
		return ret;
	}
	lines->cache = lines_cache_open(&lines->place);
	*out = lines;
	return 0;
}

/* Let libdwfl open the file; false: it cannot. */
static bool begin(struct object_lines *lines)
{
	void **user;
	int own;

	if (lines->begun)
		return lines->module;
	lines->begun = true;
	lines->dwfl = dwfl_begin(&callbacks);
	if (!lines->dwfl)
		return false;
	dwfl_report_begin(lines->dwfl);
	own = fcntl(lines->fd, F_DUPFD_CLOEXEC, 0);
	lines->module = own < 0 ? NULL : dwfl_report_offline(lines->dwfl, lines->path, lines->path, own);
	if (own >= 0 && !lines->module)
		close(own); /* otherwise libdwfl closes it */
	dwfl_report_end(lines->dwfl, NULL, NULL);
	if (lines->module && dwfl_module_info(lines->module, &user, NULL, NULL, NULL, NULL, NULL, NULL))
		*user = lines;
	if (lines->module && !dwfl_module_getelf(lines->module, &lines->bias))
		lines->module = NULL;
	return lines->module;
}

/* True if libdwfl has read the very file that was found here: what is kept holds for that. */
static bool has_read_it(const struct object_lines *lines)
{
	const struct stat *a = &lines->read, *b = &lines->place.debug;

	return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
	       a->st_ctim.tv_sec == b->st_ctim.tv_sec && a->st_ctim.tv_nsec == b->st_ctim.tv_nsec;
}

void object_lines_close(struct object_lines *lines)
{
	if (!lines)
		return;
	lines_cache_close(lines->cache, has_read_it(lines));
	if (lines->dwfl)
		dwfl_end(lines->dwfl);
	if (lines->fd >= 0)
		close(lines->fd);
	free(lines->path);
	free(lines);
}

static Dwfl_Line *line_at(const struct object_lines *lines, uint64_t address)
{
	return dwfl_module_getsrc(lines->module, address + lines->bias);
}

static Dwarf_Addr begin_of(Dwfl_Line *line)
{
	Dwarf_Addr begin = 0;

	return dwfl_lineinfo(line, &begin, NULL, NULL, NULL, NULL) ? begin : 0;
}

/* The first of several lines for the address where `line` begins. */
static Dwfl_Line *first_of(Dwfl_Line *line)
{
	Dwarf_Die *unit = dwfl_linecu(line);
	size_t lo = 0, hi;

	if (!unit || dwfl_getsrclines(unit, &hi))
		return line;
	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (begin_of(dwfl_onesrcline(unit, mid)) < begin_of(line))
			lo = mid + 1;
		else
			hi = mid;
	}
	return dwfl_onesrcline(unit, lo);
}

/* Ask libdwfl for the source line of an address. */
static bool find(const struct object_lines *lines, uint64_t address, uint64_t code, const char **file, uint32_t *line)
{
	Dwfl_Line *found = line_at(lines, address);
	int number = 0;

	/* gcc for riscv64 and aarch64 counts no-ops at the entry to the code before the function. */
	if ((!found || begin_of(found) != address + lines->bias) && line_at(lines, code))
		found = first_of(line_at(lines, code));
	if (!found)
		return false;
	*file = dwfl_lineinfo(found, NULL, &number, NULL, NULL, NULL);
	if (!*file || number <= 0)
		return false;
	*line = (uint32_t)number;
	return true;
}

bool object_lines_find(struct object_lines *lines, uint64_t address, uint64_t code, const char **file, uint32_t *line)
{
	bool found;

	if (lines->place.none)
		return false;
	if (lines->cache && lines_cache_find(lines->cache, address, code, file, line))
		return *file;
	if (!begin(lines))
		return false;
	found = find(lines, address, code, file, line);
	if (lines->cache)
		lines_cache_add(lines->cache, address, code, found ? *file : NULL, found ? *line : 0);
	return found;
}
