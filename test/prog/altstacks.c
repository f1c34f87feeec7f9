/*
 * Handlers on alternate stacks in static, allocated and automatic memory, near the thread's own and far: that return,
 * nest, change the stack for the next one, and jump out, in the main and in another thread.  With "overflow" the
 * thread's own stack overflows and the handler jumps out; with "end" it ends the process; with "anywhere" the overflow
 * hits any instruction.
 */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/resource.h>

#include "truth.h"

enum { SIZE = 64 * 1024, FRAME = 40 * 1024, ROOM = 64 * 1024, STACK_MAX = 1024 * 1024 };

static sigjmp_buf out;
static char *alternate;
static volatile sig_atomic_t handled;

TRACED static void leaf(void)
{
	TRUTH();
	handled++;
}

TRACED static void returning(int signal)
{
	TRUTH();
	leaf();
	if (signal == SIGUSR1)
		raise(SIGUSR2);
	leaf();
}

TRACED static void jumping(int signal)
{
	TRUTH();
	leaf();
	siglongjmp(out, 1);
}

TRACED static void ending(int signal)
{
	TRUTH();
	static const char text[] = "overflow\n";

	leaf();
	_exit(write(STDOUT_FILENO, text, sizeof(text) - 1) > 0 ? 7 : 8);
}

UNTRACED static void handle(int signal, void (*handler)(int), int flags)
{
	struct sigaction action = {.sa_handler = handler, .sa_flags = flags};

	sigaction(signal, &action, NULL);
}

UNTRACED static void use_stack(char *memory)
{
	stack_t stack = {.ss_sp = memory, .ss_size = SIZE};

	alternate = memory;
	truth_stack(memory, SIZE);
	if (sigaltstack(&stack, NULL))
		_exit(97);
}

TRACED static void raise_below(int signal, int depth)
{
	TRUTH();
	if (depth)
		raise_below(signal, depth - 1);
	else
		raise(signal);
	leaf();
}

TRACED static void jump_out(int signal, int depth)
{
	TRUTH();
	if (!sigsetjmp(out, 1)) {
		raise_below(signal, depth);
		return;
	}
	truth_stack(alternate, SIZE); /* the handler's frames are gone */
	TRUTH_LANDED();
	leaf();
}

TRACED static void on_stack(char *memory)
{
	TRUTH();
	use_stack(memory);
	handle(SIGUSR1, returning, SA_ONSTACK);
	handle(SIGUSR2, returning, SA_ONSTACK);
	raise_below(SIGUSR2, 1);
	raise_below(SIGUSR1, 0);
	handle(SIGUSR2, returning, 0); /* from a handler on the alternate stack: stays there */
	raise_below(SIGUSR1, 2);
	raise_below(SIGUSR2, 1);
	handle(SIGUSR2, jumping, SA_ONSTACK);
	jump_out(SIGUSR2, 3);
	jump_out(SIGUSR1, 1); /* two handlers at once */
	leaf();
}

/* Touches the stack that a case needs, in a leaf function, so that an overflow is here and nowhere else. */
__attribute__((noinline)) UNTRACED static void touch(void)
{
	volatile char room[ROOM];

	__asm__ volatile("" : : "r"(room) : "memory");
	for (size_t i = sizeof(room); i; i -= 1024)
		room[i - 1] = 1;
}

TRACED static void overflow(void)
{
	volatile char frame[FRAME];
	TRUTH();

	__asm__ volatile("" : : "r"(frame) : "memory"); /* all of it */
	touch();
	overflow();
	__asm__ volatile("" : : "r"(frame) : "memory");
}

static volatile int step = 1;

TRACED static int endless(int n)
{
	int more = n ? endless(n + step) : 0;

	__asm__ volatile("" : "+r"(more)); /* no loop */
	return more + n;
}

TRACED static void catch_overflow(int anywhere)
{
	TRUTH();
	if (sigsetjmp(out, 1)) {
		truth_stack(alternate, SIZE);
		TRUTH_LANDED();
		leaf();
	} else if (anywhere) {
		handled += endless(1);
	} else {
		overflow();
	}
}

UNTRACED static void limit_stack(void)
{
	struct rlimit limit;

	getrlimit(RLIMIT_STACK, &limit);
	limit.rlim_cur = STACK_MAX;
	setrlimit(RLIMIT_STACK, &limit);
}

TRACED static void *in_thread(void *unused)
{
	TRUTH();
	char automatic[SIZE];

	on_stack(malloc(SIZE));
	on_stack(automatic);
	return NULL;
}

int main(int argc, char **argv)
{
	TRUTH();
	pthread_t thread;
	static char fixed[SIZE];
	char automatic[SIZE];
	const char *what = argc > 1 ? argv[1] : "";

	if (!*what) {
		on_stack(fixed);
		on_stack(malloc(SIZE));
		on_stack(automatic);
		pthread_create(&thread, NULL, in_thread, NULL);
		pthread_join(thread, NULL);
	} else {
		limit_stack();
		use_stack(strcmp(what, "end") ? automatic : fixed);
		handle(SIGSEGV, strcmp(what, "end") ? jumping : ending, SA_ONSTACK);
		for (int i = 0; i < 4; i++)
			catch_overflow(!strcmp(what, "anywhere"));
	}
	printf("handled %d\n", (int)handled);
	return 0;
}
