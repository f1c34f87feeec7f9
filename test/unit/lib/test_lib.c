/*
 * libcalltap.so against a made-up session in this very process: its requests, the contents of its slots, and its
 * behaviour when the tool says no, says nothing, or has ended; in handlers, in forked children, and with the program's
 * own descriptors and children.  The test plays the agent: it calls the functions that the slots hold.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <calltap/abi/handlers.h>
#include <calltap/calltap.h>
#include <host/remote/remote.h>

#define THREADS 6
#define TURNS	20

static struct fake {
	struct remote *remote;
	pthread_mutex_t lock;
	char words[4096]; /* words of the last request */
	struct calltap_handlers *table;
	unsigned slot;			/* slot that was added last */
	int adds, removes, code, again; /* counts of requests; the answer, and how often -EAGAIN comes first */
	uint64_t entry_at_removal;
} fake = {.lock = PTHREAD_MUTEX_INITIALIZER};

static char folder[] = "/tmp/calltap-lib-XXXXXX";

static int fake_handlers(void *context, pid_t asker, const struct setting_change *words, size_t count, FILE *answer,
			 struct calltap_diag *diag)
{
	size_t used = 0;
	int code;

	(void)context;
	pthread_mutex_lock(&fake.lock);
	assert_int_equal(asker, getpid());
	for (size_t i = 0; i < count; i++) {
		if (!strcmp(words[i].key, "table"))
			fake.table = (void *)strtoull(words[i].value, NULL, 0);
		if (!strcmp(words[i].key, "add")) {
			fake.adds++;
			fake.slot = (unsigned)strtoul(words[i].value, NULL, 0);
		}
		fake.removes += !strcmp(words[i].key, "remove");
		if (!strcmp(words[i].key, "remove"))
			fake.entry_at_removal = fake.table->slots[strtoul(words[i].value, NULL, 0)].entry;
		used += (size_t)snprintf(fake.words + used, sizeof(fake.words) - used, "%s=%s;", words[i].key,
					 words[i].value);
	}
	code = fake.code;
	if (fake.again) {
		fake.again--;
		code = -EAGAIN;
	}
	pthread_mutex_unlock(&fake.lock);
	if (code)
		return calltap_diag_set(diag, code, "the fake says %d", code);
	fprintf(answer, "functions=7\n");
	return 0;
}

static const struct remote_ops fake_ops = {.handlers = fake_handlers};

static void begin_fake(void)
{
	assert_int_equal(remote_open(&fake.remote, getpid(), &fake_ops, NULL, NULL), 0);
	assert_int_equal(remote_start(fake.remote), 0);
	fake.code = fake.again = fake.adds = fake.removes = 0;
}

static void end_fake(void)
{
	remote_close(fake.remote, 0, NULL);
	fake.remote = NULL;
}

static struct calltap_session *open_session(void)
{
	struct calltap_session *session;
	struct calltap_diag diag = {0};
	int ret = calltap_session_open(&session, NULL, &diag);

	if (ret)
		fail_msg("%d %s", ret, diag.text);
	return session;
}

static int seen;

static int entry(struct calltap_call *call, void *context)
{
	seen += *(int *)context;
	errno = ENOTTY;
	return call->flags ? 1 : 0;
}

static void leave(struct calltap_call *call, void *context)
{
	seen -= *(int *)context;
	errno = ENOTTY;
}

static int ten = 10;
static const char *const some[] = {"some*", "libx.so:other", NULL};

static struct calltap_ops_options plain_options(void)
{
	return (struct calltap_ops_options){.size = sizeof(struct calltap_ops_options),
					    .entry = entry,
					    .exit = leave,
					    .context = &ten,
					    .filter = some};
}

static struct calltap_ops *add(struct calltap_session *session, uint32_t flags)
{
	struct calltap_ops_options options = plain_options();
	struct calltap_diag diag = {0};
	struct calltap_ops *ops;
	int ret;

	options.flags = flags;
	ret = calltap_ops_register(&ops, session, &options, &diag);
	if (ret)
		fail_msg("%d %s", ret, diag.text);
	return ops;
}

typedef int entry_of(struct calltap_call *call, void *context);
typedef void exit_of(struct calltap_call *call, void *context);

