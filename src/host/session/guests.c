/*
 * Static programs that the session's processes execute: no loader brings the agent in, so their agents ask the tool by
 * a word of the board (enum calltap_executing) to hold the process, or the child that is about to be made, and a thread
 * of the tool's puts the agent into the new program (attach/inject.c, placing_live.c; doc/design/loaderless.md).
 *
 * Called by the drainer, whom the bell wakes, and by the server thread.  Context: host.  Any process of the session may
 * write anything to the board: only a process that has the board itself is held.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <host/elf/object.h>
#include <host/proc.h>
#include <host/thread.h>

#include "session.h"

#define GUESTS_MAX  16u		/* at a time; further ones run untraced */
#define PATIENCE_NS 2000000000u /* between the hold and the exec, which is the process' next call */

/* A process, and the thread that puts the agent into what it executes. */
struct guest {
	struct guest *next;
	struct session *session;
	pthread_t thread;
	pid_t asker; /* the thread that has asked: the number in the word */
	pid_t pid;   /* atomic: of the process that executes: the asker, or its child as soon as that is there */
	bool spawns; /* the asker makes a child that executes */
	bool freed;  /* the word is: the asker may have asked for its next child since */
	uint64_t until_ns;
	struct placing *placing;
	struct placing_live live;
	char exe[PATH_MAX];
	bool done; /* atomic: the thread is about to end */
};

/* Pairs with the agents' changes of the word (agent/exec_static.c). */
static bool change(const struct guest *guest, enum calltap_executing from, uint64_t to)
{
	uint64_t old = calltap_executing_word((uint64_t)guest->asker, from);

	return __atomic_compare_exchange_n(&guest->session->board->executing, &old, to, false, __ATOMIC_SEQ_CST,
					   __ATOMIC_SEQ_CST);
}

/* The word is free for the next process, unless it is another's already. */
static void free_word(void *context)
{
	struct guest *guest = context;

	for (enum calltap_executing state = CALLTAP_EXECUTING_TAKEN;
	     !guest->freed && state <= CALLTAP_EXECUTING_WITHDRAWN; state++)
		guest->freed = change(guest, state, 0);
	guest->freed = true;
}

static bool is_held(void *context)
{
	struct guest *guest = context;

	guest->until_ns = clock_now_ns() + PATIENCE_NS;
	return change(guest, CALLTAP_EXECUTING_TAKEN,
		      calltap_executing_word((uint64_t)guest->asker, CALLTAP_EXECUTING_HELD));
}

static void has_made(void *context, pid_t child)
{
	struct guest *guest = context;

	guest->until_ns = clock_now_ns() + PATIENCE_NS;
	__atomic_store_n(&guest->pid, child, __ATOMIC_RELAXED);
	free_word(guest);
}

static bool goes_on(void *context)
{
	const struct guest *guest = context;

	return (guest->freed || __atomic_load_n(&guest->session->board->executing, __ATOMIC_SEQ_CST) ==
					calltap_executing_word((uint64_t)guest->asker, CALLTAP_EXECUTING_HELD)) &&
	       clock_now_ns() < guest->until_ns;
}

/* Called by the tracer, with the program held: the file that is executed is looked at, whatever was asked for. */
static int prepare(void *context, const struct attach_launch *launch, struct attach_options *options,
		   struct calltap_diag *diag)
{
	struct guest *guest = context;
	char path[64];
	ssize_t length;
	int fd, ret;

