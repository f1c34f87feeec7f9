/*
 * Sets of filters: parsing their text, deciding on functions (filter.h).
 *
 * Callers: the recorder and the commands.  Context: host.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#include "aliases.h"
#include "filter.h"
#include "pattern.h"

struct filter {
	enum filter_kind kind;
	char *text;
	bool has_object;
	struct pattern object; /* only if has_object */
	struct pattern name;
	unsigned long matches;
	bool waits;
};

struct filter_set {
	struct filter *items;
	size_t count, capacity;
	bool has[FILTER_KINDS];
	uint64_t key;
};

int filter_set_create(struct filter_set **out)
{
	*out = calloc(1, sizeof(**out));
	return *out ? 0 : -ENOMEM;
}

static void free_filter(struct filter *filter)
{
	free(filter->text);
	pattern_free(&filter->name);
	if (filter->has_object)
		pattern_free(&filter->object);
}

void filter_set_destroy(struct filter_set *set)
{
	if (!set)
		return;
	for (size_t i = 0; i < set->count; i++)
		free_filter(&set->items[i]);
	free(set->items);
	free(set);
}

static int reserve_filter(struct filter_set *set)
{
	size_t capacity = set->capacity ? set->capacity * 2 : 8;
	struct filter *items;

	if (set->count < set->capacity)
		return 0;
	items = reallocarray(set->items, capacity, sizeof(*items));
	if (!items)
		return -ENOMEM;
	set->items = items;
	set->capacity = capacity;
	return 0;
}

static int fault_diag(struct calltap_diag *diag, int error, const char *text, const struct pattern_fault *fault)
{
	if (error == -ENOMEM)
		return calltap_diag_set(diag, error, "not enough memory for the filter \"%.100s\"", text);
	error = calltap_diag_set(diag, error, "filter \"%.100s\": %s", text, fault->text);
	if (diag && strlen(text) < sizeof(diag->input)) {
		memcpy(diag->input, text, strlen(text) + 1);
		diag->column = (int)fault->column;
	}
	return error;
}

static int compile_object(struct filter *filter, size_t length, struct pattern_fault *fault)
{
	char *glob = strndup(filter->text, length);
	char *slashed = NULL;
	int error = -ENOMEM;

	/* After the backslash, a leading slash begins no regular expression. */
	if (glob && asprintf(&slashed, "%s%s", glob[0] == '/' ? "\\" : "", glob) >= 0) {
		error = pattern_compile(&filter->object, slashed, fault);
		if (error == -EINVAL && glob[0] == '/')
			fault->column--;
		free(slashed);
	}
	free(glob);
	filter->has_object = !error;
	return error;
}

/* FNV-1a of all kinds and texts, each with its NUL. */
static void extend_key(struct filter_set *set, enum filter_kind kind, const char *text)
{
	uint64_t key = set->key ? set->key : 14695981039346656037ull;

	key = (key ^ (uint64_t)kind) * 1099511628211ull;
	do
		key = (key ^ (unsigned char)*text) * 1099511628211ull;
	while (*text++);
	set->key = key;
}

uint64_t filter_set_key(const struct filter_set *set)
{
	return set->key;
}

static int add_one(struct filter_set *set, enum filter_kind kind, const char *text, struct calltap_diag *diag)
{
	struct filter filter = {.kind = kind, .text = strdup(text)};
	struct pattern_fault fault = {0};
	size_t object = pattern_object_length(text);
	size_t at = object || text[0] == ':' ? object + 1 : 0;
	int error = filter.text ? reserve_filter(set) : -ENOMEM;

	if (!error && object)
		error = compile_object(&filter, object, &fault);
	if (!error) {
		error = pattern_compile(&filter.name, text + at, &fault);
		fault.column += at;
	}
	if (error) {
		if (filter.has_object)
			pattern_free(&filter.object);
		free(filter.text);
		return fault_diag(diag, error, text, &fault);
	}
	set->items[set->count++] = filter;
	set->has[kind] = true;
	extend_key(set, kind, text);
	return 0;
}

/* Put the file's name and line in front of the sentence. */
static int at_line(struct calltap_diag *diag, int error, const char *path, unsigned int line)
{
	struct calltap_diag inner;

	if (!diag)
		return error;
	inner = *diag;
	(void)calltap_diag_set(diag, error, "%.200s:%u: %.250s", path, line, inner.text);
	memcpy(diag->input, inner.input, sizeof(diag->input));
	diag->column = inner.column;
	return error;
}

static char *trim_line(char *line)
{
	size_t length;

	line += strspn(line, " \t");
	length = strlen(line);
	while (length && strchr(" \t\r\n", line[length - 1]))
		line[--length] = '\0';
	return line;
}

static int add_line(struct filter_set *set, enum filter_kind kind, char *line, struct calltap_diag *diag)
{
	char *text = trim_line(line);

	if (!text[0] || text[0] == '#')
		return 0;
	if (text[0] == '@')
		return calltap_diag_set(diag, -EINVAL, "a list of filters cannot name another list (%.100s)", text);
	return add_one(set, kind, text, diag);
}

