/*
 * Reading what is to be fetched (spec.h).  Context: host.
 */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <calltap/abi/program.h>

#include "spec.h"

#define BLANKS	   " \t"
#define OFFSET_MAX (1 << 30)

bool spec_refuse(struct spec_reader *reader, const char *why)
{
	/* The first reason is the one of the place that was got to. */
	if (!reader->why || reader->at > reader->wrong) {
		reader->wrong = reader->at;
		reader->why = why;
	}
	return false;
}

static bool take(struct spec_reader *reader, const char *word)
{
	size_t length = strlen(word);

	if (strncmp(reader->at, word, length) != 0)
		return false;
	reader->at += length;
	return true;
}

/* Take a number without a sign that is not above `most`. */
static bool take_number(struct spec_reader *reader, unsigned long most, unsigned long *number)
{
	char *end;

	if (!isdigit((unsigned char)*reader->at))
		return spec_refuse(reader, "a number is missing");
	*number = strtoul(reader->at, &end, 0);
	if (*number > most)
		return spec_refuse(reader, "the number is too large");
	reader->at = end;
	return true;
}

static void take_name(struct spec_reader *reader, struct spec_field *field)
{
	size_t length = 0;

	while (spec_is_word(reader->at[length]))
		length++;
	if (!length || reader->at[length] != '=' || isdigit((unsigned char)*reader->at) || length >= SPEC_NAME)
		return;
	memcpy(field->name, reader->at, length);
	field->name[length] = 0;
	reader->at += length + 1;
}

/* Take "xmm0", which is there at the call and at the return; whether the CPU has it is known later. */
static bool take_vector(struct spec_reader *reader, struct spec_field *field)
{
	static const char why[] =
		"the registers that can be named are %xmm0 to %xmm7 (AArch64: %d0 to %d7; RISC-V: %fa0 to %fa7)";
	static const char *const names[] = {"xmm", "d", "fa"};
	const char *start = reader->at;
	unsigned long number = 0;

	for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]) && !field->vectors; i++)
		if (take(reader, names[i]))
			field->vectors = names[i];
	if (!field->vectors)
		return spec_refuse(reader, why);
	if (!take_number(reader, CALLTAP_PROGRAM_VECTORS - 1, &number) || spec_is_word(*reader->at)) {
		reader->at = start;
		return spec_refuse(reader, why);
	}
	field->vector = (uint8_t)(number + 1);
	return true;
}

/* What tells who calls: its name behind "$", and its type. */
static const struct caller {
	const char *name;
	uint8_t caller, type, size;
} callers[] = {
	{"pid", SPEC_PID, SPEC_SIGNED, 4},
	{"tid", SPEC_TID, SPEC_SIGNED, 4},
	{"comm", SPEC_COMM, SPEC_STRING, CALLTAP_PROGRAM_COMM},
	{"time", SPEC_TIME, SPEC_UNSIGNED, 8},
	{"caller", SPEC_CALLER, SPEC_POINTER, 8},
	{"stack", SPEC_STACK, SPEC_UNSIGNED, 4},
};

static const struct caller *find_caller(uint8_t caller)
{
	size_t i = 0;

	while (callers[i].caller != caller)
		i++;
	return &callers[i];
}

/* Take "$tid", known at the call and at the return; false: it is something else. */
static bool take_caller(struct spec_reader *reader, struct spec_field *field)
{
	for (size_t i = 0; i < sizeof(callers) / sizeof(callers[0]) && *reader->at == '$'; i++) {
		size_t length = strlen(callers[i].name);

		if (strncmp(reader->at + 1, callers[i].name, length) != 0 || spec_is_word(reader->at[1 + length]))
			continue;
		field->caller = callers[i].caller;
		reader->at += 1 + length;
		return true;
	}
	return false;
}

