/*
 * Results about large objects, kept from run to run in $XDG_CACHE_HOME/calltap or ~/.cache/calltap: a file for
 * each build id, or object without one, and kind (doc/design/stock.md, "What is kept").
 *
 * Folder and files must be the user's own or root's, and written to by nobody else.  A file says itself what it holds
 * for, by a sum of all that the finding out reads.  The sum starts at a number that is drawn for each file: who makes
 * an object with another one's build id cannot make one with the same sum.  That a file cannot be used or written is no
 * error, and nothing is said of it.  Callers: stock_cache.c, lines_cache.c.  Context: host.
 */
#ifndef HOST_ELF_KEPT_H
#define HOST_ELF_KEPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KEPT_FILE_MAX  (UINT64_C(16) << 20)
#define KEPT_NAME_SIZE 96
#define KEPT_ID_MIN    8 /* bytes of a build id that is taken for one */
#define KEPT_FUNCTIONS ".functions"
#define KEPT_LINES     ".lines"

/* Two words at a time, in as many lanes as a CPU multiplies at once. */
struct kept_sum {
	uint64_t seed[2];
	uint64_t lanes[4];
};
struct kept_sum kept_sum_begin(const uint64_t seed[2]);
void kept_sum_add(struct kept_sum *sum, const void *bytes, size_t size);
void kept_sum_number(struct kept_sum *sum, uint64_t number);
/* The tool itself: one that was built anew may find something else. */
void kept_sum_tool(struct kept_sum *sum);
uint64_t kept_sum_end(const struct kept_sum *sum);

void kept_name(char name[KEPT_NAME_SIZE], const uint8_t *id, size_t id_size, const char *ending);
/* The file's bytes, for free(), at least so many; NULL = it is not there, or may not be used. */
void *kept_read(const char *name, size_t least, size_t *size);
void kept_write(const char *name, const void *bytes, size_t size);

#endif
