/*
 * Unwinding through stubs and blocks: the agent stands in front of the two functions by which unwinders find an
 * address' unwind table, and answers for both.
 *
 * This covers libgcc_s, a libgcc linked into the program, LLVM's libunwind and others, without registering anything
 * with any of them.  Which table of stubs an unwinder gets depends on the object that it is in (arch.h).  Called on the
 * program's threads at any time, from signal handlers too: no locks, no state but the append-only lists of regions.
 * libc's functions behind are found once, in the constructor.
 */
#include <agent/agent.h>
#include <agent/libc.h>
#include <base/mem.h>

#define STUBS_NAME  "[calltap stubs]"
#define BLOCKS_NAME "[calltap blocks]"
#define AGENT_NAME  "[calltap agent]"
#define WORDS_TOLD  4 /* libgcc's struct unw_eh_callback_data begins with the address, LLVM's has it third */

#define OF_UNWINDER (16u << 10) /* calls of one unwinder lie no further apart */
#define ON_STACK    (1u << 20)

/* Note an unwinder that asks: RELEASE must not come while it reads what it was told of stubs and blocks. */
static void note_unwinder(uint64_t asking)
{
	for (unsigned i = 0; i < CALLTAP_UNWINDERS_MAX; i++) {
		uint64_t known = __atomic_load_n(&agent.unwinders[i], __ATOMIC_RELAXED);

		if (!known && __atomic_compare_exchange_n(&agent.unwinders[i], &known, asking, false, __ATOMIC_RELAXED,
							  __ATOMIC_RELAXED))
			return;
		if (known - asking + OF_UNWINDER < 2 * OF_UNWINDER)
			return;
	}
	__atomic_store_n(&agent.unwinders_more, 1, __ATOMIC_RELAXED);
}

/* An unwinder hands its callback the address that it looks for, near the beginning of a structure on its stack. */
static bool asks_for_ours(const void *data, uint64_t frame)
{
	const uint64_t *words = data;

	if ((uint64_t)data - frame >= ON_STACK || (uint64_t)data % sizeof(*words))
		return false;
	for (unsigned i = 0; i < WORDS_TOLD; i++)
		if (probe_region_of(words[i]) || agent_blocks_of(words[i]))
			return true;
	return false;
}

static bool starts_with(const char *text, const char *start)
{
	size_t size = base_strlen(start);

	return base_strlen(text) >= size && !memcmp(text, start, size);
}

/* The region's table for the unwinder whose code is in the object with that path (arch.h). */
static uint64_t table_for(const char *path, const struct probe_region *region)
{
	const char *name = path ? path : "";
	enum arch_unwinder unwinder = ARCH_UNWINDER_UNKNOWN;

	if (agent.placed)
		return region->hi +
		       (agent.placed->libgcc ? ARCH_UNWINDER_LIBGCC : ARCH_UNWINDER_OTHER) * ARCH_EH_FRAME_MAX;
	for (const char *at = name; *at; at++)
		if (*at == '/')
			name = at + 1;
	if (starts_with(name, "libunwind"))
		unwinder = ARCH_UNWINDER_OTHER;
	else if (starts_with(name, "libgcc_s."))
		unwinder = ARCH_UNWINDER_LIBGCC;
	return region->hi + unwinder * ARCH_EH_FRAME_MAX;
}

/*
 * libgcc begins at its own frame: note if that frame ends a thread.  The frames' personality may never be called: some
 * libc jumps past them at once.
 */
static void note_forced(uint64_t pc, const struct dl_find_object *found, uint64_t asking)
{
	struct probe_stack *stack;

	if (asking < (uint64_t)found->dlfo_map_start || asking >= (uint64_t)found->dlfo_map_end ||
	    !probe_context.enabled || !agent_is_in(pc, found->dlfo_link_map, "_Unwind_ForcedUnwind"))
		return;
	stack = probe_stack_find(probe_self(), (uint64_t)__builtin_frame_address(0));
	if (stack)
		probe_stack_ends(stack);
}

/* Answer for a region of ours, whose .eh_frame_hdr lies at `table`. */
static int answer(struct dl_find_object *result, uint64_t lo, uint64_t hi, uint64_t table)
{
	memset(result, 0, sizeof(*result));
	result->dlfo_map_start = (void *)lo;
	result->dlfo_map_end = (void *)hi;
	result->dlfo_eh_frame = (void *)table;
	return 0;
}

/*
 * The agent's own code and table, where no loader knows it: unwinding from the agent's functions, or from a signal
 * handler that has interrupted a recorder, goes through there.
 */
static bool find_own(struct agent_blocks *own)
{
	const ElfW(Ehdr) *header = (const ElfW(Ehdr) *)own_begin;
	const ElfW(Phdr) *segments = (const ElfW(Phdr) *)(own_begin + header->e_phoff);

	if (!agent.placed)
		return false;
	for (unsigned i = 0; i < header->e_phnum; i++) {
		if (segments[i].p_type != PT_GNU_EH_FRAME)
			continue;
		*own = (struct agent_blocks){(uint64_t)own_begin, (uint64_t)own_end,
					     (uint64_t)own_begin + segments[i].p_vaddr, segments[i].p_memsz};
		return true;
	}
	return false;
}

