/*
 * The agent in a process that runs already: the test is the tool, its forked
 * child the process, which stops its threads by itself when it is told to.
 *
 *     test_agent_attach AGENT
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include <arch.h>
#include <calltap/abi/attach.h>
#include <calltap/abi/control.h>
#include <calltap/abi/record.h>
#include <calltap/abi/ring.h>

#include "attached.h"

#define PAGE	  4096u
#define RINGS	  16u
#define SUB	  8192u
#define SUBS	  4u
#define STUB_ROOM 96u
#define PATIENCE  10000 /* ms */

struct tool {
	pid_t pid;
	int listener, socket, board, arena;
	char *arena_memory;
	size_t arena_size;
	uint64_t words[2];
	uint64_t region;
	struct calltap_msg_hello hello;
	char message[CALLTAP_MSG_MAX];
};

static uint64_t site_of(uint64_t function)
{
	return function + (memcmp((void *)function, "\xf3\x0f\x1e\xfa", 4) ? 0 : 4);
}

static void order(struct tool *tool, enum order what)
{
	uint32_t number = ((__atomic_load_n(&shared->order, __ATOMIC_SEQ_CST) >> 4) + 1) << 4 | what;

	__atomic_store_n(&shared->order, number, __ATOMIC_SEQ_CST);
	for (int i = 0; what != QUIT && __atomic_load_n(&shared->done, __ATOMIC_SEQ_CST) != number; i++) {
		assert_int_equal(waitpid(tool->pid, NULL, WNOHANG), 0);
		assert_true(i < 10 * PATIENCE);
		usleep(100);
	}
}

static void park(bool on)
{
	__atomic_store_n(&shared->park, on, __ATOMIC_SEQ_CST);
	while (__atomic_load_n(&shared->parked, __ATOMIC_SEQ_CST) != (on ? WORKERS : 0))
		usleep(100);
	if (on)
		usleep(2000);
}

/* All workers call all functions again, and rightly. */
static void run_on(const struct tool *tool)
{
	uint32_t until = __atomic_load_n(&shared->rounds, __ATOMIC_SEQ_CST) + 20 * WORKERS;

	for (int i = 0; __atomic_load_n(&shared->rounds, __ATOMIC_SEQ_CST) < until; i++) {
		assert_int_equal(waitpid(tool->pid, NULL, WNOHANG), 0);
		assert_true(i < PATIENCE);
		usleep(1000);
	}
	assert_int_equal(shared->wrong, 0);
}

static void start(struct tool *tool)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	socklen_t size;

	*tool = (struct tool){.socket = -1};
	memset(shared, 0, sizeof(*shared));
	tool->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
			   (size_t)snprintf(address.sun_path + 1, 100, "calltap-test-%d-%p", getpid(), (void *)tool));
	snprintf(shared->session, sizeof(shared->session), "%s:1234", address.sun_path + 1);
	assert_int_equal(bind(tool->listener, (struct sockaddr *)&address, size), 0);
	assert_int_equal(listen(tool->listener, 4), 0);
	tool->pid = fork();
	if (!tool->pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(tool->listener);
		process();
	}
	while (!shared->rounds)
		usleep(1000);
}

static void finish(struct tool *tool)
{
	int status;

	run_on(tool);
	order(tool, QUIT);
	assert_int_equal(waitpid(tool->pid, &status, 0), tool->pid);
	assert_int_equal(status, 0);
	close(tool->listener);
	if (tool->socket >= 0)
		close(tool->socket);
}

static void tell(struct tool *tool, const void *message, const int *fds, unsigned count)
{
	const struct calltap_msg *head = message;
	struct iovec vec = {(void *)message, head->size};
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(4 * sizeof(int))] = {0};
	struct msghdr header = {.msg_iov = &vec, .msg_iovlen = 1};
	struct cmsghdr *cmsg = (void *)control;

	if (count) {
		header.msg_control = control;
		header.msg_controllen = CMSG_SPACE(count * sizeof(int));
		cmsg->cmsg_level = SOL_SOCKET;
		cmsg->cmsg_type = SCM_RIGHTS;
		cmsg->cmsg_len = CMSG_LEN(count * sizeof(int));
		memcpy(CMSG_DATA(cmsg), fds, count * sizeof(int));
	}
	assert_int_equal(sendmsg(tool->socket, &header, MSG_NOSIGNAL), head->size);
}

