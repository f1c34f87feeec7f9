/*
 * The session's end of the control socket: takes clients in, reads their requests and sends the answers, without ever
 * waiting for a client.
 *
 * Every client has one place in a small table.  While it has not taken its answer nothing more is read of it.  When the
 * table is full, the client that has been silent longest makes room.  Caller: the session's owner (remote.h).  Context:
 * host.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <host/descriptors.h>
#include <host/now.h>
#include <host/thread.h>

#include "impl.h"

#define BACKLOG	    8
#define EVENTS	    16
#define FAREWELL_MS 1000 /* for the last answers */

static int watch_descriptor(struct remote *remote, int operation, int fd, uint32_t events, void *what)
{
	struct epoll_event event = {.events = events, .data.ptr = what};

	return epoll_ctl(remote->epoll, operation, fd, &event) ? -errno : 0;
}

static void end_client(struct remote_client *client)
{
	if (client->socket >= 0)
		close(client->socket);
	free(client->answer);
	*client = (struct remote_client){.socket = -1};
}

/* End a client; the instance that it has begun ends with it. */
static void drop_client(struct remote *remote, struct remote_client *client)
{
	void *instance = client->instance;
	struct calltap_diag diag = {0};
	FILE *nowhere;

	end_client(client);
	nowhere = instance ? fopen("/dev/null", "we") : NULL;
	if (!nowhere)
		nowhere = instance ? stderr : NULL;
	if (instance && remote->ops->end(instance, nowhere, &diag))
		calltap_diag_print(&diag, stderr);
	if (nowhere && nowhere != stderr)
		fclose(nowhere);
}

/* Send as much of the answer as the socket takes.  False: the client is gone. */
static bool send_some(struct remote_client *client)
{
	while (client->sent < client->size) {
		size_t left = client->size - client->sent;
		ssize_t done = send(client->socket, client->answer + client->sent,
				    left < REMOTE_PACKET_MAX ? left : REMOTE_PACKET_MAX, MSG_DONTWAIT | MSG_NOSIGNAL);

		if (done < 0)
			return errno == EAGAIN || errno == EINTR;
		client->sent += (size_t)done;
	}
	free(client->answer);
	client->answer = NULL;
	return true;
}

static void send_more(struct remote *remote, struct remote_client *client)
{
	if (!send_some(client) ||
	    watch_descriptor(remote, EPOLL_CTL_MOD, client->socket, client->answer ? EPOLLOUT : EPOLLIN, client))
		drop_client(remote, client);
}

void server_instance_ended(struct remote *remote, void *instance, const struct remote_client *asker, const char *text)
{
	for (size_t i = 0; i < REMOTE_CLIENTS; i++) {
		struct remote_client *client = &remote->clients[i];

		if (client->socket < 0 || client->instance != instance)
			continue;
		client->instance = NULL;
		if (client != asker)
			client_answer(remote, client, 0, -1, text, strlen(text));
	}
}

void client_answer(struct remote *remote, struct remote_client *client, int code, int column, const char *text,
		   size_t size)
{
	char head[64];
	int length = snprintf(head, sizeof(head), "%d %d %zu\n", code, column, size);

	client->answer = malloc((size_t)length + size);
	if (!client->answer) {
		drop_client(remote, client);
		return;
	}
	memcpy(client->answer, head, (size_t)length);
	memcpy(client->answer + length, text, size);
	client->size = (size_t)length + size;
	client->sent = 0;
	send_more(remote, client);
}

/* A client that has waited for long, as for a tool that was stopped, has told its user that nothing was done. */
static bool has_left(const struct remote_client *client)
{
	struct pollfd state = {.fd = client->socket};

	return poll(&state, 1, 0) > 0 && state.revents & POLLHUP;
}

