/*
 * Calls of libc's functions, each of which the program says itself, as a tracer without debug information is to show
 * it; and of a library's own function that has the name of one of libc's, of which nothing is to be shown.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* The library's, in place of libc's (int, int). */
double hcreate(double x);

/* Bytes of a name that a tracer shows: those within the first 96 of the structure. */
#define SHOWN_NAME (96 - (int)offsetof(struct dirent, d_name))

static char said[16384];
static size_t used;

static void say(const char *format, ...)
{
	va_list list;

	va_start(list, format);
	used += (size_t)vsnprintf(said + used, sizeof(said) - used, format, list);
	va_end(list);
}

static void files(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC), other;
	char *memory;
	long at;

	say("open(file=\"%s\", oflag=O_CLOEXEC) = %d\n", path, fd);
	at = lseek(fd, 2, SEEK_END);
	say("lseek(fd=%d, offset=2, whence=SEEK_END) = %ld\n", fd, at);
	other = openat(AT_FDCWD, "nothing here", O_WRONLY | O_DIRECTORY);
	say("openat(fd=AT_FDCWD, file=\"nothing here\", oflag=O_WRONLY|O_DIRECTORY) = %d\n", other);
	memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	say("mmap(addr=NULL, len=4096, prot=PROT_READ|PROT_WRITE, flags=MAP_PRIVATE|MAP_ANONYMOUS, fd=-1, offset=0) = "
	    "%p\n",
	    (void *)memory);
	other = madvise(memory, 4096, MADV_DONTNEED);
	say("madvise(addr=%p, len=4096, advice=MADV_DONTNEED) = %d\n", (void *)memory, other);
	other = close(fd);
	say("close(fd=%d) = %d\n", fd, other);
}

static void texts(void)
{
	char *end, *text = getenv("TEXT"), *copy;
	long number;

	say("getenv(name=\"TEXT\") = \"%s\"\n", text);
	copy = strdup(text);
	say("strdup(s=\"%s\") = \"%s\"\n", text, copy);
	number = strtol("77 and more", &end, 8);
	say("strtol(nptr=\"77 and more\", endptr=%p, base=8) = %ld\n", (void *)&end, number);
	free(copy);
	say("free(ptr=%p)\n", (void *)copy);
}

/* A folder with a short name and one that is longer than what is shown. */
static void names(void)
{
	char letters[201] = {0}, path[256] = "names/";
	struct dirent *entry;
	DIR *folder;

	memset(letters, 'l', sizeof(letters) - 1);
	strcat(path, letters);
	mkdir("names", 0700);
	mkdir("names/short", 0700);
	mkdir(path, 0700);
	folder = opendir("names");
	say("opendir(name=\"names\") = %p\n", (void *)folder);
	while (folder && (entry = readdir(folder)))
		say("readdir(dirp=%p) = {d_ino=%lu, d_off=%ld, d_reclen=%u, d_type=4, d_name=\"%.*s\"%s}\n",
		    (void *)folder, entry->d_ino, entry->d_off, entry->d_reclen, SHOWN_NAME, entry->d_name,
		    strlen(entry->d_name) < SHOWN_NAME ? "" : "...");
	rmdir(path);
	rmdir("names/short");
	rmdir("names");
}

static void others(int argc)
{
	int pair[2], ret = socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
	struct timespec now;

	say("socketpair(domain=AF_UNIX, type=1, protocol=0, fds=%p) = %d\n", (void *)pair, ret);
	ret = kill(getpid(), SIGCHLD);
	say("getpid() = %d\n", getpid());
	say("kill(pid=%d, sig=SIGCHLD) = %d\n", getpid(), ret);
	ret = clock_gettime(CLOCK_MONOTONIC, &now);
	say("clock_gettime(clock_id=CLOCK_MONOTONIC, tp=%p) = %d\n", (void *)&now, ret);
	ret = access("/", R_OK | X_OK);
	say("access(name=\"/\", type=R_OK|X_OK) = %d\n", ret);
	say("ldexp(x=2.5, exponent=3) = %.1f\n", ldexp(2.5, argc + 2));
	ret = (int)hcreate(0.5);
	say("hcreate()\n");
}

int main(int argc, char **argv)
{
	setenv("TEXT", "a text", 1);
	files(argv[argc - 1]);
	texts();
	names();
	others(argc - 1);
	fwrite(said, 1, used, stdout);
	return 0;
}