/* The next message, which has to be of that type. */
static void *hear(struct tool *tool, uint32_t type)
{
	struct pollfd poll_ = {tool->socket, POLLIN, 0};
	struct calltap_msg *head = (void *)tool->message;
	long got;

	assert_int_equal(poll(&poll_, 1, PATIENCE), 1);
	got = recv(tool->socket, tool->message, sizeof(tool->message), 0);
	if (got > 0 && head->type == CALLTAP_MSG_FAULT)
		fail_msg("%s: %s", ((struct calltap_msg_fault *)head)->text,
			 strerror(-((struct calltap_msg_fault *)head)->error));
	assert_true(got >= (long)sizeof(*head));
	assert_int_equal(head->type, type);
	return head;
}

static void hear_end(struct tool *tool)
{
	struct pollfd poll_ = {tool->socket, POLLIN, 0};

	assert_int_equal(poll(&poll_, 1, PATIENCE), 1);
	assert_int_equal(recv(tool->socket, tool->message, sizeof(tool->message), 0), 0);
	close(tool->socket);
	tool->socket = -1;
}

static int memory(size_t size, int seals)
{
	int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)size), 0);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
	return fd;
}

static int make_arena(struct tool *tool)
{
	uint64_t stride = PAGE + SUB * SUBS;
	int fd;
	struct calltap_arena *arena;

	tool->arena_size = PAGE + RINGS * stride;
	fd = memory(tool->arena_size, F_SEAL_SHRINK);
	arena = mmap(NULL, tool->arena_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(arena, MAP_FAILED);
	arena->magic = CALLTAP_ARENA_MAGIC;
	arena->ring_count = RINGS;
	arena->ring_stride = stride;
	for (uint32_t i = 0; i < RINGS; i++)
		*(struct calltap_ring *)((char *)arena + PAGE + i * stride) = (struct calltap_ring){
			.magic = CALLTAP_RING_MAGIC,
			.index = i,
			.sub_size = SUB,
			.sub_count = SUBS,
			.mode = CALLTAP_MODE_OVERWRITE,
		};
	tool->arena_memory = (char *)arena;
	return fd;
}

static const struct calltap_ring *ring_of(const struct tool *tool, uint32_t index)
{
	return (const void *)(tool->arena_memory + PAGE + index * (PAGE + SUB * SUBS));
}

static uint64_t recorded(const struct tool *tool)
{
	uint64_t opened = 0;

	for (uint32_t i = 0; i < RINGS; i++)
		opened += ring_of(tool, i)->opened;
	return opened;
}

static void accept_agent(struct tool *tool, uint32_t flags)
{
	struct pollfd poll_ = {tool->listener, POLLIN, 0};

	assert_int_equal(poll(&poll_, 1, PATIENCE), 1);
	tool->socket = accept4(tool->listener, NULL, NULL, SOCK_CLOEXEC);
	assert_true(tool->socket >= 0);
	tool->hello = *(struct calltap_msg_hello *)hear(tool, CALLTAP_MSG_HELLO);
	assert_int_equal(tool->hello.flags, flags);
	assert_int_equal(tool->hello.key, 0x1234);
}

static void set_up(struct tool *tool, uint32_t flags)
{
	int board = memory(PAGE, F_SEAL_SHRINK), arena = make_arena(tool), fds[] = {board, arena};
	struct calltap_msg_setup setup = {
		.head = {CALLTAP_MSG_SETUP, sizeof(setup)},
		.mode = CALLTAP_MODE_OVERWRITE,
		.arena_size = tool->arena_size,
		.flags = flags,
	};

	tell(tool, &setup, fds, 2);
	close(board);
	close(arena);
}

static unsigned hear_objects(struct tool *tool)
{
	struct calltap_msg *head;
	unsigned count = 0;

	for (;; count++) {
		struct pollfd poll_ = {tool->socket, POLLIN, 0};

		assert_int_equal(poll(&poll_, 1, PATIENCE), 1);
		assert_true(recv(tool->socket, tool->message, sizeof(tool->message), MSG_PEEK) > 0);
		head = (void *)tool->message;
		if (head->type == CALLTAP_MSG_OBJECTS_END)
			break;
		hear(tool, CALLTAP_MSG_OBJECT);
	}
	hear(tool, CALLTAP_MSG_OBJECTS_END);
	return count;
}

static void send_pointers(struct tool *tool)
{
	struct {
		struct calltap_msg_pointers message;
		struct calltap_pointer pointers[4];
	} out = {
		.message = {.head = {CALLTAP_MSG_POINTERS, sizeof(out)}, .count = 4},
		.pointers =
			{
				{(uint64_t)&words[0], CALLTAP_POINTER_LONGJMP, CALLTAP_POINTER_WORD},
				{(uint64_t)&words[1], CALLTAP_POINTER_SIGALTSTACK, CALLTAP_POINTER_WORD},
				{8, CALLTAP_POINTER_PRCTL, CALLTAP_POINTER_WORD}, /* nothing there */
				{(uint64_t)&words[0] + 1, CALLTAP_POINTER_PRCTL,
				 CALLTAP_POINTER_WORD}, /* not aligned */
			},
	};

	tell(tool, &out, NULL, 0);
}

#define FULL (CALLTAP_SITE_FULL_ENTRY | CALLTAP_SITE_FULL_EXIT | CALLTAP_SITE_GATED)
/* Of outer, middle, inner and waits. */
static const uint16_t PLAIN[4], ALL_OFF[4] = {CALLTAP_SITE_OFF, CALLTAP_SITE_OFF, CALLTAP_SITE_OFF, CALLTAP_SITE_OFF},
				LIMITED[4] = {FULL, FULL, FULL, FULL},
				TREES[4] = {CALLTAP_SITE_GATED, CALLTAP_SITE_ROOT, CALLTAP_SITE_GATED, 0};

static uint64_t plan_moved; /* the plan of an object that would lie so far up */

/* The plan of all functions. */
static void tell_plan(struct tool *tool, uint64_t id, uint32_t live, const uint16_t flags[4])
{
	const uint64_t all[] = {functions[0], functions[1], functions[2], (uint64_t)waits};
	struct calltap_site sites[4] = {{0}};
	struct calltap_msg_plan plan = {
		.head = {CALLTAP_MSG_PLAN, sizeof(plan)},
		.plan_id = id,
		.near_lo = ~(uint64_t)0,
		.stub_bytes = 4 * STUB_ROOM,
		.site_count = 4,
		.live = live,
	};
	int fd;

	for (uint32_t i = 0; i < 4; i++) {
		uint64_t at = site_of(all[i]) + plan_moved;
		uint32_t place = 0;

		/* In the order of their addresses. */
		for (uint32_t k = 0; k < 4; k++)
			place += all[k] < all[i];
		sites[place] = (struct calltap_site){
			.address = at,
			.id = i + 1,
			.stub_off = ARCH_REGION_HEAD + place * STUB_ROOM,
			.flags = flags[i],
			.length = 5,
			.body_off = 5,
			.old = {0x90, 0x90, 0x90, 0x90, 0x90},
		};
		plan.near_lo = at < plan.near_lo ? at : plan.near_lo;
		plan.near_hi = at + 64 > plan.near_hi ? at + 64 : plan.near_hi;
	}
	fd = memfd_create("plan", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	assert_int_equal(write(fd, sites, sizeof(sites)), sizeof(sites));
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE), 0);
	tell(tool, &plan, &fd, 1);
	close(fd);
}