/* Call an entry handler as the dispatcher does. */
static int call_entry(unsigned slot, struct calltap_call *call)
{
	const struct calltap_handler *handler = &fake.table->slots[slot];

	return ((entry_of *)handler->entry)(call, (void *)handler->context);
}

static void call_exit(unsigned slot, struct calltap_call *call)
{
	const struct calltap_handler *handler = &fake.table->slots[slot];

	((exit_of *)handler->exit)(call, (void *)handler->context);
}

static void test_register(void **state)
{
	struct calltap_ops_status status = {.size = sizeof(status)};
	const char *const less[] = {"less", NULL};
	const void *const addresses[] = {(void *)0x1000, (void *)0x2000};
	struct calltap_session *session;
	struct calltap_call call = {0};
	struct calltap_ops *ops;
	unsigned first;

	begin_fake();
	session = open_session();
	ops = add(session, 0);
	assert_non_null(strstr(fake.words, ";exit=0x1;data=0x0;general=0x0;pending=0x0;filter=some*;"
					   "filter=libx.so:other;"));
	assert_int_equal(fake.table->magic, CALLTAP_HANDLERS_MAGIC);
	assert_int_equal(fake.table->slots[fake.slot].born, fake.table->generation);
	errno = EDOM;
	call.flags = 1;
	assert_int_equal(call_entry(fake.slot, &call), 1);
	assert_int_equal(seen, 10);
	call_exit(fake.slot, &call);
	assert_int_equal(seen, 0);
	assert_int_equal(errno, EDOM);
	assert_int_equal(calltap_ops_set_filter(ops, NULL, less, addresses, 2, NULL), 0);
	assert_non_null(strstr(fake.words, ";notrace=less;address=0x1000,0x2000;"));
	fake.table->slots[fake.slot].missed = 5;
	fake.table->slots[fake.slot].fault_pc = 6;
	fake.table->slots[fake.slot].fault = SIGSEGV;
	assert_int_equal(calltap_ops_status(ops, &status), 0);
	assert_int_equal(status.functions, 7);
	assert_int_equal(status.missed, 5);
	assert_int_equal(status.fault, SIGSEGV);
	assert_int_equal(status.fault_pc, 6);
	assert_int_equal(calltap_ops_unregister(ops), 0);
	assert_non_null(strstr(fake.words, ";remove=0x"));
	assert_int_equal(fake.entry_at_removal, 0);
	/* Forked children have that slot as it was: rather one that never was in use. */
	first = fake.slot;
	ops = add(session, 0);
	assert_int_not_equal(fake.slot, first);
	assert_int_equal(calltap_ops_unregister(ops), 0);
	assert_int_equal(calltap_ops_unregister(NULL), 0);
	calltap_session_close(session);
	calltap_session_close(NULL);
	end_fake();
}

/* Handlers of general registers have nothing around them. */
static void test_general(void **state)
{
	struct calltap_session *session;

	begin_fake();
	session = open_session();
	add(session, CALLTAP_HANDLER_GENERAL_REGS | CALLTAP_HANDLER_DATA | CALLTAP_HANDLER_PENDING);
	assert_non_null(strstr(fake.words, "data=0x1;general=0x1;pending=0x1"));
	assert_ptr_equal((void *)fake.table->slots[fake.slot].entry, entry);
	assert_ptr_equal((void *)fake.table->slots[fake.slot].exit, leave);
	assert_ptr_equal((void *)fake.table->slots[fake.slot].context, &ten);
	assert_int_equal(fake.table->slots[fake.slot].flags, CALLTAP_HANDLER_GENERAL_REGS | CALLTAP_HANDLER_DATA);
	calltap_session_close(session); /* unregisters */
	assert_int_equal(fake.removes, 1);
	assert_int_equal(fake.table->slots[fake.slot].entry, 0);
	end_fake();
}

