/*
 * Names for people: demangled when first asked for (most functions of a large
 * program are never named), then kept.  Context: host.
 */
#include <inttypes.h>
#include <libiberty/demangle.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "object_impl.h"

/* C++ by the Itanium ABI and Rust, both manglings; NULL = not mangled. */
static char *demangle(const char *symbol, int options)
{
	if (symbol[0] != '_' || (symbol[1] != 'Z' && symbol[1] != 'R'))
		return NULL;
	return cplus_demangle(symbol, options | DMGL_ANSI | DMGL_AUTO);
}

char *object_demangle(const char *symbol)
{
	return demangle(symbol, DMGL_PARAMS);
}

static const char *name_once(char **name, const char *symbol, int options)
{
	if (!*name)
		*name = demangle(symbol, options);
	return *name ? *name : symbol;
}

const char *object_symbol_name(struct object *object, const struct object_symbol *symbol)
{
	return name_once(&object->symbol_names[symbol - object->symbols], symbol->symbol, DMGL_PARAMS);
}

const char *object_symbol_short_name(struct object *object, const struct object_symbol *symbol)
{
	return name_once(&object->symbol_short_names[symbol - object->symbols], symbol->symbol, 0);
}

static const char *address_name(struct object *object, const struct object_site *site)
{
	char **name = &object->site_names[site - object->sites];
	const char *slash = strrchr(object->path, '/');

	if (!*name && asprintf(name, "%s+0x%" PRIx64, slash ? slash + 1 : object->path, site->function) < 0)
		*name = NULL;
	return *name ? *name : "?";
}

const struct object_symbol *object_site_symbol(const struct object *object, const struct object_site *site)
{
	return site->named ? &object->symbols[site->named - 1] : NULL;
}

const char *object_site_name(struct object *object, const struct object_site *site)
{
	const struct object_symbol *symbol = object_site_symbol(object, site);

	if (symbol)
		return object_symbol_name(object, symbol);
	if (site->symbol[0])
		return name_once(&object->site_names[site - object->sites], site->symbol, DMGL_PARAMS);
	return address_name(object, site);
}

const char *object_site_short_name(struct object *object, const struct object_site *site)
{
	const struct object_symbol *symbol = object_site_symbol(object, site);

	if (symbol)
		return object_symbol_short_name(object, symbol);
	if (site->symbol[0])
		return name_once(&object->site_short_names[site - object->sites], site->symbol, 0);
	return address_name(object, site);
}
