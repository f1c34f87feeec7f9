/*
 * What is to be fetched at a function's call or its return, as the user asks for it:
 *
 *     SPEC   = FIELD, and others behind blanks
 *     FIELD  = [NAME "="] FETCH [":" TYPE]
 *     FETCH  = "arg" N | "ret" | "%xmm" N | "+" OFFSET "(" FETCH ")" | "-" OFFSET "(" FETCH ")"
 *     TYPE   = ("u" | "s" | "x") (8 | 16 | 32 | 64) | "f" (32 | 64) | "string" ["[" BYTES "]"]
 *
 * The words are those of the kernel's fetch arguments (Documentation/trace/kprobetrace.rst); "$" in front of "arg",
 * "retval" for "ret", and "ustring" are taken, too.  "arg1" is the first integer argument of the CPU's calling
 * convention.
 * "%xmm0" is the first register of floating-point arguments, which are counted apart; without a TYPE it is f64, a
 * double.  "ret:f64" is %xmm0, too.  The kernel has no such registers.
 * "+8(arg2)" is what lies at the address arg2 + 8.  A string is the text at the address that FETCH gives, or for
 * "+8(arg2):string" the text at arg2 + 8, as in the kernel.  Without a TYPE it is x64, 64 bits in base 16.
 *
 * Callers: values.c, tests.  Context: host.  Pure.
 */
#ifndef HOST_VALUES_SPEC_H
#define HOST_VALUES_SPEC_H

#include <stdbool.h>
#include <stdint.h>

#include <calltap/diag.h>

#define SPEC_FIELDS    16u  /* of a SPEC */
#define SPEC_ROWS      32u  /* of a SPEC with the members of structures: a bit for each in the word of faults */
#define SPEC_BYTES     192u /* of structures, in all */
#define SPEC_OFFSETS   6u   /* of a FETCH */
#define SPEC_ARGUMENTS 24u  /* N at the most */
#define SPEC_SECOND    255u
#define SPEC_REGISTERS 6u  /* arguments up to this N are in integer registers */
#define SPEC_NAME      64u /* bytes of a NAME, with its NUL */
#define SPEC_TEXT      64u /* bytes of a string that has no bound of its own */

/* Those behind SPEC_STRING are of fields whose types come from elsewhere (typed.h). */
enum spec_type {
	SPEC_UNSIGNED,
	SPEC_SIGNED,
	SPEC_HEX,
	SPEC_STRING,
	SPEC_BOOL,
	SPEC_CHAR,
	SPEC_ENUM,
	SPEC_FLOAT,
	SPEC_POINTER,
	SPEC_CHARS,
	SPEC_GROUP,
	SPEC_MISSING
};

struct spec_field {
	char name[SPEC_NAME];
	uint8_t argument; /* N, 0 = the result, SPEC_SECOND = its second register */
	uint8_t vector;	  /* 0, or N + 1 of %xmmN, which is it in place of `argument` */
	uint8_t type;	  /* enum spec_type */
	uint16_t size;	  /* bytes: of the number, or of the string at the most */
	uint8_t offset_count;
	int32_t offsets[SPEC_OFFSETS]; /* the innermost first */
	bool is_signed;		       /* SPEC_ENUM: what has no name has a sign */
	/*
	 * SPEC_GROUP: a structure, of which `size` bytes are taken.  Its members follow it, and are called
	 * "group.member". at_address: the value is its address; else it is in registers, or on the stack.
	 */
	bool at_address, cut;			/* cut: it has more members, or SPEC_CHARS: more bytes */
	uint8_t second_argument, second_vector; /* in registers: of its second 8 bytes, as above */
	/* A member: 1 + the place of its group in the spec, and its bytes there; its bits in these, bits == 0: all. */
	uint8_t within, bit, bits;
	uint16_t at;
	char *c_type; /* as C writes it, for spec_clear(); NULL: of `type` */
	char *more;   /* SPEC_ENUM: the names (abi/file.h); SPEC_MISSING: why; for spec_clear() */
};

struct spec {
	struct spec_field fields[SPEC_ROWS];
	uint32_t count;
};

/* A text that is being read.  The first reason for a refusal at the farthest place counts. */
struct spec_reader {
	const char *at;	   /* what comes next */
	const char *wrong; /* where the text stops making sense */
	const char *why;   /* what is wrong there, NULL = nothing so far */
};

/* Note the reason, if it is of the farthest place so far; returns false. */
bool spec_refuse(struct spec_reader *reader, const char *why);
/* Take FETCH [":" TYPE]; usual: the type where there is none.  False: the reader has the reason. */
bool spec_take_fetch(struct spec_reader *reader, struct spec_field *field, bool result, enum spec_type usual);

/*
 * Take "FUNCTION:SPEC" or "FUNCTION SPEC" apart: *function is the number of bytes of FUNCTION, a filter's text, which
 * is not looked at.  result: it is for the return, so there are no arguments; else no result.  -EINVAL, with the place.
 */
int spec_parse(struct spec *out, size_t *function, const char *text, bool result, struct calltap_diag *diag)
	__attribute__((warn_unused_result));

/* True if the text is a FUNCTION alone, whose values are those that its types tell. */
bool spec_is_function(const char *text);
/* True if both fetch the same, and show it alike. */
bool spec_equal(const struct spec *a, const struct spec *b);
int spec_copy(struct spec *out, const struct spec *spec) __attribute__((warn_unused_result)); /* -ENOMEM: nothing */
void spec_clear(struct spec *spec);

#endif
