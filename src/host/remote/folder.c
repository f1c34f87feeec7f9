/*
 * The folder of a user's control sockets: where it is, and whether nobody else can look into it or has made it.
 *
 * Callers: the server, and clients that look for sessions.  Context: host.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "impl.h"

/* A folder of another user is no place for sockets: such as XDG_RUNTIME_DIR of a user who became root. */
static bool is_own_folder(const char *path)
{
	struct stat st;

	return !stat(path, &st) && S_ISDIR(st.st_mode) && st.st_uid == geteuid();
}

/*
 * The user's number outside of the user namespace that `calltap shell` has made: the folder of sockets has that number
 * in its name, and sessions outside are to be found from inside.
 */
static unsigned user_number(void)
{
	FILE *file = fopen("/proc/self/uid_map", "re");
	unsigned inside, outside, count, number = geteuid();

	while (file && fscanf(file, "%u %u %u", &inside, &outside, &count) == 3)
		if (geteuid() >= inside && geteuid() - inside < count)
			number = outside + (geteuid() - inside);
	if (file)
		fclose(file);
	return number;
}

bool folder_path(unsigned i, char path[PATH_MAX])
{
	const char *runtime = getenv("XDG_RUNTIME_DIR");
	char parent[64];

	switch (i) {
	case 0:
		return runtime && runtime[0] == '/' && is_own_folder(runtime) &&
		       snprintf(path, PATH_MAX, "%s/calltap", runtime) < PATH_MAX;
	case 1:
		snprintf(parent, sizeof(parent), "/run/user/%u", user_number());
		return is_own_folder(parent) && snprintf(path, PATH_MAX, "%s/calltap", parent) < PATH_MAX;
	default:
		return snprintf(path, PATH_MAX, "/tmp/calltap-%u", user_number()) < PATH_MAX;
	}
}

static int check(int fd, const char *path, struct calltap_diag *diag)
{
	struct stat st;

	if (fstat(fd, &st))
		return calltap_diag_set(diag, -errno, "%s cannot be looked at: %s", path, strerror(errno));
	if (st.st_uid != geteuid())
		return calltap_diag_set(
			diag, -EPERM,
			"%s belongs to another user (%u): remove it, or set XDG_RUNTIME_DIR to a folder "
			"of your own",
			path, (unsigned)st.st_uid);
	if ((st.st_mode & 0777) != 0700)
		return calltap_diag_set(diag, -EPERM,
					"%s can be opened by others (mode %03o, not 700): look what is in it, and "
					"`chmod 700` it, or remove it",
					path, (unsigned)st.st_mode & 0777);
	return 0;
}

int folder_open(int *fd, const char *path, bool make, struct calltap_diag *diag)
{
	bool made = make && !mkdir(path, 0700);
	int place = open(path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), ret;

	*fd = -1;
	if (place < 0 && (errno == ELOOP || errno == ENOTDIR))
		return calltap_diag_set(diag, -EPERM, "%s is no folder, or a symbolic link to one: remove it", path);
	if (place < 0)
		return calltap_diag_set(diag, -errno, "%s cannot be opened: %s", path, strerror(errno));
	ret = check(place, path, diag);
	/* The umask may have taken too many rights from a folder that was just made. */
	if (ret == -EPERM && made && !fchmodat(place, ".", 0700, 0))
		ret = check(place, path, diag);
	if (!ret) {
		*fd = openat(place, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (*fd < 0)
			ret = calltap_diag_set(diag, -errno, "%s cannot be opened: %s", path, strerror(errno));
	}
	close(place);
	return ret;
}

void folder_socket(char path[108], int folder, const char *name)
{
	snprintf(path, 108, "/proc/self/fd/%d/%s", folder, name);
}

bool remote_peer_is_ours(int socket)
{
	struct ucred peer;
	socklen_t size = sizeof(peer);

	return !getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) && (!peer.uid || peer.uid == geteuid());
}
