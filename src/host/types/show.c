/*
 * How values of a type are shown: what kind they are, the type as C writes it, the names of an enumeration, the
 * elements of arrays.
 *
 * Callers: function.c.  Context: host.
 */
#include <dwarf.h>
#include <errno.h>
#include <gelf.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "impl.h"

#define NAMES_MAX 16384u /* bytes of an enumeration's names; values of what is beyond are shown as numbers */

static void append(char text[TYPES_NAME_MAX], const char *more)
{
	size_t used = strlen(text);

	(void)snprintf(text + used, TYPES_NAME_MAX - used, "%s%s",
		       used && text[used - 1] != '*' && text[used - 1] != ' ' && more[0] != '(' ? " " : "", more);
}

static const char *word_of(int tag)
{
	switch (tag) {
	case DW_TAG_const_type:
		return "const";
	case DW_TAG_volatile_type:
		return "volatile";
	case DW_TAG_restrict_type:
		return "restrict";
	case DW_TAG_atomic_type:
		return "_Atomic";
	case DW_TAG_structure_type:
		return "struct";
	case DW_TAG_union_type:
		return "union";
	case DW_TAG_enumeration_type:
		return "enum";
	case DW_TAG_pointer_type:
		return "*";
	case DW_TAG_reference_type:
		return "&";
	case DW_TAG_rvalue_reference_type:
		return "&&";
	default:
		return NULL;
	}
}

/* What stands in front of the stars, or a name. */
static void write_name(char text[TYPES_NAME_MAX], Dwarf_Die *type)
{
	int tag = dwarf_tag(type);
	const char *name = type_name(type), *word = word_of(tag);

	if (tag == DW_TAG_subroutine_type) {
		append(text, "function");
		return;
	}
	if (word)
		append(text, word);
	append(text, name ? name : tag == DW_TAG_array_type ? "array" : "{...}");
}

/* type == NULL: void. */
static void write_type(char text[TYPES_NAME_MAX], Dwarf_Die *type, uint32_t depth)
{
	int tag = type ? dwarf_tag(type) : 0;
	Dwarf_Die inner;
	bool more;

	if (!type) {
		append(text, "void");
		return;
	}
	if (depth == TYPE_DEPTH)
		return;
	switch (tag) {
	case DW_TAG_pointer_type:
	case DW_TAG_reference_type:
	case DW_TAG_rvalue_reference_type:
		more = type_of(&inner, type);
		write_type(text, more ? &inner : NULL, depth + 1);
		append(text, word_of(tag));
		return;
	case DW_TAG_const_type:
	case DW_TAG_volatile_type:
	case DW_TAG_restrict_type:
	case DW_TAG_atomic_type:
		more = type_of(&inner, type);
		if (more && dwarf_tag(&inner) == DW_TAG_pointer_type) {
			write_type(text, &inner, depth + 1);
			append(text, word_of(tag));
		} else {
			append(text, word_of(tag));
			write_type(text, more ? &inner : NULL, depth + 1);
		}
		return;
	default:
		write_name(text, type);
	}
}

static bool is_number_size(uint64_t size)
{
	return size == 1 || size == 2 || size == 4 || size == 8;
}

static bool is_of_x86(Dwarf_Die *type)
{
	Dwarf *dwarf = dwarf_cu_getdwarf(type->cu);
	GElf_Ehdr head;

	return dwarf && dwarf_getelf(dwarf) && gelf_getehdr(dwarf_getelf(dwarf), &head) && head.e_machine == EM_X86_64;
}

static void look_at_float(struct type_look *look, Dwarf_Die *type, uint64_t size)
{
	const char *name = type_name(type);

	look->kind = size == 4 || size == 8 ? TYPE_FLOAT : TYPE_OTHER;
	if (look->kind == TYPE_FLOAT)
		return;
	look->why = name && !strcmp(name, "long double") ? "long double" : "float";
	if (!name || size != 16 ||
	    (strcmp(name, "long double") != 0 && strcmp(name, "_Float128") != 0 && strcmp(name, "__float128") != 0))
		return;
	look->kind = TYPE_LONG_DOUBLE;
	look->size = name[0] == 'l' && is_of_x86(type) ? 10 : 16;
	look->why = NULL;
}

