/*
 * The control socket with a made-up session: requests and answers; clients that say nothing, nonsense or too much,
 * read nothing, or are too many; sockets that are left over; folders that are not safe; other users.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <dirent.h>
#include <grp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <host/now.h>
#include <host/remote/impl.h>

#define PID	4711
#define NOBODY	65534
#define PATIENT 5000

/* The session's last request. */
struct fake {
	char words[512];
	char reason[64];
	uint64_t history_ns;
	bool wrote, detached;
	pid_t asker;
	size_t word_count;
	unsigned busy;	  /* how often handlers still run */
	unsigned busy_ms; /* how long a status takes, all of it on a CPU or waiting for one */
	sem_t *held;	  /* what a status waits for */
	struct begun {
		unsigned count, ended;
	} begun; /* instances */
};

static char folder[] = "/tmp/calltap-test-XXXXXX";

static int fake_status(void *context, struct remote_status *status, struct calltap_diag *diag)
{
	const struct fake *fake = context;
	const uint64_t until_ns = now_ns() + fake->busy_ms * 1000000ull;

	(void)diag;
	while (fake->busy_ms && now_ns() < until_ns)
		;
	if (fake->held)
		sem_wait(fake->held);
	snprintf(status->program, sizeof(status->program), "/bin/a\033[31m\nb=c");
	snprintf(status->tracer, sizeof(status->tracer), "function_graph");
	status->pid = PID;
	status->records = UINT64_MAX;
	return 0;
}

static int fake_settings(void *context, FILE *answer, struct calltap_diag *diag)
{
	(void)context;
	(void)diag;
	for (int i = 0; i < 20000; i++) /* more than a packet, and than a socket's buffer */
		fprintf(answer, "trace+=function_%d\n", i);
	return 0;
}

static int fake_set(void *context, const struct setting_change *changes, size_t count, struct calltap_diag *diag)
{
	struct fake *fake = context;

	if (!strcmp(changes[0].key, "bad")) {
		calltap_diag_set(diag, -EINVAL, "that is bad");
		snprintf(diag->input, sizeof(diag->input), "bad=%s", changes[0].value);
		diag->column = 4;
		return -EINVAL;
	}
	for (size_t i = 0; i < count; i++)
		snprintf(fake->words + strlen(fake->words), sizeof(fake->words) - strlen(fake->words), "%s%s=%s;",
			 changes[i].key, changes[i].append ? "+" : "", changes[i].value);
	return 0;
}

static int fake_snapshot(void *context, const struct remote_snapshot *wish, FILE *answer, struct calltap_diag *diag)
{
	struct fake *fake = context;

	(void)diag;
	fake->history_ns = wish->history_ns;
	snprintf(fake->reason, sizeof(fake->reason), "%s", wish->reason);
	fake->wrote = write(wish->fd, "trace", 5) == 5;
	fprintf(answer, "5 bytes\n");
	return 0;
}

static int fake_detach(void *context, struct calltap_diag *diag)
{
	struct fake *fake = context;

	(void)diag;
	__atomic_store_n(&fake->detached, true, __ATOMIC_RELEASE);
	return 0;
}

static int fake_handlers(void *context, pid_t asker, const struct setting_change *words, size_t count, FILE *answer,
			 struct calltap_diag *diag)
{
	struct fake *fake = context;

	fake->asker = asker;
	fake->word_count = count;
	fake->words[0] = 0;
	for (size_t i = 0; i < count; i++)
		snprintf(fake->words + strlen(fake->words), sizeof(fake->words) - strlen(fake->words), "%s=%s;",
			 words[i].key, words[i].value);
	if (fake->busy && fake->busy--)
		return calltap_diag_set(diag, -EAGAIN, "handlers still run");
	fprintf(answer, "functions=%zu\n", count);
	return 0;
}

/* The made-up session has one instance, `begun`, with the name "look". */
static void *fake_find(void *context, const char *name, struct calltap_diag *diag)
{
	struct fake *fake = context;

	if (fake->begun.count && !strcmp(name, "look"))
		return &fake->begun;
	calltap_diag_set(diag, -ENOENT, "there is no '%s'", name);
	return NULL;
}

static int fake_instance(void *context, const struct setting_change *words, size_t count, const int fds[REMOTE_FDS],
			 FILE *answer, void **instance, struct calltap_diag *diag)
{
	struct fake *fake = context;

	(void)diag;
	fake->wrote = write(fds[0], "trace", 5) == 5 && write(fds[1], "deeds", 5) == 5;
	fake->words[0] = 0;
	for (size_t i = 0; i < count; i++)
		snprintf(fake->words + strlen(fake->words), sizeof(fake->words) - strlen(fake->words), "%s=%s;",
			 words[i].key, words[i].value);
	fake->begun.count++;
	fprintf(answer, "look\n");
	*instance = &fake->begun;
	return 0;
}

