/*
 * `calltap set` on a session, asked for at its socket: the messages to the agent and their order, the settings that
 * are kept, and what becomes of a change when an answer does not come or the agent refuses.  The agent is a thread of
 * this program.
 */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "fake_agent.h"
#include "host/hook/triggers.h"
#include "host/hook/watch.h"

static struct fake_agent *agent;
static struct bench *bench;
static struct image *image;

static int setup(void **state)
{
	agent = fake_agent_create("function_graph");
	bench = agent->bench;
	image = agent->image;
	fake_agent_decide(agent);
	fake_agent_begin(agent);
	return 0;
}

static int teardown(void **state)
{
	fake_agent_end(agent);
	return 0;
}

static int set(const char *word, struct calltap_diag *diag)
{
	return fake_agent_set(agent, word, diag);
}

static void check_switch(uint32_t at, bool on, uint64_t plan, uint32_t count)
{
	assert_true(at < agent->heard_count);
	assert_int_equal(agent->heard[at].type, CALLTAP_MSG_SWITCH);
	assert_int_equal(agent->heard[at].on, on);
	assert_int_equal(agent->heard[at].plan, plan);
	assert_int_equal(agent->heard[at].count, count);
}

static void tracing_goes_off_and_on(void **state)
{
	assert_int_equal(set("tracing=off", NULL), 0);
	assert_int_equal(agent->heard_count, 2);
	assert_int_equal(agent->heard[0].type, CALLTAP_MSG_SET);
	check_switch(1, false, 0, image->site_count);
	assert_true(image->off[agent->alpha] && image->off[agent->beta]);
	assert_false(bench->instance.settings.tracing);
	assert_int_equal(set("tracing=off", NULL), 0);
	assert_int_equal(agent->heard_count, 1); /* tracing was off before */
	assert_int_equal(set("tracing=on", NULL), 0);
	assert_int_equal(agent->heard_count, 2);
	check_switch(1, true, 0, image->site_count);
	assert_false(image->off[agent->alpha] || image->off[agent->beta]);
	assert_int_equal(bench->process.map_count, 1);
}

static void filters_switch_what_they_change(void **state)
{
	assert_int_equal(set("trace=alpha", NULL), 0);
	assert_int_equal(agent->heard_count, 2);
	check_switch(1, false, 0, image->site_count - 1);
	assert_true(agent->heard[1].beta && !agent->heard[1].alpha);
	assert_int_equal(set("trace=beta", NULL), 0);
	assert_int_equal(agent->heard_count, 3);
	check_switch(1, false, 0, 1);
	assert_true(agent->heard[1].alpha);
	check_switch(2, true, 0, 1);
	assert_true(agent->heard[2].beta);
	assert_true(image->off[agent->alpha] && !image->off[agent->beta]);
}

/* Limits first, then stubs, then the sites that lead to them. */
static void other_stubs_are_made_once(void **state)
{
	assert_int_equal(set("max-depth=3", NULL), 0);
	assert_int_equal(agent->heard_count, 3);
	assert_int_equal(agent->heard[0].type, CALLTAP_MSG_SET);
	assert_int_equal(agent->heard[0].set.depth_max, 3);
	assert_int_equal(agent->heard[1].type, CALLTAP_MSG_PLAN);
	assert_int_equal(agent->heard[1].live, CALLTAP_PLAN_STUBS);
	assert_int_equal(agent->heard[1].plan, 1);
	assert_int_equal(agent->heard[1].count, image->site_count);
	check_switch(2, true, 1, image->site_count);
	assert_int_equal(image->variant, 1);
	assert_int_equal(set("max-depth=5", NULL), 0);
	assert_int_equal(agent->heard_count, 1);
	assert_int_equal(agent->heard[0].set.depth_max, 5);
	assert_int_equal(set("max-depth=", NULL), 0);
	assert_int_equal(agent->heard_count, 2);
	assert_int_equal(agent->heard[0].set.depth_max, 0);
	check_switch(1, true, 0, image->site_count);
	assert_int_equal(set("max-depth=4", NULL), 0);
	assert_int_equal(agent->heard_count, 2); /* the stubs for the limit are there already */
	check_switch(1, true, 1, image->site_count);
	assert_int_equal(bench->process.map_count, 2);
}

/* A filter is refused when it is set, and not when it is to be used. */
static void what_is_off_has_to_match_too(void **state)
{
	assert_int_equal(set("tracing=off", NULL), 0);
	assert_int_equal(set("trace=no_such_function", NULL), -EINVAL);
	assert_true(image->off[agent->alpha]);
	assert_int_equal(set("trace=alpha", NULL), 0);
	assert_int_equal(set("tracing=on", NULL), 0);
	assert_true(!image->off[agent->alpha] && image->off[agent->beta]);
}

