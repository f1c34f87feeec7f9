/*
 * A recording session from start to end: sockets, the command, the file.
 * Called by record_run().  Context: host, the server thread.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "session.h"

#define SUB_MAX	     (64u << 10)
#define SUB_MIN	     4096u
#define SUBS_WANTED  8u
#define PROGRESS_MS  500
#define SEND_WAIT_S  2
#define CALIBRATE_MS 5
#define EVENTS	     32

/* Signal handlers have no other place to write to. */
static volatile sig_atomic_t interrupts, terminations;

static void on_interrupt(int number)
{
	if (number == SIGTERM)
		terminations++;
	else
		interrupts++;
}

static int listen_on_random_name(struct session *session, struct calltap_diag *diag)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	unsigned char random[16];
	size_t length;

	if (getrandom(random, sizeof(random), 0) != sizeof(random))
		return calltap_diag_set(diag, -errno, "cannot get random numbers: %s", strerror(errno));
	length = (size_t)snprintf(session->name, sizeof(session->name), "calltap-");
	for (size_t i = 0; i < sizeof(random); i++)
		length += (size_t)snprintf(session->name + length, sizeof(session->name) - length, "%02x", random[i]);
	memcpy(address.sun_path + 1, session->name, length);
	session->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (session->listener < 0 ||
	    bind(session->listener, (void *)&address,
		 (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length)) ||
	    listen(session->listener, SOMAXCONN))
		return calltap_diag_set(diag, -errno, "cannot listen for the program: %s", strerror(errno));
	return 0;
}

static int watch(struct session *session, int fd, void *what)
{
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = what};

	return epoll_ctl(session->epoll, EPOLL_CTL_ADD, fd, &event) ? -errno : 0;
}

static void accept_target(struct session *session)
{
	const struct timeval patience = {SEND_WAIT_S, 0};
	struct process *process;
	int fd = accept4(session->listener, NULL, NULL, SOCK_CLOEXEC);

	if (fd < 0)
		return;
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	if (process_create(&process, session, fd)) {
		close(fd);
		return;
	}
	if (watch(session, fd, process))
		process->ended = true;
}

static void end_target(struct session *session, struct process *process)
{
	epoll_ctl(session->epoll, EPOLL_CTL_DEL, process->socket, NULL);
	close(process->socket);
	process->socket = -1;
	process->row.end_ticks = clock_sample().ticks;
	if (!process->arena_count)
		process->drained = true;
	process->ended = true;
	drain_wake(session);
}

static void reap_command(struct session *session)
{
	if (waitpid(session->command, &session->result->wait_status, WNOHANG) != session->command)
		return;
	epoll_ctl(session->epoll, EPOLL_CTL_DEL, session->command_fd, NULL);
	session->command = 0;
}

static bool targets_left(const struct session *session)
{
	for (const struct process *process = session->processes; process; process = process->next)
		if (!process->drained && !process->dormant)
			return true;
	return false;
}

static void handle(struct session *session, void *what)
{
	eventfd_t count;

	if (what == &session->listener)
		accept_target(session);
	else if (what == &session->command)
		reap_command(session);
	else if (what == &session->drained_fd)
		eventfd_read(session->drained_fd, &count);
	else if (!((struct process *)what)->ended && process_serve(session, what))
		end_target(session, what);
}

/* Until the command and everything traced have ended, or the user insists (a second ^C). */
static void serve(struct session *session)
{
	struct epoll_event events[EVENTS];
	bool more = true, passed = false;

	while (more && interrupts < 2 && terminations < 2) {
		int n = epoll_wait(session->epoll, events, EVENTS, PROGRESS_MS);

		if (terminations && !passed && session->command) {
			passed = true;
			kill(session->command, SIGTERM);
		}
		pthread_mutex_lock(&session->lock);
		for (int i = 0; i < n; i++)
			handle(session, events[i].data.ptr);
		more = session->command || targets_left(session);
		if (n <= 0)
			progress_show(session, false);
		pthread_mutex_unlock(&session->lock);
	}
}

static void shape_rings(struct session *session)
{
	uint64_t bytes = session->options->buffer_bytes, sub = SUB_MIN;

	while (sub * 2 <= SUB_MAX && sub * 2 * SUBS_WANTED <= bytes)
		sub *= 2;
	session->sub_size = (uint32_t)sub;
	session->sub_count = (uint32_t)(bytes / sub < 2 ? 2 : bytes / sub);
}

static int prepare(struct session *session, struct calltap_diag *diag)
{
	const struct record_options *options = session->options;
	struct rlimit files;
	int ret;

	/* Each target costs a descriptor. */
	if (!getrlimit(RLIMIT_NOFILE, &session->files)) {
		files = session->files;
		files.rlim_cur = files.rlim_max;
		setrlimit(RLIMIT_NOFILE, &files);
	}
	session->images.tracer = options->tracer;
	session->images.filters = options->filters;
	session->images.needs = (struct tracer_needs){
		.tree_filter = filter_set_has(options->filters, FILTER_GRAPH),
		.notree = filter_set_has(options->filters, FILTER_NOGRAPH),
		.depth = options->depth_max != 0,
		.threshold = options->threshold_ns != 0,
	};
	if (options->threshold_ns)
		session->threshold_ticks = (uint64_t)((double)options->threshold_ns * clock_ticks_per_ns(CALIBRATE_MS));
	shape_rings(session);
	ret = precheck_command(session, diag);
	if (ret)
		return ret;
	ret = board_create(session);
	if (ret)
		return calltap_diag_set(diag, ret, "cannot make shared memory: %s", strerror(-ret));
	session->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (session->epoll < 0)
		return calltap_diag_set(diag, -errno, "cannot make an epoll descriptor: %s", strerror(errno));
	ret = listen_on_random_name(session, diag);
	if (ret)
		return ret;
	session->drained_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (session->drained_fd < 0)
		return calltap_diag_set(diag, -errno, "cannot make an event descriptor: %s", strerror(errno));
	ret = watch(session, session->drained_fd, &session->drained_fd);
	return ret ? ret : watch(session, session->listener, &session->listener);
}

