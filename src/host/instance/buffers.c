/*
 * A flight recorder's memory with a name (--buffer-dir): its rings and tables
 * are files in a folder of their own, which outlive the tool and its targets.
 *
 * Only on tmpfs: a file on a disk would make the program wait for the disk in
 * a page fault, and end by SIGBUS when the disk fails or, where the file
 * system writes elsewhere than it reads, when it is full.  Files there have
 * all their memory from the start.  doc/design/flight-recorder.md has the
 * argument.  Called by the session and the drainer.  Context: host.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <host/session/session.h>

#define TABLES_NAME "tables"

static void arena_name(char name[24], uint32_t number)
{
	snprintf(name, 24, "arena-%u", number);
}

static int make_folder(struct instance *instance, const char *dir, struct calltap_diag *diag)
{
	pid_t pid = session_pid(instance->session);
	char path[PATH_MAX];
	struct statfs fs;

	if (statfs(dir, &fs))
		return calltap_diag_set(diag, -errno, "cannot put buffers into %s: %s", dir, strerror(errno));
	if (fs.f_type != TMPFS_MAGIC)
		return calltap_diag_set(diag, -EINVAL,
					"%s is not on tmpfs: the program would have to wait for that file system, and "
					"would end if it failed; name a folder in memory, such as /dev/shm",
					dir);
	if (snprintf(path, sizeof(path), "%s/calltap-%d-XXXXXX", dir, (int)(pid ? pid : getpid())) >= (int)sizeof(path))
		return calltap_diag_set(diag, -ENAMETOOLONG, "the name of %s is too long", dir);
	if (!mkdtemp(path)) /* of mode 0700, and nobody else's */
		return calltap_diag_set(diag, -errno, "cannot make a folder in %s: %s", dir, strerror(errno));
	instance->buffers.path = strdup(path);
	instance->buffers.folder = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (!instance->buffers.path || instance->buffers.folder < 0) {
		rmdir(path);
		return calltap_diag_set(diag, -ENOMEM, "cannot open the folder %s", path);
	}
	return 0;
}

static int make_file(const struct instance *instance, const char *name)
{
	int fd = openat(instance->buffers.folder, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);

	return fd < 0 ? -errno : fd;
}

int buffers_create(struct instance *instance, struct calltap_diag *diag)
{
	const char *dir = instance->options->buffer_dir;

	instance->buffers.folder = -1;
	return dir ? make_folder(instance, dir, diag) : 0;
}

int buffers_tables(const struct instance *instance)
{
	return instance->buffers.folder < 0 ? -1 : make_file(instance, TABLES_NAME);
}

int buffers_arena(struct instance *instance, struct target_arena *arena, int *fd, void **memory)
{
	uint32_t number = ++instance->buffers.count;
	char name[24];
	int ret;

	arena_name(name, number);
	*fd = make_file(instance, name);
	if (*fd < 0)
		return *fd;
	ret = -posix_fallocate(*fd, 0, (off_t)arena->size);
	if (!ret) {
		*memory = mmap(NULL, arena->size, PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
		ret = *memory == MAP_FAILED ? -errno : 0;
	}
	if (ret) {
		close(*fd);
		*fd = -1;
		unlinkat(instance->buffers.folder, name, 0);
		instance_diagnose(instance, "there is no room in %s for all buffers (%s): use smaller ones (-b)",
				  instance->options->buffer_dir, strerror(-ret));
		return ret;
	}
	arena->file = number;
	return 0;
}

void buffers_forget(const struct instance *instance, const struct target_arena *arena)
{
	char name[24];

	if (!arena->file || instance->buffers.folder < 0)
		return;
	arena_name(name, arena->file);
	unlinkat(instance->buffers.folder, name, 0); /* never cut: a forked child may have it mapped */
}

void buffers_destroy(struct instance *instance, bool keep)
{
	if (instance->buffers.folder < 0)
		return;
	if (!keep) {
		unlinkat(instance->buffers.folder, TABLES_NAME, 0);
		rmdir(instance->buffers.path);
	}
	close(instance->buffers.folder);
	instance->buffers.folder = -1;
	free(instance->buffers.path);
}
