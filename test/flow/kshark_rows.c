/*
 * Prints each row of a trace.dat as KernelShark's library has it: time, thread, name of the event, its text.
 *
 * Caller: consumers.py, where the library is installed.
 */
#include <stdio.h>
#include <stdlib.h>

#include <libkshark.h>

int main(int argc, char **argv)
{
	struct kshark_context *context = NULL;
	struct kshark_entry **rows = NULL;
	ssize_t count;
	int stream;

	if (argc < 2 || !kshark_instance(&context))
		return 2;
	stream = kshark_open(context, argv[1]);
	count = stream < 0 ? -1 : kshark_load_entries(context, stream, &rows);
	for (ssize_t i = 0; i < count; i++) {
		char *event = kshark_get_event_name(rows[i]), *info = kshark_get_info(rows[i]);

		printf("%lld\t%d\t%s\t%s\n", (long long)rows[i]->ts, (int)kshark_get_pid(rows[i]), event ? event : "",
		       info ? info : "");
		free(event);
		free(info);
	}
	return count < 0;
}