/* Take "arg1" or "ret", the innermost part of a FETCH. */
static bool take_base(struct spec_reader *reader, struct spec_field *field, bool result)
{
	const char *start = reader->at;
	unsigned long number = 0;

	if (take(reader, "%"))
		return take_vector(reader, field);
	if (take_caller(reader, field))
		return true;
	(void)take(reader, "$");
	if (take(reader, "retval") || take(reader, "ret")) {
		if (result && !spec_is_word(*reader->at))
			return true;
		reader->at = start;
		return spec_refuse(reader,
				   result ? "this is no value" : "the result is known at the return alone: --result");
	}
	if (!take(reader, "arg")) {
		reader->at = start;
		return spec_refuse(reader,
				   "a value is arg1, arg2, ..., ret, %xmm0, $pid, $tid, $comm, $time, $caller, or "
				   "+OFFSET(VALUE)");
	}
	if (result) {
		reader->at = start;
		return spec_refuse(reader, "arguments are known at the call alone: --args");
	}
	if (!take_number(reader, SPEC_ARGUMENTS, &number) || !number || spec_is_word(*reader->at))
		return spec_refuse(reader, "arguments are arg1 to arg24");
	field->argument = (uint8_t)number;
	return true;
}

static bool take_fetch(struct spec_reader *reader, struct spec_field *field, bool result)
{
	int32_t outer[SPEC_OFFSETS] = {0};
	uint8_t count = 0;

	while (*reader->at == '+' || *reader->at == '-') {
		bool minus = *reader->at++ == '-';
		unsigned long number = 0;

		if (!take_number(reader, OFFSET_MAX, &number))
			return false;
		if (!take(reader, "("))
			return spec_refuse(reader, "'(' is missing");
		if (count == SPEC_OFFSETS)
			return spec_refuse(reader, "too many offsets");
		outer[count++] = minus ? -(int32_t)number : (int32_t)number;
	}
	if (!take_base(reader, field, result))
		return false;
	if (count && field->caller)
		return spec_refuse(reader, "who calls is no address");
	if (count && field->vector)
		return spec_refuse(reader, "a register of floating-point numbers holds no address");
	field->offset_count = count;
	for (uint8_t i = 0; i < count; i++) {
		field->offsets[i] = outer[count - 1 - i];
		if (!take(reader, ")"))
			return spec_refuse(reader, "')' is missing");
	}
	return true;
}

static bool take_string(struct spec_reader *reader, struct spec_field *field)
{
	unsigned long size = SPEC_TEXT;

	if (take(reader, "[") && (!take_number(reader, CALLTAP_PROGRAM_TEXT, &size) || !size || !take(reader, "]")))
		return spec_refuse(reader, "a string has 1 to 256 bytes, as in string[100]");
	field->type = SPEC_STRING;
	field->size = (uint16_t)size;
	return true;
}

/* The type was read.  A floating-point result has a register of its own, arguments have others than integers. */
static bool take_float(struct spec_reader *reader, struct spec_field *field, const char *start)
{
	if (field->type != SPEC_FLOAT || field->vector || field->offset_count || field->argument > SPEC_REGISTERS ||
	    field->path)
		return true;
	if (!field->argument) {
		field->vector = 1;
		return true;
	}
	reader->at = start;
	return spec_refuse(reader,
			   "arg1 to arg6 are integers; floating-point arguments are %xmm0 to %xmm7 (AArch64: %d0 to "
			   "%d7; RISC-V: %fa0 to %fa7), counted apart");
}

