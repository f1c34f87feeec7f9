/*
 * The connection to the tool: one that traces this process already, or one that is started.
 *
 * A program may close descriptors that it does not know, and get the same numbers for others: so each descriptor is
 * looked at before it is used.  A connection that has ended is made anew once, for the tool turns clients away when it
 * has too many.  Context: the program's threads, with lib_own.lock held.
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <host/remote/remote.h>

#include "lib.h"

#define TIMEOUT_MS    30000u
#define FIND_MS	      1000 /* from the tool's "ready" to its socket's name */
#define INTERRUPTIONS 1000

static ino_t id_of(int fd)
{
	struct stat st;

	return fd >= 0 && !fstat(fd, &st) && S_ISSOCK(st.st_mode) ? st.st_ino : 0;
}

/* Close the descriptor if it is still the library's. */
static void drop_link(int *fd, ino_t id)
{
	if (*fd >= 0 && id && id_of(*fd) == id)
		close(*fd);
	*fd = -1;
}

static int connect_to_tool(struct link *link, struct calltap_diag *diag)
{
	int ret;

	drop_link(&link->socket, link->socket_id);
	ret = remote_connect(&link->socket, getpid(), diag);
	if (ret)
		return ret;
	link->socket = lib_move_fd(link->socket);
	link->socket_id = id_of(link->socket);
	return 0;
}

/* Connect to a tool that was just started: its socket may not have its name yet. */
static int find_started(struct link *link, struct calltap_diag *diag)
{
	const struct timespec pause = {0, 10000000};
	int ret = -ESRCH;

	for (int waited = 0; ret == -ESRCH && waited < FIND_MS; waited += 10) {
		ret = connect_to_tool(link, diag);
		if (ret == -ESRCH)
			nanosleep(&pause, NULL);
	}
	return ret;
}

static int start_tool(struct link *link, const struct calltap_session_options *options, struct calltap_diag *diag)
{
	char pid[16], *path;
	const char *const words[] = {"serve", pid, "--ready-fd", "3", NULL};
	int ret = tool_find(&path, options->tool, diag);

	if (ret)
		return ret;
	snprintf(pid, sizeof(pid), "%d", (int)getpid());
	ret = tool_start(&link->tool, path, words, true, diag);
	free(path);
	if (ret)
		return ret;
	link->tool_id = id_of(link->tool.fd);
	ret = tool_await(&link->tool, link->timeout_ms, diag);
	if (!ret)
		ret = find_started(link, diag);
	if (ret)
		tool_end(&link->tool, link->timeout_ms);
	return ret;
}

int link_open(struct link **out, const struct calltap_session_options *options, struct calltap_diag *diag)
{
	struct link *link = calloc(1, sizeof(*link));
	int ret;

	*out = NULL;
	if (!link)
		return calltap_diag_set(diag, -ENOMEM, "there is no memory left");
	*link = (struct link){.socket = -1, .tool.fd = -1, .users = 1};
	link->timeout_ms = options->timeout_ms ? options->timeout_ms : TIMEOUT_MS;
	ret = connect_to_tool(link, NULL);
	if (ret)
		ret = start_tool(link, options, diag);
	if (ret)
		free(link);
	else
		*out = link;
	return ret;
}

/* The tool writes to neither connection unasked: readable means ended. */
static bool has_ended(int fd, ino_t id)
{
	struct pollfd state = {.fd = fd, .events = POLLIN};

	if (id_of(fd) != id)
		return true;
	return poll(&state, 1, 0) > 0;
}

bool link_is_alive(struct link *link)
{
	if (link->lost)
		return false;
	if (link->tool.fd >= 0)
		link->lost = has_ended(link->tool.fd, link->tool_id);
	else if (has_ended(link->socket, link->socket_id))
		link->lost = connect_to_tool(link, NULL) != 0;
	return !link->lost;
}

void link_close(struct link *link)
{
	if (--link->users)
		return;
	drop_link(&link->socket, link->socket_id);
	if (link->tool.fd >= 0 && id_of(link->tool.fd) == link->tool_id)
		tool_end(&link->tool, link->timeout_ms);
	free(link);
}

void link_forget(struct link *link)
{
	if (--link->users)
		return;
	drop_link(&link->socket, link->socket_id);
	drop_link(&link->tool.fd, link->tool_id);
	free(link);
}

static int ask_once(struct link *link, const struct remote_handlers *handlers, uint64_t *functions,
		    struct calltap_diag *diag)
{
	int ret = 0;

	if (link->socket < 0 || id_of(link->socket) != link->socket_id) {
		link->socket = -1; /* the number is another descriptor's now, if anything's */
		ret = connect_to_tool(link, diag);
	}
	for (int i = 0; !ret && i < INTERRUPTIONS; i++) {
		ret = remote_ask_handlers(link->socket, handlers, functions, diag);
		if (ret != -EINTR)
			break;
		ret = 0;
	}
	/* An answer that comes after all must not be taken for the next request's. */
	if (ret == -EPIPE || ret == -ETIMEDOUT || ret == -EPROTO || ret == -EBADF || ret == -ENOTCONN)
		drop_link(&link->socket, link->socket_id);
	return ret;
}

static int has_gone(struct link *link, struct calltap_diag *diag)
{
	link->lost = true;
	return calltap_diag_set(diag, -ENOTCONN,
				"the tool of this session has ended; close the session and open one anew");
}

int link_check(struct link *link, struct calltap_diag *diag)
{
	return link_is_alive(link) ? 0 : has_gone(link, diag);
}

int link_ask(struct link *link, const struct remote_handlers *handlers, uint64_t *functions, struct calltap_diag *diag)
{
	int ret = link_check(link, diag);

	*functions = 0;
	if (ret)
		return ret;
	ret = ask_once(link, handlers, functions, diag);
	if (ret == -EPIPE && link_is_alive(link))
		ret = ask_once(link, handlers, functions, diag);
	return ret == -EPIPE || ret == -ESRCH ? has_gone(link, diag) : ret;
}
