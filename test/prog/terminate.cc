/*
 * Exceptions that end the program: uncaught, out of a noexcept function, out of a destructor during unwinding, out of
 * a thread; std::exit in a handler; a terminate handler of the program's own.  The argument says which.
 */
#include <exception>
#include <pthread.h>
#include <sys/resource.h>

#include "truth.h"

TRACED static void last_words(void)
{
	TRUTH();
	puts("last words");
	fflush(stdout);
}

TRACED static void thrower(int depth)
{
	TRUTH();
	if (depth == 0)
		throw depth;
	thrower(depth - 1);
}

/* The function never ends: the exception stops here, whether the clean-up ran before or not. */
TRACED static void promised(int depth) noexcept
{
	TRUTH_TAIL();
	thrower(depth);
}

struct Second {
	TRACED ~Second()
	{
		thrower(1);
	}
};

TRACED static void twice(void)
{
	TRUTH();
	Second second;
	thrower(1);
}

TRACED static void *thread(void *)
{
	TRUTH();
	thrower(2);
	return nullptr;
}

TRACED static void in_thread(void)
{
	TRUTH();
	pthread_t other;

	pthread_create(&other, nullptr, thread, nullptr);
	pthread_join(other, nullptr);
}

TRACED static void exit_in_handler(void)
{
	TRUTH();
	try {
		thrower(3);
	} catch (int) {
		last_words();
		std::exit(5);
	}
}

TRACED static void terminated(void)
{
	TRUTH();
	last_words();
	_exit(6);
}

TRACED static void run(const char *how)
{
	TRUTH();
	if (!strcmp(how, "uncaught")) {
		thrower(2);
	} else if (!strcmp(how, "noexcept")) {
		promised(2);
	} else if (!strcmp(how, "twice")) {
		twice();
	} else if (!strcmp(how, "thread")) {
		in_thread();
	} else if (!strcmp(how, "exit")) {
		exit_in_handler();
	} else if (!strcmp(how, "handler")) {
		std::set_terminate(terminated);
		thrower(1);
	}
}

int main(int argc, char **argv)
{
	TRUTH();
	struct rlimit none = {0, 0};

	setrlimit(RLIMIT_CORE, &none);
	atexit(last_words);
	run(argc > 1 ? argv[1] : "");
	return 1;
}