static bool take_type(struct spec_reader *reader, struct spec_field *field, enum spec_type usual)
{
	static const struct {
		char letter;
		uint8_t type, least; /* bytes */
	} letters[] = {{'u', SPEC_UNSIGNED, 1}, {'s', SPEC_SIGNED, 1}, {'x', SPEC_HEX, 1}, {'f', SPEC_FLOAT, 4}};
	unsigned long bits = 0;
	const char *start;

	field->type = (uint8_t)(field->vector ? SPEC_FLOAT : usual);
	field->size = 8;
	if (field->caller) {
		field->type = find_caller(field->caller)->type;
		field->size = find_caller(field->caller)->size;
	}
	if (field->caller == SPEC_COMM)
		return *reader->at != ':' || take(reader, ":string") ||
		       spec_refuse(reader, "$comm is a string, of 15 bytes at the most");
	if (!take(reader, ":"))
		return true;
	if (!field->vector && !field->caller && (take(reader, "ustring") || take(reader, "string")))
		return take_string(reader, field);
	start = reader->at;
	for (unsigned i = 0; i < sizeof(letters) / sizeof(letters[0]); i++) {
		if (*reader->at != letters[i].letter)
			continue;
		reader->at++;
		field->type = letters[i].type;
		if (take_number(reader, 64, &bits) && bits >= 8ul * letters[i].least &&
		    (bits == 8 || bits == 16 || bits == 32 || bits == 64)) {
			field->size = (uint16_t)(bits / 8);
			return take_float(reader, field, start);
		}
		break;
	}
	reader->at = start;
	return spec_refuse(reader, field->vector ? "types of %xmm0 are f32, f64, u8 to u64, s8 to s64 and x8 to x64"
						 : "types are u8 to u64, s8 to s64, x8 to x64, f32, f64 and string");
}

bool spec_take_fetch(struct spec_reader *reader, struct spec_field *field, bool result, enum spec_type usual)
{
	*field = (struct spec_field){0};
	return take_fetch(reader, field, result) && take_type(reader, field, usual);
}

size_t spec_word_length(const char *text)
{
	size_t length = 0;

	while (spec_is_word(text[length]))
		length++;
	return isdigit((unsigned char)*text) ? 0 : length;
}

/* The bytes of "->member", ".member" or "[3]"; 0: there is none. */
static size_t step_length(const char *text)
{
	size_t front = *text == '.' ? 1 : !strncmp(text, "->", 2) ? 2 : 0, length;

	if (front) {
		length = spec_word_length(text + front);
		return length ? front + length : 0;
	}
	if (*text != '[')
		return 0;
	length = 1 + (text[1] == '-');
	if (!isdigit((unsigned char)text[length]))
		return 0;
	while (isalnum((unsigned char)text[length]))
		length++;
	return text[length] == ']' ? length + 1 : 0;
}

size_t spec_path_length(const char *text, bool *steps)
{
	size_t length = spec_word_length(text), step;

	*steps = false;
	while (length && (step = step_length(text + length))) {
		*steps = true;
		length += step;
	}
	return length;
}

/* The bytes of ":s32", ":string" or ":string[20]"; 0: there is none. */
static size_t type_length(const char *text)
{
	size_t length = *text == ':' ? 1 + spec_word_length(text + 1) : 0;

	if (length < 2)
		return 0;
	return length + step_length(text + length) * (text[length] == '[');
}

size_t spec_read_path(char name[SPEC_NAME], const char *text)
{
	bool steps;
	size_t length = spec_path_length(text, &steps), used = 0;

	if (steps)
		length += type_length(text + length);
	for (const char *at = text; at < text + length; at++, used++) {
		bool arrow = at[0] == '-' && at[1] == '>';

		if (used < SPEC_NAME)
			name[used] = arrow ? '.' : *at;
		at += arrow;
	}
	name[used < SPEC_NAME ? used : 0] = 0;
	return length;
}

/* Where a field stands. */
enum stand {
	STAND_CLOSE, /* right behind the function's colon, which its name may have, too */
	STAND_BLANK, /* behind a blank, and there was no colon */
	STAND_COLON, /* behind a colon and a blank */
};

/*
 * Take a PATH.  False, without a reason: there is none.  "ret" and "arg1" alone are FETCHes; a name alone may be a part
 * of the function's.
 */
static bool take_path(struct spec_reader *reader, struct spec_field *field, bool result, enum stand stand)
{
	bool steps, named = field->name[0] != 0;
	size_t length = spec_path_length(reader->at, &steps), word = spec_word_length(reader->at);
	bool of_result = (word == 3 && !strncmp(reader->at, "ret", 3));

	if (!length || of_result != result || (of_result && !steps) || (!steps && !named && stand != STAND_COLON))
		return false;
	/* "f.isra.0" is a function's name, and "string[9]" a type. */
	if (!named && stand != STAND_COLON && reader->at[word] != '-')
		return false;
	if (!steps && !strncmp(reader->at, "arg", 3) && isdigit((unsigned char)reader->at[3]))
		return false;
	field->path = strndup(reader->at, length);
	reader->at += length;
	field->has_type = *reader->at == ':';
	return field->path != NULL;
}

