/*
 * A process that ran before the session: looking at it, coming in, having its
 * sites written while it runs, and leaving it as it was.
 *
 * Called by the server thread, from attached_apply() on with the session's
 * lock held.  doc/design/attach.md has what ptrace does, control.md the
 * conversation.  Context: host.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <host/attach/attach.h>
#include <host/elf/imports.h>
#include <host/proc.h>
#include <host/session/found.h>
#include <host/space.h>

#include "attached.h"

#define ANSWER_NS 5000000000u /* for the agent's answer while the program's threads are stopped */
#define PAUSE_NS  2000000

/* Consider every file that the process has mapped as code. */
static int consider_maps(struct session *session, pid_t pid, struct found *found, const struct space *space)
{
	int ret = 0;

	for (size_t i = 0; !ret && i < space->count; i++) {
		const struct map *map = &space->maps[i];
		int fd;

		/* The agent of an earlier session is nobody's to trace. */
		if (!(map->bits & MAP_EXEC) || strstr(map->path, "libcalltap-agent"))
			continue;
		fd = space_open(pid, map);
		if (fd < 0) {
			if (unread_note(session, pid, space, map, fd) && !found->unread[0])
				snprintf(found->unread, sizeof(found->unread), "%s", map->path);
			continue;
		}
		ret = found_consider(found, session, fd, map->path, found->count != 0);
		close(fd);
	}
	return ret;
}

/* Consider the program's own file, before all others: messages name it, and what is wrong with it. */
static int consider_program(struct session *session, pid_t pid, struct found *found, char exe[PATH_MAX])
{
	char path[64], name[32];
	ssize_t length;
	int fd, ret;

	snprintf(path, sizeof(path), "/proc/%d/exe", (int)pid);
	length = readlink(path, exe, PATH_MAX - 1);
	exe[length < 0 ? 0 : length] = 0;
	space_cut_deleted(exe);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	ret = found_consider(found, session, fd, exe, false);
	close(fd);
	/* Debian's redis-server is a link to redis-check-rdb. */
	if (!ret && found->count && !proc_status(pid, "Name", name, sizeof(name)))
		object_be_called(found->objects[0], name);
	return ret;
}

/* Prepare for a process whose program is static.  *placing is NULL for those that have a loader. */
static int prepare_static(struct placing **placing, const struct session *session, pid_t pid, struct calltap_diag *diag)
{
	char path[64], exe[PATH_MAX];
	struct object *object;
	ssize_t length;
	int fd, ret;

	*placing = NULL;
	snprintf(path, sizeof(path), "/proc/%d/exe", (int)proc_alive(pid));
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0; /* that is told by others */
	length = readlink(path, exe, sizeof(exe) - 1);
	exe[length < 0 ? 0 : length] = 0;
	space_cut_deleted(exe);
	ret = object_open(&object, fd, exe, diag);
	if (!ret && object_is_static(object))
		ret = placing_create(placing, fd, exe, session->options->agent_path, diag);
	if (!ret)
		object_close(object);
	close(fd);
	return ret;
}

int attached_check(struct session *session, pid_t pid, struct found *found, struct calltap_diag *diag)
{
	struct placing *placing = NULL;
	char exe[PATH_MAX];
	struct space space;
	int ret = attach_check(pid, diag);

	if (ret == -EPERM && session->options->clears && attach_is_shut_in(pid) && attach_has_agent(pid))
		return calltap_diag_set(
			diag, ret,
			"process %d runs in a seccomp sandbox, which may end it for what the agent does; what a killed "
			"calltap has left in it records nothing, and stays until it ends",
			(int)pid);
	if (!ret)
		ret = prepare_static(&placing, session, pid, diag);
	placing_destroy(placing);
	if (ret)
		return ret;
	ret = space_read(&space, pid);
	if (ret && ret != -ESRCH)
		return calltap_diag_set(diag, ret, "cannot look into process %d: %s", (int)pid, strerror(-ret));
	ret = consider_program(session, pid, found, exe);
	if (!ret)
		ret = consider_maps(session, pid, found, &space);
	if (!ret)
		ret = found_decide(found, session);
	space_free(&space);
	if (ret)
		return calltap_diag_set(diag, ret, "cannot read the objects of process %d: %s", (int)pid,
					strerror(-ret));
	ret = found_check(found, session, exe, pid, diag);
	if (ret || session->program)
		return ret;
	session->program = strdup(exe);
	return session->program ? 0 : calltap_diag_set(diag, -ENOMEM, "not enough memory");
}

