/*
 * The control socket's text, both ways: a request to a session, and the answer of a peer that is no session to a
 * client.  The first byte chooses between them.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <host/instance/settings.h>
#include <host/elf/filter.h>
#include <host/remote/impl.h>
#include <tracers/tracer.h>

#include "fuzz.h"

#define PACKET	  200 /* bytes of an input that are one packet of an answer */
#define REGEX_MAX 16  /* longer ones take regcomp() for ever, and it is not ours */

static int take_status(void *context, struct remote_status *status, struct calltap_diag *diag)
{
	(void)context;
	(void)diag;
	memset(status, 0xff, sizeof(*status));
	return 0;
}

static int show_settings(void *context, FILE *answer, struct calltap_diag *diag)
{
	(void)diag;
	settings_print(context, answer);
	return 0;
}

static int change_settings(void *context, const struct setting_change *changes, size_t count, struct calltap_diag *diag)
{
	struct settings *settings = context, next;
	int ret;

	for (size_t i = 0; i < count; i++)
		if (changes[i].value[0] == '@' ||
		    (strchr(changes[i].value, '/') && strlen(changes[i].value) > REGEX_MAX))
			return -EINVAL;
	ret = settings_change(&next, settings, changes, count, diag);
	if (ret) {
		fuzz_expect(diag->text[0] != 0, "an error is told");
		fuzz_expect(diag->column < (int)sizeof(diag->input), "the caret is below the input");
		return ret;
	}
	fuzz_expect(!settings_refuse(&next.options, false, diag), "what is set fits together");
	filter_set_destroy(settings->options.filters);
	*settings = next;
	return 0;
}

static int take_snapshot(void *context, const struct remote_snapshot *wish, FILE *answer, struct calltap_diag *diag)
{
	(void)context;
	(void)diag;
	fputs(wish->reason, answer);
	fputs(wish->call, answer);
	return 0;
}

static int end(void *context, struct calltap_diag *diag)
{
	(void)context;
	(void)diag;
	return 0;
}

static int take_handlers(void *context, pid_t asker, const struct setting_change *words, size_t count, FILE *answer,
			 struct calltap_diag *diag)
{
	(void)context;
	(void)diag;
	fuzz_expect(asker == getpid(), "who asks is who sent it");
	for (size_t i = 0; i < count; i++)
		fputs(words[i].key, answer);
	return 0;
}

static void *find(void *context, const char *name, struct calltap_diag *diag)
{
	if (!strcmp(name, "look"))
		return context;
	calltap_diag_set(diag, -ENOENT, "there is none");
	return NULL;
}

static int begin_instance(void *context, const struct setting_change *words, size_t count, const int fds[REMOTE_FDS],
			  FILE *answer, void **instance, struct calltap_diag *diag)
{
	(void)context;
	(void)diag;
	fuzz_expect(fds[0] >= 0, "it has a file");
	for (size_t i = 0; i < count; i++)
		fputs(words[i].key, answer);
	*instance = answer;
	return 0;
}

static int end_instance(void *instance, FILE *answer, struct calltap_diag *diag)
{
	(void)instance;
	(void)diag;
	fputs("ended", answer);
	return 0;
}

static enum remote_catch catch_thread(void *context, pid_t tid)
{
	(void)context;
	fuzz_expect(tid > 0, "a thread has a number");
	return tid & 1 ? REMOTE_CATCH_CAUGHT : REMOTE_CATCH_NOT;
}

static const struct remote_ops ops = {
	.status = take_status,
	.settings = show_settings,
	.set = change_settings,
	.snapshot = take_snapshot,
	.detach = end,
	.handlers = take_handlers,
	.catches = catch_thread,
	.find = find,
	.instance = begin_instance,
	.end = end_instance,
};

static void ask(int socket)
{
	const struct remote_request request = {.verb = "status", .timeout_ms = 0};
	struct calltap_diag diag = {0};
	struct remote_status status;
	char *answer;

	if (remote_ask(socket, &request, &answer, &diag)) {
		fuzz_expect(!answer && diag.code, "an error is told");
		return;
	}
	status_parse(&status, answer);
	fuzz_expect(strlen(status.program) < sizeof(status.program), "text has an end");
	free(answer);
}

static void open_pair(int sockets[2])
{
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets))
		abort();
}

static void request(struct remote *remote, const uint8_t *data, size_t size)
{
	struct epoll_event event = {.events = EPOLLIN};
	struct remote_client client = {0};
	char packet[REMOTE_PACKET_MAX], *text = strndup((const char *)data, size);
	int sockets[2];

	open_pair(sockets);
	client.socket = sockets[0];
	if (!text || epoll_ctl(remote->epoll, EPOLL_CTL_ADD, sockets[0], &event))
		abort();
	request_serve(remote, &client, text, (const int[REMOTE_FDS]){-1, -1});
	fuzz_expect(recv(sockets[1], packet, sizeof(packet), MSG_DONTWAIT) > 0 || client.waits,
		    "a request is answered, now or at the end");
	if (client.socket >= 0)
		close(client.socket);
	free(client.answer);
	close(sockets[1]);
	free(text);
}

/* Requests, between which there is a byte 0xff. */
static void be_asked(const uint8_t *data, size_t size)
{
	struct settings settings = {.options = {.tracer = tracer_at(0), .buffer_bytes = 4u << 20}, .tracing = true};
	struct remote remote = {.ops = &ops, .context = &settings, .epoll = epoll_create1(EPOLL_CLOEXEC)};

	if (remote.epoll < 0 || filter_set_create(&settings.options.filters))
		abort();
	while (size) {
		const uint8_t *stop = memchr(data, 0xff, size);
		size_t length = stop ? (size_t)(stop - data) : size;

		request(&remote, data, length);
		length += stop != NULL;
		data += length;
		size -= length;
	}
	filter_set_destroy(settings.options.filters);
	close(remote.epoll);
}

static void answer(const uint8_t *data, size_t size)
{
	int sockets[2];

	open_pair(sockets);
	for (size_t from = 0; from < size; from += PACKET)
		if (send(sockets[0], data + from, size - from < PACKET ? size - from : PACKET, MSG_DONTWAIT) < 0)
			break;
	ask(sockets[1]);
	close(sockets[0]);
	close(sockets[1]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size && data[0] % 2)
		be_asked(data + 1, size - 1);
	else if (size)
		answer(data + 1, size - 1);
	return 0;
}
