/*
 * The terminal by ncurses; see terminal.h.  Context: host.
 *
 * ncurses writes wide characters by the thread's locale, and so each call to it that may write some is made in a locale
 * of UTF-8, whatever the user's is.
 */
#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>
#include <wchar.h>

#define NCURSES_WIDECHAR 1
#include <curses.h>
#include <term.h>
#undef columns /* the header names capabilities by macros */

#include "terminal.h"
#include <host/utf8.h>

#define ROWS_MAX    1000u
#define COLUMNS_MAX 2000u
#define ESCAPE_MS   25 /* bytes that follow an escape within this time belong to its key */

#define MOUSE_MAX 8 /* events that curses keeps */

struct terminal {
	SCREEN *curses;
	FILE *in_file, *out_file; /* of duplicates of in and out */
	int in, out;
	struct termios before;
	bool color;
	locale_t utf8; /* 0 = there is none, and other characters than ASCII's are not shown */
	int click_row, click_column;
	MEVENT mouse[MOUSE_MAX]; /* events that were told of and not taken, the oldest last */
	unsigned mouse_count;
	char leave[256]; /* the sequences that give the terminal back */
	size_t leave_size;
};

static locale_t enter_locale(const struct terminal *terminal)
{
	return terminal->utf8 ? uselocale(terminal->utf8) : (locale_t)0;
}

static void leave_locale(locale_t before)
{
	if (before)
		uselocale(before);
}

static int tell_unknown(const char *instead, struct calltap_diag *diag)
{
	return calltap_diag_set(diag, -ENOTTY, "the terminal '%s' is not known here: set TERM, or %s", getenv("TERM"),
				instead);
}

bool terminal_is_dumb(const char *instead, struct calltap_diag *diag)
{
	const char *name = getenv("TERM");
	int error;

	if (name && *name && strcmp(name, "dumb") != 0) {
		if (setupterm(name, STDOUT_FILENO, &error) != OK)
			return tell_unknown(instead, diag) != 0;
		del_curterm(cur_term);
		return false;
	}
	calltap_diag_set(diag, -ENOTTY, "TERM is '%s', a terminal without a screen: %s", name ? name : "", instead);
	return true;
}

/* Add a sequence to those that give the terminal back, without the delays in it that only old terminals need. */
static void add_leave(struct terminal *terminal, const char *text)
{
	if (!text || text == (const char *)-1)
		return;
	while (*text && terminal->leave_size < sizeof(terminal->leave)) {
		const char *end = text[0] == '$' && text[1] == '<' ? strchr(text, '>') : NULL;

		if (end)
			text = end + 1;
		else
			terminal->leave[terminal->leave_size++] = *text++;
	}
}

static void prepare_leave(struct terminal *terminal, bool mouse)
{
	static const char *const names[] = {"sgr0", "op", "rmkx", "cnorm", "rmcup"};

	if (mouse)
		add_leave(terminal, "\033[?1000l\033[?1006l");
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		add_leave(terminal, tigetstr(names[i]));
}

/* Terminals send either form of these keys, whatever their description says. */
static void define_keys(void)
{
	static const struct {
		const char *bytes;
		int key;
	} keys[] = {{"\033[A", KEY_UP},	    {"\033[B", KEY_DOWN},  {"\033[C", KEY_RIGHT}, {"\033[D", KEY_LEFT},
		    {"\033OA", KEY_UP},	    {"\033OB", KEY_DOWN},  {"\033OC", KEY_RIGHT}, {"\033OD", KEY_LEFT},
		    {"\033[H", KEY_HOME},   {"\033[F", KEY_END},   {"\033OH", KEY_HOME},  {"\033OF", KEY_END},
		    {"\033[1~", KEY_HOME},  {"\033[4~", KEY_END},  {"\033[7~", KEY_HOME}, {"\033[8~", KEY_END},
		    {"\033[5~", KEY_PPAGE}, {"\033[6~", KEY_NPAGE}};

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		define_key(keys[i].bytes, keys[i].key);
}

