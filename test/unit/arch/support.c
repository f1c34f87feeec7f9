/*
 * The CPUs whose instruction sets are tested (see support.h).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arch/aarch64/isa/decode.h"
#include "arch/aarch64/isa/encode.h"
#include "arch/aarch64/isa/relocate.h"
#include "arch/riscv64/isa/decode.h"
#include "arch/riscv64/isa/encode.h"
#include "arch/riscv64/isa/relocate.h"
#include "arch/x86_64/isa/decode.h"
#include "arch/x86_64/isa/relocate.h"
#include "support.h"

static int x86_relocate_alone(struct isa_out *out, const uint8_t *code, size_t size, uint64_t from, unsigned scratch)
{
	return x86_relocate(out, code, size, from);
}

const struct isa_cpu isa_cpus[3] = {
	{"x86_64", 0, 1, x86_decode, x86_relocate_alone},
	{"riscv64", RV_ZERO, 2, rv_decode, rv_relocate},
	{"aarch64", A64_XZR, 4, a64_decode, a64_relocate},
};

const struct isa_cpu *isa_cpu_find(const char *name)
{
	for (size_t i = 0; i < sizeof(isa_cpus) / sizeof(isa_cpus[0]); i++) {
		if (!strcmp(isa_cpus[i].name, name))
			return &isa_cpus[i];
	}
	return NULL;
}

const char *isa_kind_name(unsigned kind)
{
	static const char *const names[] = {
		[ISA_PLAIN] = "plain",
		[ISA_ADDRESS] = "address",
		[ISA_MEMORY] = "memory",
		[ISA_JUMP] = "jump",
		[ISA_BRANCH] = "branch",
		[ISA_CALL] = "call",
		[ISA_JUMP_INDIRECT] = "jump-indirect",
		[ISA_CALL_INDIRECT] = "call-indirect",
		[ISA_RETURN] = "return",
		[ISA_EXCLUSIVE] = "exclusive",
		[ISA_TRAP] = "trap",
	};

	return kind < sizeof(names) / sizeof(names[0]) ? names[kind] : "?";
}

size_t isa_bytes(const char *text, uint8_t *bytes, size_t max)
{
	size_t count = 0;

	while (count < max && sscanf(text + 2 * count, "%2hhx", &bytes[count]) == 1)
		count++;
	return count;
}

int isa_error(const char *name)
{
	static const struct {
		const char *name;
		int number;
	} errors[] = {{"EILSEQ", EILSEQ}, {"ENODATA", ENODATA}, {"ENOTSUP", ENOTSUP}, {"ERANGE", ERANGE}};

	for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
		if (!strcmp(errors[i].name, name))
			return errors[i].number;
	}
	return 0;
}

unsigned isa_each_vector(const char *path, void (*check)(const char *line))
{
	FILE *file = fopen(path, "re");
	unsigned count = 0;
	char line[512];

	if (!file) {
		perror(path);
		exit(1);
	}
	while (fgets(line, sizeof(line), file)) {
		if (line[0] == '#')
			continue;
		check(line);
		count++;
	}
	fclose(file);
	return count;
}
