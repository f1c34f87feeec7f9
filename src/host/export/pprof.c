/*
 * pprof's profile: one Profile message (github.com/google/pprof, proto/profile.proto), not compressed, as its readers
 * take it, too.
 *
 * Context: host; see export.h.  A sample is a call path with the calls at its end and their self time, and has the
 * thread as labels.  Fields of a message may be in any order and a repeated one in pieces, so locations, functions and
 * strings are written when a sample first needs them, and no table of them is kept.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "../view/names.h"
#include "export.h"
#include "protobuf.h"

enum profile_field {
	PROFILE_SAMPLE_TYPE = 1,
	PROFILE_SAMPLE = 2,
	PROFILE_MAPPING = 3,
	PROFILE_LOCATION = 4,
	PROFILE_FUNCTION = 5,
	PROFILE_STRING = 6,
	PROFILE_DEFAULT_TYPE = 14,
};

enum value_type_field { TYPE_TYPE = 1, TYPE_UNIT = 2 };
enum sample_field { SAMPLE_LOCATION = 1, SAMPLE_VALUE = 2, SAMPLE_LABEL = 3 };
enum label_field { LABEL_KEY = 1, LABEL_TEXT = 2, LABEL_NUMBER = 3 };
enum mapping_field { MAPPING_ID = 1, MAPPING_FILE = 5, MAPPING_BUILD_ID = 6, MAPPING_HAS_FUNCTIONS = 7 };
enum location_field { LOCATION_ID = 1, LOCATION_MAPPING = 2, LOCATION_LINE = 4 };
enum line_field { LINE_FUNCTION = 1, LINE_LINE = 2 };
enum function_field { FUNCTION_ID = 1, FUNCTION_NAME = 2, FUNCTION_SYSTEM = 3, FUNCTION_FILE = 4, FUNCTION_LINE = 5 };

/* Strings that are there before any other, in the order of their numbers. */
enum word { WORD_NONE, WORD_CALLS, WORD_COUNT, WORD_SELF, WORD_NANOSECONDS, WORD_THREAD, WORD_TID, WORD_PID, WORDS };

static const char *const words[WORDS] = {
	[WORD_NONE] = "",
	[WORD_CALLS] = "calls",
	[WORD_COUNT] = "count",
	[WORD_SELF] = "self",
	[WORD_NANOSECONDS] = "nanoseconds",
	[WORD_THREAD] = "thread",
	[WORD_TID] = "tid",
	[WORD_PID] = "pid",
};

#define VARINT_MAX 10u

struct pprof {
	const struct trace *trace;
	struct out *out;
	struct names *names;
	struct export_numbers numbers; /* a function's number + 1 is its id, and that of its location */
	uint64_t strings;	       /* written so far */
	uint64_t *threads;	       /* per thread: its label's string; 0 = not written yet */
	bool *mapped;		       /* per object: its mapping was written */
	uint32_t mapped_room;
};

/* Begin a field of the profile that has bytes; they follow. */
static void put_head(struct pprof *pprof, uint32_t field, size_t size)
{
	uint8_t bytes[2 * VARINT_MAX];
	struct protobuf head;

	protobuf_begin(&head, bytes, sizeof(bytes));
	protobuf_varint(&head, (uint64_t)field << 3 | 2);
	protobuf_varint(&head, size);
	out_bytes(pprof->out, (const char *)bytes, head.used);
}

static void put_field(struct pprof *pprof, uint32_t field, const struct protobuf *message)
{
	put_head(pprof, field, message->used);
	out_bytes(pprof->out, (const char *)message->bytes, message->used);
}

static void put_number(struct pprof *pprof, uint32_t field, uint64_t value)
{
	uint8_t bytes[2 * VARINT_MAX];
	struct protobuf number;

	protobuf_begin(&number, bytes, sizeof(bytes));
	protobuf_u64(&number, field, value);
	out_bytes(pprof->out, (const char *)bytes, number.used);
}

/* Write a string; returns its number. */
static uint64_t put_string(struct pprof *pprof, struct names_text text)
{
	put_head(pprof, PROFILE_STRING, text.length);
	out_bytes(pprof->out, text.text, text.length);
	return pprof->strings++;
}

/* Write a text of any bytes as a string of valid UTF-8; returns its number, that of the empty string for NULL. */
static uint64_t put_text(struct pprof *pprof, const char *text)
{
	char *clean = text && text[0] ? names_clean_dup(text) : NULL;
	uint64_t number = clean ? put_string(pprof, (struct names_text){clean, (uint32_t)strlen(clean)}) : WORD_NONE;

	free(clean);
	return number;
}

