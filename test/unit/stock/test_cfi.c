/*
 * Call frame information: entries made by hand, damaged ones, and those of real objects, compared with libdw.
 */
#include <dwarf.h>
#include <elfutils/libdw.h>
#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "host/stock/cfi.h"

#define ADDRESS 0x1000u
#define RSP	7
#define RBP	6
#define RETURN	16
#define ROUNDS	20000u

/* A CIE as gcc's, and two FDEs: of a function with a frame, and of a part of one. */
static const uint8_t usual[] = {
	/* 0 */ 0x14, 0, 0, 0, 0, 0, 0, 0, 1, 'z', 'R', 0, 1, 0x78, 16, 1, 0x1b, 0x0c, 7, 8, 0x90, 1, 0, 0,
	/* 24: push %rbp; mov; ... pop */
	0x1c, 0, 0, 0, 28, 0, 0, 0, 0xe0, 0x0f, 0, 0, 0x40, 0, 0, 0, 0, /* start: 32 + 0xfe0 from here */
	0x41, 0x0e, 16, 0x86, 2, 0x43, 0x0d, 6, 0x70, 0xc6, 0x0c, 7, 8, 0, 0,
	/* 56 */ 0x14, 0, 0, 0, 60, 0, 0, 0, 0, 0x10, 0, 0, 0x10, 0, 0, 0, 0, 0x0e, 16, 0x83, 2, 0x0a, 0xb, 0,
	/* 80: the end */ 0, 0, 0, 0};

static struct cfi_section section_of(const uint8_t *bytes, size_t size)
{
	return (struct cfi_section){bytes, size, ADDRESS};
}

static void reads_entries(void **state)
{
	const struct cfi_section section = section_of(usual, sizeof(usual));
	struct cfi_reader reader;
	struct cfi_entry entry;
	struct cfi_row row;

	cfi_begin(&reader, &section);
	assert_true(cfi_next(&reader, &entry));
	assert_int_equal(entry.start, ADDRESS + 32 + 0xfe0);
	assert_int_equal(entry.size, 0x40);
	assert_int_equal(entry.data_align, -8);
	assert_int_equal(entry.return_register, RETURN);
	assert_ptr_equal(entry.initial, usual + 17);
	assert_int_equal(entry.initial_size, 7);
	assert_false(entry.signal);
	assert_int_equal(entry.lsda, 0);
	for (unsigned i = 0; i < 0x40; i++) {
		assert_true(cfi_row_at(&entry, i, &row));
		assert_int_equal(row.cfa_register, i >= 4 && i < 0x34 ? RBP : RSP);
		assert_int_equal(row.cfa_offset, i >= 1 && i < 0x34 ? 16 : 8);
		assert_int_equal(row.saved, i >= 1 && i < 0x34);
		assert_true(row.return_at_cfa);
	}
	assert_true(cfi_next(&reader, &entry));
	assert_int_equal(entry.start, ADDRESS + 64 + 0x1000);
	assert_true(cfi_row_at(&entry, 0, &row));
	assert_int_equal(row.cfa_offset, 16);
	assert_true(row.saved);
	assert_false(cfi_next(&reader, &entry));
}

/* Rows of an entry that has these instructions behind the usual CIE's. */
static bool row_of(struct cfi_row *row, uint64_t offset, const uint8_t *code, size_t size)
{
	const struct cfi_entry entry = {.size = 0x1000,
					.initial = usual + 17,
					.initial_size = 7,
					.code = code,
					.code_size = size,
					.code_align = 1,
					.data_align = -8,
					.return_register = RETURN};

	return cfi_row_at(&entry, offset, row);
}
#define ROW_OF(row, offset, ...)                                                                                       \
	row_of(row, offset, (const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__}))

static void makes_rows(void **state)
{
	struct cfi_row row;

	assert_true(ROW_OF(&row, 0, DW_CFA_undefined, RETURN));
	assert_true(row.return_undefined && !row.return_at_cfa && !row.saved);
	assert_true(ROW_OF(&row, 0, DW_CFA_undefined, RETURN, 0xc0 | RETURN));
	assert_true(!row.return_undefined && row.return_at_cfa);
	assert_true(ROW_OF(&row, 0, DW_CFA_offset_extended_sf, RETURN, 0x7f)); /* at CFA + 8 */
	assert_false(row.return_at_cfa);
	assert_true(ROW_OF(&row, 0, DW_CFA_def_cfa_expression, 2, DW_OP_breg7, 0));
	assert_int_equal(row.cfa_register, CFI_EXPRESSION);
	assert_true(ROW_OF(&row, 9, DW_CFA_remember_state, DW_CFA_def_cfa_offset, 64, 0x83, 2, DW_CFA_advance_loc1, 9,
			   DW_CFA_restore_state));
	assert_int_equal(row.cfa_offset, 8);
	assert_false(row.saved);
	assert_true(ROW_OF(&row, 8, DW_CFA_def_cfa_sf, RBP, 0x7e, DW_CFA_advance_loc4, 9, 0, 0, 0, 0x0e, 99));
	assert_int_equal(row.cfa_register, RBP);
	assert_int_equal(row.cfa_offset, 16);
	assert_true(ROW_OF(&row, 0, DW_CFA_val_expression, 70, 1, DW_OP_lit0, DW_CFA_GNU_args_size, 8));
	assert_true(row.saved);
	assert_true(ROW_OF(&row, 0, DW_CFA_same_value, 3, DW_CFA_undefined, 4));
	assert_false(row.saved);
	/* no end to the advances */
	assert_true(ROW_OF(&row, 1u << 31, DW_CFA_MIPS_advance_loc8, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
			   0x0e, 99));
	assert_int_equal(row.cfa_offset, 8);
}

