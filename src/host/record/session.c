/*
 * A recording session from start to end: sockets, the command, the file.
 * Called by record_run().  Context: host, the server thread.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
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
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "session.h"

#define SUB_MAX	       (64u << 10)
#define SUB_MIN	       4096u
#define SUBS_WANTED    8u
#define PROGRESS_MS    500
#define STRAYS_MS      10	   /* how often to look whether the last processes have called in */
#define SEND_WAIT_US   500000	   /* a target that does not read holds everybody up for so long, once */
#define GREET_NS       2000000000u /* who connects and says nothing is shown out after that */
#define CALIBRATE_MS   5
#define DETACH_NS      1000000000u
#define DETACH_STEP_MS 20
#define EVENTS	       32

static int listen_on_random_name(struct session *session, struct calltap_diag *diag)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	unsigned char random[16 + sizeof(session->key)]; /* name and key */
	size_t length;

	if (getrandom(random, sizeof(random), 0) != sizeof(random))
		return calltap_diag_set(diag, -errno, "cannot get random numbers: %s", strerror(errno));
	length = (size_t)snprintf(session->name, sizeof(session->name), "calltap-");
	memcpy(&session->key, random + 16, sizeof(session->key));
	for (size_t i = 0; i < 16; i++)
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

/* Out of descriptors: let the target know, who would wait for us, by taking it in and turning it away. */
static void turn_away(struct session *session)
{
	int fd;

	close(session->spare_fd);
	fd = accept4(session->listener, NULL, NULL, SOCK_CLOEXEC);
	if (fd >= 0)
		close(fd);
	session->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	session_diagnose(session, "there were too many processes at a time; some ran untraced: raise `ulimit -n`");
}

/*
 * The agent has ended its conversation and the program goes on, or may do so
 * as one that was executed in a sandbox: from now on its pid tells when it ends.
 */
static bool goes_on_alone(struct session *session, struct process *process)
{
	int fd;

	if (session->letting_go || process->alone || !process->arena_count ||
	    !(__atomic_load_n(&process->arenas[0].arena->notes, __ATOMIC_RELAXED) &
	      (CALLTAP_NOTE_ALONE | CALLTAP_NOTE_FILTER)))
		return false;
	fd = (int)syscall(SYS_pidfd_open, process->pid, 0);
	if (fd < 0)
		return false;
	epoll_ctl(session->epoll, EPOLL_CTL_DEL, process->socket, NULL);
	close(process->socket);
	process->socket = fd;
	process->alone = true;
	return !watch(session, fd, process);
}

/* It stopped being recorded and could not say so on the socket. */
static bool broke_off(const struct process *process)
{
	return process->arena_count && !process->parted &&
	       __atomic_load_n(&process->arenas[0].arena->notes, __ATOMIC_RELAXED) & CALLTAP_NOTE_BROKEN;
}

static void end_target(struct session *session, struct process *process)
{
	process->switches_open = 0;
	pthread_cond_broadcast(&session->answered);
	if (goes_on_alone(session, process))
		return;
	if (process->greeted && !process->dormant && !process->began)
		session_diagnose(session, "process %d ended before it was set up, or could not be; it was not recorded",
				 (int)process->pid);
	epoll_ctl(session->epoll, EPOLL_CTL_DEL, process->socket, NULL);
	close(process->socket);
	process->socket = -1;
	process->row.end_ticks = timing_now(session).ticks;
	if (!process->arena_count)
		process->drained = true;
	if (broke_off(process))
		session_diagnose(session, "process %d could not go on with its session; the rest of it ran untraced",
				 (int)process->pid);
	process->ended = true;
	drain_wake(session);
}

static void accept_target(struct session *session)
{
	const struct timeval patience = {0, SEND_WAIT_US};
	struct process *process;
	int fd = accept4(session->listener, NULL, NULL, SOCK_CLOEXEC), ret;

	if (fd < 0 && (errno == EMFILE || errno == ENFILE) && session->spare_fd >= 0)
		turn_away(session);
	if (fd < 0)
		return;
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	ret = process_create(&process, session, fd);
	if (ret) {
		close(fd);
		if (ret != -EPERM) /* which is a stranger's */
			session_diagnose(session, "a process could not be taken in and ran untraced: %s",
					 strerror(-ret));
		return;
	}
	process->since_ns = clock_now_ns();
	ret = watch(session, fd, process);
	if (ret) {
		session_diagnose(session, "a process could not be watched and ran untraced: %s", strerror(-ret));
		end_target(session, process);
	}
}

