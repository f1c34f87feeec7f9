/*
 * Finding sessions of this user, and asking them.
 *
 * Callers: the commands that speak to a session, and libcalltap.  Context: host.
 */
#include <dirent.h>
#include <fcntl.h>
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <host/descriptors.h>
#include <host/now.h>
#include <host/proc.h>

#include "impl.h"

#define CONNECT_S 3
#define HIDDEN_S  60 /* a socket that is being made has its name after this time */
#define TURNS	  12 /* of a patient client */
#define BUSY	  4 /* a tool that ran or waited for a CPU for one part in so many of the time is busy, and not stopped */

struct list {
	struct remote_session *items;
	size_t count;
	pid_t wanted; /* the target asked for, 0 = all */
};

/* The target's PID by a socket's name; 0: not a socket of a session. */
static pid_t pid_of(const char *name)
{
	char *end;
	long pid = name[0] >= '1' && name[0] <= '9' ? strtol(name, &end, 10) : 0;

	if (pid <= 0 || pid > INT_MAX || *end != '-' || strlen(end + 1) != 16 ||
	    strspn(end + 1, "0123456789abcdef") != 16)
		return 0;
	return (pid_t)pid;
}

static int connect_to(int folder, const char *name)
{
	const struct timeval patience = {CONNECT_S, 0}; /* a session that is at work takes no client in */
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0), error;

	if (fd < 0)
		return -errno;
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	folder_socket(address.sun_path, folder, name);
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)))
		error = -errno;
	else
		error = remote_peer_is_ours(fd) ? 0 : -EPERM;
	if (!error)
		return fd;
	close(fd);
	return error;
}

/* True if the socket's session was killed before it could name it, or remove it. */
static bool is_stale(int folder, const char *name)
{
	struct stat st;

	if (name[0] != '.')
		return true;
	return !fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) && S_ISSOCK(st.st_mode) &&
	       time(NULL) - st.st_mtime > HIDDEN_S;
}

/* The session that has this socket under another name, too; NULL = it is not in the list. */
static struct remote_session *find_session(const struct list *list, const struct stat *st)
{
	for (size_t i = 0; i < list->count; i++)
		if (list->items[i].device == st->st_dev && list->items[i].inode == st->st_ino)
			return &list->items[i];
	return NULL;
}

static int try_session(struct list *list, int folder, const char *name)
{
	struct remote_session *known;
	struct stat st;
	pid_t pid = pid_of(name[0] == '.' ? name + 1 : name);
	struct remote_session *items;
	int fd;

	if (!pid || (list->wanted && pid != list->wanted))
		return 0; /* another session's tool may be stopped: so do not even connect */
	if (fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW))
		return 0;
	known = find_session(list, &st);
	if (known && pid < known->pid)
		known->pid = pid; /* whatever the folder's order is */
	if (known)
		return 0;
	fd = connect_to(folder, name);
	if (fd == -ECONNREFUSED && is_stale(folder, name))
		unlinkat(folder, name, 0);
	if (fd < 0)
		return 0;
	if (name[0] == '.') {
		close(fd);
		return 0;
	}
	items = reallocarray(list->items, list->count + 1, sizeof(*items));
	if (!items) {
		close(fd);
		return -ENOMEM;
	}
	list->items = items;
	items[list->count++] = (struct remote_session){pid, fd, st.st_dev, st.st_ino};
	return 0;
}

/* Look at each socket in a folder; closes the descriptor. */
static int look_in(struct list *list, int folder)
{
	DIR *dir = fdopendir(folder);
	struct dirent *entry;
	int ret = 0;

	if (!dir) {
		close(folder);
		return 0;
	}
	while (!ret && (entry = readdir(dir)))
		ret = try_session(list, dirfd(dir), entry->d_name);
	closedir(dir);
	return ret;
}

static int compare_sessions(const void *a, const void *b)
{
	pid_t left = ((const struct remote_session *)a)->pid, right = ((const struct remote_session *)b)->pid;

	return (left > right) - (left < right);
}

/* True if an earlier index leads to this folder, too. */
static bool seen_before(const char *path, unsigned i)
{
	char other[PATH_MAX];

	for (unsigned j = 0; j < i; j++)
		if (folder_path(j, other) && !strcmp(path, other))
			return true;
	return false;
}

