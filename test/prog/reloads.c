/*
 * Libraries that come and go, as the first argument says; the others name copies of library.c.
 *
 * many LIBRARY...	load them all, call each from a thread of its own, close them
 * loop STAYS COMES...	threads run in and out of the first while the others are loaded and closed, from a thread too
 * places A B		A again at its old place, A elsewhere, B at A's old place; stderr tells which came true
 * spaces LIBRARY	in a name space of its own, too
 */
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <sys/mman.h>

#include "truth.h"

enum { RUNNERS = 2, ROUNDS = 20, PAGE = 4096 };

typedef int answer_fn(int);

static int stop;

TRACED static void *load(const char *path)
{
	TRUTH();
	void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);

	if (!library)
		fprintf(stderr, "%s\n", dlerror());
	return library;
}

TRACED static int ask(void *library, int n)
{
	TRUTH();
	answer_fn *answer = (answer_fn *)dlsym(library, "library_answer");

	return answer ? answer(n) : -1;
}

static unsigned long place_of(void *library)
{
	struct link_map *map;

	dlinfo(library, RTLD_DI_LINKMAP, &map);
	return map->l_addr;
}

TRACED static void *asker(void *library)
{
	TRUTH();
	return (void *)(long)ask(library, 1);
}

TRACED static void many(char **paths, int count)
{
	TRUTH();
	void **libraries = calloc((size_t)count, sizeof(*libraries)), *result;
	pthread_t thread;
	long sum = 0;

	for (int i = 0; i < count; i++)
		libraries[i] = load(paths[i]);
	for (int i = 0; i < count; i++) {
		pthread_create(&thread, NULL, asker, libraries[i]);
		pthread_join(thread, &result);
		sum += (long)result;
	}
	for (int i = 0; i < count; i++)
		dlclose(libraries[i]);
	free(libraries);
	printf("many %ld\n", sum);
}

TRACED static void *runner(void *library)
{
	TRUTH();
	long sum = 0;

	while (!__atomic_load_n(&stop, __ATOMIC_ACQUIRE))
		sum += ask(library, 2) != 7;
	return (void *)sum;
}

struct coming {
	char **paths;
	int count;
	long sum;
};

TRACED static void *comer(void *argument)
{
	TRUTH();
	struct coming *coming = argument;

	for (int i = 0; i < ROUNDS; i++) {
		void *library = load(coming->paths[i % coming->count]);

		coming->sum += ask(library, i);
		dlclose(library);
	}
	return NULL;
}

TRACED static void loop(char **paths, int count)
{
	TRUTH();
	struct coming mine = {paths + 1, count - 1, 0}, others = mine;
	pthread_t runners[RUNNERS], thread;
	void *stays = load(paths[0]), *wrong;

	for (int i = 0; i < RUNNERS; i++)
		pthread_create(&runners[i], NULL, runner, stays);
	pthread_create(&thread, NULL, comer, &others);
	comer(&mine);
	pthread_join(thread, NULL);
	__atomic_store_n(&stop, 1, __ATOMIC_RELEASE);
	for (int i = 0; i < RUNNERS; i++) {
		pthread_join(runners[i], &wrong);
		printf("wrong %ld\n", (long)wrong);
	}
	printf("loop %ld %ld\n", mine.sum, others.sum);
	dlclose(stays);
}

TRACED static unsigned long once(const char *path, int n)
{
	TRUTH();
	void *library = load(path);
	unsigned long place = place_of(library);

	printf("answer %d\n", ask(library, n));
	dlclose(library);
	return place;
}

TRACED static void places(const char *a, const char *b)
{
	TRUTH();
	unsigned long first = once(a, 1), again = once(a, 2), elsewhere, other;
	void *blocks;

	fprintf(stderr, "again: %s\n", again == first ? "same place" : "elsewhere");
	blocks = mmap((void *)again, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	elsewhere = once(a, 3);
	fprintf(stderr, "blocked: %s\n", elsewhere == again ? "same place" : "elsewhere");
	munmap(blocks, PAGE);
	other = once(b, 4);
	fprintf(stderr, "other: %s\n", other == again || other == elsewhere ? "same place" : "elsewhere");
	once(a, 5);
	once(b, 6);
}

TRACED static void spaces(const char *path)
{
	TRUTH();
	void *library = dlmopen(LM_ID_NEWLM, path, RTLD_NOW), *own = load(path);

	printf("space %d own %d\n", library ? ask(library, 3) : -1, ask(own, 4));
	dlclose(own);
	if (library)
		dlclose(library);
}

int main(int argc, char **argv)
{
	TRUTH();
	const char *what = argc > 2 ? argv[1] : "";

	if (!strcmp(what, "many"))
		many(argv + 2, argc - 2);
	if (!strcmp(what, "loop"))
		loop(argv + 2, argc - 2);
	if (!strcmp(what, "places"))
		places(argv[2], argv[argc - 1]);
	if (!strcmp(what, "spaces"))
		spaces(argv[2]);
	return 0;
}
