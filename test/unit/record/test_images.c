/*
 * Kinds of stubs that an image's sites have had: the decisions that are taken again while the image is recorded.  This
 * program is the object.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <calltap/abi/profile.h>

#include "host/hook/triggers.h"
#include "host/hook/watch.h"
#include "support.h"

/* The functions to decide about: as many as there are kinds of stubs, and more. */
#define FUNCTION(name)                                                                                                 \
	void name(void);                                                                                               \
	void name(void)                                                                                                \
	{                                                                                                              \
		__asm__ volatile("" ::: "memory");                                                                     \
	}
FUNCTION(one)
FUNCTION(two)
FUNCTION(function_3)
FUNCTION(function_4)
FUNCTION(function_5)
FUNCTION(function_6)
FUNCTION(function_7)
FUNCTION(function_8)
FUNCTION(function_9)
FUNCTION(function_10)
FUNCTION(function_11)
FUNCTION(function_12)
FUNCTION(function_13)
FUNCTION(function_14)
FUNCTION(function_15)
FUNCTION(function_16)
FUNCTION(function_17)

static struct bench *bench;
static struct image *image;
static bool *chosen;
static uint64_t *who;

static int setup(void **state)
{
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);

	bench = bench_create(CALLTAP_MODE_BLOCK);
	bench->session.images.tracing = true;
	assert_int_equal(images_get(&image, &bench->session.images, fd, "/proc/self/exe", false), 0);
	close(fd);
	return 0;
}

static int teardown(void **state)
{
	free(chosen);
	free(who);
	chosen = NULL;
	who = NULL;
	bench_destroy(bench);
	return 0;
}

static void decide(void)
{
	assert_int_equal(image_decide(&bench->session.images, image), 0);
	assert_true(image->site_count > IMAGE_VARIANTS);
	chosen = calloc(image->site_count, sizeof(*chosen));
	who = calloc(image->site_count, sizeof(*who));
	assert_non_null(chosen);
	assert_non_null(who);
}

static uint32_t again(void)
{
	uint32_t variant = UINT32_MAX;

	assert_int_equal(image_decide_again(&bench->session.images, image, chosen, who, &variant), 0);
	assert_true(variant < image->variant_count);
	return variant;
}

static uint32_t count_chosen(void)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < image->site_count; i++)
		count += chosen[i];
	return count;
}

static void only(const char *text, enum filter_kind kind)
{
	struct calltap_diag diag;

	filter_set_destroy(bench->options.filters);
	assert_int_equal(filter_set_create(&bench->options.filters), 0);
	if (text)
		assert_int_equal(filter_set_add(bench->options.filters, kind, text, &diag), 0);
	bench->session.images.filters = bench->options.filters;
}

static void known_kinds_are_used_again(void **state)
{
	decide();
	assert_int_equal(again(), 0);
	assert_int_equal(image->variant_count, 1);
	bench->session.images.needs.depth = true;
	assert_int_equal(again(), 1);
	image->variant = 1;
	assert_int_equal(again(), 1);
	bench->session.images.needs.depth = false;
	assert_int_equal(again(), 0);
	image->variant = 0;
	bench->session.images.needs.depth = true;
	assert_int_equal(again(), 1);
	assert_int_equal(image->variant_count, 2);
	/* Both variants have equal places and ids, and stubs for their flags. */
	for (uint32_t i = 0; i < image->site_count; i++) {
		const struct calltap_site *first = &image->variants[0].sites[i], *second = &image->variants[1].sites[i];

		assert_int_equal(first->address, second->address);
		assert_int_equal(first->id, second->id);
		assert_int_not_equal(first->flags, second->flags);
		assert_memory_equal(first->old, second->old, sizeof(first->old));
		if (i)
			assert_true(second->stub_off >=
				    second[-1].stub_off + layout_stub_size(bench->session.machine->id, &second[-1]));
	}
}

/* Functions that are wanted later: an image of their own behind the object's, with the numbers that come next. */
static void later_choices_are_additions(void **state)
{
	const struct image *addition, *last;
	uint32_t site;

	only("two", FILTER_TRACE);
	assert_int_equal(image_decide(&bench->session.images, image), 0);
	assert_int_equal(image->site_count, 1);
	assert_int_equal(images_extend(&bench->session.images), 0);
	assert_true(!image->next || image->next->base != image);
	only("function_1?", FILTER_TRACE);
	assert_int_equal(images_extend(&bench->session.images), 0);
	addition = image->next;
	assert_non_null(addition);
	assert_ptr_equal(addition->base, image);
	assert_ptr_equal(addition->object, image->object);
	assert_int_equal(addition->index, image->index);
	assert_int_equal(addition->site_count, 8);
	assert_int_equal(addition->first_id, image->first_id + 1);
	assert_string_equal(addition->sources[0]->symbol, "function_10");
	assert_false(addition->off[0]);
	assert_ptr_equal(images_of(&bench->session.images, addition->first_id + 3, &site), addition);
	assert_int_equal(site, 3);
	/* What is wanted once more is there; what is wanted now comes in another one. */
	only("*", FILTER_TRACE);
	assert_int_equal(images_extend(&bench->session.images), 0);
	last = image->next;
	assert_ptr_not_equal(last, addition);
	assert_ptr_equal(last->base, image);
	assert_int_equal(last->first_id, addition->first_id + 8);
	for (uint32_t i = 0; i < last->site_count; i++)
		assert_true(strcmp(last->sources[i]->symbol, "two") != 0 &&
			    strncmp(last->sources[i]->symbol, "function_1", 10) != 0);
	assert_int_equal(images_extend(&bench->session.images), 0);
	assert_ptr_equal(image->next, last);
}

