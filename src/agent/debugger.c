/*
 * Debuggers: gdb finds the frames of stubs by its JIT interface.
 *
 * gdb reads no unwind table of an address that is in no file's mapping.  It
 * looks for the two symbols below in every object's symbol table (they are
 * not exported: a program with a JIT of its own has its own ones), puts a
 * breakpoint into the function and reads the list, when it attaches, when it
 * opens a core file, and when the function is called.  The list holds one
 * small ELF image in memory per stub region.
 * Called by the control thread.  Context: control.  Source: gdb's manual,
 * "JIT Compilation Interface".
 */
#include <signal.h>
#include <stddef.h>
#include <sys/mman.h>

#include <agent/agent.h>
#include <agent/libc.h>
#include <base/sys.h>

#define STUBS_NAME "calltap_stub" /* the name that a backtrace shows between a traced function and its caller */

enum { SECTION_NONE, SECTION_TEXT, SECTION_FRAMES, SECTION_SYMBOLS, SECTION_NAMES, SECTIONS };

struct names {
	char none[1];
	char text[sizeof(".text")];
	char frames[sizeof(".eh_frame")];
	char symbols[sizeof(".symtab")];
	char names[sizeof(".strtab")];
	char stub[sizeof(STUBS_NAME)];
};

struct image {
	Elf64_Ehdr header;
	Elf64_Shdr sections[SECTIONS];
	Elf64_Sym symbols[2]; /* the null symbol, the stubs */
	struct names names;
	_Alignas(8) uint8_t frames[ARCH_EH_FRAME_MAX];
};

/* Names, layout and values are gdb's. */
enum jit_action { JIT_NOACTION, JIT_REGISTER, JIT_UNREGISTER };

struct jit_code_entry {
	struct jit_code_entry *next, *prev;
	const struct image *symfile_addr;
	uint64_t symfile_size;
};

struct jit_descriptor {
	uint32_t version;
	uint32_t action_flag;
	struct jit_code_entry *relevant_entry, *first_entry;
};

__attribute__((used)) struct jit_descriptor __jit_debug_descriptor = {.version = 1};

/* gdb stops here to look at the list. */
__attribute__((used, noinline)) void __jit_debug_register_code(void)
{
	__asm__ volatile("" : : : "memory");
}

struct symfile {
	struct jit_code_entry entry;
	struct image image;
};

static Elf64_Shdr section(uint32_t name, uint32_t type, uint64_t offset, uint64_t size)
{
	return (Elf64_Shdr){.sh_name = name, .sh_type = type, .sh_offset = offset, .sh_size = size, .sh_addralign = 1};
}

static void put_sections(struct image *image, const struct patch_region *region)
{
	uint64_t lo = region->lo, hi = region->hi;
	size_t frames_end = arch_eh_frame_build(image->frames, ARCH_UNWINDER_OTHER, lo, hi, region->gated, 0);
	Elf64_Shdr *sections = image->sections;

	sections[SECTION_TEXT] = section(offsetof(struct names, text), SHT_NOBITS, sizeof(*image), hi - lo);
	sections[SECTION_TEXT].sh_flags = SHF_ALLOC | SHF_EXECINSTR;
	sections[SECTION_TEXT].sh_addr = lo;
	sections[SECTION_FRAMES] =
		section(offsetof(struct names, frames), SHT_PROGBITS, offsetof(struct image, frames) + ARCH_EH_HDR_SIZE,
			frames_end - ARCH_EH_HDR_SIZE);
	sections[SECTION_FRAMES].sh_flags = SHF_ALLOC;
	sections[SECTION_FRAMES].sh_addr = (uint64_t)image->frames + ARCH_EH_HDR_SIZE;
	sections[SECTION_SYMBOLS] = section(offsetof(struct names, symbols), SHT_SYMTAB,
					    offsetof(struct image, symbols), sizeof(image->symbols));
	sections[SECTION_SYMBOLS].sh_entsize = sizeof(image->symbols[0]);
	sections[SECTION_SYMBOLS].sh_link = SECTION_NAMES;
	sections[SECTION_SYMBOLS].sh_info = 1;
	sections[SECTION_NAMES] =
		section(offsetof(struct names, names), SHT_STRTAB, offsetof(struct image, names), sizeof(image->names));
}

