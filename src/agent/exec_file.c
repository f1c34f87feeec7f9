/*
 * Does a file that is about to be executed take the agent when the environment asks for it?
 *
 * Called by exec.c, on the program's thread, also between vfork and exec and in signal handlers: raw system calls, a
 * bounded stack, no memory of its own.  Context: control.  Sources: System V gABI; binutils' DT_GNU_HASH; Linux'
 * fs/binfmt_script.c.
 */
#include <elf.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <agent/exec.h>
#include <base/mem.h>
#include <base/sys.h>

#define SCRIPTS_MAX  4u	  /* scripts whose interpreter is a script: the kernel follows no more */
#define LINE_BYTES   256u /* of a script's first line that the kernel reads */
#define SEGMENTS_MAX 64u
#define ENTRIES_MAX  256u /* of a dynamic section */
#define CHAIN_MAX    4096u
#define TEXT_BYTES   16u

static bool read_at(int fd, void *to, size_t size, uint64_t at)
{
	return SYS(pread64, fd, to, size, at, 0, 0) == (long)size;
}

/* Where in the file the address lies; 0 = nowhere. */
static uint64_t offset_of(int fd, const Elf64_Ehdr *header, uint64_t address)
{
	Elf64_Phdr segment;

	for (unsigned i = 0; i < header->e_phnum; i++)
		if (read_at(fd, &segment, sizeof(segment), header->e_phoff + i * sizeof(segment)) &&
		    segment.p_type == PT_LOAD && address - segment.p_vaddr < segment.p_filesz)
			return address - segment.p_vaddr + segment.p_offset;
	return 0;
}

/* What the loader reads of a program: where in the file; 0 = there is none. */
struct tables {
	uint64_t strings, symbols, hash; /* DT_GNU_HASH */
};

/* True if the program's string there begins with the text, or, with its NUL, is the text. */
static bool is_text(int fd, const struct tables *tables, uint64_t string, const char *text, bool whole)
{
	size_t size = base_strlen(text) + whole;
	char there[TEXT_BYTES];

	return size <= sizeof(there) && read_at(fd, there, size, tables->strings + string) &&
	       !memcmp(there, text, size);
}

/* Sanitizers whose shared runtime wants to be the first library, or has the addresses that the tracer needs. */
static bool is_sanitizer(int fd, const struct tables *tables, uint64_t library)
{
	return is_text(fd, tables, library, "libasan.so", false) || is_text(fd, tables, library, "libtsan.so", false) ||
	       is_text(fd, tables, library, "libclang_rt.", false);
}

static uint32_t hash_of(const char *name)
{
	uint32_t hash = 5381;

	for (; *name; name++)
		hash = hash * 33 + (uint8_t)*name;
	return hash;
}

/* True if the program defines the function for others.  Source: binutils' DT_GNU_HASH. */
static bool defines(int fd, const struct tables *tables, const char *name)
{
	uint32_t head[4], index, link = 0, hash = hash_of(name);
	uint64_t buckets, chains;
	Elf64_Sym symbol;

	if (!read_at(fd, head, sizeof(head), tables->hash) || !head[0])
		return false;
	buckets = tables->hash + sizeof(head) + (uint64_t)head[2] * sizeof(uint64_t); /* behind the filter */
	chains = buckets + (uint64_t)head[0] * sizeof(uint32_t);
	if (!read_at(fd, &index, sizeof(index), buckets + hash % head[0] * sizeof(uint32_t)) || index < head[1])
		return false;
	for (unsigned i = 0; i < CHAIN_MAX && !(link & 1); i++, index++) {
		if (!read_at(fd, &link, sizeof(link), chains + (uint64_t)(index - head[1]) * sizeof(link)))
			return false;
		if ((link | 1) == (hash | 1) &&
		    read_at(fd, &symbol, sizeof(symbol), tables->symbols + (uint64_t)index * sizeof(symbol)) &&
		    symbol.st_shndx != SHN_UNDEF && is_text(fd, tables, symbol.st_name, name, true))
			return true;
	}
	return false;
}

/* The next entry of a dynamic section, at *i; false: there is none. */
static bool next_entry(int fd, const Elf64_Phdr *dynamic, Elf64_Dyn *entry, uint64_t *i)
{
	uint64_t count = dynamic->p_filesz / sizeof(*entry);

	return *i < count && *i < ENTRIES_MAX &&
	       read_at(fd, entry, sizeof(*entry), dynamic->p_offset + (*i)++ * sizeof(*entry)) &&
	       entry->d_tag != DT_NULL;
}

/* The program is without a sanitizer that does not stand the agent. */
static bool is_plain(int fd, const Elf64_Ehdr *header, const Elf64_Phdr *dynamic)
{
	struct tables tables = {0};
	Elf64_Dyn entry;

	for (uint64_t i = 0; next_entry(fd, dynamic, &entry, &i);) {
		if (entry.d_tag == DT_STRTAB)
			tables.strings = offset_of(fd, header, entry.d_un.d_ptr);
		else if (entry.d_tag == DT_SYMTAB)
			tables.symbols = offset_of(fd, header, entry.d_un.d_ptr);
		else if (entry.d_tag == DT_GNU_HASH)
			tables.hash = offset_of(fd, header, entry.d_un.d_ptr);
	}
	if (!tables.strings || !tables.symbols || !tables.hash)
		return false;
	for (uint64_t i = 0; next_entry(fd, dynamic, &entry, &i);)
		if (entry.d_tag == DT_NEEDED && is_sanitizer(fd, &tables, entry.d_un.d_val))
			return false;
	return !defines(fd, &tables, "__tsan_init") && !defines(fd, &tables, "__msan_init");
}

