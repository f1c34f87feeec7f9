/*
 * `calltap set` on a session, asked for by its socket: what the agent is told
 * and in which order, what is kept, and what becomes of it when an answer does
 * not come or the change is refused.  The agent is a thread of this program.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <host/remote/remote.h>

#include "host/record/triggers.h"
#include "support.h"

#define REGION	  0x7000000u
#define HEARD_MAX 64u
#define PATIENT	  30000

/* What is chosen and what is not. */
#define FUNCTION(name)                                                                                                 \
	void name(void);                                                                                               \
	void name(void)                                                                                                \
	{                                                                                                              \
		__asm__ volatile("" ::: "memory");                                                                     \
	}
FUNCTION(alpha)
FUNCTION(beta)

/* A message that the agent has got. */
struct heard {
	uint32_t type, on, count, live;
	uint64_t plan;
	struct calltap_msg_set set;
	bool alpha, beta; /* of SWITCH: they are in it */
};

static struct bench *bench;
static struct image *image;
static char folder[] = "/tmp/calltap-test-XXXXXX";
static struct heard heard[HEARD_MAX];
static uint32_t heard_count, alpha_at, beta_at;
static bool deaf, ending;
static sem_t caught_up; /* the agent has come to the end of what it was sent */
static pthread_t agent;

static void answer_switch(struct heard *entry, const struct calltap_msg_switch *message)
{
	const struct calltap_msg_switch_done done = {.switched = message->count};

	entry->on = message->on;
	entry->count = message->count;
	entry->plan = message->plan_id;
	for (uint32_t i = 0; i < message->count; i++) {
		entry->alpha |= message->sites[i] == alpha_at;
		entry->beta |= message->sites[i] == beta_at;
	}
	if (!deaf)
		assert_int_equal(live_answer(&bench->session, &bench->process, &done), 0);
}

static void answer_plan(struct heard *entry, const struct calltap_msg_plan *message)
{
	entry->plan = message->plan_id;
	entry->live = message->live;
	entry->count = message->site_count;
	if (deaf)
		return;
	bench->process.maps[message->plan_id].region = REGION + (uint32_t)message->plan_id * CALLTAP_PAGE;
	bench->process.stubs_open--;
	pthread_cond_broadcast(&bench->session.answered);
}

/* It hears, and in place of the server thread takes its own answers in. */
static void *agent_main(void *arg)
{
	struct pollfd poll_fd = {.fd = bench->target, .events = POLLIN};
	union {
		struct calltap_msg head;
		struct calltap_msg_set set;
		struct calltap_msg_plan plan;
		struct calltap_msg_switch message;
		char bytes[CALLTAP_MSG_MAX];
	} in;

	while (!__atomic_load_n(&ending, __ATOMIC_ACQUIRE)) {
		struct heard *entry;

		if (poll(&poll_fd, 1, 10) <= 0 || recv(bench->target, &in, sizeof(in), 0) <= 0)
			continue;
		if (in.head.type == CALLTAP_MSG_GO) {
			sem_post(&caught_up);
			continue;
		}
		pthread_mutex_lock(&bench->session.lock);
		assert_true(heard_count < HEARD_MAX);
		entry = &heard[heard_count++];
		*entry = (struct heard){.type = in.head.type};
		if (in.head.type == CALLTAP_MSG_SET)
			entry->set = in.set;
		else if (in.head.type == CALLTAP_MSG_PLAN)
			answer_plan(entry, &in.plan);
		else if (in.head.type == CALLTAP_MSG_SWITCH)
			answer_switch(entry, &in.message);
		pthread_mutex_unlock(&bench->session.lock);
	}
	return NULL;
}

static uint32_t place_of(const char *name)
{
	for (uint32_t i = 0; i < image->site_count; i++)
		if (!strcmp(image->sources[i]->symbol, name))
			return i;
	fail_msg("no site of %s", name);
	return 0;
}

