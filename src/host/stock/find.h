/*
 * The inside of stock_find(), shared by its files only.
 *
 * In order: where functions and their parts start (starts.c); one sweep over all code for what leads where (sweep.c,
 * landings.c), written down in bit maps (marks.c); which functions touch their return address, or jump to such a one
 * (closure.c); a head for each function, or why there is none (head.c, find.c).  Context: host.
 */
#ifndef HOST_STOCK_FIND_H
#define HOST_STOCK_FIND_H

#include "find_cpu.h"
#include "stock.h"

/* One bit for each byte of code. */
struct marks {
	const struct stock_image *image;
	uint8_t **maps; /* by section; NULL for those without code */
};
int marks_create(struct marks *marks, const struct stock_image *image) __attribute__((warn_unused_result));
void marks_destroy(struct marks *marks);
void marks_set(struct marks *marks, uint64_t address); /* nothing, where there is no code */
bool marks_has(const struct marks *marks, uint64_t address);

/* The section with bytes around an address, and its index; NULL = none. */
const struct stock_section *find_section(const struct stock_image *image, uint64_t address, size_t *index);
/* Bytes at address, and how many there are up to the section's end; NULL = none. */
const uint8_t *find_bytes(const struct stock_image *image, uint64_t address, size_t *size);
/* The same, NULL also if it is no code. */
const uint8_t *find_code(const struct stock_image *image, uint64_t address, size_t *size);

/* How a function or part begins, by its rows. */
enum start_kind {
	START_FUNCTION,
	START_FRAGMENT,	 /* not as functions do */
	START_NO_CALLER, /* a signal trampoline, or the return address is undefined */
};

/* A function, or a part of one. */
struct start {
	uint64_t address, end;
	struct cfi_entry entry; /* where it has one */
	bool has_entry;
	bool inner;	 /* a symbol within another start's entry */
	uint32_t host;	 /* index of that start; of itself, where it is no inner one */
	uint8_t kind;	 /* enum start_kind */
	uint8_t jumpers; /* how many other starts jump to its first byte: 0, 1, or 2 for more */
	uint32_t jumper; /* index of the first of these */
	bool branched;	 /* one of these jumps is conditional */
	bool named;	 /* it has a symbol */
	bool part;	 /* which says that it is a part of a function */
	bool leave;	 /* by its symbol's name */
	bool led;	 /* by its symbol: see struct stock_symbol */
	bool keeps;	 /* does more with its return address than return to it */
};

/* A jump from one start to another, by index. */
struct edge {
	uint32_t from, to;
};

struct finding {
	const struct stock_image *image;
	const struct find_cpu *cpu;
	struct start *starts; /* sorted by address */
	size_t start_count;
	bool has_entries;      /* most starts have entries: one without was written by hand */
	struct marks targets;  /* something leads there */
	struct marks used;     /* ... by other means than a jump of a function: a call, an address, a table */
	struct marks entered;  /* a call leads there, a symbol or an address */
	struct marks unfit;    /* a jump leads there, but not as one leads to a function */
	struct marks landings; /* an exception leads there */
	struct edge *edges;
	size_t edge_count, edge_capacity;
	uint32_t budget; /* table rows still to be read: damaged files can make the same ones count again and again */
};

int find_starts(struct finding *finding) __attribute__((warn_unused_result));
/* Index of the start around address, no inner one; SIZE_MAX = none. */
size_t find_start_around(const struct finding *finding, uint64_t address);
/* True if the row is that of a function's entry. */
bool find_is_entry_row(const struct find_cpu *cpu, const struct cfi_row *row);

int find_sweep(struct finding *finding) __attribute__((warn_unused_result));
/* Mark what the entry's exception table leads to. */
void find_landings(struct finding *finding, const struct cfi_entry *entry);
/*
 * Mark what a table of jumps leads to, as long as it leads into the start: 32-bit distances from itself, or addresses
 * in an object of a fixed one.
 */
void find_jump_table(struct finding *finding, const struct start *start, uint64_t table);
/* Mark what the words of data lead to, in an object of a fixed address. */
void find_words(struct finding *finding);

int find_closure(struct finding *finding) __attribute__((warn_unused_result));

/* Fill the function's head, or its verdict. */
void find_head(const struct finding *finding, const struct start *start, struct stock_function *function);

#endif
