/*
 * Filter text: grammar, matching, the errors' texts and places, and the names suggested for a filter that matched
 * nothing.  The test program reads its own file.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "host/elf/filter.h"
#include "self.h"

#define PATH	 "/usr/lib/libself.so.1"
#define TURN	 "_ZNK4room6Widget4turnEi"
#define TURN_STR "_ZNK4room6Widget4turnERKSs"
#define TWICE	 "_ZN4room5twiceIiEET_S1_"
#define CALL	 "_ZN4room6WidgetclEi"
#define RUST	 "_ZN5crate6module8function17h0123456789abcdefE"

/* Functions with the names that filters must find. */
void alpha(void);
void alpha_too(void) __attribute__((alias("alpha")));
void alphabet(void);
void a_bracket(void);
void turn(void) __asm__(TURN);
void turn_string(void) __asm__(TURN_STR);
void twice(void) __asm__(TWICE);
void call(void) __asm__(CALL);
void rust(void) __asm__(RUST);

void alpha(void)
{
}

void alphabet(void)
{
}

void a_bracket(void)
{
}

void turn(void)
{
}

void turn_string(void)
{
}

void twice(void)
{
}

void call(void)
{
}

void rust(void)
{
}

static struct object *self;

static int open_object(void **state)
{
	self = open_self(PATH);
	return self ? 0 : -1;
}

static int close_object(void **state)
{
	object_close(self);
	return 0;
}

static struct filter_set *make(enum filter_kind kind, const char *text)
{
	struct calltap_diag diag;
	struct filter_set *set;

	assert_int_equal(filter_set_create(&set), 0);
	if (filter_set_add(set, kind, text, &diag))
		fail_msg("%s: %s", text, diag.text);
	return set;
}

static struct filter_decision decide(struct filter_set *set, const char *symbol)
{
	const struct object_site *site = site_of(self, symbol);
	struct filter_decision decision;

	if (!site)
		fail_msg("no site of %s", symbol);
	filter_set_decide(set, self, site, &decision);
	return decision;
}

static bool matches(const char *text, const char *symbol)
{
	struct filter_set *set = make(FILTER_TRACE, text);
	bool found = decide(set, symbol).trace;
	unsigned long count;
	enum filter_kind kind;
	const char *kept;

	assert_true(filter_set_item(set, 0, &kept, &kind, &count));
	assert_string_equal(kept, text);
	assert_int_equal(kind, FILTER_TRACE);
	assert_int_equal(count, found);
	assert_false(filter_set_item(set, 1, &kept, &kind, &count));
	filter_set_destroy(set);
	return found;
}

static void globs(void **state)
{
	assert_true(matches("alpha", "alpha"));
	assert_false(matches("alpha", "alphabet"));
	assert_false(matches("Alpha", "alpha"));
	assert_true(matches("alpha*", "alpha"));
	assert_true(matches("alpha*", "alphabet"));
	assert_true(matches("*", TURN));
	assert_true(matches("alp?a", "alpha"));
	assert_false(matches("alpha?", "alpha"));
	assert_true(matches("[a-c]lpha", "alpha"));
	assert_false(matches("[!a-c]lpha", "alpha"));
	assert_false(matches("[^a]lpha", "alpha"));
	assert_true(matches("[]a]lpha", "alpha"));
	assert_true(matches("\\alpha", "alpha"));
	assert_true(matches("a*a*b*t", "alphabet"));
	assert_false(matches("a*z*t", "alphabet"));
}

/* A name that is written out is also another name of the function; a pattern is about the first one. */
static void other_names(void **state)
{
	const struct object_symbol *symbol = object_site_symbol(self, site_of(self, "alpha"));

	assert_string_equal(object_symbol_other(self, symbol, 0), "alpha_too");
	assert_null(object_symbol_other(self, symbol, 1));
	assert_null(object_symbol_other(self, symbol, 2));
	assert_null(object_symbol_other(self, object_site_symbol(self, site_of(self, "alphabet")), 0));
	assert_true(matches("alpha_too", "alpha"));
	assert_false(matches("alpha_too", "alphabet"));
	assert_false(matches("alpha_t*", "alpha"));
	assert_false(matches("/alpha_too/", "alpha"));
}

static void cxx_names(void **state)
{
	assert_true(matches(TURN, TURN));
	assert_true(matches("room::Widget::turn", TURN));
	assert_true(matches("room::Widget::turn", TURN_STR));
	assert_true(matches("room::Widget::turn(int) const", TURN));
	assert_false(matches("room::Widget::turn(int) const", TURN_STR));
	assert_true(matches("*string*", TURN_STR));
	assert_false(matches("*string*", TURN));
	assert_true(matches("room::twice<int>", TWICE));
	assert_true(matches("int room::twice<int>(int)", TWICE));
	assert_true(matches("room::Widget::operator()", CALL));
	assert_true(matches("crate::module::function", RUST));
	assert_true(matches("crate::*", RUST));
	assert_false(matches("crates::*", RUST));
}

