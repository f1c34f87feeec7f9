/*
 * Reading conditions (condition.h): from the text to a tree, by operator precedence.  Context: host.
 */
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <calltap/abi/program.h>

#include "condition.h"
#include "constant.h"
#include "named.h"
#include "real.h"

#define BLANKS	" \t"
#define NO_NODE CONDITION_NODES

struct parser {
	struct spec_reader reader;
	struct condition *out;
	const struct spec *names[2]; /* of values of the call, of the return; NULL = there are none */
	unsigned depth;
};

const struct spec condition_later;

struct infix {
	const char *text;
	uint8_t kind, level; /* enum condition_kind; higher levels bind closer, as in C */
};

/* Longer ones first. */
static const struct infix operators[] = {
	{"||", CONDITION_OR, 1},      {"&&", CONDITION_AND, 2},	       {"==", CONDITION_EQUAL, 6},
	{"!=", CONDITION_UNEQUAL, 6}, {"<=", CONDITION_LESS_EQUAL, 7}, {">=", CONDITION_GREATER_EQUAL, 7},
	{"<<", CONDITION_LEFT, 8},    {">>", CONDITION_RIGHT, 8},      {"|", CONDITION_BIT_OR, 3},
	{"^", CONDITION_BIT_XOR, 4},  {"&", CONDITION_BIT_AND, 5},     {"~", CONDITION_LIKE, 6},
	{"<", CONDITION_LESS, 7},     {">", CONDITION_GREATER, 7},     {"+", CONDITION_ADD, 9},
	{"-", CONDITION_SUBTRACT, 9}, {"*", CONDITION_MULTIPLY, 10},   {"/", CONDITION_DIVIDE, 10},
	{"%", CONDITION_REST, 10},
};

static unsigned take_binary(struct parser *parser, unsigned level);

static unsigned refuse(struct parser *parser, const char *at, const char *why)
{
	parser->reader.at = at;
	(void)spec_refuse(&parser->reader, why);
	return NO_NODE;
}

static void skip_blanks(struct parser *parser)
{
	parser->reader.at += strspn(parser->reader.at, BLANKS);
}

static unsigned add(struct parser *parser, struct condition_node node)
{
	struct condition *out = parser->out;

	if (out->node_count == CONDITION_NODES)
		return refuse(parser, parser->reader.at, "the expression has more than 64 values and operators");
	if (node.kind >= CONDITION_NOT)
		node.uses |= out->nodes[node.left].uses;
	if (node.kind >= CONDITION_OR)
		node.uses |= out->nodes[node.right].uses;
	out->nodes[out->node_count] = node;
	return out->node_count++;
}

static unsigned add_field(struct parser *parser, const struct spec_field *field, bool result)
{
	bool text = field->type == SPEC_STRING || field->type == SPEC_VIEW, real = field->type == SPEC_FLOAT;
	uint32_t i = parser->out->field_count;
	unsigned node = add(parser, (struct condition_node){
					    .kind = text   ? CONDITION_STRING
						    : real ? CONDITION_REAL
							   : CONDITION_FIELD,
					    .is_unsigned = !text && !real && condition_bits(field) == 64 &&
							   field->type != SPEC_SIGNED,
					    .left = (uint8_t)i,
					    .uses = field->caller ? 0
						    : result	  ? CONDITION_AT_RETURN
								  : CONDITION_AT_CALL,
				    });

	/* There are no more fields than nodes. */
	if (node == NO_NODE)
		return NO_NODE;
	parser->out->fields[i] = *field;
	parser->out->field_count++;
	return node;
}

static unsigned take_number(struct parser *parser)
{
	const char *start = parser->reader.at;
	bool hex = start[0] == '0' && (start[1] | 32) == 'x', point;
	char *end, *real_end;
	uint64_t number;
	double real;

	errno = 0;
	number = strtoull(start, &end, 0);
	point = !hex && (*end == '.' || (*end | 32) == 'e');
	if (point)
		errno = 0;
	real = point ? strtod(start, &real_end) : 0;
	if (point)
		end = real_end;
	/* A number that is too small for its digits is what C would make of it. */
	if (errno && (!point || isinf(real)))
		return refuse(parser, start, "the number is too large");
	if (point && !spec_is_word(*end)) {
		memcpy(&number, &real, sizeof(number));
		parser->reader.at = end;
		return add(parser, (struct condition_node){.kind = CONDITION_DECIMAL, .number = number});
	}
	if (spec_is_word(*end))
		return refuse(parser, end, "a number goes on with a letter");
	parser->reader.at = end;
	return add(parser, (struct condition_node){
				   .kind = CONDITION_NUMBER, .number = number, .is_unsigned = number > INT64_MAX});
}