static void test_slots(void **state)
{
	struct calltap_ops_options options = plain_options();
	struct calltap_ops *ops[CALLTAP_HANDLERS_MAX], *more;
	unsigned slots[CALLTAP_HANDLERS_MAX];
	struct calltap_session *session, *second;
	struct calltap_diag diag;

	begin_fake();
	session = open_session();
	second = open_session();
	for (unsigned i = 0; i < CALLTAP_HANDLERS_MAX; i++) {
		ops[i] = add(i % 2 ? session : second, 0);
		slots[i] = fake.slot;
	}
	assert_int_equal(calltap_ops_register(&more, session, &options, &diag), -ENOSPC);
	assert_null(more);
	assert_int_equal(calltap_ops_unregister(ops[5]), 0);
	ops[5] = add(second, 0);
	assert_int_equal(fake.slot, slots[5]);
	calltap_session_close(session);
	assert_int_equal(fake.table->slots[slots[1]].entry, 0);
	assert_int_not_equal(fake.table->slots[slots[5]].entry, 0);
	calltap_session_close(second);
	end_fake();
}

static int refused(struct calltap_session *session, const struct calltap_ops_options *options)
{
	struct calltap_diag diag = {0};
	struct calltap_ops *ops;
	int ret = calltap_ops_register(&ops, session, options, &diag);

	assert_null(ops);
	assert_true(diag.text[0] && !strchr(diag.text, '\n'));
	assert_int_equal(diag.code, ret);
	assert_int_equal(fake.table ? fake.table->slots[fake.slot].entry : 0, 0);
	return ret;
}

static void test_refusals(void **state)
{
	const char *const empty[] = {"", NULL}, *const lines[] = {"a\nremove=0", NULL},
			  *const list[] = {"@/nowhere", NULL};
	struct calltap_ops_options options = plain_options();
	struct calltap_session *session;
	struct calltap_ops *ops;

	begin_fake();
	session = open_session();
	options.filter = empty;
	assert_int_equal(refused(session, &options), -EINVAL);
	options.filter = lines;
	assert_int_equal(refused(session, &options), -EINVAL);
	options.filter = list;
	assert_int_equal(refused(session, &options), -ENOENT);
	options = plain_options();
	options.address_count = 1;
	assert_int_equal(refused(session, &options), -EINVAL);
	options = plain_options();
	options.entry = NULL;
	options.exit = NULL;
	assert_int_equal(refused(session, &options), -EINVAL);
	options = plain_options();
	options.flags = 1u << 30;
	assert_int_equal(refused(session, &options), -EINVAL);
	options.size = 0;
	assert_int_equal(refused(session, &options), -EINVAL);
	assert_int_equal(fake.adds, 0);
	options = plain_options();
	assert_int_equal(refused(NULL, &options), -EINVAL);
	assert_int_equal(refused(session, NULL), -EINVAL);
	assert_int_equal(calltap_ops_set_filter(NULL, some, NULL, NULL, 0, NULL), -EINVAL);
	fake.code = -ENOENT;
	for (unsigned i = 0; i <= CALLTAP_HANDLERS_MAX; i++) /* each time the slot is free again */
		assert_int_equal(refused(session, &options), -ENOENT);
	assert_int_equal(calltap_ops_register(&ops, session, &options, NULL), -ENOENT);
	fake.code = 0;
	add(session, 0);
	calltap_session_close(session);
	end_fake();
}

/* A handler that does not return at once, and one that never does. */
static void test_waiting(void **state)
{
	const struct calltap_session_options options = {.size = sizeof(options), .timeout_ms = 300};
	struct calltap_session *session;
	struct calltap_ops *ops;

	begin_fake();
	assert_int_equal(calltap_session_open(&session, &options, NULL), 0);
	ops = add(session, 0);
	fake.again = 3;
	assert_int_equal(calltap_ops_unregister(ops), 0);
	assert_int_equal(fake.removes, 4);
	ops = add(session, 0);
	fake.again = INT32_MAX;
	assert_int_equal(calltap_ops_unregister(ops), -ETIMEDOUT);
	assert_int_equal(fake.table->slots[fake.slot].entry, 0);
	fake.again = 0;
	assert_int_equal(calltap_ops_unregister(ops), 0);
	calltap_session_close(session);
	end_fake();
}