bool spec_parse_path(struct spec *out, const char *text)
{
	struct spec_reader reader = {.at = text};
	bool steps;
	size_t length = spec_path_length(text, &steps);
	struct spec_field *field = &out->fields[0];

	*out = (struct spec){.count = 1};
	field->path = length ? strndup(text, length) : NULL;
	reader.at += length;
	field->has_type = type_length(reader.at) != 0;
	if (field->path && (!field->has_type || take_type(&reader, field, SPEC_HEX)))
		return true;
	spec_clear(out);
	return false;
}

/* Take a field, behind which there is a blank or nothing. */
static bool take_field(struct spec_reader *reader, struct spec_field *field, bool result, enum stand stand)
{
	*field = (struct spec_field){0};
	take_name(reader, field);
	if (!take_path(reader, field, result, stand) && !take_fetch(reader, field, result))
		return false;
	if (!take_type(reader, field, SPEC_HEX))
		return false;
	if (*reader->at && !strchr(BLANKS, *reader->at))
		return spec_refuse(reader, "a blank is missing behind the value");
	return true;
}

/*
 * The first field may stand behind the function's name and a colon; names have colons, too.  *colon_behind: the colon
 * is there, and a blank behind it.
 */
static bool take_first(struct spec_reader *reader, struct spec *out, size_t *function, bool result, bool *colon_behind)
{
	const char *start = reader->at, *end = start + strcspn(start, BLANKS);

	for (const char *colon = start; (colon = memchr(colon, ':', (size_t)(end - colon))); colon++) {
		reader->at = colon + 1;
		if (colon > start && take_field(reader, &out->fields[0], result, STAND_CLOSE)) {
			*function = (size_t)(colon - start);
			out->count = 1;
			return true;
		}
		spec_clear_field(&out->fields[0]);
	}
	*function = (size_t)(end - start);
	reader->at = end;
	/* "f: arg1", as with conditions. */
	if (*end && *function > 1 && end[-1] == ':' && end[-2] != ':') {
		--*function;
		*colon_behind = true;
	}
	return false;
}

static bool take_more(struct spec_reader *reader, struct spec *out, bool result, enum stand stand)
{
	bool good = true;

	for (reader->at += strspn(reader->at, BLANKS); good && *reader->at; reader->at += strspn(reader->at, BLANKS)) {
		good = out->count < SPEC_FIELDS ? take_field(reader, &out->fields[out->count], result, stand)
						: spec_refuse(reader, "there are more than 16 values");
		if (good)
			out->count++;
		else if (out->count < SPEC_FIELDS)
			spec_clear_field(&out->fields[out->count]);
	}
	return good && out->count;
}

/* Names of C++ have blanks, as in "operator new(unsigned long):arg1": the values stand behind a colon then. */
static bool take_behind_blanks(struct spec_reader *reader, struct spec *out, size_t *function, const char *text,
			       bool result)
{
	const char *colon = text + strcspn(text, BLANKS);

	while ((colon = strchr(colon, ':'))) {
		spec_clear(out);
		*function = (size_t)(colon - text);
		reader->at = ++colon;
		if (take_more(reader, out, result, strchr(BLANKS, *colon) ? STAND_COLON : STAND_CLOSE))
			return true;
	}
	return false;
}

static bool is_taken(const struct spec *spec, const struct spec_field *field, const char *name)
{
	for (uint32_t i = 0; i < spec->count; i++)
		if (&spec->fields[i] != field && !strcmp(spec->fields[i].name, name))
			return true;
	return false;
}