int remote_list(struct remote_session **out, size_t *count, pid_t pid, struct calltap_diag *diag)
{
	struct list list = {.wanted = pid};
	struct calltap_diag unsafe;
	int ret = 0, error = 0;

	for (unsigned i = 0; i < REMOTE_FOLDERS && ret != -ENOMEM; i++) {
		char path[PATH_MAX];
		int folder;

		if (!folder_path(i, path) || seen_before(path, i))
			continue;
		ret = folder_open(&folder, path, false, &unsafe);
		if (!ret) {
			ret = look_in(&list, folder);
		} else if (ret != -ENOENT && !error) {
			error = ret;
			if (diag)
				*diag = unsafe;
		}
	}
	*out = NULL;
	*count = 0;
	if (ret == -ENOMEM) {
		remote_list_free(list.items, list.count);
		return calltap_diag_set(diag, ret, "not enough memory");
	}
	*out = list.items;
	*count = list.count;
	if (list.count)
		qsort(list.items, list.count, sizeof(*list.items), compare_sessions);
	return list.count ? 0 : error;
}

void remote_list_free(struct remote_session *sessions, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (sessions[i].socket >= 0)
			close(sessions[i].socket);
	free(sessions);
}

int remote_connect(int *socket, pid_t pid, struct calltap_diag *diag)
{
	struct remote_session *sessions;
	size_t count;
	int ret = remote_list(&sessions, &count, pid, diag);

	*socket = -1;
	if (ret)
		return ret;
	if (!count)
		return calltap_diag_set(diag, -ESRCH, "process %d is not traced by you; `calltap status` lists what is",
					(int)pid);
	*socket = sessions[0].socket;
	sessions[0].socket = -1;
	remote_list_free(sessions, count);
	return 0;
}

/* How long a client waits for an answer. */
struct wait {
	int64_t until_ms; /* CLOCK_MONOTONIC */
	int timeout_ms;
	unsigned turns;	    /* how often the time may begin again */
	pid_t tool;	    /* 0 = not known */
	uint64_t wanted_ns; /* what the tool's threads had had and wanted of the CPUs when the time began */
};

/* The session's tool; 0 = not known, or of another PID namespace. */
static pid_t tool_of(int socket)
{
	struct ucred peer;
	socklen_t size = sizeof(peer);

	return getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) ? 0 : peer.pid;
}

pid_t remote_stopped_tool(int socket)
{
	pid_t tool = tool_of(socket);
	char state = tool ? proc_state(tool, NULL) : 0;

	return state == 'T' || state == 't' ? tool : 0;
}

static void begin_wait(struct wait *wait, int socket, int timeout_ms, bool patient)
{
	*wait = (struct wait){.until_ms = now_ms() + timeout_ms, .timeout_ms = timeout_ms};
	if (!patient)
		return;
	wait->turns = TURNS;
	wait->tool = tool_of(socket);
	wait->wanted_ns = wait->tool ? proc_wanted_ns(wait->tool) : 0;
}

/*
 * The time is over: does it begin again?  A tool that shares its CPUs with hundreds of busy threads may get a hundredth
 * of one.  It answers, but late.  One that is stopped, or waits for something else, wants no CPU.  One that stops the
 * program's threads does not either: its thread sleeps as a parent does after vfork() (attach/tracer.c).
 */
static bool wait_on(struct wait *wait)
{
	uint64_t before = wait->wanted_ns, busy_ns = (uint64_t)wait->timeout_ms * 1000000u / BUSY;

	if (!wait->turns || !wait->tool)
		return false;
	wait->turns--;
	wait->wanted_ns = proc_wanted_ns(wait->tool);
	wait->until_ms = now_ms() + wait->timeout_ms;
	return wait->wanted_ns > before + busy_ns || proc_has_thread_in(wait->tool, 'D');
}

/*
 * Wait for a packet.  Returns its bytes.  A session that ends answers and closes the socket.  Where it has left a
 * request unread the kernel tells of that once, before the answer.
 */
static ssize_t receive_packet(int socket, char *text, size_t size, struct wait *wait)
{
	struct pollfd ready = {.fd = socket, .events = POLLIN};
	bool reset = false;

	for (;;) {
		int64_t left;
		ssize_t got = recv(socket, text, size, MSG_DONTWAIT | MSG_TRUNC);

		if (got >= 0)
			return got > (ssize_t)size ? -EPROTO : got ? got : -EPIPE;
		if (errno == ECONNRESET && !reset) {
			reset = true;
			continue;
		}
		if (errno == ECONNRESET)
			return -EPIPE;
		if (errno != EAGAIN && errno != EINTR)
			return -errno;
		left = wait->until_ms - now_ms();
		if (left > 0)
			poll(&ready, 1, (int)left);
		else if (!wait_on(wait))
			return -ETIMEDOUT;
	}
}

struct answer {
	int code, column;
	char *text; /* NUL-terminated */
	size_t size;
};

/* Parse the line that the first packet begins with.  Returns its length, or -EPROTO. */
static ssize_t read_head(struct answer *answer, char *packet, size_t size)
{
	char *end = memchr(packet, '\n', size);
	int used = 0;

	if (!end)
		return -EPROTO;
	*end = 0;
	if (sscanf(packet, "%d %d %zu%n", &answer->code, &answer->column, &answer->size, &used) != 3 || packet[used] ||
	    answer->size > REMOTE_ANSWER_MAX || answer->code > 0)
		return -EPROTO;
	return end + 1 - packet;
}

