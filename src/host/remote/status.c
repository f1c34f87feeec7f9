/*
 * A session's status as lines of text, key=value.
 *
 * Callers: the server, which writes it, and the client, which reads it.
 * Context: host.
 */
#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "impl.h"

struct field {
	const char *key;
	size_t offset;
	size_t text; /* room for text, 0 = a number */
};

#define TEXT(name)                                                                                                     \
	{                                                                                                              \
#name, offsetof(struct remote_status, name), sizeof(((struct remote_status *)0)->name)                 \
	}
#define NUMBER(name)                                                                                                   \
	{                                                                                                              \
#name, offsetof(struct remote_status, name), 0                                                         \
	}

static const struct field fields[] = {
	TEXT(program),	  TEXT(output),	      TEXT(tracer),	TEXT(mode),	    NUMBER(pid),
	NUMBER(tool),	  NUMBER(attached),   NUMBER(tracing),	NUMBER(processes),  NUMBER(threads),
	NUMBER(sites),	  NUMBER(sites_on),   NUMBER(serves),	NUMBER(handlers),   NUMBER(handled),
	NUMBER(records),  NUMBER(lost),	      NUMBER(untraced), NUMBER(file_bytes), NUMBER(longest_stop_ns),
	NUMBER(began_ns), NUMBER(counted_ns), TEXT(instance),	TEXT(instances),    TEXT(pids),
};

#define FIELDS (sizeof(fields) / sizeof(fields[0]))

/* A program may have any name; replace bytes that are no text on a terminal or in a line. */
static void print_text(const char *text, size_t room, FILE *stream)
{
	for (size_t i = 0; i < room && text[i]; i++)
		fputc((unsigned char)text[i] < ' ' || text[i] == 0x7f ? '?' : text[i], stream);
}

void status_print(const struct remote_status *status, FILE *stream)
{
	for (size_t i = 0; i < FIELDS; i++) {
		const char *at = (const char *)status + fields[i].offset;
		uint64_t number;

		fprintf(stream, "%s=", fields[i].key);
		if (fields[i].text) {
			print_text(at, fields[i].text, stream);
		} else {
			memcpy(&number, at, sizeof(number));
			fprintf(stream, "%" PRIu64, number);
		}
		fputc('\n', stream);
	}
}

static void take(struct remote_status *status, const char *key, const char *value)
{
	for (size_t i = 0; i < FIELDS; i++) {
		char *at = (char *)status + fields[i].offset;
		uint64_t number;

		if (strcmp(fields[i].key, key) != 0)
			continue;
		if (fields[i].text) {
			snprintf(at, fields[i].text, "%s", value);
		} else {
			number = strtoull(value, NULL, 10);
			memcpy(at, &number, sizeof(number));
		}
	}
}

void status_parse(struct remote_status *status, char *text)
{
	memset(status, 0, sizeof(*status));
	for (char *line = text, *next; line; line = next) {
		char *equals;

		next = strchr(line, '\n');
		if (next)
			*next++ = 0;
		equals = strchr(line, '=');
		if (!equals)
			continue;
		*equals = 0;
		take(status, line, equals + 1);
	}
}
