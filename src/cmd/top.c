/*
 * `calltap top`: a table of the functions that run most, while they run.
 *
 * Caller: main.  Context: host.  The recording runs in a thread of its own (watching.h) and keeps no trace; the main
 * thread reads its tables in intervals.  The terminal is given back however this ends.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <calltap/abi/profile.h>
#include <host/counted.h>
#include <host/now.h>
#include <host/view/out.h>
#include <host/view/parse.h>
#include <host/view/top.h>
#include <tracers/tracer.h>

#include "cmd.h"
#include "counting.h"
#include "watching.h"

#define INTERVAL_NS	1000000000u
#define INTERVAL_MIN_NS 50000000u
#define STOP_NS		2000000000u /* a command that was asked to end may take so long */

static void print_help(void)
{
	fputs("usage: calltap top [OPTION...] PID...\n"
	      "       calltap top [OPTION...] -- COMMAND [ARGUMENT...]\n"
	      "Show which functions run most, while the program runs.\n\n",
	      stdout);
	recording_print_options(RECORDING_TOP);
	fputs("\n"
	      "Without a terminal the table is printed as with --batch 0.  In it: q quit, s sort, / filter,\n"
	      "Enter callers, h help.\n",
	      stdout);
}

struct show {
	struct watching watching;
	struct counting counting;
	struct top top;
	struct top_rows rows;
	struct screen *screen; /* NULL: batch */
	struct out *out;       /* of batch */
	uint64_t interval_ns, began_ns;
	uint64_t readings, readings_max; /* of batch; max 0 = no limit */
	uint64_t row_limit;
	bool batch, json;
	const char *program_output;
	int terminal_out; /* the terminal or pipe that shows the table */
	int terminal_in;
	/* The session's thread does the last reading, under `lock`. */
	pthread_mutex_t lock;
	bool last_read;
};

/* State of the signal handlers; there is one terminal. */
static struct screen *screen_in_use;
static int signal_pipe = -1;

static void on_signal(int number)
{
	uint64_t one = number == SIGWINCH || number == SIGCONT ? 1 : 1 << 16;
	int error = errno;

	if (write(signal_pipe, &one, sizeof(one)) < 0)
		errno = error; /* the counter is full, so it is readable */
	errno = error;
}

static void on_crash(int number)
{
	if (screen_in_use)
		screen_give_back(screen_in_use);
	signal(number, SIG_DFL);
	raise(number);
}

/* Replace the session's handlers, which are for a recording in a terminal's foreground. */
static void take_signals(void)
{
	static const int ends[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGWINCH, SIGCONT};
	static const int crashes[] = {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL};
	struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};

	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
		sigaction(ends[i], &action, NULL);
	action.sa_handler = on_crash;
	for (size_t i = 0; i < sizeof(crashes) / sizeof(crashes[0]); i++)
		sigaction(crashes[i], &action, NULL);
}

/* Take the rows of the last reading, in the order that is wanted now. */
static int arrange_rows(struct show *show)
{
	size_t count;

	show->rows.rows = counting_rows(&show->counting, show->top.watched != PROFILE_NONE, &count);
	show->rows.count = count;
	if (!show->rows.rows)
		return -ENOMEM;
	if (top_sorts_by_percentile(&show->top) && counting_measure(&show->counting, show->rows.rows, count) == -ENOMEM)
		return -ENOMEM;
	top_arrange(&show->top, &show->rows);
	return 0;
}

static int read_all(struct show *show)
{
	int ret = counting_read(&show->counting), arranged;

	if (ret && ret != -ESRCH)
		return ret;
	arranged = arrange_rows(show);
	return arranged ? arranged : ret;
}

/* Called by the session's thread when all has been recorded. */
static void on_ending(void *ctx)
{
	struct show *show = ctx;
	size_t count;

	pthread_mutex_lock(&show->lock);
	if (!read_all(show)) {
		show->last_read = true;
		count = show->rows.count;
		if (show->top.watched == PROFILE_NONE)
			(void)!counting_measure(&show->counting, show->rows.rows, count);
	}
	pthread_mutex_unlock(&show->lock);
}

static struct top_heading heading_of(struct show *show)
{
	return (struct top_heading){
		.what = show->watching.what,
		.totals = counting_totals(&show->counting),
		.elapsed_ns = now_ns() - show->began_ns,
		.ended = watching_ended(&show->watching),
	};
}

static int draw_screen(struct show *show)
{
	struct top_heading heading = heading_of(show);
	size_t first, count;

	top_place(&show->top, show->screen, &show->rows, &first, &count);
	if (show->top.watched == PROFILE_NONE &&
	    counting_measure(&show->counting, show->rows.rows + first, count) == -ENOMEM)
		return -ENOMEM;
	top_draw(&show->top, show->screen, &heading, &show->rows);
	return screen_show(show->screen);
}