static int fake_end(void *instance, FILE *answer, struct calltap_diag *diag)
{
	struct begun *begun = instance;

	(void)diag;
	fprintf(answer, "5 records\n");
	__atomic_add_fetch(&begun->ended, 1, __ATOMIC_RELEASE);
	return 0;
}

/* Thread 1 is caught, 2 is coming. */
static enum remote_catch fake_catch(void *context, pid_t tid)
{
	(void)context;
	return tid == 1 ? REMOTE_CATCH_CAUGHT : tid == 2 ? REMOTE_CATCH_COMING : REMOTE_CATCH_NOT;
}

static const struct remote_ops ops = {
	.status = fake_status,
	.settings = fake_settings,
	.set = fake_set,
	.snapshot = fake_snapshot,
	.detach = fake_detach,
	.handlers = fake_handlers,
	.catches = fake_catch,
	.find = fake_find,
	.instance = fake_instance,
	.end = fake_end,
};

static struct remote *open_remote(pid_t pid, struct fake *fake)
{
	struct calltap_diag diag = {0};
	struct remote *remote;

	memset(fake, 0, sizeof(*fake));
	if (remote_open(&remote, pid, &ops, fake, &diag))
		fail_msg("%s", diag.text);
	return remote;
}

static struct remote *start_remote(pid_t pid, struct fake *fake)
{
	struct remote *remote = open_remote(pid, fake);

	assert_int_equal(remote_start(remote), 0);
	return remote;
}

static int connect_client(pid_t pid)
{
	struct calltap_diag diag = {0};
	int socket;

	if (remote_connect(&socket, pid, &diag))
		fail_msg("%s", diag.text);
	return socket;
}

static int ask(int socket, const char *verb, const char *word, int fd, char **answer, struct calltap_diag *diag)
{
	const struct remote_request request = {.verb = verb,
					       .words = &word,
					       .count = word != NULL,
					       .fds = &fd,
					       .fd_count = fd >= 0,
					       .timeout_ms = PATIENT};

	return remote_ask(socket, &request, answer, diag);
}

static unsigned count_sockets(void)
{
	char path[PATH_MAX];
	unsigned count = 0;
	struct dirent *entry;
	DIR *dir;

	snprintf(path, sizeof(path), "%s/calltap", folder);
	dir = opendir(path);
	while (dir && (entry = readdir(dir)))
		count += entry->d_name[0] != '.' || entry->d_name[1] > '.';
	if (dir)
		closedir(dir);
	return count;
}

/* Ask for a status and wait 100 ms. */
static int ask_soon(int socket, bool patient)
{
	const struct remote_request request = {.verb = "status", .timeout_ms = 100, .patient = patient};
	struct calltap_diag diag = {0};
	char *answer;
	int ret = remote_ask(socket, &request, &answer, &diag);

	free(answer);
	return ret;
}

static void ask_to_catch(int socket, const char *word, int error, const char *wanted)
{
	const struct remote_request request = {
		.verb = "catch", .words = &word, .count = word[0] != 0, .timeout_ms = 5000};
	struct calltap_diag diag = {0};
	char *answer = NULL;

	assert_int_equal(remote_ask(socket, &request, &answer, &diag), error);
	if (!error)
		assert_string_equal(answer, wanted);
	free(answer);
}

static void catching(void **state)
{
	static const char *const wrong[] = {"tid=2147483648", "tid=0", "tid=1x", "pid=1", ""};
	struct fake fake;
	struct remote *remote = start_remote(PID, &fake);
	int socket = connect_client(PID);

	ask_to_catch(socket, "tid=1", 0, "caught\n");
	ask_to_catch(socket, "tid=2", 0, "coming\n");
	ask_to_catch(socket, "tid=2147483647", 0, "no\n");
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		ask_to_catch(socket, wrong[i], -EINVAL, NULL);
	close(socket);
	remote_close(remote, 0, "");
}

/* A tool that has much to do, or little of the CPUs, is waited for; one that only waits is not. */
static void late_answers(void **state)
{
	struct fake fake;
	struct remote *remote = start_remote(PID, &fake);
	int socket = connect_client(PID);
	sem_t held;

	(void)state;
	fake.busy_ms = 400;
	assert_int_equal(ask_soon(socket, true), 0);
	close(socket);
	fake.busy_ms = 0;
	sem_init(&held, 0, 0);
	fake.held = &held;
	socket = connect_client(PID);
	assert_int_equal(ask_soon(socket, true), -ETIMEDOUT);
	sem_post(&held);
	close(socket);
	socket = connect_client(PID);
	assert_int_equal(ask_soon(socket, false), -ETIMEDOUT);
	sem_post(&held);
	close(socket);
	remote_close(remote, 0, NULL);
	sem_destroy(&held);
}

