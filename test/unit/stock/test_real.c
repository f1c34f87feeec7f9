/*
 * The analysis of stock functions on this machine's own objects: how many functions can be traced, which must not be,
 * and a table of it all.
 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "host/elf/object.h"

#define LIBS	      "/lib/x86_64-linux-gnu/"
#define FUNCTIONS_MIN 1000 /* of an object whose share means something */

static struct object *open_object(const char *path)
{
	struct calltap_diag diag = {0};
	struct object *object = NULL;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return NULL;
	assert_int_equal(object_open(&object, fd, path, &diag), 0);
	close(fd);
	assert_int_equal(object_find_stock(object), 0);
	return object;
}

/* Print a row of the table; returns how many of 10,000 functions can be traced, those that must not be set aside. */
static size_t print_row(struct object *object)
{
	size_t counts[SITE_VERDICTS] = {0}, excluded;
	const struct object_site *sites;
	size_t count = object_sites(object, &sites);

	for (size_t i = 0; i < count; i++)
		counts[sites[i].verdict]++;
	excluded = counts[SITE_RETURNS_TWICE] + counts[SITE_LOOKS_AT_CALLER] + counts[SITE_OWN];
	assert_true(count > excluded);
	printf("%-44s %6zu %6.2f %%", object_path(object), count,
	       100.0 * (double)counts[SITE_OK] / (double)(count - excluded));
	for (int i = SITE_OK + 1; i < SITE_VERDICTS; i++)
		if (counts[i])
			printf(" %s %zu %s", i == SITE_OK + 1 ? "" : ";", counts[i],
			       site_verdict_text((enum site_verdict)i));
	printf("\n");
	return counts[SITE_OK] * 10000 / (count - excluded);
}

static void nearly_all_can_be_traced(void **state)
{
	static const char *const paths[] = {
		"/usr/bin/bash",
		"/usr/bin/git",
		LIBS "libc.so.6",
		LIBS "libm.so.6",
		LIBS "libcrypto.so.3",
		LIBS "libpython3.11.so.1.0",
		LIBS "libstdc++.so.6",
		LIBS "libsqlite3.so.0",
		LIBS "libgcc_s.so.1",
		"/lib64/ld-linux-x86-64.so.2",
		"/usr/bin/perl",
		"/usr/bin/gdb",
		"/usr/lib/gcc/x86_64-linux-gnu/12/cc1",
	};

	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
		struct object *object = open_object(paths[i]);
		const struct object_site *sites;
		size_t share;

		if (!object)
			continue;
		share = print_row(object);
		if (object_sites(object, &sites) >= FUNCTIONS_MIN)
			assert_true(share >= 9950);
		object_close(object);
	}
}

/* The site at a function's start; NULL = none. */
static const struct object_site *site_of(const struct object *object, const char *name)
{
	const struct object_symbol *symbols;
	const struct object_site *sites;
	size_t symbol_count = object_symbols(object, &symbols), count = object_sites(object, &sites);

	for (size_t i = 0; i < symbol_count; i++) {
		if (strcmp(symbols[i].symbol, name) != 0)
			continue;
		for (size_t j = 0; j < count; j++)
			if (sites[j].function == symbols[i].address)
				return &sites[j];
	}
	return NULL;
}

static void some_must_not_be(void **state)
{
	static const struct {
		const char *path, *name;
	} left[] = {
		{LIBS "libc.so.6", "setjmp"},
		{LIBS "libc.so.6", "_setjmp"},
		{LIBS "libc.so.6", "__sigsetjmp"},
		{LIBS "libc.so.6", "vfork"},
		{LIBS "libc.so.6", "__vfork"},
		{LIBS "libc.so.6", "getcontext"},
		{LIBS "libc.so.6", "swapcontext"},
		{LIBS "libc.so.6", "__start_context"},
		{LIBS "libc.so.6", "dlopen"},
		{LIBS "libc.so.6", "dlsym"},
		{LIBS "libc.so.6", "dlvsym"},
		{LIBS "libc.so.6", "dlmopen"},
		{LIBS "libc.so.6", "__restore_rt"},
		{LIBS "libgcc_s.so.1", "_Unwind_RaiseException"},
		{LIBS "libgcc_s.so.1", "_Unwind_Resume"},
		{LIBS "libgcc_s.so.1", "_Unwind_Backtrace"},
		{"/lib64/ld-linux-x86-64.so.2", "_dl_runtime_resolve_xsavec"},
		{"/lib64/ld-linux-x86-64.so.2", "_dl_runtime_resolve_fxsave"},
		{"/lib64/ld-linux-x86-64.so.2", "__tls_get_addr"},
	};

	for (size_t i = 0; i < sizeof(left) / sizeof(left[0]); i++) {
		struct object *object = open_object(left[i].path);
		const struct object_site *site = object ? site_of(object, left[i].name) : NULL;

		if (site && site->verdict == SITE_OK)
			fail_msg("%s of %s can be traced", left[i].name, left[i].path);
		object_close(object);
	}
}

static void usual_ones_can_be(void **state)
{
	static const char *const names[] = {"malloc", "printf", "qsort", "fopen", "getenv", "longjmp", "strtol"};
	struct object *object = open_object(LIBS "libc.so.6");

	for (size_t i = 0; object && i < sizeof(names) / sizeof(names[0]); i++) {
		const struct object_site *site = site_of(object, names[i]);

		if (site && site->verdict != SITE_OK)
			fail_msg("%s: %s", names[i], site_verdict_text((enum site_verdict)site->verdict));
	}
	object_close(object);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nearly_all_can_be_traced),
		cmocka_unit_test(some_must_not_be),
		cmocka_unit_test(usual_ones_can_be),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
