/*
 * An ELF file as the tracer sees it: its functions and its sites.
 *
 * Context: host.  The file is untrusted input.  It is opened once, and all processes that map it share the object.
 */
#ifndef HOST_ELF_OBJECT_H
#define HOST_ELF_OBJECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <calltap/diag.h>
#include "host/stock/stock.h"

/* The kind of instrumentation that made a site. */
enum site_kind {
	SITE_PATCHABLE,	 /* -fpatchable-function-entry: __patchable_function_entries */
	SITE_FENTRY,	 /* -pg -mfentry: a call of __fentry__ */
	SITE_NOP_MCOUNT, /* -mnop-mcount: a 5-byte no-op in the call's place */
	SITE_STOCK,	 /* none: the function's first instructions are moved for a jump (host/stock) */
	SITE_LIBCALL, /* an entry of a PLT, by which the object calls another's function; its jump is moved likewise */
};

/* Why a site or function cannot be traced; SITE_OK = it can. */
enum site_verdict {
	SITE_OK = 0,
	SITE_TOO_SHORT,	      /* fewer bytes than a jump, and no room before the entry */
	SITE_RETURNS_TWICE,   /* setjmp and kin, vfork, context switches */
	SITE_LOOKS_AT_CALLER, /* _Unwind_*, dlopen and dlsym and kin */
	SITE_BAD_BYTES,	      /* the bytes are no nops and no call of __fentry__ */
	SITE_NO_SITE,	      /* a function without any site */
	SITE_OWN,	      /* the tracer's own */
	SITE_NO_ENTRY,	      /* stripped: neither symbol nor unwind table says where the function begins */
	SITE_NOT_AT_ENTRY,    /* the stack has moved before the site: gcc's nested functions with -mfentry */
	SITE_NOT_ALIGNED,     /* enough bytes, but not where a jump may lie */
	SITE_VECTORS,	      /* calls of the function use registers that a system call of a recorder would lose */
	SITE_TOO_FAR,	      /* the object is so large that no jump reaches from the site to its stub */
	SITE_NO_ROWS,	      /* stock: written by hand, and no unwind table tells how it begins */
	SITE_LED_INTO,	      /* stock: a jump leads into the bytes that would be replaced */
	SITE_UNKNOWN_CODE,    /* stock: an instruction of those is unknown */
	SITE_CANNOT_MOVE,     /* stock: an instruction of those cannot be moved */
	SITE_RELOCATED,	      /* stock: the loader changes those */
	SITE_OWN_RULES,	      /* calls of the function use registers that stubs change */
	SITE_COPIES_STACKS,   /* its library copies parts of stacks away and back (calltap/abi/movers.h) */
	SITE_RUNTIME,	      /* its language's runtime looks for return addresses, or moves them */
	SITE_VERDICTS
};
const char *site_verdict_text(enum site_verdict verdict);
const char *site_kind_text(enum site_kind kind);

struct object_site {
	uint64_t address;  /* ELF address of the bytes to replace (after a landing pad) */
	uint64_t function; /* ELF address of the function's symbol; the site's address when it has none */
	uint32_t size;	   /* bytes of the function, 0 = not known */
	/* `named` and `symbol` share a cache line with the addresses: filters read these of each site at each change.
	 */
	uint32_t named; /* 1 + the place of its symbol in the object's list; 0 = it has none */
	/* Name in the symbol table, or of what is called; without version; "" when there is none. */
	const char *symbol;
	uint8_t kind;	 /* enum site_kind */
	uint8_t verdict; /* enum site_verdict */
	uint8_t length;	 /* of the jump; x86-64: 5, or 2 with a trampoline (abi/control.h); RISC-V: 8, or 4 to an island
			  */
	uint8_t span;	 /* bytes of the instructions that the jump replaces, length or more */
	uint8_t body_off;  /* from address to where the body goes on */
	uint8_t host_span; /* span of a head that has an island behind its jump; 0: it cannot */
	uint8_t code_off;  /* from address to behind all that was put there for tracers: body_off or more */
	int8_t tramp_off;  /* with a short jump: from address to the long one's place; else 0 */
	uint8_t old[16];   /* bytes at address in the file, as the process will have them */
	uint8_t tramp_old[8];
	struct stock_need need; /* of its block, if it has one */
	bool calls_libc;	/* SITE_LIBCALL: what it calls is the C library's, by its version */
};
/* True if the site is the start of a block, to which the bytes at its address are led. */
static inline bool site_has_block(const struct object_site *site)
{
	return site->kind == SITE_STOCK || site->kind == SITE_LIBCALL;
}

/* Where an object's names are from. */
enum object_names {
	OBJECT_NAMES_OWN,	 /* its symbol table */
	OBJECT_NAMES_DEBUG_FILE, /* its debug file's */
	OBJECT_NAMES_PACKED,	 /* .gnu_debugdata, and the dynamic symbol table */
	OBJECT_NAMES_FETCHED,	 /* a debug file in debuginfod's cache */
	OBJECT_NAMES_DYNAMIC,	 /* the dynamic symbol table alone, or nothing */
};

struct object;

/*
 * Read fd (kept by the caller; may be closed afterwards).  path is for
 * messages.  An ELF file without sites is no error.
 * -ENOEXEC: not an ELF file of a CPU and class that can be traced.
 */
int object_open(struct object **out, int fd, const char *path, struct calltap_diag *diag)
	__attribute__((warn_unused_result));
void object_close(struct object *object);
/* True if fd is a position-independent file without any sign of instrumentation: no need to open it. */
bool object_is_plain_library(int fd);
/* An ELF file that is not opened as an object is recognised by its addresses and its build id. */
struct object_identity {
	uint64_t lo, hi; /* ELF addresses */
	uint8_t build_id[32];
	uint32_t build_id_size;
};

