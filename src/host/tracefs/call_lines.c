/*
 * Lines of trace and trace_pipe as the kernel prints them: its default format, which the tracer function uses, too.
 *
 * Column by column that of print_trace_fmt() and of its headers; what function_graph prints is in graph_lines.c.
 * Context: host.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <host/text.h>

#include "raw.h"
#include "tree.h"

void lines_time(uint64_t ns, struct tree_text *out)
{
	tree_text_format(out, "%5llu.%06llu", (unsigned long long)(ns / 1000000000u),
			 (unsigned long long)(ns / 1000 % 1000000u));
}

const char *lines_symbol(const struct tree_instance *instance, uint32_t function)
{
	const struct trace *trace = instance->source.follow ? trace_follow_trace(instance->source.follow) : NULL;
	const struct trace_function *found = trace ? trace_function(trace, function) : NULL;

	return found ? found->symbol : "0x00000000";
}

void lines_function(const struct tree_instance *instance, uint32_t function, struct tree_text *out)
{
	const struct trace *trace = instance->source.follow ? trace_follow_trace(instance->source.follow) : NULL;
	const struct trace_function *found = trace ? trace_function(trace, function) : NULL;
	const struct trace_object *object = found ? trace_object(trace, found->object) : NULL;

	tree_text_string(out, lines_symbol(instance, function));
	if (object && !trace_is_program(trace, object))
		tree_text_format(out, " [%s]", text_base(object->path));
}

uint64_t lines_address(struct tree_instance *instance, const struct tree_event *event)
{
	struct tree_source *source = &instance->source;
	const struct trace *trace = source->follow ? trace_follow_trace(source->follow) : NULL;
	const struct trace_thread *thread = trace ? trace_thread(trace, event->thread) : NULL;
	struct trace_place place = {0}, *known = &place;

	if (!thread)
		return 0;
	if (event->function < trace_function_count(trace)) {
		struct trace_place *places =
			tree_grown(source->places, &source->place_count, event->function, sizeof(*places));

		if (places) {
			source->places = places;
			known = &places[event->function];
		}
	}
	if (!trace_place_holds(trace, known, thread->process))
		trace_place(trace, thread->process, event->function, event->ticks, known);
	return known->address;
}

struct reading_slot *lines_slot(struct tree_reading *reading, uint32_t slot)
{
	struct reading_slot *slots = tree_grown(reading->slots, &reading->slot_count, slot, sizeof(*slots));

	if (!slots)
		return NULL;
	reading->slots = slots;
	return &slots[slot];
}

void lines_clear(struct tree_reading *reading)
{
	store_destroy(&reading->store);
	free(reading->slots);
	*reading = (struct tree_reading){0};
}

/* The option sym-offset: an offset in a function behind its name, and the function's size; 0 = that is not known. */
static void put_offset(uint64_t offset, uint32_t size, struct tree_text *out)
{
	tree_text_format(out, "+0x%llx", (unsigned long long)offset);
	if (size)
		tree_text_format(out, "/0x%x", size);
}

/* The option sym-addr. */
static void put_address(uint64_t address, struct tree_text *out)
{
	tree_text_format(out, " <%016llx>", (unsigned long long)address);
}

static void put_function(struct tree_instance *instance, const struct tree_event *event, struct tree_text *out)
{
	const struct trace *trace = instance->source.follow ? trace_follow_trace(instance->source.follow) : NULL;
	const struct trace_function *function = trace ? trace_function(trace, event->function) : NULL;

	tree_text_string(out, lines_symbol(instance, event->function));
	if (options_has(instance, OPTION_SYM_OFFSET))
		put_offset(0, function ? function->size : 0, out);
	if (options_has(instance, OPTION_SYM_ADDR))
		put_address(lines_address(instance, event), out);
}

/* The size of the function that the address lies in; 0 = it is none of the trace's. */
static uint32_t size_at(const struct trace *trace, uint32_t process, uint64_t address, uint64_t ticks)
{
	const struct trace_function *function;
	struct trace_resolved resolved;

	trace_resolve(trace, process, address, ticks, &resolved);
	function = trace_function(trace, resolved.function);
	return function ? function->size : 0;
}