static int setup(void **state)
{
	struct session *session;
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);

	bench = bench_create(CALLTAP_MODE_BLOCK);
	session = &bench->session;
	session->settings = (struct settings){.options = bench->options, .tracing = true};
	steer_take(session, &session->settings);
	assert_int_equal(images_get(&image, &session->images, fd, "/proc/self/exe", false), 0);
	close(fd);
	assert_int_equal(image_decide(&session->images, image), 0);
	alpha_at = place_of("alpha");
	beta_at = place_of("beta");
	bench->process.maps = calloc(1, sizeof(*bench->process.maps));
	bench->process.maps[0] = (struct target_map){.image = image, .region = REGION, .mapped = true};
	bench->process.map_count = 1;
	bench->process.greeted = bench->process.welcome = true;
	heard_count = 0;
	deaf = ending = false;
	assert_int_equal(sem_init(&caught_up, 0, 0), 0);
	assert_int_equal(steer_begin(session, getpid(), NULL), 0);
	assert_non_null(session->remote);
	assert_int_equal(pthread_create(&agent, NULL, agent_main, NULL), 0);
	return 0;
}

static int teardown(void **state)
{
	__atomic_store_n(&ending, true, __ATOMIC_RELEASE);
	pthread_join(agent, NULL);
	steer_end(&bench->session);
	bench_destroy(bench);
	return 0;
}

/* Nobody waits for an answer to the limits: what was sent has been heard once this returns. */
static void wait_for_agent(void)
{
	const struct calltap_msg last = {CALLTAP_MSG_GO, sizeof(last)};

	assert_int_equal(channel_send(bench->process.socket, &last, sizeof(last), NULL, 0), 0);
	while (sem_wait(&caught_up))
		;
}

/* Ask for a change as `calltap set` does. */
static int set(const char *word, struct calltap_diag *diag)
{
	const struct remote_request request = {
		.verb = "set", .words = &word, .count = 1, .fd = -1, .timeout_ms = PATIENT};
	struct calltap_diag own;
	char *answer = NULL;
	int connected, ret;

	heard_count = 0;
	assert_int_equal(remote_connect(&connected, getpid(), &own), 0);
	ret = remote_ask(connected, &request, &answer, diag ? diag : &own);
	close(connected);
	free(answer);
	wait_for_agent();
	return ret;
}

static void check_switch(uint32_t at, bool on, uint64_t plan, uint32_t count)
{
	assert_true(at < heard_count);
	assert_int_equal(heard[at].type, CALLTAP_MSG_SWITCH);
	assert_int_equal(heard[at].on, on);
	assert_int_equal(heard[at].plan, plan);
	assert_int_equal(heard[at].count, count);
}

static void tracing_goes_off_and_on(void **state)
{
	assert_int_equal(set("tracing=off", NULL), 0);
	assert_int_equal(heard_count, 2);
	assert_int_equal(heard[0].type, CALLTAP_MSG_SET);
	check_switch(1, false, 0, image->site_count);
	assert_true(image->off[alpha_at] && image->off[beta_at]);
	assert_false(bench->session.settings.tracing);
	assert_int_equal(set("tracing=off", NULL), 0);
	assert_int_equal(heard_count, 1); /* it was */
	assert_int_equal(set("tracing=on", NULL), 0);
	assert_int_equal(heard_count, 2);
	check_switch(1, true, 0, image->site_count);
	assert_false(image->off[alpha_at] || image->off[beta_at]);
	assert_int_equal(bench->process.map_count, 1);
}

static void filters_switch_what_they_change(void **state)
{
	assert_int_equal(set("trace=alpha", NULL), 0);
	assert_int_equal(heard_count, 2);
	check_switch(1, false, 0, image->site_count - 1);
	assert_true(heard[1].beta && !heard[1].alpha);
	assert_int_equal(set("trace=beta", NULL), 0);
	assert_int_equal(heard_count, 3);
	check_switch(1, false, 0, 1);
	assert_true(heard[1].alpha);
	check_switch(2, true, 0, 1);
	assert_true(heard[2].beta);
	assert_true(image->off[alpha_at] && !image->off[beta_at]);
}

