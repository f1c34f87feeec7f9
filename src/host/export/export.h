/*
 * Traces in other tools' formats; one file per format.
 *
 * Caller: the command `export`.  Context: host.
 */
#ifndef HOST_EXPORT_EXPORT_H
#define HOST_EXPORT_EXPORT_H

#include "../view/out.h"
#include "../view/tree.h"
#include "../view/walk.h"

struct export_options {
	size_t size;	    /* sizeof(struct export_options) */
	bool weigh_calls;   /* folded: calls instead of nanoseconds */
	int folder_fd;	    /* formats of a folder: an empty one, for the files */
	double min_percent; /* graphviz, mermaid: share of the whole below which a function is left out */
};

struct export_format {
	const char *name;
	const char *summary;
	bool folder;	/* many files: in options->folder_fd, and out is NULL */
	bool binary;	/* not to be written to a terminal */
	bool takes_min; /* --min works: calls are written when they end */
	bool sums;	/* it has no place for what was lost */
	/* Write all of trace to out; *walk tells of damage. */
	int (*run)(const struct trace *trace, const struct view_filter *filter, const struct export_options *options,
		   struct out *out, struct walk *walk, struct calltap_diag *diag);
};

extern const struct export_format export_perfetto;
extern const struct export_format export_chrome;
extern const struct export_format export_speedscope;
extern const struct export_format export_folded;
extern const struct export_format export_callgrind;
extern const struct export_format export_pprof;
extern const struct export_format export_graphviz;
extern const struct export_format export_mermaid;
extern const struct export_format export_ctf;
extern const struct export_format export_trace_dat;
extern const struct export_format export_json;
extern const struct export_format export_calls;
extern const struct export_format export_events;

/* The i-th format, NULL past the end. */
const struct export_format *export_at(size_t i);
int export_find(const struct export_format **format, const char *name, struct calltap_diag *diag)
	__attribute__((warn_unused_result));
/* Write the formats' names as "a, b or c"; only_min: of those that take --min.  Returns text. */
#define EXPORT_LIST 200
const char *export_list(char text[EXPORT_LIST], bool only_min);

/* Mark the index in a table that grows; true if it was not marked before.  Out of memory: false, and *error is set. */
bool export_first_use(bool **used, uint32_t *room, uint32_t index, int *error);

/*
 * Numbers for functions in the order of their first use, from 0 on: the tables of a file hold what its events name.
 * Out of memory or of numbers: *err is set.
 */
struct export_numbers {
	struct tree tree;
};
int export_numbers_init(struct export_numbers *numbers) __attribute__((warn_unused_result));
uint32_t export_number(struct export_numbers *numbers, uint32_t function, bool *first, int *err);
uint32_t export_number_count(const struct export_numbers *numbers);
uint32_t export_number_function(const struct export_numbers *numbers, uint32_t number);
void export_numbers_clear(struct export_numbers *numbers);

/* Say that there are no calls with a duration to write; returns -ENODATA. */
int export_nothing(struct calltap_diag *diag);

/*
 * Make the merged tree of the calls, for tree_clear() whatever is returned; by_thread as in struct tree_builder.  An
 * empty tree is an error.  Standard error is told of calls that are counted into their callers.
 */
#define EXPORT_DEPTH_MAX 1024u /* calls of a path; a deeper call counts for its caller at this depth */
int export_tree(struct tree *tree, const struct trace *trace, const struct view_filter *filter, bool by_thread,
		struct walk *walk, struct calltap_diag *diag) __attribute__((warn_unused_result));

/* Make the graph of functions, each list of callees sorted (graph_functions()); as for export_tree(). */
int export_functions(struct tree *graph, uint32_t *functions, const struct trace *trace,
		     const struct view_filter *filter, struct walk *walk, struct calltap_diag *diag)
	__attribute__((warn_unused_result));

/*
 * A pass for each thread that the filter lets pass and that has something to tell, one thread after the other: for
 * formats whose file has the threads apart.  *walk sums up the passes' damage.  finish comes after each pass.
 */
struct export_pass {
	const struct walk_ops *ops;
	void *ctx; /* of ops, too */
	int (*begin)(void *ctx, uint32_t thread);
	int (*finish)(void *ctx, uint32_t thread);
};
int export_each_thread(const struct export_pass *pass, const struct trace *trace, const struct view_filter *filter,
		       struct walk *walk, struct calltap_diag *diag) __attribute__((warn_unused_result));

/* Make a stack's name, such as "worker, stack 2"; stack: its number within the thread, from 0 on. */
#define EXPORT_STACK_NAME 64
void export_stack_name(char name[EXPORT_STACK_NAME], const struct trace_thread *thread, uint32_t stack);

#endif
