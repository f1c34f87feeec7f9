/*
 * Questions and changes that the tree sends to the session, by the socket that `calltap set` uses (tree.h).
 *
 * When the session has ended, the settings are those that it told last.  A change that takes away is made to these: a
 * tool that puts everything back as it was is to find no error at its end.  Others are refused.  Context: host.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <host/now.h>
#include <host/remote/remote.h>

#include "tree.h"

int ask_tell_gone(const struct tree *tree, struct calltap_diag *diag)
{
	return calltap_diag_set(diag, -ENODEV,
				tree->pid || !tree->options->attach
					? "the process that was traced has ended, or its recording has"
					: "there is no process yet: write its PID to the file attach");
}

bool ask_is_gone(const struct tree_instance *instance, struct calltap_diag *diag)
{
	if (instance->tree->pid && !instance->source.ended && !instance->tree->over)
		return false;
	(void)ask_tell_gone(instance->tree, diag);
	return true;
}

/* The words with the instance's name in front of them; the caller frees *name. */
static int name_words(const struct tree_instance *instance, const char *const *words, size_t count, const char ***out,
		      char **name)
{
	const char **list = calloc(count + 1, sizeof(*list));

	*name = NULL;
	*out = list;
	if (!list)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++)
		list[i] = words[i];
	if (!instance->session_name[0])
		return 0;
	if (asprintf(name, "instance=%s", instance->session_name) < 0) {
		*name = NULL;
		return -ENOMEM;
	}
	memmove(list + 1, list, count * sizeof(*list));
	list[0] = *name;
	return 0;
}

static int send_on(struct tree *tree, const struct remote_request *request, char **answer, struct calltap_diag *diag)
{
	int ret = -EPIPE;

	for (int i = 0; i < 2 && ret == -EPIPE; i++) {
		if (tree->connection < 0 &&
		    (!tree->pid || tree->over || remote_connect(&tree->connection, tree->pid, diag)))
			return ask_tell_gone(tree, diag);
		ret = remote_ask(tree->connection, request, answer, diag);
		if (ret != -EPIPE && ret != -ETIMEDOUT)
			continue;
		close(tree->connection); /* a late answer would be taken for that to the next question */
		tree->connection = -1;
	}
	return ret == -EPIPE ? ask_tell_gone(tree, diag) : ret;
}

/* How long to wait for an answer: all questions of a tree that goes have one time together. */
static int patience_ms(const struct tree *tree)
{
	uint64_t now = now_ns();

	if (!tree->leave_ns)
		return ASK_PATIENCE_MS;
	return now < tree->leave_ns ? (int)((tree->leave_ns - now) / 1000000) : 0;
}

int ask_session(struct tree_instance *instance, const char *verb, const char *const *words, size_t count, int fd,
		char **answer, struct calltap_diag *diag)
{
	struct remote_request request = {
		.verb = verb, .fds = &fd, .fd_count = fd >= 0, .timeout_ms = patience_ms(instance->tree)};
	const char **list;
	char *name;
	int ret = name_words(instance, words, count, &list, &name);

	*answer = NULL;
	request.words = list;
	request.count = count + (name != NULL);
	if (!ret)
		ret = send_on(instance->tree, &request, answer, diag);
	else
		ret = calltap_diag_set(diag, ret, "not enough memory");
	free(name);
	free(list);
	return ret;
}

const char *ask_settings(struct tree_instance *instance)
{
	struct calltap_diag diag = {.column = -1};
	char *answer;

	if (instance->source.ended || instance->tree->over ||
	    ask_session(instance, "settings", NULL, 0, -1, &answer, &diag))
		return instance->settings;
	free(instance->settings);
	instance->settings = answer;
	return answer;
}

/* The rest of a line that begins so, and its length; NULL = the line is another one. */
static const char *value_of(const char *line, const char *key, bool further, size_t *length)
{
	size_t size = strlen(key);

	if (strncmp(line, key, size) != 0)
		return NULL;
	if (further && line[size] == '+')
		size++;
	if (line[size] != '=')
		return NULL;
	*length = strcspn(line + size + 1, "\n");
	return line + size + 1;
}

static const char *next_line(const char *line)
{
	const char *end = strchr(line, '\n');

	return end ? end + 1 : line + strlen(line);
}

