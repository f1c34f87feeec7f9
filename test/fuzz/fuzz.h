/*
 * The common part of the fuzzers: the entry that libFuzzer and main.c call, a cursor over an input, and an input as a
 * file.
 */
#ifndef TEST_FUZZ_FUZZ_H
#define TEST_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>

#define INPUT_MAX (64u << 10) /* larger inputs find nothing that smaller ones do not */

/* The fuzzer's run over one input. A finding is a crash, a hang, a leak or abort(). */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* 1: the first part of the input was good, so that the rest was read. main.c counts such inputs. */
extern unsigned fuzz_taken;

/* A cursor over an input; past the end it yields zeros. */
struct input {
	const uint8_t *at;
	size_t left;
};
uint8_t input_byte(struct input *input);
uint16_t input_u16(struct input *input);
/* The next size bytes or what is left of them; *got says how many. */
const uint8_t *input_bytes(struct input *input, size_t size, size_t *got);

/* A file in memory that holds data, rewound; abort()s when there is no memory. */
int input_file(const void *data, size_t size);
/* A path by which this process can open fd. */
void input_path(char path[32], int fd);

/* abort() with a line on stderr: a promise was broken that no sanitizer knows of. */
void fuzz_expect(int condition, const char *promise);

#endif
