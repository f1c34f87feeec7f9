/*
 * Conditions: which calls of a function are recorded, by what they are made with.
 *
 *     CONDITION = FUNCTION ":" EXPR
 *     EXPR      = C's expression of numbers, VALUEs, ( ), ! ~ - * / % + - << >> < <= > >= == != & ^ | && ||
 *     VALUE     = a name that --args gives to a value of the same FUNCTION, or "arg" N, or FETCH [":" TYPE] (spec.h)
 *     EXPR      = also TEXT "==" "text", TEXT "!=" "text", TEXT "~" "glob", where TEXT is a VALUE of type string
 *
 *     VALUE     = also the name of an argument, or ARGUMENT "->" MEMBER or ARGUMENT "." MEMBER, as types tell them
 *
 * Numbers have 64 bits.  A value of less keeps its sign or has none, by its type.  As in C, an operation of which one
 * side is u64 or x64 is one without sign.  "arg" N without a type is s64.  A division by 0 gives 0, and a rest by 0 the
 * dividend.  "*" and "?" of a glob stand for any text and any byte; "\" takes the next byte literally, also in a
 * text.  Memory that cannot be read makes the whole expression false; what && and || leave out is not read.
 *
 * Callers: values.c, tests.  Context: host.  Pure.
 */
#ifndef HOST_VALUES_CONDITION_H
#define HOST_VALUES_CONDITION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <calltap/diag.h>

#include "spec.h"

#define CONDITION_NODES	  64u
#define CONDITION_DEPTH	  32u  /* of operands within operands */
#define CONDITION_PATTERN 120u /* bytes of a text or a glob, with its end */
#define CONDITION_TEXTS	  512u /* bytes of all of them */

enum condition_kind {
	CONDITION_NUMBER,
	CONDITION_FIELD,  /* a number */
	CONDITION_LATER,  /* a name that types are to tell; condition->waits */
	CONDITION_STRING, /* a field that is a text; only while it is read */
	CONDITION_QUOTED, /* a text in quotes; only while it is read */
	CONDITION_MATCH,  /* left: field; the pattern is at `at` */
	/* With one operand, left. */
	CONDITION_NOT,
	CONDITION_NEGATE,
	CONDITION_INVERT,
	/* With two. */
	CONDITION_OR,
	CONDITION_AND,
	CONDITION_BIT_OR,
	CONDITION_BIT_XOR,
	CONDITION_BIT_AND,
	CONDITION_EQUAL,
	CONDITION_UNEQUAL,
	CONDITION_LIKE, /* only while it is read */
	CONDITION_LESS,
	CONDITION_LESS_EQUAL,
	CONDITION_GREATER,
	CONDITION_GREATER_EQUAL,
	CONDITION_LEFT,
	CONDITION_RIGHT,
	CONDITION_ADD,
	CONDITION_SUBTRACT,
	CONDITION_MULTIPLY,
	CONDITION_DIVIDE,
	CONDITION_REST,
};

struct condition_node {
	uint8_t kind;	     /* enum condition_kind */
	bool is_unsigned;    /* the node's value has no sign */
	uint8_t left, right; /* nodes; a field's number */
	uint16_t at, size;   /* of a pattern in `texts` */
	uint64_t number;
};

struct condition {
	struct spec_field fields[CONDITION_NODES];
	uint32_t field_count;
	struct condition_node nodes[CONDITION_NODES]; /* operands before operators */
	uint32_t node_count;
	uint8_t root;
	bool waits; /* it has names that types are to tell: to be read again with those */
	/* Patterns as the helper MATCH takes them (abi/program.h). */
	char texts[CONDITION_TEXTS];
	uint32_t texts_used;
};

/* What a condition_names returns for a function whose values types tell, which are not known yet. */
extern const struct spec condition_later;

/* The values that --args names for a function's text; NULL = it names none.  `arg` is condition_parse()'s. */
typedef const struct spec *(*condition_names)(const void *arg, const char *function, size_t length);

/*
 * Read "FUNCTION: EXPR"; *function is the number of bytes of FUNCTION, a filter's text, which is not looked at.
 * -EINVAL, with the place.
 */
int condition_parse(struct condition *out, size_t *function, const char *text, condition_names names, const void *arg,
		    struct calltap_diag *diag) __attribute__((warn_unused_result));

/* Does the node compare without sign? */
static inline bool condition_has_no_sign(const struct condition *condition, const struct condition_node *node)
{
	return condition->nodes[node->left].is_unsigned || condition->nodes[node->right].is_unsigned;
}

#endif