/* A value without a name is called by what it begins with: "arg1", or "arg1_2" where another one is. */
static void name_fields(struct spec *spec, bool result)
{
	for (uint32_t i = 0; i < spec->count; i++) {
		struct spec_field *field = &spec->fields[i];
		char name[SPEC_NAME] = "ret";
		size_t length;

		if (field->name[0])
			continue;
		if (field->path)
			snprintf(name, sizeof(name), "%s", field->path);
		else if (field->caller)
			snprintf(name, sizeof(name), "%s", find_caller(field->caller)->name);
		else if (field->argument)
			snprintf(name, sizeof(name), "arg%u", field->argument);
		else if (field->vector > (field->type == SPEC_FLOAT && result))
			snprintf(name, sizeof(name), "%s%u", field->vectors ? field->vectors : "xmm",
				 field->vector - 1u);
		length = strlen(name);
		length = length < sizeof(name) - sizeof("_16") ? length : sizeof(name) - sizeof("_16");
		for (unsigned number = 2; is_taken(spec, field, name); number++)
			snprintf(name + length, sizeof(name) - length, "_%u", number);
		memcpy(field->name, name, sizeof(field->name));
	}
}

int spec_parse(struct spec *out, size_t *function, const char *text, bool result, struct calltap_diag *diag)
{
	struct spec_reader reader = {.at = text};
	bool good, colon = false, first;

	*out = (struct spec){0};
	first = take_first(&reader, out, function, result, &colon);
	good = (take_more(&reader, out, result, first || colon ? STAND_COLON : STAND_BLANK) && *function) ||
	       take_behind_blanks(&reader, out, function, text, result);
	if (good) {
		name_fields(out, result);
		return 0;
	}
	spec_clear(out);
	if (!reader.why || !*function) {
		reader.wrong = text + strlen(text);
		reader.why = result ? "it says not what to show; as in 'read:ret:s64'"
				    : "it says not what to show; as in 'open:path=arg1:string'";
	}
	(void)calltap_diag_set(diag, -EINVAL, "values '%.200s': %s", text, reader.why);
	if (diag && (size_t)snprintf(diag->input, sizeof(diag->input), "%s", text) < sizeof(diag->input))
		diag->column = (int)(reader.wrong - text);
	return -EINVAL;
}

/* True if this is how a FIELD begins. */
static bool is_field(const char *text)
{
	struct spec_reader reader = {.at = text};
	size_t length = 0;

	while (spec_is_word(text[length]))
		length++;
	if (length && text[length] == '=' && text[length + 1] != '=')
		return true;
	/* "f:c->x" has a field; "A::operator->" has none. */
	if (length && !isdigit((unsigned char)*text) && text[length] == '-' && step_length(text + length))
		return true;
	if (!*text || strchr("+-$%", *text) || (take(&reader, "arg") && isdigit((unsigned char)*reader.at)))
		return true;
	reader.at = text;
	return (take(&reader, "retval") || take(&reader, "ret")) && !spec_is_word(*reader.at);
}

bool spec_is_function(const char *text)
{
	if (!*text || strpbrk(text, BLANKS))
		return false;
	for (const char *colon = text; (colon = strchr(colon, ':')); colon++)
		if (is_field(colon + 1))
			return false;
	return true;
}

static bool is_same_text(const char *a, const char *b)
{
	return a && b ? !strcmp(a, b) : a == b;
}

static bool is_same_view(const struct spec_view *one, const struct spec_view *other)
{
	return one->how == other->how && one->size == other->size && one->address_at == other->address_at &&
	       one->size_at == other->size_at && one->size_bytes == other->size_bytes && one->element == other->element;
}

/* Do both take the same bytes? */
static bool is_same_place(const struct spec_field *one, const struct spec_field *other)
{
	return one->argument == other->argument && one->vector == other->vector && one->caller == other->caller &&
	       one->size == other->size && one->offset_count == other->offset_count &&
	       !memcmp(one->offsets, other->offsets, sizeof(one->offsets)) && one->at_address == other->at_address &&
	       one->second_argument == other->second_argument && one->second_vector == other->second_vector &&
	       one->step == other->step && one->within == other->within && one->at == other->at &&
	       is_same_text(one->path, other->path) && is_same_view(&one->view, &other->view) &&
	       is_same_view(&one->text, &other->text) && one->element_count == other->element_count;
}

