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
#include <host/brief/brief.h>
#include <host/hook/handlers.h>
#include <host/hook/watch.h>
#include <host/instance/instances.h>
#include <host/session/session.h>
#include <host/space.h>
#include <host/values/values.h>

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
	struct calltap_msg_programs_done programs_done;
	struct calltap_msg_plans plans;
	char bytes[CALLTAP_MSG_MAX];
};

int target_create(struct target **out, struct session *session, int socket)
{
	struct ucred peer;
	socklen_t size = sizeof(peer);
	struct target *target;

	*out = NULL;
	if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size))
		return -errno;
	if (peer.uid != geteuid() && peer.uid != 0 && geteuid() != 0)
		return -EPERM;
	target = session->targets;
	while (target && (target->greeted || !target_is_drained(target)))
		target = target->next;
	if (!target) {
		target = calloc(1, sizeof(*target));
		if (!target)
			return -ENOMEM;
		target->next = session->targets;
		session->targets = target;
	}
	target->ended = false; /* one that never said who it was left nothing else behind */
	target->socket = socket;
	target->pid = peer.pid;
	target->index = UINT32_MAX;
	*out = target;
	return 0;
}

static void forget_report(struct target *target)
{
	for (uint32_t i = 0; i < target->report.count; i++)
		free(target->report.list[i]);
	free(target->report.list);
	target->report.list = NULL;
	target->report.count = 0;
}

void target_destroy(struct target *target)
{
	forget_report(target);
	free(target->maps);
	free(target->had.list);
	free(target->exe);
	if (target->socket >= 0)
		close(target->socket);
	free(target);
}

static void number_process(struct session *session, struct target *target, const struct calltap_msg_hello *hello,
			   const struct target *origin)
{
	target->index = session->process_count++;
	target->row = (struct calltap_file_process){
		.process = target->index,
		.pid = (uint32_t)target->pid,
		.parent = UINT32_MAX,
		.start = hello->flags & CALLTAP_HELLO_FORKED ? CALLTAP_START_FORK : CALLTAP_START_SPAWN,
		.start_ticks = hello->ticks,
	};
	if (hello->flags & CALLTAP_HELLO_ATTACHED)
		target->row.start = CALLTAP_START_ATTACH;
	else if (target->index && target->row.start == CALLTAP_START_SPAWN)
		target->row.start = CALLTAP_START_EXEC;
	for (struct target *other = session->targets; other; other = other->next)
		if (other != target && other->greeted && (uint32_t)other->pid == hello->ppid)
			target->row.parent = other->index;
	if (origin)
		target->row.parent = origin->index;
}

/* Does the session follow this process at all? */
static bool is_wanted(const struct session *session, const struct target *target, const struct calltap_msg_hello *hello)
{
	if (hello->flags & CALLTAP_HELLO_FORKED)
		return !session->options->no_fork;
	if (!session->process_count || target->attachee)
		return true;
	if (target->pid == session->command)
		return !session->options->no_exec;
	return !session->options->no_exec && !session->options->no_fork;
}

/* The rings that a target begins with.  None: it is not to be traced, or its address space has no room, which is told.
 */
static uint32_t first_rings(struct session *session, struct target *target)
{
	const struct calltap_msg_hello *hello = &target->hello;
	/* A forked child has its parent's memory for all else. */
	bool forked = hello->flags & CALLTAP_HELLO_FORKED;
	uint64_t beside = forked ? 0 : rings_beside(session);
	uint32_t rings;

	if (target->foreign || !is_wanted(session, target, hello))
		return 0;
	session->result->limited |= rings_are_limited(target);
	rings = rings_room(session_first(session), target, forked ? CHILD_RINGS : INSTANCE_FIRST_RINGS, beside);
	if (!rings && beside)
		session_diagnose(session,
				 "process %d is not traced: its memory is limited (ulimit -v or -d, or its cgroup), "
				 "and values and handlers "
				 "(-a, -A, -R, --if) would take more than a quarter of what is left: %llu MB",
				 (int)target->pid, (unsigned long long)beside >> 20);
	else if (!rings)
		session_diagnose(
			session,
			"process %d is not traced: a limit (ulimit -v or -f, or of its cgroup) is so low that one "
			"buffer would "
			"take more than a quarter of what is left; a smaller one (-b) takes less",
			(int)target->pid);
	return rings;
}

