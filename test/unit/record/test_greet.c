/*
 * A HELLO's words about the target's CPU and clock, and its answers about time: programs for another CPU are let go
 * of, lies change nothing.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <host/trace/trace.h>

#include "support.h"

#define EXE_SIZE 16

union hello {
	struct calltap_msg_hello message;
	uint8_t bytes[sizeof(struct calltap_msg_hello) + EXE_SIZE];
};

static union hello good_hello(const struct bench *bench)
{
	union hello hello = {
		.message =
			{
				.head = {CALLTAP_MSG_HELLO, sizeof(hello)},
				.version = CALLTAP_ABI_VERSION,
				.pid = (uint32_t)getpid(),
				.machine = bench->session.machine->id,
				.clock_cost = 640,
				.ticks = 1000,
				.monotonic_ns = clock_now_ns(),
				.image_id = 1,
			},
	};

	strncpy(hello.message.exe, "/bin/program", EXE_SIZE); /* zeros to its end */
	return hello;
}

/* Hand a message to the tool; returns its result, and the type of its answer (0 = none). */
static int say(struct bench *bench, const void *message, size_t size, uint32_t *answer)
{
	char bytes[CALLTAP_MSG_MAX];
	int ret;

	assert_int_equal(send(bench->target, message, size, 0), size);
	ret = target_serve(&bench->session, &bench->process);
	*answer = 0;
	if (recv(bench->target, bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
		memcpy(answer, bytes, sizeof(*answer));
	return ret;
}

/* A session whose programs run under an emulator; began_ns is before everything. */
static struct bench *emulated_bench(void)
{
	struct bench *bench = bench_create(CALLTAP_MODE_BLOCK);

	bench->session.emulated = true;
	bench->session.emulator.path = strdup("/usr/bin/qemu-test");
	bench->session.began_ns = bench->process.since_ns = clock_now_ns();
	return bench;
}

static void end(struct bench *bench)
{
	bench_destroy(bench);
}

static void another_cpus_program_is_let_go(void **state)
{
	struct bench *bench = bench_create(CALLTAP_MODE_BLOCK);
	union hello hello = good_hello(bench);
	struct calltap_msg_objects_end report = {.head = {CALLTAP_MSG_OBJECTS_END, sizeof(report)}};
	uint32_t answer;

	hello.message.machine = 99;
	assert_int_equal(say(bench, &hello, sizeof(hello), &answer), 0);
	assert_int_equal(answer, CALLTAP_MSG_SETUP);
	assert_true(bench->process.dormant && bench->process.foreign);
	assert_int_equal(bench->session.process_count, 0);
	/* Nor may it say what only a traced one says. */
	assert_int_equal(say(bench, &report, sizeof(report), &answer), -EPROTO);
	end(bench);
}

static void a_path_has_an_end(void **state)
{
	struct bench *bench = bench_create(CALLTAP_MODE_BLOCK);
	union hello hello = good_hello(bench);
	uint32_t answer;

	memset(hello.message.exe, 'x', EXE_SIZE);
	assert_int_equal(say(bench, &hello, sizeof(hello), &answer), -EPROTO);
	hello.message.head.size = sizeof(hello.message);
	assert_int_equal(say(bench, &hello, sizeof(hello.message), &answer), -EPROTO);
	assert_int_equal(answer, 0);
	assert_false(bench->process.greeted);
	end(bench);
}

static void an_emulated_program_is_what_its_agent_says(void **state)
{
	struct bench *bench = emulated_bench();
	union hello hello = good_hello(bench);
	uint32_t answer;

	assert_int_equal(say(bench, &hello, sizeof(hello), &answer), 0);
	assert_int_equal(answer, CALLTAP_MSG_SETUP);
	assert_string_equal(bench->process.exe, "/bin/program");
	assert_int_equal(bench->session.timing.line.count, 1);
	assert_int_equal(bench->session.timing.line.last_ticks, 1000);
	end(bench);
}

static void the_native_clock_is_not_asked_for(void **state)
{
	struct bench *bench = bench_create(CALLTAP_MODE_BLOCK);
	union hello hello = good_hello(bench);
	struct calltap_msg_clock_told told = {{CALLTAP_MSG_CLOCK_TOLD, sizeof(told)}, 5, clock_now_ns()};
	uint32_t answer;

	assert_int_equal(say(bench, &hello, sizeof(hello), &answer), 0);
	assert_int_equal(bench->session.timing.line.count, 0);
	assert_null(bench->process.exe ? strstr(bench->process.exe, "/bin/program") : NULL);
	assert_int_equal(say(bench, &told, sizeof(told), &answer), -EPROTO);
	end(bench);
}

static void only_answers_of_their_time_count(void **state)
{
	struct bench *bench = emulated_bench();
	union hello hello = good_hello(bench);
	struct calltap_msg_clock_told told = {{CALLTAP_MSG_CLOCK_TOLD, sizeof(told)}, 2000, 0};
	const uint64_t times[] = {0, bench->session.began_ns - 1, UINT64_MAX};
	uint32_t answer;

	hello.message.monotonic_ns = bench->session.began_ns - 1; /* before there was anybody to say so */
	assert_int_equal(say(bench, &hello, sizeof(hello), &answer), 0);
	assert_int_equal(bench->session.timing.line.count, 0);
	for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++) {
		assert_int_equal(timing_ask(&bench->process), 0);
		recv(bench->target, &answer, sizeof(answer), 0);
		assert_int_equal(answer, CALLTAP_MSG_CLOCK);
		told.monotonic_ns = times[i];
		assert_int_equal(say(bench, &told, sizeof(told), &answer), 0);
		assert_int_equal(bench->session.timing.line.count, 0);
	}
	assert_int_equal(timing_ask(&bench->process), 0);
	recv(bench->target, &answer, sizeof(answer), 0);
	told.monotonic_ns = clock_now_ns();
	assert_int_equal(say(bench, &told, sizeof(told), &answer), 0);
	assert_int_equal(bench->session.timing.line.count, 1);
	end(bench);
}

/* A threshold in ticks takes a rate: a CPU that does not say it is asked until there is one. */
static void a_threshold_waits_for_the_rate(void **state)
{
	struct bench *bench = emulated_bench();
	union hello hello = good_hello(bench);
	struct calltap_msg_clock_told told = {{CALLTAP_MSG_CLOCK_TOLD, sizeof(told)}, 0, 0};
	uint64_t first = hello.message.monotonic_ns;
	uint32_t answer;
	int asked = 0;

	bench->options.threshold_ns = bench->instance.settings.options.threshold_ns = 1000;
	assert_int_equal(say(bench, &hello, sizeof(hello), &answer), 0);
	while (answer == CALLTAP_MSG_CLOCK) {
		told.monotonic_ns = clock_now_ns();
		told.ticks = 1000 + 3 * (told.monotonic_ns - first);
		assert_int_equal(say(bench, &told, sizeof(told), &answer), 0);
		asked++;
	}
	assert_true(asked > 0);
	assert_int_equal(answer, CALLTAP_MSG_SETUP);
	assert_true(bench->instance.threshold_ticks >= 2999 && bench->instance.threshold_ticks <= 3001);
	end(bench);
}

/* A target in another time namespace never tells a pair of samples that counts. */
static void the_rate_is_not_waited_for_for_ever(void **state)
{
	struct bench *bench = emulated_bench();
	union hello hello = good_hello(bench);
	struct calltap_msg_clock_told told = {{CALLTAP_MSG_CLOCK_TOLD, sizeof(told)}, 0, 0};
	uint32_t answer;

	bench->options.threshold_ns = bench->instance.settings.options.threshold_ns = 1000;
	hello.message.monotonic_ns = 1;
	assert_int_equal(say(bench, &hello, sizeof(hello), &answer), 0);
	assert_int_equal(answer, CALLTAP_MSG_CLOCK);
	bench->process.since_ns -= 3000000000u;
	assert_int_equal(say(bench, &told, sizeof(told), &answer), 0);
	assert_int_equal(answer, CALLTAP_MSG_SETUP);
	assert_int_equal(bench->instance.threshold_ticks, 0);
	assert_non_null(strstr(bench->session.diagnosis, "threshold"));
	end(bench);
}

static void who_does_not_answer_is_passed_over(void **state)
{
	struct bench *bench = emulated_bench();
	union hello hello = good_hello(bench);
	struct target stopped = {.next = &bench->process, .began = true, .socket = -1, .asked_ns = 1};
	struct share share = {.target = &stopped, .arena_count = 1};
	uint32_t answer;

	assert_int_equal(say(bench, &hello, sizeof(hello), &answer), 0);
	assert_int_equal(bench->process.shares[0]->arena_count, 1);
	bench->process.began = true;
	share.arenas[0] = bench->process.shares[0]->arenas[0];
	stopped.shares[0] = &share;
	bench->session.targets = &stopped;
	timing_tick(&bench->session, clock_now_ns());
	assert_true(recv(bench->target, &answer, sizeof(answer), MSG_DONTWAIT) > 0);
	assert_int_equal(answer, CALLTAP_MSG_CLOCK);
	bench->session.targets = &bench->process;
	end(bench);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(another_cpus_program_is_let_go),
		cmocka_unit_test(a_path_has_an_end),
		cmocka_unit_test(an_emulated_program_is_what_its_agent_says),
		cmocka_unit_test(the_native_clock_is_not_asked_for),
		cmocka_unit_test(only_answers_of_their_time_count),
		cmocka_unit_test(a_threshold_waits_for_the_rate),
		cmocka_unit_test(the_rate_is_not_waited_for_for_ever),
		cmocka_unit_test(who_does_not_answer_is_passed_over),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
