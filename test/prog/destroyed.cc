/*
 * Threads in C++ that end early: forced unwinding runs destructors and passes through handlers that throw again; then
 * the destructors of thread_local objects, which call traced functions, too; main's run at the program's exit.
 */
#include <cxxabi.h>
#include <pthread.h>
#include <semaphore.h>

#include "truth.h"

enum Kind { CANCELLED, EXITS, RETURNS, KINDS };

static sem_t ready;

TRACED static void note(const char *)
{
	TRUTH();
}

struct Guard {
	TRACED ~Guard()
	{
		note("guard");
	}
};

struct Local {
	int used = 0;

	TRACED void use(void)
	{
		TRUTH();
		used++;
	}
	TRACED void gone(void)
	{
		TRUTH();
		note("local");
	}
	TRACED ~Local()
	{
		gone();
	}
};

static thread_local Local first, second;

TRACED static void end(Kind kind)
{
	TRUTH();
	Guard guard;

	sem_post(&ready);
	while (kind == CANCELLED)
		pause();
	if (kind == EXITS)
		pthread_exit((void *)7);
}

TRACED static void passes(Kind kind)
{
	TRUTH();
	try {
		end(kind);
	} catch (abi::__forced_unwind &) {
		note("forced");
		throw;
	}
}

TRACED static void dive(int depth, Kind kind)
{
	TRUTH();
	Guard guard;

	try {
		if (depth)
			dive(depth - 1, kind);
		else
			passes(kind);
	} catch (...) {
		note("any");
		throw;
	}
}

TRACED static void *work(void *kind)
{
	TRUTH();
	first.use();
	second.use();
	dive(2, (Kind)(long)kind);
	return nullptr;
}

int main()
{
	TRUTH();
	pthread_t threads[KINDS];

	first.use();
	sem_init(&ready, 0, 0);
	for (long kind = 0; kind < KINDS; kind++) {
		pthread_create(&threads[kind], nullptr, work, (void *)kind);
		sem_wait(&ready);
		if (kind == CANCELLED)
			pthread_cancel(threads[kind]);
	}
	for (pthread_t thread : threads) {
		void *result;

		pthread_join(thread, &result);
		printf("result %ld\n", (long)result);
	}
	return 0;
}
