/*
 * Reading a trace file (abi/file.h): the tables, the events, the time.
 *
 * Callers: the views, the exporters and the commands that read traces.  Context: host.  Every byte of the file is
 * untrusted; opening checks the tables, cursors check the data as they go.  A file that was cut short or damaged opens
 * as far as it is good: trace_damage() says what is missing.
 *
 * Memory is bounded by the tables and by one decoded chunk per thread that is alive at the cursor's time, never by the
 * number of records.
 */
#ifndef HOST_TRACE_TRACE_H
#define HOST_TRACE_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <calltap/abi/file.h>
#include <calltap/abi/record.h>
#include <calltap/diag.h>

#define TRACE_NONE UINT32_MAX
/* Ids from here on are functions that are not traced, known from frames that were open when the trace began. */
#define TRACE_UNTRACED (CALLTAP_RECORD_ID_MAX + 1)

struct trace;

struct trace_function {
	uint32_t object;    /* index, or TRACE_NONE */
	uint32_t size;	    /* bytes */
	uint64_t address;   /* ELF address in the object */
	const char *symbol; /* as in the symbol table */
	const char *name;   /* demangled; equals symbol for C; never NULL */
	const char *brief;  /* demangled, without parameters and return type; NULL = not needed yet */
	const char *file;   /* source file, NULL = not known */
	uint32_t line;	    /* 0 = not known */
};

struct trace_object {
	const char *path;
	uint8_t build_id[32];
	uint32_t build_id_size;
};

struct trace_process {
	uint32_t pid;
	uint32_t parent; /* process index or TRACE_NONE */
	uint32_t start;	 /* enum calltap_process_start */
	uint64_t start_ticks, end_ticks;
	const char *exe;
};

struct trace_thread {
	uint32_t process;
	uint32_t tid;
	char name[17];
	bool ended; /* the thread ended before its process, some time after end_ticks */
	uint64_t start_ticks, end_ticks;
	uint64_t lost;
	uint64_t wait_ticks;
	uint64_t records;	/* in the file, from the chunks' heads */
	uint64_t events;	/* EVENT records in the file */
	uint64_t history_ticks; /* flight recorder: records older than this are not complete; 0 = all are there */
};

/* A frame that was open when the trace began, in the midst of its thread's run. */
struct trace_frame {
	uint64_t address;  /* run-time address at which the function ran, or goes on after its call */
	uint64_t slot;	   /* address of the frame's return address, 0 = not known */
	uint32_t function; /* id of a traced function, or TRACE_UNTRACED + i; TRACE_NONE = not known */
};

/* The frames that were open on a thread when the trace began. */
struct trace_stack {
	uint64_t ticks; /* when the tool read the stack */
	uint32_t first; /* frames first .. first + count - 1, outermost first */
	uint32_t count;
	uint32_t lasting; /* outermost frames that are taken to be open still at the thread's first record */
	uint64_t lo, hi;  /* the mapping that the stack lies in; other stacks may lie there, too */
};

/* Open path; *out is NULL on error.  Close with trace_close(). */
int trace_open(struct trace **out, const char *path, struct calltap_diag *diag) __attribute__((warn_unused_result));
void trace_close(struct trace *trace);

const char *trace_path(const struct trace *trace);
/*
 * One sentence about the missing parts of the file, NULL = complete as far as opening can tell: damage inside the
 * events shows when a cursor gets there.
 */
const char *trace_damage(const struct trace *trace);
/* Value of an INFO key, NULL = absent. */
const char *trace_info(const struct trace *trace, const char *key);
/* The i-th INFO line in the file's order; false past the end.  The last line of a key holds. */
bool trace_info_at(const struct trace *trace, uint32_t i, const char **key, const char **value);
/* Calls that were not recorded: their thread had no buffer yet, or there was no memory beside its stack. */
uint64_t trace_calls_missed(const struct trace *trace);
const struct calltap_file_head *trace_head(const struct trace *trace);
/* The END chunk, NULL when the file has none. */
const struct calltap_file_end *trace_end(const struct trace *trace);

/* Tables: indices from 0 to count - 1; NULL for an index that was never described. */
uint32_t trace_function_count(const struct trace *trace); /* traced functions */
uint32_t trace_untraced_count(const struct trace *trace);
const struct trace_function *trace_function(const struct trace *trace, uint32_t id);
/* The name of a function that is in the table, without parameters and return type. */
const char *trace_function_brief(const struct trace *trace, uint32_t id);
/* True if the glob matches the name: as in the symbol table, demangled, or without parameters and return type. */
bool trace_function_matches(const struct trace *trace, uint32_t id, const char *glob);
uint32_t trace_object_count(const struct trace *trace);
const struct trace_object *trace_object(const struct trace *trace, uint32_t index);
uint32_t trace_process_count(const struct trace *trace);
const struct trace_process *trace_process(const struct trace *trace, uint32_t index);
/* Is the object the program that one of the processes runs?  Files of one name are taken for one. */
bool trace_is_program(const struct trace *trace, const struct trace_object *object);
/* A thread with events but without a description has tid 0; every thread's process can be looked up. */
uint32_t trace_thread_count(const struct trace *trace);
const struct trace_thread *trace_thread(const struct trace *trace, uint32_t index);
/*
 * The frames that were open on a thread when the trace began; false = none, or none are known.  A thread with such
 * frames and no records is in the table, too.
 */
