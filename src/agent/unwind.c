/*
 * Unwinding through stubs: the agent stands in front of the two functions by
 * which unwinders find an address' unwind table, and answers for stubs.
 *
 * This covers libgcc_s, a libgcc linked into the program, LLVM's libunwind
 * and others, without registering anything with any of them.  Called on the
 * program's threads at any time, from signal handlers too: no locks, no state
 * but the append-only list of regions.  dlsym() is used once, in the
 * constructor, to find the functions behind.
 */
#include <agent/agent.h>
#include <agent/libc.h>
#include <base/mem.h>

#define STUBS_NAME "[calltap stubs]"

int _dl_find_object(void *pc, struct dl_find_object *result)
{
	const struct probe_region *region = probe_region_of((uint64_t)pc);

	if (!region)
		return agent.next_find_object ? agent.next_find_object(pc, result) : -1;
	memset(result, 0, sizeof(*result));
	result->dlfo_map_start = (void *)region->lo;
	result->dlfo_map_end = (void *)region->hi;
	result->dlfo_eh_frame = (void *)region->hi; /* its table lies behind its stubs */
	return 0;
}

static int report(const struct probe_region *region, int (*callback)(struct dl_phdr_info *, size_t, void *), void *data,
		  const struct dl_phdr_info *like)
{
	ElfW(Phdr) headers[] = {
		{.p_type = PT_LOAD, .p_flags = PF_R | PF_X, .p_vaddr = region->lo, .p_memsz = region->hi - region->lo},
		{.p_type = PT_GNU_EH_FRAME, .p_flags = PF_R, .p_vaddr = region->hi, .p_memsz = ARCH_EH_FRAME_MAX},
	};
	struct dl_phdr_info info = {
		.dlpi_addr = 0,
		.dlpi_name = STUBS_NAME,
		.dlpi_phdr = headers,
		.dlpi_phnum = 2,
		.dlpi_adds = like->dlpi_adds,
		.dlpi_subs = like->dlpi_subs,
	};

	return callback(&info, sizeof(info), data);
}

struct passing {
	int (*callback)(struct dl_phdr_info *, size_t, void *);
	void *data;
	struct dl_phdr_info last;
};

static int pass(struct dl_phdr_info *info, size_t size, void *data)
{
	struct passing *passing = data;

	memcpy(&passing->last, info, size < sizeof(passing->last) ? size : sizeof(passing->last));
	return passing->callback(info, size, passing->data);
}

int dl_iterate_phdr(int (*callback)(struct dl_phdr_info *, size_t, void *), void *data)
{
	struct passing passing = {.callback = callback, .data = data};
	int ret = agent.next_iterate ? agent.next_iterate(pass, &passing) : 0;
	uint32_t n = __atomic_load_n(&probe_context.region_count, __ATOMIC_ACQUIRE);

	for (uint32_t i = 0; i < n && !ret; i++)
		ret = report(&probe_context.regions[i], callback, data, &passing.last);
	return ret;
}

void agent_unwind_init(void)
{
	if (!&dlsym)
		return;
	agent.next_find_object = (int (*)(void *, void *))dlsym(RTLD_NEXT, "_dl_find_object");
	agent.next_iterate =
		(int (*)(int (*)(struct dl_phdr_info *, size_t, void *), void *))dlsym(RTLD_NEXT, "dl_iterate_phdr");
}
