/*
 * What values.c, change.c and counted.c share: an instance's list of values.
 *
 * Context: host, under the session's lock.
 */
#ifndef HOST_VALUES_VALUES_IMPL_H
#define HOST_VALUES_VALUES_IMPL_H

#include <stdbool.h>
#include <stdint.h>

#include <calltap/abi/program.h>
#include <host/tallied.h>

#include "code.h"
#include "condition.h"
#include "fetch.h"
#include "spec.h"
#include "typed.h"
#include "values.h"

struct filter_set;
struct format;
struct typed;

struct entry {
	struct filter_set *filters;
	char *text, *function;
	struct spec spec; /* of no fields: what the function's types tell */
	bool result;
	bool plain;   /* counting: calls of a function are counted by nothing else */
	bool follows; /* the SPEC has paths, which each function's types lead on */
	bool led;     /* of some function they did */
	bool told_why;
	char why[TYPED_WHY]; /* why those of another do not; "" = no function was in the way */
	uint16_t number;     /* of its program, if it has a SPEC */
	bool known;	     /* without SPEC: a function that it names has types */
	/* Without SPEC: the first function that it names and that has none, and its file; "" = there is none. */
	char unknown[128], object[128];
	char split[128]; /* a file beside it that has its debug information, and is not read; "" = there is none */
};

/* A condition for a function's calls. */
struct choice {
	struct filter_set *filters;
	char *text, *function;		   /* function: NULL until values_begin() */
	struct condition condition;	   /* waits: it is read again for each function */
	enum calltap_verdict otherwise[2]; /* at the call, at the return */
	bool known;			   /* waits: types of a function have told it */
	uint16_t never;	 /* waits: the number of the program that records no call; 0 = it is not made yet */
	uint32_t number; /* what a trigger asks for */
	bool told;	 /* and that those of another have not was said */
	char why[768];	 /* waits: why types of the first such function have not; "" = there is none */
};

/* What a program was made of, besides a function's types. */
struct made {
	uint16_t condition, entry;
};

/* What is told of functions that no entry names (registers.c). */
enum values_registers { REGISTERS_ARGUMENTS, REGISTERS_RESULT, REGISTERS_CALLER, REGISTERS_OF };

struct values {
	struct entry *list;
	uint16_t count;
	struct choice *choices;
	uint16_t choice_count;
	struct choice asks[VALUES_ASKS];
	uint32_t ask_count;
	struct entry all[2]; /* for functions that none of these names: what types tell of calls, of returns */
	bool has_all;
	uint8_t registers;	 /* a bit for each enum values_registers */
	uint16_t untyped[2];	 /* programs of calls and returns for functions without types; 0 = not made yet */
	struct format *programs; /* by their number - 1 */
	uint16_t program_count;
	struct made *made; /* programs of conditions that types tell, by their number less `first` */
	uint32_t made_count;
	uint16_t base; /* numbers up to this one are of lists that were there before */
	bool late;     /* the processes of the session began without values */
	uint16_t first;
	uint16_t next;	    /* number of a program that what types tell needs */
	uint16_t described; /* of these, in the trace */
	bool judged;	    /* that there may be verdicts at returns is in the trace */
	bool full;	    /* a program had no room */
	bool told_full;	    /* and that was said */
	struct typed *typed;
	int fd;	      /* for targets: read only; -1 = values_begin() has not made it */
	char *memory; /* CALLTAP_PROGRAMS_SIZE bytes */
	struct code code;
	struct calltap_map *counts; /* programs count there, and record nothing; NULL = they record */
	int counts_fd;		    /* -1 = there is none */
	uint64_t left_open;	    /* spans of processes that have ended */
	struct buckets buckets;
	struct spec sum;    /* of one field: the number that is added up, as the user asks for it; of none: none is */
	bool newest;	    /* keys for which there is no room take that of others */
	bool sum_is_result; /* while the first entry is for the call: the program of the return adds up */
	uint16_t summing;   /* the number of that program, if the first entry's own has one */
	uint16_t awaiting;  /* of the call's program where all is counted at the return */
	struct choice uncounted; /* for functions whose calls nothing is known to be counted by */
	char refused[512];	 /* why the first such program could not be made; "" = there is none */
	bool told_uncounted;
};

