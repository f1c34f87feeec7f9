/* Events that describe themselves: the FORMATS chunk, their text, and how long the text stays. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support.h"

#include "host/trace/follow.h"

#define POINT 500u

struct formats {
	struct calltap_file_formats head;
	struct calltap_file_field rows[3];
	char strings[32];
};

static struct formats some_formats(void)
{
	struct formats formats = {
		{3, sizeof(formats.strings)},
		{{.type = POINT, .name = 1, .field = 7, .c_type = 9, .offset = 0, .size = 4},
		 {.type = POINT,
		  .name = 1,
		  .field = 13,
		  .c_type = 9,
		  .offset = 4,
		  .size = 2,
		  .flags = CALLTAP_FIELD_SIGNED},
		 {.type = POINT + 1, .name = 15, .field = 7, .c_type = 9, .flags = CALLTAP_FIELD_TEXT}},
		"\0point\0x\0int\0y\0note"};

	return formats;
}

/* Write one chunk of a thread, with an event of that type and these bytes. */
static void put_event(struct maker *maker, uint64_t number, uint32_t type, const void *bytes, uint32_t size)
{
	uint64_t words[CALLTAP_EVENT_WORDS_MAX];
	uint32_t count = calltap_event_pack(words + 1, bytes, size);
	struct encode_result result;
	const void *payload;
	size_t used;

	words[0] = calltap_record_make(CALLTAP_REC_EVENT, calltap_event_id(type, 1 + count), 1000 + (uint32_t)number);
	assert_int_equal(
		record_encode(maker->encoder, 0, number, 1000 + number, words, 1 + count, &payload, &used, &result), 0);
	assert_int_equal(result.events, 1);
	assert_int_equal(trace_writer_chunk(maker->writer, CALLTAP_CHUNK_DATA, payload, used), 0);
}

static void begin(struct maker *maker)
{
	maker_open(maker);
	assert_int_equal(trace_writer_info(maker->writer, "command", "%s", "prog"), 0);
	assert_int_equal(trace_writer_flush(maker->writer), 0);
	maker_thread(maker, 0, 0, 42, "prog");
}

static void expect_next(const struct trace *trace, struct trace_cursor *cursor, const char *name, const char *expected)
{
	char text[TRACE_EVENT_TEXT];
	struct trace_event event;
	const char *found;

	assert_int_equal(trace_cursor_next(cursor, &event, NULL), 1);
	assert_int_equal(event.kind, CALLTAP_REC_EVENT);
	found = trace_event_text(trace, &event, text);
	if (name)
		assert_string_equal(found, name);
	else
		assert_null(found);
	assert_string_equal(text, expected);
}

