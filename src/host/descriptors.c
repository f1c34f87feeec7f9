/* Descriptors over a Unix socket (descriptors.h).  Context: host. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "descriptors.h"

ssize_t descriptors_send(int socket, const void *bytes, size_t size, const int *fds, size_t count)
{
	union descriptors_room control = {0};
	struct iovec vec = {(void *)bytes, size};
	struct msghdr message = {.msg_iov = &vec, .msg_iovlen = 1};
	ssize_t sent;

	if (count > DESCRIPTORS_MAX)
		return -EINVAL;
	if (count) {
		message.msg_control = control.bytes;
		message.msg_controllen = CMSG_SPACE(count * sizeof(int));
		control.head.cmsg_level = SOL_SOCKET;
		control.head.cmsg_type = SCM_RIGHTS;
		control.head.cmsg_len = CMSG_LEN(count * sizeof(int));
		memcpy(CMSG_DATA(&control.head), fds, count * sizeof(int));
	}
	sent = sendmsg(socket, &message, MSG_NOSIGNAL);
	return sent < 0 ? -errno : sent;
}

size_t descriptors_take(struct msghdr *message, int *fds, size_t max)
{
	size_t taken = 0;

	for (struct cmsghdr *part = CMSG_FIRSTHDR(message); part; part = CMSG_NXTHDR(message, part)) {
		size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);

		if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t i = 0; i < count; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(part) + i * sizeof(fd), sizeof(fd));
			if (taken < max)
				fds[taken++] = fd;
			else
				close(fd);
		}
	}
	return taken;
}