int target_open_in_proc(const struct target *target, const char *name, int flags)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)target->pid, name);
	return open(path, flags | O_CLOEXEC);
}

/* rings: of its first arena; none: it is not traced. */
static int send_setup(struct session *session, struct target *target, uint32_t rings)
{
	const struct instance *first = session_first(session);
	struct calltap_msg_setup setup = {
		.head = {CALLTAP_MSG_SETUP, sizeof(setup)},
		.mode = first->options->mode,
		.depth_max = first->settings.options.depth_max, /* as they are now (steer.c) */
		.threshold_ticks = first->threshold_ticks,
		.tree_filter = session->images.needs.tree_filter,
		.wait_max_ms = session->options->wait_max_ms,
		.dormant = !rings,
		.emulated = session->emulated ? CALLTAP_EMULATED : 0,
		.flags = tables_flags(first),
		.process = target->index,
	};
	int fds[4] = {session->board_fd, -1, -1, -1}, ret;
	unsigned count = 2;

	if (session->emulator.kills_forks)
		setup.emulated |= CALLTAP_EMULATED_NO_FORKS;
	target->dormant = !rings;
	if (!rings)
		return channel_send(target->socket, &setup, sizeof(setup), NULL, 0);
	ret = arena_add(target->shares[0], rings, &fds[1]);
	if (ret)
		return ret;
	setup.arena_size = target->shares[0]->arenas[0].size;
	/* A root that the target changes to may have no /proc. */
	fds[2] = target_open_in_proc(target, "stat", O_RDONLY);
	if (fds[2] >= 0 && target->hello.flags & CALLTAP_HELLO_NO_MEMORY)
		fds[3] = target_open_in_proc(target, "mem", O_RDWR);
	while (count < 4 && fds[count] >= 0)
		count++;
	ret = channel_send(target->socket, &setup, sizeof(setup), fds, count);
	while (count > 1)
		close(fds[--count]);
	return ret;
}

/* memory: of the process's mem file, which the agent lacks, or -1. */
static int send_go(struct session *session, struct target *target, int memory)
{
	const struct calltap_msg go = {CALLTAP_MSG_GO, sizeof(go)};
	bool fresh = session->emulated && target->row.start != CALLTAP_START_FORK;
	int ret = fresh ? timing_ask(target) : 0; /* it may end soon */

	target->settled = true;
	if (!session->traced_ns)
		session->traced_ns = clock_now_ns();
	target->began = true;
	if (!ret)
		ret = tables_tell(
			target->shares[0]); /* they are to be in the core file of a program that ends at once */
	return ret ? ret : channel_send(target->socket, &go, sizeof(go), &memory, memory < 0 ? 0 : 1);
}

int target_go(struct session *session, struct target *target)
{
	return send_go(session, target, -1);
}

/*
 * The agent of a process that we know, after it was away: the process gets the
 * new connection, and what came with it is over.
 */
static int greet_again(struct session *session, struct target *target, const struct calltap_msg_hello *hello)
{
	struct target *known = session->targets;
	struct epoll_event event = {.events = EPOLLIN};
	int socket = target->socket, memory = -1, ret;

	while (known && (known == target || known->pid != target->pid || known->image_id != hello->image_id ||
			 known->ended || !target_head(known)))
		known = known->next;
	if (!known)
		return -EPROTO;
	target->socket = known->socket; /* the old one, or a pidfd: it goes with this entry */
	known->socket = socket;
	known->hello.tid = hello->tid; /* who is left running while all others are stopped */
	known->alone = false;
	known->owed.plans = 0;
	live_forgive(session, known);
	forget_report(known);
	forked_is_back(known);
	known->shares[0]->arenas[0].request_seen = __atomic_load_n(&target_head(known)->request, __ATOMIC_RELAXED);
	__atomic_fetch_and(&target_head(known)->notes, ~CALLTAP_NOTE_ALONE, __ATOMIC_RELAXED);
	event.data.ptr = known;
	if (epoll_ctl(session->endpoint.epoll, EPOLL_CTL_MOD, socket, &event))
		return -errno;
	if (hello->flags & CALLTAP_HELLO_NO_MEMORY)
		memory = target_open_in_proc(known, "mem", O_RDWR);
	ret = send_go(session, known, memory);
	if (memory >= 0)
		close(memory);
	return ret;
}

