/*
 * Sub-buffers of the kernel's ring buffer, as trace_pipe_raw gives them (doc/design/tracefs.md).
 *
 * Caller: the files of this folder.  Context: host.
 */
#ifndef HOST_TRACEFS_RAW_H
#define HOST_TRACEFS_RAW_H

#include <stdbool.h>
#include <stddef.h>

#define RAW_PAGE     4096u /* bytes of a sub-buffer, as long as buffer_subbuf_size_kb says nothing else */
#define RAW_PAGE_MAX (512u << 10)
#define RAW_HEAD     16u /* the time of the first event, and how many bytes are used */
/* The function that writes marks, also in the file kallsyms. */
#define RAW_MARK_ADDRESS 0xffffffff81000000ull

/* The kernel's ids of its tracers' events. */
enum raw_id {
	RAW_FUNCTION = 1,
	RAW_STACK = 4,
	RAW_PRINT = 5,
	RAW_EXIT = 10,
	RAW_ENTRY = 11,
	RAW_USER_STACK = 12,
	RAW_DATA = 18,
	RAW_REPEATS = 19
};

struct tree_open;

int raw_begin(struct tree_open *open);
void raw_end(struct tree_open *open);
/* True if a read has something to take, or the end: whole pages only, or also one that is not full yet.
 * Whole pages are what buffer_percent is about. */
bool raw_is_ready(struct tree_open *open, bool whole);
/* Have a page in open->text, where there is one. */
void raw_fill(struct tree_open *open, bool whole);

#endif
