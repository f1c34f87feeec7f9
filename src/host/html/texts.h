/*
 * Texts that the page shows, each kept once: values of calls, marks, names of source files.
 *
 * Callers: boxes.c, write.c.  Context: host.  A program chose the texts: any bytes but NUL.  Long ones are cut, and the
 * bytes of all together are bounded.
 */
#ifndef HOST_HTML_TEXTS_H
#define HOST_HTML_TEXTS_H

#include <stdint.h>

#include "../view/json.h"

#define TEXTS_EACH_MAX 400u	  /* bytes */
#define TEXTS_ALL_MAX  (6u << 20) /* bytes */

struct texts {
	char **list;
	uint32_t count, room;
	uint32_t *buckets; /* number of a text + 1; 0 = free */
	uint32_t bits;
	uint64_t bytes;
	uint64_t left_out; /* texts for which there was no room */
	int error;	   /* -ENOMEM, or 0 */
};

/* The text's number + 1, 0 for NULL and for a text that is left out. */
uint32_t texts_add(struct texts *texts, const char *text);
/* Copy at most max - 1 bytes, so that no character is cut in two, with "..." at the end of what was cut; max > 4. */
void texts_cut(char *copy, uint32_t max, const char *text);
void texts_write(const struct texts *texts, struct json *json);
void texts_clear(struct texts *texts);

#endif
