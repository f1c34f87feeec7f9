/* The options of an instance: names and defaults, those of the kernel (tree.h).  Context: host. */
#include "tree.h"

static const struct {
	const char *name;
	bool on;
} table[TREE_OPTIONS] = {
	[OPTION_PRINT_PARENT] = {"print-parent", true},
	[OPTION_SYM_OFFSET] = {"sym-offset", false},
	[OPTION_SYM_ADDR] = {"sym-addr", false},
	[OPTION_ANNOTATE] = {"annotate", true},
	[OPTION_CONTEXT_INFO] = {"context-info", true},
	[OPTION_IRQ_INFO] = {"irq-info", true},
	[OPTION_RECORD_TGID] = {"record-tgid", false},
	[OPTION_MARKERS] = {"markers", true},
	[OPTION_OVERWRITE] = {"overwrite", true},
	[OPTION_PRINTK_MSG_ONLY] = {"printk-msg-only", false},
	[OPTION_DISABLE_ON_FREE] = {"disable_on_free", false},
	[OPTION_FUNCGRAPH_CPU] = {"funcgraph-cpu", true},
	[OPTION_FUNCGRAPH_OVERHEAD] = {"funcgraph-overhead", true},
	[OPTION_FUNCGRAPH_PROC] = {"funcgraph-proc", false},
	[OPTION_FUNCGRAPH_DURATION] = {"funcgraph-duration", true},
	[OPTION_FUNCGRAPH_ABSTIME] = {"funcgraph-abstime", false},
	[OPTION_FUNCGRAPH_TAIL] = {"funcgraph-tail", false},
	[OPTION_GRAPH_TIME] = {"graph-time", true},
};

uint32_t options_default(void)
{
	uint32_t options = 0;

	for (unsigned i = 0; i < TREE_OPTIONS; i++)
		options |= table[i].on ? 1u << i : 0;
	return options;
}

const char *options_name(enum tree_option option)
{
	return option < TREE_OPTIONS ? table[option].name : NULL;
}

void options_set(struct tree_instance *instance, enum tree_option option, bool on)
{
	instance->options = (instance->options & ~(1u << option)) | (on ? 1u << option : 0);
	if (option == OPTION_OVERWRITE)
		instance->store.keeps_oldest = !on;
}
