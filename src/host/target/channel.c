/*
 * Packets to and from agents.  Context: host.
 */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include <host/descriptors.h>
#include <host/session/session.h>

int channel_send(int socket, const void *message, size_t size, const int *fds, unsigned fd_count)
{
	ssize_t sent = descriptors_send(socket, message, size, fds, fd_count);

	if (sent < 0)
		return (int)sent;
	return (size_t)sent == size ? 0 : -EIO;
}

int channel_receive(int socket, void *message, size_t size)
{
	struct iovec vec = {message, size};
	struct msghdr header = {.msg_iov = &vec, .msg_iovlen = 1};
	const struct calltap_msg *head = message;
	ssize_t got = recvmsg(socket, &header, MSG_DONTWAIT);

	/* The peer has gone without reading all it was sent; what it had sent itself comes after this error. */
	if (got < 0 && errno == ECONNRESET)
		got = recvmsg(socket, &header, MSG_DONTWAIT);
	if (got < 0)
		return -errno;
	if (!got)
		return -EPIPE;
	if ((size_t)got < sizeof(*head) || head->size != (size_t)got || header.msg_flags & MSG_TRUNC)
		return -EPROTO;
	return (int)got;
}