static void questions(void **state)
{
	struct calltap_diag diag = {0};
	struct remote_status status;
	struct fake fake;
	struct remote *remote = start_remote(PID, &fake);
	int socket = connect_client(PID);
	char *answer;

	(void)state;
	assert_int_equal(count_sockets(), 1);
	assert_int_equal(remote_ask_status(socket, NULL, &status, &diag), 0);
	assert_string_equal(status.program, "/bin/a?[31m?b=c");
	assert_string_equal(status.tracer, "function_graph");
	assert_int_equal(status.pid, PID);
	assert_int_equal(status.tool, getpid());
	assert_true(status.records == UINT64_MAX);
	assert_int_equal(ask(socket, "settings", NULL, -1, &answer, &diag), 0);
	assert_int_equal(strncmp(answer, "trace+=function_0\n", 18), 0);
	assert_string_equal(answer + strlen(answer) - 22, "trace+=function_19999\n");
	free(answer);
	assert_int_equal(ask(socket, "set", "trace+=a b=c", -1, &answer, &diag), 0);
	assert_string_equal(fake.words, "trace+=a b=c;");
	assert_string_equal(answer, "");
	free(answer);
	close(socket);
	remote_close(remote, 0, NULL);
	assert_int_equal(count_sockets(), 0);
}

static void errors(void **state)
{
	struct calltap_diag diag = {0};
	struct fake fake;
	struct remote *remote = start_remote(PID, &fake);
	int socket = connect_client(PID);
	char *answer;

	(void)state;
	assert_int_equal(ask(socket, "set", "bad=word", -1, &answer, &diag), -EINVAL);
	assert_null(answer);
	assert_string_equal(diag.text, "that is bad");
	assert_string_equal(diag.input, "bad=word");
	assert_int_equal(diag.column, 4);
	assert_int_equal(ask(socket, "dance", NULL, -1, &answer, &diag), -EPROTO);
	assert_non_null(strstr(diag.text, "does not know 'dance'"));
	assert_int_equal(diag.column, -1);
	assert_int_equal(ask(socket, "set", NULL, -1, &answer, &diag), -EINVAL);
	assert_int_equal(ask(socket, "set", "noequals", -1, &answer, &diag), -EPROTO);
	close(socket);
	assert_int_equal(remote_connect(&socket, PID + 1, &diag), -ESRCH);
	assert_string_equal(diag.text, "process 4712 is not traced by you; `calltap status` lists what is");
	remote_close(remote, 0, NULL);
}

static void snapshots(void **state)
{
	char path[PATH_MAX], text[8] = "";
	struct calltap_diag diag = {0};
	struct fake fake;
	struct remote *remote = start_remote(PID, &fake);
	int socket = connect_client(PID), fd, pipes[2];
	char *answer;

	(void)state;
	snprintf(path, sizeof(path), "%s/snapshot", folder);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	assert_int_equal(ask(socket, "snapshot", "reason=why not", fd, &answer, &diag), 0);
	assert_string_equal(answer, "5 bytes\n");
	free(answer);
	assert_true(fake.wrote);
	assert_string_equal(fake.reason, "why not");
	assert_int_equal(ask(socket, "snapshot", "history_ns=3000000000", fd, &answer, &diag), 0);
	free(answer);
	assert_true(fake.history_ns == 3000000000);
	assert_int_equal(pread(fd, text, sizeof(text), 0), sizeof(text));
	assert_int_equal(memcmp(text, "tracetra", 8), 0);
	assert_int_equal(ask(socket, "snapshot", NULL, -1, &answer, &diag), -EINVAL);
	assert_int_equal(pipe(pipes), 0);
	assert_int_equal(ask(socket, "snapshot", NULL, pipes[1], &answer, &diag), -EINVAL);
	close(pipes[0]);
	close(pipes[1]);
	close(fd);
	unlink(path);
	close(socket);
	remote_close(remote, 0, NULL);
}

/* The answer to `detach` comes when the session is over. */
static void *close_soon(void *argument)
{
	struct remote *remote = argument;
	struct fake *fake = remote->context;

	while (!__atomic_load_n(&fake->detached, __ATOMIC_ACQUIRE))
		usleep(1000);
	usleep(20000);
	remote_close(remote, 0, "all is as it was\n");
	return NULL;
}

