/*
 * What a client gets from a session that ends: it answers, and closes the socket, whatever the client has sent.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>
#include <sys/socket.h>
#include <unistd.h>

#include <host/remote/remote.h>

/* The session has not read the client's request, or the client sends one only now. */
static void last_answers(void **state)
{
	static const char fine[] = "0 -1 4\nfine";
	const struct remote_request request = {.verb = "detach", .timeout_ms = 1000};

	(void)state;
	for (int early = 0; early < 2; early++) {
		struct calltap_diag diag = {0};
		char *answer = NULL;
		int ends[2];

		assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
		if (early)
			assert_int_equal(send(ends[0], "detach\n", 7, 0), 7);
		assert_int_equal(send(ends[1], fine, sizeof(fine) - 1, 0), sizeof(fine) - 1);
		close(ends[1]);
		assert_int_equal(early ? remote_receive(ends[0], 1000, &answer, &diag)
				       : remote_ask(ends[0], &request, &answer, &diag),
				 0);
		assert_string_equal(answer, "fine");
		free(answer);
		/* There is no other one. */
		assert_int_equal(remote_receive(ends[0], 1000, &answer, &diag), -EPIPE);
		free(answer);
		close(ends[0]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(last_answers)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