static void events_have_a_text(void **state)
{
	const struct formats formats = some_formats();
	const unsigned char point[6] = {0xff, 0xff, 0xff, 0xff, 0xfd, 0xff};
	struct trace_cursor *cursor;
	struct maker maker;
	struct trace *trace;
	char longest[CALLTAP_EVENT_BYTES_MAX + 1];

	memset(longest, 'z', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = 0;
	begin(&maker);
	assert_int_equal(trace_writer_formats(maker.writer), 0);
	assert_int_equal(trace_writer_chunk(maker.writer, CALLTAP_CHUNK_FORMATS, &formats, sizeof(formats)), 0);
	put_event(&maker, 0, CALLTAP_EVENT_MARK, "hello, world", 12);
	put_event(&maker, 1, POINT, point, 6);
	put_event(&maker, 2, POINT, point, 4); /* the event ends before its last field */
	put_event(&maker, 3, POINT + 2, point, 6);
	put_event(&maker, 4, CALLTAP_EVENT_TYPE_MAX, point, 6);
	put_event(&maker, 5, POINT + 1, "a\0b", 3);
	put_event(&maker, 6, CALLTAP_EVENT_MARK, "", 0);
	put_event(&maker, 7, POINT + 1, longest, sizeof(longest) - 1);
	maker_end(&maker, 8);
	maker_close(&maker);

	assert_int_equal(trace_open(&trace, maker.path, NULL), 0);
	assert_null(trace_damage(trace));
	assert_int_equal(trace_thread(trace, 0)->records, 8);
	assert_int_equal(trace_thread(trace, 0)->events, 8);
	assert_string_equal(trace_format_name(trace, CALLTAP_EVENT_MARK), "mark");
	assert_int_equal(trace_format_fields(trace, POINT), 2);
	assert_string_equal(trace_format_field(trace, POINT, 1)->name, "y");
	assert_null(trace_format_name(trace, POINT + 2));
	assert_int_equal(trace_cursor_open(&cursor, trace, NULL, NULL), 0);
	expect_next(trace, cursor, "mark", "hello, world");
	expect_next(trace, cursor, "point", "x=4294967295 y=-3");
	expect_next(trace, cursor, "point", "x=4294967295 y=0"); /* words are filled up with zeros */
	expect_next(trace, cursor, NULL, "");
	expect_next(trace, cursor, NULL, "");
	expect_next(trace, cursor, "note", "a");
	expect_next(trace, cursor, "mark", "");
	expect_next(trace, cursor, "note", longest);
	trace_cursor_close(cursor);
	trace_close(trace);
	maker_remove(&maker);
}

/* The shortest number that reads back. */
static void floating_point_has_a_text(void **state)
{
	static const struct {
		const char *text;
		uint32_t size;
		uint64_t bits;
	} cases[] = {
		{"0.0", 8, 0},
		{"-0.0", 4, 0x80000000},
		{"1.0", 4, 0x3f800000},
		{"0.1", 4, 0x3dcccccd},
		{"0.1", 8, 0x3fb999999999999a},
		{"0.30000000000000004", 8, 0x3fd3333333333334},
		{"16777216.0", 4, 0x4b800000},
		{"1e+23", 8, 0x44b52d02c7e14af6},
		{"5e-324", 8, 1},
		{"1e-45", 4, 1},
		{"3.4028235e+38", 4, 0x7f7fffff},
		{"1.7976931348623157e+308", 8, 0x7fefffffffffffff},
		{"inf", 4, 0x7f800000},
		{"-inf", 8, 0xfff0000000000000},
		{"nan", 8, 0x7ff8000000000000},
	};
	struct formats formats = some_formats();
	struct trace_cursor *cursor;
	struct maker maker;
	struct trace *trace;

	formats.rows[0].flags = formats.rows[1].flags = CALLTAP_FIELD_FLOAT;
	formats.rows[0].size = 8;
	formats.rows[1].type = POINT + 1;
	formats.rows[1].offset = 0;
	formats.rows[1].size = 4;
	formats.rows[2].type = POINT + 2;
	begin(&maker);
	assert_int_equal(trace_writer_chunk(maker.writer, CALLTAP_CHUNK_FORMATS, &formats, sizeof(formats)), 0);
	for (uint64_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		put_event(&maker, i, POINT + (cases[i].size == 4), &cases[i].bits, cases[i].size);
	maker_end(&maker, 99);
	maker_close(&maker);
	assert_int_equal(trace_open(&trace, maker.path, NULL), 0);
	assert_int_equal(trace_cursor_open(&cursor, trace, NULL, NULL), 0);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char text[64];

		snprintf(text, sizeof(text), "%c=%s", cases[i].size == 4 ? 'y' : 'x', cases[i].text);
		expect_next(trace, cursor, "point", text);
	}
	trace_cursor_close(cursor);
	trace_close(trace);
	maker_remove(&maker);
}

/* Rows that are in no event are damage; what else is in the file is read. */
static void broken_formats_are_damage(void **state)
{
	for (int broken = 0; broken < 10; broken++) {
		struct formats formats = some_formats();
		size_t size = sizeof(formats);
		struct maker maker;
		struct trace *trace;

		switch (broken) {
		case 1:
			formats.rows[0].type = CALLTAP_EVENT_TYPE_MAX + 1;
			break;
		case 2:
			formats.rows[1].name = sizeof(formats.strings);
			break;
		case 3:
			formats.rows[1].field = UINT32_MAX;
			break;
		case 4:
			formats.rows[1].c_type = sizeof(formats.strings);
			break;
		case 5:
			formats.rows[2].offset = CALLTAP_EVENT_BYTES_MAX + 1;
			break;
		case 6:
			formats.rows[2].offset = 1;
			formats.rows[2].size = UINT32_MAX;
			break;
		case 7:
			formats.rows[0].size = 3;
			break;
		case 8:
			formats.head.count = 4;
			break;
		case 9:
			size -= 1;
			break;
		default:
			break;
		}
		begin(&maker);
		assert_int_equal(trace_writer_chunk(maker.writer, CALLTAP_CHUNK_FORMATS, &formats, size), 0);
		assert_int_equal(trace_writer_formats(maker.writer), 0);
		put_event(&maker, 0, CALLTAP_EVENT_MARK, "hello", 5);
		maker_end(&maker, 1);
		maker_close(&maker);
		assert_int_equal(trace_open(&trace, maker.path, NULL), 0);
		assert_int_equal(trace_damage(trace) != NULL, broken != 0);
		assert_string_equal(trace_format_name(trace, CALLTAP_EVENT_MARK), "mark");
		trace_close(trace);
		maker_remove(&maker);
	}
}

/* A text whose size is told where it is cut, and what a broken event may hold in its place. */
static void a_cut_text_tells_its_size(void **state)
{
	static const struct {
		struct calltap_file_formats head;
		struct calltap_file_field row;
		char strings[16];
	} formats = {
		{1, sizeof(formats.strings)},
		{.type = POINT,
		 .name = 1,
		 .field = 6,
		 .c_type = 8,
		 .size = 4,
		 .flags = CALLTAP_FIELD_TEXT | CALLTAP_FIELD_PLACED | CALLTAP_FIELD_COUNTED | CALLTAP_FIELD_ARGUMENT},
		"\0call\0t\0text"};
	static const struct {
		struct calltap_event_place place;
		const char *text;
	} wanted[] = {
		{{4, 3}, "t=\"abc\""},
		{{4, 3 | CALLTAP_PLACE_CUT}, "t=\"abc\"...(258 bytes)"},
		{{4, 3 | CALLTAP_PLACE_FAULT}, "t=\"abc\"(fault)"},
		{{4, CALLTAP_PLACE_NULL}, "t=NULL"},
		{{4, CALLTAP_PLACE_FAULT}, "t=(fault)"},
		{{4, 4 | CALLTAP_PLACE_CUT}, "t=\"abc\\002\"..."}, /* no size is behind it */
		{{400, 3 | CALLTAP_PLACE_CUT}, "t="},
		{{15, CALLTAP_PLACE_SIZE | CALLTAP_PLACE_CUT}, "t=\"\\000\\000\\000\\000\\000\\000\"..."},
	};
	struct trace_cursor *cursor;
	struct maker maker;
	struct trace *trace;

	begin(&maker);
	assert_int_equal(trace_writer_chunk(maker.writer, CALLTAP_CHUNK_FORMATS, &formats, sizeof(formats)), 0);
	for (unsigned i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
		unsigned char bytes[15] = {0, 0, 0, 0, 'a', 'b', 'c', 2, 1};

		memcpy(bytes, &wanted[i].place, sizeof(wanted[i].place));
		put_event(&maker, i, POINT, bytes, i == 5 ? 10 : sizeof(bytes));
	}
	maker_end(&maker, sizeof(wanted) / sizeof(wanted[0]));
	maker_close(&maker);
	assert_int_equal(trace_open(&trace, maker.path, NULL), 0);
	assert_int_equal(trace_cursor_open(&cursor, trace, NULL, NULL), 0);
	for (unsigned i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++)
		expect_next(trace, cursor, "call", wanted[i].text);
	trace_cursor_close(cursor);
	trace_close(trace);
	maker_remove(&maker);
}

/* Lists in the event's bytes and at a place, and rows and places that are broken. */
static void lists_have_a_text(void **state)
{
	static const struct {
		uint32_t size, flags; /* of the element */
		struct calltap_event_place place;
		const char *text;
	} cases[] = {
		{2, CALLTAP_FIELD_SIGNED, {8, 4}, "l={2: 1, -2}, a={1, -2}"},
		{2, 0, {8, 4 | CALLTAP_PLACE_CUT}, "l={130: 1, 65534, ...}, a={1, 65534}"},
		{1, CALLTAP_FIELD_BOOL, {8, 0}, "l={}, a={true, false, 254, 255}"},
		{4, CALLTAP_FIELD_HEX, {8, CALLTAP_PLACE_FAULT}, "l=(fault), a={0xfffe0001}"},
		{2, 0, {8, 2 | CALLTAP_PLACE_FAULT}, "l={1}(fault), a={1, 65534}"},
		{4, 0, {8, CALLTAP_PLACE_NULL}, "l=NULL, a={4294836225}"},
		{300, CALLTAP_FIELD_TEXT, {12, CALLTAP_PLACE_CUT}, "l={0: ...}, a={...}"},
		{4, CALLTAP_FIELD_FLOAT, {500, 4}, "l=, a={nan}"},
		{8, 0, {8, CALLTAP_PLACE_SIZE | CALLTAP_PLACE_CUT}, "l={1: 1120986333185, ...}, a={...}"},
		{4, CALLTAP_FIELD_ENUM, {8, 4}, "l={1: 4294836225}, a={4294836225}"},
		{3, 0, {8, 4}, NULL},
		{0, CALLTAP_FIELD_TEXT, {8, 4}, NULL},
		{16, 0, {8, 4}, NULL},
	};

	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const uint32_t text = CALLTAP_FIELD_TEXT | CALLTAP_FIELD_ARGUMENT;
		const struct {
			struct calltap_file_formats head;
			struct calltap_file_field rows[4];
			char strings[16];
		} formats = {{4, sizeof(formats.strings)},
			     {{.type = POINT,
			       .name = 1,
			       .field = 6,
			       .size = 4,
			       .flags = text | CALLTAP_FIELD_PLACED | CALLTAP_FIELD_COUNTED},
			      {.type = POINT,
			       .name = 1,
			       .field = 6,
			       .size = cases[i].size,
			       .flags = cases[i].flags | CALLTAP_FIELD_ELEMENT | CALLTAP_FIELD_ARGUMENT},
			      {.type = POINT, .name = 1, .field = 8, .offset = 8, .size = 4, .flags = text},
			      {.type = POINT,
			       .name = 1,
			       .field = 8,
			       .size = cases[i].size,
			       .offset = UINT32_MAX,
			       .flags = cases[i].flags | CALLTAP_FIELD_ELEMENT | CALLTAP_FIELD_ARGUMENT}},
			     "\0call\0l\0a"};
		unsigned char bytes[21] = {[8] = 1, [10] = 0xfe, [11] = 0xff, [12] = 4, [13] = 1};
		struct trace_cursor *cursor;
		struct maker maker;
		struct trace *trace;

		memcpy(bytes, &cases[i].place, sizeof(cases[i].place));
		begin(&maker);
		assert_int_equal(trace_writer_chunk(maker.writer, CALLTAP_CHUNK_FORMATS, &formats, sizeof(formats)), 0);
		put_event(&maker, 0, POINT, bytes, sizeof(bytes));
		maker_end(&maker, 1);
		maker_close(&maker);
		assert_int_equal(trace_open(&trace, maker.path, NULL), 0);
		assert_int_equal(trace_damage(trace) != NULL, !cases[i].text);
		assert_int_equal(trace_cursor_open(&cursor, trace, NULL, NULL), 0);
		if (cases[i].text)
			expect_next(trace, cursor, "call", cases[i].text);
		trace_cursor_close(cursor);
		trace_close(trace);
		maker_remove(&maker);
	}
}