static void regexes(void **state)
{
	assert_true(matches("/^alpha$/", "alpha"));
	assert_false(matches("/^alpha$/", "alphabet"));
	assert_true(matches("/pha/", "alphabet"));
	assert_true(matches("/^(alpha|beta)$/", "alpha"));
	assert_true(matches("/Widget::turn$/", TURN));
	assert_true(matches("/turn.int. const$/", TURN));
	assert_false(matches("/turn.int. const$/", TURN_STR));
	assert_true(matches("/a:?lpha/", "alpha"));
}

static void objects(void **state)
{
	assert_true(matches("libself.so.1:alpha", "alpha"));
	assert_true(matches("libself*:al*", "alpha"));
	assert_true(matches("libself*:/^al/", "alpha"));
	assert_true(matches("/usr/lib/libself.so.1:alpha", "alpha"));
	assert_true(matches("/usr/*:alpha", "alpha"));
	assert_true(matches("libself*:room::Widget::turn", TURN));
	assert_false(matches("libother*:alpha", "alpha"));
	assert_false(matches("libself:alpha", "alpha"));
}

static void decisions(void **state)
{
	struct filter_set *set = make(FILTER_TRACE, "alpha*");
	struct filter_decision decision;

	assert_int_equal(filter_set_add(set, FILTER_NOTRACE, "alphabet", NULL), 0);
	assert_int_equal(filter_set_add(set, FILTER_GRAPH, TURN, NULL), 0);
	assert_int_equal(filter_set_add(set, FILTER_NOGRAPH, "call*", NULL), 0);
	assert_int_equal(filter_set_add(set, FILTER_NOGRAPH, "room::twice*", NULL), 0);
	assert_true(filter_set_has(set, FILTER_GRAPH));
	decision = decide(set, "alpha");
	assert_true(decision.trace && !decision.root && !decision.notree);
	decision = decide(set, "alphabet");
	assert_false(decision.trace || decision.root || decision.notree);
	decision = decide(set, TURN);
	assert_true(decision.trace && decision.root && !decision.notree);
	decision = decide(set, TWICE);
	assert_true(decision.trace && !decision.root && decision.notree);
	decision = decide(set, RUST);
	assert_false(decision.trace);
	assert_int_equal(filter_set_add(set, FILTER_GRAPH, "*", NULL), 0);
	decision = decide(set, TWICE);
	assert_true(decision.trace && !decision.root && decision.notree);
	decision = decide(set, "alphabet");
	assert_false(decision.trace || decision.root || decision.notree);
	decision = decide(set, "alpha");
	assert_true(decision.trace && decision.root && !decision.notree);
	filter_set_destroy(set);

	assert_int_equal(filter_set_create(&set), 0);
	assert_true(decide(set, RUST).trace);
	assert_false(filter_set_has(set, FILTER_TRACE));
	filter_set_destroy(set);
}

static void alike(void **state)
{
	struct filter_set *one = make(FILTER_TRACE, "alpha*"), *other = make(FILTER_TRACE, "alpha*");

	assert_int_equal(filter_set_key(one), filter_set_key(other));
	assert_true(decide(one, "alpha").trace);
	assert_non_null(filter_set_unmatched(other));
	assert_true(filter_set_take_matches(other, one));
	assert_null(filter_set_unmatched(other));
	assert_int_equal(filter_set_add(other, FILTER_NOTRACE, "alphabet", NULL), 0);
	assert_int_not_equal(filter_set_key(one), filter_set_key(other));
	assert_false(filter_set_take_matches(other, one));
	assert_int_equal(filter_set_add(one, FILTER_TRACE, "alphabet", NULL), 0);
	assert_int_not_equal(filter_set_key(one), filter_set_key(other));
	assert_false(filter_set_take_matches(other, one));
	filter_set_destroy(one);
	filter_set_destroy(other);
}

static void error_at(const char *text, int column, const char *part)
{
	struct calltap_diag diag = {0};
	struct filter_set *set;

	assert_int_equal(filter_set_create(&set), 0);
	assert_int_equal(filter_set_add(set, FILTER_TRACE, text, &diag), -EINVAL);
	assert_int_equal(diag.code, -EINVAL);
	if (diag.column != column || !strstr(diag.text, part) || strcmp(diag.input, text) != 0)
		fail_msg("%s: column %d, \"%s\", input \"%s\"", text, diag.column, diag.text, diag.input);
	assert_false(filter_set_has(set, FILTER_TRACE));
	filter_set_destroy(set);
}

