/*
 * The grid and the terminal behind it; see screen.h.  Context: host.
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "out.h"
#include "screen.h"
#include <host/utf8.h>

#define ROWS_MAX    1000u
#define COLUMNS_MAX 2000u
#define KEYS_MAX    64
#define ESCAPE_MS   25 /* bytes that follow an escape within this time belong to its key */

/* The alternate screen, no cursor, no wrapping at the right edge. */
static const char enter_text[] = "\033[?1049h\033[?25l\033[?7l\033[0m\033[2J";
static const char leave_text[] = "\033[0m\033[?7h\033[?25h\033[?1049l";

struct cell {
	char text[4]; /* one character, not terminated when it takes all four */
	uint8_t style;
};

struct screen {
	int in;
	struct out *out;
	int fd; /* of out */
	struct termios before;
	unsigned rows, columns;
	struct cell *shown, *wanted; /* rows x columns each */
	char keys[KEYS_MAX];	     /* bytes that were read and not yet asked for */
	unsigned key_count;
};

static const struct cell blank = {" ", SCREEN_PLAIN};

static void fill_cells(struct cell *cells, const struct cell *with, size_t count)
{
	for (size_t i = 0; i < count; i++)
		cells[i] = *with;
}

static int take_size(struct screen *screen)
{
	struct winsize size = {0};
	struct cell *cells;
	unsigned rows, columns;

	if (ioctl(screen->fd, TIOCGWINSZ, &size) || !size.ws_row || !size.ws_col)
		size = (struct winsize){.ws_row = 24, .ws_col = 80};
	rows = size.ws_row < ROWS_MAX ? size.ws_row : ROWS_MAX;
	columns = size.ws_col < COLUMNS_MAX ? size.ws_col : COLUMNS_MAX;
	cells = calloc((size_t)rows * columns * 2, sizeof(*cells));
	if (!cells)
		return -ENOMEM;
	free(screen->shown);
	screen->shown = cells;
	screen->wanted = cells + (size_t)rows * columns;
	screen->rows = rows;
	screen->columns = columns;
	fill_cells(screen->shown, &blank, (size_t)rows * columns);
	screen_clear(screen);
	return 0;
}

static int take_terminal(struct screen *screen)
{
	struct termios raw = screen->before;

	/* ^C, ^Z and the like become keys; the output modes stay as they are. */
	raw.c_iflag &= ~(tcflag_t)(IXON | ICRNL | INLCR | IGNCR | ISTRIP);
	raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO | ISIG | IEXTEN);
	raw.c_cc[VMIN] = 0;
	raw.c_cc[VTIME] = 0;
	if (tcsetattr(screen->in, TCSANOW, &raw))
		return -errno;
	out_text(screen->out, enter_text);
	return out_flush(screen->out);
}

int screen_open(struct screen **out_screen, int in, int out, struct calltap_diag *diag)
{
	struct screen *screen = calloc(1, sizeof(*screen));
	int ret;

	*out_screen = NULL;
	if (!screen)
		return calltap_diag_set(diag, -ENOMEM, "not enough memory for the screen");
	screen->in = in;
	screen->fd = out;
	if (tcgetattr(in, &screen->before)) {
		ret = calltap_diag_set(diag, -errno, "this is no terminal: use --batch");
		free(screen);
		return ret;
	}
	ret = out_create(&screen->out, out);
	if (!ret)
		ret = take_size(screen);
	if (!ret)
		ret = take_terminal(screen);
	if (ret) {
		screen_close(screen);
		return calltap_diag_set(diag, ret, "the terminal cannot be used: %s", strerror(-ret));
	}
	*out_screen = screen;
	return 0;
}

void screen_give_back(const struct screen *screen)
{
	ssize_t written = write(screen->fd, leave_text, sizeof(leave_text) - 1);

	(void)written; /* no remedy for a terminal that takes no more */
	(void)tcsetattr(screen->in, TCSANOW, &screen->before);
}

void screen_close(struct screen *screen)
{
	if (!screen)
		return;
	if (screen->out) {
		out_discard(screen->out);
		screen_give_back(screen);
		(void)out_destroy(screen->out);
	}
	free(screen->shown);
	free(screen);
}

int screen_refresh(struct screen *screen)
{
	int ret = take_size(screen);

	return ret ? ret : take_terminal(screen);
}

unsigned screen_rows(const struct screen *screen)
{
	return screen->rows;
}

unsigned screen_columns(const struct screen *screen)
{
	return screen->columns;
}

void screen_clear(struct screen *screen)
{
	fill_cells(screen->wanted, &blank, (size_t)screen->rows * screen->columns);
}

/*
 * Take the next character of a text.  A character that takes two columns or none, or a byte that is no character,
 * becomes '?', so that each cell takes one column.
 */
static const char *next_cell(const char *text, struct cell *cell)
{
	size_t length = utf8_length(text);
	unsigned char first = (unsigned char)text[0], second = (unsigned char)text[1];
	/* Characters of one column: up to U+07FF, without combining marks (U+0300 to U+036F) and control characters. */
	bool narrow = length == 1 ? first >= 0x20 && first != 0x7f
				  : length == 2 && !(first == 0xc2 && second < 0xa0) && first != 0xcc &&
					    !(first == 0xcd && second < 0xb0);

	memset(cell->text, 0, sizeof(cell->text));
	if (narrow)
		memcpy(cell->text, text, length);
	else
		cell->text[0] = '?';
	return text + (length ? length : 1);
}

