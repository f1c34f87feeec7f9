/*
 * The function profiler: function_profile_enabled, and what it has counted in trace_stat/ (tree.h).
 *
 * All calls of the functions that the top level's filters choose are recorded by a gate, and counted here, by the CPU
 * that their thread is on (cpus.c).  Counts stay when the profiler is switched off, until it is switched on again.
 * Context: host.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tree.h"

/* A function's calls on a CPU. */
struct counted {
	uint64_t calls, total_ns, self_ns;
	double total_squares, self_squares; /* sums of squared times */
	uint64_t ended;			    /* calls of which the times are */
};

struct counted_cpu {
	struct counted *functions; /* by their id in the gate's trace */
	size_t count;
};

/* A thread: what the calls of its open functions' callees took, by depth. */
struct callees {
	uint64_t *ns;
	size_t count;
};

struct tree_profiler {
	struct tree_instance *gate; /* NULL = the profiler was never on */
	struct counted_cpu *cpus;
	size_t cpu_count;
	struct callees *slots;
	size_t slot_count;
	uint64_t lost;	 /* records */
	bool lost_more;	 /* and some whose number is not known */
	bool has_failed; /* there was no memory for all */
};

static struct counted *counted_of(struct tree_profiler *profiler, const struct tree_event *event)
{
	struct counted_cpu *cpus = tree_grown(profiler->cpus, &profiler->cpu_count, event->cpu, sizeof(*cpus)), *cpu;
	struct counted *functions;

	if (!cpus)
		return NULL;
	profiler->cpus = cpus;
	cpu = &cpus[event->cpu];
	functions = tree_grown(cpu->functions, &cpu->count, event->function, sizeof(*functions));
	if (!functions)
		return NULL;
	cpu->functions = functions;
	return &functions[event->function];
}

/* What the callees of the thread's call at that depth took; NULL = no memory. */
static uint64_t *callees_at(struct tree_profiler *profiler, const struct tree_event *event, size_t depth)
{
	struct callees *slots = tree_grown(profiler->slots, &profiler->slot_count, event->slot, sizeof(*slots)), *slot;
	uint64_t *ns;

	if (!slots)
		return NULL;
	profiler->slots = slots;
	slot = &slots[event->slot];
	ns = tree_grown(slot->ns, &slot->count, depth, sizeof(*ns));
	if (!ns)
		return NULL;
	slot->ns = ns;
	return &ns[depth];
}

static void count_exit(struct counted *function, uint64_t took, uint64_t callees)
{
	uint64_t self = took > callees ? took - callees : 0;

	function->ended++;
	function->total_ns += took;
	function->self_ns += self;
	function->total_squares += (double)took * (double)took;
	function->self_squares += (double)self * (double)self;
}

static void take(void *ctx, const struct tree_event *event)
{
	struct tree_profiler *profiler = ctx;
	bool call = event->kind == TREE_ENTRY || event->kind == TREE_EXIT;
	struct counted *function = call ? counted_of(profiler, event) : NULL;
	uint64_t *callees = call ? callees_at(profiler, event, event->depth + 1u) : NULL;

	if (event->kind == TREE_LOST) {
		profiler->lost += event->extra;
		profiler->lost_more |= !event->extra;
	}
	if (!call)
		return;
	if (!function || !callees) {
		profiler->has_failed = true;
	} else if (event->kind == TREE_ENTRY) {
		function->calls++;
		*callees = 0;
	} else if (event->extra != UINT64_MAX) {
		count_exit(function, event->extra, *callees);
		callees[-1] += event->extra; /* it is a callee of the next outer one */
	}
}

bool profiler_pump(struct tree *tree)
{
	return !tree->profiler || gate_drain(tree->profiler->gate, take, tree->profiler);
}

static void forget(struct tree *tree)
{
	struct tree_profiler *profiler = tree->profiler;

	for (size_t i = 0; i < profiler->cpu_count; i++)
		free(profiler->cpus[i].functions);
	for (size_t i = 0; i < profiler->slot_count; i++)
		free(profiler->slots[i].ns);
	free(profiler->cpus);
	free(profiler->slots);
	*profiler = (struct tree_profiler){.gate = profiler->gate};
}

void profiler_destroy(struct tree *tree)
{
	if (!tree->profiler)
		return;
	gate_end(&tree->profiler->gate);
	forget(tree);
	free(tree->profiler);
	tree->profiler = NULL;
}

/* The filters of the top level, as words that begin an instance, or change it: then kinds without any, too. */
static int take_filters(struct tree *tree, struct tree_words *out, bool changes)
{
	static const char *const keys[] = {"trace", "notrace"};
	int ret = 0;

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]) && !ret; i++) {
		struct tree_words values;

		ret = ask_filters(tree->instances, keys[i], &values);
		if (!ret && (values.count || changes))
			ret = ask_add_values(out, keys[i], &values);
		tree_words_clear(&values);
	}
	return ret;
}

static int first_filters(struct tree *tree, struct tree_words *out)
{
	return take_filters(tree, out, false);
}

