/*
 * The conversation with one target (abi/control.h).
 *
 * Called by the server thread with the session's lock held.  Every message is
 * checked; a target that breaks the protocol loses its connection, nothing
 * more.  Context: host.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <host/files.h>
#include <host/space.h>

#include "handlers.h"
#include "instances.h"
#include "session.h"
#include "triggers.h"

#define REPORT_MAX  4096 /* objects in a process */
#define CHILD_RINGS 4

union message {
	struct calltap_msg head;
	struct calltap_msg_hello hello;
	struct calltap_msg_object object;
	struct calltap_msg_objects_end objects_end;
	struct calltap_msg_plan_done plan_done;
	struct calltap_msg_fault fault;
	struct calltap_msg_switch_done switch_done;
	struct calltap_msg_detached detached;
	struct calltap_msg_clock_told clock_told;
	struct calltap_msg_handlers_done handlers_done;
	struct calltap_msg_instance_done instance_done;
	char bytes[CALLTAP_MSG_MAX];
};

int process_create(struct process **out, struct session *session, int socket)
{
	struct ucred peer;
	socklen_t size = sizeof(peer);
	struct process *process;

	*out = NULL;
	if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size))
		return -errno;
	if (peer.uid != geteuid() && peer.uid != 0 && geteuid() != 0)
		return -EPERM;
	process = session->processes;
	while (process && (process->greeted || !process_is_drained(process)))
		process = process->next;
	if (!process) {
		process = calloc(1, sizeof(*process));
		if (!process)
			return -ENOMEM;
		process->next = session->processes;
		session->processes = process;
	}
	process->ended = false; /* one that never said who it was left nothing else behind */
	process->socket = socket;
	process->pid = peer.pid;
	process->index = UINT32_MAX;
	*out = process;
	return 0;
}

static void forget_report(struct process *process)
{
	for (uint32_t i = 0; i < process->report.count; i++)
		free(process->report.list[i]);
	free(process->report.list);
	process->report.list = NULL;
	process->report.count = 0;
}

void process_destroy(struct process *process)
{
	forget_report(process);
	free(process->maps);
	free(process->exe);
	if (process->socket >= 0)
		close(process->socket);
	free(process);
}

/* The process that a fork's child came from: of the same image, by preference its parent. */
static struct process *forked_from(struct session *session, const struct process *child,
				   const struct calltap_msg_hello *hello)
{
	struct process *found = NULL;

	for (struct process *other = session->processes; other; other = other->next) {
		if (other == child || !other->greeted || other->image_id != hello->image_id)
			continue;
		found = other;
		if ((uint32_t)other->pid == hello->ppid)
			break;
	}
	return found;
}

static void number_process(struct session *session, struct process *process, const struct calltap_msg_hello *hello,
			   const struct process *origin)
{
	process->index = session->process_count++;
	process->row = (struct calltap_file_process){
		.process = process->index,
		.pid = (uint32_t)process->pid,
		.parent = UINT32_MAX,
		.start = hello->flags & CALLTAP_HELLO_FORKED ? CALLTAP_START_FORK : CALLTAP_START_SPAWN,
		.start_ticks = hello->ticks,
	};
	if (hello->flags & CALLTAP_HELLO_ATTACHED)
		process->row.start = CALLTAP_START_ATTACH;
	else if (process->index && process->row.start == CALLTAP_START_SPAWN)
		process->row.start = CALLTAP_START_EXEC;
	for (struct process *other = session->processes; other; other = other->next)
		if (other != process && other->greeted && (uint32_t)other->pid == hello->ppid)
			process->row.parent = other->index;
	if (origin)
		process->row.parent = origin->index;
}

/* A forked child has its parent's objects, patched as they were. */
static int inherit_maps(struct process *process, const struct process *parent)
{
	if (!parent || !parent->map_count)
		return 0;
	process->maps = calloc(parent->map_count, sizeof(*process->maps));
	if (!process->maps)
		return -ENOMEM;
	process->map_count = parent->map_count;
	memcpy(process->maps, parent->maps, parent->map_count * sizeof(*process->maps));
	return 0;
}

