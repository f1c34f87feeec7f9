/*
 * Types of functions' arguments and results, from DWARF: what each is called, how it is to be shown, and where it lies
 * when the function is called or returns.
 *
 * Where a value lies follows from its type by the CPU's calling convention, and has to be where the compiler says that
 * it is at the function's first instruction.  Where the two differ, or the compiler says nothing, the value is told as
 * not available: nothing is guessed.  The languages are C and C++, on the CPUs of abi.h, and Rust
 * on x86-64.
 *
 * Callers: the values room under the session's lock, tests.  Context: host.  DWARF is untrusted.
 */
#ifndef HOST_TYPES_TYPES_H
#define HOST_TYPES_TYPES_H

#include <stdbool.h>
#include <stdint.h>

struct object;
struct types;

#define TYPES_VALUES	   64u /* parameters of a function that are looked at */
#define TYPES_MEMBERS	   12u /* members of a structure that are shown, */
#define TYPES_BYTES	   96u /* which lie within its first bytes */
#define TYPES_MEMBER_NAME  48u /* bytes of a member's name, with its NUL */
#define TYPES_MEMBER_DEPTH 4u  /* structures within structures */
#define TYPES_NAME_MAX	   96u /* bytes of a type's text, with its NUL */
#define TYPES_VIEW	   24u /* bytes of a class that stands for a text or a list */
#define TYPES_ELEMENTS	   8u  /* elements of a list that are shown */
#define TYPES_NEST	   3u  /* lists of structures within lists of structures */
#define TYPES_ROWS	   32u /* members of an element, and of those within it */
#define TYPES_DIMENSIONS   4u  /* of an array */
#define TYPES_STEPS	   5u  /* addresses on a path that are followed */
#define TYPES_WHY	   160u

enum type_kind {
	TYPE_UNSIGNED,
	TYPE_SIGNED,
	TYPE_BOOL,
	TYPE_CHAR,
	TYPE_ENUM,
	TYPE_POINTER,
	TYPE_FLOAT,	  /* a float or a double */
	TYPE_LONG_DOUBLE, /* of 10 bytes x86\'s extended format, of 16 binary128 */
	TYPE_TEXT,	  /* the address of a char: what lies there up to its NUL */
	TYPE_CHARS,	  /* of members: an array of char, a text that ends with it or before */
	/* A class, or the address of one, that says where a text is and how long, or a list of `element`: std::string.
	 */
	TYPE_VIEW,
	TYPE_ARRAY,   /* of members: an array of `element`, whose first bytes count */
	TYPE_STRUCT,  /* of elements: a structure, of which `members` are shown */
	TYPE_GUARD,   /* of members: the value behind it is there, unless this number has a name, as in `names` */
	TYPE_VARIANT, /* of members: a number whose name, as in `names`, tells which of the members behind it are there
		       */
	TYPE_OTHER    /* cannot be shown */
};

/* What a class that stands for a text says of it. */
enum type_view_how {
	TYPE_VIEW_SIZE, /* an address and a size */
	TYPE_VIEW_END,	/* an address and another one, behind the last byte */
	/*
	 * As std::string of LLVM: a short text lies in the class behind its first byte, which has the size times two;
	 * of others that number is odd.
	 */
	TYPE_VIEW_SHORT,
	TYPE_VIEW_FRONT, /* as std::string of GCC before 5: the size lies 24 bytes in front of the text */
};

struct type_view {
	uint8_t how;  /* enum type_view_how */
	uint8_t size; /* bytes of the class that say it, at most TYPES_VIEW */
	uint8_t address_at;
	uint8_t size_at, size_bytes; /* of the size, or the end */
	uint32_t element;	     /* the size counts elements of so many bytes */
};

/* How values of a type are shown. */
struct type_look {
	uint8_t kind; /* enum type_kind */
	bool is_signed;
	bool cut;		   /* TYPE_CHARS and TYPE_ARRAY: the array goes on */
	uint8_t size;		   /* bytes of the number: 1, 2, 4 or 8; of the array, up to TYPES_BYTES */
	char type[TYPES_NAME_MAX]; /* as C writes it */
	/*
	 * TYPE_ENUM, TYPE_GUARD and TYPE_VARIANT: "NAME=1f" and others behind commas, values in base 16; else NULL.
	 * Of a variant "NAME=1f:3" says that it has three members in all, and "NAME=*:3" that it has all other numbers.
	 */
	char *names;
	const char *why;       /* TYPE_OTHER: in a word */
	struct type_view view; /* TYPE_VIEW; `size` is its */
	/*
	 * What it is a list of, TYPE_OTHER: only how many can be shown, and the texts of the first ones if its view
	 * has a size; NULL = it is none.
	 */
	struct type_look *element;
	uint32_t stride;	      /* of an element: bytes from one to the next */
	struct type_members *members; /* TYPE_STRUCT */
};

