/*
 * A mount namespace in which /sys/kernel/tracing is a tree of ours (overlay.h).
 *
 * Root takes a mount namespace alone.  Another user takes a user namespace as well, in which this user is root and may
 * mount FUSE; the kernel lets nobody use such a mount but the user who has made it.  What is mounted here comes from
 * nowhere else and goes nowhere else: it ends with the last process of the namespace.  Context: host.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <mntent.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "overlay.h"

#define LISTED_MAX   8
#define DEBUG_PLACE  "/sys/kernel/debug/tracing"
#define LIST	     "/proc/mounts"
#define STACK_TRACER "/proc/sys/kernel/stack_tracer_enabled"

/* Files of the kernel that its tools read and write, and what stands for them: the kernel's own stay as they are. */
static const struct {
	const char *path, *text;
} files[] = {
	{"/proc/sys/kernel/ftrace_enabled", "1\n"},
	{"/proc/sys/kernel/kptr_restrict", "0\n"},
};

/* Where tracefs is mounted already, as tools find it; the first one counts. */
struct listed {
	char paths[LISTED_MAX][PATH_MAX];
	size_t count;
};

static bool reads_as(const char *path, long value)
{
	FILE *file = fopen(path, "re");
	char text[24];
	bool same = file && fgets(text, sizeof(text), file) && strtol(text, NULL, 10) == value;

	if (file)
		fclose(file);
	return same;
}

/* Say what forbids user namespaces, and what can be done. */
static int refuse_user(int error, struct calltap_diag *diag)
{
	static const struct {
		const char *path, *name;
		long forbids;
		const char *allows;
	} settings[] = {
		{"/proc/sys/kernel/unprivileged_userns_clone", "kernel.unprivileged_userns_clone", 0, "1"},
		{"/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
		 "kernel.apparmor_restrict_unprivileged_userns", 1, "0"},
		{"/proc/sys/user/max_user_namespaces", "user.max_user_namespaces", 0, "10000"},
	};

	for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++)
		if (reads_as(settings[i].path, settings[i].forbids))
			return calltap_diag_set(
				diag, error,
				"this system forbids user namespaces, which `calltap shell` needs: have root set "
				"`sysctl %s=%s`, or use `calltap mount DIR`",
				settings[i].name, settings[i].allows);
	return calltap_diag_set(
		diag, error,
		"cannot make a user namespace, which `calltap shell` needs: %s; a container may forbid it: "
		"use `calltap mount DIR`",
		strerror(-error));
}

static int write_file(const char *path, const char *text, int flags)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC | flags, 0644), ret = fd < 0 ? -errno : 0;

	if (!ret && write(fd, text, strlen(text)) < 0)
		ret = -errno;
	if (fd >= 0)
		close(fd);
	return ret;
}

/* Be root in a user namespace. */
static int enter_user(struct overlay *overlay, struct calltap_diag *diag)
{
	char users[32], groups[32];
	int ret;

	snprintf(users, sizeof(users), "0 %u 1\n", geteuid());
	snprintf(groups, sizeof(groups), "0 %u 1\n", getegid());
	if (unshare(CLONE_NEWUSER | CLONE_NEWNS))
		return refuse_user(-errno, diag);
	overlay->user = true;
	ret = write_file("/proc/self/setgroups", "deny", 0); /* else the groups cannot be mapped */
	if (!ret || ret == -ENOENT)
		ret = write_file("/proc/self/uid_map", users, 0);
	if (!ret)
		ret = write_file("/proc/self/gid_map", groups, 0);
	return ret ? refuse_user(ret, diag) : 0;
}

static int enter_namespace(struct overlay *overlay, struct calltap_diag *diag)
{
	int ret;

	if (geteuid() || unshare(CLONE_NEWNS)) {
		ret = enter_user(overlay, diag);
		if (ret)
			return ret;
	}
	/* Mounts that others make or end later show here, too; those that are made here show nowhere else. */
	if (mount("none", "/", NULL, MS_REC | MS_SLAVE, NULL))
		return calltap_diag_set(diag, -errno, "cannot part the mounts from those of others: %s",
					strerror(errno));
	return 0;
}

static void find_listed(struct listed *listed)
{
	FILE *file = setmntent("/proc/self/mounts", "re");
	const struct mntent *entry;

	while (file && listed->count < LISTED_MAX && (entry = getmntent(file)))
		if (!strcmp(entry->mnt_type, "tracefs"))
			snprintf(listed->paths[listed->count++], PATH_MAX, "%s", entry->mnt_dir);
	if (file)
		endmntent(file);
}

/* Write a list of mounts in which the tree is a tracefs. */
static int write_list(const char *path)
{
	FILE *from = fopen("/proc/self/mounts", "re"), *to = fopen(path, "we");
	char *line = NULL;
	size_t size = 0;
	int ret = from && to ? 0 : -errno;

	if (!ret)
		fprintf(to, "calltap " OVERLAY_PLACE " tracefs rw,nosuid,nodev,relatime 0 0\n");
	while (!ret && getline(&line, &size, from) > 0)
		if (!strstr(line, " " OVERLAY_PLACE " tmpfs ") && fputs(line, to) < 0)
			ret = -EIO;
	free(line);
	if (from)
		fclose(from);
	if (to && fclose(to) && !ret)
		ret = -errno;
	return ret;
}

