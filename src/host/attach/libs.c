/*
 * Facts of the objects that a target has mapped (impl.h): the addresses of functions that the injection calls, and of
 * functions that a thread must not be in when it is borrowed.  Context: host; the files are untrusted.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "impl.h"

/* glibc's flag for calls of its own dlopen from outside. */
#define GLIBC_RTLD_DLOPEN 0x80000000u

/* An object while it is looked at. */
struct look {
	Elf *elf;
	uint64_t bias;
	const struct map *text;
	uint64_t lo, hi;
};

/*
 * Functions in which locks of the loader, the allocator, fork or exit are
 * held, or their structures are half changed.  A name that has one of these
 * in it is meant: too many cost a moment, too few a deadlock.
 *
 * __pthread_get_minstack() itself holds nothing.  It is the one exported function among those of glibc's that keep the
 * stacks of threads which have ended (nptl_free_tcb(), nptl_deallocate_stack(): joins and ends of threads call them),
 * and whose names a stripped library does not have.  These hold dl_stack_cache_lock, which dlopen takes to give each
 * thread the TLS of what it loads.
 */
static bool is_unsafe_name(const char *name)
{
	static const char *const parts[] = {
		"alloc",	"free",	      "memalign",	"valloc",  "_int_",	 "trim",
		"mallopt",	"mallinfo",   "morecore",	"arena",   "tcache",	 "sbrk",
		"cfree",	"fork",	      "Fork",		"dlopen",  "dlclose",	 "dlsym",
		"dlvsym",	"dlmopen",    "dlerror",	"dladdr",  "dlinfo",	 "_dl_",
		"dl_iter",	"_libc_dl",   "pthread_create", "nptl_",   "tls_dtors",	 "thread_atexit",
		"get_minstack", "cxa_atexit", "cxa_finalize",	"exitfn",  "on_exit",	 "exit_handlers",
		"quick_exit",	"setlocale",  "newlocale",	"gettext", "textdomain", "operator",
		"_Znw",		"_Zna",	      "_Zdl",		"_Zda",
	};

	/* set*id(), setgroups() and setrlimit() hold the list of threads while all threads do something. */
	if (!strncmp(name, "set", 3) && (strstr(name, "id") || strstr(name, "groups") || strstr(name, "rlimit")))
		return true;
	if (!strcmp(name, "exit") || !strcmp(name, "atexit") || !strcmp(name, "brk"))
		return true;
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		if (strstr(name, parts[i]))
			return true;
	return false;
}

/*
 * Three names would mean too much.  __nptl_create_event() and __nptl_death_event() are for debuggers, and empty; beside
 * them lie the functions in which threads wait by a futex: for conditions, semaphores and the ends of other threads.
 * __libc_freeres() is for tools that look for leaks; beside it lie memcpy(), strlen() and their like for each kind of
 * CPU.
 */
static bool is_harmless_name(const char *name)
{
	return !strcmp(name, "__nptl_create_event") || !strcmp(name, "__nptl_death_event") ||
	       !strcmp(name, "__libc_freeres");
}

/*
 * True for functions that are unsafe in musl alone: they hold its list of threads, or wait in what keeps mappings as
 * they are, which its dlopen() takes, too.
 */
static bool is_unsafe_in_musl(const char *name)
{
	static const char *const parts[] = {
		"pthread_exit", "thrd_exit",	"thrd_create", "pthread_key_delete", "tss_delete",
		"barrier_wait", "mutex_unlock", "mtx_unlock",  "mutex_trylock",	     "mtx_trylock",
		"attr_default", "membarrier",	"set_thread",
	};

	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		if (strstr(name, parts[i]))
			return true;
	return false;
}

static Elf_Scn *find_section(Elf *elf, unsigned type, GElf_Shdr *header)
{
	Elf_Scn *section = NULL;

	while ((section = elf_nextscn(elf, section)))
		if (gelf_getshdr(section, header) && header->sh_type == type)
			return section;
	return NULL;
}

/* Tell the functions that a symbol table defines, one by one; visit() returns false to end. */
static void each_function(Elf *elf, unsigned type,
			  bool (*visit)(void *context, const char *name, const GElf_Sym *symbol), void *context)
{
	GElf_Shdr header;
	Elf_Scn *section = find_section(elf, type, &header);
	Elf_Data *data = section ? elf_getdata(section, NULL) : NULL;
	size_t count = data && header.sh_entsize ? data->d_size / header.sh_entsize : 0;

	for (size_t i = 1; i < count; i++) {
		GElf_Sym symbol;
		const char *name;

		if (!gelf_getsym(data, (int)i, &symbol) || symbol.st_shndx == SHN_UNDEF || !symbol.st_value)
			continue;
		if (GELF_ST_TYPE(symbol.st_info) == STT_TLS)
			continue;
		name = elf_strptr(elf, header.sh_link, symbol.st_name);
		if (name && !visit(context, name, &symbol))
			return;
	}
}

