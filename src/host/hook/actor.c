/*
 * Doing what triggers are for (actor.h).  Context: host.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <host/attach/attach.h>
#include <host/counted.h>
#include <host/elf/object.h>
#include <host/target/attached.h>
#include <host/thread.h>

#include "actor.h"
#include "triggers_impl.h"

#define ENDING_NS    5000000000u /* for what is under way when the recording ends; a command may run on */
#define STEP_NS	     5000000	 /* how often a command is looked at */
#define AGENT_RANGES 4
#define AGAIN	     1
#define STOPS	     5 /* for a stack that can be read */
#define VARIABLES    5 /* that a command is given */
#define VARIABLE_MAX (DEED_TEXT + 32)

struct actor {
	struct actor_options options;
	pthread_t thread;
	uint32_t snapshots;   /* so far */
	pthread_mutex_t lock; /* of what follows; no other lock is taken with it */
	pthread_cond_t wake;
	bool ending;
	uint64_t until_ns; /* CLOCK_MONOTONIC: after it, nothing is begun or waited for; when ending */
	uint64_t undone;
};

static void tell_done(const struct actor *actor, const struct deed *deed, const char *what)
{
	if (!actor->options.tells)
		return;
	if (actor->options.progress)
		fprintf(stderr, "\r\033[K"); /* the line of progress */
	fprintf(stderr, "calltap: %s: %s\n", deed->text, what);
}

