/*
 * The functions that a session's filters may choose, as `calltap mount` lists them.
 *
 * A line for each function: its object's number in the session, letters, the object's name, the function's symbol, with
 * tabs in between.  Objects come in the order of their numbers, an object's functions in the order of their addresses.
 * The letters say what is true of the function, "-" in the place of each that is not:
 *     x  the object is a program
 *     t  a filter `trace` matches it; likewise n (notrace), g (graph), h (no-graph)
 *     +  its calls are recorded at present
 *     o  the object is one that was asked for
 *     p  it was patched at some time, for whomever
 * Filters are those of the instance, or those that the request brings.
 *
 * match=PATTERN asks for the functions alone whose names match it, and pick=KIND for those that such a filter matches
 * (trace, notrace, graph or no-graph); whether they are recorded is not told then.  first=1 asks for the first of these
 * in each object: is there any?
 *
 * addresses=1 has ":ADDRESS" behind the object's number, of the function in the object's file, in hexadecimal digits.
 *
 * look=GLOB asks for objects: libraries that nothing has named so far are looked at, too.  An object of which no
 * function can be chosen has a line without a symbol.  At the end comes a line for each filter that is about objects of
 * which none is loaded: a letter for its kind, and its text in the symbol's place; the rest is empty.
 *
 * Called in the thread of the session's remote side.  Context: host.
 */
#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <host/elf/pattern.h>
#include <host/hook/handlers.h>
#include <host/text.h>

#include "session.h"

static const struct {
	const char *key;
	enum filter_kind kind;
	char letter;
} kinds[] = {
	{"trace", FILTER_TRACE, 't'},
	{"notrace", FILTER_NOTRACE, 'n'},
	{"graph", FILTER_GRAPH, 'g'},
	{"no-graph", FILTER_NOGRAPH, 'h'},
};

#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

/* Is the function that lies at this place of the image recorded for the instance? */
static bool is_recorded(const struct instance *instance, const struct image *image, uint32_t place)
{
	if (!instance->settings.tracing || !instance->settings.options.tracer->patches)
		return false;
	if (instance->set)
		return image->slots && image->slots[place] & handlers_instance_bit(instance->set);
	/* A site that others want is on as well; then its row says whether the first instance records it. */
	return !image->off[place] && (!image->who || !image->who[place] ||
				      image->who[place] & (CALLTAP_HANDLED_RECORD | CALLTAP_HANDLED_CALL));
}

/* Bits of a function: a target has a stub for it; its calls are recorded at present; it was patched at some time. */
enum known { KNOWN_TAKEN = 1, KNOWN_RECORDED = 2, KNOWN_TOUCHED = 4 };

/* Note which of the object's sites are recorded: in its image, and in the additions to it. */
static void note_recorded(const struct instance *instance, const struct object *object, const struct object_site *sites,
			  uint8_t *known)
{
	const struct image *image = instance->session->images.first;

	for (; image; image = image->next)
		for (uint32_t i = 0; image->object == object && i < image->site_count; i++) {
			known[image->sources[i] - sites] |= KNOWN_TAKEN |
							    (is_recorded(instance, image, i) ? KNOWN_RECORDED : 0) |
							    (image->touched[i] ? KNOWN_TOUCHED : 0);
		}
}

static bool is_empty(const struct filter_set *filters)
{
	enum filter_kind kind;
	unsigned long matches;
	const char *text;

	return !filter_set_item(filters, 0, &text, &kind, &matches);
}

/* A request for the list: whose functions, and the filters and objects that it asks about. */
struct request {
	const struct instance *instance;
	const struct filter_set *filters;
	const struct filter_set *asked; /* objects; NULL = none */
	struct pattern match;		/* functions whose names match it, if `matches` */
	bool matches;
	size_t picks; /* of `kinds`: functions that filters of the kind match; KINDS = all */
	bool later;   /* functions that have no stubs can be chosen, too */
	bool addresses;
	bool first; /* the first one of each object alone */
	FILE *out;
};

static const char *name_of(const struct image *image, const struct object_site *site)
{
	return site->symbol[0] ? site->symbol : object_site_name(image->object, site);
}