static bool put_byte(struct parser *parser, const char *at, char byte)
{
	struct condition *out = parser->out;

	if (out->texts_used + 2 >= CONDITION_TEXTS) {
		refuse(parser, at, "the texts are too long together");
		return false;
	}
	out->texts[out->texts_used++] = byte;
	return true;
}

static bool put_mark(struct parser *parser, const char *at, enum calltap_match mark)
{
	return put_byte(parser, at, 0) && put_byte(parser, at, (char)mark);
}

/* Read a byte of a text in quotes, or of a glob. */
static bool take_letter(struct parser *parser, const char **at, bool glob)
{
	const char *start = *at, *why;
	char letter = *(*at)++;

	if (glob && letter == '*')
		return put_mark(parser, *at, CALLTAP_MATCH_ALL);
	if (glob && letter == '?')
		return put_mark(parser, *at, CALLTAP_MATCH_ONE);
	if (glob && letter == '[') {
		refuse(parser, *at - 1, "a glob has * and ?, and no [; \\[ is the letter");
		return false;
	}
	if (letter != '\\')
		return put_byte(parser, *at, letter);
	why = constant_take_escape(at, &letter);
	if (why) {
		refuse(parser, start, why);
		return false;
	}
	return put_byte(parser, *at, letter);
}

/* Take a text in quotes. */
static unsigned take_text(struct parser *parser, bool glob)
{
	const char *start = parser->reader.at, *at = start + 1;
	uint32_t place = parser->out->texts_used;

	while (*at != '"') {
		if (!*at || (*at == '\\' && !at[1]))
			return refuse(parser, at, "the text's second quote is missing");
		if (!take_letter(parser, &at, glob))
			return NO_NODE;
	}
	if (!put_mark(parser, at, CALLTAP_MATCH_END))
		return NO_NODE;
	if (parser->out->texts_used - place > CONDITION_PATTERN)
		return refuse(parser, start, "the text is too long");
	parser->reader.at = at + 1;
	return add(parser, (struct condition_node){.kind = CONDITION_QUOTED,
						   .at = (uint16_t)place,
						   .size = (uint16_t)(parser->out->texts_used - place)});
}

/* What types tell may not be there: the field that says so, by its number from 1 on; 0: it has no room. */
static unsigned add_told(struct parser *parser, const struct spec_field *field, bool result, const char *start);

static uint8_t add_guard(struct parser *parser, const struct spec_field *field, bool result, const char *start)
{
	unsigned node = add_told(parser, &parser->names[result]->fields[field->guard - 1], result, start);

	return node == NO_NODE ? 0 : (uint8_t)(parser->out->nodes[node].left + 1);
}

/* Add what types tell: an argument, or what its address leads to. */
static unsigned add_told(struct parser *parser, const struct spec_field *field, bool result, const char *start)
{
	struct spec_field told;
	unsigned node;
	const char *why = named_tell(&told, parser->names[result], field);

	if (why)
		return refuse(parser, start, why);
	if (field->guard) {
		told.guard = add_guard(parser, field, result, start);
		if (!told.guard)
			return NO_NODE;
	}
	node = add_field(parser, &told, result);
	if (node != NO_NODE)
		parser->out->nodes[node].is_variant = field->type == SPEC_VARIANT;
	return node;
}

static unsigned take_fetch(struct parser *parser, bool result)
{
	const char *start = parser->reader.at;
	struct spec_field field;

	if (!spec_take_fetch(&parser->reader, &field, result, SPEC_SIGNED))
		return NO_NODE;
	if (field.caller == SPEC_STACK)
		return refuse(parser, start, "a stack is not compared with anything; calls can be counted by it");
	return add_field(parser, &field, result);
}

/* Whether there is a value, as a truth. */
static unsigned add_presence(struct parser *parser, const struct spec_field *field, bool result, const char *start)
{
	unsigned left = add_told(parser, field, result, start), right;

	if (left == NO_NODE)
		return left;
	right = add(parser, (struct condition_node){.kind = CONDITION_NUMBER, .number = field->absent});
	if (right == NO_NODE)
		return right;
	return add(parser, (struct condition_node){.kind = CONDITION_UNEQUAL,
						   .uses = parser->out->nodes[left].uses,
						   .left = (uint8_t)left,
						   .right = (uint8_t)right});
}

/*
 * Take a name that --args, --result or types tell; result: of a value of the return.  NO_NODE without a reason: it is
 * none.
 */