static void put_type(struct pprof *pprof, enum word type, enum word unit)
{
	uint8_t bytes[4 * VARINT_MAX];
	struct protobuf message;

	protobuf_begin(&message, bytes, sizeof(bytes));
	protobuf_u64(&message, TYPE_TYPE, type);
	protobuf_u64(&message, TYPE_UNIT, unit);
	put_field(pprof, PROFILE_SAMPLE_TYPE, &message);
}

static void put_profile(struct pprof *pprof)
{
	for (unsigned i = 0; i < WORDS; i++)
		put_string(pprof, (struct names_text){words[i], (uint32_t)strlen(words[i])});
	put_type(pprof, WORD_CALLS, WORD_COUNT);
	put_type(pprof, WORD_SELF, WORD_NANOSECONDS);
	put_number(pprof, PROFILE_DEFAULT_TYPE, WORD_SELF);
}

/* The id of the mapping of an object, which is written at its first use; 0 = none. */
static uint64_t mapping_of(struct pprof *pprof, uint32_t index, int *err)
{
	const struct trace_object *object = trace_object(pprof->trace, index);
	uint8_t bytes[8 * VARINT_MAX];
	char build_id[2 * sizeof(object->build_id) + 1];
	struct protobuf message;

	if (!object)
		return 0;
	if (!export_first_use(&pprof->mapped, &pprof->mapped_room, index, err))
		return (uint64_t)index + 1;
	for (uint32_t i = 0; i < object->build_id_size && i < sizeof(object->build_id); i++) {
		build_id[2 * i] = "0123456789abcdef"[object->build_id[i] >> 4];
		build_id[2 * i + 1] = "0123456789abcdef"[object->build_id[i] & 15];
		build_id[2 * i + 2] = '\0';
	}
	protobuf_begin(&message, bytes, sizeof(bytes));
	protobuf_u64(&message, MAPPING_ID, (uint64_t)index + 1);
	protobuf_u64(&message, MAPPING_FILE, put_text(pprof, object->path));
	protobuf_u64(&message, MAPPING_BUILD_ID, put_text(pprof, object->build_id_size ? build_id : NULL));
	protobuf_u64(&message, MAPPING_HAS_FUNCTIONS, 1); /* so that no reader looks for symbols */
	put_field(pprof, PROFILE_MAPPING, &message);
	return (uint64_t)index + 1;
}

/* Write the mapping of the first process' program: readers take the first one for the program's. */
static int put_program(struct pprof *pprof)
{
	const struct trace_process *process = trace_process(pprof->trace, 0);
	int err = 0;

	for (uint32_t i = 0; process && i < trace_object_count(pprof->trace); i++) {
		const struct trace_object *object = trace_object(pprof->trace, i);

		if (object && strcmp(object->path, process->exe) == 0)
			mapping_of(pprof, i, &err);
	}
	return err;
}

/* The id of a function's location; both are written at the first use. */
static uint64_t location_of(struct pprof *pprof, uint32_t id, int *err)
{
	const struct trace_function *function = trace_function(pprof->trace, id);
	uint8_t bytes[8 * VARINT_MAX], line_bytes[4 * VARINT_MAX];
	struct protobuf message, line;
	bool first;
	uint64_t number = (uint64_t)export_number(&pprof->numbers, id, &first, err) + 1, mapping;

	if (!first)
		return number;
	protobuf_begin(&message, bytes, sizeof(bytes));
	protobuf_u64(&message, FUNCTION_ID, number);
	protobuf_u64(&message, FUNCTION_NAME, put_string(pprof, names_function(pprof->names, id)));
	protobuf_u64(&message, FUNCTION_SYSTEM, put_text(pprof, function ? function->symbol : NULL));
	protobuf_u64(&message, FUNCTION_FILE, put_text(pprof, function ? function->file : NULL));
	protobuf_u64(&message, FUNCTION_LINE, function ? function->line : 0);
	put_field(pprof, PROFILE_FUNCTION, &message);
	mapping = function ? mapping_of(pprof, function->object, err) : 0;
	protobuf_begin(&line, line_bytes, sizeof(line_bytes));
	protobuf_u64(&line, LINE_FUNCTION, number);
	protobuf_u64(&line, LINE_LINE, function ? function->line : 0);
	protobuf_begin(&message, bytes, sizeof(bytes));
	protobuf_u64(&message, LOCATION_ID, number);
	protobuf_u64(&message, LOCATION_MAPPING, mapping);
	protobuf_message(&message, LOCATION_LINE, &line);
	put_field(pprof, PROFILE_LOCATION, &message);
	return number;
}

