/* A library to be preloaded that stands in front of libc's start of a program, as some do to run code before main(). */
#include <dlfcn.h>

int __libc_start_main(int (*start)(int, char **, char **), int argc, char **argv, void (*init)(void),
		      void (*fini)(void), void (*at_end)(void), void *stack_end)
{
	int (*next)(int (*)(int, char **, char **), int, char **, void (*)(void), void (*)(void), void (*)(void),
		    void *) = (__typeof__(next))dlsym(RTLD_NEXT, "__libc_start_main");

	return next(start, argc, argv, init, fini, at_end, stack_end);
}