struct row {
	const char *name;
	uint32_t offset, size, flags;
	const char *more;
};

/* An event of such fields, all of a call's arguments, has this text. */
static void expect_text(const struct row *rows, uint32_t count, const void *bytes, uint32_t size, const char *text)
{
	struct {
		struct calltap_file_formats head;
		struct calltap_file_field rows[20];
		char strings[1000];
	} formats = {.strings = "\0call"};
	uint32_t used = 6;
	struct trace_cursor *cursor;
	struct maker maker;
	struct trace *trace;

	assert_true(count <= 20);
	for (uint32_t i = 0; i < count; i++) {
		formats.rows[i] = (struct calltap_file_field){.type = POINT,
							      .name = 1,
							      .field = used,
							      .offset = rows[i].offset,
							      .size = rows[i].size,
							      .flags = rows[i].flags | CALLTAP_FIELD_ARGUMENT};
		used += (uint32_t)strlen(strcpy(formats.strings + used, rows[i].name)) + 1;
		if (!rows[i].more)
			continue;
		formats.rows[i].more = used;
		used += (uint32_t)strlen(strcpy(formats.strings + used, rows[i].more)) + 1;
		assert_true(used < sizeof(formats.strings));
	}
	/* The strings come behind the rows that are there. */
	memmove((char *)&formats.rows[count], formats.strings, used);
	formats.head = (struct calltap_file_formats){count, used};
	begin(&maker);
	assert_int_equal(trace_writer_chunk(maker.writer, CALLTAP_CHUNK_FORMATS, &formats,
					    sizeof(formats.head) + count * sizeof(formats.rows[0]) + used),
			 0);
	put_event(&maker, 0, POINT, bytes, size);
	maker_end(&maker, 1);
	maker_close(&maker);
	assert_int_equal(trace_open(&trace, maker.path, NULL), 0);
	assert_null(trace_damage(trace));
	assert_int_equal(trace_cursor_open(&cursor, trace, NULL, NULL), 0);
	expect_next(trace, cursor, "call", text);
	trace_cursor_close(cursor);
	trace_close(trace);
	maker_remove(&maker);
}

