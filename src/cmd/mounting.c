/*
 * A recording and its tree of files; see mounting.h.
 *
 * The recording runs in a thread of its own (watching.h) and writes to memory; the main thread serves the files
 * (host/tracefs).  Of a process that is traced already the tree is a further instance in that session.  Context: host.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <tracers/tracer.h>

#include "instance.h"
#include "mounting.h"

#define BEGIN_MS 20

int mounting_init(struct mounting *mounting, char **argv)
{
	struct record_options *options = &mounting->watching.recording.settings.options;
	int ret;

	memset(mounting, 0, sizeof(*mounting));
	ret = watching_init(&mounting->watching, argv);
	options->mode = CALLTAP_MODE_DROP;
	options->tracer = tracer_find("nop");
	mounting->options.size = sizeof(mounting->options);
	mounting->options.done = mounting->options.memory = -1;
	mounting->options.device = mounting->options.owner = -1;
	return ret;
}

static void take_signals(void)
{
	signal(SIGPIPE, SIG_IGN);
	watching_take_signals();
}

/* The session has ended, and its signal handlers with it. */
static void on_end(void *ctx)
{
	const struct mounting *mounting = ctx;

	take_signals();
	if (record_was_signalled(!mounting->watching.pids)) /* nobody has taken it yet, or it was for the recording */
		(void)eventfd_write(mounting->watching.stop, 1);
	if (mounting->options.owner >= 0 && !mounting->watching.recording.quiet && isatty(STDERR_FILENO))
		fprintf(stderr,
			"calltap: the recording of %s has ended; the files show it as long as this shell lasts\n",
			mounting->watching.what);
}

/* Begin the recording, and wait until a process is traced, or none will be. */
static int start_recording(struct mounting *mounting)
{
	struct pollfd done = {.events = POLLIN};
	int ret = watching_start(&mounting->watching);

	if (ret)
		return ret;
	done.fd = mounting->options.done = mounting->watching.done;
	while (!record_live_traces(mounting->watching.live) && poll(&done, 1, BEGIN_MS) <= 0)
		;
	return 0;
}

static int make_memory(struct mounting *mounting)
{
	struct record_options *options = &mounting->watching.recording.settings.options;

	mounting->watching.memory = mounting->options.memory = memfd_create("calltap-mount", MFD_CLOEXEC);
	if (mounting->options.memory < 0) {
		fprintf(stderr, "calltap: cannot make memory for the records: %s\n", strerror(errno));
		return EXIT_USAGE;
	}
	/* The recording opens this process' own descriptor by itself: so the path must lead to it in any thread. */
	snprintf(mounting->path, sizeof(mounting->path), "/proc/self/fd/%d", mounting->options.memory);
	options->output = mounting->path;
	options->follow = true;
	options->progress = false;
	return 0;
}

static int serve_tree(struct mounting *mounting, pid_t pid)
{
	struct calltap_diag diag = {.column = -1};
	int ret = tracefs_serve(mounting->tracefs, pid, &diag);

	if (ret)
		calltap_diag_print(&diag, stderr);
	else if (tracefs_left_readers(mounting->tracefs))
		fprintf(stderr,
			"calltap: some readers had not got all records 5 s behind the recording's end, and the files "
			"are gone; write 0 to tracing_on and let them read before you end it\n");
	return ret ? EXIT_USAGE : 0;
}

/* The tree was served; ret: how that went. */
static int end_recording(struct mounting *mounting, int ret)
{
	struct watching *watching = &mounting->watching;
	int status;

	if (!watching_ended(watching) && watching->pids)
		watching_stop(watching);
	tracefs_unmount(mounting->tracefs);
	if (mounting->options.owner >= 0 &&
	    !watching->pids) /* the program was started for the owner, and ends with it */
		watching_end(watching);
	status = watching_finish(watching);
	return ret ? ret : status;
}

/* The tree and the session are this process'. */
static int run_own(struct mounting *mounting)
{
	struct watching *watching = &mounting->watching;
	int ret = 0;

	if (start_recording(mounting)) {
		tracefs_unmount(mounting->tracefs);
		return EXIT_USAGE;
	}
	if (record_live_traces(watching->live) || watching->result.ran)
		ret = serve_tree(mounting, record_live_pid(watching->live));
	return end_recording(mounting, ret);
}

/* Is the process traced already? */
static bool is_traced(const struct mounting *mounting)
{
	int socket;

	if (!mounting->watching.pids || instance_find(mounting->watching.pids[0], &socket))
		return false;
	close(socket);
	return true;
}

/* The tree gets a process. */
static int on_attach(void *ctx, pid_t pid, struct calltap_diag *diag)
{
	struct mounting *mounting = ctx;
	struct watching *watching = &mounting->watching;
	int ret = watching_take_pid(watching, pid);

	if (ret)
		return calltap_diag_set(diag, ret, "not enough memory");
	mounting->joins = is_traced(mounting);
	if (mounting->joins)
		return 0;
	if ((watching->memory < 0 && make_memory(mounting)) || start_recording(mounting))
		return calltap_diag_set(diag, -EIO, "the recording cannot be started");
	mounting->options.memory = watching->memory;
	if (record_live_traces(watching->live) || watching->result.ran)
		return 0;
	mounting->options.done = mounting->options.memory = -1; /* the next process may be one that is traced already */
	return watching_fail(watching, diag);
}

static int run_empty(struct mounting *mounting)
{
	int ret = serve_tree(mounting, 0);

	if (mounting->watching.runs)
		return end_recording(mounting, ret);
	tracefs_unmount(mounting->tracefs);
	return ret;
}

int mounting_run(struct mounting *mounting)
{
	struct calltap_diag diag = {.column = -1};
	int ret;

	mounting->options.ended = on_end;
	mounting->options.ctx = mounting;
	mounting->options.attach = mounting->waits ? on_attach : NULL;
	if (watching_make_stop(&mounting->watching))
		return EXIT_USAGE;
	mounting->options.stop = mounting->watching.stop;
	if (mounting->joins || mounting->waits)
		take_signals();
	else if (make_memory(
			 mounting)) /* signals are the session's matter; a program that it starts has them unchanged */
		return EXIT_USAGE;
	ret = tracefs_mount(&mounting->tracefs, &mounting->options, &diag);
	if (ret) {
		calltap_diag_print(&diag, stderr);
		return EXIT_USAGE;
	}
	if (mounting->waits)
		return run_empty(mounting);
	if (!mounting->joins)
		return run_own(mounting);
	ret = serve_tree(mounting, mounting->watching.pids[0]);
	tracefs_unmount(mounting->tracefs);
	return ret;
}

int mounting_check(struct mounting *mounting)
{
	const struct record_options *options = &mounting->watching.recording.settings.options;

	if (mounting->watching.pid_count > 1) {
		fprintf(stderr, "calltap: a tree is of one process and its children; mount another one elsewhere\n");
		return EXIT_USAGE;
	}
	if (options->mode > CALLTAP_MODE_DROP || options->tracer->counts) {
		fprintf(stderr, "calltap: a tree shows records as they come: it takes the tracers nop, function and "
				"function_graph\n");
		return EXIT_USAGE;
	}
	mounting->joins = is_traced(mounting);
	return 0;
}