static void look_at_base(struct type_look *look, Dwarf_Die *type, uint64_t size)
{
	uint64_t encoding = 0;

	(void)type_number(&encoding, type, DW_AT_encoding);
	look->is_signed = encoding == DW_ATE_signed || encoding == DW_ATE_signed_char;
	look->kind = look->is_signed ? TYPE_SIGNED : TYPE_UNSIGNED;
	switch (encoding) {
	case DW_ATE_boolean:
		look->kind = TYPE_BOOL;
		break;
	case DW_ATE_signed_char:
	case DW_ATE_unsigned_char:
		/* int8_t and uint8_t are typedefs of the other two types of C that have a byte. */
		if (type_name(type) && !strcmp(type_name(type), "char"))
			look->kind = TYPE_CHAR;
		break;
	case DW_ATE_UTF:
		look->kind = TYPE_CHAR;
		break;
	case DW_ATE_signed:
	case DW_ATE_unsigned:
		break;
	case DW_ATE_float:
		look_at_float(look, type, size);
		return;
	default:
		look->kind = TYPE_OTHER;
		look->why = encoding == DW_ATE_complex_float ? "complex" : "type";
		return;
	}
	if (!is_number_size(size)) {
		look->kind = TYPE_OTHER;
		look->why = size ? "large" : ""; /* Rust's () */
	}
}

/* The enumerator's value in the type's bytes. */
static bool value_of(uint64_t *value, Dwarf_Die *enumerator, uint8_t size)
{
	Dwarf_Attribute attribute;
	Dwarf_Sword number;
	Dwarf_Word word;
	int form;

	if (!dwarf_attr(enumerator, DW_AT_const_value, &attribute))
		return false;
	form = dwarf_whatform(&attribute);
	if (form == DW_FORM_sdata || form == DW_FORM_implicit_const) {
		if (dwarf_formsdata(&attribute, &number))
			return false;
		*value = (uint64_t)number;
	} else {
		if (dwarf_formudata(&attribute, &word))
			return false;
		*value = word;
	}
	if (size < 8)
		*value &= (UINT64_C(1) << 8 * size) - 1;
	return true;
}

/* Has an enumeration values below 0?  GCC and Clang say what type it has underneath; else one of its values tells. */
static bool is_signed_enumeration(Dwarf_Die *type, bool has_negative)
{
	Dwarf_Die underlying, peeled;
	uint64_t encoding;

	if (type_of(&underlying, type) && type_peeled(&peeled, &underlying) &&
	    type_number(&encoding, &peeled, DW_AT_encoding))
		return encoding == DW_ATE_signed || encoding == DW_ATE_signed_char;
	if (type_number(&encoding, type, DW_AT_encoding))
		return encoding == DW_ATE_signed || encoding == DW_ATE_signed_char;
	return has_negative;
}

static int look_at_names(struct type_look *look, Dwarf_Die *type)
{
	bool has_negative = false;
	size_t used = 0;
	Dwarf_Die child;

	look->names = calloc(1, NAMES_MAX);
	if (!look->names)
		return -ENOMEM;
	if (dwarf_child(type, &child))
		return 0;
	do {
		const char *name = type_name(&child);
		uint64_t value;
		int length;

		if (dwarf_tag(&child) != DW_TAG_enumerator || !name || !name[0] || strpbrk(name, ",=") ||
		    !value_of(&value, &child, look->size))
			continue;
		has_negative |= (value >> (8 * look->size - 1) & 1) != 0;
		length = snprintf(look->names + used, NAMES_MAX - used, "%s%s=%" PRIx64, used ? "," : "", name, value);
		if (length < 0 || (size_t)length >= NAMES_MAX - used) {
			look->names[used] = 0;
			break;
		}
		used += (size_t)length;
	} while (!dwarf_siblingof(&child, &child));
	look->is_signed = is_signed_enumeration(type, has_negative);
	return 0;
}

bool type_is_char(Dwarf_Die *type)
{
	const char *name;
	uint64_t size = 0;

	if (dwarf_tag(type) != DW_TAG_base_type || !type_number(&size, type, DW_AT_byte_size) || size != 1)
		return false;
	name = type_name(type);
	return name && !strcmp(name, "char");
}

static void look_at_pointer(struct type_look *look, Dwarf_Die *type)
{
	Dwarf_Die inner, peeled;

	look->size = 8;
	look->kind = TYPE_POINTER;
	if (dwarf_tag(type) == DW_TAG_pointer_type && type_of(&inner, type) && type_peeled(&peeled, &inner) &&
	    type_is_char(&peeled))
		look->kind = TYPE_TEXT;
}

void type_look_clear(struct type_look *look)
{
	if (look->element)
		type_look_clear(look->element);
	if (look->members)
		type_members_clear(look->members);
	free(look->element);
	free(look->members);
	free(look->names);
	look->element = NULL;
	look->members = NULL;
	look->names = NULL;
}