/* The texts of a list, at places of their own: as many as the list has; rows and places that are broken show nothing.
 */
static void lists_of_texts(void **state)
{
	enum { PLACED = CALLTAP_FIELD_TEXT | CALLTAP_FIELD_PLACED | CALLTAP_FIELD_COUNTED };
	static const struct row rows[] = {
		{"l", 0, 4, PLACED, NULL},
		{"l", 0, 32, CALLTAP_FIELD_TEXT | CALLTAP_FIELD_ELEMENT, NULL},
		{"l", 4, 4, PLACED | CALLTAP_FIELD_ELEMENT, NULL},
		{"l", 8, 4, PLACED | CALLTAP_FIELD_ELEMENT, NULL},
		{"n", 12, 1, 0, NULL},
	};
	static const struct row beyond[] = {
		{"l", 0, 4, PLACED, NULL},
		{"l", 0, 32, CALLTAP_FIELD_TEXT | CALLTAP_FIELD_ELEMENT, NULL},
		{"l", UINT32_MAX, 4, PLACED | CALLTAP_FIELD_ELEMENT, NULL},
	};
	static const struct {
		struct calltap_event_place list, texts[2];
		uint8_t size; /* of the list, in bytes */
		const char *text;
	} cases[] = {
		{{16, CALLTAP_PLACE_CUT}, {{24, 1}, {25, 2}}, 64, "l={2: \"a\", \"bc\"}, n=7"},
		{{16, CALLTAP_PLACE_CUT}, {{24, 1}, {25, 0}}, 96, "l={3: \"a\", \"\", ...}, n=7"},
		{{16, CALLTAP_PLACE_CUT}, {{24, 3}, {0, CALLTAP_PLACE_NULL}}, 32, "l={1: \"abc\"}, n=7"},
		{{16, CALLTAP_PLACE_CUT}, {{24, CALLTAP_PLACE_FAULT}, {900, 3}}, 64, "l={2: (fault), }, n=7"},
		{{16, 0}, {{24, 1}, {25, 2}}, 0, "l={}, n=7"},
		{{16, CALLTAP_PLACE_FAULT}, {{24, 1}, {25, 2}}, 0, "l=(fault), n=7"},
		{{0, CALLTAP_PLACE_NULL}, {{24, 1}, {25, 2}}, 0, "l=NULL, n=7"},
	};

	(void)state;
	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		unsigned char bytes[27] = {[12] = 7, [16] = cases[i].size, [24] = 'a', [25] = 'b', [26] = 'c'};

		memcpy(bytes, &cases[i].list, 4);
		memcpy(bytes + 4, cases[i].texts, 8);
		expect_text(rows, 5, bytes, sizeof(bytes), cases[i].text);
		if (!i)
			expect_text(beyond, 3, bytes, sizeof(bytes), "l={2: ...}");
	}
}

