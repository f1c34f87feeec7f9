/* The types of this program's own functions, from its DWARF. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "host/elf/object.h"
#include "host/types/types.h"

enum level { LOW, HIGH = 200, LOWEST = -1 };
struct pair {
	double d;
	int i;
};
struct large {
	char bytes[24];
};
typedef unsigned short port;

bool types_test_all(signed char a, port b, const char *c, enum level d, struct pair e, const struct large *f,
		    struct large g, double h, bool i, int j);
bool types_test_all(signed char a, port b, const char *c, enum level d, struct pair e, const struct large *f,
		    struct large g, double h, bool i, int j)
{
	return a + b + *c + d + e.i + f->bytes[0] + g.bytes[1] + (int)h + i + j;
}

struct large types_test_hidden(int a);
struct large types_test_hidden(int a)
{
	return (struct large){.bytes = {(char)a}};
}

struct wrapped {
	long double x;
};
long double types_test_x87(int a);
long double types_test_x87(int a)
{
	return a;
}

struct wrapped types_test_wrapped(int a);
struct wrapped types_test_wrapped(int a)
{
	return (struct wrapped){a};
}

struct nested {
	const char *name;
	struct {
		short x;
		unsigned char y;
	} at;
	union {
		float inner;
		unsigned word;
	};
	unsigned : 5;
	int low : 3;
	char tag[6];
	int list[4];
	struct nested *next;
	enum level level;
};
struct unknown;
struct long_one {
	int a, b, c, d, e, f, g, h, i, j, k, l, m;
};
struct pair types_test_members(struct nested *a, const struct long_one *b, struct unknown *c);
struct pair types_test_members(struct nested *a, const struct long_one *b, struct unknown *c)
{
	return (struct pair){1.5, 2};
}

struct slice {
	const char *data_;
	unsigned size_;
};
struct range {
	const char *begin, *end;
};
struct no_slice {
	const char *name;
	int number;
};
struct buffer {
	char *data;
	unsigned long size;
};
struct holder {
	int number;
	struct slice key;
	char after;
};
struct slice types_test_texts(struct slice a, const struct range *b, struct no_slice c, struct buffer d,
			      struct holder *e);
struct slice types_test_texts(struct slice a, const struct range *b, struct no_slice c, struct buffer d,
			      struct holder *e)
{
	return a;
}

struct cell {
	float x;
	struct cell *next;
};
struct lists {
	struct pair at[2];
	int m[2][3];
	char names[3][4];
	struct {
		struct cell cells[2];
	} in[1];
};
int types_test_lists(struct lists *a);
int types_test_lists(struct lists *a)
{
	return a->m[1][2];
}

static struct object *object;
static struct types *types;
static struct type_function function;

static void read_function(const char *name)
{
	const struct object_symbol *symbols;
	size_t count = object_symbols(object, &symbols), i = 0;
	int64_t place;

	while (i < count && strcmp(symbols[i].symbol, name) != 0)
		i++;
	assert_true(i < count);
	place = types_find(types, symbols[i].address);
	assert_true(place >= 0 && place < types_count(types));
	type_function_clear(&function);
	assert_int_equal(types_read(&function, types, (uint32_t)place, name, symbols[i].address, symbols[i].address),
			 0);
}

static int begin(void **state)
{
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC), ret;

	ret = object_open(&object, fd, "/proc/self/exe", NULL);
	if (!ret)
		ret = types_open(&types, object, fd);
	close(fd); /* it is not needed any more */
	return ret;
}

static int end(void **state)
{
	type_function_clear(&function);
	types_close(types);
	object_close(object);
	return 0;
}

