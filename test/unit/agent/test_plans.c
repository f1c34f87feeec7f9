/*
 * The test forks at each step of a plan that is carried out, and looks which plans the child keeps and tells.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include <agent/agent.h>

#define KEPT	4u
#define MANY	300u
#define REGION	0x10000u
#define PLAN(i) ((struct agent_sites){.plan_id = (i), .region.lo = ((i) + 1) * REGION})

static struct calltap_had_plan told[MANY];
static uint32_t told_count;

/* In place of the agent's socket. */
int agent_send(const void *message, uint32_t size)
{
	const struct calltap_msg_plans *plans = message;

	if (plans->head.type != CALLTAP_MSG_PLANS || plans->head.size != size || size > CALLTAP_MSG_MAX ||
	    size != sizeof(*plans) + plans->count * sizeof(plans->plans[0]) || told_count + plans->count > MANY)
		abort();
	memcpy(told + told_count, plans->plans, plans->count * sizeof(told[0]));
	told_count += plans->count;
	return 0;
}

static void have_plans(uint32_t count)
{
	memset(&agent, 0, sizeof(agent));
	told_count = 0;
	for (uint32_t i = 0; i < count; i++)
		agent.sites[agent.sites_count++] = PLAN(i);
	agent.heads_count = 1;
}

/* Fork, and return what the child keeps: a bit for each plan that it has, and another one if the plan is torn. */
static uint64_t kept_by_child(void)
{
	int ends[2], status;
	uint64_t kept = 0;
	pid_t pid;

	assert_int_equal(pipe(ends), 0);
	pid = fork();
	if (!pid) {
		agent_plan_settle();
		if (agent.open.state != AGENT_PLAN_NONE || agent_plans_tell() || told_count != agent.sites_count)
			_exit(1);
		for (uint32_t i = 0; i < told_count; i++) {
			if (told[i].region != (told[i].plan_id + 1) * REGION)
				_exit(2);
			kept |= 1ull << told[i].plan_id;
			kept |= told[i].flags & CALLTAP_HAD_TORN ? 1ull << (told[i].plan_id + 16) : 0;
		}
		kept |= (uint64_t)agent.heads_count << 32;
		_exit(write(ends[1], &kept, sizeof(kept)) != sizeof(kept));
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(read(ends[0], &kept, sizeof(kept)), sizeof(kept));
	close(ends[0]);
	close(ends[1]);
	return kept;
}

static void a_fork_has_a_plan_or_has_it_not(void **state)
{
	const uint64_t before = 1ull << 32 | 0xf, after = 2ull << 32 | 0x1f;

	have_plans(KEPT);
	assert_true(kept_by_child() == before);
	agent_plan_begin(&(struct calltap_msg_plan){.plan_id = KEPT});
	assert_true(kept_by_child() == before);
	agent.heads_count++;
	assert_true(kept_by_child() == before);
	agent.sites[agent.sites_count++] = (struct agent_sites){.plan_id = 77, .region.lo = 1}; /* half of it */
	assert_true(kept_by_child() == before);
	agent.sites[KEPT] = PLAN(KEPT);
	assert_true(kept_by_child() == before);
	agent_plan_end();
	assert_true(kept_by_child() == after);
	agent_plan_settle(); /* a control thread that comes back in the same process */
	assert_int_equal(agent.sites_count, KEPT + 1);
}

static void sites_that_are_being_written_are_torn(void **state)
{
	have_plans(KEPT);
	agent_plan_begin(&(struct calltap_msg_plan){.plan_id = KEPT});
	agent.sites[agent.sites_count++] = PLAN(KEPT);
	agent_plan_writes(PLAN(KEPT).region.lo);
	assert_true(kept_by_child() == (1ull << 32 | 1ull << (KEPT + 16) | 0x1f));
	agent_plan_end();
	assert_true(kept_by_child() == (1ull << 32 | 0x1f));
}

/* An object is back at its old place: the list of its plan is written anew. */
static void a_plan_that_is_carried_out_again_is_not_kept(void **state)
{
	have_plans(KEPT);
	agent_plan_begin(&(struct calltap_msg_plan){.plan_id = 1, .region = PLAN(1).region.lo});
	agent.sites[1].plan_id = 99;
	assert_true(kept_by_child() == (1ull << 32 | 0xd));
	agent.sites[1] = PLAN(1);
	agent_plan_writes(PLAN(1).region.lo);
	assert_true(kept_by_child() == (1ull << 32 | 1ull << 17 | 0xf));
	agent_plan_end();
	assert_true(kept_by_child() == (1ull << 32 | 0xf));
}

static void all_plans_are_told(void **state)
{
	have_plans(MANY);
	agent.sites[200].waits = true;
	agent.sites[200].blocks.lo = 0x5000;
	assert_int_equal(agent_plans_tell(), 0);
	assert_int_equal(told_count, MANY);
	for (uint32_t i = 0; i < MANY; i++) {
		assert_int_equal(told[i].plan_id, i);
		assert_int_equal(told[i].region, (i + 1) * REGION);
		assert_int_equal(told[i].flags, i == 200 ? CALLTAP_HAD_WAITS : 0);
		assert_int_equal(told[i].blocks, i == 200 ? 0x5000 : 0);
	}
	have_plans(0);
	assert_int_equal(agent_plans_tell(), 0);
	assert_int_equal(told_count, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_fork_has_a_plan_or_has_it_not),
		cmocka_unit_test(sites_that_are_being_written_are_torn),
		cmocka_unit_test(a_plan_that_is_carried_out_again_is_not_kept),
		cmocka_unit_test(all_plans_are_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
