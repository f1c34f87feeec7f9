/*
 * Inputs of the fuzzers (fuzz.h).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fuzz.h"

unsigned fuzz_taken;

const uint8_t *input_bytes(struct input *input, size_t size, size_t *got)
{
	const uint8_t *bytes = input->at;

	*got = size < input->left ? size : input->left;
	input->at += *got;
	input->left -= *got;
	return bytes;
}

uint16_t input_u16(struct input *input)
{
	uint16_t value = 0;
	size_t got;
	const uint8_t *bytes = input_bytes(input, sizeof(value), &got);

	memcpy(&value, bytes, got);
	return value;
}

uint8_t input_byte(struct input *input)
{
	size_t got;
	const uint8_t *bytes = input_bytes(input, 1, &got);

	return got ? *bytes : 0;
}

int input_file(const void *data, size_t size)
{
	int fd = memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0 || write(fd, data, size) != (ssize_t)size || lseek(fd, 0, SEEK_SET))
		abort();
	return fd;
}

void input_path(char path[32], int fd)
{
	snprintf(path, 32, "/proc/self/fd/%d", fd);
}

void fuzz_expect(int condition, const char *promise)
{
	if (condition)
		return;
	fprintf(stderr, "broken promise: %s\n", promise);
	abort();
}