static void write_row(const struct request *request, const struct image *image, const char *number,
		      const struct object_site *site, uint8_t known, bool asked)
{
	char letters[KINDS + 5] = "", address[24];
	size_t at = 0;

	letters[at++] = object_is_program(image->object) ? 'x' : '-';
	for (size_t i = 0; i < KINDS; i++)
		letters[at++] =
			filter_set_picks(request->filters, kinds[i].kind, image->object, site) ? kinds[i].letter : '-';
	letters[at++] = known & KNOWN_RECORDED ? '+' : '-';
	letters[at++] = asked ? 'o' : '-';
	letters[at] = known & KNOWN_TOUCHED ? 'p' : '-';
	/* There may be a hundred thousand of these: no format is read for each. */
	fputs_unlocked(number, request->out);
	if (request->addresses) {
		snprintf(address, sizeof(address), ":%llx", (unsigned long long)site->function);
		fputs_unlocked(address, request->out);
	}
	putc_unlocked('\t', request->out);
	fputs_unlocked(letters, request->out);
	putc_unlocked('\t', request->out);
	fputs_unlocked(text_base(image->path), request->out);
	putc_unlocked('\t', request->out);
	fputs_unlocked(name_of(image, site), request->out);
	putc_unlocked('\n', request->out);
}

/* An object of which no function can be chosen. */
static void write_empty(const struct request *request, const struct image *image, bool asked)
{
	fprintf(request->out, "%u\t-----%s\t%s\t\n", image->index, asked ? "-o" : "--", text_base(image->path));
}

/* Are all functions asked for, and all of each? */
static bool is_whole(const struct request *request)
{
	return !request->matches && request->picks == KINDS;
}

static bool is_asked_for(const struct request *request, const struct image *image, const struct object_site *site)
{
	if (request->matches && !pattern_matches(&request->match, name_of(image, site)))
		return false;
	return request->picks == KINDS ||
	       filter_set_picks(request->filters, kinds[request->picks].kind, image->object, site);
}

static int write_sites(const struct request *request, const struct image *image, bool asked)
{
	const struct object_site *sites;
	size_t count = object_sites(image->object, &sites), rows = 0;
	/* A request for matches alone needs no look at what is recorded, where any function can be chosen. */
	bool looks = is_whole(request) || !request->later;
	uint8_t *known = looks ? calloc(count ? count : 1, sizeof(*known)) : NULL;
	int ret = known || !looks ? 0 : -ENOMEM;
	char number[16];

	snprintf(number, sizeof(number), "%u", image->index);
	if (known)
		note_recorded(request->instance, image->object, sites, known);
	for (size_t i = 0; i < count && !ret && !(rows && request->first); i++)
		if (sites[i].verdict == SITE_OK && (request->later || known[i]) &&
		    is_asked_for(request, image, &sites[i])) {
			write_row(request, image, number, &sites[i], known ? known[i] : 0, asked);
			rows++;
		}
	if (!ret && !rows)
		write_empty(request, image, asked);
	free(known);
	return ret;
}

static int write_image(const struct request *request, const struct image *image)
{
	if (image->object)
		return write_sites(request, image,
				   request->asked && filter_set_names_object(request->asked, image->object));
	write_empty(request, image, request->asked && filter_set_names_file(request->asked, image->path, -1));
	return 0;
}

static const struct image *image_of_index(const struct session *session, uint32_t index)
{
	const struct image *image = session->images.first;

	while (image && (image->index != index || image->base))
		image = image->next;
	return image;
}

/* Does the filter name an object that was loaded? */
static bool is_about_any(const struct session *session, const struct filter_set *filters, size_t i)
{
	for (const struct image *image = session->images.first; image; image = image->next)
		if (!image->base && filter_set_item_names(filters, i, image->object, image->path))
			return true;
	return false;
}

static void write_waiting(const struct request *request)
{
	enum filter_kind kind;
	unsigned long matches;
	const char *text;

	for (size_t i = 0; filter_set_item(request->filters, i, &text, &kind, &matches); i++) {
		size_t at = 0;

		if (is_about_any(request->instance->session, request->filters, i))
			continue;
		while (kinds[at].kind != kind)
			at++;
		fprintf(request->out, "\t%c\t\t%s\n", kinds[at].letter, text);
	}
}

