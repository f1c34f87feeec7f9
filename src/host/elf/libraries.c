/*
 * Asking loaders (libraries.h).  Context: host.
 */
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <host/stock/choice.h>

#include "libraries.h"

/* "	libfoo.so.1 => /path/libfoo.so.1 (0x...)" or "	/path/ld.so (0x...)" */
static char *listed_path(char *line)
{
	char *path = strstr(line, "=> "), *end;

	path = path ? path + 3 : line + strspn(line, " \t");
	end = strrchr(path, '(');
	if (path[0] != '/' || !end || end == path)
		return NULL;
	end[-1] = 0;
	return path;
}

char *libraries_program(const char *path)
{
	char *file = realpath(path, NULL);

	return file ? file : strdup(path);
}

int libraries_list(const char *file, char **argv, libraries_visitor *visit, void *ctx)
{
	posix_spawn_file_actions_t actions;
	int pipe_fds[2], null, ret;
	bool runs;
	char line[4400];
	FILE *list;
	pid_t pid;

	if (pipe2(pipe_fds, O_CLOEXEC))
		return -errno;
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, pipe_fds[1], STDOUT_FILENO);
	null = open("/dev/null", O_WRONLY | O_CLOEXEC);
	if (null < 0) /* a container without devices */
		posix_spawn_file_actions_addclose(&actions, STDERR_FILENO);
	else
		posix_spawn_file_actions_adddup2(&actions, null, STDERR_FILENO);
	ret = -posix_spawn(&pid, file, &actions, NULL, argv, environ);
	runs = !ret;
	posix_spawn_file_actions_destroy(&actions);
	if (null >= 0)
		close(null);
	close(pipe_fds[1]);
	list = fdopen(pipe_fds[0], "r");
	while (!ret && list && fgets(line, sizeof(line), list)) {
		const char *path = listed_path(line);

		ret = path ? visit(ctx, path) : 0;
	}
	if (list)
		fclose(list);
	if (runs)
		waitpid(pid, NULL, 0);
	return ret;
}

/* A file that root alone can have put where the system's loaders are. */
static bool is_system_loader(const char *path)
{
	const char *slash = strrchr(path, '/');
	struct stat st;

	return slash && !strstr(path, "/../") && !stock_is_own_library(path) && !strncmp(slash, "/ld-", 4) &&
	       !stat(path, &st) && S_ISREG(st.st_mode) && st.st_uid == 0 && !(st.st_mode & (S_IWGRP | S_IWOTH));
}

int libraries_list_safely(const char *loader, const char *program, libraries_visitor *visit, void *ctx)
{
	char *file = libraries_program(program);
	char *argv[] = {(char *)loader, (char *)"--list", file, NULL};
	int ret = file ? -ENOENT : -ENOMEM;

	if (file && is_system_loader(loader))
		ret = libraries_list(loader, argv, visit, ctx);
	free(file);
	return ret;
}
