/*
 * Finding the `calltap` command: beside this library, in its build tree or its installation, else along PATH.  Context:
 * the program's threads.
 */
#include <dlfcn.h>
#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib.h"

static bool is_program(const char *path)
{
	struct stat st;

	return !stat(path, &st) && S_ISREG(st.st_mode) && !access(path, X_OK);
}

/* Look beside the library, by the path that the loader has it under. */
static bool find_beside(char tried[PATH_MAX])
{
	static const char *const places[] = {"%s/../cmd/calltap", CALLTAP_COMMAND};
	char self[PATH_MAX];
	Dl_info info;

	if (!dladdr((void *)tool_find, &info) || !info.dli_fname || !realpath(info.dli_fname, self))
		return false;
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		char copy[PATH_MAX];

		memcpy(copy, self, sizeof(copy));
		if (snprintf(tried, PATH_MAX, places[i], dirname(copy)) < PATH_MAX && is_program(tried))
			return true;
	}
	return false;
}

/* Look along PATH, but not for a program that has more rights than its user. */
static bool find_in_path(char tried[PATH_MAX])
{
	const char *folder = secure_getenv("PATH");

	while (folder && *folder) {
		size_t size = strcspn(folder, ":");

		if (folder[0] == '/' && snprintf(tried, PATH_MAX, "%.*s/calltap", (int)size, folder) < PATH_MAX &&
		    is_program(tried))
			return true;
		folder += size;
		folder += *folder == ':';
	}
	return false;
}

int tool_find(char **path, const char *wanted, struct calltap_diag *diag)
{
	char tried[PATH_MAX];

	*path = NULL;
	if (wanted && !is_program(wanted))
		return calltap_diag_set(diag, -ENOENT, "%.300s is no program; give the path of the calltap command",
					wanted);
	if (!wanted && !find_beside(tried) && !find_in_path(tried))
		return calltap_diag_set(diag, -ENOENT,
					"the calltap command is neither beside libcalltap.so nor in PATH; install it, "
					"or give its path in the options");
	/* The tool is started in another directory. */
	*path = realpath(wanted ? wanted : tried, NULL);
	return *path ? 0 : calltap_diag_set(diag, -errno, "the calltap command cannot be found: %s", strerror(errno));
}
