/*
 * Calls and returns as the kernel's tracers show them: each argument and the result as one number, and the address that
 * a call returns to, of all functions that no entry names (values.h, the key registers).
 *
 * What a number is called, and how it is to be read, types tell.  Nothing is read from where an address leads to, so a
 * program is registers and words of the caller's stack.  Without types a call has no arguments, and a result is the
 * register as it is.
 *
 * Callers: values.c and change.c, under the session's lock.  Context: host.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "values_impl.h"

static const char *const words[] = {
	[REGISTERS_ARGUMENTS] = "args", [REGISTERS_RESULT] = "result", [REGISTERS_CALLER] = "caller"};

int values_take_registers(struct values *values, const char *value, bool append, struct calltap_diag *diag)
{
	uint8_t before = append ? values->registers : 0;

	for (unsigned i = 0; i < REGISTERS_OF; i++)
		if (!strcmp(value, words[i])) {
			values->registers = (uint8_t)(before | 1u << i);
			return 0;
		}
	if (*value)
		return calltap_diag_set(diag, -EINVAL, "registers '%.100s' is not valid; it is args, result or caller",
					value);
	values->registers = before;
	return 0;
}

void values_print_registers(const struct values *values, FILE *stream)
{
	bool more = false;

	for (unsigned i = 0; values && i < REGISTERS_OF; i++) {
		if (!(values->registers & 1u << i))
			continue;
		fprintf(stream, "registers%s=%s\n", more ? "+" : "", words[i]);
		more = true;
	}
	if (!more)
		fputs("registers=\n", stream);
}

static bool has(const struct values *values, enum values_registers what)
{
	return values->registers & 1u << what;
}

bool values_of_calls(const struct values *values)
{
	return !values->count && !values->choice_count && !values->ask_count && !values->has_all &&
	       !has(values, REGISTERS_RESULT);
}

/* The caller, in front of a call's arguments; no argument has such a name. */
static void put_caller(struct spec *spec)
{
	spec->fields[spec->count] =
		(struct spec_field){.caller = SPEC_CALLER, .type = SPEC_POINTER, .size = sizeof(uint64_t)};
	snprintf(spec->fields[spec->count++].name, SPEC_NAME, "$caller");
}

/* What nobody's types tell: the caller of a call, or the register of a result. */
static void put_plain(struct spec *spec, const struct values *values, bool result)
{
	if (!result && has(values, REGISTERS_CALLER))
		put_caller(spec);
	if (!result)
		return;
	spec->fields[spec->count] = (struct spec_field){.type = SPEC_HEX, .size = sizeof(uint64_t)};
	snprintf(spec->fields[spec->count++].name, SPEC_NAME, "ret");
}

static uint16_t plain_number(struct values *values, bool result)
{
	uint16_t *number = &values->untyped[result];
	struct spec spec = {.count = 0};

	if (!result && !has(values, REGISTERS_CALLER))
		return TYPED_NONE;
	if (*number)
		return *number;
	put_plain(&spec, values, result);
	*number = values_program(values, &spec, result);
	spec_clear(&spec);
	return *number;
}

static uint16_t typed_program(struct values *values, const struct image *image, const struct object_site *source,
			      bool result)
{
	struct typed_function of;
	struct spec spec = {.count = 0};
	uint16_t number = TYPED_NONE;

	if (!result && has(values, REGISTERS_CALLER))
		put_caller(&spec);
	if (!typed_read(&of, values->typed, image, source) && !typed_registers(&spec, &of, result))
		number = values_program(values, &spec, result);
	spec_clear(&spec);
	typed_function_clear(&of);
	return number;
}

static uint16_t number_of(struct values *values, const struct image *image, const struct object_site *source,
			  bool result)
{
	enum typed_of kept = result			     ? TYPED_REGISTERS_RETURN
			     : has(values, REGISTERS_CALLER) ? TYPED_REGISTERS_CALLER
							     : TYPED_REGISTERS;
	uint16_t *number = typed_number(values->typed, image, source, kept), made;

	if (!number)
		return plain_number(values, result);
	if (*number != TYPED_UNSET)
		return *number;
	made = typed_program(values, image, source, result);
	number = typed_number(values->typed, image, source, kept);
	if (number)
		*number = made;
	return made;
}

void values_choose_registers(struct values *values, struct values_choice *choice, const struct image *image,
			     const struct object_site *source)
{
	if (!choice->entry && has(values, REGISTERS_ARGUMENTS))
		choice->entry = number_of(values, image, source, false);
	else if (!choice->entry)
		choice->entry = plain_number(values, false);
	if (!choice->exit && has(values, REGISTERS_RESULT))
		choice->exit = number_of(values, image, source, true);
}