static void refuses_what_it_does_not_know(void **state)
{
	struct cfi_row row;

	assert_false(ROW_OF(&row, 0, 0x3f));
	assert_false(ROW_OF(&row, 0, DW_CFA_set_loc, 0, 0, 0, 0, 0, 0, 0, 0));
	assert_false(ROW_OF(&row, 0, DW_CFA_restore_state));
	assert_false(ROW_OF(&row, 0, DW_CFA_def_cfa, 7)); /* cut short */
	assert_false(ROW_OF(&row, 0, DW_CFA_def_cfa, 0xff, 0x80, 0x80));
	assert_false(ROW_OF(&row, 0, DW_CFA_def_cfa_expression, 3, 0, 0));
	assert_false(ROW_OF(&row, 0, DW_CFA_offset_extended, 0x80, 1, 1)); /* register 128 */
	assert_false(
		ROW_OF(&row, 0, 0xa, 0xa, 0xa, 0xa, 0xa, 0xa, 0xa, 0xa, 0xa, 0xa, 0xa, 0xa, 0xa, 0xa, 0xa, 0xa, 0xa));
	/* but not what lies behind the row */
	assert_true(ROW_OF(&row, 1, 0x42, 0x3f));
	assert_false(ROW_OF(&row, 2, 0x42, 0x3f));
}

/* Read all there is, wherever that leads. */
static unsigned read_all(const uint8_t *bytes, size_t size)
{
	const struct cfi_section section = section_of(bytes, size);
	struct cfi_reader reader;
	struct cfi_entry entry;
	unsigned count = 0;

	cfi_begin(&reader, &section);
	for (; cfi_next(&reader, &entry); count++) {
		struct cfi_rows rows;
		struct cfi_row row;

		cfi_rows_begin(&rows, &entry);
		for (uint64_t at = 0; at < 80; at += 3)
			if (!cfi_rows_to(&rows, at, &row))
				break;
	}
	return count;
}

static void damaged_sections_are_read_safely(void **state)
{
	for (size_t size = 0; size <= sizeof(usual); size++) {
		uint8_t *copy = malloc(size + !size); /* whoever reads behind it is caught by a sanitizer */

		memcpy(copy, usual, size);
		assert_int_equal(read_all(copy, size), size >= 80 ? 2 : size >= 56 ? 1 : 0);
		free(copy);
	}
	srand(14);
	for (unsigned round = 0; round < ROUNDS; round++) {
		uint8_t *copy = malloc(sizeof(usual));

		memcpy(copy, usual, sizeof(usual));
		for (unsigned i = 0; i <= round % 5; i++)
			copy[(size_t)rand() % sizeof(usual)] = (uint8_t)rand();
		read_all(copy, sizeof(usual));
		free(copy);
	}
}

struct object {
	int fd;
	Elf *elf;
	Elf_Data *data;
	struct cfi_section frames;
};

static bool open_object(struct object *object, const char *path)
{
	Elf_Scn *scn = NULL;
	GElf_Shdr header;
	size_t names;

	elf_version(EV_CURRENT);
	*object = (struct object){.fd = open(path, O_RDONLY | O_CLOEXEC)};
	if (object->fd < 0)
		return false;
	object->elf = elf_begin(object->fd, ELF_C_READ_MMAP, NULL);
	assert_int_equal(elf_getshdrstrndx(object->elf, &names), 0);
	while ((scn = elf_nextscn(object->elf, scn))) {
		const char *name;

		assert_non_null(gelf_getshdr(scn, &header));
		name = elf_strptr(object->elf, names, header.sh_name);
		if (!name || strcmp(name, ".eh_frame") != 0)
			continue;
		object->data = elf_getdata(scn, NULL);
		object->frames = (struct cfi_section){object->data->d_buf, object->data->d_size, header.sh_addr};
	}
	return true;
}

