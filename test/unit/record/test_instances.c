/*
 * Further instances of a session, asked for at its socket: the messages to the agent and their order, which instance
 * may have which buffers, the end of an instance, and that nothing of it is left.  The agent is a thread of this
 * program.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <calltap/abi/handlers.h>
#include <host/remote/remote.h>

#include "fake_agent.h"
#include "host/hook/handlers.h"
#include "host/instance/instances.h"

#define TOLD_MAX     64u
#define WANTED(sets) ((uint64_t)(sets) << CALLTAP_HANDLED_INSTANCES_AT | CALLTAP_HANDLED_INSTANCES)

static struct fake_agent *agent;
static struct bench *bench;
static struct image *image;
static struct calltap_msg_instance told[TOLD_MAX]; /* the agent's messages, in order */
static uint32_t told_count;
static int refusal; /* the agent's answer to BEGIN */

static void check_arena(const struct calltap_msg_instance *message, int fd)
{
	const struct calltap_arena *arena;

	assert_int_equal(fcntl(fd, F_GET_SEALS) & F_SEAL_SHRINK, F_SEAL_SHRINK);
	assert_int_equal(lseek(fd, 0, SEEK_END), message->arena_size);
	arena = mmap(NULL, CALLTAP_PAGE, PROT_READ, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(arena, MAP_FAILED);
	assert_int_equal(arena->magic, CALLTAP_ARENA_MAGIC);
	assert_true(arena->ring_count);
	assert_int_equal(arena->session, 0); /* only the session's own arenas outlive a killed tool */
	munmap((void *)arena, CALLTAP_PAGE);
}

static void hear(struct fake_agent *hearing, struct heard *entry, const union fake_message *message, int fd)
{
	const struct calltap_msg_instance *instance = (const void *)message;
	struct calltap_msg_instance_done done = {.set = instance->set};

	if (message->head.type == CALLTAP_MSG_HANDLERS) {
		assert_null(hearing->rows); /* the rows are sent once */
		fake_agent_take_rows(hearing, &message->handlers, fd, 0);
	}
	if (message->head.type != CALLTAP_MSG_INSTANCE)
		return;
	assert_true(told_count < TOLD_MAX);
	told[told_count++] = *instance;
	if (instance->what == CALLTAP_INSTANCE_BEGIN) {
		check_arena(instance, fd);
		done.error = refusal;
	}
	assert_int_equal(instances_answer(&bench->session, &bench->process, &done), 0);
}

static int setup(void **state)
{
	static char program[] = "program", *command[] = {program, NULL};
	int fd;

	agent = fake_agent_create("function_graph");
	bench = agent->bench;
	image = agent->image;
	bench->session.images.all = true;
	bench->session.command = getpid(); /* the process that the session is called by */
	bench->options.command = command;
	bench->options.options_text = "";
	agent->more = hear;
	fake_agent_decide(agent);
	assert_int_equal(arena_add(bench->share, 1, &fd), 0);
	close(fd);
	told_count = 0;
	refusal = 0;
	assert_int_equal(drain_start(&bench->session), 0);
	fake_agent_begin(agent);
	return 0;
}

static int teardown(void **state)
{
	assert_true(!bench->session.instances[1] && !bench->session.instances[2]);
	fake_agent_end(agent);
	return 0;
}

/* As `calltap attach`: the connection that it lasts as long as, or the error. */
static int begin(const char *const *words, struct calltap_diag *diag)
{
	char path[] = "/tmp/calltap-test-XXXXXX", *answer = NULL;
	struct remote_request request = {.verb = "instance", .words = words, .timeout_ms = FAKE_PATIENCE_MS};
	struct calltap_diag own = {0};
	int connected, ret, file = mkstemp(path);

	while (words[request.count])
		request.count++;
	agent->heard_count = 0;
	assert_true(file >= 0);
	request.fds = &file;
	request.fd_count = 1;
	unlink(path);
	assert_int_equal(remote_connect(&connected, getpid(), &own), 0);
	ret = remote_ask(connected, &request, &answer, diag ? diag : &own);
	close(file);
	free(answer);
	if (!ret)
		return connected;
	close(connected);
	return ret;
}

static int ask(const char *verb, const char *const *words, struct calltap_diag *diag)
{
	struct remote_request request = {.verb = verb, .words = words, .timeout_ms = FAKE_PATIENCE_MS};
	struct calltap_diag own = {0};
	char *answer = NULL;
	int connected, ret;

	while (words[request.count])
		request.count++;
	agent->heard_count = 0;
	assert_int_equal(remote_connect(&connected, getpid(), &own), 0);
	ret = remote_ask(connected, &request, &answer, diag ? diag : &own);
	close(connected);
	free(answer);
	return ret;
}

static void end(int connected, const char *word)
{
	assert_int_equal(ask("detach", (const char *[]){word, NULL}, NULL), 0);
	close(connected);
}

#define BEGIN(...) begin((const char *[]){__VA_ARGS__, NULL}, NULL)
#define SET(...)   ask("set", (const char *[]){__VA_ARGS__, NULL}, NULL)

/* The place of the n-th message of a type; it must be there. */
static uint32_t place(uint32_t type, uint32_t n)
{
	uint32_t i = 0;

	while (i < agent->heard_count && (agent->heard[i].type != type || n--))
		i++;
	assert_true(i < agent->heard_count);
	return i;
}

/* The rows, the instance, its bits in them, and then sites that lead to them; back the other way. */
static void each_step_after_the_one_it_needs(void **state)
{
	int look = BEGIN("name=look", "trace=alpha");
	uint32_t at;

	assert_true(look >= 0);
	assert_true(place(CALLTAP_MSG_HANDLERS, 0) < place(CALLTAP_MSG_INSTANCE, 0));
	assert_true(place(CALLTAP_MSG_INSTANCE, 0) < place(CALLTAP_MSG_PLAN, 0));
	assert_int_equal(agent->heard[place(CALLTAP_MSG_PLAN, 0)].alpha_who, 0);
	at = place(CALLTAP_MSG_SWITCH, 0);
	assert_true(at > place(CALLTAP_MSG_PLAN, 0));
	assert_int_equal(agent->heard[at].alpha_who, WANTED(1) | CALLTAP_HANDLED_RECORD);
	assert_int_equal(agent->heard[at].beta_who, 0);
	assert_int_equal(told[0].set, 1);
	assert_int_equal(told[0].what, CALLTAP_INSTANCE_BEGIN);
	assert_int_equal(told[0].flags | told[0].depth_max | told[0].threshold_ticks, 0);
	end(look, "instance=look");
	at = place(CALLTAP_MSG_INSTANCE, 0);
	assert_true(place(CALLTAP_MSG_SWITCH, 0) < at);
	assert_int_equal(agent->heard[place(CALLTAP_MSG_SWITCH, 0)].alpha_who, WANTED(1) | CALLTAP_HANDLED_RECORD);
	assert_int_equal(agent->heard[at].alpha_who, 0);
	assert_int_equal(told_count, 2);
	assert_int_equal(told[1].what, CALLTAP_INSTANCE_END);
	assert_false(image->off[agent->alpha]);
}

static void each_has_bits_of_its_own(void **state)
{
	int others[CALLTAP_INSTANCES - 3];
	int one = BEGIN("name=one", "trace=alpha", "tracer=function"), two = BEGIN("trace=alpha", "trace=beta");
	struct calltap_diag diag = {0};

	assert_true(one >= 0 && two >= 0);
	assert_int_equal(told[0].flags, CALLTAP_INSTANCE_CALLS);
	assert_int_equal(told[1].set, 2);
	assert_int_equal(told[1].flags, 0);
	assert_int_equal(fake_agent_who(agent, agent->alpha), WANTED(3) | CALLTAP_HANDLED_RECORD);
	assert_int_equal(fake_agent_who(agent, agent->beta), WANTED(2) | CALLTAP_HANDLED_RECORD);
	for (uint32_t i = 0; i < CALLTAP_INSTANCES - 3; i++) {
		others[i] = begin((const char *[]){"trace=beta", NULL}, &diag);
		if (others[i] < 0)
			fail_msg("%u: %s", i, diag.text);
		assert_true(others[i] >= 0);
	}
	assert_int_equal(fake_agent_who(agent, agent->alpha), WANTED(3) | CALLTAP_HANDLED_RECORD);
	assert_int_equal(fake_agent_who(agent, agent->beta), WANTED(0x7ffe) | CALLTAP_HANDLED_RECORD);
	assert_int_equal(begin((const char *[]){"trace=beta", NULL}, &diag), -EBUSY);
	assert_non_null(strstr(diag.text, "16 instances"));
	end(one, "instance=one");
	assert_int_equal(fake_agent_who(agent, agent->alpha), WANTED(2) | CALLTAP_HANDLED_RECORD);
	/* The ended instance's set is free again, and the only free one. */
	one = BEGIN("name=last", "trace=beta");
	assert_true(one >= 0);
	assert_int_equal(told[told_count - 1].set, 1);
	end(one, "instance=last");
	end(two, "instance=1");
	for (uint32_t i = 0; i < CALLTAP_INSTANCES - 3; i++) {
		char word[32];

		snprintf(word, sizeof(word), "instance=%u", i + 2);
		end(others[i], word);
	}
	/* All are free: the one that has been so for longest is taken. */
	one = BEGIN("name=next", "trace=beta");
	assert_true(one >= 0);
	assert_int_equal(told[told_count - 1].set, 2);
	end(one, "instance=next");
	assert_int_equal(fake_agent_who(agent, agent->beta), 0);
}

static void limits_are_told_and_change(void **state)
{
	int look = BEGIN("name=look", "trace=alpha", "max-depth=3", "threshold=1ms");

	assert_true(look >= 0);
	assert_int_equal(told[0].depth_max, 3);
	assert_in_range(told[0].threshold_ticks, 5000, 100000000); /* 5 MHz to 100 GHz */
	assert_int_equal(SET("instance=look", "max-depth=5"), 0);
	assert_int_equal(agent->heard_count, 1);
	assert_int_equal(told[1].what, CALLTAP_INSTANCE_LIMITS);
	assert_int_equal(told[1].depth_max, 5);
	assert_int_equal(told[1].threshold_ticks, told[0].threshold_ticks);
	assert_int_equal(SET("instance=look", "threshold=", "max-depth="), 0);
	assert_int_equal(told[2].depth_max | told[2].threshold_ticks, 0);
	assert_int_equal(SET("instance=look", "trace=beta"), 0);
	assert_int_equal(told_count, 3);
	assert_int_equal(fake_agent_who(agent, agent->alpha), 0);
	assert_int_equal(bench->instance.settings.options.depth_max, 0);
	end(look, "instance=look");
}

/* The targets are told of trees before functions lead to the dispatcher, and that there are none after. */
static void trees_are_told_and_change(void **state)
{
	const uint32_t alpha = image->sites[agent->alpha].id, beta = image->sites[agent->beta].id;
	const struct calltap_roles *roles;
	int look = BEGIN("name=look", "graph=alpha", "no-graph=beta");

	assert_true(look >= 0);
	roles = (const struct calltap_roles *)(agent->rows + CALLTAP_HANDLED_MAX);
	assert_int_equal(told[0].flags, CALLTAP_INSTANCE_TREES | CALLTAP_INSTANCE_HIDES);
	assert_int_equal(roles[alpha].roots, 1);
	assert_int_equal(roles[alpha].hides, 0);
	assert_int_equal(roles[beta].hides, 1);
	assert_int_equal(fake_agent_who(agent, agent->beta) & WANTED(1), WANTED(1));
	assert_int_equal(SET("instance=look", "no-graph="), 0);
	assert_int_equal(told[1].what, CALLTAP_INSTANCE_LIMITS);
	assert_int_equal(told[1].flags, CALLTAP_INSTANCE_TREES);
	assert_int_equal(roles[beta].hides, 0);
	assert_int_equal(SET("instance=look", "graph=no_such_function"), -EINVAL);
	assert_int_equal(roles[alpha].roots, 1); /* as it was before */
	assert_int_equal(SET("instance=look", "graph=", "trace=alpha"), 0);
	assert_int_equal(told[told_count - 1].flags, 0);
	assert_int_equal(roles[alpha].roots, 0);
	end(look, "instance=look");
}

static void refuse(const char *word, const char *other, int error, const char *said)
{
	struct calltap_diag diag = {0};

	assert_int_equal(begin((const char *[]){word, other, NULL}, &diag), error);
	if (!strstr(diag.text, said))
		fail_msg("%s: it was told '%s'", word, diag.text);
}

static void what_cannot_be_is_refused(void **state)
{
	int look;

	refuse("tracer=profile", NULL, -EINVAL, "keeps counters");
	refuse("tracer=function", "max-depth=2", -EINVAL, "function_graph");
	refuse("tracer=function", "graph=alpha", -EINVAL, "function_graph");
	refuse("name=a b", NULL, -EINVAL, "no name");
	refuse("colour=red", NULL, -EINVAL, "no setting");
	assert_int_equal(told_count, 0);
	assert_null(agent->rows);
	refuse("name=0", NULL, -EEXIST, "already");
	/* An error that shows after the instance has begun ends it again. */
	refuse("trace=no_such_function", NULL, -EINVAL, "matches");
	assert_int_equal(told[told_count - 1].what, CALLTAP_INSTANCE_END);
	look = BEGIN("name=look", "trace=alpha");
	assert_true(look >= 0);
	assert_int_equal(SET("instance=look", "mode=overwrite"), -EOPNOTSUPP);
	assert_int_equal(SET("instance=look", "trace=no_such_function"), -EINVAL);
	assert_int_equal(SET("instance=nobody", "trace=alpha"), -ENOENT);
	assert_int_equal(fake_agent_who(agent, agent->alpha), WANTED(1) | CALLTAP_HANDLED_RECORD);
	end(look, "instance=look");
}

/* An agent that will not have it: nothing is left of it, and the next one may have its place. */
static void an_agent_may_refuse(void **state)
{
	int look;

	refusal = -EBUSY;
	refuse("trace=alpha", NULL, -EBUSY, "given back");
	refusal = -ENOMEM;
	refuse("trace=alpha", NULL, -ENOMEM, "cannot have the instance");
	refusal = 0;
	assert_null(bench->session.instances[1]);
	look = BEGIN("name=look", "trace=alpha");
	assert_true(look >= 0);
	assert_int_equal(told[told_count - 1].set, 1);
	end(look, "instance=look");
}

static bool has_ended(void)
{
	bool ended;

	session_lock(&bench->session);
	ended = !bench->session.instances[1] && !bench->session.steering.busy;
	session_unlock(&bench->session);
	return ended;
}

static void who_has_asked_is_gone(void **state)
{
	int look = BEGIN("name=look", "trace=alpha");

	assert_true(look >= 0);
	assert_false(has_ended());
	close(look);
	while (!has_ended())
		usleep(1000);
	assert_int_equal(told[told_count - 1].what, CALLTAP_INSTANCE_END);
	assert_int_equal(fake_agent_who(agent, agent->alpha), 0);
}

static unsigned count_of(const char *folder)
{
	DIR *dir = opendir(folder);
	unsigned count = 0;

	assert_non_null(dir);
	while (readdir(dir))
		count++;
	closedir(dir);
	return count;
}

static void nothing_is_left_of_it(void **state)
{
	unsigned descriptors = 0, mappings = 0;

	for (int turn = 0; turn < 25; turn++) {
		int look = BEGIN("name=look", "trace=alpha", turn % 2 ? "mode=overwrite" : "mode=drop");

		assert_true(look >= 0);
		end(look, "instance=look");
		while (!has_ended())
			usleep(1000);
		told_count = 0;
		if (turn == 4) {
			descriptors = count_of("/proc/self/fd");
			mappings = count_of("/proc/self/map_files");
		}
	}
	/* The server may not have closed the last connection yet. */
	assert_true(count_of("/proc/self/fd") <= descriptors + 2);
	assert_true(count_of("/proc/self/map_files") <= mappings + 2);
	assert_int_equal(bench->process.map_count, 2); /* stubs of the one other kind */
}

int main(void)
{
#define case_of(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		case_of(each_step_after_the_one_it_needs),
		case_of(each_has_bits_of_its_own),
		case_of(limits_are_told_and_change),
		case_of(trees_are_told_and_change),
		case_of(what_cannot_be_is_refused),
		case_of(an_agent_may_refuse),
		case_of(who_has_asked_is_gone),
		case_of(nothing_is_left_of_it),
	};

	return cmocka_run_group_tests(tests, fake_folder_make, fake_folder_remove);
}
