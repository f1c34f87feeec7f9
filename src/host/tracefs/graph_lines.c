/*
 * Lines of trace and trace_pipe as the kernel's function_graph prints them (print_graph_function_flags()).
 *
 * An entry is printed as `name();` where the slot's next event is its exit, which is passed over then.  Context: host.
 */
#include <string.h>

#include <host/text.h>

#include "tree.h"

#define INDENT	   2
#define PROC_WIDTH 14
#define NAME_WIDTH 7
#define ERROR_MAX  4095 /* MAX_ERRNO */

/* Widths of columns above the flags of the latency format. */
#define ABSTIME_COLUMN 16
#define CPU_COLUMN     4
#define PROC_COLUMN    17

/* The columns that stand in front of the flags have this width. */
static void put_flags_header(const struct tree_instance *instance, struct tree_text *out)
{
	static const char *const lines[] = {"  _-----=> irqs-off        \n", " / _----=> need-resched    \n",
					    "| / _---=> hardirq/softirq \n", "|| / _--=> preempt-depth   \n",
					    "||| /                      \n"};
	size_t width = options_has(instance, OPTION_FUNCGRAPH_ABSTIME) ? ABSTIME_COLUMN : 0;

	width += options_has(instance, OPTION_FUNCGRAPH_CPU) ? CPU_COLUMN : 0;
	width += options_has(instance, OPTION_FUNCGRAPH_PROC) ? PROC_COLUMN : 0;
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		tree_text_add(out, "#", 1);
		tree_text_fill(out, ' ', width);
		tree_text_string(out, lines[i]);
	}
}

void graph_header(const struct tree_instance *instance, bool latency, struct tree_text *out)
{
	static const struct {
		enum tree_option option;
		const char *title, *mark;
	} columns[] = {
		{OPTION_FUNCGRAPH_ABSTIME, "     TIME       ", "      |         "},
		{OPTION_FUNCGRAPH_CPU, " CPU", " |  "},
		{OPTION_FUNCGRAPH_PROC, "  TASK/PID       ", "   |    |        "},
		{OPTION_LATENCY_FORMAT, "||||   ", "||||   "},
		{OPTION_FUNCGRAPH_DURATION, "  DURATION   ", "   |   |      "},
	};

	if (latency)
		put_flags_header(instance, out);
	for (int line = 0; line < 2; line++) {
		tree_text_add(out, "#", 1);
		for (size_t i = 0; i < sizeof(columns) / sizeof(columns[0]); i++)
			if (columns[i].option == OPTION_LATENCY_FORMAT ? latency
								       : options_has(instance, columns[i].option))
				tree_text_string(out, line ? columns[i].mark : columns[i].title);
		tree_text_string(out, line ? "               |   |   |   |\n" : "               FUNCTION CALLS\n");
	}
}

static int digits(uint32_t number)
{
	int count = 1;

	for (; number >= 10; number /= 10)
		count++;
	return count;
}

/* "name-pid" in the middle of its column. */
static void put_proc(const struct tree_slot *slot, struct tree_text *out)
{
	int length = (int)strnlen(lines_task(slot), NAME_WIDTH) + 1 + digits(slot->tid);
	int spaces = length < PROC_WIDTH ? PROC_WIDTH - length : 0;

	tree_text_fill(out, ' ', (size_t)(spaces / 2));
	tree_text_format(out, "%.*s-%u", NAME_WIDTH, lines_task(slot), slot->tid);
	tree_text_fill(out, ' ', (size_t)(spaces - spaces / 2));
	tree_text_string(out, " | ");
}

static void put_context(const struct tree_instance *instance, const struct tree_event *event, struct tree_text *out)
{
	const struct tree *tree = instance->tree;

	if (!options_has(instance, OPTION_CONTEXT_INFO))
		return;
	if (options_has(instance, OPTION_FUNCGRAPH_ABSTIME)) {
		lines_time(event->ns, out);
		tree_text_string(out, " |  ");
	}
	if (options_has(instance, OPTION_FUNCGRAPH_CPU))
		tree_text_format(out, " %*u) ", digits(tree->slot_count ? tree->slot_count - 1 : 0), event->slot);
	if (options_has(instance, OPTION_FUNCGRAPH_PROC))
		put_proc(&tree->slots[event->slot], out);
	if (options_has(instance, OPTION_LATENCY_FORMAT))
		tree_text_string(out, " ..... | ");
}

/* Microseconds with up to seven digits in all. */
void lines_duration(uint64_t ns, struct tree_text *out)
{
	char text[32];
	int length = snprintf(text, sizeof(text), "%llu", (unsigned long long)(ns / 1000));

	if (length < 7)
		snprintf(text + length, (size_t)(9 - length < 5 ? 9 - length : 5), ".%03llu",
			 (unsigned long long)(ns % 1000));
	length = (int)strlen(text);
	tree_text_format(out, "%s us ", text);
	tree_text_fill(out, ' ', length < 8 ? (size_t)(8 - length) : 0);
}

static void put_duration(const struct tree_instance *instance, uint64_t ns, struct tree_text *out)
{
	if (!options_has(instance, OPTION_CONTEXT_INFO) || !options_has(instance, OPTION_FUNCGRAPH_DURATION))
		return;
	if (ns == UINT64_MAX) {
		tree_text_string(out, "              |  ");
		return;
	}
	tree_text_format(out, "%c ", options_has(instance, OPTION_FUNCGRAPH_OVERHEAD) ? time_mark(ns) : ' ');
	lines_duration(ns, out);
	tree_text_string(out, "|  ");
}

