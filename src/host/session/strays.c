/*
 * Processes of the session that have not called in: a forked child does so at
 * its first traced call, which may come after the command's own end (a daemon's
 * always does), or when what is recorded changes (strays_call()).  And those
 * that became another program without an agent.
 * Called by the server thread, the drainer and who changes what is recorded,
 * with the session's lock held.
 * Context: host.
 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <host/attach/attach.h>
#include <host/proc.h>
#include <host/space.h>

#include "session.h"

#define PATIENCE_NS 200000000u	/* for a first call, after the last process that is followed has ended */
#define BUSY_NS	    2000000000u /* the same where one of them has executed a program, or may call in at any moment */
#define TICK_NS	    20000000u	/* a process' age is told to a tick of the kernel's */
#define ENVIRON_MAX (256u << 10)
#define RELATED_MAX 1024u	/* processes that are looked at for forked children */
#define CALL_MS	    5000	/* for a thread of a child that can be borrowed, as in an attach */
#define STOPPED_MS  1000	/* where the child is stopped, or sleeps in vfork() */
#define MET_NS	    2000000000u /* for the child's agent to call in then */
#define MET_STEP_NS 1000000
#define CAUGHT_UP_S 5 /* for a child that has called in to be given what it lacks */

/*
 * The process has begun since the session has.  To look into the memory of another one, which is none of the session's,
 * is no use, and may never return: the kernel waits while somebody holds the lock of its mappings, as a thread does
 * whose file system does not answer.
 */
static bool has_begun_since(const struct session *session, pid_t pid)
{
	uint64_t age = proc_age_ns(pid);

	return age && age <= clock_now_ns() - session->began_ns + TICK_NS;
}

/* The environment that the process was started with: its own copy may have changed, ours is still there. */
static bool is_of_session(const struct session *session, pid_t pid, char *environment)
{
	char path[64], wanted[sizeof(session->endpoint.name) + 32];
	ssize_t got;
	int fd;

	if (!has_begun_since(session, pid))
		return false;
	snprintf(path, sizeof(path), "/proc/%d/environ", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false; /* another user's, or gone */
	got = read(fd, environment, ENVIRON_MAX);
	close(fd);
	snprintf(wanted, sizeof(wanted), "%s=%s", CALLTAP_ENV_SESSION, session->endpoint.name);
	return got > 0 && memmem(environment, (size_t)got, wanted, strlen(wanted));
}

bool strays_has_board(const struct session *session, pid_t pid)
{
	struct space space;
	struct stat board;
	bool found = false;

	if (pid == getpid() || fstat(session->board_fd, &board) || space_read(&space, pid))
		return false;
	for (size_t i = 0; i < space.count; i++)
		found |= space.maps[i].inode == board.st_ino && strstr(space.maps[i].path, SPACE_BOARD);
	space_free(&space);
	return found;
}

static bool is_known(const struct session *session, pid_t pid)
{
	for (const struct target *target = session->targets; target; target = target->next)
		if (target->pid == pid && target->greeted)
			return true;
	return false;
}

/*
 * The agent of a process that was followed has left without a word: the process has ended, or has executed a program,
 * whose agent has not called in yet.
 */
static bool may_execute(const struct session *session, pid_t pid)
{
	for (const struct target *target = session->targets; target; target = target->next)
		if (target->pid == pid && target->greeted && (!target->ended || target->detaching || target->parted))
			return false;
	return is_known(session, pid);
}

/*
 * The process is just executing a program: the kernel has ended its other threads, the agent's among them, or has taken
 * its old memory, and shows no environment yet.  (In the old memory the program may have written over its environment,
 * as sshd does.)
 */
static bool is_executing(const struct session *session, pid_t pid)
{
	return !proc_has_ended(pid) && (strays_has_board(session, pid) || !family_has_environment(pid));
}

/* A process that has begun since the command has, and has the session's memory: a child that was forked in it. */
static bool is_child_of_session(const struct session *session, pid_t pid)
{
	return (session->cleaned || !session->options->pid_count) && has_begun_since(session, pid) &&
	       strays_has_board(session, pid);
}

/* The agent's thread is there, and about to call in; or the process runs, or waits for a CPU, and may make a traced
 * call. */
static bool may_call_in(pid_t pid)
{
	bool found = proc_state(pid, NULL) == 'R';
	char name[32];
	size_t count;
	pid_t *tids;

	if (proc_threads(pid, &tids, &count))
		return false;
	for (size_t i = 0; !found && i < count; i++)
		found = !proc_text(tids[i], "comm", name, sizeof(name)) && !strcmp(name, "calltap\n");
	free(tids);
	return found;
}

/* *busy: one of them has executed a program (may_execute()), or may call in at any moment. */
static uint32_t count_strays(const struct session *session, bool *busy)
{
	char *environment = malloc(ENVIRON_MAX);
	DIR *folder = environment ? opendir("/proc") : NULL;
	const struct dirent *entry;
	uint32_t count = 0;

	*busy = false;
	while (folder && (entry = readdir(folder))) {
		pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);
		bool executes = may_execute(session, pid);

		if (!isdigit((unsigned char)entry->d_name[0]) || (is_known(session, pid) && !executes) ||
		    !((executes && is_executing(session, pid)) || is_of_session(session, pid, environment) ||
		      is_child_of_session(session, pid)))
			continue;
		*busy |= executes || may_call_in(pid);
		count++;
	}
	if (folder)
		closedir(folder);
	free(environment);
	return count;
}

