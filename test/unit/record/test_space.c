/*
 * Lines of /proc/PID/maps as a target may make them, and the files they name
 * (host/space.c).
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "host/space.h"
#include "support.h"

static const char text[] = "1000-3000 r-xp 00000000 08:1f 42                         /usr/bin/some thing\n"
			   "not a line at all\n"
			   "3000-4000 rw-p 00000000 00:00 0 \n"
			   "4000-5000 rw-p 00000000 00:00 0                          [heap]\n"
			   "5000-6000 r--p 00001000 103:02 18446744073709551615 /a/lib.so (deleted)\n"
			   "7fffffffe000-7ffffffff000 r-xp 00000000 00:00 0                          [vdso]\n"
			   "ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0";

static void parse(struct space *space, const char *content)
{
	char *copy = strdup(content);

	assert_non_null(copy);
	assert_int_equal(space_parse(space, copy, strlen(copy) + 1), 0);
}

static void lines_are_found(void **state)
{
	const struct map *map;
	struct space space;

	parse(&space, text);
	assert_int_equal(space.count, 6);
	map = space_find(&space, 0x2fff);
	assert_non_null(map);
	assert_string_equal(map->path, "/usr/bin/some thing");
	assert_int_equal(map->lo, 0x1000);
	assert_int_equal(map->hi, 0x3000);
	assert_int_equal(map->offset, 0);
	assert_int_equal(map->major, 8);
	assert_int_equal(map->minor, 0x1f);
	assert_int_equal(map->inode, 42);
	assert_int_equal(map->bits, MAP_READ | MAP_EXEC);
	map = space_find(&space, 0x5000);
	assert_non_null(map);
	assert_string_equal(map->path, "/a/lib.so");
	assert_int_equal(map->major, 0x103);
	assert_int_equal(map->offset, 0x1000);
	assert_int_equal(map->inode, ULONG_MAX);
	assert_int_equal(map->bits, MAP_READ | MAP_DELETED);
	assert_ptr_equal(space_find(&space, 0x1000), &space.maps[0]); /* an earlier one again */
	space_free(&space);
}

static void what_is_no_file_is_not_found(void **state)
{
	static const uint64_t addresses[] = {
		0, 0xfff, 0x3000, 0x4000, 0x6000, 0x7fffffffe010, 0xffffffffff600000, UINT64_MAX};
	struct space space;

	parse(&space, text);
	for (size_t i = 0; i < sizeof(addresses) / sizeof(addresses[0]); i++) {
		const struct map *map = space_find(&space, addresses[i]);

		assert_true(!map || space_open(getpid(), map) == -ENOENT);
	}
	assert_null(space_find(&space, 0xfff));
	assert_null(space_find(&space, 0x6000));
	assert_string_equal(space_find(&space, 0x3000)->path, "");
	assert_string_equal(space_find(&space, 0x4000)->path, "[heap]");
	space_free(&space);
}

static void what_is_no_line_is_left_out(void **state)
{
	static const char *const lines[] = {"1000",
					    "1000-",
					    "1000-2000",
					    "1000-2000 ",
					    "1000-2000 r-x",
					    "1000-2000 r-xp",
					    "1000-2000 r-xp 0",
					    "1000-2000 r-xp 0 8",
					    "1000-2000 r-xp 0 8:1",
					    "1000-2000 r-xp 0 8:1 ",
					    "1000-2000 r-xp 0 8:1 /a",
					    "\n\n"};
	struct space space;
	char *copy;

	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		copy = strdup(lines[i]);
		assert_non_null(copy);
		assert_int_equal(space_parse(&space, copy, strlen(copy) + 1), -ESRCH);
		assert_null(space.text);
		space_free(&space);
	}
	parse(&space, "1000-2000 r-xp 0 8:1 7");
	assert_int_equal(space.count, 1);
	assert_string_equal(space.maps[0].path, "");
	space_free(&space);
}

/* A path longer than any: its rest is no line of its own, and it names no file. */
static void long_lines_do_no_harm(void **state)
{
	size_t size = 20000;
	char *line = malloc(size);
	struct space space;

	memset(line, 'x', size);
	memcpy(line, "1000-2000 r-xp 0 08:01 7 /", 26);
	strcpy(line + size - 40, "\n2000-3000 r-xp 0 08:01 8 /b\n");
	parse(&space, line);
	assert_int_equal(space.count, 2);
	assert_true(space_open(getpid(), &space.maps[0]) < 0);
	assert_string_equal(space_find(&space, 0x2000)->path, "/b");
	space_free(&space);
	free(line);
}

