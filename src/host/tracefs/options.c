/* The options of an instance: names, defaults and order are those of the kernel (tree.h).  Context: host. */
#include <stdlib.h>
#include <string.h>

#include "tree.h"

static const struct {
	const char *name;
	bool on;
	const char *tracer; /* whose option it is; NULL = of all */
} table[TREE_OPTIONS] = {
	[OPTION_PRINT_PARENT] = {"print-parent", true, NULL},
	[OPTION_SYM_OFFSET] = {"sym-offset", false, NULL},
	[OPTION_SYM_ADDR] = {"sym-addr", false, NULL},
	[OPTION_VERBOSE] = {"verbose", false, NULL},
	[OPTION_RAW] = {"raw", false, NULL},
	[OPTION_HEX] = {"hex", false, NULL},
	[OPTION_BIN] = {"bin", false, NULL},
	[OPTION_BLOCK] = {"block", false, NULL},
	[OPTION_ANNOTATE] = {"annotate", true, NULL},
	[OPTION_USERSTACKTRACE] = {"userstacktrace", false, NULL},
	[OPTION_SYM_USEROBJ] = {"sym-userobj", false, NULL},
	[OPTION_PRINTK_MSG_ONLY] = {"printk-msg-only", false, NULL},
	[OPTION_CONTEXT_INFO] = {"context-info", true, NULL},
	[OPTION_LATENCY_FORMAT] = {"latency-format", false, NULL},
	[OPTION_RECORD_CMD] = {"record-cmd", true, NULL},
	[OPTION_RECORD_TGID] = {"record-tgid", false, NULL},
	[OPTION_OVERWRITE] = {"overwrite", true, NULL},
	[OPTION_DISABLE_ON_FREE] = {"disable_on_free", false, NULL},
	[OPTION_IRQ_INFO] = {"irq-info", true, NULL},
	[OPTION_MARKERS] = {"markers", true, NULL},
	[OPTION_PAUSE_ON_TRACE] = {"pause-on-trace", false, NULL},
	[OPTION_FUNC_STACK_TRACE] = {"func_stack_trace", false, "function"},
	[OPTION_FUNC_NO_REPEATS] = {"func-no-repeats", false, "function"},
	[OPTION_FUNC_ARGS] = {"func-args", false, "function"},
	[OPTION_FUNCGRAPH_OVERRUN] = {"funcgraph-overrun", false, "function_graph"},
	[OPTION_FUNCGRAPH_CPU] = {"funcgraph-cpu", true, "function_graph"},
	[OPTION_FUNCGRAPH_OVERHEAD] = {"funcgraph-overhead", true, "function_graph"},
	[OPTION_FUNCGRAPH_PROC] = {"funcgraph-proc", false, "function_graph"},
	[OPTION_FUNCGRAPH_DURATION] = {"funcgraph-duration", true, "function_graph"},
	[OPTION_FUNCGRAPH_ABSTIME] = {"funcgraph-abstime", false, "function_graph"},
	[OPTION_FUNCGRAPH_TAIL] = {"funcgraph-tail", false, "function_graph"},
	[OPTION_FUNCGRAPH_RETVAL] = {"funcgraph-retval", false, "function_graph"},
	[OPTION_FUNCGRAPH_RETVAL_HEX] = {"funcgraph-retval-hex", false, "function_graph"},
	[OPTION_FUNCGRAPH_RETADDR] = {"funcgraph-retaddr", false, "function_graph"},
	[OPTION_FUNCGRAPH_ARGS] = {"funcgraph-args", false, "function_graph"},
	[OPTION_GRAPH_TIME] = {"graph-time", true, "function_graph"},
};

uint64_t options_default(void)
{
	uint64_t options = 0;

	for (unsigned i = 0; i < TREE_OPTIONS; i++)
		options |= table[i].on ? (uint64_t)1 << i : 0;
	return options;
}

const char *options_name(enum tree_option option)
{
	return option < TREE_OPTIONS ? table[option].name : NULL;
}

bool options_is_listed(enum tree_option option, const char *tracer)
{
	return !table[option].tracer || !strcmp(table[option].tracer, tracer);
}

void options_set(struct tree_instance *instance, enum tree_option option, bool on)
{
	instance->options = (instance->options & ~((uint64_t)1 << option)) | (on ? (uint64_t)1 << option : 0);
	if (option == OPTION_FUNC_NO_REPEATS) {
		free(instance->source.repeats);
		instance->source.repeats = NULL;
		instance->source.repeat_count = 0;
	}
	if (option == OPTION_OVERWRITE)
		instance->store.keeps_oldest = !on;
}

bool options_tells(enum tree_option option)
{
	return option == OPTION_FUNCGRAPH_ARGS || option == OPTION_FUNCGRAPH_RETVAL ||
	       option == OPTION_FUNCGRAPH_RETADDR || option == OPTION_FUNC_ARGS;
}

void options_drop(struct tree_instance *instance)
{
	for (unsigned i = 0; i < TREE_OPTIONS; i++)
		if (options_tells(i))
			options_set(instance, i, false);
}