static void detaching(void **state)
{
	struct calltap_diag diag = {0};
	struct fake fake;
	struct remote *remote = start_remote(PID, &fake);
	int socket = connect_client(PID), other = connect_client(PID);
	pthread_t thread;
	char *answer;

	(void)state;
	assert_int_equal(pthread_create(&thread, NULL, close_soon, remote), 0);
	assert_int_equal(ask(socket, "detach", NULL, -1, &answer, &diag), 0);
	assert_string_equal(answer, "all is as it was\n");
	free(answer);
	pthread_join(thread, NULL);
	assert_int_equal(ask(other, "detach", NULL, -1, &answer, &diag), -EPIPE);
	assert_string_equal(diag.text, "the session has ended");
	close(socket);
	close(other);
}

static unsigned ended(const struct fake *fake)
{
	return __atomic_load_n(&fake->begun.ended, __ATOMIC_ACQUIRE);
}

static int begin_instance(int socket, struct calltap_diag *diag)
{
	const char *const words[] = {"name=look", "trace=f"};
	const int fds[REMOTE_FDS] = {memfd_create("trace", MFD_CLOEXEC), memfd_create("deeds", MFD_CLOEXEC)};
	const struct remote_request request = {
		.verb = "instance", .words = words, .count = 2, .fds = fds, .fd_count = 2, .timeout_ms = PATIENT};
	char *answer;
	int ret = remote_ask(socket, &request, &answer, diag);

	close(fds[0]);
	close(fds[1]);
	if (!ret)
		assert_string_equal(answer, "look\n");
	free(answer);
	return ret;
}

/* An instance lasts as long as the connection of who began it, and ends once. */
static void instances(void **state)
{
	struct calltap_diag diag = {0};
	struct remote_status status;
	struct fake fake;
	struct remote *remote = start_remote(PID, &fake);
	int first = connect_client(PID), second = connect_client(PID), other = connect_client(PID);
	char *answer;

	(void)state;
	assert_int_equal(ask(first, "instance", "name=look", -1, &answer, &diag), -EINVAL); /* without a file */
	assert_int_equal(remote_ask_status(other, "look", &status, &diag), -ENOENT);
	assert_int_equal(begin_instance(first, &diag), 0);
	assert_string_equal(fake.words, "name=look;trace=f;");
	assert_int_equal(begin_instance(first, &diag), -EBUSY);
	assert_int_equal(ask(other, "set", "instance=look", -1, &answer, &diag), -EINVAL); /* no word is left */
	close(first);
	for (int i = 0; i < PATIENT && !ended(&fake); i++)
		usleep(1000);
	assert_int_equal(ended(&fake), 1);
	/* Ended by another client: who began it is told. */
	assert_int_equal(begin_instance(second, &diag), 0);
	assert_int_equal(ask(other, "detach", "instance=look", -1, &answer, &diag), 0);
	assert_string_equal(answer, "5 records\n");
	free(answer);
	assert_int_equal(remote_receive(second, PATIENT, &answer, &diag), 0);
	assert_string_equal(answer, "it was detached");
	free(answer);
	close(second);
	assert_int_equal(remote_ask_status(other, NULL, &status, &diag), 0);
	assert_int_equal(ended(&fake), 2);
	close(other);
	remote_close(remote, 0, NULL);
}

static void say(int socket, const void *text, size_t size)
{
	assert_int_equal(send(socket, text, size, MSG_NOSIGNAL), size);
}

static bool is_ended(int socket)
{
	struct pollfd ready = {.fd = socket, .events = POLLIN};
	char text[64];

	return poll(&ready, 1, PATIENT) == 1 && recv(socket, text, sizeof(text), MSG_DONTWAIT) <= 0;
}

/* None of them holds up the one who asks properly. */
static void rude_clients(void **state)
{
	static char large[REMOTE_REQUEST_MAX + 1];
	struct calltap_diag diag = {0};
	struct remote_status status;
	struct fake fake;
	struct remote *remote = start_remote(PID, &fake);
	int silent = connect_client(PID), deaf = connect_client(PID), half = connect_client(PID);
	int zero = connect_client(PID), wordy = connect_client(PID), polite = connect_client(PID);

	(void)state;
	say(half, "sta", 3);
	for (int i = 0; i < 4; i++)
		say(deaf, "settings\n", 9);
	say(zero, "status\0\n", 8);
	memset(large, 'a', sizeof(large));
	say(wordy, large, sizeof(large));
	assert_true(is_ended(zero));
	assert_true(is_ended(wordy));
	for (int i = 0; i < 100; i++)
		assert_int_equal(remote_ask_status(polite, NULL, &status, &diag), 0);
	close(silent);
	close(deaf);
	close(half);
	close(zero);
	close(wordy);
	close(polite);
	remote_close(remote, 0, NULL);
}

