/*
 * Verdicts by name: functions that must be left alone because of what they are; and the words for verdicts and kinds.
 * Context: host.
 */
#include <stdlib.h>
#include <string.h>

#include "object_impl.h"

struct special {
	const char *name;
	enum site_verdict verdict;
};

/* Sorted by name. */
static const struct special specials[] = {
	{"__dlopen", SITE_LOOKS_AT_CALLER},    {"__dlsym", SITE_LOOKS_AT_CALLER},
	{"__dlvsym", SITE_LOOKS_AT_CALLER},    {"__fentry__", SITE_LOOKS_AT_CALLER},
	{"__getcontext", SITE_RETURNS_TWICE},  {"__libc_vfork", SITE_RETURNS_TWICE},
	{"__makecontext", SITE_RETURNS_TWICE}, {"__setcontext", SITE_RETURNS_TWICE},
	{"__setjmp", SITE_RETURNS_TWICE},      {"__sigsetjmp", SITE_RETURNS_TWICE},
	{"__swapcontext", SITE_RETURNS_TWICE}, {"__tls_get_addr", SITE_OWN},
	{"__vfork", SITE_RETURNS_TWICE},       {"_mcount", SITE_LOOKS_AT_CALLER},
	{"_setjmp", SITE_RETURNS_TWICE},       {"_start", SITE_LOOKS_AT_CALLER},
	{"dlmopen", SITE_LOOKS_AT_CALLER},     {"dlopen", SITE_LOOKS_AT_CALLER},
	{"dlsym", SITE_LOOKS_AT_CALLER},       {"dlvsym", SITE_LOOKS_AT_CALLER},
	{"getcontext", SITE_RETURNS_TWICE},    {"makecontext", SITE_RETURNS_TWICE},
	{"mcount", SITE_LOOKS_AT_CALLER},      {"savectx", SITE_RETURNS_TWICE},
	{"setcontext", SITE_RETURNS_TWICE},    {"setjmp", SITE_RETURNS_TWICE},
	{"sigsetjmp", SITE_RETURNS_TWICE},     {"swapcontext", SITE_RETURNS_TWICE},
	{"vfork", SITE_RETURNS_TWICE},
};

static int compare(const void *key, const void *item)
{
	return strcmp(key, ((const struct special *)item)->name);
}

enum site_verdict site_verdict_of_name(const char *name)
{
	const struct special *special;

	/* Most names end here: a program has a hundred thousand, and many are C++. */
	if (!strchr("_cdgmsv", name[0]) || !strncmp(name, "_Z", 2))
		return SITE_OK;
	if (!strncmp(name, "calltap_", 8))
		return SITE_OWN;
	if (!strncmp(name, "_Unwind_", 8))
		return SITE_LOOKS_AT_CALLER;
	special = bsearch(name, specials, sizeof(specials) / sizeof(specials[0]), sizeof(specials[0]), compare);
	return special ? special->verdict : SITE_OK;
}

/*
 * True for functions that find their caller, and for the switches of libaco and of Tencent's libco; the agent sees to
 * swapcontext().
 */
bool site_name_keeps_return(const char *name)
{
	static const char *const names[] = {"acosw", "coctx_swap", "dlopen", "dlmopen", "dlsym", "dlvsym"};

	if (!strncmp(name, "__dl", 4))
		name += 2;
	for (size_t i = 0; strchr("acd", name[0]) && i < sizeof(names) / sizeof(names[0]); i++) {
		if (!strcmp(name, names[i]))
			return true;
	}
	return false;
}

const char *site_verdict_text(enum site_verdict verdict)
{
	static const char *const texts[SITE_VERDICTS] = {
		[SITE_OK] = "can be traced",
		[SITE_TOO_SHORT] = "too few bytes for a jump",
		[SITE_RETURNS_TWICE] = "returns twice or switches stacks",
		[SITE_LOOKS_AT_CALLER] = "uses its return address or has none",
		[SITE_BAD_BYTES] = "unexpected bytes at its entry",
		[SITE_NO_SITE] = "built without a site",
		[SITE_OWN] = "in the tracer's own path",
		[SITE_NO_ENTRY] = "stripped, so its entry is not known",
		[SITE_NOT_AT_ENTRY] = "its site is not at its entry",
		[SITE_NOT_ALIGNED] = "too few aligned bytes for a jump",
		[SITE_VECTORS] = "passes values in vector registers",
		[SITE_TOO_FAR] = "out of a jump's reach",
		[SITE_LED_INTO] = "a jump leads into its first bytes",
		[SITE_UNKNOWN_CODE] = "unknown instructions at its entry",
		[SITE_CANNOT_MOVE] = "an instruction at its entry cannot be moved",
		[SITE_RELOCATED] = "the loader changes its first bytes",
	};

	return (unsigned int)verdict < SITE_VERDICTS ? texts[verdict] : "unknown";
}

const char *site_kind_text(enum site_kind kind)
{
	switch (kind) {
	case SITE_PATCHABLE:
		return "patchable";
	case SITE_FENTRY:
		return "fentry";
	case SITE_NOP_MCOUNT:
		return "nop-mcount";
	case SITE_STOCK:
		return "stock";
	}
	return "unknown";
}
