/*
 * Functions of a running program are switched on and off thousands of times a
 * second, from the control side, while all its threads run through them.
 *
 *     live AGENT TRACE yes|no COMMAND...
 *
 * Records the command, which checks its own calls (test/prog/live.c), until it
 * ends, and meanwhile switches random sets of functions, by id and by name.
 * Exit status: the command's; 1, with a sentence, when a switch failed, unless
 * the "yes" says that the command unloads objects.
 */
#include <pthread.h>
#include <string.h>
#include <sys/wait.h>

#include <host/elf/filter.h>
#include <host/session/record.h>
#include <tracers/tracer.h>
#include "stress.h"

#define IDS_MAX 64u

struct work {
	struct record_options options;
	struct record_result result;
	struct calltap_diag diag;
	int error;
	int done; /* atomic */
};

struct totals {
	uint64_t requests, switched, failed;
};

static void *record(void *arg)
{
	struct work *work = arg;

	work->error = record_run(&work->options, &work->result, &work->diag);
	__atomic_store_n(&work->done, 1, __ATOMIC_RELEASE);
	return NULL;
}

static struct filter_set *filters_of(const char *text)
{
	struct filter_set *filters;

	if (filter_set_create(&filters) || (text && filter_set_add(filters, FILTER_TRACE, text, NULL)))
		die("no filter");
	return filters;
}

static int change(struct record_live *live, struct filter_set *filters, unsigned *seed, struct totals *totals)
{
	struct record_switched switched;
	uint32_t ids[IDS_MAX], count = 1 + (uint32_t)rand_r(seed) % 8;
	bool on = rand_r(seed) % 2;
	int ret;

	for (uint32_t i = 0; i < count; i++)
		ids[i] = 1 + (uint32_t)rand_r(seed) % IDS_MAX; /* some of which are no functions */
	ret = rand_r(seed) % 4 ? record_live_switch_ids(live, ids, count, on, &switched)
			       : record_live_switch(live, filters, on, &switched);
	totals->requests += !ret;
	totals->switched += switched.switched;
	totals->failed += switched.failed;
	return ret;
}

/* Until the recording's end. */
static void change_all(struct work *work, struct totals *totals)
{
	struct filter_set *filters = filters_of("*ea*"), *all = filters_of(NULL);
	struct record_switched switched;
	unsigned seed = 1;

	while (!__atomic_load_n(&work->done, __ATOMIC_ACQUIRE)) {
		int ret = change(work->options.live, filters, &seed, totals);

		if (ret && ret != -ESRCH)
			die(strerror(-ret));
		/* Before the start, and for what is left after the end. */
		if (ret || seed % 1000 == 0)
			ret = record_live_switch(work->options.live, all, seed % 2, &switched);
	}
	filter_set_destroy(filters);
	filter_set_destroy(all);
}

int main(int argc, char **argv)
{
	struct work work = {.options = {.size = sizeof(work.options), .options_text = "", .buffer_bytes = 1u << 20}};
	struct totals totals = {0};
	pthread_t thread;
	double start = now();

	if (getenv("MESON_EXE_WRAPPER")) {
		puts("skipped: an emulated program cannot start another");
		return 77;
	}
	if (argc < 5)
		die("AGENT TRACE yes|no COMMAND...");
	work.options.agent_path = argv[1];
	work.options.output = argv[2];
	work.options.command = argv + 4;
	work.options.tracer = tracer_find("function_graph");
	work.options.wait_max_ms = 1000;
	work.options.filters = filters_of(NULL);
	if (record_live_create(&work.options.live) || pthread_create(&thread, NULL, record, &work))
		die("no thread");
	change_all(&work, &totals);
	pthread_join(thread, NULL);
	record_live_destroy(work.options.live);
	filter_set_destroy(work.options.filters);
	if (work.error)
		calltap_diag_print(&work.diag, stderr);
	if (work.error || !WIFEXITED(work.result.wait_status))
		die("the command did not run to its end");
	if (!totals.switched)
		die("nothing was switched");
	if (totals.failed && strcmp(argv[3], "yes"))
		die("a switch failed");
	printf("%llu requests, %llu switches, %.0f a second\n", (unsigned long long)totals.requests,
	       (unsigned long long)totals.switched, (double)totals.switched / (now() - start));
	return WEXITSTATUS(work.result.wait_status);
}
