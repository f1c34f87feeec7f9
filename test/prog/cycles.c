/*
 * Does one thing over and over, as the first argument says (forks, loads LIBRARY, threads), as many times as the
 * second says.  After a tenth and at the end it tells its number of mappings and its memory.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

__attribute__((noinline)) int step(int n)
{
	__asm__ volatile("");
	return n + 1;
}

static void *thread_main(void *unused)
{
	step(0);
	return unused;
}

static void once(const char *what, const char *library)
{
	pthread_t thread;
	void *handle;

	if (!strcmp(what, "forks")) {
		if (fork() == 0)
			_exit(step(1));
		wait(NULL);
	} else if (!strcmp(what, "threads")) {
		if (!pthread_create(&thread, NULL, thread_main, NULL))
			pthread_join(thread, NULL);
	} else {
		handle = dlopen(library, RTLD_NOW);
		if (handle)
			dlclose(handle);
	}
}

static void tell(void)
{
	char line[256];
	long mappings = 0, pages = 0;
	FILE *file = fopen("/proc/self/maps", "r");

	while (file && fgets(line, sizeof(line), file))
		mappings += strchr(line, '\n') != NULL;
	if (file)
		fclose(file);
	file = fopen("/proc/self/statm", "r");
	if (!file || fscanf(file, "%*d %ld", &pages) != 1)
		pages = -1;
	if (file)
		fclose(file);
	fprintf(stderr, "state %ld mappings %ld KiB\n", mappings, pages * 4);
}

int main(int argc, char **argv)
{
	int rounds = argc > 2 ? atoi(argv[2]) : 100;

	for (int i = 0; argc > 1 && i < rounds; i++) {
		step(i);
		once(argv[1], argc > 3 ? argv[3] : "");
		if (i == rounds / 10)
			tell();
	}
	tell();
	printf("%d rounds\n", rounds);
	return 0;
}
