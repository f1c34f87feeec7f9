/* Ends inside of nested calls: main() and two calls of deep() have not ended at the end of the trace, and one has. */
#include <stdio.h>
#include <stdlib.h>

__attribute__((noinline)) void deep(int left)
{
	if (left == 2) {
		deep(0);
		puts("bye");
		exit(0);
	}
	if (left)
		deep(left - 1);
	__asm__ volatile("" ::: "memory");
}

int main(void)
{
	deep(3);
	return 1;
}
