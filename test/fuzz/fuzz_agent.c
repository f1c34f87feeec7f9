/*
 * The agent's whole conversation with a tool that sends anything: the real agent, patch and probe code, with a socket
 * whose packets are the input.
 *
 * An input is a list of packets: flags, u16 size, bytes, number of descriptors; for each descriptor its pages of
 * memory (| UNSEALED), a step, u16 and u16 sizes, bytes for the start of its first page, and bytes for its second page
 * and each page a step further.  Sites at low addresses are moved to the fuzzer's own text.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <agent/agent.h>
#include <agent/libc.h>
#include <base/sys.h>

#include "fuzz.h"
#include <text.h>

#define SOCKET	   1000 /* no descriptor that we have */
#define DESCRIPTOR 500	/* the first of those that come with packets; the end of the thread would close them */
/* Flags of a packet: the events after it. */
#define PACKET_IDLE   1 /* the tool sends nothing for a second */
#define PACKET_RECORD 2 /* the program calls traced functions */
#define PACKET_LATE   4 /* whom the tool holds has waited long enough, and runs on */
#define TEXT	      0x10000000ul
#define TEXT_SIZE     0x10000ul
#define NOP_SIZE      (sizeof(TEXT_NOP) - 1)
#define RETURN_SIZE   (sizeof(TEXT_RETURN) - 1)
#define MAPPINGS_MAX  4096
#define DESCRIPTORS   4
#define UNSEALED      0x80
#define RECORDS	      700 /* more than a sub-buffer of 4 KiB holds */

struct mapping {
	void *at;
	size_t size;
};

/* The state of the fake system calls; the agent calls them without a context. */
static struct {
	struct input input;
	uint8_t flags;
	struct mapping mappings[MAPPINGS_MAX];
	unsigned mapping_count;
} bench;

/* debugger.c's list of what it has shown, laid out as gdb wants it. */
struct jit_descriptor {
	uint32_t version, action;
	void *relevant, *first;
};
extern struct jit_descriptor __jit_debug_descriptor;

struct r_debug _r_debug;

/* No loader lists an unwinder here. */
void agent_unwinder_look(void)
{
}

/* Nor is memory limited. */
void agent_planes_limit(void)
{
}

static void record(void)
{
	struct probe_thread *thread = &probe_thread;

	if (!probe_context.enabled)
		return;
	probe_context.shared.reader_gone = 1; /* the probe would rightly wait for a reader */
	for (int i = 0; i < RECORDS && probe_thread_attach(thread); i++)
		(void)probe_record(thread, CALLTAP_REC_CALL, 1, 2, TEXT);
	probe_context.shared.reader_gone = 0;
}

static long fake_poll(void)
{
	bool idle;

	if (bench.flags & PACKET_LATE)
		agent.hold = AGENT_FREE;
	if (bench.flags & PACKET_RECORD)
		record();
	idle = bench.flags & PACKET_IDLE;
	bench.flags = 0;
	return !idle;
}

/* Sites of the inputs replace no-ops of one byte, where those of this CPU are longer: then they replace its own. */
static void fit(struct calltap_site *site)
{
	if (NOP_SIZE == 1 || site->old[0] != 0x90)
		return;
	site->length = site->body_off = ARCH_SITE_MAX;
	site->address -= site->address % ARCH_SITE_ALIGN;
	for (size_t i = 0; i < ARCH_SITE_MAX; i++)
		site->old[i] = (uint8_t)TEXT_NOP[i % NOP_SIZE];
}

