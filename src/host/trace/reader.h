/*
 * The open trace and its parts, as the files of the reader share them.
 *
 * Context: host.  open.c walks a file, follow.c a file that grows; tables.c takes in its chunks, stacks.c the STACK
 * chunks, event.c the FORMATS chunks; access.c, clock.c and address.c answer questions, cursor.c reads the events.
 * ticks.c has bounds on times that were not recorded, cpus.c where threads ran.
 */
#ifndef HOST_TRACE_READER_H
#define HOST_TRACE_READER_H

#include "decode.h"
#include "trace.h"

/* An array that grows up to a limit; new items are zero. */
struct table {
	void *items;
	uint32_t count, room;
};

struct thread_entry {
	struct trace_thread about;
	bool described;
	uint32_t first_data, end_data; /* the thread's part of trace.data */
	uint32_t stack;		       /* index in trace.stacks, + 1; 0 = none */
	uint64_t history_ticks;	       /* as in struct trace_thread: its chunk may come before the thread's */
	struct table cpus;	       /* cpus.c: where the thread ran, by time */
};

/* A STACK chunk. */
struct stack_entry {
	uint64_t ticks;
	const char *name; /* the thread's, in the chunk's payload */
	uint32_t process, tid;
	uint32_t first, count; /* in trace.frames */
	uint32_t lasting;      /* as in struct trace_stack */
	uint64_t lo, hi;       /* as in struct trace_stack */
};

struct frame_entry {
	struct trace_frame about; /* about.function: as in the file, until stacks_settle_functions() */
	const char *symbol;	  /* in the chunk's payload */
	uint64_t ticks;		  /* when the tool read the stack */
	uint32_t process;
};

/* One DATA chunk, known from its head alone. */
struct data_ref {
	uint64_t offset; /* of the streams (the columns behind the head) in the file */
	uint64_t stored; /* bytes of the streams in the file */
	uint32_t flags;	 /* CALLTAP_CHUNK_* of the chunk */
	struct calltap_file_data head;
};

/* A type of events. */
struct format_entry {
	const char *name;      /* NULL = not described */
	uint32_t first, count; /* in trace.fields */
};

struct info_entry {
	const char *key, *value;
};

struct pointers;
struct weights;

struct trace {
	char *path;
	int fd;
	uint64_t size;
	struct calltap_file_head head;
	struct calltap_file_end end;
	bool ended;

	/* Damage: the places that were skipped, then the sentence made of them. */
	uint64_t bad_places, first_bad, wasted;
	const char *first_reason;
	char damage[320];

	struct table info;	/* struct info_entry */
	struct table functions; /* struct trace_function; symbol NULL = not described, name NULL = not demangled yet */
	struct table objects;	/* struct trace_object; path NULL = not described */
	struct table processes; /* struct trace_process; exe NULL = not described */
	struct table threads;	/* struct thread_entry */
	struct table data;	/* struct data_ref, by thread and number */
	struct table maps;	/* struct calltap_file_map, by process and address */
	struct table stacks;	/* struct stack_entry */
	struct table frames;	/* struct frame_entry, each stack's outermost first */
	struct table untraced;	/* struct trace_function: TRACE_UNTRACED and up */
	uint32_t *untraced_buckets; /* hash of untraced functions by object and symbol: index + 1 */
	uint32_t untraced_bits;
	uint32_t stacks_settled, frames_settled;
	struct table formats; /* struct format_entry, by type */
	struct table fields;  /* struct trace_field */
	struct table kept;    /* char *: payloads that the tables point into */
	uint64_t kept_size;
	uint64_t *map_reach;  /* per map: greatest hi of the process's maps up to this one */
	uint32_t *by_address; /* functions by object and address */
	uint32_t by_address_count;
	struct pointers *pointers; /* pointer.c */

	bool has_ticks;
	uint64_t span;		     /* the greatest of the TICKS chunks */
	struct table late;	     /* struct calltap_file_late; ticks_settle() puts them in order */
	struct record_limits limits; /* of all these, for decoders */
	struct weights *weights;     /* for decoders; the first cursor fills it in; NULL in a trace that grows */

	struct calltap_file_clock first_clock, last_clock;
	bool has_clock;
	uint64_t start_ticks;
	double ticks_per_ns;
};

#define TABLE_ITEM(table, type, index) (&((type *)(table).items)[index])

/* Grow the table until it has the index; -EBADMSG for an index at or beyond limit, -ENOMEM. */
int table_reach(struct table *table, size_t item_size, uint64_t index, uint64_t limit)
	__attribute__((warn_unused_result));