/*
 * What an emulator runs, only its agent can say, or the one that a forked
 * child came from.  QEMU looks for a program that it was given by a relative
 * path in the folder of the agent's thread, in vain: that is the command.  Of
 * anything else /proc tells (target_write()).
 */
static int note_exe(const struct session *session, struct target *target, const char *exe, const struct target *origin)
{
	if (!session->emulated)
		return 0;
	if (!exe[0] && origin && origin->exe)
		exe = origin->exe;
	target->exe = exe[0] ? strdup(exe) : realpath(session->program, NULL);
	if (!target->exe)
		target->exe = strdup(session->program);
	return target->exe ? 0 : -ENOMEM;
}

static void set_threshold(struct session *session, const struct target *target)
{
	struct instance *first = session_first(session);
	double rate = clock_line_rate(&session->timing.line);

	first->threshold_ticks = (uint64_t)((double)first->settings.options.threshold_ns * rate);
	if (first->settings.options.threshold_ns && rate == 0)
		session_diagnose(session,
				 "the rate of the clock of process %d is not known, so calls shorter than the "
				 "threshold (-t) are recorded, too",
				 (int)target->pid);
}

/*
 * What an earlier session has left is taken away before anything else.  A session that only clears ends there: the
 * agent gets no SETUP, and is idle as after any detach.
 */
static int take_leftovers(struct session *session, struct target *target, const struct calltap_msg_hello *hello)
{
	struct record_attached *told = target->attachee->told;

	told->had_leftovers = hello->flags & CALLTAP_HELLO_LEFTOVERS;
	if (told->had_leftovers && attached_let_go(session, target))
		return -EBUSY;
	if (!session->options->clears)
		return 0;
	told->let_go = true;
	target->dormant = true;
	return -ECANCELED;
}

/* What a target gets besides its rings, before any plan. */
static int send_files(struct session *session, struct target *target, const struct target *origin)
{
	int ret = brief_welcome(session->images.times, target);

	if (!ret)
		ret = watch_tell(session->images.watch, target);
	if (!ret)
		ret = handlers_welcome(session, target, origin);
	if (!ret)
		ret = values_welcome(session->images.values, target, session->options->no_fork);
	return ret ? ret : instances_welcome(session, target);
}

/* The second half of a greeting, when all is known that SETUP takes. */
static int welcome_target(struct session *session, struct target *target)
{
	const struct calltap_msg_hello *hello = &target->hello;
	bool forked = hello->flags & CALLTAP_HELLO_FORKED;
	const struct target *origin = forked ? forked_origin(session, target) : NULL;
	struct share *share;
	uint32_t rings;
	bool wanted;
	int ret;

	target->welcome = true;
	ret = target->attachee ? take_leftovers(session, target, hello) : 0;
	if (ret)
		return ret;
	rings = first_rings(session, target);
	wanted = rings != 0;
	if (wanted) {
		number_process(session, target, hello, forked ? forked_from(session, target) : NULL);
		ret = forked_inherit(target, origin);
		if (!ret)
			ret = instance_take(&share, session_first(session), target);
		if (ret)
			wanted = false; /* the file is full: let the program run on alone */
	}
	if (session->emulated && wanted)
		set_threshold(session, target);
	ret = send_setup(session, target, wanted ? rings : 0);
	if (!ret && wanted)
		ret = send_files(session, target, origin);
	if (!ret && wanted && forked) {
		perfmap_add_all(session, target);
		forked_begin(target);
		if (session->ending.letting_go)
			ret = target_go(session, target); /* it gets no more */
	}
	return ret;
}

