/*
 * Targets that come and go: connections that are taken in, and that end.
 * Called by the server thread with the session's lock held, but for
 * targets_let_go().  Context: host.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <host/cgroup.h>
#include <host/proc.h>
#include <host/files.h>
#include <host/session/session.h>
#include <host/values/values.h>

#define SEND_WAIT_US   500000	    /* a target that does not read holds everybody up for so long, once */
#define GREET_NS       2000000000u  /* who connects and says nothing is shown out after that */
#define STUCK_NS       30000000000u /* an attach that does not go on is given up after that */
#define DETACH_NS      1000000000u
#define RELEASE_NS     20000000000u /* the same, where it was attached to and is to be as it was */
#define HELD_NS	       5000000000u  /* the same, where it is seen that it cannot answer */
#define LOOK_NS	       500000000u   /* that is looked at so often */
#define DETACH_STEP_MS 20
#define ENDS_MS	       100 /* a process that ends closes its sockets so long before that, at most */
#define EVENTS	       32

/* Out of descriptors: let the target know, who would wait for us, by taking it in and turning it away. */
static void turn_away(struct session *session)
{
	int fd;

	close(session->endpoint.spare_fd);
	fd = accept4(session->endpoint.listener, NULL, NULL, SOCK_CLOEXEC);
	if (fd >= 0)
		close(fd);
	session->endpoint.spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	session_diagnose(session, "there were too many processes at a time, and some ran untraced%s",
			 files_remedy(-EMFILE));
}

/*
 * The agent has ended its conversation and the program goes on, or may do so
 * as one that was executed in a sandbox: from now on its pid tells when it ends.
 */
static bool goes_on_alone(struct session *session, struct target *target)
{
	int fd;

	if (session->ending.letting_go || target->alone || !target_head(target) ||
	    !(__atomic_load_n(&target_head(target)->notes, __ATOMIC_RELAXED) &
	      (CALLTAP_NOTE_ALONE | CALLTAP_NOTE_FILTER)))
		return false;
	fd = (int)syscall(SYS_pidfd_open, target->pid, 0);
	if (fd < 0)
		return false;
	epoll_ctl(session->endpoint.epoll, EPOLL_CTL_DEL, target->socket, NULL);
	close(target->socket);
	target->socket = fd;
	target->alone = true;
	return !session_watch(session, fd, target);
}

/* The agent has stopped recording and could not say so on the socket. */
static bool broke_off(const struct target *target)
{
	return target_head(target) && !target->parted &&
	       __atomic_load_n(&target_head(target)->notes, __ATOMIC_RELAXED) & CALLTAP_NOTE_BROKEN;
}

static void diagnose_early_end(struct session *session, const struct target *target)
{
	/* Whatever moment a recording ends at, a program that forks may just have done so: that is no failure. */
	if (session->ending.letting_go && target->hello.flags & CALLTAP_HELLO_FORKED)
		session->result->late++;
	else if (target->hello.flags & CALLTAP_HELLO_FORKED && proc_ends_within(target->pid, ENDS_MS))
		session->result->ended_early++;
	else if (session->ending.letting_go)
		target_diagnose(session, target,
				"the recording ended before process %d was set up; it was not recorded",
				(int)target->pid);
	else if (target->attachee && proc_alive(target->pid))
		target_diagnose(session, target,
				"the agent in process %d left before it was set up; the process runs on and was not "
				"recorded, attach to it again",
				(int)target->pid);
	else
		target_diagnose(session, target,
				"process %d ended before it was set up, or could not be; it was not recorded",
				(int)target->pid);
}

void targets_end(struct session *session, struct target *target)
{
	targets_read_on(target);
	live_forgive(session, target);
	if (goes_on_alone(session, target))
		return;
	if (target->greeted && !target->dormant && !target->began)
		diagnose_early_end(session, target);
	epoll_ctl(session->endpoint.epoll, EPOLL_CTL_DEL, target->socket, NULL);
	close(target->socket);
	target->socket = -1;
	target->row.end_ticks = timing_now(session).ticks;
	if (broke_off(target))
		target_diagnose(session, target,
				"process %d could not go on with its session; the rest of it ran untraced",
				(int)target->pid);
	values_end(session->images.values, target);
	target->ended = true;
	/* The command may have executed another program; attachees and it are forgotten when they have ended. */
	if (target->greeted && !target->attachee && target->pid != session->command)
		steer_forget(session, target->pid);
	session_wake_drainer(session);
}

void targets_accept(struct session *session)
{
	const struct timeval patience = {0, SEND_WAIT_US};
	struct target *target;
	int fd = accept4(session->endpoint.listener, NULL, NULL, SOCK_CLOEXEC), ret;

	if (fd < 0 && (errno == EMFILE || errno == ENFILE) && session->endpoint.spare_fd >= 0)
		turn_away(session);
	if (fd < 0)
		return;
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	ret = target_create(&target, session, fd);
	if (ret) {
		close(fd);
		if (ret != -EPERM) /* which is a stranger's */
			session_diagnose(session, "a process could not be taken in and ran untraced: %s%s",
					 strerror(-ret), files_remedy(ret));
		return;
	}
	target->since_ns = clock_now_ns();
	ret = session_watch(session, fd, target);
	if (ret) {
		session_diagnose(session, "a process could not be watched and ran untraced: %s%s", strerror(-ret),
				 files_remedy(ret));
		targets_end(session, target);
	}
}

