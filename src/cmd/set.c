/*
 * `calltap set`: show or change the settings of a session while it records.
 *
 * The session judges the words (host/instance/settings.h); only a list of filters gets its whole path here, for the
 * session has another directory.  Caller: main.  Context: host.
 */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host/view/json.h"
#include "cmd.h"
#include "options.h"
#include "steering.h"

#define PATIENCE_MS 30000

enum { SET_IF = STEERING_OWN, SET_ONLY_IF };

static const char help[] =
	"usage: calltap set PID [--instance NAME] [--json]\n"
	"       calltap set PID [--instance NAME] KEY=VALUE...\n"
	"Show the settings of the session that traces PID, or change them while it records.\n\n"
	"  tracing=on|off        record, or do not; what is patched stays so\n"
	"  tracer=NAME           function_graph, function or nop\n"
	"  trace=FILTER          trace only these functions, of those that are patched\n"
	"  trace+=FILTER         and these, too\n"
	"  trace=                remove all filters of this kind; likewise:\n"
	"  notrace=FILTER        do not trace these functions\n"
	"  graph=FILTER          trace these functions and what they call\n"
	"  no-graph=FILTER       trace neither these functions nor what they call\n"
	"  max-depth=N           record at most N traced calls deep; max-depth= takes the limit away\n"
	"  threshold=TIME        leave out finished calls shorter than TIME (10us, 1ms, ...)\n"
	"  time=exact|adaptive   of a recording that began with --time adaptive: do all calls\n"
	"                        have their times from now on?  likewise, as with `calltap record`:\n"
	"  time-short=TIME       less is short\n"
	"  time-sample=N         one call in N has its times\n"
	"  buffer=SIZE           of each thread's buffer, but not in mode overwrite\n"
	"  mode                  is shown, and stays as it was at the start\n"
	"  args=FUNCTION[:VALUES]  show what these calls are made with; likewise:\n"
	"  result=FUNCTION[:VALUES]     what they give\n"
	"  if=FUNCTION: EXPR     record these calls only where EXPR is true\n"
	"  only-if=FUNCTION: EXPR     and what others call not either\n"
	"  auto-args=on|off      show what types tell of all functions\n"
	"  registers=args|result|caller     show numbers of all other functions, as kernels do\n\n"
	"  -A, --args 'FUNCTION[:VALUES]'      is args+=, as with `calltap record`; likewise:\n"
	"  -R, --result 'FUNCTION[:VALUES]'\n"
	"      --if 'FUNCTION: EXPR'\n"
	"      --only-if 'FUNCTION: EXPR'\n"
	"  -a, --auto-args       is auto-args=on\n"
	"      --instance NAME   of this instance (`calltap status PID` lists them)\n"
	"      --json            JSON\n"
	"  -h, --help            this text\n";

/* Complete trace=@list to trace=@/the/whole/path/of/list; NULL: no memory. */
static char *complete_word(const char *word)
{
	const char *at = strstr(word, "=@");
	char path[PATH_MAX], *text;

	if (!at || strchr(word, '=') != at || at[2] == '/' || !getcwd(path, sizeof(path)))
		return strdup(word);
	return asprintf(&text, "%.*s%s/%s", (int)(at + 2 - word), word, path, at + 2) < 0 ? NULL : text;
}

static int check_word(struct steering *steering, const char *word)
{
	const char *equals = strchr(word, '=');

	if (strchr(word, '\n'))
		return calltap_diag_set(&steering->diag, -EINVAL, "a setting is one line");
	if (equals && equals != word)
		return 0;
	calltap_diag_set(&steering->diag, -EINVAL, "'%.60s' is no setting; write KEY=VALUE, such as tracing=off", word);
	snprintf(steering->diag.input, sizeof(steering->diag.input), "%s", word);
	steering->diag.column = equals ? 0 : (int)strlen(steering->diag.input);
	return -EINVAL;
}

static int change_settings(struct steering *steering, pid_t pid, char **words, size_t count)
{
	struct remote_request request = {.verb = "set", .timeout_ms = PATIENCE_MS};
	char **copies = calloc(count + 1, sizeof(*copies)), *answer = NULL;
	int err = copies ? 0 : -ENOMEM;

	for (size_t i = 0; i < count && !err; i++) {
		err = check_word(steering, words[i]);
		if (!err && !(copies[i] = complete_word(words[i])))
			err = -ENOMEM;
	}
	if (err == -ENOMEM)
		calltap_diag_set(&steering->diag, err, "not enough memory");
	request.words = (const char *const *)copies;
	request.count = count;
	if (!err)
		err = steering_ask(steering, pid, &request, &answer);
	if (!err)
		steering_print(answer);
	free(answer);
	for (size_t i = 0; copies && i < count; i++)
		free(copies[i]);
	free(copies);
	return err;
}