#define OF_ELEMENT CALLTAP_FIELD_ELEMENT
#define OF_STRUCT  (CALLTAP_FIELD_ELEMENT | CALLTAP_FIELD_TEXT | CALLTAP_FIELD_GROUP)

/* Lists of structures, of lists and of texts. */
static void lists_of_structures_have_a_text(void **state)
{
	static const struct row rows[] = {
		{"p", 0, 0, CALLTAP_FIELD_TEXT | CALLTAP_FIELD_MISSING | CALLTAP_FIELD_GROUP, "struct"},
		{"p.at", 0, 8, CALLTAP_FIELD_TEXT | CALLTAP_FIELD_CUT, NULL},
		{"p.at", 0, 4, OF_STRUCT | CALLTAP_FIELD_CUT, NULL},
		{"p.at.x", 0, 1, OF_ELEMENT | CALLTAP_FIELD_SIGNED, NULL},
		{"p.at.in.tag", 1, 2, OF_ELEMENT | CALLTAP_FIELD_TEXT, NULL},
		{"p.at.in.gone", 0, 1, OF_ELEMENT | CALLTAP_FIELD_TEXT | CALLTAP_FIELD_MISSING, "list"},
		{"p.m", 8, 4, CALLTAP_FIELD_TEXT, NULL},
		{"p.m", 0, 2, OF_ELEMENT | CALLTAP_FIELD_TEXT, NULL},
		{"p.m", 0, 1, OF_ELEMENT, NULL},
		{"p.names", 0, 6, CALLTAP_FIELD_TEXT, NULL},
		{"p.names", 0, 3, OF_ELEMENT | CALLTAP_FIELD_TEXT | CALLTAP_FIELD_CHAR, NULL},
		{"l", 12, 4, CALLTAP_FIELD_TEXT | CALLTAP_FIELD_PLACED | CALLTAP_FIELD_COUNTED, NULL},
		{"l", 0, 30, OF_STRUCT, NULL},
		{"l.deep", 0, 2, OF_ELEMENT | CALLTAP_FIELD_TEXT, NULL},
		{"l.deep", 0, 1, OF_STRUCT, NULL},
		{"l.deep.n", 0, 1, OF_ELEMENT, NULL},
		{"l.far", 28, 2, OF_ELEMENT, NULL},
		{"last", 7, 1, 0, NULL},
	};
	/* A list at a place is cut within its first element, and so has its size behind it. */
	unsigned char bytes[28] = {0xff, 'a', 'b', 0, 2, 'c', 0, 9, 1, 2, 3, 4, [16] = 5, 6};
	const struct calltap_event_place place = {16, 4 | CALLTAP_PLACE_CUT};

	memcpy(bytes + 12, &place, sizeof(place));
	bytes[20] = 90;
	expect_text(rows, sizeof(rows) / sizeof(rows[0]), bytes, sizeof(bytes),
		    "p={at={{x=-1, in={tag=\"ab\", gone=(list)}, ...}, {x=2, in={tag=\"c\", gone=(list)}, ...}, ...}, "
		    "m={{1, 2}, {3, 4}}, names={\"\\377ab\", \"\"}}, l={3: {deep={{n=5}, {n=6}}, ...}, ...}, last=9");
}

