/*
 * Having the sites and heads of a running process written: all its threads are stopped, and none may be within a site
 * that is several instructions, nor may a signal handler return to there.  A thread within a head is moved into the
 * head's block first.  Called by the server thread with the session's lock held.  doc/design/patching.md, stock.md.
 * Context: host.
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "attached.h"

#define TRAMP_BYTES  5 /* of the long jump that a short site jumps to */
#define LOADER_TRIES (2 * ATTACHED_TRIES)
#define STALE_MAX    100 /* a program that loads and unloads objects all the time is left alone in the end */

/* The insides of sites: all bytes but the first.  A skip names a site by its first byte, lo - 1. */
struct insides {
	struct attach_range *ranges;
	size_t count;
};

/* A look at all threads while they are stopped. */
struct look {
	const struct insides *insides;
	struct attach_ahead *ahead; /* NULL: to be read before the next stop */
	struct attach_range
		hooks[CALLTAP_HOOKS_MAX + FRONTS_MAX]; /* and the jumps that a static program's heads become */
	size_t hook_count;
	bool in_hook;
	uint64_t skips[CALLTAP_SKIPS_MAX];
	uint32_t skip_count;
	bool too_many;
	struct target *target;
	bool later;		   /* for functions that were chosen while the target ran */
	int mem;		   /* the process' memory */
	struct attach_move *moves; /* threads within heads, and where in blocks they go on */
	size_t move_count, move_room;
};

static int compare_ranges(const void *a, const void *b)
{
	const struct attach_range *left = a, *right = b;

	return left->lo < right->lo ? -1 : left->lo > right->lo;
}

static void add_inside(struct insides *insides, uint64_t at, uint32_t length)
{
	if (length > 1)
		insides->ranges[insides->count++] = (struct attach_range){at + 1, at + length};
}

static void add_site(struct insides *insides, const struct target_map *map, uint32_t place)
{
	const struct calltap_site *site = &map->image->sites[place];
	uint64_t at = map->base + map->image->sources[place]->address;

	add_inside(insides, at, site->length);
	if (site->tramp_off)
		add_inside(insides, at + (uint64_t)(int64_t)site->tramp_off, TRAMP_BYTES);
}

/* Sites in text that are to be written.  Heads are looked for around the contexts alone (attached_heads.c): no return
 * address lies in one. */
static int find_insides(const struct target *target, struct insides *insides)
{
	size_t room = 1;

	for (uint32_t i = 0; i < target->map_count; i++)
		room += 2 * (size_t)target->maps[i].image->block_first;
	insides->ranges = calloc(room, sizeof(*insides->ranges));
	if (!insides->ranges)
		return -ENOMEM;
	for (uint32_t i = 0; i < target->map_count; i++) {
		const struct target_map *map = &target->maps[i];

		for (uint32_t k = 0; map->mapped && map->region && map->waits && k < map->image->block_first; k++)
			add_site(insides, map, k);
	}
	qsort(insides->ranges, insides->count, sizeof(*insides->ranges), compare_ranges);
	return 0;
}

/*
 * Note where the loader's hooks lie, but for the first byte of each: a thread that stands there runs either the old
 * code or the jump.
 */
static void find_hooks(const struct target *target, struct look *look)
{
	uint64_t bytes = target->report.told.hook_bytes;

	for (size_t i = 0; i < CALLTAP_HOOKS_MAX && target->report.told.hooks[i] && bytes > 1; i++)
		look->hooks[look->hook_count++] =
			(struct attach_range){target->report.told.hooks[i] + 1, target->report.told.hooks[i] + bytes};
	for (size_t i = 0; target->attachee && i < target->attachee->jump_count; i++)
		look->hooks[look->hook_count++] = target->attachee->jumps[i];
}

static int add_skip(struct look *look, uint64_t skip)
{
	for (uint32_t i = 0; i < look->skip_count; i++)
		if (look->skips[i] == skip)
			return 0;
	look->too_many = look->skip_count == CALLTAP_SKIPS_MAX;
	if (!look->too_many)
		look->skips[look->skip_count++] = skip;
	return look->too_many;
}

static int visit_hit(void *context, const struct attach_hit *hit)
{
	struct look *look = context;

	return add_skip(look, look->insides->ranges[hit->range].lo - 1);
}

static int add_move(struct look *look, const struct attach_thread *thread, uint64_t pc)
{
	if (look->move_count == look->move_room) {
		size_t room = look->move_room ? 2 * look->move_room : 64;
		struct attach_move *moves = reallocarray(look->moves, room, sizeof(*moves));

		if (!moves)
			return -ENOMEM;
		look->moves = moves;
		look->move_room = room;
	}
	look->moves[look->move_count++] = (struct attach_move){thread, pc};
	return 0;
}