struct wanted {
	const char *name;
	uint64_t value;
};

static bool match_name(void *context, const char *name, const GElf_Sym *symbol)
{
	struct wanted *wanted = context;

	if (strcmp(name, wanted->name) != 0)
		return true;
	wanted->value = symbol->st_value;
	return false;
}

/* The value of a dynamic symbol, 0 = none. */
static uint64_t value_of(Elf *elf, const char *name)
{
	struct wanted wanted = {name, 0};

	each_function(elf, SHT_DYNSYM, match_name, &wanted);
	return wanted.value;
}

uint64_t libs_symbol_value(int fd, const char *name)
{
	uint64_t value;
	Elf *elf;

	elf_version(EV_CURRENT);
	elf = elf_begin(fd, ELF_C_READ, NULL);
	value = elf ? value_of(elf, name) : 0;
	elf_end(elf);
	return value;
}

/* Find the bias, by the segment that the executable mapping shows. */
static bool find_bias(struct look *look)
{
	size_t count;

	if (elf_getphdrnum(look->elf, &count))
		return false;
	for (size_t i = 0; i < count; i++) {
		GElf_Phdr header;

		if (!gelf_getphdr(look->elf, (int)i, &header) || header.p_type != PT_LOAD || !(header.p_flags & PF_X))
			continue;
		if (look->text->offset + PAGE <= header.p_offset ||
		    look->text->offset >= header.p_offset + header.p_filesz)
			continue;
		look->bias = look->text->lo - look->text->offset - (header.p_vaddr - header.p_offset);
		return true;
	}
	return false;
}

struct collect {
	struct special *special;
	uint64_t bias;
	size_t room;
	bool musl, failed;
};

static bool collect_function(void *context, const char *name, const GElf_Sym *symbol)
{
	struct collect *list = context;
	struct special *special = list->special;
	struct function *function;

	if (GELF_ST_TYPE(symbol->st_info) != STT_FUNC && GELF_ST_TYPE(symbol->st_info) != STT_GNU_IFUNC)
		return true;
	if (special->count == list->room) {
		struct function *more = reallocarray(special->functions,
						     list->room = list->room ? list->room * 2 : 1024, sizeof(*more));

		if (!more) {
			list->failed = true;
			return false;
		}
		special->functions = more;
	}
	function = &special->functions[special->count++];
	function->lo = symbol->st_value + list->bias;
	function->hi = function->lo + symbol->st_size;
	function->unsafe = (is_unsafe_name(name) && !is_harmless_name(name)) || (list->musl && is_unsafe_in_musl(name));
	return true;
}

static int by_address(const void *a, const void *b)
{
	const struct function *one = a, *other = b;

	return one->lo < other->lo ? -1 : one->lo > other->lo;
}

/* Leave one entry for each address. */
static void merge_functions(struct special *special)
{
	size_t kept = 0;

	if (!special->count)
		return;
	qsort(special->functions, special->count, sizeof(special->functions[0]), by_address);
	for (size_t i = 1; i < special->count; i++) {
		struct function *last = &special->functions[kept], *next = &special->functions[i];

		if (next->lo != last->lo) {
			special->functions[++kept] = *next;
			continue;
		}
		last->unsafe |= next->unsafe;
		if (next->hi > last->hi)
			last->hi = next->hi;
	}
	special->count = kept + 1;
}

static int add_special(struct libs *libs, const struct look *look, bool loader)
{
	struct special *more = reallocarray(libs->specials, libs->count + 1, sizeof(*more));
	struct collect list = {.bias = look->bias, .musl = libs->musl && look->lo == libs->libc.lo};

	if (!more)
		return -ENOMEM;
	libs->specials = more;
	list.special = &more[libs->count++];
	*list.special = (struct special){.lo = look->lo, .hi = look->hi, .loader = loader};
	if (loader)
		return 0;
	each_function(look->elf, SHT_DYNSYM, collect_function, &list);
	each_function(look->elf, SHT_SYMTAB, collect_function, &list);
	merge_functions(list.special);
	return list.failed ? -ENOMEM : 0;
}

static uint64_t address_of(const struct look *look, const char *name)
{
	uint64_t value = value_of(look->elf, name);

	return value ? value + look->bias : 0;
}

