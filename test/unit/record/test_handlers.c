/*
 * Requests for a program's own handlers at its session's socket: the rows and stubs that the agent gets, and in which
 * order; the effect of settings and of objects that come later; and refusals.  The agent is a thread of this program,
 * and so is the client.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <calltap/abi/handlers.h>
#include <host/remote/remote.h>

#include "fake_agent.h"
#include "host/hook/handlers.h"
#include "host/hook/triggers.h"
#include "host/hook/watch.h"

#define TABLE	  0x7f0000001000u
#define BIT(slot) (1u << (CALLTAP_HANDLED_FIRST + (slot)))

static struct fake_agent *agent;
static struct bench *bench;
static struct image *image;
static int refusal;    /* the error that HANDLERS is answered with */
static unsigned waits; /* number of HANDLERS_WAITs that find handlers running */

static void answer_handlers(struct heard *entry, const struct calltap_msg_handlers *message, int fd)
{
	entry->at = message->handlers;
	assert_int_equal(fcntl(fd, F_GET_SEALS) & F_SEAL_SHRINK, F_SEAL_SHRINK);
	fake_agent_take_rows(agent, message, fd, refusal);
}

static void answer_wait(void)
{
	const struct calltap_msg_handlers_done done = {.error = waits ? -EAGAIN : 0};

	waits -= waits != 0;
	assert_int_equal(handlers_answer(&bench->session, &bench->process, &done), 0);
}

static void hear(struct fake_agent *hearing, struct heard *entry, const union fake_message *message, int fd)
{
	if (message->head.type == CALLTAP_MSG_HANDLERS)
		answer_handlers(entry, &message->handlers, fd);
	else if (message->head.type == CALLTAP_MSG_HANDLERS_WAIT)
		answer_wait();
}

static void begin(const char *tracer, bool decided)
{
	agent = fake_agent_create(tracer);
	bench = agent->bench;
	image = agent->image;
	bench->session.images.all = true;
	agent->more = hear;
	if (decided)
		fake_agent_decide(agent);
	refusal = 0;
	waits = 0;
	fake_agent_begin(agent);
}

static int setup(void **state)
{
	begin("function_graph", true);
	return 0;
}

static int setup_nop(void **state)
{
	begin("nop", true);
	return 0;
}

static int setup_early(void **state)
{
	begin("function_graph", false);
	return 0;
}

static int teardown(void **state)
{
	fake_agent_end(agent);
	return 0;
}

/* Ask as the library does; the functions, or the error. */
static int64_t ask(struct remote_handlers asked, struct calltap_diag *diag)
{
	struct calltap_diag own = {0};
	uint64_t functions = 0;
	int connected, ret;

	agent->heard_count = 0;
	asked.table = TABLE;
	asked.timeout_ms = FAKE_PATIENCE_MS;
	assert_int_equal(remote_connect(&connected, getpid(), &own), 0);
	ret = remote_ask_handlers(connected, &asked, &functions, diag ? diag : &own);
	close(connected);
	return ret ? ret : (int64_t)functions;
}

static int64_t add(uint32_t slot, const char *filter, bool exit, bool data)
{
	const char *const filters[] = {filter, NULL};

	return ask((struct remote_handlers){.slot = slot, .filter = filters, .exit = exit, .data = data}, NULL);
}

static int64_t take(uint32_t slot)
{
	return ask((struct remote_handlers){.slot = slot, .remove = true}, NULL);
}

static int set(const char *word)
{
	return fake_agent_set(agent, word, NULL);
}

static uint16_t flags_of(uint32_t at)
{
	return image->variants[image->variant].sites[at].flags;
}

static void check_heard(uint32_t at, uint32_t type)
{
	assert_true(at < agent->heard_count);
	assert_int_equal(agent->heard[at].type, type);
}

