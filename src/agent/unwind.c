/*
 * Unwinding through stubs: the agent stands in front of the two functions by which unwinders find an address' unwind
 * table, and answers for stubs.
 *
 * This covers libgcc_s, a libgcc linked into the program, LLVM's libunwind and others, without registering anything
 * with any of them.  Which table an unwinder gets depends on the object that it is in (arch.h).  Called on the
 * program's threads at any time, from signal handlers too: no locks, no state but the append-only list of regions.
 * libc's functions behind are found once, in the constructor.
 */
#include <agent/agent.h>
#include <agent/libc.h>
#include <base/mem.h>

#define STUBS_NAME "[calltap stubs]"
#define WORDS_TOLD 4 /* libgcc's struct unw_eh_callback_data begins with the address, LLVM's has it third */

#define OF_UNWINDER (16u << 10) /* calls of one unwinder lie no further apart */
#define ON_STACK    (1u << 20)

/* Note an unwinder that asks: RELEASE must not come while it reads what it was told of stubs. */
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
static bool asks_for_stub(const void *data, uint64_t frame)
{
	const uint64_t *words = data;

	if ((uint64_t)data - frame >= ON_STACK || (uint64_t)data % sizeof(*words))
		return false;
	for (unsigned i = 0; i < WORDS_TOLD; i++)
		if (probe_region_of(words[i]))
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

int _dl_find_object(void *pc, struct dl_find_object *result)
{
	const struct probe_region *region = probe_region_of((uint64_t)pc);
	struct dl_find_object asking = {0};

	note_unwinder((uint64_t)__builtin_return_address(0));
	if (!region) {
		if (!agent.next_find_object || agent.next_find_object(pc, result))
			return -1;
		note_forced((uint64_t)pc, result, (uint64_t)__builtin_return_address(0));
		return 0;
	}
	if (agent.next_find_object && agent.next_find_object(__builtin_return_address(0), &asking))
		asking.dlfo_link_map = NULL;
	memset(result, 0, sizeof(*result));
	result->dlfo_map_start = (void *)region->lo;
	result->dlfo_map_end = (void *)region->hi;
	result->dlfo_eh_frame = (void *)table_for(asking.dlfo_link_map ? asking.dlfo_link_map->l_name : NULL, region);
	return 0;
}

struct passing {
	int (*callback)(struct dl_phdr_info *, size_t, void *);
	void *data;
	struct dl_phdr_info last;
	const char *asking; /* path of the object that callback is in */
};

static int report(const struct probe_region *region, const struct passing *passing)
{
	uint64_t table = table_for(passing->asking, region);
	ElfW(Phdr) headers[] = {
		{.p_type = PT_LOAD, .p_flags = PF_R | PF_X, .p_vaddr = region->lo, .p_memsz = region->hi - region->lo},
		{.p_type = PT_GNU_EH_FRAME, .p_flags = PF_R, .p_vaddr = table, .p_memsz = ARCH_EH_FRAME_MAX},
	};
	struct dl_phdr_info info = {
		.dlpi_addr = 0,
		.dlpi_name = STUBS_NAME,
		.dlpi_phdr = headers,
		.dlpi_phnum = 2,
		.dlpi_adds = passing->last.dlpi_adds,
		.dlpi_subs = passing->last.dlpi_subs,
	};

	return passing->callback(&info, sizeof(info), passing->data);
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
	uint32_t n = __atomic_load_n(&probe_context.region_count, __ATOMIC_ACQUIRE);
	int ret;

	if (asks_for_stub(data, (uint64_t)__builtin_frame_address(0)))
		note_unwinder((uint64_t)__builtin_return_address(0));
	ret = agent.next_iterate ? agent.next_iterate(pass, &passing) : 0;
	for (uint32_t i = 0; i < n && !ret; i++)
		ret = report(&probe_context.regions[i], &passing);
	return ret;
}

void agent_unwind_init(void)
{
	agent.next_find_object = (int (*)(void *, void *))agent_next("_dl_find_object");
	agent.next_iterate =
		(int (*)(int (*)(struct dl_phdr_info *, size_t, void *), void *))agent_next("dl_iterate_phdr");
	AGENT_FRONT(CALLTAP_POINTER_DL_FIND_OBJECT, _dl_find_object, agent.next_find_object);
	AGENT_FRONT(CALLTAP_POINTER_DL_ITERATE_PHDR, dl_iterate_phdr, agent.next_iterate);
}