/* A variant serves when what is chosen has its flags there; the rest does not matter. */
static void what_is_off_does_not_matter(void **state)
{
	decide();
	only(image->sources[3]->symbol, FILTER_TRACE);
	assert_int_equal(again(), 0);
	assert_int_equal(count_chosen(), 1);
	assert_true(chosen[3]);
	bench->session.images.tracing = false;
	bench->session.images.needs.depth = true;
	assert_int_equal(again(), 0);
	assert_int_equal(count_chosen(), 0);
	assert_int_equal(image->variant_count, 1);
}

static void filters_are_asked_once(void **state)
{
	enum filter_kind kind;
	unsigned long matches[3];
	const char *text;

	decide();
	only("*", FILTER_TRACE);
	for (size_t i = 0; i < 3; i++) {
		assert_int_equal(again(), 0);
		assert_int_equal(count_chosen(), image->site_count);
		assert_true(filter_set_item(bench->session.images.filters, 0, &text, &kind, &matches[i]));
	}
	assert_true(matches[0] && matches[1] == matches[0] && matches[2] == matches[0]);
	only(image->sources[3]->symbol, FILTER_TRACE);
	assert_int_equal(again(), 0);
	assert_int_equal(count_chosen(), 1);
	only("*", FILTER_TRACE);
	assert_int_equal(again(), 0);
	assert_int_equal(count_chosen(), image->site_count);
}

static void there_are_so_many_kinds(void **state)
{
	uint32_t variant;

	decide();
	bench->session.images.needs.tree_filter = true;
	for (uint32_t i = 1; i < IMAGE_VARIANTS; i++) {
		only(image->sources[i]->symbol, FILTER_GRAPH);
		assert_int_equal(again(), i);
	}
	assert_int_equal(image->variant_count, IMAGE_VARIANTS);
	only(image->sources[0]->symbol, FILTER_GRAPH);
	assert_int_equal(image_decide_again(&bench->session.images, image, chosen, who, &variant), -ENOSPC);
	assert_int_equal(image->variant_count, IMAGE_VARIANTS);
	/* Variants that were made can be had still. */
	only(image->sources[7]->symbol, FILTER_GRAPH);
	assert_int_equal(again(), 7);
	only(NULL, FILTER_GRAPH);
	bench->session.images.needs.tree_filter = false;
	assert_int_equal(again(), 0);
}

/* A function that a trigger waits for is watched, whatever else is recorded. */
static void triggers_stay_on(void **state)
{
	struct triggers *triggers;
	char conflict[64];
	struct calltap_diag diag;

	assert_int_equal(triggers_create(&triggers), 0);
	assert_int_equal(triggers_add(triggers, TRIGGER_STACK, "one left", &diag), 0);
	assert_int_equal(watch_create(&bench->session.images.watch, &bench->session, 1.0), 0);
	assert_true(watch_join(bench->session.images.watch, 0, triggers, conflict, sizeof(conflict)));
	bench->session.images.tracing = false;
	decide();
	for (uint32_t i = 0; i < image->site_count; i++)
		assert_int_equal(image->off[i], strcmp(image->sources[i]->symbol, "one") != 0);
	assert_int_equal(again(), 0);
	assert_int_equal(count_chosen(), 1);
	only("two", FILTER_TRACE);
	bench->session.images.tracing = true;
	bench->session.images.needs.threshold = true;
	assert_int_equal(again(), 1);
	assert_int_equal(count_chosen(), 2);
	for (uint32_t i = 0; i < image->site_count; i++)
		if (!strcmp(image->sources[i]->symbol, "one"))
			assert_true(chosen[i] && image->variants[1].sites[i].flags & CALLTAP_SITE_TRIGGER);
	watch_destroy(bench->session.images.watch);
	bench->session.images.watch = NULL;
	triggers_destroy(triggers);
}

/* While nothing is recorded, nothing is to be stopped: the function is off until something is recorded again. */
static void what_would_stop_is_off_then(void **state)
{
	struct triggers *triggers;
	char conflict[64];
	struct calltap_diag diag;

	assert_int_equal(triggers_create(&triggers), 0);
	assert_int_equal(triggers_add(triggers, TRIGGER_STOP, "one left", &diag), 0);
	assert_int_equal(watch_create(&bench->session.images.watch, &bench->session, 1.0), 0);
	assert_true(watch_join(bench->session.images.watch, 0, triggers, conflict, sizeof(conflict)));
	decide();
	only("two", FILTER_TRACE);
	(void)again();
	assert_int_equal(count_chosen(), 2);
	bench->session.images.tracing = false;
	(void)again();
	assert_int_equal(count_chosen(), 0);
	bench->session.images.tracing = true;
	(void)again();
	assert_int_equal(count_chosen(), 2);
	watch_destroy(bench->session.images.watch);
	bench->session.images.watch = NULL;
	triggers_destroy(triggers);
}

/* Not chosen is in the plan all the same, when it may be chosen later. */
static void all_or_what_is_wanted(void **state)
{
	bench->session.images.all = true;
	only("two", FILTER_TRACE);
	decide();
	for (uint32_t i = 0; i < image->site_count; i++)
		assert_int_equal(image->off[i], strcmp(image->sources[i]->symbol, "two") != 0);
	only(NULL, FILTER_TRACE);
	assert_int_equal(again(), 0);
	assert_int_equal(count_chosen(), image->site_count);
}

int main(void)
{
#define case_of(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		case_of(known_kinds_are_used_again),  case_of(later_choices_are_additions),
		case_of(what_is_off_does_not_matter), case_of(filters_are_asked_once),
		case_of(there_are_so_many_kinds),     case_of(triggers_stay_on),
		case_of(what_would_stop_is_off_then), case_of(all_or_what_is_wanted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