/* Elements of a dimension; 0: nobody says. */
static uint64_t count_of(Dwarf_Die *range)
{
	uint64_t count = 0, last;

	if (type_number(&count, range, DW_AT_count))
		return count;
	/* An array without elements has -1. */
	return type_number(&last, range, DW_AT_upper_bound) && last < UINT32_MAX ? last + 1 : 0;
}

uint32_t type_dimensions(uint64_t counts[TYPES_DIMENSIONS], Dwarf_Die *array)
{
	uint32_t dimensions = 0;
	Dwarf_Die child;

	if (dwarf_child(array, &child))
		return 0;
	do {
		int tag = dwarf_tag(&child);

		if (tag != DW_TAG_subrange_type && tag != DW_TAG_enumeration_type)
			continue;
		if (dimensions < TYPES_DIMENSIONS)
			counts[dimensions] = tag == DW_TAG_subrange_type ? count_of(&child) : 0;
		dimensions++;
	} while (dimensions <= TYPES_DIMENSIONS && !dwarf_siblingof(&child, &child));
	return dimensions;
}

bool type_has_one_dimension(Dwarf_Die *array)
{
	uint64_t counts[TYPES_DIMENSIONS];

	return type_dimensions(counts, array) == 1;
}

/* An array that is being taken apart. */
struct array {
	Dwarf_Die element;
	uint64_t counts[TYPES_DIMENSIONS];
	uint32_t dimensions;
	struct type_nest *nest;
};

/* The elements of this dimension, which has so many bytes, are there: show as many as have room. */
static void put_list(struct type_look *look, uint64_t size)
{
	uint32_t stride = look->element->stride;
	uint64_t room = TYPES_BYTES / stride < TYPES_ELEMENTS ? TYPES_BYTES / stride : TYPES_ELEMENTS;

	look->kind = TYPE_ARRAY;
	look->why = NULL;
	look->cut = size > room * stride;
	look->size = (uint8_t)(look->cut ? room * stride : size);
}

/* The last dimension of char[3][8]: each has a text. */
static bool look_at_text(struct type_look *look, Dwarf_Die *element, uint64_t size)
{
	Dwarf_Die peeled;

	if (!type_peeled(&peeled, element) || !type_is_char(&peeled) || size > TYPES_BYTES)
		return false;
	look->kind = TYPE_CHARS;
	look->why = NULL;
	look->size = (uint8_t)size;
	return true;
}

static int look_at_dimension(struct type_look *look, struct array *array, uint32_t dimension, uint64_t size)
{
	int ret;

	if (dimension + 1 == array->dimensions) {
		if (dimension && look_at_text(look, &array->element, size))
			return 0;
		ret = type_look_at_element(look, &array->element, array->nest);
	} else {
		uint64_t count = array->counts[dimension];

		if (!count || size % count || size / count > INT32_MAX)
			return 0;
		look->element = calloc(1, sizeof(*look->element));
		if (!look->element)
			return -ENOMEM;
		look->element->kind = TYPE_OTHER;
		look->element->why = "type";
		ret = look_at_dimension(look->element, array, dimension + 1, size / count);
		look->element->stride = (uint32_t)(size / count);
	}
	if (ret || !look->element || look->element->kind == TYPE_OTHER || look->element->stride > TYPES_BYTES) {
		type_look_clear(look);
		return ret;
	}
	put_list(look, size);
	return 0;
}

int type_look_at_array(struct type_look *look, Dwarf_Die *type, struct type_nest *nest)
{
	struct array array = {.nest = nest};
	Dwarf_Word size;

	array.dimensions = type_dimensions(array.counts, type);
	if (!array.dimensions || array.dimensions > TYPES_DIMENSIONS || !type_of(&array.element, type) ||
	    dwarf_hasattr_integrate(type, DW_AT_GNU_vector) || dwarf_aggregate_size(type, &size) || !size)
		return 0;
	return look_at_dimension(look, &array, 0, size);
}

/* A kind that is one number. */
static bool is_number_kind(enum type_kind kind)
{
	return kind <= TYPE_FLOAT;
}

/* An element that is none of numbers: a structure, a text, or a list of others. */
static int look_at_larger(struct type_look *element, Dwarf_Die *type, struct type_nest *nest)
{
	bool is_list;
	int ret;

	element->kind = TYPE_OTHER;
	element->why = "type";
	if (type_look_at_chars(element, type, 0))
		return 0;
	if (dwarf_tag(type) == DW_TAG_array_type)
		return type_look_at_array(element, type, nest);
	/* What a class that stands for a text or a list, or owns something, has is elsewhere. */
	if (type_view_find(&element->view, type, NULL, &is_list)) {
		element->view.element = 1;
		element->view.size = is_list ? 0 : element->view.size;
		return 0;
	}
	if (!type_is_aggregate(type) || nest->depth == TYPES_NEST || type_is_owner(type, NULL))
		return 0;
	element->members = calloc(1, sizeof(*element->members));
	if (!element->members)
		return -ENOMEM;
	ret = type_members_of_element(element->members, type, nest);
	if (element->members->size)
		element->kind = TYPE_STRUCT;
	return ret;
}