/* Does the session follow this process at all? */
static bool is_wanted(const struct session *session, const struct process *process,
		      const struct calltap_msg_hello *hello)
{
	if (hello->flags & CALLTAP_HELLO_FORKED)
		return !session->options->no_fork;
	if (!session->process_count || process->attachee)
		return true;
	if (process->pid == session->command)
		return !session->options->no_exec;
	return !session->options->no_exec && !session->options->no_fork;
}

static int send_setup(struct session *session, struct process *process, bool wanted)
{
	const struct instance *first = session_first(session);
	struct calltap_msg_setup setup = {
		.head = {CALLTAP_MSG_SETUP, sizeof(setup)},
		.mode = first->options->mode,
		.depth_max = first->settings.options.depth_max, /* as they are now (steer.c) */
		.threshold_ticks = first->threshold_ticks,
		.tree_filter = session->images.needs.tree_filter,
		.wait_max_ms = session->options->wait_max_ms,
		.dormant = !wanted,
		.emulated = session->emulated ? CALLTAP_EMULATED : 0,
		.flags = tables_flags(first),
	};
	int fds[3] = {session->board_fd, -1, -1}, ret;
	char stat[64];

	if (session->emulator.kills_forks)
		setup.emulated |= CALLTAP_EMULATED_NO_FORKS;
	process->dormant = !wanted;
	if (!wanted)
		return channel_send(process->socket, &setup, sizeof(setup), NULL, 0);
	ret = arena_add(process->shares[0],
			process->row.start == CALLTAP_START_FORK ? CHILD_RINGS : INSTANCE_FIRST_RINGS, &fds[1]);
	if (ret)
		return ret;
	setup.arena_size = process->shares[0]->arenas[0].size;
	/* A root that the target changes to may have no /proc. */
	snprintf(stat, sizeof(stat), "/proc/%d/stat", (int)process->pid);
	fds[2] = open(stat, O_RDONLY | O_CLOEXEC);
	ret = channel_send(process->socket, &setup, sizeof(setup), fds, fds[2] < 0 ? 2 : 3);
	close(fds[1]);
	if (fds[2] >= 0)
		close(fds[2]);
	return ret;
}

/* Behind SETUP: what functions are waited for. */
static int send_triggers(struct session *session, struct process *process)
{
	struct calltap_msg_triggers message = {.head = {CALLTAP_MSG_TRIGGERS, sizeof(message)}};
	int fd;

	if (!session->images.triggers)
		return 0;
	fd = triggers_memory(session->images.triggers, &message.size);
	return channel_send(process->socket, &message, sizeof(message), &fd, 1);
}

static int send_go(struct session *session, struct process *process)
{
	const struct calltap_msg go = {CALLTAP_MSG_GO, sizeof(go)};
	bool fresh = session->emulated && process->row.start != CALLTAP_START_FORK;
	int ret = fresh ? timing_ask(process) : 0; /* it may end soon */

	process->settled = true;
	if (!session->traced_ns || (process->attachee && !process->began))
		session->traced_ns = clock_now_ns();
	process->began = true;
	return ret ? ret : channel_send(process->socket, &go, sizeof(go), NULL, 0);
}

/*
 * The agent of a process that we know, after it was away: the process gets the
 * new connection, and what came with it is over.
 */
static int greet_again(struct session *session, struct process *process, const struct calltap_msg_hello *hello)
{
	struct process *known = session->processes;
	struct epoll_event event = {.events = EPOLLIN};
	int socket = process->socket;

	while (known && (known == process || known->pid != process->pid || known->image_id != hello->image_id ||
			 known->ended || !process_head(known)))
		known = known->next;
	if (!known)
		return -EPROTO;
	process->socket = known->socket; /* the old one, or a pidfd: it goes with this entry */
	known->socket = socket;
	known->alone = false;
	known->owed.plans = 0;
	live_forgive(session, known);
	forget_report(known);
	known->shares[0]->arenas[0].request_seen = __atomic_load_n(&process_head(known)->request, __ATOMIC_RELAXED);
	__atomic_fetch_and(&process_head(known)->notes, ~CALLTAP_NOTE_ALONE, __ATOMIC_RELAXED);
	event.data.ptr = known;
	if (epoll_ctl(session->endpoint.epoll, EPOLL_CTL_MOD, socket, &event))
		return -errno;
	return send_go(session, known);
}