void lines_place_at(const struct tree_instance *instance, const struct tree_event *event, uint64_t address, bool offset,
		    struct tree_text *out)
{
	const struct trace *trace = instance->source.follow ? trace_follow_trace(instance->source.follow) : NULL;
	const struct trace_thread *thread = trace ? trace_thread(trace, event->thread) : NULL;
	char name[512];
	char *plus;

	if (!address) {
		tree_text_add(out, "0", 1);
		return;
	}
	if (!thread || !trace_name_address(trace, thread->process, address, event->ticks, name, sizeof(name))) {
		tree_text_format(out, "0x%08llx", (unsigned long long)address);
		return;
	}
	plus = strrchr(name, '+');
	if (plus && plus[1] == '0' && plus[2] == 'x')
		*plus = 0;
	else
		plus = NULL;
	tree_text_string(out, name);
	if (offset)
		put_offset(plus ? strtoull(plus + 1, NULL, 16) : 0,
			   size_at(trace, thread->process, address, event->ticks), out);
	if (options_has(instance, OPTION_SYM_ADDR))
		put_address(address, out);
}

void lines_place(const struct tree_instance *instance, const struct tree_event *event, uint64_t address,
		 struct tree_text *out)
{
	lines_place_at(instance, event, address, options_has(instance, OPTION_SYM_OFFSET), out);
}

void lines_caller(const struct tree_instance *instance, const struct tree_event *event, struct tree_text *out)
{
	lines_place(instance, event, event->extra, out);
}

/* Task, pid, CPU, flags and time. */
static void put_context(const struct tree_instance *instance, const struct tree_event *event, struct tree_text *out)
{
	const struct tree_slot *slot = &instance->tree->slots[event->slot];

	tree_text_format(out, "%16s-%-7u ", lines_task(slot), slot->tid);
	if (options_has(instance, OPTION_RECORD_TGID) && slot->pid)
		tree_text_format(out, "(%7u) ", slot->pid);
	else if (options_has(instance, OPTION_RECORD_TGID))
		tree_text_string(out, "(-------) ");
	tree_text_format(out, "[%03u] ", event->cpu);
	if (options_has(instance, OPTION_IRQ_INFO))
		tree_text_string(out, ".....");
	tree_text_add(out, " ", 1);
	lines_time(event->ns, out);
	tree_text_add(out, ": ", 2);
}

void lines_data(const struct tree_event *event, struct tree_text *out)
{
	size_t shown = store_payload(event) - STORE_COMMON; /* the bytes that fill up its last word, too */
	uint32_t number;

	memcpy(&number, event->text, sizeof(number));
	tree_text_format(out, "# %x buf:", number);
	for (size_t i = sizeof(number); i < shown; i++)
		tree_text_format(out, " %02x", i < event->extra ? (unsigned char)event->text[i] : 0u);
}

/* The number in the CPU's place: function_graph's lines are those of a slot (doc/design/tracefs.md). */
static uint32_t shown_number(const struct tree_reading *reading, const struct tree_event *event)
{
	return reading->graph ? event->slot : event->cpu;
}

/* count 0: it is not known. */
static void put_lost(uint32_t number, uint64_t count, struct tree_text *out)
{
	if (count)
		tree_text_format(out, "CPU:%u [LOST %llu EVENTS]\n", number, (unsigned long long)count);
	else
		tree_text_format(out, "CPU:%u [LOST EVENTS]\n", number);
}

/* Tell who consumes of events that were overwritten before it came. */
static void put_missed(const struct tree_reading *reading, struct tree_store *store, const struct tree_event *event,
		       struct tree_text *out)
{
	uint64_t *missed = &store->slots[event->slot].missed;

	if (!reading->consumes || !*missed)
		return;
	put_lost(shown_number(reading, event), *missed, out);
	*missed = 0;
}

/* Where older events were overwritten, the first event of each slot but of the first one is announced. */
static void put_started(struct tree_reading *reading, const struct tree_instance *instance,
			const struct tree_event *event, struct tree_text *out)
{
	struct reading_slot *slot = lines_slot(reading, event->slot);

	if (!slot || slot->started || !instance->store.overrun || !options_has(instance, OPTION_ANNOTATE))
		return;
	slot->started = true;
	if (reading->index > 1)
		tree_text_format(out, "##### CPU %u buffer started ####\n", shown_number(reading, event));
}