static unsigned take_known(struct parser *parser, bool result)
{
	const char *start = parser->reader.at;
	const struct spec *names = parser->names[result];
	char path[SPEC_NAME];
	size_t length = spec_read_path(path, start);
	const struct spec_field *field = path[0] ? named_find_value(names, path) : NULL;

	if (start[length] == ':' && !strpbrk(path, ".["))
		return NO_NODE;
	if (field) {
		parser->reader.at = start + length;
		if (field->type == SPEC_GUARD)
			return add_presence(parser, field, result, start);
		return field->c_type ? add_told(parser, field, result, start) : add_field(parser, field, result);
	}
	if (names != &condition_later)
		return NO_NODE;
	parser->reader.at = start + length;
	parser->out->waits = true;
	return add(parser, (struct condition_node){.kind = CONDITION_LATER,
						   .uses = result ? CONDITION_AT_RETURN : CONDITION_AT_CALL});
}

static bool is_same_word(const char *word, size_t length, const char *other)
{
	return length == strlen(other) && !strncmp(word, other, length);
}

/* Take a name that means a number, or a letter; NO_NODE without a reason: it is none. */
static unsigned take_constant(struct parser *parser, size_t length)
{
	static const struct {
		const char *word;
		double real; /* 0: the number */
		uint64_t number;
	} words[] = {{"NULL", 0, 0}, {"false", 0, 0}, {"true", 0, 1}, {"inf", INFINITY, 0}, {"nan", NAN, 0}};
	const char *start = parser->reader.at;
	struct condition_node node = {.kind = CONDITION_NUMBER};

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (!is_same_word(start, length, words[i].word))
			continue;
		node.number = words[i].number;
		if (words[i].real != 0) {
			node.kind = CONDITION_DECIMAL;
			memcpy(&node.number, &words[i].real, sizeof(node.number));
		}
		parser->reader.at = start + length;
		return add(parser, node);
	}
	return NO_NODE;
}

static const char no_number[] = "this variant has no number of its own: compare with each of the others, by !=";

/* Take a name of an enumeration that some value has as its type; NO_NODE without a reason: it is none. */
static unsigned take_enumerator(struct parser *parser, size_t length)
{
	const char *start = parser->reader.at;
	bool unlike;
	int64_t value;

	if (parser->names[0] == &condition_later || parser->names[1] == &condition_later) {
		parser->reader.at = start + length;
		parser->out->waits = true;
		return add(parser, (struct condition_node){.kind = CONDITION_LATER});
	}
	if (!constant_find_name(&value, &unlike, parser->names, start, length))
		return !constant_is_others(parser->names, start, length) ? NO_NODE : refuse(parser, start, no_number);
	if (unlike)
		return refuse(parser, start,
			      "two types give this name to different values: say which, as in TYPE::NAME, or write the "
			      "number");
	parser->reader.at = start + length;
	return add(parser, (struct condition_node){.kind = CONDITION_NUMBER, .number = (uint64_t)value});
}

/* Take "ret", or what it leads to. */
static unsigned take_result(struct parser *parser, size_t length)
{
	const char *start = parser->reader.at;
	unsigned node;

	if (start[length] == ':')
		return take_fetch(parser, true);
	/* "$ret" and "retval" are called "ret". */
	node = *start == 'r' && length == 3 ? take_known(parser, true) : NO_NODE;
	if (node != NO_NODE)
		return node;
	return refuse(parser, start,
		      "nothing tells the type of this result: say it, as in ret:s32 for an int, or ret:string");
}

/* Names of two paths that are longer might be one. */
static bool is_long_path(const char *text)
{
	char name[SPEC_NAME];
	bool steps;

	(void)spec_read_path(name, text);
	return spec_path_length(text, &steps) && steps && !name[0];
}

static unsigned take_name(struct parser *parser)
{
	const char *start = parser->reader.at, *word = start + (*start == '$');
	size_t length = 0;
	bool named, result;
	unsigned node;

	while (spec_is_word(word[length]))
		length++;
	if (is_long_path(start))
		return refuse(parser, start, "this path is too long: in a condition it has 63 bytes at the most");
	/* A name of the user's own, or of an argument, goes before words that mean something. */
	named = word == start && word[length] != ':' && named_find(parser->names[0], word, length);
	result = is_same_word(word, length, "ret") || is_same_word(word, length, "retval");
	node = named ? take_known(parser, false) : NO_NODE;
	if (node != NO_NODE)
		return node;
	node = word == start ? take_constant(parser, length) : NO_NODE;
	if (node == NO_NODE && constant_qualified(start))
		node = take_enumerator(parser, constant_qualified(start));
	if (node != NO_NODE)
		return node;
	if (result && !named)
		return take_result(parser, length + (size_t)(word - start));
	if ((!strncmp(word, "arg", 3) && isdigit((unsigned char)word[3])) || *start == '$')
		return take_fetch(parser, false);
	if (word == start && named_find(parser->names[1], word, length))
		node = take_known(parser, true);
	if (node == NO_NODE && word == start)
		node = take_known(parser, false);
	if (node == NO_NODE && word == start)
		node = take_enumerator(parser, length);
	if (node != NO_NODE)
		return node;
	/* A reason that is there already stays. */
	return refuse(parser, start,
		      "this is no value: there are arg1, arg2, ..., ret, +OFFSET(VALUE), $pid, $tid, $comm, $time, the "
		      "names that --args and "
		      "--result give to values of the same FUNCTION, and those of arguments, and of the "
		      "enumerations that are their types, that debug information tells");
}

