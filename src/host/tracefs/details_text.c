/*
 * The texts of calls' values, as events of the store have them (tree.h).
 *
 * Callers: details.c, store.c and those that print lines.  Context: host.
 */
#include <string.h>

#include "tree.h"

bool details_head(struct details_head *head, const struct tree_event *event)
{
	if (!event->text)
		return false;
	memcpy(head, event->text, sizeof(*head));
	return true;
}

const char *details_text(const struct tree_event *event)
{
	struct details_head head;

	return details_head(&head, event) && head.has_text ? event->text + sizeof(head) : "()";
}

size_t details_size(const struct tree_event *event)
{
	return event->text ? sizeof(struct details_head) + strlen(event->text + sizeof(struct details_head)) + 1 : 0;
}