/* Nobody holds the session up by a connection without a HELLO. */
static void end_silent(struct session *session)
{
	uint64_t now = clock_now_ns();

	for (struct process *process = session->processes; process; process = process->next)
		if (!process->greeted && !process->ended && now - process->since_ns > GREET_NS)
			end_target(session, process);
}

void session_diagnose(struct session *session, const char *format, ...)
{
	va_list arguments;

	if (session->diagnosis[0])
		return;
	va_start(arguments, format);
	vsnprintf(session->diagnosis, sizeof(session->diagnosis), format, arguments);
	va_end(arguments);
}

static void reap_command(struct session *session)
{
	if (!session->command || waitpid(session->command, &session->result->wait_status, WNOHANG) != session->command)
		return;
	if (session->command_fd >= 0)
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
	else if (!((struct process *)what)->ended && (((struct process *)what)->alone || process_serve(session, what)))
		end_target(session, what);
}

/* Until the command and everything traced have ended, or the user insists (a second ^C). */
static void serve(struct session *session)
{
	struct epoll_event events[EVENTS];
	bool more = true, passed = false;

	while (more && !signals_insist()) {
		int n = epoll_wait(session->epoll, events, EVENTS, session->strays_until_ns ? STRAYS_MS : PROGRESS_MS);

		if (signals_ask_end() && !passed && session->command) {
			passed = true;
			kill(session->command, SIGTERM);
		}
		pthread_mutex_lock(&session->lock);
		for (int i = 0; i < n; i++)
			handle(session, events[i].data.ptr);
		end_silent(session);
		more = session->command || targets_left(session) || strays_may_come(session);
		if (n <= 0) {
			progress_show(session, false);
			reap_command(session);
		}
		pthread_mutex_unlock(&session->lock);
	}
}

/* Processes that run on get their text back; whoever does not answer in time does so by himself. */
static void let_go(struct session *session)
{
	const struct calltap_msg detach = {CALLTAP_MSG_DETACH, sizeof(detach)};
	uint64_t until = clock_now_ns() + DETACH_NS;
	struct epoll_event events[EVENTS];
	bool more = false;

	pthread_mutex_lock(&session->lock);
	session->letting_go = true;
	if (session->emulated)
		timing_tick(session, until + DETACH_NS); /* the last word on the clock */
	for (struct process *process = session->processes; process; process = process->next) {
		process->detaching = !process->ended && process->greeted && !process->alone && !process->dormant &&
				     !channel_send(process->socket, &detach, sizeof(detach), NULL, 0);
		more |= process->detaching;
	}
	while (more && clock_now_ns() < until) {
		int n;

		pthread_mutex_unlock(&session->lock);
		n = epoll_wait(session->epoll, events, EVENTS, DETACH_STEP_MS);
		pthread_mutex_lock(&session->lock);
		for (int i = 0; i < n; i++)
			handle(session, events[i].data.ptr);
		more = false;
		for (struct process *process = session->processes; process; process = process->next)
			more |= process->detaching && !process->ended;
	}
	for (struct process *process = session->processes; process; process = process->next)
		if (!process->ended)
			end_target(session, process);
	pthread_mutex_unlock(&session->lock);
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
	shape_rings(session);
	ret = precheck_command(session, diag);
	if (ret)
		return ret;
	/* An emulated target's is known when it has called in. */
	if (options->threshold_ns && !session->emulated)
		session->threshold_ticks = (uint64_t)((double)options->threshold_ns * clock_ticks_per_ns(CALIBRATE_MS));
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
	session->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	ret = watch(session, session->drained_fd, &session->drained_fd);
	if (!ret)
		ret = watch(session, session->listener, &session->listener);
	return ret ? calltap_diag_set(diag, ret, "cannot watch for the program: %s", strerror(-ret)) : 0;
}

/*
 * An older trace is kept, once, as FILE.old; and put back when nothing ran
 * after all.  Only a file is moved: a device or a pipe is what was meant.
 * True when it was.
 */
