/*
 * Fetching debug files (debuginfod.h).  Source: debuginfod_find_debuginfo(3).  Context: host.
 */
#include <dlfcn.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "debug_file.h"
#include "debuginfod.h"

#define LIBRARY "libdebuginfod.so.1"

struct library {
	struct debuginfod_client *(*begin)(void);
	void (*end)(struct debuginfod_client *client);
	int (*find_debuginfo)(struct debuginfod_client *client, const unsigned char *id, int id_size, char **path);
	void (*set_progressfn)(struct debuginfod_client *client, debuginfod_progress *progress);
};

/* It stays loaded: libraries that it needs do not bear being unloaded. */
static bool load(struct library *library)
{
	void *handle = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
	const struct {
		const char *name;
		void *to;
	} functions[] = {
		{"debuginfod_begin", &library->begin},
		{"debuginfod_end", &library->end},
		{"debuginfod_find_debuginfo", &library->find_debuginfo},
		{"debuginfod_set_progressfn", &library->set_progressfn},
	};

	for (size_t i = 0; handle && i < sizeof(functions) / sizeof(functions[0]); i++) {
		void *function = dlsym(handle, functions[i].name);

		if (!function)
			return false;
		memcpy(functions[i].to, &function, sizeof(function));
	}
	return handle;
}

int debuginfod_fetch(const uint8_t *id, size_t id_size, debuginfod_progress *progress, struct calltap_diag *diag)
{
	struct debuginfod_client *client;
	struct library library;
	int fd;

	if (!debug_file_has_servers())
		return calltap_diag_set(diag, -ENOTSUP,
					"DEBUGINFOD_URLS names no server to fetch from; set it to your distribution's, "
					"as in https://debuginfod.debian.net");
	if (!load(&library))
		return calltap_diag_set(diag, -ENOTSUP,
					LIBRARY " cannot be loaded; install it (Debian: apt-get install "
						"libdebuginfod1)");
	client = library.begin();
	if (!client)
		return calltap_diag_set(diag, -ENOMEM, LIBRARY " cannot be used: %s", strerror(ENOMEM));
	library.set_progressfn(client, progress);
	fd = library.find_debuginfo(client, id, (int)id_size, NULL);
	library.end(client);
	if (fd == -ENOENT)
		return fd;
	if (fd < 0)
		return calltap_diag_set(diag, fd, "the servers of DEBUGINFOD_URLS give no debug file: %s",
					strerror(-fd));
	close(fd);
	return 0;
}
