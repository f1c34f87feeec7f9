/*
 * The tool's side of an attach, by hand (toolside.h).
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "arena.h"
#include "toolside.h"

#define STUB_ROOM 128u
#define GATE_ROOM 16u /* x86-64: free before stubs without a gate, where others have one */

uint64_t tool_site(uint64_t function)
{
	return function + (memcmp((void *)function, "\xf3\x0f\x1e\xfa", 4) ? 0 : 4);
}

void tool_order_only(enum order what)
{
	uint32_t number = ((__atomic_load_n(&shared->order, __ATOMIC_SEQ_CST) >> 4) + 1) << 4 | what;

	__atomic_store_n(&shared->order, number, __ATOMIC_SEQ_CST);
}

void tool_await(const struct tool *tool)
{
	for (int i = 0; __atomic_load_n(&shared->done, __ATOMIC_SEQ_CST) != shared->order; i++) {
		assert_int_equal(waitpid(tool->pid, NULL, WNOHANG), 0);
		assert_true(i < 10 * PATIENCE);
		usleep(100);
	}
}

void tool_order(const struct tool *tool, enum order what)
{
	tool_order_only(what);
	tool_await(tool);
}

void tool_park(bool on)
{
	__atomic_store_n(&shared->park, on, __ATOMIC_SEQ_CST);
	while (__atomic_load_n(&shared->parked, __ATOMIC_SEQ_CST) != (on ? WORKERS : 0))
		usleep(100);
	if (on)
		usleep(2000);
}

void tool_run_on(const struct tool *tool)
{
	uint32_t until[WORKERS];

	for (uint32_t i = 0; i < WORKERS; i++)
		until[i] = __atomic_load_n(&shared->own_rounds[i], __ATOMIC_SEQ_CST) + 20;
	for (uint32_t worker = 0, waited = 0; worker < WORKERS; waited++) {
		if (__atomic_load_n(&shared->own_rounds[worker], __ATOMIC_SEQ_CST) >= until[worker]) {
			worker++;
			continue;
		}
		assert_int_equal(waitpid(tool->pid, NULL, WNOHANG), 0);
		assert_true(waited < PATIENCE);
		usleep(1000);
	}
	assert_int_equal(shared->wrong, 0);
}

void tool_start(struct tool *tool)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	socklen_t size;

	static unsigned count;
	static pid_t last;

	if (last && !waitpid(last, NULL, WNOHANG)) { /* the process of a test that failed, which shares our memory */
		kill(last, SIGKILL);
		waitpid(last, NULL, 0);
	}
	*tool = (struct tool){.socket = -1};
	memset(shared, 0, sizeof(*shared));
	tool->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
			   (size_t)snprintf(address.sun_path + 1, 100, "calltap-test-%d-%u", getpid(), count++));
	snprintf(shared->session, sizeof(shared->session), "%s:1234", address.sun_path + 1);
	assert_int_equal(bind(tool->listener, (struct sockaddr *)&address, size), 0);
	assert_int_equal(listen(tool->listener, 4), 0);
	tool->pid = fork();
	if (!tool->pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(tool->listener);
		process();
	}
	last = tool->pid;
	while (!shared->rounds)
		usleep(1000);
}

void tool_finish(struct tool *tool)
{
	int status;

	tool_run_on(tool);
	tool_order_only(QUIT);
	assert_int_equal(waitpid(tool->pid, &status, 0), tool->pid);
	assert_int_equal(status, 0);
	close(tool->listener);
	if (tool->socket >= 0)
		close(tool->socket);
}

void tool_tell(struct tool *tool, const void *message, const int *fds, unsigned count)
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

void *tool_hear(struct tool *tool, uint32_t type)
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

void tool_hear_end(struct tool *tool)
{
	struct pollfd poll_ = {tool->socket, POLLIN, 0};

	assert_int_equal(poll(&poll_, 1, PATIENCE), 1);
	assert_int_equal(recv(tool->socket, tool->message, sizeof(tool->message), 0), 0);
	close(tool->socket);
	tool->socket = -1;
}

