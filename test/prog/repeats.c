/* repeats N: calls a short function, of more than a hundred bytes, N times; prints what comes of it. */
#include <stdio.h>
#include <stdlib.h>

__attribute__((noinline)) unsigned mixed(unsigned value)
{
#pragma GCC unroll 8
	for (unsigned i = 0; i < 8; i++) {
		value ^= value << 13;
		value ^= value >> 17;
		value ^= value << 5;
		value += i;
	}
	return value;
}

int main(int argc, char **argv)
{
	unsigned long calls = argc > 1 ? strtoul(argv[1], NULL, 0) : 100;
	unsigned value = 1;

	for (unsigned long i = 0; i < calls; i++)
		value = mixed(value);
	printf("%u\n", value);
	return 0;
}
