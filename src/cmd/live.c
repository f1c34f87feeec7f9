/*
 * `calltap live`: calls as text while they happen, like the kernel's trace_pipe.
 *
 * Caller: main.  Context: host.  The recording runs in a thread of its own (watching.h) and writes to memory.  A reader
 * thread reads that, and passes over records that the main thread, which prints, has not taken in time: a slow terminal
 * holds nobody up.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <host/counted.h>
#include <host/now.h>
#include <host/terminal/signals.h>
#include <host/trace/follow.h>
#include <host/view/live_screen.h>
#include <host/view/parse.h>
#include <host/view/replay.h>
#include <host/view/term.h>
#include <tracers/tracer.h>

#include "cmd.h"
#include "watching.h"

#define POLL_MS	     20
#define OPEN_NS	     100000000u	 /* a call that is open for longer is shown before its end */
#define QUEUED_MAX   (64u << 20) /* bytes of records that wait to be printed */
#define BATCH_BYTES  (64u << 10) /* printed before more is read; the output's buffer has room for more */
#define LINE_BYTES   (32u << 10) /* no line is longer */
#define THREAD_WIDTH 16
#define DRAW_MS	     100	 /* between two pictures of the screen */
#define REST_NS	     1000000000u /* for printing what is left at the end */
#define READ_NS	     50000000u	 /* of that for taking lines, where there are many */
#define INSTEAD	     "'calltap live' without --screen prints the calls as text"

static void print_help(void)
{
	fputs("usage: calltap live [OPTION...] PID...\n"
	      "       calltap live [OPTION...] -- COMMAND [ARGUMENT...]\n"
	      "Show calls as text while they happen, as `calltap replay` shows a trace.\n\n",
	      stdout);
	recording_print_options(RECORDING_LIVE);
	fputs("\n"
	      "^C ends it; processes that ran already are let go of.  With --screen: h lists the keys.\n",
	      stdout);
}

struct live {
	struct watching watching;
	struct view_filter filter;
	struct replay_options options;
	enum term_color color;
	uint64_t duration_ns, began_ns; /* 0 = until the end; since when calls are shown */
	uint64_t ended_ns;		/* of the screen: when the recording had ended, 0 = not yet */
	const char *output;		/* NULL = standard output */
	char path[64];			/* of the memory that the recording is written to */
	int memory;			/* closed with the watching */
	struct out *out;
	struct replay *replay; /* NULL: the file has not told yet what is recorded */
	/* Shared by the reader thread and the main thread, which prints. */
	pthread_mutex_t lock;
	pthread_t reader;
	struct trace_follow *follow;
	int read_error;
	bool stop, reads; /* stop, atomic: the reader ends after one more look; reads: it runs */
	/* With --screen: */
	bool on_screen;
	const char *program_output;
	int terminal_in, terminal_out, signals;
	struct terminal *terminal;
	struct live_screen screen;
};

static void *read_on(void *arg)
{
	struct live *live = arg;
	bool stop;

	do {
		stop = __atomic_load_n(&live->stop, __ATOMIC_ACQUIRE);
		pthread_mutex_lock(&live->lock);
		if (!live->read_error)
			live->read_error = trace_follow_poll(live->follow);
		pthread_mutex_unlock(&live->lock);
		if (!stop)
			(void)poll(NULL, 0, POLL_MS);
	} while (!stop);
	return NULL;
}

static bool is_wanted(const struct live *live, const struct trace *trace, const struct trace_event *event)
{
	const struct trace_thread *thread = trace_thread(trace, event->thread);
	const struct trace_process *process = thread ? trace_process(trace, thread->process) : NULL;

	if (live->filter.tid && (!thread || thread->tid != live->filter.tid))
		return false;
	return !live->filter.pid || (process && process->pid == live->filter.pid);
}

static bool is_full(const struct live *live)
{
	return live->out->used > BATCH_BYTES || live->out->size - live->out->used < LINE_BYTES;
}

/* Write what is known so far to the output's buffer; *more: more is known than went in. */
static int take_events(struct live *live, bool *more)
{
	const struct trace *trace = trace_follow_trace(live->follow);
	struct trace_event event;
	uint64_t open_ticks, ticks;
	int ret = 0;

	*more = false;
	if (!trace)
		return 0;
	if (!live->replay)
		ret = replay_create(&live->replay, trace, &live->filter, &live->options, live->out);
	while (!ret && !*more && trace_follow_next(live->follow, &event)) {
		if (is_wanted(live, trace, &event))
			ret = replay_feed(live->replay, &event);
		*more = is_full(live);
	}
	ticks = trace_follow_ticks(live->follow);
	open_ticks = (uint64_t)(OPEN_NS * trace_ticks_per_ns(trace));
	if (!ret && !*more && ticks > open_ticks)
		ret = replay_settle(live->replay, ticks - open_ticks);
	return ret;
}