/* The number of the first event that a reader consumes. */
static uint64_t oldest_of(const struct tree_reading *reading, const struct tree_store *store)
{
	if (reading->cpu == READING_ALL)
		return store->first;
	return reading->cpu < store->cpu_count && store->cpus[reading->cpu].first ? store->cpus[reading->cpu].first
										  : store->end;
}

/* Pass over events that were printed together with another one, and those of other CPUs. */
static struct tree_event *next_event(struct tree_reading *reading, const struct tree_store *store)
{
	for (;; reading->next++) {
		struct tree_event *event;
		struct reading_slot *slot;

		if (reading->consumes && reading->next < oldest_of(reading, store))
			reading->next = oldest_of(reading, store);
		if (reading->next < store->first)
			reading->next = store->first;
		event = reading->next < reading->end ? store_at(store, reading->next) : NULL;
		if (!event)
			return NULL;
		if (reading->cpu != READING_ALL && event->cpu != reading->cpu)
			continue;
		slot = lines_slot(reading, event->slot);
		if (!event->taken && (!slot || slot->passed != reading->next))
			return event;
	}
}

struct tree_store *lines_store(struct tree_reading *reading, struct tree_instance *instance)
{
	return reading->consumes ? &instance->store : &reading->store;
}

/* A mark of which the text alone is printed. */
static bool is_bare(const struct tree_instance *instance, const struct tree_event *event)
{
	return event->kind == TREE_MARK && !event->extra && options_has(instance, OPTION_PRINTK_MSG_ONLY);
}

static bool is_stack(const struct tree_event *event)
{
	return event->kind == TREE_STACK || event->kind == TREE_USER_STACK ||
	       (event->kind == TREE_MARK && event->extra);
}

/* The time of the event that is read behind this one; its own if there is none. */
static uint64_t time_of_next(struct tree_reading *reading, const struct tree_store *store,
			     const struct tree_event *event)
{
	const uint64_t number = reading->next;
	const struct tree_event *next;

	do
		reading->next++;
	while ((next = next_event(reading, store)) && next->kind == TREE_LOST);
	reading->next = number;
	return next ? next->ns : event->ns;
}

/* The kernel's function that a mark is of. */
static void put_marker(const struct tree_instance *instance, struct tree_text *out)
{
	tree_text_string(out, "tracing_mark_write");
	if (options_has(instance, OPTION_SYM_OFFSET))
		put_offset(0, 0, out);
	if (options_has(instance, OPTION_SYM_ADDR))
		put_address(RAW_MARK_ADDRESS, out);
	tree_text_add(out, ": ", 2);
}

static void put_repeats(const struct tree_event *event, struct tree_text *out)
{
	tree_text_format(out, " (repeats: %u, last_ts:", event->depth);
	lines_time(store_last_ns(event), out);
	tree_text_add(out, ")", 1);
}

static void put_event(struct tree_reading *reading, struct tree_instance *instance, const struct tree_event *event,
		      struct tree_text *out)
{
	bool msg_only = is_bare(instance, event);

	if (msg_only || !options_has(instance, OPTION_CONTEXT_INFO))
		;
	else if (reading->latency)
		other_latency(instance, event, reading->index - 1,
			      time_of_next(reading, lines_store(reading, instance), event), out);
	else
		put_context(instance, event, out);
	if (event->kind == TREE_MARK) {
		if (!msg_only && !event->extra)
			put_marker(instance, out);
		tree_text_string(out, event->text);
	} else if (event->kind == TREE_DATA) {
		lines_data(event, out);
	} else if (is_stack(event)) {
		lines_stack(instance, event, out);
	} else {
		put_function(instance, event, out);
		if (event->kind == TREE_CALL && (event->text || event->depth))
			tree_text_string(out, details_text(event));
		if (options_has(instance, OPTION_PRINT_PARENT)) {
			tree_text_string(out, " <-");
			lines_caller(instance, event, out);
		}
		if (event->kind == TREE_REPEATS)
			put_repeats(event, out);
	}
	tree_text_add(out, "\n", 1);
}

