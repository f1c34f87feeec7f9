/*
 * A recording session from start to end: sockets, the command, the file.
 * Called by record_run().  Context: host, the server thread.
 */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
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
#include <unistd.h>

#include <host/attach/attach.h>
#include <host/brief/brief.h>
#include <host/hook/handlers.h>
#include <host/hook/triggers.h>
#include <host/hook/watch.h>
#include <host/instance/instances.h>
#include <host/remote/remote.h>
#include <host/values/values.h>

#include "session.h"

/* Of --time adaptive, where nothing else is said. */
#define TICK_NS	  100000
#define TICK_MIN  10000
#define TICK_MAX  100000000
#define SMALL	  64  /* bytes */
#define HANGUP_MS 100 /* that a command takes to end by SIGHUP */

static int listen_on_random_name(struct session *session, struct calltap_diag *diag)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	unsigned char random[16 + sizeof(session->endpoint.key)]; /* name and key */
	const int type = SOCK_SEQPACKET | SOCK_NONBLOCK;
	size_t length;

	if (getrandom(random, sizeof(random), 0) != sizeof(random))
		return calltap_diag_set(diag, -errno, "cannot get random numbers: %s", strerror(errno));
	length = (size_t)snprintf(session->endpoint.name, sizeof(session->endpoint.name), "calltap-");
	memcpy(&session->endpoint.key, random + 16, sizeof(session->endpoint.key));
	for (size_t i = 0; i < 16; i++)
		length += (size_t)snprintf(session->endpoint.name + length, sizeof(session->endpoint.name) - length,
					   "%02x", random[i]);
	memcpy(address.sun_path + 1, session->endpoint.name, length);
	/* Abstract names belong to a network namespace: the target's counts. */
	session->endpoint.listener = session->options->pid_count ? attachees_socket(session, type, diag)
								 : socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
	if (session->endpoint.listener < 0 && session->options->pid_count)
		return session->endpoint.listener;
	if (session->endpoint.listener < 0 ||
	    bind(session->endpoint.listener, (void *)&address,
		 (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length)) ||
	    listen(session->endpoint.listener, SOMAXCONN))
		return calltap_diag_set(diag, -errno, "cannot listen for the program: %s", strerror(errno));
	return 0;
}

static int begin_triggers(struct session *session, struct calltap_diag *diag)
{
	struct triggers *triggers = session->options->triggers;
	char conflict[512];
	int ret;

	if (!triggers)
		return 0;
	ret = watch_create(&session->images.watch, session, clock_ticks_per_ns(CALIBRATE_MS));
	if (!ret) {
		/* No function is known yet, and watch_add_function() tells of a conflict. */
		(void)watch_join(session->images.watch, 0, triggers, conflict, sizeof(conflict));
		ret = watch_start(session->images.watch);
	}
	session_first(session)->settings.tracing = !triggers_have(triggers, TRIGGER_START);
	session->images.tracing = session_first(session)->settings.tracing;
	return ret ? calltap_diag_set(diag, ret, "cannot make memory for triggers: %s", strerror(-ret)) : 0;
}

/* Functions with values go by the dispatcher, as those with handlers do. */
static int begin_values(struct session *session, struct calltap_diag *diag)
{
	struct values *values = session->options->values;
	const struct machine *machine;
	char *agent;
	int ret;

	if (!values)
		return 0;
	session->images.values = values;
	ret = handlers_create(&session->images.handlers);
	if (ret)
		return calltap_diag_set(diag, ret, "there is no memory for values: %s", strerror(-ret));
	/* Their programs are compiled before any function is looked at. */
	machine = precheck_machine(session);
	agent = precheck_agent(session, machine);
	ret = agent ? values_begin(values, machine->id, agent, diag)
		    : calltap_diag_set(diag, -ENOMEM, "not enough memory");
	free(agent);
	return ret;
}

int session_begin_times(struct session *session)
{
	const struct brief_options options = {.tick_ns = TICK_NS, .every = RECORD_EVERY, .base_only = true};
	struct brief *times;
	int ret;

	if (session->images.times)
		return 0;
	ret = brief_create(&times, &options);
	if (ret)
		return ret;
	ret = brief_start(times, RECORD_SHORT_NS, session->emulated ? 0 : timing_rate(session), &session->timing.line,
			  session->board);
	if (ret) {
		brief_destroy(times);
		return ret;
	}
	session->images.times = times;
	/* In a process that cannot be told all calls have times. */
	for (struct target *target = session->targets; target; target = target->next)
		if (live_can_be_told(target) && brief_welcome(times, target))
			continue;
	return 0;
}