/* Print what has come, until that time at the latest; the lock is not held while the output takes its time. */
static int print_events(struct live *live, uint64_t until_ns)
{
	bool more = true;
	int ret = 0;

	while (!ret && more && now_ns() < until_ns) {
		pthread_mutex_lock(&live->lock);
		ret = take_events(live, &more);
		pthread_mutex_unlock(&live->lock);
		if (!ret)
			ret = out_flush(live->out);
	}
	return ret;
}

static int stop_reading(struct live *live)
{
	if (live->reads) {
		__atomic_store_n(&live->stop, true, __ATOMIC_RELEASE);
		pthread_join(live->reader, NULL);
		live->reads = false;
	}
	return live->read_error;
}

/* Did the recording end before its program, which the tool has started? */
static bool was_ended(const struct live *live)
{
	const struct watching *watching = &live->watching;

	return watching->stops || watching->result.left || watching->pids;
}

/*
 * Print the rest: all that was recorded is in the file now.  Who ends the recording does not wait for what may be
 * minutes of printing.
 */
static int print_rest(struct live *live)
{
	int ret;

	trace_follow_finish(live->follow);
	ret = print_events(live, was_ended(live) ? now_ns() + REST_NS : UINT64_MAX);
	trace_follow_pass_over(live->follow);
	if (!ret && live->replay)
		ret = replay_end(live->replay);
	return ret ? ret : out_flush(live->out);
}

/* Is the time over that was asked for, from when the program is traced? */
static bool is_over(struct live *live)
{
	if (!live->began_ns && (watching_joins(&live->watching) || record_live_traces(live->watching.live)))
		live->began_ns = now_ns();
	return live->duration_ns && live->began_ns && now_ns() - live->began_ns >= live->duration_ns;
}

/* Show calls until the recording ends, by itself or because nobody reads any more. */
static int show_live(struct live *live)
{
	struct pollfd done = {live->watching.done, POLLIN, 0};
	int ret = 0, read_ret;

	while (!watching_ended(&live->watching)) {
		(void)poll(&done, 1, POLL_MS);
		if (!ret) /* not all: records may come as fast as they are printed */
			ret = print_events(live, now_ns() + READ_NS);
		if ((ret || is_over(live)) && !live->watching.stops)
			watching_stop(&live->watching);
	}
	read_ret = stop_reading(live);
	if (!ret)
		ret = print_rest(live);
	return ret ? ret : read_ret;
}

/* The replay's lines go to the screen's. */
static int take_lines(void *of, const char *bytes, size_t size)
{
	struct live *live = of;
	const char *end;
	int ret = 0;

	for (; !ret && (end = memchr(bytes, '\n', size)); bytes = end + 1) {
		ret = roll_add(live->screen.roll, bytes, (size_t)(end - bytes));
		size -= (size_t)(end + 1 - bytes);
	}
	return ret;
}

static void draw(struct live *live)
{
	struct live_heading heading = {
		.what = live->watching.what,
		.elapsed_ns = live->began_ns ? (live->ended_ns ? live->ended_ns : now_ns()) - live->began_ns : 0,
		.ended = live->ended_ns != 0,
	};

	pthread_mutex_lock(&live->lock);
	heading.left_out = trace_follow_passed_over(live->follow);
	pthread_mutex_unlock(&live->lock);
	live_screen_draw(&live->screen, live->terminal, &heading);
}

static int take_keys(struct live *live, bool *quit)
{
	unsigned row, column;
	int key;

	while (!*quit && (key = terminal_key(live->terminal)) != TERMINAL_KEY_NONE) {
		if (key < 0)
			return key;
		if (key == TERMINAL_KEY_SUSPEND) {
			terminal_signals_stop(live->terminal);
		} else if (key == TERMINAL_KEY_CLICK) {
			terminal_click(live->terminal, &row, &column);
			live_screen_click(&live->screen, row);
		} else {
			live_screen_key(&live->screen, key, quit);
		}
	}
	return 0;
}

/* Take what has come, and the rest once the recording has ended. */
static int take_news(struct live *live)
{
	int ret;

	if (is_over(live) && !live->watching.stops)
		watching_stop(&live->watching);
	if (!live->screen.follows || !live->reads)
		return 0;
	if (!watching_ended(&live->watching))
		return print_events(live, now_ns() + READ_NS);
	ret = stop_reading(live);
	live->ended_ns = now_ns();
	if (!ret)
		ret = print_rest(live);
	snprintf(live->screen.message, sizeof(live->screen.message), "%.200s has ended; q quits", live->watching.what);
	return ret;
}

