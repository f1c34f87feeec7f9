/* Vectors for the relocators of all CPUs: relocate.vectors.  check_relocate.py checks the meaning of their bytes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "support.h"

struct vector {
	const struct isa_cpu *cpu;
	uint64_t from, to;
	unsigned scratch;
	size_t size;
	uint8_t code[16];
	int error;
	size_t moved_size;
	uint8_t moved[ISA_RELOCATED_MAX];
};

static void read_vector(struct vector *vector, const char *line)
{
	char cpu[16], scratch[8], code[40], moved[160];
	unsigned long long from, to;

	if (sscanf(line, "%15s %llx %llx %7s | %39s | %*[^|]| %159s |", cpu, &from, &to, scratch, code, moved) != 6)
		fail_msg("not a vector: %s", line);
	*vector = (struct vector){.cpu = isa_cpu_find(cpu), .from = from, .to = to, .error = isa_error(moved)};
	vector->scratch = !strcmp(scratch, "none") ? vector->cpu->no_scratch : (unsigned)atoi(scratch);
	vector->size = isa_bytes(code, vector->code, sizeof(vector->code));
	if (!vector->error)
		vector->moved_size = isa_bytes(moved, vector->moved, sizeof(vector->moved));
}

static int move(const struct vector *vector, struct isa_out *out)
{
	return vector->cpu->relocate(out, vector->code, vector->size, vector->from, vector->scratch);
}

static void check_bytes(const char *line)
{
	uint8_t code[ISA_RELOCATED_MAX];
	struct vector vector;
	struct isa_out out;
	int got;

	read_vector(&vector, line);
	out = (struct isa_out){code, sizeof(code), 0, vector.to};
	got = move(&vector, &out);
	if (vector.error ? got != -vector.error : got != (int)vector.moved_size)
		fail_msg("got %d: %s", got, line);
	assert_int_equal(out.length, vector.moved_size);
	if (memcmp(code, vector.moved, vector.moved_size) != 0)
		fail_msg("other bytes: %s", line);
}

static void bytes(void **state)
{
	assert_true(isa_each_vector(VECTORS "/relocate.vectors", check_bytes) > 100);
}

/* Behind what the buffer holds already it is the same as at that address. */
static void check_appended(const char *line)
{
	uint8_t code[ISA_RELOCATED_MAX + 8];
	struct vector vector;
	struct isa_out out;

	read_vector(&vector, line);
	out = (struct isa_out){code, sizeof(code), 8, vector.to - 8};
	move(&vector, &out);
	assert_int_equal(out.length, 8 + vector.moved_size);
	if (memcmp(code + 8, vector.moved, vector.moved_size) != 0)
		fail_msg("other bytes: %s", line);
}

static void appended(void **state)
{
	isa_each_vector(VECTORS "/relocate.vectors", check_appended);
}

static void check_no_room(const char *line)
{
	struct vector vector;

	read_vector(&vector, line);
	for (size_t size = 0; size < vector.moved_size; size++) {
		uint8_t code[ISA_RELOCATED_MAX];
		struct isa_out out = {code, size, 0, vector.to};

		memset(code, 0xa5, sizeof(code));
		assert_int_equal(move(&vector, &out), -ENOSPC);
		assert_int_equal(out.length, 0);
		for (size_t i = size; i < sizeof(code); i++)
			assert_int_equal(code[i], 0xa5);
	}
}

/* A buffer that is too small is never written beyond its end. */
static void no_room(void **state)
{
	isa_each_vector(VECTORS "/relocate.vectors", check_no_room);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bytes),
		cmocka_unit_test(appended),
		cmocka_unit_test(no_room),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