/* A descriptor of an input's packet. */
static int take_memory(bool sites)
{
	uint8_t shape = input_byte(&bench.input);
	size_t pages = shape % 64, step = input_byte(&bench.input), first = input_u16(&bench.input),
	       second = input_u16(&bench.input);
	const uint8_t *bytes = input_bytes(&bench.input, first, &first);
	int fd = input_file(bytes, first), moved;

	bytes = input_bytes(&bench.input, second, &second);
	for (size_t page = 1; page < pages; page += step ? step : pages)
		if (pwrite(fd, bytes, second, (off_t)(page * CALLTAP_PAGE)) < 0)
			abort();
	if (pages && ftruncate(fd, (off_t)(pages * CALLTAP_PAGE)))
		abort();
	for (off_t at = 0; sites && at + (off_t)sizeof(struct calltap_site) <= (off_t)first;
	     at += (off_t)sizeof(struct calltap_site)) {
		struct calltap_site site;

		if (pread(fd, &site, sizeof(site), at) != sizeof(site))
			break;
		if (site.address < TEXT_SIZE)
			site.address += TEXT;
		fit(&site);
		if (pwrite(fd, &site, sizeof(site), at) != sizeof(site))
			abort();
	}
	moved = fcntl(fd, F_DUPFD_CLOEXEC, DESCRIPTOR);
	if (moved < 0 || close(fd))
		abort();
	if (!(shape & UNSEALED) && fcntl(moved, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | (sites ? F_SEAL_WRITE : 0)))
		abort();
	return moved;
}

static void take_descriptors(struct msghdr *header, bool sites)
{
	unsigned count = input_byte(&bench.input) % DESCRIPTORS;
	struct cmsghdr *cmsg = header->msg_control;

	memset(header->msg_control, 0, header->msg_controllen);
	if (!count) {
		header->msg_controllen = 0;
		return;
	}
	cmsg->cmsg_level = SOL_SOCKET;
	cmsg->cmsg_type = SCM_RIGHTS;
	cmsg->cmsg_len = CMSG_LEN(count * sizeof(int));
	for (unsigned i = 0; i < count; i++) {
		int fd = take_memory(sites);

		memcpy(CMSG_DATA(cmsg) + i * sizeof(fd), &fd, sizeof(fd));
	}
}

static long fake_receive(struct msghdr *header)
{
	size_t size;
	const uint8_t *bytes;
	struct calltap_msg *message = header->msg_iov->iov_base;

	bench.flags = input_byte(&bench.input);
	bytes = input_bytes(&bench.input, input_u16(&bench.input), &size);
	header->msg_flags = size > header->msg_iov->iov_len ? MSG_TRUNC : 0;
	if (header->msg_flags)
		size = header->msg_iov->iov_len;
	memcpy(message, bytes, size);
	take_descriptors(header, size >= sizeof(*message) && message->type == CALLTAP_MSG_PLAN);
	return (long)size;
}

static long fake_send(const struct calltap_msg *message, size_t size)
{
	fuzz_expect(size >= sizeof(*message) && message->size == size && size <= CALLTAP_MSG_MAX,
		    "what the agent says is well formed");
	fuzz_expect(message->type >= CALLTAP_MSG_HELLO && message->type <= CALLTAP_MSG_PLANS,
		    "the agent says what an agent may say");
	fuzz_taken |= message->type == CALLTAP_MSG_OBJECTS_END; /* SETUP was good */
	return (long)size;
}

static long map(long at, long size, long prot, long flags, long fd, long offset)
{
	void *got = mmap((void *)at, (size_t)size, (int)prot, (int)flags, (int)fd, offset);

	if (got == MAP_FAILED)
		return -errno;
	if (bench.mapping_count == MAPPINGS_MAX) {
		munmap(got, (size_t)size);
		return -ENOMEM;
	}
	bench.mappings[bench.mapping_count++] = (struct mapping){got, (size_t)size};
	return (long)got;
}

static long unmap(long at, long size)
{
	for (unsigned i = 0; i < bench.mapping_count; i++)
		if ((long)bench.mappings[i].at == at) {
			bench.mappings[i] = bench.mappings[--bench.mapping_count];
			break;
		}
	return munmap((void *)at, (size_t)size);
}