static int add_file(struct filter_set *set, enum filter_kind kind, const char *path, struct calltap_diag *diag)
{
	FILE *file = fopen(path, "re");
	size_t size = 0;
	char *line = NULL;
	int error = 0;

	if (!file) {
		error = -errno;
		return calltap_diag_set(diag, error, "the list of filters \"%.200s\" cannot be read: %s", path,
					strerror(-error));
	}
	for (unsigned int number = 1; !error && (errno = 0, getline(&line, &size, file)) >= 0; number++) {
		error = add_line(set, kind, line, diag);
		if (error)
			error = at_line(diag, error, path, number);
	}
	if (!error && (ferror(file) || errno == ENOMEM)) {
		error = errno ? -errno : -EIO;
		error = calltap_diag_set(diag, error, "the list of filters \"%.200s\" cannot be read: %s", path,
					 strerror(-error));
	}
	free(line);
	fclose(file);
	return error;
}

int filter_set_add(struct filter_set *set, enum filter_kind kind, const char *text, struct calltap_diag *diag)
{
	return text[0] == '@' ? add_file(set, kind, text + 1, diag) : add_one(set, kind, text, diag);
}

bool filter_set_has(const struct filter_set *set, enum filter_kind kind)
{
	return set->has[kind];
}

static bool path_matches(const struct filter *filter, const char *path)
{
	const char *slash = strrchr(path, '/');

	return pattern_matches(&filter->object, path) || (slash && pattern_matches(&filter->object, slash + 1));
}

static bool alias_matches(const struct filter *filter, const struct aliases *aliases)
{
	return (aliases->file && pattern_matches(&filter->object, aliases->file)) ||
	       (aliases->soname && pattern_matches(&filter->object, aliases->soname)) ||
	       (aliases->called && pattern_matches(&filter->object, aliases->called));
}

static bool object_matches(const struct filter *filter, const struct object *object)
{
	return !filter->has_object || path_matches(filter, object_path(object)) ||
	       alias_matches(filter, object_aliases(object));
}

/* True if the filter asks for functions of certain objects. */
static bool chooses_objects(const struct filter *filter)
{
	return filter->has_object && (filter->kind == FILTER_TRACE || filter->kind == FILTER_GRAPH);
}

bool filter_set_chooses_objects(const struct filter_set *set)
{
	for (size_t i = 0; i < set->count; i++)
		if (chooses_objects(&set->items[i]))
			return true;
	return false;
}

bool filter_set_names_object(const struct filter_set *set, const struct object *object)
{
	for (size_t i = 0; i < set->count; i++)
		if (chooses_objects(&set->items[i]) && object_matches(&set->items[i], object))
			return true;
	return false;
}

bool filter_set_names_file(const struct filter_set *set, const char *path, int fd)
{
	bool found = false;
	struct aliases aliases;
	Elf *elf;

	for (size_t i = 0; i < set->count && !found; i++)
		found = chooses_objects(&set->items[i]) && path_matches(&set->items[i], path);
	if (found || fd < 0 || !filter_set_chooses_objects(set))
		return found;
	elf_version(EV_CURRENT);
	elf = elf_begin(fd, ELF_C_READ, NULL);
	aliases_read(&aliases, elf, fd, path);
	for (size_t i = 0; i < set->count && !found; i++)
		found = chooses_objects(&set->items[i]) && alias_matches(&set->items[i], &aliases);
	aliases_clear(&aliases);
	elf_end(elf);
	return found;
}

/*
 * A name that is written out stands for a function's other names, too: open64 is open.  A glob does not: most of libc's
 * functions have names of its own besides, and `-n '_*'` is not about them.
 */
static bool other_matches(const struct filter *filter, const struct object *object, const struct object_symbol *symbol)
{
	const char *other;

	for (size_t i = 0; filter->name.glob && filter->name.exact; i++) {
		other = object_symbol_other(object, symbol, i);
		if (!other)
			break;
		if (pattern_matches(&filter->name, other))
			return true;
	}
	return false;
}

/* symbol is NULL for a site whose function has none: its name is what it calls, or its address. */
static bool name_matches(const struct filter *filter, struct object *object, const struct object_symbol *symbol,
			 const struct object_site *site)
{
	/* A site has its symbol's name: the list of symbols is as large as that of sites, and is not read for it. */
	const char *text = site ? site->symbol : symbol ? symbol->symbol : "";

	if (!text[0]) /* the name is made for whoever asks: not for a pattern that it cannot match */
		return site && (filter->name.all || (pattern_may_match_address(&filter->name) &&
						     pattern_matches(&filter->name, object_site_name(object, site))));
	if (pattern_matches(&filter->name, text) || (symbol && other_matches(filter, object, symbol)))
		return true;
	if (!pattern_may_match_demangled(&filter->name, text))
		return false;
	if (!symbol)
		return pattern_matches(&filter->name, object_site_short_name(object, site)) ||
		       pattern_matches(&filter->name, object_site_name(object, site));
	return pattern_matches(&filter->name, object_symbol_short_name(object, symbol)) ||
	       pattern_matches(&filter->name, object_symbol_name(object, symbol));
}

