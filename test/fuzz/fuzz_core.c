/*
 * Core files with a flight recorder in them: from segments, tables and rings,
 * all forged, to a trace file that the reader takes.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <host/core/core.h>
#include <host/trace/trace.h>

#include "fuzz.h"

/* Read the trace that was made: it must open, and its events must be readable, whatever the input was. */
static void read_trace(const char *path, const struct core_result *result)
{
	const struct trace_select all = {.size = sizeof(all), .thread = TRACE_NONE};
	struct trace_cursor *cursor;
	struct calltap_diag diag = {0};
	struct trace_event event;
	struct trace *trace;
	uint64_t records = 0;

	fuzz_expect(!trace_open(&trace, path, &diag), "what is read from a core file is a trace");
	if (!trace_cursor_open(&cursor, trace, &all, &diag)) {
		while (trace_cursor_next(cursor, &event, &diag) == 1)
			records++;
		trace_cursor_close(cursor);
		fuzz_expect(records >= result->records, "all records that were counted are in the trace");
	}
	trace_close(trace);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int core = input_file(data, size), out = memfd_create("trace", MFD_CLOEXEC);
	struct core_result result;
	struct calltap_diag diag = {0};
	char path[32];

	if (out < 0)
		abort();
	input_path(path, core);
	if (!core_read_file(path, out, &result, &diag)) {
		fuzz_taken = 1;
		input_path(path, out);
		read_trace(path, &result);
	} else {
		fuzz_expect(diag.text[0] != 0, "an error has its sentence");
	}
	close(out);
	close(core);
	return 0;
}
