/* A bar in a list; see list.h.  Context: host. */
#include "list.h"
#include "terminal.h"

#define WHEEL_ROWS 3

void list_go(struct list *list, size_t count, size_t row)
{
	list->bar = row < count ? row : count ? count - 1 : 0;
}

void list_move(struct list *list, size_t count, long by)
{
	size_t back = by < 0 ? (size_t)-by : 0;

	list_go(list, count, list->bar); /* rows may have gone */
	if (back)
		list_go(list, count, list->bar > back ? list->bar - back : 0);
	else
		list_go(list, count, list->bar + (size_t)by);
}

bool list_key(struct list *list, size_t count, int key)
{
	long page = list->page ? (long)list->page : 1;

	switch (key) {
	case TERMINAL_KEY_UP:
	case 'k':
		list_move(list, count, -1);
		return true;
	case TERMINAL_KEY_DOWN:
	case 'j':
		list_move(list, count, 1);
		return true;
	case TERMINAL_KEY_WHEEL_UP:
		list_move(list, count, -WHEEL_ROWS);
		return true;
	case TERMINAL_KEY_WHEEL_DOWN:
		list_move(list, count, WHEEL_ROWS);
		return true;
	case TERMINAL_KEY_PAGE_UP:
		list_move(list, count, -page);
		return true;
	case TERMINAL_KEY_PAGE_DOWN:
		list_move(list, count, page);
		return true;
	case TERMINAL_KEY_HOME:
		list_go(list, count, 0);
		return true;
	case TERMINAL_KEY_END:
		list_go(list, count, count);
		return true;
	default:
		return false;
	}
}

void list_place(struct list *list, size_t count, size_t page)
{
	list->page = page;
	list_go(list, count, list->bar);
	if (list->bar < list->first)
		list->first = list->bar;
	if (list->bar >= list->first + page)
		list->first = list->bar - page + 1;
	if (list->first + page > count)
		list->first = count > page ? count - page : 0;
}
