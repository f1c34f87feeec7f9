/*
 * A coroutine on memory of its own, for the test programs: by makecontext and swapcontext; with BY_HAND, by a few
 * lines of assembly as boost.context and libco have them, which nobody can stand in front of; with BY_JUMPS, begun on
 * a context and switched by setjmp and longjmp, as QEMU's are.
 *
 * routine_resume() runs it until it pauses or ends; routine_transfer() goes from one to another.  It may be resumed by
 * another thread each time.
 */
#ifndef TEST_PROG_ROUTINE_H
#define TEST_PROG_ROUTINE_H

#include <setjmp.h>
#include <stdbool.h>
#include <stdint.h>
#include <ucontext.h>

#ifdef BY_HAND
#include "switch.h"
#endif
#include "truth.h"

#ifdef BY_HAND
typedef void *place_t;

void place_switch(place_t *from, place_t *to) __attribute__((visibility("hidden")));
#elif defined(BY_JUMPS)
typedef jmp_buf place_t;
#else
typedef ucontext_t place_t;
#endif

struct routine {
	place_t self; /* where it paused */
	place_t home; /* where it was resumed from last */
	void (*run)(struct routine *);
	long value;
	bool done;
};

#ifdef BY_HAND
__attribute__((visibility("hidden"), used)) UNTRACED void routine_body(struct routine *routine)
{
	routine->run(routine);
	routine->done = true;
	place_switch(&routine->self, &routine->home);
}

UNTRACED static void routine_prepare(struct routine *routine, char *memory, size_t size)
{
	extern char routine_first[] __attribute__((visibility("hidden")));
	uint64_t *top = (uint64_t *)((uintptr_t)(memory + size) & ~(uintptr_t)15) - SWITCH_WORDS;

	memset(top, 0, SWITCH_WORDS * sizeof(*top));
	top[SWITCH_GOES_ON] = (uintptr_t)routine_first;
	top[SWITCH_ARGUMENT] = (uintptr_t)routine;
	routine->self = top;
}
#else
UNTRACED static void make_context(ucontext_t *context, ucontext_t *link, void (*run)(unsigned, unsigned),
				  void *argument, char *memory, size_t size)
{
	uintptr_t word = (uintptr_t)argument;

	if (getcontext(context))
		_exit(98);
	context->uc_stack.ss_sp = memory;
	context->uc_stack.ss_size = size;
	context->uc_link = link;
	makecontext(context, (void (*)(void))run, 2, (unsigned)word, (unsigned)(word >> 32));
}
#endif

#ifdef BY_JUMPS
struct beginning {
	struct routine *routine;
	ucontext_t first, back;
};

UNTRACED static void place_switch(place_t *from, place_t *to)
{
	if (!_setjmp(*from))
		_longjmp(*to, 1);
}

/* The context goes back at once: what is wanted is a place to jump to. */
UNTRACED static void routine_body(unsigned low, unsigned high)
{
	struct beginning *beginning = (struct beginning *)((uint64_t)high << 32 | low);
	struct routine *routine = beginning->routine;

	if (!_setjmp(routine->self))
		setcontext(&beginning->back);
	routine->run(routine);
	routine->done = true;
	_longjmp(routine->home, 1);
}

UNTRACED static void routine_prepare(struct routine *routine, char *memory, size_t size)
{
	struct beginning beginning = {.routine = routine};

	make_context(&beginning.first, NULL, routine_body, &beginning, memory, size);
	if (swapcontext(&beginning.back, &beginning.first))
		_exit(98);
}
#elif !defined(BY_HAND)
UNTRACED static void place_switch(place_t *from, place_t *to)
{
	if (swapcontext(from, to))
		_exit(98);
}

UNTRACED static void routine_body(unsigned low, unsigned high)
{
	struct routine *routine = (struct routine *)((uint64_t)high << 32 | low);

	routine->run(routine);
	routine->done = true; /* on to uc_link, which is home */
}

UNTRACED static void routine_prepare(struct routine *routine, char *memory, size_t size)
{
	make_context(&routine->self, &routine->home, routine_body, routine, memory, size);
}
#endif

/* run() will run on that memory, from the first routine_resume() on. */
UNTRACED static void routine_begin(struct routine *routine, void (*run)(struct routine *), void *memory, size_t size)
{
	memset(routine, 0, sizeof(*routine));
	routine->run = run;
	truth_stack(memory, size);
	routine_prepare(routine, memory, size);
}

UNTRACED static void routine_resume(struct routine *routine)
{
	place_switch(&routine->home, &routine->self);
}

UNTRACED static void routine_pause(struct routine *routine)
{
	place_switch(&routine->self, &routine->home);
}

UNTRACED static void routine_transfer(struct routine *from, struct routine *to)
{
	place_switch(&from->self, &to->self);
}

#endif