static bool is_of_this_cpu(const Elf64_Ehdr *header)
{
	return !memcmp(header->e_ident, ELFMAG, SELFMAG) && header->e_ident[EI_CLASS] == ELFCLASS64 &&
	       header->e_ident[EI_DATA] == ELFDATA2LSB && header->e_machine == ARCH_ELF_MACHINE &&
	       (header->e_type == ET_EXEC || header->e_type == ET_DYN) && header->e_phentsize == sizeof(Elf64_Phdr) &&
	       header->e_phnum <= SEGMENTS_MAX;
}

/* A library that can be executed: the loader is one. */
static bool has_name(int fd, const Elf64_Phdr *dynamic)
{
	Elf64_Dyn entry;

	for (uint64_t i = 0; next_entry(fd, dynamic, &entry, &i);)
		if (entry.d_tag == DT_SONAME)
			return true;
	return false;
}

static enum exec_kind kind_of(int fd, const Elf64_Ehdr *header)
{
	Elf64_Phdr segment, dynamic = {.p_type = PT_NULL};
	bool loader = false;

	if (!is_of_this_cpu(header))
		return EXEC_OTHER;
	for (unsigned i = 0; i < header->e_phnum; i++) {
		if (!read_at(fd, &segment, sizeof(segment), header->e_phoff + i * sizeof(segment)))
			return EXEC_OTHER;
		loader |= segment.p_type == PT_INTERP;
		if (segment.p_type == PT_DYNAMIC)
			dynamic = segment;
	}
	if (!loader)
		return dynamic.p_type == PT_DYNAMIC && has_name(fd, &dynamic) ? EXEC_OTHER : EXEC_STATIC;
	return dynamic.p_type == PT_DYNAMIC && is_plain(fd, header, &dynamic) ? EXEC_LOADER : EXEC_OTHER;
}

/* Started with other rights it takes nothing from the environment. */
static bool has_rights(int fd, const struct stat *file)
{
	return file->st_mode & (S_ISUID | S_ISGID) ||
	       !sys_failed(SYS(fgetxattr, fd, "security.capability", NULL, 0, 0, 0));
}

/* Open a plain file that may be executed; -1: not so. */
static int open_program(const char *path, struct stat *file)
{
	long fd;

	if (sys_failed(SYS(newfstatat, AT_FDCWD, path, file, 0, 0, 0)) || !S_ISREG(file->st_mode) ||
	    sys_failed(SYS(faccessat, AT_FDCWD, path, 1 /* X_OK */, 0, 0, 0)))
		return -1;
	fd = SYS(openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0, 0, 0);
	return sys_failed(fd) ? -1 : (int)fd;
}

/* Make the first line of a script the path of its interpreter. */
static bool take_interpreter(char line[LINE_BYTES])
{
	size_t from = 2, to = 0;

	while (from < LINE_BYTES && (line[from] == ' ' || line[from] == '\t'))
		from++;
	while (from < LINE_BYTES && line[from] && line[from] != ' ' && line[from] != '\t' && line[from] != '\n')
		line[to++] = line[from++];
	if (!to || from == LINE_BYTES)
		return false;
	line[to] = 0;
	return true;
}

enum exec_kind exec_file_kind(const char *path)
{
	enum exec_kind kind = EXEC_OTHER;
	char line[LINE_BYTES];

	for (unsigned scripts = 0; scripts <= SCRIPTS_MAX; scripts++) {
		bool script = false;
		struct stat file;
		Elf64_Ehdr header;
		int fd = open_program(path, &file);

		if (fd < 0)
			return EXEC_OTHER;
		memset(line, 0, sizeof(line));
		if (SYS(pread64, fd, line, sizeof(line), 0, 0, 0) >= (long)sizeof(header)) {
			memcpy(&header, line, sizeof(header));
			kind = has_rights(fd, &file) ? EXEC_OTHER : kind_of(fd, &header);
		}
		script = line[0] == '#' && line[1] == '!';
		sys_close(fd);
		if (!script || !take_interpreter(line))
			return kind;
		path = line;
	}
	return EXEC_OTHER;
}

bool exec_file_opens(const char *path)
{
	long fd = SYS(openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0, 0, 0);

	if (sys_failed(fd))
		return false;
	sys_close((int)fd);
	return true;
}

bool exec_file_is_narrow(const char *path)
{
	struct stat file;
	int fd = open_program(path, &file);
	unsigned char ident[EI_CLASS + 1];
	bool narrow;

	if (fd < 0)
		return false;
	narrow = read_at(fd, ident, sizeof(ident), 0) && !memcmp(ident, ELFMAG, SELFMAG) &&
		 ident[EI_CLASS] == ELFCLASS32;
	sys_close(fd);
	return narrow;
}
