/*
 * What is to be fetched at a function's call or its return, as the user asks for it:
 *
 *     SPEC   = FIELD, and others behind blanks
 *     FIELD  = [NAME "="] (FETCH | PATH) [":" TYPE]
 *     PATH   = NAME, and behind it any number of: "->" NAME, "." NAME, "[" N "]"
 *     FETCH  = "arg" N | "ret" | VECTOR N | "+" OFFSET "(" FETCH ")" | "-" OFFSET "(" FETCH ")" | "$" CALLER
 *     CALLER = "pid" | "tid" | "comm" | "time" | "caller" | "stack"
 *     VECTOR = "%xmm" | "%d" | "%fa"
 *     TYPE   = ("u" | "s" | "x") (8 | 16 | 32 | 64) | "f" (32 | 64) | "string" ["[" BYTES "]"]
 *
 * The words are those of the kernel's fetch arguments (Documentation/trace/kprobetrace.rst); "$" in front of "arg",
 * "retval" for "ret", and "ustring" are taken, too.  "arg1" is the first integer argument of the CPU's calling
 * convention.
 * "%xmm0" is the first register of floating-point arguments, which are counted apart; without a TYPE it is f64, a
 * double.  "ret:f64" is %xmm0, too.  AArch64's are "%d0", RISC-V's are "%fa0".  The kernel has no such registers.
 * "$pid" and "$tid" are the process and the thread that calls, by their ids; "$comm" is the thread's name, a string of
 * up to 15 bytes, as in the kernel; "$time" is the clock of the trace, in its ticks;
 * "$caller" is the address that the call returns to;
 * "$stack" is the stack from which the call comes, for counts alone.
 * "+8(arg2)" is what lies at the address arg2 + 8.  A string is the text at the address that FETCH gives, or for
 * "+8(arg2):string" the text at arg2 + 8, as in the kernel.  Without a TYPE it is x64, 64 bits in base 16.
 *
 * PATH is C's: the NAME of an argument, or "ret", and what it leads to, by the types of the function (typed.h).  An
 * argument's NAME alone is a PATH behind "FUNCTION: " and "NAME=" only, for functions' names have words, too.
 *
 * Callers: values.c, tests.  Context: host.  Pure.
 */
#ifndef HOST_VALUES_SPEC_H
#define HOST_VALUES_SPEC_H

#include <ctype.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <calltap/diag.h>

#define SPEC_FIELDS    16u  /* of a SPEC */
#define SPEC_ROWS      32u  /* of a SPEC with the members of structures: a bit for each in the word of faults */
#define SPEC_BYTES     192u /* of structures, in all */
#define SPEC_OFFSETS   6u   /* of a FETCH */
#define SPEC_ARGUMENTS 24u  /* N at the most */
#define SPEC_SECOND    255u
#define SPEC_REGISTERS 6u  /* arguments up to this N are in integer registers, on each CPU */
#define SPEC_NAME      64u /* bytes of a NAME, with its NUL */
#define SPEC_TEXT      64u /* bytes of a string that has no bound of its own, and of a list of numbers */
#define SPEC_LIST      96u /* bytes of a list of structures */
#define SPEC_TEXTS     4u  /* texts of a list of texts, the first ones */
#define SPEC_EACH      24u /* bytes of each of these at the most */

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
	SPEC_VIEW,	  /* a text with a size, or a list, as a class says it */
	SPEC_ARRAY,	  /* of a structure's bytes: a list */
	SPEC_GUARD,	  /* of a structure's bytes: the value behind it is there, unless this number is `absent` */
	SPEC_VARIANT,	  /* of a structure's bytes: its name tells which of the members behind it are there */
	SPEC_LONG_DOUBLE, /* of 10 bytes, or of 16 */
	SPEC_MISSING
};

/* What tells who calls. */
enum spec_caller { SPEC_NO_CALLER, SPEC_PID, SPEC_TID, SPEC_COMM, SPEC_TIME, SPEC_CALLER, SPEC_STACK };

/* What a class that stands for a text says of it (host/types/types.h). */
struct spec_view {
	uint8_t how, size, address_at, size_at, size_bytes;
	uint32_t element; /* the size counts so many bytes */
};

/*
 * What a list has: the first one tells of an element.  Of a structure (SPEC_GROUP) its members follow, and of a list
 * within (SPEC_ARRAY) its own element does, which has the list's name.
 */
struct spec_element {
	uint8_t type; /* enum spec_type; SPEC_MISSING: it is not shown */
	bool is_signed, cut;
	uint8_t bit, bits; /* as a field's */
	bool is_member;
	uint32_t size; /* bytes; of what is no member: from one element to the next */
	uint32_t at;   /* in the element that it is a member of */
	char *name;    /* behind the list's own and a point; "" = it is of the list's elements */
	char *more;    /* as a field's */
};

