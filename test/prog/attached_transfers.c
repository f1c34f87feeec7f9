/*
 * A program that is in the middle of a transfer most of the time: its only thread writes, sends or receives 1 MiB in
 * one call, and a part of it is moved at once. The rest is moved when a byte comes on standard input. Then a line says
 * what the call returned: "whole", or "part" and how many bytes. There are 50 ms before the next call, and also before
 * and after the rest of one that was cut short. Ends when its standard input does; says "ok" and how many calls.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#define ALL  (1 << 20)
#define PART 1000

#define BETWEEN_US 50000 /* here the program can be stopped, and nothing is cut short */

static char bytes[ALL];

static ssize_t do_write(int fd)
{
	return write(fd, bytes, ALL);
}

static ssize_t do_writev(int fd)
{
	struct iovec halves[2] = {{bytes, ALL / 2}, {bytes + ALL / 2, ALL / 2}};

	return writev(fd, halves, 2);
}

static ssize_t do_send(int fd)
{
	return send(fd, bytes, ALL, 0);
}

static ssize_t do_recv(int fd)
{
	return recv(fd, bytes, ALL, MSG_WAITALL);
}

static const struct way {
	const char *name;
	ssize_t (*transfer)(int fd);
	int socket, receives;
} ways[] = {{"write", do_write, 0, 0}, {"writev", do_writev, 0, 0}, {"send", do_send, 1, 0}, {"recv", do_recv, 1, 1}};
#define WAYS (sizeof(ways) / sizeof(ways[0]))

/* The other end: for each byte of standard input it lets one call end. */
static void serve(int fd, int receives)
{
	static char taken[ALL];
	char byte;

	for (;;) {
		size_t done = receives ? PART : 0;

		if (receives && write(fd, taken, PART) != PART)
			_exit(1);
		if (read(0, &byte, 1) <= 0)
			_exit(0);
		while (done < ALL) {
			ssize_t got = receives ? write(fd, taken, ALL - done) : read(fd, taken, ALL - done);

			if (got <= 0)
				_exit(1);
			done += (size_t)got;
		}
	}
}

int main(int argc, char **argv)
{
	const struct way *way = ways;
	unsigned long calls = 0;
	ssize_t moved;
	int ends[2];

	while (way < ways + WAYS && (argc < 2 || strcmp(way->name, argv[1])))
		way++;
	if (way == ways + WAYS || (way->socket ? socketpair(AF_UNIX, SOCK_STREAM, 0, ends) : pipe(ends)))
		return 2;
	signal(SIGPIPE, SIG_IGN);
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (!fork()) {
		close(ends[1]);
		serve(ends[0], way->receives);
	}
	close(ends[0]);
	printf("ready\n");
	for (; (moved = way->transfer(ends[1])) > 0; calls++) {
		if (moved == ALL)
			printf("whole\n");
		else
			printf("part %zd\n", moved);
		usleep(BETWEEN_US);
		/* The other end moves all of it: so the call is one call again. */
		while (moved < ALL) {
			ssize_t more = way->receives ? recv(ends[1], bytes, ALL - (size_t)moved, MSG_WAITALL)
						     : write(ends[1], bytes, ALL - (size_t)moved);

			if (more <= 0)
				break;
			moved += more;
			if (moved == ALL)
				usleep(BETWEEN_US);
		}
	}
	printf("ok %lu\n", calls);
	return 0;
}
