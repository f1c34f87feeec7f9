/*
 * Is the text of a process what its files say?  Asked when it has been let go
 * of (attached_release.c, session/attachees.c).  Context: host, under the session's lock.
 */
#include <sys/stat.h>
#include <time.h>

#include <host/attach/attach.h>
#include <host/compare.h>
#include <host/proc.h>
#include <host/space.h>
#include <host/session/session.h>

#define ERRAND_LOOKS   50
#define ERRAND_STEP_NS 10000000

struct files {
	const struct session *session;
	const struct target *target;
	struct map hooked; /* of the loader, where the agent's hook was; no inode = none is known */
};

/* Has the image sites, or an addition to it? */
static bool has_sites(const struct session *session, const struct image *image)
{
	const struct image *addition = session->images.first;

	while (addition && (addition->base != image || !addition->site_count))
		addition = addition->next;
	return image->site_count || addition;
}

/* The mapping of the loader that the agent had put its hook into. */
static void find_hooked(struct files *files)
{
	const struct map *map;
	struct space space;

	if (!files->target->attach.hook_at || space_read(&space, proc_alive(files->target->pid)))
		return;
	map = space_find(&space, files->target->attach.hook_at);
	if (map) {
		files->hooked = *map;
		files->hooked.path = "";
	}
	space_free(&space);
}

/* Only files of which something was patched. */
static bool was_patched(const void *context, int fd)
{
	const struct files *files = context;
	struct stat st;

	if (fstat(fd, &st))
		return false;
	if (files->hooked.inode && space_is_file(&files->hooked, &st))
		return true;
	for (uint32_t i = 0; i < files->target->map_count; i++) {
		const struct image *image = files->target->maps[i].image;

		if (image->dev == st.st_dev && image->ino == st.st_ino && has_sites(files->session, image))
			return true;
	}
	return false;
}

/* Has another session come since?  Ours has no board there any more. */
static bool is_anothers(pid_t pid)
{
	return space_inode_of(proc_alive(pid), SPACE_BOARD) != 0;
}

/*
 * Compare the text with the files.  With `clears` a killed tool has left what it had patched, and nobody knows in which
 * files: all are compared.  Another tool may bring its agent in just now: its code in the program's text then differs
 * for a moment, and is waited for.
 */
static struct compare_result compare(const struct files *files)
{
	struct compare_result result;

	for (int looks = 0;; looks++) {
		result = compare_text(files->target->pid, files->session->options->clears ? NULL : was_patched, files);
		if (!result.differing || looks == ERRAND_LOOKS || !attach_slack_has(files->target->pid))
			return result;
		nanosleep(&(struct timespec){0, ERRAND_STEP_NS}, NULL);
	}
}

void verify_text(struct session *session, const struct target *target)
{
	struct record_attached *told = target->attachee->told;
	struct files files = {session, target, {0}};
	struct compare_result result;

	find_hooked(&files);
	result = compare(&files);
	if (result.differing && !told->agent_stays && is_anothers(target->pid))
		return; /* what differs is that one's */
	compare_add(&told->text, &result);
}
