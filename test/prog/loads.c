/* Loads the library named by its argument, calls it and closes it again, three times over. */
#include <dlfcn.h>

#include "truth.h"

TRACED static int use(const char *path)
{
	TRUTH();
	void *library = dlopen(path, RTLD_NOW);
	int (*answer)(int), result;

	if (!library) {
		fprintf(stderr, "%s\n", dlerror());
		return -1;
	}
	answer = (int (*)(int))dlsym(library, "library_answer");
	result = answer ? answer(14) : -2;
	dlclose(library);
	return result;
}

int main(int argc, char **argv)
{
	TRUTH();
	for (int i = 0; argc > 1 && i < 3; i++)
		printf("answer %d\n", use(argv[1]));
	return 0;
}