int _dl_find_object(void *pc, struct dl_find_object *result)
{
	const struct probe_region *region = probe_region_of((uint64_t)pc);
	const struct agent_blocks *blocks = region ? NULL : agent_blocks_of((uint64_t)pc);
	struct dl_find_object asking = {0};
	struct agent_blocks own;

	if ((uint64_t)pc - (uint64_t)own_begin < (uint64_t)(own_end - own_begin) && find_own(&own))
		return answer(result, own.lo, own.hi, own.header);
	note_unwinder((uint64_t)__builtin_return_address(0));
	if (blocks)
		return answer(result, blocks->lo, blocks->hi, blocks->header);
	if (!region) {
		if (!agent.next_find_object || agent.next_find_object(pc, result))
			return -1;
		note_forced((uint64_t)pc, result, (uint64_t)__builtin_return_address(0));
		return 0;
	}
	if (agent.next_find_object && agent.next_find_object(__builtin_return_address(0), &asking))
		asking.dlfo_link_map = NULL;
	return answer(result, region->lo, region->hi,
		      table_for(asking.dlfo_link_map ? asking.dlfo_link_map->l_name : NULL, region));
}

struct passing {
	int (*callback)(struct dl_phdr_info *, size_t, void *);
	void *data;
	struct dl_phdr_info last;
	const char *asking; /* path of the object that callback is in */
};

static int report(const struct passing *passing, const char *name, const struct agent_blocks *region)
{
	ElfW(Phdr) headers[] = {
		{.p_type = PT_LOAD, .p_flags = PF_R | PF_X, .p_vaddr = region->lo, .p_memsz = region->hi - region->lo},
		{.p_type = PT_GNU_EH_FRAME, .p_flags = PF_R, .p_vaddr = region->header, .p_memsz = region->header_size},
	};
	struct dl_phdr_info info = {
		.dlpi_addr = 0,
		.dlpi_name = name,
		.dlpi_phdr = headers,
		.dlpi_phnum = 2,
		.dlpi_adds = passing->last.dlpi_adds,
		.dlpi_subs = passing->last.dlpi_subs,
	};

	return passing->callback(&info, sizeof(info), passing->data);
}

/* Report the regions of stubs, then those of blocks. */
static int report_ours(const struct passing *passing)
{
	uint32_t stubs = __atomic_load_n(&probe_context.region_count, __ATOMIC_ACQUIRE);
	uint32_t blocks = __atomic_load_n(&agent.blocks_count, __ATOMIC_ACQUIRE);
	struct agent_blocks own;
	int ret = 0;

	for (uint32_t i = 0; i < stubs && !ret; i++) {
		const struct probe_region *region = &probe_context.regions[i];
		uint64_t table = table_for(passing->asking, region);

		ret = report(passing, STUBS_NAME,
			     &(struct agent_blocks){region->lo, region->hi, table, ARCH_EH_FRAME_MAX});
	}
	for (uint32_t i = 0; i < blocks && !ret; i++)
		ret = report(passing, BLOCKS_NAME, &agent.blocks[i]);
	if (!ret && find_own(&own))
		ret = report(passing, AGENT_NAME, &own);
	return ret;
}

static bool holds(const struct dl_phdr_info *info, uint64_t address)
{
	for (unsigned i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *header = &info->dlpi_phdr[i];

		if (header->p_type == PT_LOAD && address - info->dlpi_addr - header->p_vaddr < header->p_memsz)
			return true;
	}
	return false;
}

static int pass(struct dl_phdr_info *info, size_t size, void *data)
{
	struct passing *passing = data;

	memcpy(&passing->last, info, size < sizeof(passing->last) ? size : sizeof(passing->last));
	if (holds(info, (uint64_t)passing->callback))
		passing->asking = info->dlpi_name;
	return passing->callback(info, size, passing->data);
}

int dl_iterate_phdr(int (*callback)(struct dl_phdr_info *, size_t, void *), void *data)
{
	struct passing passing = {.callback = callback, .data = data};
	int ret;

	if (asks_for_ours(data, (uint64_t)__builtin_frame_address(0)))
		note_unwinder((uint64_t)__builtin_return_address(0));
	ret = agent.next_iterate ? agent.next_iterate(pass, &passing) : 0;
	return ret ? ret : report_ours(&passing);
}

void agent_unwind_init(void)
{
	agent.next_find_object = (int (*)(void *, void *))agent_next("_dl_find_object");
	agent.next_iterate =
		(int (*)(int (*)(struct dl_phdr_info *, size_t, void *), void *))agent_next("dl_iterate_phdr");
	AGENT_FRONT(CALLTAP_POINTER_DL_FIND_OBJECT, _dl_find_object, agent.next_find_object);
	AGENT_FRONT(CALLTAP_POINTER_DL_ITERATE_PHDR, dl_iterate_phdr, agent.next_iterate);
}