/* The rows, then stubs, then sites; and back. */
static void one_comes_and_goes(void **state)
{
	assert_int_equal(add(3, "alpha", true, false), 1);
	assert_int_equal(agent->heard_count, 3);
	check_heard(0, CALLTAP_MSG_HANDLERS);
	assert_int_equal(agent->heard[0].at, TABLE);
	check_heard(1, CALLTAP_MSG_PLAN);
	assert_int_equal(agent->heard[1].live, CALLTAP_PLAN_STUBS);
	check_heard(2, CALLTAP_MSG_SWITCH);
	assert_true(agent->heard[2].on && agent->heard[2].alpha && agent->heard[2].plan == 1);
	assert_int_equal(agent->heard[2].count, 1); /* the others' stubs are as good */
	assert_int_equal(agent->heard[2].alpha_who, CALLTAP_HANDLED_RECORD | BIT(3));
	assert_int_equal(agent->heard[2].beta_who, 0);
	assert_int_equal(flags_of(agent->alpha), CALLTAP_SITE_HANDLED);
	assert_int_equal(flags_of(agent->beta), 0);
	assert_int_equal(agent->rows[image->sites[agent->alpha].id].start,
			 image->sources[agent->alpha]->address + image->sources[agent->alpha]->body_off -
				 image->sources[agent->alpha]->function);
	/* Handlers that run are waited for, and the row stays as long as the site may lead to it. */
	waits = 2;
	assert_int_equal(take(3), 0);
	assert_int_equal(agent->heard_count, 4);
	check_heard(0, CALLTAP_MSG_SWITCH);
	assert_true(agent->heard[0].on && agent->heard[0].alpha && agent->heard[0].plan == 0);
	assert_int_equal(agent->heard[0].alpha_who, CALLTAP_HANDLED_RECORD | BIT(3));
	for (uint32_t i = 1; i < 4; i++) {
		check_heard(i, CALLTAP_MSG_HANDLERS_WAIT);
		assert_int_equal(agent->heard[i].alpha_who, 0);
	}
	assert_int_equal(flags_of(agent->alpha), 0);
	assert_false(image->off[agent->alpha]);
	/* Handlers that are not there can be taken away. */
	assert_int_equal(take(3), 0);
	assert_int_equal(take(7), 0);
}

/* Two on one function, another choice for one that is there. */
static void slots_share_functions(void **state)
{
	assert_int_equal(add(0, "alpha", true, false), 1);
	assert_int_equal(add(1, "alpha", false, false), 1);
	assert_int_equal(agent->heard_count, 0); /* the stub is there */
	assert_int_equal(fake_agent_who(agent, agent->alpha), CALLTAP_HANDLED_RECORD | BIT(0) | BIT(1));
	assert_int_equal(add(0, "beta", true, false), 1);
	assert_int_equal(fake_agent_who(agent, agent->alpha), CALLTAP_HANDLED_RECORD | BIT(1));
	assert_int_equal(fake_agent_who(agent, agent->beta), CALLTAP_HANDLED_RECORD | BIT(0));
	assert_int_equal(flags_of(agent->alpha), CALLTAP_SITE_HANDLED);
	assert_int_equal(flags_of(agent->beta), CALLTAP_SITE_HANDLED);
	assert_int_equal(take(0), 0);
	assert_int_equal(fake_agent_who(agent, agent->beta), 0);
	assert_int_equal(fake_agent_who(agent, agent->alpha), CALLTAP_HANDLED_RECORD | BIT(1));
}

/* Without a tracer, a function needs a frame only if somebody waits for its exit. */
static void without_a_tracer(void **state)
{
	assert_true(image->off[agent->alpha]);
	assert_int_equal(add(0, "alpha", false, false), 1);
	assert_int_equal(flags_of(agent->alpha), CALLTAP_SITE_HANDLED | CALLTAP_SITE_CALL);
	assert_int_equal(fake_agent_who(agent, agent->alpha), BIT(0));
	assert_true(!image->off[agent->alpha] && image->off[agent->beta]);
	assert_int_equal(add(1, "beta", true, false), 1);
	assert_int_equal(flags_of(agent->alpha), CALLTAP_SITE_HANDLED);
	assert_int_equal(flags_of(agent->beta), CALLTAP_SITE_HANDLED);
	assert_int_equal(image->variant_count, 3);
	/* All choices take the same stubs. */
	assert_int_equal(add(2, "gamma*", true, false), 1);
	assert_int_equal(add(1, "gamma*", true, false), 1);
	assert_int_equal(image->variant_count, 3);
	assert_int_equal(take(0), 0);
	assert_int_equal(agent->heard[0].type, CALLTAP_MSG_SWITCH);
	assert_false(agent->heard[0].on);
	assert_int_equal(agent->heard[0].alpha_who, BIT(0));
	assert_int_equal(fake_agent_who(agent, agent->alpha), 0);
	assert_true(image->off[agent->alpha]);
}

