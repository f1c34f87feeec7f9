/*
 * What a handler costs the call of a tiny function, by who calls it: handlers of libcalltap.so (HANDLERS), gcc's
 * -finstrument-functions (CYG), clang's XRay (XRAY), or nobody.
 *
 * Prints "NAME NS" for each way, with "clock1" and "clock2" beside: the smallest of several rounds, per call. The loops
 * and the handlers carry no site.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "clocks.h"

enum { ROUNDS = 60 }; /* short ones: others on the machine get no turn in some of them */

__attribute__((noinline)) int leaf(int x)
{
	__asm__ volatile("" : "+r"(x));
	return x + 1;
}

UNTRACED NO_SITE static void run_leaf(long calls)
{
	int x = 0;

	while (calls--)
		x = leaf(x);
	sink += x;
}

UNTRACED NO_SITE static double smallest(void (*loop)(long), long calls)
{
	double best = 1e18;

	for (int i = 0; i < ROUNDS; i++) {
		double start = now_ns(), spent;

		loop(calls);
		spent = now_ns() - start;
		best = spent < best ? spent : best;
	}
	return best / calls;
}

#if defined(HANDLERS)
#include <calltap/calltap.h>

#define GENERAL CALLTAP_HANDLER_GENERAL_REGS

__attribute__((target("general-regs-only"))) UNTRACED NO_SITE static int on_entry(struct calltap_call *call,
										  void *context)
{
	return 0;
}

__attribute__((target("general-regs-only"))) UNTRACED NO_SITE static void on_exit_of(struct calltap_call *call,
										     void *context)
{
}

UNTRACED NO_SITE static void fail(const struct calltap_diag *diag)
{
	calltap_diag_print(diag, stderr);
	exit(1);
}

UNTRACED NO_SITE static struct calltap_ops *register_one(struct calltap_session *session, uint32_t flags, int entry,
							 int leave)
{
	static const char *const filter[] = {"leaf", NULL};
	struct calltap_ops_options options = {.size = sizeof(options), .flags = flags, .filter = filter};
	struct calltap_diag diag = {0};
	struct calltap_ops *ops;

	options.entry = entry ? on_entry : NULL;
	options.exit = leave ? on_exit_of : NULL;
	if (calltap_ops_register(&ops, session, &options, &diag))
		fail(&diag);
	return ops;
}

UNTRACED NO_SITE static void measure(struct calltap_session *session, const char *name, long calls, uint32_t flags,
				     int entry, int leave, int count)
{
	struct calltap_ops *ops[8];

	for (int i = 0; i < count; i++)
		ops[i] = register_one(session, flags, entry, leave);
	printf("%s %.3f\n", name, smallest(run_leaf, calls));
	for (int i = 0; i < count; i++)
		if (calltap_ops_unregister(ops[i]))
			exit(1);
}

UNTRACED NO_SITE static void run_all(long calls)
{
	struct calltap_session_options options = {.size = sizeof(options), .tool = getenv("BENCH_TOOL")};
	struct calltap_session *session;
	struct calltap_diag diag = {0};

	if (calltap_session_open(&session, &options, &diag))
		fail(&diag);
	printf("open %.3f\n", smallest(run_leaf, calls));
	measure(session, "entry", calls, GENERAL, 1, 0, 1);
	measure(session, "entry+exit", calls, GENERAL, 1, 1, 1);
	measure(session, "exit", calls, GENERAL, 0, 1, 1);
	measure(session, "entry+data+exit", calls, GENERAL | CALLTAP_HANDLER_DATA, 1, 1, 1);
	measure(session, "entry,vectors", calls, 0, 1, 0, 1);
	measure(session, "entry+exit,vectors", calls, 0, 1, 1, 1);
	measure(session, "four", calls, GENERAL, 1, 1, 4);
	calltap_session_close(session);
	printf("closed %.3f\n", smallest(run_leaf, calls));
}
#elif defined(CYG)
UNTRACED NO_SITE void __cyg_profile_func_enter(void *function, void *caller)
{
	__asm__ volatile("");
}

UNTRACED NO_SITE void __cyg_profile_func_exit(void *function, void *caller)
{
	__asm__ volatile("");
}

UNTRACED NO_SITE static void run_all(long calls)
{
	printf("entry+exit %.3f\n", smallest(run_leaf, calls));
}
#elif defined(XRAY)
enum entry_type { ENTRY };
extern int __xray_set_handler(void (*handler)(int32_t, enum entry_type));
extern int __xray_patch(void);

UNTRACED NO_SITE static void on_event(int32_t function, enum entry_type type)
{
}

UNTRACED NO_SITE static void run_all(long calls)
{
	__xray_set_handler(on_event);
	__xray_patch();
	printf("entry+exit %.3f\n", smallest(run_leaf, calls));
}
#else
UNTRACED NO_SITE static void run_all(long calls)
{
	printf("leaf %.3f\n", smallest(run_leaf, calls));
}
#endif

UNTRACED NO_SITE int main(int argc, char **argv)
{
	long calls = argc > 1 ? atol(argv[1]) : 1000000;

	printf("before %.3f\n", smallest(run_leaf, calls));
	run_all(calls);
	printf("clock1 %.3f\n", smallest(run_clock1, calls));
	printf("clock2 %.3f\n", smallest(run_clock2, calls));
	return 0;
}