/*
 * What an emulator runs, only its agent can say, or the one that a forked
 * child came from.  QEMU looks for a program that it was given by a relative
 * path in the folder of the agent's thread, in vain: that is the command.  Of
 * anything else /proc tells (process_write()).
 */
static int note_exe(const struct session *session, struct process *process, const char *exe,
		    const struct process *origin)
{
	if (!session->emulated)
		return 0;
	if (!exe[0] && origin && origin->exe)
		exe = origin->exe;
	process->exe = exe[0] ? strdup(exe) : realpath(session->program, NULL);
	if (!process->exe)
		process->exe = strdup(session->program);
	return process->exe ? 0 : -ENOMEM;
}

static void set_threshold(struct session *session, const struct process *process)
{
	struct instance *first = session_first(session);
	double rate = clock_line_rate(&session->timing.line);

	first->threshold_ticks = (uint64_t)((double)first->settings.options.threshold_ns * rate);
	if (first->settings.options.threshold_ns && rate == 0)
		session_diagnose(session,
				 "the rate of the clock of process %d is not known, so calls shorter than the "
				 "threshold (-t) are recorded, too",
				 (int)process->pid);
}

/* The second half of a greeting, when all is known that SETUP takes. */
static int welcome(struct session *session, struct process *process)
{
	const struct calltap_msg_hello *hello = &process->hello;
	bool forked = hello->flags & CALLTAP_HELLO_FORKED;
	const struct process *origin = forked ? forked_from(session, process, hello) : NULL;
	bool wanted = !process->foreign && is_wanted(session, process, hello);
	struct share *share;
	int ret;

	process->welcome = true;
	if (process->attachee && hello->flags & CALLTAP_HELLO_LEFTOVERS && attached_let_go(session, process))
		return -EBUSY;
	if (wanted) {
		number_process(session, process, hello, origin);
		ret = inherit_maps(process, origin);
		if (!ret)
			ret = instance_take(&share, session_first(session), process);
		if (ret)
			wanted = false; /* the file is full: let the program run on alone */
	}
	if (session->emulated && wanted)
		set_threshold(session, process);
	ret = send_setup(session, process, wanted);
	if (!ret && wanted)
		ret = send_triggers(session, process);
	if (!ret && wanted)
		ret = handlers_welcome(session, process, origin);
	if (!ret && wanted)
		ret = instances_welcome(session, process);
	if (!ret && wanted && forked) {
		perfmap_add_all(session, process);
		ret = live_apply_all(session, process);
	}
	if (!ret && wanted && forked)
		ret = send_go(session, process);
	return ret;
}

static int check_hello(struct session *session, const struct process *process, const struct calltap_msg_hello *hello,
		       uint32_t size)
{
	if (size < sizeof(*hello) + 1 || ((const char *)hello)[size - 1] || process->greeted)
		return -EPROTO;
	if (hello->key != session->endpoint.key)
		return -EKEYREJECTED; /* not of this session: anybody may connect */
	if (hello->version == CALLTAP_ABI_VERSION)
		return 0;
	session_diagnose(session,
			 "the agent in process %d speaks version %u, this tool %u; install both from one build",
			 (int)process->pid, hello->version, CALLTAP_ABI_VERSION);
	return -EPROTO;
}

/*
 * The agent that was put into a process has called in.  No other process is to have the tool stop it; nor is one that
 * was awaited for too long, or until the recording ended.
 */
static int meet(struct session *session, struct process *process)
{
	struct attachee *attachee = attachee_find(session, process->pid);

	if (!attachee || attachee->process || session->ending.letting_go ||
	    (attachee->state != ATTACHEE_COMING && attachee->state != ATTACHEE_AWAITED))
		return -ECANCELED;
	attachee->process = process;
	process->attachee = attachee;
	return 0;
}

int process_set_up(struct session *session, struct process *process)
{
	if (process->attachee) {
		process->attachee->state = ATTACHEE_MET;
		session->ending.awaited_ns = 0;
	}
	if (process->foreign)
		return welcome(session, process);
	timing_greet(session, &process->hello);
	return timing_is_vague(session, process) ? timing_ask(process) : welcome(session, process);
}