/* An initial thread that has ended shows no memory. */
static void no_lines_are_no_space(void **state)
{
	struct space space;

	assert_int_equal(space_parse(&space, calloc(1, 1), 1), -ESRCH);
	assert_null(space.text);
	assert_int_equal(space.count, 0);
	assert_null(space_find(&space, 0x1000));
	assert_int_equal(space_read(&space, -1), -ENOENT);
	space_free(&space);
}

static bool is_inside(const char *path, const struct space *space)
{
	return path >= space->text && path < space->text + space->size;
}

/* The original of a copy may go. */
static void a_copy_stands_alone(void **state)
{
	struct space space, copy;
	size_t nameless = 0;

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

static struct map map_of(const char *path)
{
	struct stat st;

	assert_int_equal(stat(path, &st), 0);
	return (struct map){.inode = st.st_ino, .major = major(st.st_dev), .minor = minor(st.st_dev), .path = path};
}

static void only_the_very_file_is_opened(void **state)
{
	char folder[] = "/tmp/calltap-test-XXXXXX", path[64], pipe_path[64];
	struct map map;
	int fd;

	assert_non_null(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/file", folder);
	snprintf(pipe_path, sizeof(pipe_path), "%s/pipe", folder);
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(mkfifo(pipe_path, 0600), 0);

	map = map_of(path);
	fd = space_open(getpid(), &map);
	assert_true(fd >= 0);
	close(fd);
	map.inode++;
	assert_int_equal(space_open(getpid(), &map), -ESTALE);
	map = map_of(pipe_path);
	alarm(10); /* opening a pipe must not wait for who writes it */
	assert_int_equal(space_open(getpid(), &map), -EINVAL);
	alarm(0);
	map = map_of(folder);
	assert_int_equal(space_open(getpid(), &map), -EINVAL);
	unlink(path);
	unlink(pipe_path);
	rmdir(folder);
	assert_int_equal(space_open(getpid(), &map), -ENOENT);
}

static void has_byte(int fd, char wanted)
{
	char byte = 0;

	assert_true(fd >= 0);
	assert_int_equal(pread(fd, &byte, 1, 0), 1);
	assert_int_equal(byte, wanted);
	close(fd);
}

static void write_file(const char *path, char byte)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, &byte, 1), 1);
	close(fd);
}

/* The file that is mapped there, as it has no other name. */
static void look(void *memory, const char *path, bool may, char wanted)
{
	struct space space;
	const struct map *map;
	int fd;

	assert_int_equal(space_read(&space, getpid()), 0);
	map = space_find(&space, (uintptr_t)memory);
	assert_non_null(map);
	assert_string_equal(map->path, path);
	fd = space_open(getpid(), map);
	if (may)
		has_byte(fd, wanted);
	else
		assert_true(fd == -ESTALE || fd == -ENOENT);
	space_free(&space);
}

static bool may_use_map_files(const void *memory)
{
	char path[80];
	int fd;

	snprintf(path, sizeof(path), "/proc/self/map_files/%lx-%lx", (unsigned long)(uintptr_t)memory,
		 (unsigned long)(uintptr_t)memory + 4096);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

static void a_file_without_a_name_is_opened(void **state)
{
	char folder[] = "/tmp/calltap-test-XXXXXX", path[64], odd[80], other[64];
	void *memory;
	bool may;
	int fd;

	assert_non_null(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/file", folder);
	snprintf(odd, sizeof(odd), "%s (deleted)", path);
	snprintf(other, sizeof(other), "%s/other", folder);
	write_file(odd, 'o');
	write_file(path, 'a');
	write_file(other, 'b');
	fd = open(path, O_RDONLY | O_CLOEXEC);
	memory = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0);
	close(fd);
	assert_true(memory != MAP_FAILED);
	may = may_use_map_files(memory);
	look(memory, path, true, 'a');
	assert_int_equal(rename(other, path), 0);
	look(memory, path, may, 'a');
	unlink(path);
	look(memory, path, may, 'a');
	munmap(memory, 4096);

	/* A file whose own name ends in the kernel's word. */
	fd = open(odd, O_RDONLY | O_CLOEXEC);
	memory = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0);
	close(fd);
	assert_true(memory != MAP_FAILED);
	look(memory, path, true, 'o');
	munmap(memory, 4096);
	unlink(odd);
	rmdir(folder);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lines_are_found),
		cmocka_unit_test(what_is_no_file_is_not_found),
		cmocka_unit_test(what_is_no_line_is_left_out),
		cmocka_unit_test(long_lines_do_no_harm),
		cmocka_unit_test(no_lines_are_no_space),
		cmocka_unit_test(a_copy_stands_alone),
		cmocka_unit_test(only_the_very_file_is_opened),
		cmocka_unit_test(a_file_without_a_name_is_opened),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
