/*
 * The test of each path of the tree: do the sides differ by more than the runs of one side do?  See twin.h.  Context:
 * host.
 *
 * Paths are chosen for the test by their time in all runs of both sides together: that says nothing of a difference
 * between the sides, so the choice does not make the test's answers more frequent.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "diff.h"
#include "rank.h"

/* A run's time along the path, per what the run is divided by. */
static double time_of(const struct twin_run *run, uint32_t node)
{
	return node < run->count ? (double)run->totals[node] / run->per : 0;
}

static double mean_time(const struct twin *twin, uint32_t node)
{
	double sum = 0;

	for (unsigned i = 0; i < twin->run_count; i++)
		sum += time_of(&twin->runs[i], node);
	return sum / twin->run_count;
}

/* As with functions, each run is one value, a logarithm; a run may be without calls along the path. */
static double test_path(const struct twin *twin, uint32_t node)
{
	struct runs_value values[DIFF_INPUTS_MAX];
	double change;

	for (unsigned i = 0; i < twin->run_count; i++)
		values[i] = (struct runs_value){.side = twin->runs[i].side,
						.value = log(time_of(&twin->runs[i], node) + 1 / twin->runs[i].per)};
	return runs_test(values, twin->run_count, &change);
}

int twin_judge(struct twin *twin, double least)
{
	const uint32_t nodes = twin->shape.count;
	double *p = calloc(nodes, sizeof(*p)), *q = calloc(nodes, sizeof(*q));
	uint32_t tests = 0;
	int err;

	twin->q = malloc(nodes * sizeof(*twin->q));
	err = p && q && twin->q ? 0 : -ENOMEM;
	for (uint32_t i = 0; i < nodes && !err; i++) {
		twin->q[i] = i == TREE_ROOT || mean_time(twin, i) < least ? TWIN_UNTESTED : 0;
		if (twin->q[i] < TWIN_UNTESTED)
			p[tests++] = test_path(twin, i);
	}
	if (!err)
		err = rank_adjust(q, p, tests);
	tests = 0;
	for (uint32_t i = 0; i < nodes && !err; i++) {
		if (twin->q[i] < TWIN_UNTESTED)
			twin->q[i] = q[tests++];
	}
	free(p);
	free(q);
	return err;
}

bool twin_differs(const struct twin *twin, uint32_t node)
{
	const double a = twin_total(twin, SIDE_A, node), b = twin_total(twin, SIDE_B, node);

	return twin->q && twin->q[node] <= DIFF_Q_MAX && fabs(b - a) >= DIFF_CHANGE_MIN * fmax(a, b);
}
