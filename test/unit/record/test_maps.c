/*
 * Lines of /proc/PID/maps as a target may make them, and the files they name.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "host/record/maps.h"
#include "support.h"

static const char text[] = "1000-3000 r-xp 00000000 08:1f 42                         /usr/bin/some thing\n"
			   "not a line at all\n"
			   "3000-4000 rw-p 00000000 00:00 0 \n"
			   "4000-5000 rw-p 00000000 00:00 0                          [heap]\n"
			   "5000-6000 r--p 00001000 103:02 18446744073709551615 /a/lib.so (deleted)\n"
			   "7fffffffe000-7ffffffff000 r-xp 00000000 00:00 0                          [vdso]\n"
			   "ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0";

static FILE *open_text(const char *content, size_t size)
{
	FILE *file = fmemopen((char *)content, size, "r");

	assert_non_null(file);
	return file;
}

static void lines_are_found(void **state)
{
	FILE *file = open_text(text, sizeof(text) - 1);
	struct mapping mapping;

	assert_int_equal(maps_find(file, 0x2fff, &mapping), 0);
	assert_string_equal(mapping.path, "/usr/bin/some thing");
	assert_int_equal(mapping.lo, 0x1000);
	assert_int_equal(mapping.hi, 0x3000);
	assert_int_equal(mapping.major, 8);
	assert_int_equal(mapping.minor, 0x1f);
	assert_int_equal(mapping.inode, 42);
	assert_int_equal(maps_find(file, 0x5000, &mapping), 0);
	assert_string_equal(mapping.path, "/a/lib.so (deleted)");
	assert_int_equal(mapping.major, 0x103);
	assert_int_equal(mapping.inode, ULONG_MAX);
	assert_int_equal(maps_find(file, 0x1000, &mapping), 0); /* an earlier one again */
	fclose(file);
}

static void what_is_no_file_is_not_found(void **state)
{
	static const uint64_t addresses[] = {
		0, 0xfff, 0x3000, 0x4000, 0x6000, 0x7fffffffe010, 0xffffffffff600000, UINT64_MAX};
	FILE *file = open_text(text, sizeof(text) - 1);
	struct mapping mapping;

	for (size_t i = 0; i < sizeof(addresses) / sizeof(addresses[0]); i++)
		assert_int_equal(maps_find(file, addresses[i], &mapping), -ENOENT);
	fclose(file);
}

/* A path longer than any is cut, and its rest is no line of its own. */
static void long_lines_do_no_harm(void **state)
{
	size_t size = 20000;
	char *line = malloc(size);
	struct mapping mapping;
	FILE *file;

	memset(line, 'x', size);
	memcpy(line, "1000-2000 r-xp 0 08:01 7 /", 26);
	strcpy(line + size - 40, "\n2000-3000 r-xp 0 08:01 8 /b\n");
	file = open_text(line, strlen(line));
	assert_int_equal(maps_find(file, 0x1000, &mapping), 0);
	assert_true(strlen(mapping.path) < sizeof(mapping.path));
	assert_int_equal(maps_find(file, 0x2000, &mapping), 0);
	assert_string_equal(mapping.path, "/b");
	fclose(file);
	free(line);
}

static struct mapping mapping_of(const char *path)
{
	struct mapping mapping = {0};
	struct stat st;

	assert_int_equal(stat(path, &st), 0);
	mapping.inode = st.st_ino;
	mapping.major = major(st.st_dev);
	mapping.minor = minor(st.st_dev);
	strcpy(mapping.path, path);
	return mapping;
}

static void only_the_very_file_is_opened(void **state)
{
	char folder[] = "/tmp/calltap-test-XXXXXX", path[64], pipe_path[64];
	struct mapping mapping;
	int fd;

	assert_non_null(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/file", folder);
	snprintf(pipe_path, sizeof(pipe_path), "%s/pipe", folder);
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(mkfifo(pipe_path, 0600), 0);

	mapping = mapping_of(path);
	fd = maps_open(getpid(), &mapping);
	assert_true(fd >= 0);
	close(fd);
	mapping.inode++;
	assert_int_equal(maps_open(getpid(), &mapping), -ESTALE);
	mapping = mapping_of(pipe_path);
	alarm(10); /* opening a pipe must not wait for who writes it */
	assert_int_equal(maps_open(getpid(), &mapping), -EINVAL);
	alarm(0);
	mapping = mapping_of(folder);
	assert_int_equal(maps_open(getpid(), &mapping), -EINVAL);
	unlink(path);
	unlink(pipe_path);
	rmdir(folder);
	assert_int_equal(maps_open(getpid(), &mapping), -ENOENT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lines_are_found),
		cmocka_unit_test(what_is_no_file_is_not_found),
		cmocka_unit_test(long_lines_do_no_harm),
		cmocka_unit_test(only_the_very_file_is_opened),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