static unsigned columns_of(const char *text)
{
	struct cell cell;
	unsigned columns = 0;

	while (*text && columns < COLUMNS_MAX) {
		text = next_cell(text, &cell);
		columns++;
	}
	return columns;
}

unsigned screen_put(struct screen *screen, unsigned row, unsigned column, const char *text, unsigned width, bool right,
		    enum screen_style style)
{
	unsigned end = column + width, length = right ? columns_of(text) : 0;
	unsigned pad = right && length < width ? width - length : 0;

	for (; column < end; column++) {
		struct cell cell = {" ", (uint8_t)style};

		if (pad)
			pad--;
		else if (*text)
			text = next_cell(text, &cell);
		cell.style = (uint8_t)style;
		if (row < screen->rows && column < screen->columns)
			screen->wanted[(size_t)row * screen->columns + column] = cell;
	}
	return end;
}

static bool is_same(const struct cell *a, const struct cell *b)
{
	return a->style == b->style && memcmp(a->text, b->text, sizeof(a->text)) == 0;
}

int screen_show(struct screen *screen)
{
	static const char *const styles[SCREEN_STYLES] = {"\033[0m", "\033[0;1m", "\033[0;7m", "\033[0;2m"};
	size_t cells = (size_t)screen->rows * screen->columns, at = cells; /* the cursor's cell; cells = not known */
	unsigned style = SCREEN_STYLES;

	for (size_t i = 0; i < cells; i++) {
		const struct cell *cell = &screen->wanted[i];

		if (is_same(cell, &screen->shown[i]))
			continue;
		if (i != at || i % screen->columns == 0)
			out_format(screen->out, "\033[%zu;%zuH", i / screen->columns + 1, i % screen->columns + 1);
		if (cell->style != style)
			out_text(screen->out, styles[cell->style]);
		style = cell->style;
		out_bytes(screen->out, cell->text, strnlen(cell->text, sizeof(cell->text)));
		screen->shown[i] = *cell;
		at = i + 1;
	}
	if (style != SCREEN_STYLES && style != SCREEN_PLAIN)
		out_text(screen->out, styles[SCREEN_PLAIN]);
	return out_flush(screen->out);
}

/* Read more bytes, if some come within so many ms. */
static int read_more(struct screen *screen, int wait_ms)
{
	struct pollfd ready = {screen->in, POLLIN, 0};
	ssize_t got;

	if (screen->key_count == KEYS_MAX || poll(&ready, 1, wait_ms) <= 0)
		return 0;
	got = read(screen->in, screen->keys + screen->key_count, KEYS_MAX - screen->key_count);
	if (got < 0 && errno != EINTR && errno != EAGAIN)
		return -errno;
	if (!got && ready.revents & POLLHUP)
		return -EIO;
	screen->key_count += got > 0 ? (unsigned)got : 0;
	return 0;
}

static int drop_keys(struct screen *screen, unsigned count, int key)
{
	memmove(screen->keys, screen->keys + count, screen->key_count - count);
	screen->key_count -= count;
	return key;
}

/* Read a key's sequence: ESC [ or ESC O, numbers, one character. */
static int read_sequence(struct screen *screen)
{
	static const struct {
		const char *text;
		int key;
	} known[] = {{"A", SCREEN_KEY_UP},	   {"B", SCREEN_KEY_DOWN},  {"C", SCREEN_KEY_RIGHT},
		     {"D", SCREEN_KEY_LEFT},	   {"H", SCREEN_KEY_HOME},  {"F", SCREEN_KEY_END},
		     {"5~", SCREEN_KEY_PAGE_UP},   {"1~", SCREEN_KEY_HOME}, {"7~", SCREEN_KEY_HOME},
		     {"6~", SCREEN_KEY_PAGE_DOWN}, {"4~", SCREEN_KEY_END},  {"8~", SCREEN_KEY_END}};
	unsigned end = 2;

	while (end < screen->key_count && (unsigned char)screen->keys[end] < 0x40)
		end++;
	if (end == screen->key_count)
		return drop_keys(screen, screen->key_count, SCREEN_KEY_OTHER);
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (strlen(known[i].text) == end - 1 && !memcmp(known[i].text, screen->keys + 2, end - 1))
			return drop_keys(screen, end + 1, known[i].key);
	return drop_keys(screen, end + 1, SCREEN_KEY_OTHER);
}

int screen_key(struct screen *screen)
{
	int ret = read_more(screen, 0);
	unsigned char first;

	if (!screen->key_count)
		return ret;
	first = (unsigned char)screen->keys[0];
	if (first == SCREEN_KEY_ESCAPE) {
		if (screen->key_count < 3)
			ret = read_more(screen, ESCAPE_MS);
		if (ret)
			return ret;
		if (screen->key_count > 2 && (screen->keys[1] == '[' || screen->keys[1] == 'O'))
			return read_sequence(screen);
		return drop_keys(screen, 1, SCREEN_KEY_ESCAPE);
	}
	if (first == '\n')
		first = SCREEN_KEY_ENTER;
	if (first == '\b')
		first = SCREEN_KEY_BACKSPACE;
	return drop_keys(screen, 1, first < 0x80 ? first : SCREEN_KEY_OTHER);
}
