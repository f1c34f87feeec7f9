/*
 * Loading a library into another process for a program that asks, as `calltap load` does.  Context: the program's
 * threads.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib.h"

#define TIMEOUT_MS 60000u

LIB_PUBLIC int calltap_process_load(pid_t pid, const char *library, struct calltap_diag *diag)
{
	char number[16], full[PATH_MAX], *path;
	const char *const words[] = {"load", "--ready-fd", "3", number, full, NULL};
	struct tool tool;
	int ret;

	if (shim_is_running())
		return calltap_diag_set(diag, -EDEADLK, "a handler cannot load libraries; let another thread do it");
	if (pid <= 0)
		return calltap_diag_set(diag, -EINVAL, "%d is no process id", (int)pid);
	if (!realpath(library, full))
		return calltap_diag_set(diag, -errno, "%.300s cannot be found: %s", library, strerror(errno));
	ret = tool_find(&path, NULL, diag);
	if (ret)
		return ret;
	snprintf(number, sizeof(number), "%d", (int)pid);
	ret = tool_start(&tool, path, words, false, diag);
	free(path);
	if (ret)
		return ret;
	ret = tool_await(&tool, TIMEOUT_MS, diag);
	tool_end(&tool, TIMEOUT_MS);
	return ret;
}
