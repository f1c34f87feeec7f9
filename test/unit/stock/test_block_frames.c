/*
 * The unwind tables of regions of blocks, read back by libdw at every instruction of every block of real objects: the
 * rules are those of the function itself at the instruction that was moved.
 */
#include <dwarf.h>
#include <elf.h>
#include <elfutils/libdw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "arch/x86_64/isa/nops.h"
#include "real.h"

#define RSP	  7
#define RETURN	  16 /* the return address */
#define REGISTERS 32
#define RULE_OPS  8

/* The region as an ELF file without sections: readers find its tables by the program header. */
struct file {
	Elf64_Ehdr header;
	Elf64_Phdr segments[2];
	uint8_t region[];
};

struct made {
	struct stock_layout layout;
	struct stock_region region;
	struct file *file;
	Elf *elf;
	Dwarf_CFI *cfi;
};

static void make(struct made *made, const struct real *real, uint64_t at, uint64_t base)
{
	size_t size;

	*made = (struct made){.region = {&real->image, at, base}};
	assert_int_equal(stock_layout(&made->layout, &real->image, real->blocks, real->count), 0);
	size = sizeof(*made->file) + made->layout.size;
	made->file = calloc(1, size);
	*made->file = (struct file){
		.header = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
			   .e_type = ET_EXEC,
			   .e_machine = real->image.machine,
			   .e_version = EV_CURRENT,
			   .e_phoff = offsetof(struct file, segments),
			   .e_ehsize = sizeof(Elf64_Ehdr),
			   .e_phentsize = sizeof(Elf64_Phdr),
			   .e_phnum = 2},
		.segments = {{.p_type = PT_LOAD,
			      .p_offset = offsetof(struct file, region),
			      .p_vaddr = at,
			      .p_filesz = made->layout.size,
			      .p_memsz = made->layout.size},
			     {.p_type = PT_GNU_EH_FRAME,
			      .p_offset = offsetof(struct file, region) + made->layout.header_off,
			      .p_vaddr = at + made->layout.header_off,
			      .p_filesz = made->layout.header_size,
			      .p_memsz = made->layout.header_size}},
	};
	assert_int_equal(
		stock_make(made->file->region, &made->layout, &real->image, real->blocks, real->count, at, base), 0);
	made->elf = elf_memory((char *)made->file, size);
	made->cfi = dwarf_getcfi_elf(made->elf);
	assert_non_null(made->cfi);
}

static void unmake(struct made *made)
{
	dwarf_cfi_end(made->cfi);
	elf_end(made->elf);
	free(made->file);
}

/* A rule as libdw tells it: operations that lead to a value or its place. */
struct rule {
	size_t count;
	bool undefined; /* of a rule without operations: there is no value; else it is where it was */
	Dwarf_Op ops[RULE_OPS];
};

struct rules {
	struct rule cfa, registers[REGISTERS];
};

static void take_rule(struct rule *rule, const Dwarf_Op *ops, size_t count)
{
	assert_in_range(count, 0, RULE_OPS);
	rule->count = count;
	for (size_t i = 0; i < count; i++)
		rule->ops[i] = (Dwarf_Op){ops[i].atom, ops[i].number, ops[i].number2, 0};
}

/* False: nobody knows. */
static bool rules_at(struct rules *rules, Dwarf_CFI *cfi, uint64_t address)
{
	Dwarf_Frame *frame;
	Dwarf_Op *ops;
	size_t count;

	memset(rules, 0, sizeof(*rules));
	if (dwarf_cfi_addrframe(cfi, address, &frame))
		return false;
	assert_int_equal(dwarf_frame_cfa(frame, &ops, &count), 0);
	take_rule(&rules->cfa, ops, count);
	for (int i = 0; i < REGISTERS; i++) {
		Dwarf_Op memory[3];

		assert_int_equal(dwarf_frame_register(frame, i, memory, &ops, &count), 0);
		take_rule(&rules->registers[i], ops, count);
		rules->registers[i].undefined = !count && ops == memory;
	}
	free(frame);
	return true;
}

/* What the file's own table says at an address, with so many bytes more on the stack. */
static bool expected_at(struct rules *rules, Dwarf_CFI *cfi, uint64_t address, unsigned pushed)
{
	if (!rules_at(rules, cfi, address))
		return false;
	if (rules->cfa.count == 1 && rules->cfa.ops[0].atom == DW_OP_bregx && rules->cfa.ops[0].number == RSP)
		rules->cfa.ops[0].number2 += pushed;
	return true;
}

static enum isa_kind kind_at(const struct real *real, uint64_t address)
{
	struct isa_instruction in;

	for (size_t i = 0; i < real->image.section_count; i++) {
		const struct stock_section *section = &real->sections[i];
		uint64_t at = address - section->address;

		if (section->bytes && at < section->size &&
		    real->cpu->decode(&in, section->bytes + at, section->size - at, address) > 0)
			return (enum isa_kind)in.kind;
	}
	fail();
	return ISA_TRAP;
}

