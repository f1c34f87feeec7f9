/*
 * Log the arguments and the result of a function, and where it was called
 * from.  These handlers use floating point, so the vector registers are saved
 * for them, which is the default.
 *
 * They print nothing themselves: a handler runs wherever the function is
 * called, also where the program holds stdio's lock.
 */
#include <string.h>

#include "example.h"

#define LOG_MAX 16

static struct record {
	char text[16];
	long count;
	double factor, result;
} records[LOG_MAX];

static int begin(struct calltap_call *call, void *context)
{
	size_t *count = context;
	struct record *record;

	if (*count == LOG_MAX)
		return 1; /* no exit handler for this one */
	record = &records[(*count)++];
	strncpy(record->text, (const char *)(uintptr_t)calltap_call_argument(call, 0), sizeof(record->text) - 1);
	record->count = (long)calltap_call_argument(call, 1);
	record->factor = calltap_call_float_argument(call, 0);
	call->data = (uintptr_t)record;
	return 0;
}

static void end(struct calltap_call *call, void *context)
{
	struct record *record = (struct record *)(uintptr_t)call->data;

	(void)context;
	record->result = calltap_call_float_result(call);
}

TRACED static double price(const char *what, long count, double factor)
{
	return (double)(long)strlen(what) * (double)count * factor;
}

int main(void)
{
	const char *const filter[] = {"price", NULL};
	size_t count = 0;
	const struct calltap_ops_options options = {.size = sizeof(options),
						    .entry = begin,
						    .exit = end,
						    .context = &count,
						    .flags = CALLTAP_HANDLER_DATA,
						    .filter = filter};
	struct calltap_session *session;
	struct calltap_diag diag;
	struct calltap_ops *ops;
	double total = 0;

	if (calltap_session_open(&session, NULL, &diag))
		give_up(&diag);
	if (calltap_ops_register(&ops, session, &options, &diag))
		give_up(&diag);
	for (int i = 1; i <= 4; i++)
		total += price("apples", i, 0.25);
	total += price("one pear", 1, 2.5);
	calltap_session_close(session);
	for (size_t i = 0; i < count; i++)
		printf("price(\"%s\", %ld, %.2f) = %.2f\n", records[i].text, records[i].count, records[i].factor,
		       records[i].result);
	printf("total %.2f\n", total);
	return 0;
}