static const struct gate_kind gate_kind = {.name = "profiler",
					   .settings = {"tracer=function_graph", "buffer=4M"},
					   .take = take,
					   .filters = first_filters,
					   .forget = forget};

static bool is_on(const struct tree *tree)
{
	return tree->profiler && gate_is_open(tree->profiler->gate);
}

int profiler_read(struct tree_open *open, struct tree_text *out)
{
	tree_text_string(out, is_on(open->instance->tree) ? "1\n" : "0\n");
	return 0;
}

int profiler_write(struct tree_open *open, const char *text, size_t size)
{
	struct tree *tree = open->instance->tree;

	if (!tree->profiler)
		tree->profiler = calloc(1, sizeof(*tree->profiler));
	return tree->profiler ? gate_switch(&tree->profiler->gate, &gate_kind, tree->profiler, open, text, size)
			      : -ENOMEM;
}

int profiler_filter(struct tree *tree, const char *file)
{
	struct tree_words changes = {0};
	int ret;

	if (!is_on(tree))
		return 0;
	ret = take_filters(tree, &changes, true);
	if (!ret)
		ret = ask_change(tree->profiler->gate, file, &changes);
	tree_words_clear(&changes);
	return ret;
}

/* A line of a file. */
struct line {
	const char *name;
	uint64_t calls, ns, ended;
	double squares;
};

/* The kernel's order: the most time first. */
static int compare(const void *one, const void *other)
{
	const struct line *a = one, *b = other;

	if (a->ns != b->ns)
		return a->ns < b->ns ? 1 : -1;
	if (a->calls != b->calls)
		return a->calls < b->calls ? 1 : -1;
	return strcmp(a->name, b->name);
}

/* Lines of a CPU, for free(); *count: how many.  NULL: there are none.  whole: with the time of callees. */
static struct line *make_lines(const struct tree_instance *gate, const struct counted_cpu *cpu, bool whole,
			       size_t *count)
{
	struct line *lines = cpu->count ? calloc(cpu->count, sizeof(*lines)) : NULL;

	*count = 0;
	for (size_t i = 0; lines && i < cpu->count; i++) {
		const struct counted *function = &cpu->functions[i];

		if (function->calls || function->ended)
			lines[(*count)++] =
				(struct line){.name = lines_symbol(gate, (uint32_t)i),
					      .calls = function->calls,
					      .ended = function->ended,
					      .ns = whole ? function->total_ns : function->self_ns,
					      .squares = whole ? function->total_squares : function->self_squares};
	}
	if (lines)
		qsort(lines, *count, sizeof(*lines), compare);
	return lines;
}

/* The sample's variance in us^2, in thousandths, as the kernel prints it like a duration. */
static uint64_t variance(const struct line *line)
{
	double n = (double)line->ended, sum = (double)line->ns, over = n * line->squares - sum * sum;

	return line->ended > 1 && over > 0 ? (uint64_t)(over / (n * (n - 1) * 1000)) : 0;
}

static void put_line(const struct line *line, struct tree_text *out)
{
	tree_text_format(out, "  %-30.30s  %10" PRIu64 "    ", line->name, line->calls);
	lines_duration(line->ns, out);
	tree_text_string(out, "    ");
	lines_duration(line->ended ? line->ns / line->ended : 0, out);
	tree_text_string(out, "    ");
	lines_duration(variance(line), out);
	tree_text_string(out, "\n");
}

int profiler_read_stat(struct tree_open *open, struct tree_text *out)
{
	struct tree_profiler *profiler = open->instance->tree->profiler;
	const struct counted_cpu none = {0}, *cpu = &none;
	struct line *lines;
	uint64_t lost;
	size_t count;

	if (profiler && gate_has_more(profiler->gate))
		gate_settle(profiler->gate, take, profiler);
	if (profiler && open->which < profiler->cpu_count)
		cpu = &profiler->cpus[open->which];
	tree_text_string(out, "  Function                               Hit    Time            Avg             s^2\n"
			      "  --------                               ---    ----            ---             ---\n");
	lines = make_lines(profiler ? profiler->gate : NULL, cpu, options_has(open->instance, OPTION_GRAPH_TIME),
			   &count);
	for (size_t i = 0; i < count; i++)
		put_line(&lines[i], out);
	free(lines);
	lost = profiler ? profiler->lost : 0;
	if (profiler && profiler->gate)
		lost += source_untold(profiler->gate, READING_ALL);
	if (lost || (profiler && profiler->lost_more))
		tree_text_format(out, "# lost on all CPUs: %s%" PRIu64 ", calls or ends of calls\n",
				 profiler->lost_more ? "more than " : "", lost);
	if (profiler && profiler->gate && !profiler->gate->source.ended && profiler->gate->source.behind)
		tree_text_string(out, "# calls of before are still being counted; read the file again\n");
	if (profiler && profiler->has_failed)
		tree_text_string(out, "# there was not enough memory for all calls\n");
	return 0;
}