static int print_reading(struct show *show)
{
	struct top_heading heading = heading_of(show);
	size_t count = show->rows.count;

	if (show->row_limit && show->row_limit < count)
		count = show->row_limit;
	if (counting_measure(&show->counting, show->rows.rows, count) == -ENOMEM)
		return -ENOMEM;
	(show->json ? top_print_json : top_print)(&show->top, &heading, &show->rows, show->row_limit, show->out);
	show->readings++;
	return out_flush(show->out);
}

enum step { DRAW, ARRANGE, READ };

/* Show the table, after this step and the ones behind it. */
static int refresh_rows(struct show *show, enum step step)
{
	int ret = 0;

	pthread_mutex_lock(&show->lock);
	if (step == READ && !show->last_read)
		ret = read_all(show);
	else if (step != DRAW)
		ret = arrange_rows(show);
	if (ret == -ESRCH)
		ret = 0;
	if (!ret)
		ret = show->screen ? draw_screen(show) : print_reading(show);
	pthread_mutex_unlock(&show->lock);
	return ret;
}

static int act_on_key(struct show *show, enum top_action action, bool *quit)
{
	int ret = 0;

	switch (action) {
	case TOP_QUIT:
		*quit = true;
		return 0;
	case TOP_RESET:
		pthread_mutex_lock(&show->lock);
		ret = counting_reset(&show->counting);
		pthread_mutex_unlock(&show->lock);
		return ret ? ret : refresh_rows(show, READ);
	case TOP_WATCH:
		pthread_mutex_lock(&show->lock);
		counting_watch(&show->counting, show->top.watched);
		pthread_mutex_unlock(&show->lock);
		return refresh_rows(show, READ);
	case TOP_READ:
		return refresh_rows(show, READ);
	case TOP_ARRANGE:
		return refresh_rows(show, ARRANGE);
	case TOP_REDRAW:
		return refresh_rows(show, DRAW);
	default:
		return 0;
	}
}

static int take_keys(struct show *show, bool *quit)
{
	int key, ret = 0;

	while (!ret && !*quit && (key = screen_key(show->screen)) != SCREEN_KEY_NONE) {
		enum top_action action;

		if (key < 0)
			return key;
		pthread_mutex_lock(&show->lock);
		action = top_key(&show->top, key, &show->rows);
		pthread_mutex_unlock(&show->lock);
		ret = act_on_key(show, action, quit);
	}
	return ret;
}

/* Wait for keys, signals, the end or `until`. */
static int wait_for_news(struct show *show, uint64_t until, bool *quit)
{
	struct pollfd news[] = {{signal_pipe, POLLIN, 0},
				{show->watching.done, POLLIN, 0},
				{show->screen ? show->terminal_in : -1, POLLIN, 0}};
	uint64_t now = now_ns();
	eventfd_t signals = 0;
	int ret = 0;

	if (poll(news, 3, until > now ? (int)((until - now + 999999) / 1000000) : 0) <= 0)
		return 0;
	if (news[0].revents && !eventfd_read(signal_pipe, &signals)) {
		*quit |= signals >> 16 != 0;
		if (show->screen && !*quit)
			ret = screen_refresh(show->screen);
		if (show->screen && !ret && !*quit)
			ret = refresh_rows(show, DRAW);
	}
	if (!ret && !*quit && news[2].revents)
		ret = take_keys(show, quit);
	return ret;
}

/* Wait until the session is there, or has ended, or the user quits. */
static int wait_for_session(struct show *show, bool *quit)
{
	int ret = -ESRCH;

	while (ret == -ESRCH && !*quit && !watching_ended(&show->watching)) {
		pthread_mutex_lock(&show->lock);
		ret = show->last_read ? 0 : counting_read(&show->counting);
		pthread_mutex_unlock(&show->lock);
		if (ret == -ESRCH)
			ret = wait_for_news(show, now_ns() + 10000000, quit) ? 0 : -ESRCH;
	}
	return ret == -ESRCH ? 0 : ret;
}

static bool has_printed_all(const struct show *show)
{
	return !show->screen && show->readings_max && show->readings >= show->readings_max;
}

/* The step to the last table, once the recording has ended: of an instance the rest of its records is counted now. */
static enum step final_step(struct show *show)
{
	counting_finish(&show->counting);
	return show->counting.tally ? READ : DRAW;
}

/* An interval of tables begins when the first process is traced: to get into one that runs takes a moment. */
static int wait_for_traced(struct show *show, bool *quit)
{
	int ret = 0;

	while (!ret && !*quit && !show->counting.tally && !watching_ended(&show->watching) &&
	       !record_live_traces(show->watching.live))
		ret = wait_for_news(show, now_ns() + 10000000, quit);
	return ret;
}

