/*
 * set_ftrace_filter, set_ftrace_notrace, set_graph_function, set_graph_notrace, stack_trace_filter, and the files that
 * list functions.
 *
 * The grammar is the kernel's: tokens with blanks in between, `!` takes away, globs, `:mod:OBJECT`, and in the first
 * two the number of a function.  A token is looked at when a blank follows it, else when the file is closed, where its
 * error goes to error_log alone.  What was written takes effect at each flush.  A library that nothing has named so far
 * is looked at when a token names it; one that is not loaded is waited for.
 *
 * But for the last one a file's content is the session's list of filters of a kind; so globs stay globs, as `calltap
 * set` shows them.  Where
 * `!` takes away a part of what a glob matches, the functions that are left are named one by one.  Context: host.
 */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <host/elf/pattern.h>

#include "commands.h"
#include "tree.h"

#define ALL_ENABLED   "#### all functions enabled ####\n"
#define NONE_DISABLED "#### no functions disabled ####\n"
#define PATTERN_SIZE  520

const struct tree_filter_file filter_files[5] = {
	{"set_ftrace_filter", "trace", ALL_ENABLED, true, false},
	{"set_ftrace_notrace", "notrace", NONE_DISABLED, true, false},
	{"set_graph_function", "graph", ALL_ENABLED, false, false},
	{"set_graph_notrace", "no-graph", NONE_DISABLED, false, false},
	{"stack_trace_filter", "trace", ALL_ENABLED, true, true},
};

static const struct tree_filter_file *file_of(const struct tree_open *open)
{
	size_t i = 0;

	while (strcmp(filter_files[i].name, open->row->name) != 0)
		i++;
	return &filter_files[i];
}

/* The limit that a file is about; TREE_LIMITS = it is about none, but a list of the session's. */
static enum tree_limit limit_of(const struct tree_filter_file *file)
{
	enum tree_limit limit = 0;

	while (limit < TREE_LIMITS && strcmp(limits_keys[limit], file->key) != 0)
		limit++;
	return limit;
}

static int read_words(struct tree_instance *instance, const struct tree_filter_file *file, struct tree_words *out)
{
	enum tree_limit limit = limit_of(file);

	if (file->stacks)
		return stacks_filters(instance->tree, out);
	return limit < TREE_LIMITS ? limits_read(instance, limit, out) : ask_filters(instance, file->key, out);
}

/* Are these filters the session's, or the tree's alone? */
static bool is_kept(struct tree_instance *instance, const struct tree_filter_file *file)
{
	return file->stacks || (limit_of(file) < TREE_LIMITS && !ask_is_graph(instance));
}

/* A filter "OBJECT:FUNCTION", as the file takes it. */
static void put_waiting(struct tree_text *out, const char *filter)
{
	size_t length = pattern_object_length(filter);

	tree_text_format(out, "%s:mod:%.*s\n", filter + length + 1, (int)length, filter);
}

static void print_commands(const struct tree_open *open, struct tree_text *out)
{
	if (file_of(open) == &filter_files[0])
		commands_print(open->instance, out);
}

int filter_read(struct tree_open *open, struct tree_text *out)
{
	const struct tree_filter_file *file = file_of(open);
	struct tree_asked asked = {.key = file->key, .picked = true};
	struct calltap_diag diag = {.column = -1};
	struct tree_functions functions;
	struct tree_words words;
	int ret = read_words(open->instance, file, &words);

	if (ret)
		return ret;
	if (!words.count) {
		tree_text_string(out, file->empty);
		print_commands(open, out);
		return 0;
	}
	if (is_kept(open->instance, file))
		asked.filters = &words;
	ret = functions_read(&functions, open->instance, &asked, &diag);
	for (size_t i = 0; i < functions.count; i++)
		if (functions.list[i].picked) {
			functions_line(out, &functions.list[i]);
			tree_text_add(out, "\n", 1);
		}
	for (size_t i = 0; i < functions.waiting.count; i++)
		put_waiting(out, functions.waiting.list[i]);
	print_commands(open, out);
	functions_clear(&functions);
	tree_words_clear(&words);
	return ret;
}

/* A line for each function, or for some. */
static int list_functions(struct tree_open *open,
			  void (*put)(const struct tree_function *function, struct tree_text *out),
			  struct tree_text *out)
{
	const struct tree_asked nothing = {0};
	struct calltap_diag diag = {.column = -1};
	struct tree_functions functions;
	int ret = functions_read(&functions, open->instance, &nothing, &diag);

	for (size_t i = 0; i < functions.count; i++)
		put(&functions.list[i], out);
	functions_clear(&functions);
	return ret;
}

