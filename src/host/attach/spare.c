/*
 * Memory for what is read of stopped threads (impl.h).
 *
 * A fresh page costs a fault at its first use, and a thousand threads' stacks
 * are thousands of pages: the faults are had before the stop.  Context: host.
 */
#include <errno.h>
#include <sys/mman.h>

#include "impl.h"

int spare_get(struct spare *spare, size_t size, size_t ready)
{
	void *bytes;

	*spare = (struct spare){NULL, 0};
	if (!size)
		return 0;
	bytes = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (bytes == MAP_FAILED)
		return -ENOMEM;
	*spare = (struct spare){bytes, size};
	/* Where the kernel (before 5.14) does not know the call, a write to each page does it. */
	if (ready > size)
		ready = size;
	if (ready && madvise(bytes, ready, MADV_POPULATE_WRITE))
		for (size_t at = 0; at < ready; at += PAGE)
			((volatile unsigned char *)bytes)[at] = 0;
	return 0;
}

void spare_free(struct spare *spare)
{
	if (spare->bytes)
		munmap(spare->bytes, spare->size);
	*spare = (struct spare){NULL, 0};
}
