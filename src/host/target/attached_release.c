/*
 * Leaving a process that was attached to: its text is restored, and now all
 * that the agent has goes: stub regions, buffers, the mirrors of return
 * addresses.  So no thread may be in a stub or a recorder, nor come back to one
 * from a signal's handler, and no frame may return to a stub any more.  Called
 * by the server thread with the session's lock held.  doc/design/control.md has
 * the argument.  Context: host.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <host/proc.h>

#include "attached.h"

#define UNWINDING 4096 /* so near above an unwinder's return address or stack pointer its frame's words may lie */

#define ENDING_MS   500 /* a process that ends closes its sockets so long before that, at most */
#define TRYING_NS   5000000000u
#define TRIES_MIN   5		 /* made beyond that, where other work keeps threads from their CPUs, */
#define LONGEST_NS  20000000000u /* up to this; the agent waits for longer (AGENT_RELEASE_MS) */
#define REST_FACTOR 4		 /* the program runs for so many times as long as it was stopped, before another try, */
#define REST_SHARE  32		 /* for such a part of the time since the first, and for as long as all its threads */
#define REST_MAX_NS 1000000000u	 /* took to stop, which is when each has had a turn, but no longer than this */

/* Reasons for which a release has to wait, the worst one last. */
enum obstacle {
	OBSTACLE_NONE,
	OBSTACLE_STOPPED,   /* the tool itself was, and all threads ran on */
	OBSTACLE_ASLEEP,    /* a thread sleeps in the kernel: nobody knows its registers */
	OBSTACLE_AT_WORK,   /* a thread is in a stub or in the agent */
	OBSTACLE_UNWINDING, /* an unwinder holds what it knows of a stub */
	OBSTACLE_LEFT,	    /* a stack that no thread runs on waits in a recorder */
	OBSTACLE_HANDLER,   /* a signal's handler has interrupted a recorder */
	OBSTACLE_OWN,	    /* a handler of the program's own runs, by libcalltap */
	OBSTACLE_FRAMES,    /* the agent could not let go of open calls */
	OBSTACLE_SITES,	    /* sites lead to stubs: the agent could not restore them, or a breakpoint covers one */
};

struct look {
	struct attached_places places;
	uint64_t *slots; /* words that hold an address in a stub */
	size_t count, room;
	struct attach_frames *frames; /* NULL until a signal's frame was in the way, which may be over */
	enum obstacle obstacle;
	pid_t tid; /* whose it is */
	const struct target *target;
	int mem;	    /* the process' memory */
	bool heads_are_own; /* heads have their own bytes again */
	/* In this stop: */
	struct attach_stop *stop;
	const struct attach_thread *threads;
	size_t thread_count;
	struct seen *seen;	   /* of each thread */
	struct attach_move *moves; /* threads within blocks, in the threads' order, and where they go on */
	size_t move_count;
	uint64_t stopping_ns, stopped_ns; /* until all threads had stopped, and how long they were */
	uint64_t all_stopped_ns;	  /* over all stops */
	uint64_t until_ns;		  /* no other try after that; 0 = as many as are due */
};

/* Words that the scan has met on a thread's stacks, which it goes through from the lowest address up. */
struct seen {
	uint64_t unwinder; /* the last address in an unwinder was met here */
	uint64_t stub;	   /* and the last in a stub */
	bool near;	   /* the one near the other */
};

static int note_slot(struct look *look, uint64_t address)
{
	if (look->count == look->room) {
		size_t room = look->room ? look->room * 2 : 1024;
		uint64_t *slots = reallocarray(look->slots, room, sizeof(*slots));

		if (!slots)
			return -ENOMEM;
		look->slots = slots;
		look->room = room;
	}
	look->slots[look->count++] = address;
	return 0;
}

static void note_obstacle(struct look *look, enum obstacle obstacle, const struct attach_thread *thread)
{
	if (obstacle <= look->obstacle)
		return;
	look->obstacle = obstacle;
	look->tid = thread ? thread->tid : 0;
}

/* True if the thread was in a block, and goes on in its function's own text. */
static bool is_moved(const struct look *look, const struct attach_thread *thread)
{
	for (size_t i = 0; i < look->move_count; i++)
		if (look->moves[i].thread == thread)
			return true;
	return false;
}