/* The exit of the entry, where it is the slot's next event, and one that the reader sees; else NULL. */
static struct tree_event *exit_of_leaf(const struct tree_reading *reading, const struct tree_store *store,
				       const struct tree_event *entry)
{
	struct tree_event *next = entry->next ? store_at(store, entry->next) : NULL;

	return next && next->kind == TREE_EXIT && next->function == entry->function && next->depth == entry->depth &&
			       !next->taken && (reading->cpu == READING_ALL || next->cpu == reading->cpu)
		       ? next
		       : NULL;
}

/* " ret=-2", as the kernel prints it: in base 16, but for what looks like an error number; open: in front of it. */
static bool put_result(const struct tree_instance *instance, const struct tree_event *left, const char *open,
		       struct tree_text *out)
{
	struct details_head told;
	int64_t error;

	if (!options_has(instance, OPTION_FUNCGRAPH_RETVAL) || !details_head(&told, left))
		return false;
	tree_text_format(out, "%s ret=", open);
	if (!told.has_number) {
		tree_text_string(out, details_text(left));
		return true;
	}
	error = told.number >> 32 ? (int64_t)told.number : (int32_t)told.number;
	if (error < 0 && error >= -ERROR_MAX && !options_has(instance, OPTION_FUNCGRAPH_RETVAL_HEX))
		tree_text_format(out, "%lld", (long long)error);
	else
		tree_text_format(out, "0x%llx", (unsigned long long)told.number);
	return true;
}

/* The comment behind a call: where it returns to, and of one that has called nothing what it gave. */
static void put_told(const struct tree_instance *instance, const struct tree_event *entry,
		     const struct tree_event *leaf, struct tree_text *out)
{
	static const char open[] = " /*";
	struct details_head told;
	bool any = false;

	if (options_has(instance, OPTION_FUNCGRAPH_RETADDR) && details_head(&told, entry) && told.has_number) {
		tree_text_format(out, "%s <-", open);
		lines_place_at(instance, entry, told.number, true, out);
		any = true;
	}
	if (leaf)
		any |= put_result(instance, leaf, any ? "" : open, out);
	if (any)
		tree_text_string(out, " */");
}

static void put_entry(struct tree_reading *reading, struct reading_slot *slot, struct tree_instance *instance,
		      const struct tree_event *entry, struct tree_text *out)
{
	struct tree_event *leaf = exit_of_leaf(reading, lines_store(reading, instance), entry);

	put_duration(instance, leaf ? leaf->extra : UINT64_MAX, out);
	tree_text_fill(out, ' ', (size_t)entry->depth * INDENT);
	lines_function(instance, entry->function, out);
	tree_text_string(out, details_text(entry));
	tree_text_string(out, leaf ? ";" : " {");
	put_told(instance, entry, leaf, out);
	tree_text_add(out, "\n", 1);
	if (leaf && reading->consumes)
		store_take(&instance->store, entry->next);
	slot->passed = leaf ? entry->next : 0;
	slot->depth = entry->depth - (leaf != NULL);
	if (entry->depth < READING_DEPTH)
		slot->entered[entry->depth] = leaf ? 0 : entry->function + 1;
}

static void put_exit(struct reading_slot *slot, const struct tree_instance *instance, const struct tree_event *left,
		     struct tree_text *out)
{
	bool known = true;

	if (left->depth < READING_DEPTH) {
		known = slot->entered[left->depth] == left->function + 1;
		slot->entered[left->depth] = 0;
	}
	slot->depth = left->depth - 1;
	put_duration(instance, left->extra, out);
	tree_text_fill(out, ' ', (size_t)left->depth * INDENT);
	if (known && !options_has(instance, OPTION_FUNCGRAPH_TAIL) && !options_has(instance, OPTION_FUNCGRAPH_RETVAL)) {
		tree_text_string(out, "}\n");
	} else {
		tree_text_string(out, "} /* ");
		lines_function(instance, left->function, out);
		put_result(instance, left, "", out);
		tree_text_string(out, " */\n");
	}
	if (options_has(instance, OPTION_FUNCGRAPH_OVERRUN)) /* no stack of open calls is too small here */
		tree_text_string(out, " (Overruns: 0)\n");
}

static void put_comment(const struct reading_slot *slot, const struct tree_instance *instance,
			const struct tree_event *event, struct tree_text *out)
{
	put_duration(instance, UINT64_MAX, out);
	if (slot->depth > 0)
		tree_text_fill(out, ' ', (size_t)(slot->depth + 1) * INDENT);
	tree_text_string(out, "/* ");
	if (event->kind == TREE_DATA)
		lines_data(event, out);
	else
		tree_text_string(out, event->text);
	tree_text_string(out, " */\n");
}

void graph_line(struct tree_reading *reading, struct tree_instance *instance, struct tree_event *event,
		struct tree_text *out)
{
	struct reading_slot *slot = lines_slot(reading, event->slot);

	if (!slot)
		return;
	put_context(instance, event, out);
	if (event->kind == TREE_ENTRY)
		put_entry(reading, slot, instance, event, out);
	else if (event->kind == TREE_EXIT)
		put_exit(slot, instance, event, out);
	else
		put_comment(slot, instance, event, out);
}
