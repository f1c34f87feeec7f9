/*
 * A program that knows nothing of handlers: it answers each line of its input,
 * until one says "end".  watch.c is loaded into it while it runs.
 */
#include <string.h>

#include "example.h"

TRACED static size_t handle_request(const char *line)
{
	return strlen(line);
}

int main(void)
{
	char line[256];

	setvbuf(stdout, NULL, _IOLBF, 0);
	puts("ready");
	while (fgets(line, sizeof(line), stdin) && strcmp(line, "end\n") != 0)
		printf("%zu bytes\n", handle_request(line));
	return 0;
}
