/*
 * What triggers do, in a thread of its own: no drainer and no target waits for
 * a snapshot to be written or a command to end (triggers.h).  Context: host.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <calltap/abi/profile.h>
#include <host/attach/attach.h>
#include <host/counted.h>
#include <host/elf/filter.h>
#include <host/elf/object.h>
#include <host/instance/snapshot.h>
#include <host/session/session.h>
#include <host/target/attached.h>
#include <host/thread.h>

#include "triggers_impl.h"

#define ENDING_NS    5000000000u /* for what is under way when the recording ends; a command may run on */
#define AGE_MAX_NS   10000000000u
#define STEP_NS	     5000000 /* how often a command is looked at */
#define AGENT_RANGES 4
#define AGAIN	     1
#define STOPS	     5 /* for a stack that can be read */
#define VARIABLES    5 /* that a command is given */
#define VARIABLE_MAX (TRIGGER_TEXT + 32)

static uint64_t duration_of(const struct triggers *triggers, const struct calltap_event *event)
{
	if (!event->exit_ticks || event->exit_ticks < event->entry_ticks || !event->entry_ticks)
		return 0;
	return (uint64_t)((double)(event->exit_ticks - event->entry_ticks) / triggers->ticks_per_ns);
}

static void say_what(struct deed *deed)
{
	const struct trigger *trigger = deed->trigger;
	char how[80] = "";

	switch (trigger->kind) {
	case CALLTAP_EVENT_LONGER:
		snprintf(how, sizeof(how), "took %.3f ms", (double)deed->duration_ns / 1e6);
		break;
	case CALLTAP_EVENT_OFTEN:
		snprintf(how, sizeof(how), "was called %u %s in %g ms", trigger->often,
			 counted(trigger->often, "time", "times"), (double)trigger->window_ns / 1e6);
		break;
	case CALLTAP_EVENT_THREW:
		snprintf(how, sizeof(how), "was left by an exception");
		break;
	case CALLTAP_EVENT_LEFT:
		snprintf(how, sizeof(how), "returned");
		break;
	default:
		snprintf(how, sizeof(how), "was entered");
	}
	snprintf(deed->text, sizeof(deed->text), "%s %s in thread %u", deed->function, how, deed->tid);
}

/* The target tells one event of a call's begin and one of its end: what took long has returned, too. */
static bool is_meant(const struct triggers *triggers, const struct trigger *trigger, const struct calltap_event *event,
		     uint64_t duration_ns)
{
	switch (event->kind) {
	case CALLTAP_EVENT_LONGER:
		return trigger->kind == CALLTAP_EVENT_LEFT ||
		       (trigger->kind == CALLTAP_EVENT_LONGER && duration_ns >= trigger->longer_ns);
	case CALLTAP_EVENT_OFTEN:
		return trigger->kind == CALLTAP_EVENT_ENTERED ||
		       (trigger->kind == CALLTAP_EVENT_OFTEN && trigger_is_counted(triggers, trigger, event->function));
	default:
		return trigger->kind == event->kind;
	}
}

static bool is_due(const struct triggers *triggers, const struct trigger *trigger, uint64_t now_ns)
{
	return (!trigger->last_ns || now_ns - trigger->last_ns >= triggers->gap_ns) &&
	       (!triggers->most || triggers->actions < triggers->most);
}

/* The event says so in memory that the target may scribble on: it is not to lead us to other processes. */
static pid_t pid_of(const struct session *session, uint32_t pid)
{
	for (const struct target *target = session->targets; target; target = target->next)
		if (target->greeted && !target->ended && !target->other_ids && (uint32_t)target->pid == pid)
			return target->pid;
	return 0;
}

static void add_deed(struct triggers *triggers, const struct deed *deed)
{
	if (triggers->queued == TRIGGER_QUEUE) {
		triggers->dropped++; /* the actor is too far behind */
		return;
	}
	triggers->queue[triggers->queued++] = *deed;
	triggers->actions++;
	deed->trigger->last_ns = deed->seen_ns;
	deed->trigger->count++;
}

