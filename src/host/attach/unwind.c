/*
 * Frames of a thread from copies of its registers and stack, by libdwfl, and
 * names of functions (impl.h).
 *
 * Modules are reported from /proc/PID/maps as it was read once; their files
 * are opened as the target sees them, when a frame first lies in them.
 * Context: host; files and stacks are untrusted, libdwfl bounds its reads.
 */
#include <elfutils/libdwfl.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "impl.h"

struct module {
	struct unwinder *unwinder;
	struct map map; /* the first of the module's */
	void *image;	/* a copy of the vdso, which has no file */
	size_t image_size;
};

struct unwinder {
	Dwfl *dwfl;
	pid_t alive;
	struct module *modules;
	size_t count;
	char *names; /* storage of the paths in modules[].map.path */
	/* Valid while frames are followed: */
	const struct stack_copy *copy;
	unwinder_visit *visit;
	void *context;
	struct frame last; /* the frame met last, whose slot is not known yet */
	bool has_last, stopped;
};

static int find_elf(Dwfl_Module *dwfl_module, void **userdata, const char *name, Dwarf_Addr base, char **file_name,
		    Elf **elf)
{
	const struct module *module = *userdata;

	if (!module)
		return -1;
	if (module->image) {
		*elf = elf_memory(module->image, module->image_size);
		return -1;
	}
	return proc_open_map(module->unwinder->alive, &module->map);
}

static int find_nothing(Dwfl_Module *dwfl_module, void **userdata, const char *name, Dwarf_Addr base,
			const char *file_name, const char *link, GElf_Word crc, char **found)
{
	return -1;
}

static const Dwfl_Callbacks callbacks = {
	.find_elf = find_elf,
	.find_debuginfo = find_nothing,
	.section_address = dwfl_offline_section_address,
};

/* How many maps from `first` on belong to one file, or to the vdso. */
static size_t module_maps(const struct space *space, size_t first)
{
	const struct map *map = &space->maps[first];
	size_t end = first + 1;

	if (map->path[0] != '/')
		return !strcmp(map->path, "[vdso]");
	while (end < space->count && space->maps[end].inode == map->inode && space->maps[end].major == map->major &&
	       space->maps[end].minor == map->minor && space->maps[end].offset &&
	       !strcmp(space->maps[end].path, map->path))
		end++;
	return end - first;
}

static void report_module(struct unwinder *unwinder, const struct map *map, uint64_t hi)
{
	struct module *module = &unwinder->modules[unwinder->count++];
	void **userdata = NULL;
	Dwfl_Module *reported;
	char name[32];

	module->unwinder = unwinder;
	module->map = *map;
	if (map->path[0] != '/') {
		module->image_size = map->hi - map->lo;
		module->image = malloc(module->image_size);
		if (!module->image || memory_read(unwinder->alive, map->lo, module->image, module->image_size)) {
			free(module->image);
			module->image = NULL;
			return;
		}
		snprintf(name, sizeof(name), "[vdso: %d]", (int)unwinder->alive);
	}
	reported = dwfl_report_module(unwinder->dwfl, map->path[0] == '/' ? map->path : name, map->lo, hi);
	if (reported && dwfl_module_info(reported, &userdata, NULL, NULL, NULL, NULL, NULL, NULL))
		*userdata = module;
}

static void report_all(struct unwinder *unwinder, const struct space *space)
{
	dwfl_report_begin(unwinder->dwfl);
	for (size_t i = 0; i < space->count;) {
		size_t maps = module_maps(space, i);
		bool code = false;

		for (size_t k = i; k < i + maps; k++)
			code |= (space->maps[k].bits & MAP_EXEC) != 0;
		if (code)
			report_module(unwinder, &space->maps[i], space->maps[i + maps - 1].hi);
		i += maps ? maps : 1;
	}
	dwfl_report_end(unwinder->dwfl, NULL, NULL);
}

static bool get_thread(Dwfl *dwfl, pid_t tid, void *context, void **thread_context)
{
	*thread_context = context;
	return true;
}

static pid_t next_thread(Dwfl *dwfl, void *context, void **thread_context)
{
	return 0;
}

static bool read_word(Dwfl *dwfl, Dwarf_Addr address, Dwarf_Word *result, void *context)
{
	const struct unwinder *unwinder = context;
	const struct stack_copy *copy = unwinder->copy;

	if (address >= copy->lo && address < copy->hi && copy->hi - address >= sizeof(*result)) {
		memcpy(result, copy->bytes + (address - copy->lo), sizeof(*result));
	} else if (!copy->alive || memory_read(copy->alive, address, result, sizeof(*result))) {
		return false;
	}
	*result = stubs_original(copy->alive, copy->regions, copy->region_count, address, *result);
	return true;
}

