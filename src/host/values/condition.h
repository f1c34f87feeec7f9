/*
 * Conditions: which calls of a function are recorded, by what they are made with, and by what they give.
 *
 *     CONDITION = FUNCTION ":" EXPR
 *     EXPR      = C's expression of numbers, VALUEs, ( ), ! ~ - * / % + - << >> < <= > >= == != & ^ | && ||
 *     EXPR      = also TEXT "==" "text", TEXT "!=" "text", TEXT "~" "glob", where TEXT is a VALUE of type string
 *     EXPR      = also REAL op DECIMAL, DECIMAL op REAL: op compares a floating-point VALUE with a number
 *     VALUE     = a name that --args or --result gives to a value of the same FUNCTION
 *     VALUE     = also "arg" N, or FETCH [":" TYPE] (spec.h), or "ret" ":" TYPE
 *     EXPR      = also NULL, true, false, 'a', '\n', and names of enumerations that are types of the values
 *     EXPR      = also REAL == nan, REAL != nan, and inf among DECIMALs
 *     VALUE     = also "$pid", "$tid", "$comm" and "$time" (spec.h), known at the call and at the return
 *     VALUE     = also what types tell: NAME, NAME "->" MEMBER or NAME "." MEMBER, where NAME is an argument or "ret"
 *
 * Numbers have 64 bits.  A value of less keeps its sign or has none, by its type.  As in C, an operation of which one
 * side is u64 or x64 is one without sign.  "arg" N without a type is s64.  A division by 0 gives 0, and a rest by 0 the
 * dividend.  "*" and "?" of a glob stand for any text and any byte; "\" takes the next sign literally, also in a
 * text, and has the escapes of C.  A text that lies at an address is true by itself if that is not NULL.  A REAL
 * compares as in C: a float as the double of its value, and NaN is unequal to all numbers; alone, or as an operand of !
 * && ||, it is true if it is not 0.  Memory that cannot be read makes the whole expression false; what
 * && and || leave out is not read.
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
	CONDITION_FIELD,   /* a number */
	CONDITION_LATER,   /* a name that types are to tell; condition->waits */
	CONDITION_REAL,	   /* a field that is a floating-point number; only while it is read */
	CONDITION_DECIMAL, /* a number with a point, as bits of a double; only while it is read */
	CONDITION_STRING,  /* a field that is a text; only while it is read */
	CONDITION_QUOTED,  /* a text in quotes; only while it is read */
	CONDITION_MATCH,   /* left: field; the pattern is at `at` */
	CONDITION_WITHIN, /* left: field; its place in the order of floating-point numbers is from `number` to `most` */
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

/*
 * When a node's value is known: of arguments alone at the call, with the result at the return.  0: of numbers and who
 * calls, at both.
 */
#define CONDITION_AT_CALL   1u
#define CONDITION_AT_RETURN 2u

struct condition_node {
	uint8_t kind;	     /* enum condition_kind */
	uint8_t uses;	     /* CONDITION_AT_*: what is in there */
	bool is_unsigned;    /* the node's value has no sign */
	bool is_variant;     /* the number tells which variant there is: it is compared with a name */
	bool is_name;	     /* the number is that of a variant's name */
	uint8_t left, right; /* nodes; a field's number */
	uint16_t at, size;   /* of a pattern in `texts` */
	uint64_t number;
	int64_t most;
};

/*
 * What a call keeps for its return, in CONDITION_KEPT_BITS bits: parts that are about arguments alone, beside others
 * that are about the result.
 */
#define CONDITION_KEPT_BITS 64u
#define CONDITION_KEPT	    8u

struct condition_kept {
	uint8_t node;
	uint8_t bit, bits; /* the first one; how many */
	bool truth;	   /* 1: the node is true */
	bool has_sign;
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
	struct condition_kept kept[CONDITION_KEPT];
	uint32_t kept_count, kept_bits;
};

/* What a condition_names returns for a function whose values types tell, which are not known yet. */
extern const struct spec condition_later;

/* The values of calls, or of returns, that a function's text has names for; NULL = none.  `arg` is condition_parse()'s.
 */
typedef const struct spec *(*condition_names)(const void *arg, const char *function, size_t length, bool result);

/*
 * Read "FUNCTION: EXPR"; *function is the number of bytes of FUNCTION, a filter's text, which is not looked at.
 * -EINVAL, with the place.
 */
int condition_parse(struct condition *out, size_t *function, const char *text, condition_names names, const void *arg,
		    struct calltap_diag *diag) __attribute__((warn_unused_result));

/* CONDITION_AT_*: what the condition is about. */
static inline uint8_t condition_uses(const struct condition *condition)
{
	return condition->nodes[condition->root].uses;
}

/* Find what the call keeps; false: that has no room.  keep.c */
bool condition_keep(struct condition *condition);
/* What is kept of the node, NULL = nothing. */
const struct condition_kept *condition_kept(const struct condition *condition, const struct condition_node *node);
/* The bits of a number, or of a text's address. */
static inline uint32_t condition_bits(const struct spec_field *field)
{
	if (field->type == SPEC_STRING)
		return 64;
	return field->bits ? field->bits : 8u * field->size;
}

/* Does the node compare without sign? */
static inline bool condition_has_no_sign(const struct condition *condition, const struct condition_node *node)
{
	return condition->nodes[node->left].is_unsigned || condition->nodes[node->right].is_unsigned;
}

#endif