/* How long ago it was: the drainer may have slept, or had much to do. */
static uint64_t age_of(const struct triggers *triggers, const struct calltap_event *event)
{
	uint64_t then = event->exit_ticks ? event->exit_ticks : event->entry_ticks;
	uint64_t now = timing_now(triggers->session).ticks;
	uint64_t age = then && then < now ? (uint64_t)((double)(now - then) / triggers->ticks_per_ns) : 0;

	return age < AGE_MAX_NS ? age : 0; /* else it is made up */
}

/* The index of the session's process whose rings hold the pid's records; false: there is none. */
static bool index_of(const struct session *session, uint32_t pid, uint32_t *index)
{
	bool found = false;

	for (const struct target *target = session->targets; target; target = target->next)
		if (target->greeted && target->hello.pid == pid && (!found || !target->ended)) {
			*index = target->index;
			found = true;
		}
	return found;
}

static struct history_call call_of(const struct triggers *triggers, const struct calltap_event *event)
{
	struct history_call call = {
		.tid = event->tid,
		.function = event->function,
		.entry_ticks = event->entry_ticks,
		.exit_ticks = event->exit_ticks,
		.threw = event->kind == CALLTAP_EVENT_THREW,
	};

	/* A time to come is made up. */
	if (!call.entry_ticks || call.exit_ticks < call.entry_ticks ||
	    call.exit_ticks > timing_now(triggers->session).ticks ||
	    !index_of(triggers->session, event->pid, &call.process))
		call.exit_ticks = 0;
	return call;
}

static void tell_actor(struct triggers *triggers, const struct calltap_event *event)
{
	uint64_t now_ns = clock_now_ns();
	struct deed deed = {
		.pid = pid_of(triggers->session, event->pid),
		.tid = event->tid,
		.told_pid = event->pid,
		.seen_ns = now_ns,
		.happened_ns = now_ns - age_of(triggers, event),
		.duration_ns = duration_of(triggers, event),
		.call = call_of(triggers, event),
	};
	uint32_t site;
	struct image *image = images_of(&triggers->session->images, event->function, &site);

	pthread_mutex_lock(&triggers->lock);
	if (image && deed.call.exit_ticks)
		triggers->calls[triggers->calls_seen++ % TRIGGER_CALLS] = deed.call;
	for (size_t i = 0; image && i < triggers->count; i++) {
		deed.trigger = &triggers->list[i];
		if (!is_meant(triggers, deed.trigger, event, deed.duration_ns) ||
		    !is_due(triggers, deed.trigger, deed.seen_ns) ||
		    !trigger_names(deed.trigger, image->object, image->sources[site]))
			continue;
		snprintf(deed.function, sizeof(deed.function), "%s",
			 object_site_short_name(image->object, image->sources[site]));
		say_what(&deed);
		add_deed(triggers, &deed);
	}
	pthread_cond_signal(&triggers->wake);
	pthread_mutex_unlock(&triggers->lock);
}

static void tell(const struct session *session, const struct deed *deed, const char *what)
{
	if (!session->options->progress && !session->options->verbose && !session->options->tells)
		return;
	if (session->options->progress)
		fprintf(stderr, "\r\033[K"); /* the line of progress */
	fprintf(stderr, "calltap: %s: %s\n", deed->text, what);
}

