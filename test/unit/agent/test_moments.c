/*
 * Children that a program forks while the agent's control thread is at work.
 *
 * The test is the tool (toolside.h).  It stops the control thread in front of and behind each system call, and has the
 * process fork there, twice: one child's own control thread must be able to put away whatever is half done, for a tool
 * that attaches to the child; the other child runs on, and calls traced functions.
 *
 *     test_agent_moments AGENT
 */
#include <dirent.h>
#include <fcntl.h>
#include <link.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <calltap/abi/handlers.h>
#include <calltap/abi/maps.h>
#include <calltap/abi/times.h>

#include "arena.h"
#include "toolside.h"

#define ROWS	   16u /* functions in the table of handlers */
#define SET	   3u  /* of the further instance */
#define MOMENTS	   5u  /* fewer would mean that the control thread was not at work */
#define RECORDED   (CALLTAP_HANDLED_RECORD | CALLTAP_HANDLED_INSTANCES)
#define FULL	   (CALLTAP_SITE_FULL_ENTRY | CALLTAP_SITE_FULL_EXIT | CALLTAP_SITE_GATED)
#define TO_HANDLED CALLTAP_SITE_HANDLED

/* Site flags of outer, middle, inner and waits. */
static const uint16_t PLAIN[4], LIMITED[4] = {FULL, FULL, FULL, FULL},
				HANDLED[4] = {TO_HANDLED, TO_HANDLED, TO_HANDLED, TO_HANDLED};

static pid_t control_thread(const struct tool *tool)
{
	char path[300], name[32] = "";
	struct dirent *entry;
	pid_t found = 0;
	DIR *folder;

	snprintf(path, sizeof(path), "/proc/%d/task", tool->pid);
	folder = opendir(path);
	assert_non_null(folder);
	while (!found && (entry = readdir(folder))) {
		FILE *file;

		snprintf(path, sizeof(path), "/proc/%d/task/%s/comm", tool->pid, entry->d_name);
		file = fopen(path, "re");
		if (file && fgets(name, sizeof(name), file) && !strcmp(name, "calltap\n"))
			found = (pid_t)strtol(entry->d_name, NULL, 10);
		if (file)
			fclose(file);
	}
	closedir(folder);
	return found;
}

/* The code there is as the test has it, which has the same libraries at the same places. */
static void code_is_own(pid_t pid, uint64_t address)
{
	char path[64];
	uint8_t bytes[8];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/mem", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_int_equal(pread(fd, bytes, sizeof(bytes), (off_t)address), sizeof(bytes));
	close(fd);
	assert_memory_equal(bytes, (void *)address, sizeof(bytes));
}

/* The process forks now, and a tool comes to the child: it says HELLO when it has put all away that it knows of. */
static void attach_to_child_of_now(struct tool *tool)
{
	struct tool of_child = *tool;
	struct pollfd poll_ = {tool->listener, POLLIN, 0};

	shared->child = 0;
	tool_order_only(FORK_ATTACH);
	while (poll(&poll_, 1, 10) == 0)
		assert_int_not_equal(shared->order, __atomic_load_n(&shared->done, __ATOMIC_ACQUIRE)); /* it has died */
	of_child.socket = accept4(tool->listener, NULL, NULL, SOCK_CLOEXEC);
	assert_true(of_child.socket >= 0);
	tool_hear(&of_child, CALLTAP_MSG_HELLO);
	while (!__atomic_load_n(&shared->child, __ATOMIC_ACQUIRE))
		usleep(1000);
	for (uint32_t i = 0; i < FUNCTIONS; i++)
		code_is_own(shared->child, functions[i]);
	code_is_own(shared->child, _r_debug.r_brk);
	assert_int_equal(kill(shared->child, SIGKILL), 0);
	tool_await(tool);
	assert_int_equal(shared->result, SIGKILL);
	close(of_child.socket);
}

/* The process forks now, and nobody answers the child at its first traced call: it runs on, and all is right. */
static void let_child_of_now_run(struct tool *tool)
{
	struct pollfd poll_ = {tool->listener, POLLIN, 0};

	tool_order_only(FORK);
	while (shared->order != __atomic_load_n(&shared->done, __ATOMIC_ACQUIRE))
		if (poll(&poll_, 1, 1) == 1)
			close(accept4(tool->listener, NULL, NULL, SOCK_CLOEXEC));
	assert_int_equal(shared->result, 0);
}

/* Has the agent sent a message of that type?  It stays where it is; those before it are taken. */
static bool has_said(struct tool *tool, uint32_t type)
{
	const struct calltap_msg *head = (const struct calltap_msg *)tool->message;
	struct pollfd poll_ = {tool->socket, POLLIN, 0};

	while (poll(&poll_, 1, 0) == 1) {
		assert_true(recv(tool->socket, tool->message, sizeof(tool->message), MSG_PEEK) > 0);
		if (head->type == type)
			return true;
		assert_true(recv(tool->socket, tool->message, sizeof(tool->message), 0) > 0);
	}
	return false;
}