static int greet(struct session *session, struct process *process, const struct calltap_msg_hello *hello, uint32_t size)
{
	bool forked = hello->flags & CALLTAP_HELLO_FORKED;
	int ret = check_hello(session, process, hello, size);

	if (ret)
		return ret;
	if (hello->flags & CALLTAP_HELLO_BACK) {
		ret = greet_again(session, process, hello);
		return ret ? ret : -ECANCELED; /* this entry is over either way */
	}
	if (hello->flags & CALLTAP_HELLO_ATTACHED)
		ret = meet(session, process);
	if (ret)
		return ret;
	process->greeted = true;
	process->image_id = hello->image_id;
	process->other_ids = hello->pid != (uint32_t)process->pid;
	process->foreign = hello->machine != session->machine->id;
	process->hello = *hello;
	if (!process->foreign)
		ret = note_exe(session, process, hello->exe, forked ? forked_from(session, process, hello) : NULL);
	if (ret || !process->attachee || process->attachee->state != ATTACHEE_COMING)
		return ret ? ret : process_set_up(session, process);
	/* The thread that was borrowed for the agent is not back yet: when it is, attachees.c goes on, and reads on. */
	epoll_ctl(session->endpoint.epoll, EPOLL_CTL_DEL, process->socket, NULL);
	return 0;
}

static int take_time(struct session *session, struct process *process, const struct calltap_msg_clock_told *told)
{
	int ret = timing_told(session, process, told);

	if (ret || process->welcome)
		return ret;
	return timing_is_vague(session, process) ? timing_ask(process) : welcome(session, process);
}

static int add_object(struct process *process, const struct calltap_msg_object *object)
{
	uint32_t size = object->head.size;
	struct calltap_msg_object **report, *copy;

	if (size <= sizeof(*object) || ((const char *)object)[size - 1] || process->report.count >= REPORT_MAX)
		return -EPROTO;
	report = reallocarray(process->report.list, process->report.count + 1, sizeof(*report));
	if (!report)
		return -ENOMEM;
	process->report.list = report;
	copy = malloc(size);
	if (!copy)
		return -ENOMEM;
	memcpy(copy, object, size);
	report[process->report.count++] = copy;
	return 0;
}

/* All plans that a report led to are carried out, or prepared. */
static int go_on(struct session *session, struct process *process)
{
	int ret;

	if (process->detaching)
		return 0; /* it has been told to end already */
	ret = attached_is_open(process) ? attached_apply(session, process) : 0;
	if (ret == -EINPROGRESS)
		return 0; /* another report comes first */
	return ret ? ret : send_go(session, process);
}

static int end_report(struct session *session, struct process *process, const struct calltap_msg_objects_end *end)
{
	int ret = plan_report(session, process);

	process->report.told = *end;
	session->dlopen_missed |= (end->flags & CALLTAP_OBJECTS_NO_DLHOOK) != 0;
	forget_report(process);
	if (ret)
		return ret;
	return process->owed.plans ? 0 : go_on(session, process);
}

static int plan_done(struct session *session, struct process *process, const struct calltap_msg_plan_done *done)
{
	int ret;

	if (done->plan_id >= process->map_count ||
	    !(process->maps[done->plan_id].stubs ? process->owed.stubs : process->owed.plans) ||
	    (uint64_t)done->patched + done->failed > process->maps[done->plan_id].image->site_count)
		return -EPROTO;
	if (done->region) /* a plan that came too late keeps the one that its object had when it was there */
		process->maps[done->plan_id].region = done->region;
	session->result->patched += done->patched;
	session->result->failed += done->failed;
	if (done->failed)
		plan_note_failed(session, done->first_failed_id);
	session->patch_ticks += done->elapsed_ticks;
	if (done->error && done->error != -ESTALE)
		session_diagnose(session, "%s was not patched: %s", process->maps[done->plan_id].image->path,
				 strerror(-done->error));
	perfmap_add(session, process, &process->maps[done->plan_id]);
	if (process->maps[done->plan_id].stubs) { /* no report led to these: somebody waits for them, or did */
		process->owed.stubs--;
		pthread_cond_broadcast(&session->answered);
		return live_catch_up(process, &process->maps[done->plan_id]);
	}
	process->owed.plans--;
	ret = live_apply(session, process, &process->maps[done->plan_id]);
	return ret || process->owed.plans ? ret : go_on(session, process);
}