static int show_loop(struct show *show, bool *quit)
{
	int ret = show->screen ? 0 : wait_for_traced(show, quit);
	uint64_t next = now_ns() + (show->screen ? 0 : show->interval_ns);

	while (!ret && !*quit && !watching_ended(&show->watching)) {
		uint64_t now = now_ns();

		if (now < next) {
			ret = wait_for_news(show, next, quit);
			continue;
		}
		next = next + show->interval_ns > now ? next + show->interval_ns : now + show->interval_ns;
		ret = refresh_rows(show, show->top.paused ? DRAW : READ);
		if (has_printed_all(show))
			return ret;
	}
	/* On a terminal the last table stays until a key; otherwise print it and end. */
	return ret || *quit || show->screen ? ret : refresh_rows(show, final_step(show));
}

/* Show the table as it was at the end, until the user quits. */
static int linger_on_end(struct show *show)
{
	bool quit = false;
	int ret;

	snprintf(show->top.message, sizeof(show->top.message), "%s has ended: this is what was counted; q quits",
		 show->watching.what);
	ret = refresh_rows(show, final_step(show));
	while (!ret && !quit)
		ret = wait_for_news(show, now_ns() + 1000000000, &quit);
	return ret;
}

/* End the recording; a command gets a moment to end. */
static void stop_recording(struct show *show)
{
	uint64_t until = now_ns() + STOP_NS;
	struct pollfd done = {show->watching.done, POLLIN, 0};

	if (watching_ended(&show->watching))
		return;
	watching_stop(&show->watching);
	while (!watching_ended(&show->watching) && now_ns() < until)
		(void)poll(&done, 1, 50);
	if (!watching_ended(&show->watching))
		watching_stop(&show->watching);
}

/*
 * The program must not write onto the table: its outputs, where they are this process' terminal or standard output, go
 * elsewhere.  Descriptors for the table are kept.
 */
static int part_outputs(struct show *show)
{
	bool command = !show->watching.pids;
	const char *path = show->program_output ? show->program_output : "/dev/null";
	int sink;

	show->terminal_in = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
	show->terminal_out = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
	if (!command)
		return 0;
	sink = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	if (sink < 0) {
		fprintf(stderr, "calltap: cannot open '%s': %s\n", path, strerror(errno));
		return -errno;
	}
	dup2(sink, STDOUT_FILENO);
	if (show->program_output || (!show->batch && isatty(STDERR_FILENO)))
		dup2(sink, STDERR_FILENO);
	close(sink);
	if (!show->batch) {
		sink = open("/dev/null", O_RDONLY | O_CLOEXEC);
		dup2(sink, STDIN_FILENO);
		close(sink);
	}
	return 0;
}

static int begin_show(struct show *show, struct calltap_diag *diag)
{
	int ret = counting_create(&show->counting, &show->watching);

	if (ret)
		return calltap_diag_set(diag, ret, "not enough memory");
	signal_pipe = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (signal_pipe < 0)
		return calltap_diag_set(diag, -errno, "cannot make an event descriptor: %s", strerror(errno));
	show->began_ns = now_ns();
	ret = watching_start(&show->watching);
	return ret ? calltap_diag_set(diag, ret, "nothing can be watched") : 0;
}

/* True if nothing was watched: the reason will be told, and there is no table. */
static bool never_ran(const struct show *show)
{
	return watching_ended(&show->watching) && !show->watching.result.ran;
}

/* Run from the first reading to the last; the terminal belongs to the table in between. */
static int run_show(struct show *show, struct calltap_diag *diag)
{
	bool quit = false;
	int ret = wait_for_session(show, &quit);

	take_signals();
	if (!ret && show->batch)
		ret = out_create_shared(&show->out, show->terminal_out);
	else if (!ret && !watching_ended(&show->watching))
		ret = screen_open(&show->screen, show->terminal_in, show->terminal_out, diag);
	screen_in_use = show->screen;
	if (!ret && (show->batch || show->screen) && !never_ran(show))
		ret = show_loop(show, &quit);
	if (!ret && !quit && show->screen)
		ret = linger_on_end(show);
	stop_recording(show);
	screen_in_use = NULL;
	screen_close(show->screen);
	out_destroy(show->out);
	if (ret && ret != -EPIPE && ret != -EIO && !diag->code)
		return calltap_diag_set(diag, ret, "the table cannot be shown: %s", strerror(-ret));
	return ret == -EPIPE || ret == -EIO ? 0 : ret;
}