/* What is behind a block's code; no instruction begins so. */
static bool is_padding(const struct real *real, const uint8_t *code)
{
	return real->image.machine == EM_X86_64 ? *code == 0xcc : !isa_load16(code);
}

/* All instructions of one block; returns how many there were. */
static unsigned check_block(const struct real *real, const struct made *made, Dwarf_CFI *own, size_t number)
{
	const struct stock_block *block = &real->blocks[number];
	const uint8_t *code = made->file->region + block->offset;
	uint64_t at = made->region.at + block->offset;
	unsigned from = 0, count = 0, pushed = 0;
	enum isa_kind kind = ISA_PLAIN; /* of the head's instruction that a place belongs to */

	for (unsigned place = 0; place < block->size && !is_padding(real, code + place); count++) {
		struct rules is, must;
		struct isa_instruction in;
		int size = real->cpu->decode(&in, code + place, block->size - place, at + place);

		assert_true(size > 0);
		if (stock_out_of_block(&made->region, block, place, &from)) {
			if (isa_ends(kind)) /* nobody comes to the jump behind */
				return count;
			kind = place && from < block->length ? kind_at(real, block->head + from) : ISA_PLAIN;
		} else if (kind == ISA_CALL || kind == ISA_CALL_INDIRECT) {
			pushed = real->cpu->push_bytes ? 8 : 0; /* the moved form's first instruction has done it */
		}
		if (!expected_at(&must, own, block->head + from, pushed)) {
			assert_int_equal(from, block->length); /* what the function's last bytes run into is no code */
			return count;
		}
		assert_true(rules_at(&is, made->cfi, at + place));
		if (memcmp(&is, &must, sizeof(is)) != 0)
			fail_msg("head %#llx + %u, block + %u", (unsigned long long)block->head, from, place);
		place += (unsigned)size;
	}
	return count;
}

/* RISC-V: some heads lead to islands, and one of them has it. */
static void lead_to_islands(struct real *real)
{
	for (size_t i = 0; i < real->count; i += 3)
		real->blocks[i].island = real->blocks[0].head + 4;
}

/* What the hub does with t1 when a thread comes from a head; returns how many rows it has looked at. */
static unsigned look_up(const uint8_t *hub, uint32_t key, uint64_t *to)
{
	const unsigned shift = isa_load32(hub + 24) >> 20 & 31; /* srliw */
	const uint8_t *row = hub + 80 + 8 * (uint64_t)(key * 0x9e3779b1u >> shift);
	unsigned rows = 1;

	for (; isa_load32(row) != key; row += 8, rows++)
		assert_int_not_equal(isa_load32(row), 0);
	*to = (uint64_t)isa_load32(row + 4);
	return rows;
}

/* The hub finds each block, soon, and threads in it unwind as at a function's entry. */
static void check_hub(const struct real *real, const struct made *made)
{
	const uint8_t *hub = made->file->region + STOCK_BLOCKS_HEAD;
	size_t heads = 0, rows = 0;
	uint64_t to, base;
	struct rules is;

	for (size_t i = 0; i < real->count; i += 3) {
		if (!real->blocks[i].size)
			continue;
		heads++;
		rows += look_up(hub, (uint32_t)real->blocks[i].head + 4, &to);
		assert_int_equal(to, real->blocks[i].offset - STOCK_BLOCKS_HEAD);
	}
	assert_in_range(heads, 10, real->count);
	assert_true(rows < 2 * heads);
	memcpy(&base, hub + 72, sizeof(base));
	assert_true(base == made->region.base);
	for (unsigned at = 0; at < 68; at += 4) {
		assert_true(rules_at(&is, made->cfi, made->region.at + STOCK_BLOCKS_HEAD + at));
		assert_int_equal(is.cfa.ops[0].number, 2); /* sp */
		assert_int_equal(is.cfa.ops[0].number2, 0);
	}
}

static void check_object(const char *path, uint16_t machine, uint64_t base)
{
	struct made made;
	struct real real;
	Dwarf_CFI *own;
	unsigned instructions = 0;

	if (!real_open_of(&real, path, machine))
		return;
	own = dwarf_getcfi_elf(real.elf);
	if (machine == EM_RISCV)
		lead_to_islands(&real);
	make(&made, &real, base + real.end / 4096 * 4096 + 8192, base);
	if (machine == EM_RISCV)
		check_hub(&real, &made);
	for (size_t i = 0; i < real.count; i++)
		if (real.blocks[i].size)
			instructions += check_block(&real, &made, own, i);
	assert_true(instructions > 3 * real.count);
	unmake(&made);
	dwarf_cfi_end(own);
	real_close(&real);
}

