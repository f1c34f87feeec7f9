/*
 * A setting as words: key=value, and numbers as options take them.  The receiver knows what the keys mean
 * (record/settings.h).
 *
 * Callers: the commands, and both ends of the session's socket.  Context: host; a client of the socket chooses the
 * words.
 */
#ifndef HOST_SETTING_H
#define HOST_SETTING_H

#include <stdbool.h>
#include <stdint.h>

/* A new value for one setting of a running session. */
struct setting_change {
	const char *key;
	const char *value; /* "" removes all filters of a kind, or a limit */
	bool append;	   /* key+=value: one more filter */
};

/* "key=value" or "key+=value", cut in place; -EINVAL: neither. */
int setting_parse(struct setting_change *change, char *text) __attribute__((warn_unused_result));

/* Numbers as options take them; false = not valid. */
bool setting_parse_size(const char *text, uint64_t *bytes);  /* 8K to 1G */
bool setting_parse_time(const char *text, uint64_t *ns);     /* microseconds without a unit; up to an hour */
bool setting_parse_count(const char *text, uint32_t *count); /* from 1 */

#endif
