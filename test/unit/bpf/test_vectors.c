/*
 * Vectors: programs with the result that RFC 9669 says they have, in the interpreter and compiled.
 *
 * vectors.data is ours, and has each instruction that there is.  VECTORS=DIR runs all files *.data of a folder in place
 * of it, such as the bpf_conformance project's `tests` and `negative`, and prints what became of each that is not
 * right.
 */
#include <dirent.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <bpf/interpret.h>
#include <bpf/verify.h>

#include "compiled.h"
#include "vectors.h"

enum { MEMORY_MAX = 4096, STEPS = 1 << 24, SECTION = 16384 };

struct vector {
	char assembly[SECTION], memory[SECTION], raw[SECTION], result[SECTION];
	bool has_result, has_error;
};

static struct tally {
	unsigned right, wrong, calls;
} tally;

static bool seen[256];

/*
 * ---- Running ----
 */

static uint32_t read_bytes(uint8_t *bytes, uint32_t room, const char *text)
{
	uint32_t count = 0;
	char *end;

	for (;; text = end) {
		unsigned long byte = strtoul(text, &end, 16);

		if (end == text || count == room)
			return count;
		bytes[count++] = (uint8_t)byte;
	}
}

/* In front of the program: r2 is the memory's size. */
static void put_size(struct bpf_insn insns[VECTOR_INSNS + 1], uint32_t size)
{
	insns[0] = (struct bpf_insn){.code = BPF_ALU64 | BPF_MOV, .dst_reg = BPF_REG_2, .imm = (int32_t)size};
}

static const char *run(const struct vector *vector, const struct bpf_insn *insns, uint32_t count)
{
	static uint8_t given[MEMORY_MAX];
	static _Alignas(8) uint8_t memory[MEMORY_MAX];
	const struct bpf_machine machine = {.context_size = 8};
	const struct bpf_memory own = {memory, sizeof(memory), true};
	const struct bpf_compile job = {.insns = insns, .count = count};
	const struct bpf_run how = {.machine = &machine,
				    .insns = insns,
				    .count = count,
				    .context = memory,
				    .memory = &own,
				    .memory_count = 1,
				    .steps_max = STEPS};
	uint64_t wanted = strtoull(vector->result, NULL, 0), result;

	memset(given, 0, sizeof(given));
	(void)read_bytes(given, sizeof(given), vector->memory);
	memcpy(memory, given, sizeof(given));
	if (bpf_interpret(&result, &how))
		return "the interpreter ended it";
	if (result != wanted)
		return "the interpreter has another result";
	memcpy(memory, given, sizeof(given));
	if (compiled_make(&job)(memory) != wanted)
		return "compiled, it has another result";
	return NULL;
}

static bool is_accepted(const struct bpf_insn *insns, uint32_t count)
{
	const struct bpf_machine machine = {.context_size = 8};
	struct calltap_diag diag;

	return !bpf_verify(&(struct bpf_verify){.machine = &machine, .insns = insns, .count = count}, &diag);
}

/* NULL: it is right. */
static const char *try_vector(struct vector *vector)
{
	static struct bpf_insn insns[VECTOR_INSNS + 1];
	uint8_t memory[MEMORY_MAX];
	uint32_t count, size = read_bytes(memory, sizeof(memory), vector->memory);
	const char *fault = NULL;

	if (vector->assembly[0])
		fault = vectors_assemble(insns + 1, &count, vector->assembly);
	else
		count = read_bytes((uint8_t *)(insns + 1), VECTOR_INSNS * sizeof(insns[0]), vector->raw) /
			(uint32_t)sizeof(insns[0]);
	if (vector->has_error)
		return fault || !count || !is_accepted(insns + 1, count) ? NULL : "it is accepted";
	if (fault)
		return fault;
	for (uint32_t i = 1; i <= count; i++) {
		const char *why = bpf_insn_fault(&insns[i], count + 1 - i);

		if (why)
			return why;
		seen[insns[i].code] = true;
		i += bpf_is_wide(&insns[i]);
	}
	put_size(insns, size);
	return run(vector, insns, count + 1);
}