static void refused(const char *word, int error)
{
	struct calltap_diag diag = {0};
	bool tracing = bench->instance.settings.tracing;
	const struct filter_set *filters = bench->session.images.filters;
	uint32_t depth = bench->instance.settings.options.depth_max;

	assert_int_equal(set(word, &diag), error);
	assert_true(diag.text[0]);
	assert_int_equal(agent->heard_count, 0);
	assert_int_equal(image->variant, 0);
	assert_false(image->off[agent->alpha] || image->off[agent->beta]);
	assert_int_equal(bench->instance.settings.tracing, tracing);
	assert_int_equal(bench->instance.settings.options.depth_max, depth);
	assert_ptr_equal(bench->session.images.filters, filters);
	assert_ptr_equal(bench->session.images.tracer, tracer_find("function_graph"));
	assert_false(bench->session.images.needs.tree_filter || bench->session.images.needs.depth);
}

static void a_refused_change_changes_nothing(void **state)
{
	struct triggers *triggers;

	assert_int_equal(triggers_create(&triggers), 0);
	refused("trace=no_such_function", -EINVAL);
	refused("graph=no_such_function", -EINVAL);
	refused("tracing=perhaps", -EINVAL);
	refused("max-depth=deep", -EINVAL);
	refused("colour=red", -EINVAL);
	refused("mode=drop", -EOPNOTSUPP);
	refused("tracer=profile", -EINVAL);
	/* A function that triggers wait for needs its exit. */
	bench->instance.settings.options.triggers = triggers;
	refused("tracer=function", -EINVAL);
	bench->instance.settings.options.triggers = NULL;
	triggers_destroy(triggers);
	/* And the next one that is right is taken. */
	assert_int_equal(set("trace=alpha", NULL), 0);
	assert_true(image->off[agent->beta]);
}

static void set_deaf(bool deaf)
{
	session_lock(&bench->session);
	agent->deaf = deaf;
	session_unlock(&bench->session);
}

/* An agent that does not answer: told so after one wait (5 s); the settings are those that it will have. */
static void a_late_answer_is_told(void **state)
{
	struct calltap_diag diag = {0};

	set_deaf(true);
	bench_stop(bench);
	assert_int_equal(set("tracing=off", &diag), -ETIMEDOUT);
	assert_non_null(strstr(diag.text, "not all processes have answered"));
	check_switch(1, false, 0, image->site_count);
	assert_true(bench->process.silent);
	assert_true(image->off[agent->alpha]);
	assert_false(bench->instance.settings.tracing);
	/* The tool does not wait for the agent again. */
	assert_int_equal(set("tracing=on", &diag), -ETIMEDOUT);
	assert_true(bench->instance.settings.tracing);
}

/* Stubs that a stopped process makes when it goes on, after the session has given up waiting for them. */
static void late_stubs_are_led_to(void **state)
{
	struct calltap_msg_plan_done done = {.head = {CALLTAP_MSG_PLAN_DONE, sizeof(done)}, .plan_id = 1};
	struct session *session = &bench->session;
	struct calltap_diag diag = {0};

	set_deaf(true);
	bench_stop(bench);
	assert_int_equal(set("max-depth=3", &diag), -ETIMEDOUT);
	assert_non_null(strstr(diag.text, "they change when they go on"));
	assert_int_equal(agent->heard_count, 2);
	assert_int_equal(agent->heard[1].type, CALLTAP_MSG_PLAN);
	assert_int_equal(image->variant, 1);
	assert_true(bench->process.silent);
	set_deaf(false);
	image->off[agent->beta] = true;
	done.region = 0x7100000;
	assert_int_equal(send(bench->target, &done, sizeof(done), 0), sizeof(done));
	session_lock(session);
	assert_int_equal(target_serve(session, &bench->process), 0);
	session_unlock(session);
	fake_agent_wait(agent);
	assert_int_equal(agent->heard_count, 4);
	check_switch(2, false, 1, 1);
	assert_true(agent->heard[2].beta);
	check_switch(3, true, 1, image->site_count - 1);
	assert_false(bench->process.silent);
}

int main(void)
{
#define case_of(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		case_of(tracing_goes_off_and_on),      case_of(filters_switch_what_they_change),
		case_of(other_stubs_are_made_once),    case_of(a_refused_change_changes_nothing),
		case_of(what_is_off_has_to_match_too), case_of(a_late_answer_is_told),
		case_of(late_stubs_are_led_to),
	};

	return cmocka_run_group_tests(tests, fake_folder_make, fake_folder_remove);
}