/* Whether and how it is recorded stands in the row. */
static void settings_go_on_beside(void **state)
{
	assert_int_equal(add(0, "alpha", true, false), 1);
	assert_int_equal(set("max-depth=3"), 0);
	assert_int_equal(fake_agent_who(agent, agent->alpha),
			 BIT(0) | CALLTAP_HANDLED_RECORD | CALLTAP_HANDLED_FULL_ENTRY | CALLTAP_HANDLED_FULL_EXIT);
	check_heard(0, CALLTAP_MSG_SET);
	check_heard(1, CALLTAP_MSG_HANDLERS_WAIT); /* the limit is there before rows want it looked at */
	assert_int_equal(agent->heard[1].alpha_who, BIT(0) | CALLTAP_HANDLED_RECORD);
	assert_int_equal(flags_of(agent->alpha), CALLTAP_SITE_HANDLED);
	assert_true(flags_of(agent->beta) & CALLTAP_SITE_FULL_ENTRY);
	assert_int_equal(set("max-depth="), 0);
	assert_int_equal(set("graph=alpha"), 0);
	assert_int_equal(fake_agent_who(agent, agent->alpha), BIT(0) | CALLTAP_HANDLED_RECORD | CALLTAP_HANDLED_ROOT);
	assert_int_equal(set("graph="), 0);
	assert_int_equal(set("no-graph=alpha"), 0);
	assert_int_equal(fake_agent_who(agent, agent->alpha), BIT(0) | CALLTAP_HANDLED_RECORD | CALLTAP_HANDLED_NOTREE);
	assert_int_equal(set("no-graph="), 0);
	assert_int_equal(set("trace=beta"), 0);
	assert_int_equal(fake_agent_who(agent, agent->alpha), BIT(0));
	assert_false(image->off[agent->alpha] || image->off[agent->beta]);
	assert_int_equal(set("tracing=off"), 0);
	assert_true(!image->off[agent->alpha] && image->off[agent->beta]);
	assert_int_equal(set("tracing=on"), 0);
	assert_int_equal(set("trace="), 0);
	assert_int_equal(fake_agent_who(agent, agent->alpha), BIT(0) | CALLTAP_HANDLED_RECORD);
	assert_int_equal(set("tracer=nop"), 0);
	assert_int_equal(fake_agent_who(agent, agent->alpha), BIT(0));
	assert_int_equal(set("tracer=function"), 0);
	assert_int_equal(fake_agent_who(agent, agent->alpha), BIT(0) | CALLTAP_HANDLED_CALL);
	assert_int_equal(set("tracer=function_graph"), 0);
	assert_int_equal(fake_agent_who(agent, agent->alpha), BIT(0) | CALLTAP_HANDLED_RECORD);
	assert_int_equal(take(0), 0);
	assert_int_equal(flags_of(agent->alpha), 0);
	assert_int_equal(set("tracer=function"), 0);
}

static void functions_by_address(void **state)
{
	const uint64_t within[] = {(uint64_t)(uintptr_t)alpha, (uint64_t)(uintptr_t)beta + 5}, nowhere[] = {4096};
	const char *const not_alpha[] = {"alpha", NULL}, *const gamma[] = {"gamma_ray", NULL};
	struct remote_handlers asked = {.slot = 1, .exit = true, .addresses = within, .address_count = 2};
	struct calltap_diag diag = {0};

	assert_int_equal(ask(asked, NULL), 2);
	assert_true(fake_agent_who(agent, agent->alpha) & BIT(1) && fake_agent_who(agent, agent->beta) & BIT(1));
	asked.notrace = not_alpha;
	assert_int_equal(ask(asked, NULL), 1);
	assert_true(!fake_agent_who(agent, agent->alpha) && fake_agent_who(agent, agent->beta) & BIT(1));
	asked.notrace = NULL;
	asked.filter = gamma;
	assert_int_equal(ask(asked, NULL), 3);
	asked.filter = NULL;
	asked.addresses = nowhere;
	asked.address_count = 1;
	assert_int_equal(ask(asked, &diag), -ENOENT);
	assert_non_null(strstr(diag.text, "0x1000"));
	assert_true(fake_agent_who(agent, agent->alpha) & BIT(1)); /* the row is as it was */
	/* Without either it is all that there are. */
	assert_int_equal(ask((struct remote_handlers){.slot = 1}, NULL), image->site_count);
}