/* The place of a kind in `kinds`, KINDS = it is none. */
static size_t kind_of(const char *key)
{
	size_t kind = 0;

	while (kind < KINDS && strcmp(kinds[kind].key, key) != 0)
		kind++;
	return kind;
}

static int refuse_kind(const char *key, struct calltap_diag *diag)
{
	return calltap_diag_set(diag, -EINVAL, "'%.60s' is no kind of filter", key);
}

static int take_match(struct request *request, const char *text, struct calltap_diag *diag)
{
	struct pattern_fault fault = {.column = 0};
	int ret = request->matches ? -EINVAL : pattern_compile(&request->match, text, &fault);

	request->matches |= !ret;
	return ret ? calltap_diag_set(diag, ret, "'%.60s' is no pattern: %s", text, fault.text) : 0;
}

static int take_filter(struct filter_set *filters, struct filter_set *asked, const struct setting_change *word,
		       struct calltap_diag *diag)
{
	size_t kind = kind_of(word->key);
	char text[600];

	if (!strcmp(word->key, "look")) {
		snprintf(text, sizeof(text), "%.590s:*", word->value);
		return filter_set_add(asked, FILTER_TRACE, text, diag);
	}
	if (kind == KINDS)
		return refuse_kind(word->key, diag);
	return word->value[0] ? filter_set_add(filters, kinds[kind].kind, word->value, diag) : 0;
}

static int take_word(struct request *request, struct filter_set *filters, struct filter_set *asked,
		     const struct setting_change *word, struct calltap_diag *diag)
{
	if (!strcmp(word->key, "addresses")) {
		request->addresses = true;
		return 0;
	}
	if (!strcmp(word->key, "first")) {
		request->first = true;
		return 0;
	}
	if (!strcmp(word->key, "match"))
		return take_match(request, word->value, diag);
	if (strcmp(word->key, "pick") != 0)
		return take_filter(filters, asked, word, diag);
	request->picks = kind_of(word->value);
	return request->picks < KINDS ? 0 : refuse_kind(word->value, diag);
}

/* Look at the libraries that are asked for, if nothing has named them so far. */
static int look(struct session *session, struct filter_set *asked, struct calltap_diag *diag)
{
	int ret = live_turn_begin(session);

	if (ret)
		return calltap_diag_set(diag, ret, "the attach is not complete yet (is the process stopped?)");
	session->images.asked = asked;
	ret = additions_look(session);
	session->images.asked = NULL;
	live_turn_end(session);
	return ret ? calltap_diag_set(diag, ret, "not enough memory") : 0;
}

static int write_all(const struct request *request)
{
	const struct session *session = request->instance->session;
	int ret = 0;

	for (uint32_t i = 0; i < session->images.count && !ret; i++) {
		const struct image *image = image_of_index(session, i);

		if (image)
			ret = write_image(request, image);
	}
	write_waiting(request);
	return ret;
}

int catalog_write(struct instance *instance, const struct setting_change *words, size_t count, FILE *out,
		  struct calltap_diag *diag)
{
	struct session *session = instance->session;
	struct request request = {.instance = instance, .picks = KINDS, .out = out};
	struct filter_set *own = NULL, *asked = NULL;
	int ret = filter_set_create(&own) || filter_set_create(&asked)
			  ? calltap_diag_set(diag, -ENOMEM, "not enough memory")
			  : 0;

	for (size_t i = 0; i < count && !ret; i++)
		ret = take_word(&request, own, asked, &words[i], diag);
	if (!ret) {
		session_lock(session);
		request.later = !session->emulated && session->machine->id == EM_X86_64;
		request.filters = is_empty(own) ? instance->settings.options.filters : own;
		request.asked = asked;
		if (request.later && !is_empty(asked))
			ret = look(session, asked, diag);
		if (!ret && write_all(&request))
			ret = calltap_diag_set(diag, -ENOMEM, "not enough memory");
		session_unlock(session);
	}
	if (request.matches)
		pattern_free(&request.match);
	filter_set_destroy(own);
	filter_set_destroy(asked);
	return ret;
}