/* Or until the recording ends. */
static void wait_until(struct triggers *triggers, uint64_t ns)
{
	const struct timespec until = {(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};
	int error = 0;

	pthread_mutex_lock(&triggers->lock);
	while (!triggers->ending && !error && clock_now_ns() < ns)
		error = pthread_cond_clockwait(&triggers->wake, &triggers->lock, CLOCK_MONOTONIC, &until);
	pthread_mutex_unlock(&triggers->lock);
}

static bool is_overdue(struct triggers *triggers)
{
	bool overdue;

	pthread_mutex_lock(&triggers->lock);
	overdue = triggers->ending && clock_now_ns() > triggers->until_ns;
	pthread_mutex_unlock(&triggers->lock);
	return overdue;
}

static void take_snapshot(struct triggers *triggers, const struct deed *deed)
{
	const struct record_options *recording = triggers->session->options;
	struct snapshot_options options = {.size = sizeof(options), .fd = -1, .reason = deed->text};
	struct snapshot_result result;
	struct calltap_diag diag = {0};
	char path[4096], what[4200];

	wait_until(triggers, deed->happened_ns + triggers->after_ns);
	snprintf(path, sizeof(path), "%s.%u", recording->output ? recording->output : "calltap.data",
		 ++triggers->snapshots);
	options.path = path;
	options.call = deed->call.exit_ticks ? &deed->call : NULL;
	if (triggers->history_ns)
		options.history_ns = triggers->history_ns + clock_now_ns() - deed->happened_ns;
	if (snapshot_write(session_first(triggers->session), &options, &result, &diag)) {
		calltap_diag_print(&diag, stderr);
		return;
	}
	if (!result.records) { /* nothing runs any more */
		unlink(path);
		fprintf(stderr, "calltap: %s; the program has ended since, and its last records are in %s\n",
			deed->text, recording->output ? recording->output : "no file");
		return;
	}
	snprintf(what, sizeof(what), "snapshot %s, %" PRIu64 " %s", path, result.records,
		 counted(result.records, "record", "records"));
	tell(triggers->session, deed, what);
}

struct printing {
	struct session *session;
	const struct deed *deed;
	struct attach_stacks *stacks;
	struct attach_range agent[AGENT_RANGES]; /* its text */
	int agent_count;
	uint32_t stops;
	bool done;
};

/* The recorders' own frames, innermost, are no business of the program's. */
static size_t count_agent(const struct printing *printing, const struct attach_unwound *thread)
{
	size_t count = 0;

	for (int i = 0; i < printing->agent_count && count < thread->count; i++)
		if (thread->pcs[count] >= printing->agent[i].lo && thread->pcs[count] < printing->agent[i].hi) {
			count++;
			i = -1; /* the next one may be in any */
		}
	return count;
}

static int print_stack(void *context, const struct attach_unwound *thread)
{
	struct printing *printing = context;
	size_t skipped = count_agent(printing, thread);

	if ((uint32_t)thread->tid != printing->deed->tid)
		return 0;
	/* In a recorder, or a stub, which has no name: it comes out soon. */
	if (printing->stops < STOPS && (skipped || !thread->count || !attach_symbol(printing->stacks, thread->pcs[0])))
		return AGAIN;
	fprintf(stderr, "calltap: %s:\n", printing->deed->text);
	if (skipped)
		fprintf(stderr, "       (a call that is just being recorded)\n");
	for (size_t i = skipped; i < thread->count; i++) {
		const char *name = attach_symbol(printing->stacks, thread->pcs[i] - (i ? 1 : 0));
		char *plain = name ? object_demangle(name) : NULL;

		fprintf(stderr, "  #%-3zu %s\n", i - skipped, plain ? plain : name ? name : "??");
		free(plain);
	}
	printing->done = true;
	return 0;
}

/* All its threads are stopped for a moment, as any debugger would. */
static int stop_and_print(struct printing *printing, struct calltap_diag *diag)
{
	const struct deed *deed = printing->deed;
	struct attach_times times;
	struct attach_stop *stop;
	int ret;

	if (!deed->pid)
		return calltap_diag_set(diag, -ESRCH, "process %u has ended, or is in a pid namespace", deed->told_pid);
	printing->agent_count = attached_text_of(deed->pid, "libcalltap-agent", printing->agent, AGENT_RANGES);
	do {
		attach_stacks_free(printing->stacks);
		printing->stacks = NULL;
		printing->stops++;
		ret = attach_stop(&stop, deed->pid, NULL, 0, diag);
		if (!ret) {
			ret = attach_copy(stop, &printing->stacks, diag);
			attach_resume_timed(stop, &times);
			session_lock(printing->session);
			attached_note_times(printing->session, &times);
			session_unlock(printing->session);
		}
		if (!ret)
			ret = attach_unwind(printing->stacks, print_stack, printing);
		if (ret == AGAIN)
			attached_pause(0);
	} while (ret == AGAIN);
	return ret || printing->done ? ret : calltap_diag_set(diag, -ESRCH, "the thread has ended");
}

static void dump_stack(const struct triggers *triggers, const struct deed *deed)
{
	struct printing printing = {.session = triggers->session, .deed = deed};
	struct calltap_diag diag = {0};
	int ret = stop_and_print(&printing, &diag);

	if (ret)
		fprintf(stderr, "calltap: %s, and its stack cannot be shown: %s\n", deed->text,
			diag.text[0] ? diag.text : strerror(-ret));
	attach_stacks_free(printing.stacks);
}

static const char *const names[VARIABLES] = {
	"CALLTAP_TRIGGER=", "CALLTAP_FUNCTION=", "CALLTAP_PID=", "CALLTAP_TID=", "CALLTAP_DURATION_NS="};

static bool is_own(const char *variable)
{
	for (size_t i = 0; i < VARIABLES; i++)
		if (!strncmp(variable, names[i], strlen(names[i])))
			return true;
	return false;
}

/* Our environment and what the command is told; not by setenv(), for other threads look into it.  NULL: no memory. */
static char **make_environment(char own[VARIABLES][VARIABLE_MAX])
{
	size_t count = 0, have = VARIABLES;
	char **list;

	while (environ[count])
		count++;
	list = calloc(VARIABLES + count + 1, sizeof(*list));
	for (size_t i = 0; list && i < VARIABLES; i++)
		list[i] = own[i];
	for (size_t i = 0; list && i < count; i++)
		if (!is_own(environ[i]))
			list[have++] = environ[i];
	return list;
}

static int spawn(const struct deed *deed, char **environment, pid_t *child)
{
	char *const argv[] = {"/bin/sh", "-c", deed->trigger->command, NULL};
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attributes;
	sigset_t none, ours;
	int error;

	sigemptyset(&none);
	sigemptyset(&ours);
	sigaddset(&ours, SIGINT);
	sigaddset(&ours, SIGTERM);
	sigaddset(&ours, SIGQUIT);
	sigaddset(&ours, SIGPIPE);
	posix_spawnattr_init(&attributes);
	posix_spawnattr_setsigmask(&attributes, &none);
	posix_spawnattr_setsigdefault(&attributes, &ours);
	posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
	/* Standard input and output are the program's. */
	posix_spawn_file_actions_init(&files);
	posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_adddup2(&files, STDERR_FILENO, STDOUT_FILENO);
	error = posix_spawn(child, argv[0], &files, &attributes, argv, environment);
	posix_spawn_file_actions_destroy(&files);
	posix_spawnattr_destroy(&attributes);
	return error;
}

/* A command that lasts does not keep the tool from ending. */
static void wait_for(struct triggers *triggers, const struct deed *deed, pid_t child)
{
	const struct timespec step = {0, STEP_NS};
	pid_t ended;

	while (!(ended = waitpid(child, NULL, WNOHANG)) || (ended < 0 && errno == EINTR)) {
		if (is_overdue(triggers)) {
			fprintf(stderr, "calltap: '%s' runs on\n", deed->trigger->command);
			return;
		}
		nanosleep(&step, NULL);
	}
}

static void run_command(struct triggers *triggers, const struct deed *deed)
{
	char own[VARIABLES][VARIABLE_MAX], **environment;
	pid_t child;
	int error;

	snprintf(own[0], VARIABLE_MAX, "%s%s", names[0], deed->text);
	snprintf(own[1], VARIABLE_MAX, "%s%s", names[1], deed->function);
	snprintf(own[2], VARIABLE_MAX, "%s%u", names[2], deed->told_pid);
	snprintf(own[3], VARIABLE_MAX, "%s%u", names[3], deed->tid);
	snprintf(own[4], VARIABLE_MAX, "%s%" PRIu64, names[4], deed->duration_ns);
	environment = make_environment(own);
	error = environment ? spawn(deed, environment, &child) : ENOMEM;
	free(environment);
	if (error)
		fprintf(stderr, "calltap: %s, and '%s' cannot be run: %s\n", deed->text, deed->trigger->command,
			strerror(error));
	else
		wait_for(triggers, deed, child);
}

static void act(struct triggers *triggers, const struct deed *deed)
{
	switch (deed->trigger->action) {
	case TRIGGER_SNAPSHOT:
		take_snapshot(triggers, deed);
		break;
	case TRIGGER_START:
	case TRIGGER_STOP:
		steer_tracing(triggers->session, deed->trigger->action == TRIGGER_START);
		tell(triggers->session, deed,
		     deed->trigger->action == TRIGGER_START ? "recording" : "stopped recording");
		break;
	case TRIGGER_STACK:
		dump_stack(triggers, deed);
		break;
	case TRIGGER_RUN:
		run_command(triggers, deed);
		break;
	case TRIGGER_ACTIONS:
		break;
	}
}

/* What is to be done next; false: nothing any more. */
static bool wait_for_one(struct triggers *triggers, struct deed *deed)
{
	bool any;

	pthread_mutex_lock(&triggers->lock);
	while (!triggers->queued && !triggers->ending)
		pthread_cond_wait(&triggers->wake, &triggers->lock);
	any = triggers->queued && !(triggers->ending && clock_now_ns() > triggers->until_ns);
	if (any) {
		*deed = triggers->queue[0];
		memmove(triggers->queue, triggers->queue + 1, --triggers->queued * sizeof(triggers->queue[0]));
	}
	pthread_mutex_unlock(&triggers->lock);
	return any;
}

static void *actor_main(void *arg)
{
	struct triggers *triggers = arg;
	struct deed deed;

	while (wait_for_one(triggers, &deed))
		act(triggers, &deed);
	return NULL;
}

int triggers_start(struct triggers *triggers)
{
	int ret = thread_start(&triggers->actor, actor_main, triggers);

	triggers->actor_runs = !ret;
	return ret;
}

/* The memory is the target's to scribble on: what it says is checked against what we know. */
static bool read_event(const struct triggers *triggers, uint64_t number, struct calltap_event *event)
{
	const struct calltap_event *at =
		(void *)((char *)triggers->memory +
			 calltap_triggers_at_event(triggers->functions, (uint32_t)(number & (TRIGGER_SLOTS - 1))));

	if (__atomic_load_n(&at->number, __ATOMIC_ACQUIRE) != number + 1) /* pairs with the store in tell() */
		return false;
	memcpy(event, at, sizeof(*event));
	return event->function < triggers->functions;
}

void triggers_poll(struct triggers *triggers)
{
	uint64_t taken = __atomic_load_n(&triggers->memory->taken, __ATOMIC_ACQUIRE);

	if (taken - triggers->read > TRIGGER_SLOTS)
		triggers->read = taken; /* scribbled on */
	while (triggers->read != taken) {
		struct calltap_event event;

		/* Not written yet: the next round has it, unless its writer has died meanwhile. */
		if (!read_event(triggers, triggers->read, &event)) {
			if (triggers->stuck++ < STUCK_ROUNDS)
				break;
		} else {
			tell_actor(triggers, &event);
		}
		triggers->stuck = 0;
		triggers->read++;
	}
	__atomic_store_n(&triggers->memory->read, triggers->read, __ATOMIC_RELEASE); /* pairs with take() */
}

static void tell_missed(const struct triggers *triggers)
{
	uint64_t lost = __atomic_load_n(&triggers->memory->lost, __ATOMIC_RELAXED);

	if (lost + triggers->dropped + triggers->queued)
		fprintf(stderr,
			"calltap: %" PRIu64 " %s missed, there were too many at once; %" PRIu64
			" %s not taken in time\n",
			lost, counted(lost, "call that triggers wait for was", "calls that triggers wait for were"),
			triggers->dropped + triggers->queued,
			counted(triggers->dropped + triggers->queued, "action was", "actions were"));
}

void triggers_end(struct triggers *triggers)
{
	if (!triggers->actor_runs)
		return;
	/* What the drainer has not seen yet. */
	session_lock(triggers->session);
	triggers_poll(triggers);
	session_unlock(triggers->session);
	pthread_mutex_lock(&triggers->lock);
	triggers->ending = true;
	triggers->until_ns = clock_now_ns() + ENDING_NS;
	pthread_cond_signal(&triggers->wake);
	pthread_mutex_unlock(&triggers->lock);
	pthread_join(triggers->actor, NULL);
	triggers->actor_runs = false;
	tell_missed(triggers);
}
