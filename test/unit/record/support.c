/*
 * A session for tests (support.h).
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support.h"

struct bench *bench_create(enum calltap_mode mode)
{
	struct bench *bench = calloc(1, sizeof(*bench));
	struct session *session = &bench->session;
	int pair[2], fd;

	strcpy(bench->path, "/tmp/calltap-test-XXXXXX");
	fd = mkstemp(bench->path);
	assert_true(fd >= 0);
	close(fd);
	bench->options = (struct record_options){.size = sizeof(bench->options), .mode = mode};
	bench->options.tracer = tracer_find("function_graph");
	assert_int_equal(filter_set_create(&bench->options.filters), 0);
	session->options = &bench->options;
	session->result = &bench->result;
	session->machine = machine_native();
	session->images.tracer = bench->options.tracer;
	session->images.filters = bench->options.filters;
	instance_init(&bench->instance, session, 0, &bench->options, &bench->result);
	bench->instance.sub_size = SUB_SIZE;
	bench->instance.sub_count = SUB_COUNT;
	session->instances[0] = &bench->instance;
	session->endpoint.drained_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	pthread_mutex_init(&session->lock, NULL);
	pthread_mutex_init(&session->next, NULL);
	assert_int_equal(session_make_board(session), 0);
	assert_int_equal(trace_writer_create(&bench->instance.writer, bench->path, session->machine->id, NULL), 0);
	assert_int_equal(tables_create(&bench->instance), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	bench->target = pair[1];
	bench->process.socket = pair[0];
	bench->process.pid = getpid();
	bench->process.row.pid = (uint32_t)getpid();
	session->targets = &bench->process;
	bench->share = calloc(1, sizeof(*bench->share));
	bench->share->instance = &bench->instance;
	bench->share->target = &bench->process;
	bench->instance.shares = bench->process.shares[0] = bench->share;
	assert_int_equal(record_encoder_create(&bench->instance.encoder), 0);
	return bench;
}

void bench_stop(struct bench *bench)
{
	int status;
	pid_t child = fork();

	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			raise(SIGSTOP);
	}
	assert_int_equal(waitpid(child, &status, WUNTRACED), child);
	bench->process.pid = child;
}

void bench_destroy(struct bench *bench)
{
	if (bench->process.pid != getpid()) {
		kill(bench->process.pid, SIGKILL);
		waitpid(bench->process.pid, NULL, 0);
	}
	struct session *session = &bench->session;

	drain_stop(session);
	images_destroy(&session->images);
	emulator_destroy(&session->emulator);
	free(session->program);
	assert_int_equal(instance_clear(&bench->instance), 0);
	filter_set_destroy(bench->options.filters);
	munmap(session->board, CALLTAP_PAGE);
	close(session->board_fd);
	close(session->endpoint.drained_fd);
	close(bench->process.socket);
	close(bench->target);
	pthread_mutex_destroy(&session->next);
	pthread_mutex_destroy(&session->lock);
	free(bench->process.maps);
	free(bench->process.exe);
	unlink(bench->path);
	free(bench);
}