/* A static program that the agent is to be brought into. */
struct coming {
	struct attachee *attachee;
	struct placing *placing; /* NULL: the program has a loader */
	struct placing_live live;
};

/* Called while no other tool can attach (attach.h). */
static int prepare_live(void *context, pid_t pid, struct attach_options *options, struct calltap_diag *diag)
{
	struct coming *coming = context;
	int ret = placing_prepare_live(&coming->live, coming->placing, pid, diag);

	if (ret)
		return ret;
	options->placed = &coming->live.placed;
	options->resident_entry = coming->live.resident_entry;
	memcpy(coming->attachee->jumps, coming->live.jumps, sizeof(coming->live.jumps));
	coming->attachee->jump_count = coming->live.jump_count;
	return 0;
}

/* Bring the agent in, without a loader if the program has none. */
static int inject(const struct session *session, struct attachee *attachee, struct attach_options *options,
		  struct attach_result *result, struct calltap_diag *diag)
{
	struct coming coming = {.attachee = attachee};
	int ret = prepare_static(&coming.placing, session, attachee->told->pid, diag);

	if (coming.placing) {
		options->prepare = prepare_live;
		options->context = &coming;
	}
	if (!ret)
		ret = attach_inject(attachee->told->pid, options, result, diag);
	result->cut_short += coming.live.cut_short;
	placing_live_free(&coming.live);
	placing_destroy(coming.placing);
	options->context = NULL;
	options->placed = NULL;
	return ret;
}

int attached_begin(struct session *session, struct attachee *attachee, struct calltap_diag *diag)
{
	struct record_attached *told = attachee->told;
	struct attach_options options = {
		.size = sizeof(options),
		.agent_path = session->options->agent_path,
		.filters = spawn_filters(),
		.leave_code = true, /* attached_apply(), which stops all threads anyhow, takes it out */
	};
	struct attach_result result = {0};
	char name[SESSION_NAME_MAX];
	int ret;

	session_name(session, name, sizeof(name));
	options.session = name;
	ret = inject(session, attachee, &options, &result, diag);
	told->attach_borrow_ns = result.borrow_ns;
	told->attach_cut_short = result.cut_short;
	return ret;
}

union pointers {
	struct calltap_msg_pointers message;
	uint8_t bytes[sizeof(struct calltap_msg_pointers) + CALLTAP_POINTERS_MAX * sizeof(struct calltap_pointer)];
};

static int send_pointers(const struct target *target, union pointers *out)
{
	size_t size = sizeof(out->message) + out->message.count * sizeof(out->message.pointers[0]);
	int ret;

	if (!out->message.count)
		return 0;
	out->message.head = (struct calltap_msg){CALLTAP_MSG_POINTERS, (uint32_t)size};
	ret = channel_send(target->socket, out, size, NULL, 0);
	out->message.count = 0;
	return ret;
}

static int add_pointer(const struct target *target, union pointers *out, uint64_t address, uint32_t to,
		       enum calltap_pointer_kind kind)
{
	out->message.pointers[out->message.count++] =
		(struct calltap_pointer){.address = address, .to = to, .kind = kind};
	return out->message.count == CALLTAP_POINTERS_MAX ? send_pointers(target, out) : 0;
}

int attached_pointers(const struct target *target, int fd, const struct calltap_msg_object *object)
{
	union pointers out = {.message.base = object->base, .message.identity = object->identity};
	uint64_t base = object->base;
	bool fresh = !attached_is_open(target);
	struct import_pointer *found;
	size_t count;
	int ret = imports_read(&found, &count, fd, imports_names(), CALLTAP_POINTERS_TO);

	if (ret)
		return ret == -ENOMEM ? ret : 0;
	/* The loader binds an object that is held in dlopen later than this: by the symbol, which is changed. */
	out.message.flags = fresh ? CALLTAP_POINTERS_FRESH : 0;
	for (size_t i = 0; i < count && !ret; i++) {
		if (found[i].defined)
			continue;
		ret = add_pointer(target, &out, base + found[i].address, found[i].name, CALLTAP_POINTER_WORD);
		if (!ret && fresh && found[i].symbol)
			ret = add_pointer(target, &out, base + found[i].symbol, found[i].name, CALLTAP_POINTER_SYMBOL);
	}
	if (!ret)
		ret = send_pointers(target, &out);
	free(found);
	return ret;
}

