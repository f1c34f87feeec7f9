/* What users ask for as values: what is understood, and what is refused where. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <host/values/spec.h>

static struct spec spec;

/* Parse, and check how long the function's name is. */
static void parse(const char *text, bool result, const char *function)
{
	struct calltap_diag diag = {0};
	size_t length = 0;

	assert_int_equal(spec_parse(&spec, &length, text, result, &diag), 0);
	assert_int_equal(length, strlen(function));
	assert_memory_equal(text, function, length);
}

static void expect_field(uint32_t i, const char *name, uint8_t argument, enum spec_type type, uint16_t size,
			 uint8_t offsets)
{
	const struct spec_field *field = &spec.fields[i];

	assert_true(i < spec.count);
	assert_string_equal(field->name, name);
	assert_int_equal(field->argument, argument);
	assert_int_equal(field->type, type);
	assert_int_equal(field->size, size);
	assert_int_equal(field->offset_count, offsets);
}

static void fields_are_understood(void **state)
{
	parse("open:path=arg1:string flags=$arg2:x32  arg3:u16\targ24", false, "open");
	assert_int_equal(spec.count, 4);
	expect_field(0, "path", 1, SPEC_STRING, SPEC_TEXT, 0);
	expect_field(1, "flags", 2, SPEC_HEX, 4, 0);
	expect_field(2, "arg3", 3, SPEC_UNSIGNED, 2, 0);
	expect_field(3, "arg24", 24, SPEC_HEX, 8, 0);
	parse("f arg1:s8", false, "f");
	expect_field(0, "arg1", 1, SPEC_SIGNED, 1, 0);
	parse("read:ret:s64", true, "read");
	expect_field(0, "ret", 0, SPEC_SIGNED, 8, 0);
	parse("read:got=$retval", true, "read");
	expect_field(0, "got", 0, SPEC_HEX, 8, 0);
}

/* Names of paths are their beginnings: two of them differ in any case. */
static void long_paths_have_names_of_their_own(void **state)
{
#define LONG "a->b_of_a_name_that_is_long->c_of_a_name_that_is_long->d_of_a_name_that_is_long"
	char name[SPEC_NAME];

	parse("f: " LONG "->x " LONG "->y", false, "f");
	assert_int_equal(spec.count, 2);
	assert_string_not_equal(spec.fields[0].name, spec.fields[1].name);
	spec_clear(&spec);
	assert_int_equal(spec_read_path(name, LONG " == 1"), strlen(LONG));
	assert_string_equal(name, "");
}

static void expect_vector(uint32_t i, const char *name, uint8_t vector, enum spec_type type, uint16_t size)
{
	expect_field(i, name, 0, type, size, 0);
	assert_int_equal(spec.fields[i].vector, vector);
}

static void floating_point_has_registers_of_its_own(void **state)
{
	parse("f %xmm0 x=%xmm7:f32 %xmm1:x64 arg7:f64 +8(arg1):f32", false, "f");
	expect_vector(0, "xmm0", 1, SPEC_FLOAT, 8);
	expect_vector(1, "x", 8, SPEC_FLOAT, 4);
	expect_vector(2, "xmm1", 2, SPEC_HEX, 8);
	expect_field(3, "arg7", 7, SPEC_FLOAT, 8, 0);
	expect_field(4, "arg1", 1, SPEC_FLOAT, 4, 1);
	parse("f:ret:f32 %xmm0 %xmm1 ret", true, "f");
	expect_vector(0, "ret", 1, SPEC_FLOAT, 4);
	expect_vector(1, "ret_2", 1, SPEC_FLOAT, 8);
	expect_vector(2, "xmm1", 2, SPEC_FLOAT, 8);
	expect_vector(3, "ret_3", 0, SPEC_HEX, 8);
}

static void who_calls_is_known(void **state)
{
	static const struct {
		uint8_t caller, type;
		uint16_t size;
	} wanted[] = {{SPEC_TID, SPEC_SIGNED, 4},
		      {SPEC_PID, SPEC_SIGNED, 4},
		      {SPEC_COMM, SPEC_STRING, 16},
		      {SPEC_TIME, SPEC_UNSIGNED, 8}};
	static const char *const names[] = {"tid", "pid", "name", "time"};

	for (int result = 0; result < 2; result++) {
		parse("f:$tid $pid name=$comm:string $time", result, "f");
		assert_int_equal(spec.count, 4);
		for (uint32_t i = 0; i < spec.count; i++) {
			expect_field(i, names[i], 0, wanted[i].type, wanted[i].size, 0);
			assert_int_equal(spec.fields[i].caller, wanted[i].caller);
		}
		parse("f $tid:x64", result, "f");
		expect_field(0, "tid", 0, SPEC_HEX, 8, 0);
	}
}