/* "+8(arg1)" is memory; "+8" is a number. */
static bool is_memory(const char *at)
{
	size_t length = 1;

	if ((*at != '+' && *at != '-') || !isdigit((unsigned char)at[1]))
		return false;
	while (isalnum((unsigned char)at[length]))
		length++;
	return at[length] == '(';
}

/* Is it memory that the result leads to? */
static bool is_of_result(const char *at)
{
	while (is_memory(at))
		at = strchr(at, '(') + 1;
	return !strncmp(at + (*at == '$'), "ret", 3);
}

static unsigned take_brackets(struct parser *parser)
{
	unsigned node;

	parser->reader.at++;
	node = take_binary(parser, 1);
	if (node == NO_NODE)
		return NO_NODE;
	skip_blanks(parser);
	if (*parser->reader.at != ')')
		return refuse(parser, parser->reader.at, "')' is missing");
	parser->reader.at++;
	return node;
}

static bool is_number(const struct parser *parser, unsigned node)
{
	uint8_t kind = parser->out->nodes[node].kind;

	return kind != CONDITION_STRING && kind != CONDITION_QUOTED;
}

/* Add "REAL kind value", for the field. */
static unsigned add_within(struct parser *parser, uint8_t kind, unsigned real, double value)
{
	uint8_t field = parser->out->nodes[real].left;
	uint32_t bits = condition_bits(&parser->out->fields[field]);
	int64_t below = real_place_up_to(value, bits, true), up_to = real_place_up_to(value, bits, false);
	int64_t least = real_place(-INFINITY, bits), most = real_place(INFINITY, bits);
	struct condition_node *node = &parser->out->nodes[real];

	/* "-0 < 0" is not so. */
	if (value == 0)
		below = real_place(-0.0, bits) - 1;
	*node = (struct condition_node){.kind = CONDITION_WITHIN, .left = field, .uses = node->uses};
	node->number = (uint64_t)(kind == CONDITION_LESS || kind == CONDITION_LESS_EQUAL ? least
				  : kind == CONDITION_GREATER				 ? up_to + 1
											 : below + 1);
	node->most = kind == CONDITION_LESS					    ? below
		     : kind == CONDITION_GREATER || kind == CONDITION_GREATER_EQUAL ? most
										    : up_to;
	if (kind == CONDITION_UNEQUAL)
		return add(parser, (struct condition_node){.kind = CONDITION_NOT, .left = (uint8_t)real});
	return real;
}

/* "x == nan" asks whether x is no number, as nothing else would. */
static unsigned add_nan(struct parser *parser, uint8_t kind, unsigned real, const char *start)
{
	if (kind != CONDITION_EQUAL && kind != CONDITION_UNEQUAL)
		return refuse(parser, start, "nothing is less or greater than nan: there are == nan and != nan");
	/* All numbers are up to infinity. */
	real = add_within(parser, CONDITION_LESS_EQUAL, real, (double)INFINITY);
	return kind == CONDITION_UNEQUAL
		       ? real
		       : add(parser, (struct condition_node){.kind = CONDITION_NOT, .left = (uint8_t)real});
}

/* Is the type a pointer, as C writes it? */
static bool is_pointer(const char *c_type)
{
	const char *last = strpbrk(c_type, "*&>") ? c_type + strlen(c_type) : c_type;

	while (last > c_type && !strchr("*&>", last[-1]))
		last--;
	return last > c_type && last[-1] == '*';
}

/* A text whose address alone counts; false: it has none. */
static bool take_as_address(struct parser *parser, unsigned node)
{
	struct condition_node *text = &parser->out->nodes[node];
	struct spec_field *field = &parser->out->fields[text->left];

	if (text->kind != CONDITION_STRING || field->caller)
		return false;
	if (field->type == SPEC_VIEW && field->at_address && !field->offset_count && field->c_type &&
	    is_pointer(field->c_type))
		*field = (struct spec_field){
			.type = SPEC_HEX, .size = 8, .argument = field->argument, .vector = field->vector};
	if (field->type != SPEC_STRING && field->type != SPEC_HEX)
		return false;
	text->kind = CONDITION_FIELD;
	return true;
}

