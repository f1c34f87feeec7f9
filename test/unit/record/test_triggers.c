/*
 * Triggers from the tool's side: conditions as people type them, the stubs and limits that they need, and events of
 * targets, true and false ones.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <calltap/abi/profile.h>

#include "host/hook/actor.h"
#include "host/hook/triggers_impl.h"
#include "host/hook/watch.h"
#include "support.h"

#define FUNCTIONS WATCH_FUNCTIONS
#define SLOTS	  WATCH_SLOTS
#define HALF	  0.5 /* ticks of a ns */

static struct bench *bench;
static struct triggers *triggers;
static struct watch *watch;

/* The functions of the triggers, in this very program. */
int alpha(int x);
int beta(int x);

__attribute__((noinline)) int alpha(int x)
{
	return x + 1;
}

__attribute__((noinline)) int beta(int x)
{
	return x + 2;
}

static int setup(void **state)
{
	bench = bench_create(CALLTAP_MODE_BLOCK);
	bench->process.greeted = true;
	bench->process.hello.pid = (uint32_t)getpid();
	assert_int_equal(triggers_create(&triggers), 0);
	return 0;
}

static int teardown(void **state)
{
	watch_end(watch);
	bench_destroy(bench);
	watch_destroy(watch);
	watch = NULL;
	triggers_destroy(triggers);
	return 0;
}

/* A trigger that does nothing but count. */
static struct trigger *add(const char *text)
{
	struct calltap_diag diag = {0};

	assert_int_equal(triggers_add(triggers, TRIGGER_ACTIONS, text, &diag), 0);
	return &triggers->list[triggers->count - 1];
}

static struct image *begin(void)
{
	struct image *image;
	char conflict[256];
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);

	assert_int_equal(watch_create(&watch, &bench->session, HALF), 0);
	assert_true(watch_join(watch, 0, triggers, conflict, sizeof(conflict)));
	assert_int_equal(watch_start(watch), 0);
	bench->session.images.watch = watch;
	assert_int_equal(images_get(&image, &bench->session.images, fd, "/proc/self/exe", false), 0);
	assert_int_equal(image_decide(&bench->session.images, image), 0);
	close(fd);
	return image;
}

static const struct calltap_site *site_of(const struct image *image, const char *name)
{
	for (uint32_t i = 0; i < image->site_count; i++)
		if (!strcmp(image->sources[i]->symbol, name))
			return &image->sites[i];
	fail_msg("no site of %s", name);
	return NULL;
}

static struct object *object_of(uint32_t id)
{
	uint32_t site;

	return images_of(&bench->session.images, id, &site)->object;
}

static const struct object_site *source_of(uint32_t id)
{
	uint32_t site;
	const struct image *image = images_of(&bench->session.images, id, &site);

	return image->sources[site];
}

static const struct calltap_limit *limit_of(uint32_t id)
{
	return (void *)((char *)watch->memory + calltap_triggers_at_limit(id));
}

static struct calltap_event *slot(uint64_t number)
{
	return (void *)((char *)watch->memory + calltap_triggers_at_event(FUNCTIONS, number % SLOTS));
}

/* As a target does. */
static void tell(uint32_t function, uint32_t kind, uint64_t ticks)
{
	uint64_t number = watch->memory->taken++;

	*slot(number) = (struct calltap_event){
		.number = number + 1,
		.function = function,
		.kind = kind,
		.tid = (uint32_t)getpid(),
		.pid = (uint32_t)getpid(),
		.entry_ticks = 1000,
		.exit_ticks = ticks ? 1000 + ticks : 0,
		.flags = CALLTAP_EVENT_RECORDED,
	};
}

static void poll(void)
{
	session_lock(&bench->session);
	watch_poll(watch);
	session_unlock(&bench->session);
}

