/*
 * Code that runs before main and after it: constructors and destructors with priorities and in arrays, handlers of
 * atexit, on_exit and at_quick_exit, some of them registered by others and as late as in a destructor.  The argument
 * says how the program ends: return, exit, quick_exit, _exit or thread (main's thread ends, another one returns
 * last).  With a library linked in, its own constructor runs before all of these and its destructor after them.
 */
#include <pthread.h>

#include "truth.h"

TRACED static void step(const char *what)
{
	TRUTH();
	printf("%s\n", what);
	fflush(stdout);
}

TRACED static void registered_last(void)
{
	TRUTH();
	step("registered in a destructor");
}

TRACED static void registered_late(void)
{
	TRUTH();
	step("registered by a handler");
}

TRACED static void first_handler(void)
{
	TRUTH();
	step("atexit");
	atexit(registered_late);
}

TRACED static void status_handler(int status, void *argument)
{
	TRUTH();
	step(status == 3 ? argument : "another status");
}

TRACED static void quick_handler(void)
{
	TRUTH();
	step("at_quick_exit");
}

TRACED static void early_handler(void)
{
	TRUTH();
	step("registered in a constructor");
}

__attribute__((constructor(101))) TRACED static void first_constructor(void)
{
	TRUTH();
	step("constructor 101");
	atexit(early_handler);
}

__attribute__((constructor(65000))) TRACED static void second_constructor(void)
{
	TRUTH();
	step("constructor 65000");
}

static int prepared;

/* Not in the log: libc does not know its environment yet. */
TRACED static void preinit(int argc, char **argv, char **environment)
{
	prepared = argc > 0 && argv[argc] == NULL && environment;
}

TRACED static void init(int argc, char **argv)
{
	TRUTH();
	step(argc > 0 && argv[0] && prepared ? "init" : "init without arguments");
}

TRACED static void fini(void)
{
	TRUTH();
	step("fini");
}

__attribute__((section(".preinit_array"), used)) static void (*const at_preinit)(int, char **, char **) = preinit;
__attribute__((section(".init_array"), used)) static void (*const at_init)(int, char **) = init;
__attribute__((section(".fini_array"), used)) static void (*const at_fini)(void) = fini;

__attribute__((destructor(65000))) TRACED static void first_destructor(void)
{
	TRUTH();
	step("destructor 65000");
	atexit(registered_last);
}

__attribute__((destructor(101))) TRACED static void last_destructor(void)
{
	TRUTH();
	step("destructor 101");
}

TRACED static void *outlives(void *main_thread)
{
	TRUTH();
	pthread_join((pthread_t)main_thread, NULL);
	step("last thread");
	return NULL;
}

int main(int argc, char **argv)
{
	TRUTH();
	const char *how = argc > 1 ? argv[1] : "return";

	atexit(first_handler);
	on_exit(status_handler, "on_exit");
	at_quick_exit(quick_handler);
	step(how);
	if (!strcmp(how, "exit"))
		exit(3);
	if (!strcmp(how, "quick_exit"))
		quick_exit(3);
	if (!strcmp(how, "_exit"))
		_exit(3);
	if (!strcmp(how, "thread")) {
		pthread_t thread;

		pthread_create(&thread, NULL, outlives, (void *)pthread_self());
		pthread_exit(NULL);
	}
	return 3;
}
