/*
 * Opening an object's DWARF (dwarf.h).  Context: host.
 */
#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <string.h>
#include <unistd.h>

#include "debug_file.h"
#include "dwarf.h"
#include "object.h"

static bool has_types(Elf *elf)
{
	Elf_Scn *section = NULL;
	size_t names;

	if (!elf || elf_getshdrstrndx(elf, &names) < 0)
		return false;
	while ((section = elf_nextscn(elf, section))) {
		GElf_Shdr header;
		const char *name = gelf_getshdr(section, &header) ? elf_strptr(elf, names, header.sh_name) : NULL;

		if (name && header.sh_type != SHT_NOBITS &&
		    (!strcmp(name, ".debug_info") || !strcmp(name, ".zdebug_info")))
			return true;
	}
	return false;
}

/* Take a file that is open, if it has what is wanted. */
static int take(struct object_dwarf *out, int fd)
{
	*out = (struct object_dwarf){.fd = fd};
	if (fd < 0)
		return -ENODATA;
	elf_version(EV_CURRENT);
	out->elf = elf_begin(fd, ELF_C_READ, NULL);
	if (has_types(out->elf))
		out->dwarf = dwarf_begin_elf(out->elf, DWARF_C_READ, NULL);
	return out->dwarf ? 0 : -ENODATA;
}

int object_dwarf_open(struct object_dwarf *out, const struct object *object, int fd)
{
	struct object_dwarf own;
	uint8_t id[32];
	struct debug_owner owner = {.path = object_path(object), .id = id, .id_size = object_build_id(object, id)};
	int ret = take(&own, fcntl(fd, F_DUPFD_CLOEXEC, 0));

	*out = own;
	if (!ret || !own.elf)
		return ret;
	owner.elf = own.elf;
	for (int place = 0; place < DEBUG_PLACES && ret; place++) {
		ret = take(out, debug_file_open(&owner, (enum debug_place)place));
		if (ret)
			object_dwarf_close(out);
	}
	object_dwarf_close(&own);
	return ret;
}

void object_dwarf_close(struct object_dwarf *dwarf)
{
	if (dwarf->dwarf)
		dwarf_end(dwarf->dwarf);
	elf_end(dwarf->elf);
	if (dwarf->fd >= 0)
		close(dwarf->fd);
	*dwarf = (struct object_dwarf){.fd = -1};
}