static void real_objects_unwind_in_blocks(void **state)
{
	check_object("/proc/self/exe", EM_X86_64, UINT64_C(0x555555554000));
	check_object("/lib/x86_64-linux-gnu/libc.so.6", EM_X86_64, UINT64_C(0x7ffff7c00000));
	check_object("/lib/x86_64-linux-gnu/libgcc_s.so.1", EM_X86_64, UINT64_C(0x7ffff7a00000));
	check_object("/lib64/ld-linux-x86-64.so.2", EM_X86_64, UINT64_C(0x7ffff7fc0000));
}

/* The cross compiler's libraries, or this machine's own. */
static void real_objects_of_riscv64_unwind_in_blocks(void **state)
{
	static const char *const folders[] = {"/usr/riscv64-linux-gnu/lib", "/lib/riscv64-linux-gnu"};
	static const char *const names[] = {"libc.so.6", "libgcc_s.so.1", "libstdc++.so.6"};

	for (size_t i = 0; i < 2; i++)
		for (size_t j = 0; j < 3; j++) {
			char path[64];

			snprintf(path, sizeof(path), "%s/%s", folders[i], names[j]);
			check_object(path, EM_RISCV, UINT64_C(0x3ff7c00000));
		}
}

/*
 * The rules of a PLT in its file look at the low bits of the address.  In the block of an entry the caller is at the
 * stack's top from end to end.
 */
static void check_plt(const char *path)
{
	struct stock_block blocks[64] = {0};
	struct rules rules;
	struct made made;
	struct real real;

	if (!real_open(&real, path))
		return;
	free(real.blocks);
	real.blocks = blocks;
	real.count = 0;
	for (size_t i = 0; i < real.image.section_count; i++) {
		const struct stock_section *section = &real.sections[i];

		for (size_t at = 0; section->plt && section->code && at < section->size && real.count < 64; at += 8) {
			struct isa_plt_entry entry;

			if (x86_plt_entry(&entry, section->bytes + at, section->size - at, section->address + at))
				blocks[real.count++] = (struct stock_block){.head = section->address + at + entry.head,
									    .length = entry.length};
		}
	}
	assert_int_not_equal(real.count, 0);
	make(&made, &real, (real.end / 4096 + 2) * 4096, 0);
	for (size_t i = 0; i < real.count; i++) {
		assert_int_not_equal(blocks[i].size, 0);
		for (unsigned at = 0; at < 5 + blocks[i].length; at++) {
			assert_true(rules_at(&rules, made.cfi, made.region.at + blocks[i].offset + at));
			assert_int_equal(rules.cfa.count, 1);
			assert_int_equal(rules.cfa.ops[0].atom, DW_OP_bregx);
			assert_int_equal(rules.cfa.ops[0].number, RSP);
			assert_int_equal(rules.cfa.ops[0].number2, 8);
			assert_int_equal(rules.registers[RETURN].ops[1].number, -8);
		}
	}
	real.blocks = NULL;
	unmake(&made);
	real_close(&real);
}

static void entries_of_plts_unwind_in_blocks(void **state)
{
	check_plt("/proc/self/exe");
	check_plt("/lib/x86_64-linux-gnu/libcrypto.so.3");
	check_plt("/lib/x86_64-linux-gnu/libc.so.6");
}

/* Of a function without an entry only this is known: its first instruction finds its caller at the stack's top. */
static void without_an_entry_the_first_instruction_unwinds(void **state)
{
	static const uint8_t text[] = {0x55, 0x48, 0x89, 0xe5, 0x48, 0x83, 0xec, 0x10, 0xc3}; /* push, mov, sub, ret */
	static const struct stock_section section = {0x1000, sizeof(text), text, true, false};
	struct stock_block block = {.head = 0x1000, .length = 8};
	struct real real = {.image = {.machine = EM_X86_64,
				      .lo = 0x1000,
				      .hi = 0x1000 + sizeof(text),
				      .sections = &section,
				      .section_count = 1},
			    .blocks = &block,
			    .count = 1};
	const uint64_t at = UINT64_C(0x555555600000);
	struct rules rules;
	struct made made;

	make(&made, &real, at, UINT64_C(0x555555554000));
	for (unsigned i = 0; i < block.size; i++) {
		assert_int_equal(rules_at(&rules, made.cfi, at + block.offset + i), i < 5 + 1);
		if (i >= 5 + 1)
			continue;
		assert_int_equal(rules.cfa.ops[0].number, RSP);
		assert_int_equal(rules.cfa.ops[0].number2, 8);
		assert_int_equal(rules.registers[RETURN].ops[1].number, -8);
	}
	unmake(&made);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(real_objects_unwind_in_blocks),
		cmocka_unit_test(real_objects_of_riscv64_unwind_in_blocks),
		cmocka_unit_test(entries_of_plts_unwind_in_blocks),
		cmocka_unit_test(without_an_entry_the_first_instruction_unwinds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