static int begin_adaptive(struct session *session, struct calltap_diag *diag)
{
	const struct record_options *options = session->options;
	const struct brief_options brief = {
		.tick_ns = options->tick_ns ? options->tick_ns : TICK_NS,
		.known = options->known,
		.known_count = options->known_count,
		.small = options->small ? options->small : SMALL,
		.sampling = options->tracer->counts,
		.every = options->every ? options->every : RECORD_EVERY,
	};
	int ret = options->adaptive ? brief_create(&session->images.brief, &brief) : 0;

	return ret ? calltap_diag_set(
			     diag, ret,
			     "there is no memory for --time adaptive: %s; raise the limit (ulimit -f), or leave it out",
			     strerror(-ret))
		   : 0;
}

/* Now it is known whose clock the records will have. */
static int begin_ticks(struct session *session, struct calltap_diag *diag)
{
	const uint64_t short_ns = session->options->short_ns ? session->options->short_ns : RECORD_SHORT_NS;
	int ret;

	if (session->options->every > RECORD_EVERY_MAX)
		return calltap_diag_set(diag, -EINVAL, "--time-sample is at most 65535");
	if (session->options->tick_ns && (session->options->tick_ns < TICK_MIN || session->options->tick_ns > TICK_MAX))
		return calltap_diag_set(diag, -EINVAL, "--time-tick is from 10us to 100ms");
	ret = brief_start(session->images.brief, short_ns, session->emulated ? 0 : timing_rate(session),
			  &session->timing.line, session->board);
	return ret ? calltap_diag_set(diag, ret, "cannot begin --time adaptive: %s; leave it out", strerror(-ret)) : 0;
}

/* Raise a limit of the tool's as far as any user may; *before: as it was. */
static void raise_limit(__rlimit_resource_t resource, struct rlimit *before)
{
	struct rlimit limit;

	if (getrlimit(resource, before))
		return;
	limit = (struct rlimit){before->rlim_max, before->rlim_max};
	setrlimit(resource, &limit);
}

/* Each target costs a descriptor, and buffers are files of memory, for which a file's greatest size counts, too. */
static void raise_limits(struct session *session)
{
	const struct rlimit none = {RLIM_INFINITY, RLIM_INFINITY};

	raise_limit(RLIMIT_NOFILE, &session->inherited.files);
	raise_limit(RLIMIT_FSIZE, &session->inherited.file_size);
	setrlimit(RLIMIT_FSIZE, &none); /* root may */
}

static int prepare_session(struct session *session, struct calltap_diag *diag)
{
	const struct record_options *options = session->options;
	struct instance *first = session_first(session);
	int ret;

	raise_limits(session);
	apply_take(session, &first->settings);
	session->images.all = options->pid_count != 0;
	session->images.stock = options->stock;
	session->images.libcalls = options->serves ? LIBCALLS_NEVER : options->libcalls;
	session->images.size_min = options->size_min;
	session->images.serve = options->serves;
	session->images.keeps_open =
		options->mode == CALLTAP_MODE_OVERWRITE && options->tracer->has_exit && !options->adaptive;
	ret = settings_refuse(options, false, diag);
	if (!ret)
		ret = begin_adaptive(session, diag);
	session->images.times = first->brief = session->images.brief;
	if (!ret)
		ret = begin_triggers(session, diag);
	if (!ret)
		ret = begin_values(session, diag);
	session->result->ours = ret != 0;
	if (ret)
		return ret;
	ret = options->pid_count ? attachees_check(session, diag) : precheck_command(session, diag);
	if (!ret)
		ret = settings_refuse(options, session->emulated, diag); /* now it is known */
	if (ret)
		return ret;
	/* An emulated target's is known when it has called in. */
	if (options->threshold_ns && !session->emulated)
		first->threshold_ticks = timing_ticks(session, options->threshold_ns);
	ret = session_make_board(session);
	if (ret)
		return calltap_diag_set(diag, ret, "cannot make shared memory: %s", strerror(-ret));
	if (session->images.brief)
		ret = begin_ticks(session, diag);
	if (ret)
		return ret;
	ret = buffers_create(first, diag);
	session->result->ours = ret != 0;
	if (ret)
		return ret;
	session->endpoint.epoll = epoll_create1(EPOLL_CLOEXEC);
	if (session->endpoint.epoll < 0)
		return calltap_diag_set(diag, -errno, "cannot make an epoll descriptor: %s", strerror(errno));
	ret = listen_on_random_name(session, diag);
	if (ret)
		return ret;
	session->endpoint.drained_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (session->endpoint.drained_fd < 0)
		return calltap_diag_set(diag, -errno, "cannot make an event descriptor: %s", strerror(errno));
	session->endpoint.spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	ret = session_watch(session, session->endpoint.drained_fd, &session->endpoint.drained_fd);
	if (!ret)
		ret = session_watch(session, session->endpoint.listener, &session->endpoint.listener);
	return ret ? calltap_diag_set(diag, ret, "cannot watch for the program: %s", strerror(-ret)) : 0;
}

