/*
 * Which libraries are a program's own (choice.h).  Context: host.
 */
#include <string.h>

#include "choice.h"

/* True for "/usr/aarch64-linux-gnu/lib/" and its like: what cross compilers link with. */
static bool is_cross_library(const char *path)
{
	const char *folder = path + strlen("/usr/"), *system, *rest;

	if (strncmp(path, "/usr/", strlen("/usr/")) != 0)
		return false;
	system = strstr(folder, "-linux-");
	rest = strchr(folder, '/');
	return system && rest && system < rest && !strncmp(rest, "/lib", strlen("/lib"));
}

bool stock_is_own_library(const char *path)
{
	/* The beginnings of "/lib/", "/lib64/" and their like. */
	static const char *const shared[] = {"/lib", "/usr/lib", "/usr/local/lib"};

	for (size_t i = 0; i < sizeof(shared) / sizeof(shared[0]); i++)
		if (!strncmp(path, shared[i], strlen(shared[i])))
			return false;
	return !is_cross_library(path);
}