int tool_memory(size_t size, int seals)
{
	int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)size), 0);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
	return fd;
}

static int make_arena(struct tool *tool)
{
	struct calltap_arena *arena;
	int fd;

	tool->arena_size = arena_size(RINGS, SUB, SUBS);
	fd = tool_memory(tool->arena_size, F_SEAL_SHRINK);
	arena = mmap(NULL, tool->arena_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(arena, MAP_FAILED);
	arena_fill(arena, CALLTAP_MODE_OVERWRITE, RINGS, SUB, SUBS);
	tool->arena_memory = (char *)arena;
	return fd;
}

const struct calltap_ring *tool_ring(const struct tool *tool, uint32_t index)
{
	return (const void *)(tool->arena_memory + PAGE + index * (PAGE + SUB * SUBS));
}

uint64_t tool_recorded(const struct tool *tool)
{
	uint64_t opened = 0;

	for (uint32_t i = 0; i < RINGS; i++)
		opened += tool_ring(tool, i)->opened;
	return opened;
}

void tool_accept(struct tool *tool, uint32_t flags)
{
	struct pollfd poll_ = {tool->listener, POLLIN, 0};

	assert_int_equal(poll(&poll_, 1, PATIENCE), 1);
	tool->socket = accept4(tool->listener, NULL, NULL, SOCK_CLOEXEC);
	assert_true(tool->socket >= 0);
	tool->hello = *(struct calltap_msg_hello *)tool_hear(tool, CALLTAP_MSG_HELLO);
	assert_int_equal(tool->hello.flags, flags);
	assert_int_equal(tool->hello.key, 0x1234);
	for (uint32_t told = 0; told < tool->hello.plans;)
		told += ((struct calltap_msg_plans *)tool_hear(tool, CALLTAP_MSG_PLANS))->count;
}

void tool_set_up(struct tool *tool, uint32_t flags)
{
	int board = tool_memory(PAGE, F_SEAL_SHRINK), arena = make_arena(tool), fds[] = {board, arena};
	struct calltap_msg_setup setup = {
		.head = {CALLTAP_MSG_SETUP, sizeof(setup)},
		.mode = CALLTAP_MODE_OVERWRITE,
		.arena_size = tool->arena_size,
		.flags = flags,
	};

	tool_tell(tool, &setup, fds, 2);
	close(board);
	close(arena);
}

unsigned tool_hear_objects(struct tool *tool)
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
		tool_hear(tool, CALLTAP_MSG_OBJECT);
	}
	tool_hear(tool, CALLTAP_MSG_OBJECTS_END);
	return count;
}

void tool_send_pointers(struct tool *tool)
{
	const struct calltap_pointer pointers[4] = {
		{(uint64_t)&words[0], CALLTAP_POINTER_LONGJMP, CALLTAP_POINTER_WORD},
		{(uint64_t)&words[1], CALLTAP_POINTER_SIGALTSTACK, CALLTAP_POINTER_WORD},
		{8, CALLTAP_POINTER_PRCTL, CALLTAP_POINTER_WORD}, /* no pointer is at this address */
		{(uint64_t)&words[0] + 1, CALLTAP_POINTER_PRCTL, CALLTAP_POINTER_WORD}, /* not aligned */
	};
	union {
		struct calltap_msg_pointers message;
		uint8_t bytes[sizeof(struct calltap_msg_pointers) + sizeof(pointers)];
	} out = {.message = {.head = {CALLTAP_MSG_POINTERS, sizeof(out)}, .count = 4, .identity = tool->identity}};

	memcpy(out.message.pointers, pointers, sizeof(pointers));
	tool_tell(tool, &out, NULL, 0);
}