static void set_modes(struct terminal *terminal, const struct terminal_options *options)
{
	raw(); /* ^C and ^Z are keys */
	noecho();
	nonl();
	keypad(stdscr, TRUE);
	nodelay(stdscr, TRUE);
	meta(stdscr, TRUE);
	set_escdelay(ESCAPE_MS);
	define_keys();
	curs_set(0);
	terminal->color = options->color && has_colors() && start_color() == OK && use_default_colors() == OK;
	if (terminal->color) {
		init_pair(TERMINAL_HOT, COLOR_RED, -1);
		init_pair(TERMINAL_WARM, COLOR_YELLOW, -1);
		init_pair(TERMINAL_COOL, COLOR_CYAN, -1);
	}
	if (options->mouse) {
		mouseinterval(0); /* presses are told at once */
		mousemask(BUTTON1_PRESSED | BUTTON4_PRESSED | BUTTON5_PRESSED, NULL);
	}
}

static int open_files(struct terminal *terminal)
{
	int in = fcntl(terminal->in, F_DUPFD_CLOEXEC, 3), out = fcntl(terminal->out, F_DUPFD_CLOEXEC, 3);

	terminal->in_file = in < 0 ? NULL : fdopen(in, "r");
	terminal->out_file = out < 0 ? NULL : fdopen(out, "w");
	if (terminal->in_file && terminal->out_file)
		return 0;
	if (in >= 0 && !terminal->in_file)
		close(in);
	if (out >= 0 && !terminal->out_file)
		close(out);
	return -ENOMEM;
}

static int start_curses(struct terminal *terminal, const struct terminal_options *options, struct calltap_diag *diag)
{
	locale_t before;

	if (tcgetattr(options->in, &terminal->before))
		return calltap_diag_set(diag, -errno, "this is no terminal: %s", options->instead);
	if (terminal_is_dumb(options->instead, diag))
		return -ENOTTY;
	if (open_files(terminal))
		return calltap_diag_set(diag, -ENOMEM, "the terminal cannot be opened: %s", strerror(errno));
	terminal->utf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
	before = enter_locale(terminal);
	terminal->curses = newterm(NULL, terminal->out_file, terminal->in_file);
	if (terminal->curses) {
		prepare_leave(terminal, options->mouse);
		set_modes(terminal, options);
		terminal_resize(terminal);
	}
	leave_locale(before);
	if (terminal->curses)
		return 0;
	(void)tcsetattr(terminal->in, TCSANOW, &terminal->before);
	return tell_unknown(options->instead, diag);
}

int terminal_open(struct terminal **out_terminal, const struct terminal_options *options, struct calltap_diag *diag)
{
	struct terminal *terminal = calloc(1, sizeof(*terminal));
	int ret;

	*out_terminal = NULL;
	if (!terminal)
		return calltap_diag_set(diag, -ENOMEM, "not enough memory for the screen");
	terminal->in = options->in;
	terminal->out = options->out;
	ret = start_curses(terminal, options, diag);
	if (ret) {
		terminal_close(terminal);
		return ret;
	}
	*out_terminal = terminal;
	return 0;
}

void terminal_give_back(const struct terminal *terminal)
{
	ssize_t written = write(terminal->out, terminal->leave, terminal->leave_size);

	(void)written; /* no remedy for a terminal that takes no more */
	(void)tcsetattr(terminal->in, TCSANOW, &terminal->before);
}

void terminal_leave(struct terminal *terminal)
{
	endwin();
	(void)tcsetattr(terminal->in, TCSANOW, &terminal->before);
}

void terminal_close(struct terminal *terminal)
{
	if (!terminal)
		return;
	if (terminal->curses) {
		terminal_leave(terminal);
		delscreen(terminal->curses);
	}
	if (terminal->in_file)
		(void)fclose(terminal->in_file);
	if (terminal->out_file)
		(void)fclose(terminal->out_file);
	if (terminal->utf8)
		freelocale(terminal->utf8);
	free(terminal);
}

void terminal_resize(struct terminal *terminal)
{
	struct winsize size = {0};

	if (ioctl(terminal->out, TIOCGWINSZ, &size) || !size.ws_row || !size.ws_col)
		size = (struct winsize){.ws_row = 24, .ws_col = 80};
	resize_term(size.ws_row < ROWS_MAX ? size.ws_row : (int)ROWS_MAX,
		    size.ws_col < COLUMNS_MAX ? size.ws_col : (int)COLUMNS_MAX);
	clearok(curscr, TRUE);
}

