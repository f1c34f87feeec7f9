/*
 * The functions of the session, in an order that stays: an object that comes later lies behind those that were there,
 * whatever its number in the session is.
 *
 * The session writes them to memory (host/session/catalog.c).  Context: host.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tree.h"

/* The rank of an object in the tree's order; a new one gets the next rank. */
static int rank_object(struct tree *tree, uint32_t number, uint32_t *rank)
{
	uint32_t *objects;

	for (*rank = 0; *rank < tree->object_count; ++*rank)
		if (tree->objects[*rank] == number)
			return 0;
	objects = reallocarray(tree->objects, tree->object_count + 1, sizeof(*objects));
	if (!objects)
		return -ENOMEM;
	tree->objects = objects;
	objects[tree->object_count++] = number;
	return 0;
}

static int add_function(struct tree_functions *functions, size_t *room, const struct tree_function *function)
{
	if (functions->count == *room) {
		size_t more = *room ? 2 * *room : 256;
		struct tree_function *list = reallocarray(functions->list, more, sizeof(*list));

		if (!list)
			return -ENOMEM;
		functions->list = list;
		*room = more;
	}
	functions->list[functions->count++] = *function;
	return 0;
}

/* The part in front of the next such byte, which becomes its end.  strsep() would look for any of several bytes. */
static char *cut(char **rest, char end)
{
	char *part = *rest, *at = part ? strchr(part, end) : NULL;

	if (at)
		*at++ = 0;
	*rest = at;
	return part;
}

/* "NUMBER\tLETTERS\tOBJECT\tNAME", cut in place; false: it is no such line. */
static bool parse_line(struct tree_function *function, char *line, char letter)
{
	char *number = cut(&line, '\t'), *letters = cut(&line, '\t'), *object = cut(&line, '\t');

	char *colon;

	if (!line)
		return false;
	colon = number + strcspn(number, ":");
	*function = (struct tree_function){
		.name = line,
		.object = object,
		.number = (uint32_t)strtoul(number, NULL, 10),
		.program = strchr(letters, 'x') != NULL,
		.recorded = strchr(letters, '+') != NULL,
		.picked = letter && strchr(letters, letter) != NULL,
		.meant = strchr(letters, 'o') != NULL,
		.touched = strchr(letters, 'p') != NULL,
		.address = *colon ? strtoull(colon + 1, NULL, 16) : 0,
	};
	return true;
}

static int by_rank(const void *a, const void *b)
{
	const struct tree_function *left = a, *right = b;

	if (left->rank != right->rank)
		return left->rank < right->rank ? -1 : 1;
	return (left->name > right->name) - (left->name < right->name); /* as they came: all lie in one text */
}

/* A line that is of no function: an object that has none to choose, or a filter that waits. */
static int take_other(struct tree_functions *functions, const struct tree_function *line)
{
	functions->object_there |= line->meant;
	return line->name[0] && line->picked ? tree_words_add(&functions->waiting, line->name) : 0;
}

static int parse_lines(struct tree_functions *functions, struct tree *tree, char letter)
{
	struct tree_function function = {0};
	uint32_t last = UINT32_MAX, rank = 0;
	bool sorted = true;
	size_t room = 0;
	int ret = 0;

	for (char *rest = functions->text, *line; !ret && (line = cut(&rest, '\n')) && rest;) {
		if (!parse_line(&function, line, letter))
			continue;
		if (!function.object[0] || !function.name[0]) {
			ret = take_other(functions, &function);
			continue;
		}
		if (function.number != last) {
			uint32_t before = rank;

			ret = rank_object(tree, function.number, &rank);
			sorted &= rank >= before;
		}
		last = function.number;
		function.rank = rank;
		functions->object_there |= function.meant;
		if (!ret)
			ret = add_function(functions, &room, &function);
	}
	if (!ret && !sorted)
		qsort(functions->list, functions->count, sizeof(*functions->list), by_rank);
	return ret;
}