static void conditions_are_understood(void **state)
{
	const struct {
		const char *text;
		uint32_t kind, often;
		uint64_t longer_ns, window_ns;
	} good[] = {
		{"alpha", CALLTAP_EVENT_ENTERED, 0, 0, 0},
		{"  alpha\tentered", CALLTAP_EVENT_ENTERED, 0, 0, 0},
		{"a.out:alpha left", CALLTAP_EVENT_LEFT, 0, 0, 0},
		{"ns::alpha threw", CALLTAP_EVENT_THREW, 0, 0, 0},
		{"alpha > 10ms", CALLTAP_EVENT_LONGER, 0, 10000000, 0},
		{"alpha>7", CALLTAP_EVENT_LONGER, 0, 7000, 0},
		{"/^al/ >1.5us", CALLTAP_EVENT_LONGER, 0, 1500, 0},
		{"al* 100 in 1s", CALLTAP_EVENT_OFTEN, 100, 0, 1000000000},
		{"alpha  5  in  2ms", CALLTAP_EVENT_OFTEN, 5, 0, 2000000},
		{"alpha 4294967295 in 1ns", CALLTAP_EVENT_OFTEN, UINT32_MAX, 0, 1},
	};

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		const struct trigger *trigger = add(good[i].text);

		assert_int_equal(trigger->kind, good[i].kind);
		assert_int_equal(trigger->often, good[i].often);
		assert_int_equal(trigger->longer_ns, good[i].longer_ns);
		assert_int_equal(trigger->window_ns, good[i].window_ns);
		assert_null(trigger->command);
	}
	assert_true(triggers_have(triggers, TRIGGER_ACTIONS));
	assert_false(triggers_have(triggers, TRIGGER_START));
	assert_false(triggers_have(NULL, TRIGGER_START));
}

static void a_command_is_cut_off(void **state)
{
	struct calltap_diag diag = {0};
	const struct trigger *trigger;

	assert_int_equal(triggers_add(triggers, TRIGGER_RUN, "alpha > 1ms  =>  echo a => b ", &diag), 0);
	trigger = &triggers->list[0];
	assert_int_equal(trigger->kind, CALLTAP_EVENT_LONGER);
	assert_string_equal(trigger->text, "alpha > 1ms");
	assert_string_equal(trigger->command, "echo a => b ");
	assert_int_equal(triggers_add(triggers, TRIGGER_RUN, "alpha=>true", &diag), 0);
	assert_int_equal(triggers->list[1].kind, CALLTAP_EVENT_ENTERED);
	assert_string_equal(triggers->list[1].command, "true");
}

static void wrong_ones_are_shown(void **state)
{
	const struct {
		const char *text;
		int column;
		enum trigger_action action;
	} bad[] = {
		{"", 0, TRIGGER_STACK},
		{"   ", 3, TRIGGER_STACK},
		{"> 1ms", 0, TRIGGER_STACK},
		{"alpha returned", 6, TRIGGER_STACK},
		{"alpha enteredx", 6, TRIGGER_STACK},
		{"alpha >", 7, TRIGGER_STACK},
		{"alpha > soon", 8, TRIGGER_STACK},
		{"alpha > 0", 8, TRIGGER_STACK},
		{"alpha >= 1ms", 7, TRIGGER_STACK},
		{"alpha > -1ms", 8, TRIGGER_STACK},
		{"alpha > 10ms and more", 8, TRIGGER_STACK},
		{"alpha 5", 6, TRIGGER_STACK},
		{"alpha 0 in 1s", 6, TRIGGER_STACK},
		{"alpha 4294967296 in 1s", 6, TRIGGER_STACK},
		{"alpha 99999999999999999999 in 1s", 6, TRIGGER_STACK},
		{"alpha 5 within 1s", 6, TRIGGER_STACK},
		{"alpha 5 in ", 11, TRIGGER_STACK},
		{"alpha 5 in ever", 11, TRIGGER_STACK},
		{"alpha 5 in 0s", 11, TRIGGER_STACK},
		{"alpha > 1ms", 11, TRIGGER_RUN},
		{"alpha > 1ms =>", 14, TRIGGER_RUN},
		{"alpha > 1ms => \t", 16, TRIGGER_RUN},
		{"alpha > soon => true", 8, TRIGGER_RUN},
		{"=> true", 0, TRIGGER_RUN},
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct calltap_diag diag = {.column = -1};

		assert_int_equal(triggers_add(triggers, bad[i].action, bad[i].text, &diag), -EINVAL);
		assert_int_equal(diag.column, bad[i].column);
		assert_memory_equal(diag.input, bad[i].text, strlen(diag.input));
		assert_true((size_t)diag.column <= strlen(diag.input));
		assert_true(diag.text[0]);
	}
}