static int answer(struct session *session, struct process *process, const union message *message, uint32_t size)
{
	switch (message->head.type) {
	case CALLTAP_MSG_HELLO:
		return greet(session, process, &message->hello, size);
	case CALLTAP_MSG_OBJECT:
		return add_object(process, &message->object);
	case CALLTAP_MSG_OBJECTS_END:
		return size == sizeof(message->objects_end) ? end_report(session, process, &message->objects_end)
							    : -EPROTO;
	case CALLTAP_MSG_PLAN_DONE:
		return size == sizeof(message->plan_done) ? plan_done(session, process, &message->plan_done) : -EPROTO;
	case CALLTAP_MSG_SWITCH_DONE:
		return size == sizeof(message->switch_done) ? live_answer(session, process, &message->switch_done)
							    : -EPROTO;
	case CALLTAP_MSG_HANDLERS_DONE:
		return size == sizeof(message->handlers_done)
			       ? handlers_answer(session, process, &message->handlers_done)
			       : -EPROTO;
	case CALLTAP_MSG_INSTANCE_DONE:
		return size == sizeof(message->instance_done)
			       ? instances_answer(session, process, &message->instance_done)
			       : -EPROTO;
	case CALLTAP_MSG_CLOCK_TOLD:
		return size == sizeof(message->clock_told) ? take_time(session, process, &message->clock_told)
							   : -EPROTO;
	case CALLTAP_MSG_DETACHED:
		if (size != sizeof(message->detached))
			return -EPROTO;
		/* Unasked for: the agent ends by itself, as the last thread or before a sandbox. */
		process->parted = true;
		if (process->detaching)
			session->result->left_over += message->detached.left;
		if (process->detaching && process->attach.applied)
			attached_release(session, process);
		return -ESHUTDOWN;
	case CALLTAP_MSG_FAULT:
		if (size != sizeof(message->fault))
			return -EPROTO;
		process_tell_fault(session, process, &message->fault);
		process->parted = true;
		return 0;
	default:
		return -EPROTO;
	}
}

/* Is that how it looks when a target ends, or is killed, or does not belong to us? */
static bool is_its_end(int error)
{
	return error == -EPIPE || error == -ECONNRESET || error == -ESHUTDOWN || error == -ENOENT || error == -ESRCH ||
	       error == -EKEYREJECTED || error == -ECANCELED;
}

/* First of all a HELLO; nothing of objects and plans before SETUP, nor if there is nothing to trace. */
static bool may_say(const struct process *process, uint32_t type)
{
	if (!process->greeted || type == CALLTAP_MSG_HELLO)
		return type == CALLTAP_MSG_HELLO;
	return (process->welcome && !process->dormant) || type == CALLTAP_MSG_CLOCK_TOLD || type == CALLTAP_MSG_FAULT ||
	       type == CALLTAP_MSG_DETACHED;
}

void process_tell_end(struct session *session, const struct process *process, int error)
{
	if (error == -EPROTO && process->greeted)
		process_diagnose(session, process,
				 "process %d sent nonsense on the control socket; its trace ends there",
				 (int)process->pid);
	else if (error < 0 && error != -EPROTO && !is_its_end(error))
		process_diagnose(session, process, "process %d cannot be followed: %s; its trace ends there%s",
				 (int)process->pid, strerror(-error), files_remedy(error));
}

int process_serve(struct session *session, struct process *process)
{
	union message message;
	int ret = channel_receive(process->socket, &message, sizeof(message));

	if (ret == -EAGAIN || ret == -EINTR)
		return 0;
	if (ret > 0) {
		ret = may_say(process, message.head.type) ? answer(session, process, &message, (uint32_t)ret) : -EPROTO;
		process->heard_ns = clock_now_ns(); /* what we did meanwhile is not its silence */
		if (ret == -EPIPE || ret == -ECONNRESET)
			return 0; /* it has gone, but may have said why: read on until the end */
	}
	process_tell_end(session, process, ret);
	return ret;
}