/* Ever other choices in a recording: at last everything takes the handlers' way, and there is no end of kinds. */
static void there_is_no_end_of_choices(void **state)
{
	uint32_t turns = image->site_count < 40 ? image->site_count : 40;

	for (uint32_t i = 0; i < turns; i++) {
		assert_int_equal(add(2, image->sources[i]->symbol, true, false) >= 1, true);
		assert_true(image->who[i] & BIT(2));
		assert_true(flags_of(i) & CALLTAP_SITE_HANDLED);
	}
	assert_true(image->variant_count < IMAGE_VARIANTS);
	assert_true(image->dispatched);
	assert_int_equal(add(2, "alpha", true, false), 1);
	assert_int_equal(fake_agent_who(agent, agent->beta), CALLTAP_HANDLED_RECORD);
	assert_int_equal(take(2), 0);
	assert_int_equal(fake_agent_who(agent, agent->beta), 0);
	assert_int_equal(flags_of(agent->beta), 0);
}

static void refused(struct remote_handlers asked, int error, const char *why)
{
	struct calltap_diag diag = {0};

	assert_int_equal(ask(asked, &diag), error);
	if (!strstr(diag.text, why))
		fail_msg("'%s' does not say '%s'", diag.text, why);
	assert_int_equal(agent->heard_count, 0);
}

static void what_cannot_be_is_refused(void **state)
{
	static const char *const none[] = {"no_such", NULL}, *const wrong[] = {"/(/", NULL},
				 *const one[] = {"alpha", NULL};
	struct calltap_diag diag = {0};
	struct setting_change words[] = {{.key = "table", .value = "0x1000"}, {.key = "add", .value = "1"}};
	FILE *nowhere = fopen("/dev/null", "w");

	refused((struct remote_handlers){.filter = none}, -ENOENT, "'no_such'");
	refused((struct remote_handlers){.filter = wrong}, -EINVAL, "");
	refused((struct remote_handlers){.slot = CALLTAP_HANDLERS_MAX, .filter = one}, -EINVAL, "add");
	assert_int_equal(add(0, "alpha", true, true), 1);
	refused((struct remote_handlers){.slot = 1, .filter = one, .data = true}, -EBUSY, "CALLTAP_HANDLER_DATA");
	assert_int_equal(fake_agent_who(agent, agent->alpha) & ~1u, BIT(0));
	assert_int_equal(add(0, "alpha", true, true), 1); /* the same slot again */
	/* A request by another process of this user. */
	assert_int_equal(handlers_ask(&bench->session, getpid() + 1, words, 2, nowhere, &diag), -EPERM);
	words[0].value = "0x1001";
	assert_int_equal(handlers_ask(&bench->session, getpid(), words, 2, nowhere, &diag), -EINVAL);
	words[0].value = "0x1000";
	words[1].append = true;
	assert_int_equal(handlers_ask(&bench->session, getpid(), words, 2, nowhere, &diag), -EINVAL);
	assert_int_equal(handlers_ask(&bench->session, getpid(), words, 1, nowhere, &diag), -EINVAL);
	fclose(nowhere);
	assert_int_equal(take(0), 0);
}

/* A function may have a trigger and handlers: its row says that the session records it, and how. */
static void triggers_share_functions_with_handlers(void **state)
{
	const uint32_t recorded = CALLTAP_HANDLED_RECORD | CALLTAP_HANDLED_FULL_ENTRY | CALLTAP_HANDLED_FULL_EXIT;
	struct calltap_diag diag = {0};
	struct triggers *triggers;
	char conflict[64];

	assert_int_equal(triggers_create(&triggers), 0);
	assert_int_equal(triggers_add(triggers, TRIGGER_STACK, "beta", &diag), 0);
	assert_int_equal(watch_create(&bench->session.images.watch, &bench->session, 1.0), 0);
	assert_true(watch_join(bench->session.images.watch, 0, triggers, conflict, sizeof(conflict)));
	assert_int_equal(ask((struct remote_handlers){.exit = true, .data = true}, NULL), image->site_count);
	assert_int_equal(fake_agent_who(agent, agent->beta), BIT(0) | recorded);
	assert_int_equal(fake_agent_who(agent, agent->alpha) & recorded, CALLTAP_HANDLED_RECORD);
	assert_int_equal(take(0), 0);
	watch_destroy(bench->session.images.watch);
	bench->session.images.watch = NULL;
	triggers_destroy(triggers);
}