static void send_plan(struct tool *tool, uint64_t id, uint32_t live, const uint16_t flags[4])
{
	const struct calltap_msg_plan_done *done;

	tell_plan(tool, id, live, flags);
	done = hear(tool, CALLTAP_MSG_PLAN_DONE);
	assert_int_equal(done->error, 0);
	assert_int_equal(done->plan_id, id);
	assert_int_equal(done->patched, 0);
	tool->region = done->region;
}

static struct calltap_msg_apply_done apply(struct tool *tool, uint32_t flags, uint64_t skip)
{
	struct {
		struct calltap_msg_apply message;
		uint64_t skips[1];
	} out = {.message = {.head = {CALLTAP_MSG_APPLY, sizeof(out.message) + (skip ? 8 : 0)},
			     .flags = flags,
			     .count = skip != 0},
		 .skips = {skip}};

	tell(tool, &out, NULL, 0);
	return *(struct calltap_msg_apply_done *)hear(tool, CALLTAP_MSG_APPLY_DONE);
}

static struct calltap_msg_released release(struct tool *tool)
{
	struct {
		struct calltap_msg_release message;
		uint64_t words[WORKERS + 1];
	} out = {.message = {.head = {CALLTAP_MSG_RELEASE, sizeof(out)}, .thread_count = WORKERS + 1}};

	memcpy(out.words, shared->pointers, sizeof(out.words));
	tell(tool, &out, NULL, 0);
	return *(struct calltap_msg_released *)hear(tool, CALLTAP_MSG_RELEASED);
}

static void attach(struct tool *tool, uint32_t flags)
{
	order(tool, ATTACH);
	if (shared->result)
		fail_msg("%s", shared->error);
	accept_agent(tool, CALLTAP_HELLO_ATTACHED | flags);
}

