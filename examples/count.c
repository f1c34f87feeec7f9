/*
 * Count the calls of functions chosen by name.
 *
 *     gcc -O2 -mgeneral-regs-only -c count_handler.c $(pkg-config --cflags calltap)
 *     gcc -O2 -fpatchable-function-entry=5 count.c count_handler.o $(pkg-config --cflags --libs calltap)
 *
 * The handler is in count_handler.c, which is compiled with
 * -mgeneral-regs-only: it needs no vector registers, so none are saved for it.
 */
#include "count.h"
#include "example.h"

TRACED static int parse_number(int x)
{
	return x + 1;
}

TRACED static int parse_text(int x)
{
	return x ^ 3;
}

TRACED static int print_all(int x)
{
	return x & 7;
}

static int work(int turns)
{
	int x = 0;

	for (int i = 0; i < turns; i++)
		x += parse_number(i) + parse_text(i) + print_all(i);
	return x;
}

int main(void)
{
	const char *const filter[] = {"parse_*", NULL};
	uint64_t calls = 0;
	const struct calltap_ops_options options = {.size = sizeof(options),
						    .entry = count_call,
						    .context = &calls,
						    .flags = CALLTAP_HANDLER_GENERAL_REGS,
						    .filter = filter};
	struct calltap_session *session;
	struct calltap_diag diag;
	struct calltap_ops *ops;
	int x;

	if (calltap_session_open(&session, NULL, &diag))
		give_up(&diag);
	if (calltap_ops_register(&ops, session, &options, &diag))
		give_up(&diag);
	x = work(1000);
	calltap_session_close(session); /* unregisters, too */
	printf("%llu calls of parse_*\n", (unsigned long long)calls);
	x += work(1000);
	printf("%llu after the end, %s\n", (unsigned long long)calls, x ? "and all was done" : "?");
	return 0;
}