bool trace_thread_stack(const struct trace *trace, uint32_t index, struct trace_stack *stack);
/* Frames of all stacks. */
uint32_t trace_frame_count(const struct trace *trace);
const struct trace_frame *trace_frame(const struct trace *trace, uint32_t index);
/*
 * The function that a run-time address of a process lies in at a time (for CALL's caller), TRACE_NONE when it is in no
 * function of the table.  Another library may get the address later: the answer holds while trace_resolved_at() says
 * so.
 */
struct trace_resolved {
	uint32_t function;
	uint32_t maps; /* the trace's maps at the time of the answer; a trace that grows may get more */
	uint64_t from_ticks, to_ticks;
};
void trace_resolve(const struct trace *trace, uint32_t process, uint64_t address, uint64_t ticks,
		   struct trace_resolved *resolved);
bool trace_resolved_at(const struct trace *trace, const struct trace_resolved *resolved, uint64_t ticks);
/* The i-th map of the trace, sorted by process and address; NULL past the end.  Another map may replace it later. */
const struct calltap_file_map *trace_map(const struct trace *trace, uint32_t i);
/* The other way round: where a function lies in a process at a time. */
struct trace_place {
	uint64_t address; /* 0 = the function's object is not there */
	uint32_t process;
	uint32_t maps; /* as in struct trace_resolved; 0 = nothing was looked up yet */
};
void trace_place(const struct trace *trace, uint32_t process, uint32_t function, uint64_t ticks,
		 struct trace_place *place);
/* True if the answer was for this process, and no map has come since. */
bool trace_place_holds(const struct trace *trace, const struct trace_place *place, uint32_t process);
/* An address as text: "name", "name+0x12", "object+0x1234", or the bare number; never fails. */
void trace_describe_address(const struct trace *trace, uint32_t process, uint64_t address, uint64_t ticks, char *text,
			    size_t size);

/*
 * The name of the function or variable at the address, "name" or "name+0x12", also of what is not in the trace, where
 * the object's file is at hand; false: nobody knows it.
 */
bool trace_name_address(const struct trace *trace, uint32_t process, uint64_t address, uint64_t ticks, char *text,
			size_t size);

/*
 * Time: a line through the first and the last CLOCK sample.  With less than two samples the rate is the INFO key
 * clock_hz, else 1 tick is 1 ns.
 */
double trace_ticks_per_ns(const struct trace *trace);
/* TICKS chunks: bounds on times that were not recorded (struct calltap_file_ticks). */
struct trace_estimates {
	bool any;	     /* there is such a chunk */
	uint64_t span_ticks; /* how late a record without a time is at the most, but for the late rows */
	uint32_t late_count; /* of rows that reach into the time of the records */
	uint64_t late_ticks; /* the time that these take up, from the first record on */
	/*
	 * Ticks by which a measured piece, one between two times, is longer than the same piece is without the
	 * reading of the clock.  The trace's first cursor finds it.
	 */
	double surplus_ticks;
	double surplus_off_ticks; /* what functions show that it differs between them; 0: they show nothing */
	uint64_t rare_pieces;	  /* measured pieces far longer than most of their function; found with it */
};
void trace_estimates(const struct trace *trace, struct trace_estimates *estimates);
uint64_t trace_start_ticks(const struct trace *trace);		       /* of the first event or sample */
uint64_t trace_mono_ns(const struct trace *trace, uint64_t ticks);     /* CLOCK_MONOTONIC */
uint64_t trace_duration_ns(const struct trace *trace, uint64_t ticks); /* of a difference of ticks */
/* The span before the trace's end of which all records of a thread are there; 0 = the whole trace (history_ticks). */
uint64_t trace_history_ns(const struct trace *trace, uint32_t thread);

/*
 * Two readings of a thread's CPU around a time: the last one before it and the first one after it; TRACE_NONE = there
 * is none.  If both are the same CPU, all readings between from_ticks and to_ticks told that
 * one; the thread may have been on another CPU between two of them.
 */
struct trace_cpus {
	uint32_t before, after;
	uint64_t from_ticks, to_ticks; /* of these readings; 0 and UINT64_MAX where there is none */
};
void trace_cpus_around(const struct trace *trace, uint32_t thread, uint64_t ticks, struct trace_cpus *around);

#define TRACE_LOOSE_NOT_KNOWN UINT64_MAX
struct trace_event {
	uint64_t ticks;		     /* full clock; never decreases within a thread (clamped) */
	uint64_t extra;		     /* second word of a two-word record, else 0 */
	uint32_t thread;	     /* index */
	uint32_t id;		     /* function, count for UNWIND, or type and size of an EVENT */
	uint8_t kind;		     /* enum calltap_record_kind; never NONE or TIME */
	const unsigned char *behind; /* words behind an EVENT's head, valid until the next event is read */
	uint64_t lo, hi; /* where they differ the time is an estimate, and the true one is not outside of these */
	bool brief;	 /* the record has no time */
	bool leaf;	 /* an ENTRY of which no UNWIND counts the end */
	/* Ticks between lo and hi that were shared out although no function mostly takes them, or NOT_KNOWN. */
	uint64_t loose;
};