static void put_available(const struct tree_function *function, struct tree_text *out)
{
	functions_line(out, function);
	tree_text_add(out, "\n", 1);
}

int filter_read_available(struct tree_open *open, struct tree_text *out)
{
	return list_functions(open, put_available, out);
}

/* How many tracers have it, and none of the letters R, I, D, O and M. */
static void put_count(const struct tree_function *function, struct tree_text *out)
{
	functions_line(out, function);
	tree_text_format(out, " (%d)           \n", function->recorded);
}

static void put_enabled(const struct tree_function *function, struct tree_text *out)
{
	if (function->recorded)
		put_count(function, out);
}

int filter_read_enabled(struct tree_open *open, struct tree_text *out)
{
	return list_functions(open, put_enabled, out);
}

static void put_touched(const struct tree_function *function, struct tree_text *out)
{
	if (function->touched)
		put_count(function, out);
}

int filter_read_touched(struct tree_open *open, struct tree_text *out)
{
	return list_functions(open, put_touched, out);
}

/* Where the object lies in the tree's process: what is to be added to addresses of its file; false: it is not there. */
static bool find_base(const struct tree_instance *instance, uint32_t object, uint64_t *base)
{
	const struct trace *trace = instance->source.follow ? trace_follow_trace(instance->source.follow) : NULL;
	const struct calltap_file_map *map, *found = NULL;

	for (uint32_t i = 0; trace && (map = trace_map(trace, i)); i++) {
		const struct trace_process *process = map->object == object ? trace_process(trace, map->process) : NULL;

		if (process && process->pid == (uint32_t)instance->tree->pid && (!found || map->ticks >= found->ticks))
			found = map;
	}
	*base = found ? found->base : 0;
	return found != NULL;
}

int filter_read_addresses(struct tree_open *open, struct tree_text *out)
{
	const struct tree_asked asked = {.addresses = true};
	struct calltap_diag diag = {.column = -1};
	struct tree_functions functions;
	int ret = functions_read(&functions, open->instance, &asked, &diag);
	uint32_t last = UINT32_MAX;
	uint64_t base = 0;
	bool there = false;

	source_pump(open->instance);
	for (size_t i = 0; i < functions.count; i++) {
		const struct tree_function *function = &functions.list[i];

		if (function->number != last)
			there = find_base(open->instance, function->number, &base);
		last = function->number;
		tree_text_format(out, "%llx ", there ? (unsigned long long)(base + function->address) : 0);
		put_available(function, out);
	}
	functions_clear(&functions);
	return ret;
}

int filter_read_total(struct tree_open *open, struct tree_text *out)
{
	const struct tree_asked nothing = {0};
	struct calltap_diag diag = {.column = -1};
	struct tree_functions functions;
	uint32_t objects = 0; /* they are listed one after the other */
	int ret = functions_read(&functions, open->instance, &nothing, &diag);

	if (ret)
		return ret;
	for (size_t i = 0; i < functions.count; i++)
		objects += !i || functions.list[i].number != functions.list[i - 1].number;
	tree_text_format(out, "%zu pages:%u groups: %u\n", functions.count, objects, objects);
	functions_clear(&functions);
	return 0;
}

int filter_begin(struct tree_open *open)
{
	int ret = 0;

	if (!open_writes(open))
		return 0;
	open->edit = calloc(1, sizeof(*open->edit));
	if (!open->edit)
		return -ENOMEM;
	open->edit->changed = open_truncates(open, O_TRUNC);
	if (!open->edit->changed)
		ret = read_words(open->instance, file_of(open), &open->edit->words);
	if (ret)
		free(open->edit);
	return ret;
}

void filter_end(struct tree_open *open)
{
	if (!open->edit)
		return;
	tree_words_clear(&open->edit->words);
	free(open->edit);
}

/* The parts of a token. */
struct token {
	bool not ;	  /* `!` is in front of it */
	bool not_object;  /* and in front of the object */
	size_t number;	  /* 1 and more: of a function; 0 = it is a glob */
	char name[512];	  /* glob on functions */
	char object[512]; /* glob on objects; "" = any */
};

static int refuse(const struct tree_open *open, const char *text, size_t at)
{
	return control_refuse(open, -EINVAL, text, open->edit->token, (int)at);
}

