/*
 * Memory that the tool shares with targets (sealed.h).  Context: host.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "sealed.h"

int sealed_create(const char *name, size_t size, int *fd, void **memory)
{
	int error;

	*memory = MAP_FAILED;
	*fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (*fd < 0)
		return -errno;
	if (!ftruncate(*fd, (off_t)size) && !fcntl(*fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL))
		*memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
	if (*memory != MAP_FAILED)
		return 0;
	error = -errno;
	close(*fd);
	*fd = -1;
	return error;
}
