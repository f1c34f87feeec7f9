/*
 * The file attach: a tree that was mounted without a process takes one in (tree.h).  Context: host.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <host/proc.h>

#include "tree.h"

int attach_await(struct tree *tree, struct calltap_diag *diag)
{
	tree->instances->settings = strdup("tracing=on\ntracer=nop\n");
	return tree->instances->settings ? 0 : calltap_diag_set(diag, -ENOMEM, "not enough memory");
}

int attach_read(struct tree_open *open, struct tree_text *out)
{
	if (open->instance->tree->pid > 0)
		tree_text_format(out, "%d\n", (int)open->instance->tree->pid);
	return 0;
}

int attach_write(struct tree_open *open, const char *text, size_t size)
{
	struct tree *tree = open->instance->tree;
	const struct tracefs_options *options = tree->options;
	struct calltap_diag diag = {.column = -1};
	uint64_t pid = 0;
	int ret = control_number(open, text, &pid);

	if (ret)
		return ret;
	if (tree->pid || !options->attach)
		return control_refuse(open, -EBUSY, "this tree has its process; another one needs another tree", text,
				      0);
	if (!pid || pid > INT32_MAX || !proc_alive((pid_t)pid))
		return control_refuse(open, -ESRCH, "there is no such process", text, 0);
	if (proc_number(open->writer, "Tgid") == (long)pid)
		return control_refuse(open, -EDEADLK,
				      "a process waits here while it is attached to: have another one write this", text,
				      0);
	ret = options->attach(options->ctx, (pid_t)pid, &diag);
	if (!ret)
		ret = begin_tree(tree, (pid_t)pid, &diag);
	if (!ret) {
		buffer_limit(tree->instances);
		return (int)size;
	}
	tree->pid = 0;
	return control_refuse(open, ret, diag.text, text, 0);
}
