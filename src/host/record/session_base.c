/*
 * Services of a session for all of its parts (session.h).  The file needs none
 * of these parts itself.  Context: host.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include "session.h"

#define SUB_MAX	    (64u << 10)
#define SUB_MIN	    4096u
#define SUBS_WANTED 8u

int session_watch(struct session *session, int fd, void *what)
{
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = what};

	return epoll_ctl(session->epoll, EPOLL_CTL_ADD, fd, &event) ? -errno : 0;
}

void session_end(struct session *session)
{
	__atomic_add_fetch(&session->end_asked, 1, __ATOMIC_RELEASE);
	eventfd_write(session->drained_fd, 1); /* wakes the server thread */
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

void session_shape_rings(struct session *session)
{
	uint64_t bytes = session->options->buffer_bytes, sub = SUB_MIN;

	while (sub * 2 <= SUB_MAX && sub * 2 * SUBS_WANTED <= bytes)
		sub *= 2;
	session->sub_size = (uint32_t)sub;
	session->sub_count = (uint32_t)(bytes / sub < 2 ? 2 : bytes / sub);
}
