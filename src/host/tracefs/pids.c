/*
 * set_ftrace_pid and set_ftrace_notrace_pid: threads whose events are kept, or left out, by their ids (tree.h).
 *
 * Context: host.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tree.h"

#define TID_MAX 4194304

static struct tree_words *pids_of(struct tree_open *open)
{
	return strcmp(open->row->name, "set_ftrace_pid") != 0 ? &open->instance->notrace_pids : &open->instance->pids;
}

int pids_read(struct tree_open *open, struct tree_text *out)
{
	const struct tree_words *pids = pids_of(open);

	if (!pids->count)
		tree_text_string(out, "no pid\n");
	for (size_t i = 0; i < pids->count; i++)
		tree_text_format(out, "%s\n", pids->list[i]);
	return 0;
}

int pids_begin(struct tree_open *open)
{
	if (open_truncates(open, O_TRUNC))
		tree_words_clear(pids_of(open));
	return 0;
}

int pids_write(struct tree_open *open, const char *text, size_t size)
{
	struct tree_words *pids = pids_of(open), wanted;
	int ret = tree_words_copy(&wanted, pids);

	for (size_t at = strspn(text, " \t\n"); text[at] && !ret; at += strspn(text + at, " \t\n")) {
		size_t length = strcspn(text + at, " \t\n"), digits = strspn(text + at, "0123456789");
		char tid[16];

		if (digits != length || length > 7 || strtoul(text + at, NULL, 10) > TID_MAX) {
			ret = control_refuse(open, -EINVAL, "this is no thread's id", text, (int)at);
			break;
		}
		snprintf(tid, sizeof(tid), "%lu", strtoul(text + at, NULL, 10));
		if (tree_words_find(&wanted, tid) == wanted.count)
			ret = tree_words_add(&wanted, tid);
		at += length;
	}
	if (ret) {
		tree_words_clear(&wanted);
		return ret;
	}
	tree_words_clear(pids);
	*pids = wanted;
	return (int)size;
}