/* The agent's own functions are those that pointers lead to, not libc's of the same name. */
static void pointers_lead_to_the_agent(const struct tool *tool)
{
	char path[64], line[512];
	FILE *file;
	bool in_agent[2] = {false};
	uint64_t now[2];

	snprintf(path, sizeof(path), "/proc/%d/mem", tool->pid);
	file = fopen(path, "re");
	for (uint32_t i = 0; i < 2; i++)
		assert_int_equal(pread(fileno(file), &now[i], 8, (off_t)&words[i]), 8);
	fclose(file);
	snprintf(path, sizeof(path), "/proc/%d/maps", tool->pid);
	file = fopen(path, "re");
	while (fgets(line, sizeof(line), file)) {
		unsigned long lo, hi;

		assert_int_equal(sscanf(line, "%lx-%lx", &lo, &hi), 2);
		for (uint32_t i = 0; i < 2; i++)
			in_agent[i] |= now[i] >= lo && now[i] < hi && strstr(line, "libcalltap-agent");
	}
	fclose(file);
	assert_true(in_agent[0] && in_agent[1]);
}

static void begin(struct tool *tool)
{
	struct calltap_msg_apply_done done;
	const struct calltap_msg go = {CALLTAP_MSG_GO, sizeof(go)};

	assert_true(hear_objects(tool) >= 3);
	send_pointers(tool);
	send_plan(tool, 1, CALLTAP_PLAN_STOPPED, PLAIN);
	park(true);
	done = apply(tool, 0, 0);
	assert_int_equal(done.error, 0);
	assert_int_equal(done.patched, 4);
	assert_int_equal(done.failed, 0);
	assert_int_equal(done.pointers, 2);
	assert_int_equal(done.flags, 0);
	park(false);
	pointers_lead_to_the_agent(tool);
	tell(tool, &go, NULL, 0);
	run_on(tool);
	assert_true(recorded(tool) >= WORKERS);
}

static void detach(struct tool *tool, uint32_t flags)
{
	const struct calltap_msg_detach detach_ = {{CALLTAP_MSG_DETACH, sizeof(detach_)}, flags, 0};
	const struct calltap_msg_detached *done;

	tell(tool, &detach_, NULL, 0);
	done = hear(tool, CALLTAP_MSG_DETACHED);
	assert_int_equal(done->restored, 4);
	assert_int_equal(done->left, 0);
	munmap(tool->arena_memory, tool->arena_size);
}

/* Lines of maps that are not the process' own, and its whole size. */
static size_t maps(const struct tool *tool, size_t *size)
{
	char path[64], line[512];
	size_t count = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/maps", tool->pid);
	file = fopen(path, "re");
	*size = 0;
	while (fgets(line, sizeof(line), file)) {
		unsigned long lo, hi;

		assert_int_equal(sscanf(line, "%lx-%lx", &lo, &hi), 2);
		*size += hi - lo;
		count++;
	}
	fclose(file);
	return count;
}

/* As before the first attach; idle, an agent may keep the pointers until the next one. */
static void text_is_own(const struct tool *tool, bool idle)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/mem", tool->pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	for (uint32_t i = 0; i < FUNCTIONS; i++) {
		uint8_t bytes[32];

		assert_int_equal(pread(fd, bytes, sizeof(bytes), (off_t)functions[i]), sizeof(bytes));
		assert_memory_equal(bytes, (void *)functions[i], sizeof(bytes));
	}
	for (uint32_t i = 0; i < 2 && !idle; i++) {
		uint64_t word;

		assert_int_equal(pread(fd, &word, 8, (off_t)&words[i]), 8);
		assert_int_equal(word, (uint64_t)words[i]);
	}
	close(fd);
}

