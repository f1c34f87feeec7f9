/*
 * Switching functions on and off while they are recorded (record.h).
 *
 * What is off is kept with the images, so that processes and objects that
 * come later get it too.  Every agent is sent the places in its plans, in
 * messages of bounded size, and the caller waits for the answers, which the
 * server thread takes in.  Context: host, any thread but the server's.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>

#include <host/cgroup.h>
#include <host/proc.h>

#include "session.h"

#define ANSWER_S 5 /* longest wait for the agents; a stopped process does not answer */
#define TURNS	 4 /* so often as long for those that only wait for a CPU */
#define ATTACH_S 3 /* and for an attach that is under way */

struct record_live {
	pthread_mutex_t lock;	 /* held by who switches; taken before the session's */
	struct session *session; /* NULL: nothing is being recorded */
};

int record_live_create(struct record_live **out)
{
	*out = calloc(1, sizeof(**out));
	if (!*out)
		return -ENOMEM;
	pthread_mutex_init(&(*out)->lock, NULL);
	return 0;
}

void record_live_destroy(struct record_live *live)
{
	if (!live)
		return;
	pthread_mutex_destroy(&live->lock);
	free(live);
}

void live_attach(struct session *session)
{
	struct record_live *live = session->options->live;

	if (!live)
		return;
	pthread_mutex_lock(&live->lock);
	live->session = session;
	pthread_mutex_unlock(&live->lock);
}

void live_detach(struct session *session)
{
	struct record_live *live = session->options->live;

	if (!live)
		return;
	pthread_mutex_lock(&live->lock);
	live->session = NULL;
	pthread_mutex_unlock(&live->lock);
}

void record_live_end(struct record_live *live)
{
	pthread_mutex_lock(&live->lock);
	if (live->session)
		session_end(live->session);
	pthread_mutex_unlock(&live->lock);
}

bool record_live_traces(struct record_live *live)
{
	bool traces;

	pthread_mutex_lock(&live->lock);
	traces = live->session && live->session->traced_ns;
	pthread_mutex_unlock(&live->lock);
	return traces;
}

pid_t record_live_pid(struct record_live *live)
{
	struct session *session = live_enter(live);
	pid_t pid = session ? session_pid(session) : 0;

	if (session)
		live_leave(live, session);
	return pid;
}

struct session *live_enter(struct record_live *live)
{
	pthread_mutex_lock(&live->lock);
	if (!live->session) {
		pthread_mutex_unlock(&live->lock);
		return NULL;
	}
	session_lock(live->session);
	return live->session;
}

void live_leave(struct record_live *live, struct session *session)
{
	session_unlock(session);
	pthread_mutex_unlock(&live->lock);
}

/* The sites whose choice is `which`, from *next on, as many as one message takes. */
static int send_some(struct target *target, const struct target_map *map, bool on, const bool *choice, bool which,
		     uint32_t *next)
{
	union {
		struct calltap_msg_switch message;
		uint8_t bytes[sizeof(struct calltap_msg_switch) + CALLTAP_SWITCH_MAX * sizeof(uint32_t)];
	} out = {
		.message = {.head = {CALLTAP_MSG_SWITCH, 0}, .plan_id = (uint64_t)(map - target->maps), .on = on},
	};
	uint32_t count = 0, i;
	size_t size;
	int ret;

	for (i = *next; i < map->image->site_count && count < CALLTAP_SWITCH_MAX; i++)
		if (choice[i] == which)
			out.message.sites[count++] = i;
	*next = i;
	if (!count)
		return 0;
	size = sizeof(out.message) + count * sizeof(out.message.sites[0]);
	out.message.head.size = (uint32_t)size;
	out.message.count = count;
	ret = channel_send(target->socket, &out, size, NULL, 0);
	target->owed.switches += !ret;
	return ret;
}

