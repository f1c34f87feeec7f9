/*
 * The screen of `calltap live --screen`; see live_screen.h.  Context: host.
 *
 *     row 0        the program, the time since the start, how many lines there were
 *     row 1        filter, pause, where the bar is
 *     row 2...     lines
 *     last row     keys, a message, or the text that is being typed
 */
#include <stdio.h>
#include <string.h>

#include <host/counted.h>
#include <host/terminal/edit.h>
#include <host/terminal/matching.h>
#include <host/text.h>

#include "live_screen.h"

#define HEAD_ROWS  2u
#define LINE_BYTES 512
#define SHIFT	   8u
#define SHIFT_MAX  (ROLL_BYTES / SHIFT * SHIFT)

int live_screen_init(struct live_screen *screen)
{
	memset(screen, 0, sizeof(*screen));
	screen->follows = true;
	return roll_create(&screen->roll);
}

void live_screen_clear(struct live_screen *screen)
{
	roll_destroy(screen->roll);
	screen->roll = NULL;
}

static void set_filter(struct live_screen *screen, const char *filter)
{
	snprintf(screen->filter, sizeof(screen->filter), "%s", filter);
	roll_filter(screen->roll, filter);
	screen->follows = true;
}

/* Go to the next line that has the text, or the one before. */
static void find(struct live_screen *screen, bool back)
{
	size_t count = roll_count(screen->roll), at = screen->list.bar;

	if (!screen->search[0]) {
		snprintf(screen->message, sizeof(screen->message), "nothing was searched for yet: /");
		return;
	}
	for (size_t i = 1; i <= count; i++) {
		size_t line = (back ? at + count - i : at + i) % count;

		if (matching_name(screen->search, roll_line(screen->roll, line))) {
			list_go(&screen->list, count, line);
			screen->follows = false;
			return;
		}
	}
	snprintf(screen->message, sizeof(screen->message), "no line has '%s'", screen->search);
}

static void edit(struct live_screen *screen, int key)
{
	const enum edit_state state = edit_key(screen->edited, sizeof(screen->edited), key);
	const bool filters = screen->editing == LIVE_EDITS_FILTER;

	if (state == EDIT_GOES_ON)
		return;
	screen->editing = LIVE_EDITS_NOTHING;
	if (state == EDIT_LEFT)
		return;
	if (filters) {
		set_filter(screen, screen->edited);
	} else {
		memcpy(screen->search, screen->edited, sizeof(screen->search));
		find(screen, true);
	}
}

static void begin_text(struct live_screen *screen, bool filters)
{
	screen->editing = filters ? LIVE_EDITS_FILTER : LIVE_EDITS_SEARCH;
	snprintf(screen->edited, sizeof(screen->edited), "%s", filters ? screen->filter : "");
}

static bool move(struct live_screen *screen, int key)
{
	size_t count = roll_count(screen->roll);

	key = key == 'g' ? TERMINAL_KEY_HOME : key == 'G' ? TERMINAL_KEY_END : key;
	if (!list_key(&screen->list, count, key))
		return false;
	screen->follows = key == TERMINAL_KEY_END || screen->list.bar + 1 >= count;
	return true;
}

static void other_key(struct live_screen *screen, int key)
{
	switch (key) {
	case '/':
	case '&':
		begin_text(screen, key == '&');
		break;
	case 'n':
	case 'N':
		find(screen, key == 'n'); /* the newest line is where one begins */
		break;
	case 'p':
	case ' ':
		screen->follows = !screen->follows;
		break;
	case TERMINAL_KEY_RIGHT:
		screen->shift += screen->shift < SHIFT_MAX ? SHIFT : 0;
		break;
	case TERMINAL_KEY_LEFT:
		screen->shift -= screen->shift ? SHIFT : 0;
		break;
	case TERMINAL_KEY_ESCAPE:
	case TERMINAL_KEY_BACKSPACE:
		if (screen->filter[0])
			set_filter(screen, "");
		screen->follows = true;
		break;
	default:
		if (key != TERMINAL_KEY_OTHER)
			snprintf(screen->message, sizeof(screen->message), "h lists the keys");
	}
}

void live_screen_key(struct live_screen *screen, int key, bool *quit)
{
	screen->message[0] = '\0';
	if (screen->editing != LIVE_EDITS_NOTHING) {
		edit(screen, key);
		return;
	}
	if (key == 'q' || key == 3) {
		*quit = true;
		return;
	}
	if (screen->help || key == 'h' || key == '?') {
		screen->help = !screen->help;
		return;
	}
	if (!move(screen, key))
		other_key(screen, key);
}