/* Numbers of a guard with which a member is there: from `first` up to first + span, or all others. */
struct type_presence {
	uint64_t first, span;
	bool others;
};

struct type_member {
	char name[TYPES_MEMBER_NAME]; /* "x", or "position.x" */
	struct type_look look;
	uint32_t offset;   /* of its bytes in the outermost structure */
	uint8_t bit, bits; /* a field of so many bits from that bit of its bytes on; bits == 0: all of them */
	/* 1 + the place of the TYPE_GUARD or TYPE_VARIANT that says whether it is there; 0: it always is. */
	uint8_t guard;
	struct type_presence presence;
};

/* What is shown of a structure, union or class. */
struct type_members {
	struct type_member *list;
	uint32_t count;
	uint32_t size; /* bytes that have them all; 0 = nothing is shown */
	bool cut;      /* there are more */
};

struct type_value {
	char *name; /* "" = it has none */
	struct type_look look;
	const char *missing; /* why it is not available, in a word or two; NULL = it is */
	bool nowhere; /* where it lies is not known; else `missing` is of its type alone, and a path may lead on */
	/* Where it lies: the register of the integer argument with that number, from 1 on; 0 = as below. */
	uint8_t in_register;
	uint8_t in_vector; /* the same of floating-point arguments; 0 = the word below */
	uint32_t on_stack; /* bytes behind the first word of arguments on the stack */
	bool indirect;	   /* TYPE_POINTER: it lies where what was handed over leads to */
	/* members.size != 0: it is a structure, or the address of one (at_address); so is a TYPE_VIEW. */
	struct type_members members;
	bool at_address;
	/*
	 * Of a structure in registers: where its second part is, as above, or in the first word of arguments on the
	 * stack; else there is none.  Further parts are in the vector registers behind that one.
	 */
	uint8_t second_register, second_vector;
	bool second_on_stack;
	uint8_t step; /* bytes from a part to the next, 4 or 8 */
};

struct type_function {
	struct type_value *arguments;
	uint32_t count;
	uint32_t more; /* parameters that were not looked at */
	bool has_result;
	/* Its in_register and in_vector are 1 for the first register of results, 2 for the second. */
	struct type_value result;
};

/* Where a path leads to, from a parameter or a result. */
struct type_path {
	/* Each leads from the address in front of it to the next address, the last one to the value. */
	int32_t offsets[TYPES_STEPS];
	uint8_t count;	   /* 0: the value is the parameter's */
	uint8_t bit, bits; /* as of a member */
	/*
	 * look, members and at_address are of the value.  TYPE_TEXT, and TYPE_VIEW: the last offset leads to the text,
	 * or to the class, as it does of TYPE_CHARS, an array that is a text.
	 */
	struct type_value value;
	char why[TYPES_WHY]; /* why it leads nowhere */
};

/* The DWARF of an object, its own or its debug file's; fd: its file, which stays its caller's.  -ENODATA: it has none.
 */
int types_open(struct types **out, const struct object *object, int fd) __attribute__((warn_unused_result));
void types_close(struct types *types); /* NULL: nothing is done */
/* The functions of the DWARF, and the place of the one whose first instruction is at this ELF address; -1: it is not
 * there. */
/* The name of a file beside the object (-gsplit-dwarf) that has the functions of some unit, and is not read; NULL:
 * there is none. */
const char *types_split(const struct types *types);
uint32_t types_count(const struct types *types);
int64_t types_find(const struct types *types, uint64_t address);
/* The place of the one that others may call by this symbol; -1: there is none. */
int64_t types_find_symbol(struct types *types, const char *symbol);
uint64_t types_address(const struct types *types, uint32_t place); /* of its first instruction */
/*
 * Read the function at a place; symbol: its name in the object's table; start: that symbol's ELF address; code: that of
 * its own first instruction, behind what was put there for tracers, which changes no register.  -ENOENT: its language
 * is not known here.  For type_function_clear(), whatever is returned.
 */
int types_read(struct type_function *out, struct types *types, uint32_t place, const char *symbol, uint64_t start,
	       uint64_t code) __attribute__((warn_unused_result));
void type_function_clear(struct type_function *function);
/*
 * Follow a path ("->argv[0]->ptr", "" = none) from the function's parameter of that name, or from its result (name
 * NULL); symbol as above.  -ENOENT: it has no such one; -EINVAL: out->why.  For type_path_clear(), whatever is
 * returned.
 */
int types_follow(struct type_path *out, const struct types *types, uint32_t place, const char *symbol, const char *name,
		 const char *path) __attribute__((warn_unused_result));
void type_path_clear(struct type_path *path);

#endif
