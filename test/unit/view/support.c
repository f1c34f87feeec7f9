/*
 * Catching output through a memory file; see support.h.
 */
#include <sys/mman.h>
#include <unistd.h>

#include "support.h"

void catch_begin(struct caught *caught)
{
	caught->fd = memfd_create("caught", MFD_CLOEXEC);
	assert_true(caught->fd >= 0);
	assert_int_equal(out_create(&caught->out, caught->fd), 0);
}

const char *catch_end(struct caught *caught)
{
	ssize_t size;

	assert_int_equal(out_destroy(caught->out), 0);
	size = pread(caught->fd, caught->text, sizeof(caught->text) - 1, 0);
	assert_true(size >= 0);
	caught->text[size] = '\0';
	close(caught->fd);
	return caught->text;
}