static void it_comes_and_goes(void **state)
{
	struct calltap_msg_released released;
	struct tool tool;
	size_t first = 0, size, lines, first_lines = 0;

	start(&tool);
	for (int i = 0; i < 60; i++) {
		attach(&tool, 0);
		set_up(&tool, 0);
		begin(&tool);
		if (i % 3 == 1)
			order(&tool, PARK); /* a coroutine goes to sleep within four frames */
		park(true);
		detach(&tool, CALLTAP_DETACH_RELEASE);
		if (i % 3 == 2) /* an answer to what the agent said before it was told to go */
			tell_plan(&tool, 1, CALLTAP_PLAN_FRESH, PLAIN);
		released = release(&tool);
		assert_int_equal(released.error, 0);
		assert_int_equal(released.pointers, 2);
		/* At the least the frames of the workers that wait in inner(), below outer()s. */
		assert_true(released.frames >= WORKERS * 3 + (i % 3 == 1 ? 4 : 0));
		hear_end(&tool);
		park(false);
		if (i % 3 == 1)
			order(&tool, PARK); /* and wakes up without us */
		run_on(&tool);
		text_is_own(&tool, false);
		lines = maps(&tool, &size);
		if (i == 3) {
			first = size;
			first_lines = lines;
		}
		if (i > 3) {
			assert_int_equal(size, first);
			assert_true(lines <= first_lines + 2);
		}
	}
	finish(&tool);
}

/* How far a session goes before the tool dies. */
enum step { HELLO, SETUP, POINTERS, PLAN, APPLIED, DETACHED, STEPS };

static void go_until(struct tool *tool, enum step last)
{
	if (last == HELLO)
		return;
	set_up(tool, 0);
	hear_objects(tool);
	if (last == SETUP)
		return;
	send_pointers(tool);
	if (last == POINTERS)
		return;
	send_plan(tool, 1, CALLTAP_PLAN_STOPPED, PLAIN);
	if (last == PLAN)
		return;
	park(true);
	assert_int_equal(apply(tool, 0, 0).error, 0);
	park(false);
	run_on(tool);
	if (last == APPLIED)
		return;
	detach(tool, CALLTAP_DETACH_RELEASE);
}

static void lead_to(struct tool *tool, uint64_t plan, bool on)
{
	struct {
		struct calltap_msg_switch message;
		uint32_t sites[5];
	} out = {.message = {.head = {CALLTAP_MSG_SWITCH, sizeof(out.message) + sizeof(out.sites)},
			     .plan_id = plan,
			     .on = on,
			     .count = 5},
		 .sites = {0, 1, 2, 3, 4}};
	const struct calltap_msg_switch_done *done;

	tell(tool, &out, NULL, 0);
	done = hear(tool, CALLTAP_MSG_SWITCH_DONE);
	assert_int_equal(done->switched, 4);
	assert_int_equal(done->failed, 1); /* there are no five */
}

static void set(struct tool *tool, uint32_t depth_max, uint32_t tree_filter)
{
	const struct calltap_msg_set set_ = {{CALLTAP_MSG_SET, sizeof(set_)}, depth_max, tree_filter, 0};

	tell(tool, &set_, NULL, 0);
}

/* Which functions are recorded from now on. */
static void see(const struct tool *tool, bool outers, bool middles, bool inners)
{
	uint64_t entries[5] = {0}, before[RINGS], until;

	/* None is in a call any more that began before. */
	for (uint32_t i = 0; i < WORKERS; i++) {
		uint32_t round = __atomic_load_n(&shared->own_rounds[i], __ATOMIC_SEQ_CST);

		while (__atomic_load_n(&shared->own_rounds[i], __ATOMIC_SEQ_CST) < round + 2)
			usleep(100);
	}
	for (uint32_t i = 0; i < RINGS; i++)
		before[i] = ring_of(tool, i)->opened;
	until = recorded(tool) + 3 * WORKERS;
	for (int i = 0; recorded(tool) < until && i < 1000; i++)
		run_on(tool);
	park(true);
	for (uint32_t i = 0; i < RINGS * SUBS; i++) {
		const struct calltap_subbuf *sub =
			(const void *)((const char *)ring_of(tool, i / SUBS) + PAGE + i % SUBS * SUB);
		const uint64_t *word = (const uint64_t *)(sub + 1), *end = (const uint64_t *)((const char *)sub + SUB);

		if (sub->number <= before[i / SUBS])
			continue;
		for (; word < end; word += calltap_record_words(calltap_record_kind(*word)))
			if (calltap_record_kind(*word) == CALLTAP_REC_ENTRY && calltap_record_id(*word) < 5)
				entries[calltap_record_id(*word)]++;
	}
	park(false);
	assert_int_equal(entries[1] != 0, outers);
	assert_int_equal(entries[2] != 0, middles);
	assert_int_equal(entries[3] != 0, inners);
}

