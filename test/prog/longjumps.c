/*
 * Every way to jump: setjmp, _setjmp, sigsetjmp and the compiler's own pair; across functions without a site, out of
 * deep recursion, out of handlers on the thread's stack and on another; and what is called after, at other depths.
 * Built with _FORTIFY_SOURCE, longjmp is __longjmp_chk.
 */
#include <setjmp.h>
#include <signal.h>

#include "cpu.h"
#include "truth.h"

enum { ALTERNATE = 64 * 1024 };

static jmp_buf back;
static sigjmp_buf out;
static void *builtin_back[5];
static char alternate[ALTERNATE];
static volatile int total;

TRACED static void leaf(int x)
{
	TRUTH();
	total += x;
}

TRACED static void call_deeper(int depth)
{
	TRUTH();
	volatile char room[300]; /* a frame larger than those that were left */

	room[depth] = 1;
	if (depth)
		call_deeper(depth - 1);
	else
		leaf(room[0]);
}

TRACED static void jump(int how)
{
	TRUTH();
	if (how)
		longjmp(back, 1);
	else
		_longjmp(back, 1);
}

TRACED static void dive(int depth)
{
	TRUTH();
	if (depth)
		dive(depth - 1);
	else
		jump(total & 1);
	leaf(1);
}

__attribute__((noinline)) UNTRACED static void across(int depth)
{
	if (depth)
		across(depth - 1);
	else
		dive(2);
	total++;
}

__attribute__((noinline)) UNTRACED static void across_small(void)
{
	across(20);
	total++;
}

TRACED static void by_setjmp(int depth)
{
	TRUTH();
	if (setjmp(back)) {
		TRUTH_LANDED();
		call_deeper(depth / 2);
		return;
	}
	dive(depth);
}

TRACED static void by_plain_setjmp(int depth)
{
	TRUTH();
	volatile int times = 0;

	if (_setjmp(back)) {
		TRUTH_LANDED();
		leaf(times);
	}
	if (times++ < 3)
		dive(depth);
}

TRACED static void by_sigsetjmp(int save)
{
	TRUTH();
	if (sigsetjmp(out, save)) {
		TRUTH_LANDED();
		leaf(2);
		return;
	}
	call_deeper(1);
	siglongjmp(out, 1);
}

#if CPU_HAS_BUILTIN_SETJMP
TRACED static void builtin_jump(void)
{
	TRUTH();
	__builtin_longjmp(builtin_back, 1);
}

TRACED static void builtin_dive(int depth)
{
	TRUTH();
	if (depth)
		builtin_dive(depth - 1);
	else
		builtin_jump();
	leaf(1);
}

TRACED static void by_builtin(int depth)
{
	TRUTH();
	if (__builtin_setjmp(builtin_back)) {
		TRUTH_LANDED();
		call_deeper(1);
		return;
	}
	builtin_dive(depth);
}
#else
TRACED static void by_builtin(int depth)
{
}
#endif

TRACED static void over_untraced(void)
{
	TRUTH();
	if (setjmp(back)) {
		TRUTH_LANDED();
		leaf(3);
	} else {
		across_small();
	}
}

/* The frame that is jumped into is not traced, its caller is. */
__attribute__((noinline)) UNTRACED static void untraced_catcher(void)
{
	if (!setjmp(back))
		dive(3);
	truth_line('!', "into_untraced");
	leaf(4);
}

TRACED static void into_untraced(void)
{
	TRUTH();
	untraced_catcher();
	call_deeper(2);
}

TRACED static void jumping_handler(int signal)
{
	TRUTH();
	leaf(signal == SIGUSR2);
	siglongjmp(out, signal);
}

TRACED static void raiser(int signal, int depth)
{
	TRUTH();
	if (depth)
		raiser(signal, depth - 1);
	else
		raise(signal);
}

TRACED static void out_of_handler(int signal, int depth)
{
	TRUTH();
	if (sigsetjmp(out, 1)) {
		truth_stack(alternate, sizeof(alternate)); /* whatever was there is gone */
		TRUTH_LANDED();
		call_deeper(depth);
		return;
	}
	raiser(signal, depth);
}

static jmp_buf chain[2];

TRACED static void last_of_chain(void)
{
	TRUTH();
	if (setjmp(back)) {
		TRUTH_LANDED();
		leaf(5);
		longjmp(chain[1], 1);
	}
	dive(1);
}

TRACED static void middle_of_chain(void)
{
	TRUTH();
	if (setjmp(chain[1])) {
		TRUTH_LANDED();
		longjmp(chain[0], 1);
	}
	last_of_chain();
}

/* Each jump ends where the next one goes on. */
TRACED static void by_chain(void)
{
	TRUTH();
	if (setjmp(chain[0])) {
		TRUTH_LANDED();
		leaf(6);
		return;
	}
	middle_of_chain();
}

TRACED static void handle(int signal, int flags)
{
	TRUTH();
	struct sigaction action;

	memset(&action, 0, sizeof(action));
	action.sa_handler = jumping_handler;
	action.sa_flags = flags;
	sigaction(signal, &action, NULL);
}

int main(void)
{
	TRUTH();
	stack_t stack = {.ss_sp = alternate, .ss_size = sizeof(alternate)};

	sigaltstack(&stack, NULL);
	handle(SIGUSR1, 0);
	handle(SIGUSR2, SA_ONSTACK);
	for (int depth = 0; depth < 4; depth++) {
		by_setjmp(depth);
		by_plain_setjmp(depth);
		by_sigsetjmp(depth & 1);
		by_builtin(depth);
		out_of_handler(SIGUSR1, depth);
		out_of_handler(SIGUSR2, depth);
	}
	over_untraced();
	into_untraced();
	by_chain();
	by_setjmp(500);
	call_deeper(5);
	printf("total %d\n", total);
	return 0;
}
