/* A copy of a process' map stands by itself: what it was made from may go (host/attach/proc.c). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>
#include <unistd.h>

#include <host/attach/impl.h>

static bool is_inside(const char *path, const struct space *space)
{
	return path >= space->text && path < space->text + space->size;
}

static void a_copy_stands_alone(void **state)
{
	struct space space, copy;
	size_t nameless = 0;

	(void)state;
	assert_int_equal(space_read(&space, getpid()), 0);
	assert_int_equal(space_copy(&copy, &space), 0);
	assert_int_equal(copy.count, space.count);
	for (size_t i = 0; i < copy.count; i++) {
		assert_string_equal(copy.maps[i].path, space.maps[i].path);
		assert_false(is_inside(copy.maps[i].path, &space));
		assert_int_equal(is_inside(copy.maps[i].path, &copy), copy.maps[i].path[0] != 0);
		nameless += !copy.maps[i].path[0];
	}
	assert_true(nameless > 0);
	space_free(&space);
	space_free(&copy);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(a_copy_stands_alone)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