/* Slots of tools that have ended are free again when the next one says so, which may end just then. */
static void test_slots_of_ended_tools(void **state)
{
	struct calltap_ops_options options = plain_options();
	struct calltap_session *session;
	struct calltap_ops *ops;

	for (unsigned i = 0; i < CALLTAP_HANDLERS_MAX; i++) {
		begin_fake();
		session = open_session();
		ops = add(session, 0);
		end_fake();
		assert_int_equal(calltap_ops_unregister(ops), -ENOTCONN);
		calltap_session_close(session);
	}
	begin_fake();
	session = open_session();
	fake.code = -ESRCH;
	assert_int_equal(refused(session, &options), -ENOTCONN);
	calltap_session_close(session);
	end_fake();
	begin_fake();
	session = open_session();
	add(session, 0);
	calltap_session_close(session);
	end_fake();
}

static struct calltap_session *the_session;
static struct calltap_ops *the_ops;
static sigjmp_buf back;
static bool jump;

static int calling(struct calltap_call *call, void *context)
{
	struct calltap_ops_status status = {.size = sizeof(status)};
	struct calltap_ops_options options = plain_options();
	struct calltap_session *session;
	struct calltap_ops *ops;

	assert_int_equal(calltap_session_open(&session, NULL, NULL), -EDEADLK);
	assert_int_equal(calltap_ops_register(&ops, the_session, &options, NULL), -EDEADLK);
	assert_int_equal(calltap_ops_set_filter(the_ops, some, NULL, NULL, 0, NULL), -EDEADLK);
	assert_int_equal(calltap_ops_unregister(the_ops), -EDEADLK);
	assert_int_equal(calltap_process_load(1, "/dev/null", NULL), -EDEADLK);
	assert_int_equal(calltap_ops_status(the_ops, &status), 0);
	calltap_session_close(the_session); /* no effect within a handler */
	if (jump)
		siglongjmp(back, 1);
	return 0;
}

/* Do as a program does after a jump out of a handler: calls that write over its frame, and one from further down. */
static __attribute__((noinline)) void cover(void)
{
	volatile char room[16384];

	for (size_t i = 0; i < sizeof(room); i++)
		room[i] = 1;
}

static __attribute__((noinline)) void deeper(void)
{
	volatile char room[8192];

	room[0] = 1;
	assert_int_equal(calltap_ops_set_filter(the_ops, some, NULL, NULL, 0, NULL), 0);
	assert_int_equal(room[0], 1);
}

static void test_in_handlers(void **state)
{
	struct calltap_ops_options options = plain_options();
	struct calltap_call call = {0};

	begin_fake();
	the_session = open_session();
	options.entry = calling;
	assert_int_equal(calltap_ops_register(&the_ops, the_session, &options, NULL), 0);
	assert_int_equal(call_entry(fake.slot, &call), 0);
	assert_int_equal(calltap_ops_set_filter(the_ops, some, NULL, NULL, 0, NULL), 0);
	jump = true;
	if (!sigsetjmp(back, 0))
		call_entry(fake.slot, &call);
	assert_int_equal(calltap_ops_set_filter(the_ops, some, NULL, NULL, 0, NULL), 0);
	if (!sigsetjmp(back, 0))
		call_entry(fake.slot, &call);
	fake.table->slots[fake.slot].fault = SIGSEGV; /* the fault that ended the handler */
	deeper();
	fake.table->slots[fake.slot].fault = 0;
	if (!sigsetjmp(back, 0))
		call_entry(fake.slot, &call);
	jump = false;
	cover();
	deeper();
	calltap_session_close(the_session);
	end_fake();
}