/* Wait until that time, or until the actor is to end. */
static void wait_until(struct actor *actor, uint64_t ns)
{
	const struct timespec until = {(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};
	int error = 0;

	pthread_mutex_lock(&actor->lock);
	while (!actor->ending && !error && clock_now_ns() < ns)
		error = pthread_cond_clockwait(&actor->wake, &actor->lock, CLOCK_MONOTONIC, &until);
	pthread_mutex_unlock(&actor->lock);
}

static bool is_overdue(struct actor *actor)
{
	bool overdue;

	pthread_mutex_lock(&actor->lock);
	overdue = actor->ending && clock_now_ns() > actor->until_ns;
	pthread_mutex_unlock(&actor->lock);
	return overdue;
}

static void take_snapshot(struct actor *actor, const struct deed *deed)
{
	const char *output = actor->options.output ? actor->options.output : "calltap.data";
	const struct triggers *triggers = actor->options.triggers;
	struct calltap_diag diag = {0};
	uint64_t records = 0, history_ns = 0;
	char path[4096], what[4200];
	int ret;

	wait_until(actor, deed->happened_ns + triggers->after_ns);
	snprintf(path, sizeof(path), "%s.%u", output, ++actor->snapshots);
	if (triggers->history_ns)
		history_ns = triggers->history_ns + clock_now_ns() - deed->happened_ns;
	ret = actor->options.ops->snapshot(actor->options.context, deed, path, history_ns, &records, &diag);
	if (ret && ret != -ESRCH) {
		calltap_diag_print(&diag, stderr);
		return;
	}
	if (!records && !ret)
		unlink(path);
	if (!records) {
		fprintf(stderr,
			"calltap: %s; its snapshot would be empty: %sthe program has ended since, and its last records "
			"are in %s\n",
			deed->text, ret ? "" : "the filters leave no record, or ",
			actor->options.output ? output : "no file");
		return;
	}
	snprintf(what, sizeof(what), "snapshot %s, %" PRIu64 " %s", path, records,
		 counted(records, "record", "records"));
	tell_done(actor, deed, what);
}

struct printing {
	const struct actor *actor;
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
	fprintf(stderr, "calltap: %s, whose stack was this a moment later:\n", printing->deed->text);
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
	attach_await_transfers(deed->pid, clock_now_ns() + ATTACH_TRANSFERS_NS);
	printing->agent_count = attached_text_of(deed->pid, "libcalltap-agent", printing->agent, AGENT_RANGES);
	do {
		attach_stacks_free(printing->stacks);
		printing->stacks = NULL;
		printing->stops++;
		ret = attach_stop(&stop, deed->pid, NULL, 0, diag);
		if (!ret) {
			ret = attach_copy(stop, &printing->stacks, diag);
			attach_resume_timed(stop, &times);
			printing->actor->options.ops->stopped(printing->actor->options.context, &times);
		}
		if (!ret)
			ret = attach_unwind(printing->stacks, print_stack, printing);
		if (ret == AGAIN)
			attached_pause(0);
	} while (ret == AGAIN);
	return ret || printing->done ? ret : calltap_diag_set(diag, -ESRCH, "the thread has ended");
}

static void dump_stack(const struct actor *actor, const struct deed *deed)
{
	struct printing printing = {.actor = actor, .deed = deed};
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

static int start_command(char *command, char **environment, pid_t *child)
{
	char *const argv[] = {"/bin/sh", "-c", command, NULL};
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
static void wait_for(struct actor *actor, const char *command, pid_t child)
{
	const struct timespec step = {0, STEP_NS};
	pid_t ended;

	while (!(ended = waitpid(child, NULL, WNOHANG)) || (ended < 0 && errno == EINTR)) {
		if (is_overdue(actor)) {
			fprintf(stderr, "calltap: '%s' runs on\n", command);
			return;
		}
		nanosleep(&step, NULL);
	}
}

static void run_command(struct actor *actor, const struct deed *deed, char *command)
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
	error = environment ? start_command(command, environment, &child) : ENOMEM;
	free(environment);
	if (error)
		fprintf(stderr, "calltap: %s, and '%s' cannot be run: %s\n", deed->text, command, strerror(error));
	else
		wait_for(actor, command, child);
}

static void set_tracing(struct actor *actor, const struct deed *deed, bool on)
{
	struct calltap_diag diag = {.column = -1};

	if (actor->options.ops->tracing(actor->options.context, on, &diag))
		calltap_diag_print(&diag, stderr);
	else
		tell_done(actor, deed, on ? "recording" : "stopped recording");
}

static void carry_out(struct actor *actor, const struct deed *deed, const struct trigger *trigger)
{
	switch (trigger->action) {
	case TRIGGER_SNAPSHOT:
		take_snapshot(actor, deed);
		break;
	case TRIGGER_START:
	case TRIGGER_STOP:
		set_tracing(actor, deed, trigger->action == TRIGGER_START);
		break;
	case TRIGGER_STACK:
		dump_stack(actor, deed);
		break;
	case TRIGGER_RUN:
		run_command(actor, deed, trigger->command);
		break;
	case TRIGGER_ACTIONS:
		break;
	}
}

/* A packet of another size or for no trigger of ours comes from a session of another version. */
static bool is_sound(const struct actor *actor, const struct deed *deed, ssize_t size)
{
	return size == sizeof(*deed) && deed->size == sizeof(*deed) && deed->trigger < actor->options.triggers->count &&
	       memchr(deed->function, 0, sizeof(deed->function)) && memchr(deed->text, 0, sizeof(deed->text));
}

static void *actor_main(void *arg)
{
	struct actor *actor = arg;
	struct deed deed;
	ssize_t got;

	while ((got = recv(actor->options.deeds, &deed, sizeof(deed), 0)) > 0 || (got < 0 && errno == EINTR)) {
		if (got < 0)
			continue;
		if (!is_sound(actor, &deed, got) || is_overdue(actor))
			actor->undone++;
		else
			carry_out(actor, &deed, &actor->options.triggers->list[deed.trigger]);
	}
	return NULL;
}

int actor_start(struct actor **out, const struct actor_options *options)
{
	struct actor *actor = calloc(1, sizeof(*actor));
	int ret;

	*out = NULL;
	if (!actor)
		return -ENOMEM;
	actor->options = *options;
	pthread_mutex_init(&actor->lock, NULL);
	pthread_cond_init(&actor->wake, NULL);
	ret = thread_start(&actor->thread, actor_main, actor);
	if (ret)
		free(actor);
	else
		*out = actor;
	return ret;
}

uint64_t actor_end(struct actor *actor)
{
	uint64_t undone;

	if (!actor)
		return 0;
	pthread_mutex_lock(&actor->lock);
	actor->ending = true;
	actor->until_ns = clock_now_ns() + ENDING_NS;
	pthread_cond_signal(&actor->wake);
	pthread_mutex_unlock(&actor->lock);
	shutdown(actor->options.deeds, SHUT_RD); /* what has come is read yet */
	pthread_join(actor->thread, NULL);
	undone = actor->undone;
	pthread_cond_destroy(&actor->wake);
	pthread_mutex_destroy(&actor->lock);
	free(actor);
	return undone;
}