/*
 * An older trace is kept, once, as FILE.old; and put back when nothing ran
 * after all.  Only a file is moved: a device or a pipe is what was meant.
 */
static void keep_older(const char *output, bool back)
{
	char old[PATH_MAX];
	struct stat st;

	if (snprintf(old, sizeof(old), "%s.old", output) >= (int)sizeof(old))
		return;
	if (lstat(back ? old : output, &st) || !S_ISREG(st.st_mode))
		return;
	if (back ? rename(old, output) : rename(output, old))
		return; /* then it is overwritten */
}

static int open_file(struct session *session, struct calltap_diag *diag)
{
	struct calltap_file_clock sample = clock_sample();
	int ret;

	keep_older(session->options->output, false);
	ret = trace_writer_create(&session->writer, session->options->output, 62 /* EM_X86_64 */, diag);

	if (ret)
		return ret;
	ret = describe_start(session);
	if (!ret)
		ret = trace_writer_chunk(session->writer, CALLTAP_CHUNK_CLOCK, &sample, sizeof(sample));
	if (ret)
		return calltap_diag_set(diag, ret, "cannot write %s: %s", session->options->output, strerror(-ret));
	return 0;
}

/*
 * ^C is the program's, which has it from the terminal; the tool goes on until
 * the program has ended.  SIGTERM was sent to us alone and is passed on.  A
 * second one of either ends the recording.
 */
static void take_signals(struct session *session)
{
	struct sigaction act = {.sa_handler = on_interrupt};

	interrupts = 0;
	terminations = 0;
	sigaction(SIGINT, &act, &session->old_int);
	sigaction(SIGQUIT, &act, &session->old_quit);
	sigaction(SIGTERM, &act, NULL);
	signal(SIGPIPE, SIG_IGN);
}

static int run(struct session *session, struct calltap_diag *diag)
{
	struct record_result *result = session->result;
	struct calltap_file_clock start = clock_sample(), end;
	int ret = open_file(session, diag);

	if (!ret)
		ret = drain_start(session);
	if (!ret) {
		take_signals(session);
		ret = spawn_command(session, diag);
	}
	if (ret)
		return ret;
	result->ran = true;
	ret = watch(session, session->command_fd, &session->command);
	if (!ret)
		serve(session);
	for (struct process *process = session->processes; process; process = process->next)
		if (!process->ended)
			end_target(session, process);
	drain_stop(session);
	progress_show(session, true);
	ret = describe_end(session);
	end = clock_sample();
	result->ticks_per_ns = (double)(end.ticks - start.ticks) / (double)(end.mono_ns - start.mono_ns);
	result->left = session->command != 0;
	result->threads = session->thread_count;
	result->processes = session->process_count;
	result->file_bytes = trace_writer_bytes(session->writer);
	if (ret)
		return calltap_diag_set(diag, ret, "the trace in %s is incomplete: %s; the program was not affected",
					session->options->output, strerror(-ret));
	if (session->diagnosis[0])
		return calltap_diag_set(diag, -EIO, "%s", session->diagnosis);
	return 0;
}

static void drop_output(const char *output)
{
	struct stat st;

	if (!lstat(output, &st) && S_ISREG(st.st_mode))
		unlink(output);
}

static void tear_down(struct session *session)
{
	int error;

	drain_stop(session);
	while (session->processes) {
		struct process *process = session->processes;

		session->processes = process->next;
		process_destroy(process);
	}
	images_destroy(&session->images);
	record_encoder_destroy(session->encoder);
	error = session->writer ? trace_writer_close(session->writer) : 0;
	if (session->writer && !session->result->ran) {
		drop_output(session->options->output); /* nothing ran: nothing half written */
		keep_older(session->options->output, true);
	}
	(void)error; /* the first error was told already */
	if (session->board)
		munmap(session->board, CALLTAP_PAGE);
	if (session->board_fd >= 0)
		close(session->board_fd);
	if (session->listener >= 0)
		close(session->listener);
	if (session->epoll >= 0)
		close(session->epoll);
	if (session->drained_fd >= 0)
		close(session->drained_fd);
	if (session->command_fd >= 0)
		close(session->command_fd);
	free(session->threads);
	pthread_mutex_destroy(&session->lock);
}

int record_run(const struct record_options *options, struct record_result *result, struct calltap_diag *diag)
{
	struct session session = {
		.options = options,
		.result = result,
		.board_fd = -1,
		.listener = -1,
		.epoll = -1,
		.drained_fd = -1,
		.command_fd = -1,
	};
	int ret;

	memset(result, 0, sizeof(*result));
	pthread_mutex_init(&session.lock, NULL);
	ret = prepare(&session, diag);
	if (!ret)
		ret = run(&session, diag);
	tear_down(&session);
	return ret;
}
