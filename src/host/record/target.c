/*
 * What every part of the recorder may ask of a target (session.h).  The file
 * needs none of these parts itself.  Context: host, under the session's lock.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <host/space.h>

#include "session.h"

bool live_can_be_told(const struct process *process)
{
	return process->welcome && !process->dormant && !process->ended && !process->alone && !process->detaching;
}

bool attached_is_open(const struct process *process)
{
	return process->attached && !process->attach.applied;
}

bool process_is_drained(const struct process *process)
{
	for (uint32_t i = 0; i < CALLTAP_INSTANCES; i++)
		if (process->shares[i] && process->shares[i]->arena_count)
			return false;
	return process->ended;
}

bool share_is_over(const struct share *share)
{
	return share->process->ended || share->refused || share->instance->ending;
}

int process_write(struct process *process, struct trace_writer *writer)
{
	struct {
		struct calltap_file_process row;
		char exe[4096];
	} chunk = {.row = process->row};
	char link[64];

	/* While it lives; once known it is kept, and no more than its length: there may be many processes. */
	if (!process->exe) {
		snprintf(link, sizeof(link), "/proc/%d/exe", (int)process->pid);
		if (readlink(link, chunk.exe, sizeof(chunk.exe) - 1) > 0) {
			space_cut_deleted(chunk.exe);
			process->exe = strdup(chunk.exe);
		}
	} else {
		snprintf(chunk.exe, sizeof(chunk.exe), "%s", process->exe);
	}
	return trace_writer_chunk(writer, CALLTAP_CHUNK_PROCESS, &chunk, sizeof(chunk.row) + strlen(chunk.exe) + 1);
}

void process_tell_fault(struct session *session, const struct process *process, const struct calltap_msg_fault *fault)
{
	char text[sizeof(fault->text)];

	for (size_t i = 0; i < sizeof(text); i++)
		text[i] = fault->text[i] >= ' ' && fault->text[i] <= '~' ? fault->text[i] : 0;
	text[sizeof(text) - 1] = 0;
	if (fault->error)
		session_diagnose(session, "process %d %s: %s", (int)process->pid, text, strerror(-fault->error));
	else
		session_diagnose(session, "process %d %s", (int)process->pid, text);
}

void targets_read_on(const struct process *process)
{
	struct calltap_arena *head = process_head(process);

	if (head)
		__atomic_fetch_or(&head->notes, CALLTAP_NOTE_READ_ON, __ATOMIC_SEQ_CST);
}

/* A process that was not set up yet: who or what ended that. */