static void errors(void **state)
{
	error_at("", 0, "empty pattern");
	error_at("libfoo.so:", 10, "empty pattern");
	error_at(":", 1, "empty pattern");
	error_at("//", 1, "empty regular expression");
	error_at("/abc", 4, "closing");
	error_at("ab[cd", 2, "\"[\" without \"]\"");
	error_at("lib[x:ab", 3, "\"[\" without \"]\"");
	error_at("libfoo.so:ab[cd", 12, "\"[\" without \"]\"");
	error_at("abc\\", 3, "nothing follows");
	error_at("/a(b/", 1, "nmatched");
	error_at("libfoo:/a(b/", 8, "nmatched");
}

static void write_list(char *path, const char *text)
{
	int fd = mkstemp(path);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
}

static void lists(void **state)
{
	char good[] = "/tmp/calltap-list-XXXXXX", bad[] = "/tmp/calltap-list-XXXXXX",
	     nested[] = "/tmp/calltap-list-XXXXXX";
	struct calltap_diag diag;
	struct filter_set *set;
	unsigned long count;
	enum filter_kind kind;
	const char *kept;
	char text[64];

	write_list(good, "# functions\n\n  alpha \r\nroom::*");
	snprintf(text, sizeof(text), "@%s", good);
	set = make(FILTER_NOTRACE, text);
	assert_true(filter_set_item(set, 0, &kept, &kind, &count));
	assert_string_equal(kept, "alpha");
	assert_int_equal(kind, FILTER_NOTRACE);
	assert_true(filter_set_item(set, 1, &kept, &kind, &count));
	assert_string_equal(kept, "room::*");
	assert_false(filter_set_item(set, 2, &kept, &kind, &count));
	assert_false(decide(set, TURN).trace);
	assert_true(decide(set, "alphabet").trace);

	write_list(bad, "alpha\n\nbe[ta\n");
	snprintf(text, sizeof(text), "@%s", bad);
	assert_int_equal(filter_set_add(set, FILTER_TRACE, text, &diag), -EINVAL);
	assert_non_null(strstr(diag.text, ":3: "));
	assert_string_equal(diag.input, "be[ta");
	assert_int_equal(diag.column, 2);

	write_list(nested, "@other\n");
	snprintf(text, sizeof(text), "@%s", nested);
	assert_int_equal(filter_set_add(set, FILTER_TRACE, text, &diag), -EINVAL);
	assert_int_equal(filter_set_add(set, FILTER_TRACE, "@/nonexistent/list", &diag), -ENOENT);
	assert_non_null(strstr(diag.text, "/nonexistent/list"));
	assert_int_equal(filter_set_add(set, FILTER_TRACE, "@/tmp", &diag), -EISDIR);
	filter_set_destroy(set);
	unlink(good);
	unlink(bad);
	unlink(nested);
}

static void near_is(const char *text, const char *best)
{
	const char *names[3] = {NULL};
	size_t count = filter_near_misses(text, &self, 1, names, 3);

	assert_true(count <= 3);
	if (!best) {
		assert_int_equal(count, 0);
		return;
	}
	if (!count || strcmp(names[0], best) != 0)
		fail_msg("%s: near is %s", text, count ? names[0] : "nothing");
}

static void near_misses(void **state)
{
	near_is("alhpa", "alpha");
	near_is("ALPHABET", "alphabet");
	near_is("alphabt", "alphabet");
	near_is("libself.so.1:alphabte", "alphabet");
	near_is("*racke", "a_bracket");
	near_is("/^brack$/", "a_bracket");
	near_is("Widget::tunr", "room::Widget::turn");
	near_is("turm", "room::Widget::turn");
	near_is("crate::module::functoin", "crate::module::function");
	near_is("qqqqqqqqqqqq", NULL);
	near_is("*", NULL);
	near_is("", NULL);
	assert_int_equal(filter_near_misses("alhpa", &self, 1, NULL, 0), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(globs),   cmocka_unit_test(other_names), cmocka_unit_test(cxx_names),
		cmocka_unit_test(regexes), cmocka_unit_test(objects),	  cmocka_unit_test(decisions),
		cmocka_unit_test(errors),  cmocka_unit_test(lists),	  cmocka_unit_test(near_misses),
		cmocka_unit_test(alike),
	};

	return cmocka_run_group_tests(tests, open_object, close_object);
}
