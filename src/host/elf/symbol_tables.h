/*
 * The symbol tables that an object's names come from.
 *
 * Caller: symbols.c.  Context: host; all tables are untrusted.
 */
#ifndef HOST_ELF_SYMBOL_TABLES_H
#define HOST_ELF_SYMBOL_TABLES_H

#include "object_impl.h"

/* A symbol table and its strings, both inside an Elf's memory. */
struct symbol_table {
	const Elf64_Sym *symbols;
	size_t count;
	const char *strings; /* ends in a NUL */
	size_t strings_size;
	const uint16_t *versions; /* `count` of them; NULL = the table has none */
};
#define SYMBOL_TABLES_MAX 2
/*
 * The tables with the most names, best first; they live as long as the object, which notes where they are from.
 * Returns how many.
 */
size_t object_find_tables(struct object *object, struct symbol_table tables[SYMBOL_TABLES_MAX]);

/*
 * The file within the section .gnu_debugdata, unpacked; for free().  NULL: it is damaged, or larger than anybody's.
 */
void *mini_debug_unpack(size_t *size, const void *packed, size_t packed_size);

#endif
