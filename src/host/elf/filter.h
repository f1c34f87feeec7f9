/*
 * Function filters: text to patterns, patterns to decisions.
 *
 * Context: host.  Grammar of one filter text:
 *
 *     filter   = [object ":"] pattern | "@" file
 *     pattern  = glob ("*", "?", "[...]") | "/" regex "/"   (POSIX extended, searched)
 *     object   = glob on the object's file name ("libfoo.so.1"), "a.out" style
 *                for the executable too; as the loader calls it, as it is behind
 *                links ("libfoo.so.1.2"), or its DT_SONAME
 *
 * "@file" holds one filter per line; blank lines and lines from "#" are
 * skipped.  "::" is part of a C++ name, never the object's colon, nor is a
 * colon within "[...]".  A pattern is matched against the mangled name, the
 * demangled name, and the demangled name without its parameter list (and
 * without a leading return type).  "\" takes a glob's next character literally.
 * An object glob with a "/" in it is matched against the whole path.  A name without a wildcard stands for a
 * function's other names, too (object_symbol_other()).
 */
#ifndef HOST_ELF_FILTER_H
#define HOST_ELF_FILTER_H

#include <stdbool.h>
#include <stddef.h>

#include <calltap/diag.h>

#include "object.h"

enum filter_kind {
	FILTER_TRACE,	/* -l: trace only these */
	FILTER_NOTRACE, /* -n: do not trace these */
	FILTER_GRAPH,	/* -g: trace these and what they call */
	FILTER_NOGRAPH, /* --no-graph: trace neither these nor what they call */
	FILTER_KINDS
};

struct filter_set;

int filter_set_create(struct filter_set **out) __attribute__((warn_unused_result));
void filter_set_destroy(struct filter_set *set);
/* Add one filter text; -EINVAL with input and caret in diag. */
int filter_set_add(struct filter_set *set, enum filter_kind kind, const char *text, struct calltap_diag *diag)
	__attribute__((warn_unused_result));
/* True if there is a filter with an object glob that asks for functions (FILTER_TRACE, FILTER_GRAPH). */
bool filter_set_chooses_objects(const struct filter_set *set);
/*
 * True if a filter with an object glob asks for functions of the object (FILTER_TRACE, FILTER_GRAPH); the same of an
 * open file that was not read yet.  fd -1: one that cannot be opened, which is known by its path alone.
 */
bool filter_set_names_object(const struct filter_set *set, const struct object *object);
bool filter_set_names_file(const struct filter_set *set, const char *path, int fd);
bool filter_set_has(const struct filter_set *set, enum filter_kind kind);

struct filter_decision {
	bool trace;  /* patch the function (a -g root, a no-graph function or a wanted one) */
	bool root;   /* -g names the function */
	bool notree; /* --no-graph names the function */
};
/*
 * Decide on one function of an object; counts matches per filter.
 * Without -l everything is wanted; -n wins over -l and -g, --no-graph over all
 * of them, as set_graph_notrace does in the kernel.  With -g, functions
 * that -l (if given) wants are traced inside the trees only.
 * On functions that no compiler has prepared of a library that is not the program's own, only filters with an object
 * glob decide.
 */
void filter_set_decide(struct filter_set *set, struct object *object, const struct object_site *site,
		       struct filter_decision *decision);
/*
 * Decide on a function of which only the names are known, as in a trace, by all filters.  NULL stands for a name, or an
 * object, that is not known; nothing but "*" matches it.
 */
struct filter_name {
	const char *object;		   /* the file's path */
	const char *symbol, *name, *brief; /* as in the symbol table; demangled; without parameters */
};
void filter_set_decide_name(struct filter_set *set, const struct filter_name *name, struct filter_decision *decision);
/* True if a filter of this kind matches the name of this object's symbol.  Counts matches. */
bool filter_set_match(struct filter_set *set, enum filter_kind kind, struct object *object,
		      const struct object_symbol *symbol);
/* True if a filter of this kind chooses the function; counts no matches. */
bool filter_set_picks(const struct filter_set *set, enum filter_kind kind, struct object *object,
		      const struct object_site *site);
/* True if a filter of any kind names the function, whatever its object.  Counts matches. */
bool filter_set_names_site(struct filter_set *set, struct object *object, const struct object_site *site);

/* The text of the first filter that has matched nothing so far, and does not wait; NULL = all have. */
const char *filter_set_unmatched(const struct filter_set *set);
/* A hash of 64 bits of all filters in their order: sets that have another one are not the same. */
uint64_t filter_set_key(const struct filter_set *set);
/* If both are the same filters in the same order, `to` gets what `from` has matched; false: they are not. */
bool filter_set_take_matches(struct filter_set *to, const struct filter_set *from);
/* The i-th filter waits: what it names may be loaded later. */
void filter_set_let_wait(struct filter_set *set, size_t i);
bool filter_set_waits(const struct filter_set *set, size_t i);
/* True if the i-th filter is about functions of any object, or of this one; object NULL: it is known by its path alone.
 */
bool filter_set_item_names(const struct filter_set *set, size_t i, const struct object *object, const char *path);
/* The i-th filter's text and how often it has matched; false past the end. */
bool filter_set_item(const struct filter_set *set, size_t i, const char **text, enum filter_kind *kind,
		     unsigned long *matches);

/*
 * Names near to a filter that matched nothing, best first, at most max, from
 * the sites of count objects; returns how many.  For the error message.  The
 * names are short ones (object_site_short_name) and live as long as their object.
 */
size_t filter_near_misses(const char *text, struct object *const *objects, size_t count, const char **names,
			  size_t max);

#endif