static bool keep_older(const char *output, bool back)
{
	char old[PATH_MAX];
	struct stat st;

	if (snprintf(old, sizeof(old), "%s.old", output) >= (int)sizeof(old))
		return false;
	if (lstat(back ? old : output, &st) || !S_ISREG(st.st_mode))
		return false;
	return !(back ? rename(old, output) : rename(output, old)); /* else it is overwritten */
}

static int open_file(struct session *session, struct calltap_diag *diag)
{
	struct calltap_file_clock sample = timing_now(session);
	int ret;

	session->older_kept = keep_older(session->options->output, false);
	session->output_taken = true;
	ret = trace_writer_create(&session->writer, session->options->output, session->machine->id, diag);
	if (ret)
		return ret;
	ret = describe_start(session);
	if (!ret && !session->emulated)
		ret = trace_writer_chunk(session->writer, CALLTAP_CHUNK_CLOCK, &sample, sizeof(sample));
	if (ret)
		return calltap_diag_set(diag, ret, "cannot write %s: %s", session->options->output, strerror(-ret));
	return 0;
}

static void close_command_fd(struct session *session)
{
	if (session->command_fd >= 0)
		close(session->command_fd);
	session->command_fd = -1;
}

static double rate_since(const struct calltap_file_clock *start)
{
	struct calltap_file_clock end = clock_sample();

	return (double)(end.ticks - start->ticks) / (double)(end.mono_ns - start->mono_ns);
}

/* Programs for another CPU; an emulator that a program of ours runs in next is none of those. */
static uint32_t count_foreign(const struct session *session)
{
	uint32_t count = 0;

	for (const struct process *process = session->processes; process; process = process->next) {
		const struct process *other = process->foreign ? session->processes : NULL;

		while (other && (other->pid != process->pid || !other->greeted || other->foreign ||
				 other->since_ns < process->since_ns))
			other = other->next;
		count += process->foreign && !other;
	}
	return count;
}

static int run(struct session *session, struct calltap_diag *diag)
{
	struct record_result *result = session->result;
	struct calltap_file_clock start = clock_sample();
	int ret;

	session->began_ns = start.mono_ns;
	signals_take(session);
	ret = open_file(session, diag);
	if (ret)
		return ret;
	ret = drain_start(session);
	if (ret)
		return calltap_diag_set(diag, ret, "cannot start a thread: %s", strerror(-ret));
	ret = spawn_command(session, diag);
	if (ret)
		return ret;
	result->ran = true;
	if (watch(session, session->command_fd, &session->command))
		close_command_fd(session); /* serve() looks now and then */
	live_attach(session);
	serve(session);
	let_go(session);
	live_detach(session);
	drain_stop(session);
	result->unreached = __atomic_load_n(&session->board->unreached, __ATOMIC_RELAXED);
	result->kills_forks = session->emulator.kills_forks;
	progress_show(session, true);
	result->foreign = count_foreign(session);
	if (!session->process_count && !result->foreign)
		session_diagnose(session,
				 "nothing was recorded: the agent did not report from %s; it may have ended "
				 "too early, be %s, or lack memory or descriptors",
				 session->options->command[0],
				 session->emulated ? "refused by its emulator" : "setuid or static");
	result->ticks_per_ns = session->emulated ? clock_line_rate(&session->line) : rate_since(&start);
	if (session->process_count && result->ticks_per_ns == 0)
		session_diagnose(session, "no process told the rate of its clock (one in a time namespace cannot): "
					  "the trace's times are ticks, not nanoseconds");
	ret = describe_end(session);
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
	if (session->output_taken && !session->result->ran) {
		drop_output(session->options->output); /* nothing ran: nothing half written */
		if (session->older_kept)
			(void)keep_older(session->options->output, true);
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
	if (session->spare_fd >= 0)
		close(session->spare_fd);
	close_command_fd(session);
	free(session->threads);
	free(session->program);
	free(session->agent);
	emulator_destroy(&session->emulator);
	pthread_cond_destroy(&session->answered);
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
		.spare_fd = -1,
		.command_fd = -1,
	};
	int ret;

	memset(result, 0, sizeof(*result));
	pthread_mutex_init(&session.lock, NULL);
	pthread_cond_init(&session.answered, NULL);
	ret = prepare(&session, diag);
	if (!ret)
		ret = run(&session, diag);
	tear_down(&session);
	return ret;
}