/* What has one of several structures, within another one, and in a list. */
static void variants_have_a_text(void **state)
{
	static const struct row rows[] = {
		{"s", 0, 0, CALLTAP_FIELD_TEXT | CALLTAP_FIELD_MISSING | CALLTAP_FIELD_GROUP, "struct"},
		{"s.variant", 0, 1, CALLTAP_FIELD_ENUM | CALLTAP_FIELD_VARIANT,
		 "Circle=1:1,Rect=2:3,None=3:0,Text=*:4"},
		{"s.Circle.__0", 1, 1, 0, NULL},
		{"s.Rect.w", 1, 1, 0, NULL},
		{"s.Rect.h", 2, 1, CALLTAP_FIELD_SIGNED, NULL},
		{"s.Text.__0.variant", 1, 1, CALLTAP_FIELD_ENUM | CALLTAP_FIELD_VARIANT, "A=1:1,B=0:1"},
		{"s.Text.__0.A.__0", 2, 1, 0, NULL},
		{"s.Text.__1", 3, 1, 0, NULL},
		{"l", 4, 2, CALLTAP_FIELD_TEXT, NULL},
		{"l", 0, 1, OF_STRUCT, NULL},
		{"l.variant", 0, 1, OF_ELEMENT | CALLTAP_FIELD_ENUM | CALLTAP_FIELD_VARIANT, "X=7:0,Y=*:1"},
		{"l.Y.__0", 0, 1, OF_ELEMENT, NULL},
	};
	static const struct {
		unsigned char bytes[7];
		const char *text;
	} cases[] = {
		{{1, 5, 6, 7, 7, 8}, "s=Circle(5), l={X, Y(8)}"},
		{{2, 5, 0xff, 7, 7, 7}, "s=Rect{w=5, h=-1, ...}, l={X, X}"},
		{{3, 5, 6, 7, 7, 7}, "s=None, l={X, X}"},
		{{9, 1, 6, 7, 7, 7}, "s=Text(A(6), 7, ...), l={X, X}"},
		{{0, 0, 6, 7, 7, 7}, "s=Text(B(...), 7, ...), l={X, X}"},
		{{0, 2, 6, 7, 7, 7}, "s=Text(2, 7, ...), l={X, X}"},
	};

	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		expect_text(rows, sizeof(rows) / sizeof(rows[0]), cases[i].bytes, sizeof(cases[i].bytes),
			    cases[i].text);
}

