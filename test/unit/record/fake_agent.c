/*
 * A made-up agent for tests (fake_agent.h).
 */
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <host/remote/remote.h>

#include "fake_agent.h"
#include "host/hook/handlers.h"

#define FAKE_REGION 0x7000000u

#define FUNCTION(name)                                                                                                 \
	void name(void)                                                                                                \
	{                                                                                                              \
		__asm__ volatile("" ::: "memory");                                                                     \
	}
FUNCTION(alpha)
FUNCTION(beta)
FUNCTION(gamma_ray)

static char folder[] = "/tmp/calltap-test-XXXXXX";

static void answer_switch(struct fake_agent *agent, struct heard *entry, const struct calltap_msg_switch *message)
{
	const struct calltap_msg_switch_done done = {.switched = message->count};
	struct bench *bench = agent->bench;

	entry->on = message->on;
	entry->count = message->count;
	entry->plan = message->plan_id;
	for (uint32_t i = 0; i < message->count; i++) {
		entry->alpha |= message->sites[i] == agent->alpha;
		entry->beta |= message->sites[i] == agent->beta;
	}
	if (!agent->deaf)
		assert_int_equal(live_answer(&bench->session, &bench->process, &done), 0);
}

static void answer_plan(struct fake_agent *agent, struct heard *entry, const struct calltap_msg_plan *message)
{
	struct target *process = &agent->bench->process;

	entry->plan = message->plan_id;
	entry->live = message->live;
	entry->count = message->site_count;
	if (agent->deaf)
		return;
	process->maps[message->plan_id].region = FAKE_REGION + (uint32_t)message->plan_id * CALLTAP_PAGE;
	process->owed.stubs--;
	pthread_cond_broadcast(&agent->bench->session.answered);
}

/* The next message and the descriptor that came with it, or -1. */
static bool hear(struct fake_agent *agent, union fake_message *in, int *fd)
{
	union {
		struct cmsghdr head;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control;
	struct iovec vec = {in, sizeof(*in)};
	struct msghdr header = {
		.msg_iov = &vec, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)};
	struct pollfd poll_fd = {.fd = agent->bench->target, .events = POLLIN};

	*fd = -1;
	if (poll(&poll_fd, 1, 10) <= 0 || recvmsg(agent->bench->target, &header, MSG_CMSG_CLOEXEC) <= 0)
		return false;
	if (header.msg_controllen)
		memcpy(fd, CMSG_DATA(&control.head), sizeof(*fd));
	return true;
}

uint64_t fake_agent_who(const struct fake_agent *agent, uint32_t at)
{
	const struct calltap_handled *row = agent->rows ? &agent->rows[agent->image->sites[at].id] : NULL;

	return row ? row->who | (uint64_t)row->instances << CALLTAP_HANDLED_INSTANCES_AT : 0;
}

/* Rows and roles. */
#define ROWS_SIZE (CALLTAP_HANDLED_MAX * (sizeof(struct calltap_handled) + sizeof(struct calltap_roles)))

static void forget_rows(struct fake_agent *agent)
{
	if (agent->rows)
		munmap((void *)agent->rows, ROWS_SIZE);
	agent->rows = NULL;
}

