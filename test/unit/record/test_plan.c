/*
 * Plans for reports of objects, this program being the target: one plan per object, none for a known object, the old
 * region for an object that comes back.
 */
#include <errno.h>
#include <inttypes.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <host/trace/trace.h>

#include "support.h"

static int find_self(struct dl_phdr_info *info, size_t size, void *out)
{
	struct calltap_msg_object *object = out;

	object->base = info->dlpi_addr;
	for (int i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
			object->dynamic = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
	return 1; /* the first one is the executable */
}

static int find_libc(struct dl_phdr_info *info, size_t size, void *out)
{
	if (!strstr(info->dlpi_name, "libc.so"))
		return 0;
	return find_self(info, size, out);
}

/* Report one object, or nothing at all. */
static void report(struct bench *bench, const struct calltap_msg_object *object)
{
	struct calltap_msg_object *objects[] = {(struct calltap_msg_object *)object};

	bench->process.report.list = objects;
	bench->process.report.count = object ? 1 : 0;
	assert_int_equal(plan_report(&bench->session, &bench->process), 0);
	bench->process.report.list = NULL;
	bench->process.report.count = 0;
}

/* The next plan that the target has got; false: there is none. */
static bool next_plan(struct bench *bench, struct calltap_msg_plan *plan)
{
	return recv(bench->target, plan, sizeof(*plan), MSG_DONTWAIT) == sizeof(*plan);
}

static void an_object_is_planned_once(void **state)
{
	struct bench *bench = bench_create(CALLTAP_MODE_BLOCK);
	struct calltap_msg_object self = {0};
	struct calltap_msg_plan plan;

	dl_iterate_phdr(find_self, &self);
	report(bench, &self);
	assert_true(next_plan(bench, &plan));
	assert_int_equal(plan.head.type, CALLTAP_MSG_PLAN);
	assert_true(plan.site_count > 5);
	assert_int_equal(plan.region, 0);
	assert_true(plan.near_lo <= (uint64_t)(uintptr_t)&find_self && plan.near_hi > (uint64_t)(uintptr_t)&find_self);
	report(bench, &self);
	assert_false(next_plan(bench, &plan));
	assert_int_equal(bench->process.map_count, 1);
	assert_int_equal(bench->process.owed.plans, 1);
	bench_destroy(bench);
}

static void what_comes_back_keeps_its_region(void **state)
{
	struct bench *bench = bench_create(CALLTAP_MODE_BLOCK);
	struct calltap_msg_object self = {0};
	struct calltap_msg_plan plan;

	dl_iterate_phdr(find_self, &self);
	report(bench, &self);
	assert_true(next_plan(bench, &plan));
	bench->process.maps[0].region = 0x7000000;
	report(bench, NULL);
	report(bench, &self);
	assert_true(next_plan(bench, &plan));
	assert_int_equal(plan.region, 0x7000000);
	assert_int_equal(plan.plan_id, 0);
	assert_int_equal(bench->process.map_count, 1);
	bench_destroy(bench);
}

/* A caller's address is resolved by what lay there when it called. */
static void the_file_tells_what_is_gone(void **state)
{
	struct bench *bench = bench_create(CALLTAP_MODE_BLOCK);
	uint64_t address = (uint64_t)(uintptr_t)&find_self, while_there, while_gone, back;
	struct calltap_msg_object self = {0};
	struct calltap_diag diag;
	struct trace *trace;
	char there[64], gone[64], again[64], raw[64];

	dl_iterate_phdr(find_self, &self);
	report(bench, &self);
	while_there = timing_now(&bench->session).ticks;
	report(bench, NULL);
	while_gone = timing_now(&bench->session).ticks;
	report(bench, &self);
	back = timing_now(&bench->session).ticks;
	assert_int_equal(trace_writer_flush(bench->instance.writer), 0);
	assert_int_equal(trace_open(&trace, bench->path, &diag), 0);
	trace_describe_address(trace, bench->process.index, address, while_there, there, sizeof(there));
	trace_describe_address(trace, bench->process.index, address, while_gone, gone, sizeof(gone));
	trace_describe_address(trace, bench->process.index, address, back, again, sizeof(again));
	snprintf(raw, sizeof(raw), "0x%" PRIx64, address);
	assert_string_equal(gone, raw);
	assert_string_not_equal(there, raw);
	assert_string_equal(again, there);
	trace_close(trace);
	bench_destroy(bench);
}

/* The library is not opened again each time the target loads another one. */
static void a_library_without_sites_is_read_once(void **state)
{
	struct bench *bench = bench_create(CALLTAP_MODE_BLOCK);
	struct calltap_msg_object libc = {0};
	struct calltap_msg_plan plan;

	bench->session.images.stock = STOCK_NEVER; /* in an emulator it may lie where a program's own do */
	dl_iterate_phdr(find_libc, &libc);
	report(bench, &libc);
	assert_false(next_plan(bench, &plan));
	assert_int_equal(bench->process.map_count, 1);
	assert_true(bench->process.maps[0].mapped);
	report(bench, &libc);
	assert_int_equal(bench->process.map_count, 1);
	bench_destroy(bench);
}

/* A second library was at the same place before, and is gone. */
static void a_place_may_have_had_another_object(void **state)
{
	struct bench *bench = bench_create(CALLTAP_MODE_BLOCK);
	struct calltap_msg_object self = {0};
	struct image gone = {.path = (char *)"/gone.so"};
	struct calltap_msg_plan plan;

	dl_iterate_phdr(find_self, &self);
	bench->process.maps = calloc(1, sizeof(*bench->process.maps));
	bench->process.maps[0] =
		(struct target_map){.base = self.base, .dynamic = self.dynamic, .image = &gone, .region = 0x7000000};
	bench->process.map_count = 1;
	report(bench, &self);
	assert_true(next_plan(bench, &plan));
	assert_int_equal(plan.plan_id, 1);
	assert_int_equal(plan.region, 0);
	report(bench, &self);
	assert_false(next_plan(bench, &plan));
	assert_int_equal(bench->process.map_count, 2);
	bench_destroy(bench);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_object_is_planned_once),
		cmocka_unit_test(what_comes_back_keeps_its_region),
		cmocka_unit_test(the_file_tells_what_is_gone),
		cmocka_unit_test(a_library_without_sites_is_read_once),
		cmocka_unit_test(a_place_may_have_had_another_object),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
