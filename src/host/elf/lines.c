/*
 * Source lines by DWARF, from the file itself or its debug file (debug_file.h).
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
#include "object.h"

struct object_lines {
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
static int find_debuginfo(Dwfl_Module *module, void **user, const char *name, Dwarf_Addr base, const char *path,
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

static const Dwfl_Callbacks callbacks = {
	.find_elf = dwfl_build_id_find_elf,
	.find_debuginfo = find_debuginfo,
	.section_address = dwfl_offline_section_address,
};

int object_lines_open(struct object_lines **out, const char *path, int fd)
{
	struct object_lines *lines = calloc(1, sizeof(*lines));
	int own;

	*out = NULL;
	if (!lines)
		return -ENOMEM;
	lines->dwfl = dwfl_begin(&callbacks);
	if (!lines->dwfl) {
		free(lines);
		return -ENOMEM;
	}
	dwfl_report_begin(lines->dwfl);
	own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	lines->module = own < 0 ? NULL : dwfl_report_offline(lines->dwfl, path, path, own);
	if (own >= 0 && !lines->module)
		close(own); /* otherwise libdwfl closes it */
	dwfl_report_end(lines->dwfl, NULL, NULL);
	if (!lines->module || !dwfl_module_getelf(lines->module, &lines->bias)) {
		object_lines_close(lines);
		return -ENOEXEC;
	}
	*out = lines;
	return 0;
}

void object_lines_close(struct object_lines *lines)
{
	if (!lines)
		return;
	dwfl_end(lines->dwfl);
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

bool object_lines_find(struct object_lines *lines, uint64_t address, uint64_t code, const char **file, uint32_t *line)
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
