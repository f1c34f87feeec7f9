/* Goes down 100,000 frames (or as many as the argument says) and comes back with their number. */
#include <sys/resource.h>

#include "truth.h"

TRACED static long down(long n)
{
	volatile long here = n;

	return n ? down(n - 1) + (here == n) : 0;
}

int main(int argc, char **argv)
{
	printf("%ld\n", down(argc > 1 ? atol(argv[1]) : 100000));
	return 0;
}
