/*
 * `calltap top`: a table of the functions that run most, while they run.
 *
 * Caller: main.  Context: host.  The recording runs in a thread of its own (watching.h) and keeps no trace; the main
 * thread reads its tables in intervals.  The terminal is given back however this ends.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <calltap/abi/profile.h>
#include <host/counted.h>
#include <host/now.h>
#include <host/terminal/signals.h>
#include <host/view/out.h>
#include <host/view/parse.h>
#include <host/view/term.h>
#include <host/view/top.h>
#include <tracers/tracer.h>

#include "cmd.h"
#include "counting.h"
#include "watching.h"

#define INTERVAL_NS	1000000000u
#define INTERVAL_MIN_NS 50000000u
#define INSTEAD		"'calltap top --batch N' prints the table as text"

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
	struct terminal *screen; /* NULL: batch */
	struct out *out;	 /* of batch */
	uint64_t interval_ns, began_ns;
	uint64_t readings, readings_max; /* of batch; max 0 = no limit */
	uint64_t row_limit;
	bool batch, json;
	const char *program_output;
	int terminal_out; /* the terminal or pipe that shows the table */
	int terminal_in;
	int signals; /* readable when one came */
	enum term_color color;
	/* The session's thread does the last reading, under `lock`. */
	pthread_mutex_t lock;
	bool last_read;
};

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
	terminal_show(show->screen);
	return 0;
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

static enum top_action click_action(struct show *show)
{
	unsigned row, column;

	terminal_click(show->screen, &row, &column);
	return row < TOP_HEAD_ROWS ? TOP_NOTHING : top_click(&show->top, row - TOP_HEAD_ROWS, &show->rows);
}

static int take_keys(struct show *show, bool *quit)
{
	int key, ret = 0;

	while (!ret && !*quit && (key = terminal_key(show->screen)) != TERMINAL_KEY_NONE) {
		enum top_action action;

		if (key < 0)
			return key;
		if (key == TERMINAL_KEY_SUSPEND) {
			terminal_signals_stop(show->screen);
			ret = refresh_rows(show, DRAW);
			continue;
		}
		pthread_mutex_lock(&show->lock);
		action = key == TERMINAL_KEY_CLICK ? click_action(show) : top_key(&show->top, key, &show->rows);
		pthread_mutex_unlock(&show->lock);
		ret = act_on_key(show, action, quit);
	}
	return ret;
}

static int take_signals(struct show *show, bool *quit)
{
	unsigned news = show->screen ? terminal_signals_act(show->screen) : terminal_signals_news();

	*quit |= (news & TERMINAL_NEWS_END) != 0;
	return show->screen && !*quit ? refresh_rows(show, DRAW) : 0;
}

/* Wait for keys, signals, the end or `until`. */
static int wait_for_news(struct show *show, uint64_t until, bool *quit)
{
	struct pollfd news[] = {{show->signals, POLLIN, 0},
				{show->watching.done, POLLIN, 0},
				{show->screen ? show->terminal_in : -1, POLLIN, 0}};
	uint64_t now = now_ns();
	int ret = 0;

	if (poll(news, 3, until > now ? (int)((until - now + 999999) / 1000000) : 0) <= 0)
		return 0;
	if (news[0].revents)
		ret = take_signals(show, quit);
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

static int begin_show(struct show *show, struct calltap_diag *diag)
{
	int ret = counting_create(&show->counting, &show->watching);

	if (ret)
		return calltap_diag_set(diag, ret, "not enough memory");
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
	struct terminal_options options = {.size = sizeof(options),
					   .in = show->terminal_in,
					   .out = show->terminal_out,
					   .color = term_wants_color(show->color, show->terminal_out),
					   .mouse = true,
					   .instead = INSTEAD};

	/* The session's handlers, which are for a recording in a terminal's foreground, have done their part. */
	if (terminal_signals_take(&show->signals))
		ret = calltap_diag_set(diag, -EMFILE, "cannot make an event descriptor");
	if (!ret && show->batch)
		ret = out_create_shared(&show->out, show->terminal_out);
	else if (!ret && !watching_ended(&show->watching))
		ret = terminal_open(&show->screen, &options, diag);
	terminal_signals_of(show->screen);
	if (!ret && (show->batch || show->screen) && !never_ran(show))
		ret = show_loop(show, &quit);
	if (!ret && !quit && show->screen)
		ret = linger_on_end(show);
	watching_end(&show->watching);
	terminal_signals_of(NULL);
	terminal_close(show->screen);
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
	int ret, status = EXIT_USAGE;

	options->output = NULL;
	options->ending = on_ending;
	options->ending_ctx = show;
	options->progress = false;
	if (!show->batch && terminal_is_dumb(INSTEAD, &diag)) {
		calltap_diag_print(&diag, stderr);
		return EXIT_USAGE;
	}
	if (watching_part_outputs(&show->watching, show->program_output, !show->batch, &show->terminal_in,
				  &show->terminal_out))
		return EXIT_USAGE;
	ret = begin_show(show, &diag);
	if (!ret)
		ret = run_show(show, &diag);
	watching_join_error(&show->watching);
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
	case OPT_COLOR:
		if (!term_parse_color(&show->color, optarg, &diag))
			return 0;
		calltap_diag_print(&diag, stderr);
		return EXIT_USAGE;
	case OPT_PROGRAM_OUTPUT:
		show->program_output = optarg;
		return 0;
	default:
		return recording_take(&show->watching.recording, code, optarg);
	}
}

int cmd_top(int argc, char **argv)
{
	struct show show = {
		.interval_ns = INTERVAL_NS, .row_limit = 20, .signals = -1, .lock = PTHREAD_MUTEX_INITIALIZER};
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