bool strays_may_come(struct session *session)
{
	uint64_t now = clock_now_ns();
	bool busy;

	session->result->strays = count_strays(session, &busy);
	if (!session->result->strays)
		return false;
	if (!session->ending.strays_since_ns)
		session->ending.strays_since_ns = now;
	return now - session->ending.strays_since_ns < (busy ? BUSY_NS : PATIENCE_NS);
}

/* A process whose agent is gone may run another program now, which is not traced. */
static void note_executed(struct session *session, struct target *target)
{
	struct space space;

	/* No mapping: it is about to end. */
	if (!target->alone || target->executed || space_read(&space, proc_alive(target->pid)))
		return;
	/* Ours among them: it is not yet another program, or still the old one. */
	target->executed = !space_has_path(&space, SPACE_BOARD);
	space_free(&space);
	session->result->executed += target->executed;
}

void strays_note_all(struct session *session)
{
	for (struct target *target = session->targets; target; target = target->next)
		if (!target->ended)
			note_executed(session, target);
}

/*
 * ---- Forked children that are to call in ----
 *
 * A child has the text of the moment of the fork.  What was off then has no code of ours in the child, so that it would
 * never learn of a change.  A thread of the child is borrowed, as in an attach, and has the agent call in; from then on
 * the child is a target like others.
 *
 * strays_call() runs before each change of what is recorded, since new plans are sent only to targets that are known
 * then; and after it, for children that were forked meanwhile.
 */

/* Processes, each behind the one that it was forked from. */
struct related {
	struct {
		pid_t pid, parent;
	} list[RELATED_MAX];
	uint32_t count;
};

static void add_related(struct related *all, pid_t pid, pid_t parent)
{
	for (uint32_t i = 0; i < all->count; i++)
		if (all->list[i].pid == pid)
			return;
	if (all->count == RELATED_MAX)
		return;
	all->list[all->count].pid = pid;
	all->list[all->count++].parent = parent;
}

static void add_children(struct related *all, pid_t parent)
{
	char path[300];
	const struct dirent *entry;
	DIR *folder;
	FILE *file;
	int child;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)parent);
	folder = opendir(path);
	while (folder && (entry = readdir(folder))) {
		if (!isdigit((unsigned char)entry->d_name[0]))
			continue;
		snprintf(path, sizeof(path), "/proc/%d/task/%s/children", (int)parent, entry->d_name);
		file = fopen(path, "re");
		while (file && fscanf(file, "%d", &child) == 1)
			add_related(all, child, parent);
		if (file)
			fclose(file);
	}
	if (folder)
		closedir(folder);
}

/*
 * The initial thread waits for the answer of a FUSE file system, and cannot be borrowed before: it may have written to
 * the tool's own tree (tracefs), which answers when the change is made.
 */
static bool waits_for_fuse(pid_t pid)
{
	char at[64];

	return !proc_text(pid, "wchan", at, sizeof(at)) && !strcmp(at, "request_wait_answer");
}

static struct session_deaf *find_deaf(struct session *session, pid_t pid)
{
	for (uint32_t i = 0; i < session->steering.deaf_count && i < SESSION_DEAF; i++)
		if (session->steering.deaf[i].pid == pid)
			return &session->steering.deaf[i];
	return NULL;
}

static bool is_deaf(struct session *session, pid_t pid)
{
	const struct session_deaf *deaf = find_deaf(session, pid);

	return deaf && !deaf->again;
}

/* A child that does not call in is told of once, and is not asked again, but where it could not be: -EBUSY. */
static void note_deaf(struct session *session, pid_t pid, int error, const struct calltap_diag *why)
{
	struct record_result *result = session->result;
	struct session_deaf *deaf = find_deaf(session, pid);

	if (!deaf) {
		deaf = &session->steering.deaf[session->steering.deaf_count++ % SESSION_DEAF];
		if (!result->unheard++)
			snprintf(result->unheard_why, sizeof(result->unheard_why), "%s", why->text);
	}
	*deaf = (struct session_deaf){.pid = pid, .again = error == -EBUSY};
}

static bool has_called(struct session *session, pid_t pid)
{
	bool has;

	session_lock(session);
	has = is_known(session, pid) || session->ending.letting_go;
	session_unlock(session);
	return has;
}

