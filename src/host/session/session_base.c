/*
 * Services of a session for all of its parts (session.h).  The file needs none
 * of these parts itself.  Context: host.
 */
#include <errno.h>
#include <linux/futex.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <host/sealed.h>

#include "session.h"

int session_make_board(struct session *session)
{
	void *memory;
	int ret = sealed_create("calltap-board", CALLTAP_PAGE, &session->board_fd, &memory);

	if (ret)
		return ret;
	session->board = memory;
	session->board->magic = CALLTAP_BOARD_MAGIC;
	return 0;
}

int session_watch(struct session *session, int fd, void *what)
{
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = what};

	return epoll_ctl(session->endpoint.epoll, EPOLL_CTL_ADD, fd, &event) ? -errno : 0;
}

void session_name(const struct session *session, char *name, size_t size)
{
	snprintf(name, size, "%s:%016llx", session->endpoint.name, (unsigned long long)session->endpoint.key);
}

static void ask_to_end(struct session *session, uint32_t times)
{
	__atomic_add_fetch(&session->ending.asked, times, __ATOMIC_RELEASE);
	eventfd_write(session->endpoint.drained_fd, 1); /* wakes the server thread */
}

void session_end(struct session *session)
{
	ask_to_end(session, 1);
}

void session_let_go(struct session *session)
{
	ask_to_end(session, 2);
}

void session_diagnose(struct session *session, const char *format, ...)
{
	va_list arguments;

	if (session->diagnosis[0])
		return;
	va_start(arguments, format);
	vsnprintf(session->diagnosis, sizeof(session->diagnosis), format, arguments);
	va_end(arguments);
}

const char *session_diagnosis(const struct session *session)
{
	if (session->diagnosis[0])
		return session->diagnosis;
	for (uint32_t i = 0; i < session->attachees.count; i++)
		if (session->attachees.list[i].told->attached && session->attachees.list[i].told->trouble.code)
			return session->attachees.list[i].told->trouble.text;
	return session_first(session)->diagnosis;
}

void instance_diagnose(struct instance *instance, const char *format, ...)
{
	va_list arguments;

	if (instance->diagnosis[0])
		return;
	va_start(arguments, format);
	vsnprintf(instance->diagnosis, sizeof(instance->diagnosis), format, arguments);
	va_end(arguments);
}

void session_wake_drainer(struct session *session)
{
	__atomic_add_fetch(&session->board->doorbell, 1, __ATOMIC_SEQ_CST);
	syscall(SYS_futex, &session->board->doorbell, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}