void tool_tell_plan(struct tool *tool, uint64_t id, uint32_t live, const uint16_t flags[4])
{
	const uint64_t all[] = {functions[0], functions[1], functions[2], (uint64_t)waits};
	struct calltap_site sites[4] = {{0}};
	struct calltap_msg_plan plan = {
		.head = {CALLTAP_MSG_PLAN, sizeof(plan)},
		.plan_id = id,
		.identity = tool->identity,
		.near_lo = ~(uint64_t)0,
		.stub_bytes = 4 * STUB_ROOM,
		.site_count = 4,
		.live = live,
	};
	uint16_t any = flags[0] | flags[1] | flags[2] | flags[3];
	int fd;

	for (uint32_t i = 0; i < 4; i++) {
		uint64_t at = tool_site(all[i]) + tool->plan_moved;
		uint32_t place = 0;

		/* In the order of their addresses. */
		for (uint32_t k = 0; k < 4; k++)
			place += all[k] < all[i];
		sites[place] = (struct calltap_site){
			.address = at,
			.id = i + 1,
			.stub_off = ARCH_REGION_HEAD + place * STUB_ROOM +
				    ((any & ~flags[i]) & CALLTAP_SITE_GATED ? GATE_ROOM : 0),
			.flags = flags[i],
			.length = 5,
			.body_off = 5,
		};
		memcpy(sites[place].old, (const void *)all[i], 5); /* no-ops: no site is written here */
		plan.near_lo = at < plan.near_lo ? at : plan.near_lo;
		plan.near_hi = at + 64 > plan.near_hi ? at + 64 : plan.near_hi;
	}
	fd = memfd_create("plan", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	assert_int_equal(write(fd, sites, sizeof(sites)), sizeof(sites));
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE), 0);
	tool_tell(tool, &plan, &fd, 1);
	close(fd);
}

void tool_send_plan(struct tool *tool, uint64_t id, uint32_t live, const uint16_t flags[4])
{
	const struct calltap_msg_plan_done *done;

	tool_tell_plan(tool, id, live, flags);
	done = tool_hear(tool, CALLTAP_MSG_PLAN_DONE);
	assert_int_equal(done->error, 0);
	assert_int_equal(done->plan_id, id);
	assert_int_equal(done->patched, 0);
}

struct calltap_msg_apply_done tool_apply(struct tool *tool, uint32_t flags, uint64_t skip)
{
	union {
		struct calltap_msg_apply message;
		uint8_t bytes[sizeof(struct calltap_msg_apply) + sizeof(skip)];
	} out = {.message = {.head = {CALLTAP_MSG_APPLY, sizeof(out.message) + (skip ? sizeof(skip) : 0)},
			     .flags = flags,
			     .count = skip != 0}};

	out.message.skips[0] = skip;
	tool_tell(tool, &out, NULL, 0);
	return *(struct calltap_msg_apply_done *)tool_hear(tool, CALLTAP_MSG_APPLY_DONE);
}

void tool_tell_switch(struct tool *tool, uint64_t plan, bool on)
{
	union {
		struct calltap_msg_switch message;
		uint8_t bytes[sizeof(struct calltap_msg_switch) + 5 * sizeof(uint32_t)];
	} out = {.message = {.head = {CALLTAP_MSG_SWITCH, sizeof(out.bytes)}, .plan_id = plan, .on = on, .count = 5}};

	for (uint32_t i = 0; i < 5; i++)
		out.message.sites[i] = i;
	tool_tell(tool, &out, NULL, 0);
}

void tool_hear_switch(struct tool *tool)
{
	const struct calltap_msg_switch_done *done = tool_hear(tool, CALLTAP_MSG_SWITCH_DONE);

	assert_int_equal(done->switched, 4);
	assert_int_equal(done->failed, 1); /* there is no function with number five */
}

void tool_lead_to(struct tool *tool, uint64_t plan, bool on)
{
	tool_tell_switch(tool, plan, on);
	tool_hear_switch(tool);
}