/* Note libc's functions.  Before glibc 2.34 dlopen() was in a library of its own, which need not be there. */
static void take_libc(struct libs *libs, const struct look *look)
{
	uint64_t load = address_of(look, "dlopen");

	libs->errno_location = address_of(look, "__errno_location");
	if (load) {
		libs->load = load;
		libs->load_error = address_of(look, "dlerror");
		libs->load_flags = RTLD_NOW | RTLD_NODELETE;
	} else if (!libs->load) {
		libs->load = address_of(look, "__libc_dlopen_mode");
		libs->load_error = 0;
		libs->load_flags = RTLD_NOW | RTLD_NODELETE | GLIBC_RTLD_DLOPEN;
	}
}

static void take_libdl(struct libs *libs, const struct look *look)
{
	const char *name = strrchr(look->text->path, '/');

	if (!name || strncmp(name, "/libdl", 6) != 0 || !address_of(look, "dlopen"))
		return;
	libs->load = address_of(look, "dlopen");
	libs->load_error = address_of(look, "dlerror");
	libs->load_flags = RTLD_NOW | RTLD_NODELETE;
}

/* Tell the strings of a dynamic section's entries with this tag, one after the other; visit() returns false to end. */
static void each_dynamic(Elf *elf, int64_t tag, bool (*visit)(void *context, const char *text), void *context)
{
	GElf_Shdr header;
	Elf_Scn *section = find_section(elf, SHT_DYNAMIC, &header);
	Elf_Data *data = section ? elf_getdata(section, NULL) : NULL;
	size_t count = data && header.sh_entsize ? data->d_size / header.sh_entsize : 0;

	for (size_t i = 0; i < count; i++) {
		const char *text;
		GElf_Dyn entry;

		if (!gelf_getdyn(data, (int)i, &entry) || entry.d_tag != tag)
			continue;
		text = elf_strptr(elf, header.sh_link, entry.d_un.d_val);
		if (text && text[0] && !visit(context, text))
			return;
	}
}

static bool add_needed(void *context, const char *text)
{
	FILE *names = context;

	return fwrite(text, strlen(text) + 1, 1, names) == 1;
}

/* Note the libraries that the program itself asks for: they are loaded as long as it runs. */
static void read_needed(struct libs *libs, pid_t alive)
{
	char path[64];
	size_t size;
	FILE *names = open_memstream(&libs->needed, &size);
	Elf *elf;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/exe", (int)alive);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	elf = fd < 0 ? NULL : elf_begin(fd, ELF_C_READ, NULL);
	if (elf && names)
		each_dynamic(elf, DT_NEEDED, add_needed, names);
	elf_end(elf);
	if (fd >= 0)
		close(fd);
	if (names) {
		fputc(0, names);
		fclose(names);
	}
}

struct needed {
	const char *names;
	bool found;
};

static bool is_needed(void *context, const char *soname)
{
	struct needed *needed = context;

	for (const char *name = needed->names; *name; name += strlen(name) + 1)
		needed->found |= !strcmp(name, soname);
	return false;
}

static bool never_unloaded(const struct libs *libs, const struct look *look, pid_t alive)
{
	struct needed needed = {libs->needed, false};
	struct stat st;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/exe", (int)alive);
	if (!stat(path, &st) && space_is_file(look->text, &st))
		return true;
	if (needed.names)
		each_dynamic(look->elf, DT_SONAME, is_needed, &needed);
	return needed.found;
}

static int add_stays(struct libs *libs, const struct look *look)
{
	struct attach_range *more = reallocarray(libs->stays, libs->stays_count + 1, sizeof(*more));

	if (!more)
		return -ENOMEM;
	libs->stays = more;
	more[libs->stays_count++] = (struct attach_range){look->lo, look->hi};
	return 0;
}

/*
 * Note musl, which is the loader, too.  Since 1.1.22, which has membarrier(), all threads have a library's thread-local
 * variables when dlopen() returns; before, each gets them when it asks by a function of libc's.
 */
static void take_musl(struct libs *libs, const struct look *look)
{
	libs->musl = true;
	libs->old_musl = !value_of(look->elf, "membarrier");
	libs->is_static = false;
	libs->libc = (struct attach_range){look->lo, look->hi};
	libs->exit = address_of(look, "exit");
	libs->thread_exit = address_of(look, "pthread_exit");
}

/* True for libc.  A preloaded library may define __libc_start_main, too; musl's libc has no version, but dlopen. */
static bool is_libc(Elf *elf)
{
	return value_of(elf, "__libc_start_main") && (value_of(elf, "gnu_get_libc_version") || value_of(elf, "dlopen"));
}

/*
 * The last file of which nothing but its place matters.  The code of a program may lie in many mappings (node), and to
 * look for names among a hundred thousand takes long.
 */
struct plain_file {
	const struct map *map; /* NULL: there is none yet */
	bool stays;
};