static void put_label(struct protobuf *sample, enum word key, uint32_t field, uint64_t value)
{
	uint8_t bytes[4 * VARINT_MAX];
	struct protobuf label;

	protobuf_begin(&label, bytes, sizeof(bytes));
	protobuf_u64(&label, LABEL_KEY, key);
	protobuf_u64(&label, field, value);
	protobuf_message(sample, SAMPLE_LABEL, &label);
}

static void put_thread(struct pprof *pprof, struct protobuf *sample, uint32_t index)
{
	const struct trace_thread *thread = trace_thread(pprof->trace, index);
	const struct trace_process *process = thread ? trace_process(pprof->trace, thread->process) : NULL;

	if (!thread)
		return;
	if (!pprof->threads[index])
		pprof->threads[index] = put_string(pprof, names_thread(pprof->names, index));
	put_label(sample, WORD_THREAD, LABEL_TEXT, pprof->threads[index]);
	put_label(sample, WORD_TID, LABEL_NUMBER, thread->tid);
	if (process)
		put_label(sample, WORD_PID, LABEL_NUMBER, process->pid);
}

/* Write the calls at the end of a path, whose first item is a thread. */
static int put_sample(struct pprof *pprof, const struct tree_node *node, const uint32_t *path, int64_t depth)
{
	uint8_t bytes[(EXPORT_DEPTH_MAX + 32) * VARINT_MAX], value_bytes[2 * VARINT_MAX];
	struct protobuf sample, locations, values;
	uint8_t location_bytes[EXPORT_DEPTH_MAX * VARINT_MAX];
	int err = 0;

	protobuf_begin(&locations, location_bytes, sizeof(location_bytes));
	for (int64_t i = depth; i > 0; i--) /* the innermost call is first */
		protobuf_varint(&locations, location_of(pprof, path[i], &err));
	protobuf_begin(&values, value_bytes, sizeof(value_bytes));
	protobuf_varint(&values, node->calls);
	protobuf_varint(&values, node->self_ns);
	protobuf_begin(&sample, bytes, sizeof(bytes));
	protobuf_message(&sample, SAMPLE_LOCATION, &locations);
	protobuf_message(&sample, SAMPLE_VALUE, &values);
	put_thread(pprof, &sample, path[0] & ~TREE_THREAD);
	put_field(pprof, PROFILE_SAMPLE, &sample);
	return err ? err : pprof->out->error;
}

static int put_samples(struct pprof *pprof, const struct tree *tree)
{
	uint32_t path[EXPORT_DEPTH_MAX + 1];
	int64_t depth = -1;
	int err = 0;

	for (uint32_t at = TREE_ROOT; !err && (at = tree_next(tree, at, false, &depth)) != TREE_NONE;) {
		const struct tree_node *node = &tree->nodes[at];

		path[depth] = node->function;
		if (depth && (node->calls || node->self_ns))
			err = put_sample(pprof, node, path, depth);
	}
	return err;
}

static int write_pprof(const struct trace *trace, const struct view_filter *filter,
		       const struct export_options *options, struct out *out, struct walk *walk,
		       struct calltap_diag *diag)
{
	struct pprof pprof = {.trace = trace, .out = out};
	struct tree tree;
	int err = export_tree(&tree, trace, filter, true, walk, diag);

	if (!err)
		err = tree_sort(&tree);
	if (!err)
		err = names_create(&pprof.names, trace);
	if (!err)
		err = export_numbers_init(&pprof.numbers);
	pprof.threads = calloc((size_t)trace_thread_count(trace) + 1, sizeof(*pprof.threads));
	if (!err && !pprof.threads)
		err = -ENOMEM;
	if (!err) {
		put_profile(&pprof);
		err = put_program(&pprof);
	}
	if (!err)
		err = put_samples(&pprof, &tree);
	if (err == -ENOMEM)
		calltap_diag_set(diag, err, "out of memory for the profile: choose less with --time or --tid");
	export_numbers_clear(&pprof.numbers);
	free(pprof.threads);
	free(pprof.mapped);
	names_destroy(pprof.names);
	tree_clear(&tree);
	return err;
}

const struct export_format export_pprof = {.name = "pprof",
					   .summary = "a profile for go tool pprof and its kin",
					   .binary = true,
					   .takes_min = true,
					   .sums = true,
					   .run = write_pprof};
