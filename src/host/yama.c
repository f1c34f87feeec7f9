/* Reading Yama's setting (yama.h).  Context: host, and the program's threads. */
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "yama.h"

long yama_scope(long unknown)
{
	int fd = open("/proc/sys/kernel/yama/ptrace_scope", O_RDONLY | O_CLOEXEC);
	char text[16];
	ssize_t got;

	if (fd < 0)
		return 0;
	got = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (got <= 0)
		return unknown;
	text[got] = 0;
	return strtol(text, NULL, 10);
}
