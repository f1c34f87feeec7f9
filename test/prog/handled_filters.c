/*
 * Filters of handlers: globs, lists, addresses, notrace, and changes of a filter while its handlers are registered;
 * and refusals, each with a sentence and without any effect.
 */
#include "handled.h"

enum { RED, GREEN, BLUE, GREY, COLOURS };

static long called[COLOURS];
static long seen[COLOURS];

TRACED int colour_red(int x)
{
	called[RED]++;
	return x + 1;
}

TRACED int colour_green(int x)
{
	called[GREEN]++;
	return x + 2;
}

TRACED int colour_blue(int x)
{
	called[BLUE]++;
	return x + 3;
}

TRACED int shade_grey(int x)
{
	called[GREY]++;
	return x + 4;
}

UNTRACED int no_site(int x)
{
	return x + 5;
}

static int (*const functions[COLOURS])(int) = {colour_red, colour_green, colour_blue, shade_grey};

BY_GENERALS static int which(struct calltap_call *call)
{
	for (int i = 0; i < COLOURS; i++)
		if (call->function == (uintptr_t)functions[i])
			return i;
	handled_wrong("a function of an address", (long)call->function, (long)functions[0]);
	return 0;
}

BY_GENERALS static int see(struct calltap_call *call, void *context)
{
	seen[which(call)]++;
	return ANSWERED;
}

BY_GENERALS static void see_exit(struct calltap_call *call, void *context)
{
	seen[which(call)] += 1000;
}

/* Each function is called once; those of the mask had handlers, the others had not. */
UNTRACED static void held(const char *what, unsigned mask)
{
	memset(seen, 0, sizeof(seen));
	for (int i = 0; i < COLOURS; i++)
		always("a result", functions[i](10), 11 + i);
	for (int i = 0; i < COLOURS; i++)
		expect(what, seen[i], mask >> i & 1 ? 1001 : 0);
	printf("%s\n", what);
}

#define ALL 15u

struct wish {
	const char *what;
	const char *filter[4], *notrace[4];
	const void *addresses[3];
	unsigned count, mask;
};

static const struct wish wishes[] = {
	{"a name", {"colour_green"}, {0}, {0}, 0, 1 << GREEN},
	{"a glob", {"colour_*"}, {0}, {0}, 0, 1 << RED | 1 << GREEN | 1 << BLUE},
	{"a list", {"colour_red", "*grey"}, {0}, {0}, 0, 1 << RED | 1 << GREY},
	{"a glob without", {"colour_*"}, {"*red", "colour_b*"}, {0}, 0, 1 << GREEN},
	{"an address", {0}, {0}, {colour_blue}, 1, 1 << BLUE},
	{"addresses", {0}, {0}, {colour_blue, shade_grey}, 2, 1 << BLUE | 1 << GREY},
	{"an address inside", {0}, {0}, {(const char *)colour_red + 8}, 1, 1 << RED},
	{"an address and a glob", {"shade_*"}, {0}, {colour_red}, 1, 1 << RED | 1 << GREY},
	{"a glob of a letter", {"colour_?e?"}, {0}, {0}, 0, 1 << RED},
	{"a glob of letters", {"colour_[gb]*"}, {0}, {0}, 0, 1 << GREEN | 1 << BLUE},
};

UNTRACED static struct calltap_ops_options options_of(const struct wish *wish)
{
	return (struct calltap_ops_options){.entry = see,
					    .exit = see_exit,
					    .flags = GENERAL,
					    .filter = wish->filter[0] ? wish->filter : NULL,
					    .notrace = wish->notrace[0] ? wish->notrace : NULL,
					    .addresses = wish->count ? wish->addresses : NULL,
					    .address_count = wish->count};
}