/* /proc/mounts is a symbolic link, which can be covered by its descriptor. */
static int cover_list(const char *file)
{
	char path[sizeof("/proc/self/fd/") + 12];
	int fd = open(LIST, O_PATH | O_NOFOLLOW | O_CLOEXEC), ret = fd < 0 ? -errno : 0;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (!ret && mount(file, path, NULL, MS_BIND, NULL))
		ret = -errno;
	if (fd >= 0)
		close(fd);
	return ret;
}

/*
 * Cover the files beside the tree by files in memory, which are in a file system that is at the tree's place for that
 * long.
 */
static int cover_files(struct overlay *overlay, const struct listed *listed, struct calltap_diag *diag)
{
	static const char list[] = OVERLAY_PLACE "/mounts";
	char file[sizeof(OVERLAY_PLACE) + 16];
	struct stat about;

	if (mount("calltap", OVERLAY_PLACE, "tmpfs", MS_NOSUID | MS_NODEV, "mode=0755,size=1m"))
		return errno == EPERM || errno == EACCES
			       ? refuse_user(-errno, diag)
			       : calltap_diag_set(diag, -errno, "cannot mount on " OVERLAY_PLACE ": %s",
						  strerror(errno));
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		if (stat(files[i].path, &about))
			continue;
		/* Nothing can be mounted on a file without a name: so these keep theirs, for a shell in this one. */
		snprintf(file, sizeof(file), OVERLAY_PLACE "/%zu", i);
		if (write_file(file, files[i].text, O_CREAT) || mount(file, files[i].path, NULL, MS_BIND, NULL))
			overlay->beside = files[i].path;
	}
	/* Tools take the first tracefs that is listed.  Where there is none, or none that can be covered, ours is. */
	if ((!listed->count || stat(listed->paths[0], &about)) && (write_list(list) || cover_list(list)))
		overlay->beside = LIST;
	/* Many kernels are built without that tracer, and scripts know it by the sysctl alone. */
	if (stat(STACK_TRACER, &about) && overlay_add_sysctl(STACK_TRACER))
		overlay->missing = STACK_TRACER;
	umount2(OVERLAY_PLACE, MNT_DETACH);
	return 0;
}

static int open_device(struct overlay *overlay, struct calltap_diag *diag)
{
	overlay->device = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	if (overlay->device >= 0)
		return 0;
	return calltap_diag_set(diag, -errno, "cannot open /dev/fuse: %s; %s", strerror(errno),
				errno == EACCES ? "have root `chmod 0666 /dev/fuse`"
						: "have root `modprobe fuse`, or give the container that device");
}

static int mount_tree(const struct overlay *overlay, const struct listed *listed, struct calltap_diag *diag)
{
	char wishes[128];

	snprintf(wishes, sizeof(wishes), "fd=%d,rootmode=%o,user_id=%u,group_id=%u,default_permissions",
		 overlay->device, (unsigned)S_IFDIR, geteuid(), getegid());
	if (mount("calltap", OVERLAY_PLACE, "fuse.tracefs", MS_NOSUID | MS_NODEV, wishes))
		return calltap_diag_set(diag, -errno, "cannot mount FUSE on " OVERLAY_PLACE ": %s", strerror(errno));
	for (size_t i = 0; i < listed->count; i++)
		if (strcmp(listed->paths[i], OVERLAY_PLACE) != 0)
			(void)mount(OVERLAY_PLACE, listed->paths[i], NULL, MS_BIND, NULL);
	return 0;
}

/* Scripts know the tree by its old place, too, where it is mounted when somebody looks. */
static void look_there(void)
{
	int fd = open(DEBUG_PLACE "/.", O_PATH | O_DIRECTORY | O_CLOEXEC);

	if (fd >= 0)
		close(fd);
}

int overlay_enter(struct overlay *overlay, struct calltap_diag *diag)
{
	struct listed *listed = calloc(1, sizeof(*listed));
	int ret;

	*overlay = (struct overlay){.device = -1};
	if (!listed)
		return calltap_diag_set(diag, -ENOMEM, "not enough memory");
	ret = access(OVERLAY_PLACE, F_OK) ? -errno : 0;
	if (ret)
		ret = calltap_diag_set(diag, ret, "there is no " OVERLAY_PLACE " here: %s; use `calltap mount DIR`",
				       strerror(-ret));
	if (!ret)
		ret = enter_namespace(overlay, diag);
	if (!ret) {
		look_there();
		find_listed(listed);
		ret = cover_files(overlay, listed, diag);
	}
	if (!ret)
		ret = open_device(overlay, diag);
	if (!ret)
		ret = mount_tree(overlay, listed, diag);
	free(listed);
	return ret;
}

void overlay_finish(struct overlay *overlay)
{
	static const struct {
		const char *file, *place;
	} bound[] = {
		{OVERLAY_PLACE "/kallsyms", "/proc/kallsyms"},
		{OVERLAY_PLACE "/stack_tracer_enabled", STACK_TRACER},
	};

	for (size_t i = 0; i < sizeof(bound) / sizeof(bound[0]); i++)
		if (!access(bound[i].place, F_OK) && mount(bound[i].file, bound[i].place, NULL, MS_BIND, NULL))
			overlay->beside = bound[i].place;
}