static void put_image(struct image *image, const struct patch_region *region)
{
	image->header = (Elf64_Ehdr){
		.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
		.e_type = ET_EXEC,
		.e_machine = ARCH_ELF_MACHINE,
		.e_version = EV_CURRENT,
		.e_ehsize = sizeof(image->header),
		.e_shoff = offsetof(struct image, sections),
		.e_shentsize = sizeof(image->sections[0]),
		.e_shnum = SECTIONS,
		.e_shstrndx = SECTION_NAMES,
	};
	image->names = (struct names){"", ".text", ".eh_frame", ".symtab", ".strtab", STUBS_NAME};
	image->symbols[1] = (Elf64_Sym){
		.st_name = offsetof(struct names, stub),
		.st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
		.st_shndx = SECTION_TEXT,
		.st_value = region->lo,
		.st_size = region->hi - region->lo,
	};
	put_sections(image, region);
}

/* True if a debugger is attached to this thread. */
static bool is_debugged(void)
{
	char text[AGENT_STATUS_MAX];

	return agent_read_text("/proc/thread-self/status", text, sizeof(text)) &&
	       agent_number_after(text, "TracerPid:") != 0;
}

/*
 * A debugger that was killed, or crashed, has left its breakpoint in the function, which would end the program: so the
 * function is called only where a debugger is.  A debugger that attaches after this look reads the list, which is
 * complete.  The breakpoint of a debugger that is there must not meet a thread that has SIGTRAP blocked: the kernel
 * would take the program's own handler for it away.
 */
static void call_debugger(void)
{
	uint64_t trap = (uint64_t)1 << (SIGTRAP - 1), blocked = 0;

	if (!is_debugged())
		return;
	if (sys_failed(SYS(rt_sigprocmask, SIG_UNBLOCK, &trap, &blocked, sizeof(trap), 0, 0))) {
		__jit_debug_register_code();
		return;
	}
	__jit_debug_register_code();
	SYS(rt_sigprocmask, SIG_SETMASK, &blocked, NULL, sizeof(blocked), 0, 0);
}

static void announce(struct jit_code_entry *entry)
{
	entry->next = __jit_debug_descriptor.first_entry;
	if (entry->next)
		entry->next->prev = entry;
	__jit_debug_descriptor.first_entry = entry;
	__jit_debug_descriptor.relevant_entry = entry;
	__jit_debug_descriptor.action_flag = JIT_REGISTER;
	call_debugger();
	__jit_debug_descriptor.action_flag = JIT_NOACTION;
}

void agent_debugger_tell(const struct patch_region *region)
{
	struct symfile *symfile =
		sys_mmap(NULL, sizeof(*symfile), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (sys_failed((long)symfile))
		return; /* a debugger sees less */
	put_image(&symfile->image, region);
	symfile->entry.symfile_addr = &symfile->image;
	symfile->entry.symfile_size = sizeof(symfile->image);
	announce(&symfile->entry);
}

void agent_debugger_forget(void)
{
	struct jit_code_entry *entry;

	while ((entry = __jit_debug_descriptor.first_entry)) {
		__jit_debug_descriptor.first_entry = entry->next;
		if (entry->next)
			entry->next->prev = NULL;
		__jit_debug_descriptor.relevant_entry = entry;
		__jit_debug_descriptor.action_flag = JIT_UNREGISTER;
		call_debugger();
		__jit_debug_descriptor.action_flag = JIT_NOACTION;
		__jit_debug_descriptor.relevant_entry = NULL;
		sys_munmap(entry, sizeof(struct symfile)); /* entry is its first member */
	}
}
