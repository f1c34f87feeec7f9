/*
 * What calls are made with, and what they give: the options funcgraph-args, funcgraph-retval, funcgraph-retaddr and
 * func-args.
 *
 * The session records values of calls where its setting `registers` says so (host/values/registers.c): an EVENT behind
 * a call's ENTRY or CALL, and one in front of its EXIT, with the same times.  Here they become what the kernel prints.
 * Callers: feed.c as records come in, graph_lines.c, store.c, and controls.c and limits.c where options or the tracer
 * change.  Context: host.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tree.h"

#define CALLER "$caller" /* the field with the address that a call returns to */

/* A text of an event; NULL: there is no memory. */
static char *make(const struct details_head *head, const char *text)
{
	size_t size = strlen(text) + 1;
	char *made = malloc(sizeof(*head) + size);

	if (!made)
		return NULL;
	memcpy(made, head, sizeof(*head));
	memcpy(made + sizeof(*head), text, size);
	return made;
}

/* The event that is being taken in. */
struct taken {
	const struct trace *trace;
	const struct trace_event *record;
	unsigned char bytes[CALLTAP_EVENT_BYTES_MAX];
	size_t used;
	bool faults; /* something could not be read */
};

static void read_bytes(struct taken *taken)
{
	uint32_t type = calltap_event_type(taken->record->id);

	memset(taken->bytes, 0, sizeof(taken->bytes));
	taken->used = trace_event_bytes(taken->record, taken->bytes);
	for (uint32_t i = 0; i < trace_format_fields(taken->trace, type); i++) {
		const struct trace_field *field = trace_format_field(taken->trace, type, i);
		uint32_t faults = 0;

		if (!(field->flags & CALLTAP_FIELD_FAULTS) || field->offset + sizeof(faults) > taken->used)
			continue;
		memcpy(&faults, taken->bytes + field->offset, sizeof(faults));
		taken->faults |= faults != 0;
	}
}

/* An integer, an address or the like, with 64 bits; false: the field is none. */
static bool read_number(const struct taken *taken, const struct trace_field *field, uint64_t *number)
{
	const uint32_t others = CALLTAP_FIELD_TEXT | CALLTAP_FIELD_MISSING | CALLTAP_FIELD_GROUP | CALLTAP_FIELD_FLOAT |
				CALLTAP_FIELD_GUARD | CALLTAP_FIELD_VARIANT | CALLTAP_FIELD_ELEMENT;
	unsigned unused = 8 * (8 - field->size) % 64;

	if (taken->faults || field->flags & others || !field->size || field->size > sizeof(*number) ||
	    field->offset + field->size > taken->used)
		return false;
	*number = 0;
	memcpy(number, taken->bytes + field->offset, field->size);
	if (field->flags & CALLTAP_FIELD_SIGNED)
		*number = (uint64_t)((int64_t)(*number << unused) >> unused);
	return true;
}

/* Is the field a member of the structure that is called so? */
static bool is_member(const struct trace_field *field, const struct trace_field *group)
{
	size_t length = group ? strlen(group->name) : 0;

	return group && !strncmp(field->name, group->name, length) && field->name[length] == '.';
}

static bool is_value(const struct trace_field *field)
{
	return !(field->flags & (CALLTAP_FIELD_FUNCTION | CALLTAP_FIELD_FAULTS | CALLTAP_FIELD_ELEMENT));
}

/* "7 [GREEN]": with the enumerator's name, where the whole number has one; the kernel names no sets of bits. */
static void put_enumeration(const struct taken *taken, const struct trace_field *field, uint64_t number,
			    struct tree_text *out)
{
	char text[TRACE_EVENT_TEXT];

	tree_text_format(out, "%lld", (long long)number);
	if (!trace_event_value(taken->trace, taken->record, field->name, text))
		return;
	if (text[0] != '-' && !(text[0] >= '0' && text[0] <= '9') && !strchr(text, '|'))
		tree_text_format(out, " [%s]", text);
}

/* One argument: numbers with a sign, and of enumerations, in base 10, all others in base 16. */
static void put_argument(const struct taken *taken, const struct trace_field *field, struct tree_text *out)
{
	char text[TRACE_EVENT_TEXT];
	uint64_t number;

	if (!strcmp(field->name, "...")) {
		tree_text_string(out, "...");
		return;
	}
	if (field->name[0])
		tree_text_format(out, "%s=", field->name);
	if (!read_number(taken, field, &number))
		tree_text_string(out, trace_event_value(taken->trace, taken->record, field->name, text) ? text : "?");
	else if (field->flags & CALLTAP_FIELD_ENUM)
		put_enumeration(taken, field, number, out);
	else if (field->flags & CALLTAP_FIELD_SIGNED)
		tree_text_format(out, "%lld", (long long)number);
	else
		tree_text_format(out, "0x%llx", (unsigned long long)number);
}

