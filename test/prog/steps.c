/*
 * Backtraces at every single instruction: a SIGTRAP comes (steps.h of the CPU), and its handler walks the stack,
 * between any two instructions of main() -> outer() -> middle() -> leaf() and back, also where leaf() is called in
 * place of a return.
 *
 *     steps [FILE]    FILE gets the number of instructions looked at
 *
 * Frames of other code than the program's may lie between and are left out; of the program's own, every one must be
 * there, in order, from the running one (or the one that was left or entered last) to main().
 */
#include <signal.h>
#include <stdint.h>
#include <ucontext.h>
#include <unwind.h>

#include "steps.h"
#include "truth.h"

#define FRAMES_MAX 64

enum { LEAF, PASSES, MIDDLE, OUTER, MAIN, FUNCTIONS };

static const char *const names[FUNCTIONS] = {"leaf", "passes", "middle", "outer", "main"};
static uintptr_t starts[FUNCTIONS], ends[FUNCTIONS]; /* the functions' text */
static int open_frames[FUNCTIONS + 1];		     /* as the instructions tell them, main() first */
static int depth;
static unsigned long looked_at, wrong;

/* End a function with something that keeps the call in front of it from being a tail call. */
#define NO_TAIL_CALL() __asm__ volatile("" ::: "memory")

TRACED int leaf(int x)
{
	return x * 3 + 1;
}

/* Ends with a tail call, with and without optimizations. */
#ifdef __clang__
TRACED int passes(int x)
{
	__attribute__((musttail)) return leaf(x + 1);
}
#else
TRACED __attribute__((optimize("O2"))) int passes(int x)
{
	return leaf(x + 1);
}
#endif

TRACED int middle(int x)
{
	int sum = leaf(x) + passes(x);

	NO_TAIL_CALL();
	return sum;
}

TRACED int outer(int x)
{
	int sum = middle(x) ^ leaf(x);

	NO_TAIL_CALL();
	return sum;
}

TRACED int main(int argc, char **argv);

/* The function of the program that pc is in, or -1. */
UNTRACED static int function_at(uintptr_t pc)
{
	for (int i = 0; i < FUNCTIONS; i++)
		if (pc >= starts[i] && pc < ends[i])
			return i;
	return -1;
}

/* Code of a function that is in no unwind table. */
UNTRACED static int is_bare(uintptr_t pc)
{
	for (int i = 0; i < FUNCTIONS; i++)
		if (steps_is_bare(pc, starts[i], ends[i]))
			return 1;
	return 0;
}

struct walk {
	int seen[FRAMES_MAX]; /* functions of the program, innermost first, down to main() */
	int count;
	int in_handler; /* the interrupted frame was not reached yet */
	uintptr_t interrupted;
};

UNTRACED static _Unwind_Reason_Code note_frame(struct _Unwind_Context *context, void *arg)
{
	struct walk *walk = arg;
	int before = 0, function;
	uintptr_t pc = _Unwind_GetIPInfo(context, &before);

	if (walk->in_handler && pc != walk->interrupted)
		return _URC_NO_REASON;
	walk->in_handler = 0;
	function = function_at(before ? pc : pc - 1);
	if (function >= 0 && walk->count < FRAMES_MAX)
		walk->seen[walk->count++] = function;
	return function == MAIN ? _URC_NORMAL_STOP : _URC_NO_REASON;
}

UNTRACED static void complain(const struct walk *walk)
{
	const unsigned char *code = (const unsigned char *)walk->interrupted;

	if (wrong++ >= 5)
		return;
	printf("at %p, %d deep in %s:", code, depth, names[open_frames[depth - 1]]);
	for (int i = 0; i < walk->count; i++)
		printf(" %s", names[walk->seen[i]]);
	printf(" (code");
	for (int i = 0; i < 6; i++)
		printf(" %02x", code[i]);
	printf(")\n");
}

/* The program is in `function`: it was called, or returned to, or goes on. */
UNTRACED static void follow(int function)
{
	if (function == LEAF && depth && open_frames[depth - 1] == PASSES)
		open_frames[depth - 1] = LEAF;
	else if (depth > 1 && open_frames[depth - 2] == function)
		depth--;
	else if ((!depth || open_frames[depth - 1] != function) && depth <= FUNCTIONS)
		open_frames[depth++] = function;
}

/* The frames seen are the open ones, but for the `without` innermost. */
UNTRACED static int are_open(const struct walk *walk, int without)
{
	for (int i = 0; i < walk->count && i < depth - without; i++)
		if (walk->seen[i] != open_frames[depth - without - 1 - i])
			return 0;
	return walk->count == depth - without;
}

UNTRACED static void look(struct walk *walk)
{
	int here = function_at(walk->interrupted);

	_Unwind_Backtrace(note_frame, walk);
	looked_at++;
	if (here >= 0)
		follow(here);
	/* In code that is not the program's, the function just entered or left may be there or not. */
	if (!are_open(walk, 0) && (here >= 0 || !are_open(walk, 1)))
		complain(walk);
}

UNTRACED static void on_trap(int signal, siginfo_t *info, void *context)
{
	struct walk walk = {.in_handler = 1, .interrupted = steps_pc(context)};

	if (!is_bare(walk.interrupted))
		look(&walk);
	STEPS_LOOKED();
}

UNTRACED static void learn_text(void *(*const functions[])(void))
{
	for (int i = 0; i < FUNCTIONS; i++) {
		uintptr_t start = (uintptr_t)functions[i];

		starts[i] = start;
		ends[i] = start + 4096;
	}
	for (int i = 0; i < FUNCTIONS; i++)
		for (int k = 0; k < FUNCTIONS; k++)
			if (starts[k] > starts[i] && starts[k] < ends[i])
				ends[i] = starts[k];
}

int main(int argc, char **argv)
{
	struct sigaction action = {.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO | SA_NODEFER};
	volatile int result = outer(2); /* once before, for what is done at a first call only */
	FILE *file;

	learn_text((void *(*const[])(void)){(void *)leaf, (void *)passes, (void *)middle, (void *)outer, (void *)main});
	sigaction(SIGTRAP, &action, NULL);
	for (int i = 0; i < STEPS_ROUNDS; i++) {
		depth = 0;
		STEPS_BEGIN();
		result += outer(i);
		STEPS_END();
	}
	printf("%d, %lu wrong\n", result, wrong);
	file = argc > 1 ? fopen(argv[1], "w") : NULL;
	if (file)
		fprintf(file, "%lu\n", looked_at);
	return file && fclose(file) ? 1 : wrong != 0;
}
