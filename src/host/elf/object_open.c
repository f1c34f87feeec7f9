/*
 * Opening an ELF file and telling what it is: header, segments, code.  The
 * other parts of struct object are read by the files named in object_impl.h.
 *
 * Callers: the recorder, once per file that a target maps, and the commands.
 * Context: host; the file is untrusted.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "advice.h"
#include "object_impl.h"

#define INTERPRETER_MAX 4096
#define AT_ONCE_MIN	(1 << 20)
#define AT_ONCE_MAX	(16 << 20)

static int compare_codes(const void *a, const void *b)
{
	uint64_t left = ((const struct object_code *)a)->address, right = ((const struct object_code *)b)->address;

	return (left > right) - (left < right);
}

/*
 * True if size bytes of this section will be in memory, as code.  Segments say that; sections may say anything, and a
 * site must never lie where the target has nothing.
 */
static bool is_loaded(const struct object *object, const GElf_Shdr *section, uint64_t size)
{
	size_t count = 0;

	if (elf_getphdrnum(object->elf, &count) < 0)
		return false;
	for (size_t i = 0; i < count; i++) {
		GElf_Phdr segment;
		uint64_t at;

		if (!gelf_getphdr(object->elf, (int)i, &segment) || segment.p_type != PT_LOAD ||
		    !(segment.p_flags & PF_X))
			continue;
		at = section->sh_addr - segment.p_vaddr;
		if (section->sh_addr >= segment.p_vaddr && section->sh_offset >= segment.p_offset &&
		    at < segment.p_filesz && size <= segment.p_filesz - at &&
		    section->sh_offset - segment.p_offset == at)
			return true;
	}
	return false;
}

/* True for a linkage table: other code has no entries of one size; not all linkers write that size. */
static bool is_plt(const struct object *object, const GElf_Shdr *section)
{
	const char *name;
	size_t names;

	if (section->sh_entsize)
		return true;
	if (elf_getshdrstrndx(object->elf, &names) < 0)
		return false;
	name = elf_strptr(object->elf, names, section->sh_name);
	return name && (!strncmp(name, ".plt", 4) || !strcmp(name, ".iplt"));
}

static int read_code(struct object *object)
{
	Elf_Scn *section = NULL;
	size_t count = 0;

	if (elf_getshdrnum(object->elf, &count) < 0)
		count = 0;
	object->codes = calloc(count + 1, sizeof(*object->codes));
	if (!object->codes)
		return -ENOMEM;
	while (object->code_count < count && (section = elf_nextscn(object->elf, section))) {
		const uint64_t wanted = SHF_ALLOC | SHF_EXECINSTR;
		GElf_Shdr header;
		Elf_Data *data;

		if (!gelf_getshdr(section, &header) || header.sh_type != SHT_PROGBITS ||
		    (header.sh_flags & wanted) != wanted)
			continue;
		data = elf_rawdata(section, NULL);
		if (!data || !data->d_buf || !data->d_size || header.sh_addr + data->d_size < header.sh_addr ||
		    !is_loaded(object, &header, data->d_size))
			continue;
		object->codes[object->code_count++] = (struct object_code){
			.address = header.sh_addr,
			.size = data->d_size,
			.bytes = data->d_buf,
			.plt = is_plt(object, &header),
		};
	}
	qsort(object->codes, object->code_count, sizeof(*object->codes), compare_codes);
	return 0;
}

static int read_interpreter(struct object *object, const GElf_Phdr *segment)
{
	Elf_Data *data;

	if (object->interpreter || segment->p_filesz > INTERPRETER_MAX)
		return 0;
	data = elf_getdata_rawchunk(object->elf, segment->p_offset, segment->p_filesz, ELF_T_BYTE);
	if (!data || !data->d_buf)
		return 0;
	object->interpreter = strndup(data->d_buf, data->d_size);
	return object->interpreter ? 0 : -ENOMEM;
}

static void read_build_id(struct object *object, const GElf_Phdr *segment)
{
	Elf_Data *data = elf_getdata_rawchunk(object->elf, segment->p_offset, segment->p_filesz,
					      segment->p_align == 8 ? ELF_T_NHDR8 : ELF_T_NHDR);
	size_t at = 0, next, name_at, desc_at;
	GElf_Nhdr note;

	if (!data || object->build_id_size)
		return;
	while ((next = gelf_getnote(data, at, &note, &name_at, &desc_at))) {
		const char *bytes = data->d_buf;

		if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && !memcmp(bytes + name_at, "GNU", 4) &&
		    note.n_descsz <= sizeof(object->build_id)) {
			object->build_id_size = note.n_descsz;
			memcpy(object->build_id, bytes + desc_at, note.n_descsz);
			return;
		}
		at = next;
	}
}

static void read_dynamic(struct object *object, const GElf_Phdr *segment)
{
	Elf_Data *data = elf_getdata_rawchunk(object->elf, segment->p_offset, segment->p_filesz, ELF_T_DYN);
	GElf_Dyn entry;

	object->dynamic = segment->p_vaddr;
	for (int i = 0; data && gelf_getdyn(data, i, &entry) && entry.d_tag != DT_NULL; i++) {
		object->named |= entry.d_tag == DT_SONAME;
		if (entry.d_tag == DT_FLAGS_1)
			object->pie = entry.d_un.d_val & DF_1_PIE;
	}
}

static void extend_range(struct object *object, const GElf_Phdr *segment)
{
	uint64_t end = segment->p_vaddr + segment->p_memsz;

	if (end < segment->p_vaddr)
		return;
	if (segment->p_vaddr < object->lo)
		object->lo = segment->p_vaddr;
	if (end > object->hi)
		object->hi = end;
}

