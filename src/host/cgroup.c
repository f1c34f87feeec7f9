/*
 * Limits of memory by cgroups (cgroup.h): the tightest one of the process' own cgroup and those that it lies in; and
 * the freezers of both hierarchies, which tell a cgroup's state with that of those that it lies in.
 *
 * In a container the mount may show less than the path that /proc tells; then the mount's own folder, which the walk
 * ends at, is the container's.  Context: host.
 */
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cgroup.h"
#include "proc.h"

#define TEXT_MAX 8192 /* bytes of memory.stat and of /proc/PID/cgroup that are read */

/* A hierarchy that limits memory, and its files' names. */
struct hierarchy {
	const char *line; /* what is before the path in /proc/PID/cgroup */
	const char *mounts[2];
	const char *limit, *used;
	const char *pages[2]; /* lines of memory.stat: files' pages, which the kernel takes back first */
};

static const struct hierarchy hierarchies[] = {
	{"0::",
	 {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"},
	 "memory.max",
	 "memory.current",
	 {"\ninactive_file ", "\nactive_file "}},
	{":memory:",
	 {"/sys/fs/cgroup/memory", NULL},
	 "memory.limit_in_bytes",
	 "memory.usage_in_bytes",
	 {"\ntotal_inactive_file ", "\ntotal_active_file "}},
};

/* A hierarchy that freezes processes, and how it tells. */
static const struct freezer {
	const char *line, *mounts[2], *file, *word;
} freezers[] = {
	{"0::", {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"}, "cgroup.events", "frozen 1"},
	{":freezer:", {"/sys/fs/cgroup/freezer", NULL}, "freezer.state", "FR"}, /* FROZEN, FREEZING; THAWED */
};

static bool read_file(const char *folder, const char *name, char *text, size_t size)
{
	char path[4096 + 64];
	ssize_t got;
	int fd;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	got = fd < 0 ? -1 : read(fd, text, size - 1);
	if (fd >= 0)
		close(fd);
	text[got < 0 ? 0 : got] = 0;
	return got > 0;
}

static uint64_t number_behind(const char *text, const char *name)
{
	const char *at = strstr(text, name);

	return at ? strtoull(at + strlen(name), NULL, 10) : 0;
}

/* What one cgroup leaves. */
static uint64_t left_in(const char *folder, const struct hierarchy *hierarchy)
{
	char text[TEXT_MAX];
	uint64_t limit, used, pages = 0;

	if (!read_file(folder, hierarchy->limit, text, sizeof(text)) || text[0] < '0' || text[0] > '9')
		return UINT64_MAX; /* "max" */
	limit = strtoull(text, NULL, 10);
	if (!read_file(folder, hierarchy->used, text, sizeof(text)))
		return UINT64_MAX;
	used = strtoull(text, NULL, 10);
	text[0] = '\n'; /* in front of the first line, too */
	if (read_file(folder, "memory.stat", text + 1, sizeof(text) - 1))
		for (size_t i = 0; i < 2; i++)
			pages += number_behind(text, hierarchy->pages[i]);
	used -= pages < used ? pages : used;
	return limit > used ? limit - used : 0;
}

/* Copy the path of the process' cgroup behind such a line's beginning; false: it is in none of the kind. */
static bool find_path(const char *text, const char *beginning, char *path, size_t size)
{
	size_t length = strlen(beginning);

	for (const char *line = text; *line; line += strcspn(line, "\n"), line += *line != 0) {
		const char *at = beginning[0] == ':' ? strchr(line, ':') : line;

		if (!at || strncmp(at, beginning, length) != 0)
			continue;
		snprintf(path, size, "%.*s", (int)strcspn(at + length, "\n"), at + length);
		return true;
	}
	return false;
}

static uint64_t left_under(const char *mount, const char *path, const struct hierarchy *hierarchy)
{
	char folder[4096];
	size_t shortest = strlen(mount);
	uint64_t left = UINT64_MAX, here;

	snprintf(folder, sizeof(folder), "%s%s", mount, path);
	for (;;) {
		here = left_in(folder, hierarchy);
		left = here < left ? here : left;
		if (strlen(folder) <= shortest)
			return left;
		*strrchr(folder, '/') = 0;
	}
}

uint64_t cgroup_memory_left(pid_t pid)
{
	char text[TEXT_MAX], path[2048];
	uint64_t left = UINT64_MAX, here;

	if (proc_text(pid, "cgroup", text, sizeof(text)))
		return left;
	for (size_t i = 0; i < sizeof(hierarchies) / sizeof(hierarchies[0]); i++) {
		const struct hierarchy *hierarchy = &hierarchies[i];

		if (!find_path(text, hierarchy->line, path, sizeof(path)))
			continue;
		for (size_t k = 0; k < 2 && hierarchy->mounts[k]; k++) {
			here = left_under(hierarchy->mounts[k], path, hierarchy);
			left = here < left ? here : left;
		}
	}
	return left;
}

bool cgroup_is_frozen(pid_t pid)
{
	char cgroups[TEXT_MAX], text[TEXT_MAX], folder[4096], path[2048];

	if (proc_text(pid, "cgroup", cgroups, sizeof(cgroups)))
		return false;
	for (size_t i = 0; i < sizeof(freezers) / sizeof(freezers[0]); i++) {
		const struct freezer *freezer = &freezers[i];

		if (!find_path(cgroups, freezer->line, path, sizeof(path)))
			continue;
		for (size_t k = 0; k < 2 && freezer->mounts[k]; k++) {
			snprintf(folder, sizeof(folder), "%s%s", freezer->mounts[k], path);
			if (read_file(folder, freezer->file, text, sizeof(text)) && strstr(text, freezer->word))
				return true;
		}
	}
	return false;
}