/* Is one element a number, as far as its type's kind goes? */
static bool is_word(Dwarf_Die *type, uint64_t size)
{
	int tag = dwarf_tag(type);

	return tag == DW_TAG_base_type || tag == DW_TAG_enumeration_type || tag == DW_TAG_pointer_type ||
	       (size == 8 && type_is_owner(type, NULL));
}

int type_look_at_element(struct type_look *look, Dwarf_Die *type, struct type_nest *nest)
{
	Dwarf_Word bytes = 0;
	Dwarf_Die peeled;
	int ret;

	if (!type_peeled(&peeled, type) || dwarf_aggregate_size(&peeled, &bytes) || !bytes || bytes > INT32_MAX)
		return 0;
	look->element = calloc(1, sizeof(*look->element));
	if (!look->element)
		return -ENOMEM;
	look->element->stride = (uint32_t)bytes;
	if (!is_word(&peeled, bytes))
		return look_at_larger(look->element, &peeled, nest);
	ret = type_look(look->element, type);
	look->element->stride = (uint32_t)bytes;
	if (look->element->kind == TYPE_TEXT)
		look->element->kind = TYPE_POINTER;
	if (!is_number_kind(look->element->kind) || look->element->size != bytes) {
		look->element->kind = TYPE_OTHER;
		look->element->why = "type";
	}
	return ret;
}

/* Elements that are texts, of a class that Clang leaves out (type_view_declared()). */
static int look_at_declared(struct type_look *look, Dwarf_Die *type, const char *symbol)
{
	struct type_view view;
	Dwarf_Die peeled;

	if (!symbol || !type_peeled(&peeled, type) || !type_view_declared(&view, &peeled, symbol))
		return 0;
	look->element = calloc(1, sizeof(*look->element));
	if (!look->element)
		return -ENOMEM;
	look->element->kind = TYPE_OTHER;
	look->element->why = "type";
	look->element->view = view;
	look->element->view.element = 1;
	look->element->stride = view.how == TYPE_VIEW_SHORT ? 24 : 32; /* LLVM's and GCC's std::string */
	return 0;
}

int type_look_at_view(struct type_look *look, Dwarf_Die *type, const char *symbol)
{
	struct type_nest nest = {0, TYPES_ROWS};
	bool is_list = false;
	Dwarf_Die element;
	int ret;

	if (!type_view_find(&look->view, type, &element, &is_list) &&
	    !(symbol && type_view_declared(&look->view, type, symbol)))
		return 0;
	look->view.element = 1;
	if (is_list) {
		ret = type_look_at_element(look, &element, &nest);
		if (!ret && !look->element)
			ret = look_at_declared(look, &element, symbol);
		if (ret || !look->element)
			return ret;
		look->view.element = look->element->stride;
	}
	look->kind = TYPE_VIEW;
	look->size = look->view.size;
	look->why = NULL;
	return 0;
}

int type_look(struct type_look *out, Dwarf_Die *type)
{
	Dwarf_Die peeled;
	uint64_t size = 0;

	*out = (struct type_look){.kind = TYPE_OTHER, .why = "type"};
	write_type(out->type, type, 0);
	if (!type_peeled(&peeled, type))
		return 0;
	(void)type_number(&size, &peeled, DW_AT_byte_size);
	out->size = (uint8_t)(is_number_size(size) ? size : 0);
	switch (dwarf_tag(&peeled)) {
	case DW_TAG_base_type:
		out->why = NULL;
		look_at_base(out, &peeled, size);
		return 0;
	case DW_TAG_enumeration_type:
		if (!out->size)
			return 0;
		out->kind = TYPE_ENUM;
		out->why = NULL;
		return look_at_names(out, &peeled);
	case DW_TAG_pointer_type:
	case DW_TAG_reference_type:
	case DW_TAG_rvalue_reference_type:
		out->why = NULL;
		look_at_pointer(out, &peeled);
		return 0;
	case DW_TAG_structure_type:
	case DW_TAG_class_type:
		out->why = "struct";
		if (type_is_owner(&peeled, NULL)) {
			out->kind = TYPE_POINTER;
			out->size = 8;
			out->why = NULL;
			return 0;
		}
		return type_look_at_view(out, &peeled, NULL);
	case DW_TAG_union_type:
		out->why = "union";
		return 0;
	default:
		return 0;
	}
}
