/*
 * Simple questions about an open trace: a look into a table answers each.
 *
 * Context: host.  Names are demangled when they are first asked for: a view
 * of a large program shows few of its functions.
 */
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include <libiberty/demangle.h>

#include <host/text.h>

#include "reader.h"

/* The demangler's effort can explode with the length of a forged name. */
#define SYMBOL_MAX 4096

const char *trace_path(const struct trace *trace)
{
	return trace->path;
}

const char *trace_damage(const struct trace *trace)
{
	return trace->damage[0] ? trace->damage : NULL;
}

const char *trace_info(const struct trace *trace, const char *key)
{
	for (uint32_t i = trace->info.count; i-- > 0;) {
		const struct info_entry *entry = TABLE_ITEM(trace->info, struct info_entry, i);

		if (strcmp(entry->key, key) == 0)
			return entry->value;
	}
	return NULL;
}

bool trace_info_at(const struct trace *trace, uint32_t i, const char **key, const char **value)
{
	if (i >= trace->info.count)
		return false;
	*key = TABLE_ITEM(trace->info, struct info_entry, i)->key;
	*value = TABLE_ITEM(trace->info, struct info_entry, i)->value;
	return true;
}

uint64_t trace_calls_missed(const struct trace *trace)
{
	const char *value = trace_info(trace, "untraced");

	return value ? strtoull(value, NULL, 10) : 0;
}

const struct calltap_file_head *trace_head(const struct trace *trace)
{
	return &trace->head;
}

const struct calltap_file_end *trace_end(const struct trace *trace)
{
	return trace->ended ? &trace->end : NULL;
}

uint32_t trace_function_count(const struct trace *trace)
{
	return trace->functions.count;
}

/* The demangled name in new memory, or symbol itself when it is not mangled. */
static const char *demangle_symbol(const char *symbol, int options)
{
	char *name = NULL;

	if (symbol[0] == '_' && strlen(symbol) <= SYMBOL_MAX)
		name = cplus_demangle(symbol, options | DMGL_ANSI | DMGL_AUTO);
	return name ? name : symbol;
}

char *demangle_brief(const char *symbol)
{
	const char *name = demangle_symbol(symbol, 0);

	return name == symbol ? NULL : (char *)name;
}

/* The function of this id, with its name demangled; NULL: there is none. */
static struct trace_function *find_function(const struct trace *trace, uint32_t id)
{
	const struct table *table = id >= TRACE_UNTRACED ? &trace->untraced : &trace->functions;
	uint32_t index = id >= TRACE_UNTRACED ? id - TRACE_UNTRACED : id;
	struct trace_function *function;

	if (index >= table->count)
		return NULL;
	function = TABLE_ITEM(*table, struct trace_function, index);
	if (!function->symbol)
		return NULL;
	if (!function->name)
		function->name = demangle_symbol(function->symbol, DMGL_PARAMS);
	return function;
}

static const char *brief_of(struct trace_function *function)
{
	if (!function->brief)
		function->brief = demangle_symbol(function->symbol, 0);
	return function->brief;
}

uint32_t trace_untraced_count(const struct trace *trace)
{
	return trace->untraced.count;
}

const struct trace_function *trace_function(const struct trace *trace, uint32_t id)
{
	return find_function(trace, id);
}

bool trace_function_matches(const struct trace *trace, uint32_t id, const char *glob)
{
	struct trace_function *function = find_function(trace, id);

	if (!function)
		return false;
	if (fnmatch(glob, function->name, 0) == 0 || fnmatch(glob, function->symbol, 0) == 0)
		return true;
	if (function->name == function->symbol)
		return false;
	return fnmatch(glob, brief_of(function), 0) == 0;
}

const char *trace_function_brief(const struct trace *trace, uint32_t id)
{
	return brief_of(find_function(trace, id));
}

uint32_t trace_object_count(const struct trace *trace)
{
	return trace->objects.count;
}

const struct trace_object *trace_object(const struct trace *trace, uint32_t index)
{
	const struct trace_object *object;

	if (index >= trace->objects.count)
		return NULL;
	object = TABLE_ITEM(trace->objects, struct trace_object, index);
	return object->path ? object : NULL;
}

uint32_t trace_process_count(const struct trace *trace)
{
	return trace->processes.count;
}

const struct trace_process *trace_process(const struct trace *trace, uint32_t index)
{
	const struct trace_process *process;

	if (index >= trace->processes.count)
		return NULL;
	process = TABLE_ITEM(trace->processes, struct trace_process, index);
	return process->exe ? process : NULL;
}

bool trace_is_program(const struct trace *trace, const struct trace_object *object)
{
	for (uint32_t i = 0; i < trace_process_count(trace); i++) {
		const struct trace_process *process = trace_process(trace, i);

		if (process && process->exe && !strcmp(text_base(process->exe), text_base(object->path)))
			return true;
	}
	return false;
}

uint32_t trace_thread_count(const struct trace *trace)
{
	return trace->threads.count;
}

const struct trace_thread *trace_thread(const struct trace *trace, uint32_t index)
{
	const struct thread_entry *entry;

	if (index >= trace->threads.count)
		return NULL;
	entry = TABLE_ITEM(trace->threads, struct thread_entry, index);
	return entry->described ? &entry->about : NULL;
}