static int screen_loop(struct live *live)
{
	bool quit = false;
	int ret = 0;

	while (!ret && !quit) {
		struct pollfd news[] = {{live->signals, POLLIN, 0}, {live->terminal_in, POLLIN, 0}};

		ret = take_news(live);
		draw(live);
		if (ret || poll(news, 2, live->reads && live->screen.follows ? DRAW_MS : 1000) <= 0)
			continue;
		if (news[0].revents)
			quit = (terminal_signals_act(live->terminal) & TERMINAL_NEWS_END) != 0;
		if (news[1].revents && !quit)
			ret = take_keys(live, &quit);
	}
	return ret;
}

/* Show the lines on the whole terminal until the user quits. */
static int show_on_screen(struct live *live, struct calltap_diag *diag)
{
	const struct terminal_options options = {.size = sizeof(options),
						 .in = live->terminal_in,
						 .out = live->terminal_out,
						 .color = term_wants_color(live->color, live->terminal_out),
						 .mouse = true,
						 .instead = INSTEAD};
	struct pollfd done = {live->watching.done, POLLIN, 0};
	int ret;

	/* The session's signal handlers are for the time up to here. */
	while (!watching_joins(&live->watching) && !record_live_traces(live->watching.live) &&
	       !watching_ended(&live->watching))
		(void)poll(&done, 1, POLL_MS);
	if (watching_ended(&live->watching) && !live->watching.result.ran)
		return 0; /* the reason will be told */
	ret = terminal_signals_take(&live->signals);
	if (!ret)
		ret = terminal_open(&live->terminal, &options, diag);
	terminal_signals_of(live->terminal);
	if (!ret)
		ret = screen_loop(live);
	terminal_signals_of(NULL);
	terminal_close(live->terminal);
	watching_end(&live->watching);
	return ret == -EIO ? 0 : ret; /* the terminal is gone */
}