/* Make the sites of an object in the process what they are to be: on ones too, or all are on. */
static int apply_to_map(struct target *target, const struct target_map *map, bool on)
{
	const struct image *image = map->image;
	int ret = 0;

	if (!image || !map->region || !map->mapped || map->waits || map->variant != image->variant)
		return 0;
	for (uint32_t next = 0; next < image->site_count && !ret;)
		ret = send_some(target, map, on, image->off, !on, &next);
	return ret;
}

int live_catch_up(struct target *target, const struct target_map *map)
{
	int ret = apply_to_map(target, map, false);

	return ret ? ret : apply_to_map(target, map, true);
}

int live_apply(const struct session *session, struct target *target, const struct target_map *map)
{
	/* The plan says what is on; has that changed since it was sent? */
	return map->generation != session->images.generation ? live_catch_up(target, map) : 0;
}

int live_answer(struct session *session, struct target *target, const struct calltap_msg_switch_done *done)
{
	if (!target->owed.switches || done->switched + (uint64_t)done->failed > CALLTAP_SWITCH_MAX)
		return -EPROTO;
	target->silent = --target->owed.switches && target->silent;
	session->steering.switched += done->switched;
	session->steering.failed += done->failed;
	pthread_cond_broadcast(&session->answered);
	return 0;
}

/* Before APPLY nothing of it may be switched, and its agent is to say nothing but what the attach asks. */
static bool attach_is_open(const struct session *session)
{
	return !session->ending.letting_go && attachees_are_open(session);
}

int live_turn_begin(struct session *session)
{
	struct timespec until;
	int error = 0;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += ATTACH_S;
	session->steering.waiting++;
	while (session->steering.busy || (!error && attach_is_open(session)))
		if (session->steering.busy)
			pthread_cond_wait(&session->answered, &session->lock);
		else
			error = pthread_cond_clockwait(&session->answered, &session->lock, CLOCK_MONOTONIC, &until);
	session->steering.waiting--;
	if (attach_is_open(session))
		return -EAGAIN;
	session->steering.busy = true;
	session->images.generation++;
	return 0;
}

void live_turn_end(struct session *session)
{
	session->steering.busy = false;
	forked_turn_ends(session);
	pthread_cond_broadcast(&session->answered);
	if (attachees_are_due(session))
		eventfd_write(session->endpoint.drained_fd, 1); /* the server thread begins with the next */
}

static bool owes_answers(const struct target *target)
{
	return target->owed.switches || target->owed.stubs || target->owed.handlers || target->owed.instances ||
	       target->owed.applies || target->owed.programs;
}

void live_forgive(struct session *session, struct target *target)
{
	target->owed.switches = target->owed.stubs = target->owed.handlers = target->owed.instances = 0;
	target->owed.applies = 0;
	target->owed.programs = false;
	target->silent = false;
	pthread_cond_broadcast(&session->answered);
}

static bool answers_open(const struct session *session, bool of_silent)
{
	for (const struct target *target = session->targets; target; target = target->next)
		if (owes_answers(target) && (of_silent || !target->silent) && live_can_be_told(target))
			return true;
	return false;
}

/* Wait until all have answered that are not silent; ETIMEDOUT: some have not. */
static int wait_a_turn(struct session *session)
{
	struct timespec until;
	int error = 0;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += ANSWER_S;
	while (!error && answers_open(session, false))
		error = pthread_cond_clockwait(&session->answered, &session->lock, CLOCK_MONOTONIC, &until);
	return error;
}

/* False: a signal, a debugger or a cgroup holds the process, and nobody knows for how long. */
static bool may_run(const struct target *target)
{
	char state = proc_state(target->pid, NULL);

	return state && !strchr("TtZX", state) && !cgroup_is_frozen(target->pid);
}

