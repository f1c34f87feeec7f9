/* For each number N on standard input it makes N calls of a short function, all at once, and prints N. */
#include <stdio.h>
#include <stdlib.h>

__attribute__((noinline)) int burst(int x)
{
	__asm__ volatile("" : "+r"(x));
	return x + 1;
}

int main(void)
{
	char line[32];
	int x = 0;

	setvbuf(stdout, NULL, _IOLBF, 0);
	while (fgets(line, sizeof(line), stdin)) {
		int count = atoi(line);

		for (int i = 0; i < count; i++)
			x = burst(x);
		printf("%d\n", count);
	}
	return 0;
}
