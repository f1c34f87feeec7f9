/*
 * `calltap functions`: every function of a program or library, where its site is, and why a function cannot be traced.
 *
 * Caller: main.  Context: host.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd.h"
#include "host/counted.h"
#include "host/elf/advice.h"
#include "host/elf/filter.h"
#include "host/elf/fronts.h"
#include "host/elf/object.h"
#include "host/view/json.h"
#include "host/view/out.h"
#include "host/view/term.h"
#include "listed.h"
#include "options.h"

#define EXIT_NO_SITES  2
#define NEAR_NAMES_MAX 3

static const char help[] = "usage: calltap functions [OPTION...] PROGRAM|PID [FILTER...]\n\n"
			   "Lists the functions of a program or library, and why one cannot be traced.\n"
			   "Of a process: of its program, and of libraries that it has mapped now ('*:*': of all).\n"
			   "FILTER is a glob, /regex/, object:pattern, or @FILE with a list of them.\n\n"
			   "      --debuginfod      first fetch the debug file from the servers of DEBUGINFOD_URLS\n"
			   "      --json            one JSON object instead of text\n"
			   "      --no-pager        do not start a pager\n"
			   "  -h, --help            this text\n";

struct arguments {
	const char *program;
	char **filters; /* ends in NULL */
	bool debuginfod, json, no_pager, help;
};

/* One line of the list: a site, or a function without one. */
struct item {
	uint64_t address;
	size_t object;			    /* by index in the listing */
	const struct object_site *site;	    /* NULL: the function has no site */
	const struct object_symbol *symbol; /* NULL: the site's function has no symbol */
};

struct listing {
	struct listed listed;
	struct filter_set *filters;
	struct item *items;
	size_t count;
	size_t reasons[SITE_VERDICTS]; /* items by verdict */
};

static enum site_verdict verdict_of(const struct item *item)
{
	return item->site ? (enum site_verdict)item->site->verdict : SITE_NO_SITE;
}

static struct object *object_of(const struct listing *listing, const struct item *item)
{
	return listing->listed.objects[item->object];
}

static const char *name_of(const struct listing *listing, const struct item *item)
{
	struct object *object = object_of(listing, item);

	return item->symbol ? object_symbol_name(object, item->symbol) : object_site_name(object, item->site);
}

static bool is_wanted(const struct listing *listing, const struct item *item)
{
	struct filter_decision decision;

	if (!item->site)
		return !filter_set_has(listing->filters, FILTER_TRACE) ||
		       filter_set_match(listing->filters, FILTER_TRACE, object_of(listing, item), item->symbol);
	filter_set_decide(listing->filters, object_of(listing, item), item->site, &decision);
	return decision.trace;
}

static int compare_items(const void *a, const void *b)
{
	const struct item *left = a, *right = b;

	if (left->object != right->object)
		return left->object < right->object ? -1 : 1;
	return (left->address > right->address) - (left->address < right->address);
}

static void add_item(struct listing *listing, const struct item *item)
{
	if (!is_wanted(listing, item))
		return;
	listing->items[listing->count++] = *item;
	listing->reasons[verdict_of(item)]++;
}

static int list_object(struct listing *listing, size_t index)
{
	struct object *object = listing->listed.objects[index];
	const struct object_site *sites;
	const struct object_symbol *symbols;
	size_t site_count = object_sites(object, &sites);
	size_t symbol_count = object_symbols(object, &symbols);
	bool *has_site = calloc(symbol_count + 1, sizeof(*has_site));
	struct item *items =
		reallocarray(listing->items, listing->count + site_count + symbol_count + 1, sizeof(*items));

	if (items)
		listing->items = items;
	if (!items || !has_site) {
		free(has_site);
		return -ENOMEM;
	}
	for (size_t i = 0; i < site_count; i++) {
		const struct object_symbol *symbol = object_site_symbol(object, &sites[i]);

		if (symbol)
			has_site[symbol - symbols] = true;
		add_item(listing,
			 &(struct item){
				 .address = sites[i].function, .object = index, .site = &sites[i], .symbol = symbol});
	}
	for (size_t i = 0; i < symbol_count; i++) {
		if (!has_site[i] && !object_is_fragment(object, symbols[i].address))
			add_item(listing,
				 &(struct item){.address = symbols[i].address, .object = index, .symbol = &symbols[i]});
	}
	free(has_site);
	return 0;
}

