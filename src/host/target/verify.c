/*
 * Is the text of a process what its files say?  Asked when it has been let go
 * of (attached_release.c, session/attachees.c).  Context: host, under the session's lock.
 */
#include <sys/stat.h>

#include <host/compare.h>
#include <host/session/session.h>

/* Only files of which something was patched. */
static bool was_patched(const void *context, int fd)
{
	const struct target *target = context;
	struct stat st;

	if (fstat(fd, &st))
		return false;
	for (uint32_t i = 0; i < target->map_count; i++) {
		const struct image *image = target->maps[i].image;

		if (image->site_count && image->dev == st.st_dev && image->ino == st.st_ino)
			return true;
	}
	return false;
}

/* What a session that was killed had patched is not known: then all files are looked at. */
void verify_text(struct session *session, const struct target *target)
{
	struct compare_result result = compare_text(target->pid, session->options->clears ? NULL : was_patched, target);

	compare_add(&target->attachee->told->text, &result);
}
