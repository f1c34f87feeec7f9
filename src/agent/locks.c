/*
 * Programs that lock their memory, as those that must not wait for a page do: mlockall().  The kernel counts all that
 * is mapped, and brings it into memory at once; buffers of 64 MiB and more, and planes of which some words are used,
 * are no part of what the program means.  So the agent stands in front of mlockall(), and has the program's own
 * mappings locked one by one; what it maps later is taken out of the locks before it may be used.
 *
 * A program that locks by system calls of its own gets what the kernel gives it.  Context: control, on the program's
 * thread.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>

#include <agent/agent.h>
#include <agent/libc.h>
#include <base/mem.h>
#include <base/sys.h>
#include <probe/space.h>

#ifndef MCL_ONFAULT
#define MCL_ONFAULT 4
#endif
#define LOCK_ONFAULT 1u /* MLOCK_ONFAULT, of mlock2() */
#define TEXT_MAX     2048
#define PROGRAMS_END (1ul << ARCH_ADDRESS_BITS)

/* /proc/thread-self/maps, read piece by piece. */
struct reader {
	int fd;
	size_t at, size; /* of the text that is not used yet */
	char text[TEXT_MAX];
};

struct mapping {
	uint64_t lo, hi;
	bool shut; /* no access at all */
	bool ours;
};

static int (*next_mlockall)(int flags);

static int next_char(struct reader *reader)
{
	if (reader->at == reader->size) {
		long got = SYS(read, reader->fd, reader->text, sizeof(reader->text), 0, 0, 0);

		if (got <= 0)
			return -1;
		reader->at = 0;
		reader->size = (size_t)got;
	}
	return (unsigned char)reader->text[reader->at++];
}

/* The next number in hexadecimal; *end: the character behind it. */
static uint64_t next_number(struct reader *reader, int *end)
{
	uint64_t value = 0;
	int digit;

	for (;;) {
		*end = digit = next_char(reader);
		if (digit >= '0' && digit <= '9')
			value = value << 4 | (uint64_t)(digit - '0');
		else if (digit >= 'a' && digit <= 'f')
			value = value << 4 | (uint64_t)(digit - 'a' + 10);
		else
			return value;
	}
}

static bool is_of_agent(uint64_t lo)
{
	return probe_space_has_plane(lo) || lo == (uint64_t)probe_context.wiped;
}

/* Read the next line; false: there is none. */
static bool next_mapping(struct reader *reader, struct mapping *mapping)
{
	static const char name[] = "/memfd:calltap-";
	size_t same = 0;
	int c;

	mapping->lo = next_number(reader, &c);
	mapping->hi = c == '-' ? next_number(reader, &c) : 0;
	if (c < 0 || !mapping->hi)
		return false;
	mapping->shut = true;
	for (int i = 0; i < 3; i++)
		mapping->shut &= (c = next_char(reader)) == '-';
	mapping->ours = is_of_agent(mapping->lo);
	while (c >= 0 && c != '\n') {
		c = next_char(reader);
		same = c == name[same] ? same + 1 : c == name[0];
		mapping->ours |= same == sizeof(name) - 1;
		same = same == sizeof(name) - 1 ? 0 : same;
	}
	return true;
}

typedef long mapping_fn(const struct mapping *mapping, int flags);

/* Whether the limit allows it the first call tells; what of it can be brought into memory mlockall() does not tell. */
static long lock(const struct mapping *mapping, int flags)
{
	uint64_t size = mapping->hi - mapping->lo;
	long ret = SYS(mlock2, mapping->lo, size, LOCK_ONFAULT, 0, 0, 0);

	if (!sys_failed(ret) && !mapping->shut && !(flags & MCL_ONFAULT))
		SYS(mlock, mapping->lo, size, 0, 0, 0, 0);
	return ret;
}

static long unlock(const struct mapping *mapping, int flags)
{
	(void)flags;
	return SYS(munlock, mapping->lo, mapping->hi - mapping->lo, 0, 0, 0, 0);
}

/* Visit the program's own mappings below an address.  Returns 0, or what the one has returned that failed, at *failed.
 */
static long each_mapping(mapping_fn *visit, int flags, uint64_t below, uint64_t *failed)
{
	struct reader reader = {.at = 0};
	struct mapping mapping;
	long ret = SYS(openat, AT_FDCWD, "/proc/thread-self/maps", O_RDONLY | O_CLOEXEC, 0, 0, 0);

	*failed = 0;
	if (sys_failed(ret))
		return ret;
	reader.fd = (int)ret;
	for (ret = 0; !sys_failed(ret) && next_mapping(&reader, &mapping) && mapping.lo < below;) {
		if (mapping.ours)
			continue;
		ret = visit(&mapping, flags);
		*failed = mapping.lo;
	}
	sys_close(reader.fd);
	return sys_failed(ret) ? ret : 0;
}

/* Lock what is mapped now; false: as without the agent, where the kernel (or an emulator) knows no mlock2(). */
static bool lock_own(int flags, long *ret)
{
	uint64_t signals, failed, none;

	if (!probe_context.wiped || !probe_context.wiped->alive || !probe_calls_begin(&signals))
		return false;
	*ret = each_mapping(lock, flags, PROGRAMS_END, &failed);
	if (sys_failed(*ret) && failed)
		each_mapping(unlock, flags, failed, &none);
	probe_calls_end(&signals);
	return !sys_failed(*ret) || (failed && *ret != -ENOSYS);
}

static int answer(long ret)
{
	if (!sys_failed(ret))
		return (int)ret;
	if (__errno_location)
		*__errno_location() = (int)-ret;
	return -1;
}

static int lock_as_ever(int flags)
{
	return next_mlockall ? next_mlockall(flags) : answer(SYS(mlockall, flags, 0, 0, 0, 0, 0));
}

int mlockall(int flags)
{
	long ret;

	if (flags & MCL_FUTURE && !(flags & ~(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT)))
		probe_context.locks = 1;
	if (!(flags & MCL_CURRENT) || flags & ~(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT) || !lock_own(flags, &ret))
		return lock_as_ever(flags);
	if (!sys_failed(ret) && flags & MCL_FUTURE)
		return lock_as_ever(flags & ~MCL_CURRENT);
	return answer(ret);
}

void agent_locks_init(void)
{
	next_mlockall = (int (*)(int))agent_next("mlockall");
}

void agent_locks_look(void)
{
	unsigned char there = 0;
	void *page = sys_mmap(NULL, CALLTAP_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (sys_failed((long)page))
		return;
	if (!sys_failed(SYS(mincore, page, CALLTAP_PAGE, &there, 0, 0, 0)))
		probe_context.locks = there & 1;
	sys_munmap(page, CALLTAP_PAGE);
}