static void arguments_have_types_and_places(void **state)
{
	static const struct {
		const char *name, *type, *missing;
		uint8_t kind, size, in_register;
		uint32_t on_stack;
		uint8_t in_vector;
	} wanted[] = {
		{"a", "signed char", NULL, TYPE_SIGNED, 1, 1, 0},
		{"b", "port", NULL, TYPE_UNSIGNED, 2, 2, 0},
		{"c", "const char *", NULL, TYPE_TEXT, 8, 3, 0},
		{"d", "enum level", NULL, TYPE_ENUM, 4, 4, 0},
		{"e", "struct pair", NULL, TYPE_OTHER, 0, 0, 0, 1}, /* xmm0 and r8 */
		{"f", "const struct large *", NULL, TYPE_POINTER, 8, 6, 0},
		{"g", "struct large", NULL, TYPE_OTHER, 0, 0, 0},
		{"h", "double", NULL, TYPE_FLOAT, 8, 0, 0, 2},
		{"i", "_Bool", NULL, TYPE_BOOL, 1, 0, 24},
		{"j", "int", NULL, TYPE_SIGNED, 4, 0, 32},
	};

	read_function("types_test_all");
	assert_int_equal(function.count, sizeof(wanted) / sizeof(wanted[0]));
	for (uint32_t i = 0; i < function.count; i++) {
		const struct type_value *value = &function.arguments[i];

		assert_string_equal(value->name, wanted[i].name);
		assert_string_equal(value->look.type, wanted[i].type);
		assert_int_equal(value->look.kind, wanted[i].kind);
		if (wanted[i].missing) {
			assert_string_equal(value->missing, wanted[i].missing);
			continue;
		}
		assert_null(value->missing);
		assert_int_equal(value->look.size, wanted[i].size);
		assert_int_equal(value->in_register, wanted[i].in_register);
		assert_int_equal(value->in_vector, wanted[i].in_vector);
		assert_int_equal(value->on_stack, wanted[i].on_stack);
	}
	assert_string_equal(function.arguments[3].look.names, "LOW=0,HIGH=c8,LOWEST=ffffffff");
	assert_true(function.arguments[3].look.is_signed);
	assert_true(function.has_result);
	assert_null(function.result.missing);
	assert_int_equal(function.result.look.kind, TYPE_BOOL);
}

static void a_result_in_memory_moves_the_arguments(void **state)
{
	read_function("types_test_hidden");
	assert_int_equal(function.count, 1);
	assert_int_equal(function.arguments[0].in_register, 2);
	assert_null(function.result.missing);
	assert_true(function.result.at_address);
	assert_int_equal(function.result.members.list[0].look.kind, TYPE_CHARS);
}

static void expect_member(const struct type_members *members, uint32_t i, const char *name, uint8_t kind,
			  uint32_t offset, uint8_t bits)
{
	assert_true(i < members->count);
	assert_string_equal(members->list[i].name, name);
	assert_int_equal(members->list[i].look.kind, kind);
	if (kind != TYPE_OTHER)
		assert_int_equal(members->list[i].offset, offset);
	assert_int_equal(members->list[i].bits, bits);
}

static void structures_have_members(void **state)
{
	const struct type_members *members;

	read_function("types_test_members");
	members = &function.arguments[0].members;
	assert_true(function.arguments[0].at_address);
	assert_int_equal(members->count, 10);
	expect_member(members, 0, "name", TYPE_TEXT, 0, 0);
	expect_member(members, 1, "at.x", TYPE_SIGNED, 8, 0);
	expect_member(members, 2, "at.y", TYPE_UNSIGNED, 10, 0);
	expect_member(members, 3, "inner", TYPE_FLOAT, 12, 0); /* of a union without a name */
	expect_member(members, 4, "word", TYPE_UNSIGNED, 12, 0);
	expect_member(members, 5, "low", TYPE_SIGNED, 16, 3);
	assert_int_equal(members->list[5].bit, 5);
	expect_member(members, 6, "tag", TYPE_CHARS, 17, 0);
	expect_member(members, 7, "list", TYPE_ARRAY, 24, 0);
	assert_int_equal(members->list[7].look.size, 16);
	assert_int_equal(members->list[7].look.element->kind, TYPE_SIGNED);
	assert_int_equal(members->list[7].look.element->stride, 4);
	expect_member(members, 8, "next", TYPE_POINTER, 40, 0);
	assert_false(function.arguments[0].members.list[8].look.size != 8);
	expect_member(members, 9, "level", TYPE_ENUM, 48, 0);
	assert_int_equal(members->size, 52);
	assert_false(members->cut);
	/* Of what is larger the beginning; what is only declared has none. */
	assert_int_equal(function.arguments[1].members.count, TYPES_MEMBERS);
	assert_true(function.arguments[1].members.cut);
	assert_int_equal(function.arguments[2].members.count, 0);
	assert_null(function.arguments[2].missing);
	assert_int_equal(function.arguments[2].look.kind, TYPE_POINTER);
	assert_int_equal(function.result.members.count, 2);
	assert_int_equal(function.result.in_vector, 1);
	assert_int_equal(function.result.second_register, 1);
}