static void test_forked(void **state)
{
	const struct calltap_session_options nowhere = {.size = sizeof(nowhere), .tool = "/nowhere"};
	struct calltap_ops_status status = {.size = sizeof(status)};
	struct calltap_ops_options options = plain_options();
	struct calltap_session *session, *second;
	struct calltap_call call = {0};
	struct calltap_ops *ops, *more;
	int result;
	pid_t child;

	begin_fake();
	session = open_session();
	ops = add(session, 0);
	child = fork();
	if (!child) {
		int wrong = calltap_ops_register(&more, session, &options, NULL) != -ECHILD;

		wrong |= (calltap_ops_set_filter(ops, some, NULL, NULL, 0, NULL) != -ECHILD) << 1;
		wrong |= (calltap_ops_unregister(ops) != -ECHILD) << 2;
		wrong |= (calltap_ops_status(ops, &status) != -ECHILD) << 3;
		/* A session of the child's own would be allowed. */
		wrong |= (calltap_session_open(&second, &nowhere, NULL) != -ENOENT) << 6;
		seen = 0;
		call_entry(fake.slot, &call);
		wrong |= (seen != ten) << 4;
		calltap_session_close(session);
		seen = 0;
		call_entry(fake.slot, &call); /* the handlers still run */
		wrong |= (seen != ten) << 5;
		_exit(wrong);
	}
	assert_int_equal(waitpid(child, &result, 0), child);
	assert_int_equal(result, 0);
	assert_int_equal(calltap_ops_unregister(ops), 0);
	calltap_session_close(session);
	end_fake();
}

static void test_lost(void **state)
{
	struct calltap_ops_options options = plain_options();
	struct calltap_session *session, *again;
	struct calltap_ops *ops, *more;
	struct calltap_diag diag = {0};

	begin_fake();
	session = open_session();
	ops = add(session, 0);
	end_fake();
	assert_int_equal(calltap_ops_register(&more, session, &options, &diag), -ENOTCONN);
	assert_non_null(strstr(diag.text, "open one anew"));
	assert_int_equal(calltap_ops_unregister(ops), -ENOTCONN);
	assert_int_equal(fake.table->slots[fake.slot].entry, 0);
	begin_fake();
	again = open_session();
	ops = add(again, 0);
	assert_int_equal(calltap_ops_register(&more, session, &options, &diag), -ENOTCONN);
	calltap_session_close(session);
	assert_int_equal(calltap_ops_unregister(ops), 0);
	for (unsigned i = 0; i < CALLTAP_HANDLERS_MAX; i++) /* all slots can be used, in the end that one, too */
		add(again, 0);
	calltap_session_close(again);
	end_fake();
}

/* A program that closes all it does not know, and has files under their numbers then. */
static void test_descriptors(void **state)
{
	struct calltap_session *session;
	struct calltap_ops *ops;
	struct stat st;
	int mine;

	begin_fake();
	session = open_session();
	ops = add(session, 0);
	for (mine = 100; fstat(mine, &st) || !S_ISSOCK(st.st_mode); mine++)
		assert_true(mine < 200);
	assert_true(fcntl(mine, F_GETFD) & FD_CLOEXEC);
	close(mine);
	assert_int_equal(dup2(STDOUT_FILENO, mine), mine);
	assert_int_equal(calltap_ops_set_filter(ops, some, NULL, NULL, 0, NULL), 0);
	calltap_session_close(session);
	assert_int_equal(fstat(mine, &st), 0);
	close(mine);
	end_fake();
}

/* The tool has room for some clients; who is silent longest makes room for others. */
static void test_turned_away(void **state)
{
	struct calltap_session *session;
	struct calltap_ops *ops;
	int others[10];

	begin_fake();
	session = open_session();
	ops = add(session, 0);
	for (unsigned i = 0; i < 10; i++)
		assert_int_equal(remote_connect(&others[i], getpid(), NULL), 0);
	assert_int_equal(calltap_ops_set_filter(ops, some, NULL, NULL, 0, NULL), 0);
	assert_int_equal(calltap_ops_unregister(ops), 0);
	for (unsigned i = 0; i < 10; i++)
		close(others[i]);
	calltap_session_close(session);
	end_fake();
}

static void *turn(void *session)
{
	for (int i = 0; i < TURNS; i++) {
		struct calltap_ops *ops = add(session, 0);

		if (calltap_ops_set_filter(ops, some, NULL, NULL, 0, NULL) || calltap_ops_unregister(ops))
			return session;
	}
	return NULL;
}

static void test_threads(void **state)
{
	struct calltap_session *session;
	pthread_t threads[THREADS];
	void *wrong;

	begin_fake();
	session = open_session();
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, turn, session), 0);
	for (int i = 0; i < THREADS; i++) {
		pthread_join(threads[i], &wrong);
		assert_null(wrong);
	}
	for (unsigned i = 0; i < CALLTAP_HANDLERS_MAX; i++)
		assert_int_equal(fake.table->slots[i].entry | fake.table->slots[i].exit, 0);
	calltap_session_close(session);
	end_fake();
}