static int receive_answer(int socket, struct answer *answer, struct wait *wait)
{
	char packet[REMOTE_PACKET_MAX];
	ssize_t got, head;
	size_t have;

	got = receive_packet(socket, packet, sizeof(packet), wait);
	if (got < 0)
		return (int)got;
	head = read_head(answer, packet, (size_t)got);
	if (head < 0 || (size_t)(got - head) > answer->size)
		return -EPROTO;
	answer->text = malloc(answer->size + 1);
	if (!answer->text)
		return -ENOMEM;
	have = (size_t)(got - head);
	memcpy(answer->text, packet + head, have);
	while (have < answer->size && got >= 0) {
		got = receive_packet(socket, answer->text + have, answer->size - have, wait);
		have += got > 0 ? (size_t)got : 0;
	}
	answer->text[have] = 0;
	return got < 0 ? (int)got : 0;
}

static int explain_error(int socket, int code, struct calltap_diag *diag)
{
	pid_t stopped;

	switch (code) {
	case -ETIMEDOUT:
		stopped = remote_stopped_tool(socket);
		if (stopped)
			return calltap_diag_set(diag, code,
						"the session does not answer, for its tool, process %d, is stopped; "
						"`kill -CONT %d` lets it go on",
						(int)stopped, (int)stopped);
		return calltap_diag_set(diag, code,
					"the session does not answer; its tool may be busy with many threads");
	case -EPIPE:
	case -ECONNRESET:
		return calltap_diag_set(diag, -EPIPE, "the session has ended");
	default:
		return calltap_diag_set(diag, code, "the session cannot be asked: %s", strerror(-code));
	}
}

/* Take the sentence, and the input from the next line. */
static int take_error(const struct answer *answer, struct calltap_diag *diag)
{
	char *line = strchr(answer->text, '\n');

	if (line)
		*line++ = 0;
	(void)calltap_diag_set(diag, answer->code, "%s", answer->text);
	if (diag && line)
		snprintf(diag->input, sizeof(diag->input), "%s", line);
	if (diag && answer->column < (int)sizeof(diag->input))
		diag->column = answer->column < 0 ? -1 : answer->column;
	return answer->code;
}

static int compose_request(const struct remote_request *request, char **text, size_t *size)
{
	FILE *stream = open_memstream(text, size);

	if (!stream)
		return -ENOMEM;
	fprintf(stream, "%s\n", request->verb);
	for (size_t i = 0; i < request->count; i++)
		fprintf(stream, "%s\n", request->words[i]);
	if (fclose(stream))
		return -ENOMEM;
	return *size > REMOTE_REQUEST_MAX || request->count > REMOTE_WORDS_MAX ? -E2BIG : 0;
}

static int take_answer(int socket, struct wait *wait, char **answer, struct calltap_diag *diag)
{
	struct answer got = {0};
	int ret = receive_answer(socket, &got, wait);

	if (ret)
		ret = explain_error(socket, ret, diag);
	else if (got.code)
		ret = take_error(&got, diag);
	if (ret)
		free(got.text);
	else
		*answer = got.text;
	return ret;
}

int remote_receive(int socket, int timeout_ms, char **answer, struct calltap_diag *diag)
{
	struct wait wait;

	*answer = NULL;
	begin_wait(&wait, socket, timeout_ms, false);
	return take_answer(socket, &wait, answer, diag);
}

int remote_ask(int socket, const struct remote_request *request, char **answer, struct calltap_diag *diag)
{
	char *text = NULL;
	size_t size = 0;
	int ret = compose_request(request, &text, &size);
	ssize_t sent = 0;
	struct wait wait;

	*answer = NULL;
	begin_wait(&wait, socket, request->timeout_ms, request->patient);
	if (!ret)
		sent = descriptors_send(socket, text, size, request->fds, request->fd_count);
	if (sent < 0 && sent != -EPIPE) /* the other end is closed, but its last answer may be there */
		ret = (int)sent;
	free(text);
	return ret ? explain_error(socket, ret, diag) : take_answer(socket, &wait, answer, diag);
}

int remote_ask_status(int socket, const char *instance, struct remote_status *status, struct calltap_diag *diag)
{
	char word[sizeof(status->instance) + sizeof("instance=")];
	const char *const words[] = {word};
	const struct remote_request request = {
		.verb = "status", .words = words, .count = instance != NULL, .timeout_ms = 5000, .patient = true};
	char *text;
	int ret;

	snprintf(word, sizeof(word), "instance=%s", instance ? instance : "");
	ret = remote_ask(socket, &request, &text, diag);
	if (ret)
		return ret;
	status_parse(status, text);
	free(text);
	return 0;
}
