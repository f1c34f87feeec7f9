/*
 * Source lines of a debug file that are kept: used again for the same files alone, without the debug file being read,
 * and never when they are damaged.  The object is this program's own file, stripped.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/elf/object.h"

#define SETTLED_S 4 /* longer than files have to be left alone until what they hold is kept */
#define STRIDE	  61

static char folder[] = "/tmp/calltap-test-XXXXXX";
static char program[PATH_MAX], kept[PATH_MAX];
static uint64_t known_at; /* ELF address of lines_test_known() */

int lines_test_known(int n);
int __attribute__((noinline)) lines_test_known(int n)
{
	return n * 3 + 1;
}
enum { KNOWN_LINE = __LINE__ - 4 };

static bool run(const char *format, ...) __attribute__((format(printf, 1, 2)));
static bool run(const char *format, ...)
{
	char command[4 * PATH_MAX];
	va_list list;

	va_start(list, format);
	vsnprintf(command, sizeof(command), format, list);
	va_end(list);
	return !system(command);
}

/* Where the function is, by the symbols of the whole file; and what the file of lines will be called. */
static bool find_known(const char *full)
{
	const struct object_symbol *symbols;
	struct object *object;
	struct calltap_diag diag;
	int fd = open(full, O_RDONLY | O_CLOEXEC), length;
	uint8_t id[32];
	size_t count;

	if (object_open(&object, fd, full, &diag))
		return false;
	close(fd);
	count = object_symbols(object, &symbols);
	for (size_t i = 0; i < count; i++)
		if (!strcmp(symbols[i].symbol, "lines_test_known"))
			known_at = symbols[i].address;
	length = snprintf(kept, sizeof(kept), "%s/calltap/", folder);
	count = object_build_id(object, id);
	for (size_t i = 0; i < count; i++)
		length += snprintf(kept + length, sizeof(kept) - (size_t)length, "%02x", id[i]);
	snprintf(kept + length, sizeof(kept) - (size_t)length, ".lines");
	object_close(object);
	return known_at && count;
}

static int begin(void **state)
{
	char full[PATH_MAX];

	if (!mkdtemp(folder) || setenv("XDG_CACHE_HOME", folder, 1))
		return -1;
	snprintf(full, sizeof(full), "%s/full", folder);
	snprintf(program, sizeof(program), "%s/program", folder);
	if (!run("cd %s && cp /proc/%d/exe full && objcopy --only-keep-debug full program.debug && "
		 "objcopy --strip-all --add-gnu-debuglink=program.debug full program",
		 folder, (int)getpid()) ||
	    !find_known(full))
		return -1;
	return 0;
}

static int end(void **state)
{
	return run("rm -r %s", folder) ? 0 : -1;
}

/* Does this process have the debug file mapped or open? */
static bool reads_debug_file(void)
{
	return run("grep -q program.debug /proc/%d/maps || ls -l /proc/%d/fd | grep -q program.debug", (int)getpid(),
		   (int)getpid());
}

/* Ask for the function, and for a place where there is none; fresh: the debug file has to be read for it. */
static void ask(bool fresh)
{
	int fd = open(program, O_RDONLY | O_CLOEXEC);
	struct object_lines *lines;
	const char *file;
	uint32_t line;

	assert_int_equal(object_lines_open(&lines, program, fd), 0);
	close(fd);
	assert_true(object_lines_find(lines, known_at, known_at, &file, &line));
	assert_non_null(strstr(file, "test_lines_cache.c"));
	assert_in_range(line, KNOWN_LINE, KNOWN_LINE + 2);
	assert_false(object_lines_find(lines, 0x10, 0x10, &file, &line));
	assert_int_equal(reads_debug_file(), fresh);
	object_lines_close(lines);
}

/* Files that have just been written might be written once more with the same times. */
static void not_kept_at_once(void **state)
{
	ask(true);
	ask(true);
	assert_int_not_equal(access(kept, F_OK), 0);
	sleep(SETTLED_S);
}

static void used_again(void **state)
{
	struct stat first, again;

	ask(true);
	assert_int_equal(stat(kept, &first), 0);
	assert_int_equal(first.st_mode & 0777, 0600);
	ask(false);
	assert_int_equal(stat(kept, &again), 0);
	assert_true(first.st_ino == again.st_ino && first.st_ctim.tv_nsec == again.st_ctim.tv_nsec);
}

/* What is asked for later comes to what is there. */
static void grows(void **state)
{
	int fd = open(program, O_RDONLY | O_CLOEXEC);
	struct object_lines *lines;
	const char *file, *again;
	uint32_t line, same;
	struct stat before, after;

	assert_int_equal(stat(kept, &before), 0);
	assert_int_equal(object_lines_open(&lines, program, fd), 0);
	assert_true(object_lines_find(lines, known_at + 1, known_at + 1, &file, &line));
	object_lines_close(lines);
	assert_int_equal(stat(kept, &after), 0);
	assert_true(after.st_size > before.st_size);
	assert_int_equal(object_lines_open(&lines, program, fd), 0);
	close(fd);
	assert_true(object_lines_find(lines, known_at + 1, known_at + 1, &again, &same));
	assert_int_equal(line, same);
	assert_false(reads_debug_file());
	object_lines_close(lines);
	ask(false);
}

static void damaged(void **state)
{
	struct stat st;

	assert_int_equal(stat(kept, &st), 0);
	for (off_t at = 0; at < st.st_size; at += at < 72 ? 5 : STRIDE) {
		int fd = open(kept, O_RDWR | O_CLOEXEC);
		uint8_t byte;

		assert_int_equal(pread(fd, &byte, 1, at), 1);
		byte ^= 0x10;
		assert_int_equal(pwrite(fd, &byte, 1, at), 1);
		close(fd);
		ask(true);
		ask(false);
	}
	for (off_t size = st.st_size - 1; size >= 0; size = size > 100 ? size / 3 : size - 30) {
		assert_int_equal(truncate(kept, size), 0);
		ask(true);
		ask(false);
	}
}

static void other_files(void **state)
{
	struct object_lines *lines;
	const char *file;
	uint32_t line;
	int fd;

	/* The same bytes in another file. */
	assert_true(run("cd %s && cp program.debug new && mv new program.debug", folder));
	ask(true);
	sleep(SETTLED_S);
	ask(true);
	ask(false);
	assert_true(run("cd %s && cp program new && mv new program", folder));
	ask(true);
	/* Without a debug file there are no lines, whatever was kept. */
	assert_true(run("rm %s/program.debug", folder));
	fd = open(program, O_RDONLY | O_CLOEXEC);
	assert_int_equal(object_lines_open(&lines, program, fd), 0);
	close(fd);
	assert_false(object_lines_find(lines, known_at, known_at, &file, &line));
	object_lines_close(lines);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(not_kept_at_once), cmocka_unit_test(used_again),  cmocka_unit_test(grows),
		cmocka_unit_test(damaged),	    cmocka_unit_test(other_files),
	};

	return cmocka_run_group_tests(tests, begin, end);
}
