/*
 * Stacks that overflow just as their end is first seen: each reaches a page below a boundary of 1 MiB, a function is
 * called with some bytes of that page left, and uses them up.  The program's handler, on a stack of its own, jumps out.
 */
#include <alloca.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>

#include "routine.h"

enum { MIB = 1 << 20, PAGE = 4096, STEP = 16, STACKS = PAGE / STEP - 1, SIZE = 16 * PAGE };

static sigjmp_buf out;
static volatile sig_atomic_t handled;
static char alternate[64 * 1024];

TRACED static void on_overflow(int signal)
{
	handled++;
	siglongjmp(out, 1);
}

TRACED static char use_up(void)
{
	volatile char room[2 * PAGE];

	for (size_t i = sizeof(room); i; i -= 64)
		room[i - 1] = 1;
	return room[PAGE];
}

/* Calls with so many bytes left on the stack, about. */
UNTRACED static void run(struct routine *self)
{
	char *here = __builtin_frame_address(0), *bottom = (char *)((uintptr_t)here / MIB * MIB - PAGE);
	volatile char *room = alloca(here - bottom - self->value);

	room[0] = use_up();
}

int main(void)
{
	stack_t stack = {.ss_sp = alternate, .ss_size = sizeof(alternate)};
	struct sigaction action = {.sa_handler = on_overflow, .sa_flags = SA_ONSTACK};
	char *memory = mmap(NULL, (STACKS + 2L) * MIB, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	char *first = (char *)(((uintptr_t)memory + MIB) / MIB * MIB);

	sigaltstack(&stack, NULL);
	sigaction(SIGSEGV, &action, NULL);
	for (int i = 0; i < STACKS; i++) {
		struct routine routine;
		char *low = first + (i + 1L) * MIB - PAGE;

		if (mprotect(low, SIZE, PROT_READ | PROT_WRITE))
			return 1;
		routine_begin(&routine, run, low, SIZE);
		routine.value = (i + 1L) * STEP;
		if (!sigsetjmp(out, 1))
			routine_resume(&routine);
	}
	printf("%d overflows of %d handled\n", (int)handled, STACKS);
	return 0;
}
