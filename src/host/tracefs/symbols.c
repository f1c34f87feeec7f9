/*
 * The file kallsyms: the functions of the session's processes by address, as the kernel lists its own (tree.h).
 *
 * A tool looks for the greatest address that is not above the one it asks for.  So where a function ends and none
 * begins there is a line with the object's name, and where an object ends one that says that nothing is known.
 * Context: host.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <host/now.h>
#include <host/text.h>

#include "raw.h"
#include "tree.h"

#define SYMBOLS_MAX (2u << 20) /* of more processes with addresses of their own the older ones are left out */
/* A tool reads the file twice, and takes it that both are the same: so the text stays for some time. */
#define UNREAD_NS 1000000000u  /* since it was read last */
#define MADE_NS	  10000000000u /* since it was made */

/* What a line says of the addresses from its own on; of several lines for one address the last kind counts. */
enum symbol_kind { SYMBOL_END, SYMBOL_OBJECT, SYMBOL_FUNCTION };

struct symbol {
	uint64_t address;
	const struct trace_function *function; /* of FUNCTION */
	uint32_t object, rank;		       /* rank: a lower one counts */
	uint8_t kind;
};

struct symbols {
	const struct trace *trace;
	const struct trace_function **functions; /* by object */
	size_t function_count;
	struct symbol *list;
	size_t count, room;
	bool failed; /* not enough memory */
};

static int by_object(const void *a, const void *b)
{
	const struct trace_function *left = *(const struct trace_function *const *)a;
	const struct trace_function *right = *(const struct trace_function *const *)b;

	return (left->object > right->object) - (left->object < right->object);
}

static int by_address(const void *a, const void *b)
{
	const struct symbol *left = a, *right = b;

	if (left->address != right->address)
		return left->address < right->address ? -1 : 1;
	if (left->kind != right->kind)
		return left->kind < right->kind ? -1 : 1;
	return (left->rank < right->rank) - (left->rank > right->rank);
}

static bool take_functions(struct symbols *symbols)
{
	const uint32_t count = trace_function_count(symbols->trace);

	symbols->functions = calloc((size_t)count + 1, sizeof(struct trace_function *));
	if (!symbols->functions)
		return false;
	for (uint32_t i = 0; i < count; i++) {
		const struct trace_function *function = trace_function(symbols->trace, i);

		if (function && function->symbol)
			symbols->functions[symbols->function_count++] = function;
	}
	qsort(symbols->functions, symbols->function_count, sizeof(struct trace_function *), by_object);
	return true;
}