/* A context within the jump that a head becomes: a thread can be moved, registers in memory cannot. */
static void look_at_head(struct look *look, const struct attach_context *context)
{
	uint64_t head, pc;

	if (!attached_is_in_jump(look->target, context, &head))
		return;
	if (context->address || !context->thread ||
	    !attached_into_block(look->target, look->mem, context->thread, &pc) || add_move(look, context->thread, pc))
		add_skip(look, head);
}

static bool is_in_hook(const struct look *look, uint64_t pc)
{
	bool is = false;

	for (size_t i = 0; i < look->hook_count; i++)
		is |= pc - look->hooks[i].lo < look->hooks[i].hi - look->hooks[i].lo;
	return is;
}

/* Look where all threads are, and where their signal handlers go back to, on whatever stack. */
static void look_at_contexts(struct attach_stop *stop, struct look *look)
{
	size_t count, inside;
	const struct attach_context *contexts = attach_contexts(stop, &count);

	for (size_t i = 0; i < count; i++) {
		look->in_hook |= is_in_hook(look, contexts[i].pc) ||
				 (contexts[i].thread && !contexts[i].address && contexts[i].thread->back &&
				  is_in_hook(look, contexts[i].pc - contexts[i].thread->back));
		inside = contexts[i].thread
				 ? SIZE_MAX
				 : attach_range_find(look->insides->ranges, look->insides->count, contexts[i].pc);
		if (inside != SIZE_MAX)
			add_skip(look, look->insides->ranges[inside].lo - 1);
		look_at_head(look, &contexts[i]);
	}
}

static int look_at(struct attach_stop *stop, struct look *look)
{
	int ret;

	look->skip_count = 0;
	look->move_count = 0;
	look->too_many = false;
	look->in_hook = false;
	ret = attach_scan(stop, look->insides->ranges, look->insides->count, visit_hit, look);
	look_at_contexts(stop, look);
	return ret < 0 ? ret : 0;
}

static bool is_clear(const struct look *look)
{
	return !look->skip_count && !look->in_hook;
}

static int ask_apply(struct session *session, struct attach_stop *stop, const struct look *look,
		     struct calltap_msg_apply_done *done)
{
	union {
		struct calltap_msg_apply message;
		uint8_t bytes[sizeof(struct calltap_msg_apply) + CALLTAP_SKIPS_MAX * sizeof(uint64_t)];
	} out;
	size_t size = sizeof(out.message) + look->skip_count * sizeof(out.message.skips[0]);
	int ret;

	out.message = (struct calltap_msg_apply){
		.head = {CALLTAP_MSG_APPLY, (uint32_t)size},
		.flags = look->in_hook ? CALLTAP_APPLY_LEAVE_LOADER : 0,
		.count = look->skip_count,
	};
	memcpy(out.message.skips, look->skips, look->skip_count * sizeof(out.message.skips[0]));
	ret = channel_send(look->target->socket, &out, size, NULL, 0);
	return ret ? ret : attached_await(session, look->target, stop, CALLTAP_MSG_APPLY_DONE, done, sizeof(*done));
}

/*
 * The threads first, then the text: a block does what its head does, and goes on behind it, whether the head leads
 * there or not.  So whoever dies between the two, or refuses, the program goes on as ever.
 */
static int write_all(struct session *session, struct attach_stop *stop, const struct look *look,
		     struct calltap_msg_apply_done *done)
{
	int ret = attach_move(stop, look->moves, look->move_count);

	if (ret)
		return attach_is_lost(stop) ? 0 : ret;
	if (attach_pin(stop))
		ret = ask_apply(session, stop, look, done);
	attach_unpin(stop);
	return ret;
}

/* The attach has put code behind the program's own to bring the agent in: take it away, if it is there yet. */
static void restore_slack(struct session *session, struct target *target, struct attach_stop *stop)
{
	int ret = attach_slack_restore(stop, &target->attach.littered);

	if (ret < 0 && attach_is_lost(stop))
		return; /* the next try does */
	if (ret < 0)
		target_diagnose(session, target, "process %d keeps bytes behind its code that brought the agent in",
				(int)target->pid);
	if (target->attachee)
		target->attachee->code_left = false;
}

