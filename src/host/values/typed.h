/*
 * What the types of a function tell (host/types), as what is to be fetched (spec.h).
 *
 * Objects' types are opened when the first function of an object is asked for, and stay open.
 *
 * Callers: values.c, under the session's lock; tests.  Context: host.
 */
#ifndef HOST_VALUES_TYPED_H
#define HOST_VALUES_TYPED_H

#include <stdbool.h>
#include <stdint.h>

#include "spec.h"

struct image;
struct object_site;
struct type_function;
struct typed;

#define TYPED_NONE  0	       /* the function has no values */
#define TYPED_UNSET UINT16_MAX /* nobody has asked */

enum typed_of { TYPED_CALL, TYPED_RETURN, TYPED_CONDITION, TYPED_OF };

/* agent_path: of the agent, beside which the C library's prototypes lie. */
int typed_create(struct typed **out, const char *agent_path) __attribute__((warn_unused_result));
void typed_destroy(struct typed *typed); /* NULL: nothing is done */
/*
 * The number that the caller keeps for a function's call, return, or call under a condition, TYPED_UNSET at first;
 * NULL: it has no types. Valid until the next call.
 */
uint16_t *typed_number(struct typed *typed, const struct image *image, const struct object_site *source,
		       enum typed_of of);
/* The name of a file that has types of the image's functions, and is not read (-gsplit-dwarf); NULL: there is none. */
const char *typed_split(struct typed *typed, const struct image *image);
/* What the types of a function that has a number tell; for spec_clear(), whatever is returned. */
int typed_spec(struct spec *out, struct typed *typed, const struct image *image, const struct object_site *source,
	       bool result) __attribute__((warn_unused_result));
/* The same of types that were read; registers: of integer arguments. */
int typed_translate(struct spec *out, const struct type_function *function, bool result, uint32_t registers)
	__attribute__((warn_unused_result));

#endif
