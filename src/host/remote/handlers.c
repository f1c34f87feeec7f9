/*
 * Asking a session to call handlers of the caller's own process (remote.h): the words of the request `handlers`.
 *
 * Caller: libcalltap, in the process that the session traces.  Context: host.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <host/now.h>

#include "impl.h"

#define ADDRESSES_MAX 1000 /* in one word */
#define ADDRESS_SIZE  20   /* bytes of one address as text, at the most */
#define AGAIN_MS      1
#define ANSWER_MS     5000 /* a tool that has answered before answers again: leave no answer in the socket */

struct words {
	char **list;
	size_t count, room;
};

static void words_clear(struct words *words)
{
	for (size_t i = 0; i < words->count; i++)
		free(words->list[i]);
	free(words->list);
}

/* Add a text, which the list frees; NULL = there was no memory for it. */
static int add(struct words *words, char *text)
{
	if (text && words->count == words->room) {
		size_t room = words->room ? words->room * 2 : 16;
		char **list = reallocarray(words->list, room, sizeof(*list));

		if (!list) {
			free(text);
			return -ENOMEM;
		}
		words->list = list;
		words->room = room;
	}
	if (!text)
		return -ENOMEM;
	words->list[words->count++] = text;
	return 0;
}

static int add_number(struct words *words, const char *key, uint64_t number)
{
	char *text = NULL;

	return add(words, asprintf(&text, "%s=0x%" PRIx64, key, number) < 0 ? NULL : text);
}

/* A filter is one line: a newline in it is an error. */
static int add_filters(struct words *words, const char *key, const char *const *filters)
{
	int ret = 0;

	for (; filters && *filters && !ret; filters++) {
		char *text = NULL;

		ret = strchr(*filters, '\n') ? -EINVAL
					     : add(words, asprintf(&text, "%s=%s", key, *filters) < 0 ? NULL : text);
	}
	return ret;
}

static int add_addresses(struct words *words, const uint64_t *addresses, size_t count)
{
	size_t size = sizeof("address=") + count * ADDRESS_SIZE, at;
	char *text = malloc(size);

	at = text ? (size_t)snprintf(text, size, "address=") : 0;
	for (size_t i = 0; text && i < count; i++)
		at += (size_t)snprintf(text + at, size - at, "%s0x%" PRIx64, i ? "," : "", addresses[i]);
	return add(words, text);
}

static int compose(struct words *words, const struct remote_handlers *handlers)
{
	int ret = add_number(words, "table", handlers->table);

	if (!ret)
		ret = add_number(words, handlers->remove ? "remove" : "add", handlers->slot);
	if (ret || handlers->remove)
		return ret;
	ret = add_number(words, "exit", handlers->exit);
	if (!ret)
		ret = add_number(words, "data", handlers->data);
	if (!ret)
		ret = add_number(words, "general", handlers->general);
	if (!ret)
		ret = add_number(words, "pending", handlers->pending);
	if (!ret)
		ret = add_filters(words, "filter", handlers->filter);
	if (!ret)
		ret = add_filters(words, "notrace", handlers->notrace);
	for (size_t i = 0; i < handlers->address_count && !ret; i += ADDRESSES_MAX) {
		size_t left = handlers->address_count - i;

		ret = add_addresses(words, handlers->addresses + i, left < ADDRESSES_MAX ? left : ADDRESSES_MAX);
	}
	return ret;
}

int remote_ask_handlers(int socket, const struct remote_handlers *handlers, uint64_t *functions,
			struct calltap_diag *diag)
{
	const struct timespec pause = {0, AGAIN_MS * 1000000};
	const int64_t until = now_ms() + handlers->timeout_ms;
	struct words words = {0};
	char *answer = NULL;
	bool again = false;
	int ret = compose(&words, handlers);

	*functions = 0;
	if (ret)
		ret = calltap_diag_set(diag, ret, ret == -EINVAL ? "a filter is one line" : "not enough memory");
	while (!ret) {
		const struct remote_request request = {
			.verb = "handlers",
			.words = (const char *const *)words.list,
			.count = words.count,
			.timeout_ms = (int)(until - now_ms()) + (again ? ANSWER_MS : 1),
		};

		ret = remote_ask(socket, &request, &answer, diag);
		if (ret != -EAGAIN || now_ms() >= until)
			break;
		again = true;
		nanosleep(&pause, NULL);
		ret = 0;
	}
	if (!ret && sscanf(answer, "functions=%" SCNu64, functions) != 1)
		ret = calltap_diag_set(diag, -EPROTO,
				       "the session's answer is not understood; use the calltap and the "
				       "libcalltap of one version");
	free(answer);
	words_clear(&words);
	return ret;
}