static pid_t hold_control_thread(const struct tool *tool)
{
	const pid_t tid = control_thread(tool);

	assert_true(tid > 0);
	assert_int_equal(ptrace(PTRACE_SEIZE, tid, NULL, (void *)PTRACE_O_TRACESYSGOOD), 0);
	assert_int_equal(ptrace(PTRACE_INTERRUPT, tid, NULL, NULL), 0);
	assert_int_equal(waitpid(tid, NULL, __WALL), tid);
	return tid;
}

static void fork_twice(struct tool *tool)
{
	attach_to_child_of_now(tool);
	let_child_of_now_run(tool);
}

/* Fork in front of and behind each call of the held thread; until: its message that ends this, 0 = its own end. */
static void fork_at_each_call(struct tool *tool, pid_t tid, uint32_t until)
{
	unsigned moments = 0;
	int status;

	for (; !until || !has_said(tool, until); moments++) {
		assert_int_equal(ptrace(PTRACE_SYSCALL, tid, NULL, NULL), 0);
		assert_int_equal(waitpid(tid, &status, __WALL), tid);
		if (WIFEXITED(status) && !until)
			break;
		assert_true(WIFSTOPPED(status));
		fork_twice(tool);
	}
	if (until)
		assert_int_equal(ptrace(PTRACE_DETACH, tid, NULL, NULL), 0);
	assert_true(moments >= MOMENTS);
}

/* Tell the agent, and fork at each call until it has answered with such a message. */
static void fork_until(struct tool *tool, const void *message, int fd, uint32_t answer)
{
	const pid_t tid = hold_control_thread(tool);

	tool_tell(tool, message, &fd, fd >= 0);
	fork_at_each_call(tool, tid, answer);
}

/* Tell the agent what it does not answer, and fork at each call until it has answered CLOCK, which comes behind. */
static void fork_meanwhile(struct tool *tool, const void *message, int fd)
{
	static const struct calltap_msg clock = {CALLTAP_MSG_CLOCK, sizeof(clock)};
	const pid_t tid = hold_control_thread(tool);

	tool_tell(tool, message, &fd, fd >= 0);
	tool_tell(tool, &clock, NULL, 0);
	fork_at_each_call(tool, tid, CALLTAP_MSG_CLOCK_TOLD);
	tool_hear(tool, CALLTAP_MSG_CLOCK_TOLD);
}

static void fork_while_switching(struct tool *tool, uint64_t plan, bool on)
{
	const pid_t tid = hold_control_thread(tool);

	tool_tell_switch(tool, plan, on);
	fork_at_each_call(tool, tid, CALLTAP_MSG_SWITCH_DONE);
	tool_hear_switch(tool);
	tool_run_on(tool);
}

static void fork_while_planning(struct tool *tool, uint64_t id, uint32_t live, const uint16_t flags[4])
{
	const pid_t tid = hold_control_thread(tool);

	tool_tell_plan(tool, id, live, flags);
	fork_at_each_call(tool, tid, CALLTAP_MSG_PLAN_DONE);
	assert_int_equal(((struct calltap_msg_plan_done *)tool_hear(tool, CALLTAP_MSG_PLAN_DONE))->error, 0);
}