static bool set_registers(Dwfl_Thread *thread, void *context)
{
	const struct unwinder *unwinder = context;
	Dwarf_Word values[NATIVE_DWARF_REGISTERS];

	for (size_t i = 0; i < NATIVE_DWARF_REGISTERS; i++)
		values[i] = unwinder->copy->values[i];
	return dwfl_thread_state_registers(thread, 0, NATIVE_DWARF_REGISTERS, values);
}

static const Dwfl_Thread_Callbacks thread_callbacks = {
	.next_thread = next_thread,
	.get_thread = get_thread,
	.memory_read = read_word,
	.set_initial_registers = set_registers,
};

int unwinder_open(struct unwinder **out, pid_t pid, pid_t alive, const struct space *space)
{
	struct unwinder *unwinder = calloc(1, sizeof(*unwinder));

	if (!unwinder)
		return -ENOMEM;
	unwinder->alive = alive;
	unwinder->modules = calloc(space->count + 1, sizeof(*unwinder->modules));
	unwinder->dwfl = dwfl_begin(&callbacks);
	if (unwinder->modules && unwinder->dwfl)
		report_all(unwinder, space);
	if (!unwinder->modules || !unwinder->dwfl ||
	    !dwfl_attach_state(unwinder->dwfl, NULL, pid, &thread_callbacks, unwinder)) {
		unwinder_close(unwinder);
		return -ENOEXEC;
	}
	*out = unwinder;
	return 0;
}

void unwinder_close(struct unwinder *unwinder)
{
	if (!unwinder)
		return;
	if (unwinder->dwfl)
		dwfl_end(unwinder->dwfl);
	for (size_t i = 0; i < unwinder->count; i++)
		free(unwinder->modules[i].image);
	free(unwinder->modules);
	free(unwinder);
}

static bool tell_last(struct unwinder *unwinder)
{
	unwinder->stopped = unwinder->has_last && !unwinder->visit(unwinder->context, &unwinder->last);
	return !unwinder->stopped;
}

static int take_frame(Dwfl_Frame *state, void *context)
{
	struct unwinder *unwinder = context;
	Dwarf_Word sp;
	Dwarf_Addr pc;
	bool exact;

	if (!dwfl_frame_pc(state, &pc, &exact))
		return DWARF_CB_ABORT;
	/* A frame's stack pointer tells where the return address of its callee lies. */
	if (!dwfl_frame_reg(state, NATIVE_DWARF_SP, &sp) && sp > NATIVE_RETURN_BELOW)
		unwinder->last.slot = sp - NATIVE_RETURN_BELOW;
	if (!tell_last(unwinder))
		return DWARF_CB_ABORT;
	unwinder->last = (struct frame){.pc = pc, .exact = exact};
	unwinder->has_last = true;
	return DWARF_CB_OK;
}

bool unwinder_climb(struct unwinder *unwinder, const struct stack_copy *copy, unwinder_visit *visit, void *context)
{
	bool complete;

	unwinder->copy = copy;
	unwinder->visit = visit;
	unwinder->context = context;
	unwinder->has_last = unwinder->stopped = false;
	complete = !dwfl_getthread_frames(unwinder->dwfl, copy->tid, take_frame, unwinder);
	if (!unwinder->has_last) {
		unwinder->last = (struct frame){.pc = copy->values[NATIVE_DWARF_REGISTERS - 1], .exact = true};
		unwinder->has_last = true;
	}
	if (!unwinder->stopped)
		tell_last(unwinder);
	unwinder->copy = NULL;
	return complete;
}

struct list {
	struct frame *frames;
	size_t count, max;
};

static bool add_to_list(void *context, const struct frame *frame)
{
	struct list *list = context;

	list->frames[list->count++] = *frame;
	return list->count < list->max;
}

size_t unwinder_frames(struct unwinder *unwinder, const struct stack_copy *copy, struct frame *frames, size_t max,
		       bool *complete)
{
	struct list list = {frames, 0, max};

	*complete = unwinder_climb(unwinder, copy, add_to_list, &list);
	return list.count;
}

bool unwinder_has_rules(struct unwinder *unwinder, uint64_t pc)
{
	Dwfl_Module *module = dwfl_addrmodule(unwinder->dwfl, pc);
	Dwarf_Addr bias;
	Dwarf_CFI *rules = module ? dwfl_module_eh_cfi(module, &bias) : NULL;
	Dwarf_Frame *frame;

	if (!rules || dwarf_cfi_addrframe(rules, pc - bias, &frame))
		return false;
	free(frame);
	return true;
}

const char *unwinder_symbol(struct unwinder *unwinder, uint64_t pc)
{
	Dwfl_Module *module = dwfl_addrmodule(unwinder->dwfl, pc);
	GElf_Off offset;
	GElf_Sym symbol;
	const char *name = module ? dwfl_module_addrinfo(module, pc, &offset, &symbol, NULL, NULL, NULL) : NULL;

	/* A symbol without a size may end anywhere; behind it lie static functions, where a library is stripped. */
	return name && (symbol.st_size || !offset) ? name : NULL;
}
