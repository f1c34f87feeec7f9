/*
 * What is kept of an analysis: used again for the same image alone, and never when it is damaged or another's.
 */
#include <elf.h>
#include <dirent.h>
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

#include "host/elf/stock_cache.h"

enum { FUNCTIONS = 4096, SIZE = 64, STRIDE = 1999, STRIDE_EMULATED = 10007 };

static const uint8_t ID[20] = {0xab, 0xcd, 1};
#define NAME "abcd010000000000000000000000000000000000.functions"

static uint8_t code[FUNCTIONS * SIZE];
static struct stock_symbol symbols[FUNCTIONS];
static const struct stock_section section = {0x1000, sizeof(code), code, true, false};
static const struct stock_image image = {
	.machine = EM_X86_64,
	.lo = 0x1000,
	.hi = 0x1000 + sizeof(code),
	.sections = &section,
	.section_count = 1,
	.symbols = symbols,
	.symbol_count = FUNCTIONS,
};
static struct stock_list fresh; /* what the analysis says of the image, without any cache */
static char base[] = "/tmp/calltap-test-XXXXXX";
static char folder[PATH_MAX], path[PATH_MAX];

/* After each change of the image. */
static void analyse(void)
{
	free(fresh.functions);
	assert_int_equal(stock_find(&fresh, &image), 0);
	assert_int_equal(stock_find_needs(&fresh, &image), 0);
}

static void make_image(void)
{
	static const uint8_t body[] = {0x55, 0x48, 0x89, 0xe5, 0x31, 0xc0, 0x5d, 0xc3}; /* push, mov, xor, pop, ret */

	memset(code, 0xcc, sizeof(code));
	for (size_t i = 0; i < FUNCTIONS; i++) {
		memcpy(code + i * SIZE, body, sizeof(body));
		symbols[i] = (struct stock_symbol){.address = 0x1000 + i * SIZE, .size = sizeof(body)};
	}
	analyse();
}

static int begin(void **state)
{
	(void)state;
	make_image();
	if (!mkdtemp(base) || setenv("XDG_CACHE_HOME", base, 1))
		return -1;
	snprintf(folder, sizeof(folder), "%s/calltap", base);
	snprintf(path, sizeof(path), "%s/calltap/" NAME, base);
	return 0;
}

static int end(void **state)
{
	(void)state;
	free(fresh.functions);
	unlink(path);
	return rmdir(folder) || rmdir(base) ? -1 : 0;
}

/* Ask, and compare with what the analysis itself says. */
static void ask_as(const uint8_t *id, size_t size)
{
	struct stock_list kept;

	assert_int_equal(stock_cache_find(&kept, &image, id, size), 0);
	assert_int_equal(kept.count, fresh.count);
	for (size_t i = 0; i < kept.count; i++) {
		const struct stock_function *a = &kept.functions[i], *b = &fresh.functions[i];

		assert_true(a->address == b->address && a->head == b->head && a->size == b->size &&
			    a->length == b->length && a->jump == b->jump && a->host == b->host &&
			    a->verdict == b->verdict);
		assert_true(a->need.size == b->need.size && a->need.frame == b->need.frame &&
			    a->need.entry == b->need.entry && a->need.common == b->need.common);
		assert_int_equal(a->need.size != 0, a->verdict == STOCK_OK);
	}
	free(kept.functions);
}

static void ask(void)
{
	ask_as(ID, sizeof(ID));
}

/* Which file it is: one that is written anew is another one, or younger. */
static struct stat file(void)
{
	struct stat st;

	assert_int_equal(lstat(path, &st), 0);
	return st;
}

static bool is_same(const struct stat *a, const struct stat *b)
{
	return a->st_ino == b->st_ino && a->st_ctim.tv_sec == b->st_ctim.tv_sec &&
	       a->st_ctim.tv_nsec == b->st_ctim.tv_nsec;
}

static void test_used_again(void **state)
{
	struct stat first, again;

	(void)state;
	ask();
	first = file();
	assert_int_equal(first.st_mode & 0777, 0600);
	ask();
	again = file();
	assert_true(is_same(&first, &again));
}

static void expect_replaced(const struct stat *before)
{
	struct stat after;

	ask();
	after = file();
	assert_false(is_same(before, &after));
	ask();
}

