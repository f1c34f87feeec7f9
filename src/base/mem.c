/*
 * memcpy and its kin for the agent; see mem.h.  Any context: loops over the
 * caller's memory, nothing else.
 */
#include <base/mem.h>

/* A word anywhere in memory; where the CPU has no such access the compiler takes bytes. */
typedef uint64_t word __attribute__((aligned(1), may_alias));

/* Keeps the compiler from turning a loop into a call of the function that it is in. */
#define STEP() __asm__ volatile("" : : : "memory")

void *memcpy(void *restrict to, const void *restrict from, size_t size)
{
	unsigned char *t = to;
	const unsigned char *f = from;

	for (; size >= 4 * sizeof(word); size -= 4 * sizeof(word), t += 4 * sizeof(word), f += 4 * sizeof(word)) {
		word a = ((const word *)f)[0], b = ((const word *)f)[1], c = ((const word *)f)[2],
		     d = ((const word *)f)[3];

		((word *)t)[0] = a;
		((word *)t)[1] = b;
		((word *)t)[2] = c;
		((word *)t)[3] = d;
		STEP();
	}
	for (; size >= sizeof(word); size -= sizeof(word), t += sizeof(word), f += sizeof(word)) {
		*(word *)t = *(const word *)f;
		STEP();
	}
	while (size--) {
		*t++ = *f++;
		STEP();
	}
	return to;
}

void *memset(void *to, int byte, size_t size)
{
	unsigned char *t = to;
	uint64_t filled = (unsigned char)byte * (~UINT64_C(0) / 255);

	for (; size >= sizeof(word); size -= sizeof(word), t += sizeof(word)) {
		*(word *)t = filled;
		STEP();
	}
	while (size--) {
		*t++ = (unsigned char)byte;
		STEP();
	}
	return to;
}

int memcmp(const void *a, const void *b, size_t size)
{
	const unsigned char *x = a, *y = b;

	for (; size >= sizeof(word) && *(const word *)x == *(const word *)y; size -= sizeof(word)) {
		x += sizeof(word);
		y += sizeof(word);
	}
	for (; size; size--, x++, y++)
		if (*x != *y)
			return *x < *y ? -1 : 1;
	return 0;
}

size_t base_strlen(const char *text)
{
	size_t n = 0;

	while (text[n])
		n++;
	return n;
}

void base_copy_text(char *to, size_t size, const char *from)
{
	size_t n = 0;

	for (; n + 1 < size && from[n]; n++)
		to[n] = from[n];
	to[n] = 0;
}
