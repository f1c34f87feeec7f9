/*
 * The functions of an object by its symbol tables (symbol_tables.h).
 *
 * Callers: object_open; the look-ups by everyone.  Context: host.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "imports.h"
#include "symbol_tables.h"

#define CYG_PROFILE "__cyg_profile_func_enter"

static void note_undefined(struct object *object, const char *name, size_t length)
{
	if ((length == 6 && !memcmp(name, "mcount", 6)) || (length == 7 && !memcmp(name, "_mcount", 7)))
		object->hints |= OBJECT_HINT_MCOUNT;
	else if (length == strlen(CYG_PROFILE) && !memcmp(name, CYG_PROFILE, length))
		object->hints |= OBJECT_HINT_CYG_PROFILE;
}

/* A name without its "@VERSION"; *out lives as long as object. */
static int keep_name(struct object *object, const char *name, const char **out)
{
	size_t length = strcspn(name, "@");
	char **owned;

	*out = name;
	if (!name[length])
		return 0;
	if (!(object->owned_count & (object->owned_count + 1))) { /* full at 2^n - 1 */
		owned = reallocarray(object->owned, object->owned_count * 2 + 1, sizeof(*owned));
		if (!owned)
			return -ENOMEM;
		object->owned = owned;
	}
	*out = object->owned[object->owned_count] = strndup(name, length);
	if (!*out)
		return -ENOMEM;
	object->owned_count++;
	return 0;
}

enum { RANK_GLOBAL, RANK_WEAK, RANK_OLD, RANK_LOCAL, RANK_CHOSEN };

#define VERSION_HIDDEN 0x8000u

/* Is the symbol there for programs alone that were linked when it had this version?  So is cfree, which is free. */
static bool is_old(const struct symbol_table *table, size_t at, const char *name)
{
	const char *version = strchr(name, '@');

	return version ? version[1] != '@' : table->versions && table->versions[at] & VERSION_HIDDEN;
}

/*
 * Rank the names of one address by what people would use: global, then weak, then those of old versions, then local.  A
 * function chosen at run time comes last: its name lies at the resolver, which has a name of its own.
 */
static uint8_t rank_name(const Elf64_Sym *symbol, bool old)
{
	if (ELF64_ST_TYPE(symbol->st_info) == STT_GNU_IFUNC)
		return RANK_CHOSEN;
	if (old)
		return RANK_OLD;
	switch (ELF64_ST_BIND(symbol->st_info)) {
	case STB_GLOBAL:
		return RANK_GLOBAL;
	case STB_WEAK:
		return RANK_WEAK;
	default:
		return RANK_LOCAL;
	}
}

/* Note what matters of a static program beside its functions (fronts.h).  True: the agent stands in front of it. */
static bool note_front(struct object *object, const Elf64_Sym *symbol, const char *name)
{
	struct front_notes *notes = &object->fronts;

	if (!object_is_static(object))
		return false;
	/* Hidden functions of a library are local ones of a static-pie program. */
	notes->libgcc |= !strcmp(name, "_Unwind_Find_FDE");
	notes->unwinds |= !strncmp(name, "_Unwind_", 8) || !strcmp(name, "unw_step");
	notes->glibc |= !strcmp(name, "__libc_setup_tls");
	notes->musl |= !strcmp(name, "__init_libc");
	notes->synccall |= !strcmp(name, "__synccall");
	notes->list_lock |= !strcmp(name, "__tl_lock");
	if (ELF64_ST_BIND(symbol->st_info) == STB_LOCAL)
		return false;
	for (uint32_t i = 0; i < FRONT_NAMES; i++) {
		if (!front_name(i) || strcmp(name, front_name(i)) != 0)
			continue;
		notes->addresses[i] = symbol->st_value;
		return true;
	}
	return false;
}

static int add_symbol(struct object *object, const Elf64_Sym *symbol, const char *name, bool old)
{
	struct object_symbol *function = &object->symbols[object->symbol_count];
	size_t size;
	int error;

	if (!symbol->st_size || symbol->st_size > UINT32_MAX || !object_code_at(object, symbol->st_value, &size))
		return 0;
	error = keep_name(object, name, &function->symbol);
	if (error)
		return error;
	function->address = symbol->st_value;
	function->size = (uint32_t)symbol->st_size;
	function->rank = rank_name(symbol, old);
	function->verdict = (uint8_t)site_verdict_of_name(function->symbol);
	if (function->verdict == SITE_OK && symbol->st_other & object->cpu->vector_calls)
		function->verdict = SITE_VECTORS;
	if (note_front(object, symbol, function->symbol) && function->verdict == SITE_OK)
		function->verdict = SITE_OWN;
	object->symbol_count++;
	return 0;
}

static int read_symbol(struct object *object, const struct symbol_table *table, size_t at)
{
	const Elf64_Sym *symbol = &table->symbols[at];
	const char *name;
	unsigned int type = ELF64_ST_TYPE(symbol->st_info);

	if (!symbol->st_name || symbol->st_name >= table->strings_size)
		return 0;
	name = table->strings + symbol->st_name;
	if (symbol->st_shndx == SHN_UNDEF) {
		note_undefined(object, name, strcspn(name, "@"));
		return 0;
	}
	if (!strcmp(name, CYG_PROFILE))
		object->hints |= OBJECT_HINT_CYG_PROFILE;
	if (!strncmp(name, "__fentry__", 10) && (!name[10] || name[10] == '@')) {
		int error = address_list_add(&object->fentry.targets, symbol->st_value);

		if (error)
			return error;
	}
	if (type != STT_FUNC && type != STT_GNU_IFUNC)
		return 0;
	return add_symbol(object, symbol, name, is_old(table, at, name));
}