/* Read exactly size bytes; -EBADMSG at the end of the file. */
int trace_read_at(const struct trace *trace, uint64_t offset, void *to, size_t size)
	__attribute__((warn_unused_result));

/* Parts of opening that follow.c uses, too (open.c). */
/* The fault of the chunk's head at offset, NULL = none. */
const char *trace_chunk_fault(const struct trace *trace, uint64_t offset, const struct calltap_chunk *chunk);
/* Read, check and take in the payload at offset of a chunk other than DATA. */
int trace_take_table(struct trace *trace, uint64_t offset, const struct calltap_chunk *chunk, const char **fault)
	__attribute__((warn_unused_result));
/* Read and check the head of a DATA chunk's payload at offset. */
int trace_read_data(const struct trace *trace, uint64_t offset, const struct calltap_chunk *chunk, struct data_ref *ref)
	__attribute__((warn_unused_result));

/* Take in one checked chunk other than DATA; payload has a NUL behind its end.  *keep: the tables point into it. */
int tables_take(struct trace *trace, uint32_t type, char *payload, size_t size, bool *keep)
	__attribute__((warn_unused_result));
int tables_take_data(struct trace *trace, const struct data_ref *ref) __attribute__((warn_unused_result));
/* After the last chunk: order, cross references, totals. */
int tables_settle(struct trace *trace) __attribute__((warn_unused_result));
/* As tables_settle(), for a trace that grows: after every few chunks. */
int tables_settle_more(struct trace *trace) __attribute__((warn_unused_result));
void tables_free(struct trace *trace);

/* Take in a FORMATS chunk (event.c). */
int formats_take(struct trace *trace, const char *payload, size_t size) __attribute__((warn_unused_result));
/*
 * Split a payload of the common shape of FUNCTIONS, LINES and FORMATS: a count, the strings' size, count items,
 * strings.  The last byte of the strings, if there is one, is a NUL.
 */
int tables_split(const char *payload, size_t size, size_t item_size, uint32_t *count, const char **items,
		 const char **strings, uint32_t *strings_size) __attribute__((warn_unused_result));

/* Take in a STACK chunk (stacks.c). */
int stacks_take(struct trace *trace, const char *payload, size_t size) __attribute__((warn_unused_result));
/* Find the threads of stacks; make: give threads that recorded nothing a place in the table. */
int stacks_settle_threads(struct trace *trace, bool make) __attribute__((warn_unused_result));
/* Find the functions of the stacks' frames; when all other tables are settled. */
int stacks_settle_functions(struct trace *trace) __attribute__((warn_unused_result));
/* Greatest index + 1 that a description in this file may have. */
uint64_t tables_index_limit(const struct trace *trace);
/* Give the payload to the trace, which frees it when it closes. */
int trace_keep(struct trace *trace, char *payload, uint64_t size) __attribute__((warn_unused_result));

int address_settle(struct trace *trace) __attribute__((warn_unused_result));
/* The object that the process has mapped at the address at a time, TRACE_NONE = none. */
uint32_t address_object(const struct trace *trace, uint32_t process, uint64_t address, uint64_t ticks);
/*
 * The object at the address, as address_object() finds it; *offset: the address's distance from its base; *function:
 * the one of the trace that it lies in, or TRACE_NONE.
 */
uint32_t address_in_object(const struct trace *trace, uint32_t process, uint64_t address, uint64_t ticks,
			   uint64_t *offset, uint32_t *function);
/* A name without parameters and return type, for free(); NULL: it is not mangled. */
char *demangle_brief(const char *symbol);

/*
 * pointer.c: names of functions and variables for addresses in values, as the event's process had them at its time.
 * pointer_describe(), false: nobody knows what lies there.
 */
int pointers_create(struct pointers **out) __attribute__((warn_unused_result));
void pointers_destroy(struct pointers *pointers); /* NULL: nothing is done */
bool pointer_describe(const struct trace *trace, const struct trace_event *event, uint64_t address, char *text,
		      size_t size);
void clock_settle(struct trace *trace);
/* Take in a TICKS chunk; make trace.limits of all that there are, and of the end (ticks.c). */
int ticks_take(struct trace *trace, const char *payload, size_t size) __attribute__((warn_unused_result));
void ticks_settle(struct trace *trace);
/* Take in a CPUS chunk (cpus.c). */
int cpus_take(struct trace *trace, const char *payload, size_t size) __attribute__((warn_unused_result));
/* Nobody asks any more where the thread ran before that time: free what was known of it, when it has become much. */
void cpus_forget(struct trace *trace, uint32_t thread, uint64_t ticks);

#endif