static void offsets_are_from_the_inside(void **state)
{
	parse("f:x=+8(-0x10(arg2)):u32 +0(arg1):ustring[200]", false, "f");
	expect_field(0, "x", 2, SPEC_UNSIGNED, 4, 2);
	assert_int_equal(spec.fields[0].offsets[0], -16);
	assert_int_equal(spec.fields[0].offsets[1], 8);
	expect_field(1, "arg1", 1, SPEC_STRING, 200, 1);
}

static void names_have_colons(void **state)
{
	parse("leveldb::DBImpl::Get:arg3", false, "leveldb::DBImpl::Get");
	parse("libc.so.6:open*:path=arg1:string", false, "libc.so.6:open*");
	parse("A::arg(int) arg1", false, "A::arg(int)");
	parse("/^ab:c$/:arg1:u8", false, "/^ab:c$/");
}

static void names_have_blanks(void **state)
{
	parse("operator new(unsigned long):size=arg1:u64", false, "operator new(unsigned long)");
	expect_field(0, "size", 1, SPEC_UNSIGNED, 8, 0);
	parse("std::map<int, long>::at(int const&): arg1 arg2:s32", false, "std::map<int, long>::at(int const&)");
	assert_int_equal(spec.count, 2);
	parse("operator new(unsigned long):ret", true, "operator new(unsigned long)");
}

static void values_have_names_of_their_own(void **state)
{
	parse("f arg1 +0(arg1):u8 +8(arg1):u8 arg2 arg2_2=arg3 +0(arg2)", false, "f");
	expect_field(0, "arg1", 1, SPEC_HEX, 8, 0);
	expect_field(1, "arg1_2", 1, SPEC_UNSIGNED, 1, 1);
	expect_field(2, "arg1_3", 1, SPEC_UNSIGNED, 1, 1);
	expect_field(3, "arg2", 2, SPEC_HEX, 8, 0);
	expect_field(4, "arg2_2", 3, SPEC_HEX, 8, 0);
	expect_field(5, "arg2_3", 2, SPEC_HEX, 8, 1);
	parse("f:ret text=ret:string +0(ret):u8", true, "f");
	expect_field(0, "ret", 0, SPEC_HEX, 8, 0);
	expect_field(2, "ret_2", 0, SPEC_UNSIGNED, 1, 1);
}