static int parse_token(struct token *token, const struct tree_open *open)
{
	const char *text = open->edit->token, *colon, *object;

	*token = (struct token){.not = text[0] == '!'};
	text += token->not ;
	colon = strchr(text, ':');
	snprintf(token->name, sizeof(token->name), "%.*s", (int)(colon ? colon - text : (long)strlen(text)), text);
	if (colon) {
		if (strncmp(colon, ":mod:", 5) != 0 || !colon[5])
			return refuse(open, "no object follows :mod:", (size_t)(colon + 1 - open->edit->token));
		object = colon + 5;
		token->not_object = object[0] == '!';
		snprintf(token->object, sizeof(token->object), "%s", object + token->not_object);
		if (!token->name[0])
			snprintf(token->name, sizeof(token->name), "*");
		return 0;
	}
	if (isdigit((unsigned char)text[0])) {
		char *end;

		token->number = strtoul(text, &end, 0);
		if (*end || !token->number || !file_of(open)->numbers)
			return refuse(open,
				      file_of(open)->numbers
					      ? "this is no number of a line of available_filter_functions"
					      : "functions have no numbers in this file",
				      token->not );
	}
	return 0;
}

/* The pattern that means a glob of the kernel's; a leading slash begins no regular expression. */
static void pattern_of(const char *glob, char *text, size_t size)
{
	snprintf(text, size, "%s%s", glob[0] == '/' ? "\\" : "", glob);
}

static int compile(struct pattern *pattern, const char *glob)
{
	struct pattern_fault fault;
	char text[PATTERN_SIZE];

	pattern_of(glob, text, sizeof(text));
	return pattern_compile(pattern, text, &fault);
}

/*
 * Ask for the functions alone that a glob adds: there may be a hundred thousand others.  Where a filter means all of
 * them, it is enough that there is one.
 */
static void ask_for_matches(struct tree_asked *asked, const struct token *token, char *text, size_t size)
{
	struct pattern pattern;

	if (token->not || token->number || compile(&pattern, token->name))
		return;
	pattern_free(&pattern);
	pattern_of(token->name, text, size);
	asked->match = text;
	asked->first = !token->not_object;
}

/* Note which functions the token is about; returns their number, or -EINVAL. */
static int match_token(const struct token *token, const struct tree_functions *functions, bool *matched)
{
	struct pattern name;
	int count = 0, ret;

	if (token->number) {
		if (token->number > functions->count)
			return 0;
		matched[token->number - 1] = true;
		return 1;
	}
	ret = compile(&name, token->name);
	if (ret)
		return ret;
	for (size_t i = 0; i < functions->count; i++) {
		const struct tree_function *function = &functions->list[i];
		bool in = !token->object[0] || (!function->program && function->meant) != token->not_object;

		matched[i] = in && pattern_matches(&name, function->name);
		count += matched[i];
	}
	pattern_free(&name);
	return count;
}

/* The filter that means what a token does; a number, or an object that is not meant, has none. */
static bool filter_of(const struct token *token, char *word, size_t size)
{
	if (token->number || token->not_object)
		return false;
	if (token->object[0])
		snprintf(word, size, "%s:%s", token->object, token->name);
	else
		snprintf(word, size, "%s%s", strchr("/@", token->name[0]) ? "\\" : "", token->name);
	return true;
}

static int add_token(struct tree_words *words, const struct token *token, const struct tree_functions *functions,
		     const bool *matched)
{
	char word[1100];
	int ret = 0;

	if (filter_of(token, word, sizeof(word)))
		return tree_words_find(words, word) < words->count ? 0 : tree_words_add(words, word);
	for (size_t i = 0; i < functions->count && !ret; i++)
		if (matched[i])
			ret = functions_add_filter(words, &functions->list[i]);
	return ret;
}

/* Take the token's functions away from those that the words mean. */
static int remove_token(struct tree_words *words, const struct token *token, const struct tree_functions *functions,
			const bool *matched)
{
	struct tree_words left = {0};
	bool any = false;
	char word[1100];
	size_t at;
	int ret = 0;

	for (size_t i = 0; i < functions->count; i++)
		any |= matched[i] && functions->list[i].picked;
	if (!any)
		return 0;
	at = filter_of(token, word, sizeof(word)) ? tree_words_find(words, word) : words->count;
	if (at < words->count && words->count == 1) {
		tree_words_remove(words, at);
		return 0;
	}
	for (size_t i = 0; i < functions->count && !ret; i++)
		if (functions->list[i].picked && !matched[i])
			ret = functions_add_filter(&left, &functions->list[i]);
	for (size_t i = 0; i < functions->waiting.count && !ret; i++)
		ret = tree_words_add(&left, functions->waiting.list[i]);
	if (ret) {
		tree_words_clear(&left);
		return ret;
	}
	tree_words_clear(words);
	*words = left;
	return 0;
}

/* Is the token about objects of which none is loaded? */
static bool is_waiting(const struct token *token, const struct tree_functions *functions)
{
	return token->object[0] && !token->not_object && !functions->object_there;
}