void live_screen_click(struct live_screen *screen, unsigned row)
{
	size_t line = screen->list.first + row - HEAD_ROWS;

	if (screen->help || row < HEAD_ROWS || line >= roll_count(screen->roll))
		return;
	list_go(&screen->list, roll_count(screen->roll), line);
	screen->follows = false;
}

static void draw_heading(const struct live_screen *screen, struct terminal *terminal,
			 const struct live_heading *heading)
{
	char line[LINE_BYTES], time[TIMETEXT_MAX];
	const unsigned width = terminal_columns(terminal);
	const uint64_t total = roll_total(screen->roll);
	const size_t count = roll_count(screen->roll);

	snprintf(line, sizeof(line), "calltap live: %.200s  %s%s  %llu %s", heading->what,
		 timetext(heading->elapsed_ns, time), heading->ended ? ", ended" : "", (unsigned long long)total,
		 counted(total, "line", "lines"));
	terminal_put(terminal, 0, 0, line, width, false, TERMINAL_BOLD);
	snprintf(line, sizeof(line), "%s%s%sline %zu of %zu, %s", screen->filter[0] ? "only " : "", screen->filter,
		 screen->filter[0] ? "  " : "", count ? screen->list.bar + 1 : 0, count,
		 heading->ended	   ? "no more will come"
		 : screen->follows ? "more as it comes"
				   : "HELD: what comes waits");
	if (heading->left_out)
		snprintf(line + strlen(line), sizeof(line) - strlen(line), "  %llu %s came too fast and %s not here",
			 (unsigned long long)heading->left_out, counted(heading->left_out, "record", "records"),
			 counted(heading->left_out, "is", "are"));
	terminal_put(terminal, 1, 0, line, width, false, screen->follows ? TERMINAL_PLAIN : TERMINAL_WARM);
}

static void draw_help(struct terminal *terminal)
{
	static const char *const texts[] = {
		"Up Down PgUp PgDn Home j k g mouse   walk back: no lines come then, and records wait (64 MiB)",
		"End, G, Esc   to the newest line, and on with what comes",
		"p, Space      hold the lines, or go on",
		"/ n N         search: a part of a line, or a glob; the one before; the next",
		"&             only lines that match; Esc: all again",
		"Left, Right   shift the lines",
		"q, ^C         end: a command is asked to end, a process goes on",
		"^Z            stop, until the shell goes on with it (fg)",
		"",
		"Lines are those of calltap replay; the newest 20,000 are here.",
		"any key: back",
	};

	terminal_put_lines(terminal, HEAD_ROWS, 1, texts, sizeof(texts) / sizeof(texts[0]));
}

/* The line without its first columns. */
static const char *shifted(const char *line, unsigned columns)
{
	for (; *line && columns; columns--)
		do
			line++;
		while (((unsigned char)*line & 0xc0) == 0x80);
	return line;
}

static void draw_last(const struct live_screen *screen, struct terminal *terminal)
{
	static const char *const prompts[] = {[LIVE_EDITS_SEARCH] = "Search (a part of the line, or a glob)",
					      [LIVE_EDITS_FILTER] = "Show only (a part of the line, or a glob)"};

	terminal_put_last(terminal, prompts[screen->editing], screen->edited, screen->message,
			  "q quit  p hold  / search  & filter  Esc newest  h help");
}

void live_screen_draw(struct live_screen *screen, struct terminal *terminal, const struct live_heading *heading)
{
	const unsigned rows = terminal_rows(terminal);
	const size_t page = rows > HEAD_ROWS + 1 ? rows - HEAD_ROWS - 1 : 1;
	size_t count;

	count = roll_count(screen->roll);
	if (screen->follows)
		list_go(&screen->list, count, count);
	list_place(&screen->list, count, page);
	terminal_clear(terminal);
	draw_heading(screen, terminal, heading);
	if (screen->help) {
		draw_help(terminal);
		terminal_show(terminal);
		return;
	}
	for (size_t i = 0; i < page && screen->list.first + i < count; i++) {
		size_t line = screen->list.first + i;
		bool bar = line == screen->list.bar && !screen->follows;

		terminal_put(terminal, HEAD_ROWS + (unsigned)i, 0,
			     shifted(roll_line(screen->roll, line), screen->shift), terminal_columns(terminal), false,
			     bar ? TERMINAL_REVERSE : TERMINAL_PLAIN);
	}
	if (!count)
		terminal_put(terminal, HEAD_ROWS, 2,
			     screen->filter[0] ? "no line matches" : "no traced call has come yet",
			     terminal_columns(terminal) > 2 ? terminal_columns(terminal) - 2 : 0, false, TERMINAL_DIM);
	draw_last(screen, terminal);
	terminal_show(terminal);
}
