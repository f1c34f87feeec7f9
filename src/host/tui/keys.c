/* The keys of the views of a trace; see tui.h.  Context: host. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <host/terminal/edit.h>

#include "tui.h"

static struct list *list_of(struct tui *tui)
{
	return &tui->lists[tui->view];
}

static int apply_text(struct tui *tui)
{
	if (tui->editing == TUI_EDIT_FILTER) {
		memcpy(tui->filter, tui->edited, sizeof(tui->filter));
		return tui_filter(tui);
	}
	memcpy(tui->search, tui->edited, sizeof(tui->search));
	return tui->search[0] ? tui_find(tui, false) : 0;
}

/* Put a key into the text that is being typed. */
static int edit_text(struct tui *tui, int key)
{
	enum edit_state state = edit_key(tui->edited, sizeof(tui->edited), key);
	int err = state == EDIT_TAKEN ? apply_text(tui) : 0;

	if (state != EDIT_GOES_ON)
		tui->editing = TUI_EDIT_NOTHING;
	return err;
}

static int begin_text(struct tui *tui, enum tui_edit what)
{
	if (what == TUI_EDIT_FILTER && tui->view != TUI_TREE && tui->view != TUI_FUNCTIONS) {
		snprintf(tui->message, sizeof(tui->message), "the tree (t) and the table (f) are filtered");
		return 0;
	}
	if (what == TUI_EDIT_SEARCH && tui->view == TUI_CALLS) {
		snprintf(tui->message, sizeof(tui->message), "calls have no names to search: s sorts them");
		return 0;
	}
	tui->editing = what;
	snprintf(tui->edited, sizeof(tui->edited), "%s", what == TUI_EDIT_FILTER ? tui->filter : "");
	return 0;
}

static bool move_key(struct tui *tui, int key)
{
	/* g and G as less has them. */
	return list_key(list_of(tui), tui_count(tui),
			key == 'g'   ? TERMINAL_KEY_HOME
			: key == 'G' ? TERMINAL_KEY_END
				     : key);
}

/* Fold, unfold, or go to the caller's line. */
static int fold_key(struct tui *tui, int key, struct folding *folding, uint32_t node, uint32_t depth)
{
	struct list *list = list_of(tui);
	uint32_t other, above = depth;

	switch (key) {
	case TERMINAL_KEY_RIGHT:
	case '+':
		return folding_set(folding, node, true);
	case '*':
		return folding_set_all(folding, node, true);
	case '-':
		return folding_set_all(folding, node, false);
	case TERMINAL_KEY_LEFT:
		if (folding_is_open(folding, node) && folding_has_children(folding, node))
			return folding_set(folding, node, false);
		while (depth && list->bar && above >= depth)
			(void)tui_folding_at(tui, --list->bar, &other, &above);
		return 0;
	default:
		return folding_set(folding, node, !folding_is_open(folding, node));
	}
}

static int sort_key(struct tui *tui, int key)
{
	bool next = key == 's' || key == '>' || key == TERMINAL_KEY_RIGHT;
	uint32_t bar = tui_function_at(tui, list_of(tui)->bar);
	int err;

	if (tui->view == TUI_CALLS) {
		tui->calls.slowest = !tui->calls.slowest;
		tui->calls.first = 0;
		return tui_read_calls(tui);
	}
	if (tui->view != TUI_FUNCTIONS) {
		snprintf(tui->message, sizeof(tui->message), "the table (f) and calls (c) are sorted");
		return 0;
	}
	if (key == 'R')
		tui->reverse = !tui->reverse;
	else
		tui->sort = (enum report_column)((tui->sort + REPORT_COLUMNS + (next ? 1 : -1)) % REPORT_COLUMNS);
	if (key != 'R')
		tui->reverse = false;
	err = tui_arrange(tui);
	/* The bar stays with its function. */
	for (size_t i = 0; i < tui->row_count; i++)
		if (tui_function_at(tui, i) == bar)
			list_go(list_of(tui), tui->row_count, i);
	return err;
}

static int open_call(struct tui *tui)
{
	size_t at = list_of(tui)->bar;
	int err;

	if (at >= tui->calls.count)
		return 0;
	err = tui_read_call(tui, at);
	if (!err && !tui->inside.count) {
		snprintf(tui->message, sizeof(tui->message), "the call's entry is not in the trace");
		return 0;
	}
	return err ? err : tui_show(tui, TUI_CALL, tui->function);
}

