/*
 * What users write among the events: trace_marker takes text, trace_marker_raw bytes (tree.h).
 *
 * Sizes and errors are the kernel's.  Context: host.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tree.h"

#define MARK_MAX 1024u /* bytes of a mark: of a longer one so many are written, which its writer is told */
#define DATA_MIN 4u    /* the number that they begin with */
#define DATA_MAX 3072u

/* May somebody write now? */
static int look(struct tree_instance *instance)
{
	if (!options_has(instance, OPTION_MARKERS))
		return -EINVAL;
	return ask_is_tracing(instance) && !instance->pauses ? 0 : -EBADF;
}

int marker_write(struct tree_open *open, const char *text, size_t size)
{
	size_t taken = size < MARK_MAX ? size : MARK_MAX, length;
	int ret = look(open->instance);
	char *copy;

	if (ret)
		return ret;
	copy = strndup(text, taken);
	if (!copy)
		return -ENOMEM;
	length = strlen(copy);
	if (length && copy[length - 1] == '\n')
		copy[length - 1] = 0;
	ret = source_mark(open->instance, open->writer, TREE_MARK, copy, 0);
	return ret ? ret : (int)taken;
}

int marker_write_raw(struct tree_open *open, const char *text, size_t size)
{
	int ret = look(open->instance);
	char *copy;

	if (ret)
		return ret;
	if (size < DATA_MIN || size > DATA_MAX)
		return control_refuse(open, -EINVAL, "a number of four bytes comes first, and 3068 bytes may follow",
				      "", 0);
	copy = malloc(size);
	if (!copy)
		return -ENOMEM;
	memcpy(copy, text, size);
	ret = source_mark(open->instance, open->writer, TREE_DATA, copy, size);
	return ret ? ret : (int)size;
}
