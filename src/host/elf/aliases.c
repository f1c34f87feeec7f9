/*
 * Names of files (aliases.h).  Context: host.
 */
#include <gelf.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "aliases.h"

/* The last part of the path behind all links, if it leads to this very file: a path may be of another mount namespace.
 */
static char *real_name(int fd, const char *path)
{
	char *real = realpath(path, NULL), *name = NULL;
	const char *slash = real ? strrchr(real, '/') : NULL;
	struct stat ours, theirs;

	if (slash && !fstat(fd, &ours) && !stat(real, &theirs) && ours.st_dev == theirs.st_dev &&
	    ours.st_ino == theirs.st_ino)
		name = strdup(slash + 1);
	free(real);
	return name;
}

static char *read_soname(Elf *elf, Elf_Scn *section, const GElf_Shdr *header)
{
	Elf_Data *data = elf_getdata(section, NULL);
	GElf_Dyn entry;

	for (int i = 0; data && gelf_getdyn(data, i, &entry) && entry.d_tag != DT_NULL; i++) {
		const char *text = entry.d_tag == DT_SONAME ? elf_strptr(elf, header->sh_link, entry.d_un.d_val) : NULL;

		if (text && text[0])
			return strdup(text);
	}
	return NULL;
}

void aliases_read(struct aliases *out, Elf *elf, int fd, const char *path)
{
	Elf_Scn *section = NULL;
	GElf_Shdr header;

	*out = (struct aliases){.file = real_name(fd, path)};
	while (!out->soname && (section = elf_nextscn(elf, section)))
		if (gelf_getshdr(section, &header) && header.sh_type == SHT_DYNAMIC)
			out->soname = read_soname(elf, section, &header);
}

void aliases_clear(struct aliases *aliases)
{
	free(aliases->file);
	free(aliases->soname);
	free(aliases->called);
	*aliases = (struct aliases){0};
}