void attached_pause(uint64_t least_ns)
{
	const uint64_t ns = least_ns > PAUSE_NS ? least_ns : PAUSE_NS;
	const struct timespec pause = {(time_t)(ns / 1000000000), (long)(ns % 1000000000)};

	nanosleep(&pause, NULL);
}

void attached_rest(struct session *session, uint64_t least_ns)
{
	session_unlock(session);
	attached_pause(least_ns);
	session_lock(session);
}

void attached_begin_stops(const struct session *session, struct target *target)
{
	target->attach.given_up_before = session->result->stops_given_up;
	target->attach.spare_until_ns = clock_now_ns() + ATTACH_TRANSFERS_NS;
}

int attached_stop(struct session *session, const struct target *target, struct attach_stop **stop)
{
	const pid_t control = (pid_t)target->hello.tid;
	const unsigned given_up = session->result->stops_given_up - target->attach.given_up_before;
	struct calltap_diag diag = {0};
	int ret;

	session_unlock(session);
	attach_await_transfers(target->pid, target->attach.spare_until_ns);
	session_lock(session);
	ret = attach_stop_again(stop, target->pid, &control, 1, given_up, &diag);
	if (ret && !proc_alive(target->pid)) /* it has ended meanwhile, in whatever step that was met */
		ret = -ESRCH;
	if (ret && ret != -ESRCH)
		target_diagnose(session, target, "%s", diag.text);
	return ret;
}

void attached_note_times(struct session *session, const struct attach_times *times)
{
	session->result->stops_given_up += times->given_up;
	session->result->cut_short += times->cut_short;
	if (times->longest_ns > session->result->longest_stop_ns)
		session->result->longest_stop_ns = times->longest_ns;
}

uint64_t attached_resume(struct session *session, struct attach_stop *stop)
{
	struct attach_times times;

	attach_resume_timed(stop, &times);
	attached_note_times(session, &times);
	return times.total_ns;
}

/*
 * A message that the agent sent before the question came.  During an attach and a release there are few; a target that
 * runs may tell of objects, and answer what it was asked before.
 */
static int take_other(struct session *session, struct target *target, const void *message, uint32_t size)
{
	const struct calltap_msg *head = message;

	if (!attached_is_open(target) && !target->detaching)
		return target_answer(session, target, message, size);
	/* The regions are found in the agent's memory (attached_release.c). */
	return head->type == CALLTAP_MSG_CLOCK_TOLD || head->type == CALLTAP_MSG_REGIONS ? 0 : -EPROTO;
}

int attached_ask(struct session *session, struct target *target, const void *message, size_t size, uint32_t answer_type,
		 void *answer, size_t answer_size)
{
	struct pollfd poll_fd = {.fd = target->socket, .events = POLLIN};
	uint64_t until = clock_now_ns() + ANSWER_NS;
	union {
		struct calltap_msg head;
		struct calltap_msg_fault fault;
		char bytes[CALLTAP_MSG_MAX];
	} in;
	int ret = message ? channel_send(target->socket, message, size, NULL, 0) : 0;

	while (!ret) {
		uint64_t now = clock_now_ns();

		/*
		 * A signal to the tool ends no wait: the agent is at work, and no program thread may run meanwhile.
		 * A tool that was stopped comes late to an answer that is there.
		 */
		if (poll(&poll_fd, 1, now < until ? (int)((until - now) / 1000000) + 1 : 0) <= 0) {
			if (now >= until)
				return -ETIMEDOUT;
			continue;
		}
		ret = channel_receive(target->socket, &in, sizeof(in));
		if (ret == -EAGAIN || ret == -EINTR) {
			ret = 0;
			continue;
		}
		if (ret < 0)
			return ret;
		if (in.head.type == answer_type && (size_t)ret == answer_size) {
			memcpy(answer, &in, answer_size);
			return 0;
		}
		/* The agent has no memory for more rings: it goes on without them, or ends the connection. */
		if (in.head.type == CALLTAP_MSG_FAULT && (size_t)ret == sizeof(in.fault) && in.fault.error == -ENOMEM) {
			target_tell_fault(session, target, &in.fault);
			ret = 0;
			continue;
		}
		ret = take_other(session, target, &in, (uint32_t)ret);
	}
	return ret;
}

int attached_await(struct session *session, struct target *target, struct attach_stop *stop, uint32_t answer_type,
		   void *answer, size_t answer_size)
{
	attach_asked(stop, target->socket, answer_type);
	return attached_ask(session, target, NULL, 0, answer_type, answer, answer_size);
}
