/*
 * Tracers: kinds of recording of a traced function.
 *
 * One file per tracer, each exporting one struct tracer; registry.c lists them.  A tracer chooses the recorders that
 * the stubs call; the recorders themselves are in the probe room of the target.  Callers: the session's rooms and the
 * command.  Context: host.
 */
#ifndef TRACERS_TRACER_H
#define TRACERS_TRACER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tracer_needs {
	bool tree_filter; /* -g was given */
	bool notree;	  /* --no-graph was given */
	bool depth;	  /* --max-depth was given */
	bool threshold;	  /* --threshold was given */
};

struct tracer {
	const char *name;    /* as the kernel names it */
	const char *summary; /* text of one line for --help */
	bool patches;	     /* false: no function is touched */
	bool has_exit;	     /* tree filters, depth and threshold make sense */
	bool counts;	     /* keeps counters in tables, and writes no records */
	/* The CALLTAP_SITE_* flags of a function. root, notree: -g, --no-graph names the function. */
	uint16_t (*site_flags)(const struct tracer_needs *needs, bool root, bool notree);
};

extern const struct tracer tracer_nop;
extern const struct tracer tracer_function;
extern const struct tracer tracer_function_graph;
extern const struct tracer tracer_profile;

/* function_graph's flags; other tracers with entries and exits add their own. */
uint16_t tracer_graph_flags(const struct tracer_needs *needs, bool root, bool notree);

/* The i-th tracer, NULL past the end; the first one is the default. */
const struct tracer *tracer_at(size_t i);
/* The tracer of this name; NULL = none. */
const struct tracer *tracer_find(const char *name);

#endif