/* Longer than a message has room for: without a caret, and whole. */
static void a_long_one_is_refused_too(void **state)
{
	struct calltap_diag diag = {.column = -1};
	char text[5000];

	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = 0;
	memcpy(text + 4900, " no", 3);
	assert_int_equal(triggers_add(triggers, TRIGGER_STACK, text, &diag), -EINVAL);
	assert_true(diag.text[0]);
}

static void stubs_are_of_the_kind_that_asks(void **state)
{
	const uint16_t timed = CALLTAP_SITE_TRIGGER | CALLTAP_SITE_TIMED;
	const uint16_t full = timed | CALLTAP_SITE_FULL_ENTRY | CALLTAP_SITE_FULL_EXIT;
	const struct {
		const char *text;
		uint16_t flags;
	} forms[] = {
		{"alpha > 1ms", timed}, {"alpha threw", timed},	 {"alpha", full},
		{"alpha left", full},	{"alpha 5 in 1s", full}, {"beta", 0},
	};
	struct image *image = begin();

	for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
		const uint32_t index = site_of(image, "alpha")->id - image->first_id;

		add(forms[i].text);
		assert_int_equal(watch_flags(watch, image->object, image->sources[index]), forms[i].flags);
		filter_set_destroy(triggers->list[0].functions);
		free(triggers->list[0].text);
		triggers->count = 0;
	}
}

static void limits_are_of_all_triggers(void **state)
{
	const struct calltap_limit *limit;
	struct image *image;

	add("alpha > 8us");
	add("alph* > 2us");
	add("alpha left");
	add("/alpha/ threw");
	add("alpha 7 in 1ms");
	add("alpha 9 in 1ms"); /* told: the target counts for one of them */
	image = begin();
	limit = limit_of(site_of(image, "alpha")->id);
	assert_int_equal(limit->ticks, 1000);
	assert_int_equal(limit->kinds, CALLTAP_EVENT_LEFT | CALLTAP_EVENT_THREW | CALLTAP_EVENT_OFTEN);
	assert_int_equal(limit->often, 7);
	assert_int_equal(limit->window, 500000);
	assert_int_equal(limit_of(site_of(image, "beta")->id)->kinds, 0);
	assert_int_equal(limit_of(site_of(image, "beta")->id)->ticks, 0);
	/* Beyond the memory: nothing is written. */
	watch_add_function(watch, FUNCTIONS, image->object, image->sources[0]);
	assert_int_equal(slot(0)->number, 0);
}

/* A limit of 0 would be none. */
static void a_clock_may_be_slower_than_the_limit(void **state)
{
	add("alpha > 1ns");
	assert_int_equal(limit_of(site_of(begin(), "alpha")->id)->ticks, 1);
}

static void what_matches_nothing_is_known(void **state)
{
	add("alpha > 1ms");
	add("no_such_function > 1ms");
	begin();
	assert_string_equal(triggers_unmatched(triggers), "no_such_function");
	assert_null(triggers_unmatched(NULL));
}

/* Each is for its own condition. */
static void events_are_for_the_triggers_they_fit(void **state)
{
	const struct calltap_site *a, *b;
	struct image *image;

	triggers_set_rate(triggers, 0, 0);
	add("alpha");
	add("alpha left");
	add("alpha threw");
	add("alpha > 10us");
	add("alpha > 20us");
	add("alpha 3 in 1ms");
	add("beta > 1us");
	image = begin();
	a = site_of(image, "alpha");
	b = site_of(image, "beta");
#define check_counts(...)                                                                                              \
	do {                                                                                                           \
		const uint32_t counts[] = {__VA_ARGS__};                                                               \
		poll();                                                                                                \
		for (size_t i = 0; i < 7; i++) {                                                                       \
			assert_int_equal(triggers->list[i].count, counts[i]);                                          \
			triggers->list[i].count = 0;                                                                   \
		}                                                                                                      \
	} while (0)
	tell(a->id, CALLTAP_EVENT_ENTERED, 0);
	check_counts(1, 0, 0, 0, 0, 0, 0);
	tell(a->id, CALLTAP_EVENT_LEFT, 100);
	check_counts(0, 1, 0, 0, 0, 0, 0);
	tell(a->id, CALLTAP_EVENT_THREW, 100);
	check_counts(0, 0, 1, 0, 0, 0, 0);
	tell(a->id, CALLTAP_EVENT_LONGER, 5000); /* the call has returned as well */
	check_counts(0, 1, 0, 1, 0, 0, 0);
	tell(a->id, CALLTAP_EVENT_LONGER, 10000);
	check_counts(0, 1, 0, 1, 1, 0, 0);
	tell(a->id, CALLTAP_EVENT_OFTEN, 0); /* and entered */
	check_counts(1, 0, 0, 0, 0, 1, 0);
	tell(b->id, CALLTAP_EVENT_LONGER, 600);
	tell(b->id, CALLTAP_EVENT_LEFT, 600);
	check_counts(0, 0, 0, 0, 0, 0, 1);
#undef check_counts
}