/* Tell of an instance's records that nobody counted; tables lose nothing on the way. */
static void tell_lost(struct show *show)
{
	uint64_t lost = counting_totals(&show->counting).lost;

	if (!show->counting.tally)
		return;
	watching_take_losses(&show->watching, tally_trace(show->counting.tally));
	show->watching.result.lost = 0;
	if (lost)
		fprintf(stderr, "calltap: %llu %s not counted; fewer functions (-l, -n) help\n",
			(unsigned long long)lost,
			counted(lost, "record was lost, and its call is", "records were lost, and their calls are"));
}

/*
 * A process that is traced already gets a further instance, whose records are counted here: the table of a tracer
 * `profile` is in the first instance's rings alone.
 */
static int join_recording(struct show *show)
{
	struct watching *watching = &show->watching;
	struct record_options *options = &watching->recording.settings.options;
	size_t size = strlen(watching->what);
	int ret = watching_join(watching);

	if (ret || !watching_joins(watching))
		return ret;
	options->tracer = tracer_find("function_graph");
	options->mode = CALLTAP_MODE_DROP;
	snprintf(watching->what + size, sizeof(watching->what) - size, ", from records");
	watching->memory = memfd_create("calltap-top", MFD_CLOEXEC);
	if (watching->memory >= 0)
		return 0;
	fprintf(stderr, "calltap: cannot make memory for the records: %s\n", strerror(errno));
	return EXIT_USAGE;
}

static int run_top(struct show *show)
{
	struct record_options *options = &show->watching.recording.settings.options;
	struct calltap_diag diag = {0};
	int kept_error = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3), ret, status = EXIT_USAGE;

	options->output = NULL;
	options->ending = on_ending;
	options->ending_ctx = show;
	options->progress = false;
	ret = part_outputs(show);
	if (ret)
		return EXIT_USAGE;
	ret = begin_show(show, &diag);
	if (!ret)
		ret = run_show(show, &diag);
	dup2(kept_error, STDERR_FILENO);
	close(kept_error);
	tell_lost(show);
	if (show->watching.runs)
		status = watching_finish(&show->watching);
	if (ret)
		calltap_diag_print(&diag, stderr);
	counting_destroy(&show->counting);
	return ret ? EXIT_USAGE : status;
}

static int take_number(uint64_t *value, const char *what)
{
	struct calltap_diag diag;

	if (!parse_number(value, optarg, UINT32_MAX, what, &diag))
		return 0;
	calltap_diag_print(&diag, stderr);
	return EXIT_USAGE;
}

static int take_interval(struct show *show)
{
	struct calltap_diag diag = {0};
	int ret = parse_duration(&show->interval_ns, optarg, &diag);

	if (!ret && show->interval_ns < INTERVAL_MIN_NS)
		ret = calltap_diag_set(&diag, -EINVAL, "'%s' is no interval: give 50ms or more", optarg);
	if (ret)
		calltap_diag_print(&diag, stderr);
	return ret ? EXIT_USAGE : 0;
}

static int take_option(struct show *show, int code)
{
	struct calltap_diag diag;

	switch (code) {
	case 'f':
		snprintf(show->top.filter, sizeof(show->top.filter), "%s", optarg);
		return 0;
	case 's':
		if (!top_parse_column(&show->top.sort, optarg, &diag))
			return 0;
		calltap_diag_print(&diag, stderr);
		return EXIT_USAGE;
	case 'i':
		return take_interval(show);
	case 'r':
		return take_number(&show->row_limit, "--rows");
	case 'b':
		show->batch = true;
		return take_number(&show->readings_max, "--batch");
	case OPT_ONCE:
		show->batch = true;
		show->readings_max = 1;
		return 0;
	case OPT_JSON:
		show->batch = show->json = true;
		return 0;
	case OPT_PROGRAM_OUTPUT:
		show->program_output = optarg;
		return 0;
	default:
		return recording_take(&show->watching.recording, code, optarg);
	}
}

int cmd_top(int argc, char **argv)
{
	struct show show = {.interval_ns = INTERVAL_NS, .row_limit = 20, .lock = PTHREAD_MUTEX_INITIALIZER};
	int code, ret = watching_init(&show.watching, argv);

	top_init(&show.top);
	show.watching.recording.settings.options.tracer = tracer_find("profile");
	show.watching.recording.settings.options.mode = CALLTAP_MODE_PROFILE;
	while (!ret && (code = recording_next(RECORDING_TOP, argc, argv)) != -1) {
		if (code == OPT_HELP) {
			print_help();
			watching_clear(&show.watching);
			return 0;
		}
		ret = take_option(&show, code);
	}
	if (!ret)
		ret = watching_target(&show.watching, argc, argv, "top");
	if (!ret)
		ret = recording_check(&show.watching.recording, argc, argv, optind);
	if (!ret)
		ret = join_recording(&show);
	show.batch |= !isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO);
	if (!ret)
		ret = run_top(&show);
	watching_clear(&show.watching);
	return ret;
}