void ask_value(struct tree_instance *instance, const char *key, char *value, size_t size)
{
	const char *text = ask_settings(instance);

	value[0] = 0;
	for (const char *line = text ? text : ""; *line; line = next_line(line)) {
		size_t length;
		const char *found = value_of(line, key, false, &length);

		if (!found)
			continue;
		if (length >= size)
			length = size - 1;
		memcpy(value, found, length);
		value[length] = 0;
		return;
	}
}

int ask_filters(struct tree_instance *instance, const char *key, struct tree_words *out)
{
	const char *text = ask_settings(instance);
	int ret = 0;

	*out = (struct tree_words){0};
	for (const char *line = text ? text : ""; *line && !ret; line = next_line(line)) {
		size_t length;
		const char *found = value_of(line, key, true, &length);
		char *word = found && length ? strndup(found, length) : NULL;

		if (!found || !length)
			continue;
		ret = word ? tree_words_add(out, word) : -ENOMEM;
		free(word);
	}
	if (ret)
		tree_words_clear(out);
	return ret;
}

bool ask_is_graph(struct tree_instance *instance)
{
	char tracer[64];

	ask_value(instance, "tracer", tracer, sizeof(tracer));
	return !strcmp(tracer, "function_graph");
}

bool ask_is_tracing(struct tree_instance *instance)
{
	char value[16];

	ask_value(instance, "tracing", value, sizeof(value));
	return !strcmp(value, "on");
}

static bool has_key(const char *word, const char *key)
{
	size_t length;

	return value_of(word, key, true, &length) != NULL;
}

/* True if an instance that is not the session's first has to begin anew for this. */
static bool is_for_begin(const struct tree_words *changes)
{
	for (size_t i = 0; i < changes->count; i++)
		if (has_key(changes->list[i], "tracer") || has_key(changes->list[i], "buffer"))
			return true;
	return false;
}

/* Settings as words with which an instance like this one begins. */
static int take_settings(struct tree_instance *instance, struct tree_words *out)
{
	static const char *const keys[] = {"tracing",	"tracer", "mode",  "buffer",   "max-depth",
					   "threshold", "trace",  "graph", "no-graph", "notrace"};
	const char *text = ask_settings(instance);
	int ret = 0;

	for (const char *line = text ? text : ""; *line && !ret; line = next_line(line)) {
		char *word = strndup(line, strcspn(line, "\n"));
		bool known = false;

		for (size_t i = 0; word && i < sizeof(keys) / sizeof(keys[0]); i++)
			known |= has_key(word, keys[i]);
		ret = !word ? -ENOMEM : known && word[strlen(word) - 1] != '=' ? tree_words_add(out, word) : 0;
		free(word);
	}
	return ret;
}

/* Put a change, "key=value" or "key+=value", into a list of settings. */
static int put_change(struct tree_words *settings, const char *change)
{
	size_t equals = strcspn(change, "=");
	bool further = equals && change[equals - 1] == '+';
	char *key = strndup(change, equals - further);
	int ret = key ? 0 : -ENOMEM;

	for (size_t i = settings->count; i-- && key && !further;)
		if (has_key(settings->list[i], key))
			tree_words_remove(settings, i);
	if (!ret && change[equals + 1])
		ret = tree_words_add(settings, change);
	free(key);
	return ret;
}

static int begin_again(struct tree_instance *instance, const struct tree_words *changes, struct calltap_diag *diag)
{
	char name[sizeof(instance->session_name) + sizeof("name=")];
	struct tree_words settings = {0};
	int ret;

	snprintf(name, sizeof(name), "name=%s", instance->session_name);
	ret = tree_words_add(&settings, name);
	if (!ret)
		ret = take_settings(instance, &settings);
	for (size_t i = 0; i < changes->count && !ret; i++)
		ret = put_change(&settings, changes->list[i]);
	if (ret)
		ret = calltap_diag_set(diag, ret, "not enough memory");
	if (!ret) {
		end_instance(instance);
		ret = begin_instance(instance, (const char *const *)settings.list, settings.count, diag);
	}
	tree_words_clear(&settings);
	return ret;
}

