/*
 * Which libraries are a program's own (choice.h).  Context: host.
 */
#include <string.h>

#include "choice.h"

bool stock_is_own_library(const char *path)
{
	/* The beginnings of "/lib/", "/lib64/" and their like. */
	static const char *const shared[] = {"/lib", "/usr/lib", "/usr/local/lib"};

	for (size_t i = 0; i < sizeof(shared) / sizeof(shared[0]); i++)
		if (!strncmp(path, shared[i], strlen(shared[i])))
			return false;
	return true;
}
