/*
 * A tree of files beside a recording; see beside.h.
 *
 * The recording's tool starts `calltap mount DIR PID` as another process, as a user could.  That process asks the
 * session for a further instance and serves the tree from it; the session does not know who started it.  Context: host.
 */
#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "beside.h"

/* The session's handlers are its own, and so is what it blocks. */
static int spawn(struct beside *beside, char *const *words)
{
	posix_spawnattr_t attributes;
	sigset_t none, all;
	int ret = posix_spawnattr_init(&attributes);

	if (ret)
		return ret;
	sigemptyset(&none);
	sigfillset(&all);
	posix_spawnattr_setsigmask(&attributes, &none);
	posix_spawnattr_setsigdefault(&attributes, &all);
	posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
	ret = posix_spawn(&beside->pid, "/proc/self/exe", NULL, &attributes, words, environ);
	posix_spawnattr_destroy(&attributes);
	if (ret)
		beside->pid = 0;
	return ret;
}

static void on_begun(void *ctx)
{
	struct beside *beside = ctx;
	char name[] = "calltap", verb[] = "mount", quiet[] = "--quiet", pid[16];
	char *words[] = {name, verb, quiet, beside->folder, pid, NULL};
	int ret;

	snprintf(pid, sizeof(pid), "%d", (int)record_live_pid(beside->live));
	ret = spawn(beside, words);
	if (ret)
		fprintf(stderr, "calltap: cannot start `calltap mount`: %s\n", strerror(ret));
}

int beside_prepare(struct beside *beside, struct recording *recording)
{
	struct record_options *options = &recording->settings.options;
	struct stat st;

	*beside = (struct beside){0};
	if (!recording->mount)
		return 0;
	beside->folder = realpath(recording->mount, NULL); /* no word that begins as an option does */
	if (!beside->folder || stat(beside->folder, &st) || !S_ISDIR(st.st_mode)) {
		fprintf(stderr, "calltap: '%s' is no folder that files can be mounted on\n", recording->mount);
		beside_finish(beside);
		return EXIT_USAGE;
	}
	if (record_live_create(&beside->live)) {
		fprintf(stderr, "calltap: not enough memory\n");
		beside_finish(beside);
		return EXIT_USAGE;
	}
	options->live = beside->live;
	options->begun = on_begun;
	options->begun_ctx = beside;
	return 0;
}

void beside_finish(struct beside *beside)
{
	if (beside->pid)
		while (waitpid(beside->pid, NULL, 0) < 0 && errno == EINTR)
			;
	record_live_destroy(beside->live);
	free(beside->folder);
	*beside = (struct beside){0};
}