static int check_hello(struct session *session, const struct target *target, const struct calltap_msg_hello *hello,
		       uint32_t size)
{
	if (size < sizeof(*hello) + 1 || ((const char *)hello)[size - 1] || target->greeted ||
	    hello->plans > FORKED_PLANS_MAX)
		return -EPROTO;
	if (hello->key != session->endpoint.key)
		return -EKEYREJECTED; /* not of this session: anybody may connect */
	if (hello->version == CALLTAP_ABI_VERSION)
		return 0;
	session_diagnose(session,
			 "the agent in process %d speaks version %u, this tool %u; install both from one build",
			 (int)target->pid, hello->version, CALLTAP_ABI_VERSION);
	return -EPROTO;
}

/*
 * The agent that was put into a process has called in.  No other process is to have the tool stop it; nor is one that
 * was awaited for too long, or until the recording ended.
 */
static int meet_attachee(struct session *session, struct target *target)
{
	struct attachee *attachee = attachee_find(session, target->pid);

	if (!attachee || attachee->target || session->ending.letting_go ||
	    (attachee->state != ATTACHEE_COMING && attachee->state != ATTACHEE_AWAITED))
		return -ECANCELED;
	attachee->target = target;
	target->attachee = attachee;
	return 0;
}

int target_set_up(struct session *session, struct target *target)
{
	if (target->attachee) {
		target->attachee->state = ATTACHEE_MET;
		session->ending.awaited_ns = 0;
	}
	if (target->foreign)
		return welcome_target(session, target);
	timing_greet(session, &target->hello);
	return timing_is_vague(session, target) ? timing_ask(target) : welcome_target(session, target);
}

static int greet_agent(struct session *session, struct target *target, const struct calltap_msg_hello *hello,
		       uint32_t size)
{
	bool forked = hello->flags & CALLTAP_HELLO_FORKED;
	int ret = check_hello(session, target, hello, size);

	if (ret)
		return ret;
	if (hello->flags & CALLTAP_HELLO_BACK) {
		ret = greet_again(session, target, hello);
		return ret ? ret : -ECANCELED; /* this entry is over either way */
	}
	if (hello->flags & CALLTAP_HELLO_ATTACHED)
		ret = meet_attachee(session, target);
	if (ret)
		return ret;
	target->greeted = true;
	steer_follow(session, target->pid);
	target->image_id = hello->image_id;
	target->other_ids = hello->pid != (uint32_t)target->pid;
	target->foreign = hello->machine != session->machine->id;
	target->hello = *hello;
	session->cleaned |= hello->flags & CALLTAP_HELLO_PUT_BACK;
	if (!target->foreign)
		ret = note_exe(session, target, hello->exe, forked ? forked_origin(session, target) : NULL);
	if (!ret && forked_is_telling(target))
		return 0; /* SETUP comes when it has told which plans it has */
	if (ret || !target->attachee || target->attachee->state != ATTACHEE_COMING)
		return ret ? ret : target_set_up(session, target);
	/* The thread that was borrowed for the agent is not back yet: when it is, attachees.c goes on, and reads on. */
	epoll_ctl(session->endpoint.epoll, EPOLL_CTL_DEL, target->socket, NULL);
	return 0;
}

static int take_plans(struct session *session, struct target *target, const struct calltap_msg_plans *plans,
		      uint32_t size)
{
	int ret = forked_plans(target, plans, size);

	return ret || forked_is_telling(target) ? ret : target_set_up(session, target);
}

static int take_time(struct session *session, struct target *target, const struct calltap_msg_clock_told *told)
{
	int ret = timing_told(session, target, told);

	if (ret || target->welcome)
		return ret;
	return timing_is_vague(session, target) ? timing_ask(target) : welcome_target(session, target);
}

