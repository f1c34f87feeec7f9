/*
 * A program that brings traced functions of its own in place of libc's: malloc and its kin, which the loader and libc
 * call from the first moment on, at the start of threads, inside dlopen, and after main; memory and string functions;
 * locks.  They are counted, not logged, for the log would call them.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>

#include "truth.h"

static _Alignas(16) char arena[8 << 20];
static size_t used;

TRACED void *malloc(size_t size)
{
	size_t *block = (size_t *)(arena + __atomic_fetch_add(&used, (size + 31) & ~(size_t)15, __ATOMIC_RELAXED));

	if ((char *)block + size + 32 > arena + sizeof(arena))
		return NULL;
	*block = size;
	return block + 2;
}

TRACED void free(void *memory)
{
}

TRACED void *calloc(size_t count, size_t size)
{
	return malloc(count * size); /* never used before, so zero */
}

TRACED void *realloc(void *memory, size_t size)
{
	size_t old = memory ? ((size_t *)memory)[-2] : 0;
	void *other = malloc(size);

	for (size_t i = 0; other && i < old && i < size; i++)
		((volatile char *)other)[i] = ((char *)memory)[i];
	return other;
}

TRACED void *memset(void *memory, int value, size_t size)
{
	for (volatile char *at = memory; size--; at++)
		*at = (char)value;
	return memory;
}

TRACED size_t strlen(const char *text)
{
	const char *volatile end = text;

	while (*end)
		end++;
	return (size_t)(end - text);
}

TRACED char *getenv(const char *name)
{
	size_t length = strlen(name);

	for (char **one = environ; one && *one; one++)
		if (!strncmp(*one, name, length) && (*one)[length] == '=')
			return *one + length + 1;
	return NULL;
}

static pthread_key_t key;

TRACED static void destroy(void *memory)
{
	TRUTH();
	free(memory);
}

TRACED static void *work(void *argument)
{
	TRUTH();
	char *text = malloc(100);

	memset(text, 'x', 99);
	text[99] = '\0';
	pthread_setspecific(key, text);
	return (void *)(uintptr_t)strlen(text);
}

TRACED static void at_exit(void)
{
	TRUTH();
	free(realloc(malloc(5), 50));
}

int main(int argc, char **argv)
{
	TRUTH();
	pthread_t threads[4];
	uintptr_t sum = 0;

	atexit(at_exit);
	pthread_key_create(&key, destroy);
	for (int i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, work, NULL);
	for (int i = 0; i < 4; i++) {
		void *result;

		pthread_join(threads[i], &result);
		sum += (uintptr_t)result;
	}
	for (int i = 1; i < argc; i++) {
		void *library = dlopen(argv[i], RTLD_NOW);
		int (*answer)(int) = library ? (int (*)(int))dlsym(library, "library_answer") : NULL;

		printf("answer %d\n", answer ? answer(i) : -1);
		if (library)
			dlclose(library);
	}
	printf("sum %lu %s\n", (unsigned long)sum, getenv("HOME") ? "with a home" : "without");
	return 0;
}
