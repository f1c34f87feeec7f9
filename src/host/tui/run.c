/* The loop of `calltap tui`; see run.h.  Context: host. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <host/now.h>
#include <host/terminal/signals.h>

#include "draw.h"
#include "run.h"

#define QUIET_NS 300000000u /* a pass that is shorter shows no progress */
#define STEP_NS	 100000000u

struct running {
	struct tui tui;
	struct terminal *terminal;
	int signals;
	bool opened, quit;
	uint64_t pass_ns, shown_ns; /* when the pass began, when its progress was shown */
};

/* Keys that were pressed while a pass runs: some of them stop it, others are lost. */
static int take_stop(struct running *running)
{
	int key;

	while ((key = terminal_key(running->terminal)) != TERMINAL_KEY_NONE) {
		if (key < 0)
			return key;
		if (key == TERMINAL_KEY_ESCAPE || key == 3 || key == 'q')
			return -ECANCELED;
	}
	return 0;
}

static void take_signals(struct running *running)
{
	running->quit |= (terminal_signals_act(running->terminal) & TERMINAL_NEWS_END) != 0;
}

static int tell(void *ctx, unsigned percent)
{
	struct running *running = ctx;
	uint64_t now = now_ns();
	int err;

	if (now - running->shown_ns < STEP_NS)
		return 0;
	running->shown_ns = now;
	take_signals(running);
	err = running->quit ? -ECANCELED : take_stop(running);
	if (!err && now - running->pass_ns >= QUIET_NS)
		draw_progress(running->terminal, percent, !running->opened);
	return err;
}

static int take_keys(struct running *running)
{
	int key, err = 0;

	while (!err && !running->quit && (key = terminal_key(running->terminal)) != TERMINAL_KEY_NONE) {
		unsigned row, column;

		running->pass_ns = running->shown_ns = now_ns();
		if (key < 0)
			return key;
		if (key == TERMINAL_KEY_SUSPEND) {
			terminal_signals_stop(running->terminal);
		} else if (key == TERMINAL_KEY_CLICK) {
			terminal_click(running->terminal, &row, &column);
			if (row >= DRAW_HEAD_ROWS && row + 1 < terminal_rows(running->terminal))
				err = tui_click(&running->tui, row - DRAW_HEAD_ROWS);
		} else {
			err = tui_key(&running->tui, key, &running->quit);
		}
	}
	return err;
}

static int loop(struct running *running)
{
	int err = 0;

	while (!err && !running->quit) {
		struct pollfd news[] = {{running->signals, POLLIN, 0}, {STDIN_FILENO, POLLIN, 0}};

		draw_tui(&running->tui, running->terminal);
		if (poll(news, 2, -1) < 0 && errno != EINTR)
			return -errno;
		if (news[0].revents)
			take_signals(running);
		if (news[1].revents && !running->quit)
			err = take_keys(running);
	}
	return err;
}

int tui_run(const struct trace *trace, const struct view_filter *filter, bool color, struct walk *walk,
	    struct calltap_diag *diag)
{
	struct running running = {.pass_ns = now_ns()};
	struct terminal_options options = {.size = sizeof(options),
					   .in = STDIN_FILENO,
					   .out = STDOUT_FILENO,
					   .color = color,
					   .mouse = true,
					   .instead = TUI_INSTEAD};
	int err = terminal_signals_take(&running.signals);

	if (err)
		return calltap_diag_set(diag, err, "signals cannot be taken: %s", strerror(-err));
	err = terminal_open(&running.terminal, &options, diag);
	if (err)
		return err;
	terminal_signals_of(running.terminal);
	err = tui_open(&running.tui, trace, filter, walk, tell, &running, diag);
	running.opened = !err;
	if (!err)
		err = loop(&running);
	tui_close(&running.tui);
	terminal_signals_of(NULL);
	terminal_close(running.terminal);
	terminal_signals_end();
	/* The user's stop, or a terminal that is gone. */
	if (!err || err == -ECANCELED || err == -EIO)
		return 0;
	return diag->code ? err : calltap_diag_set(diag, err, "the trace cannot be shown: %s", strerror(-err));
}