/* The next call of the function, or the one before; of a list of calls the next, or the one before, of its parts. */
static int other_call(struct tui *tui, bool next)
{
	struct calls *calls = &tui->calls;

	if (tui->view == TUI_CALL) {
		if (next ? tui->call + 1 >= calls->count : !tui->call) {
			snprintf(tui->message, sizeof(tui->message), "there is no further call in this list");
			return 0;
		}
		tui->lists[TUI_CALLS].bar = tui->call + (next ? 1 : (size_t)-1);
		return tui_read_call(tui, tui->lists[TUI_CALLS].bar);
	}
	if (tui->view != TUI_CALLS || calls->slowest ||
	    (next ? calls->first + calls->count >= calls->seen : calls->first == 0)) {
		snprintf(tui->message, sizeof(tui->message), "there is nothing further");
		return 0;
	}
	calls->first = next ? calls->first + calls->room_max : calls->first - calls->room_max;
	return tui_read_calls(tui);
}

static int enter_key(struct tui *tui)
{
	uint32_t function = tui_function_at(tui, list_of(tui)->bar);

	if (tui->view == TUI_CALLS)
		return open_call(tui);
	return function == TRACE_NONE ? 0 : tui_show(tui, TUI_AROUND, function);
}

static int view_key(struct tui *tui, int key)
{
	uint32_t function = tui_function_at(tui, list_of(tui)->bar);

	switch (key) {
	case 't':
	case '1':
		return tui_show(tui, TUI_TREE, TRACE_NONE);
	case 'f':
	case '2':
		return tui_show(tui, TUI_FUNCTIONS, TRACE_NONE);
	case TERMINAL_KEY_TAB:
		return tui_show(tui, tui->view == TUI_TREE ? TUI_FUNCTIONS : TUI_TREE, TRACE_NONE);
	case 'a':
	case '3':
		return tui_show(tui, TUI_AROUND, function);
	case 'c':
	case '4':
		return tui_show(tui, TUI_CALLS, function);
	case 'l':
	case '5':
		return tui_show(tui, TUI_SOURCE, function);
	default:
		if (key != TERMINAL_KEY_OTHER)
			snprintf(tui->message, sizeof(tui->message), "h lists the keys");
		return 0;
	}
}

static int do_key(struct tui *tui, int key)
{
	uint32_t node, depth;
	struct folding *folding = tui_folding_at(tui, list_of(tui)->bar, &node, &depth);

	switch (key) {
	case '/':
		return begin_text(tui, TUI_EDIT_SEARCH);
	case '&':
		return begin_text(tui, TUI_EDIT_FILTER);
	case 'n':
	case 'N':
		return tui_find(tui, key == 'N');
	case '[':
	case ']':
		return other_call(tui, key == ']');
	case TERMINAL_KEY_ESCAPE:
	case TERMINAL_KEY_BACKSPACE:
		return tui_return(tui);
	case ' ':
	case '+':
	case '-':
	case '*':
		return folding ? fold_key(tui, key, folding, node, depth) : 0;
	case TERMINAL_KEY_LEFT:
	case TERMINAL_KEY_RIGHT:
		if (folding)
			return fold_key(tui, key, folding, node, depth);
		return tui->view == TUI_FUNCTIONS ? sort_key(tui, key) : 0;
	case TERMINAL_KEY_ENTER:
		if (folding && tui->view == TUI_TREE)
			return fold_key(tui, key, folding, node, depth);
		return enter_key(tui);
	default:
		return key < 128 && strchr("sS<>R", key) ? sort_key(tui, key) : view_key(tui, key);
	}
}

static int stopped(struct tui *tui, int err)
{
	if (err != -ECANCELED)
		return err;
	snprintf(tui->message, sizeof(tui->message), "stopped");
	return 0;
}

int tui_key(struct tui *tui, int key, bool *quit)
{
	tui->message[0] = '\0';
	if (tui->editing != TUI_EDIT_NOTHING)
		return edit_text(tui, key);
	if (key == 'q' || key == 3) {
		*quit = true;
		return 0;
	}
	if (tui->help || key == 'h' || key == '?') {
		tui->help = !tui->help;
		return 0;
	}
	return move_key(tui, key) ? 0 : stopped(tui, do_key(tui, key));
}

int tui_click(struct tui *tui, size_t row)
{
	struct list *list = list_of(tui);
	size_t line = list->first + row;
	bool again = line == list->bar;

	if (tui->help || tui->editing != TUI_EDIT_NOTHING || line >= tui_count(tui))
		return 0;
	list_go(list, tui_count(tui), line);
	return again ? stopped(tui, do_key(tui, TERMINAL_KEY_ENTER)) : 0;
}
