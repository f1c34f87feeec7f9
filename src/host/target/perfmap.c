/*
 * /tmp/perf-PID.map: names for the stubs, which lie in no file, as perf looks
 * for them (perf's own format, tools/perf/Documentation/jit-interface.txt).
 *
 * By frame pointers perf sees a traced frame's return address, which is in
 * its function's stub: with the function's name it is the frame itself that is
 * named.  Called by the session when an object was patched.  Context: host.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <host/proc.h>
#include <host/session/session.h>

#define SPARE_S 2 /* the clocks may have been set by so much */

/* Did a program that this one was executed in the place of get a map? */
static bool is_followed(const struct session *session, const struct target *target)
{
	for (const struct target *other = session->targets; other; other = other->next)
		if (other != target && other->pid == target->pid && other->perf_map)
			return true;
	return false;
}

/*
 * Is this the map of an earlier process, whose number has come again?  A file that the process may have written itself,
 * as a program with a JIT compiler does, is never taken for one.
 */
static bool is_stale(pid_t pid, const struct stat *st)
{
	uint64_t lived_ns = proc_age_ns(pid);
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return lived_ns && now.tv_sec - st->st_mtim.tv_sec > (time_t)(lived_ns / 1000000000u) + SPARE_S;
}

static int open_file(const char *path, int how, struct stat *st)
{
	int fd = open(path, O_WRONLY | O_NOFOLLOW | O_CLOEXEC | how, 0600), ret = 0;

	if (fd < 0)
		return -errno;
	if (fstat(fd, st))
		ret = -errno;
	else if (!S_ISREG(st->st_mode) || st->st_uid != geteuid() || st->st_nlink != 1)
		ret = -EEXIST;
	if (ret)
		close(fd);
	return ret ? ret : fd;
}

/* The folder is everybody's: never through a link, and never a file that is another's or has another name. */
static int open_map(const struct session *session, const struct target *target)
{
	struct stat st = {0};
	char path[64];
	int how, fd;

	if (target->perf_map)
		how = O_APPEND;
	else
		how = is_followed(session, target) ? O_TRUNC : O_CREAT | O_EXCL;
	snprintf(path, sizeof(path), "/tmp/perf-%d.map", (int)target->pid);
	fd = open_file(path, how, &st);
	if (fd != -EEXIST || !(how & O_EXCL))
		return fd;
	fd = open_file(path, 0, &st);
	if (fd < 0 || (is_stale(target->pid, &st) && !ftruncate(fd, 0)))
		return fd;
	close(fd);
	return -EEXIST;
}

/* A name out of a file that we did not write: it stays on its line. */
static void put_name(FILE *file, const char *name)
{
	for (; *name; name++)
		fputc((unsigned char)*name < ' ' ? '?' : *name, file);
	fputs(" [calltap]\n", file);
}

void perfmap_add_all(struct session *session, struct target *target)
{
	for (uint32_t i = 0; i < target->map_count; i++)
		perfmap_add(session, target, &target->maps[i]);
}

void perfmap_add(struct session *session, struct target *target, const struct target_map *map)
{
	struct image *image = map->image;
	FILE *file = NULL;
	int fd;

	if (!session->options->perf_map || !map->region || !image || !image->object)
		return;
	fd = open_map(session, target);
	if (fd >= 0)
		file = fdopen(fd, "a");
	if (!file) {
		session_diagnose(session, "/tmp/perf-%d.map cannot be written: %s", (int)target->pid,
				 strerror(fd < 0 ? -fd : errno));
		if (fd >= 0)
			close(fd);
		return;
	}
	target->perf_map = true;
	for (uint32_t i = 0; i < image->site_count; i++) {
		const struct calltap_site *site = &image->variants[map->variant].sites[i];

		fprintf(file, "%" PRIx64 " %x ", map->region + site->stub_off,
			layout_stub_size(object_machine(image->object), site));
		put_name(file, object_site_short_name(image->object, image->sources[i]));
	}
	if (fclose(file))
		session_diagnose(session, "/tmp/perf-%d.map cannot be written: %s", (int)target->pid, strerror(errno));
}