int ask_add_change(struct tree_words *changes, const char *key, const char *sign, const char *value)
{
	char *word;
	int ret;

	if (asprintf(&word, "%s%s%s", key, sign, value) < 0)
		return -ENOMEM;
	ret = tree_words_add(changes, word);
	free(word);
	return ret;
}

int ask_add_values(struct tree_words *changes, const char *key, const struct tree_words *values)
{
	int ret = ask_add_change(changes, key, "=", values->count ? values->list[0] : "");

	for (size_t i = 1; i < values->count && !ret; i++)
		ret = ask_add_change(changes, key, "+=", values->list[i]);
	return ret;
}

/* True if the changes begin nothing. */
static bool take_away_alone(const struct tree_words *changes)
{
	for (size_t i = 0; i < changes->count; i++) {
		const char *change = changes->list[i];

		if (change[strlen(change) - 1] != '=' && strcmp(change, "tracer=nop") != 0 &&
		    !has_key(change, "tracing"))
			return false;
	}
	return true;
}

/* Make changes to the settings that the session told last. */
static int change_remembered(struct tree_instance *instance, const struct tree_words *changes)
{
	struct tree_words settings = {0};
	struct tree_text text = {0};
	int ret = 0;

	for (const char *line = instance->settings ? instance->settings : ""; *line && !ret; line = next_line(line)) {
		char *word = strndup(line, strcspn(line, "\n"));

		ret = word ? tree_words_add(&settings, word) : -ENOMEM;
		free(word);
	}
	for (size_t i = 0; i < changes->count && !ret; i++)
		ret = put_change(&settings, changes->list[i]);
	for (size_t i = 0; i < settings.count; i++)
		tree_text_format(&text, "%s\n", settings.list[i]);
	tree_text_add(&text, "", 1);
	tree_words_clear(&settings);
	if (ret || text.failed) {
		tree_text_clear(&text);
		return -ENOMEM;
	}
	free(instance->settings);
	instance->settings = text.bytes;
	return 0;
}

/* The error number as a file's reader knows it. */
static int error_of(int error)
{
	switch (error) {
	case -ETIMEDOUT: /* the change is made, and who has not answered makes it when it goes on */
		return 0;
	case -EAGAIN:
		return -EBUSY;
	case -EOPNOTSUPP:
		return -EINVAL;
	default:
		return error;
	}
}

/* Filters that match nothing so far are let be: the tree has looked at what they match, and some wait for libraries. */
static int ask_set(struct tree_instance *instance, const struct tree_words *changes, struct calltap_diag *diag)
{
	const char **list = calloc(changes->count + 1, sizeof(*list));
	char *answer = NULL;
	int ret;

	if (!list)
		return calltap_diag_set(diag, -ENOMEM, "not enough memory");
	for (size_t i = 0; i < changes->count; i++)
		list[i] = changes->list[i];
	list[changes->count] = "allow-no-match=1";
	ret = ask_session(instance, "set", list, changes->count + 1, -1, &answer, diag);
	free(answer);
	free(list);
	return ret;
}

/*
 * The Command of error_log: the text that a file is being given; when its work is done later, the value of the change
 * "key=value" or "key+=value".
 */
static const char *written(const struct tree *tree, const char *change)
{
	const char *equals = strchr(change, '=');

	if (tree->written)
		return tree->written;
	return equals ? equals + 1 : change;
}

int ask_change(struct tree_instance *instance, const char *file, const struct tree_words *changes)
{
	struct calltap_diag diag = {.column = -1};
	struct tree_text sentence = {0};
	int ret;

	if (!changes->count)
		return 0;
	if (instance->source.ended || instance->tree->over)
		ret = ask_tell_gone(instance->tree, &diag);
	else if (instance->session_name[0] && is_for_begin(changes))
		ret = begin_again(instance, changes, &diag);
	else
		ret = ask_set(instance, changes, &diag);
	if (ret == -ENODEV && take_away_alone(changes))
		ret = change_remembered(instance, changes);
	if (!ret) {
		(void)ask_settings(instance); /* what was said last is kept when the session ends */
		return 0;
	}
	limits_add_sentence(&sentence, diag.text);
	errors_note(instance->tree, file, ret, sentence.failed ? diag.text : sentence.bytes,
		    diag.input[0] ? diag.input : written(instance->tree, changes->list[0]), diag.column);
	tree_text_clear(&sentence);
	return error_of(ret);
}
