/*
 * Prints the answers of the decoders and relocators about a file of machine code, one line per instruction, for
 * objdump.py to compare with binutils.
 *
 *     isa_dump CPU FILE BASE < OFFSETS
 *         OFFSET LENGTH KIND TARGET|-     or  OFFSET -ERRNO
 *     isa_dump CPU FILE BASE SCRATCH < OFFSETS-AND-DESTINATIONS
 *         OFFSET BYTES-IN-HEX             or  OFFSET -ERRNO
 *
 * All numbers but lengths are hexadecimal; the file's first byte lies at BASE. With SCRATCH, a register's number or
 * `none`, each instruction is moved to the address behind its offset.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support.h"

struct input {
	const struct isa_cpu *cpu;
	uint8_t *code;
	size_t size;
	uint64_t base;
};

static bool read_code(struct input *input, const char *path)
{
	FILE *file = fopen(path, "re");
	long size = -1;

	if (file && !fseek(file, 0, SEEK_END))
		size = ftell(file);
	input->code = size > 0 ? malloc((size_t)size) : NULL;
	if (input->code && !fseek(file, 0, SEEK_SET))
		input->size = fread(input->code, 1, (size_t)size, file);
	if (file)
		fclose(file);
	return size > 0 && input->size == (size_t)size;
}

static void decode(const struct input *input, size_t at)
{
	struct isa_instruction in;
	int length = input->cpu->decode(&in, input->code + at, input->size - at, input->base + at);

	if (length < 0)
		printf("%zx %d\n", at, length);
	else if (in.has_target)
		printf("%zx %d %s %llx\n", at, length, isa_kind_name(in.kind), (unsigned long long)in.target);
	else
		printf("%zx %d %s -\n", at, length, isa_kind_name(in.kind));
}

static void relocate(const struct input *input, size_t at, uint64_t to, unsigned scratch)
{
	uint64_t from = input->base + at;
	uint8_t code[ISA_RELOCATED_MAX];
	struct isa_out out = {code, sizeof(code), 0, to};
	int length = input->cpu->relocate(&out, input->code + at, input->size - at, from, scratch);

	printf("%zx ", at);
	if (length < 0)
		printf("%d", length);
	for (int i = 0; i < length; i++)
		printf("%02x", code[i]);
	putchar('\n');
}

int main(int argc, char **argv)
{
	struct input input = {.cpu = argc > 3 ? isa_cpu_find(argv[1]) : NULL};
	unsigned long long to;
	unsigned scratch;
	size_t at;

	if (!input.cpu || argc > 5 || !read_code(&input, argv[2])) {
		fputs("usage: isa_dump CPU FILE BASE [SCRATCH]\n", stderr);
		free(input.code);
		return 2;
	}
	input.base = strtoull(argv[3], NULL, 16);
	scratch = argc == 5 && strcmp(argv[4], "none") != 0 ? (unsigned)atoi(argv[4]) : input.cpu->no_scratch;
	while (scanf("%zx", &at) == 1 && at <= input.size) {
		if (argc == 4)
			decode(&input, at);
		else if (scanf("%llx", &to) == 1)
			relocate(&input, at, to, scratch);
	}
	free(input.code);
	return 0;
}
