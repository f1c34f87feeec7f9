/*
 * Where a function's code may lie and by what names: a section of its own, split into a hot and a cold part, aligned
 * far, naked, empty, weak, with an alias, with addresses of labels, one that begins with a loop, and switches by
 * table; and functions so short that nothing is left beside the site.
 */
#include <stdint.h>

#include "cpu.h"
#include "truth.h"

TRACED static void seen(const char *what)
{
	TRUTH();
	fputs(what, stdout);
}

__attribute__((section(".text.elsewhere"))) TRACED int in_section(int x)
{
	TRUTH();
	return x + 1;
}

__attribute__((section("other_code"))) TRACED int in_other_section(int x)
{
	TRUTH();
	return in_section(x) * 2;
}

__attribute__((cold)) TRACED static void complain(int x)
{
	TRUTH();
	seen(x & 1 ? "odd\n" : "even\n");
}

/* gcc moves what comes before complain() to a part of its own, clang leaves it. */
TRACED static int split(int x)
{
	TRUTH();
	if (__builtin_expect(x > 2, 0)) {
		seen("much: ");
		complain(x);
		complain(x + 1);
	}
	return x;
}

__attribute__((aligned(4096))) TRACED static int aligned_to_page(int x)
{
	TRUTH();
	return x + 2;
}

__attribute__((aligned(1))) TRACED static int unaligned(int x)
{
	TRUTH();
	return x + 3;
}

CPU_NAKED_ADD_4(naked)

TRACED static void empty(void)
{
}

TRACED static int identity(int x)
{
	return x;
}

__attribute__((weak)) TRACED int weakly(int x)
{
	TRUTH();
	return x + 5;
}

int nowhere(int x) __attribute__((weak));
int weakly_too(int x) __attribute__((weak, alias("weakly")));

TRACED static int interpret(const char *code)
{
	TRUTH();
	static const void *const labels[] = {&&add, &&twice, &&end};
	int value = 1;

	goto *labels[*code++ - 'a'];
add:
	value += 3;
	goto *labels[*code++ - 'a'];
twice:
	value = in_section(value) * 2;
	goto *labels[*code++ - 'a'];
end:
	return value;
}

TRACED static int choose(int x)
{
	TRUTH();
	switch (x) {
	case 0:
		return in_section(x);
	case 1:
		return weakly(x);
	case 2:
		return aligned_to_page(x);
	case 3:
		return unaligned(x);
	case 4:
		return naked(x);
	case 5:
		return split(x);
	default:
		return -1;
	}
}

/* At -O2 its first instruction is where its loop goes back to. */
TRACED static unsigned loops(unsigned x)
{
	do
		x = x * 1664525 + 1013904223;
	while (x & 7);
	return x;
}

int main(void)
{
	TRUTH();
	int sum = 0;

	for (int x = 0; x < 7; x++) {
		empty();
		sum += choose(x) + identity(x);
	}
	printf("%d %d %d\n", sum, in_other_section(3), split(1));
	printf("%d %d %d\n", weakly_too(1), nowhere != NULL, interpret("abbac"));
	printf("%d %u\n", (int)((uintptr_t)aligned_to_page % 4096 % 64), loops(1) & 7);
	return 0;
}
