/*
 * Traps at each instruction of the dispatcher, on CPUs where a program cannot ask for a trap after each of its own
 * instructions (traps.h): all instructions are breakpoints but the one that is about to run.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <arch.h>
#include "traps.h"

#define TEXT_MAX 4096

static struct {
	uint8_t *lo;
	size_t size;			      /* bytes of the dispatcher */
	uint8_t was[TEXT_MAX], all[TEXT_MAX]; /* the dispatcher's code, and breakpoints in its place */
	trap_handler *handler;
} trapped;

static void find(void)
{
	uint64_t page = ~(uint64_t)4095, hi;

	trapped.lo = (uint8_t *)(uint64_t)arch_call_handled;
	hi = traps_end((uint64_t)arch_exit_handled);
	trapped.size = hi - (uint64_t)trapped.lo;
	if (trapped.size > TEXT_MAX ||
	    mprotect((void *)((uint64_t)trapped.lo & page), ((hi + 4095) & page) - ((uint64_t)trapped.lo & page),
		     PROT_READ | PROT_WRITE | PROT_EXEC))
		abort();
	memcpy(trapped.was, trapped.lo, trapped.size);
	memcpy(trapped.all, trapped.lo, trapped.size);
	for (size_t at = 0; at < trapped.size; at += traps_length(trapped.was + at))
		traps_make(trapped.all + at, traps_length(trapped.was + at));
}

static void write_text(const uint8_t *code)
{
	memcpy(trapped.lo, code, trapped.size);
}

static void trap_all_but(uint64_t pc)
{
	size_t at = pc - (uint64_t)trapped.lo;

	write_text(trapped.all);
	if (at < trapped.size)
		memcpy(trapped.lo + at, trapped.was + at, traps_length(trapped.was + at));
	arch_text_written((uint64_t)trapped.lo, trapped.size);
}

static void trap_none(void)
{
	write_text(trapped.was);
	arch_text_written((uint64_t)trapped.lo, trapped.size);
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
	if (!trapped.lo)
		find();
	trapped.handler = handler;
	sigaction(SIGTRAP, &action, NULL);
	trap_all_but(0);
	work(n);
	trap_none();
	signal(SIGTRAP, SIG_DFL);
}