/* Does function_graph print the line?  It leaves calls and stacks to the other formats. */
static bool is_of_graph(const struct tree_reading *reading, const struct tree_instance *instance,
			const struct tree_event *event)
{
	if (event->kind == TREE_ENTRY || event->kind == TREE_EXIT)
		return reading->graph || !other_is_chosen(instance);
	return reading->graph && event->kind != TREE_CALL && event->kind != TREE_REPEATS && !is_stack(event);
}

bool lines_next(struct tree_reading *reading, struct tree_instance *instance, struct tree_text *out)
{
	struct tree_event *event = next_event(reading, lines_store(reading, instance));

	if (!event || (reading->consumes && source_awaits(instance, event)))
		return false;
	reading->index++;
	put_missed(reading, &instance->store, event, out);
	if (event->kind == TREE_LOST) {
		put_lost(shown_number(reading, event), event->extra, out);
	} else if (is_of_graph(reading, instance, event)) {
		graph_line(reading, instance, event, out);
	} else if (other_is_chosen(instance) && !is_bare(instance, event)) {
		other_line(instance, event, out);
	} else {
		put_started(reading, instance, event, out);
		put_event(reading, instance, event, out);
	}
	reading->next++;
	return true;
}

static void put_columns(const struct tree_instance *instance, struct tree_text *out)
{
	bool tgid = options_has(instance, OPTION_RECORD_TGID);
	static const char space[] = "            ";
	int width = tgid ? 12 : 2;

	if (!options_has(instance, OPTION_IRQ_INFO)) {
		tree_text_format(out, "#           TASK-PID    %s CPU#     TIMESTAMP  FUNCTION\n",
				 tgid ? "   TGID   " : "");
		tree_text_format(out, "#              | |      %s   |         |         |\n", tgid ? "     |    " : "");
		return;
	}
	tree_text_format(out, "#                            %.*s  _-----=> irqs-off/BH-disabled\n", width, space);
	tree_text_format(out, "#                            %.*s / _----=> need-resched\n", width, space);
	tree_text_format(out, "#                            %.*s| / _---=> hardirq/softirq\n", width, space);
	tree_text_format(out, "#                            %.*s|| / _--=> preempt-depth\n", width, space);
	tree_text_format(out, "#                            %.*s||| / _-=> migrate-disable\n", width, space);
	tree_text_format(out, "#                            %.*s|||| /     delay\n", width, space);
	tree_text_format(out, "#           TASK-PID  %.*s CPU#  |||||  TIMESTAMP  FUNCTION\n", width, "     TGID   ");
	tree_text_format(out, "#              | |    %.*s   |   |||||     |         |\n", width, "       |    ");
}

static void put_tracer(struct tree_instance *instance, char *tracer, size_t size, struct tree_text *out)
{
	ask_value(instance, "tracer", tracer, size);
	tree_text_format(out, "# tracer: %s\n#\n", tracer[0] ? tracer : "nop");
}

void lines_header(struct tree_instance *instance, const struct tree_store *store, bool latency, struct tree_text *out)
{
	bool verbose = options_has(instance, OPTION_VERBOSE), graph;
	char tracer[64];

	put_tracer(instance, tracer, sizeof(tracer), out);
	graph = !strcmp(tracer, "function_graph");
	if (!options_has(instance, OPTION_CONTEXT_INFO) || (latency && store->first == store->end))
		return;
	if (latency)
		other_latency_header(instance, store, tracer, out);
	if (graph)
		graph_header(instance, latency, out);
	else if (latency && !verbose)
		other_latency_columns(out);
	if (graph || latency || verbose)
		return;
	tree_text_format(out, "# entries-in-buffer/entries-written: %llu/%llu   #P:%u\n#\n",
			 (unsigned long long)store->entries, (unsigned long long)store->written,
			 cpus_count(instance->tree));
	put_columns(instance, out);
}

void lines_snapshot_help(struct tree_instance *instance, struct tree_text *out)
{
	char tracer[64];

	put_tracer(instance, tracer, sizeof(tracer), out);
	tree_text_format(out, "#\n# * Snapshot is %s *\n#\n", instance->snapshot_there ? "allocated" : "freed");
	tree_text_string(out, "# What can be written here:\n"
			      "# 1: the buffer's events become the snapshot, and the snapshot's the buffer's\n"
			      "# 0: the snapshot is freed\n"
			      "# another number: the snapshot is emptied\n");
}
