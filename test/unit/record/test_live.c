/*
 * Switching functions from the tool's side: the messages, the settings that are kept for processes that come later,
 * and answers that must not be believed.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "support.h"

#define SITES 3000u /* more than two messages hold */

/* An image without a file, mapped in the bench's process. */
static struct image *add_image(struct bench *bench)
{
	struct image *image = calloc(1, sizeof(*image));

	image->sites = calloc(SITES, sizeof(*image->sites));
	image->variants[0].sites = image->sites;
	image->variant_count = 1;
	image->sources = calloc(SITES, sizeof(*image->sources));
	image->off = calloc(SITES, sizeof(*image->off));
	image->touched = calloc(SITES, sizeof(*image->touched));
	image->site_count = SITES;
	for (uint32_t i = 0; i < SITES; i++)
		image->sites[i].id = 100 + i;
	bench->session.images.first = image;
	bench->process.maps = calloc(1, sizeof(*bench->process.maps));
	bench->process.map_count = 1;
	bench->process.maps[0] = (struct target_map){.image = image, .region = CALLTAP_PAGE, .mapped = true};
	bench->process.greeted = true;
	bench->process.welcome = true;
	return image;
}

union change {
	struct calltap_msg_switch message;
	char bytes[CALLTAP_MSG_MAX];
};

static bool next_change(struct bench *bench, union change *change)
{
	ssize_t got = recv(bench->target, change, sizeof(*change), MSG_DONTWAIT);

	if (got <= 0)
		return false;
	assert_int_equal(change->message.head.type, CALLTAP_MSG_SWITCH);
	assert_int_equal(change->message.head.size, got);
	assert_int_equal(got, sizeof(change->message) + change->message.count * 4);
	assert_in_range(change->message.count, 1, CALLTAP_SWITCH_MAX);
	return true;
}

/* The places that the messages which came in name, once each and in order. */
static void check_places(struct bench *bench, uint32_t first, uint32_t step, uint32_t count, bool on)
{
	union change change;
	uint32_t seen = 0;

	while (seen < count && next_change(bench, &change)) {
		assert_int_equal(change.message.on, on);
		for (uint32_t i = 0; i < change.message.count; i++)
			assert_int_equal(change.message.sites[i], first + step * seen++);
	}
	assert_int_equal(seen, count);
}

static void who_comes_later_is_told(void **state)
{
	struct bench *bench = bench_create(CALLTAP_MODE_BLOCK);
	struct image *image = add_image(bench);
	union change change;

	const struct target_map *map = &bench->process.maps[0];

	for (uint32_t i = 1; i < SITES; i += 2)
		image->off[i] = true;
	assert_int_equal(live_apply(&bench->session, &bench->process, map), 0);
	assert_false(next_change(bench, &change)); /* the plan has said so already */
	bench->session.images.generation++;
	/* The process's sites may be as before any switch or after it. */
	assert_int_equal(live_apply(&bench->session, &bench->process, map), 0);
	check_places(bench, 1, 2, SITES / 2, false);
	check_places(bench, 0, 2, SITES / 2, true);
	assert_false(next_change(bench, &change));
	assert_int_equal(bench->process.owed.switches, 4);
	/* Stubs of another kind are in use now, whose plan has its own places. */
	image->variant = 1;
	assert_int_equal(live_apply(&bench->session, &bench->process, map), 0);
	assert_false(next_change(bench, &change));
	image->variant = 0;
	bench->process.maps[0].mapped = false;
	assert_int_equal(live_apply(&bench->session, &bench->process, map), 0);
	assert_false(next_change(bench, &change));
	bench_destroy(bench);
}

static void answers_are_checked(void **state)
{
	struct bench *bench = bench_create(CALLTAP_MODE_BLOCK);
	struct calltap_msg_switch_done done = {.switched = 5, .failed = 2};

	assert_int_equal(live_answer(&bench->session, &bench->process, &done),
			 -EPROTO); /* the tool has asked for nothing */
	bench->process.owed.switches = 2;
	assert_int_equal(live_answer(&bench->session, &bench->process, &done), 0);
	assert_int_equal(bench->session.steering.switched, 5);
	assert_int_equal(bench->session.steering.failed, 2);
	done.failed = UINT32_MAX;
	assert_int_equal(live_answer(&bench->session, &bench->process, &done), -EPROTO);
	bench_destroy(bench);
}

/* Without answers from anybody: no process, or one that has ended. */
static void switching_is_remembered(void **state)
{
	struct bench *bench = bench_create(CALLTAP_MODE_BLOCK);
	struct image *image = add_image(bench);
	uint32_t ids[] = {100, 101, 100 + SITES, 7};
	struct record_switched switched;
	struct record_live *live;

	assert_int_equal(record_live_create(&live), 0);
	assert_int_equal(record_live_switch_ids(live, ids, 4, false, &switched), -ESRCH);
	bench->options.live = live;
	live_attach(&bench->session);
	bench->process.ended = true;
	assert_int_equal(record_live_switch_ids(live, ids, 4, false, &switched), 0);
	assert_int_equal(switched.functions, 2);
	assert_int_equal(switched.switched, 0);
	assert_true(image->off[0] && image->off[1] && !image->off[2]);
	assert_int_equal(record_live_switch_ids(live, ids, 1, true, &switched), 0);
	assert_true(!image->off[0] && image->off[1]);
	live_detach(&bench->session);
	assert_int_equal(record_live_switch_ids(live, ids, 1, true, &switched), -ESRCH);
	record_live_destroy(live);
	bench_destroy(bench);
}

/* A process that is stopped (one wait, of 5 s) keeps nobody from being told, and is told all itself. */
static void the_silent_are_not_waited_for_twice(void **state)
{
	struct bench *bench = bench_create(CALLTAP_MODE_BLOCK);
	struct calltap_msg_switch_done done = {.switched = 1};
	struct record_switched switched;
	struct record_live *live;
	uint32_t ids[SITES];

	add_image(bench);
	bench_stop(bench);
	for (uint32_t i = 0; i < SITES; i++)
		ids[i] = 100 + i;
	assert_int_equal(record_live_create(&live), 0);
	bench->options.live = live;
	live_attach(&bench->session);
	assert_int_equal(record_live_switch_ids(live, ids, SITES, false, &switched), -ETIMEDOUT);
	check_places(bench, 0, 1, SITES, false);
	assert_true(bench->process.silent);
	for (uint32_t open = bench->process.owed.switches; open; open--)
		assert_int_equal(live_answer(&bench->session, &bench->process, &done), 0);
	assert_false(bench->process.silent);
	live_detach(&bench->session);
	record_live_destroy(live);
	bench_destroy(bench);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(who_comes_later_is_told),
		cmocka_unit_test(answers_are_checked),
		cmocka_unit_test(switching_is_remembered),
		cmocka_unit_test(the_silent_are_not_waited_for_twice),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