void terminal_retake(struct terminal *terminal)
{
	locale_t before = enter_locale(terminal);

	/* Another program may have left the terminal in any state, so ncurses leaves it and enters it again. */
	if (!isendwin())
		endwin();
	refresh();
	leave_locale(before);
	terminal_resize(terminal);
}

unsigned terminal_rows(const struct terminal *terminal)
{
	return (unsigned)getmaxy(stdscr);
}

unsigned terminal_columns(const struct terminal *terminal)
{
	return (unsigned)getmaxx(stdscr);
}

void terminal_clear(struct terminal *terminal)
{
	erase();
}

/*
 * Take the next character of a text, and tell its columns.  What takes no column, and what is no character, becomes
 * '?'.
 */
static const char *next_character(const char *text, wchar_t *character, int *columns)
{
	size_t length = utf8_length(text);
	uint32_t code = (unsigned char)text[0];

	if (length > 1)
		code &= 0x7fu >> length;
	for (size_t i = 1; i < length; i++)
		code = code << 6 | ((unsigned char)text[i] & 0x3fu);
	*character = (wchar_t)code;
	*columns = length && !utf8_is_control(text, length) ? wcwidth(*character) : 0;
	if (*columns <= 0) {
		*character = L'?';
		*columns = 1;
	}
	return text + (length ? length : 1);
}

static unsigned columns_of(const char *text, unsigned enough)
{
	unsigned columns = 0;
	wchar_t character;
	int width;

	while (*text && columns < enough) {
		text = next_character(text, &character, &width);
		columns += (unsigned)width;
	}
	return columns;
}

static attr_t attributes_of(const struct terminal *terminal, enum terminal_style style, short *pair)
{
	static const attr_t attributes[TERMINAL_STYLES] = {A_NORMAL, A_BOLD,   A_REVERSE, A_DIM,
							   A_BOLD,   A_NORMAL, A_NORMAL};

	*pair = terminal->color && style >= TERMINAL_HOT ? (short)style : 0;
	return attributes[style];
}

unsigned terminal_put(struct terminal *terminal, unsigned row, unsigned column, const char *text, unsigned width,
		      bool right, enum terminal_style style)
{
	unsigned columns = terminal_columns(terminal), room = column < columns ? columns - column : 0, used = 0;
	locale_t before = enter_locale(terminal);
	wchar_t cells[COLUMNS_MAX];
	unsigned count = 0, pad = 0;
	short pair;
	attr_t attributes = attributes_of(terminal, style, &pair);

	room = room < width ? room : width;
	if (right && columns_of(text, width) < width)
		pad = width - columns_of(text, width);
	while (used < room) {
		wchar_t character = L' ';
		int wide = 1;

		if (pad)
			pad--;
		else if (*text)
			text = next_character(text, &character, &wide);
		if (used + (unsigned)wide > room) /* half of a wide character */
			character = L' ';
		cells[count++] = character;
		used += (unsigned)wide;
	}
	if (row < terminal_rows(terminal) && count) {
		attr_set(attributes, pair, NULL);
		mvaddnwstr((int)row, (int)column, cells, (int)count);
		attr_set(A_NORMAL, 0, NULL);
	}
	leave_locale(before);
	return column + width;
}

void terminal_put_lines(struct terminal *terminal, unsigned row, unsigned column, const char *const *texts,
			unsigned count)
{
	unsigned width = terminal_columns(terminal) > column ? terminal_columns(terminal) - column : 0;

	for (unsigned i = 0; i < count; i++)
		terminal_put(terminal, row + i, column, texts[i], width, false, TERMINAL_PLAIN);
}

void terminal_put_last(struct terminal *terminal, const char *prompt, const char *typed, const char *message,
		       const char *keys)
{
	const unsigned row = terminal_rows(terminal) - 1, width = terminal_columns(terminal);
	char line[512];

	if (prompt)
		snprintf(line, sizeof(line), "%s: %s_", prompt, typed);
	terminal_put(terminal, row, 0,
		     prompt	  ? line
		     : message[0] ? message
				  : keys,
		     width, false, prompt || message[0] ? TERMINAL_BOLD : TERMINAL_DIM);
}

