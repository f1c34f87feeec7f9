/*
 * Packets to and from agents.  Context: host.
 */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include <host/session/session.h>

#define FDS_MAX 4

int channel_send(int socket, const void *message, size_t size, const int *fds, unsigned fd_count)
{
	union {
		struct cmsghdr head;
		char bytes[CMSG_SPACE(FDS_MAX * sizeof(int))];
	} control = {0};
	struct iovec vec = {(void *)message, size};
	struct msghdr header = {.msg_iov = &vec, .msg_iovlen = 1};
	ssize_t done;

	if (fd_count > FDS_MAX)
		return -EINVAL;
	if (fd_count) {
		header.msg_control = control.bytes;
		header.msg_controllen = CMSG_SPACE(fd_count * sizeof(int));
		control.head.cmsg_level = SOL_SOCKET;
		control.head.cmsg_type = SCM_RIGHTS;
		control.head.cmsg_len = CMSG_LEN(fd_count * sizeof(int));
		memcpy(CMSG_DATA(&control.head), fds, fd_count * sizeof(int));
	}
	done = sendmsg(socket, &header, MSG_NOSIGNAL);
	if (done < 0)
		return -errno;
	return (size_t)done == size ? 0 : -EIO;
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
