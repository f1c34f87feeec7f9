/*
 * Small traces made by hand, for the trace room's unit tests.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support.h"

#include "host/trace/callstack.h"

void maker_open(struct maker *maker)
{
	int fd;

	strcpy(maker->path, "/tmp/calltap-test-XXXXXX");
	fd = mkstemp(maker->path);
	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(trace_writer_create(&maker->writer, maker->path, 62, NULL), 0);
	assert_int_equal(record_encoder_create(&maker->encoder), 0);
}

void maker_data(struct maker *maker, uint32_t thread, uint64_t number, const struct say *says, size_t count)
{
	uint64_t *words = calloc(4 * count, sizeof(*words));
	uint64_t high = says[0].ticks >> 32;
	struct encode_result result;
	const void *payload;
	size_t used = 0, size;

	for (size_t i = 0; i < count; i++) {
		if (says[i].ticks >> 32 != high) {
			high = says[i].ticks >> 32;
			words[used++] = calltap_record_make(CALLTAP_REC_TIME, 0, 0);
			words[used++] = says[i].ticks;
		}
		words[used] = calltap_record_make(says[i].kind, says[i].id, (uint32_t)says[i].ticks);
		if (calltap_record_words(words[used++]) == 2)
			words[used++] = says[i].extra;
	}
	assert_int_equal(
		record_encode(maker->encoder, thread, number, says[0].ticks, words, used, &payload, &size, &result), 0);
	assert_int_equal(result.records, count);
	assert_int_equal(trace_writer_chunk(maker->writer, CALLTAP_CHUNK_DATA, payload, size), 0);
	free(words);
}

/* A chunk of a fixed part and a string. */
static void put_named(struct maker *maker, uint32_t type, const void *fixed, size_t size, const char *name)
{
	char payload[512];

	memcpy(payload, fixed, size);
	strcpy(payload + size, name);
	assert_int_equal(trace_writer_chunk(maker->writer, type, payload, size + strlen(name) + 1), 0);
}

void maker_function(struct maker *maker, uint32_t id, uint32_t object, uint64_t address, uint32_t size,
		    const char *symbol)
{
	struct {
		struct calltap_file_functions head;
		struct calltap_file_function function;
	} fixed = {{1, (uint32_t)strlen(symbol) + 1}, {id, object, address, size, 0}};

	put_named(maker, CALLTAP_CHUNK_FUNCTIONS, &fixed, sizeof(fixed), symbol);
}

void maker_thread(struct maker *maker, uint32_t thread, uint32_t process, uint32_t tid, const char *name)
{
	struct calltap_file_thread about = {.thread = thread, .process = process, .tid = tid};

	memcpy(about.name, name, strnlen(name, sizeof(about.name)));
	assert_int_equal(trace_writer_chunk(maker->writer, CALLTAP_CHUNK_THREAD, &about, sizeof(about)), 0);
}

void maker_process(struct maker *maker, const struct calltap_file_process *about, const char *exe)
{
	put_named(maker, CALLTAP_CHUNK_PROCESS, about, sizeof(*about), exe);
}

void maker_object(struct maker *maker, uint32_t object, const char *path)
{
	const struct calltap_file_object about = {object, 4, {1, 2, 3, 4}};

	put_named(maker, CALLTAP_CHUNK_OBJECT, &about, sizeof(about), path);
}

void maker_end(struct maker *maker, uint64_t records)
{
	struct calltap_file_end end = {.records = records, .status = 256};

	assert_int_equal(trace_writer_chunk(maker->writer, CALLTAP_CHUNK_END, &end, sizeof(end)), 0);
}

void maker_close(struct maker *maker)
{
	record_encoder_destroy(maker->encoder);
	maker->encoder = NULL;
	assert_int_equal(trace_writer_close(maker->writer), 0);
	maker->writer = NULL;
}

void maker_remove(struct maker *maker)
{
	unlink(maker->path);
}

static void put_lines(struct maker *maker)
{
	struct {
		struct calltap_file_lines head;
		struct calltap_file_line line;
		char file[12];
	} lines = {{1, 12}, {1, 77, 4}, "xx\0src/a.c"};

	assert_int_equal(trace_writer_chunk(maker->writer, CALLTAP_CHUNK_LINES, &lines, sizeof(lines)), 0);
}

