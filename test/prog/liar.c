/*
 * An agent that lies: `calltap attach` brings it into a program, and it behaves up to the step that the environment's
 * LIAR names (test/e2e/liars.py), and there badly.  A shared library in place of the agent's.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <calltap/abi/attach.h>
#include <calltap/abi/control.h>

static char session[128];
static const char *manner;
static int line;

static int is(const char *name)
{
	return !strcmp(manner, name);
}

static void say(const void *message, size_t size)
{
	if (send(line, message, size, MSG_NOSIGNAL) < 0)
		pthread_exit(NULL);
}

static void say_simple(uint32_t kind, uint32_t size)
{
	struct {
		struct calltap_msg head;
		char rest[1024];
	} message = {.head = {kind, size}};

	say(&message, size);
}

static void pause_ms(long ms)
{
	const struct timespec pause = {ms / 1000, ms % 1000 * 1000000};

	nanosleep(&pause, NULL);
}

/* Never the answer, but always something. */
static void talk_on(void)
{
	for (;;) {
		say_simple(CALLTAP_MSG_CLOCK_TOLD, sizeof(struct calltap_msg_clock_told));
		pause_ms(500);
	}
}

/* Behave badly, if this is the manner's step; 1: it was. */
static int misbehave(const char *step, uint32_t answer, uint32_t size)
{
	size_t length = strlen(step);

	if (strncmp(manner, step, length) != 0 || manner[length] != '-')
		return 0;
	if (is("apply-exits") || is("release-exits") || is("unwinders-exits") || is("heads-exits"))
		_exit(7);
	if (strstr(manner, "-stops"))
		kill(getpid(), SIGSTOP);
	else if (strstr(manner, "-talks"))
		talk_on();
	else if (strstr(manner, "-garbage"))
		say("\377\377\377\377garbage", 11);
	else if (strstr(manner, "-short"))
		say_simple(answer, size - 8);
	else if (strstr(manner, "-hangup"))
		close(line);
	else if (strstr(manner, "-fault"))
		say_simple(CALLTAP_MSG_FAULT, sizeof(struct calltap_msg_fault));
	else if (!strstr(manner, "-silent"))
		return 0;
	for (;;)
		pause_ms(1000);
}

static void greet(void)
{
	struct {
		struct calltap_msg_hello head;
		char exe[8];
	} hello = {
		.head =
			{
				.head = {CALLTAP_MSG_HELLO, sizeof(hello)},
				.version = CALLTAP_ABI_VERSION,
				.flags = CALLTAP_HELLO_ATTACHED,
				.pid = (uint32_t)getpid(),
				.tid = (uint32_t)syscall(SYS_gettid),
				.ppid = (uint32_t)getppid(),
				.page_size = 4096,
				.machine = 62,
				.clock_cost = 64,
				.ticks = 1,
				.image_id = (uint64_t)getpid(),
				.key = strtoull(strchr(session, ':') + 1, NULL, 16),
			},
		.exe = "liar",
	};

	if (!strncmp(manner, "leftovers", 9))
		hello.head.flags |= CALLTAP_HELLO_LEFTOVERS;
	say(&hello, sizeof(hello));
	if (is("leftovers-regions"))
		for (int i = 0; i < 100000; i++)
			say_simple(CALLTAP_MSG_REGIONS, 16 + i % 64);
}

static void tell_objects(void)
{
	struct {
		struct calltap_msg_object head;
		char name[8];
	} object = {.head = {.head = {CALLTAP_MSG_OBJECT, sizeof(object)}}, .name = "liar"};
	char text[512];
	FILE *maps = fopen("/proc/self/maps", "r");

	/* The program's dynamic section lies somewhere in its writable part: any address of its file will do. */
	while (maps && fgets(text, sizeof(text), maps)) {
		if (!object.head.base && strstr(text, "attachee"))
			object.head.base = strtoull(text, NULL, 16);
		if (strstr(text, "attachee") && strstr(text, "r--p"))
			object.head.dynamic = strtoull(text, NULL, 16);
	}
	if (maps)
		fclose(maps);
	say(&object, sizeof(object));
	say_simple(CALLTAP_MSG_OBJECTS_END, sizeof(struct calltap_msg_objects_end));
}

static void answer_plan(const struct calltap_msg_plan *plan)
{
	struct calltap_msg_plan_done done = {
		.head = {CALLTAP_MSG_PLAN_DONE, sizeof(done)}, .plan_id = plan->plan_id, .region = 0x10000000};

	if (!misbehave("plan", CALLTAP_MSG_PLAN_DONE, sizeof(done)))
		say(&done, sizeof(done));
}