static int look_at(struct libs *libs, const struct look *look, pid_t alive, struct plain_file *plain)
{
	bool loader = value_of(look->elf, "_rtld_global") != 0, libc = is_libc(look->elf), stays;
	uint64_t entry = address_of(look, "calltap_agent_attach");

	if (loader)
		libs->is_static = false;
	if (libc && value_of(look->elf, "_dl_debug_addr") && !value_of(look->elf, "gnu_get_libc_version"))
		take_musl(libs, look);
	if (libc)
		take_libc(libs, look);
	else
		take_libdl(libs, look);
	if (entry) {
		libs->entry = entry;
		libs->agent = (struct attach_range){look->lo, look->hi};
	}
	stays = loader || libc || never_unloaded(libs, look, alive);
	if (stays && add_stays(libs, look))
		return -ENOMEM;
	if (loader || libc || value_of(look->elf, "malloc") || value_of(look->elf, "pthread_create") ||
	    value_of(look->elf, "fork"))
		return add_special(libs, look, loader);
	if (!entry)
		*plain = (struct plain_file){look->text, stays};
	return 0;
}

/* Look at the object that has its code in this mapping. */
static int look_at_map(struct libs *libs, pid_t alive, const struct map *map, struct plain_file *plain)
{
	struct look look = {.text = map, .lo = map->lo, .hi = map->hi};
	int fd, ret = 0;

	if (plain->map && space_same_file(plain->map, map))
		return plain->stays ? add_stays(libs, &look) : 0;
	fd = proc_open_map(alive, map);

	if (fd < 0) {
		if (!libs->unread && map->bits & MAP_EXEC && !strstr(map->path, "/memfd:"))
			libs->unread = strdup(map->path);
		/* An agent that the tool cannot read must not be joined by a second one. */
		if (strstr(map->path, "libcalltap-agent"))
			libs->agent = (struct attach_range){map->lo, map->hi};
		return 0;
	}
	look.elf = elf_begin(fd, ELF_C_READ, NULL);
	if (look.elf && elf_kind(look.elf) == ELF_K_ELF && find_bias(&look))
		ret = look_at(libs, &look, alive, plain);
	elf_end(look.elf);
	close(fd);
	return ret;
}

int libs_read(struct libs *libs, pid_t alive, const struct space *space, struct calltap_diag *diag)
{
	struct plain_file plain = {0};
	int ret = 0;

	memset(libs, 0, sizeof(*libs));
	libs->is_static = true;
	elf_version(EV_CURRENT);
	read_needed(libs, alive);
	for (size_t i = 0; !ret && i < space->count; i++)
		if (space->maps[i].bits & MAP_EXEC && space->maps[i].path[0] == '/')
			ret = look_at_map(libs, alive, &space->maps[i], &plain);
	if (ret) {
		libs_free(libs);
		return calltap_diag_set(diag, ret, "there is no memory left");
	}
	return 0;
}

bool libs_are_all(const struct libs *libs)
{
	return libs->is_static || libs->unread || (libs->load && libs->errno_location);
}

int libs_refuse(const struct libs *libs, pid_t pid, bool library, struct calltap_diag *diag)
{
	if (libs->old_musl)
		return calltap_diag_set(
			diag, -ENOTSUP,
			"process %d runs with a musl libc older than 1.1.22, whose setuid() waits for the agent's "
			"thread; start it with a newer one",
			(int)pid);
	/* The loader or libc may be among the unread files. */
	if (libs->unread && (libs->is_static || !libs->load || !libs->errno_location))
		return calltap_diag_set(
			diag, -ENOTSUP,
			"%.300s of process %d was deleted or replaced, and only root may read what is mapped; attach "
			"as root, or start the process anew",
			libs->unread, (int)pid);
	if (libs->is_static && library)
		return calltap_diag_set(diag, -ENOTSUP,
					"process %d is linked statically, and has no loader that loads a library; link "
					"it dynamically",
					(int)pid);
	if (libs->is_static)
		return 0;
	if (!libs->load || !libs->errno_location)
		return calltap_diag_set(diag, -ENOTSUP,
					"process %d has no dlopen that can be found; start it under 'calltap record'",
					(int)pid);
	if (libs->agent.hi && !libs->entry)
		return calltap_diag_set(
			diag, -ENOTSUP,
			"process %d holds the agent of another calltap, which cannot be called; start it anew",
			(int)pid);
	return 0;
}

void libs_free(struct libs *libs)
{
	for (size_t i = 0; i < libs->count; i++)
		free(libs->specials[i].functions);
	free(libs->specials);
	free(libs->stays);
	free(libs->needed);
	free(libs->unread);
	memset(libs, 0, sizeof(*libs));
}
