/*
 * Requests of clients: taking their text apart, and putting the session's answer together (remote.h has both formats).
 *
 * Caller: the server.  Context: host; the text is whatever a program of the same user, or of root, has sent.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "impl.h"

struct request {
	char *verb;
	void *context; /* context of the ops: the session's, or one of its instances' */
	struct setting_change words[REMOTE_WORDS_MAX];
	size_t count;
	const int *fds; /* REMOTE_FDS, -1 = none */
};

struct verb {
	const char *name;
	int (*serve)(struct remote *remote, struct remote_client *client, const struct request *request, FILE *answer,
		     struct calltap_diag *diag);
};

static int serve_status(struct remote *remote, struct remote_client *client, const struct request *request,
			FILE *answer, struct calltap_diag *diag)
{
	struct remote_status status = {.tool = (uint64_t)getpid()};
	int ret = remote->ops->status(request->context, &status, diag);

	status_print(&status, answer);
	return ret;
}

static int serve_settings(struct remote *remote, struct remote_client *client, const struct request *request,
			  FILE *answer, struct calltap_diag *diag)
{
	return remote->ops->settings(request->context, answer, diag);
}

static int serve_set(struct remote *remote, struct remote_client *client, const struct request *request, FILE *answer,
		     struct calltap_diag *diag)
{
	if (!request->count)
		return calltap_diag_set(diag, -EINVAL, "there is nothing to set; give key=value");
	return remote->ops->set(request->context, request->words, request->count, diag);
}

static int serve_snapshot(struct remote *remote, struct remote_client *client, const struct request *request,
			  FILE *answer, struct calltap_diag *diag)
{
	struct remote_snapshot wish = {.fd = request->fds[0], .reason = "", .call = ""};
	struct stat st;

	for (size_t i = 0; i < request->count; i++) {
		if (!strcmp(request->words[i].key, "history_ns"))
			wish.history_ns = strtoull(request->words[i].value, NULL, 10);
		else if (!strcmp(request->words[i].key, "reason"))
			wish.reason = request->words[i].value;
		else if (!strcmp(request->words[i].key, "call"))
			wish.call = request->words[i].value;
	}
	/* A pipe that nobody reads would hold the session up. */
	if (wish.fd < 0 || fstat(wish.fd, &st) || !S_ISREG(st.st_mode))
		return calltap_diag_set(diag, -EINVAL, "a snapshot is written to a file; give one with -o");
	return remote->ops->snapshot(request->context, &wish, answer, diag);
}

static int serve_mark(struct remote *remote, struct remote_client *client, const struct request *request, FILE *answer,
		      struct calltap_diag *diag)
{
	if (request->count != 1 || strcmp(request->words[0].key, "text") != 0)
		return calltap_diag_set(diag, -EINVAL, "a mark is a text; give one");
	if (!remote->ops->mark)
		return calltap_diag_set(diag, -EOPNOTSUPP, "the session takes no marks");
	return remote->ops->mark(request->context, request->words[0].value, diag);
}

/* Nobody registers handlers for another process: they are addresses in it. */
static int serve_handlers(struct remote *remote, struct remote_client *client, const struct request *request,
			  FILE *answer, struct calltap_diag *diag)
{
	struct ucred peer;
	socklen_t size = sizeof(peer);

	if (getsockopt(client->socket, SOL_SOCKET, SO_PEERCRED, &peer, &size))
		return -errno;
	return remote->ops->handlers(request->context, peer.pid, request->words, request->count, answer, diag);
}

/* The functions are written to a file that the asker sends along: an answer has no room for many. */
static int serve_functions(struct remote *remote, struct remote_client *client, const struct request *request,
			   FILE *answer, struct calltap_diag *diag)
{
	struct stat st;
	FILE *out;
	int fd, ret;

	/* A pipe that nobody reads would hold the session up. */
	if (request->fds[0] < 0 || fstat(request->fds[0], &st) || !S_ISREG(st.st_mode))
		return calltap_diag_set(diag, -EINVAL, "the list of functions is written to a file; none came along");
	if (!remote->ops->functions)
		return calltap_diag_set(diag, -EOPNOTSUPP, "the session lists no functions");
	fd = fcntl(request->fds[0], F_DUPFD_CLOEXEC, 0);
	out = fd < 0 ? NULL : fdopen(fd, "w");
	if (!out) {
		ret = -errno;
		if (fd >= 0)
			close(fd);
		return calltap_diag_set(diag, ret, "cannot write the list of functions: %s", strerror(-ret));
	}
	ret = remote->ops->functions(request->context, request->words, request->count, out, diag);
	if (fclose(out) && !ret)
		ret = calltap_diag_set(diag, -errno, "cannot write the list of functions: %s", strerror(errno));
	return ret;
}

static int serve_catch(struct remote *remote, struct remote_client *client, const struct request *request, FILE *answer,
		       struct calltap_diag *diag)
{
	static const char *const words[] = {
		[REMOTE_CATCH_NOT] = "no\n", [REMOTE_CATCH_CAUGHT] = "caught\n", [REMOTE_CATCH_COMING] = "coming\n"};
	char *end;
	long tid;