void values_clear_entry(struct entry *entry);
void values_clear_choice(struct choice *choice);
/* Compile the lists; their programs' numbers begin behind values->base. */
int values_compile(struct values *values, struct calltap_diag *diag) __attribute__((warn_unused_result));

/* Has the condition something to decide at the return, or at the call? */
static inline bool values_decides(const struct condition *condition, bool result)
{
	uint8_t uses = condition_uses(condition);

	return result ? uses & CONDITION_AT_RETURN : !uses || uses & CONDITION_AT_CALL;
}

/* The program that fetches the spec, found or made, which takes the spec over then; TYPED_NONE: there is none. */
uint16_t values_program(struct values *values, struct spec *spec, bool result);

/* registers.c */
/* Take a word of the key registers; append: to those that are there. */
int values_take_registers(struct values *values, const char *value, bool append, struct calltap_diag *diag)
	__attribute__((warn_unused_result));
void values_print_registers(const struct values *values, FILE *stream);
/* Choose programs where the function has none. */
void values_choose_registers(struct values *values, struct values_choice *choice, const struct image *image,
			     const struct object_site *source);

/* told.c, of what types tell. */

/* What the entry shows of a function: all, or what its paths lead to.  For spec_clear(), whatever is returned. */
int values_told(struct spec *out, struct values *values, struct entry *entry, const struct image *image,
		const struct object_site *source) __attribute__((warn_unused_result));
/*
 * The values of calls and of returns that the text of a condition may name; why: why one of its paths leads nowhere, ""
 * = all do.  For spec_clear(), whatever is returned.
 */
int values_tell_condition(struct spec specs[2], const struct values *values, const char *text,
			  const struct image *image, const struct object_site *source, char why[TYPED_WHY])
	__attribute__((warn_unused_result));

/* counted.c, of values that count. */

/* What the program of calls, or of returns, does. */
enum fetch_part values_part(const struct values *values, const struct spec *spec, bool result);
/* Are spans measured? */
static inline bool values_span(const struct values *values)
{
	return values->count && values->list[0].spec.span;
}
/* Is the function with that name counted when it returns? */
bool values_counted_at_return(const struct values *values, const char *function, size_t length);
/* Make the program of returns that adds up what the calls' programs have found keys for. */
int values_make_summing(struct values *values, const struct spec *spec, uint16_t number, struct calltap_diag *diag)
	__attribute__((warn_unused_result));
/* Make what programs of one function each need not be, of the other half of what is counted when calls return. */
int values_make_others(struct values *values, struct calltap_diag *diag) __attribute__((warn_unused_result));
/* Choose it where a function's return has a program, and its call has none. */
void values_choose_other(const struct values *values, struct values_choice *choice);
/* Read what is to be counted by: a SPEC, or else a NAME; *length: of FUNCTION.  -EINVAL with diag. */
int values_take_counted(struct entry *entry, const char *text, size_t *length, struct calltap_diag *diag)
	__attribute__((warn_unused_result));
/* -EINVAL with diag: what is to have buckets, or to be added up, is no number; 0 where nothing is counted. */
int values_refuse_numbers(const struct values *values, const struct spec *spec, struct calltap_diag *diag)
	__attribute__((warn_unused_result));
/* The spec adds up the number that is the other's only field, from now on; that one is empty then. */
int values_join_sum(struct spec *spec, struct spec *sum) __attribute__((warn_unused_result));
/* -E2BIG with diag: they have no room in a key. */
int values_refuse_key(const struct values *values, const struct spec *spec, const struct fetch *fetch,
		      struct calltap_diag *diag) __attribute__((warn_unused_result));

#endif