/* The index of the first function of an object, or of a later one. */
static size_t first_of(const struct symbols *symbols, uint32_t object)
{
	size_t lo = 0, hi = symbols->function_count;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (symbols->functions[mid]->object < object)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

static void add(struct symbols *symbols, struct symbol symbol)
{
	if (symbols->count == symbols->room) {
		size_t room = symbols->room ? 2 * symbols->room : 1024;
		struct symbol *list = reallocarray(symbols->list, room, sizeof(*list));

		if (!list) {
			symbols->failed = true;
			return;
		}
		symbols->list = list;
		symbols->room = room;
	}
	symbols->list[symbols->count++] = symbol;
}

/* True if the process has had another object at the map's place since. */
static bool is_covered(const struct trace *trace, const struct calltap_file_map *map)
{
	const struct calltap_file_map *other;

	for (uint32_t i = 0; (other = trace_map(trace, i)); i++)
		if (other->process == map->process && other->ticks > map->ticks && other->lo < map->hi &&
		    other->hi > map->lo)
			return true;
	return false;
}

static void add_map(struct symbols *symbols, const struct calltap_file_map *map, uint32_t rank)
{
	add(symbols, (struct symbol){map->lo, NULL, map->object, rank, SYMBOL_OBJECT});
	add(symbols, (struct symbol){map->hi, NULL, map->object, rank, SYMBOL_END});
	for (size_t i = first_of(symbols, map->object);
	     i < symbols->function_count && symbols->functions[i]->object == map->object; i++) {
		const struct trace_function *function = symbols->functions[i];
		const uint64_t address = map->base + function->address;

		if (address >= map->lo && address < map->hi)
			add(symbols, (struct symbol){address, function, map->object, rank, SYMBOL_FUNCTION});
	}
}

static void take_maps(struct symbols *symbols)
{
	uint32_t count = 0, rank = 0;

	while (trace_map(symbols->trace, count))
		count++;
	while (count-- && !symbols->failed && symbols->count < SYMBOLS_MAX) {
		const struct calltap_file_map *map = trace_map(symbols->trace, count);

		if (trace_object(symbols->trace, map->object) && !is_covered(symbols->trace, map))
			add_map(symbols, map, rank++);
	}
	if (symbols->count)
		qsort(symbols->list, symbols->count, sizeof(*symbols->list), by_address);
}

/* Names are one word, and do not begin like "$x", which tools leave out. */
static void put_word(struct tree_text *out, const char *word)
{
	for (const char *c = word; *c; c++) {
		bool bad = (unsigned char)*c <= ' ' || (c == word && *c == '$');

		tree_text_add(out, bad ? "_" : c, 1);
	}
}

static void put_line(struct tree_text *out, uint64_t address, char letter, const char *name, const char *object)
{
	tree_text_format(out, "%016llx %c ", (unsigned long long)address, letter);
	put_word(out, name);
	if (object) {
		tree_text_string(out, "\t[");
		put_word(out, object);
		tree_text_string(out, "]");
	}
	tree_text_string(out, "\n");
}

static void put_symbols(const struct symbols *symbols, struct tree_text *out)
{
	uint32_t last = TRACE_NONE;
	const char *object = "", *module = NULL; /* a program stands for the kernel itself: it is no module */

	for (size_t i = 0; i < symbols->count; i++) {
		const struct symbol *symbol = &symbols->list[i], *next = i + 1 < symbols->count ? symbol + 1 : NULL;
		uint64_t end = symbol->function ? symbol->address + symbol->function->size : symbol->address;

		if (next && next->address == symbol->address)
			continue;
		if (symbol->object != last) {
			last = symbol->object;
			object = text_base(trace_object(symbols->trace, last)->path);
			module = trace_is_program(symbols->trace, trace_object(symbols->trace, last)) ? NULL : object;
		}
		if (symbol->function)
			put_line(out, symbol->address, 'T', symbol->function->symbol, module);
		else if (symbol->kind == SYMBOL_OBJECT)
			put_line(out, symbol->address, 't', object, module);
		else
			put_line(out, symbol->address, 't', "unknown", NULL);
		if (end > symbol->address && next && end < next->address)
			put_line(out, end, 't', object, module);
	}
	put_line(out, RAW_MARK_ADDRESS, 'T', "tracing_mark_write", NULL);
}

static int make(struct tree *tree, const struct trace *trace)
{
	struct symbols symbols = {.trace = trace};
	int ret = trace && !take_functions(&symbols) ? -ENOMEM : 0;

	if (trace && !ret)
		take_maps(&symbols);
	tree_text_clear(&tree->symbols.text);
	if (!ret && !symbols.failed)
		put_symbols(&symbols, &tree->symbols.text);
	tree->symbols.made_ns = now_ns();
	free(symbols.functions);
	free(symbols.list);
	return ret || symbols.failed || tree->symbols.text.failed ? -ENOMEM : 0;
}

int symbols_read(struct tree_open *open, struct tree_text *out)
{
	struct tree *tree = open->instance->tree;
	const struct tree_source *source = &tree->instances->source;
	const struct trace *trace;
	uint64_t now = now_ns();
	int ret;

	if (now - tree->symbols.read_ns > UNREAD_NS || now - tree->symbols.made_ns > MADE_NS) {
		source_pump(tree->instances);
		trace = source->follow ? trace_follow_trace(source->follow) : NULL;
		ret = make(tree, trace);
		if (ret)
			return ret;
	}
	tree->symbols.read_ns = now;
	tree_text_add(out, tree->symbols.text.bytes, tree->symbols.text.used);
	return 0;
}
