/* Names that are too long for a column. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "host/view/shorten.h"

static void expect(const char *name, unsigned width, const char *want)
{
	char text[SHORTEN_MAX];

	assert_string_equal(shorten(name, width, text), want);
}

static void names_that_fit_stay(void **state)
{
	(void)state;
	expect("main", 8, "main");
	expect("ns::f(int, char)", 16, "ns::f(int, char)");
	/* Wider than what a shortened name may be. */
	expect("ns::Class<std::vector<int, std::allocator<int> > >::method(std::string const&, unsigned long) const",
	       120,
	       "ns::Class<std::vector<int, std::allocator<int> > >::method(std::string const&, unsigned long) const");
}

static void arguments_go_first_then_templates(void **state)
{
	static const char name[] = "ns::Class<std::map<int, long> >::method(std::string const&, void (*)(int)) const";

	(void)state;
	expect(name, 60, "ns::Class<std::map<int, long> >::method(...) const");
	expect(name, 40, "ns::Class<...>::method(...) const");
	expect("f(int, long, unsigned char)::{lambda(int, long)#1}::operator()(int, long) const", 50,
	       "f(...)::{lambda(...)#1}::operator()(...) const");
	expect("(anonymous namespace)::work(int, unsigned long, char const*)", 40, "(anonymous namespace)::work(...)");
}

static void operators_are_no_brackets(void **state)
{
	(void)state;
	expect("bool operator< <int, long>(pair<int, long> const&, pair<int, long> const&)", 30,
	       "bool operator< <...>(...)");
	expect("ns::Stream<char>::operator<<(unsigned long const&, int)", 40, "ns::Stream<char>::operator<<(...)");
	expect("ns::Pointer<something>::operator->(unsigned long)", 35, "ns::Pointer<...>::operator->(...)");
}

static void the_rest_loses_its_middle(void **state)
{
	(void)state;
	expect("a_function_of_c_with_a_long_name", 15, "a_fu...ong_name");
	expect("\xc3\xa4\xc3\xb6\xc3\xbc\xc3\xa4\xc3\xb6\xc3\xbc\xc3\xa4\xc3\xb6\xc3\xbc\xc3\x9f", 8,
	       "\xc3\xa4...\xc3\xa4\xc3\xb6\xc3\xbc\xc3\x9f");
	expect("unclosed<and(so on and on and on", 12, "unc...and on");
}

static void no_width_is_too_great_or_small(void **state)
{
	char long_name[1024], text[SHORTEN_MAX];

	(void)state;
	for (size_t i = 0; i + 5 <= sizeof(long_name); i += 4)
		memcpy(long_name + i, "\xf0\x9f\x99\x82", 5);
	for (unsigned width = 0; width < 300; width++) {
		const char *got = shorten(long_name, width, text);

		assert_true(got == long_name || strlen(got) < SHORTEN_MAX);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_that_fit_stay),
		cmocka_unit_test(arguments_go_first_then_templates),
		cmocka_unit_test(operators_are_no_brackets),
		cmocka_unit_test(the_rest_loses_its_middle),
		cmocka_unit_test(no_width_is_too_great_or_small),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
