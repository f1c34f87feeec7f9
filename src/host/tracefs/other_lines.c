/*
 * Lines of trace and trace_pipe in the formats that options choose: raw, hex and bin, and what latency-format puts in
 * front of an event (tree.h).
 *
 * Column by column those of print_raw_fmt(), print_hex_fmt(), print_bin_fmt() and trace_print_lat_context(), with their
 * headers.  In hex and bin the kernel knows how to print calls alone: all else is the number of its type.  Context:
 * host.
 */
#include <sys/utsname.h>

#include <host/text.h>

#include "raw.h"
#include "tree.h"

#define MS_US 1000u

bool other_is_chosen(const struct tree_instance *instance)
{
	return options_has(instance, OPTION_RAW) || options_has(instance, OPTION_HEX) ||
	       options_has(instance, OPTION_BIN);
}

static void put_type(const struct tree_event *event, struct tree_text *out)
{
	tree_text_format(out, "type: %u\n", store_type(event));
}

static void put_raw(struct tree_instance *instance, const struct tree_event *event, struct tree_text *out)
{
	if (options_has(instance, OPTION_CONTEXT_INFO))
		tree_text_format(out, "%u %u %llu ", instance->tree->slots[event->slot].tid, event->cpu,
				 (unsigned long long)event->ns);
	if (event->kind == TREE_CALL) {
		tree_text_format(out, "%llx %llx\n", (unsigned long long)lines_address(instance, event),
				 (unsigned long long)event->extra);
	} else if (event->kind == TREE_REPEATS) {
		tree_text_format(out, "%llu %llu %u %llu\n", (unsigned long long)lines_address(instance, event),
				 (unsigned long long)event->extra, event->depth,
				 (unsigned long long)(event->ns - store_last_ns(event)));
	} else if (event->kind == TREE_DATA) {
		lines_data(event, out);
		tree_text_add(out, "\n", 1);
	} else if (event->kind == TREE_MARK && !event->extra) {
		tree_text_format(out, "# %llx %s\n", RAW_MARK_ADDRESS, event->text);
	} else {
		put_type(event, out);
	}
}

static void put_hex(struct tree_instance *instance, const struct tree_event *event, struct tree_text *out)
{
	if (options_has(instance, OPTION_CONTEXT_INFO))
		tree_text_format(out, "%08x %08x %016llx ", instance->tree->slots[event->slot].tid, event->cpu,
				 (unsigned long long)event->ns);
	if (event->kind == TREE_CALL)
		tree_text_format(out, "%016llx %016llx ", (unsigned long long)lines_address(instance, event),
				 (unsigned long long)event->extra);
	else
		put_type(event, out);
	tree_text_add(out, "\n", 1);
}

static void put_word(uint64_t word, size_t size, struct tree_text *out)
{
	tree_text_add(out, (const char *)&word, size); /* the lowest bytes, on each of our machines */
}

static void put_bin(struct tree_instance *instance, const struct tree_event *event, struct tree_text *out)
{
	if (options_has(instance, OPTION_CONTEXT_INFO)) {
		put_word(instance->tree->slots[event->slot].tid, sizeof(uint32_t), out);
		put_word(event->cpu, sizeof(uint32_t), out);
		put_word(event->ns, sizeof(uint64_t), out);
	}
	if (event->kind == TREE_CALL) {
		put_word(lines_address(instance, event), sizeof(uint64_t), out);
		put_word(event->extra, sizeof(uint64_t), out);
	} else {
		put_type(event, out);
	}
}

void other_line(struct tree_instance *instance, const struct tree_event *event, struct tree_text *out)
{
	if (options_has(instance, OPTION_BIN))
		put_bin(instance, event, out);
	else if (options_has(instance, OPTION_HEX))
		put_hex(instance, event, out);
	else
		put_raw(instance, event, out);
}

void other_latency(const struct tree_instance *instance, const struct tree_event *event, uint64_t index,
		   uint64_t next_ns, struct tree_text *out)
{
	const struct tree_slot *slot = &instance->tree->slots[event->slot];
	uint64_t since_us = event->ns > instance->emptied_ns ? (event->ns - instance->emptied_ns) / 1000 : 0;
	uint64_t until_us = (next_ns - event->ns) / 1000;

	if (!options_has(instance, OPTION_VERBOSE)) {
		tree_text_format(out, "%8.8s-%-7u %3u..... %4lluus%c: ", lines_task(slot), slot->tid, event->cpu,
				 (unsigned long long)since_us, time_mark(until_us * 1000));
		return;
	}
	tree_text_format(out, "%16s %7u %3u 0 %08x %08llx ", lines_task(slot), slot->tid, event->cpu, 0u,
			 (unsigned long long)index);
	tree_text_format(out, "[%08llx] %llu.%03llums (+%llu.%03llums): ", (unsigned long long)(event->ns / 1000),
			 (unsigned long long)(since_us / MS_US), (unsigned long long)(since_us % MS_US),
			 (unsigned long long)(until_us / MS_US), (unsigned long long)(until_us % MS_US));
}

void other_latency_header(struct tree_instance *instance, const struct tree_store *store, const char *tracer,
			  struct tree_text *out)
{
	struct utsname system = {0};

	(void)uname(&system);
	tree_text_format(out, "# %s latency trace v1.1.5 on %s\n", tracer[0] ? tracer : "nop", system.release);
	tree_text_string(out, "# --------------------------------------------------------------------\n");
	/* Threads of a program are always preempted; no latency is measured, so there is no task of which it is. */
	tree_text_format(out, "# latency: 0 us, #%llu/%llu, CPU#0 | (M:preempt VP:0, KP:0, SP:0 HP:0 #P:%u)\n",
			 (unsigned long long)store->entries, (unsigned long long)store->written,
			 cpus_count(instance->tree));
	tree_text_string(out, "#    -----------------\n"
			      "#    | task: -0 (uid:0 nice:0 policy:0 rt_prio:0)\n"
			      "#    -----------------\n#\n");
}

void other_latency_columns(struct tree_text *out)
{
	tree_text_string(out, "#                    _------=> CPU#            \n"
			      "#                   / _-----=> irqs-off/BH-disabled\n"
			      "#                  | / _----=> need-resched    \n"
			      "#                  || / _---=> hardirq/softirq \n"
			      "#                  ||| / _--=> preempt-depth   \n"
			      "#                  |||| / _-=> migrate-disable \n"
			      "#                  ||||| /     delay           \n"
			      "#  cmd     pid     |||||| time  |   caller     \n"
			      "#     \\   /        ||||||  \\    |    /       \n");
}
