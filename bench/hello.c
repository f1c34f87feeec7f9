/* The least a program can do, for the cost of starting under trace. */
#include <stdio.h>

int main(void)
{
	puts("hello");
	return 0;
}