static void it_is_steered(void **state)
{
	struct tool tool;

	start(&tool);
	attach(&tool, 0);
	set_up(&tool, 0);
	begin(&tool);
	send_plan(&tool, 2, CALLTAP_PLAN_STUBS, LIMITED);
	set(&tool, 0, 1);
	send_plan(&tool, 3, CALLTAP_PLAN_STUBS, TREES);
	plan_moved = 1ul << 40; /* of a library that has been closed meanwhile */
	tell_plan(&tool, 4, CALLTAP_PLAN_STUBS, TREES);
	plan_moved = 0;
	assert_int_equal(((struct calltap_msg_plan_done *)hear(&tool, CALLTAP_MSG_PLAN_DONE))->error, -ESTALE);
	set(&tool, 0, 0);
	for (int i = 0; i < 4; i++) {
		see(&tool, true, true, true);
		set(&tool, 2, 0);
		lead_to(&tool, 2, true);
		see(&tool, true, true, false);
		set(&tool, 0, 1);
		lead_to(&tool, 3, true);
		see(&tool, false, true, true);
		lead_to(&tool, i % 2 ? 1 : 2, false); /* by whichever plan */
		set(&tool, 2, 0);
		lead_to(&tool, 2, true);
		see(&tool, true, true, false); /* who was outside all trees is not shut out */
		set(&tool, 0, 0);
		lead_to(&tool, 1, true);
		see(&tool, true, true, true);
		set(&tool, 2, 0);
		lead_to(&tool, 2, true);
		see(&tool, true, true, false); /* what was deep then is not deep now */
		set(&tool, 0, 0);
		lead_to(&tool, i % 2 ? 1 : 2, true);
	}
	park(true);
	detach(&tool, CALLTAP_DETACH_RELEASE);
	assert_int_equal(release(&tool).error, 0);
	park(false);
	text_is_own(&tool, false);
	finish(&tool);
}

static void the_tool_may_die_at_any_step(void **state)
{
	struct tool tool;
	bool leftovers = false;

	start(&tool);
	for (int i = 0; i < 3 * STEPS; i++) {
		enum step step = (enum step)(i % STEPS);

		attach(&tool, leftovers ? CALLTAP_HELLO_LEFTOVERS : 0);
		if (leftovers) {
			const struct calltap_msg_regions *regions = hear(&tool, CALLTAP_MSG_REGIONS);

			assert_true(regions->count <= 1);
			park(true);
			assert_int_equal(release(&tool).error, 0);
			park(false);
		}
		go_until(&tool, step);
		close(tool.socket);
		tool.socket = -1;
		run_on(&tool);
		leftovers = step > HELLO;
		while (true) { /* it lets go by itself */
			order(&tool, ATTACH);
			if (shared->result != -EBUSY)
				break;
			usleep(1000);
		}
		assert_int_equal(shared->result, 0);
		accept_agent(&tool, CALLTAP_HELLO_ATTACHED | (leftovers ? CALLTAP_HELLO_LEFTOVERS : 0));
		text_is_own(&tool, true);
		close(tool.socket);
		usleep(2000);
	}
	finish(&tool);
}

static void a_second_tool_is_refused(void **state)
{
	struct tool tool;

	start(&tool);
	attach(&tool, 0);
	set_up(&tool, 0);
	begin(&tool);
	order(&tool, ATTACH);
	assert_int_equal(shared->result, -EBUSY);
	detach(&tool, 0);
	finish(&tool);
}

static void a_site_that_a_thread_is_in_is_left_alone(void **state)
{
	struct calltap_msg_apply_done done;
	struct tool tool;

	start(&tool);
	attach(&tool, 0);
	set_up(&tool, 0);
	hear_objects(&tool);
	send_plan(&tool, 1, CALLTAP_PLAN_STOPPED, ALL_OFF);
	park(true);
	done = apply(&tool, CALLTAP_APPLY_LEAVE_LOADER, site_of(functions[1]));
	assert_int_equal(done.error, 0);
	assert_int_equal(done.patched, 3);
	assert_int_equal(done.failed, 1);
	assert_int_equal(done.flags, CALLTAP_OBJECTS_NO_DLHOOK);
	park(false);
	run_on(&tool);
	assert_int_equal(recorded(&tool), 0); /* all are switched off */
	park(true);
	done = apply(&tool, 0, 0); /* the loader's hook is made up for */
	assert_int_equal(done.error, 0);
	assert_int_equal(done.patched, 0);
	assert_int_equal(done.flags, 0);
	park(false);
	detach(&tool, CALLTAP_DETACH_RELEASE);
	park(true);
	assert_int_equal(release(&tool).error, 0);
	park(false);
	finish(&tool);
}