struct spec_field {
	char name[SPEC_NAME];
	uint8_t argument;    /* N, 0 = the result, SPEC_SECOND = its second register */
	uint8_t vector;	     /* 0, or N + 1 of %xmmN (or so), which is it in place of `argument` */
	uint8_t caller;	     /* enum spec_caller, which is it in place of `argument`; 0 = SPEC_NO_CALLER */
	const char *vectors; /* the text in front of that N, NULL = nobody has named it */
	uint8_t type;	     /* enum spec_type */
	uint16_t size;	     /* bytes: of the number, or of the string at the most */
	uint8_t offset_count;
	int32_t offsets[SPEC_OFFSETS]; /* the innermost first */
	bool is_signed;		       /* SPEC_ENUM: what has no name has a sign */
	/*
	 * SPEC_GROUP: a structure, of which `size` bytes are taken.  Its members follow it, and are called
	 * "group.member". at_address: the value is its address; else it is in registers, or on the stack.
	 */
	bool at_address, cut;			/* cut: it has more members, or SPEC_CHARS: more bytes */
	struct spec_view view;			/* SPEC_VIEW: placed as a SPEC_GROUP; `size` is of the text */
	struct spec_view text;			/* SPEC_VIEW, a list: its elements are texts; size == 0: not */
	struct spec_element *elements;		/* of a list, for spec_clear() */
	uint32_t element_count;			/* 0: it is none */
	uint8_t second_argument, second_vector; /* in registers: of its second part, as above */
	uint8_t step; /* bytes from there to the next part, 0 = 8; a third one is in the next vector register */
	/* A member: 1 + the place of its group in the spec, and its bytes there; its bits in these, bits == 0: all. */
	uint8_t within, bit, bits;
	uint16_t at;
	/* A PATH, for spec_clear(), which is not followed yet: `type` is the user's if has_type is set.  NULL: none. */
	char *path;
	bool has_type;
	/*
	 * 1 + the place in the spec of the SPEC_GUARD or SPEC_VARIANT that says whether it is there; 0: it always is.
	 * It is with that number's values from `first` up to first + span, or with all others.
	 */
	uint8_t guard;
	uint64_t first, span;
	bool others;
	uint64_t absent; /* SPEC_GUARD; `more` has its name */
	char *c_type;	 /* as C writes it, for spec_clear(); NULL: of `type` */
	char *more; /* SPEC_ENUM, SPEC_GUARD, SPEC_VARIANT: the names (abi/file.h); SPEC_MISSING: why; for spec_clear()
		     */
};

/* What a span (values.h) does at a call, or a return, that comes with the spec's number. */
enum spec_span { SPEC_NO_SPAN, SPEC_BEGINS, SPEC_ENDS };

struct spec {
	struct spec_field fields[SPEC_ROWS];
	uint32_t count;
	bool sums;    /* counting: there is a number behind the `count` fields, which is added up by them */
	uint8_t span; /* enum spec_span */
};

/* A text that is being read.  The first reason for a refusal at the farthest place counts. */
struct spec_reader {
	const char *at;	   /* what comes next */
	const char *wrong; /* where the text stops making sense */
	const char *why;   /* what is wrong there, NULL = nothing so far */
};

/* May the letter stand in a name of C? */
static inline bool spec_is_word(char letter)
{
	return isalnum((unsigned char)letter) || letter == '_';
}

/* The bytes of a name of C at the beginning of the text; 0: there is none. */
size_t spec_word_length(const char *text);

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

/* True if some field is a PATH. */
bool spec_has_path(const struct spec *spec);
/* The bytes of a PATH at the beginning of the text; 0: there is none.  *steps: it is more than a NAME. */
size_t spec_path_length(const char *text, bool *steps);
/*
 * Read the PATH at the beginning of the text, and ":" TYPE behind one that has steps, as fields of a condition are
 * called: "name.member[2].other:u32"; the bytes it takes.  What is too long has the name "".
 */
size_t spec_read_path(char name[SPEC_NAME], const char *text);

/* Read the PATH at the beginning of the text, and ":" TYPE behind it, as a spec of one field; false: there is none. */
bool spec_parse_path(struct spec *out, const char *text);

/* True if the text is a FUNCTION alone, whose values are those that its types tell. */
bool spec_is_function(const char *text);
/* True if both fetch the same, and show it alike. */
bool spec_equal(const struct spec *a, const struct spec *b);
int spec_copy(struct spec *out, const struct spec *spec) __attribute__((warn_unused_result)); /* -ENOMEM: nothing */
/* Put a copy behind a list's elements; -ENOMEM. */
int spec_add_element(struct spec_field *field, const struct spec_element *element) __attribute__((warn_unused_result));
void spec_clear_field(struct spec_field *field);
void spec_clear(struct spec *spec);

#endif
