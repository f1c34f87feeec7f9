/*
 * Debuggers: gdb finds the frames of stubs and blocks by its JIT interface.
 *
 * gdb reads no unwind table of an address that is in no file's mapping.  It
 * looks for the two symbols below in every object's symbol table (they are
 * not exported: a program with a JIT of its own has its own ones), puts a
 * breakpoint into the function and reads the list, when it attaches, when it
 * opens a core file, and when the function is called.  The list holds one
 * ELF image in memory for each region of stubs or blocks.
 * Called by the control thread.  Context: control.  Source: gdb's manual,
 * "JIT Compilation Interface".
 */
#include <signal.h>
#include <stddef.h>
#include <sys/mman.h>

#include <agent/agent.h>
#include <agent/libc.h>
#include <base/mem.h>
#include <base/sys.h>

/* The names that a backtrace shows: between a traced function and its caller; in a function's moved first instructions
 */
#define STUBS_NAME  "calltap_stub"
#define BLOCKS_NAME "calltap_block"

enum { SECTION_NONE, SECTION_TEXT, SECTION_FRAMES, SECTION_SYMBOLS, SECTION_NAMES, SECTIONS };

struct names {
	char none[1];
	char text[sizeof(".text")];
	char frames[sizeof(".eh_frame")];
	char symbols[sizeof(".symtab")];
	char names[sizeof(".strtab")];
	char symbol[sizeof(BLOCKS_NAME)];
};

struct image {
	Elf64_Ehdr header;
	Elf64_Shdr sections[SECTIONS];
	Elf64_Sym symbols[2]; /* the null symbol, the region's */
	struct names names;
	_Alignas(8) uint8_t frames[];
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

/* What a debugger is told of a region. */
struct region {
	const char *name;
	uint64_t lo, hi;
	uint64_t frames_at; /* address that its .eh_frame is made for */
	size_t frames_off;  /* of .eh_frame in the image's `frames` */
	size_t frames_size;
};

static void put_sections(struct image *image, const struct region *region)
{
	Elf64_Shdr *sections = image->sections;

	sections[SECTION_TEXT] =
		section(offsetof(struct names, text), SHT_NOBITS, sizeof(*image), region->hi - region->lo);
	sections[SECTION_TEXT].sh_flags = SHF_ALLOC | SHF_EXECINSTR;
	sections[SECTION_TEXT].sh_addr = region->lo;
	sections[SECTION_FRAMES] = section(offsetof(struct names, frames), SHT_PROGBITS,
					   offsetof(struct image, frames) + region->frames_off, region->frames_size);
	sections[SECTION_FRAMES].sh_flags = SHF_ALLOC;
	sections[SECTION_FRAMES].sh_addr = region->frames_at;
	sections[SECTION_SYMBOLS] = section(offsetof(struct names, symbols), SHT_SYMTAB,
					    offsetof(struct image, symbols), sizeof(image->symbols));
	sections[SECTION_SYMBOLS].sh_entsize = sizeof(image->symbols[0]);
	sections[SECTION_SYMBOLS].sh_link = SECTION_NAMES;
	sections[SECTION_SYMBOLS].sh_info = 1;
	sections[SECTION_NAMES] =
		section(offsetof(struct names, names), SHT_STRTAB, offsetof(struct image, names), sizeof(image->names));
}

static void put_image(struct image *image, const struct region *region)
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
	image->names = (struct names){"", ".text", ".eh_frame", ".symtab", ".strtab", ""};
	memcpy(image->names.symbol, region->name, base_strlen(region->name) + 1);
	image->symbols[1] = (Elf64_Sym){
		.st_name = offsetof(struct names, symbol),
		.st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
		.st_shndx = SECTION_TEXT,
		.st_value = region->lo,
		.st_size = region->hi - region->lo,
	};
	put_sections(image, region);
}

uint32_t agent_tracer(void)
{
	char text[AGENT_STATUS_MAX];

	return agent_read_text("/proc/thread-self/status", text, sizeof(text)) ? agent_number_after(text, "TracerPid:")
									       : 0;
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

	if (!agent_tracer())
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

/* Memory for an image with so many bytes of frames; NULL: a debugger sees less. */
static struct symfile *make_symfile(size_t frames_size)
{
	size_t size = sizeof(struct symfile) + frames_size;
	struct symfile *symfile = sys_mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (sys_failed((long)symfile))
		return NULL;
	symfile->entry.symfile_addr = &symfile->image;
	symfile->entry.symfile_size = sizeof(symfile->image) + frames_size;
	return symfile;
}

void agent_debugger_tell(const struct patch_region *stubs)
{
	struct symfile *symfile = make_symfile(ARCH_EH_FRAME_MAX);
	struct region region = {.name = STUBS_NAME, .lo = stubs->lo, .hi = stubs->hi, .frames_off = ARCH_EH_HDR_SIZE};
	uint8_t *frames;

	if (!symfile)
		return;
	frames = symfile->image.frames;
	region.frames_at = (uint64_t)frames + ARCH_EH_HDR_SIZE;
	region.frames_size = arch_eh_frame_build(frames, ARCH_UNWINDER_OTHER, stubs->lo, stubs->hi, stubs->gated, 0) -
			     ARCH_EH_HDR_SIZE;
	put_image(&symfile->image, &region);
	announce(&symfile->entry);
}

void agent_debugger_tell_blocks(const struct agent_blocks *blocks)
{
	struct region region = {.name = BLOCKS_NAME, .lo = blocks->lo, .hi = blocks->header};
	struct symfile *symfile;
	int32_t distance; /* from the header's second word to .eh_frame */
	uint64_t offset;

	memcpy(&distance, (const void *)(blocks->header + 4), sizeof(distance));
	offset = 4 + (uint64_t)(int64_t)distance;
	if (offset > blocks->header_size)
		return;
	region.frames_at = blocks->header + offset;
	region.frames_size = blocks->header_size - offset;
	symfile = make_symfile(region.frames_size);
	if (!symfile)
		return;
	memcpy(symfile->image.frames, (const void *)region.frames_at, region.frames_size);
	put_image(&symfile->image, &region);
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
		sys_munmap(entry, offsetof(struct symfile, image) + entry->symfile_size); /* it begins with the entry */
	}
}