/* Copies of such addresses in dead memory are told, too: the agent knows which words are frames' slots. */
static int visit_hit(void *context, const struct attach_hit *hit)
{
	struct look *look = context;
	struct seen *seen = &look->seen[hit->thread - look->threads];

	switch (look->places.kinds[hit->range]) {
	case ATTACHED_IN_STUBS:
		/* A system call leaves the pc in another register, too. */
		if (!hit->address && hit->value == hit->thread->pc && is_moved(look, hit->thread))
			return 0;
		if (!hit->address) {
			note_obstacle(look, OBSTACLE_AT_WORK, hit->thread);
			return 0;
		}
		seen->near |= hit->address - seen->unwinder < UNWINDING;
		seen->stub = hit->address;
		return note_slot(look, hit->address);
	case ATTACHED_IN_AGENT:
		break;
	case ATTACHED_IN_UNWINDER:
	case ATTACHED_NEAR_UNWINDER:
		seen->unwinder = hit->address ? hit->address : hit->thread->sp;
		seen->near |= seen->unwinder - seen->stub < UNWINDING;
		break;
	}
	return 0;
}

static bool is_ours(enum attached_place kind)
{
	return kind == ATTACHED_IN_STUBS || kind == ATTACHED_IN_AGENT;
}

/* A context that goes on in a stub or a recorder. */
static void look_at_context(struct look *look, const struct attach_context *context)
{
	if (context->over ||
	    (!context->in_leaf && context->thread && !context->address && is_moved(look, context->thread)))
		return;
	if (!context->thread)
		note_obstacle(look, OBSTACLE_LEFT, NULL);
	else if (!context->address)
		note_obstacle(look, OBSTACLE_AT_WORK, context->thread);
	else
		note_obstacle(look, OBSTACLE_HANDLER, context->thread);
}

/* A context that goes on in a stub, a recorder, or a leaf's body, which returns to a stub. */
static bool is_in_recorder(void *context, const struct attach_context *it)
{
	const struct look *look = context;
	enum attached_place kind;

	return it->in_leaf || (attached_place_of(&look->places, it->pc, &kind) && is_ours(kind));
}

static int look_at_contexts(struct look *look)
{
	size_t count;
	const struct attach_context *contexts = attach_contexts(look->stop, &count);
	enum attached_place kind;
	int ret = attach_mark_leaves(look->stop);

	if (ret)
		return ret;
	if (look->frames)
		attach_settle(look->stop, look->frames, is_in_recorder, look);
	for (size_t i = 0; i < count; i++) {
		if (is_in_recorder(look, &contexts[i]))
			look_at_context(look, &contexts[i]);
		else if (!contexts[i].thread && attached_place_of(&look->places, contexts[i].pc, &kind))
			note_obstacle(look, OBSTACLE_LEFT, NULL);
	}
	return 0;
}

struct unwinding {
	const struct look *look;
	bool found;
};

/*
 * Is the code at pc an unwinder's (libgcc's, LLVM's, libunwind's)?  Its frames hold what it knows of the frames that it
 * unwinds.
 */
static bool is_unwinder(const struct look *look, uint64_t pc)
{
	static const char *const starts[] = {"_Unwind_", "uw_", "unw_", "_Ux86_64_", "_ULx86_64_", "unwind_phase"};
	enum attached_place kind;
	const char *name;

	if (!attached_place_of(&look->places, pc, &kind) || is_ours(kind))
		return false;
	name = kind == ATTACHED_NEAR_UNWINDER ? attach_frame_symbol(look->frames, pc) : NULL;
	for (size_t i = 0; name && i < sizeof(starts) / sizeof(starts[0]); i++)
		if (!strncmp(name, starts[i], strlen(starts[i])))
			return true;
	return !name;
}

/* A frame of an unwinder that holds an address in a stub is about to read there. */
static bool look_at_frame(void *context, const struct attach_frame *frame)
{
	struct unwinding *unwinding = context;
	const struct look *look = unwinding->look;

	if (!is_unwinder(look, frame->exact ? frame->pc : frame->pc - 1))
		return true;
	for (size_t i = 0; i < look->count; i++)
		unwinding->found |= look->slots[i] >= frame->lo && look->slots[i] < frame->hi;
	return !unwinding->found;
}

/* In the first stop the words alone are looked at, which may have been left from frames that are over. */
static void look_for_unwinders(struct look *look)
{
	for (size_t i = 0; i < look->thread_count; i++) {
		struct unwinding unwinding = {.look = look};

		if (!look->seen[i].near && !look->threads[i].deep)
			continue;
		if (!look->frames ||
		    !attach_climb(look->stop, look->frames, &look->threads[i], look_at_frame, &unwinding) ||
		    unwinding.found)
			note_obstacle(look, OBSTACLE_UNWINDING, &look->threads[i]);
	}
}