/* A floating-point number by itself is true if it is not 0, and a text if its address is not. */
static unsigned as_truth(struct parser *parser, unsigned node)
{
	if (node == NO_NODE)
		return node;
	if (parser->out->nodes[node].kind == CONDITION_STRING)
		(void)take_as_address(parser, node);
	return parser->out->nodes[node].kind == CONDITION_REAL ? add_within(parser, CONDITION_UNEQUAL, node, 0) : node;
}

/* The value of a number, with a point or without. */
static double real_of(const struct condition_node *node)
{
	double value;

	if (node->kind == CONDITION_NUMBER)
		return node->is_unsigned ? (double)node->number : (double)(int64_t)node->number;
	memcpy(&value, &node->number, sizeof(value));
	return value;
}

static bool is_real(const struct parser *parser, unsigned node)
{
	return parser->out->nodes[node].kind == CONDITION_REAL || parser->out->nodes[node].kind == CONDITION_DECIMAL;
}

static bool is_later(const struct parser *parser, unsigned node)
{
	return parser->out->nodes[node].kind == CONDITION_LATER;
}

static bool is_constant(const struct parser *parser, unsigned node)
{
	return parser->out->nodes[node].kind == CONDITION_NUMBER || parser->out->nodes[node].kind == CONDITION_DECIMAL;
}

static bool is_nan(const struct condition_node *node)
{
	return node->kind == CONDITION_DECIMAL && isnan(real_of(node));
}

/* The comparison with its sides exchanged. */
static uint8_t turned(uint8_t kind)
{
	switch (kind) {
	case CONDITION_LESS:
		return CONDITION_GREATER;
	case CONDITION_LESS_EQUAL:
		return CONDITION_GREATER_EQUAL;
	case CONDITION_GREATER:
		return CONDITION_LESS;
	case CONDITION_GREATER_EQUAL:
		return CONDITION_LESS_EQUAL;
	default:
		return kind;
	}
}

/* An operation of which one side is a floating-point number. */
static unsigned add_real(struct parser *parser, const struct infix *infix, const char *start, unsigned left,
			 unsigned right)
{
	bool compares = infix->kind == CONDITION_EQUAL || infix->kind == CONDITION_UNEQUAL ||
			(infix->kind >= CONDITION_LESS && infix->kind <= CONDITION_GREATER_EQUAL);
	const struct condition_node *nodes = parser->out->nodes;

	if (compares && nodes[left].kind == CONDITION_REAL && is_nan(&nodes[right]))
		return add_nan(parser, infix->kind, left, start);
	if (compares && nodes[left].kind == CONDITION_REAL && is_constant(parser, right))
		return add_within(parser, infix->kind, left, real_of(&nodes[right]));
	if (compares && nodes[right].kind == CONDITION_REAL && is_nan(&nodes[left]))
		return add_nan(parser, infix->kind, right, start);
	if (compares && nodes[right].kind == CONDITION_REAL && is_constant(parser, left))
		return add_within(parser, turned(infix->kind), right, real_of(&nodes[left]));
	return refuse(parser, start,
		      nodes[left].kind == CONDITION_REAL || nodes[right].kind == CONDITION_REAL
			      ? "a floating-point value is compared with a number, as in 'x < 1.5', and takes part in "
				"nothing else"
			      : "a number with a point is compared with a floating-point value, and no other");
}

static unsigned take_unary(struct parser *parser);

static unsigned take_prefix(struct parser *parser, enum condition_kind kind)
{
	const char *start = parser->reader.at++;
	unsigned left = take_unary(parser);
	struct condition_node *node;

	left = kind == CONDITION_NOT ? as_truth(parser, left) : left;
	if (left == NO_NODE)
		return NO_NODE;
	if (!is_number(parser, left))
		return refuse(parser, start, "a text is compared by ==, != or ~");
	node = &parser->out->nodes[left];
	if (kind == CONDITION_NEGATE && node->kind == CONDITION_NUMBER) {
		node->number = -node->number;
		return left;
	}
	if (kind == CONDITION_NEGATE && node->kind == CONDITION_DECIMAL) {
		node->number ^= (uint64_t)1 << 63;
		return left;
	}
	if (is_real(parser, left))
		return refuse(parser, start,
			      "a floating-point value is compared with a number, as in 'x < 1.5', and takes part in "
			      "nothing else");
	return add(parser, (struct condition_node){.kind = (uint8_t)kind,
						   .left = (uint8_t)left,
						   .is_unsigned = kind != CONDITION_NOT && node->is_unsigned});
}

static unsigned take_letter_constant(struct parser *parser)
{
	struct condition_node node = {.kind = CONDITION_NUMBER};
	const char *why = constant_take_letter(&parser->reader.at, &node.number);

	return why ? refuse(parser, parser->reader.at, why) : add(parser, node);
}