static int open_output(struct live *live)
{
	int fd = STDOUT_FILENO, ret;

	if (live->output) {
		fd = open(live->output, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
		if (fd < 0) {
			fprintf(stderr, "calltap: cannot create '%s': %s\n", live->output, strerror(errno));
			return -errno;
		}
	}
	live->options.color = !live->on_screen && term_wants_color(live->color, fd);
	ret = live->on_screen ? live_screen_init(&live->screen) : 0;
	if (!ret)
		ret = live->on_screen ? out_create_sink(&live->out, take_lines, live)
				      : out_create_shared(&live->out, fd);
	if (!ret)
		ret = trace_follow_create(&live->follow, live->memory, QUEUED_MAX);
	if (!ret)
		ret = -pthread_create(&live->reader, NULL, read_on, live);
	live->reads = !ret;
	if (ret)
		fprintf(stderr, "calltap: not enough memory\n");
	return ret;
}

static void tell_end(const struct live *live, int ret)
{
	uint64_t passed_over = trace_follow_passed_over(live->follow);

	if (passed_over && !live->on_screen && !live->watching.recording.quiet)
		fprintf(stderr, "calltap: %llu %s left out\n", (unsigned long long)passed_over,
			counted(passed_over, "record came faster than it could be shown and was",
				"records came faster than they could be shown and were"));
	if (ret && ret != -EPIPE)
		fprintf(stderr, "calltap: the calls cannot be shown: %s\n", strerror(-ret));
}

static int live_run(struct live *live)
{
	struct record_options *options = &live->watching.recording.settings.options;
	struct calltap_diag diag = {0};
	int ret, status;

	live->memory = live->watching.memory = memfd_create("calltap-live", MFD_CLOEXEC);
	if (live->memory < 0) {
		fprintf(stderr, "calltap: cannot make memory for the records: %s\n", strerror(errno));
		return EXIT_USAGE;
	}
	/* The recording opens this process' own descriptor by itself: so the path must lead to it in any thread. */
	snprintf(live->path, sizeof(live->path), "/proc/self/fd/%d", live->memory);
	options->output = live->path;
	options->follow = true;
	options->progress = false;
	signal(SIGPIPE, SIG_IGN);
	if (live->on_screen &&
	    watching_part_outputs(&live->watching, live->program_output, true, &live->terminal_in, &live->terminal_out))
		return EXIT_USAGE;
	ret = open_output(live);
	if (ret)
		return EXIT_USAGE;
	ret = watching_start(&live->watching);
	if (!ret)
		ret = live->on_screen ? show_on_screen(live, &diag) : show_live(live);
	(void)stop_reading(live);
	watching_join_error(&live->watching);
	if (diag.code)
		calltap_diag_print(&diag, stderr);
	watching_take_losses(&live->watching, trace_follow_trace(live->follow));
	status = watching_finish(&live->watching);
	tell_end(live, ret);
	replay_destroy(live->replay);
	trace_follow_destroy(live->follow);
	(void)out_destroy(live->out);
	live_screen_clear(&live->screen);
	return ret && ret != -EPIPE ? EXIT_USAGE : status;
}

static int take_view_option(struct live *live, int code, struct calltap_diag *diag)
{
	uint64_t number = 0;
	int ret;

	switch (code) {
	case 'f':
		live->filter.function = optarg;
		return 0;
	case OPT_SHOW_PID:
		return parse_id(&live->filter.pid, optarg, "--pid", diag);
	case OPT_SHOW_TID:
		return parse_id(&live->filter.tid, optarg, "--tid", diag);
	case OPT_DEPTH:
		ret = parse_number(&number, optarg, UINT32_MAX, "--depth", diag);
		live->options.depth = (uint32_t)number;
		return ret;
	case OPT_MIN:
		return parse_duration(&live->filter.min_ns, optarg, diag);
	case OPT_DURATION:
		return parse_duration(&live->duration_ns, optarg, diag);
	case OPT_COLOR:
		return term_parse_color(&live->color, optarg, diag);
	default:
		return 1;
	}
}

static int take_option(struct live *live, int code)
{
	struct calltap_diag diag = {0};
	int ret = take_view_option(live, code, &diag);

	if (ret < 0)
		calltap_diag_print(&diag, stderr);
	if (ret <= 0)
		return ret ? EXIT_USAGE : 0;
	switch (code) {
	case OPT_ABSTIME:
		live->options.abstime = true;
		return 0;
	case OPT_PROC:
		live->options.proc = true;
		return 0;
	case OPT_ALL_LEVELS:
		live->options.all_levels = true;
		return 0;
	case OPT_TAIL:
		live->options.tail = true;
		return 0;
	case 'o':
		live->output = optarg;
		return 0;
	case OPT_SCREEN:
		live->on_screen = true;
		return 0;
	case OPT_PROGRAM_OUTPUT:
		live->program_output = optarg;
		return 0;
	default:
		return recording_take(&live->watching.recording, code, optarg);
	}
}

/* Refuse tracers that have no records to show, and modes that keep them until the end. */
static int check_options(const struct live *live)
{
	const struct record_options *options = &live->watching.recording.settings.options;

	if (options->mode > CALLTAP_MODE_DROP || !strcmp(options->tracer->name, "profile") ||
	    !strcmp(options->tracer->name, "nop")) {
		fprintf(stderr, "calltap: live shows records as they come: it takes the tracers function_graph and "
				"function, and the modes drop and block\n");
		return EXIT_USAGE;
	}
	return 0;
}

static int check_screen(const struct live *live)
{
	struct calltap_diag diag = {0};

	if (!live->on_screen && live->program_output)
		(void)calltap_diag_set(&diag, -EINVAL, "--program-output goes with --screen");
	else if (live->on_screen && live->output)
		(void)calltap_diag_set(&diag, -EINVAL, "--screen shows calls on the terminal: leave out -o");
	else if (live->on_screen && (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO)))
		(void)calltap_diag_set(&diag, -ENOTTY, "--screen needs a terminal: " INSTEAD);
	else if (!live->on_screen || !terminal_is_dumb(INSTEAD, &diag))
		return 0;
	calltap_diag_print(&diag, stderr);
	return EXIT_USAGE;
}

int cmd_live(int argc, char **argv)
{
	struct live live = {.filter = {.to_ns = UINT64_MAX},
			    .options = {.size = sizeof(live.options), .thread_width = THREAD_WIDTH},
			    .memory = -1,
			    .lock = PTHREAD_MUTEX_INITIALIZER};
	int code, ret = watching_init(&live.watching, argv);

	live.watching.recording.settings.options.mode = CALLTAP_MODE_DROP;
	while (!ret && (code = recording_next(RECORDING_LIVE, argc, argv)) != -1) {
		if (code == OPT_HELP) {
			print_help();
			watching_clear(&live.watching);
			return 0;
		}
		ret = take_option(&live, code);
	}
	if (!ret)
		ret = watching_target(&live.watching, argc, argv, "live");
	if (!ret)
		ret = check_options(&live);
	if (!ret)
		ret = check_screen(&live);
	if (!ret)
		ret = recording_check(&live.watching.recording, argc, argv, optind);
	if (!ret)
		ret = watching_join(&live.watching);
	if (!ret)
		ret = live_run(&live);
	watching_clear(&live.watching);
	return ret;
}