static volatile sig_atomic_t children;

static void count_child(int number)
{
	children++;
}

/* A tool that is a script: how it is started, and what its end is to the program. */
static int run_script(const char *text, struct calltap_diag *diag)
{
	struct calltap_session_options options = {.size = sizeof(options), .timeout_ms = 2000};
	struct calltap_session *session;
	char path[100];
	FILE *file;
	int ret;

	snprintf(path, sizeof(path), "%s/script", folder);
	file = fopen(path, "w");
	assert_non_null(file);
	fprintf(file, "#!/bin/sh\n%s\n", text);
	fclose(file);
	chmod(path, 0700);
	options.tool = path;
	children = 0;
	ret = calltap_session_open(&session, &options, diag);
	assert_null(session);
	unlink(path);
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
	assert_int_equal(waitpid(-1, NULL, WNOHANG | __WALL), -1);
	assert_int_equal(errno, ECHILD);
	assert_int_equal(children, 0);
	return ret;
}

static void test_starting(void **state)
{
	struct calltap_session_options options = {.size = sizeof(options), .tool = "/nowhere/calltap"};
	struct calltap_session *session;
	struct calltap_diag diag = {0};
	int left = dup(STDIN_FILENO), takes_in = 0;
	char expected[64];

	signal(SIGCHLD, count_child);
	prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
	setenv("LD_PRELOAD", "", 1);
	assert_int_equal(calltap_session_open(&session, &options, &diag), -ENOENT);
	assert_int_equal(run_script("echo \"-16 it is $1 $2 $3 $4\" >&3", &diag), -EBUSY);
	snprintf(expected, sizeof(expected), "it is serve %d --ready-fd 3", (int)getpid());
	assert_string_equal(diag.text, expected);
	assert_int_equal(run_script("exit 3", &diag), -EIO);
	assert_int_equal(run_script("echo some words >&3", &diag), -EIO);
	assert_string_equal(diag.text, "some words");
	assert_int_equal(run_script("read -r line <&3; exit", &diag), -ETIMEDOUT);
	/* The child's directory, descriptors (the shell has one for the script), and environment. */
	assert_int_equal(run_script("for f in /proc/$$/fd/[0-9]; do l=\"$l ${f##*/}\"; done\n"
				    "echo \"-1 $(pwd)$l ${LD_PRELOAD-none}\" >&3",
				    &diag),
			 -EPERM);
	assert_memory_equal(diag.text, "/ 0 1 2 3", 9);
	assert_non_null(strstr(diag.text, " none"));
	assert_int_equal(run_script("readlink /proc/$$/fd/0 /proc/$$/fd/1 | sort -u | sed 's/^/-1 /' >&3", &diag),
			 -EPERM);
	assert_string_equal(diag.text, "/dev/null");
	assert_int_equal(prctl(PR_GET_CHILD_SUBREAPER, &takes_in, 0, 0, 0), 0);
	assert_int_equal(takes_in, 1);
	prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0);
	close(left);
	signal(SIGCHLD, SIG_DFL);
	unsetenv("LD_PRELOAD");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_register),    cmocka_unit_test(test_general),
		cmocka_unit_test(test_slots),	    cmocka_unit_test(test_refusals),
		cmocka_unit_test(test_waiting),	    cmocka_unit_test(test_slots_of_ended_tools),
		cmocka_unit_test(test_in_handlers), cmocka_unit_test(test_forked),
		cmocka_unit_test(test_lost),	    cmocka_unit_test(test_descriptors),
		cmocka_unit_test(test_turned_away), cmocka_unit_test(test_threads),
		cmocka_unit_test(test_starting),
	};
	char inside[sizeof(folder) + 10];
	int failed;

	if (!mkdtemp(folder))
		return 1;
	setenv("XDG_RUNTIME_DIR", folder, 1);
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	snprintf(inside, sizeof(inside), "%s/calltap", folder);
	rmdir(inside);
	rmdir(folder);
	return failed;
}
