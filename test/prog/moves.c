/*
 * Moves between the two CPUs that its arguments name.  For each line "ROUNDS CALLS" on standard input it goes to the
 * first CPU and makes CALLS calls of a function there, then as many of another one on the second CPU, and all of it
 * ROUNDS times; then it prints the line.
 */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

__attribute__((noinline)) int on_first(int x)
{
	__asm__ volatile("" : "+r"(x));
	return x + 1;
}

__attribute__((noinline)) int on_second(int x)
{
	__asm__ volatile("" : "+r"(x));
	return x + 2;
}

static void go_to(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set) || sched_getcpu() != cpu) {
		printf("not on CPU %d\n", cpu);
		exit(1);
	}
}

int main(int argc, char **argv)
{
	char line[64];
	int x = 0, rounds, calls;

	setvbuf(stdout, NULL, _IOLBF, 0);
	while (argc > 2 && fgets(line, sizeof(line), stdin) && sscanf(line, "%d %d", &rounds, &calls) == 2) {
		for (int round = 0; round < rounds; round++) {
			go_to(atoi(argv[1]));
			for (int i = 0; i < calls; i++)
				x = on_first(x);
			go_to(atoi(argv[2]));
			for (int i = 0; i < calls; i++)
				x = on_second(x);
		}
		printf("%s", line);
	}
	return 0;
}