/* Each thread's block is made new, so each must be known. */
static void look_for_sleepers(struct look *look)
{
	for (size_t i = 0; i < look->thread_count; i++)
		if (!look->threads[i].thread_pointer)
			note_obstacle(look, OBSTACLE_ASLEEP, &look->threads[i]);
}

/* Have the agent give heads their own bytes back.  Whoever is in a block stays there, and leaves by itself. */
static int restore_heads(struct session *session, struct target *target, struct attach_stop *stop, struct look *look)
{
	const struct calltap_msg ask = {CALLTAP_MSG_HEADS, sizeof(ask)};
	struct calltap_msg_heads_done done;
	int memory = -1, ret;

	if (look->heads_are_own)
		return 0;
	/* What an earlier session has left is cleared before SETUP, with which the file comes else. */
	if (target->hello.flags & CALLTAP_HELLO_NO_MEMORY)
		memory = target_open_in_proc(target, "mem", O_RDWR);
	ret = channel_send(target->socket, &ask, sizeof(ask), &memory, memory < 0 ? 0 : 1);
	if (memory >= 0)
		close(memory);
	if (!ret)
		ret = attached_await(session, target, stop, CALLTAP_MSG_HEADS_DONE, &done, sizeof(done));
	look->heads_are_own = !ret && !done.left;
	return ret;
}

/*
 * Move threads out of blocks, into heads that have their own bytes again.  A thread that sleeps in a moved system call
 * would be in the way for as long as the call lasts.
 */
static int leave_blocks(struct attach_stop *stop, struct look *look)
{
	size_t count;
	const struct attach_thread *threads = attach_threads(stop, &count);

	free(look->moves);
	look->move_count = 0;
	look->moves = calloc(count + 1, sizeof(*look->moves));
	if (!look->moves)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++) {
		struct attach_move *move = &look->moves[look->move_count];

		move->thread = &threads[i];
		look->move_count += attached_out_of_block(look->target, look->mem, &threads[i], &move->pc);
	}
	return attach_move(stop, look->moves, look->move_count);
}

static int clear_text(struct session *session, struct target *target, struct attach_stop *stop, struct look *look)
{
	int ret = attach_pin(stop) ? restore_heads(session, target, stop, look) : -EAGAIN;

	attach_unpin(stop);
	/* A thread may stay in a block whose head has its own bytes again. */
	return ret ? ret : leave_blocks(stop, look);
}

/* 0, or -EAGAIN when something is in the way. */
static int look_at(struct attach_stop *stop, struct look *look)
{
	int ret;

	look->stop = stop;
	look->threads = attach_threads(stop, &look->thread_count);
	look->count = 0;
	if (attach_ahead_is_late(stop))
		note_obstacle(look, OBSTACLE_LEFT, NULL);
	look_for_sleepers(look);
	if (look->obstacle)
		return -EAGAIN;
	look->seen = calloc(look->thread_count + 1, sizeof(*look->seen));
	if (!look->seen)
		return -ENOMEM;
	ret = attach_scan(stop, look->places.ranges, look->places.count, visit_hit, look);
	if (!ret)
		ret = look_at_contexts(look);
	if (!ret)
		look_for_unwinders(look);
	free(look->seen);
	return ret || !look->obstacle ? ret : -EAGAIN;
}

/* All slots, then all thread pointers, in messages of bounded size. */
static int send_release(const struct target *target, const struct look *look)
{
	union {
		struct calltap_msg_release message;
		uint8_t bytes[sizeof(struct calltap_msg_release) + CALLTAP_RELEASE_MAX * sizeof(uint64_t)];
	} out;
	size_t slot = 0, thread = 0, size;
	int ret;

	do {
		uint32_t n = 0, slots;

		while (slot < look->count && n < CALLTAP_RELEASE_MAX)
			out.message.words[n++] = look->slots[slot++];
		slots = n;
		while (thread < look->thread_count && n < CALLTAP_RELEASE_MAX)
			out.message.words[n++] = look->threads[thread++].thread_pointer;
		size = sizeof(out.message) + n * sizeof(out.message.words[0]);
		out.message = (struct calltap_msg_release){
			.head = {CALLTAP_MSG_RELEASE, (uint32_t)size},
			.flags = slot < look->count || thread < look->thread_count ? CALLTAP_RELEASE_MORE : 0,
			.slot_count = slots,
			.thread_count = n - slots,
		};
		ret = channel_send(target->socket, &out, size, NULL, 0);
	} while (!ret && (slot < look->count || thread < look->thread_count));
	return ret;
}