/* Newcomers take the place of who has been silent longest. */
static void many_clients(void **state)
{
	struct calltap_diag diag = {0};
	struct remote_status status;
	struct fake fake;
	struct remote *remote = start_remote(PID, &fake);
	int silent[REMOTE_CLIENTS], first = connect_client(PID), last;

	(void)state;
	for (int i = 0; i < REMOTE_CLIENTS - 1; i++)
		silent[i] = connect_client(PID);
	assert_int_equal(remote_ask_status(first, NULL, &status, &diag), 0);
	last = connect_client(PID);
	assert_int_equal(remote_ask_status(last, NULL, &status, &diag), 0);
	assert_int_equal(remote_ask_status(first, NULL, &status, &diag), 0);
	assert_true(is_ended(silent[0]));
	for (int i = 0; i < REMOTE_CLIENTS - 1; i++)
		close(silent[i]);
	close(first);
	close(last);
	remote_close(remote, 0, NULL);
}

/* Served in the caller's thread: never waits, and the descriptor tells when there is something to do. */
static void in_the_callers_loop(void **state)
{
	struct fake fake;
	struct remote *remote = open_remote(PID, &fake);
	struct pollfd ready = {.fd = remote_fd(remote), .events = POLLIN};
	int socket = connect_client(PID), answers = 0;
	char packet[REMOTE_PACKET_MAX];

	(void)state;
	say(socket, "settings\n", 9);
	while (poll(&ready, 1, 100) == 1)
		remote_serve(remote);
	for (int i = 0; i < 10000 && poll(&ready, 1, 0) >= 0; i++) {
		answers += recv(socket, packet, sizeof(packet), MSG_DONTWAIT) > 0;
		remote_serve(remote);
	}
	assert_in_range(answers, 20, 40);
	assert_int_equal(poll(&ready, 1, 0), 0);
	close(socket);
	remote_close(remote, 0, NULL);
}

static void lists(void **state)
{
	struct calltap_diag diag = {0};
	struct remote_session *sessions;
	struct fake fakes[3];
	struct remote *remotes[3];
	size_t count;

	(void)state;
	assert_int_equal(remote_list(&sessions, &count, 0, &diag), 0);
	assert_int_equal(count, 0);
	for (int i = 0; i < 3; i++)
		remotes[i] = start_remote(i == 1 ? 7 : 900 + i, &fakes[i]);
	assert_int_equal(remote_list(&sessions, &count, 0, &diag), 0);
	assert_int_equal(count, 3);
	assert_int_equal(sessions[0].pid, 7);
	assert_int_equal(sessions[2].pid, 902);
	remote_list_free(sessions, count);
	assert_int_equal(remote_list(&sessions, &count, 902, &diag), 0);
	assert_int_equal(count, 1);
	remote_list_free(sessions, count);
	for (int i = 0; i < 3; i++)
		remote_close(remotes[i], 0, NULL);
}

/* A session with several targets is found by each of them, and is one. */
static void names(void **state)
{
	struct calltap_diag diag = {0};
	struct remote_session *sessions;
	struct remote *remote;
	struct fake fake;
	int client;
	size_t count;

	(void)state;
	remote = start_remote(903, &fake);
	assert_int_equal(remote_name(remote, 901, &diag), 0);
	assert_int_equal(remote_name(remote, 902, &diag), 0);
	assert_int_equal(count_sockets(), 3);
	assert_int_equal(remote_list(&sessions, &count, 0, &diag), 0);
	assert_int_equal(count, 1);
	assert_int_equal(sessions[0].pid, 901);
	remote_list_free(sessions, count);
	for (pid_t pid = 901; pid <= 903; pid++) {
		struct remote_status status;

		assert_int_equal(remote_connect(&client, pid, &diag), 0);
		assert_int_equal(remote_ask_status(client, NULL, &status, &diag), 0);
		assert_int_equal(status.pid, PID);
		close(client);
	}
	/* A target has ended: its number may be another process' soon. */
	remote_unname(remote, 903);
	assert_int_equal(remote_connect(&client, 903, &diag), -ESRCH);
	remote_unname(remote, 901);
	assert_int_equal(count_sockets(), 1);
	/* The last name stays, as long as there is no other. */
	remote_unname(remote, 902);
	assert_int_equal(count_sockets(), 1);
	assert_int_equal(remote_name(remote, 904, &diag), 0);
	assert_int_equal(count_sockets(), 1);
	assert_int_equal(remote_connect(&client, 904, &diag), 0);
	close(client);
	remote_stop(remote);
	assert_int_equal(count_sockets(), 0);
	assert_int_equal(remote_name(remote, 905, &diag), -ENOTCONN);
	remote_close(remote, 0, NULL);
	remote_unname(NULL, 905);
}

