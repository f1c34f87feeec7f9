/*
 * Callgrind's profile format, for callgrind_annotate and KCachegrind (valgrind.org, "Callgrind Format Specification").
 *
 * Context: host; see export.h.  The one event is nanoseconds.  A function has its self time at its line, and each
 * function that it calls as a call with its number and the time in it.  Readers take the calls of a function for its
 * total, so outermost calls have a caller in the file, too, a function of no time.  Names of functions are numbered,
 * "(7) name" at the first use and "(7)" later, so that a long name is in the file once.
 */
#include <errno.h>
#include <stdlib.h>

#include "../view/graph.h"
#include "export.h"

/* Per node of a function: what the calls by other functions sum up to. */
struct inside {
	uint64_t calls, before, total_ns;
};

struct callgrind {
	const struct trace *trace;
	struct out *out;
	struct names *names;
	struct tree graph;
	uint32_t functions;
	bool *named; /* per node of a function: its name was written */
	struct inside *inside;
};

/* Write "KEY=TEXT"; a text must not look like a number of the file, "(7)".  NULL: "???", as Callgrind writes it. */
static void put_path(struct callgrind *file, const char *key, const char *path)
{
	char *clean = names_clean_dup(path && path[0] ? path : "???");

	out_text(file->out, key);
	out_text(file->out, clean && clean[0] == '(' ? "./" : "");
	out_text(file->out, clean ? clean : "???");
	out_char(file->out, '\n');
	free(clean);
}

/* Write where a node's function is, with "c" in front of each key for a callee. */
static void put_function(struct callgrind *file, uint32_t node, uint32_t id, bool callee)
{
	const struct trace_function *function = trace_function(file->trace, id);
	const struct trace_object *object = function ? trace_object(file->trace, function->object) : NULL;
	struct names_text name = names_function(file->names, id);

	put_path(file, callee ? "cob=" : "ob=", object ? object->path : NULL);
	put_path(file, callee ? "cfi=" : "fl=", function ? function->file : NULL);
	out_text(file->out, callee ? "cfn=(" : "fn=(");
	out_u64(file->out, node);
	out_char(file->out, ')');
	if (!file->named[node]) {
		/* Readers drop blanks in front of a name. */
		out_text(file->out, name.text[0] == ' ' ? " _" : " ");
		out_bytes(file->out, name.text, name.length);
	}
	file->named[node] = true;
	out_char(file->out, '\n');
}

static uint32_t line_of(const struct callgrind *file, uint32_t id)
{
	const struct trace_function *function = trace_function(file->trace, id);

	return function ? function->line : 0;
}

static void put_cost(struct callgrind *file, uint32_t line, uint64_t ns)
{
	out_u64(file->out, line);
	out_char(file->out, ' ');
	out_u64(file->out, ns);
	out_char(file->out, '\n');
}

static int put_call(struct callgrind *file, const struct tree_node *edge, uint32_t line)
{
	uint64_t calls = edge->calls + edge->before;
	int err = 0;
	/* A callee is a function of the graph, too, so nothing is made here. */
	uint32_t callee = tree_child(&file->graph, TREE_ROOT, edge->function, &err);

	if (!calls) /* the filters let no call pass; readers take the time of no calls for the caller's own */
		return err;

	put_function(file, callee, edge->function, true);
	out_text(file->out, "calls=");
	out_u64(file->out, calls);
	out_char(file->out, ' ');
	out_u64(file->out, line_of(file, edge->function));
	out_char(file->out, '\n');
	put_cost(file, line, edge->total_ns);
	file->inside[callee].calls += edge->calls;
	file->inside[callee].before += edge->before;
	file->inside[callee].total_ns += edge->total_ns;
	return err;
}

static int put_calls(struct callgrind *file, uint32_t caller)
{
	const struct tree *graph = &file->graph;
	uint32_t line = line_of(file, graph->nodes[caller].function);
	int err = 0;

	for (uint32_t at = graph->nodes[caller].child; !err && at != TREE_NONE; at = graph->nodes[at].next)
		err = put_call(file, &graph->nodes[at], line);
	return err;
}

/* Write the caller of outermost calls: these are what no edge has of a function's calls. */
static int put_outermost(struct callgrind *file)
{
	int err = 0;

	out_text(file->out, "\nob=???\nfl=???\nfn=(0) (outermost calls)\n0 0\n");
	for (uint32_t at = 1; !err && at <= file->functions; at++) {
		struct tree_node edge = file->graph.nodes[at];

		edge.calls -= file->inside[at].calls;
		edge.before -= file->inside[at].before;
		edge.total_ns -= file->inside[at].total_ns;
		err = put_call(file, &edge, 0);
	}
	return err;
}

static int put_functions(struct callgrind *file)
{
	const struct tree *graph = &file->graph;
	uint64_t sum_ns = 0;
	int err = 0;

	for (uint32_t at = graph->nodes[TREE_ROOT].child; !err && at != TREE_NONE; at = graph->nodes[at].next) {
		out_char(file->out, '\n');
		put_function(file, at, graph->nodes[at].function, false);
		put_cost(file, line_of(file, graph->nodes[at].function), graph->nodes[at].self_ns);
		sum_ns += graph->nodes[at].self_ns;
		err = put_calls(file, at);
		err = err ? err : file->out->error;
	}
	err = err ? err : put_outermost(file);
	out_text(file->out, "\ntotals: ");
	out_u64(file->out, sum_ns);
	out_char(file->out, '\n');
	return err;
}

static void put_head(struct callgrind *file)
{
	const char *command = trace_info(file->trace, "command");

	out_text(file->out, "# callgrind format\nversion: 1\ncreator: calltap " CALLTAP_VERSION "\n");
	put_path(file, "cmd: ", command ? command : trace_info(file->trace, "program"));
	out_text(file->out, "positions: line\nevent: ns : Nanoseconds\nevents: ns\n");
}

static int write_callgrind(const struct trace *trace, const struct view_filter *filter,
			   const struct export_options *options, struct out *out, struct walk *walk,
			   struct calltap_diag *diag)
{
	struct callgrind file = {.trace = trace, .out = out};
	int err = export_functions(&file.graph, &file.functions, trace, filter, walk, diag);

	if (!err) {
		err = names_create(&file.names, trace);
		file.named = calloc((size_t)file.functions + 1, sizeof(*file.named));
		file.inside = calloc((size_t)file.functions + 1, sizeof(*file.inside));
		err = err || !file.named || !file.inside
			      ? calltap_diag_set(diag, -ENOMEM, "out of memory for the names")
			      : 0;
	}
	if (!err) {
		put_head(&file);
		err = put_functions(&file);
	}
	free(file.named);
	free(file.inside);
	names_destroy(file.names);
	tree_clear(&file.graph);
	return err;
}

const struct export_format export_callgrind = {.name = "callgrind",
					       .summary = "for callgrind_annotate and KCachegrind",
					       .takes_min = true,
					       .sums = true,
					       .run = write_callgrind};