/* The threads' stacks as they are now; NULL: the trace begins without them. */
static struct attach_stacks *copy_stacks(struct attach_stop *stop)
{
	struct attach_stacks *stacks = NULL;

	if (attach_copy(stop, &stacks, NULL))
		return NULL;
	if (!attach_is_lost(stop))
		return stacks;
	attach_stacks_free(stacks); /* the threads may have run meanwhile */
	return NULL;
}

static int read_ahead(const struct target *target, struct look *look)
{
	if (look->ahead)
		return 0;
	return attach_ahead_read(&look->ahead, target->pid,
				 ATTACH_AHEAD_THREADS | ATTACH_AHEAD_SEGMENTS | ATTACH_AHEAD_CONTEXTS);
}

/* What the summary says of an attach.  attachee: NULL for a target that was not attached to. */
static void note_stop(const struct attachee *attachee, uint64_t ns, uint32_t threads, bool later)
{
	if (later || !attachee)
		return;
	attachee->told->attach_stop_ns += ns;
	attachee->told->threads = threads;
}

/*
 * Stop all threads once, and have the sites written if no thread is in the way; *done tells whether they were.  last:
 * sites with a thread inside are left out.
 */
static int try_once(struct session *session, struct target *target, struct look *look, bool last,
		    struct calltap_msg_apply_done *done)
{
	struct attach_stacks *stacks = NULL;
	struct attach_stop *stop;
	uint64_t ticks = 0;
	size_t threads = 0;
	bool late, lost, written = false;
	int ret = read_ahead(target, look);

	if (!ret)
		ret = attached_stop(session, target, &stop);
	if (ret)
		return ret;
	attach_use(stop, look->ahead);
	late = attach_ahead_is_late(stop);
	attach_threads(stop, &threads);
	done->error = -EAGAIN;
	/* Later filters are the agent's to look at: its functions stand in front of those that install them. */
	if (attach_is_sandboxed(stop)) {
		target_diagnose(
			session, target,
			"process %d has shut itself into a sandbox meanwhile (seccomp, or user dispatch of system "
			"calls), which may end it for what the agent does; %s",
			(int)target->pid,
			look->later ? "functions that were chosen since are not traced" : "it runs on untraced");
		ret = -EPERM;
	}
	if (!ret)
		ret = look_at(stop, look);
	lost = ret && attach_is_lost(stop); /* calltap was stopped, and all was let go: this was no try */
	if (lost)
		ret = 0;
	/* Rings for threads that began after the arenas were sent.  All threads are stopped: no other one begins. */
	if (!ret)
		ret = rings_prepare(target->shares[0], (uint32_t)threads);
	if (!ret && !lost && !late && !look->too_many && (is_clear(look) || last)) {
		restore_slack(session, target, stop);
		ticks = timing_now(session).ticks;
		ret = write_all(session, stop, look, done);
		written = !ret && !done->error;
		if (written && !look->later)
			stacks = copy_stacks(stop);
	}
	note_stop(target->attachee, attached_resume(session, stop), (uint32_t)threads, look->later);
	/* From now on calls are recorded, whatever is left to do before the agent is told to go on. */
	if (written && target->attachee && !look->later)
		session->traced_ns = clock_now_ns();
	if (stacks)
		attached_tell_stacks(session, target, stacks, ticks);
	if (late) {
		attach_ahead_free(look->ahead);
		look->ahead = NULL;
	}
	return ret;
}

/* The agent tells again what is mapped. */
static int ask_again(struct target *target)
{
	const struct calltap_msg rescan = {CALLTAP_MSG_RESCAN, sizeof(rescan)};
	int ret = channel_send(target->socket, &rescan, sizeof(rescan), NULL, 0);

	return ret ? ret : -EINPROGRESS;
}

static void tell_unpatched(struct session *session, const struct target *target, int error, bool too_many)
{
	if (error == -EAGAIN && !too_many && target->attachee && target->attachee->jump_count)
		target_diagnose(session, target,
				"process %d is in the first bytes of a function that calltap has to stand in front of, "
				"whenever it is stopped; it runs on untraced, try again",
				(int)target->pid);
	else if ((error == -EAGAIN && !too_many) || error == -ESTALE)
		target_diagnose(session, target,
				"process %d loads and unloads libraries all the time, and was in the middle of that "
				"whenever it was stopped; it runs on untraced, try again",
				(int)target->pid);
	else if (error == -ENXIO)
		target_diagnose(
			session, target,
			"process %d sees no /proc, through which its text is written (mount one in its root), or its "
			"mem file there can be opened neither by it nor by this calltap; it runs on untraced",
			(int)target->pid);
	else
		target_diagnose(session, target,
				"the functions of process %d could not be patched: %s; it runs on untraced",
				(int)target->pid, strerror(-error));
}