static void read_request(struct remote *remote, struct remote_client *client)
{
	char text[REMOTE_REQUEST_MAX + 1];
	union descriptors_room control;
	struct iovec vec = {text, REMOTE_REQUEST_MAX};
	struct msghdr header = {
		.msg_iov = &vec, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof(control)};
	ssize_t got = recvmsg(client->socket, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	int fds[REMOTE_FDS] = {-1, -1};

	if (got >= 0)
		descriptors_take(&header, fds, REMOTE_FDS);
	if (got < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (got <= 0 || has_left(client) || header.msg_flags & (MSG_TRUNC | MSG_CTRUNC) ||
	    memchr(text, 0, (size_t)got)) {
		drop_client(remote, client);
	} else {
		text[got] = 0;
		client->since_ns = now_ns();
		request_serve(remote, client, text, fds);
	}
	for (unsigned i = 0; i < REMOTE_FDS; i++)
		if (fds[i] >= 0)
			close(fds[i]);
}

/* A free place, or the place of the client that was silent longest; NULL: all clients wait for an end. */
static struct remote_client *find_place(struct remote *remote)
{
	struct remote_client *oldest = NULL;

	for (size_t i = 0; i < REMOTE_CLIENTS; i++) {
		struct remote_client *client = &remote->clients[i];

		if (client->socket < 0)
			return client;
		if (!client->waits && !client->instance && (!oldest || client->since_ns < oldest->since_ns))
			oldest = client;
	}
	if (oldest)
		end_client(oldest);
	return oldest;
}

/* Turn a newcomer away for whom there is no descriptor: epoll would tell of it for ever. */
static void turn_away(struct remote *remote)
{
	if (remote->spare < 0)
		return;
	close(remote->spare);
	close(accept4(remote->listener, NULL, NULL, SOCK_CLOEXEC));
	remote->spare = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

static void take_in(struct remote *remote)
{
	int fd = accept4(remote->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	struct remote_client *client;

	if (fd < 0) {
		if (errno == EMFILE || errno == ENFILE)
			turn_away(remote);
		return;
	}
	client = remote_peer_is_ours(fd) ? find_place(remote) : NULL;
	if (!client) {
		close(fd);
		return;
	}
	*client = (struct remote_client){.socket = fd, .since_ns = now_ns()};
	if (watch_descriptor(remote, EPOLL_CTL_ADD, fd, EPOLLIN, client))
		end_client(client);
}

int remote_fd(const struct remote *remote)
{
	return remote->epoll;
}

static void handle_event(struct remote *remote, const struct epoll_event *event)
{
	struct remote_client *client = event->data.ptr;

	if (event->data.ptr == &remote->listener)
		take_in(remote);
	else if (event->data.ptr == &remote->wake || client->socket < 0)
		return; /* the client made room for another */
	else if (client->answer)
		send_more(remote, client);
	else
		read_request(remote, client);
}

void remote_serve(struct remote *remote)
{
	struct epoll_event events[EVENTS];
	int count = epoll_wait(remote->epoll, events, EVENTS, 0);

	for (int i = 0; i < count; i++)
		handle_event(remote, &events[i]);
}

static void *serve_always(void *argument)
{
	struct remote *remote = argument;
	struct pollfd ready = {.fd = remote->epoll, .events = POLLIN};

	while (!__atomic_load_n(&remote->stop, __ATOMIC_ACQUIRE)) { /* pairs with remote_close() */
		poll(&ready, 1, -1);
		remote_serve(remote);
	}
	return NULL;
}

int remote_start(struct remote *remote)
{
	int ret = thread_start(&remote->thread, serve_always, remote);

	remote->threaded = !ret;
	return ret;
}

/* Note a name for a target, which nothing has yet. */
static int names_add(struct remote *remote, pid_t pid, struct remote_name **out)
{
	struct remote_name *names = reallocarray(remote->names, remote->name_count + 1, sizeof(*names));
	uint64_t random;

	if (!names)
		return -ENOMEM;
	remote->names = names;
	if (getrandom(&random, sizeof(random), 0) != sizeof(random))
		return -EIO;
	*out = &names[remote->name_count++];
	(*out)->pid = pid;
	snprintf((*out)->text, sizeof((*out)->text), "%d-%016llx", (int)pid, (unsigned long long)random);
	return 0;
}

static void names_remove(struct remote *remote, size_t at)
{
	unlinkat(remote->folder, remote->names[at].text, 0);
	remote->names[at] = remote->names[--remote->name_count];
}

static bool has_name(const struct remote *remote, pid_t pid)
{
	for (size_t i = 0; i < remote->name_count; i++)
		if (remote->names[i].pid == pid)
			return true;
	return false;
}

int remote_name(struct remote *remote, pid_t pid, struct calltap_diag *diag)
{
	struct remote_name *name;
	int ret;

	if (has_name(remote, pid))
		return 0;
	ret = remote->name_count ? names_add(remote, pid, &name) : -ENOTCONN;
	if (!ret && linkat(remote->folder, remote->names[0].text, remote->folder, name->text, 0)) {
		ret = -errno;
		remote->name_count--;
	}
	if (ret)
		return calltap_diag_set(diag, ret, "cannot name the control socket after process %d: %s", (int)pid,
					strerror(-ret));
	for (size_t i = 0; i < remote->name_count; i++)
		if (!remote->names[i].pid)
			names_remove(remote, i--);
	return 0;
}

void remote_unname(struct remote *remote, pid_t pid)
{
	for (size_t i = 0; remote && i < remote->name_count; i++)
		if (remote->names[i].pid == pid && remote->name_count > 1)
			names_remove(remote, i--);
		else if (remote->names[i].pid == pid)
			remote->names[i].pid = 0; /* without any the socket could not be given another */
}

/* Clients find the socket only once it listens: they remove a socket where nobody listens. */
static int listen_in(struct remote *remote, pid_t pid)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	struct remote_name *name;
	char hidden[REMOTE_NAME_MAX];
	int ret = names_add(remote, pid, &name);

	if (ret)
		return ret;
	snprintf(hidden, sizeof(hidden), ".%.*s", (int)sizeof(hidden) - 2, name->text);
	folder_socket(address.sun_path, remote->folder, hidden);
	remote->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (remote->listener < 0 || fchmod(remote->listener, 0600) ||
	    bind(remote->listener, (struct sockaddr *)&address, sizeof(address)))
		return -errno;
	if (listen(remote->listener, BACKLOG) || fchmodat(remote->folder, hidden, 0600, 0) ||
	    renameat(remote->folder, hidden, remote->folder, name->text)) {
		int error = -errno;

		unlinkat(remote->folder, hidden, 0);
		return error;
	}
	return 0;
}

static int open_folder(struct remote *remote, struct calltap_diag *diag)
{
	char path[PATH_MAX];
	int ret = -ENOENT;

	for (unsigned i = 0; i < REMOTE_FOLDERS; i++) {
		if (!folder_path(i, path))
			continue;
		ret = folder_open(&remote->folder, path, true, diag);
		if (!ret || ret == -EPERM)
			return ret;
	}
	return calltap_diag_set(diag, ret,
				"there is no folder for control sockets: neither $XDG_RUNTIME_DIR nor /tmp can "
				"be used");
}

static int open_all(struct remote *remote, pid_t pid, struct calltap_diag *diag)
{
	int ret = open_folder(remote, diag);

	if (ret)
		return ret;
	ret = listen_in(remote, pid);
	if (ret) {
		remote->name_count = 0; /* nothing has that name */
		return calltap_diag_set(diag, ret, "cannot make the control socket of process %d: %s", (int)pid,
					strerror(-ret));
	}
	remote->epoll = epoll_create1(EPOLL_CLOEXEC);
	remote->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	remote->spare = open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (remote->epoll < 0 || remote->wake < 0)
		ret = -errno;
	if (!ret)
		ret = watch_descriptor(remote, EPOLL_CTL_ADD, remote->listener, EPOLLIN, &remote->listener);
	if (!ret)
		ret = watch_descriptor(remote, EPOLL_CTL_ADD, remote->wake, EPOLLIN, &remote->wake);
	return ret ? calltap_diag_set(diag, ret, "cannot watch the control socket: %s", strerror(-ret)) : 0;
}

int remote_open(struct remote **out, pid_t pid, const struct remote_ops *ops, void *context, struct calltap_diag *diag)
{
	struct remote *remote = calloc(1, sizeof(*remote));
	int ret;

	*out = NULL;
	if (!remote)
		return calltap_diag_set(diag, -ENOMEM, "not enough memory for the control socket");
	*remote = (struct remote){
		.ops = ops, .context = context, .folder = -1, .listener = -1, .epoll = -1, .wake = -1, .spare = -1};
	for (size_t i = 0; i < REMOTE_CLIENTS; i++)
		remote->clients[i].socket = -1;
	ret = open_all(remote, pid, diag);
	if (ret)
		remote_close(remote, 0, NULL);
	else
		*out = remote;
	return ret;
}

/* Clients that wait for the end get a moment to take the answer. */
static void say_farewell(struct remote *remote, int code, const char *text)
{
	uint64_t until = now_ns() + FAREWELL_MS * 1000000ull;

	for (size_t i = 0; i < REMOTE_CLIENTS; i++) {
		struct remote_client *client = &remote->clients[i];

		if (client->socket >= 0 && (client->waits || client->instance) && text)
			client_answer(remote, client, code, -1, text, strlen(text));
		client->instance = NULL; /* the instance has ended with the session */
		while (client->answer && now_ns() < until) {
			struct pollfd ready = {.fd = client->socket, .events = POLLOUT};

			poll(&ready, 1, 10);
			send_more(remote, client);
		}
		end_client(client);
	}
}

static void close_if_open(int fd)
{
	if (fd >= 0)
		close(fd);
}

void remote_stop(struct remote *remote)
{
	if (!remote)
		return;
	for (size_t i = 0; i < remote->name_count; i++)
		unlinkat(remote->folder, remote->names[i].text, 0);
	remote->name_count = 0;
	if (remote->threaded) {
		__atomic_store_n(&remote->stop, true, __ATOMIC_RELEASE); /* pairs with serve_always() */
		(void)eventfd_write(remote->wake, 1);
		pthread_join(remote->thread, NULL);
	}
	remote->threaded = false;
}

void remote_close(struct remote *remote, int code, const char *text)
{
	if (!remote)
		return;
	remote_stop(remote);
	say_farewell(remote, code, text);
	close_if_open(remote->listener);
	close_if_open(remote->epoll);
	close_if_open(remote->wake);
	close_if_open(remote->spare);
	close_if_open(remote->folder);
	free(remote->names);
	free(remote);
}