/* Is it the filter that waits, or one of those that `!*:mod:OBJECT` takes away? */
static bool is_meant(const struct token *token, const char *filter, const char *word)
{
	size_t length = pattern_object_length(filter);

	if (strcmp(token->name, "*") != 0)
		return !strcmp(filter, word);
	return length == strlen(token->object) && !strncmp(filter, token->object, length);
}

/* The list gets the token as a filter for when such an object is loaded, or loses it. */
static int take_waiting(struct tree_open *open, const struct token *token, const struct tree_functions *functions)
{
	struct tree_words *words = &open->edit->words;
	size_t before = words->count;
	char word[1100];

	(void)filter_of(token, word, sizeof(word));
	if (!token->not )
		return tree_words_find(words, word) < words->count ? 0 : tree_words_add(words, word);
	for (size_t i = 0; i < functions->waiting.count; i++) {
		const char *filter = functions->waiting.list[i];
		size_t at = is_meant(token, filter, word) ? tree_words_find(words, filter) : words->count;

		if (at < words->count)
			tree_words_remove(words, at);
	}
	return words->count < before ? 0 : refuse(open, "no such object is loaded, and nothing waits for it", 1);
}

/* Take a token that is about functions which are there. */
static int take_functions(struct tree_open *open, const struct token *token, const struct tree_functions *functions)
{
	struct tree_words *words = &open->edit->words;
	bool *matched = calloc(functions->count + 1, sizeof(*matched));
	int ret = matched ? match_token(token, functions, matched) : -ENOMEM;

	if (ret == -EINVAL)
		ret = refuse(open, "this is no valid glob", token->not );
	else if (!ret)
		ret = refuse(open,
			     strstr(open->edit->token, ":mod:")
				     ? "no function that can be traced matches; a module is a library, the program's "
				       "own functions are named without :mod:"
				     : "no function that can be traced matches; available_filter_functions lists them",
			     token->not );
	else if (ret > 0)
		ret = token->not ? remove_token(words, token, functions, matched)
				 : add_token(words, token, functions, matched);
	free(matched);
	return ret;
}

/* Take the token that is complete into the list. */
static int take_token(struct tree_open *open)
{
	struct tree_edit *edit = open->edit;
	struct calltap_diag diag = {.column = -1};
	struct tree_functions functions;
	struct token token;
	struct tree_asked asked = {.key = file_of(open)->key, .filters = &edit->words};
	char text[PATTERN_SIZE];
	int ret;

	if (commands_is(edit->token))
		return commands_take(open, edit->token);
	ret = parse_token(&token, open);
	if (ret)
		return ret;
	asked.object = token.object;
	ask_for_matches(&asked, &token, text, sizeof(text));
	ret = functions_read(&functions, open->instance, &asked, &diag);
	if (ret)
		return control_refuse(open, ret == -EAGAIN ? -EBUSY : ret, diag.text, edit->token, diag.column);
	ret = is_waiting(&token, &functions) ? take_waiting(open, &token, &functions)
					     : take_functions(open, &token, &functions);
	edit->changed |= !ret;
	functions_clear(&functions);
	return ret;
}

int filter_write(struct tree_open *open, const char *text, size_t size)
{
	struct tree_edit *edit = open->edit;
	int ret = 0;

	for (size_t i = 0; i < size && !ret; i++) {
		if (!isspace((unsigned char)text[i])) {
			if (edit->token_size + 1 >= sizeof(edit->token))
				ret = refuse(open, "a token has 511 bytes at the most", 0);
			else
				edit->token[edit->token_size++] = text[i];
			edit->token[edit->token_size] = 0;
		} else if (edit->token_size) {
			ret = take_token(open);
			edit->token_size = 0;
		}
	}
	if (ret)
		edit->token_size = 0;
	return ret ? ret : (int)size;
}

static int apply(struct tree_open *open, const struct tree_filter_file *file)
{
	const struct tree_words *words = &open->edit->words;
	struct tree_words changes = {0};
	int ret;

	if (file->stacks)
		return stacks_filter(open->instance->tree, words);
	if (limit_of(file) < TREE_LIMITS)
		return limits_change(open->instance, file->name, limit_of(file), words);
	ret = ask_add_values(&changes, file->key, words);
	if (!ret)
		ret = ask_change(open->instance, file->name, &changes);
	tree_words_clear(&changes);
	return ret || open->instance->id ? ret : profiler_filter(open->instance->tree, file->name);
}

/* The kernel tells nobody of an error here; of a change that the session has refused the tree does. */
int filter_flush(struct tree_open *open)
{
	struct tree_edit *edit = open->edit;

	if (!edit)
		return 0;
	if (edit->token_size)
		(void)take_token(open); /* its error is in error_log */
	edit->token_size = 0;
	if (!edit->changed)
		return 0;
	edit->changed = false;
	return apply(open, file_of(open));
}
