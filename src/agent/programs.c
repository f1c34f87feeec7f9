/*
 * Programs for functions' values: PROGRAMS (abi/control.h, abi/program.h), and where they count: COUNTS.
 *
 * The code is mapped behind a page with the helpers' addresses, as one more region of blocks (blocks.c): so unwinders
 * and debuggers find its rules.  All of it stays until the session lets go of the process.  Called by the control
 * thread. Context: control.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/mman.h>

#include <agent/agent.h>
#include <base/mem.h>
#include <base/sys.h>
#include <probe/caller.h>
#include <probe/count.h>
#include <probe/program.h>
#include <probe/stack_id.h>

static struct probe_programs programs;
static void *tables; /* the whole file, NULL = there is none */
static struct calltap_map *counts;
static int counts_error; /* why there are none, though there was a COUNTS */

/* The helpers that lie in files of their own. */
static void put_helpers(uint64_t *helpers)
{
	helpers[CALLTAP_HELPER_VECTOR] = agent_vectors_helper();
	helpers[CALLTAP_HELPER_COUNT] = (uint64_t)probe_help_count;
	helpers[CALLTAP_HELPER_FIND] = (uint64_t)probe_help_find;
	helpers[CALLTAP_HELPER_LOOKUP] = (uint64_t)probe_help_lookup;
	helpers[CALLTAP_HELPER_UPDATE] = (uint64_t)probe_help_update;
	helpers[CALLTAP_HELPER_DELETE] = (uint64_t)probe_help_delete;
	helpers[CALLTAP_HELPER_TIME] = (uint64_t)probe_help_time;
	helpers[CALLTAP_HELPER_PID] = (uint64_t)probe_help_pid;
	helpers[CALLTAP_HELPER_TID] = (uint64_t)probe_help_tid;
	helpers[CALLTAP_HELPER_COMM] = (uint64_t)probe_help_comm;
	helpers[CALLTAP_HELPER_STACK] = (uint64_t)probe_help_stack;
	helpers[CALLTAP_HELPER_MATCH_COMM] = (uint64_t)probe_help_match_comm;
}

/* The page of helpers, and the code behind it.  The address of the page, or -errno as one. */
static long map_code(int fd)
{
	uint64_t size = CALLTAP_PAGE + CALLTAP_PROGRAM_CODE;
	void *page = sys_mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	void *code;

	if (sys_failed((long)page))
		return (long)page;
	memcpy(page, probe_program_helpers, sizeof(probe_program_helpers));
	put_helpers(page);
	code = sys_mmap((char *)page + CALLTAP_PAGE, CALLTAP_PROGRAM_CODE, PROT_READ | PROT_EXEC,
			MAP_SHARED | MAP_FIXED, fd, CALLTAP_PROGRAM_CODE_AT);
	if (!sys_failed((long)code) && !sys_failed(SYS(mprotect, page, CALLTAP_PAGE, PROT_READ, 0, 0, 0)))
		return (long)page;
	sys_munmap(page, size);
	return sys_failed((long)code) ? (long)code : -EACCES;
}

/* Emulators have no such call, and some containers let none pass: asked once, if a sandbox does not end the program. */
static bool copies(void)
{
	uint64_t word = 0, copy;

	return agent.blind || sys_copy_in(&copy, (uint64_t)&word, sizeof(copy));
}

static int use(int fd)
{
	void *made = agent_map(fd, CALLTAP_PROGRAMS_SIZE, PROT_READ, MAP_SHARED | MAP_NORESERVE, F_SEAL_SHRINK);
	long page = sys_failed((long)made) ? (long)made : map_code(fd);
	uint64_t code = (uint64_t)page + CALLTAP_PAGE;
	int ret = (int)page;

	if (!sys_failed(page))
		ret = agent_blocks_add((uint64_t)page, code + CALLTAP_PROGRAM_CODE, code + CALLTAP_PROGRAM_UNWIND,
				       CALLTAP_UNWIND_BYTES);
	if (ret) {
		if (!sys_failed(page))
			sys_munmap((void *)page, CALLTAP_PAGE + CALLTAP_PROGRAM_CODE);
		if (!sys_failed((long)made))
			sys_munmap(made, CALLTAP_PROGRAMS_SIZE);
		return ret;
	}
	tables = made;
	programs = (struct probe_programs){
		.constants = agent_constants_find(),
		.no_copies = !copies(),
		.rows = made,
		.list = (const struct calltap_program *)((const char *)made + CALLTAP_PROGRAMS_AT),
		.code = code,
	};
	probe_program_set(&programs);
	return 0;
}

int agent_programs_take(const struct calltap_msg_programs *message, int fd)
{
	struct calltap_msg_programs_done done = {.head = {CALLTAP_MSG_PROGRAMS_DONE, sizeof(done)}};

	if (message->head.size != sizeof(*message) || fd < 0)
		return -EPROTO;
	if (message->size != CALLTAP_PROGRAMS_SIZE || tables)
		done.error = -EINVAL;
	else if (counts_error)
		done.error = counts_error;
	else if (agent.no_handled) /* a sandbox may end the program for these calls */
		done.error = -EPERM;
	else
		done.error = use(fd);
	return agent_send(&done, sizeof(done));
}

int agent_counts_take(const struct calltap_msg_counts *message, int fd)
{
	void *made;

	if (message->head.size != sizeof(*message) || fd < 0)
		return -EPROTO;
	if (message->size != sizeof(*counts) || counts || tables) {
		counts_error = -EINVAL;
		return 0;
	}
	made = agent_map(fd, sizeof(*counts), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, F_SEAL_SHRINK);
	counts_error = sys_failed((long)made) ? (int)(long)made : 0;
	if (!counts_error)
		counts = made;
	probe_counts_set(counts, message->flags, agent.image_id);
	return 0;
}

void agent_programs_release(void)
{
	probe_program_set(NULL);
	probe_counts_set(NULL, 0, 0);
	agent_unmap(counts, sizeof(*counts));
	counts_error = 0;
	agent_unmap(tables, CALLTAP_PROGRAMS_SIZE);
}