/* False: the file has neither. */
bool object_identify(struct object_identity *out, int fd);
/* object_is_program(), by a look at the file's headers. */
bool object_is_program_file(int fd);

const char *object_path(const struct object *object);
struct aliases;
const struct aliases *object_aliases(const struct object *object);
/* The program is called so, too, by those who name it in filters. */
void object_be_called(struct object *object, const char *name);
enum object_names object_names_from(const struct object *object);
uint16_t object_machine(const struct object *object);	/* e_machine */
bool object_is_static(const struct object *object);	/* an executable without PT_INTERP */
bool object_is_executable(const struct object *object); /* may be run: ET_EXEC, or ET_DYN with PT_INTERP */
bool object_is_program(const struct object *object);	/* executable, and no library that can be run (libc) */
bool object_is_own(const struct object *object); /* a program, or a library of a program's own (stock/choice.h) */
/* The user has named this file itself: filters without an object are for its functions. */
void object_be_own(struct object *object);
const char *object_interpreter(const struct object *object); /* PT_INTERP, NULL = none */
size_t object_build_id(const struct object *object, uint8_t id[32]);
/* Extent of the loaded segments, ELF addresses: [*lo, *hi). */
void object_extent(const struct object *object, uint64_t *lo, uint64_t *hi);
uint64_t object_reach(const struct object *object); /* of the CPU's jumps, bytes to either side */
/*
 * The range [*lo, *hi) that stubs must be near to: from the object's start, which they lie below, to the end of the
 * page of the last site that can be traced.
 */
void object_near(const struct object *object, uint64_t *lo, uint64_t *hi);
uint64_t object_dynamic(const struct object *object); /* ELF address of PT_DYNAMIC, 0 = none */

/*
 * Add a site of the kind SITE_STOCK, or the reason against it, for each function that no compiler prepared.  To be
 * called once, before anything keeps a site.  A CPU or object without stock functions is no error.
 */
int object_find_stock(struct object *object) __attribute__((warn_unused_result));
/*
 * Add a site of the kind SITE_LIBCALL, or the reason against it, for each entry of the object's PLTs by which it calls
 * another object's function.  To be called once, before anything keeps a site.  A CPU or object without stock functions
 * is no error.
 */
int object_find_libcalls(struct object *object) __attribute__((warn_unused_result));
/* What the analysis of stock functions read of the object; lives as long as it.  NULL: there was none. */
struct stock_image;
const struct stock_image *object_stock(const struct object *object);
/* True if the address is the start of a function's part, found by object_find_stock(), and of no function. */
bool object_is_fragment(const struct object *object, uint64_t address);

/* Sites sorted by address, with every verdict; the array lives as long as the object. */
size_t object_sites(const struct object *object, const struct object_site **sites);
/* The site at that place of the list cannot be traced, for something that another object says. */
void object_refuse_site(struct object *object, size_t place, enum site_verdict verdict);
/* True if the function of this site of the object's list is proved to be a leaf (CALLTAP_SITE_LEAF). */
bool object_site_is_leaf(const struct object *object, const struct object_site *site);
/* How many sites have the verdict SITE_OK. */
size_t object_traceable(const struct object *object);
/*
 * The site's demangled name, equal to symbol for C; without a symbol "libx.so.1+0x1234", the file's name and the
 * function's address in it; never NULL.  Made when first asked for and kept as long as the object, so
 * not for two threads at once.
 */
const char *object_site_name(struct object *object, const struct object_site *site);
/* object_site_name() without parameters and return type: "ns::Class::method". */
const char *object_site_short_name(struct object *object, const struct object_site *site);

/* Function symbols sorted by address (FUNC with a size, one per address). */
struct object_symbol {
	uint64_t address;
	uint32_t size;
	uint8_t rank;	 /* of an address' names the one with the lowest rank is kept */
	uint8_t verdict; /* by its name and its aliases' names: SITE_OK or why never to trace it */
	uint32_t others; /* for object_symbol_other() */
	const char *symbol;
};
size_t object_symbols(const struct object *object, const struct object_symbol **symbols);
/* The symbol's demangled names, as object_site_name() and object_site_short_name(). */
const char *object_symbol_name(struct object *object, const struct object_symbol *symbol);
const char *object_symbol_short_name(struct object *object, const struct object_symbol *symbol);
/* A symbol's demangled name, for free(); NULL = it is not mangled. */
char *object_demangle(const char *symbol);
/*
 * A further name of the function, open64 of open, from i = 0 on; NULL = there are no more.  Names of old versions, and
 * of functions that are chosen at run time, are none.
 */
const char *object_symbol_other(const struct object *object, const struct object_symbol *symbol, size_t i);
/* The symbol of the site's function; NULL = the object has none, as it may be another's. */
const struct object_symbol *object_site_symbol(const struct object *object, const struct object_site *site);
/* The function at exactly this address; the function around it.  NULL = none. */
const struct object_symbol *object_symbol_at(const struct object *object, uint64_t address);
const struct object_symbol *object_symbol_around(const struct object *object, uint64_t address);

/* Source lines from DWARF (the file's own or its separate debug file). */
struct object_lines;
/* fd: the open file, which stays its caller's. path: its name, now or once, for a debug file that lies beside it. */
int object_lines_open(struct object_lines **out, const char *path, int fd) __attribute__((warn_unused_result));
void object_lines_close(struct object_lines *lines);
/*
 * Source file and line of a function at an ELF address, whose own code begins
 * at code, the same or behind a site; false when not known.  *file lives as
 * long as lines.
 */
bool object_lines_find(struct object_lines *lines, uint64_t address, uint64_t code, const char **file, uint32_t *line);

#endif