static unsigned take_operand(struct parser *parser)
{
	char first = *parser->reader.at;

	if (isdigit((unsigned char)first))
		return take_number(parser);
	if (spec_is_word(first) || first == '$')
		return take_name(parser);
	if (is_memory(parser->reader.at))
		return take_fetch(parser, is_of_result(parser->reader.at));
	if (first == '%')
		return take_fetch(parser, false);
	if (first == '(')
		return take_brackets(parser);
	if (first == '\'')
		return take_letter_constant(parser);
	if (first == '"')
		return refuse(parser, parser->reader.at, "a text stands right of ==, != or ~");
	return refuse(parser, parser->reader.at, "a value or a number is missing");
}

static unsigned take_unary(struct parser *parser)
{
	unsigned node = NO_NODE;

	if (++parser->depth > CONDITION_DEPTH)
		return refuse(parser, parser->reader.at, "the expression is nested too deeply");
	skip_blanks(parser);
	switch (is_memory(parser->reader.at) ? 0 : *parser->reader.at) {
	case '!':
		node = take_prefix(parser, CONDITION_NOT);
		break;
	case '~':
		node = take_prefix(parser, CONDITION_INVERT);
		break;
	case '-':
		node = take_prefix(parser, CONDITION_NEGATE);
		break;
	default:
		node = take_operand(parser);
	}
	parser->depth--;
	return node;
}

static const struct infix *find_infix(const char *at)
{
	for (size_t i = 0; i < sizeof(operators) / sizeof(operators[0]); i++)
		if (!strncmp(at, operators[i].text, strlen(operators[i].text)))
			return &operators[i];
	return NULL;
}

static const char *what_text_misses(const struct parser *parser, unsigned node)
{
	return parser->out->fields[parser->out->nodes[node].left].type == SPEC_VIEW &&
			       !strncmp(parser->reader.at, "NULL", 4)
		       ? "this text is no address: it is compared with a text in quotes, as in 's == \"\"'"
		       : "a text in quotes is missing, as in 'path == \"/etc\"', or NULL";
}

/* The comparison of a text, of which the left side was read and the operator stands at `start`. */
static unsigned take_match(struct parser *parser, const struct infix *infix, const char *start, unsigned left)
{
	unsigned right, node;

	if (infix->kind != CONDITION_EQUAL && infix->kind != CONDITION_UNEQUAL && infix->kind != CONDITION_LIKE)
		return refuse(parser, start, "a text is compared by ==, != or ~");
	if (parser->out->nodes[left].kind != CONDITION_STRING)
		return refuse(parser, start, "~ compares a value of type string, as in 'arg1:string ~ \"*.so\"'");
	skip_blanks(parser);
	if (*parser->reader.at != '"')
		return refuse(parser, parser->reader.at, what_text_misses(parser, left));
	right = take_text(parser, infix->kind == CONDITION_LIKE);
	if (right == NO_NODE)
		return NO_NODE;
	/* The quoted text's node becomes the comparison, and the string's is its field. */
	parser->out->nodes[right].kind = CONDITION_MATCH;
	parser->out->nodes[right].left = (uint8_t)left;
	parser->out->nodes[right].uses = parser->out->nodes[left].uses;
	node = right;
	if (infix->kind == CONDITION_UNEQUAL)
		node = add(parser, (struct condition_node){.kind = CONDITION_NOT, .left = (uint8_t)right});
	return node;
}

/* Is the node a number with a sign that is not above `most`? */
static bool is_at_most(const struct condition_node *node, int64_t most)
{
	return node->kind == CONDITION_NUMBER && !node->is_unsigned && (int64_t)node->number <= most;
}

/* A comparison that asks whether something without sign is below 0. */
static bool is_never(const struct parser *parser, uint8_t kind, unsigned left, unsigned right)
{
	const struct condition_node *nodes = parser->out->nodes;
	bool below = kind == CONDITION_LESS || kind == CONDITION_GREATER_EQUAL;

	if (kind < CONDITION_LESS || kind > CONDITION_GREATER_EQUAL)
		return false;
	return (nodes[left].is_unsigned && is_at_most(&nodes[right], below ? 0 : -1)) ||
	       (nodes[right].is_unsigned && is_at_most(&nodes[left], below ? -1 : 0));
}

static bool has_no_sign(const struct parser *parser, uint8_t kind, unsigned left, unsigned right)
{
	const struct condition_node *nodes = parser->out->nodes;

	if (kind == CONDITION_LEFT || kind == CONDITION_RIGHT)
		return nodes[left].is_unsigned;
	if (kind == CONDITION_BIT_OR || kind == CONDITION_BIT_XOR || kind == CONDITION_BIT_AND || kind >= CONDITION_ADD)
		return nodes[left].is_unsigned || nodes[right].is_unsigned;
	return false; /* it is 0 or 1 */
}