void terminal_show(struct terminal *terminal)
{
	locale_t before = enter_locale(terminal);

	refresh();
	leave_locale(before);
}

/* Curses may tell of several events by one key, and hands out the newest one first. */
static void read_mouse(struct terminal *terminal)
{
	MEVENT event;

	while (terminal->mouse_count < MOUSE_MAX && getmouse(&event) == OK)
		terminal->mouse[terminal->mouse_count++] = event;
}

/* The oldest of the mouse's events that were not taken. */
static int mouse_key(struct terminal *terminal)
{
	MEVENT event;

	if (!terminal->mouse_count)
		return TERMINAL_KEY_OTHER;
	event = terminal->mouse[--terminal->mouse_count];
	terminal->click_row = event.y;
	terminal->click_column = event.x;
	return event.bstate & BUTTON1_PRESSED	? TERMINAL_KEY_CLICK
	       : event.bstate & BUTTON4_PRESSED ? TERMINAL_KEY_WHEEL_UP
	       : event.bstate & BUTTON5_PRESSED ? TERMINAL_KEY_WHEEL_DOWN
						: TERMINAL_KEY_OTHER;
}

void terminal_click(const struct terminal *terminal, unsigned *row, unsigned *column)
{
	*row = (unsigned)terminal->click_row;
	*column = (unsigned)terminal->click_column;
}

static int key_of(struct terminal *terminal, int key)
{
	static const struct {
		int curses, key;
	} known[] = {{KEY_UP, TERMINAL_KEY_UP},		{KEY_DOWN, TERMINAL_KEY_DOWN},
		     {KEY_LEFT, TERMINAL_KEY_LEFT},	{KEY_RIGHT, TERMINAL_KEY_RIGHT},
		     {KEY_PPAGE, TERMINAL_KEY_PAGE_UP}, {KEY_NPAGE, TERMINAL_KEY_PAGE_DOWN},
		     {KEY_HOME, TERMINAL_KEY_HOME},	{KEY_END, TERMINAL_KEY_END},
		     {KEY_ENTER, TERMINAL_KEY_ENTER},	{KEY_BACKSPACE, TERMINAL_KEY_BACKSPACE},
		     {'\n', TERMINAL_KEY_ENTER},	{'\b', TERMINAL_KEY_BACKSPACE}};

	if (key == KEY_MOUSE) {
		read_mouse(terminal);
		return mouse_key(terminal);
	}
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (known[i].curses == key)
			return known[i].key;
	return key > 0 && key < 256 ? key : TERMINAL_KEY_OTHER;
}

static int next_key(void)
{
	int key;

	do
		key = getch();
	while (key == KEY_RESIZE); /* terminal_resize() asks for the size itself */
	return key;
}

/* An escape is a key, or begins the sequence of a key that is not known here, which is read to its end. */
static int after_escape(void)
{
	int key = next_key();

	if (key != '[' && key != 'O') {
		if (key != ERR)
			ungetch(key);
		return TERMINAL_KEY_ESCAPE;
	}
	key = next_key();
	if (key == ERR)
		return TERMINAL_KEY_ESCAPE;
	if (key == 'M') { /* a mouse of another kind than the terminal's description tells */
		(void)next_key();
		(void)next_key();
		(void)next_key();
		return TERMINAL_KEY_OTHER;
	}
	while (key != ERR && key < 0x40)
		key = next_key();
	return TERMINAL_KEY_OTHER;
}

int terminal_key(struct terminal *terminal)
{
	locale_t before;
	int key;
	struct pollfd gone = {terminal->in, POLLIN, 0};

	if (terminal->mouse_count)
		return mouse_key(terminal);
	before = enter_locale(terminal);
	key = next_key();
	if (key == TERMINAL_KEY_ESCAPE)
		key = after_escape();
	leave_locale(before);
	if (key == TERMINAL_KEY_OTHER)
		return key;
	if (key != ERR)
		return key_of(terminal, key);
	return poll(&gone, 1, 0) > 0 && gone.revents & (POLLHUP | POLLERR | POLLNVAL) ? -EIO : TERMINAL_KEY_NONE;
}