static void what_makes_no_sense_is_refused(void **state)
{
	static const struct {
		const char *text;
		bool result;
		int column;
		const char *why;
	} cases[] = {
		{"open", false, 4, "says not what to show"},
		{"", false, 0, "says not what to show"},
		{":arg1", false, 5, "says not what to show"},
		{"read", true, 4, "read:ret:s64"},
		{"f:ret", false, 2, "--result"},
		{"f:arg1", true, 2, "--args"},
		{"f:arg0", false, 6, "arg1 to arg24"},
		{"f arg25", false, 5, "too large"},
		{"f arg1:u7", false, 7, "types are"},
		{"f arg1:string[0]", false, 15, "256 bytes"},
		{"f arg1:string[257]", false, 14, "too large"},
		{"f arg1:string[12", false, 16, "256 bytes"},
		{"f +8(arg1", false, 9, "')' is missing"},
		{"f +8arg1", false, 4, "'(' is missing"},
		{"f +(arg1)", false, 3, "a number"},
		{"f %xmm8", false, 6, "too large"},
		{"f %rax", false, 3, "%xmm0 to %xmm7"},
		{"f %xmm1x", false, 3, "%xmm0 to %xmm7"},
		{"f +0(%xmm1)", false, 10, "holds no address"},
		{"f %xmm1:text", false, 8, "types of %xmm0"},
		{"f arg1:f64", false, 7, "counted apart"},
		{"f arg7:f16", false, 7, "types are"},
		{"f $tids", false, 2, "a value is"},
		{"f tid", false, 2, "a value is"},
		{"f $comm:string[4]", false, 14, "a blank"},
		{"f $tid:text", false, 7, "types are"},
		{"f +8($tid)", false, 9, "no address"},
		{"f arg1 nonsense", false, 7, "a value is"},
		{"f arg1,arg2", false, 6, "a blank"},
		{"f +1(+1(+1(+1(+1(+1(+1(arg1)))))))", false, 23, "too many offsets"},
		{"f +0x40000001(arg1)", false, 3, "too large"},
		{"f arg1 arg1 arg1 arg1 arg1 arg1 arg1 arg1 arg1 arg1 arg1 arg1 arg1 arg1 arg1 arg1 arg1", false, 82,
		 "more than 16"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct calltap_diag diag = {0};
		size_t length;

		if (spec_parse(&spec, &length, cases[i].text, cases[i].result, &diag) != -EINVAL)
			fail_msg("'%s' is taken", cases[i].text);
		if (!strstr(diag.text, cases[i].why) || diag.column != cases[i].column)
			fail_msg("'%s': column %d, %s", cases[i].text, diag.column, diag.text);
	}
}

/* Names of arguments lead on; behind a colon that a function's name may have, too, it needs "->" or a name of its own.
 */
static void paths_are_read(void **state)
{
	static const struct {
		const char *text, *path, *name;
		size_t function;
		bool result, has_type;
		uint8_t type;
	} cases[] = {
		{"f: c", "c", "c", 1, false, false, 0},
		{"f:c->x", "c->x", "c->x", 1, false, false, 0},
		{"ns::f:this->x.y[3]->z:u16", "this->x.y[3]->z", "this->x.y[3]->z", 5, false, true, SPEC_UNSIGNED},
		{"f:n=c", "c", "n", 1, false, false, 0},
		{"f:n=c.d:string", "c.d", "n", 1, false, true, SPEC_STRING},
		{"f n=c[-1]", "c[-1]", "n", 1, false, false, 0},
		{"operator new(unsigned long): size", "size", "size", 27, false, false, 0},
		{"f:ret->x", "ret->x", "ret->x", 1, true, false, 0},
		{"f: arg1.x", "arg1.x", "arg1.x", 1, false, false, 0},
	};
	static const char *const none[] = {"f c",   "a:f.isra.0",  "f: c->",	  "f: c[x]",
					   "f: 1c", "f: c->x y->", "operator new"};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct calltap_diag diag = {0};
		size_t length;
		int ret = spec_parse(&spec, &length, cases[i].text, cases[i].result, &diag);
		const struct spec_field *field = &spec.fields[0];

		if (ret || spec.count != 1 || !field->path || length != cases[i].function)
			fail_msg("'%s': %s", cases[i].text, diag.text);
		if (strcmp(field->path, cases[i].path) || strcmp(field->name, cases[i].name))
			fail_msg("'%s' has '%s', called '%s'", cases[i].text, field->path, field->name);
		if (field->has_type != cases[i].has_type || (field->has_type && field->type != cases[i].type))
			fail_msg("'%s' has another type", cases[i].text);
		assert_true(spec_has_path(&spec));
		spec_clear(&spec);
	}
	for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++) {
		size_t length;

		if (!spec_parse(&spec, &length, none[i], false, NULL))
			fail_msg("'%s' is taken", none[i]);
	}
}

/* What stands alone is a function, unless it begins as a value does: that one is then wrong. */
static void a_function_may_stand_alone(void **state)
{
	static const char *const functions[] = {
		"f", "ns::f", "libx.so.1:f", "/regex/", "ns::operator==", "ns::operator->", "a:argue", "a:return_it"};
	static const char *const others[] = {"",	   "f:",	 "f arg1", "f:arg1",
					     "f:arg1:s32", "f:n=arg1",	 "f:ret",  "f:$retval:s32",
					     "f:c->x",	   "f:+8(arg1)", "f:%xmm0"};

	for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++)
		if (!spec_is_function(functions[i]))
			fail_msg("%s", functions[i]);
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		if (spec_is_function(others[i]))
			fail_msg("%s", others[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fields_are_understood),
		cmocka_unit_test(long_paths_have_names_of_their_own),
		cmocka_unit_test(floating_point_has_registers_of_its_own),
		cmocka_unit_test(offsets_are_from_the_inside),
		cmocka_unit_test(names_have_colons),
		cmocka_unit_test(names_have_blanks),
		cmocka_unit_test(values_have_names_of_their_own),
		cmocka_unit_test(who_calls_is_known),
		cmocka_unit_test(what_makes_no_sense_is_refused),
		cmocka_unit_test(paths_are_read),
		cmocka_unit_test(a_function_may_stand_alone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