/* An option as the word that it is short for; NULL: no memory. */
static char *word_of(int option, const char *value)
{
	const char *key = option == 'A'		  ? "args+"
			  : option == 'R'	  ? "result+"
			  : option == SET_IF	  ? "if+"
			  : option == SET_ONLY_IF ? "only-if+"
						  : "auto-args";
	char *word;

	return asprintf(&word, "%s=%s", key, option == 'a' ? "on" : value) < 0 ? NULL : word;
}

static bool is_value_option(int option)
{
	return option == 'A' || option == 'R' || option == 'a' || option == SET_IF || option == SET_ONLY_IF;
}

/* The words of a command line, those of options first. */
struct words {
	char **list;
	size_t count;
};

static int words_add(struct words *words, char *word, struct steering *steering)
{
	char **list = word ? reallocarray(words->list, words->count + 1, sizeof(*list)) : NULL;

	if (!list) {
		free(word);
		return calltap_diag_set(&steering->diag, -ENOMEM, "not enough memory");
	}
	words->list = list;
	list[words->count++] = word;
	return 0;
}

static void words_clear(struct words *words)
{
	for (size_t i = 0; i < words->count; i++)
		free(words->list[i]);
	free(words->list);
}

/* Print one object: a string for each key, and an array of strings for each kind of filter. */
static void print_json(char *lines, struct out *out)
{
	static const char *const lists[] = {"trace",  "notrace", "graph",   "no-graph",	 "args",
					    "result", "if",	 "only-if", "registers", NULL};
	struct json json;
	bool in_list = false;

	json_begin(&json, out);
	json_object(&json);
	for (char *rest = lines, *line; (line = strsep(&rest, "\n")) && *line;) {
		struct setting_change word;
		size_t i = 0;

		if (setting_parse(&word, line))
			continue;
		if (in_list && !word.append) {
			json_array_end(&json);
			in_list = false;
		}
		while (lists[i] && strcmp(lists[i], word.key) != 0)
			i++;
		if (!lists[i]) {
			json_key_string(&json, word.key, word.value);
			continue;
		}
		if (!in_list) {
			json_key(&json, word.key);
			json_array(&json);
			in_list = true;
		}
		if (word.value[0])
			json_string(&json, word.value);
	}
	if (in_list)
		json_array_end(&json);
	json_object_end(&json);
	out_char(out, '\n');
}

static int show_settings(struct steering *steering, pid_t pid)
{
	const struct remote_request request = {.verb = "settings", .timeout_ms = PATIENCE_MS};
	struct out *out = NULL;
	char *answer;
	int err = steering_ask(steering, pid, &request, &answer);

	if (err)
		return err;
	err = out_create(&out, STDOUT_FILENO);
	if (!err) {
		if (steering->json)
			print_json(answer, out);
		else
			out_text(out, answer);
		err = out_destroy(out);
	}
	free(answer);
	return err && err != -EPIPE
		       ? calltap_diag_set(&steering->diag, err, "cannot write the output: %s", strerror(-err))
		       : 0;
}

int cmd_set(int argc, char **argv)
{
	static const struct option options[] = {{"json", no_argument, NULL, STEERING_JSON},
						{"args", required_argument, NULL, 'A'},
						{"result", required_argument, NULL, 'R'},
						{"if", required_argument, NULL, SET_IF},
						{"only-if", required_argument, NULL, SET_ONLY_IF},
						{"auto-args", no_argument, NULL, 'a'},
						STEERING_OF_INSTANCE,
						STEERING_OPTIONS,
						{0}};
	struct steering steering;
	struct words words = {0};
	pid_t pid = 0;
	int option, err = 0;

	steering_init(&steering, "set", help);
	while (!err && !steering.done && (option = options_next(argc, argv, ":hA:R:a", options)) != -1)
		err = is_value_option(option) ? words_add(&words, word_of(option, optarg), &steering)
					      : steering_option(&steering, option, argv);
	if (!err && !steering.done)
		err = steering_pid(&steering, &pid, argc, argv);
	for (int i = optind; i < argc && !err && !steering.done; i++)
		err = words_add(&words, strdup(argv[i]), &steering);
	if (!err && !steering.done && words.count)
		err = change_settings(&steering, pid, words.list, words.count);
	if (!err && !steering.done && (steering.json || !words.count))
		err = show_settings(&steering, pid);
	words_clear(&words);
	return steering_close(&steering, err);
}
