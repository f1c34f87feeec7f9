/*
 * Packets with and without descriptors, and packets that break the protocol.
 */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "support.h"

struct packet {
	struct calltap_msg head;
	char text[24];
};

static int setup(void **state)
{
	static int pair[2];

	*state = pair;
	return socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair);
}

static int teardown(void **state)
{
	int *pair = *state;

	close(pair[0]);
	close(pair[1]);
	return 0;
}

/* Receive as an agent does: the message, and how many descriptors came along. */
static int receive(int socket, struct packet *packet, int *fds)
{
	union {
		struct cmsghdr head;
		char bytes[CMSG_SPACE(4 * sizeof(int))];
	} control;
	struct iovec vec = {packet, sizeof(*packet)};
	struct msghdr header = {
		.msg_iov = &vec, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)};
	struct cmsghdr *item;
	int count;

	assert_int_equal(recvmsg(socket, &header, MSG_CMSG_CLOEXEC | MSG_DONTWAIT), sizeof(*packet));
	item = CMSG_FIRSTHDR(&header);
	if (!item)
		return 0;
	count = (int)((item->cmsg_len - CMSG_LEN(0)) / sizeof(int));
	memcpy(fds, CMSG_DATA(item), (size_t)count * sizeof(int));
	return count;
}

static void descriptors_arrive(void **state)
{
	const struct packet sent = {{CALLTAP_MSG_SETUP, sizeof(sent)}, "two descriptors"};
	int *pair = *state, pipes[2], fds[4] = {-1, -1, -1, -1};
	struct packet got = {0};
	char byte = 0;

	assert_int_equal(pipe(pipes), 0);
	assert_int_equal(channel_send(pair[0], &sent, sizeof(sent), pipes, 2), 0);
	assert_int_equal(receive(pair[1], &got, fds), 2);
	assert_memory_equal(&got, &sent, sizeof(sent));
	assert_int_equal(write(fds[1], "x", 1), 1);
	assert_int_equal(read(pipes[0], &byte, 1), 1);
	assert_int_equal(byte, 'x');
	for (int i = 0; i < 2; i++) {
		close(pipes[i]);
		close(fds[i]);
	}
	assert_int_equal(channel_send(pair[0], &sent, sizeof(sent), NULL, 0), 0);
	assert_int_equal(receive(pair[1], &got, fds), 0);
	assert_int_equal(channel_send(pair[0], &sent, sizeof(sent), fds, 5), -EINVAL);
}

static void messages_arrive(void **state)
{
	const struct packet sent = {{CALLTAP_MSG_HELLO, sizeof(sent)}, "hello"};
	struct packet got;
	int *pair = *state;

	assert_int_equal(channel_receive(pair[1], &got, sizeof(got)), -EAGAIN);
	assert_int_equal(channel_send(pair[0], &sent, sizeof(sent), NULL, 0), 0);
	assert_int_equal(channel_receive(pair[1], &got, sizeof(got)), sizeof(sent));
	assert_memory_equal(&got, &sent, sizeof(sent));
	shutdown(pair[0], SHUT_WR);
	assert_int_equal(channel_receive(pair[1], &got, sizeof(got)), -EPIPE);
	assert_int_equal(channel_send(pair[1], &sent, sizeof(sent), NULL, 0), 0);
	close(pair[0]);
	assert_true(channel_send(pair[1], &sent, sizeof(sent), NULL, 0) < 0); /* and no SIGPIPE */
	pair[0] = dup(pair[1]);
}

/* The head's size must be the packet's; a packet must fit. */
static void broken_messages_are_refused(void **state)
{
	struct packet sent = {{CALLTAP_MSG_OBJECT, sizeof(sent)}, "object"}, got;
	int *pair = *state;

	assert_int_equal(send(pair[0], &sent, sizeof(sent) - 1, 0), sizeof(sent) - 1);
	assert_int_equal(channel_receive(pair[1], &got, sizeof(got)), -EPROTO);
	sent.head.size = UINT32_MAX;
	assert_int_equal(send(pair[0], &sent, sizeof(sent), 0), sizeof(sent));
	assert_int_equal(channel_receive(pair[1], &got, sizeof(got)), -EPROTO);
	assert_int_equal(send(pair[0], &sent, sizeof(sent.head) - 1, 0), sizeof(sent.head) - 1);
	assert_int_equal(channel_receive(pair[1], &got, sizeof(got)), -EPROTO);
	sent.head.size = sizeof(sent) - 4;
	assert_int_equal(send(pair[0], &sent, sizeof(sent), 0), sizeof(sent));
	assert_int_equal(channel_receive(pair[1], &got, sizeof(sent) - 4), -EPROTO);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(descriptors_arrive, setup, teardown),
		cmocka_unit_test_setup_teardown(messages_arrive, setup, teardown),
		cmocka_unit_test_setup_teardown(broken_messages_are_refused, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
