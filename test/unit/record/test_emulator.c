/*
 * The choice of an emulator for a program of another CPU, and its command line: with made-up emulators and libraries
 * in a folder of the test's.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <host/session/emulator.h>

#include "support.h"

struct place {
	char folder[32];
	char path[64]; /* path of the last file made */
};

static int setup(void **state)
{
	struct place *place = calloc(1, sizeof(*place));

	strcpy(place->folder, "/tmp/calltap-test-XXXXXX");
	assert_non_null(mkdtemp(place->folder));
	setenv("PATH", place->folder, 1);
	unsetenv("QEMU_LD_PREFIX");
	*state = place;
	return 0;
}

static int teardown(void **state)
{
	struct place *place = *state;
	char command[64];

	snprintf(command, sizeof(command), "/bin/rm -r %s", place->folder);
	assert_int_equal(system(command), 0);
	free(place);
	return 0;
}

/* A file in the folder. */
static void make(struct place *place, const char *name, const char *content)
{
	FILE *file;

	snprintf(place->path, sizeof(place->path), "%s/%s", place->folder, name);
	file = fopen(place->path, "w");
	assert_non_null(file);
	fputs(content, file);
	fclose(file);
	assert_int_equal(chmod(place->path, 0755), 0);
}

static const struct machine *riscv64(void)
{
	return machine_find(243);
}

static void the_static_one_is_first(void **state)
{
	struct emulator emulator;
	struct calltap_diag diag;

	make(*state, "qemu-riscv64", "with qemu_plugin_vcpu_init_hook in it");
	assert_int_equal(emulator_find(&emulator, riscv64(), NULL, &diag), 0);
	assert_string_equal(strrchr(emulator.path, '/'), "/qemu-riscv64");
	assert_true(emulator.kills_forks);
	emulator_destroy(&emulator);
	make(*state, "qemu-riscv64-static", "without");
	assert_int_equal(emulator_find(&emulator, riscv64(), NULL, &diag), 0);
	assert_string_equal(strrchr(emulator.path, '/'), "/qemu-riscv64-static");
	assert_false(emulator.kills_forks);
	emulator_destroy(&emulator);
}

static void without_any_the_package_is_named(void **state)
{
	struct emulator emulator;
	struct calltap_diag diag;

	assert_int_equal(emulator_find(&emulator, riscv64(), NULL, &diag), -ENODEV);
	assert_non_null(strstr(diag.text, "qemu-riscv64"));
	assert_non_null(strstr(diag.text, "apt-get install qemu-user"));
	emulator_destroy(&emulator);
	assert_int_equal(emulator_find(&emulator, riscv64(), "  ", &diag), -ENODEV);
	emulator_destroy(&emulator);
	assert_int_equal(emulator_find(&emulator, riscv64(), "no-such-emulator -x", &diag), -ENODEV);
	assert_non_null(strstr(diag.text, "no-such-emulator"));
	emulator_destroy(&emulator);
}

static void the_command_line_is_whole(void **state)
{
	static char *const arguments[] = {"name", "-a", "b c", NULL};
	static const char *const variables[] = {"LD_PRELOAD=x.so", NULL};
	static const char *const expected[] = {"other", "-cpu", "max", "-L", "/libs", "-E", "LD_PRELOAD=x.so",
					       "-0",	"name", "./p", "-a", "b c",   NULL};
	struct emulator emulator;
	struct calltap_diag diag;
	char **line;
	size_t i;

	make(*state, "other", "");
	assert_int_equal(emulator_find(&emulator, riscv64(), "other -cpu max -L /libs", &diag), 0);
	assert_string_equal(emulator.sysroot, "/libs");
	line = emulator_command(&emulator, "./p", arguments, variables);
	assert_non_null(line);
	for (i = 0; expected[i] && line[i]; i++)
		assert_string_equal(line[i], expected[i]);
	assert_null(expected[i]);
	assert_null(line[i]);
	free(line);
	emulator_destroy(&emulator);
}

static void the_environment_says_where_libraries_are(void **state)
{
	struct place *place = *state;
	struct emulator emulator;
	struct calltap_diag diag;
	char *path;

	make(place, "qemu-riscv64", "");
	make(place, "ld.so", "");
	setenv("QEMU_LD_PREFIX", place->folder, 1);
	assert_int_equal(emulator_find(&emulator, riscv64(), NULL, &diag), 0);
	assert_string_equal(emulator.sysroot, place->folder);
	path = emulator_host_path(&emulator, "/ld.so");
	assert_string_equal(path, place->path);
	free(path);
	path = emulator_host_path(&emulator, "/not/there");
	assert_string_equal(path, "/not/there");
	free(path);
	/* The emulator reads the variable by itself. */
	path = emulator_text(&emulator);
	assert_null(strstr(path, " -L "));
	free(path);
	emulator_destroy(&emulator);
}

static void too_many_words_are_refused(void **state)
{
	struct emulator emulator;
	struct calltap_diag diag;
	char text[400] = "";

	for (int i = 0; i < 100; i++)
		strcat(text, "-x ");
	assert_int_equal(emulator_find(&emulator, riscv64(), text, &diag), -E2BIG);
	emulator_destroy(&emulator);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(the_static_one_is_first),	  TEST(without_any_the_package_is_named),
		TEST(the_command_line_is_whole),  TEST(the_environment_says_where_libraries_are),
		TEST(too_many_words_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