/* What is there, but is called as if it were not, has that around it. */
static void absent_values_within_others_have_a_text(void **state)
{
	static const struct row rows[] = {
		{"a", 0, 0, CALLTAP_FIELD_TEXT | CALLTAP_FIELD_MISSING | CALLTAP_FIELD_GROUP, "struct"},
		{"a.has_value", 0, 1, CALLTAP_FIELD_ENUM | CALLTAP_FIELD_GUARD, "None=0"},
		{"a.value.has_value", 1, 1, CALLTAP_FIELD_ENUM | CALLTAP_FIELD_GUARD, "None=0"},
		{"a.value.value.variant", 2, 1, CALLTAP_FIELD_ENUM | CALLTAP_FIELD_VARIANT, "None=0:0,Some=1:1"},
		{"a.value.value.Some.__0", 3, 1, 0, NULL},
		{"c", 0, 0, CALLTAP_FIELD_TEXT | CALLTAP_FIELD_MISSING | CALLTAP_FIELD_GROUP, "struct"},
		{"c.has_value", 4, 1, CALLTAP_FIELD_ENUM | CALLTAP_FIELD_GUARD, "nullopt=0"},
		{"c.value.has_value", 5, 1, CALLTAP_FIELD_ENUM | CALLTAP_FIELD_GUARD, "nullopt=0"},
		{"c.value.value", 6, 1, 0, NULL},
	};
	static const struct {
		unsigned char bytes[7];
		const char *text;
	} cases[] = {
		{{0, 1, 1, 5, 0, 1, 7}, "a=None, c=nullopt"},
		{{1, 0, 1, 5, 1, 0, 7}, "a=Some(None), c={nullopt}"},
		{{1, 1, 0, 5, 1, 1, 7}, "a=Some(Some(None)), c=7"},
		{{1, 1, 1, 5, 1, 1, 0}, "a=Some(5), c=0"},
	};

	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		expect_text(rows, sizeof(rows) / sizeof(rows[0]), cases[i].bytes, sizeof(cases[i].bytes),
			    cases[i].text);
}

/* x86's and binary128, the shortest that reads back. */
static void long_doubles_have_a_text(void **state)
{
	static const struct {
		uint32_t size;
		uint64_t high, low; /* of 10 bytes, `high` has the upper two */
		const char *text;
	} cases[] = {
		{10, 0, 0, "0.0"},
		{10, 0x8000, 0, "-0.0"},
		{10, 0x3fff, 0x8000000000000000, "1.0"},
		{10, 0x3ffb, 0xcccccccccccccccd, "0.1"},
		{10, 0xbffd, 0xaaaaaaaaaaaaaaab, "-0.33333333333333333334"},
		{10, 0x7ffe, 0xffffffffffffffff, "1.189731495357231765e+4932"},
		{10, 0, 1, "4e-4951"},
		{10, 0x7fff, 0x8000000000000000, "inf"},
		{10, 0xffff, 0xc000000000000000, "nan"},
		{10, 0x3fff, 0x4000000000000000, "nan"}, /* no number of x86's */
		{16, 0x3fff000000000000, 0, "1.0"},
		{16, 0x3ffb999999999999, 0x999999999999999a, "0.1"},
		{16, 0x3ffd555555555555, 0x5555555555555555, "0.3333333333333333333333333333333333"},
		{16, 0x7ffeffffffffffff, 0xffffffffffffffff, "1.189731495357231765085759326628007e+4932"},
		{16, 0, 1, "6e-4966"},
		{16, 0xffff000000000000, 0, "-inf"},
		{16, 0x7fff800000000000, 0, "nan"},
	};

	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct row row = {"x", 0, cases[i].size,
					CALLTAP_FIELD_TEXT | CALLTAP_FIELD_MISSING | CALLTAP_FIELD_FLOAT,
					"long double"};
		unsigned char bytes[21] = {0};
		char text[100];

		memcpy(bytes, &cases[i].low, 8);
		memcpy(bytes + 8, &cases[i].high, cases[i].size - 8);
		snprintf(text, sizeof(text), "x=%s", cases[i].text);
		expect_text(&row, 1, bytes, cases[i].size, text);
	}
}

