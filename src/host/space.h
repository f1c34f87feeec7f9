/*
 * The address space of a process, as /proc/PID/maps has it: the one reader of that file in the tool.
 *
 * Callers: attach, record, core.  Context: host; a target chooses the contents.
 */
#ifndef HOST_SPACE_H
#define HOST_SPACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#define SPACE_BOARD "/memfd:calltap-board" /* path of a mapping of some session's board (abi/ring.h) */

enum map_bits { MAP_READ = 1, MAP_WRITE = 2, MAP_EXEC = 4, MAP_PUBLIC = 8, MAP_DELETED = 16 };

struct map {
	uint64_t lo, hi, offset;
	unsigned long inode;
	unsigned major, minor;
	unsigned bits;	  /* enum map_bits */
	const char *path; /* "" = anonymous; the old path of a file that was deleted or replaced (MAP_DELETED) */
};

/* The mappings of a process, sorted. */
struct space {
	struct map *maps;
	size_t count;
	char *text;
	size_t size; /* of the text, its NUL included */
	pid_t alive; /* the thread by which it was read; 0 = it was parsed from a text */
};

/* alive: as proc_alive() tells it.  A thread that has ended shows no memory: -ESRCH, with an empty space. */
int space_read(struct space *space, pid_t alive) __attribute__((warn_unused_result));
/*
 * Parse the text of such a file; size counts its NUL.  The text is freed with the space, or at once if there is no
 * mapping.
 */
int space_parse(struct space *space, char *text, size_t size) __attribute__((warn_unused_result));
int space_copy(struct space *to, const struct space *from) __attribute__((warn_unused_result));
void space_free(struct space *space);
/* The mapping that the address is in; NULL = none. */
const struct map *space_find(const struct space *space, uint64_t address);
/* True if some mapping's path has this part. */
bool space_has_path(const struct space *space, const char *part);
/* The inode of the first such mapping's file, in a process whose mappings are not read yet (alive: as in space_read());
 * 0 = there is none. */
unsigned long space_inode_of(pid_t alive, const char *part);
bool space_same_file(const struct map *map, const struct map *other);
/* True if the mapping is of the file that stat() tells of. */
bool space_is_file(const struct map *map, const struct stat *file);

/* Take " (deleted)" off a path that the kernel tells; true: it was there. */
bool space_cut_deleted(char *path);

/*
 * Open the mapping's file to read it, as the target sees it, which may be in another root: the descriptor, or -errno.
 * Only the very file that is mapped will do.  A file that was deleted or replaced is opened through
 * /proc/PID/map_files, which takes CAP_SYS_ADMIN or CAP_CHECKPOINT_RESTORE, or through /proc/PID/exe; else -ESTALE
 * (another file has its name now) or -ENOENT.
 */
int space_open(pid_t alive, const struct map *map) __attribute__((warn_unused_result));
/*
 * True if this name, as the target has it, leads to that open file.  True also where nobody can tell: the name is
 * relative or gone, or the kernel (before 5.6) does not follow names in another root.
 */
bool space_is_named(pid_t alive, const char *name, int fd);

#endif
