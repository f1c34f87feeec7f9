/*
 * The inside of struct object, shared by the files of this folder only.
 *
 * object_open fills it in this order: header, segments and code (object_open.c),
 * symbols (symbols.c), function starts (starts.c), relocated tables and
 * pointers to functions that matter (relocs.c), functions that are entered
 * without a call (entered.c), sites (sites*.c), jumps to dlsym and kin
 * (tails.c), verdicts (sites.c).  Whatever is a pointer into the
 * file's data stays valid as long as `elf` and `debug`.
 */
#ifndef HOST_ELF_OBJECT_IMPL_H
#define HOST_ELF_OBJECT_IMPL_H

#include <gelf.h>
#include <libelf.h>

#include <calltap/abi/control.h>

#include "aliases.h"
#include "cpu.h"
#include "fronts.h"
#include "object.h"

/* A growing list of addresses. */
struct address_list {
	uint64_t *items;
	size_t count, capacity;
};
int address_list_add(struct address_list *list, uint64_t address) __attribute__((warn_unused_result));
void address_list_sort(struct address_list *list); /* drops duplicates, too */
/* In a sorted list: index of the first item above address, count = none. */
size_t address_list_above(const struct address_list *list, uint64_t address);
bool address_list_has(const struct address_list *list, uint64_t address); /* in a sorted list */

/* qsort() for items that linkers mostly write in order: this looks first whether they are. */
void object_sort(void *items, size_t count, size_t size, int (*compare)(const void *, const void *));

/* A section with code. */
struct object_code {
	uint64_t address, size;
	const uint8_t *bytes;
	bool plt;
};

/* A function that must be recognised, whichever object it is in: where it is in this one, and pointers to it. */
struct object_reach {
	struct address_list targets; /* the function itself */
	struct address_list slots;   /* words that the loader fills in with its address */
};

/* Hints on how a file without sites was built (advice.c). */
#define OBJECT_HINT_MCOUNT	1u /* calls mcount: -pg without -mfentry */
#define OBJECT_HINT_CYG_PROFILE 2u /* -finstrument-functions */
#define OBJECT_HINT_XRAY	4u /* -fxray-instrument */

struct object_view;

/* What its symbols tell of a static program (fronts.h). */
struct front_notes {
	bool named;			 /* there is a full symbol table */
	bool unwinds, libgcc;		 /* the program unwinds stacks; by libgcc */
	bool glibc, musl;		 /* its libc */
	bool synccall, list_lock;	 /* musl: has all threads do something; has a lock for its list of threads */
	uint64_t addresses[FRONT_NAMES]; /* of the functions that the agent stands in front of, 0 = none */
};

struct object {
	char *path;
	struct aliases aliases;
	Elf *elf;
	void *file; /* its bytes, if they were read at once */
	size_t file_size;
	Elf *debug;	   /* debug file that has the symbols, or NULL */
	void *debug_bytes; /* of that file, if it was unpacked from .gnu_debugdata */
	uint8_t names;	   /* enum object_names */
	const struct elf_cpu *cpu;

	uint16_t type; /* ET_* */
	bool pie;      /* marked DF_1_PIE */
	bool named;    /* has a DT_SONAME: a library, even one that can be run, such as libc */
	bool own;      /* object_be_own() */
	char *interpreter;
	uint8_t build_id[32];
	size_t build_id_size;
	uint64_t lo, hi, dynamic;
	uint64_t entry; /* where the program begins, without a return address; 0 = nowhere */

	struct object_code *codes; /* sorted by address */
	size_t code_count;

	struct object_symbol *symbols; /* sorted by address */
	size_t symbol_count;
	const char **others; /* further names of functions, those of each function together with NULL behind */
	size_t other_count;
	char **symbol_names; /* demangled names, as far as asked for, by index in symbols */
	char **symbol_short_names;
	char **owned; /* names that are no substring of the file's */
	size_t owned_count;
	unsigned int hints;

