/*
 * Source lines that were found in debug files, kept from run to run (kept.h).  Reading them there means unpacking the
 * whole file.
 *
 * Kept is what was asked for, line or no line, of objects whose DWARF is in a debug file: of others the file would be
 * read for nothing but one build.  It holds for the object's file, its debug file (each by device, inode, size and
 * times) and the tool.  Caller: lines.c.  Context: host; the object and its debug file are untrusted.
 */
#ifndef HOST_ELF_LINES_CACHE_H
#define HOST_ELF_LINES_CACHE_H

#include <libelf.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

struct lines_cache;

/* Facts about an object's lines that are known without reading any line. */
struct lines_place {
	bool none;	   /* there are none: no DWARF in the file, and no debug file */
	bool is_apart;	   /* the DWARF is in a debug file */
	struct stat debug; /* then: that file */
	struct stat object;
	uint8_t id[32];
	size_t id_size;
};
void lines_place_find(struct lines_place *place, Elf *elf, const char *path, int fd);

/* NULL: nothing of this object can be kept. */
struct lines_cache *lines_cache_open(const struct lines_place *place);
/* True if the function was asked for before; then *file is NULL, or a name that lives as long as the cache. */
bool lines_cache_find(const struct lines_cache *cache, uint64_t address, uint64_t code, const char **file,
		      uint32_t *line);
/* Keep the line that was found, file NULL = none; the name has to live up to lines_cache_close(). */
void lines_cache_add(struct lines_cache *cache, uint64_t address, uint64_t code, const char *file, uint32_t line);
/* keep: write what was added. */
void lines_cache_close(struct lines_cache *cache, bool keep);

#endif
