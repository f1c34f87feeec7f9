/*
 * Types from DWARF: sections of debug information, of which the fuzzer makes an ELF file; every function in it, and
 * what is fetched for it.
 *
 * An input is the sizes of the sections below, two bytes each, then the sections; .debug_info is what is left.
 */
#include <errno.h>
#include <elf.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <bpf/verify.h>
#include <host/elf/object.h>
#include <host/types/types.h>
#include <host/values/fetch.h>
#include <host/values/typed.h>

#include "fuzz.h"

#define FUNCTIONS_MAX 64u    /* read per file */
#define CODE_AT	      0x1000 /* the file's address in memory: functions are there in the corpus */

/* Behind these: .debug_info, the names of sections. */
static const char *const names[] = {".debug_abbrev",	  ".debug_str", ".debug_line_str", ".debug_loclists",
				    ".debug_rnglists",	  ".debug_loc", ".debug_ranges",   ".debug_addr",
				    ".debug_str_offsets", ".dynsym",	".dynstr"};
enum { PARTS = sizeof(names) / sizeof(names[0]), DYNSYM = 9, SECTIONS = PARTS + 3 };

struct file {
	unsigned char *bytes;
	size_t size;
	char names[256];
	uint32_t names_used;
	Elf64_Shdr sections[SECTIONS];
	unsigned count;
};

static void add(struct file *file, const char *name, uint32_t type, const void *bytes, size_t size)
{
	size_t at = (file->size + 7) / 8 * 8;

	file->sections[file->count++] = (Elf64_Shdr){
		.sh_name = file->names_used, .sh_type = type, .sh_offset = at, .sh_size = size, .sh_addralign = 1};
	strcpy(file->names + file->names_used, name);
	file->names_used += (uint32_t)strlen(name) + 1;
	memcpy(file->bytes + at, bytes, size);
	file->size = at + size;
}

static void make(struct file *file, const uint8_t *data, size_t size)
{
	struct input input = {data, size};
	uint16_t sizes[PARTS];
	const uint8_t *part;
	Elf64_Ehdr head = {.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
			   .e_type = ET_DYN,
			   .e_machine = EM_X86_64,
			   .e_version = EV_CURRENT,
			   .e_ehsize = sizeof(head),
			   .e_shentsize = sizeof(Elf64_Shdr),
			   .e_shnum = SECTIONS,
			   .e_shstrndx = SECTIONS - 1};
	size_t got;

	*file = (struct file){.size = sizeof(head), .names_used = 1, .count = 1};
	file->bytes = calloc(1, size + sizeof(file->names) + sizeof(head) + sizeof(file->sections) + 8 * SECTIONS +
					sizeof(Elf64_Phdr));
	if (!file->bytes)
		abort();
	for (unsigned i = 0; i < PARTS; i++)
		sizes[i] = input_u16(&input);
	for (unsigned i = 0; i < PARTS; i++) {
		part = input_bytes(&input, sizes[i], &got);
		add(file, names[i], i == DYNSYM ? SHT_DYNSYM : i > DYNSYM ? SHT_STRTAB : SHT_PROGBITS, part, got);
	}
	file->sections[1 + DYNSYM].sh_entsize = sizeof(Elf64_Sym);
	file->sections[1 + DYNSYM].sh_link = 1 + DYNSYM + 1;
	part = input_bytes(&input, input.left, &got);
	add(file, ".debug_info", SHT_PROGBITS, part, got);
	add(file, ".shstrtab", SHT_STRTAB, file->names, sizeof(file->names));
	/* Its own name is among the names by now. */
	memcpy(file->bytes + file->sections[SECTIONS - 1].sh_offset, file->names, sizeof(file->names));
	head.e_shoff = (file->size + 7) / 8 * 8;
	memcpy(file->bytes + head.e_shoff, file->sections, sizeof(file->sections));
	file->size = head.e_shoff + sizeof(file->sections);
	/* Any of its bytes may be a function's code. */
	head.e_phoff = file->size;
	head.e_phnum = 1;
	head.e_phentsize = sizeof(Elf64_Phdr);
	memcpy(file->bytes, &head, sizeof(head));
	memcpy(file->bytes + head.e_phoff,
	       &(Elf64_Phdr){.p_type = PT_LOAD,
			     .p_flags = PF_R | PF_X,
			     .p_vaddr = CODE_AT,
			     .p_filesz = file->size,
			     .p_memsz = file->size},
	       sizeof(Elf64_Phdr));
	file->size += sizeof(Elf64_Phdr);
}

static void check_look(const struct type_look *look)
{
	fuzz_expect(strlen(look->type) < TYPES_NAME_MAX, "a type's text has an end");
	fuzz_expect(look->kind != TYPE_OTHER || look->why, "what cannot be shown has a reason");
	fuzz_expect(look->kind != TYPE_ENUM || look->names, "an enumeration has names, if none are in it");
	fuzz_expect(look->size <= 8 || look->kind == TYPE_CHARS || look->kind == TYPE_ARRAY ||
			    (look->kind == TYPE_LONG_DOUBLE && look->size <= 16),
		    "a number has eight bytes at the most");
}

static void check_members(const struct type_members *members)
{
	fuzz_expect(members->count <= TYPES_MEMBERS && members->size <= TYPES_BYTES, "members are bounded");
	for (uint32_t i = 0; i < members->count; i++) {
		const struct type_member *member = &members->list[i];

		check_look(&member->look);
		fuzz_expect(strlen(member->name) < TYPES_MEMBER_NAME, "a member's name has an end");
		fuzz_expect(!member->look.size || member->offset + member->look.size <= members->size,
			    "a member lies within what is read");
		fuzz_expect(member->bit + member->bits <= 8 * member->look.size || !member->bits,
			    "a field of bits lies within its number");
	}
}

