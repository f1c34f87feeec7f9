/*
 * The processes that a session attaches to: which of them can be, and whose
 * turn it is.
 *
 * The agent is put into one process after the other: into the next when the
 * sites of the one before are written, or when that one is left out.  A thread
 * of its own does that, so that those that are traced already are served
 * meanwhile.  A process that is left out is told at once, and the session goes
 * on with the others.  Called by the server thread.  Context: host.
 */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <host/thread.h>

#include "found.h"
#include "session.h"

#define ARRIVE_NS 5000000000u /* for the agent that was put into a process to call in */

/* The thread that puts the agent into a process. */
struct injector {
	pthread_t thread;
	struct session *session;
	struct attachee *attachee;
	struct calltap_diag why; /* code 0: the agent is in */
	bool done;		 /* atomic: the thread is about to end */
	bool joined;
};

int attachees_create(struct session *session)
{
	const struct record_options *options = session->options;
	struct record_result *result = session->result;

	if (!options->pid_count)
		return 0;
	result->attached = calloc(options->pid_count, sizeof(*result->attached));
	session->attachees.list = calloc(options->pid_count, sizeof(*session->attachees.list));
	if (!result->attached || !session->attachees.list)
		return -ENOMEM;
	session->attachees.count = (uint32_t)options->pid_count;
	for (uint32_t i = 0; i < session->attachees.count; i++) {
		struct attachee *attachee = &session->attachees.list[i];

		result->attached[i].pid = options->pids[i];
		result->attached[i].trouble.column = -1;
		attachee->told = &result->attached[i];
		attachee->fd = (int)syscall(SYS_pidfd_open, options->pids[i], 0);
		attach_program_of(&attachee->program, options->pids[i]);
	}
	return 0;
}

void attachees_destroy(struct session *session)
{
	for (uint32_t i = 0; i < session->attachees.count; i++)
		if (session->attachees.list[i].fd >= 0)
			close(session->attachees.list[i].fd);
	free(session->attachees.list);
	session->attachees = (struct attachees){0};
}

/* The attachee's trouble says why. */
static void leave_out(const struct session *session, struct attachee *attachee)
{
	attachee->state = ATTACHEE_LEFT_OUT;
	if (session->options->left_out)
		session->options->left_out(session->options->left_out_ctx, attachee->told);
}

/* The attachee is left out; an end of its process meanwhile is a better reason than any other. */
static void leave_out_for(const struct session *session, struct attachee *attachee, struct calltap_diag *why)
{
	why->code = attach_explain(&attachee->program, attachee->told->pid, why->code, why);
	attachee->told->trouble = *why;
	leave_out(session, attachee);
}

int attachees_tell_none(const struct session *session, struct calltap_diag *diag)
{
	if (session->attachees.count > 1)
		return calltap_diag_set(diag, -ENODATA, "none of these processes could be attached to");
	*diag = session->attachees.list->told->trouble;
	return diag->code;
}

static uint32_t count_waiting(const struct session *session)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < session->attachees.count; i++)
		count += session->attachees.list[i].state == ATTACHEE_WAITS;
	return count;
}

/* Nothing that the filters leave is in the process, though there is in another one. */
static void leave_out_idle(const struct session *session)
{
	for (uint32_t i = 0; i < session->attachees.count; i++) {
		struct attachee *attachee = &session->attachees.list[i];

		if (attachee->state != ATTACHEE_WAITS || !attachee->idle)
			continue;
		(void)calltap_diag_set(&attachee->told->trouble, -ENODATA,
				       "the filters leave no function to trace in it; --allow-no-match attaches all "
				       "the same");
		leave_out(session, attachee);
	}
}

int attachees_check(struct session *session, struct calltap_diag *diag)
{
	struct found all = {0};
	int ret = 0;

	session->machine = machine_native();
	session->images.machine = session->machine->id;
	if (session->machine->id != EM_X86_64) { /* threads within a jump of two instructions cannot be moved yet */
		session->images.stock = STOCK_NEVER;
		session->images.libcalls = LIBCALLS_NEVER;
	}
	for (uint32_t i = 0; i < session->attachees.count && !ret; i++) {
		struct attachee *attachee = &session->attachees.list[i];
		struct calltap_diag why = {.column = -1};
		struct found found = {0};

		if (attached_check(session, attachee->told->pid, &found, &why))
			leave_out_for(session, attachee, &why);
		else
			ret = found_add(&all, &found);
		attachee->idle = found_is_idle(&found, session);
		found_clear(&found);
	}
	if (ret)
		ret = calltap_diag_set(diag, ret, "not enough memory");
	else if (!count_waiting(session))
		ret = attachees_tell_none(session, diag);
	else
		ret = found_match(&all, session, session->program, diag);
	found_clear(&all);
	if (!ret)
		leave_out_idle(session);
	return ret;
}

