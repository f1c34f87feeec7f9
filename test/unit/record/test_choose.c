/*
 * Choosing processes to attach to, from a table of made-up ones; and that the
 * table of this machine has the test itself.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <unistd.h>

#include <host/session/choose.h>

#define USER  1000
#define OTHER 1001
#define TOOL  60

/* Shell 20 runs a server, 30, with workers, and by way of 50 the tool, which has a child, too. */
static const struct candidate table[] = {
	{1, 0, 0, "init", "systemd"},	      {20, 1, USER, "bash", "bash"},
	{30, 20, USER, "server", "server"},   {31, 30, USER, "worker/0", "server"},
	{32, 30, USER, "worker/1", "server"}, {40, 31, OTHER, "server", "server"},
	{50, 20, USER, "bash", "bash"},	      {TOOL, 50, USER, "calltap", "calltap"},
	{61, TOOL, USER, "server", "server"}, {70, 1, USER, "a-name-that-is-c", "a-name-that-is-cut-by-the-kernel"},
	{80, 32, USER, "helper", ""},
};

static void check(struct choice choice, const pid_t *wanted, size_t wanted_count)
{
	struct calltap_diag diag = {0};
	pid_t *pids = NULL;
	size_t count = 0;

	choice.self = TOOL;
	assert_int_equal(choose_pids(&pids, &count, &choice, table, sizeof(table) / sizeof(table[0]), &diag), 0);
	assert_int_equal(count, wanted_count);
	assert_memory_equal(pids, wanted, wanted_count * sizeof(*wanted));
	free(pids);
}

#define CHECK(choice, ...)                                                                                             \
	check(choice, (const pid_t[]){__VA_ARGS__}, sizeof((const pid_t[]){__VA_ARGS__}) / sizeof(pid_t))

static struct choice named(const char *const *globs, size_t count)
{
	return (struct choice){.globs = globs, .glob_count = count, .user = USER};
}

static void by_pid(void **state)
{
	static const pid_t given[] = {32, 7, 30, 32, 7};
	struct choice choice = {.pids = given, .pid_count = 5, .user = USER};

	(void)state;
	/* In the order that they were given, each once, whether there is such a process or not. */
	CHECK(choice, 32, 7, 30);
}

static void by_name(void **state)
{
	static const char *const server = "server", *const workers = "worker/[1-9]", *const cut = "*cut-by-the-kernel",
				 *const kernel = "a-name-that-is-c", *const both[] = {"worker/0", "serv*"};
	static const pid_t given[] = {80, 31};
	struct choice choice;

	(void)state;
	/* The kernel's name or the program's; not another user's; the tool's child is no ancestor. */
	CHECK(named(&server, 1), 30, 31, 32, 61);
	CHECK(named(&workers, 1), 32);
	CHECK(named(&cut, 1), 70);
	CHECK(named(&kernel, 1), 70);
	CHECK(named(both, 2), 31, 30, 32, 61);
	choice = named(&server, 1);
	choice.user = 0;
	CHECK(choice, 30, 31, 32, 40, 61);
	choice = named(&server, 1);
	choice.pids = given;
	choice.pid_count = 2;
	CHECK(choice, 80, 31, 30, 32, 61);
}

/* The tool and those that it was started by are never meant by a name; their PIDs are. */
static void never_itself(void **state)
{
	static const char *const all = "*", *const bash = "bash", *const tool = "calltap";
	static const pid_t own[] = {50, TOOL};
	struct calltap_diag diag = {0};
	struct choice choice = named(&bash, 1);
	pid_t *pids = NULL;
	size_t count;

	(void)state;
	CHECK(named(&all, 1), 30, 31, 32, 61, 70, 80);
	choice.self = TOOL;
	assert_int_equal(choose_pids(&pids, &count, &choice, table, sizeof(table) / sizeof(table[0]), &diag), -ENOENT);
	assert_string_equal(diag.text, "no process of yours is called 'bash'");
	assert_null(pids);
	choice = named(&tool, 1);
	choice.self = TOOL;
	choice.user = 0;
	assert_int_equal(choose_pids(&pids, &count, &choice, table, sizeof(table) / sizeof(table[0]), &diag), -ENOENT);
	assert_string_equal(diag.text, "no process is called 'calltap'");
	choice = (struct choice){.pids = own, .pid_count = 2, .user = USER};
	CHECK(choice, 50, TOOL);
}

static void with_children(void **state)
{
	static const pid_t server[] = {30}, shell[] = {20}, both[] = {32, 30};
	static const char *const name = "worker/0";
	struct choice choice = {.pids = server, .pid_count = 1, .children = true, .user = USER};

	(void)state;
	/* Whoever's they are, and theirs. */
	CHECK(choice, 30, 31, 32, 40, 80);
	choice.pids = both;
	choice.pid_count = 2;
	CHECK(choice, 32, 30, 80, 31, 40);
	/* But for the way to the tool, and what is behind it. */
	choice.pids = shell;
	choice.pid_count = 1;
	CHECK(choice, 20, 30, 31, 32, 40, 80);
	choice = named(&name, 1);
	choice.children = true;
	CHECK(choice, 31, 40);
}

static void of_this_machine(void **state)
{
	struct candidate *found = NULL;
	bool self = false;
	size_t count;
	char exe[4096] = "", name[32] = "";
	FILE *stat = fopen("/proc/self/stat", "re"); /* an emulator's `comm` is its own */

	(void)state;
	assert_non_null(stat);
	assert_int_equal(fscanf(stat, "%*d (%31[^)])", name), 1);
	fclose(stat);
	assert_true(readlink("/proc/self/exe", exe, sizeof(exe) - 1) > 0);
	assert_int_equal(choose_read(&found, &count), 0);
	for (size_t i = 0; i < count; i++) {
		assert_true(!i || found[i - 1].pid < found[i].pid);
		if (found[i].pid != getpid())
			continue;
		self = true;
		assert_int_equal(found[i].parent, getppid());
		assert_int_equal(found[i].user, geteuid());
		assert_string_equal(found[i].program, strrchr(exe, '/') + 1);
		assert_string_equal(found[i].name, name);
	}
	assert_true(self);
	free(found);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(by_pid),	 cmocka_unit_test(by_name),	    cmocka_unit_test(never_itself),
		cmocka_unit_test(with_children), cmocka_unit_test(of_this_machine),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
