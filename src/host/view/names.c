/*
 * Printable names, made when first asked for; see names.h.  Context: host.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json.h"
#include "names.h"
#include "utf8.h"

#define LABEL_MAX 48 /* "function#4294967295", "comm-tid" */

struct names {
	const struct trace *trace;
	uint32_t functions; /* in the trace's table */
	uint32_t threads;
	struct names_text *function;
	struct names_text *function_json;
	struct names_text *thread;
	char spare[LABEL_MAX]; /* for ids that have no slot */
};

int names_create(struct names **out, const struct trace *trace)
{
	struct names *names = calloc(1, sizeof(*names));

	*out = NULL;
	if (!names)
		return -ENOMEM;
	names->trace = trace;
	names->functions = trace_function_count(trace);
	names->threads = trace_thread_count(trace);
	names->function = calloc((size_t)names->functions + 1, sizeof(*names->function));
	names->function_json = calloc((size_t)names->functions + 1, sizeof(*names->function_json));
	names->thread = calloc((size_t)names->threads + 1, sizeof(*names->thread));
	if (!names->function || !names->function_json || !names->thread) {
		names_destroy(names);
		return -ENOMEM;
	}
	*out = names;
	return 0;
}

static void free_texts(struct names_text *texts, uint32_t count)
{
	for (uint32_t i = 0; texts && i < count; i++)
		free((char *)texts[i].text);
	free(texts);
}

void names_destroy(struct names *names)
{
	if (!names)
		return;
	free_texts(names->function, names->functions);
	free_texts(names->function_json, names->functions);
	free_texts(names->thread, names->threads);
	free(names);
}

const char *names_base(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash && slash[1] ? slash + 1 : path;
}

void names_clean(char *buffer, size_t size, const char *text)
{
	size_t used = 0;

	while (*text) {
		size_t run = utf8_length(text);
		unsigned char c = (unsigned char)*text;
		/* C0, DEL and the C1 range U+0080..U+009F, which is two bytes from 0xc2. */
		bool control = c < 0x20 || c == 0x7f || (c == 0xc2 && run == 2 && (unsigned char)text[1] < 0xa0);

		if (used + (run ? run : 1) >= size)
			break;
		if (!run || control)
			buffer[used++] = '?';
		else
			memcpy(buffer + used, text, run);
		used += !run || control ? 0 : run;
		text += run ? run : 1;
	}
	buffer[used] = '\0';
}

static struct names_text keep(struct names_text *slot, char *text)
{
	if (text)
		*slot = (struct names_text){text, (uint32_t)strlen(text)};
	return text ? *slot : (struct names_text){"?", 1};
}

static struct names_text label_unknown(struct names *names, const char *what, uint32_t id)
{
	int length = snprintf(names->spare, sizeof(names->spare), "%s#%u", what, id);

	return (struct names_text){names->spare, (uint32_t)length};
}

static char *clean_dup(const char *text)
{
	size_t size = strlen(text) + 1;
	char *copy = malloc(size);

	if (copy)
		names_clean(copy, size, text);
	return copy;
}

struct names_text names_function(struct names *names, uint32_t function)
{
	const struct trace_function *known;

	if (function >= names->functions)
		return label_unknown(names, "function", function);
	if (names->function[function].text)
		return names->function[function];
	known = trace_function(names->trace, function);
	if (!known || !known->name[0])
		return keep(&names->function[function], strdup(label_unknown(names, "function", function).text));
	return keep(&names->function[function], clean_dup(known->name));
}

struct names_text names_function_json(struct names *names, uint32_t function)
{
	const struct trace_function *known;

	if (function >= names->functions) {
		int length = snprintf(names->spare, sizeof(names->spare), "\"function#%u\"", function);

		return (struct names_text){names->spare, (uint32_t)length};
	}
	if (names->function_json[function].text)
		return names->function_json[function];
	known = trace_function(names->trace, function);
	if (!known || !known->name[0])
		return keep(&names->function_json[function], json_escape_dup(names_function(names, function).text));
	return keep(&names->function_json[function], json_escape_dup(known->name));
}

struct names_text names_thread(struct names *names, uint32_t thread)
{
	const struct trace_thread *known = trace_thread(names->trace, thread);
	char clean[sizeof(known->name)], label[LABEL_MAX];

	if (thread >= names->threads || !known)
		return label_unknown(names, "thread", thread);
	if (names->thread[thread].text)
		return names->thread[thread];
	names_clean(clean, sizeof(clean), known->name[0] ? known->name : "?");
	snprintf(label, sizeof(label), "%s-%u", clean, known->tid);
	return keep(&names->thread[thread], strdup(label));
}

unsigned names_thread_width(struct names *names, unsigned limit)
{
	unsigned width = 0;

	for (uint32_t i = 0; i < names->threads && width < limit; i++) {
		if (trace_thread(names->trace, i) && names_thread(names, i).length > width)
			width = names_thread(names, i).length;
	}
	return width < limit ? width : limit;
}