/* Decide by the kinds of the filters that were found to match. */
static void decide(const struct filter_set *set, const bool found[FILTER_KINDS], struct filter_decision *decision)
{
	bool wanted = !set->has[FILTER_TRACE] || found[FILTER_TRACE];

	decision->notree = found[FILTER_NOGRAPH];
	decision->root = found[FILTER_GRAPH] && !found[FILTER_NOTRACE] && !found[FILTER_NOGRAPH];
	decision->trace = decision->notree || decision->root || (wanted && !found[FILTER_NOTRACE]);
}

void filter_set_decide(struct filter_set *set, struct object *object, const struct object_site *site,
		       struct filter_decision *decision)
{
	const struct object_symbol *symbol = set->count ? object_site_symbol(object, site) : NULL;
	bool found[FILTER_KINDS] = {0};
	bool foreign = site_has_block(site) && !object_is_own(object);

	for (size_t i = 0; i < set->count; i++) {
		struct filter *filter = &set->items[i];

		if (!filter->has_object && foreign)
			continue;
		if (object_matches(filter, object) && name_matches(filter, object, symbol, site)) {
			filter->matches++;
			found[filter->kind] = true;
		}
	}
	decide(set, found, decision);
}

static bool one_matches(const struct pattern *pattern, const char *text)
{
	return pattern->all || (text && pattern_matches(pattern, text));
}

void filter_set_decide_name(struct filter_set *set, const struct filter_name *name, struct filter_decision *decision)
{
	bool found[FILTER_KINDS] = {0};

	for (size_t i = 0; i < set->count; i++) {
		struct filter *filter = &set->items[i];

		if (filter->has_object && !(name->object ? path_matches(filter, name->object) : filter->object.all))
			continue;
		if (!one_matches(&filter->name, name->symbol) && !one_matches(&filter->name, name->name) &&
		    !one_matches(&filter->name, name->brief))
			continue;
		filter->matches++;
		found[filter->kind] = true;
	}
	decide(set, found, decision);
}

bool filter_set_match(struct filter_set *set, enum filter_kind kind, struct object *object,
		      const struct object_symbol *symbol)
{
	bool found = false;

	for (size_t i = 0; i < set->count; i++) {
		struct filter *filter = &set->items[i];

		if (filter->kind == kind && object_matches(filter, object) &&
		    name_matches(filter, object, symbol, NULL)) {
			filter->matches++;
			found = true;
		}
	}
	return found;
}

bool filter_set_picks(const struct filter_set *set, enum filter_kind kind, struct object *object,
		      const struct object_site *site)
{
	const struct object_symbol *symbol = set->has[kind] ? object_site_symbol(object, site) : NULL;
	bool foreign = site_has_block(site) && !object_is_own(object);

	for (size_t i = 0; set->has[kind] && i < set->count; i++) {
		const struct filter *filter = &set->items[i];

		if (filter->kind == kind && (filter->has_object || !foreign) && object_matches(filter, object) &&
		    name_matches(filter, object, symbol, site))
			return true;
	}
	return false;
}

bool filter_set_names_site(struct filter_set *set, struct object *object, const struct object_site *site)
{
	const struct object_symbol *symbol = object_site_symbol(object, site);
	bool found = false;

	for (size_t i = 0; i < set->count; i++) {
		struct filter *filter = &set->items[i];

		if (object_matches(filter, object) && name_matches(filter, object, symbol, site)) {
			filter->matches++;
			found = true;
		}
	}
	return found;
}

const char *filter_set_unmatched(const struct filter_set *set)
{
	for (size_t i = 0; i < set->count; i++)
		if (!set->items[i].matches && !set->items[i].waits)
			return set->items[i].text;
	return NULL;
}

bool filter_set_take_matches(struct filter_set *to, const struct filter_set *from)
{
	if (to->count != from->count)
		return false;
	for (size_t i = 0; i < to->count; i++)
		if (to->items[i].kind != from->items[i].kind || strcmp(to->items[i].text, from->items[i].text) != 0)
			return false;
	for (size_t i = 0; i < to->count; i++)
		to->items[i].matches = from->items[i].matches;
	return true;
}

void filter_set_let_wait(struct filter_set *set, size_t i)
{
	set->items[i].waits = true;
}

bool filter_set_waits(const struct filter_set *set, size_t i)
{
	return set->items[i].waits;
}

bool filter_set_item_names(const struct filter_set *set, size_t i, const struct object *object, const char *path)
{
	const struct filter *filter = &set->items[i];

	return object ? object_matches(filter, object) : !filter->has_object || path_matches(filter, path);
}

bool filter_set_item(const struct filter_set *set, size_t i, const char **text, enum filter_kind *kind,
		     unsigned long *matches)
{
	if (i >= set->count)
		return false;
	*text = set->items[i].text;
	*kind = set->items[i].kind;
	*matches = set->items[i].matches;
	return true;
}