/* Ask the agent for addresses in the unwinders that have asked it for tables. */
static int ask_unwinders(struct session *session, struct target *target, struct look *look)
{
	const struct calltap_msg ask = {CALLTAP_MSG_UNWINDERS, sizeof(ask)};
	struct calltap_msg_unwinders_told told;
	int ret = attached_ask(session, target, &ask, sizeof(ask), CALLTAP_MSG_UNWINDERS_TOLD, &told, sizeof(told));

	if (ret)
		return ret;
	return told.more ? -E2BIG : attached_add_unwinders(&look->places, target, &told);
}

/* Why the agent has refused a RELEASE. */
static enum obstacle obstacle_of(int error)
{
	switch (error) {
	case -EAGAIN:
		return OBSTACLE_OWN;
	case -ETXTBSY:
		return OBSTACLE_SITES;
	default:
		return OBSTACLE_FRAMES;
	}
}

/* Stop all threads once, and let go if nothing is in the way; else -EAGAIN. */
static int try_once(struct session *session, struct target *target, struct look *look)
{
	struct calltap_msg_released released = {0};
	struct attach_ahead *ahead;
	struct attach_stop *stop;
	bool asked = false;
	int ret = attach_ahead_read(&ahead, target->pid, ATTACH_AHEAD_CONTEXTS);
	uint64_t began = clock_now_ns();

	if (!ret)
		ret = attached_stop(session, target, &stop);
	look->stopping_ns = clock_now_ns() - began;
	if (ret) {
		attach_ahead_free(ahead);
		return ret;
	}
	attach_use(stop, ahead);
	if (look->frames)
		attach_look_deeper(stop);
	look->obstacle = OBSTACLE_NONE;
	ret = clear_text(session, target, stop, look);
	if (!ret)
		ret = ask_unwinders(session, target, look);
	if (!ret)
		ret = look_at(stop, look);
	if (!ret && !attach_pin(stop))
		ret = -EAGAIN;
	if (!ret) {
		ret = send_release(target, look);
		asked = true;
	}
	if (!ret)
		ret = attached_await(session, target, stop, CALLTAP_MSG_RELEASED, &released, sizeof(released));
	attach_unpin(stop);
	if (ret && !asked && attach_is_lost(stop)) { /* calltap was stopped: this was no try */
		note_obstacle(look, OBSTACLE_STOPPED, NULL);
		ret = -EAGAIN;
	}
	if (!ret && released.error) {
		ret = released.error;
		note_obstacle(look, obstacle_of(ret), NULL);
	}
	/* Places of the injection that a thread, or a word on some stack, kept in use at the attach. */
	if (!ret && target->attach.littered && attach_slack_restore(stop, &target->attach.littered) < 0)
		target->attach.littered = true;
	look->stopped_ns = attached_resume(session, stop);
	look->all_stopped_ns += look->stopped_ns;
	attach_ahead_free(ahead);
	if (ret == -EAGAIN && !look->frames && look->obstacle >= OBSTACLE_UNWINDING &&
	    look->obstacle <= OBSTACLE_HANDLER && attach_frames_open(&look->frames, target->pid))
		look->frames = NULL; /* then it counts as living */
	return ret;
}

static uint64_t rest_of(const struct look *look, uint64_t since_ns)
{
	uint64_t rest = look->stopping_ns < REST_MAX_NS ? look->stopping_ns : REST_MAX_NS;
	uint64_t share = (clock_now_ns() - since_ns) / REST_SHARE;

	if (rest < REST_FACTOR * look->stopped_ns)
		rest = REST_FACTOR * look->stopped_ns;
	return rest > share ? rest : share;
}

static bool tries_again(const struct look *look, unsigned tries, uint64_t since_ns)
{
	uint64_t now = clock_now_ns();

	return now - since_ns < (tries < TRIES_MIN ? LONGEST_NS : TRYING_NS) &&
	       (!look->until_ns || now < look->until_ns);
}

static int let_go(struct session *session, struct target *target, struct look *look)
{
	uint64_t since;
	int ret = attached_find_places(&look->places, target);

	look->target = target;
	look->mem = attached_open_memory(target);
	if (!ret && look->mem < 0)
		ret = look->mem;
	attached_begin_stops(session, target);
	if (!ret)
		ret = try_once(session, target, look);
	since = clock_now_ns(); /* the first stop's tries are not the time that a context is given to go away */
	for (unsigned tries = 1; ret == -EAGAIN && tries_again(look, tries, since); tries++) {
		attached_rest(session, rest_of(look, since));
		ret = try_once(session, target, look);
	}
	/* A word of some stack that led there is another one soon. */
	if (!ret && target->attach.littered)
		session->result->cut_short += attach_slack_clean(target->pid);
	attach_frames_close(look->frames);
	free(look->slots);
	free(look->moves);
	if (look->mem >= 0)
		close(look->mem);
	attached_places_free(&look->places);
	return ret;
}