/* Stopped by somebody, or its agent is not what it should be: nothing of it is written yet, so it is let go. */
static bool attach_is_stuck(const struct target *target, uint64_t now)
{
	return target->greeted && attached_is_open(target) && !target->ended && now - target->heard_ns > STUCK_NS;
}

static void end_stuck(struct session *session, struct target *target)
{
	target_diagnose(
		session, target,
		"the agent in process %d has said nothing for %u s (is the process stopped?); nothing was recorded",
		(int)target->pid, (unsigned)(STUCK_NS / 1000000000));
	targets_end(session, target);
}

/* Nobody holds the session up by a connection without a HELLO, or by an attach that does not go on. */
void targets_end_silent(struct session *session)
{
	uint64_t now = clock_now_ns();

	for (struct target *target = session->targets; target; target = target->next)
		if (!target->greeted && !target->ended && now - target->since_ns > GREET_NS)
			targets_end(session, target);
		else if (attach_is_stuck(target, now))
			end_stuck(session, target);
}

/* A target that was attached to lets go of all that the tool brought, a forked child too; a command keeps it to its
 * end. */
static int send_detach(const struct session *session, const struct target *target)
{
	const struct calltap_msg_detach detach = {
		.head = {CALLTAP_MSG_DETACH, sizeof(detach)},
		.flags = session->attachees.count ? CALLTAP_DETACH_RELEASE : 0,
	};

	return channel_send(target->socket, &detach, sizeof(detach), NULL, 0);
}

/* Processes that have been told to end and have not. */
static uint32_t count_detaching(const struct session *session)
{
	uint32_t count = 0;

	for (const struct target *target = session->targets; target; target = target->next)
		count += target->detaching && !target->ended;
	return count;
}

static void begin_detach(struct session *session, struct target *target)
{
	/* An agent that waits until its borrowed thread is back has nothing to undo, and nobody reads its socket. */
	if (!target->ended && target->attachee && target->attachee->state == ATTACHEE_COMING)
		targets_end(session, target);
	target->detaching = !target->ended && target->greeted && !target->alone && !target->dormant &&
			    !send_detach(session, target);
}

/* A stop or a frozen cgroup keeps all threads of a process from running.  NULL: neither is there. */
static const char *held_by(pid_t pid)
{
	if (proc_state(pid, NULL) == 'T')
		return "it is stopped; 'kill -CONT' lets it run";
	return cgroup_is_frozen(pid) ? "it is frozen by its cgroup; thaw it" : NULL;
}

static void give_up(struct session *session, struct target *target)
{
	if (target->attachee && target->detaching) {
		const char *why = held_by(target->pid);

		target_diagnose(session, target,
				"process %d does not answer (%s); it runs on untraced when it goes on, and `calltap "
				"detach %d` takes away then what is left in it",
				(int)target->pid, why ? why : "is it stopped?", (int)target->pid);
	}
	targets_end(session, target);
}

/* True if each process that has not answered is held.  The first one is told of, once. */
static bool are_held(struct session *session)
{
	for (const struct target *target = session->targets; target; target = target->next) {
		const char *why = !target->ended && target->detaching ? held_by(target->pid) : NULL;

		if (!target->ended && target->detaching && !why)
			return false;
		if (why)
			progress_held(session, target->pid, why);
	}
	return true;
}

/* Wait until all have answered, or one for too long has not; or, where none can, the user has had enough. */
static void await_detached(struct session *session, uint64_t patience_ns)
{
	struct epoll_event events[EVENTS];
	const unsigned signals = signals_count();
	uint64_t until = clock_now_ns() + patience_ns, look_ns = 0, held_ns = 0, now; /* held_ns: since when all are */
	uint32_t left = count_detaching(session);

	while (left && (now = clock_now_ns()) < until) {
		uint32_t before = left;
		int n;

		/* Letting go of one may have taken long: the others are looked at before they are given up. */
		if (now > look_ns + LOOK_NS) {
			look_ns = now;
			held_ns = !are_held(session) ? 0 : held_ns ? held_ns : now;
		}
		if (held_ns && (now - held_ns > HELD_NS || signals_count() != signals))
			break;
		session_unlock(session);
		n = epoll_wait(session->endpoint.epoll, events, EVENTS, DETACH_STEP_MS);
		session_lock(session);
		for (int i = 0; i < n; i++)
			session_handle(session, events[i].data.ptr);
		left = count_detaching(session);
		if (left < before && session->attachees.count)
			until = clock_now_ns() + patience_ns;
		if (left < before)
			progress_leaving(session, left);
	}
}

/*
 * Processes that run on get their text back, all at once; whoever does not answer in time does so by himself.  Those
 * that were attached to are let go of one after the other, and each of them has all the time.
 */
void targets_let_go(struct session *session)
{
	const uint64_t patience_ns = session->attachees.count ? RELEASE_NS : DETACH_NS;

	session_lock(session);
	session->ending.letting_go = true;
	session->ending.began_ns = clock_now_ns();
	if (session->emulated)
		timing_tick(session, clock_now_ns() + patience_ns + DETACH_NS); /* the last word on the clock */
	for (struct target *target = session->targets; target; target = target->next)
		begin_detach(session, target);
	pthread_cond_broadcast(&session->answered); /* nobody is told anything any more */
	progress_leaving(session, count_detaching(session));
	await_detached(session, patience_ns);
	for (struct target *target = session->targets; target; target = target->next)
		if (!target->ended)
			give_up(session, target);
	session_unlock(session);
}
