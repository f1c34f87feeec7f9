/*
 * Sentences for files that cannot be traced (advice.h).  Context: host.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "host/counted.h"
#include "advice.h"
#include "stock_impl.h"

#define FLAGS_MAX 192

/* The flags that functions with sites are built with for this CPU. */
static void name_flags(const struct object *object, char flags[FLAGS_MAX])
{
	unsigned int nops = object->cpu->patchable_nops;

	snprintf(flags, FLAGS_MAX,
		 "-fpatchable-function-entry=%u (gcc, clang, clang++, g++ from 13 on)%s or "
		 "-Z patchable-function-entry=%u (rustc nightly)",
		 nops, object->cpu->has_fentry ? ", -pg -mfentry (gcc, g++)" : "", nops);
}

int object_not_elf_diag(int fd, const char *path, struct calltap_diag *diag)
{
	char line[128] = "";
	ssize_t got = pread(fd, line, sizeof(line) - 1, 0);

	if (got < 0)
		return calltap_diag_set(diag, -ENOEXEC, "%s cannot be read: %s", path, strerror(errno));
	if (got >= 2 && line[0] == '#' && line[1] == '!') {
		char *interpreter = line + 2 + strspn(line + 2, " \t"); /* and its argument: #!/usr/bin/env bash */

		interpreter[strcspn(interpreter, "\r\n")] = '\0';
		return calltap_diag_set(
			diag, -ENOEXEC,
			"%s is a script; trace its interpreter instead: %s %s (or record it with --allow-no-sites, "
			"which traces what it executes)",
			path, interpreter, path);
	}
	return calltap_diag_set(diag, -ENOEXEC, "%s is not an ELF program or shared library, so it has no functions",
				path);
}

static bool has_compiled_site(const struct object *object)
{
	for (size_t i = 0; i < object->site_count; i++)
		if (object->sites[i].kind != SITE_STOCK)
			return true;
	return false;
}

static const char *reason(const struct object *object)
{
	if (has_compiled_site(object))
		return "has no function that can be traced (`calltap functions` says why of each)";
	if (object->hints & OBJECT_HINT_MCOUNT)
		return "was built with -pg alone, which calls mcount after the frame is set up";
	if (object->hints & OBJECT_HINT_CYG_PROFILE)
		return "was built with -finstrument-functions, whose functions hand their return address to a hook";
	if (object->hints & OBJECT_HINT_XRAY)
		return "was built with -fxray-instrument, whose sleds are not supported";
	if (object->site_count)
		return "has no function that can be traced (`calltap functions` says why of each)";
	return object->symbol_count ? "has no function that can be traced"
				    : "has neither symbols nor an unwind table that tell where functions are (is it "
				      "stripped?)";
}

void object_no_sites_diag(const struct object *object, struct calltap_diag *diag)
{
	char flags[FLAGS_MAX];

	name_flags(object, flags);
	if (object->view && object->view->refusal)
		(void)calltap_diag_set(diag, -ENODATA,
				       "%.200s has no function that can be traced: %s; those of its libraries are "
				       "traced where -l names them (-l 'libNAME.so*:*')",
				       object_path(object), object->view->refusal);
	else if (object_is_static(object) && !object->view)
		(void)calltap_diag_set(
			diag, -ENODATA,
			"%.200s is a static executable, into which nothing can be loaded; link it without "
			"-static and build it with %s",
			object_path(object), flags);
	else if (!object->symbol_count && !object->hints && !object->site_count)
		(void)calltap_diag_set(diag, -ENODATA,
				       "%.200s %s; keep its symbols when it is built (no strip, -s or -Xs), or build "
				       "it with %s",
				       object_path(object), reason(object), flags);
	else
		(void)calltap_diag_set(diag, -ENODATA, "%.200s %s; build it with %s", object_path(object),
				       reason(object), flags);
}

/* True for a function of a C++ source file.  Parts and thunks that the compiler adds never have sites. */
static bool is_cxx_function(const char *symbol)
{
	if (strncmp(symbol, "_Z", 2) != 0 || strchr(symbol, '.'))
		return false;
	return symbol[2] != 'T' || !strchr("hvc", symbol[3]);
}

/*
 * g++ before 13 keeps a file's table of sites with the first function in it.
 * When that is an inline function of which the linker keeps another file's
 * copy, the whole table goes, or the link fails.
 */
static size_t lost_cxx_sites(const struct object *object)
{
	size_t without = 0, with = 0;

	for (size_t i = 0; i < object->symbol_count; i++)
		without += is_cxx_function(object->symbols[i].symbol);
	for (size_t i = 0; i < object->site_count; i++)
		with += object->sites[i].kind == SITE_PATCHABLE && is_cxx_function(object->sites[i].symbol);
	return with && without > with ? without - with : 0;
}

static size_t count_verdicts(const struct object *object, enum site_verdict verdict)
{
	size_t count = 0;

	for (size_t i = 0; i < object->site_count; i++)
		count += object->sites[i].verdict == verdict;
	return count;
}

void object_advise(const struct object *object, char text[OBJECT_ADVICE_MAX])
{
	size_t lost = lost_cxx_sites(object), shifted = count_verdicts(object, SITE_NOT_ALIGNED);
	size_t nameless = count_verdicts(object, SITE_NO_ENTRY), hooked = count_verdicts(object, SITE_LOOKS_AT_CALLER);
	size_t at = 0;
	unsigned int nops = object->cpu->patchable_nops;

	text[0] = '\0';
	if (object->view && object->view->refusal)
		at += (size_t)snprintf(text + at, OBJECT_ADVICE_MAX - at,
				       "functions that were built without a site are left alone: %s\n",
				       object->view->refusal);
	if (lost)
		at += (size_t)snprintf(text + at, OBJECT_ADVICE_MAX - at,
				       "%zu C++ %s no site though others do: g++ before 13 loses the sites "
				       "of files that share inline functions;\nbuild with %sclang++ or g++ 13 and "
				       "-fpatchable-function-entry=%u\n",
				       lost, counted(lost, "function has", "functions have"),
				       object->cpu->has_fentry ? "-pg -mfentry, or with " : "", nops);
	if (shifted)
		at += (size_t)snprintf(text + at, OBJECT_ADVICE_MAX - at,
				       "%zu %s where too few bytes of the no-ops are aligned for a jump; "
				       "build with -fpatchable-function-entry=%u,\nor keep the number and add "
				       "-falign-functions=%u\n",
				       shifted, counted(shifted, "function begins", "functions begin"), nops,
				       object->cpu->jump_align);
	if (nameless)
		at += (size_t)snprintf(text + at, OBJECT_ADVICE_MAX - at,
				       "of %zu %s neither symbols nor unwind tables say where %s; strip no more than "
				       "debug information (strip -g)\n",
				       nameless, counted(nameless, "function", "functions"),
				       counted(nameless, "it begins", "they begin"));
	if (object->hints & OBJECT_HINT_CYG_PROFILE && hooked > object->site_count / 2)
		snprintf(text + at, OBJECT_ADVICE_MAX - at,
			 "most functions hand their return address to a hook of -finstrument-functions, which would "
			 "see the tracer's;\nbuild without it\n");
}
