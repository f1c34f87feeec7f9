/*
 * Reading conditions (condition.h): from the text to a tree, by operator precedence.  Context: host.
 */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <calltap/abi/program.h>

#include "condition.h"

#define BLANKS	" \t"
#define NO_NODE CONDITION_NODES

struct parser {
	struct spec_reader reader;
	struct condition *out;
	const struct spec *names; /* NULL = --args names no values of this function */
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

static bool is_word(char letter)
{
	return isalnum((unsigned char)letter) || letter == '_';
}

static unsigned add(struct parser *parser, struct condition_node node)
{
	struct condition *out = parser->out;

	if (out->node_count == CONDITION_NODES)
		return refuse(parser, parser->reader.at, "the expression has more than 64 values and operators");
	out->nodes[out->node_count] = node;
	return out->node_count++;
}

static unsigned add_field(struct parser *parser, const struct spec_field *field)
{
	bool text = field->type == SPEC_STRING;
	uint32_t i = parser->out->field_count;
	unsigned node;

	if (field->type == SPEC_FLOAT)
		return refuse(parser, parser->reader.at, "a floating-point value is recorded, but not compared so far");
	node = add(parser, (struct condition_node){
				   .kind = text ? CONDITION_STRING : CONDITION_FIELD,
				   .is_unsigned = !text && field->size == 8 && field->type != SPEC_SIGNED,
				   .left = (uint8_t)i,
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
	char *end;
	uint64_t number;

	errno = 0;
	number = strtoull(start, &end, 0);
	if (errno)
		return refuse(parser, start, "the number is too large");
	if (is_word(*end))
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
	static const char from[] = "nt", to[] = "\n\t";
	char letter = *(*at)++;
	const char *special;

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
	letter = *(*at)++;
	special = strchr(from, letter);
	return put_byte(parser, *at, letter && special ? to[special - from] : letter);
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

static const struct spec_field *find_field(const struct parser *parser, const char *name, size_t length)
{
	for (uint32_t i = 0; parser->names && i < parser->names->count; i++) {
		const struct spec_field *field = &parser->names->fields[i];

		if (strlen(field->name) == length && !strncmp(field->name, name, length))
			return field;
	}
	return NULL;
}

/* The bytes of "->" or ".", behind which there is a member's name; 0: there is none. */
static size_t step_at(const char *at)
{
	size_t length = *at == '.' ? 1 : !strncmp(at, "->", 2) ? 2 : 0;

	return length && is_word(at[length]) && !isdigit((unsigned char)at[length]) ? length : 0;
}

/* Read "name->member.other" as "name.member.other"; the bytes it takes.  What is too long is no name of a value. */
static size_t read_path(char path[SPEC_NAME], const char *at)
{
	size_t used = 0, length = 0;

	for (size_t step = 0;; step = step_at(at + length)) {
		if (step && used < SPEC_NAME - 1)
			path[used++] = '.';
		for (length += step; is_word(at[length]); length++)
			if (used < SPEC_NAME - 1)
				path[used++] = at[length];
		if (!step_at(at + length))
			break;
	}
	path[used] = 0;
	return length;
}

/* A type that tells how a value is shown, as one by which it is compared. */
static uint8_t compared_as(const struct spec_field *field)
{
	switch (field->type) {
	case SPEC_BOOL:
		return SPEC_UNSIGNED;
	case SPEC_CHAR:
	case SPEC_ENUM:
		return field->is_signed ? SPEC_SIGNED : SPEC_UNSIGNED;
	case SPEC_POINTER:
	case SPEC_GROUP:
		return SPEC_HEX;
	default:
		return field->type;
	}
}

/* Why a value that types tell cannot be compared; NULL: it can. */
static const char *refusal_of(const struct spec_field *field, const struct spec_field *group)
{
	if (field->type == SPEC_MISSING)
		return "this value is not available: -a shows why";
	if (field->type == SPEC_CHARS || field->bits)
		return "arrays and fields of bits are recorded, but not compared so far";
	if (field->type == SPEC_GROUP && !field->at_address)
		return "a structure is no number; compare one of its members";
	return group && !group->at_address ? "members of a structure that goes by value are not compared so far" : NULL;
}

/* Add what types tell: an argument, or what its address leads to. */
static unsigned add_told(struct parser *parser, const struct spec_field *field, const char *start)
{
	const struct spec_field *group = field->within ? &parser->names->fields[field->within - 1] : NULL;
	const struct spec_field *base = group ? group : field;
	const char *why = refusal_of(field, group);
	struct spec_field told = *field;

	if (why)
		return refuse(parser, start, why);
	told.type = compared_as(field);
	told.size = field->type == SPEC_GROUP ? 8 : field->size;
	told.argument = base->argument;
	told.vector = base->vector;
	told.within = 0;
	if (group) {
		told.offset_count = 1;
		told.offsets[0] = field->at;
	}
	/* An offset of a string leads to the text itself: the address that lies there is one more step away. */
	if (group && told.type == SPEC_STRING)
		told.offset_count = 2;
	return add_field(parser, &told);
}

static unsigned take_fetch(struct parser *parser)
{
	struct spec_field field;

	return spec_take_fetch(&parser->reader, &field, false, SPEC_SIGNED) ? add_field(parser, &field) : NO_NODE;
}

/* Take a name that --args or types tell; NO_NODE without a reason: it is none. */
static unsigned take_known(struct parser *parser)
{
	const char *start = parser->reader.at;
	char path[SPEC_NAME];
	size_t length = read_path(path, start);
	const struct spec_field *field = find_field(parser, path, strlen(path));

	if (field && start[length] != ':') {
		parser->reader.at = start + length;
		return field->c_type ? add_told(parser, field, start) : add_field(parser, field);
	}
	if (parser->names != &condition_later || start[length] == ':')
		return NO_NODE;
	parser->reader.at = start + length;
	parser->out->waits = true;
	return add(parser, (struct condition_node){.kind = CONDITION_LATER});
}

/* Is there a value of that name alone? */
static bool is_named(const struct parser *parser, const char *word, size_t length)
{
	return find_field(parser, word, length) && word[length] != ':';
}

static unsigned take_name(struct parser *parser)
{
	const char *start = parser->reader.at, *word = start + (*start == '$');
	size_t length = 0;
	unsigned node;

	while (is_word(word[length]))
		length++;
	node = word == start && is_named(parser, word, length) ? take_known(parser) : NO_NODE;
	if (node != NO_NODE)
		return node;
	if ((length == 3 && !strncmp(word, "ret", 3)) || (length == 6 && !strncmp(word, "retval", 6)))
		return refuse(parser, start,
			      "a call's result is known when the call is in the trace already: record it by --result, "
			      "and choose when you look");
	if (!strncmp(word, "arg", 3) && isdigit((unsigned char)word[3]))
		return take_fetch(parser);
	node = word == start ? take_known(parser) : NO_NODE;
	if (node != NO_NODE)
		return node;
	/* A reason that is there already stays. */
	return refuse(parser, start,
		      "this is no value: there are arg1, arg2, ..., +OFFSET(VALUE), the names that --args gives to "
		      "values of the same FUNCTION, and those of arguments that debug information tells");
}

/* "+8(arg1)" is memory; "+8" is a number. */
static bool is_memory(const char *at)
{
	size_t length = 1;

	while (isalnum((unsigned char)at[length]))
		length++;
	return (*at == '+' || *at == '-') && isdigit((unsigned char)at[1]) && at[length] == '(';
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

static unsigned take_unary(struct parser *parser);

static unsigned take_prefix(struct parser *parser, enum condition_kind kind)
{
	const char *start = parser->reader.at++;
	unsigned left = take_unary(parser);
	struct condition_node *node;

	if (left == NO_NODE)
		return NO_NODE;
	if (!is_number(parser, left))
		return refuse(parser, start, "a text is compared by ==, != or ~");
	node = &parser->out->nodes[left];
	if (kind == CONDITION_NEGATE && node->kind == CONDITION_NUMBER) {
		node->number = -node->number;
		return left;
	}
	return add(parser, (struct condition_node){.kind = (uint8_t)kind,
						   .left = (uint8_t)left,
						   .is_unsigned = kind != CONDITION_NOT && node->is_unsigned});
}

static unsigned take_operand(struct parser *parser)
{
	char first = *parser->reader.at;

	if (isdigit((unsigned char)first))
		return take_number(parser);
	if (is_word(first) || first == '$')
		return take_name(parser);
	if (is_memory(parser->reader.at))
		return take_fetch(parser);
	if (first == '%')
		return take_fetch(parser);
	if (first == '(')
		return take_brackets(parser);
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
		return refuse(parser, parser->reader.at, "a text in quotes is missing, as in 'path == \"/etc\"'");
	right = take_text(parser, infix->kind == CONDITION_LIKE);
	if (right == NO_NODE)
		return NO_NODE;
	/* The quoted text's node becomes the comparison, and the string's is its field. */
	parser->out->nodes[right].kind = CONDITION_MATCH;
	parser->out->nodes[right].left = (uint8_t)left;
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

static unsigned add_operation(struct parser *parser, const struct infix *infix, const char *start, unsigned left,
			      unsigned right)
{
	if (!is_number(parser, right))
		return refuse(parser, start, "a text is compared with a text in quotes, which stands on the right");
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
		if (!is_number(parser, left) || infix->kind == CONDITION_LIKE) {
			left = take_match(parser, infix, start, left);
			continue;
		}
		right = take_binary(parser, infix->level + 1u);
		left = right == NO_NODE ? NO_NODE : add_operation(parser, infix, start, left, right);
	}
	parser->depth--;
	return left;
}

/* Read an expression, which ends with the text. */
static bool take_all(struct parser *parser)
{
	unsigned root = take_binary(parser, 1);

	if (root == NO_NODE)
		return false;
	skip_blanks(parser);
	if (*parser->reader.at)
		return refuse(parser, parser->reader.at,
			      *parser->reader.at == '=' ? "values are compared by =="
							: "an operator is missing, such as == or &&") != NO_NODE;
	if (!is_number(parser, root))
		return refuse(parser, parser->reader.at, "a text is compared by ==, != or ~") != NO_NODE;
	parser->out->root = (uint8_t)root;
	return true;
}

int condition_parse(struct condition *out, size_t *function, const char *text, condition_names names, const void *arg,
		    struct calltap_diag *diag)
{
	struct parser parser = {.out = out};

	/* FUNCTION may have colons, too: the first one behind which there is an expression is the right one. */
	for (const char *colon = strchr(text, ':'); colon; colon = strchr(colon + 1, ':')) {
		if (colon == text || colon[1] == ':' || colon[-1] == ':')
			continue;
		*out = (struct condition){0};
		for (*function = (size_t)(colon - text); *function && strchr(BLANKS, text[*function - 1]);)
			--*function;
		parser.names = names(arg, text, *function);
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
