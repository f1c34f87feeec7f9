/*
 * The values that a condition names: finding them among those that types or --args tell, and each as a field of its
 * own, by which calls are compared.
 *
 * Callers: condition.c.  Context: host.  Pure.
 */
#ifndef HOST_VALUES_NAMED_H
#define HOST_VALUES_NAMED_H

#include <stddef.h>

#include "spec.h"

/* NULL: there is none of that name.  names: NULL = there are none at all. */
const struct spec_field *named_find(const struct spec *names, const char *name, size_t length);
/* The same; of what may have a value, as std::optional, that value. */
const struct spec_field *named_find_value(const struct spec *names, const char name[SPEC_NAME]);
/* What types tell, an argument or what its address leads to, as a field of its own.  NULL, or why it is not compared.
 */
const char *named_tell(struct spec_field *out, const struct spec *names, const struct spec_field *field);

#endif