static int read_segments(struct object *object)
{
	size_t count = 0;
	int error = 0;

	if (elf_getphdrnum(object->elf, &count) < 0)
		count = 0;
	object->lo = UINT64_MAX;
	for (size_t i = 0; i < count && !error; i++) {
		GElf_Phdr segment;

		if (!gelf_getphdr(object->elf, (int)i, &segment))
			break;
		if (segment.p_type == PT_LOAD)
			extend_range(object, &segment);
		else if (segment.p_type == PT_INTERP)
			error = read_interpreter(object, &segment);
		else if (segment.p_type == PT_NOTE)
			read_build_id(object, &segment);
		else if (segment.p_type == PT_DYNAMIC)
			read_dynamic(object, &segment);
	}
	if (object->lo > object->hi)
		object->lo = object->hi = 0;
	return error;
}

static int other_cpu_diag(const struct object *object, const GElf_Ehdr *header, struct calltap_diag *diag)
{
	char names[64];

	elf_cpu_names(names, sizeof(names));
	return calltap_diag_set(diag, -ENOEXEC, "%s is built for another CPU (ELF machine %u%s); build it for %s",
				object->path, header->e_machine, object->cpu ? ", big-endian" : "", names);
}

/* -ENOEXEC unless this is a program or library of a CPU that can be traced. */
static int read_header(struct object *object, int fd, struct calltap_diag *diag)
{
	GElf_Ehdr header;

	if (!object->elf || elf_kind(object->elf) != ELF_K_ELF || !gelf_getehdr(object->elf, &header))
		return object_not_elf_diag(fd, object->path, diag);
	if (header.e_ident[EI_CLASS] != ELFCLASS64)
		return calltap_diag_set(diag, -ENOEXEC,
					"%s is a 32-bit program; only 64-bit ones can be traced, build it for 64 bits "
					"(x86: with -m64)",
					object->path);
	object->cpu = elf_cpu_find(header.e_machine);
	if (!object->cpu || header.e_ident[EI_DATA] != ELFDATA2LSB)
		return other_cpu_diag(object, &header, diag);
	if (header.e_type != ET_EXEC && header.e_type != ET_DYN)
		return calltap_diag_set(diag, -ENOEXEC,
					"%s is an ELF file, but neither a program nor a shared library; link it first",
					object->path);
	object->type = header.e_type;
	object->entry = header.e_entry;
	return 0;
}

static int read_all(struct object *object, int fd, struct calltap_diag *diag)
{
	int error = read_header(object, fd, diag);

	if (error)
		return error;
	error = read_segments(object);
	if (!error)
		error = read_code(object);
	if (!error)
		error = object_read_symbols(object);
	if (!error)
		error = object_read_starts(object);
	if (!error)
		error = object_read_relocs(object);
	if (!error)
		error = object_find_entered(object);
	if (!error)
		error = object_find_sites(object);
	if (!error)
		error = object_view_make(object);
	if (error)
		return calltap_diag_set(diag, error, "%s: not enough memory to read its functions", object->path);
	return 0;
}

/*
 * Read a file of usual size whole, into huge pages where there are any: nearly all of it is needed, and libelf would
 * read each section into small ones.  NULL: let libelf do that.
 */
static Elf *read_at_once(struct object *object, int fd)
{
	struct stat st;
	size_t at = 0;
	ssize_t got;
	void *bytes;

	if (fstat(fd, &st) || st.st_size < AT_ONCE_MIN || st.st_size > AT_ONCE_MAX)
		return NULL;
	bytes = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (bytes == MAP_FAILED)
		return NULL;
	object->file = bytes;
	object->file_size = (size_t)st.st_size;
	if (madvise(bytes, object->file_size, MADV_HUGEPAGE))
		return NULL; /* no gain then */
	for (; at < object->file_size; at += (size_t)got) {
		got = pread(fd, (char *)bytes + at, object->file_size - at, (off_t)at);
		if (got <= 0)
			return NULL;
	}
	return elf_memory(bytes, object->file_size);
}

int object_open(struct object **out, int fd, const char *path, struct calltap_diag *diag)
{
	struct object *object = calloc(1, sizeof(*object));
	int error;

	*out = NULL;
	if (!object || !(object->path = strdup(path))) {
		free(object);
		return calltap_diag_set(diag, -ENOMEM, "%s: not enough memory to read its functions", path);
	}
	elf_version(EV_CURRENT);
	object->elf = read_at_once(object, fd);
	if (!object->elf)
		object->elf = elf_begin(fd, ELF_C_READ, NULL);
	error = read_all(object, fd, diag);
	if (error) {
		object_close(object);
		return error;
	}
	aliases_read(&object->aliases, object->elf, fd, path);
	*out = object;
	return 0;
}

void object_close(struct object *object)
{
	if (!object)
		return;
	struct address_list *lists[] = {
		&object->starts,	  &object->fentry.targets, &object->fentry.slots,
		&object->finders.targets, &object->finders.slots,  &object->patchable,
		&object->mcount_loc,	  &object->fragments,	   &object->entered,
	};

	for (size_t i = 0; object->site_names && i < object->site_count; i++)
		free(object->site_names[i]);
	for (size_t i = 0; object->site_short_names && i < object->site_count; i++)
		free(object->site_short_names[i]);
	free(object->site_names);
	free(object->site_short_names);
	free(object->sites);
	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++)
		free(lists[i]->items);
	object_view_free(object->view);
	object_free_symbols(object);
	free(object->codes);
	free(object->interpreter);
	elf_end(object->debug);
	free(object->debug_bytes);
	elf_end(object->elf);
	if (object->file)
		munmap(object->file, object->file_size);
	aliases_clear(&object->aliases);
	free(object->path);
	free(object);
}