void tool_set(struct tool *tool, uint32_t depth_max, uint32_t tree_filter)
{
	const struct calltap_msg_set set = {{CALLTAP_MSG_SET, sizeof(set)}, depth_max, tree_filter, 0};

	tool_tell(tool, &set, NULL, 0);
}

void tool_tell_release(struct tool *tool)
{
	union {
		struct calltap_msg_release message;
		uint8_t bytes[sizeof(struct calltap_msg_release) + (WORKERS + 1) * sizeof(uint64_t)];
	} out = {.message = {.head = {CALLTAP_MSG_RELEASE, sizeof(out)}, .thread_count = WORKERS + 1}};

	memcpy(out.message.words, shared->pointers, (WORKERS + 1) * sizeof(uint64_t));
	tool_tell(tool, &out, NULL, 0);
}

struct calltap_msg_released tool_release(struct tool *tool)
{
	tool_tell_release(tool);
	return *(struct calltap_msg_released *)tool_hear(tool, CALLTAP_MSG_RELEASED);
}

void tool_attach(struct tool *tool, uint32_t flags)
{
	for (int i = 0; i < PATIENCE; i++) { /* the agent of the last session may be on its way out */
		tool_order(tool, ATTACH);
		if (shared->result != -EBUSY)
			break;
		usleep(1000);
	}
	if (shared->result)
		fail_msg("%s", shared->error);
	tool_accept(tool, CALLTAP_HELLO_ATTACHED | flags);
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

void tool_begin(struct tool *tool)
{
	struct calltap_msg_apply_done done;
	const struct calltap_msg go = {CALLTAP_MSG_GO, sizeof(go)};

	assert_true(tool_hear_objects(tool) >= 3);
	tool_send_pointers(tool);
	tool_send_plan(tool, 1, CALLTAP_PLAN_STOPPED, (const uint16_t[4]){0});
	tool_park(true);
	done = tool_apply(tool, 0, 0);
	assert_int_equal(done.error, 0);
	assert_int_equal(done.patched, 4);
	assert_int_equal(done.failed, 0);
	assert_int_equal(done.pointers, 2);
	assert_int_equal(done.flags, 0);
	tool_park(false);
	pointers_lead_to_the_agent(tool);
	tool_tell(tool, &go, NULL, 0);
	tool_run_on(tool);
	assert_true(tool_recorded(tool) >= WORKERS);
}

void tool_tell_detach(struct tool *tool, uint32_t flags)
{
	const struct calltap_msg_detach detach_ = {{CALLTAP_MSG_DETACH, sizeof(detach_)}, flags, 0};

	tool_tell(tool, &detach_, NULL, 0);
}

void tool_hear_detached(struct tool *tool)
{
	const struct calltap_msg_detached *done = tool_hear(tool, CALLTAP_MSG_DETACHED);

	assert_int_equal(done->restored, tool->identity ? 0 : 4);
	assert_int_equal(done->left, 0);
	munmap(tool->arena_memory, tool->arena_size);
}

void tool_detach(struct tool *tool, uint32_t flags)
{
	tool_tell_detach(tool, flags);
	tool_hear_detached(tool);
}

void tool_begin_all(struct tool *tool, uint32_t setup_flags)
{
	tool_start(tool);
	tool_attach(tool, 0);
	tool_set_up(tool, setup_flags);
	tool_begin(tool);
}

void tool_let_go(struct tool *tool)
{
	tool_park(true);
	tool_detach(tool, CALLTAP_DETACH_RELEASE);
	assert_int_equal(tool_release(tool).error, 0);
	tool_park(false);
}

bool tool_take_arguments(int argc, char **argv)
{
	agent_path = argc > 1 ? argv[1] : "";
	if (argc > 2)
		cmocka_set_test_filter(argv[2]);
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	return shared != MAP_FAILED;
}
