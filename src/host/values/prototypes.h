/*
 * What functions of the C library take and return, for programs and libraries without debug information of their own:
 * from a file beside the agent whose DWARF describes them (scripts/prototypes.py).
 *
 * Callers: typed.c, under the session's lock.  Context: host.
 */
#ifndef HOST_VALUES_PROTOTYPES_H
#define HOST_VALUES_PROTOTYPES_H

#include <stdbool.h>
#include <stdint.h>

struct image;
struct object_site;
struct prototypes;
struct type_function;

/* agent_path: of the agent that the file lies beside.  NULL: there is none, or it cannot be read. */
struct prototypes *prototypes_open(const char *agent_path);
void prototypes_close(struct prototypes *prototypes); /* NULL: nothing is done */
/*
 * The place of the function that the site is in, or of the one that it calls; -1: it is no function of the C library's,
 * or none that headers declare under this name.  prototypes may be NULL.
 */
int64_t prototypes_find(struct prototypes *prototypes, const struct image *image, const struct object_site *source);
/* The same of a function within the C library that has another name there, for its own use. */
int64_t prototypes_find_own(struct prototypes *prototypes, const struct image *image, const struct object_site *source);
const struct types *prototypes_types(const struct prototypes *prototypes);
uint32_t prototypes_count(const struct prototypes *prototypes);
/* For type_function_clear(), whatever is returned. */
int prototypes_read(struct type_function *out, const struct prototypes *prototypes, uint32_t place)
	__attribute__((warn_unused_result));

#endif
