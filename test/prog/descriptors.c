/*
 * A program's own descriptors and environment as it sees them: the numbers that open() gives, the list in
 * /proc/self/fd, that a pipe ends when its writer closes it, and that closing every other number does no harm.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

__attribute__((noinline)) int opened(void)
{
	int fd = open("/dev/null", O_RDONLY);

	close(fd);
	return fd;
}

__attribute__((noinline)) int listed(void)
{
	DIR *folder = opendir("/proc/self/fd");
	int n = 0;

	while (folder && readdir(folder))
		n++;
	closedir(folder);
	return n;
}

__attribute__((noinline)) int pipe_ends(void)
{
	int ends[2];
	char byte;

	if (pipe(ends))
		return -1;
	close(ends[1]);
	return (int)read(ends[0], &byte, 1);
}

int main(void)
{
	printf("open gives %d, %d are listed, a closed pipe reads %d\n", opened(), listed(), pipe_ends());
	fflush(stdout);
	for (int fd = 3; fd < 1024; fd++)
		close(fd);
	printf("all closed: open gives %d\n", opened());
	return 0;
}