/* Rows that describe lists in lists for ever, or what is not there, end in a word. */
static void broken_lists_have_an_end(void **state)
{
	struct row rows[20] = {{"l", 0, 7, CALLTAP_FIELD_TEXT, NULL}};
	unsigned char bytes[7] = {1, 2, 3, 4, 5, 6, 7};

	for (unsigned i = 1; i < 20; i++)
		rows[i] = (struct row){"l", UINT32_MAX, 7, OF_ELEMENT | CALLTAP_FIELD_TEXT, NULL};
	expect_text(rows, 20, bytes, sizeof(bytes), "l={{{{{{{{{...}}}}}}}}}");
	rows[1] = (struct row){"l", 0, 1, OF_STRUCT, NULL};
	rows[2] = (struct row){"l.x", UINT32_MAX, 4, OF_ELEMENT, NULL};
	expect_text(rows, 3, bytes, 2, "l={{...}, {...}, {...}, {...}, {...}, {...}, {...}}");
	rows[2] = (struct row){"other", 0, 4, OF_ELEMENT, NULL};
	expect_text(rows, 3, bytes, 2, "l={{}, {}, {}, {}, {}, {}, {}}");
}

static void a_later_description_replaces_the_earlier(void **state)
{
	struct formats formats = some_formats();
	struct maker maker;
	struct trace *trace;

	begin(&maker);
	assert_int_equal(trace_writer_chunk(maker.writer, CALLTAP_CHUNK_FORMATS, &formats, sizeof(formats)), 0);
	formats.rows[0].name = formats.rows[1].name = 15;
	assert_int_equal(trace_writer_chunk(maker.writer, CALLTAP_CHUNK_FORMATS, &formats, sizeof(formats)), 0);
	maker_close(&maker);
	assert_int_equal(trace_open(&trace, maker.path, NULL), 0);
	assert_string_equal(trace_format_name(trace, POINT), "note");
	assert_int_equal(trace_format_fields(trace, POINT), 2);
	trace_close(trace);
	maker_remove(&maker);
}

/* For a follower, too, an event's words stay until it asks for the next event: here each event has a chunk of its own.
 */
static void a_followed_event_stays_until_the_next(void **state)
{
	enum { COUNT = 50 };
	struct trace_follow *follow;
	struct trace_event event;
	struct maker maker;
	char text[TRACE_EVENT_TEXT], expected[16];
	int fd;

	begin(&maker);
	assert_int_equal(trace_writer_formats(maker.writer), 0);
	for (int i = 0; i < COUNT; i++) {
		snprintf(expected, sizeof(expected), "event %d", i);
		put_event(&maker, (uint64_t)i, CALLTAP_EVENT_MARK, expected, (uint32_t)strlen(expected));
	}
	maker_close(&maker);
	fd = open(maker.path, O_RDWR);
	assert_true(fd >= 0);
	assert_int_equal(trace_follow_create(&follow, fd, 1u << 20), 0);
	assert_int_equal(trace_follow_poll(follow), 0);
	trace_follow_finish(follow);
	for (int i = 0; i < COUNT; i++) {
		snprintf(expected, sizeof(expected), "event %d", i);
		assert_int_equal(trace_follow_next(follow, &event), 1);
		assert_string_equal(trace_event_text(trace_follow_trace(follow), &event, text), "mark");
		assert_string_equal(text, expected);
	}
	assert_int_equal(trace_follow_next(follow, &event), 0);
	trace_follow_destroy(follow);
	close(fd);
	maker_remove(&maker);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(events_have_a_text),
		cmocka_unit_test(floating_point_has_a_text),
		cmocka_unit_test(broken_formats_are_damage),
		cmocka_unit_test(a_later_description_replaces_the_earlier),
		cmocka_unit_test(a_followed_event_stays_until_the_next),
		cmocka_unit_test(a_cut_text_tells_its_size),
		cmocka_unit_test(lists_have_a_text),
		cmocka_unit_test(lists_of_texts),
		cmocka_unit_test(lists_of_structures_have_a_text),
		cmocka_unit_test(broken_lists_have_an_end),
		cmocka_unit_test(variants_have_a_text),
		cmocka_unit_test(absent_values_within_others_have_a_text),
		cmocka_unit_test(long_doubles_have_a_text),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