static void rate_and_most_are_kept(void **state)
{
	struct trigger *rare, *often;
	struct image *image;
	uint32_t id;

	add("alpha left");
	add("alpha threw");
	triggers_set_rate(triggers, 3600000000000, 0);
	image = begin();
	rare = &triggers->list[0];
	often = &triggers->list[1];
	id = site_of(image, "alpha")->id;
	for (int i = 0; i < 5; i++)
		tell(id, CALLTAP_EVENT_LEFT, 10);
	poll();
	assert_int_equal(rare->count, 1);
	tell(id, CALLTAP_EVENT_THREW, 10); /* the id is another trigger's */
	poll();
	assert_int_equal(often->count, 1);
	triggers_set_rate(triggers, 0, 5);
	for (int i = 0; i < 9; i++)
		tell(id, CALLTAP_EVENT_THREW, 10);
	poll();
	assert_int_equal(often->count, 4); /* 5 in all */
	assert_int_equal(triggers->sent, 5);
}

/* A trigger that fires always does not hide another one. */
static void a_flood_hides_nobody(void **state)
{
	struct image *image;
	uint32_t a, b;

	add("alpha");
	add("beta > 1us");
	triggers_set_rate(triggers, 3600000000000, 0);
	image = begin();
	a = site_of(image, "alpha")->id;
	b = site_of(image, "beta")->id;
	for (uint32_t i = 0; i < SLOTS - 1; i++)
		tell(a, CALLTAP_EVENT_ENTERED, 0);
	tell(b, CALLTAP_EVENT_LONGER, 1000);
	poll();
	assert_int_equal(triggers->list[0].count, 1);
	assert_int_equal(triggers->list[1].count, 1);
	assert_int_equal(triggers->dropped, 0);
	assert_int_equal(watch->memory->read, SLOTS);
}

static void what_targets_scribble_is_not_believed(void **state)
{
	struct trigger *trigger = add("alpha left");
	uint32_t id;

	triggers_set_rate(triggers, 0, 0);
	id = site_of(begin(), "alpha")->id;
	/* A number of a function that is none, and one that is none of ours. */
	tell(FUNCTIONS + 5, CALLTAP_EVENT_LEFT, 10);
	tell(FUNCTIONS - 1, CALLTAP_EVENT_LEFT, 10);
	tell(UINT32_MAX, CALLTAP_EVENT_LEFT, 10);
	tell(id, 0xffff0000, 10);
	tell(id, CALLTAP_EVENT_LEFT, 10);
	for (int i = 0; i < 4 * WATCH_STUCK; i++)
		poll();
	assert_int_equal(trigger->count, 1);
	assert_int_equal(watch->memory->read, 5);
	/* An event that is begun and never finished is passed over. */
	tell(id, CALLTAP_EVENT_LEFT, 10);
	slot(5)->number = 0;
	tell(id, CALLTAP_EVENT_LEFT, 10);
	poll();
	assert_int_equal(trigger->count, 1);
	for (int i = 0; i < 2 * WATCH_STUCK; i++)
		poll();
	assert_int_equal(trigger->count, 2);
	/* A count that leaps: on from there. */
	watch->memory->taken = UINT64_MAX / 2;
	poll();
	assert_int_equal(watch->memory->read, UINT64_MAX / 2);
	watch->memory->functions = UINT32_MAX;
	watch->memory->slots = 0;
	tell(id, CALLTAP_EVENT_LEFT, 10);
	poll();
	assert_int_equal(trigger->count, 3);
	/* Times that go backwards are no duration. */
	tell(id, CALLTAP_EVENT_LONGER, UINT64_MAX - 500);
	poll();
	assert_int_equal(trigger->count, 4);
}