static const char *names_of(const struct parser *parser, const struct condition_node *variant)
{
	return parser->out->fields[variant->left].more;
}

/* Is it a variant, whose number says nothing to a user, with something else than a name of its type? */
static bool is_unnamed(const struct parser *parser, uint8_t kind, unsigned left, unsigned right)
{
	const struct condition_node *one = &parser->out->nodes[left], *other = &parser->out->nodes[right];

	if (!one->is_variant && !other->is_variant)
		return false;
	if (kind != CONDITION_EQUAL && kind != CONDITION_UNEQUAL)
		return true;
	if (one->is_variant && other->is_variant)
		return strcmp(names_of(parser, one), names_of(parser, other)) != 0;
	return !other->is_name && !is_later(parser, left) && !is_later(parser, right);
}

/* Take the name that stands right of a variant; false: it is none of its type. */
static bool take_variant(unsigned *node, struct parser *parser, unsigned variant)
{
	bool found, others;
	const char *start;
	size_t length;
	int64_t value;

	if (!parser->out->nodes[variant].is_variant)
		return false;
	skip_blanks(parser);
	start = parser->reader.at;
	length = constant_qualified(start);
	while (!constant_qualified(start) && spec_is_word(start[length]))
		length++;
	found = constant_find_in(&value, &others, names_of(parser, &parser->out->nodes[variant]), start, length);
	if (!found && !others)
		return false;
	parser->reader.at += found ? length : 0;
	*node = others ? refuse(parser, start, no_number)
		       : add(parser, (struct condition_node){
					     .kind = CONDITION_NUMBER, .number = (uint64_t)value, .is_name = true});
	return true;
}

static unsigned add_operation(struct parser *parser, const struct infix *infix, const char *start, unsigned left,
			      unsigned right)
{
	const struct condition_node *other = &parser->out->nodes[left];

	if (infix->kind == CONDITION_AND || infix->kind == CONDITION_OR) {
		left = as_truth(parser, left);
		right = as_truth(parser, right);
		if (left == NO_NODE || right == NO_NODE)
			return NO_NODE;
	}
	if ((infix->kind == CONDITION_EQUAL || infix->kind == CONDITION_UNEQUAL) && other->kind == CONDITION_NUMBER &&
	    !other->number)
		(void)take_as_address(parser, right);
	if (!is_number(parser, right))
		return refuse(parser, start, "a text is compared with a text in quotes, which stands on the right");
	if ((is_real(parser, left) || is_real(parser, right)) && !is_later(parser, left) && !is_later(parser, right))
		return add_real(parser, infix, start, left, right);
	if (is_unnamed(parser, infix->kind, left, right))
		return refuse(parser, start,
			      "a variant is compared with a name of its type, by == or !=, as in 's.variant == Ok'");
	if (is_never(parser, infix->kind, left, right))
		return refuse(parser, start,
			      "a value of type u64 or x64 is never below 0: give it one with a sign, such as s32");
	return add(parser, (struct condition_node){.kind = infix->kind,
						   .left = (uint8_t)left,
						   .right = (uint8_t)right,
						   .is_unsigned = has_no_sign(parser, infix->kind, left, right)});
}

/* Is it a name that is not known yet, and a text stands on the right? */
static bool is_later_text(const struct parser *parser, unsigned node)
{
	return parser->out->nodes[node].kind == CONDITION_LATER &&
	       parser->reader.at[strspn(parser->reader.at, BLANKS)] == '"';
}

/* Is it an address that is compared with NULL, or 0, which stands on the right? */
static bool is_with_null(const struct parser *parser, const struct infix *infix)
{
	const char *right = parser->reader.at + strspn(parser->reader.at, BLANKS);

	return (infix->kind == CONDITION_EQUAL || infix->kind == CONDITION_UNEQUAL) &&
	       (!strncmp(right, "NULL", 4) || *right == '0');
}

/* Take operands and operators that bind at least as closely as the level. */
static unsigned take_binary(struct parser *parser, unsigned level)
{
	unsigned left, right;

	if (++parser->depth > CONDITION_DEPTH)
		return refuse(parser, parser->reader.at, "the expression is nested too deeply");
	left = take_unary(parser);
	while (left != NO_NODE) {
		const struct infix *infix;
		const char *start;

		skip_blanks(parser);
		start = parser->reader.at;
		infix = find_infix(start);
		if (!infix || infix->level < level)
			break;
		parser->reader.at += strlen(infix->text);
		if (is_later_text(parser, left))
			parser->out->nodes[left].kind = CONDITION_STRING;
		else if (is_with_null(parser, infix))
			(void)take_as_address(parser, left);
		else if (infix->kind == CONDITION_AND || infix->kind == CONDITION_OR)
			left = as_truth(parser, left);
		if (left == NO_NODE)
			break;
		if (!is_number(parser, left) || infix->kind == CONDITION_LIKE) {
			left = take_match(parser, infix, start, left);
			continue;
		}
		if (!take_variant(&right, parser, left))
			right = take_binary(parser, infix->level + 1u);
		left = right == NO_NODE ? NO_NODE : add_operation(parser, infix, start, left, right);
	}
	parser->depth--;
	return left;
}

