/*
 * One line of progress on a terminal.  Context: host.
 */
#include <stdio.h>

#include "session.h"

void progress_show(struct session *session, bool last)
{
	const struct record_result *result = session->result;

	if (!session->options->progress)
		return;
	if (last) {
		fprintf(stderr, "\r\033[K");
		return;
	}
	fprintf(stderr, "\r\033[Kcalltap: %.1f M events, %.1f MB, %llu lost", (double)result->records / 1e6,
		(double)trace_writer_bytes(session->writer) / 1e6, (unsigned long long)result->lost);
	fflush(stderr);
}