/* Tell the user what is in the way. */
static void describe_obstacle(const struct look *look, int error, char *text, size_t size)
{
	static const char *const texts[] = {
		[OBSTACLE_NONE] = "",
		[OBSTACLE_STOPPED] = "calltap itself was stopped while it held the threads",
		[OBSTACLE_ASLEEP] = "thread %d sleeps in the kernel, as a parent does after vfork()",
		[OBSTACLE_AT_WORK] = "thread %d was at a traced function's entry or exit",
		[OBSTACLE_UNWINDING] = "thread %d unwinds its stack",
		[OBSTACLE_LEFT] =
			"a stack that no thread runs on (a coroutine's?) may hold a traced call that was interrupted",
		[OBSTACLE_HANDLER] = "thread %d is in a signal handler that has interrupted a traced call",
		[OBSTACLE_OWN] = "a handler of its own was running (libcalltap)",
		[OBSTACLE_FRAMES] = "open calls could not be given their return addresses back",
		[OBSTACLE_SITES] = "not all functions could be given their own bytes back (a debugger's breakpoint?)",
	};

	if (error == -EAGAIN || look->obstacle >= OBSTACLE_FRAMES)
		snprintf(text, size, texts[look->obstacle],
			 (int)look->tid); // NOLINT(clang-diagnostic-format-nonliteral)
	else if (error == -EPIPE || error == -ECONNRESET)
		snprintf(text, size, "its agent has waited for too long for all threads to stop");
	else
		snprintf(text, size, "%s", strerror(-error));
}

int attached_let_go(struct session *session, struct target *target)
{
	struct look look = {0};
	char why[160];
	int ret = let_go(session, target, &look);

	target->attachee->told->detach_stop_ns = look.all_stopped_ns;
	if (!ret)
		return 0;
	describe_obstacle(&look, ret, why, sizeof(why));
	target_diagnose(session, target,
			"process %d still has what an earlier session left in it, and that cannot be taken away now: "
			"%s; it runs on untraced, try again later",
			(int)target->pid, why);
	return ret;
}

/* An agent that was kept waiting for too long is gone, too. */
static bool is_gone(const struct target *target, int error)
{
	bool closed = error == -EPIPE || error == -ECONNRESET || error == -ESRCH;

	return error && (!proc_alive(target->pid) || (closed && proc_ends_within(target->pid, ENDING_MS)));
}

static void release_attachee(struct session *session, struct target *target)
{
	struct look look = {0};
	char why[160];
	int ret = let_go(session, target, &look);

	target->attachee->told->detach_stop_ns = look.all_stopped_ns;
	if (is_gone(target, ret))
		return;
	if (ret) {
		describe_obstacle(&look, ret, why, sizeof(why));
		target_diagnose(
			session, target,
			"the agent stays in process %d, idle, with its memory: %s%s; the next attach tries again",
			(int)target->pid, look.obstacle == OBSTACLE_SITES ? "" : "nothing is traced any more, but ",
			why);
	}
	target->attach.released = !ret;
	target->attachee->told->let_go = true;
	target->attachee->told->agent_stays = ret != 0;
	verify_text(session, target);
}

/*
 * There may be hundreds of children, and in each of them something in the way: together they get no more time for
 * further tries than one process that was attached to.
 */
static void release_child(struct session *session, struct target *target)
{
	struct record_result *result = session->result;
	struct look look = {0};
	int ret;

	if (!session->ending.children_until_ns)
		session->ending.children_until_ns = clock_now_ns() + TRYING_NS;
	look.until_ns = session->ending.children_until_ns;
	ret = let_go(session, target, &look);
	if (is_gone(target, ret))
		ret = 0;
	else if (!ret)
		result->freed++;
	else if (look.heads_are_own && !result->idle_in++)
		result->idle_pid = target->pid;
	target->attach.heads_are_own = !ret || look.heads_are_own;
	target->attach.released = !ret;
}

void attached_release(struct session *session, struct target *target)
{
	if (target->attachee)
		release_attachee(session, target);
	else
		release_child(session, target);
}