/* No other process is stopped because a target names it: one that was would tell of it. */
static void only_our_processes_are_touched(void **state)
{
	char said[512] = "";
	int pipe_fds[2], old = dup(STDERR_FILENO);
	uint32_t id;

	add("alpha left")->action = TRIGGER_STACK;
	id = site_of(begin(), "alpha")->id;
	assert_int_equal(pipe2(pipe_fds, O_CLOEXEC), 0);
	tell(id, CALLTAP_EVENT_LEFT, 10);
	slot(0)->pid = (uint32_t)getppid();
	dup2(pipe_fds[1], STDERR_FILENO);
	poll();
	watch_end(watch);
	dup2(old, STDERR_FILENO);
	close(old);
	close(pipe_fds[1]);
	assert_true(read(pipe_fds[0], said, sizeof(said) - 1) > 0);
	close(pipe_fds[0]);
	assert_non_null(strstr(said, "alpha returned in thread"));
	assert_non_null(strstr(said, "cannot be shown"));
	assert_null(strstr(said, "#0"));
}

/* The triggers of a further instance: its deeds come by this socket. */
static struct triggers *join(uint32_t set, int *socket, const char *text)
{
	struct calltap_diag diag = {0};
	struct triggers *made;
	char conflict[256];
	int ends[2];

	assert_int_equal(triggers_create(&made), 0);
	triggers_set_rate(made, 0, 0);
	assert_int_equal(triggers_add(made, TRIGGER_ACTIONS, text, &diag), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, ends), 0);
	made->deeds = ends[0];
	*socket = ends[1];
	assert_true(watch_join(watch, set, made, conflict, sizeof(conflict)));
	return made;
}

static void part(uint32_t set, struct triggers *made, int socket)
{
	watch_part(watch, set);
	close(made->deeds);
	close(socket);
	triggers_destroy(made);
}

static void each_instance_has_its_own(void **state)
{
	struct trigger *own = add("alpha > 10us");
	struct triggers *longer, *left;
	const struct calltap_limit *limit;
	int sockets[2];
	struct deed deed;
	uint32_t id;

	triggers_set_rate(triggers, 0, 0);
	id = site_of(begin(), "alpha")->id;
	limit = limit_of(id);
	assert_int_equal(limit->ticks, 5000);
	longer = join(1, &sockets[0], "alpha > 2us");
	left = join(2, &sockets[1], "alph* left");
	assert_int_equal(limit->ticks, 1000);
	assert_int_equal(limit->kinds, CALLTAP_EVENT_LEFT);
	assert_true(watch_waits(watch, 2, object_of(id), source_of(id), true));
	assert_false(watch_waits(watch, 3, object_of(id), source_of(id), true));
	tell(id, CALLTAP_EVENT_LONGER, 2000);
	poll();
	assert_int_equal(own->count, 0); /* it waits for 10 us */
	assert_int_equal(recv(sockets[0], &deed, sizeof(deed), 0), sizeof(deed));
	assert_int_equal(deed.duration_ns, 4000);
	assert_int_equal(deed.trigger, 0);
	assert_string_equal(deed.function, "alpha");
	assert_non_null(strstr(deed.text, "alpha took 0.004 ms in thread"));
	assert_int_equal(recv(sockets[1], &deed, sizeof(deed), 0), sizeof(deed));
	assert_non_null(strstr(deed.text, "alpha returned in thread"));
	/* A call that the first instance's filters have refused. */
	tell(id, CALLTAP_EVENT_LONGER, 9000);
	slot(1)->flags = 0;
	poll();
	assert_int_equal(own->count, 0);
	assert_int_equal(longer->list[0].count, 2);
	part(1, longer, sockets[0]);
	assert_int_equal(limit->ticks, 5000);
	assert_int_equal(limit->kinds, CALLTAP_EVENT_LEFT);
	part(2, left, sockets[1]);
	assert_int_equal(limit->kinds, 0);
}

