/*
 * Choosing the processes to attach to (choose.h).  Context: host.
 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <host/proc.h>
#include <host/space.h>

#include "choose.h"

#define ANCESTORS_MAX 64

struct pids {
	pid_t *list;
	size_t count;
};

static int add_pid(struct pids *pids, pid_t pid)
{
	pid_t *list;

	for (size_t i = 0; i < pids->count; i++)
		if (pids->list[i] == pid)
			return 0;
	list = reallocarray(pids->list, pids->count + 1, sizeof(*list));
	if (!list)
		return -ENOMEM;
	pids->list = list;
	list[pids->count++] = pid;
	return 0;
}

static int by_pid(const void *a, const void *b)
{
	const struct candidate *one = a, *other = b;

	return (one->pid > other->pid) - (one->pid < other->pid);
}

static const struct candidate *find_candidate(const struct candidate *table, size_t count, pid_t pid)
{
	const struct candidate key = {.pid = pid};

	return count ? bsearch(&key, table, count, sizeof(key), by_pid) : NULL;
}

/* The tool, and the processes that it was started by. */
static int find_own(struct pids *own, const struct choice *choice, const struct candidate *table, size_t count)
{
	pid_t pid = choice->self;
	int ret = 0;

	for (int i = 0; pid > 0 && i < ANCESTORS_MAX && !ret; i++) {
		const struct candidate *candidate = find_candidate(table, count, pid);

		ret = add_pid(own, pid);
		pid = candidate ? candidate->parent : 0;
	}
	return ret;
}

static bool has_pid(const struct pids *pids, pid_t pid)
{
	for (size_t i = 0; i < pids->count; i++)
		if (pids->list[i] == pid)
			return true;
	return false;
}

static bool matches_glob(const struct candidate *candidate, const char *glob)
{
	return !fnmatch(glob, candidate->name, 0) || (candidate->program[0] && !fnmatch(glob, candidate->program, 0));
}

static int add_named(struct pids *pids, const struct pids *own, const struct choice *choice, const char *glob,
		     const struct candidate *table, size_t count, struct calltap_diag *diag)
{
	bool found = false;
	int ret = 0;

	for (size_t i = 0; i < count && !ret; i++) {
		if ((choice->user && table[i].user != choice->user) || has_pid(own, table[i].pid) ||
		    !matches_glob(&table[i], glob))
			continue;
		found = true;
		ret = add_pid(pids, table[i].pid);
	}
	if (ret)
		return calltap_diag_set(diag, ret, "not enough memory");
	return found ? 0
		     : calltap_diag_set(diag, -ENOENT, "no process %sis called '%.100s'",
					choice->user ? "of yours " : "", glob);
}

/* Behind each process the children that it has; a child's are behind it in turn. */
static int add_children(struct pids *pids, const struct pids *own, const struct candidate *table, size_t count)
{
	int ret = 0;

	for (size_t i = 0; i < pids->count; i++)
		for (size_t k = 0; k < count && !ret; k++)
			if (table[k].parent == pids->list[i] && !has_pid(own, table[k].pid))
				ret = add_pid(pids, table[k].pid);
	return ret;
}

int choose_pids(pid_t **out, size_t *count, const struct choice *choice, const struct candidate *table,
		size_t table_count, struct calltap_diag *diag)
{
	struct pids pids = {0}, own = {0};
	int ret = find_own(&own, choice, table, table_count);

	for (size_t i = 0; i < choice->pid_count && !ret; i++)
		ret = add_pid(&pids, choice->pids[i]);
	if (ret)
		ret = calltap_diag_set(diag, ret, "not enough memory");
	for (size_t i = 0; i < choice->glob_count && !ret; i++)
		ret = add_named(&pids, &own, choice, choice->globs[i], table, table_count, diag);
	if (!ret && choice->children && add_children(&pids, &own, table, table_count))
		ret = calltap_diag_set(diag, -ENOMEM, "not enough memory");
	free(own.list);
	if (ret) {
		free(pids.list);
		pids = (struct pids){0};
	}
	*out = pids.list;
	*count = pids.count;
	return ret;
}

/* False: the process has ended, is the kernel's, or says nothing of itself. */
static bool read_candidate(struct candidate *out, pid_t pid)
{
	char path[64], text[1024], exe[PATH_MAX], *name, *end, state;
	struct stat st;
	ssize_t length;
	int parent;

	snprintf(path, sizeof(path), "/proc/%d", (int)pid);
	if (stat(path, &st) || proc_text(pid, "stat", text, sizeof(text)))
		return false;
	name = strchr(text, '(');
	end = strrchr(text, ')'); /* its name may hold anything */
	if (!name || !end || end < name || sscanf(end + 1, " %c %d", &state, &parent) != 2 || state == 'Z' ||
	    state == 'X')
		return false;
	*end = 0;
	*out = (struct candidate){.pid = pid, .parent = parent, .user = st.st_uid};
	snprintf(out->name, sizeof(out->name), "%s", name + 1);
	snprintf(path, sizeof(path), "/proc/%d/exe", (int)pid);
	length = readlink(path, exe, sizeof(exe) - 1);
	if (length < 0)
		return errno != ENOENT; /* another user's may have one */
	exe[length] = 0;
	space_cut_deleted(exe);
	end = strrchr(exe, '/');
	snprintf(out->program, sizeof(out->program), "%.255s", end ? end + 1 : exe);
	return true;
}

int choose_read(struct candidate **out, size_t *count)
{
	DIR *folder = opendir("/proc");
	struct candidate *table = NULL;
	const struct dirent *entry;
	size_t room = 0;

	*count = 0;
	*out = NULL;
	if (!folder)
		return -errno;
	while ((entry = readdir(folder))) {
		if (!isdigit((unsigned char)entry->d_name[0]))
			continue;
		if (*count == room) {
			struct candidate *more = reallocarray(table, room = room ? room * 2 : 256, sizeof(*more));

			if (!more) {
				closedir(folder);
				free(table);
				*count = 0;
				return -ENOMEM;
			}
			table = more;
		}
		*count += read_candidate(&table[*count], (pid_t)strtol(entry->d_name, NULL, 10));
	}
	closedir(folder);
	if (*count)
		qsort(table, *count, sizeof(*table), by_pid);
	*out = table;
	return 0;
}
