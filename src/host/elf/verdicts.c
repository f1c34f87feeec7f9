/*
 * Verdicts by name: functions that must be left alone because of what they are; and the words for verdicts and kinds.
 * Context: host.
 */
#include <stdlib.h>
#include <string.h>

#include <calltap/abi/control.h>

#include "imports.h"
#include "object_impl.h"

struct special {
	const char *name;
	enum site_verdict verdict;
};

/*
 * Sorted by name.  Where a thread is in __syscall_cp_asm() or __syscall_cancel_arch() decides if it can be cancelled.
 */
static const struct special specials[] = {
	{"__dlopen", SITE_LOOKS_AT_CALLER},
	{"__dlsym", SITE_LOOKS_AT_CALLER},
	{"__dlvsym", SITE_LOOKS_AT_CALLER},
	{"__fentry__", SITE_LOOKS_AT_CALLER},
	{"__getcontext", SITE_RETURNS_TWICE},
	{"__libc_vfork", SITE_RETURNS_TWICE},
	{"__makecontext", SITE_RETURNS_TWICE},
	{"__restore", SITE_LOOKS_AT_CALLER},
	{"__restore_rt", SITE_LOOKS_AT_CALLER},
	{"__setcontext", SITE_RETURNS_TWICE},
	{"__setjmp", SITE_RETURNS_TWICE},
	{"__sigsetjmp", SITE_RETURNS_TWICE},
	{"__swapcontext", SITE_RETURNS_TWICE},
	{"__syscall_cancel_arch", SITE_LOOKS_AT_CALLER},
	{"__syscall_cp_asm", SITE_LOOKS_AT_CALLER},
	{"__tls_get_addr", SITE_OWN},
	{"__vfork", SITE_RETURNS_TWICE},
	{"_dl_debug_state", SITE_OWN},
	{"_mcount", SITE_LOOKS_AT_CALLER},
	{"_setjmp", SITE_RETURNS_TWICE},
	{"_start", SITE_LOOKS_AT_CALLER},
	{"dlmopen", SITE_LOOKS_AT_CALLER},
	{"dlopen", SITE_LOOKS_AT_CALLER},
	{"dlsym", SITE_LOOKS_AT_CALLER},
	{"dlvsym", SITE_LOOKS_AT_CALLER},
	{"getcontext", SITE_RETURNS_TWICE},
	{"makecontext", SITE_RETURNS_TWICE},
	{"mcount", SITE_LOOKS_AT_CALLER},
	{"savectx", SITE_RETURNS_TWICE},
	{"setcontext", SITE_RETURNS_TWICE},
	{"setjmp", SITE_RETURNS_TWICE},
	{"sigsetjmp", SITE_RETURNS_TWICE},
	{"swapcontext", SITE_RETURNS_TWICE},
	{"vfork", SITE_RETURNS_TWICE},
};

static int compare(const void *key, const void *item)
{
	return strcmp(key, ((const struct special *)item)->name);
}

/* True if the name ends so. */
static bool ends_in(const char *name, const char *end)
{
	size_t length = strlen(name), tail = strlen(end);

	return length >= tail && !strcmp(name + length - tail, end);
}

/*
 * V8's (node) builtins, which are no compiler's, and what they call: functions that end in an Isolate behind a count
 * and addresses, and those that take a FunctionCallbackInfo or PropertyCallbackInfo.  V8 finds the frames of scripts by
 * the return addresses of both, when it collects or throws.
 */
static bool called_by_scripts(const char *name)
{
	if (name[0] == 'B')
		return !strncmp(name, "Builtins_", 9);
	if (strncmp(name, "_Z", 2) != 0)
		return false;
	return (!strncmp(name, "_ZN2v88internal", 15) && ends_in(name, "EiPmPNS0_7IsolateE")) ||
	       strstr(name, "20FunctionCallbackInfo") || strstr(name, "20PropertyCallbackInfo");
}

/*
 * OCaml's collector finds the frames of compiled OCaml by their return addresses, and what they call to have it run
 * notes its own.  These are all functions of a module, camlModule__name_12, those that the compiler makes for calls,
 * and the runtime's in assembly.  Its functions in C, such as caml_alloc_shr(), meet no such frame as its caller.
 */
static bool is_of_ocaml(const char *name)
{
	static const char *const prefixes[] = {
		"_alloc1",	  "_alloc2",   "_alloc3",    "_allocN",	 "_apply",    "_c_call",
		"_call_",	  "_callback", "_curry",     "_exn_",	 "_ml_array", "_perform",
		"_program",	  "_raise_ex", "_reperform", "_resume",	 "_runstack", "_send",
		"_start_program", "_startup_", "_system__",  "_tuplify",
	};

	if (strncmp(name, "caml", 4) != 0)
		return false;
	for (size_t i = 0; name[4] == '_' && i < sizeof(prefixes) / sizeof(prefixes[0]); i++)
		if (!strncmp(name + 4, prefixes[i], strlen(prefixes[i])))
			return true;
	return name[4] >= 'A' && name[4] <= 'Z';
}

/* Free Pascal's handler of signals leads the program there without a call; it jumps out behind a push of its own. */
#define PASCAL_ENTERED "SYSTEM_$$_SIGNALTOHANDLEERRORADDRFRAME"

enum site_verdict site_verdict_of_name(const char *name)
{
	const struct special *special;

	/* Most names end here: a program has a hundred thousand, and many are C++. */
	if (called_by_scripts(name) || (name[0] == 'c' && is_of_ocaml(name)))
		return SITE_RUNTIME;
	if (name[0] == 'S' && !strncmp(name, PASCAL_ENTERED, sizeof(PASCAL_ENTERED) - 1))
		return SITE_LOOKS_AT_CALLER;
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

/*
 * A call is traced by its caller's side: what the called function does with its return address is known by its name
 * alone.  What the agent stands in front of is left alone, too: a stub's frame would lie between the program's and the
 * agent's.
 */
enum site_verdict site_verdict_of_call(const char *name)
{
	enum site_verdict verdict = site_verdict_of_name(name);

	if (verdict != SITE_OK)
		return verdict;
	/* The caller of __libc_start_main is _start, which has none. */
	if (site_name_keeps_return(name) || !strcmp(name, "__libc_start_main"))
		return SITE_LOOKS_AT_CALLER;
	/* libunwind's and libucontext's, and the switches of Boost. */
	if (ends_in(name, "getcontext") || ends_in(name, "setcontext") || ends_in(name, "swapcontext") ||
	    ends_in(name, "_fcontext") || ends_in(name, "setjmp"))
		return SITE_RETURNS_TWICE;
	for (size_t i = 0; i < CALLTAP_POINTERS_TO; i++)
		if (!strcmp(name, imports_names()[i]))
			return SITE_OWN;
	return SITE_OK;
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
		[SITE_NO_ROWS] = "assembly without unwind information",
		[SITE_LED_INTO] = "a jump leads into its first bytes",
		[SITE_UNKNOWN_CODE] = "unknown instructions at its entry",
		[SITE_CANNOT_MOVE] = "an instruction at its entry cannot be moved",
		[SITE_RELOCATED] = "the loader or XRay changes its first bytes",
		[SITE_OWN_RULES] = "takes values in registers that a stub changes",
		[SITE_COPIES_STACKS] =
			"its library copies parts of stacks, so its calls can be recorded with -p function alone",
		[SITE_RUNTIME] = "its language's runtime looks for return addresses, or moves them",
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
	case SITE_LIBCALL:
		return "libcall";
	}
	return "unknown";
}
