/*
 * Traps at each instruction of the dispatcher, on CPUs where a program cannot ask for a trap after each of its own
 * instructions (traps.h): all instructions are breakpoints but the one that is about to run.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <arch.h>
#include "traps.h"

#define SPANS_MAX 3

/* Code, what it was, and breakpoints in its place. */
struct span {
	uint8_t *lo;
	size_t size;
	uint8_t *was, *all;
};

static struct {
	struct span spans[SPANS_MAX]; /* the dispatcher's is the last one */
	unsigned count;
	bool found;
	trap_handler *handler;
	uint64_t tried; /* the load-exclusive that the thread was at last, if it has not been there twice */
} trapped;

void traps_add(uint64_t lo, uint64_t hi)
{
	struct span *span = &trapped.spans[trapped.count++];
	uint64_t page = ~(uint64_t)4095;

	*span = (struct span){.lo = (uint8_t *)lo, .size = hi - lo};
	span->was = malloc(span->size);
	span->all = malloc(span->size);
	if (trapped.count > SPANS_MAX || !span->was || !span->all ||
	    mprotect((void *)(lo & page), ((hi + 4095) & page) - (lo & page), PROT_READ | PROT_WRITE | PROT_EXEC))
		abort();
	memcpy(span->was, span->lo, span->size);
	memcpy(span->all, span->lo, span->size);
	for (size_t at = 0; at < span->size; at += traps_length(span->was + at))
		traps_make(span->all + at, traps_length(span->was + at));
}

/*
 * The bytes of code from pc on that are to run without a trap: an instruction, but for a loop that begins with a
 * load-exclusive, whose store fails after any trap in between.  Such a loop is trapped in once, and then runs to its
 * end.
 */
static size_t free_at(const uint8_t *code, uint64_t pc)
{
	size_t loop = traps_loop(code);

	if (!loop || trapped.tried != pc) {
		trapped.tried = loop ? pc : trapped.tried;
		return traps_length(code);
	}
	trapped.tried = 0;
	return loop;
}

static void trap_all_but(uint64_t pc)
{
	for (unsigned i = 0; i < trapped.count; i++) {
		struct span *span = &trapped.spans[i];
		size_t at = pc - (uint64_t)span->lo;

		memcpy(span->lo, span->all, span->size);
		if (at < span->size)
			memcpy(span->lo + at, span->was + at, free_at(span->was + at, pc));
		arch_text_written((uint64_t)span->lo, span->size);
	}
}

static void trap_none(void)
{
	for (unsigned i = 0; i < trapped.count; i++) {
		struct span *span = &trapped.spans[i];

		memcpy(span->lo, span->was, span->size);
		arch_text_written((uint64_t)span->lo, span->size);
	}
}

static void on_trap(int number, siginfo_t *info, void *context)
{
	trap_none();
	trapped.handler(number, info, context);
	trap_all_but(trap_pc(context));
}

__attribute__((noinline)) void with_traps(trap_handler *handler, int flags, void (*work)(int), int n)
{
	struct sigaction action = {.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO | flags};

	if (!handler) {
		work(n);
		__asm__ volatile(""); /* no tail call: we are to be found */
		return;
	}
	if (!trapped.found)
		traps_add((uint64_t)arch_call_handled, traps_end((uint64_t)arch_exit_handled));
	trapped.found = true;
	trapped.handler = handler;
	sigaction(SIGTRAP, &action, NULL);
	trap_all_but(0);
	work(n);
	trap_none();
	signal(SIGTRAP, SIG_DFL);
}