static void check_value(const struct type_value *value)
{
	check_look(&value->look);
	check_members(&value->members);
}

/* What types tell makes a program that the verifier takes. */
static void check_program(const struct typed_function *of, bool result)
{
	static struct fetch fetch;
	struct calltap_diag diag = {0};
	struct spec spec;

	if (typed_translate(&spec, of, result))
		abort();
	fuzz_expect(spec.count <= SPEC_ROWS, "a spec has room");
	fetch_compile(&fetch, &spec, FETCH_REGISTERS_X86_64);
	fuzz_expect(fetch.count <= FETCH_INSNS, "its program has room");
	fuzz_expect(!bpf_verify(&(struct bpf_verify){.machine = fetch_machine_of(&fetch),
						     .insns = fetch.insns,
						     .count = fetch.count},
				&diag),
		    "its program is one that the verifier takes");
	spec_clear(&spec);
}

static void check_follow(const struct typed_function *of, bool result, const char *path, enum typed_for use)
{
	static const struct buckets none = {.kind = BUCKET_NONE}, log2 = {.kind = BUCKET_LOG2};
	static struct fetch fetch;
	struct spec asked = {.count = 1}, one;
	struct calltap_diag diag = {0};
	char why[TYPED_WHY];
	int ret;

	asked.fields[0].path = strdup(path);
	if (!asked.fields[0].path)
		abort();
	snprintf(asked.fields[0].name, SPEC_NAME, "%s", path);
	ret = typed_follow(&one, of, result, &asked, use, why);
	fuzz_expect(!ret || ret == -EINVAL, "a path leads somewhere or nowhere");
	fuzz_expect(!ret || why[0], "nowhere has a reason");
	fuzz_expect(ret || one.fields[0].type == SPEC_MISSING || one.fields[0].offset_count || !strpbrk(path, "-.["),
		    "only an address leads farther");
	if (!ret && use == TYPED_FOR_COUNT)
		fetch_compile_count(&fetch, FETCH_COUNT, &one, of->registers, NULL,
				    one.count == 1 && bucket_suits(&one.fields[0]) ? &log2 : &none);
	else if (!ret && use == TYPED_FOR_SHOW)
		fetch_compile(&fetch, &one, of->registers);
	if (!ret && use != TYPED_FOR_COMPARE) {
		fuzz_expect(fetch.count <= FETCH_INSNS, "its program has room");
		fuzz_expect(!bpf_verify(&(struct bpf_verify){.machine = fetch_machine_of(&fetch),
							     .insns = fetch.insns,
							     .count = fetch.count},
					&diag),
			    "a path's program is one that the verifier takes");
	}
	spec_clear(&asked);
	spec_clear(&one);
}

/* Paths to each value, and some steps farther, by the names that there are. */
static void check_paths(const struct typed_function *of, const struct type_value *value, bool result)
{
	static const char *const ends[] = {"", "[0]", "->next", "[-1].x", "->a.b[2]->c", "[0][1]"};
	const char *name = result ? "ret" : value->name;
	char path[SPEC_NAME + 2 * TYPES_MEMBER_NAME];

	for (unsigned i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		(void)snprintf(path, sizeof(path), "%.30s%s", name, ends[i]);
		check_follow(of, result, path, i % 3);
	}
	for (uint32_t i = 0; i < value->members.count; i++)
		for (unsigned end = 0; end < sizeof(ends) / sizeof(ends[0]); end++) {
			(void)snprintf(path, sizeof(path), "%.30s->%s%s", name, value->members.list[i].name, ends[end]);
			check_follow(of, result, path, end % 3);
		}
}

static void read_function(struct types *types, uint32_t place)
{
	uint64_t address = types_address(types, place);
	struct type_function function;

	fuzz_expect(types_find(types, address) >= 0, "a function is found by its address");
	for (unsigned skip = 0; skip <= 5; skip += 5) {
		int ret = types_read(&function, types, place, skip ? "f.isra.0" : "f", address, address + skip);

		fuzz_expect(function.count <= TYPES_VALUES, "arguments are bounded");
		for (uint32_t i = 0; i < function.count; i++)
			check_value(&function.arguments[i]);
		if (function.has_result)
			check_value(&function.result);
		if (!ret) {
			fuzz_taken = 1;
			const struct typed_function of = {
				function, types, place, skip ? "f.isra.0" : "f", FETCH_REGISTERS_X86_64,
			};

			check_program(&of, false);
			check_program(&of, true);

			for (uint32_t i = 0; i < function.count; i++)
				check_paths(&of, &function.arguments[i], false);
			if (function.has_result)
				check_paths(&of, &function.result, true);
		}
		type_function_clear(&function);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct calltap_diag diag = {0};
	struct object *object;
	struct types *types;
	struct file file;
	char path[32];
	int fd;

	make(&file, data, size);
	fd = input_file(file.bytes, file.size);
	input_path(path, fd);
	if (object_open(&object, fd, path, &diag))
		abort();
	if (!types_open(&types, object, fd)) {
		uint32_t count = types_count(types);

		for (uint32_t i = 0; i < count && i < FUNCTIONS_MAX; i++)
			read_function(types, i);
		fuzz_expect(types_find_symbol(types, "f") < (int64_t)count, "a symbol's place is one");
		types_close(types);
	}
	object_close(object);
	close(fd);
	free(file.bytes);
	return 0;
}
