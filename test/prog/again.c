/*
 * A daemon that executes itself anew, as one does that is to load another version of itself: its first process has
 * ended then, and no other one is there.
 *
 *     again FILE
 *
 * Before that it has moved its environment, and written over where it was, as sshd does.
 *
 * The second image makes CALLS traced calls, and writes the file when it has made them.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "truth.h"

#define CALLS 1000

TRACED unsigned call(unsigned x)
{
	return x * 1664525u + 1013904223u;
}

TRACED unsigned call_anew(unsigned x)
{
	return call(x) + 1;
}

UNTRACED static void move_environment(void)
{
	for (char **entry = environ; *entry; entry++) {
		char *old = *entry;

		*entry = strdup(old);
		memset(old, '-', strlen(old));
	}
}

int main(int argc, char **argv)
{
	volatile unsigned x = 1;
	FILE *file;

	if (argc < 3) {
		x = call(x);
		if (fork())
			return 0;
		setsid();
		move_environment();
		x = call(x);
		usleep(300000);
		execl(argv[0], argv[0], argv[1], "anew", (char *)NULL);
		return 1;
	}
	for (int i = 0; i < CALLS; i++) {
		x = call_anew(x);
		if (i % 100 == 0)
			usleep(30000);
	}
	file = fopen(argv[1], "w");
	return !file || fclose(file);
}