static int list_functions(struct listing *listing)
{
	int error = 0;

	for (size_t i = 0; i < listing->listed.count && !error; i++)
		error = list_object(listing, i);
	if (!error)
		qsort(listing->items, listing->count, sizeof(*listing->items), compare_items);
	return error;
}

/* The name in the symbol table; NULL = the function has none. */
static const char *symbol_of(const struct item *item)
{
	if (item->symbol)
		return item->symbol->symbol;
	return item->site && item->site->symbol[0] ? item->site->symbol : NULL;
}

/* What would give names to functions that have none. */
static void print_hint(struct out *out, const struct listing *listing)
{
	size_t nameless = 0;

	for (size_t i = 0; i < listing->count; i++) {
		enum object_names names = object_names_from(object_of(listing, &listing->items[i]));

		nameless += !symbol_of(&listing->items[i]) &&
			    (names == OBJECT_NAMES_DYNAMIC || names == OBJECT_NAMES_PACKED);
	}
	if (nameless)
		out_format(out,
			   "%zu %s no name: install the package with the debug symbols (Debian: ...-dbgsym), "
			   "or use --debuginfod\n",
			   nameless, counted(nameless, "function has", "functions have"));
}

static void describe_note(char *text, size_t size, const struct listed_note *note)
{
	if (!note->error)
		snprintf(text, size, "%s was deleted or replaced; this is what the process has mapped", note->path);
	else if (note->error == -ESTALE || note->error == -ENOENT)
		snprintf(text, size,
			 "%s was deleted or replaced, and only root may read what the process has mapped: nothing of "
			 "it is listed",
			 note->path);
	else
		snprintf(text, size, "%s cannot be read: %s; nothing of it is listed", note->path,
			 strerror(-note->error));
}

/* The first file that cannot be read; "" = none. */
static void describe_unread(char *text, size_t size, const struct listed *listed)
{
	text[0] = 0;
	for (size_t i = 0; i < listed->note_count && !text[0]; i++)
		if (listed->notes[i].error)
			describe_note(text, size, &listed->notes[i]);
}

/* Print a line for each file of the process that was replaced or cannot be read, and one for those not listed. */
static void print_notes(struct out *out, const struct listed *listed)
{
	char text[PATH_MAX + 200];

	for (size_t i = 0; i < listed->note_count; i++) {
		describe_note(text, sizeof(text), &listed->notes[i]);
		out_format(out, "%s\n", text);
	}
	if (listed->others)
		out_format(out, "%zu %s mapped as well; the filter '*:*' lists %s functions, too\n", listed->others,
			   counted(listed->others, "library is", "libraries are"),
			   counted(listed->others, "its", "their"));
}

static void print_summary(struct out *out, const struct listing *listing)
{
	const char *separator = "; ";
	char advice[OBJECT_ADVICE_MAX];

	out_format(out, "%zu %s, %zu traceable", listing->count, counted(listing->count, "function", "functions"),
		   listing->reasons[SITE_OK]);
	for (int verdict = SITE_OK + 1; verdict < SITE_VERDICTS; verdict++) {
		if (!listing->reasons[verdict])
			continue;
		out_format(out, "%s%zu %s", separator, listing->reasons[verdict], site_verdict_text(verdict));
		separator = ", ";
	}
	out_char(out, '\n');
	for (size_t i = 0; i < listing->listed.count; i++) {
		object_advise(listing->listed.objects[i], advice);
		out_format(out, "%s", advice);
	}
	print_hint(out, listing);
	print_notes(out, &listing->listed);
}

/*
 * The function's next further name, NULL = there is none; *at counts them, from 0 on.  Mangled names are passed over: a
 * constructor has two symbols, which are one name to people.
 */
static const char *next_other(const struct listing *listing, const struct item *item, size_t *at)
{
	const char *name = NULL;

	do
		name = item->symbol ? object_symbol_other(object_of(listing, item), item->symbol, (*at)++) : NULL;
	while (name && (!strncmp(name, "_Z", 2) || !strncmp(name, "_R", 2)));
	return name;
}