static bool has_same_elements(const struct spec_field *one, const struct spec_field *other)
{
	for (uint32_t i = 0; i < one->element_count; i++) {
		const struct spec_element *a = &one->elements[i], *b = &other->elements[i];

		if (a->type != b->type || a->is_signed != b->is_signed || a->cut != b->cut || a->bit != b->bit ||
		    a->bits != b->bits || a->is_member != b->is_member || a->size != b->size || a->at != b->at ||
		    strcmp(a->name, b->name) != 0 || !is_same_text(a->more, b->more))
			return false;
	}
	return true;
}

static bool is_shown_alike(const struct spec_field *one, const struct spec_field *other)
{
	return one->type == other->type && one->is_signed == other->is_signed && one->cut == other->cut &&
	       one->bit == other->bit && one->bits == other->bits && one->guard == other->guard &&
	       one->first == other->first && one->span == other->span && one->others == other->others &&
	       !strcmp(one->name, other->name) && is_same_text(one->c_type, other->c_type) &&
	       is_same_text(one->more, other->more) && has_same_elements(one, other);
}

bool spec_equal(const struct spec *a, const struct spec *b)
{
	if (a->count != b->count || a->sums != b->sums || a->span != b->span)
		return false;
	for (uint32_t i = 0; i < a->count + a->sums; i++)
		if (!is_same_place(&a->fields[i], &b->fields[i]) || !is_shown_alike(&a->fields[i], &b->fields[i]))
			return false;
	return true;
}

bool spec_has_path(const struct spec *spec)
{
	for (uint32_t i = 0; i < spec->count; i++)
		if (spec->fields[i].path)
			return true;
	return false;
}

int spec_add_element(struct spec_field *field, const struct spec_element *element)
{
	struct spec_element *grown = reallocarray(field->elements, field->element_count + 1u, sizeof(*grown)), *added;

	if (!grown)
		return -ENOMEM;
	field->elements = grown;
	added = &grown[field->element_count++];
	*added = *element;
	added->name = strdup(element->name);
	added->more = element->more ? strdup(element->more) : NULL;
	return added->name && (added->more || !element->more) ? 0 : -ENOMEM;
}

static int copy_elements(struct spec_field *field, const struct spec_field *from)
{
	int ret = 0;

	field->elements = NULL;
	field->element_count = 0;
	for (uint32_t i = 0; i < from->element_count && !ret; i++)
		ret = spec_add_element(field, &from->elements[i]);
	return ret;
}

int spec_copy(struct spec *out, const struct spec *spec)
{
	int ret = 0;

	*out = *spec;
	for (uint32_t i = 0; i < spec->count + spec->sums; i++) {
		const struct spec_field *from = &spec->fields[i];
		struct spec_field *field = &out->fields[i];

		field->path = from->path ? strdup(from->path) : NULL;
		field->c_type = from->c_type ? strdup(from->c_type) : NULL;
		field->more = from->more ? strdup(from->more) : NULL;
		if (copy_elements(field, from) || (from->path && !field->path) || (from->c_type && !field->c_type) ||
		    (from->more && !field->more))
			ret = -ENOMEM;
	}
	if (ret)
		spec_clear(out);
	return ret;
}

void spec_clear_field(struct spec_field *field)
{
	free(field->path);
	free(field->c_type);
	free(field->more);
	for (uint32_t i = 0; i < field->element_count; i++) {
		free(field->elements[i].name);
		free(field->elements[i].more);
	}
	free(field->elements);
	*field = (struct spec_field){0};
}

void spec_clear(struct spec *spec)
{
	for (uint32_t i = 0; i < spec->count + spec->sums; i++)
		spec_clear_field(&spec->fields[i]);
	*spec = (struct spec){0};
}
