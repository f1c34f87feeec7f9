/*
 * One line of progress on a terminal.  Context: host.
 */
#include <stdio.h>
#include <termios.h>
#include <unistd.h>

#include <host/counted.h>
#include <host/text.h>

#include "session.h"

#define SHOWN_NS 400000000u  /* a line stays so long */
#define LEFT_NS	 1000000000u /* what a command has left mostly ends with it */

/* A program that edits lines or fills the screen has the terminal's line mode off, and is not to be written over. */
static bool terminal_is_taken(void)
{
	struct termios modes;

	return !tcgetattr(STDERR_FILENO, &modes) && !(modes.c_lflag & ICANON);
}

void progress_show(struct session *session, bool last)
{
	const struct record_result *result = session->result;
	char size[TIMETEXT_MAX];

	if (!session->options->progress)
		return;
	if (last) {
		if (session->ending.line_shown)
			fprintf(stderr, "\r\033[K");
		return;
	}
	if (clock_now_ns() - session->ending.shown_ns < SHOWN_NS)
		return;
	session->ending.shown_ns = clock_now_ns();
	if (terminal_is_taken()) {
		session->ending.line_shown = false; /* the program's own output has come over it */
		return;
	}
	session->ending.line_shown = true;
	fprintf(stderr, "\r\033[Kcalltap: %llu %s, %s, %llu lost", (unsigned long long)result->records,
		counted(result->records, "record", "records"),
		sizetext(trace_writer_bytes(session_first(session)->writer), size), (unsigned long long)result->lost);
	fflush(stderr);
}

void progress_leaving(struct session *session, uint32_t left)
{
	if (!session->options->progress || left < 2 || terminal_is_taken())
		return;
	session->ending.line_shown = true;
	fprintf(stderr, "\r\033[Kcalltap: %u %s left to let go of", left, counted(left, "process is", "processes are"));
	fflush(stderr);
}

void progress_tell_left(struct session *session, uint32_t left)
{
	uint64_t now = clock_now_ns();

	if (!session->options->progress || session->ending.left_told || !left)
		return;
	if (!session->ending.left_ns)
		session->ending.left_ns = now;
	if (now - session->ending.left_ns < LEFT_NS)
		return;
	session->ending.left_told = true;
	fprintf(stderr,
		"\r\033[Kcalltap: the command has ended; %u %s, which it has left, %s traced until the end, too; "
		"^C ends the recording\n",
		left, counted(left, "process", "processes"), counted(left, "is", "are"));
}

void progress_held(struct session *session, pid_t pid, const char *why)
{
	if (!session->options->progress || session->ending.held_told)
		return;
	session->ending.held_told = true;
	fprintf(stderr, "\r\033[Kcalltap: waiting for process %d (%s); ^C leaves it as it is\n", (int)pid, why);
}