/* The tool was killed: the next one who looks clears up. */
static void left_over(void **state)
{
	struct calltap_diag diag = {0};
	struct remote_session *sessions;
	struct timespec old[2] = {{.tv_sec = 1}, {.tv_sec = 1}};
	char path[PATH_MAX], hidden[PATH_MAX];
	struct fake fake;
	size_t count;
	pid_t child = fork();

	(void)state;
	if (!child) {
		open_remote(PID, &fake);
		_exit(0);
	}
	assert_int_equal(waitpid(child, NULL, 0), child);
	assert_int_equal(count_sockets(), 1);
	snprintf(path, sizeof(path), "%s/calltap/notes", folder); /* no socket of ours: left alone */
	close(open(path, O_WRONLY | O_CREAT, 0600));
	assert_int_equal(remote_list(&sessions, &count, 0, &diag), 0);
	assert_int_equal(count, 0);
	assert_int_equal(count_sockets(), 1);

	/* Killed while it made the socket: that may be somebody who makes one now, unless it is old. */
	child = fork();
	if (!child) {
		struct remote *remote = open_remote(PID, &fake);

		snprintf(path, sizeof(path), "%s/calltap/%s", folder, remote->names[0].text);
		snprintf(hidden, sizeof(hidden), "%s/calltap/.%s", folder, remote->names[0].text);
		_exit(rename(path, hidden));
	}
	assert_int_equal(waitpid(child, NULL, 0), child);
	assert_int_equal(remote_list(&sessions, &count, 0, &diag), 0);
	assert_int_equal(count_sockets(), 2);
	{
		struct dirent *entry;
		DIR *dir;

		snprintf(path, sizeof(path), "%s/calltap", folder);
		dir = opendir(path);
		while ((entry = readdir(dir)))
			if (entry->d_name[0] == '.' && entry->d_name[1] > '.')
				assert_int_equal(utimensat(dirfd(dir), entry->d_name, old, 0), 0);
		closedir(dir);
	}
	assert_int_equal(remote_list(&sessions, &count, 0, &diag), 0);
	assert_int_equal(count_sockets(), 1);
	snprintf(path, sizeof(path), "%s/calltap/notes", folder);
	unlink(path);
}

static void expect_unsafe(const char *words)
{
	struct calltap_diag diag = {0}, client = {0};
	struct remote_session *sessions;
	struct remote *remote;
	struct fake fake;
	size_t count;

	assert_int_equal(remote_open(&remote, PID, &ops, &fake, &diag), -EPERM);
	assert_null(remote);
	if (!strstr(diag.text, words))
		fail_msg("%s", diag.text);
	assert_int_equal(remote_list(&sessions, &count, 0, &client), -EPERM);
	assert_string_equal(client.text, diag.text);
}

static void unsafe_folders(void **state)
{
	char path[PATH_MAX], real[PATH_MAX];
	struct fake fake;
	struct stat st;
	mode_t mask;

	(void)state;
	snprintf(path, sizeof(path), "%s/calltap", folder);
	snprintf(real, sizeof(real), "%s/real", folder);
	rmdir(path);
	assert_int_equal(mkdir(real, 0700), 0);
	assert_int_equal(symlink(real, path), 0);
	expect_unsafe("symbolic link");
	assert_int_equal(unlink(path), 0);
	close(open(path, O_WRONLY | O_CREAT, 0600));
	expect_unsafe("is no folder");
	assert_int_equal(unlink(path), 0);
	assert_int_equal(mkdir(path, 0700), 0);
	assert_int_equal(chmod(path, 0750), 0);
	expect_unsafe("mode 750");
	assert_int_equal(chmod(path, 0500), 0);
	expect_unsafe("mode 500");
	if (!geteuid()) {
		assert_int_equal(chmod(path, 0700), 0);
		assert_int_equal(chown(path, NOBODY, NOBODY), 0);
		expect_unsafe("belongs to another user");
	}
	assert_int_equal(rmdir(path), 0);
	assert_int_equal(rmdir(real), 0);
	mask = umask(0777);
	remote_close(open_remote(PID, &fake), 0, NULL);
	umask(mask);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0700);
}