/* Limits first, then stubs, then the sites that lead to them. */
static void other_stubs_are_made_once(void **state)
{
	assert_int_equal(set("max-depth=3", NULL), 0);
	assert_int_equal(heard_count, 3);
	assert_int_equal(heard[0].type, CALLTAP_MSG_SET);
	assert_int_equal(heard[0].set.depth_max, 3);
	assert_int_equal(heard[1].type, CALLTAP_MSG_PLAN);
	assert_int_equal(heard[1].live, CALLTAP_PLAN_STUBS);
	assert_int_equal(heard[1].plan, 1);
	assert_int_equal(heard[1].count, image->site_count);
	check_switch(2, true, 1, image->site_count);
	assert_int_equal(image->variant, 1);
	assert_int_equal(set("max-depth=5", NULL), 0);
	assert_int_equal(heard_count, 1);
	assert_int_equal(heard[0].set.depth_max, 5);
	assert_int_equal(set("max-depth=", NULL), 0);
	assert_int_equal(heard_count, 2);
	assert_int_equal(heard[0].set.depth_max, 0);
	check_switch(1, true, 0, image->site_count);
	assert_int_equal(set("max-depth=4", NULL), 0);
	assert_int_equal(heard_count, 2); /* its stubs are there */
	check_switch(1, true, 1, image->site_count);
	assert_int_equal(bench->process.map_count, 2);
}

static void refused(const char *word, int error)
{
	struct calltap_diag diag = {0};
	bool tracing = bench->session.settings.tracing;
	const struct filter_set *filters = bench->session.images.filters;
	uint32_t depth = bench->session.settings.options.depth_max;

	assert_int_equal(set(word, &diag), error);
	assert_true(diag.text[0]);
	assert_int_equal(heard_count, 0);
	assert_int_equal(image->variant, 0);
	assert_false(image->off[alpha_at] || image->off[beta_at]);
	assert_int_equal(bench->session.settings.tracing, tracing);
	assert_int_equal(bench->session.settings.options.depth_max, depth);
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
	refused("tracer=profile", -EOPNOTSUPP);
	/* What triggers wait for has an exit. */
	bench->session.images.triggers = triggers;
	refused("tracer=function", -EOPNOTSUPP);
	bench->session.images.triggers = NULL;
	triggers_destroy(triggers);
	/* And the next one that is right is taken. */
	assert_int_equal(set("trace=alpha", NULL), 0);
	assert_true(image->off[beta_at]);
}

/* An agent that does not answer: told so after one wait (5 s); the settings are those that it will have. */
static void a_late_answer_is_told(void **state)
{
	struct calltap_diag diag = {0};

	pthread_mutex_lock(&bench->session.lock);
	deaf = true;
	pthread_mutex_unlock(&bench->session.lock);
	assert_int_equal(set("tracing=off", &diag), -ETIMEDOUT);
	assert_non_null(strstr(diag.text, "not all processes have answered"));
	check_switch(1, false, 0, image->site_count);
	assert_true(bench->process.silent);
	assert_true(image->off[alpha_at]);
	assert_false(bench->session.settings.tracing);
	/* It is not waited for again. */
	assert_int_equal(set("tracing=on", &diag), -ETIMEDOUT);
	assert_true(bench->session.settings.tracing);
}

int main(void)
{
#define case_of(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		case_of(tracing_goes_off_and_on),   case_of(filters_switch_what_they_change),
		case_of(other_stubs_are_made_once), case_of(a_refused_change_changes_nothing),
		case_of(a_late_answer_is_told),
	};
	char sockets[64];
	int failed;

	if (!mkdtemp(folder))
		return 1;
	setenv("XDG_RUNTIME_DIR", folder, 1);
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	snprintf(sockets, sizeof(sockets), "%s/calltap", folder);
	rmdir(sockets);
	rmdir(folder);
	return failed;
}