/* An agent that cannot: nothing has changed, and the next try tells it again. */
static void an_agent_may_refuse(void **state)
{
	struct calltap_diag diag = {0};

	refusal = -ENOMEM;
	assert_int_equal(ask((struct remote_handlers){.slot = 2}, &diag), -ENOMEM);
	assert_non_null(strstr(diag.text, "cannot call handlers"));
	assert_int_equal(agent->heard_count, 1);
	assert_int_equal(image->variant_count, 1);
	assert_int_equal(image->slots[agent->alpha], 0);
	refusal = 0;
	assert_int_equal(add(2, "alpha", true, false), 1);
	check_heard(0, CALLTAP_MSG_HANDLERS);
}

/* Functions that are loaded later, and processes that come in. */
static void later_ones_have_them_too(void **state)
{
	static const char *const one[] = {"alpha", NULL};
	struct remote_handlers asked = {.slot = 4, .filter = one, .exit = true};
	struct calltap_diag diag = {0};

	assert_int_equal(ask(asked, &diag), -ENOENT);
	assert_non_null(strstr(diag.text, "`calltap functions /proc/"));
	asked.pending = true;
	assert_int_equal(ask(asked, NULL), 0);
	check_heard(0, CALLTAP_MSG_HANDLERS);
	session_lock(&bench->session);
	fake_agent_decide(agent);
	assert_int_equal(flags_of(agent->alpha), CALLTAP_SITE_HANDLED);
	assert_int_equal(flags_of(agent->beta), 0);
	assert_false(image->off[agent->alpha]);
	assert_int_equal(fake_agent_who(agent, agent->alpha), CALLTAP_HANDLED_RECORD | BIT(4));
	/* A started process has no handlers of its own, a forked one has its parent's. */
	agent->heard_count = 0;
	bench->process.row.start = CALLTAP_START_FORK;
	assert_int_equal(handlers_welcome(&bench->session, &bench->process, &bench->process), 0);
	assert_true(!bench->process.owed.handlers && bench->process.handled.told);
	assert_int_equal(handlers_welcome(&bench->session, &bench->process, NULL), 0);
	assert_true(!bench->process.owed.handlers && !bench->process.handled.told);
	bench->process.row.start = CALLTAP_START_EXEC;
	assert_int_equal(handlers_welcome(&bench->session, &bench->process, NULL), 0);
	assert_int_equal(bench->process.owed.handlers, 1);
	assert_int_equal(live_wait(&bench->session), 0);
	check_heard(0, CALLTAP_MSG_HANDLERS);
	assert_int_equal(agent->heard[0].at, 0);
	session_unlock(&bench->session);
	/* When it registers one, its agent gets to know where. */
	assert_int_equal(add(4, "alpha", true, false), 1);
	check_heard(0, CALLTAP_MSG_HANDLERS);
	assert_int_equal(agent->heard[0].at, TABLE);
	assert_int_equal(take(4), 0);
}

/* Handlers belong to one process at a time, until it has ended. */
static void they_are_one_process_s(void **state)
{
	struct target other = {.socket = -1, .pid = 1, .greeted = true, .welcome = true};
	struct calltap_diag diag = {0};

	assert_int_equal(add(1, "beta", true, false), 1);
	session_lock(&bench->session);
	other.pid = bench->process.pid;
	bench->process.pid = 1;
	other.socket = bench->process.socket;
	other.maps = bench->process.maps;
	other.map_count = bench->process.map_count;
	bench->process.next = &other;
	session_unlock(&bench->session);
	assert_int_equal(ask((struct remote_handlers){.slot = 1}, &diag), -EBUSY);
	assert_int_equal(take(1), 0);
	assert_true(fake_agent_who(agent, agent->beta) & BIT(1)); /* the handler is another process's */
	session_lock(&bench->session);
	bench->process.pid = other.pid;
	bench->process.next = NULL;
	session_unlock(&bench->session);
	assert_int_equal(take(1), 0);
	assert_int_equal(fake_agent_who(agent, agent->beta), 0);
}

int main(void)
{
#define case_of(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		case_of(one_comes_and_goes),
		case_of(slots_share_functions),
		cmocka_unit_test_setup_teardown(without_a_tracer, setup_nop, teardown),
		case_of(settings_go_on_beside),
		case_of(functions_by_address),
		case_of(there_is_no_end_of_choices),
		case_of(what_cannot_be_is_refused),
		case_of(triggers_share_functions_with_handlers),
		case_of(an_agent_may_refuse),
		cmocka_unit_test_setup_teardown(later_ones_have_them_too, setup_early, teardown),
		case_of(they_are_one_process_s),
	};

	return cmocka_run_group_tests(tests, fake_folder_make, fake_folder_remove);
}