/* The folder is found again when the variable is not there, or is somebody else's. */
static void places(void **state)
{
	char path[PATH_MAX], expected[64];

	(void)state;
	assert_true(folder_path(0, path));
	setenv("XDG_RUNTIME_DIR", "relative", 1);
	assert_false(folder_path(0, path));
	setenv("XDG_RUNTIME_DIR", "/nonexistent", 1);
	assert_false(folder_path(0, path));
	unsetenv("XDG_RUNTIME_DIR");
	assert_false(folder_path(0, path));
	assert_true(folder_path(2, path));
	snprintf(expected, sizeof(expected), "/tmp/calltap-%u", (unsigned)geteuid());
	assert_string_equal(path, expected);
	setenv("XDG_RUNTIME_DIR", folder, 1);
}

static void become_nobody(void)
{
	if (setgroups(0, NULL) || setgid(NOBODY) || setuid(NOBODY))
		_exit(100);
	prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that fails does not wait for it */
}

/* Somebody else gets neither in by the folder nor, were it open, a word with the session. */
static void other_users(void **state)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	struct fake fake;
	struct remote *remote;
	char path[PATH_MAX];
	int status;
	pid_t child;

	(void)state;
	if (geteuid())
		skip();
	remote = start_remote(PID, &fake);
	snprintf(path, sizeof(path), "%s/calltap", folder);
	assert_true(snprintf(address.sun_path, sizeof(address.sun_path), "%s/%s", path, remote->names[0].text) <
		    (int)sizeof(address.sun_path));
	assert_int_equal(chmod(folder, 0755), 0);
	for (int open = 0; open < 2; open++) {
		if (open) {
			assert_int_equal(chmod(path, 0755), 0);
			assert_int_equal(chmod(address.sun_path, 0666), 0);
		}
		child = fork();
		if (!child) {
			int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
			char text[64];

			become_nobody();
			if (connect(fd, (struct sockaddr *)&address, sizeof(address)))
				_exit(1);
			if (send(fd, "set\ntracing=off\n", 16, MSG_NOSIGNAL) < 0)
				_exit(2);
			_exit(recv(fd, text, sizeof(text), 0) <= 0 ? 2 : 3);
		}
		assert_int_equal(waitpid(child, &status, 0), child);
		assert_int_equal(WEXITSTATUS(status), open + 1);
	}
	assert_string_equal(fake.words, "");
	assert_int_equal(chmod(path, 0700), 0);
	remote_close(remote, 0, NULL);
}

/* A server that belongs to somebody else is not asked, were it in our folder. */
static void other_servers(void **state)
{
	struct calltap_diag diag = {0};
	struct remote_session *sessions;
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	char path[PATH_MAX];
	size_t count;
	int ready[2], done[2];
	pid_t child;
	char byte;

	(void)state;
	if (geteuid())
		skip();
	snprintf(path, sizeof(path), "%s/calltap", folder);
	snprintf(address.sun_path, sizeof(address.sun_path), "%s/calltap/%d-0123456789abcdef", folder, PID);
	assert_int_equal(pipe(ready) | pipe(done), 0);
	assert_int_equal(chmod(folder, 0755) | chmod(path, 0777), 0);
	child = fork();
	if (!child) {
		int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);

		become_nobody();
		if (bind(fd, (struct sockaddr *)&address, sizeof(address)) || listen(fd, 1))
			_exit(1);
		_exit(write(ready[1], "", 1) != 1 || read(done[0], &byte, 1) != 1);
	}
	assert_int_equal(read(ready[0], &byte, 1), 1);
	assert_int_equal(chmod(path, 0700), 0);
	assert_int_equal(remote_list(&sessions, &count, 0, &diag), 0);
	assert_int_equal(count, 0);
	assert_int_equal(write(done[1], "", 1), 1);
	assert_int_equal(waitpid(child, NULL, 0), child);
	unlink(address.sun_path);
}

/* A session that is at work for a while, and more who want something than can wait at its door. */
static void full_door(void **state)
{
	char name[REMOTE_NAME_MAX + 8], path[PATH_MAX];
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	struct calltap_diag diag = {0};
	struct remote_status status;
	struct remote *remote;
	struct fake fake;
	int waiting[64], count = 0, place, error = 0, client;

	(void)state;
	remote = open_remote(PID, &fake);
	snprintf(path, sizeof(path), "%s/calltap", folder);
	snprintf(name, sizeof(name), "%s", remote->names[0].text);
	place = open(path, O_PATH | O_DIRECTORY);
	folder_socket(address.sun_path, place, name);
	while (count < 64 && !error) {
		waiting[count] = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0);
		error = connect(waiting[count++], (struct sockaddr *)&address, sizeof(address)) ? errno : 0;
	}
	assert_int_equal(error, EAGAIN);
	if (!fork()) {
		int ret = remote_connect(&client, PID, &diag);

		_exit(ret || remote_ask_status(client, NULL, &status, &diag));
	}
	usleep(200000);
	assert_int_equal(remote_start(remote), 0);
	assert_true(wait(&error) > 0);
	assert_int_equal(error, 0);
	remote_close(remote, 0, NULL);
	for (int i = 0; i < count; i++)
		close(waiting[i]);
	close(place);
}