int live_wait(struct session *session)
{
	int error = wait_a_turn(session);

	/* A target that did not answer in time is not waited for again until it has answered all. */
	for (unsigned turn = 1; error; turn++) {
		for (struct target *target = session->targets; target; target = target->next)
			target->silent = owes_answers(target) && (target->silent || turn >= TURNS || !may_run(target));
		error = answers_open(session, false) ? wait_a_turn(session) : 0;
	}
	return answers_open(session, true) ? -ETIMEDOUT : 0;
}

/* The chosen sites of one image, in all processes that have it; a message each at a time. */
int live_switch_image(struct session *session, struct image *image, bool on, const bool *chosen)
{
	int ret = 0;

	for (uint32_t next = 0, from; next < image->site_count;) {
		from = next;
		next = image->site_count;
		for (struct target *target = session->targets; target; target = target->next)
			for (uint32_t i = 0; i < target->map_count && live_can_be_told(target); i++) {
				const struct target_map *map = &target->maps[i];

				if (map->image != image || map->variant != image->variant || !map->region ||
				    !map->mapped || map->waits)
					continue;
				next = from;
				if (send_some(target, map, on, chosen, true, &next) == -EAGAIN)
					session->steering.failed++; /* stopped; all other errors are its end */
			}
		if (live_wait(session))
			ret = -ETIMEDOUT;
	}
	return ret;
}

struct choice {
	const uint32_t *ids;
	size_t count;
	struct filter_set *filters;
};

static bool is_chosen(const struct choice *choice, const struct image *image, uint32_t site)
{
	struct filter_decision decision;

	if (choice->filters) {
		filter_set_decide(choice->filters, image->object, image->sources[site], &decision);
		return decision.trace;
	}
	for (size_t i = 0; i < choice->count; i++)
		if (choice->ids[i] == image->sites[site].id)
			return true;
	return false;
}

/* Note what is to be off; *chosen, to be freed, says which sites were named. */
static int choose_sites(struct image *image, const struct choice *choice, bool on, bool **chosen, uint64_t *functions)
{
	uint64_t before = *functions;

	*chosen = calloc(image->site_count, sizeof(**chosen));
	if (!*chosen)
		return -ENOMEM;
	for (uint32_t i = 0; i < image->site_count; i++) {
		/* A function with handlers keeps its site on; its row decides whether it is recorded. */
		(*chosen)[i] = is_chosen(choice, image, i) && !(image->who && image->who[i]);
		if ((*chosen)[i]) {
			image->off[i] = !on;
			image->touched[i] |= on;
		}
		*functions += (*chosen)[i];
	}
	return *functions == before;
}

static int switch_all(struct session *session, const struct choice *choice, bool on, struct record_switched *result)
{
	int ret = 0, late = 0;

	session->steering.switched = 0;
	session->steering.failed = 0;
	for (struct image *image = session->images.first; image && ret >= 0; image = image->next) {
		bool *chosen = NULL;

		if (!image->site_count)
			continue;
		ret = choose_sites(image, choice, on, &chosen, &result->functions);
		if (!ret)
			late |= live_switch_image(session, image, on, chosen);
		free(chosen);
	}
	result->switched = session->steering.switched;
	result->failed = session->steering.failed;
	return ret < 0 ? ret : late;
}

static int change_sites(struct record_live *live, const struct choice *choice, bool on, struct record_switched *result)
{
	struct session *session;
	int ret;

	*result = (struct record_switched){0};
	session = live_enter(live);
	if (!session)
		return -ESRCH;
	ret = live_turn_begin(session);
	if (!ret) {
		ret = switch_all(session, choice, on, result);
		live_turn_end(session);
	}
	live_leave(live, session);
	return ret;
}

int record_live_switch(struct record_live *live, struct filter_set *filters, bool on, struct record_switched *result)
{
	return change_sites(live, &(struct choice){.filters = filters}, on, result);
}

int record_live_switch_ids(struct record_live *live, const uint32_t *ids, size_t count, bool on,
			   struct record_switched *result)
{
	return change_sites(live, &(struct choice){.ids = ids, .count = count}, on, result);
}