static void answer_apply(void)
{
	struct calltap_msg_apply_done done = {.head = {CALLTAP_MSG_APPLY_DONE, sizeof(done)}};

	done.error = is("apply-again") ? -EAGAIN : is("apply-stale") ? -ESTALE : is("apply-odd") ? 12345 : 0;
	if (is("apply-numbers"))
		done.patched = done.failed = done.pointers = done.flags = UINT32_MAX;
	if (!misbehave("apply", CALLTAP_MSG_APPLY_DONE, sizeof(done)))
		say(&done, sizeof(done));
}

static void answer_release(const struct calltap_msg_release *release)
{
	struct calltap_msg_released done = {.head = {CALLTAP_MSG_RELEASED, sizeof(done)}};

	if (release->flags & CALLTAP_RELEASE_MORE)
		return;
	done.error = is("release-again") ? -EAGAIN : is("release-odd") ? 99999 : 0;
	if (!misbehave("release", CALLTAP_MSG_RELEASED, sizeof(done)))
		say(&done, sizeof(done));
}

static void answer_unwinders(void)
{
	struct calltap_msg_unwinders_told told = {.head = {CALLTAP_MSG_UNWINDERS_TOLD, sizeof(told)}};

	if (is("unwinders-odd")) {
		told.count = UINT32_MAX;
		for (int i = 0; i < (int)CALLTAP_UNWINDERS_MAX; i++)
			told.addresses[i] = i % 2 ? (uint64_t)answer_release + i * 4096 : ~(uint64_t)0 / (i + 1);
	}
	if (!misbehave("unwinders", CALLTAP_MSG_UNWINDERS_TOLD, sizeof(told)))
		say(&told, sizeof(told));
}

static void answer_heads(void)
{
	struct calltap_msg_heads_done done = {.head = {CALLTAP_MSG_HEADS_DONE, sizeof(done)}};

	done.left = is("heads-odd") ? UINT32_MAX : 0;
	if (!misbehave("heads", CALLTAP_MSG_HEADS_DONE, sizeof(done)))
		say(&done, sizeof(done));
}

static void answer(const struct calltap_msg *message)
{
	switch (message->type) {
	case CALLTAP_MSG_SETUP:
	case CALLTAP_MSG_RESCAN:
		if (!misbehave("setup", CALLTAP_MSG_OBJECT, 64))
			tell_objects();
		break;
	case CALLTAP_MSG_PLAN:
		answer_plan((const void *)message);
		break;
	case CALLTAP_MSG_APPLY:
		answer_apply();
		break;
	case CALLTAP_MSG_HEADS:
		answer_heads();
		break;
	case CALLTAP_MSG_UNWINDERS:
		answer_unwinders();
		break;
	case CALLTAP_MSG_RELEASE:
		answer_release((const void *)message);
		break;
	case CALLTAP_MSG_DETACH:
		if (!misbehave("detach", CALLTAP_MSG_DETACHED, sizeof(struct calltap_msg_detached)))
			say_simple(CALLTAP_MSG_DETACHED, sizeof(struct calltap_msg_detached));
		break;
	default:
		break;
	}
}

static void *lie(void *argument)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	size_t length = (size_t)(strchr(session, ':') - session);
	static uint64_t message[1024];

	memcpy(address.sun_path + 1, session, length);
	line = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (is("call-never") ||
	    connect(line, (void *)&address, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length)))
		return NULL;
	misbehave("hello", CALLTAP_MSG_HELLO, 100);
	greet();
	misbehave("greeted", CALLTAP_MSG_OBJECT, 64);
	while (recv(line, message, sizeof(message), 0) > 0)
		answer((const void *)message);
	close(line);
	return NULL;
}

int calltap_agent_attach(const struct calltap_attach *told)
{
	sigset_t all, old;
	pthread_t thread;

	manner = getenv("LIAR");
	memcpy(session, told->session, sizeof(session));
	if (!manner || !strchr(session, ':'))
		return -EINVAL;
	if (is("entry-fails"))
		return -12345;
	if (is("entry-exits"))
		_exit(7);
	while (is("entry-silent"))
		pause_ms(1000);
	if (is("entry-stops"))
		kill(getpid(), SIGSTOP);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	pthread_create(&thread, NULL, lie, NULL);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return 0;
}