/* Only a file is moved: a device or a pipe is what was meant. */
bool record_keep_older(const char *output, bool back)
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
	struct instance *first = session_first(session);
	int ret;

	if (session->options->output) {
		session->output.older_kept = record_keep_older(session->options->output, false);
		session->output.taken = true;
	}
	ret = trace_writer_create(&first->writer, session->options->output ? session->options->output : "/dev/null",
				  session->machine->id, diag);
	if (ret)
		return ret;
	ret = record_encoder_create(&first->encoder);
	if (!ret)
		ret = tables_create(first);
	if (!ret)
		ret = describe_start(first);
	if (!ret && !session->emulated)
		ret = trace_writer_chunk(first->writer, CALLTAP_CHUNK_CLOCK, &sample, sizeof(sample));
	if (ret)
		return calltap_diag_set(diag, ret, "cannot write %s: %s", session->options->output, strerror(-ret));
	return 0;
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

	for (const struct target *target = session->targets; target; target = target->next) {
		const struct target *other = target->foreign ? session->targets : NULL;

		while (other && (other->pid != target->pid || !other->greeted || other->foreign ||
				 other->since_ns < target->since_ns))
			other = other->next;
		count += target->foreign && !other;
	}
	return count;
}

static int begin_command(struct session *session, struct calltap_diag *diag)
{
	int ret = spawn_command(session, diag);

	if (ret)
		return ret;
	session->result->ran = true;
	steer_try(session, session->command);
	if (session->ending.fd >= 0 && session_watch(session, session->ending.fd, &session->command))
		session_forget_ending(session); /* session_serve() looks now and then */
	return 0;
}

/* No agent has called in; of a process that ran already that is told of itself. */
static void diagnose_absence(struct session *session)
{
	if (session->options->pid_count)
		return;
	session_diagnose(session,
			 "nothing was recorded: the agent did not report from %s; it may have ended "
			 "too early, be %s, or lack memory or descriptors",
			 session->options->command[0], session->emulated ? "refused by its emulator" : "setuid");
}

/*
 * Look whether the command has ended.  A SIGHUP of the terminal goes to the tool and to the command: the command gets
 * some time to end by it.
 */
static void see_command(struct session *session)
{
	struct pollfd ended = {session->ending.fd, POLLIN, 0};

	if (session->command && session->ending.fd >= 0 && signals_hung_up())
		(void)poll(&ended, 1, HANGUP_MS);
	session_handle(session, &session->command);
}

