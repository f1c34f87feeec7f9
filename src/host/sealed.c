/*
 * Memory that the tool shares with targets (sealed.h).  Context: host.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "sealed.h"

/* A size beyond the process' limit (ulimit -f) is an error, and not the tool's end by SIGXFSZ. */
static int resize(int fd, size_t size)
{
	const struct timespec now = {0};
	sigset_t too_large, before;
	int ret;

	sigemptyset(&too_large);
	sigaddset(&too_large, SIGXFSZ);
	pthread_sigmask(SIG_BLOCK, &too_large, &before);
	ret = ftruncate(fd, (off_t)size) ? -errno : 0;
	if (ret == -EFBIG && !sigismember(&before, SIGXFSZ))
		sigtimedwait(&too_large, NULL, &now);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return ret;
}

int sealed_create(const char *name, size_t size, int *fd, void **memory)
{
	int error;

	*memory = MAP_FAILED;
	*fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (*fd < 0)
		return -errno;
	error = resize(*fd, size);
	if (!error && fcntl(*fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL))
		error = -errno;
	if (!error)
		*memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
	if (*memory != MAP_FAILED)
		return 0;
	error = error ? error : -errno;
	close(*fd);
	*fd = -1;
	return error;
}