static int add_object(struct target *target, const struct calltap_msg_object *object)
{
	uint32_t size = object->head.size;
	struct calltap_msg_object **report, *copy;

	if (size <= sizeof(*object) || ((const char *)object)[size - 1] || target->report.count >= REPORT_MAX)
		return -EPROTO;
	report = reallocarray(target->report.list, target->report.count + 1, sizeof(*report));
	if (!report)
		return -ENOMEM;
	target->report.list = report;
	copy = malloc(size);
	if (!copy)
		return -ENOMEM;
	memcpy(copy, object, size);
	report[target->report.count++] = copy;
	return 0;
}

/* All plans that a report led to are carried out, or prepared. */
static int go_on(struct session *session, struct target *target)
{
	int ret;

	if (target->detaching)
		return 0; /* it has been told to end already */
	ret = attached_is_open(target) ? attached_apply(session, target) : 0;
	if (ret == -EINPROGRESS)
		return 0; /* another report comes first */
	return ret ? ret : target_go(session, target);
}

static int end_report(struct session *session, struct target *target, const struct calltap_msg_objects_end *end)
{
	int ret = plan_report(session, target);

	target->report.told = *end;
	if (end->hooks[0])
		target->attach.hook_at = end->hooks[0];
	session->dlopen_missed |= (end->flags & CALLTAP_OBJECTS_NO_DLHOOK) != 0;
	forget_report(target);
	if (ret)
		return ret;
	return target->owed.plans ? 0 : go_on(session, target);
}

/* Another place for the blocks. */
static int plan_again(struct session *session, struct target *target, struct target_map *map)
{
	int ret = plan_send_elsewhere(session, target, map);

	if (ret || map->later) {
		pthread_cond_broadcast(&session->answered);
		return ret;
	}
	return target->owed.plans ? 0 : go_on(session, target);
}

static int plan_done(struct session *session, struct target *target, const struct calltap_msg_plan_done *done)
{
	struct target_map *map = done->plan_id < target->map_count ? &target->maps[done->plan_id] : NULL;
	bool reported = map && !map->stubs && !map->later;
	uint32_t *owed = reported ? &target->owed.plans : &target->owed.stubs;
	int ret;

	if (!map || !*owed || (uint64_t)done->patched + done->failed > map->image->site_count)
		return -EPROTO;
	if (done->region) /* a plan that came too late keeps the one that its object had when it was there */
		map->region = done->region;
	--*owed;
	map->sent = !done->error;
	if (done->error == -EEXIST && map->moves < PLAN_MOVES && !map->stubs)
		return plan_again(session, target, map);
	session->result->patched += done->patched;
	session->result->failed += done->failed;
	if (done->failed)
		plan_note_failed(session, done->first_failed_id);
	session->patch_ticks += done->elapsed_ticks;
	if (done->error && done->error != -ESTALE)
		session_diagnose(session, "%s was not patched: %s", map->image->path, strerror(-done->error));
	perfmap_add(session, target, map);
	if (!reported) { /* somebody waits for these, or did */
		pthread_cond_broadcast(&session->answered);
		forked_answered(session, target);
		return map->stubs ? live_catch_up(target, map) : 0;
	}
	ret = live_apply(session, target, map);
	return ret || target->owed.plans ? ret : go_on(session, target);
}

/* Heads that go on leading to blocks: they are restored in a stop of all threads alone, which a release brings. */
static uint32_t led_heads(const struct target *target)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < target->map_count && !target->attachee && !target->attach.heads_are_own; i++)
		if (target->maps[i].mapped && !target->maps[i].stubs)
			count += image_block_sites(target->maps[i].image);
	return count;
}

/* The agent has restored what it can by itself, all but so many sites. */
static void take_leave(struct session *session, struct target *target, uint32_t left)
{
	struct record_result *result = session->result;

	if (session->attachees.count)
		attached_release(session, target);
	left += led_heads(target);
	result->left_over += left;
	if (left && !result->left_in++)
		result->left_pid = target->pid;
}

