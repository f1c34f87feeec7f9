/*
 * One line of progress on a terminal.  Context: host.
 */
#include <stdio.h>

#include <host/counted.h>
#include <host/text.h>

#include "session.h"

void progress_show(struct session *session, bool last)
{
	const struct record_result *result = session->result;
	char size[TIMETEXT_MAX];

	if (!session->options->progress)
		return;
	if (last) {
		fprintf(stderr, "\r\033[K");
		return;
	}
	fprintf(stderr, "\r\033[Kcalltap: %llu %s, %s, %llu lost", (unsigned long long)result->records,
		counted(result->records, "record", "records"),
		sizetext(trace_writer_bytes(session_first(session)->writer), size), (unsigned long long)result->lost);
	fflush(stderr);
}

void progress_leaving(struct session *session, uint32_t left)
{
	if (!session->options->progress || left < 2)
		return;
	fprintf(stderr, "\r\033[Kcalltap: %u %s left to let go of", left, counted(left, "process is", "processes are"));
	fflush(stderr);
}
