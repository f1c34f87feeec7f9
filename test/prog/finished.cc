/*
 * Frames that a debugger was told to finish, and that end otherwise: by an
 * exception, or with their thread.  The debugger's breakpoint then lies where
 * the frame was to return to, while the unwinder passes.
 *
 *     finished [wait]      wait: only after SIGUSR1, so that others may come in first
 */
#include <csignal>
#include <cstdio>
#include <cstring>
#include <pthread.h>
#include <unistd.h>

static int cleaned;

struct Cleans {
	~Cleans()
	{
		cleaned++;
	}
};

extern "C" {
int thrower(int x);
int through(int x);
int leaver(int x);
}

/* For a breakpoint: it is not traced, and its caller has begun. */
__attribute__((noinline, noclone, patchable_function_entry(0, 0))) void within_thrower()
{
	__asm__ volatile("");
}
__attribute__((noinline, noclone, patchable_function_entry(0, 0))) void within_leaver()
{
	__asm__ volatile("");
}

__attribute__((noinline, noclone)) int thrower(int x)
{
	Cleans cleans;

	within_thrower();
	if (x >= 0)
		throw x;
	return cleaned;
}

__attribute__((noinline, noclone)) int through(int x)
{
	Cleans cleans;

	return thrower(x) + 1;
}

__attribute__((noinline, noclone)) int leaver(int x)
{
	Cleans cleans;

	within_leaver();
	if (x >= 0)
		pthread_exit(&cleaned);
	return cleaned;
}

static void *leaves(void *)
{
	Cleans cleans;

	leaver(1);
	return nullptr;
}

int main(int argc, char **argv)
{
	int caught = 0;
	pthread_t thread;
	void *result = nullptr;

	if (argc > 1 && !strcmp(argv[1], "wait")) {
		sigset_t set;
		int number;

		sigemptyset(&set);
		sigaddset(&set, SIGUSR1);
		sigprocmask(SIG_BLOCK, &set, nullptr);
		printf("ready %d\n", (int)getpid());
		fflush(stdout);
		sigwait(&set, &number);
	}
	for (int i = 1; i <= 3; i++) {
		try {
			through(i);
		} catch (int x) {
			caught += x;
		}
	}
	if (pthread_create(&thread, nullptr, leaves, nullptr) || pthread_join(thread, &result))
		return 1;
	printf("caught %d, cleaned %d, %s\n", caught, cleaned, result == &cleaned ? "left" : "returned");
	return 0;
}
