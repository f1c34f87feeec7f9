/*
 * libc's functions (and a word) behind those that the agent stands in front of.
 *
 * Called in the constructor, on the program's thread; context: control.  It looks through the dynamic symbol tables of
 * the objects after the agent in the loader's list, as the loader would.  Not dlsym(RTLD_NEXT): before glibc 2.34 that
 * lives in a library which the program need not have.  Source: System V gABI, "Dynamic Section"; binutils' DT_GNU_HASH.
 */
#include <agent/agent.h>
#include <agent/libc.h>
#include <base/mem.h>

#define HIDDEN_VERSION 0x8000u

struct table {
	const ElfW(Sym) * symbols;
	const char *strings;
	const uint32_t *hash;	 /* DT_GNU_HASH */
	const uint32_t *buckets; /* DT_HASH: of which only the number of symbols is used */
	const uint16_t *versions;
};

/*
 * The address in a dynamic entry.  The loader adds an object's base to it, but not in every object (vdso) and on every
 * CPU.
 */
static const void *pointer(const struct link_map *map, const ElfW(Dyn) * entry)
{
	uint64_t value = entry->d_un.d_ptr;

	return (const void *)(value < map->l_addr ? value + map->l_addr : value);
}

static struct table table_of(const struct link_map *map)
{
	struct table table = {0};

	for (const ElfW(Dyn) *entry = map->l_ld; entry && entry->d_tag != DT_NULL; entry++) {
		if (entry->d_tag == DT_SYMTAB)
			table.symbols = pointer(map, entry);
		else if (entry->d_tag == DT_STRTAB)
			table.strings = pointer(map, entry);
		else if (entry->d_tag == DT_GNU_HASH)
			table.hash = pointer(map, entry);
		else if (entry->d_tag == DT_HASH)
			table.buckets = pointer(map, entry);
		else if (entry->d_tag == DT_VERSYM)
			table.versions = pointer(map, entry);
	}
	return table;
}

static bool same_text(const char *a, const char *b)
{
	while (*a && *a == *b)
		a++, b++;
	return *a == *b;
}

static uint32_t hash_of(const char *name)
{
	uint32_t hash = 5381;

	for (; *name; name++)
		hash = hash * 33 + (uint8_t)*name;
	return hash;
}

static bool is_wanted(const struct table *table, uint32_t index, const char *name)
{
	const ElfW(Sym) *symbol = &table->symbols[index];
	unsigned type = ELF64_ST_TYPE(symbol->st_info);

	return symbol->st_shndx != SHN_UNDEF && (type == STT_FUNC || type == STT_OBJECT) &&
	       !(table->versions && table->versions[index] & HIDDEN_VERSION) &&
	       same_text(table->strings + symbol->st_name, name);
}

/* The symbol that defines the default version of a function; NULL: none. */
static const ElfW(Sym) * look_up(const struct table *table, const char *name, uint32_t hash)
{
	uint32_t buckets = table->hash[0], first = table->hash[1], index;
	const uint32_t *bucket, *chain;

	if (!buckets)
		return NULL;
	bucket = table->hash + 4 + table->hash[2] * (sizeof(ElfW(Addr)) / sizeof(uint32_t)); /* behind the filter */
	chain = bucket + buckets;
	index = bucket[hash % buckets];
	if (index < first)
		return NULL;
	for (;; index++) {
		uint32_t link = chain[index - first];

		if ((link | 1) == (hash | 1) && is_wanted(table, index, name))
			return &table->symbols[index];
		if (link & 1)
			return NULL;
	}
}

/* As look_up(), in an object without DT_GNU_HASH: the symbols are compared one after the other. */
static const ElfW(Sym) * look_through(const struct table *table, const char *name)
{
	for (uint32_t i = 1; table->buckets && i < table->buckets[1]; i++)
		if (is_wanted(table, i, name))
			return &table->symbols[i];
	return NULL;
}

/* The default version of a function that the object defines: its address, 0 = none, and its size. */
static uint64_t defined(const struct link_map *map, const char *name, uint32_t hash, uint64_t *size)
{
	struct table table = table_of(map);
	const ElfW(Sym) * symbol;

	if (!table.symbols || !table.strings)
		return 0;
	symbol = table.hash ? look_up(&table, name, hash) : look_through(&table, name);
	if (!symbol)
		return 0;
	*size = symbol->st_size;
	return map->l_addr + symbol->st_value;
}

bool agent_is_last(void)
{
	const struct link_map *map = agent.loader ? agent.loader->r_map : NULL;

	while (map && map->l_ld != own_dynamic)
		map = map->l_next;
	return map && !map->l_next;
}

/* Where no loader lists objects, the tool has told what there is behind the agent's functions. */
static void *told(const char *name)
{
	for (uint32_t i = 0; i < agent.placed->function_count && i < CALLTAP_START_FUNCTIONS; i++)
		if (same_text(agent.placed->functions[i].name, name))
			return (void *)agent.placed->functions[i].behind;
	return NULL;
}

/* The first object behind the agent that defines the function or word, whose address becomes found; NULL: none. */
static const struct link_map *next_map(const char *name, uint64_t *found)
{
	const struct link_map *map = agent.loader ? agent.loader->r_map : NULL;
	uint32_t hash = hash_of(name);
	uint64_t size;
	bool behind = agent.late; /* late: the loader has taken the first function there is */

	*found = 0;
	for (; map; map = map->l_next) {
		if (behind && map->l_ld != own_dynamic && (*found = defined(map, name, hash, &size)))
			return map;
		behind |= map->l_ld == own_dynamic;
	}
	return NULL;
}

void *agent_next(const char *name)
{
	uint64_t found;

	if (agent.placed)
		return told(name);
	next_map(name, &found);
	return (void *)found;
}

/*
 * From the object's beginning to its dynamic section, which lies behind the code.  No system call, for there may be
 * none, and not by dl_iterate_phdr(), for a thread may be held with its lock.
 */
void *agent_next_object(const char *name, uint64_t *lo, uint64_t *hi)
{
	uint64_t found = 0;
	const struct link_map *map = agent.placed ? NULL : next_map(name, &found);

	*lo = map ? map->l_addr : 0;
	*hi = map ? (uint64_t)map->l_ld : 0;
	return (void *)found;
}

bool agent_is_in(uint64_t address, const struct link_map *map, const char *name)
{
	uint64_t size = 0, begin = defined(map, name, hash_of(name), &size);

	return begin && address - begin < size;
}