	if (request->count != 1 || strcmp(request->words[0].key, "tid") != 0)
		return calltap_diag_set(diag, -EINVAL, "the thread is missing; give tid=NUMBER");
	tid = strtol(request->words[0].value, &end, 10);
	if (*end || tid <= 0 || tid > INT_MAX)
		return calltap_diag_set(diag, -EINVAL, "this is no thread's id");
	if (!remote->ops->catches)
		return calltap_diag_set(diag, -EOPNOTSUPP, "the session catches no threads");
	fputs(words[remote->ops->catches(request->context, (pid_t)tid)], answer);
	return 0;
}

static int end_instance(struct remote *remote, const struct remote_client *client, void *instance, FILE *answer,
			struct calltap_diag *diag)
{
	int ret = remote->ops->end(instance, answer, diag);

	server_instance_ended(remote, instance, client, ret ? diag->text : "it was detached");
	return ret;
}

static int serve_detach(struct remote *remote, struct remote_client *client, const struct request *request,
			FILE *answer, struct calltap_diag *diag)
{
	int ret;

	if (request->context != remote->context)
		return end_instance(remote, client, request->context, answer, diag);
	ret = remote->ops->detach(request->context, diag);

	client->waits = !ret;
	return ret;
}

static int serve_instance(struct remote *remote, struct remote_client *client, const struct request *request,
			  FILE *answer, struct calltap_diag *diag)
{
	struct stat st;

	/* A pipe that nobody reads would hold the session up. */
	if (request->fds[0] < 0 || fstat(request->fds[0], &st) || (!S_ISREG(st.st_mode) && !S_ISCHR(st.st_mode)))
		return calltap_diag_set(diag, -EINVAL, "an instance writes to a file; give one with -o");
	if (client->instance)
		return calltap_diag_set(diag, -EBUSY, "there is an instance on this connection already");
	return remote->ops->instance(request->context, request->words, request->count, request->fds, answer,
				     &client->instance, diag);
}

static const struct verb verbs[] = {
	{"status", serve_status},     {"settings", serve_settings}, {"set", serve_set},
	{"snapshot", serve_snapshot}, {"detach", serve_detach},	    {"handlers", serve_handlers},
	{"instance", serve_instance}, {"mark", serve_mark},	    {"functions", serve_functions},
	{"catch", serve_catch},
};

static int parse_request(struct request *request, char *text)
{
	char *next;

	request->verb = text;
	for (char *line = text; line && *line; line = next) {
		next = strchr(line, '\n');
		if (next)
			*next++ = 0;
		if (line == text)
			continue;
		if (request->count == REMOTE_WORDS_MAX || setting_parse(&request->words[request->count++], line))
			return -EPROTO;
	}
	return 0;
}

/* Choose the context by the word instance=NAME, which the ops do not see. */
static int choose_instance(struct remote *remote, struct request *request, struct calltap_diag *diag)
{
	request->context = remote->context;
	for (size_t i = 0; i < request->count; i++) {
		if (strcmp(request->words[i].key, "instance") != 0)
			continue;
		request->context = remote->ops->find(remote->context, request->words[i].value, diag);
		memmove(&request->words[i], &request->words[i + 1], (--request->count - i) * sizeof(request->words[0]));
		return request->context ? 0 : diag->code;
	}
	return 0;
}

static int dispatch_verb(struct remote *remote, struct remote_client *client, struct request *request, FILE *answer,
			 struct calltap_diag *diag)
{
	int ret = choose_instance(remote, request, diag);

	if (ret)
		return ret;
	for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++)
		if (!strcmp(request->verb, verbs[i].name))
			return verbs[i].serve(remote, client, request, answer, diag);
	return calltap_diag_set(diag, -EPROTO,
				"the session does not know '%.40s'; use the calltap that it was started with",
				request->verb);
}

/* Answer with a sentence for what went wrong, and the input where there is some. */
static void answer_error(struct remote *remote, struct remote_client *client, int code, const struct calltap_diag *diag)
{
	char text[sizeof(diag->text) + sizeof(diag->input) + 2];
	int size = snprintf(text, sizeof(text), "%s\n%s", diag->text[0] ? diag->text : strerror(-code), diag->input);

	client_answer(remote, client, code, diag->input[0] ? diag->column : -1, text, (size_t)size);
}

void request_serve(struct remote *remote, struct remote_client *client, char *text, const int fds[REMOTE_FDS])
{
	struct calltap_diag diag = {.column = -1};
	struct request *request = calloc(1, sizeof(*request));
	char *answer = NULL;
	size_t size = 0;
	FILE *stream = open_memstream(&answer, &size);
	int ret = request && stream ? 0 : -ENOMEM;

	if (!ret) {
		request->fds = fds;
		ret = parse_request(request, text);
	}
	if (!ret)
		ret = dispatch_verb(remote, client, request, stream, &diag);
	if (stream && fclose(stream) && !ret)
		ret = -ENOMEM;
	if (!ret && size > REMOTE_ANSWER_MAX)
		ret = -E2BIG;
	if (ret)
		answer_error(remote, client, ret, &diag);
	else if (!client->waits)
		client_answer(remote, client, 0, -1, answer, size);
	free(answer);
	free(request);
}