static void begin_and_end_an_instance(struct tool *tool)
{
	struct calltap_msg_instance instance = {.head = {CALLTAP_MSG_INSTANCE, sizeof(instance)},
						.set = SET,
						.what = CALLTAP_INSTANCE_BEGIN,
						.arena_size = arena_size(RINGS, SUB, SUBS)};
	int fd = tool_memory(instance.arena_size, F_SEAL_SHRINK);
	void *arena = mmap(NULL, instance.arena_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	assert_ptr_not_equal(arena, MAP_FAILED);
	arena_fill(arena, CALLTAP_MODE_OVERWRITE, RINGS, SUB, SUBS);
	fork_until(tool, &instance, fd, CALLTAP_MSG_INSTANCE_DONE);
	assert_int_equal(((struct calltap_msg_instance_done *)tool_hear(tool, CALLTAP_MSG_INSTANCE_DONE))->error, 0);
	tool_run_on(tool);
	instance.what = CALLTAP_INSTANCE_END;
	fork_until(tool, &instance, -1, CALLTAP_MSG_INSTANCE_DONE);
	assert_int_equal(((struct calltap_msg_instance_done *)tool_hear(tool, CALLTAP_MSG_INSTANCE_DONE))->error, 0);
	munmap(arena, instance.arena_size);
	close(fd);
}

/* All four functions go to the dispatcher, which records them for the session and for instances. */
static void have_handlers(struct tool *tool)
{
	const struct calltap_msg_handlers handlers = {{CALLTAP_MSG_HANDLERS, sizeof(handlers)}, ROWS, 0};
	const size_t size = ROWS * (sizeof(struct calltap_handled) + sizeof(struct calltap_roles));
	int fd = tool_memory(size, F_SEAL_SHRINK);
	struct calltap_handled rows[ROWS];

	for (uint32_t i = 0; i < ROWS; i++)
		rows[i] = (struct calltap_handled){.who = RECORDED, .instances = 1u << (SET - 1)};
	assert_int_equal(pwrite(fd, rows, sizeof(rows), 0), sizeof(rows));
	fork_until(tool, &handlers, fd, CALLTAP_MSG_HANDLERS_DONE);
	assert_int_equal(((struct calltap_msg_handlers_done *)tool_hear(tool, CALLTAP_MSG_HANDLERS_DONE))->error, 0);
	close(fd);
}

static void take_files(struct tool *tool)
{
	const struct calltap_msg_tables tables = {{CALLTAP_MSG_TABLES, sizeof(tables)}, 4 * PAGE};
	const struct calltap_msg_times times = {{CALLTAP_MSG_TIMES, sizeof(times)}, sizeof(struct calltap_times)};
	const struct calltap_msg_counts counts = {.head = {CALLTAP_MSG_COUNTS, sizeof(counts)},
						  .size = sizeof(struct calltap_map)};
	int fd = tool_memory(tables.size, F_SEAL_SHRINK);

	fork_meanwhile(tool, &tables, fd);
	fork_meanwhile(tool, &tables, fd); /* in place of the first */
	close(fd);
	fd = tool_memory(times.size, F_SEAL_SHRINK);
	fork_meanwhile(tool, &times, fd);
	close(fd);
	fd = tool_memory(counts.size, F_SEAL_SHRINK);
	fork_meanwhile(tool, &counts, fd);
	close(fd);
}

/* From RELEASE on, until the control thread has ended. */
static void fork_while_let_go(struct tool *tool)
{
	const pid_t tid = hold_control_thread(tool);

	tool_tell_release(tool);
	fork_at_each_call(tool, tid, 0);
	assert_int_equal(((struct calltap_msg_released *)tool_hear(tool, CALLTAP_MSG_RELEASED))->error, 0);
}

static void where_a_session_begins_and_ends(void **state)
{
	static const struct calltap_msg go = {CALLTAP_MSG_GO, sizeof(go)};
	struct tool tool;
	pid_t tid;

	tool_start(&tool);
	tool_attach(&tool, 0);
	tid = hold_control_thread(&tool);
	tool_set_up(&tool, 0);
	fork_at_each_call(&tool, tid, CALLTAP_MSG_OBJECTS_END);
	tool_hear(&tool, CALLTAP_MSG_OBJECTS_END);
	tool_send_pointers(&tool);
	fork_while_planning(&tool, 1, CALLTAP_PLAN_STOPPED, PLAIN);
	tool_park(true);
	assert_int_equal(tool_apply(&tool, 0, 0).patched, 4);
	tool_park(false);
	tool_tell(&tool, &go, NULL, 0);
	tool_run_on(&tool);
	tid = hold_control_thread(&tool);
	tool_tell_detach(&tool, CALLTAP_DETACH_RELEASE);
	fork_at_each_call(&tool, tid, CALLTAP_MSG_DETACHED);
	tool_hear_detached(&tool);
	tool_park(true);
	fork_while_let_go(&tool);
	tool_park(false);
	tool_finish(&tool);
}

static void where_a_session_is_steered(void **state)
{
	struct tool tool;

	tool_begin_all(&tool, 0);
	take_files(&tool);
	fork_while_planning(&tool, 2, CALLTAP_PLAN_STUBS, LIMITED);
	fork_while_switching(&tool, 2, true);
	fork_while_switching(&tool, 2, false);
	have_handlers(&tool);
	fork_while_planning(&tool, 3, CALLTAP_PLAN_STUBS, HANDLED);
	fork_while_switching(&tool, 3, true);
	begin_and_end_an_instance(&tool);
	begin_and_end_an_instance(&tool);
	tool_park(true);
	tool_detach(&tool, CALLTAP_DETACH_RELEASE);
	fork_while_let_go(&tool);
	tool_park(false);
	tool_finish(&tool);
}

/* The tool is killed: nobody reads any more, and the agent is alone with what it has. */
static void where_the_tool_has_died(void **state)
{
	struct tool tool;
	pid_t tid;

	tool_begin_all(&tool, 0);
	have_handlers(&tool);
	tool_send_plan(&tool, 2, CALLTAP_PLAN_STUBS, HANDLED);
	tool_lead_to(&tool, 2, true);
	begin_and_end_an_instance(&tool);
	tid = hold_control_thread(&tool);
	close(tool.socket);
	tool.socket = -1;
	fork_at_each_call(&tool, tid, 0);
	tool_finish(&tool);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(where_a_session_begins_and_ends),
		cmocka_unit_test(where_a_session_is_steered),
		cmocka_unit_test(where_the_tool_has_died),
	};

	return tool_take_arguments(argc, argv) ? cmocka_run_group_tests(tests, NULL, NULL) : 1;
}