static void lists_have_elements(void **state)
{
	const struct type_members *members;
	const struct type_look *look;

	read_function("types_test_lists");
	members = &function.arguments[0].members;
	assert_int_equal(members->count, 3);
	expect_member(members, 0, "at", TYPE_ARRAY, 0, 0);
	look = members->list[0].look.element;
	assert_int_equal(look->kind, TYPE_STRUCT);
	assert_int_equal(look->stride, 16);
	assert_int_equal(look->members->count, 2);
	expect_member(look->members, 1, "i", TYPE_SIGNED, 8, 0);
	expect_member(members, 1, "m", TYPE_ARRAY, 32, 0);
	look = members->list[1].look.element;
	assert_int_equal(look->kind, TYPE_ARRAY);
	assert_int_equal(look->stride, 12);
	assert_int_equal(look->element->kind, TYPE_SIGNED);
	expect_member(members, 2, "names", TYPE_ARRAY, 56, 0);
	assert_int_equal(members->list[2].look.element->kind, TYPE_CHARS);
	/* 32 bytes from 72 on have no room. */
	assert_true(members->cut);
}

/* So there is no hidden address. */
static void a_long_double_is_no_result_in_memory(void **state)
{
	read_function("types_test_x87");
	assert_int_equal(function.arguments[0].in_register, 1);
	assert_string_equal(function.result.missing, "registers");
	assert_int_equal(function.result.look.kind, TYPE_LONG_DOUBLE);
	read_function("types_test_wrapped");
	assert_int_equal(function.arguments[0].in_register, 1);
}

static void addresses_within_are_no_functions(void **state)
{
	const struct object_symbol *symbols;
	size_t count = object_symbols(object, &symbols);

	assert_true(count > 0);
	assert_int_equal(types_find(types, symbols[0].address + 1), -1);
	assert_int_equal(types_find(types, UINT64_MAX), -1);
}

static void expect_view(const struct type_look *look, enum type_view_how how, uint8_t size_at, uint8_t size_bytes)
{
	assert_int_equal(look->kind, TYPE_VIEW);
	assert_int_equal(look->size, 16);
	assert_int_equal(look->view.how, how);
	assert_int_equal(look->view.size, 16);
	assert_int_equal(look->view.address_at, 0);
	assert_int_equal(look->view.size_at, size_at);
	assert_int_equal(look->view.size_bytes, size_bytes);
}

static void classes_that_stand_for_texts(void **state)
{
	const struct type_members *members;

	read_function("types_test_texts");
	expect_view(&function.arguments[0].look, TYPE_VIEW_SIZE, 8, 4);
	assert_false(function.arguments[0].at_address);
	assert_int_equal(function.arguments[0].in_register, 1);
	assert_int_equal(function.arguments[0].second_register, 2);
	expect_view(&function.arguments[1].look, TYPE_VIEW_END, 8, 8);
	assert_true(function.arguments[1].at_address);
	assert_int_equal(function.arguments[2].look.kind, TYPE_OTHER);
	assert_int_equal(function.arguments[2].members.count, 2);
	assert_int_equal(function.arguments[3].look.kind, TYPE_OTHER);
	members = &function.arguments[4].members;
	assert_int_equal(members->count, 3);
	assert_string_equal(members->list[1].name, "key");
	expect_view(&members->list[1].look, TYPE_VIEW_SIZE, 8, 4);
	assert_int_equal(members->list[1].offset, 8);
	expect_view(&function.result.look, TYPE_VIEW_SIZE, 8, 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(arguments_have_types_and_places),
		cmocka_unit_test(a_result_in_memory_moves_the_arguments),
		cmocka_unit_test(structures_have_members),
		cmocka_unit_test(lists_have_elements),
		cmocka_unit_test(a_long_double_is_no_result_in_memory),
		cmocka_unit_test(addresses_within_are_no_functions),
		cmocka_unit_test(classes_that_stand_for_texts),
	};

	return cmocka_run_group_tests(tests, begin, end);
}
