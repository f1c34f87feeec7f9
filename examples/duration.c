/*
 * Time every call of a list of functions, given by address: the entry handler
 * puts the time into the word that is kept for the call, the exit handler
 * takes the difference.  Calls may be nested, recursive, and in any thread.
 */
#include <time.h>

#include "example.h"

#define STEP_NS 200000

struct timed {
	uint64_t calls, total_ns, longest_ns;
};

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static int begin(struct calltap_call *call, void *context)
{
	(void)context;
	call->data = now_ns();
	return 0;
}

static void end(struct calltap_call *call, void *context)
{
	uint64_t took = now_ns() - call->data;
	struct timed *timed = context;

	timed->calls++;
	timed->total_ns += took;
	if (took > timed->longest_ns)
		timed->longest_ns = took;
}

TRACED static void rest(unsigned steps)
{
	const struct timespec pause = {0, STEP_NS * (long)steps};

	nanosleep(&pause, NULL);
}

TRACED static unsigned nest(unsigned depth)
{
	unsigned below = depth ? nest(depth - 1) : 0;

	rest(1); /* behind the call, so that it stays one */
	return below + 1;
}

int main(void)
{
	const void *const addresses[] = {(const void *)rest, (const void *)nest};
	struct timed timed = {0, 0, 0};
	const struct calltap_ops_options options = {.size = sizeof(options),
						    .entry = begin,
						    .exit = end,
						    .context = &timed,
						    .flags = CALLTAP_HANDLER_DATA,
						    .addresses = addresses,
						    .address_count = 2};
	struct calltap_session *session;
	struct calltap_diag diag;
	struct calltap_ops *ops;

	if (calltap_session_open(&session, NULL, &diag))
		give_up(&diag);
	if (calltap_ops_register(&ops, session, &options, &diag))
		give_up(&diag);
	nest(9);
	rest(5);
	calltap_session_close(session);
	printf("%llu calls\n", (unsigned long long)timed.calls);
	printf("the longest is that of all ten: %s\n", timed.longest_ns >= 10ull * STEP_NS ? "yes" : "no");
	printf("all together hold each other's times: %s\n", timed.total_ns >= 65ull * STEP_NS ? "yes" : "no");
	return 0;
}