static void print_others(struct out *out, const struct listing *listing, const struct item *item)
{
	const char *separator = "  also ", *name;

	for (size_t at = 0; (name = next_other(listing, item, &at)); separator = ", ") {
		out_format(out, "%s", separator);
		out_text(out, name);
	}
}

static void print_text(struct out *out, const struct listing *listing)
{
	out_format(out, "%12s  %-10s  %s\n", "ADDRESS", "SITE", "FUNCTION");
	for (size_t i = 0; i < listing->count; i++) {
		const struct item *item = &listing->items[i];
		enum site_verdict verdict = verdict_of(item);

		if (listing->listed.count > 1 && (!i || item->object != item[-1].object))
			out_format(out, "%s:\n", object_path(object_of(listing, item)));
		out_format(out, "%#12" PRIx64 "  %-10s  ", item->address,
			   item->site ? site_kind_text(item->site->kind) : "-");
		out_text(out, name_of(listing, item));
		print_others(out, listing, item);
		if (verdict != SITE_OK)
			out_format(out, "  (%s)", site_verdict_text(verdict));
		out_char(out, '\n');
	}
	print_summary(out, listing);
}

static void print_json_item(struct json *json, const struct listing *listing, const struct item *item)
{
	enum site_verdict verdict = verdict_of(item);
	const char *other;

	json_object(json);
	json_key_string(json, "name", name_of(listing, item));
	json_key_string(json, "symbol", symbol_of(item));
	json_key(json, "others");
	json_array(json);
	for (size_t at = 0; (other = next_other(listing, item, &at));)
		json_string(json, other);
	json_array_end(json);
	json_key_string(json, "object", object_path(object_of(listing, item)));
	json_key_u64(json, "address", item->address);
	json_key_u64(json, "size", item->symbol ? item->symbol->size : item->site->size);
	json_key_string(json, "site", item->site ? site_kind_text(item->site->kind) : NULL);
	json_key(json, "traceable");
	json_bool(json, verdict == SITE_OK);
	json_key_string(json, "reason", verdict == SITE_OK ? NULL : site_verdict_text(verdict));
	json_object_end(json);
}

static void print_json_notes(struct json *json, const struct listed *listed)
{
	for (int unread = 0; unread < 2; unread++) {
		json_key(json, unread ? "unread" : "replaced");
		json_array(json);
		for (size_t i = 0; i < listed->note_count; i++)
			if (!listed->notes[i].error == !unread)
				json_string(json, listed->notes[i].path);
		json_array_end(json);
	}
}

static void print_json(struct out *out, const struct listing *listing)
{
	struct json json;

	json_begin(&json, out);
	json_object(&json);
	json_key_string(&json, "program", object_path(listing->listed.objects[0]));
	json_key(&json, "functions");
	json_array(&json);
	for (size_t i = 0; i < listing->count; i++)
		print_json_item(&json, listing, &listing->items[i]);
	json_array_end(&json);
	json_key_u64(&json, "count", listing->count);
	json_key_u64(&json, "traceable", listing->reasons[SITE_OK]);
	json_key(&json, "not_traceable");
	json_object(&json);
	for (int verdict = SITE_OK + 1; verdict < SITE_VERDICTS; verdict++) {
		if (listing->reasons[verdict])
			json_key_u64(&json, site_verdict_text(verdict), listing->reasons[verdict]);
	}
	json_object_end(&json);
	print_json_notes(&json, &listing->listed);
	json_object_end(&json);
	out_char(out, '\n');
}

/* A filter that matches nothing is an error that names what is near. */
static int check_filters(const struct listing *listing, struct calltap_diag *diag)
{
	const char *near[NEAR_NAMES_MAX], *text;
	enum filter_kind kind;
	unsigned long matches;
	char names[200] = "";
	char unread[300];
	size_t count, at = 0;

	describe_unread(unread, sizeof(unread), &listing->listed);
	for (size_t i = 0; filter_set_item(listing->filters, i, &text, &kind, &matches); i++) {
		if (matches)
			continue;
		count = filter_near_misses(text, listing->listed.objects, listing->listed.count, near, NEAR_NAMES_MAX);
		for (size_t j = 0; j < count && at < sizeof(names); j++)
			at += (size_t)snprintf(names + at, sizeof(names) - at, "%s%.60s", j ? ", " : "; did you mean ",
					       near[j]);
		return calltap_diag_set(diag, -ENOENT, "filter \"%.100s\" matches no function of %.120s%s%s%s%.300s",
					text, object_path(listing->listed.objects[0]), names, count ? "?" : "",
					unread[0] ? "; " : "", unread);
	}
	return 0;
}

