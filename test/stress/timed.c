/*
 * The cost of a call of a tiny function as a timed frame: by tracer profile, by that with `--time adaptive`, and with a
 * trigger whose limit no call reaches, beside function_graph and two clock reads, all in one process and in rounds that
 * take turns.
 *
 *     timed [ROUNDS]
 *
 * Prints "NAME NS" per line, the smallest of the rounds.  Exit status 1 when the calls were not all counted.
 */
#include <string.h>

#include "costs.h"

LEAF(plain_leaf)
LEAF(graph_leaf)
LEAF(profile_leaf)
LEAF(trigger_leaf)
LEAF(ticked_leaf)

enum { GRAPH, PROFILE, TRIGGER, TICKED };
static const struct timed_function functions[] = {
	[GRAPH] = {graph_leaf, 0},
	[PROFILE] = {profile_leaf, CALLTAP_SITE_TIMED | CALLTAP_SITE_PROFILE},
	[TRIGGER] = {trigger_leaf, CALLTAP_SITE_TIMED | CALLTAP_SITE_TRIGGER},
	[TICKED] = {ticked_leaf, CALLTAP_SITE_TIMED | CALLTAP_SITE_PROFILE | CALLTAP_SITE_BRIEF},
};

/* In overwrite mode, as no tool reads. */
static void round_of_records(double *graph, double *trigger)
{
	struct calltap_triggers *triggers;
	struct fake_arena fake;

	fake_arena_create(&fake, CALLTAP_MODE_OVERWRITE, 1, 65536, 4);
	fake_start(&fake);
	triggers = timed_triggers(3, 16);
	timed_limit(triggers, TRIGGER)->ticks = (uint64_t)1 << 40;
	keep(graph, measure(graph_leaf));
	keep(trigger, measure(trigger_leaf));
	if (triggers->taken || !fake_ring(&fake, 0)->opened)
		die("a call was taken for a long one, or none was recorded");
	if (probe_triggers_set(NULL, 0))
		die("the triggers stay");
	fake_stop();
	fake_arena_destroy(&fake);
}

static void round_of_sums(double *profile)
{
	struct fake_arena fake;

	timed_profile_start(&fake, 1, 16, 16);
	keep(profile, measure(profile_leaf));
	if (timed_entry(&fake, 0, PROFILE)->calls != CALLS || timed_histogram_sum(&fake, 0, PROFILE) != CALLS)
		die("not every call was counted");
	timed_profile_stop(&fake);
}

/* A tick that stays: no call takes any time by it. */
static void round_of_ticks(double *ticked)
{
	static struct calltap_times times = {.tick = 1};
	struct fake_arena fake;

	probe_times = &times;
	timed_profile_start(&fake, 1, 16, 16);
	keep(ticked, measure(ticked_leaf));
	if (timed_entry(&fake, 0, TICKED)->calls != CALLS || timed_entry(&fake, 0, TICKED)->total)
		die("not every call was counted, or one took time");
	timed_profile_stop(&fake);
	probe_times = NULL;
}

/* The probes' memory is new in each round: so is the thread's place in it. */
static void forget(void)
{
	probe_thread = (struct probe_thread)PROBE_THREAD_NEW;
}

int main(int argc, char **argv)
{
	double plain = 0, two = 0, graph = 0, profile = 0, trigger = 0, ticked = 0;
	int rounds = argc > 1 ? atoi(argv[1]) : 5;

	timed_patch(functions, sizeof(functions) / sizeof(functions[0]));
	for (int i = 0; i < rounds; i++) {
		keep(&plain, measure(plain_leaf));
		keep(&two, measure(clocks));
		forget();
		round_of_records(&graph, &trigger);
		forget();
		round_of_sums(&profile);
		forget();
		round_of_ticks(&ticked);
	}
	printf("untraced %.2f\nclock2 %.2f\nfunction_graph %.2f\ntrigger %.2f\nprofile %.2f\nprofile_adaptive %.2f\n",
	       plain, two, graph, trigger, profile, ticked);
	return 0;
}
