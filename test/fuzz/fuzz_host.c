/*
 * The recorder's input from targets: every message in any order, and rings with anything in them.  The trace file of
 * such a recording must be a good one.
 *
 * An input is a list of steps, each a byte and its arguments (enum step).  The target is this process, which has a
 * library with sites mapped; an object with its dynamic section at DYNAMIC_HERE stands for that library.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <host/trace/trace.h>

#include "fuzz.h"
#include "support.h"

#define PROCESSES_MAX 4
#define STEPS_MAX     200
#define DYNAMIC_HERE  1

#define EMULATED 0x80 /* in an input's first byte, whose rest is the mode */

enum step {
	STEP_PACKET,   /* u16 size, bytes: the target says */
	STEP_SCRIBBLE, /* u8 arena, u16 words from its start, u16 size, bytes: it writes to its rings */
	STEP_DRAIN,    /* the drainer's round */
	STEP_END,      /* the target has gone */
	STEP_CONNECT,  /* another target has come, and acts from here on */
	STEP_SWITCH,   /* u8: which one acts from here on */
	STEPS
};

struct fuzz {
	struct bench *bench;
	struct input input;
	struct target *processes[PROCESSES_MAX]; /* the session may give one to a later target */
	int targets[PROCESSES_MAX];		 /* the processes' ends of the sockets */
	unsigned count, now;
};

/* The library with sites, mapped once. */
static uint64_t library_base(void)
{
	static void *at;
	struct stat st;
	int fd = at ? -1 : open(FUZZ_LIBRARY, O_RDONLY | O_CLOEXEC);

	if (at)
		return (uint64_t)at;
	if (fd < 0 || fstat(fd, &st))
		abort();
	at = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	close(fd);
	if (at == MAP_FAILED)
		abort();
	return (uint64_t)at;
}

static void drain(struct session *session)
{
	session->drainer.stop = true; /* the drainer ends after one round */
	if (drain_start(session))
		abort();
	drain_stop(session);
}

/* As the server does it. */
static void end_target(struct target *process)
{
	if (process->ended)
		return;
	close(process->socket);
	process->socket = -1;
	process->ended = true;
}

static void connect_target(struct fuzz *fuzz)
{
	struct session *session = &fuzz->bench->session;
	int pair[2];

	if (fuzz->count == PROCESSES_MAX)
		return;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) ||
	    target_create(&fuzz->processes[fuzz->count], session, pair[0]))
		abort();
	fuzz->targets[fuzz->count] = pair[1];
	fuzz->now = fuzz->count++;
}

static void say(struct fuzz *fuzz)
{
	struct target *process = fuzz->processes[fuzz->now];
	union {
		struct calltap_msg_object object;
		uint8_t bytes[CALLTAP_MSG_MAX + 64];
	} message;
	size_t size;
	const uint8_t *bytes = input_bytes(&fuzz->input, input_u16(&fuzz->input), &size);

	if (process->ended || size > sizeof(message))
		return;
	memcpy(message.bytes, bytes, size);
	if (size >= sizeof(message.object) && message.object.head.type == CALLTAP_MSG_OBJECT &&
	    message.object.dynamic == DYNAMIC_HERE) {
		message.object.base = library_base();
		message.object.dynamic = library_base() + 1;
	}
	if (send(fuzz->targets[fuzz->now], message.bytes, size, MSG_NOSIGNAL) < 0)
		return;
	if (target_serve(&fuzz->bench->session, process))
		end_target(process);
	while (recv(fuzz->targets[fuzz->now], message.bytes, sizeof(message), MSG_DONTWAIT) > 0)
		; /* descriptors that come along are closed by the kernel */
}

static void scribble(struct fuzz *fuzz)
{
	struct target *process = fuzz->processes[fuzz->now];
	uint8_t index = input_byte(&fuzz->input);
	uint64_t at = input_u16(&fuzz->input) * 8ull;
	size_t size;
	const uint8_t *bytes = input_bytes(&fuzz->input, input_u16(&fuzz->input), &size);
	const struct share *share = process->shares[0];
	const struct target_arena *arena;

	if (!target_head(process))
		return;
	arena = &share->arenas[index % share->arena_count];
	at %= arena->size;
	memcpy((char *)arena->arena + at, bytes, size < arena->size - at ? size : arena->size - at);
}

static void take_step(struct fuzz *fuzz)
{
	switch (input_byte(&fuzz->input) % STEPS) {
	case STEP_PACKET:
		say(fuzz);
		break;
	case STEP_SCRIBBLE:
		scribble(fuzz);
		break;
	case STEP_DRAIN:
		drain(&fuzz->bench->session);
		break;
	case STEP_END:
		end_target(fuzz->processes[fuzz->now]);
		break;
	case STEP_CONNECT:
		connect_target(fuzz);
		break;
	default:
		fuzz->now = input_byte(&fuzz->input) % fuzz->count;
	}
}

/* Whatever the targets did, it is a whole trace. */
static void check_file(struct bench *bench)
{
	struct trace_select all = {.size = sizeof(all), .thread = TRACE_NONE};
	struct calltap_diag diag = {0};
	struct trace_cursor *cursor;
	struct trace_event event;
	struct trace *trace;
	uint64_t records = 0, last = 0; /* of a thread's loss and its wait at its end there is no record */
	int ret;

	if (describe_end(&bench->instance) || trace_writer_flush(bench->instance.writer))
		abort();
	ret = trace_open(&trace, bench->path, &diag);
	fuzz_expect(!ret && !trace_damage(trace), "the trace is whole");
	ret = trace_cursor_open(&cursor, trace, &all, &diag);
	while (!ret && (ret = trace_cursor_next(cursor, &event, &diag)) > 0)
		ret = 0, records++;
	for (uint32_t i = 0; !ret && i < trace_thread_count(trace); i++)
		last += 2 * (trace_thread(trace, i)->lost || trace_thread(trace, i)->wait_ticks);
	fuzz_expect(!ret && records >= bench->result.records && records <= bench->result.records + last,
		    "each record can be read");
	trace_cursor_close(cursor);
	trace_close(trace);
}

/* A session under an emulator: targets tell of their clock and programs, and the threshold waits for that. */
static void emulate(struct bench *bench)
{
	bench->session.emulated = true;
	bench->session.emulator.path = strdup("/usr/bin/qemu");
	bench->session.program = strdup("/usr/bin/program");
	bench->options.threshold_ns = 1000;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz fuzz = {.input = {data, size}};
	uint8_t how = input_byte(&fuzz.input);
	struct session *session;

	fuzz.bench = bench_create((how & ~EMULATED) % 3);
	if (how & EMULATED)
		emulate(fuzz.bench);
	session = &fuzz.bench->session;
	session->targets = NULL;
	connect_target(&fuzz);
	for (int i = 0; i < STEPS_MAX && fuzz.input.left; i++)
		take_step(&fuzz);
	for (unsigned i = 0; i < fuzz.count; i++) {
		fuzz_taken |= fuzz.processes[i]->welcome;
		end_target(fuzz.processes[i]);
	}
	drain(session);
	for (unsigned i = 0; i < fuzz.count; i++)
		fuzz_expect(target_is_drained(fuzz.processes[i]), "a target that has gone is drained");
	check_file(fuzz.bench);
	for (unsigned i = 0; i < fuzz.count; i++)
		close(fuzz.targets[i]);
	while (session->targets) {
		struct target *process = session->targets;

		session->targets = process->next;
		target_destroy(process);
	}
	bench_destroy(fuzz.bench);
	return 0;
}