UNTRACED static void chosen(struct calltap_session *session)
{
	for (unsigned i = 0; i < sizeof(wishes) / sizeof(wishes[0]); i++) {
		struct calltap_ops_options options = options_of(&wishes[i]);
		struct calltap_ops *ops = handled_register(session, &options);

		held(wishes[i].what, wishes[i].mask);
		expect("functions", handled_status(ops).functions, __builtin_popcount(wishes[i].mask));
		handled_off(ops);
		held("nothing", 0);
	}
}

/* The filter of one that is registered, changed from each to the next; a wrong one leaves the last. */
UNTRACED static void changed(struct calltap_session *session)
{
	struct calltap_ops_options options = options_of(&wishes[0]);
	struct calltap_ops *ops = handled_register(session, &options);
	static const char *const none[] = {"colour_pink", NULL};
	struct calltap_diag diag = {0};

	for (unsigned i = 0; i < sizeof(wishes) / sizeof(wishes[0]); i++) {
		options = options_of(&wishes[i]);
		if (ops)
			always("set_filter",
			       calltap_ops_set_filter(ops, options.filter, options.notrace, options.addresses,
						      options.address_count, &diag),
			       0);
		held(wishes[i].what, wishes[i].mask);
		if (ops)
			always("a filter of nothing", calltap_ops_set_filter(ops, none, NULL, NULL, 0, &diag), -ENOENT);
		expect("its sentence", strstr(diag.text, "colour_") != NULL, 1);
		held("the same", wishes[i].mask);
	}
	handled_off(ops);
	held("nothing", 0);
}

UNTRACED static void refused_one(struct calltap_session *session, const char *what,
				 const struct calltap_ops_options *options, int code)
{
	struct calltap_diag diag;
	struct calltap_ops *ops;
	int found = handled_try(&ops, session, options, &diag);

	expect(what, found, code);
	expect("a sentence for it", diag.text[0] && !strchr(diag.text, '\n'), 1);
	expect("and no ops", ops != NULL, 0);
	held(what, 0);
}

UNTRACED static void refused(struct calltap_session *session)
{
	static const char *const none[] = {"colour_pink", NULL}, *const blank[] = {"", NULL};
	static const char *const red[] = {"colour_red", NULL}, *const newline[] = {"colour_red\nremove=0", NULL};
	const void *data[] = {&called}, *site[] = {no_site}, *null[] = {NULL};
	struct calltap_ops_options options = {.entry = see, .filter = none};

	refused_one(session, "a name of nothing", &options, -ENOENT);
	options.filter = red;
	options.notrace = red;
	refused_one(session, "all taken out again", &options, -ENOENT);
	options.notrace = NULL;
	options.filter = blank;
	refused_one(session, "an empty name", &options, -EINVAL);
	options.filter = newline;
	refused_one(session, "a line's end in a name", &options, -EINVAL);
	options.filter = NULL;
	options.address_count = 1;
	options.addresses = data;
	refused_one(session, "an address of data", &options, -ENOENT);
	options.addresses = site;
	refused_one(session, "a function without a site", &options, -ENOENT);
	options.addresses = null;
	refused_one(session, "no address", &options, -ENOENT);
	options = (struct calltap_ops_options){.filter = red};
	refused_one(session, "no handler", &options, -EINVAL);
	options = (struct calltap_ops_options){.entry = see, .flags = 1u << 31, .filter = red};
	refused_one(session, "an unknown flag", &options, -EINVAL);
}

/* Without any filter: every function that can be. */
UNTRACED static void everything(struct calltap_session *session)
{
	static const char *const star[] = {"*", NULL};
	static const char *const main_too[] = {"main", NULL};
	struct calltap_ops_options options = {.entry = see, .exit = see_exit, .filter = star, .notrace = main_too};
	struct calltap_ops *ops = handled_register(session, &options);

	held("everything", ALL);
	handled_off(ops);
	held("nothing", 0);
}

static const struct handled_case cases[] = {
	{"chosen", chosen}, {"changed", changed}, {"refused", refused}, {"everything", everything}, {NULL, NULL}};

int main(int argc, char **argv)
{
	return handled_run(cases, argc, argv);
}