/* Why nothing can stand here, behind a value. */
static const char *why_not_behind(char letter)
{
	switch (letter) {
	case '=':
		return "values are compared by ==";
	case '?':
		return "there is no '?': say it by && and ||, as in 'a == 1 && b > 2 || a != 1 && b > 3'";
	case '"':
		return "a text stands right of ==, != or ~";
	case ')':
		return "an operator is missing, such as == or &&; this ')' has no '('";
	default:
		return "an operator is missing, such as == or &&";
	}
}

/* Read an expression, which ends with the text. */
static bool take_all(struct parser *parser)
{
	unsigned root = as_truth(parser, take_binary(parser, 1));

	if (root == NO_NODE)
		return false;
	skip_blanks(parser);
	if (*parser->reader.at)
		return refuse(parser, parser->reader.at, why_not_behind(*parser->reader.at)) != NO_NODE;
	if (!is_number(parser, root))
		return refuse(parser, parser->reader.at, "a text is compared by ==, != or ~") != NO_NODE;
	if (is_real(parser, root))
		return refuse(parser, parser->reader.at,
			      "a number with a point is compared with a floating-point value, and "
			      "no other") != NO_NODE;
	parser->out->root = (uint8_t)root;
	if (!parser->out->waits && !condition_keep(parser->out))
		return refuse(parser, parser->reader.at,
			      "the arguments are gone when there is a result, and of those that stand beside it a call "
			      "keeps 64 bits, and 8 of them at most: compare fewer") != NO_NODE;
	return true;
}

/* Is it the colon in front of a value's type, as in "ret:s32"? */
static bool is_of_type(const char *text, const char *colon)
{
	const char *behind = colon + 1, *word = colon;

	while (word > text && spec_is_word(word[-1]))
		word--;
	if (colon[-1] != ')' && strncmp(word, "ret", 3) != 0 && strncmp(word, "arg", 3) != 0)
		return false;
	return (*behind && strchr("usxf", *behind) && isdigit((unsigned char)behind[1])) ||
	       !strncmp(behind, "string", 6) || !strncmp(behind, "ustring", 7);
}

/*
 * Can FUNCTION be the text up to the colon?  Not where that is in a text's quotes, or behind a '?' of C's, which no
 * name has behind a blank.
 */
static bool is_function_to(struct parser *parser, const char *text, const char *colon)
{
	bool quoted = false;

	if (colon == text || colon[1] == ':' || colon[-1] == ':' || is_of_type(text, colon))
		return false;
	for (const char *at = text; at < colon; at++) {
		/* No name has a colon in front of a blank; a regular expression may. */
		if (*text != '/' && *at == ':' && strchr(BLANKS, at[1]))
			return false;
		quoted ^= *at == '"';
		if (*at == '?' && at > text && strchr(BLANKS, at[-1])) {
			refuse(parser, at, why_not_behind('?'));
			return false;
		}
	}
	return !quoted;
}

int condition_parse(struct condition *out, size_t *function, const char *text, condition_names names, const void *arg,
		    struct calltap_diag *diag)
{
	struct parser parser = {.out = out};

	/* FUNCTION may have colons, too: the first one behind which there is an expression is the right one. */
	for (const char *colon = strchr(text, ':'); colon; colon = strchr(colon + 1, ':')) {
		if (!is_function_to(&parser, text, colon))
			continue;
		*out = (struct condition){0};
		for (*function = (size_t)(colon - text); *function && strchr(BLANKS, text[*function - 1]);)
			--*function;
		parser.names[0] = names(arg, text, *function, false);
		parser.names[1] = names(arg, text, *function, true);
		parser.reader.at = colon + 1;
		parser.depth = 0;
		if (take_all(&parser))
			return 0;
	}
	if (!parser.reader.why) {
		parser.reader.wrong = text + strlen(text);
		parser.reader.why = "it says not which calls; as in 'write: arg1:s32 == 2'";
	}
	(void)calltap_diag_set(diag, -EINVAL, "condition '%.200s': %s", text, parser.reader.why);
	if (diag && (size_t)snprintf(diag->input, sizeof(diag->input), "%s", text) < sizeof(diag->input))
		diag->column = (int)(parser.reader.wrong - text);
	return -EINVAL;
}