int attachees_socket(struct session *session, int type, struct calltap_diag *diag)
{
	pid_t home = 0;
	int fd = -1;

	for (uint32_t i = 0; i < session->attachees.count; i++) {
		struct attachee *attachee = &session->attachees.list[i];
		const pid_t pid = attachee->told->pid;
		struct calltap_diag why = {.column = -1};

		if (attachee->state != ATTACHEE_WAITS)
			continue;
		if (fd < 0) {
			fd = attach_socket(pid, type, &why);
			home = pid;
		} else if (!attach_reaches(pid, home)) {
			(void)calltap_diag_set(
				&why, -EHOSTUNREACH,
				"process %d is in another network namespace than process %d, and cannot reach one "
				"session with it; attach to it by another calltap",
				(int)pid, (int)home);
		}
		if (why.code)
			leave_out_for(session, attachee, &why);
	}
	return fd < 0 ? attachees_tell_none(session, diag) : fd;
}

static void *inject_main(void *argument)
{
	struct injector *injector = argument;
	struct attachee *attachee = injector->attachee;
	int ret = attached_begin(injector->session, attachee, &injector->why);

	injector->why.code = attach_explain(&attachee->program, attachee->told->pid, ret, &injector->why);
	__atomic_store_n(&injector->done, true, __ATOMIC_RELEASE); /* pairs with collect_result() */
	eventfd_write(injector->session->endpoint.drained_fd, 1);  /* wakes the server thread */
	return NULL;
}

/* 0, or the error of a process that is to be left out. */
static int begin_attach(struct session *session, struct attachee *attachee, struct calltap_diag *why)
{
	struct injector *injector;
	int ret = 0;

	/* Handlers are registered there: without it the process need not be touched. */
	if (session->options->serves)
		ret = steer_begin(session, attachee->told->pid, why);
	if (ret)
		return ret;
	injector = calloc(1, sizeof(*injector));
	if (!injector)
		return calltap_diag_set(why, -ENOMEM, "not enough memory");
	injector->session = session;
	injector->attachee = attachee;
	injector->why.column = -1;
	ret = thread_start(&injector->thread, inject_main, injector);
	if (ret) {
		free(injector);
		return calltap_diag_set(why, ret, "cannot start a thread: %s", strerror(-ret));
	}
	session->attachees.injector = injector;
	attachee->state = ATTACHEE_COMING;
	return 0;
}

static void begin_next(struct session *session)
{
	for (uint32_t i = 0; i < session->attachees.count && !session->attachees.injector; i++) {
		struct attachee *attachee = &session->attachees.list[i];
		struct calltap_diag why = {.column = -1};

		if (attachee->state == ATTACHEE_WAITS && begin_attach(session, attachee, &why))
			leave_out_for(session, attachee, &why);
	}
}

/* The agent is in the process, and calls in if it can. */
static void await_agent(struct session *session, struct attachee *attachee)
{
	attachee->state = ATTACHEE_AWAITED;
	session->result->ran = true;
	if (!session->options->serves && !session->options->clears && !session->ending.letting_go)
		steer_try(session, attachee->told->pid);
	session->ending.awaited_ns = clock_now_ns() + ARRIVE_NS;
	session_forget_ending(session);
	session->ending.fd = attachee->fd < 0 ? -1 : fcntl(attachee->fd, F_DUPFD_CLOEXEC, 0);
	if (session->ending.fd >= 0 && session_watch(session, session->ending.fd, &session->ending.awaited_ns))
		session_forget_ending(session);
}

static void join_injector(struct injector *injector)
{
	if (injector && !injector->joined)
		pthread_join(injector->thread, NULL);
	if (injector)
		injector->joined = true;
}

/* The agent has called in before the borrowed thread was back. */
static void set_up(struct session *session, struct target *target)
{
	int ret;

	target->attachee->state = ATTACHEE_MET;
	if (target->ended || target->detaching)
		return;
	target->heard_ns = clock_now_ns();
	ret = session_watch(session, target->socket, target);
	if (!ret)
		ret = target_set_up(session, target);
	if (!ret || ret == -EPIPE || ret == -ECONNRESET)
		return; /* it may have said why it has gone: that is read */
	target_tell_end(session, target, ret);
	targets_end(session, target);
}

