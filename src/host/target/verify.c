/*
 * Is the text of a process what its files say?  Asked when it has been let go
 * of (attached_release.c, session/attachees.c).  Context: host, under the session's lock.
 */
#include <sys/stat.h>

#include <host/compare.h>
#include <host/proc.h>
#include <host/space.h>
#include <host/session/session.h>

struct files {
	const struct session *session;
	const struct target *target;
};

/* Has the image sites, or an addition to it? */
static bool has_sites(const struct session *session, const struct image *image)
{
	const struct image *addition = session->images.first;

	while (addition && (addition->base != image || !addition->site_count))
		addition = addition->next;
	return image->site_count || addition;
}

/* Only files of which something was patched. */
static bool was_patched(const void *context, int fd)
{
	const struct files *files = context;
	struct stat st;

	if (fstat(fd, &st))
		return false;
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

/* What a session that was killed had patched is not known: then all files are looked at. */
void verify_text(struct session *session, const struct target *target)
{
	struct record_attached *told = target->attachee->told;
	const struct files files = {session, target};
	struct compare_result result = compare_text(target->pid, session->options->clears ? NULL : was_patched, &files);

	if (result.differing && !told->agent_stays && is_anothers(target->pid))
		return; /* what differs is that one's */
	compare_add(&told->text, &result);
}
