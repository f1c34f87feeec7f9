/*
 * Descriptors that go along with a packet over a Unix socket.
 *
 * Callers: target (agents), remote (other tools), cmd.  Context: host.
 */
#ifndef HOST_DESCRIPTORS_H
#define HOST_DESCRIPTORS_H

#include <stddef.h>
#include <sys/socket.h>

#define DESCRIPTORS_MAX 4 /* with one packet */

/* Room for them in a message that is received: struct msghdr.msg_control. */
union descriptors_room {
	struct cmsghdr head;
	char bytes[CMSG_SPACE(DESCRIPTORS_MAX * sizeof(int))];
};

/* Send a packet; returns how many of its bytes went, or -errno.  -EINVAL: there are too many descriptors. */
ssize_t descriptors_send(int socket, const void *bytes, size_t size, const int *fds, size_t count)
	__attribute__((warn_unused_result));
/* Put the descriptors of a received message into fds, and close those that have no room there; returns how many. */
size_t descriptors_take(struct msghdr *message, int *fds, size_t max);

#endif