/* "(a=1, b=0x2)", and the caller; NULL: the event tells nothing, or there is no memory. */
static char *make_arguments(const struct taken *taken)
{
	uint32_t type = calltap_event_type(taken->record->id), count = 0;
	const struct trace_field *group = NULL;
	struct details_head head = {0};
	struct tree_text out = {0};
	char *made = NULL;

	tree_text_string(&out, "(");
	for (uint32_t i = 0; i < trace_format_fields(taken->trace, type); i++) {
		const struct trace_field *field = trace_format_field(taken->trace, type, i);

		if (!is_value(field) || is_member(field, group))
			continue;
		group = field;
		if (!strcmp(field->name, CALLER)) {
			head.has_number = read_number(taken, field, &head.number);
			continue;
		}
		tree_text_string(&out, count++ ? ", " : "");
		put_argument(taken, field, &out);
	}
	head.has_text = count != 0;
	tree_text_add(&out, ")", 2);
	if (!out.failed && (head.has_text || head.has_number))
		made = make(&head, out.bytes);
	tree_text_clear(&out);
	return made;
}

/* The result; NULL as above. */
static char *make_result(const struct taken *taken)
{
	uint32_t type = calltap_event_type(taken->record->id), count = 0;
	const struct trace_field *group = NULL, *first = NULL;
	struct details_head head = {0};
	char text[TRACE_EVENT_TEXT];

	for (uint32_t i = 0; i < trace_format_fields(taken->trace, type); i++) {
		const struct trace_field *field = trace_format_field(taken->trace, type, i);

		if (!is_value(field) || is_member(field, group))
			continue;
		group = field;
		first = count++ ? first : field;
	}
	if (!first)
		return NULL;
	head.has_number = count == 1 && read_number(taken, first, &head.number);
	/* As the register has it: an int's upper half is of no meaning. */
	if (head.has_number && first->size <= sizeof(uint32_t))
		head.number = (uint32_t)head.number;
	if (head.has_number)
		return make(&head, "");
	head.has_text = trace_event_text(taken->trace, taken->record, text) != NULL;
	return head.has_text ? make(&head, text) : NULL;
}

/* The entry of the call that the record is of, the slot's last event; NULL: it is not there, or was consumed. */
static struct tree_event *last_entry(struct tree_instance *instance, uint32_t function)
{
	struct tree_store *store = &instance->store;
	uint32_t slot = instance->source.taking.slot;
	struct tree_event *entry = slot < store->slot_count ? store_at(store, store->slots[slot].last) : NULL;

	return entry && (entry->kind == TREE_ENTRY || entry->kind == TREE_CALL) && entry->function == function &&
			       !entry->taken
		       ? entry
		       : NULL;
}

static void keep_result(struct tree_source *source, uint32_t function, char *text)
{
	const uint32_t slot = source->taking.slot;
	struct details_result *results = tree_grown(source->results, &source->result_count, slot, sizeof(*results));

	if (!results) {
		free(text);
		return;
	}
	source->results = results;
	free(results[slot].text);
	results[slot] = (struct details_result){text, function};
}

bool details_take(struct tree_instance *instance, const struct trace *trace, const struct trace_event *record)
{
	struct taken taken = {.trace = trace, .record = record};
	enum trace_role role = trace_event_role(trace, record);
	struct tree_event *entry;
	uint32_t function;

	if (role == TRACE_ITSELF)
		return false;
	read_bytes(&taken);
	function = trace_event_function(trace, record);
	if (role == TRACE_RESULT) {
		keep_result(&instance->source, function, make_result(&taken));
		return true;
	}
	entry = last_entry(instance, function);
	if (entry)
		store_tell(&instance->store, entry, make_arguments(&taken));
	return true;
}

char *details_result(struct tree_source *source, uint32_t slot, uint32_t function)
{
	struct details_result *result = slot < source->result_count ? &source->results[slot] : NULL;
	char *text = result && result->function == function ? result->text : NULL;

	if (text)
		result->text = NULL;
	return text;
}

void details_forget(struct tree_source *source, uint32_t slot)
{
	if (slot >= source->result_count)
		return;
	free(source->results[slot].text);
	source->results[slot].text = NULL;
}

void details_clear(struct tree_source *source)
{
	for (uint32_t slot = 0; slot < source->result_count; slot++)
		details_forget(source, slot);
	free(source->results);
}