/* Between tries: what the agent has said meanwhile is answered, as a thread may wait for that in dlopen. */
static int rest(struct session *session, struct target *target, bool later)
{
	struct pollfd poll_fd = {.fd = target->socket, .events = POLLIN};
	int ret = 0;

	attached_rest(session, 0);
	while (later && !ret && poll(&poll_fd, 1, 0) > 0)
		ret = target_serve(session, target);
	return ret;
}

/* From try ATTACHED_TRIES on only a loader that is in the middle of something is a reason for another one. */
static int try_often(struct session *session, struct target *target, struct look *look,
		     struct calltap_msg_apply_done *done)
{
	int ret = 0;

	for (int i = 1; !ret && i <= LOADER_TRIES; i++) {
		if (i > 1)
			ret = rest(session, target, look->later);
		if (!ret)
			ret = try_once(session, target, look, i >= ATTACHED_TRIES, done);
		if (done->error != -EAGAIN && !(look->later && done->error == -ESTALE))
			break;
	}
	attach_ahead_free(look->ahead);
	look->ahead = NULL;
	return ret;
}

/* Have the sites of all plans that wait written; done->error tells whether they were. */
static int apply_waiting(struct session *session, struct target *target, struct look *look,
			 struct calltap_msg_apply_done *done)
{
	struct insides insides = {0};
	int ret = find_insides(target, &insides);

	*done = (struct calltap_msg_apply_done){.error = -EAGAIN};
	look->insides = &insides;
	look->target = target;
	attached_begin_stops(session, target);
	/* Each thread is to have a ring when its first call comes. */
	if (!ret)
		ret = rings_prepare(target->shares[0], rings_threads(target));
	look->mem = ret ? -1 : attached_open_memory(target);
	if (!ret && look->mem < 0)
		ret = look->mem;
	find_hooks(target, look);
	if (!ret)
		ret = try_often(session, target, look, done);
	free(insides.ranges);
	look->insides = NULL;
	free(look->moves);
	if (look->mem >= 0)
		close(look->mem);
	return ret;
}

static void note_applied(struct session *session, struct target *target, const struct look *look,
			 const struct calltap_msg_apply_done *done)
{
	for (uint32_t i = 0; i < target->map_count; i++)
		target->maps[i].waits = false;
	session->dlopen_missed |= (done->flags & CALLTAP_OBJECTS_NO_DLHOOK) != 0;
	session->result->skipped += look->skip_count;
	session->result->patched += done->patched;
	session->result->failed += done->failed - (look->skip_count < done->failed ? look->skip_count : done->failed);
	if (done->failed && done->first_failed_id != UINT32_MAX)
		plan_note_failed(session, done->first_failed_id);
	session->patch_ticks += done->elapsed_ticks;
}

int attached_apply(struct session *session, struct target *target)
{
	struct calltap_msg_apply_done done;
	struct look look = {0};
	int ret;

	if (target->report.moved && target->report.stale++ < STALE_MAX)
		return ask_again(target);
	ret = apply_waiting(session, target, &look, &done);
	if (!ret && done.error == -ESTALE && target->report.stale++ < STALE_MAX)
		return ask_again(target);
	if (ret || done.error) {
		tell_unpatched(session, target, ret ? ret : done.error, look.too_many);
		return ret ? ret : done.error;
	}
	target->attach.applied = true;
	pthread_cond_broadcast(&session->answered); /* live_turn_begin() */
	target->attachee->told->attached = true;
	session->result->attached_count++;
	note_applied(session, target, &look, &done);
	return 0;
}

/* The sites may have been switched while they waited. */
static int catch_up(struct target *target)
{
	int ret = 0;

	for (uint32_t i = 0; i < target->map_count && !ret; i++)
		if (target->maps[i].later)
			ret = live_catch_up(target, &target->maps[i]);
	return ret;
}

int attached_apply_later(struct session *session, struct target *target)
{
	struct look look = {.later = true};
	struct calltap_msg_apply_done done;
	int ret = apply_waiting(session, target, &look, &done);

	if (!ret && !done.error) {
		note_applied(session, target, &look, &done);
		return catch_up(target);
	}
	session->steering.unpatched |= ret != -ESRCH;	 /* else it has ended, or runs another program */
	return ret == -EPERM || ret == -ESRCH ? 0 : ret; /* not stopped: the conversation goes on */
}