static int run_session(struct session *session, struct calltap_diag *diag)
{
	struct instance *first = session_first(session);
	struct record_result *result = session->result;
	struct calltap_file_clock start = clock_sample();
	int ret;

	session->began_ns = start.mono_ns;
	first->began_real_ns = start.real_ns;
	signals_take(session);
	ret = open_file(session, diag);
	result->ours = ret != 0;
	if (ret)
		return ret;
	guests_begin(session);
	ret = drain_start(session);
	if (ret)
		return calltap_diag_set(diag, ret, "cannot start a thread: %s", strerror(-ret));
	ret = session->options->pid_count ? 0 : begin_command(session, diag);
	if (ret)
		return ret;
	live_attach(session);
	family_begin(session);
	session_serve(session);
	targets_let_go(session);
	attachees_end(session);
	silent_note(session);
	if (session->options->ending)
		session->options->ending(session->options->ending_ctx);
	live_detach(session);
	watch_end(session->images.watch);
	attached_stacks_wait(session);
	drain_finish(session);
	remote_stop(session->remote); /* from here on this thread has all for itself */
	callers_end(session);
	drain_stop(session);
	if (session->images.brief)
		(void)!brief_write(session->images.brief, first->writer); /* an error of the file is told below */
	describe_replaced(session);
	instances_finish(session);
	guests_end(session);
	result->unreached = __atomic_load_n(&session->board->unreached, __ATOMIC_RELAXED);
	result->kills_forks = session->emulator.kills_forks;
	result->detached = __atomic_load_n(&session->ending.asked, __ATOMIC_ACQUIRE) > 1;
	progress_show(session, true);
	result->foreign = count_foreign(session);
	if (!session->process_count && !result->foreign)
		diagnose_absence(session);
	result->ticks_per_ns = session->emulated ? clock_line_rate(&session->timing.line) : rate_since(&start);
	if (session->process_count && result->ticks_per_ns == 0)
		session_diagnose(session, "no process told the rate of its clock (one in a time namespace cannot): "
					  "the trace's times are ticks, not nanoseconds");
	ret = describe_end(first);
	family_hint(session);
	see_command(session);
	result->left = session->command != 0;
	result->threads = first->thread_count;
	result->processes = session->process_count;
	result->file_bytes = trace_writer_bytes(first->writer);
	if (ret)
		return calltap_diag_set(diag, ret, "the trace in %s is incomplete: %s; the program was not affected",
					session->options->output ? session->options->output : "memory", strerror(-ret));
	if (session_diagnosis(session)[0])
		return calltap_diag_set(diag, -EIO, "%s", session_diagnosis(session));
	return session->options->pid_count && !result->attached_count ? attachees_tell_none(session, diag) : 0;
}

static void drop_output(const char *output)
{
	struct stat st;

	if (!lstat(output, &st) && S_ISREG(st.st_mode))
		unlink(output);
}

static void tear_down(struct session *session)
{
	watch_end(session->images.watch);
	drain_stop(session);
	if (session->endpoint.listener >= 0)
		close(session->endpoint.listener);
	guests_end(session);
	steer_end(session);
	callers_end(session);
	while (session->targets) {
		struct target *target = session->targets;

		session->targets = target->next;
		target_destroy(target);
	}
	images_destroy(&session->images);
	unread_clear(session);
	family_end(session);
	handlers_destroy(session->images.handlers);
	values_destroy(session->own_values);
	watch_destroy(session->images.watch);
	brief_destroy(session->images.times);
	(void)instance_clear(session_first(session)); /* the first error was told already */
	if (session->output.taken &&
	    !(session->options->pid_count ? session->result->attached_count != 0 : session->result->ran)) {
		drop_output(session->options->output); /* nothing was traced: nothing half written */
		if (session->output.older_kept)
			(void)record_keep_older(session->options->output, true);
	}
	if (session->board)
		munmap(session->board, CALLTAP_PAGE);
	if (session->board_fd >= 0)
		close(session->board_fd);
	session_forget_ending(session);
	attachees_destroy(session);
	if (session->endpoint.epoll >= 0)
		close(session->endpoint.epoll);
	if (session->endpoint.drained_fd >= 0)
		close(session->endpoint.drained_fd);
	if (session->endpoint.spare_fd >= 0)
		close(session->endpoint.spare_fd);
	free(session->program);
	free(session->agent);
	placing_destroy(session->placing);
	emulator_destroy(&session->emulator);
	pthread_cond_destroy(&session->answered);
	pthread_mutex_destroy(&session->next);
	pthread_mutex_destroy(&session->lock);
}

int record_run(const struct record_options *options, struct record_result *result, struct calltap_diag *diag)
{
	struct session session = {
		.options = options,
		.result = result,
		.board_fd = -1,
		.endpoint = {.listener = -1, .epoll = -1, .drained_fd = -1, .spare_fd = -1},
		.ending = {.fd = -1},
	};
	struct instance first;
	int ret;

	memset(result, 0, sizeof(*result));
	instance_init(&first, &session, 0, options, result);
	session.instances[0] = &first;
	pthread_mutex_init(&session.lock, NULL);
	pthread_mutex_init(&session.next, NULL);
	pthread_cond_init(&session.answered, NULL);
	ret = attachees_create(&session);
	if (ret)
		ret = calltap_diag_set(diag, ret, "not enough memory");
	if (!ret)
		ret = prepare_session(&session, diag);
	if (!ret)
		ret = run_session(&session, diag);
	if (!result->attached_count && !result->ours)
		ret = attachees_explain(&session, ret, diag);
	tear_down(&session);
	return ret;
}

void record_result_clear(struct record_result *result)
{
	free(result->attached);
	result->attached = NULL;
	record_silent_clear(&result->silent);
}
