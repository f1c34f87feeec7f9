/*
 * Vectors for the decoders of all CPUs: decode.vectors.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "support.h"

static void check_vector(const char *line)
{
	char cpu[16], hex[64], length[16], kind[24] = "", target[24] = "-";
	struct isa_instruction in = {0};
	unsigned long long address;
	uint8_t code[32];
	int got;

	if (sscanf(line, "%15s %llx %63s %15s %23s %23s", cpu, &address, hex, length, kind, target) < 4)
		fail_msg("not a vector: %s", line);
	got = isa_cpu_find(cpu)->decode(&in, code, isa_bytes(hex, code, sizeof(code)), address);
	if (isa_error(length)) {
		if (got != -isa_error(length))
			fail_msg("got %d: %s", got, line);
		return;
	}
	if (got != atoi(length) || got != in.length || strcmp(isa_kind_name(in.kind), kind) != 0)
		fail_msg("got %d %s: %s", got, isa_kind_name(in.kind), line);
	if (in.has_target != (*target != '-') || (in.has_target && in.target != strtoull(target, NULL, 16)))
		fail_msg("got target %#llx: %s", (unsigned long long)in.target, line);
}

static void vectors(void **state)
{
	assert_true(isa_each_vector(VECTORS "/decode.vectors", check_vector) > 100);
}

static void check_cut_short(const char *line)
{
	char cpu[16], hex[64], length[16];
	struct isa_instruction in;
	uint8_t code[32];

	sscanf(line, "%15s %*s %63s %15s", cpu, hex, length);
	isa_bytes(hex, code, sizeof(code));
	for (int size = 0; size < atoi(length); size++) {
		/* A copy of exactly this size, so that a sanitizer sees reads behind it. */
		uint8_t *copy = malloc((size_t)size + !size);
		int got;

		memcpy(copy, code, (size_t)size);
		got = isa_cpu_find(cpu)->decode(&in, copy, (size_t)size, 0);
		free(copy);
		if (got != -ENODATA)
			fail_msg("%d bytes: got %d: %s", size, got, line);
	}
}

/* No decoder guesses at what is not there. */
static void cut_short(void **state)
{
	isa_each_vector(VECTORS "/decode.vectors", check_cut_short);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(vectors),
		cmocka_unit_test(cut_short),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
