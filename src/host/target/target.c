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

#include <host/session/session.h>
#include <host/space.h>

bool live_can_be_told(const struct target *target)
{
	return target->welcome && !target->dormant && !target->ended && !target->alone && !target->detaching;
}

bool attached_is_open(const struct target *target)
{
	return target->attachee && !target->attach.applied;
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
	const struct target *target = session->targets;

	while (target && (target->pid != pid || target->greeted || target->ended))
		target = target->next;
	return target != NULL;
}

bool attachee_is_in(const struct session *session, const struct attachee *attachee)
{
	switch (attachee->state) {
	case ATTACHEE_COMING:
		return true;
	case ATTACHEE_AWAITED:
		return session->ending.awaited_ns || has_called(session, attachee->told->pid);
	case ATTACHEE_MET:
		return !attachee->target->ended && !attachee->target->dormant;
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

void target_diagnose(struct session *session, const struct target *target, const char *format, ...)
{
	struct calltap_diag diag;
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(diag.text, sizeof(diag.text), format, arguments);
	va_end(arguments);
	if (!target->attachee)
		session_diagnose(session, "%s", diag.text);
	else if (!target->attachee->told->trouble.code)
		(void)calltap_diag_set(&target->attachee->told->trouble, -EIO, "%s", diag.text);
}

bool target_is_drained(const struct target *target)
{
	for (uint32_t i = 0; i < CALLTAP_INSTANCES; i++)
		if (target->shares[i] && target->shares[i]->arena_count)
			return false;
	return target->ended;
}

bool share_is_over(const struct share *share)
{
	return share->target->ended || share->refused || share->instance->ending;
}

int target_write(struct target *target, struct trace_writer *writer)
{
	struct {
		struct calltap_file_process row;
		char exe[4096];
	} chunk = {.row = target->row};
	char link[64];

	/* While it lives; once known it is kept, and no more than its length: there may be many processes. */
	if (!target->exe) {
		snprintf(link, sizeof(link), "/proc/%d/exe", (int)target->pid);
		if (readlink(link, chunk.exe, sizeof(chunk.exe) - 1) > 0) {
			space_cut_deleted(chunk.exe);
			target->exe = strdup(chunk.exe);
		}
	} else {
		snprintf(chunk.exe, sizeof(chunk.exe), "%s", target->exe);
	}
	return trace_writer_chunk(writer, CALLTAP_CHUNK_PROCESS, &chunk, sizeof(chunk.row) + strlen(chunk.exe) + 1);
}

void target_tell_fault(struct session *session, const struct target *target, const struct calltap_msg_fault *fault)
{
	char text[sizeof(fault->text)];

	for (size_t i = 0; i < sizeof(text); i++)
		text[i] = fault->text[i] >= ' ' && fault->text[i] <= '~' ? fault->text[i] : 0;
	text[sizeof(text) - 1] = 0;
	if (fault->error)
		target_diagnose(session, target, "process %d %s: %s", (int)target->pid, text, strerror(-fault->error));
	else
		target_diagnose(session, target, "process %d %s", (int)target->pid, text);
}

void targets_read_on(const struct target *target)
{
	struct calltap_arena *head = target_head(target);

	if (head)
		__atomic_fetch_or(&head->notes, CALLTAP_NOTE_READ_ON, __ATOMIC_SEQ_CST);
}

/* A process that was not set up yet: who or what ended that. */