/*
 * ---- Files ----
 */

static void end_vector(struct vector *vector, const char *title)
{
	const char *fault;

	if (!vector->has_result && !vector->has_error)
		return;
	fault = try_vector(vector);
	if (!fault)
		tally.right++;
	else if (!strcmp(fault, "call"))
		tally.calls++;
	else
		tally.wrong++;
	if (fault)
		print_message("%s: %s\n", title, fault);
	*vector = (struct vector){.has_result = false};
}

/* The section that a line begins; *text: the one that goes on. */
static void begin_section(struct vector *vector, const char *line, const char *title, char **text)
{
	const char *name = line + 3;

	*text = NULL;
	if (!strncmp(name, "asm", 3) || !strncmp(name, "raw", 3)) {
		end_vector(vector, title);
		*text = name[0] == 'a' ? vector->assembly : vector->raw;
	} else if (!strncmp(name, "mem", 3)) {
		*text = vector->memory;
	} else if (!strncmp(name, "result", 6)) {
		vector->has_result = true;
		*text = vector->result;
	} else if (!strncmp(name, "error", 5)) {
		vector->has_error = true;
	}
}

static void run_file(const char *path)
{
	static struct vector vector;
	char line[1024], title[1024] = "", next[1024] = "", *text = NULL;
	FILE *file = fopen(path, "re");

	assert_non_null(file);
	snprintf(next, sizeof(next), "%s", path);
	while (fgets(line, sizeof(line), file)) {
		if (line[0] == '#') {
			snprintf(next, sizeof(next), "%.900s: %.100s", path, strtok(line + 1, "\n"));
		} else if (!strncmp(line, "-- ", 3)) {
			begin_section(&vector, line, title, &text);
			if (!strncmp(line, "-- asm", 6) || !strncmp(line, "-- raw", 6))
				snprintf(title, sizeof(title), "%s", next);
		} else if (text && strlen(text) + strlen(line) < SECTION) {
			strcat(text, line);
		}
	}
	fclose(file);
	end_vector(&vector, title);
}

static int is_vectors(const struct dirent *entry)
{
	size_t length = strlen(entry->d_name);

	return length > 5 && !strcmp(entry->d_name + length - 5, ".data");
}

static void run_folder(const char *folder)
{
	struct dirent **names;
	int count = scandir(folder, &names, is_vectors, alphasort);

	assert_true(count > 0);
	for (int i = 0; i < count; i++) {
		char path[1024];

		snprintf(path, sizeof(path), "%s/%s", folder, names[i]->d_name);
		run_file(path);
		free(names[i]);
	}
	free(names);
}

/* Is there an instruction with this code?  A call is no part of vectors. */
static bool exists(uint8_t code)
{
	static const int32_t numbers[] = {0, 16};

	for (int16_t off = 0; off <= 8; off += 8)
		for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
			const struct bpf_insn in[2] = {{.code = code, .off = off, .imm = numbers[i]}};

			if (code != (BPF_JMP | BPF_CALL) && !bpf_insn_fault(in, 2))
				return true;
		}
	return false;
}

static void results_are_the_standards(void **state)
{
	const char *folder = getenv("VECTORS");

	if (folder)
		run_folder(folder);
	else
		run_file(VECTORS_FILE);
	print_message("%u right, %u wrong; %u that call something\n", tally.right, tally.wrong, tally.calls);
	assert_int_equal(tally.wrong, 0);
	assert_true(tally.right > 0);
	for (unsigned code = 0; code < 256 && !folder; code++)
		if (exists((uint8_t)code) && !seen[code])
			fail_msg("no vector has an instruction 0x%02x", code);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(results_are_the_standards)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
