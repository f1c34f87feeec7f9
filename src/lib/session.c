/*
 * Sessions of a program on itself (calltap.h).
 *
 * All open sessions use one connection to the tool.  When the tool has ended, a new session gets a new connection;
 * sessions that are open stay without.  Context: the program's threads.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib.h"

/* Join the connection that there is, or make one. */
static int join_link(struct lib_own *own, struct link **link, const struct calltap_session_options *options,
		     struct calltap_diag *diag)
{
	int ret;

	if (own->link && link_is_alive(own->link)) {
		own->link->users++;
		*link = own->link;
		return 0;
	}
	own->link = NULL; /* sessions that use it keep it */
	ret = link_open(link, options, diag);
	if (ret)
		return ret;
	own->link = *link;
	return 0;
}

LIB_PUBLIC int calltap_session_open(struct calltap_session **out, const struct calltap_session_options *options,
				    struct calltap_diag *diag)
{
	struct calltap_session_options wanted = {.size = sizeof(wanted)};
	struct calltap_session *session;
	struct lib_table *table;
	struct lib_own *own;
	int ret;

	*out = NULL;
	if (options && options->size < sizeof(options->size))
		return calltap_diag_set(diag, -EINVAL, "the options of a session have no size");
	if (options)
		memcpy(&wanted, options, options->size < sizeof(wanted) ? options->size : sizeof(wanted));
	session = calloc(1, sizeof(*session));
	if (!session)
		return calltap_diag_set(diag, -ENOMEM, "there is no memory left");
	ret = lib_enter(&own, &table, diag);
	if (!ret) {
		session->pid = getpid();
		ret = join_link(own, &session->link, &wanted, diag);
		lib_leave(own);
	}
	if (ret)
		free(session);
	else
		*out = session;
	return ret;
}

/* Free a session in a forked child of the process that opened it. */
static void forget(struct calltap_session *session)
{
	while (session->ops) {
		struct calltap_ops *next = session->ops->next;

		free(session->ops);
		session->ops = next;
	}
	link_forget(session->link);
	free(session);
}

LIB_PUBLIC void calltap_session_close(struct calltap_session *session)
{
	struct lib_table *table;
	struct lib_own *own;

	if (!session || lib_enter(&own, &table, NULL))
		return;
	if (session->pid != getpid()) {
		forget(session);
		lib_leave(own);
		return;
	}
	while (session->ops) {
		struct calltap_ops *ops = session->ops;
		int ret = ops_end(own, ops);

		/* A handler has not returned: its slot is never used again, and its memory is not freed. */
		if (ret && ret != -ENOTCONN)
			session->ops = ops->next;
	}
	if (own->link == session->link && session->link->users == 1)
		own->link = NULL;
	link_close(session->link);
	lib_leave(own);
	free(session);
}