static void a_recording_goes_on_without_the_tool(void **state)
{
	struct tool tool;
	uint64_t before;

	start(&tool);
	attach(&tool, 0);
	set_up(&tool, CALLTAP_SETUP_KEEP);
	begin(&tool);
	close(tool.socket);
	tool.socket = -1;
	usleep(50000);
	before = recorded(&tool);
	for (int i = 0; recorded(&tool) < before + 2 * RINGS && i < 100; i++)
		run_on(&tool);
	assert_true(recorded(&tool) >= before + 2 * RINGS);
	attach(&tool, CALLTAP_HELLO_LEFTOVERS);
	assert_int_equal(((struct calltap_msg_regions *)hear(&tool, CALLTAP_MSG_REGIONS))->count, 1);
	text_is_own(&tool, true);
	park(true);
	assert_int_equal(release(&tool).error, 0);
	park(false);
	set_up(&tool, 0);
	begin(&tool);
	detach(&tool, 0);
	finish(&tool);
}

static void a_forked_child_is_followed_or_let_be(void **state)
{
	struct tool tool;
	int process_socket;

	start(&tool);
	attach(&tool, 0);
	set_up(&tool, 0);
	begin(&tool);
	process_socket = tool.socket;
	shared->order = ((shared->order >> 4) + 1) << 4 | FORK;
	accept_agent(&tool, CALLTAP_HELLO_FORKED); /* its first traced call */
	set_up(&tool, 0);
	tell(&tool, &(struct calltap_msg){CALLTAP_MSG_GO, 8}, NULL, 0);
	hear_end(&tool);
	while (shared->done != shared->order)
		usleep(1000);
	assert_int_equal(shared->result, 0);
	tool.socket = process_socket;
	park(true);
	detach(&tool, CALLTAP_DETACH_RELEASE);
	shared->order = ((shared->order >> 4) + 1) << 4 | FORK; /* between the two */
	while (shared->done != shared->order)
		usleep(1000);
	assert_int_equal(shared->result, 0);
	assert_int_equal(release(&tool).error, 0);
	order(&tool, FORK); /* and after */
	assert_int_equal(shared->result, 0);
	park(false);
	finish(&tool);
}

/* Where the library keeps its symbol of the name and the word that the loader fills in, less its base. */
static void find_import(const char *name, uint64_t *symbol, uint64_t *word)
{
	struct link_map *map = dlopen(LOADED, RTLD_NOW);
	const Elf64_Sym *symbols = NULL;
	const char *strings = NULL;
	const Elf64_Rela *relocations[2] = {NULL, NULL};
	size_t sizes[2] = {0, 0};

	assert_non_null(map);
	for (const Elf64_Dyn *entry = map->l_ld; entry->d_tag != DT_NULL; entry++) {
		const void *at = (const void *)entry->d_un.d_ptr;

		if (entry->d_tag == DT_SYMTAB)
			symbols = at;
		else if (entry->d_tag == DT_STRTAB)
			strings = at;
		else if (entry->d_tag == DT_RELA || entry->d_tag == DT_JMPREL)
			relocations[entry->d_tag == DT_JMPREL] = at;
		else if (entry->d_tag == DT_RELASZ || entry->d_tag == DT_PLTRELSZ)
			sizes[entry->d_tag == DT_PLTRELSZ] = entry->d_un.d_val / sizeof(Elf64_Rela);
	}
	*symbol = *word = 0;
	for (int i = 0; i < 2; i++)
		for (size_t k = 0; k < sizes[i]; k++) {
			const Elf64_Sym *of = &symbols[ELF64_R_SYM(relocations[i][k].r_info)];

			if (!ELF64_R_SYM(relocations[i][k].r_info) || strcmp(strings + of->st_name, name) != 0)
				continue;
			*symbol = (uint64_t)of - map->l_addr;
			*word = relocations[i][k].r_offset;
		}
	assert_true(*symbol != 0);
}

static uint64_t word_at(const struct tool *tool, uint64_t address)
{
	char path[64];
	uint64_t word = 0;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/mem", tool->pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_int_equal(pread(fd, &word, sizeof(word), (off_t)address), sizeof(word));
	close(fd);
	return word;
}

/* The library's base, of a report. */
static uint64_t hear_base(struct tool *tool)
{
	const struct calltap_msg_object *object = (const void *)tool->message;
	uint64_t base = 0;

	for (;;) {
		struct pollfd poll_ = {tool->socket, POLLIN, 0};

		assert_int_equal(poll(&poll_, 1, PATIENCE), 1);
		assert_true(recv(tool->socket, tool->message, sizeof(tool->message), 0) > 0);
		if (object->head.type == CALLTAP_MSG_OBJECTS_END)
			return base;
		assert_int_equal(object->head.type, CALLTAP_MSG_OBJECT);
		if (strstr(object->path, LOADED))
			base = object->base;
	}
}