static int read_text(struct tree_functions *functions, int fd)
{
	struct stat about;
	size_t done = 0;

	if (fstat(fd, &about))
		return -errno;
	functions->text = malloc((size_t)about.st_size + 1);
	if (!functions->text)
		return -ENOMEM;
	while (done < (size_t)about.st_size) {
		ssize_t got = pread(fd, functions->text + done, (size_t)about.st_size - done, (off_t)done);

		if (got <= 0)
			return got ? -errno : -EIO;
		done += (size_t)got;
	}
	functions->text[done] = 0;
	return 0;
}

static char letter_of(const char *key)
{
	static const char *const letters[] = {"ttrace", "nnotrace", "ggraph", "hno-graph"};

	for (size_t i = 0; key && i < sizeof(letters) / sizeof(letters[0]); i++)
		if (!strcmp(letters[i] + 1, key))
			return letters[i][0];
	return 0;
}

int functions_read(struct tree_functions *out, struct tree_instance *instance, const struct tree_asked *asked,
		   struct calltap_diag *diag)
{
	int fd = memfd_create("calltap-functions", MFD_CLOEXEC), ret = fd < 0 ? -errno : 0;
	const struct tree_words *filters = asked->filters;
	struct tree_words words = {0};
	char *answer = NULL;

	*out = (struct tree_functions){0};
	for (size_t i = 0; filters && i < filters->count && !ret; i++)
		ret = ask_add_change(&words, asked->key, "+=", filters->list[i]);
	if (!ret && asked->object && asked->object[0])
		ret = ask_add_change(&words, "look", "=", asked->object);
	if (!ret && asked->picked)
		ret = ask_add_change(&words, "pick", "=", asked->key);
	if (!ret && asked->addresses)
		ret = ask_add_change(&words, "addresses", "=", "1");
	if (!ret && asked->first)
		ret = ask_add_change(&words, "first", "=", "1");
	if (!ret && asked->match)
		ret = ask_add_change(&words, "match", "=", asked->match);
	if (ret)
		ret = calltap_diag_set(diag, ret, "cannot make memory for the list of functions: %s", strerror(-ret));
	else
		ret = ask_session(instance, "functions", (const char *const *)words.list, words.count, fd, &answer,
				  diag);
	free(answer);
	if (!ret)
		ret = read_text(out, fd);
	if (!ret)
		ret = parse_lines(out, instance->tree, !filters || filters->count ? letter_of(asked->key) : 0);
	if (fd >= 0)
		close(fd);
	tree_words_clear(&words);
	if (ret)
		functions_clear(out);
	return ret;
}

void functions_clear(struct tree_functions *functions)
{
	free(functions->list);
	free(functions->text);
	tree_words_clear(&functions->waiting);
	*functions = (struct tree_functions){0};
}

void functions_line(struct tree_text *text, const struct tree_function *function)
{
	tree_text_string(text, function->name);
	if (!function->program) {
		tree_text_string(text, " [");
		tree_text_string(text, function->object);
		tree_text_add(text, "]", 1);
	}
}

/* Write text with a backslash before each character that means something in a filter. */
static void quote(char *out, size_t size, const char *text)
{
	size_t at = 0;

	for (; *text && at + 3 < size; text++) {
		if (strchr("*?[\\:", *text) || (!at && strchr("/@", *text)))
			out[at++] = '\\';
		out[at++] = *text;
	}
	out[at] = 0;
}

int functions_add_filter(struct tree_words *words, const struct tree_function *function)
{
	char object[512], name[1024], word[sizeof(object) + sizeof(name)];

	quote(object, sizeof(object), function->object);
	quote(name, sizeof(name), function->name);
	snprintf(word, sizeof(word), "%s:%s", object, name);
	return tree_words_find(words, word) < words->count ? 0 : tree_words_add(words, word);
}