static void handlers(void **state)
{
	static const char *const chosen[] = {"alpha", "lib*:operator+=", NULL}, *const refused[] = {"beta", NULL},
				 *const two_lines[] = {"a\nb", NULL};
	uint64_t addresses[2500], functions = 0;
	struct remote_handlers asked = {.table = 0x7f0000001000,
					.slot = 5,
					.exit = true,
					.pending = true,
					.filter = chosen,
					.notrace = refused,
					.timeout_ms = PATIENT};
	struct calltap_diag diag = {0};
	struct fake fake;
	struct remote *remote = start_remote(PID, &fake);
	int client = connect_client(PID);

	(void)state;
	assert_int_equal(remote_ask_handlers(client, &asked, &functions, &diag), 0);
	assert_int_equal(fake.asker, getpid());
	assert_string_equal(fake.words, "table=0x7f0000001000;add=0x5;exit=0x1;data=0x0;general=0x0;pending=0x1;"
					"filter=alpha;filter=lib*:operator+=;notrace=beta;");
	assert_int_equal(functions, 9);
	/* More addresses than one word takes. */
	for (size_t i = 0; i < 2500; i++)
		addresses[i] = UINT64_MAX - i;
	asked.addresses = addresses;
	asked.address_count = 2500;
	assert_int_equal(remote_ask_handlers(client, &asked, &functions, &diag), 0);
	assert_int_equal(functions, 12);
	/* The client asks again about handlers that still run, until there is no time left. */
	asked.remove = true;
	fake.busy = 3;
	assert_int_equal(remote_ask_handlers(client, &asked, &functions, &diag), 0);
	assert_int_equal(fake.busy, 0);
	assert_string_equal(fake.words, "table=0x7f0000001000;remove=0x5;");
	fake.busy = 1000000;
	asked.timeout_ms = 20;
	assert_int_equal(remote_ask_handlers(client, &asked, &functions, &diag), -EAGAIN);
	assert_string_equal(diag.text, "handlers still run");
	asked = (struct remote_handlers){.table = 8, .filter = two_lines, .timeout_ms = PATIENT};
	assert_int_equal(remote_ask_handlers(client, &asked, &functions, &diag), -EINVAL);
	remote_close(remote, 0, NULL);
	assert_int_equal(remote_ask_handlers(client, &asked, &functions, &diag), -EINVAL);
	asked.filter = chosen;
	assert_int_equal(remote_ask_handlers(client, &asked, &functions, &diag), -EPIPE);
	close(client);
}

/* Sessions of others on this machine are not to be found.  Where that is not allowed, there should be none. */
static void hide_others(void)
{
	if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL))
		return;
	if (mount("none", "/tmp", "tmpfs", 0, "mode=1777") ||
	    (!access("/run/user", F_OK) && mount("none", "/run/user", "tmpfs", 0, "mode=0755")))
		print_message("other sessions of this user may be found\n");
}

static int make_folder(void **state)
{
	(void)state;
	hide_others();
	return !mkdtemp(folder) || setenv("XDG_RUNTIME_DIR", folder, 1);
}

static int remove_folder(void **state)
{
	char path[PATH_MAX];

	(void)state;
	snprintf(path, sizeof(path), "%s/calltap", folder);
	return rmdir(path) || rmdir(folder);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(questions),	cmocka_unit_test(late_answers), cmocka_unit_test(errors),
		cmocka_unit_test(snapshots),	cmocka_unit_test(detaching),	cmocka_unit_test(instances),
		cmocka_unit_test(rude_clients), cmocka_unit_test(many_clients), cmocka_unit_test(in_the_callers_loop),
		cmocka_unit_test(lists),	cmocka_unit_test(left_over),	cmocka_unit_test(unsafe_folders),
		cmocka_unit_test(places),	cmocka_unit_test(other_users),	cmocka_unit_test(other_servers),
		cmocka_unit_test(full_door),	cmocka_unit_test(catching),	cmocka_unit_test(handlers),
		cmocka_unit_test(names),
	};

	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