static int await_call(struct session *session, pid_t pid, struct calltap_diag *diag)
{
	const struct timespec step = {0, MET_STEP_NS};
	uint64_t until = clock_now_ns() + MET_NS;

	while (!has_called(session, pid)) {
		if (!proc_alive(pid))
			return -ESRCH;
		if (clock_now_ns() > until)
			return calltap_diag_set(diag, -ETIMEDOUT, "its agent does not call in");
		nanosleep(&step, NULL);
	}
	return 0;
}

/* A child that is to be borrowed, and what it ran when that began. */
struct wanted {
	pid_t pid;
	struct attach_program program;
};

static bool is_in_vain(void *context)
{
	const struct wanted *wanted = context;

	return waits_for_fuse(wanted->pid) || attach_has_executed(&wanted->program, wanted->pid);
}

int strays_bring_in(struct session *session, pid_t pid, const struct attach_caught *caught, struct calltap_diag *diag)
{
	const char state = proc_state(pid, NULL);
	struct wanted wanted = {.pid = pid};
	struct attach_options options = {
		.size = sizeof(options),
		.agent_path = session->options->agent_path,
		.filters = spawn_filters(),
		.patience_ms = state == 'R' || state == 'S' ? CALL_MS : STOPPED_MS,
		.calls_in = true,
		.gives_up = is_in_vain,
		.gives_up_context = &wanted,
		.caught = caught,
	};
	char name[SESSION_NAME_MAX];
	struct attach_result result;
	int ret;

	attach_program_of(&wanted.program, pid);
	session_name(session, name, sizeof(name));
	options.session = name;
	ret = attach_check_load(pid, diag);
	if (!ret)
		ret = attach_inject(pid, &options, &result, diag);
	if (!ret)
		ret = await_call(session, pid, diag);
	if (ret && (!strays_has_board(session, pid) || attach_has_executed(&wanted.program, pid)))
		return -ESRCH; /* it is no forked child any more */
	return attach_explain(&wanted.program, pid, ret, diag);
}

/*
 * Without the lock: a borrowed thread may be away for seconds.  A child that was caught is not waited for: it gets what
 * has changed when it has called in, and may need an answer of the tree before, which waits for this change.
 */
static int call_in(struct session *session, pid_t pid, struct calltap_diag *diag)
{
	bool waits;
	int ret = 0;

	if (callers_is_coming(session, pid))
		return 0;
	waits = waits_for_fuse(pid);
	if (!waits) {
		ret = strays_bring_in(session, pid, NULL, diag);
		waits = ret == -EAGAIN && waits_for_fuse(pid);
	}
	if (waits)
		return calltap_diag_set(
			diag, -EBUSY,
			"process %d waited for a FUSE file system (calltap's own, if it wrote the change "
			"there); each later change asks it again",
			(int)pid);
	return ret;
}

static bool follows_forks(const struct session *session)
{
	return !session->options->no_fork && !session->options->clears && !session->emulated && !session->placing;
}

/*
 * Wait until children that have called in have all changes.  One that cannot get them is told.  False: some were not
 * given all in time, as where they are stopped.
 */
static bool await_forked(struct session *session)
{
	struct timespec until;
	int error = 0;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += CAUGHT_UP_S;
	while (!error && forked_any_behind(session) && !session->ending.letting_go)
		error = pthread_cond_clockwait(&session->answered, &session->lock, CLOCK_MONOTONIC, &until);
	return !error;
}

bool strays_may_call(struct session *session, pid_t pid)
{
	return follows_forks(session) && !is_known(session, pid) && !is_deaf(session, pid) &&
	       !session->ending.letting_go;
}

void strays_call(struct session *session)
{
	struct related *all = follows_forks(session) ? calloc(1, sizeof(*all)) : NULL;
	bool in_time = true;

	if (!all)
		return;
	for (struct target *target = session->targets; target; target = target->next)
		if (live_can_be_told(target))
			add_related(all, target->pid, 0);
	for (uint32_t i = 0; i < all->count; i++) {
		const pid_t pid = all->list[i].pid;
		struct calltap_diag why = {.column = -1};
		bool asked = !all->list[i].parent || !strays_may_call(session, pid);
		int ret = 0;

		session_unlock(session);
		/* A child of vfork() has its parent's agent, and what is on and off there. */
		if (!asked && strays_has_board(session, pid) && !proc_share_memory(pid, all->list[i].parent))
			ret = call_in(session, pid, &why);
		session_lock(session);
		if (ret && ret != -ESRCH)
			note_deaf(session, pid, ret, &why);
		/* Children that it has from then on have all that it has. */
		in_time = in_time && await_forked(session);
		session_unlock(session);
		add_children(all, pid);
		session_lock(session);
	}
	(void)!live_wait(session); /* who does not answer in time does so when it goes on */
	free(all);
}