void maker_everything(struct maker *maker)
{
	static const struct say first[] = {
		{CALLTAP_REC_ENTRY, 0, 1000, 0}, {CALLTAP_REC_ENTRY, 1, 1100, 0}, {CALLTAP_REC_EXIT, 1, 1200, 0},
		{CALLTAP_REC_LOST, 0, 1300, 7},	 {CALLTAP_REC_EXIT, 0, 2000, 0},
	};
	static const struct say second[] = {
		{CALLTAP_REC_CALL, 2, 1050, 0x10001234},  {CALLTAP_REC_ENTRY, 2, 1150, 0},
		{CALLTAP_REC_WAIT, 0, 1160, 50},	  {CALLTAP_REC_UNWIND, 1, 1250, 0},
		{CALLTAP_REC_STACK, 0, 1260, 0x7ffc0000},
	};
	const struct calltap_file_clock clocks[] = {{500, 10000, 1}, {3500, 11000, 1001}};
	const struct calltap_file_map map = {0, 0, 0x10000000, 0x10000000, 0x10010000, 500};
	const struct calltap_file_process process = {0, 42, UINT32_MAX, CALLTAP_START_SPAWN, 600, 3000};

	maker_open(maker);
	assert_int_equal(trace_writer_info(maker->writer, "command", "%s", "prog -x"), 0);
	assert_int_equal(trace_writer_info(maker->writer, "host", "old"), 0);
	assert_int_equal(trace_writer_flush(maker->writer), 0);
	assert_int_equal(trace_writer_info(maker->writer, "host", "new\nline"), 0);
	assert_int_equal(trace_writer_chunk(maker->writer, CALLTAP_CHUNK_CLOCK, clocks, sizeof(clocks)), 0);
	maker_process(maker, &process, "/bin/prog");
	maker_object(maker, 0, "/bin/prog");
	assert_int_equal(trace_writer_chunk(maker->writer, CALLTAP_CHUNK_MAP, &map, sizeof(map)), 0);
	maker_function(maker, 0, 0, 0x1000, 0x100, "main");
	maker_function(maker, 1, 0, 0x1100, 0x80, "_ZN3foo3barEi");
	maker_function(maker, 2, 0, 0x1200, 0x80, "_RNvCs1234_7mycrate3foo");
	put_lines(maker);
	maker_thread(maker, 0, 0, 42, "prog");
	maker_thread(maker, 1, 0, 43, "exactly16chars!!");
	maker_data(maker, 0, 0, first, 5);
	maker_data(maker, 1, 0, second, 5);
	assert_int_equal(trace_writer_chunk(maker->writer, 9999, "from the future", 15), 0);
	assert_int_equal(trace_writer_flush(maker->writer), 0);
	maker_end(maker, 10);
	maker_close(maker);
}

unsigned char *file_read(const char *path, size_t *size)
{
	FILE *file = fopen(path, "rb");
	unsigned char *data;

	assert_non_null(file);
	assert_int_equal(fseek(file, 0, SEEK_END), 0);
	*size = (size_t)ftell(file);
	rewind(file);
	data = malloc(*size + 1);
	assert_non_null(data);
	assert_int_equal(fread(data, 1, *size, file), *size);
	fclose(file);
	return data;
}

void file_write(const char *path, const void *data, size_t size)
{
	FILE *file = fopen(path, "wb");

	assert_non_null(file);
	assert_int_equal(fwrite(data, 1, size, file), size);
	assert_int_equal(fclose(file), 0);
}

static void walk_tables(const struct trace *trace)
{
	char text[256];

	for (uint32_t i = 0; i < trace_function_count(trace); i++) {
		const struct trace_function *function = trace_function(trace, i);

		if (function) {
			assert_non_null(function->name);
			assert_true(!function->file || strlen(function->file) < 1u << 20);
			assert_true(function->object == TRACE_NONE || trace_object(trace, function->object));
		}
	}
	for (uint32_t i = 0; i < trace_thread_count(trace); i++) {
		const struct trace_thread *thread = trace_thread(trace, i);

		if (thread) {
			assert_non_null(trace_process(trace, thread->process));
			trace_describe_address(trace, thread->process, 0x10001234, thread->start_ticks, text,
					       sizeof(text));
			assert_true(strlen(text) > 0);
		}
	}
}

static long walk_events(const struct trace *trace, bool *told)
{
	const struct callstack_ops ops = {.on_enter = NULL};
	struct trace_cursor *cursor;
	struct callstack *stack;
	struct calltap_diag diag;
	struct trace_event event;
	uint64_t *last = calloc(trace_thread_count(trace) + 1, sizeof(*last));
	long events = 0;
	int got;

	assert_int_equal(trace_cursor_open(&cursor, trace, NULL, &diag), 0);
	assert_int_equal(callstack_create(&stack, trace, &ops, NULL), 0);
	while ((got = trace_cursor_next(cursor, &event, &diag)) != 0) {
		if (got < 0) {
			assert_true(strlen(diag.text) > 0);
			*told = true;
			continue;
		}
		assert_true(event.thread < trace_thread_count(trace));
		assert_true(event.ticks >= last[event.thread]);
		last[event.thread] = event.ticks;
		assert_true(event.kind != CALLTAP_REC_NONE && event.kind != CALLTAP_REC_TIME);
		assert_non_null(trace_thread(trace, event.thread));
		assert_int_equal(callstack_feed(stack, &event), 0);
		events++;
	}
	callstack_finish(stack, UINT64_MAX);
	callstack_destroy(stack);
	trace_cursor_close(cursor);
	free(last);
	return events;
}

long file_walk(const char *path, bool *told)
{
	struct calltap_diag diag = {.code = 0};
	struct trace *trace;
	long events;
	bool ignored;

	told = told ? told : &ignored;
	*told = true;
	if (trace_open(&trace, path, &diag)) {
		assert_null(trace);
		assert_true(diag.code < 0 && strlen(diag.text) > 0);
		return -1;
	}
	*told = trace_damage(trace) != NULL;
	walk_tables(trace);
	events = walk_events(trace, told);
	trace_close(trace);
	return events;
}

uint64_t random_next(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}