/* An actor that takes nothing holds nobody up, and what it misses is counted. */
static void who_does_nothing_is_not_waited_for(void **state)
{
	struct triggers *made;
	int socket;
	uint32_t id;

	id = site_of(begin(), "alpha")->id;
	made = join(1, &socket, "alpha");
	for (int i = 0; i < 3; i++) {
		for (uint32_t k = 0; k < SLOTS - 1; k++)
			tell(id, CALLTAP_EVENT_ENTERED, 0);
		poll();
	}
	assert_true(made->sent > 0);
	assert_true(made->dropped > 0);
	assert_int_equal(made->sent + made->dropped, 3 * (SLOTS - 1));
	assert_int_equal(made->sent, made->list[0].count);
	part(1, made, socket);
}

static void two_that_count_otherwise_do_not_go_together(void **state)
{
	struct calltap_diag diag = {0};
	struct triggers *first, *other;
	char conflict[256];
	int socket;
	uint32_t id = site_of(begin(), "alpha")->id;

	first = join(1, &socket, "alpha 5 in 1ms");
	assert_int_equal(triggers_create(&other), 0);
	assert_int_equal(triggers_add(other, TRIGGER_ACTIONS, "alpha 6 in 1ms", &diag), 0);
	assert_false(watch_join(watch, 2, other, conflict, sizeof(conflict)));
	assert_non_null(strstr(conflict, "'alpha 6 in 1ms' is not for alpha"));
	assert_int_equal(limit_of(id)->often, 5);
	part(1, first, socket);
	assert_int_equal(limit_of(id)->often, 6); /* now there is no other one */
	watch_part(watch, 2);
	assert_int_equal(limit_of(id)->kinds, 0);
	triggers_destroy(other);
}

static void words_go_there_and_back(void **state)
{
	struct calltap_diag diag = {0};
	struct triggers *read = NULL;
	char *text = NULL, *key, *value;
	size_t size;
	FILE *stream = open_memstream(&text, &size);

	assert_int_equal(triggers_add(triggers, TRIGGER_RUN, "alpha > 1ms => rm = \"x\"", &diag), 0);
	assert_int_equal(triggers_add(triggers, TRIGGER_START, "beta 3 in 1s", &diag), 0);
	triggers_set_rate(triggers, 7, 9);
	triggers_print(triggers, stream);
	fclose(stream);
	assert_null(strstr(text, "rm")); /* commands stay here */
	for (char *rest = text, *line; (line = strsep(&rest, "\n")) && *line;) {
		key = line;
		value = strchr(line, '=');
		assert_non_null(value);
		*value++ = 0;
		assert_true(triggers_has_key(key));
		assert_int_equal(triggers_take(&read, key, value, &diag), 0);
	}
	assert_int_equal(read->count, 2);
	assert_int_equal(read->list[0].action, TRIGGER_RUN);
	assert_int_equal(read->list[0].longer_ns, 1000000);
	assert_null(read->list[0].command);
	assert_int_equal(read->list[1].often, 3);
	assert_int_equal(read->gap_ns, 7);
	assert_int_equal(read->most, 9);
	assert_int_equal(triggers_take(&read, "when", "explode alpha", &diag), -EINVAL);
	assert_int_equal(triggers_take(&read, "when", "run", &diag), -EINVAL);
	assert_false(triggers_has_key("tracer"));
	triggers_destroy(read);
	free(text);
}

int main(void)
{
#define case_of(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		case_of(conditions_are_understood),
		case_of(a_command_is_cut_off),
		case_of(wrong_ones_are_shown),
		case_of(a_long_one_is_refused_too),
		case_of(stubs_are_of_the_kind_that_asks),
		case_of(limits_are_of_all_triggers),
		case_of(a_clock_may_be_slower_than_the_limit),
		case_of(what_matches_nothing_is_known),
		case_of(events_are_for_the_triggers_they_fit),
		case_of(rate_and_most_are_kept),
		case_of(a_flood_hides_nobody),
		case_of(what_targets_scribble_is_not_believed),
		case_of(only_our_processes_are_touched),
		case_of(each_instance_has_its_own),
		case_of(who_does_nothing_is_not_waited_for),
		case_of(two_that_count_otherwise_do_not_go_together),
		case_of(words_go_there_and_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
