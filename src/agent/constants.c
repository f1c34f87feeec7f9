/*
 * Memory that stays readable as long as the process lives: the constants of the program and of the libraries that it
 * began with, which no dlclose() unmaps.  Programs read those at once (probe/program.c).
 *
 * Only segments that nobody may write to or run count: what a program does with its own code and data is its affair.
 * Where a linker puts constants and code into one segment, as GNU ld for AArch64 and RISC-V does, that one counts: the
 * program has to be able to read it itself.
 * In a process that was attached to, nobody knows which objects it began with, so it has none.  Called by the control
 * thread while the program's first thread waits in the agent's constructor.  Context: control.
 */
#include <link.h>

#include <agent/agent.h>
#include <base/mem.h>
#include <base/sys.h>
#include <probe/program.h>

#define HEADERS_MAX 32u /* of an object */
#define OBJECTS_MAX 256u

static struct probe_constants constants;

static void add_segment(uint64_t base, const ElfW(Phdr) * segment, uint32_t flags)
{
	uint64_t lo = base + segment->p_vaddr, end = lo + segment->p_filesz;
	uint64_t hi =
		(end + CALLTAP_PAGE - 1) / CALLTAP_PAGE * CALLTAP_PAGE; /* a text's last piece ends with its page */
	uint32_t at = constants.count;

	if (segment->p_type != PT_LOAD || segment->p_flags != flags || hi <= lo || at == PROBE_CONSTANTS)
		return;
	/* In order, for probe_constants_end(). */
	for (; at && constants.list[at - 1].lo > lo; at--)
		constants.list[at] = constants.list[at - 1];
	constants.list[at] = (struct probe_range){lo, hi};
	constants.count++;
}

static void add_object(uint64_t base, uint64_t headers, uint32_t count)
{
	ElfW(Phdr) segments[HEADERS_MAX];
	uint32_t flags = PF_R | PF_X;

	if (!count || count > HEADERS_MAX || !agent_copy_in(segments, headers, count * sizeof(segments[0])))
		return;
	for (uint32_t i = 0; i < count; i++)
		if (segments[i].p_type == PT_LOAD && segments[i].p_flags == PF_R)
			flags = PF_R; /* constants have segments of their own */
	for (uint32_t i = 0; i < count; i++)
		add_segment(base, &segments[i], flags);
}

/* A library's file begins where it is mapped, or nothing is known of it. */
static void add_library(const struct link_map *map)
{
	ElfW(Ehdr) header;

	if (map->l_addr && agent_copy_in(&header, map->l_addr, sizeof(header)) &&
	    !memcmp(header.e_ident, ELFMAG, SELFMAG) && header.e_phentsize == sizeof(ElfW(Phdr)))
		add_object(map->l_addr, map->l_addr + header.e_phoff, header.e_phnum);
}

const struct probe_constants *agent_constants_find(void)
{
	uint32_t left = OBJECTS_MAX;

	if (agent.attached || agent.placed || agent.forked || !agent.loader || constants.count)
		return &constants;
	for (const struct link_map *map = agent.loader->r_map; map && left--; map = map->l_next) {
		if (map == agent.loader->r_map)
			add_object(map->l_addr, agent.headers, agent.header_count);
		else
			add_library(map);
	}
	return &constants;
}
