/*
 * What every part of the recorder may ask of a target (session.h).  The file
 * needs none of these parts itself.  Context: host, under the session's lock.
 */
#include <errno.h>
#include <stdarg.h>
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
	return process->attachee && !process->attach.applied;
}

struct attachee *attachee_find(const struct session *session, pid_t pid)
{
	for (uint32_t i = 0; i < session->attachees.count; i++)
		if (session->attachees.list[i].told->pid == pid)
			return &session->attachees.list[i];
	return NULL;
}

/* True if the connection of the process' agent is taken in, and nothing was said on it yet. */
static bool has_called(const struct session *session, pid_t pid)
{
	const struct process *process = session->processes;

	while (process && (process->pid != pid || process->greeted || process->ended))
		process = process->next;
	return process != NULL;
}

bool attachee_is_in(const struct session *session, const struct attachee *attachee)
{
	switch (attachee->state) {
	case ATTACHEE_COMING:
		return true;
	case ATTACHEE_AWAITED:
		return session->ending.awaited_ns || has_called(session, attachee->told->pid);
	case ATTACHEE_MET:
		return !attachee->process->ended && !attachee->process->dormant;
	default:
		return false;
	}
}

bool attachees_are_open(const struct session *session)
{
	for (uint32_t i = 0; i < session->attachees.count; i++) {
		const struct attachee *attachee = &session->attachees.list[i];

		if (!attachee->told->attached && attachee_is_in(session, attachee))
			return true;
	}
	return false;
}

bool attachees_are_due(const struct session *session)
{
	for (uint32_t i = 0; i < session->attachees.count; i++)
		if (session->attachees.list[i].state == ATTACHEE_WAITS)
			return true;
	return attachees_are_open(session);
}

pid_t session_pid(const struct session *session)
{
	const struct attachee *found = NULL;

	for (uint32_t i = 0; i < session->attachees.count; i++) {
		const struct attachee *attachee = &session->attachees.list[i];

		if (attachee->state == ATTACHEE_LEFT_OUT)
			continue;
		if (!found || (found->forgotten && !attachee->forgotten))
			found = attachee;
	}
	if (found)
		return found->told->pid;
	return session->attachees.count ? session->attachees.list->told->pid : session->command;
}

void process_diagnose(struct session *session, const struct process *process, const char *format, ...)
{
	struct calltap_diag diag;
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(diag.text, sizeof(diag.text), format, arguments);
	va_end(arguments);
	if (!process->attachee)
		session_diagnose(session, "%s", diag.text);
	else if (!process->attachee->told->trouble.code)
		(void)calltap_diag_set(&process->attachee->told->trouble, -EIO, "%s", diag.text);
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
		process_diagnose(session, process, "process %d %s: %s", (int)process->pid, text,
				 strerror(-fault->error));
	else
		process_diagnose(session, process, "process %d %s", (int)process->pid, text);
}

void targets_read_on(const struct process *process)
{
	struct calltap_arena *head = process_head(process);

	if (head)
		__atomic_fetch_or(&head->notes, CALLTAP_NOTE_READ_ON, __ATOMIC_SEQ_CST);
}

/* A process that was not set up yet: who or what ended that. */