static int read_table(struct object *object, const struct symbol_table *table)
{
	int error = 0;

	for (size_t i = 0; i < table->count && !error; i++)
		error = read_symbol(object, table, i);
	return error;
}

/*
 * Names that begin with an underline are a library's own for what users call otherwise: __libc_malloc.  In libc the
 * other name is often the weak one: write, beside __write.
 */
static int compare_symbols(const void *a, const void *b)
{
	const struct object_symbol *left = a, *right = b;

	if (left->address != right->address)
		return left->address < right->address ? -1 : 1;
	if (left->rank != right->rank && (left->rank > RANK_WEAK || right->rank > RANK_WEAK))
		return left->rank - right->rank;
	if ((left->symbol[0] == '_') != (right->symbol[0] == '_'))
		return left->symbol[0] == '_' ? 1 : -1;
	if (left->rank != right->rank)
		return left->rank - right->rank;
	if (left->size != right->size)
		return left->size > right->size ? -1 : 1;
	return strcmp(left->symbol, right->symbol);
}

const char *object_symbol_other(const struct object *object, const struct object_symbol *symbol, size_t i)
{
	/* The list begins with a NULL, which is that of functions without other names. */
	const char *const *names = object->others + symbol->others;

	for (size_t k = 0; k < i; k++)
		if (!names[k])
			return NULL;
	return names[i];
}

/* Note `other` as a further name of `function`, the last symbol that sort_out_aliases() has kept so far. */
static void add_other(struct object *object, struct object_symbol *function, const struct object_symbol *other)
{
	if (other->rank == RANK_OLD || other->rank == RANK_CHOSEN || !strcmp(other->symbol, function->symbol))
		return;
	for (size_t i = 0; object_symbol_other(object, function, i); i++)
		if (!strcmp(object_symbol_other(object, function, i), other->symbol))
			return;
	if (!function->others)
		function->others = (uint32_t)object->other_count;
	else
		object->other_count--; /* the name comes in the place of its NULL */
	object->others[object->other_count++] = other->symbol;
	object->others[object->other_count++] = NULL;
}

/* Keep the best name of each address, with the strictest verdict of all of them, and the others beside it. */
static int sort_out_aliases(struct object *object)
{
	struct object_symbol *symbols = object->symbols;
	size_t kept = 0;

	/* A NULL, and for each function that has others these and another NULL. */
	object->others = calloc(object->symbol_count + 1, sizeof(*object->others));
	if (!object->others)
		return -ENOMEM;
	object->other_count = 1;
	if (!object->symbol_count)
		return 0;
	for (size_t i = 1; i < object->symbol_count; i++) {
		if (symbols[i].address != symbols[kept].address) {
			symbols[++kept] = symbols[i];
			continue;
		}
		if (symbols[kept].verdict == SITE_OK)
			symbols[kept].verdict = symbols[i].verdict;
		add_other(object, &symbols[kept], &symbols[i]);
	}
	object->symbol_count = kept + 1;
	return 0;
}

int object_read_symbols(struct object *object)
{
	struct symbol_table tables[SYMBOL_TABLES_MAX];
	size_t count = object_find_tables(object, tables), most = 0;
	int error;

	for (size_t i = 0; i < count; i++)
		most += tables[i].count;
	object->fronts.named = count && object->names != OBJECT_NAMES_DYNAMIC;
	if (!count)
		return 0;
	object->symbols = calloc(most + 1, sizeof(*object->symbols));
	if (!object->symbols)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++) {
		error = read_table(object, &tables[i]);
		if (error)
			return error;
	}
	object_sort(object->symbols, object->symbol_count, sizeof(*object->symbols), compare_symbols);
	error = sort_out_aliases(object);
	if (error)
		return error;
	address_list_sort(&object->fentry.targets);
	object->symbol_names = calloc(object->symbol_count + 1, sizeof(*object->symbol_names));
	object->symbol_short_names = calloc(object->symbol_count + 1, sizeof(*object->symbol_short_names));
	return object->symbol_names && object->symbol_short_names ? 0 : -ENOMEM;
}

void object_free_symbols(struct object *object)
{
	for (size_t i = 0; object->symbol_short_names && i < object->symbol_count; i++) {
		free(object->symbol_names[i]);
		free(object->symbol_short_names[i]);
	}
	for (size_t i = 0; i < object->owned_count; i++)
		free(object->owned[i]);
	free(object->owned);
	free(object->others);
	free(object->symbol_names);
	free(object->symbol_short_names);
	free(object->symbols);
}

size_t object_symbols(const struct object *object, const struct object_symbol **symbols)
{
	*symbols = object->symbols;
	return object->symbol_count;
}

size_t object_symbol_above(const struct object *object, uint64_t address)
{
	size_t lo = 0, hi = object->symbol_count;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (object->symbols[mid].address <= address)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

const struct object_symbol *object_symbol_around(const struct object *object, uint64_t address)
{
	size_t above = object_symbol_above(object, address);
	const struct object_symbol *symbol = above ? &object->symbols[above - 1] : NULL;

	return symbol && address - symbol->address < symbol->size ? symbol : NULL;
}

const struct object_symbol *object_symbol_at(const struct object *object, uint64_t address)
{
	const struct object_symbol *symbol = object_symbol_around(object, address);

	return symbol && symbol->address == address ? symbol : NULL;
}
