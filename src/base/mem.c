/*
 * memcpy and its kin for the agent; see mem.h.  Any context: loops over the
 * caller's memory, nothing else.
 */
#include <base/mem.h>

void *memcpy(void *restrict to, const void *restrict from, size_t size)
{
	unsigned char *t = to;
	const unsigned char *f = from;

	/* The barriers keep the compiler from turning the loops into calls of memcpy. */
	for (; size >= sizeof(uint64_t); size -= sizeof(uint64_t)) {
		uint64_t word;

		__builtin_memcpy(&word, f, sizeof(word)); /* one load; neither side need be aligned */
		__builtin_memcpy(t, &word, sizeof(word));
		f += sizeof(word);
		t += sizeof(word);
		__asm__ volatile("" : : : "memory");
	}
	while (size--) {
		*t++ = *f++;
		__asm__ volatile("" : : : "memory");
	}
	return to;
}

void *memset(void *to, int byte, size_t size)
{
	unsigned char *t = to;

	while (size--) {
		*t++ = (unsigned char)byte;
		__asm__ volatile("" : : : "memory");
	}
	return to;
}

int memcmp(const void *a, const void *b, size_t size)
{
	const unsigned char *x = a, *y = b;

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