static int print_listing(const struct listing *listing, const struct arguments *arguments, struct calltap_diag *diag)
{
	struct term_pager pager;
	struct out *out;
	int error;

	term_pager_start(&pager, !arguments->json && !arguments->no_pager);
	error = out_create(&out, pager.fd);
	if (!error) {
		(arguments->json ? print_json : print_text)(out, listing);
		error = out_destroy(out);
	}
	if (term_pager_wait(&pager, diag))
		return diag->code;
	if (error && error != -EPIPE)
		return calltap_diag_set(diag, error, "the list cannot be written: %s", strerror(-error));
	return 0;
}

static int run_functions(struct listing *listing, const struct arguments *arguments, struct calltap_diag *diag)
{
	int error = filter_set_create(&listing->filters);
	struct fronts fronts;

	if (error)
		return calltap_diag_set(diag, error, "not enough memory for filters");
	for (char **filter = arguments->filters; *filter && !error; filter++)
		error = filter_set_add(listing->filters, FILTER_TRACE, *filter, diag);
	if (!error)
		error = listed_open(&listing->listed, arguments->program, listing->filters, arguments->debuginfod,
				    diag);
	if (error)
		return error;
	error = list_functions(listing);
	if (error)
		return calltap_diag_set(diag, error, "not enough memory for the list of functions");
	error = check_filters(listing, diag);
	if (!error)
		error = print_listing(listing, arguments, diag);
	if (error || listing->listed.count > 1)
		return error;
	if (object_traceable(listing->listed.objects[0]))
		return object_is_static(listing->listed.objects[0])
			       ? fronts_find(&fronts, listing->listed.objects[0], diag)
			       : 0;
	object_no_sites_diag(listing->listed.objects[0], diag);
	return diag->code;
}

static int parse_arguments(struct arguments *arguments, int argc, char **argv, struct calltap_diag *diag)
{
	static const struct option options[] = {{"debuginfod", no_argument, NULL, 'd'},
						{"json", no_argument, NULL, 'j'},
						{"no-pager", no_argument, NULL, 'n'},
						{"help", no_argument, NULL, 'h'},
						{0}};
	int option;

	opterr = 0;
	optind = 0;
	while ((option = options_next(argc, argv, "h", options)) != -1) {
		if (option == '?')
			return options_refuse(diag, option, argv);
		arguments->debuginfod |= option == 'd';
		arguments->json |= option == 'j';
		arguments->no_pager |= option == 'n';
		arguments->help |= option == 'h';
	}
	if (optind >= argc && !arguments->help)
		return calltap_diag_set(diag, -EINVAL,
					"name the program, library or process whose functions to list: "
					"calltap functions PROGRAM|PID");
	arguments->program = argv[optind];
	arguments->filters = argv + optind + 1;
	return 0;
}

int cmd_functions(int argc, char **argv)
{
	struct arguments arguments = {0};
	struct calltap_diag diag = {0};
	struct listing listing = {0};
	int error = parse_arguments(&arguments, argc, argv, &diag);

	if (!error && arguments.help) {
		fputs(help, stdout);
		return EXIT_SUCCESS;
	}
	/* A reader of the list may go away; write() then returns an error. */
	signal(SIGPIPE, SIG_IGN);
	if (!error)
		error = run_functions(&listing, &arguments, &diag);
	if (error)
		calltap_diag_print(&diag, stderr);
	free(listing.items);
	filter_set_destroy(listing.filters);
	listed_close(&listing.listed);
	if (error == -ENODATA)
		return EXIT_NO_SITES;
	return error ? EXIT_FAILURE : EXIT_SUCCESS;
}