static int answer_message(struct session *session, struct target *target, const union message *message, uint32_t size)
{
	switch (message->head.type) {
	case CALLTAP_MSG_HELLO:
		return greet_agent(session, target, &message->hello, size);
	case CALLTAP_MSG_PLANS:
		return take_plans(session, target, &message->plans, size);
	case CALLTAP_MSG_OBJECT:
		return add_object(target, &message->object);
	case CALLTAP_MSG_OBJECTS_END:
		return size == sizeof(message->objects_end) ? end_report(session, target, &message->objects_end)
							    : -EPROTO;
	case CALLTAP_MSG_PLAN_DONE:
		return size == sizeof(message->plan_done) ? plan_done(session, target, &message->plan_done) : -EPROTO;
	case CALLTAP_MSG_SWITCH_DONE:
		return size == sizeof(message->switch_done) ? live_answer(session, target, &message->switch_done)
							    : -EPROTO;
	case CALLTAP_MSG_HANDLERS_DONE:
		return size == sizeof(message->handlers_done)
			       ? handlers_answer(session, target, &message->handlers_done)
			       : -EPROTO;
	case CALLTAP_MSG_PROGRAMS_DONE:
		return size == sizeof(message->programs_done) ? values_answer(session, target, &message->programs_done)
							      : -EPROTO;
	case CALLTAP_MSG_INSTANCE_DONE:
		return size == sizeof(message->instance_done)
			       ? instances_answer(session, target, &message->instance_done)
			       : -EPROTO;
	case CALLTAP_MSG_CLOCK_TOLD:
		return size == sizeof(message->clock_told) ? take_time(session, target, &message->clock_told) : -EPROTO;
	case CALLTAP_MSG_DETACHED:
		if (size != sizeof(message->detached))
			return -EPROTO;
		/* Unasked for: the agent ends by itself, as the last thread or before a sandbox. */
		target->parted = true;
		if (target->detaching)
			take_leave(session, target, message->detached.left);
		return -ESHUTDOWN;
	case CALLTAP_MSG_FAULT:
		if (size != sizeof(message->fault))
			return -EPROTO;
		target_tell_fault(session, target, &message->fault);
		target->parted = true;
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
static bool may_say(const struct target *target, uint32_t type)
{
	if (!target->greeted || type == CALLTAP_MSG_HELLO)
		return type == CALLTAP_MSG_HELLO;
	return (target->welcome && !target->dormant) || type == CALLTAP_MSG_CLOCK_TOLD || type == CALLTAP_MSG_FAULT ||
	       type == CALLTAP_MSG_DETACHED || type == CALLTAP_MSG_PLANS;
}

void target_tell_end(struct session *session, const struct target *target, int error)
{
	if (error == -EPROTO && target->greeted)
		target_diagnose(session, target, "process %d sent nonsense on the control socket; its trace ends there",
				(int)target->pid);
	else if (error < 0 && error != -EPROTO && !is_its_end(error))
		target_diagnose(session, target, "process %d cannot be followed: %s; its trace ends there%s",
				(int)target->pid, strerror(-error), files_remedy(error));
}

int target_answer(struct session *session, struct target *target, const void *bytes, uint32_t size)
{
	const union message *message = bytes;

	return may_say(target, message->head.type) ? answer_message(session, target, message, size) : -EPROTO;
}

int target_serve(struct session *session, struct target *target)
{
	union message message;
	int ret = channel_receive(target->socket, &message, sizeof(message));

	if (ret == -EAGAIN || ret == -EINTR)
		return 0;
	if (ret > 0) {
		ret = target_answer(session, target, &message, (uint32_t)ret);
		target->heard_ns = clock_now_ns(); /* what we did meanwhile is not its silence */
		if (ret == -EPIPE || ret == -ECONNRESET)
			return 0; /* it has gone, but may have said why: read on until the end */
	}
	target_tell_end(session, target, ret);
	return ret;
}