static void test_other_image(void **state)
{
	struct stat before;

	(void)state;
	ask();
	before = file();
	code[5 * SIZE] = 0xc3;
	analyse();
	expect_replaced(&before);
	before = file();
	symbols[7].leave = true;
	analyse();
	expect_replaced(&before);
	before = file();
	symbols[8].led = true;
	analyse();
	expect_replaced(&before);
	make_image();
	ask();
}

static void test_damaged(void **state)
{
	/* An emulator takes a minute for every place, and the code that looks is the same for all CPUs. */
	const off_t stride = getenv("MESON_EXE_WRAPPER") ? STRIDE_EMULATED : STRIDE;

	(void)state;
	ask();
	for (off_t at = 0; at < file().st_size; at += at < 64 ? 1 : stride) {
		int fd = open(path, O_RDWR);
		struct stat before;
		uint8_t byte;

		assert_true(fd >= 0);
		assert_int_equal(pread(fd, &byte, 1, at), 1);
		byte ^= 0x40;
		assert_int_equal(pwrite(fd, &byte, 1, at), 1);
		close(fd);
		before = file();
		expect_replaced(&before);
	}
}

static void test_cut_off(void **state)
{
	(void)state;
	ask();
	for (off_t size = file().st_size - 1; size >= 0; size = size > 100 ? size / 3 : size - 20) {
		struct stat before;

		assert_int_equal(truncate(path, size), 0);
		before = file();
		expect_replaced(&before);
	}
}

static void test_others_may_write(void **state)
{
	struct stat before;

	(void)state;
	ask();
	assert_int_equal(chmod(path, 0620), 0);
	before = file();
	expect_replaced(&before);
	assert_int_equal(file().st_mode & 0777, 0600);
	unlink(path);
	assert_int_equal(chmod(folder, 0777), 0);
	ask();
	assert_int_not_equal(access(path, F_OK), 0);
	assert_int_equal(chmod(folder, 0700), 0);
	ask();
	assert_int_equal(access(path, F_OK), 0);
}

static void test_no_file(void **state)
{
	(void)state;
	unlink(path);
	assert_int_equal(symlink("/dev/zero", path), 0);
	ask();
	assert_true(S_ISREG(file().st_mode));
	unlink(path);
	assert_int_equal(mkfifo(path, 0600), 0);
	ask();
	assert_true(S_ISREG(file().st_mode));
	assert_int_equal(setenv("XDG_CACHE_HOME", "/proc/none", 1), 0);
	ask();
	assert_int_equal(setenv("XDG_CACHE_HOME", base, 1), 0);
}

/* The one file of the folder is there, and is called by another name than the build id's; it is removed. */
static void remove_other(void)
{
	DIR *dir = opendir(folder);
	struct dirent *entry;
	char name[512];
	int count = 0;

	assert_non_null(dir);
	assert_int_not_equal(access(path, F_OK), 0);
	while ((entry = readdir(dir))) {
		if (entry->d_name[0] == '.')
			continue;
		count++;
		snprintf(name, sizeof(name), "%s/%s", folder, entry->d_name);
		assert_int_equal(unlink(name), 0);
	}
	closedir(dir);
	assert_int_equal(count, 1);
}

/* An object without a build id is known by what is in it. */
static void test_without_id(void **state)
{
	(void)state;
	unlink(path);
	ask_as(NULL, 0);
	ask_as(NULL, 0);
	remove_other();
}

/* With little code nothing is kept. */
static void test_not_kept(void **state)
{
	struct stock_section small = section;
	struct stock_image little = image;
	struct stock_list list;

	(void)state;
	unlink(path);
	small.size = 16 * SIZE;
	little.sections = &small;
	assert_int_equal(stock_cache_find(&list, &little, ID, sizeof(ID)), 0);
	free(list.functions);
	assert_int_not_equal(access(path, F_OK), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_used_again),	 cmocka_unit_test(test_other_image),
		cmocka_unit_test(test_damaged),		 cmocka_unit_test(test_cut_off),
		cmocka_unit_test(test_others_may_write), cmocka_unit_test(test_no_file),
		cmocka_unit_test(test_without_id),	 cmocka_unit_test(test_not_kept),
	};

	return cmocka_run_group_tests(tests, begin, end);
}