static void close_object(struct object *object)
{
	elf_end(object->elf);
	close(object->fd);
}

/* The next FDE by libdw; false at the end. */
static bool next_fde(const struct object *object, Dwarf_Off *at, Dwarf_CFI_Entry *fde, Dwarf_CFI_Entry *cie)
{
	const unsigned char *ident = (const unsigned char *)elf_getident(object->elf, NULL);
	Dwarf_Off next;

	for (;;) {
		int ret = dwarf_next_cfi(ident, object->data, true, *at, &next, fde);

		if (ret || next == *at)
			return false;
		*at = next;
		if (!dwarf_cfi_cie_p(fde)) {
			assert_int_equal(dwarf_next_cfi(ident, object->data, true, fde->fde.CIE_pointer, &next, cie),
					 0);
			return true;
		}
	}
}

/* The row by libdw. */
static void check_row(Dwarf_CFI *cfi, const struct cfi_entry *entry, uint64_t offset, const struct cfi_row *row)
{
	Dwarf_Op memory[3], *ops;
	Dwarf_Frame *frame;
	size_t count;

	assert_int_equal(dwarf_cfi_addrframe(cfi, entry->start + offset, &frame), 0);
	assert_int_equal(dwarf_frame_cfa(frame, &ops, &count), 0);
	if (row->cfa_register == CFI_EXPRESSION) {
		assert_true(count != 1 || ops[0].atom < DW_OP_breg0 || ops[0].atom > DW_OP_breg31);
	} else {
		assert_int_equal(count, 1);
		if (ops[0].atom == DW_OP_bregx) {
			assert_int_equal(ops[0].number, row->cfa_register);
			assert_int_equal(ops[0].number2, row->cfa_offset);
		} else {
			assert_int_equal(ops[0].atom, DW_OP_breg0 + row->cfa_register);
			assert_int_equal(ops[0].number, row->cfa_offset);
		}
	}
	assert_int_equal(dwarf_frame_register(frame, entry->return_register, memory, &ops, &count), 0);
	assert_int_equal(row->return_undefined, !count && ops == memory);
	if (row->return_at_cfa) { /* the CFA, plus -8 */
		assert_int_equal(count, 2);
		assert_int_equal(ops[0].atom, DW_OP_call_frame_cfa);
		assert_int_equal(ops[1].number, -8);
	}
	free(frame);
}

/* Each entry is libdw's; so are the rows at its first bytes, and some further ones. */
static unsigned check_object(const char *path)
{
	struct cfi_reader reader;
	struct cfi_entry entry;
	Dwarf_CFI_Entry fde, cie;
	struct object object;
	Dwarf_Off at = 0;
	Dwarf_CFI *cfi;
	unsigned count = 0;

	if (!open_object(&object, path))
		return 0;
	if (!object.frames.size) {
		close_object(&object);
		return 0;
	}
	cfi = dwarf_getcfi_elf(object.elf);
	assert_non_null(cfi);
	cfi_begin(&reader, &object.frames);
	for (; cfi_next(&reader, &entry); count++) {
		struct cfi_row row;

		assert_true(next_fde(&object, &at, &fde, &cie));
		assert_ptr_equal(entry.code + entry.code_size, fde.fde.end);
		assert_ptr_equal(entry.initial, cie.cie.initial_instructions);
		assert_ptr_equal(entry.initial + entry.initial_size, cie.cie.initial_instructions_end);
		assert_int_equal(entry.code_align, cie.cie.code_alignment_factor);
		assert_int_equal(entry.data_align, cie.cie.data_alignment_factor);
		assert_int_equal(entry.return_register, cie.cie.return_address_register);
		assert_int_equal(entry.signal, strchr(cie.cie.augmentation, 'S') != NULL);
		for (uint64_t offset = 0; offset < entry.size; offset += offset < 16 ? 1 : 61) {
			assert_true(cfi_row_at(&entry, offset, &row));
			check_row(cfi, &entry, offset, &row);
		}
	}
	assert_false(next_fde(&object, &at, &fde, &cie));
	dwarf_cfi_end(cfi);
	close_object(&object);
	return count;
}

static void real_objects_are_read_as_by_libdw(void **state)
{
	assert_true(check_object("/proc/self/exe") > 0);
	check_object("/lib/x86_64-linux-gnu/libc.so.6");
	check_object("/lib/x86_64-linux-gnu/libgcc_s.so.1");
	check_object("/lib64/ld-linux-x86-64.so.2");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reads_entries),
		cmocka_unit_test(makes_rows),
		cmocka_unit_test(refuses_what_it_does_not_know),
		cmocka_unit_test(damaged_sections_are_read_safely),
		cmocka_unit_test(real_objects_are_read_as_by_libdw),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
