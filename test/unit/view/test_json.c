/*
 * Unit tests of the JSON writer and of UTF-8 checking.
 */
#include <stdlib.h>

#include "support.h"

#include "host/view/json.h"
#include <host/utf8.h>

static void check_escape(const char *text, const char *expected)
{
	struct caught caught;
	char *copy = json_escape_dup(text);

	catch_begin(&caught);
	json_escape(caught.out, text);
	assert_string_equal(catch_end(&caught), expected);
	assert_string_equal(copy, expected);
	free(copy);
}

static void strings_are_escaped(void **state)
{
	check_escape("", "\"\"");
	check_escape("plain nrt", "\"plain nrt\"");
	check_escape("a\"b\\c", "\"a\\\"b\\\\c\"");
	check_escape("\n\r\t\b\x1f\x7f", "\"\\n\\r\\t\\u0008\\u001f\\u007f\"");
	check_escape("\xe2\x80\xae\xf3\xa0\x80\x81", "\"\\u202e\\udb40\\udc01\"");
	check_escape("\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80", "\"\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80\"");
}

static void broken_bytes_become_the_replacement_character(void **state)
{
	check_escape("a\xff"
		     "b",
		     "\"a" UTF8_REPLACEMENT "b\"");
	check_escape("\xc3", "\"" UTF8_REPLACEMENT "\"");
	check_escape("\xe2\x82", "\"" UTF8_REPLACEMENT UTF8_REPLACEMENT "\"");
}

static void only_well_formed_utf8_has_a_length(void **state)
{
	assert_int_equal(utf8_length("a"), 1);
	assert_int_equal(utf8_length("\xf4\x8f\xbf\xbf"), 4);
	assert_int_equal(utf8_length("\x80"), 0);
	assert_int_equal(utf8_length("\xc0\x80"), 0);	      /* overlong */
	assert_int_equal(utf8_length("\xe0\x9f\xbf"), 0);     /* overlong */
	assert_int_equal(utf8_length("\xed\xa0\x80"), 0);     /* surrogate */
	assert_int_equal(utf8_length("\xf4\x90\x80\x80"), 0); /* beyond U+10FFFF */
	assert_int_equal(utf8_length("\xf8\x88\x80\x80\x80"), 0);
}

static void commas_stand_between_items_only(void **state)
{
	struct caught caught;
	struct json json;

	catch_begin(&caught);
	json_begin(&json, caught.out);
	json_object(&json);
	json_key(&json, "empty");
	json_array(&json);
	json_array_end(&json);
	json_key(&json, "list");
	json_array(&json);
	json_u64(&json, 1);
	json_object(&json);
	json_key_string(&json, "s", NULL);
	json_key_u64(&json, "n", 2);
	json_object_end(&json);
	json_bool(&json, true);
	json_i64(&json, -3);
	json_milli(&json, 4005);
	json_array_end(&json);
	json_key_string(&json, "last", "x");
	json_object_end(&json);
	assert_string_equal(catch_end(&caught),
			    "{\"empty\":[],\"list\":[1,{\"s\":null,\"n\":2},true,-3,4.005],\"last\":\"x\"}");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(strings_are_escaped),
		cmocka_unit_test(broken_bytes_become_the_replacement_character),
		cmocka_unit_test(only_well_formed_utf8_has_a_length),
		cmocka_unit_test(commas_stand_between_items_only),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