	struct address_list starts; /* starts of functions by the unwind table */
	struct object_reach fentry; /* the profiling hook */
	struct object_reach
		finders;   /* functions that need their return address, and those that jump to one (tails.c) */
	bool has_switches; /* the object may have code that changes stacks */
	struct address_list entered;	/* functions that are entered without a call */
	struct address_list patchable;	/* __patchable_function_entries */
	struct address_list mcount_loc; /* __mcount_loc */

	struct object_site *sites;
	size_t site_count, site_capacity;
	size_t traceable;
	char **site_names; /* names of sites whose function has no symbol of the object's, by index in sites */
	char **site_short_names;

	struct front_notes fronts;     /* of a static program */
	struct object_view *view;      /* what the analysis of stock functions reads; NULL = not for this CPU */
	struct address_list fragments; /* starts of functions' parts */
};

/* Bytes of code at address; *size is how many there are up to the section's end. NULL and 0 = no code there. */
const uint8_t *object_code_at(const struct object *object, uint64_t address, size_t *size);

/* Each function fills its part of object; 0 or -ENOMEM.  Damaged parts of the file are left out. */
int object_read_symbols(struct object *object) __attribute__((warn_unused_result));
void object_free_symbols(struct object *object);
/* Index of the first symbol above address, symbol_count = none. */
size_t object_symbol_above(const struct object *object, uint64_t address);
int object_read_starts(struct object *object) __attribute__((warn_unused_result));
int object_read_relocs(struct object *object) __attribute__((warn_unused_result));

/* A relocation that the loader applies, and its symbol. */
struct object_reloc {
	const Elf64_Rela *rela;
	uint32_t type;
	const char *name; /* NULL: it has no symbol */
	GElf_Sym symbol;  /* only with a name */
};
typedef int object_reloc_visitor(struct object *object, const struct object_reloc *reloc, void *ctx);
/* Show all of them to `visit`, until it returns an error. */
int object_visit_relocs(struct object *object, object_reloc_visitor *visit, void *ctx)
	__attribute__((warn_unused_result));
int object_find_tails(struct object *object) __attribute__((warn_unused_result));
int object_find_entered(struct object *object) __attribute__((warn_unused_result));
int object_find_sites(struct object *object) __attribute__((warn_unused_result));

/* True if a function starts at address, by its symbol or the unwind table. */
bool object_starts_function(const struct object *object, uint64_t address);
/* The next function's start after address, UINT64_MAX = none. */
uint64_t object_next_start(const struct object *object, uint64_t address);
/* The last function's start that is not above address, 0 = none. */
uint64_t object_last_start(const struct object *object, uint64_t address);

/* True if target is the function itself, or a PLT entry that leads to it. */
bool object_reaches(const struct object *object, uint64_t target, const struct object_reach *reach);

/* SITE_OK, or why a function of this name must never be traced. */
enum site_verdict site_verdict_of_name(const char *name);
/* SITE_OK, or why calls of another object's function of this name must never be traced. */
enum site_verdict site_verdict_of_call(const char *name);
/* True if a function of this name does more with its return address than return to it. */
bool site_name_keeps_return(const char *name);

/* What the analysis of stock functions reads of the object (stock_view.c); 0 or -ENOMEM. */
int object_view_make(struct object *object) __attribute__((warn_unused_result));
const struct stock_image *object_view_image(const struct object_view *view);
void object_view_free(struct object_view *view);

/* True if a jump from address reaches stubs below the object, right below it or not. */
bool object_is_near(const struct object *object, uint64_t address);
int object_add_site(struct object *object, const struct object_site *site) __attribute__((warn_unused_result));
/*
 * Sites were added behind the first `before`, whose names may have been asked for: sort and count them all.  Returns
 * the error that ended the adding, if any, or 0 or -ENOMEM.
 */
int object_renew_sites(struct object *object, size_t before, int error) __attribute__((warn_unused_result));
int object_find_patchable(struct object *object) __attribute__((warn_unused_result));
int object_find_fentry(struct object *object) __attribute__((warn_unused_result));

#endif
