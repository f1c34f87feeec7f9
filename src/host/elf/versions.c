/*
 * Files of imports, by the sections .gnu.version and .gnu.version_r (versions.h).  Context: host.
 */
#include "versions.h"

#define HIDDEN 0x8000u /* a flag in a symbol's version */

void versions_find(struct versions *out, Elf *elf)
{
	Elf_Scn *section = NULL;
	GElf_Shdr header;

	*out = (struct versions){.elf = elf};
	while ((section = elf_nextscn(elf, section))) {
		if (!gelf_getshdr(section, &header))
			continue;
		if (header.sh_type == SHT_GNU_versym)
			out->symbols = elf_getdata(section, NULL);
		if (header.sh_type != SHT_GNU_verneed)
			continue;
		out->needs = elf_getdata(section, NULL);
		out->strings = header.sh_link;
	}
}

/* Is the version one of those that are needed of this file? */
static bool needs(const struct versions *versions, const GElf_Verneed *file, size_t at, GElf_Versym version)
{
	GElf_Vernaux one;

	at += file->vn_aux;
	for (unsigned i = 0; i < file->vn_cnt && at < versions->needs->d_size; i++) {
		if (!gelf_getvernaux(versions->needs, (int)at, &one))
			return false;
		if (one.vna_other == version)
			return true;
		if (!one.vna_next)
			return false;
		at += one.vna_next;
	}
	return false;
}

const char *versions_file_of(const struct versions *versions, uint32_t symbol)
{
	GElf_Verneed file;
	GElf_Versym version;
	size_t at = 0;

	if (!versions->symbols || !versions->needs || symbol > INT32_MAX / 2 ||
	    !gelf_getversym(versions->symbols, (int)symbol, &version))
		return NULL;
	version &= (GElf_Versym)~HIDDEN;
	/* Each step goes on, for its distance is positive. */
	while (version > VER_NDX_GLOBAL && at < versions->needs->d_size &&
	       gelf_getverneed(versions->needs, (int)at, &file)) {
		if (needs(versions, &file, at, version))
			return elf_strptr(versions->elf, versions->strings, file.vn_file);
		if (!file.vn_next)
			return NULL;
		at += file.vn_next;
	}
	return NULL;
}