void fake_agent_take_rows(struct fake_agent *agent, const struct calltap_msg_handlers *message, int fd, int error)
{
	const struct calltap_msg_handlers_done done = {.error = error};

	assert_int_equal(message->functions, CALLTAP_HANDLED_MAX);
	forget_rows(agent);
	agent->rows = mmap(NULL, ROWS_SIZE, PROT_READ, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(agent->rows, MAP_FAILED);
	assert_int_equal(handlers_answer(&agent->bench->session, &agent->bench->process, &done), 0);
}

static void take(struct fake_agent *agent, const union fake_message *in, int fd)
{
	struct heard *entry;

	session_lock(&agent->bench->session);
	assert_true(agent->heard_count < HEARD_MAX);
	entry = &agent->heard[agent->heard_count++];
	*entry = (struct heard){.type = in->head.type};
	if (agent->image->site_count) {
		entry->alpha_who = fake_agent_who(agent, agent->alpha);
		entry->beta_who = fake_agent_who(agent, agent->beta);
	}
	if (agent->more)
		agent->more(agent, entry, in, fd);
	if (in->head.type == CALLTAP_MSG_SET)
		entry->set = in->set;
	else if (in->head.type == CALLTAP_MSG_PLAN)
		answer_plan(agent, entry, &in->plan);
	else if (in->head.type == CALLTAP_MSG_SWITCH)
		answer_switch(agent, entry, &in->change);
	session_unlock(&agent->bench->session);
}

static void *agent_main(void *arg)
{
	struct fake_agent *agent = arg;
	union fake_message in;
	int fd;

	while (!__atomic_load_n(&agent->ending, __ATOMIC_ACQUIRE)) {
		if (!hear(agent, &in, &fd))
			continue;
		if (in.head.type == CALLTAP_MSG_GO)
			sem_post(&agent->caught_up);
		else
			take(agent, &in, fd);
		if (fd >= 0)
			close(fd);
	}
	return NULL;
}

static uint32_t place_of(const struct image *image, const char *name)
{
	for (uint32_t i = 0; i < image->site_count; i++)
		if (!strcmp(image->sources[i]->symbol, name))
			return i;
	fail_msg("no site of %s", name);
	return 0;
}

void fake_agent_decide(struct fake_agent *agent)
{
	struct image *image = agent->image;

	assert_int_equal(image_decide(&agent->bench->session.images, image), 0);
	agent->alpha = place_of(image, "alpha");
	agent->beta = place_of(image, "beta");
	agent->bench->process.maps[0].base = (uint64_t)(uintptr_t)alpha - image->sources[agent->alpha]->function;
}

struct fake_agent *fake_agent_create(const char *tracer)
{
	struct fake_agent *agent = calloc(1, sizeof(*agent));
	struct bench *bench = bench_create(CALLTAP_MODE_BLOCK);
	struct session *session = &bench->session;
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);

	agent->bench = bench;
	bench->instance.settings = (struct settings){.options = bench->options, .tracing = true};
	bench->instance.settings.options.tracer = tracer_find(tracer);
	apply_take(session, &bench->instance.settings);
	assert_int_equal(images_get(&agent->image, &session->images, fd, "/proc/self/exe", false), 0);
	close(fd);
	bench->process.maps = calloc(1, sizeof(*bench->process.maps));
	bench->process.maps[0] = (struct target_map){.image = agent->image, .region = FAKE_REGION, .mapped = true};
	bench->process.map_count = 1;
	bench->process.greeted = bench->process.welcome = true;
	return agent;
}

void fake_agent_begin(struct fake_agent *agent)
{
	struct session *session = &agent->bench->session;

	assert_int_equal(sem_init(&agent->caught_up, 0, 0), 0);
	assert_int_equal(steer_begin(session, getpid(), NULL), 0);
	assert_non_null(session->remote);
	assert_int_equal(pthread_create(&agent->thread, NULL, agent_main, agent), 0);
}

void fake_agent_end(struct fake_agent *agent)
{
	struct handlers *handlers = agent->bench->session.images.handlers;

	__atomic_store_n(&agent->ending, true, __ATOMIC_RELEASE);
	pthread_join(agent->thread, NULL);
	sem_destroy(&agent->caught_up);
	steer_end(&agent->bench->session);
	bench_destroy(agent->bench);
	handlers_destroy(handlers);
	forget_rows(agent);
	free(agent);
}

void fake_agent_wait(struct fake_agent *agent)
{
	const struct calltap_msg last = {CALLTAP_MSG_GO, sizeof(last)};

	assert_int_equal(channel_send(agent->bench->process.socket, &last, sizeof(last), NULL, 0), 0);
	while (sem_wait(&agent->caught_up))
		;
}

int fake_agent_set(struct fake_agent *agent, const char *word, struct calltap_diag *diag)
{
	const struct remote_request request = {
		.verb = "set", .words = &word, .count = 1, .timeout_ms = FAKE_PATIENCE_MS};
	struct calltap_diag own;
	char *answer = NULL;
	int connected, ret;

	agent->heard_count = 0;
	assert_int_equal(remote_connect(&connected, getpid(), &own), 0);
	ret = remote_ask(connected, &request, &answer, diag ? diag : &own);
	close(connected);
	free(answer);
	fake_agent_wait(agent); /* nobody waits for an answer to the limits */
	return ret;
}

int fake_folder_make(void **state)
{
	return !mkdtemp(folder) || setenv("XDG_RUNTIME_DIR", folder, 1);
}

int fake_folder_remove(void **state)
{
	char sockets[64];

	snprintf(sockets, sizeof(sockets), "%s/calltap", folder);
	rmdir(sockets);
	rmdir(folder);
	return 0;
}
