/*
 * The cost of a call of a tiny function with a handler of the program's own, called by the dispatcher alone, beside
 * function_graph and two clock reads, all in one process and in rounds that take turns.
 *
 *     dispatch [ROUNDS]
 *
 * Prints "NAME NS" per line, the smallest of the rounds.  Exit status 1 when a call was missed.
 */
#include <string.h>

#include <probe/handlers.h>
#include "costs.h"

LEAF(plain_leaf)
LEAF(graph_leaf)
LEAF(entry_leaf)
LEAF(both_leaf)
LEAF(data_leaf)
LEAF(nobody_leaf)
LEAF(two_leaf)

enum { GRAPH, ENTRY, BOTH, DATA, NOBODY, TWO, FUNCTIONS };
static const struct timed_function functions[] = {
	[GRAPH] = {graph_leaf, 0},
	[ENTRY] = {entry_leaf, CALLTAP_SITE_HANDLED | CALLTAP_SITE_CALL},
	[BOTH] = {both_leaf, CALLTAP_SITE_HANDLED},
	[DATA] = {data_leaf, CALLTAP_SITE_HANDLED},
	[NOBODY] = {nobody_leaf, CALLTAP_SITE_HANDLED},
	[TWO] = {two_leaf, CALLTAP_SITE_HANDLED},
};

static uint32_t entries, exits;

static int on_entry(struct calltap_call *call, void *context)
{
	(void)call;
	++*(uint32_t *)context;
	return 0;
}

static void on_exit_(struct calltap_call *call, void *context)
{
	(void)call;
	(void)context;
	exits++;
}

static struct calltap_handlers handlers;
static struct calltap_handled rows[FUNCTIONS];
static uint64_t bodies[FUNCTIONS];
static struct probe_handled_table table = {
	.functions = FUNCTIONS, .rows = rows, .bodies = bodies, .handlers = &handlers};

static void register_all(void)
{
	for (unsigned i = 0; i < 3; i++)
		handlers.slots[i] = (struct calltap_handler){
			.entry = (uint64_t)on_entry,
			.exit = (uint64_t)on_exit_,
			.context = (uint64_t)&entries,
			.flags = CALLTAP_HANDLER_GENERAL_REGS,
		};
	handlers.slots[1].flags |= CALLTAP_HANDLER_DATA;
	for (unsigned i = 0; i < FUNCTIONS; i++)
		bodies[i] = (uint64_t)functions[i].function;
	rows[ENTRY].who = rows[BOTH].who = 1u << CALLTAP_HANDLED_FIRST;
	rows[DATA].who = 2u << CALLTAP_HANDLED_FIRST;
	rows[TWO].who = 5u << CALLTAP_HANDLED_FIRST;
	probe_handled_set(&table);
}

int main(int argc, char **argv)
{
	static const char *const names[] = {"untraced", "clock2", "function_graph", "entry",
					    "both",	"data",	  "nobody",	    "two"};
	int rounds = argc > 1 ? atoi(argv[1]) : 5;
	double least[8] = {0};
	struct fake_arena fake;

	timed_patch(functions, FUNCTIONS);
	fake_arena_create(&fake, CALLTAP_MODE_OVERWRITE, 1, 65536, 4);
	fake_start(&fake);
	register_all();
	for (int i = 0; i < rounds; i++) {
		keep(&least[0], measure(plain_leaf));
		keep(&least[1], measure(clocks));
		keep(&least[2], measure(graph_leaf));
		keep(&least[3], measure(entry_leaf));
		keep(&least[4], measure(both_leaf));
		keep(&least[5], measure(data_leaf));
		keep(&least[6], measure(nobody_leaf));
		keep(&least[7], measure(two_leaf));
	}
	for (unsigned i = 0; i < 8; i++)
		printf("%s %.2f\n", names[i], least[i]);
	if (entries != rounds * CALLS * 5 || exits != rounds * CALLS * 4)
		die("not every call was handled");
	return 0;
}
