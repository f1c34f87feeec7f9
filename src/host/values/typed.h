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

#include <host/types/types.h>

#include "spec.h"

struct image;
struct object_site;
struct typed;

#define TYPED_WHY   256u
#define TYPED_NONE  0	       /* the function has no values */
#define TYPED_UNSET UINT16_MAX /* nobody has asked */

enum typed_of {
	TYPED_CALL,
	TYPED_RETURN,
	TYPED_CONDITION,
	TYPED_CONDITION_RETURN,
	TYPED_REGISTERS,	/* registers.c: arguments alone, */
	TYPED_REGISTERS_CALLER, /* or behind the caller */
	TYPED_REGISTERS_RETURN,
	TYPED_OF
};

/* agent_path: of the agent, beside which the C library's prototypes lie. */
int typed_create(struct typed **out, const char *agent_path, uint32_t registers) __attribute__((warn_unused_result));
void typed_destroy(struct typed *typed); /* NULL: nothing is done */
/*
 * The number that the caller keeps for a function's call, return, or one of these under a condition, TYPED_UNSET at
 * first; NULL: it has no types. Valid until the next call.
 */
uint16_t *typed_number(struct typed *typed, const struct image *image, const struct object_site *source,
		       enum typed_of of);
/* The name of a file that has types of the image's functions, and is not read (-gsplit-dwarf); NULL: there is none. */
const char *typed_split(struct typed *typed, const struct image *image);
/* What types tell of a function. */
struct typed_function {
	struct type_function function;
	const struct types *types;
	uint32_t place; /* among these */
	const char *symbol;
	uint32_t registers; /* of integer arguments */
};
/* Read it.  -ENOENT: it has no types.  For typed_function_clear(), whatever is returned. */
int typed_read(struct typed_function *out, struct typed *typed, const struct image *image,
	       const struct object_site *source) __attribute__((warn_unused_result));
void typed_function_clear(struct typed_function *function);

/* What is fetched of its calls, or of its returns; for spec_clear(), whatever is returned. */
int typed_translate(struct spec *out, const struct typed_function *of, bool result) __attribute__((warn_unused_result));

/*
 * Put what the kernel's tracers would show behind the fields of a spec: each argument, up to the sixth, or the result,
 * as one number, with its name.  Values that are no number are as in typed_translate(), but where memory would be read
 * for them.  For spec_clear(), whatever is returned.
 */
int typed_registers(struct spec *out, const struct typed_function *of, bool result) __attribute__((warn_unused_result));

/* What for values are fetched. */
enum typed_for {
	TYPED_FOR_SHOW,	   /* with members of what they lead to */
	TYPED_FOR_COUNT,   /* each is one number, or one text */
	TYPED_FOR_COMPARE, /* so it is, or a field of bits */
};
/*
 * The fields of `asked`, each PATH followed by the types.  -EINVAL: a path leads nowhere, why says it.  For
 * spec_clear(), whatever is returned.
 */
int typed_follow(struct spec *out, const struct typed_function *of, bool result, const struct spec *asked,
		 enum typed_for use, char why[TYPED_WHY]) __attribute__((warn_unused_result));

#endif