static long fake_peer(struct ucred *peer)
{
	peer->uid = geteuid();
	return 0;
}

long fuzz_syscall(long nr, long a, long b, long c, long d, long e, long f)
{
	switch (nr) {
	case SYS_socket:
		return SOCKET;
	case SYS_connect:
	case SYS_chdir:
	case SYS_prctl:
	case SYS_close_range:
	case SYS_futex:
		return 0;
	case SYS_getsockopt:
		return fake_peer((struct ucred *)d);
	case SYS_sendto:
		return fake_send((const struct calltap_msg *)b, (size_t)c);
	case SYS_recvmsg:
		return fake_receive((struct msghdr *)b);
	case SYS_ppoll:
		return fake_poll();
	case SYS_mmap:
		return map(a, b, c, d, e, f);
	case SYS_munmap:
		return unmap(a, b);
	default:
		return a == SOCKET && nr == SYS_close ? 0 : real_syscall(nr, a, b, c, d, e, f);
	}
}

/* The control thread runs here and now. */
long fuzz_thread_start(unsigned long flags, void *stack_top, int (*fn)(void *), void *arg, int *child_tid)
{
	(void)flags, (void)stack_top, (void)child_tid;
	fn(arg);
	return 1;
}

/* Functions of no-ops and a return, 16 bytes each; as fresh as on the first day. */
static uint8_t *make_text(void)
{
	uint8_t *text =
		mmap((void *)TEXT, TEXT_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);

	if (text == MAP_FAILED)
		abort();
	for (size_t i = 0; i < TEXT_SIZE; i += NOP_SIZE)
		memcpy(text + i, TEXT_NOP, NOP_SIZE);
	for (size_t i = 16; i <= TEXT_SIZE; i += 16)
		memcpy(text + i - RETURN_SIZE, TEXT_RETURN, RETURN_SIZE);
	memcpy(text, TEXT_EMPTY, sizeof(TEXT_EMPTY) - 1);
	if (mprotect(text, TEXT_SIZE, PROT_READ | PROT_EXEC))
		abort();
	return text;
}

/* Each jump that is left in the text leads to another place in it, or to a stub. */
static void check_text(const uint8_t *text)
{
	for (uint64_t i = CALLTAP_PAGE; i < TEXT_SIZE - CALLTAP_PAGE; i += NOP_SIZE) {
		uint64_t target = i % 16 > 10 ? 0 : text_jump(text + i);

		fuzz_expect(!target || probe_region_of(target) || target - TEXT < TEXT_SIZE, "a site leads to a stub");
	}
}

/* As after exec; the thread's block as its image in the file has it. */
static void begin(const struct probe_thread *fresh)
{
	static struct link_map map = {.l_name = (char *)"", .l_addr = TEXT};

	memset(&agent, 0, sizeof(agent));
	probe_handled_set(NULL);
	memset(&probe_context, 0, sizeof(probe_context));
	memcpy(&probe_thread, fresh, sizeof(*fresh));
	__jit_debug_descriptor = (struct jit_descriptor){.version = 1};
	strcpy(agent.session, "fuzz");
	_r_debug = (struct r_debug){.r_map = &map, .r_brk = TEXT};
	if (agent_memory_init())
		abort();
}

static void end(void)
{
	fuzz_expect(!probe_context.enabled && probe_context.shared.reader_gone && !agent.live, "the agent has let go");
	if (agent.poker.mem_fd > 0)
		close(agent.poker.mem_fd);
	close_range(DESCRIPTOR, SOCKET, 0);
	while (bench.mapping_count)
		unmap((long)bench.mappings[0].at, (long)bench.mappings[0].size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct probe_thread fresh;
	static bool known;
	uint8_t *text = make_text();

	if (!known)
		fresh = probe_thread;
	known = true;
	bench.input = (struct input){data, size};
	begin(&fresh);
	agent_control_start();
	check_text(text);
	end();
	return 0;
}