/* Take the result of the injector's thread, once there is one. */
static void collect_result(struct session *session)
{
	struct injector *injector = session->attachees.injector;

	/* The acquire pairs with inject_main(). */
	if (!injector || !__atomic_load_n(&injector->done, __ATOMIC_ACQUIRE))
		return;
	join_injector(injector);
	session->attachees.injector = NULL;
	session->result->cut_short += injector->attachee->told->attach_cut_short;
	if (injector->why.code) {
		injector->attachee->told->trouble = injector->why;
		if (injector->attachee->target && !injector->attachee->target->ended)
			targets_end(session, injector->attachee->target);
		leave_out(session, injector->attachee);
	} else {
		injector->attachee->code_left = true;
		injector->attachee->agent = attached_agent_of(injector->attachee->told->pid);
		await_agent(session, injector->attachee);
		if (injector->attachee->target)
			set_up(session, injector->attachee->target);
	}
	free(injector);
}

static bool is_told_to_end(const struct session *session)
{
	return signals_any() || __atomic_load_n(&session->ending.asked, __ATOMIC_ACQUIRE);
}

/* The agent did not call in, or its process was not set up. */
static void give_up(struct session *session, struct attachee *attachee)
{
	struct calltap_diag why = attachee->told->trouble;
	const int pid = (int)attachee->told->pid;

	if (attachee->state == ATTACHEE_WAITS) {
		(void)calltap_diag_set(&attachee->told->trouble, -EINTR, "the recording ended before it had its turn");
		leave_out(session, attachee);
		return;
	}
	if (attachee->told->let_go) { /* there was only something to take away */
		attachee->state = ATTACHEE_LEFT_OUT;
		return;
	}
	if (!why.code && is_told_to_end(session))
		(void)calltap_diag_set(&why, -EIO,
				       "nothing was recorded: calltap was told to end before the agent in process %d "
				       "had reported",
				       pid);
	else if (!why.code)
		(void)calltap_diag_set(
			&why, -EIO,
			"nothing was recorded: the agent is in process %d and did not report; it may lack "
			"memory, threads or descriptors, or live in another network namespace",
			pid);
	leave_out_for(session, attachee, &why);
}

/* The process is not the session's any more; the PID may become another one's. */
static void forget_attachee(struct session *session, struct attachee *attachee)
{
	attachee->forgotten = true;
	if (!session->options->serves && !session->options->clears)
		steer_forget(session, attachee->told->pid);
}

/* An attachee whose attach came to nothing is left out; one whose process has ended is forgotten. */
static void look_at_all(struct session *session)
{
	if (clock_now_ns() > session->ending.awaited_ns)
		session->ending.awaited_ns = 0;
	for (uint32_t i = 0; i < session->attachees.count; i++) {
		struct attachee *attachee = &session->attachees.list[i];

		if (attachee->state < ATTACHEE_AWAITED || attachee->forgotten || attachee_is_in(session, attachee))
			continue;
		if (!attachee->told->attached && attachee->state != ATTACHEE_LEFT_OUT)
			give_up(session, attachee);
		forget_attachee(session, attachee);
	}
}

void attachees_go_on(struct session *session)
{
	if (!session->attachees.count)
		return;
	collect_result(session);
	look_at_all(session);
	/* A thread that changes what is recorded counts on the processes that there are. */
	if (!attachees_are_open(session) && !session->steering.busy && !session->steering.waiting)
		begin_next(session);
}

/* Of attaches that ended early: the next stop of all threads would have taken the code away. */
static void clean_up(struct session *session)
{
	for (uint32_t i = 0; i < session->attachees.count; i++) {
		struct attachee *attachee = &session->attachees.list[i];

		if (attachee->code_left)
			session->result->cut_short += attach_slack_clean(attachee->told->pid);
		attachee->code_left = false;
		if (session->options->clears && attachee->told->let_go)
			verify_text(session, attachee->target);
	}
}

void attachees_end(struct session *session)
{
	join_injector(session->attachees.injector); /* without the lock, for it may take its time */
	session_lock(session);
	collect_result(session);
	for (uint32_t i = 0; i < session->attachees.count; i++) {
		struct attachee *attachee = &session->attachees.list[i];

		if (!attachee->told->attached && attachee->state != ATTACHEE_LEFT_OUT)
			give_up(session, attachee);
	}
	session_unlock(session);
	clean_up(session);
}

int attachees_explain(const struct session *session, int error, struct calltap_diag *diag)
{
	const struct attachee *only = session->attachees.list;

	if (session->attachees.count != 1 || only->state == ATTACHEE_LEFT_OUT)
		return error;
	return attach_explain(&only->program, only->told->pid, error, diag);
}