static void what_is_loaded_later_leads_to_the_agent(void **state)
{
	const struct calltap_msg go = {CALLTAP_MSG_GO, sizeof(go)}, rescan = {CALLTAP_MSG_RESCAN, sizeof(rescan)};
	struct {
		struct calltap_msg_pointers message;
		struct calltap_pointer pointers[2];
	} out = {.message = {{CALLTAP_MSG_POINTERS, sizeof(out)}, 2, CALLTAP_POINTERS_FRESH, 0}};
	uint64_t symbol = 0, word = 0, base, before, libcs;
	struct tool tool;

	start(&tool);
	find_import("_dl_find_object", &symbol, &word);
	libcs = (uint64_t)dlsym(RTLD_DEFAULT, "_dl_find_object");
	attach(&tool, 0);
	set_up(&tool, 0);
	begin(&tool);
	__atomic_store_n(&shared->order, ((shared->order >> 4) + 1) << 4 | LOAD, __ATOMIC_SEQ_CST);
	for (int i = 0; !((struct calltap_arena *)tool.arena_memory)->request; i++) {
		assert_true(i < PATIENCE);
		usleep(1000);
	}
	/* What answers an earlier report lets nobody go, and is not done. */
	tell(&tool, &go, NULL, 0);
	tell_plan(&tool, 2, CALLTAP_PLAN_FRESH, PLAIN);
	assert_int_equal(((struct calltap_msg_plan_done *)hear(&tool, CALLTAP_MSG_PLAN_DONE))->error, -ETIMEDOUT);
	usleep(20000);
	assert_true(shared->done != shared->order);
	tell(&tool, &rescan, NULL, 0);
	base = hear_base(&tool);
	assert_true(base != 0);
	before = word_at(&tool, base + symbol + 8);
	out.message.base = base;
	out.pointers[0] =
		(struct calltap_pointer){base + symbol, CALLTAP_POINTER_DL_FIND_OBJECT, CALLTAP_POINTER_SYMBOL};
	out.pointers[1] = (struct calltap_pointer){base + word, CALLTAP_POINTER_DL_FIND_OBJECT, CALLTAP_POINTER_WORD};
	tell(&tool, &out, NULL, 0);
	tell(&tool, &go, NULL, 0);
	while (shared->done != shared->order)
		usleep(1000);
	assert_true(word_at(&tool, base + word) != 0);
	assert_true(word_at(&tool, base + word) != libcs);
	park(true);
	detach(&tool, CALLTAP_DETACH_RELEASE);
	assert_int_equal(release(&tool).pointers, 4);
	park(false);
	assert_int_equal(word_at(&tool, base + word), libcs);
	assert_int_equal(word_at(&tool, base + symbol + 8), before);
	text_is_own(&tool, false);
	finish(&tool);
}

static void another_map_than_was_reported(void **state)
{
	const struct calltap_msg rescan = {CALLTAP_MSG_RESCAN, sizeof(rescan)};
	struct tool tool;

	start(&tool);
	attach(&tool, 0);
	set_up(&tool, 0);
	hear_objects(&tool);
	send_plan(&tool, 1, CALLTAP_PLAN_STOPPED, PLAIN);
	order(&tool, LOAD);
	park(true);
	assert_int_equal(apply(&tool, 0, 0).error, -ESTALE);
	text_is_own(&tool, false);
	park(false);
	tell(&tool, &rescan, NULL, 0);
	assert_true(hear_base(&tool) != 0);
	park(true);
	assert_int_equal(apply(&tool, 0, 0).patched, 4);
	park(false);
	detach(&tool, 0);
	finish(&tool);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_comes_and_goes),
		cmocka_unit_test(it_is_steered),
		cmocka_unit_test(the_tool_may_die_at_any_step),
		cmocka_unit_test(another_map_than_was_reported),
		cmocka_unit_test(what_is_loaded_later_leads_to_the_agent),
		cmocka_unit_test(a_second_tool_is_refused),
		cmocka_unit_test(a_site_that_a_thread_is_in_is_left_alone),
		cmocka_unit_test(a_recording_goes_on_without_the_tool),
		cmocka_unit_test(a_forked_child_is_followed_or_let_be),
	};

	agent_path = argc > 1 ? argv[1] : "";
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED)
		return 1;
	if (argc > 2)
		cmocka_set_test_filter(argv[2]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