	snprintf(path, sizeof(path), "/proc/%d/exe", (int)guest->pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -ESRCH;
	length = readlink(path, guest->exe, sizeof(guest->exe) - 1);
	guest->exe[length < 0 ? 0 : length] = 0;
	ret = placing_create(&guest->placing, fd, guest->exe, guest->session->options->agent_path, diag);
	close(fd);
	if (!ret)
		ret = placing_prepare_guest(&guest->live, guest->placing, launch, diag);
	options->placed = &guest->live.placed;
	return ret;
}

static int bring_in(struct guest *guest, struct calltap_diag *diag)
{
	const struct session *session = guest->session;
	const struct attach_guest how = {
		.spawns = guest->spawns,
		.held = is_held,
		.made = has_made,
		.goes_on = goes_on,
		.over = free_word,
		.prepare = prepare,
		.context = guest,
	};
	char name[SESSION_NAME_MAX];
	const struct attach_options options = {
		.size = sizeof(options),
		.agent_path = session->options->agent_path,
		.session = name,
		.filters = spawn_filters(),
	};

	session_name(session, name, sizeof(name));
	return strays_has_board(session, guest->asker) ? attach_inject_guest(guest->asker, &options, &how, diag)
						       : -ESRCH;
}

/* With the lock, or at the end: static programs run untraced. */
static void note_unplaced(struct session *session, uint32_t count, const char *why)
{
	struct record_result *result = session->result;

	if (count && !result->unplaced)
		snprintf(result->unplaced_why, sizeof(result->unplaced_why), "%s", why);
	result->unplaced += count;
}

/* Why what the process executes is untraced; NULL = it has ended, or has executed nothing. */
static const char *explain(const struct guest *guest, int ret, const struct calltap_diag *why)
{
	if (!ret || ret == -ESRCH)
		return NULL;
	if (ret == -EAGAIN && !why->text[0])
		return clock_now_ns() >= guest->until_ns ? "it took more than two seconds to start" : NULL;
	return why->text[0] ? why->text : strerror(-ret);
}

static void *serve(void *argument)
{
	struct guest *guest = argument;
	struct session *session = guest->session;
	struct calltap_diag diag = {.column = -1};
	int ret = bring_in(guest, &diag);
	const char *why = explain(guest, ret, &diag);

	free_word(guest);
	placing_live_free(&guest->live);
	placing_destroy(guest->placing);
	session_lock(session);
	note_unplaced(session, why != NULL, why);
	session_unlock(session);
	__atomic_store_n(&guest->done, true, __ATOMIC_RELEASE); /* pairs with forget_done() */
	eventfd_write(session->endpoint.drained_fd, 1);		/* wakes the server thread */
	return NULL;
}

/* With the lock: how many are left. */
static unsigned forget_done(struct session *session)
{
	struct guest **link = &session->guests;
	unsigned count = 0;

	while (*link) {
		struct guest *guest = *link;

		if (!__atomic_load_n(&guest->done, __ATOMIC_ACQUIRE)) {
			link = &guest->next;
			count++;
			continue;
		}
		*link = guest->next;
		pthread_join(guest->thread, NULL);
		free(guest);
	}
	return count;
}

static void take_in(struct session *session, pid_t asker, enum calltap_executing how)
{
	struct guest *guest = calloc(1, sizeof(*guest));
	bool full;

	if (!guest)
		return;
	*guest = (struct guest){
		.session = session, .asker = asker, .pid = asker, .spawns = how == CALLTAP_EXECUTING_SPAWNS};
	if (!change(guest, how, calltap_executing_word((uint64_t)asker, CALLTAP_EXECUTING_TAKEN))) {
		free(guest); /* it has not waited */
		return;
	}
	session_lock(session);
	full = forget_done(session) >= GUESTS_MAX || thread_start(&guest->thread, serve, guest);
	if (!full) {
		guest->next = session->guests;
		session->guests = guest;
	} else {
		note_unplaced(session, 1, "too many were executed at a time");
	}
	session_unlock(session);
	if (full) {
		free_word(guest);
		free(guest);
	}
}

static bool takes(const struct session *session)
{
	return !session->options->pid_count && !session->emulated && !session->options->no_exec &&
	       !session->options->no_fork && !native_launch_refusal();
}

void guests_begin(struct session *session)
{
	__atomic_store_n(&session->board->holds, takes(session) ? CALLTAP_HOLDS_YES : CALLTAP_HOLDS_NO,
			 __ATOMIC_RELAXED);
}

void guests_look(struct session *session)
{
	uint64_t word = __atomic_load_n(&session->board->executing, __ATOMIC_SEQ_CST);
	enum calltap_executing how = word % CALLTAP_EXECUTING_STATES;

	if (!takes(session))
		return;
	/* A process that had no answer has told the others: the tool was stopped, or very slow. */
	if (__atomic_load_n(&session->board->holds, __ATOMIC_RELAXED) != CALLTAP_HOLDS_YES)
		guests_begin(session);
	if ((how == CALLTAP_EXECUTING_ASKED || how == CALLTAP_EXECUTING_SPAWNS) &&
	    word / CALLTAP_EXECUTING_STATES <= INT_MAX)
		take_in(session, (pid_t)(word / CALLTAP_EXECUTING_STATES), how);
}

bool guests_has(const struct session *session, pid_t pid)
{
	const struct guest *guest = session->guests;

	while (guest && __atomic_load_n(&guest->pid, __ATOMIC_RELAXED) != pid)
		guest = guest->next;
	return guest != NULL;
}

bool guests_any(const struct session *session)
{
	for (const struct guest *guest = session->guests; guest; guest = guest->next)
		if (!__atomic_load_n(&guest->done, __ATOMIC_RELAXED))
			return true;
	return false;
}

void guests_end(struct session *session)
{
	if (session->board)
		__atomic_store_n(&session->board->holds, CALLTAP_HOLDS_NO, __ATOMIC_RELAXED);
	while (session->guests) {
		struct guest *guest = session->guests;

		session->guests = guest->next;
		pthread_join(guest->thread, NULL); /* bounded: by the patience of each step */
		free(guest);
	}
	if (session->board)
		note_unplaced(session, __atomic_exchange_n(&session->board->unheld, 0, __ATOMIC_RELAXED),
			      "calltap did not answer in time, as it was stopped or other work kept it from a CPU");
}