/* The most that the event's time is off, in ticks; 0 = it is exact, UINT64_MAX = nothing is known. */
static inline uint64_t trace_event_error(const struct trace_event *event)
{
	uint64_t below = event->ticks - event->lo, above = event->hi - event->ticks;

	if (event->lo == event->hi)
		return 0;
	if (event->hi == UINT64_MAX)
		return UINT64_MAX;
	return below > above ? below : above;
}

/* A field of a type of events (struct calltap_file_field). */
struct trace_field {
	const char *name, *c_type;
	uint32_t offset, size; /* size 0: up to the event's end */
	uint32_t flags;	       /* CALLTAP_FIELD_* */
	const char *more;      /* the names of CALLTAP_FIELD_ENUM, why a value is CALLTAP_FIELD_MISSING; else "" */
};

/* The name of a type of events, NULL = nothing in the trace describes it. */
const char *trace_format_name(const struct trace *trace, uint32_t type);
uint32_t trace_format_fields(const struct trace *trace, uint32_t type);
/* Field i of the type; i < trace_format_fields(). */
const struct trace_field *trace_format_field(const struct trace *trace, uint32_t type, uint32_t i);
/* Copy the bytes of an EVENT, as its format lays them out, to bytes; returns their number, a multiple of 7. */
size_t trace_event_bytes(const struct trace_event *event, unsigned char bytes[CALLTAP_EVENT_BYTES_MAX]);
/* What an event is of: nothing but itself, or the innermost open call of its thread. */
enum trace_role { TRACE_ITSELF, TRACE_ARGUMENTS, TRACE_RESULT };
enum trace_role trace_event_role(const struct trace *trace, const struct trace_event *event);
/* The function whose call the event is of; TRACE_NONE = it is of none. */
uint32_t trace_event_function(const struct trace *trace, const struct trace_event *event);
/*
 * An EVENT as text: its one field's text, or "field=value ..." of all fields.  A program chose the text: any bytes but
 * NUL.  Values of a call as in C, "field=1, field=\"text\"", or a result's one value alone.  Returns the name of the
 * event's type; NULL = nothing in the trace describes it.
 */
#define TRACE_EVENT_TEXT 4096
const char *trace_event_text(const struct trace *trace, const struct trace_event *event, char text[TRACE_EVENT_TEXT]);
/* The kind of a call's value, for writers of other languages than C, such as JSON. */
enum trace_value_kind {
	TRACE_VALUE_NONE,   /* it is not available, or could not be read; `text` is empty */
	TRACE_VALUE_NUMBER, /* digits */
	TRACE_VALUE_BOOL,   /* true or false */
	TRACE_VALUE_TEXT    /* bytes as they were, names of an enumeration, an address in base 16 */
};
struct trace_value {
	const char *name;
	enum trace_value_kind kind;
	char text[TRACE_EVENT_TEXT];
};
/* Show each value of a call's event, in order; a value is valid until `see` returns. */
void trace_event_each_value(const struct trace *trace, const struct trace_event *event,
			    void (*see)(void *ctx, const struct trace_value *value), void *ctx);
/* The text of one value of a call, by its name; false: the event has none of that name. */
bool trace_event_value(const struct trace *trace, const struct trace_event *event, const char *name,
		       char text[TRACE_EVENT_TEXT]);

/*
 * Cursors: one pass over events in time order (ties: by thread, then order).  Where chunks of a thread are missing or
 * damaged, a LOST event with extra = 0 (number not known) comes before the thread's next event.
 *
 * The first cursor of a trace with a TICKS chunk reads all of it once when it is opened, for the places of records
 * without times.  Two threads must not open cursors of one trace at a time.
 */
struct trace_cursor;
struct trace_select {
	size_t size;	 /* sizeof(struct trace_select) */
	uint32_t thread; /* this thread only, TRACE_NONE = all */
	uint32_t pid;	 /* this process id only, 0 = all */
	uint32_t tid;	 /* this thread id only, 0 = all */
	/* False: not this thread; NULL: no more is asked. */
	bool (*wants)(const void *ctx, uint32_t thread);
	const void *ctx;
	/* Called in the passes that opening a cursor makes, for so many more events; NULL: nobody waits. */
	void (*noted)(void *of, uint64_t events);
	void *of;
};
int trace_cursor_open(struct trace_cursor **out, const struct trace *trace, const struct trace_select *select,
		      struct calltap_diag *diag) __attribute__((warn_unused_result));
/* 1 and *event, 0 at the end, -errno on damage (diag says where; the pass may go on with the next call). */
int trace_cursor_next(struct trace_cursor *cursor, struct trace_event *event, struct calltap_diag *diag)
	__attribute__((warn_unused_result));
void trace_cursor_close(struct trace_cursor *cursor);

#endif
