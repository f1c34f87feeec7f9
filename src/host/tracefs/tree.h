/*
 * The inside of the tracefs room, shared by the files of this folder only.
 *
 * Words:
 *     tree      what is mounted: instances, and what they have in common
 *     instance  a directory of control files, and the session's instance behind it; the top level is one
 *     source    the records of a session's instance, as they come
 *     store     the events of an instance that nobody has consumed: the kernel's ring buffer
 *     slot      what stands in the CPU's place: a thread, by its id
 *     row       a kind of file: name, mode, and what reading and writing do
 *     open      an open file
 */
#ifndef HOST_TRACEFS_TREE_H
#define HOST_TRACEFS_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#include <calltap/diag.h>
#include <host/remote/remote.h>
#include <host/space.h>
#include <host/trace/callstack.h>
#include <host/trace/follow.h>
#include <host/trace/trace.h>

#include "tracefs.h"

/* Text that grows; after an error it stays as it is. */
struct tree_text {
	char *bytes;
	size_t used, room;
	bool failed; /* there was no memory */
};

/* text.c */
void tree_text_add(struct tree_text *text, const char *bytes, size_t size);
void tree_text_string(struct tree_text *text, const char *string);
void tree_text_fill(struct tree_text *text, char c, size_t count);
void tree_text_format(struct tree_text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
void tree_text_clear(struct tree_text *text); /* frees it, too */

/*
 * The list, with zeros in the elements that it did not have before, where there is no room for element `wanted` in it;
 * *count: how many it has room for.  NULL: there is no memory, and the list is as it was.
 */
void *tree_grow(void *list, size_t *count, size_t wanted, size_t size) __attribute__((warn_unused_result));
static inline void *tree_grown(void *list, size_t *count, size_t wanted, size_t size)
{
	return wanted < *count ? list : tree_grow(list, count, wanted, size);
}

/* A list of strings of its own. */
struct tree_words {
	char **list;
	size_t count;
};

int tree_words_add(struct tree_words *words, const char *word) __attribute__((warn_unused_result));
int tree_words_copy(struct tree_words *out, const struct tree_words *from) __attribute__((warn_unused_result));
/* The place of a word, words->count = it is not there. */
size_t tree_words_find(const struct tree_words *words, const char *word);
void tree_words_remove(struct tree_words *words, size_t at);
void tree_words_clear(struct tree_words *words);

enum tree_kind {
	/*
	 * Tracer function: `extra` is the address in the caller, `depth` is 1 with the option func-args; `text` is a
	 * struct details_head and a text, or NULL.
	 */
	TREE_CALL,
	TREE_ENTRY, /* tracer function_graph; `text` likewise */
	TREE_EXIT,  /* likewise; `extra` is the call's duration in ns, UINT64_MAX = its entry is not known */
	TREE_LOST,  /* `extra` records are missing here, 0 = their number is not known */
	TREE_MARK,  /* `text`; `extra` is 1 where it is a stack */
	TREE_FRAME, /* of a gate: the innermost open call's frame lies at `extra` */
	TREE_DATA,  /* `text` is `extra` bytes: a number of four, and what belongs to it (trace_marker_raw) */
	TREE_STACK, /* `text` is `extra` addresses, of the call in front of it: the function, and return addresses */
	TREE_USER_STACK, /* likewise, as userstacktrace has it */
	TREE_REPEATS, /* option func-no-repeats: `depth` more calls like the one in front; `text` is the last one's time
		       */
};

struct tree_event {
	uint64_t ns;	/* CLOCK_MONOTONIC */
	uint64_t ticks; /* the time as the trace has it */
	uint64_t extra;
	uint64_t next;	   /* number of the slot's next event, 0 = there is none yet */
	uint64_t next_cpu; /* likewise of the CPU's */
	char *text;	   /* the event's own, by its kind; else NULL */
	uint32_t slot;
	uint32_t thread;   /* of the trace */
	uint32_t function; /* id in the trace */
	uint16_t depth;
	uint16_t cpu;
	uint8_t kind;
	bool taken; /* it was consumed */
};

/* The events of a slot in a store. */
struct store_slot {
	uint64_t last;	 /* number of its newest event */
	uint64_t missed; /* its events that were overwritten, and of which no consuming reader was told */
};

/* The events of a CPU in a store. */
struct store_cpu {
	uint64_t first;		 /* number of its oldest event that was not consumed, 0 = there is none */
	uint64_t last;		 /* and of its newest event */
	uint64_t entries, bytes; /* that were not consumed */
	uint64_t overrun, read;
	uint64_t dropped; /* that were left out, or lost before they came here */
	uint64_t missed;  /* its events that were overwritten, and of which no reader of trace_pipe_raw was told */
	uint64_t read_ns; /* when a reader of its own was there last */
};

/* Events have numbers from 1 on; those of [first, end) are there, and not all of them consumed. */
struct tree_store {
	struct tree_event *ring;
	uint64_t room; /* a power of two */
	uint64_t first, end;
	uint64_t bytes, bytes_max; /* as the kernel's ring buffer would count them */
	bool keeps_oldest;	   /* when it is full, newer ones are left out */
	uint64_t overrun, dropped; /* events that were overwritten, or left out */
	uint64_t written, entries; /* all events, and those that are there and not consumed */
	uint64_t read_ns;	   /* when a reader of all CPUs was there last */
	struct store_slot *slots;  /* by slot */
	size_t slot_count;
	struct store_cpu *cpus;
	uint32_t cpu_count;
};

struct tree_open;

/* store.c */
#define STORE_COMMON	8u   /* bytes that each event begins with: its type, flags, and its thread */
#define STORE_SMALL_MAX 112u /* bytes of an event whose length its head has */
/* Bytes that an event takes in the kernel's ring buffer, without its head and with it; 0 = it is none of the kernel's.
 */
size_t store_payload(const struct tree_event *event);
size_t store_size(const struct tree_event *event);
/* As store_size(), with what the tree knows besides (details.c). */
size_t store_room(const struct tree_event *event);
/* The kernel's id of the event's kind. */
unsigned store_type(const struct tree_event *event);
/* Bytes of the event's text. */
size_t store_text_size(const struct tree_event *event);
/* The time of the last call that a TREE_REPEATS stands for. */
uint64_t store_last_ns(const struct tree_event *event);
#define STORE_USER_STACK 8u /* addresses that a user stack has room for */
/* Takes the event's text over, also where it fails. */
void store_add(struct tree_store *store, struct tree_event *event);
/* NULL: there is none of that number. */
struct tree_event *store_at(const struct tree_store *store, uint64_t number);
/* An event that is there, and not consumed, gets a text, which is taken over. */
void store_tell(struct tree_store *store, struct tree_event *event, char *text);
/* An event is consumed. */
void store_take(struct tree_store *store, uint64_t number);
/* Somebody consumes the events of a CPU, or of READING_ALL, or waits for some. */
void store_note_reader(struct tree_store *store, uint32_t cpu);
/* Bytes of the events that readers are about to consume: those that were there since then. */
uint64_t store_awaited(const struct tree_store *store, uint64_t since_ns);
void store_limit(struct tree_store *store, uint64_t bytes_max);
void store_clear(struct tree_store *store);
void store_clear_cpu(struct tree_store *store, uint32_t cpu);
/* Exchange what they hold; limits stay. */
void store_swap(struct tree_store *one, struct tree_store *other);
/* What the store holds now, as a store of its own. */
int store_copy(struct tree_store *out, const struct tree_store *from) __attribute__((warn_unused_result));
void store_destroy(struct tree_store *store);

#define TREE_LOOKS 8u

/* On which CPU the tool saw that a thread ran last, at a time. */
struct tree_look {
	uint64_t ns; /* 0 = there is no such reading */
	uint16_t cpu;
};

struct tree_slot {
	uint32_t tid, pid;
	char name[17];
	bool named;			    /* something of it was recorded with record-cmd */
	uint16_t cpu;			    /* that the thread ran on at its last record */
	uint64_t asked_ns;		    /* when the tool looked last */
	struct tree_look looks[TREE_LOOKS]; /* what it saw, the newest first */
};

/* A mark that waits for the records that are older. */
struct tree_mark {
	struct tree_mark *next;
	struct tree_event event;
};

/* The record that is being taken in. */
struct tree_taking {
	const struct trace_event *record;
	uint64_t ns;
	uint64_t now_ns; /* when the tool took it in, or a thousand records before it */
	uint32_t slot;
};

/* The last call of a thread, and how often it has come again without an event. */
struct tree_repeats {
	uint64_t caller, last_ns;
	uint32_t function;
	uint16_t count;
	bool known;
};

/* The result of the call that ends with the slot's next record (details.c). */
struct details_result {
	char *text; /* NULL = there is none */
	uint32_t function;
};

struct tree_source {
	int memory;	/* the file that the session writes; -1 = none */
	int connection; /* which the session's instance lasts as long as; -1 = it is the session's first */
	struct trace_follow *follow;
	struct callstack *stack;
	uint32_t *slots; /* by the trace's threads: the slot + 1, 0 = not known yet */
	size_t slot_count;
	uint64_t *told; /* by the trace's threads: lost records that LOST events have told of */
	size_t told_count;
	struct details_result *results; /* by slot */
	size_t result_count;
	struct tree_repeats *repeats; /* by slot, for func-no-repeats */
	size_t repeat_count;
	struct trace_place *places; /* by function: where it lies, as it was looked up last */
	size_t place_count;
	uint64_t last_ns; /* times of events never decrease */
	uint64_t last_ticks;
	struct tree_taking taking;
	bool behind;   /* there are records whose time has come */
	bool held;     /* and they wait for readers */
	bool finished; /* the session has written all that there is */
	bool ended;    /* and all of it was taken in: no more records come */
	bool failed;   /* the records make no sense from here on, or there is no memory */
};

enum tree_besides { BESIDE_COMMANDS, BESIDE_STACKS, TREE_BESIDES };

/* Limits that only the tracer function_graph has: kept here while the instance's tracer is another one. */
enum tree_limit { TREE_DEPTH, TREE_THRESHOLD, TREE_GRAPH, TREE_NOGRAPH, TREE_LIMITS };

struct tree_instance;

/* What is taken in beside an instance's records (commands.c, func_stacks.c); functions may be NULL. */
struct tree_beside {
	/* Take in what has come. */
	void (*pump)(struct tree_instance *instance);
	/* Up to when it is known, by the counter: the instance's records come up to there; UINT64_MAX = there is none.
	 */
	uint64_t (*known)(const struct tree_instance *instance);
	/* The instance's records are taken in up to that time, by the counter. */
	void (*reach)(struct tree_instance *instance, uint64_t ticks);
	/* Have the session do what follows from it. */
	void (*settle)(struct tree_instance *instance);
	/* tracing_on was written: the session has switched at some time since then. */
	void (*traced)(struct tree_instance *instance, bool on, uint64_t since_ns);
	/* The stack of a call that is being taken in, as addresses; NULL: it has none, or there is no memory. */
	char *(*stack)(struct tree_instance *instance, const struct tree_event *call, size_t *count);
	void (*end)(struct tree_instance *instance); /* the session has ended */
	void (*destroy)(struct tree_instance *instance);
};

struct tree_instance {
	struct tree_instance *next;
	struct tree *tree;
	uint32_t id;	       /* 0 = the top level; never used again */
	char name[32];	       /* of the directory, "" = the top level */
	char session_name[32]; /* of the session's instance, "" = the first one */
	struct tree_source source;
	struct tree_store store;
	struct tree_store snapshot; /* what the store was when the snapshot was taken */
	bool snapshot_there;
	struct tree_mark *marks; /* oldest first */
	uint64_t clear_ns;	 /* events up to then are left out */
	uint64_t off_ns, on_ns;	 /* likewise, later than off_ns, up to on_ns; both 0 = none */
	uint64_t changed_ns;	 /* when the tracer was changed: calls that are older belong to another one */
	uint64_t emptied_ns;	 /* when the buffer was empty last; the times of latency-format begin there */
	uint32_t pauses;	 /* open files for which nothing is kept (pause-on-trace) */
	uint64_t pause_ns;	 /* events later than that, up to resume_ns, are left out; both 0 = none */
	uint64_t resume_ns;	 /* UINT64_MAX while there are pauses */
	uint64_t options;	 /* bits by the table of options.c */
	uint32_t clock;		 /* by the table of controls.c */
	uint32_t percent;	 /* buffer_percent */
	uint32_t page_bytes;	 /* of a sub-buffer of trace_pipe_raw */
	uint64_t longest_ns;	 /* tracing_max_latency: of the calls that ended later than measured_ns */
	uint64_t measured_ns;
	uint32_t frees;	       /* descriptors of free_buffer */
	uint64_t buffer_bytes; /* of a thread's buffer in the session, as it was at buffer_ns; 0 = not known */
	uint64_t buffer_ns;
	uint32_t *cpumask;				 /* groups of 32 CPUs whose events are kept; NULL = all */
	struct tree_words pids;				 /* set_ftrace_pid; none = all */
	struct tree_words notrace_pids;			 /* set_ftrace_notrace_pid */
	const struct tree_beside *besides[TREE_BESIDES]; /* NULL = there is nothing */
	struct tree_commands *commands;			 /* of set_ftrace_filter; NULL = there were none */
	struct tree_func_stacks *func_stacks;		 /* NULL = calls have had no stacks so far */
	struct tree_words kept[TREE_LIMITS];
	char *settings;	 /* what the session said last, NULL = nothing yet */
	uint32_t opens;	 /* open files of it */
	bool *cpu_pipes; /* by CPU: its trace_pipe is open */
	bool whole_pipe; /* that of all CPUs is */
	uint32_t pipes;	 /* trace_pipes and trace_pipe_raws that are open */
};

struct tree_error {
	uint64_t ns;
	char *text; /* the lines as error_log shows them, but for the time */
};

#define TREE_ERRORS 8u

#define TREE_CALLERS 8

/* A thread that has opened a file to write to it, and whose process was looked at then (callers.c). */
struct tree_caller {
	pid_t tid;
	uint64_t looked_ns;
	bool comes; /* it was caught, and is looked at again */
};

/* When the session has ended: for readers to get the rest, and for all who wait for records, together. */
#define TREE_END_NS 5000000000u
/*
 * Who waits for records that are under way waits no longer.  On a busy machine the drainer may not get a CPU for most
 * of a second; what it has not brought by then is missing in a snapshot, or before a pause.
 */
#define TREE_SETTLE_NS 5000000000u
#define TREE_SETTLE_MS 5 /* from one look at what has come to the next */

struct tree {
	const struct tracefs_options *options;
	pid_t pid;			 /* 0 = there is no process yet, or the session had ended before */
	int connection;			 /* to the session, -1 = none */
	struct tree_instance *instances; /* the top level is the first */
	uint32_t next_id;
	struct tree_slot *slots;
	uint32_t slot_count;
	uint32_t *objects; /* numbers of objects in the order in which they were seen */
	uint32_t object_count;
	uint32_t cpu_count;   /* 0 = it was not asked for yet */
	uint32_t names_asked; /* saved_cmdlines_size */
	/* Where files lie in the process whose stack was printed last, as read at that time. */
	struct {
		struct space space;
		uint32_t pid;
		uint64_t read_ns;
	} mapped;
	/* The text of the file kallsyms, and when it was made, and read last. */
	struct {
		struct tree_text text;
		uint64_t made_ns, read_ns;
	} symbols;
	struct tree_error errors[TREE_ERRORS]; /* the newest ones, oldest first */
	uint32_t error_count;
	const char *written; /* what a file is being given just now; NULL = nothing, or its work is at FLUSH */
	struct tree_profiler *profiler; /* NULL = it was never on */
	struct tree_stacks *stacks;	/* likewise of the stack tracer */
	struct tree_caller callers[TREE_CALLERS];
	bool over;	   /* the top level's session has ended */
	uint64_t over_ns;  /* when that was seen */
	uint64_t leave_ns; /* the tree goes: until then the session is asked; 0 = it stays */
};

/* ask.c: the session's answers. */
#define ASK_PATIENCE_MS 30000 /* for the session to answer */
/* Send a request about the instance; the caller frees *answer.  fd: goes along, -1 = none.  -ENODEV: it has ended. */
int ask_session(struct tree_instance *instance, const char *verb, const char *const *words, size_t count, int fd,
		char **answer, struct calltap_diag *diag) __attribute__((warn_unused_result));
/* -ENODEV, with why: there is no process, or its recording has ended. */
int ask_tell_gone(const struct tree *tree, struct calltap_diag *diag);
/* Is there no session to ask, or no process yet?  diag: the sentence for it. */
bool ask_is_gone(const struct tree_instance *instance, struct calltap_diag *diag);
/* The settings as they are now, or were at last; NULL = nobody knows. Valid until the next call. */
const char *ask_settings(struct tree_instance *instance);
/* The value of a key that has one, as text. */
void ask_value(struct tree_instance *instance, const char *key, char *value, size_t size);
/* The values of a kind of filter. */
int ask_filters(struct tree_instance *instance, const char *key, struct tree_words *out)
	__attribute__((warn_unused_result));
/* Add "KEY SIGN VALUE" to a list of changes; and the changes that make these the key's values. */
int ask_add_change(struct tree_words *changes, const char *key, const char *sign, const char *value)
	__attribute__((warn_unused_result));
int ask_add_values(struct tree_words *changes, const char *key, const struct tree_words *values)
	__attribute__((warn_unused_result));
/* Change settings, all or none; errors are in error_log.  Further instances begin anew for tracer and buffer. */
int ask_change(struct tree_instance *instance, const char *file, const struct tree_words *changes)
	__attribute__((warn_unused_result));
/* True while the instance's tracer is function_graph. */
bool ask_is_graph(struct tree_instance *instance);
/* Is tracing_on 1? */
bool ask_is_tracing(struct tree_instance *instance);

/* limits.c: what function_graph alone has. */
int limits_read(struct tree_instance *instance, enum tree_limit limit, struct tree_words *out)
	__attribute__((warn_unused_result));
int limits_change(struct tree_instance *instance, const char *file, enum tree_limit limit,
		  const struct tree_words *values) __attribute__((warn_unused_result));
/* Change the tracer, and give or take the limits with it. */
int limits_tracer(struct tree_instance *instance, const char *tracer) __attribute__((warn_unused_result));
extern const char *const limits_keys[TREE_LIMITS];
/* Add a sentence of the session's, and a NUL, with the limits' files in place of their settings. */
void limits_add_sentence(struct tree_text *out, const char *sentence);

/* catalog_read.c: the functions of the session. */
struct tree_function {
	const char *name, *object;
	uint32_t number, rank;		/* of the object, in the session and in the tree */
	bool program, recorded, picked; /* picked: by the filters that were asked for */
	bool meant;			/* its object is one that was asked for */
	bool touched;			/* it was patched at some time */
	uint64_t address;		/* in the object's file, if that was asked for */
};

struct tree_functions {
	struct tree_function *list;
	size_t count;
	struct tree_words waiting; /* filters of objects that are not loaded */
	bool object_there;	   /* an object that was asked for is loaded */
	char *text;
};

/* What is asked: functions that filters of the kind `key` pick (NULL: none). */
struct tree_asked {
	const char *key;
	const struct tree_words *filters; /* NULL: the instance's own in the session */
	const char *object;		  /* glob: libraries that nothing has named are looked at; "" or NULL = none */
	const char *match;		  /* pattern: functions whose names match it; NULL = all */
	bool picked;			  /* those alone that the filters pick */
	bool addresses;
	bool first; /* the first of these in each object alone */
};

/* All functions that are asked for, in the tree's order. */
int functions_read(struct tree_functions *out, struct tree_instance *instance, const struct tree_asked *asked,
		   struct calltap_diag *diag) __attribute__((warn_unused_result));
void functions_clear(struct tree_functions *functions);
/* Add the filter that means one function of one object, if it is not there. */
int functions_add_filter(struct tree_words *words, const struct tree_function *function)
	__attribute__((warn_unused_result));
/* "name", or "name [object]" for what is no program's. */
void functions_line(struct tree_text *text, const struct tree_function *function);

/* errors.c */
/* Note an error of a file; returns error.  command: what was written, at: place of the caret in it, or -1. */
int errors_note(struct tree *tree, const char *file, int error, const char *text, const char *command, int at);
void errors_print(struct tree *tree, struct tree_text *out);
void errors_clear(struct tree *tree);

/* options.c: in the kernel's order. */
enum tree_option {
	OPTION_PRINT_PARENT,
	OPTION_SYM_OFFSET,
	OPTION_SYM_ADDR,
	OPTION_VERBOSE,
	OPTION_RAW,
	OPTION_HEX,
	OPTION_BIN,
	OPTION_BLOCK,
	OPTION_ANNOTATE,
	OPTION_USERSTACKTRACE,
	OPTION_SYM_USEROBJ,
	OPTION_PRINTK_MSG_ONLY,
	OPTION_CONTEXT_INFO,
	OPTION_LATENCY_FORMAT,
	OPTION_RECORD_CMD,
	OPTION_RECORD_TGID,
	OPTION_OVERWRITE,
	OPTION_DISABLE_ON_FREE,
	OPTION_IRQ_INFO,
	OPTION_MARKERS,
	OPTION_PAUSE_ON_TRACE,
	OPTION_FUNC_STACK_TRACE,
	OPTION_FUNC_NO_REPEATS,
	OPTION_FUNC_ARGS,
	OPTION_FUNCGRAPH_OVERRUN,
	OPTION_FUNCGRAPH_CPU,
	OPTION_FUNCGRAPH_OVERHEAD,
	OPTION_FUNCGRAPH_PROC,
	OPTION_FUNCGRAPH_DURATION,
	OPTION_FUNCGRAPH_ABSTIME,
	OPTION_FUNCGRAPH_TAIL,
	OPTION_FUNCGRAPH_RETVAL,
	OPTION_FUNCGRAPH_RETVAL_HEX,
	OPTION_FUNCGRAPH_RETADDR,
	OPTION_FUNCGRAPH_ARGS,
	OPTION_GRAPH_TIME,
	TREE_OPTIONS
};

uint64_t options_default(void);
const char *options_name(enum tree_option option);
/* Does trace_options list it while that is the instance's tracer? */
bool options_is_listed(enum tree_option option, const char *tracer);
static inline bool options_has(const struct tree_instance *instance, enum tree_option option)
{
	return instance->options & (uint64_t)1 << option;
}
/* Is the option about values that the session records of calls? */
bool options_tells(enum tree_option option);
/* The instance is not the session's first one: none of these is set from now on. */
void options_drop(struct tree_instance *instance);
void options_set(struct tree_instance *instance, enum tree_option option, bool on);

/* source.c */
int source_open(struct tree_instance *instance) __attribute__((warn_unused_result));
/* Take what has come. */
void source_pump(struct tree_instance *instance);
/* Lost records of threads on a CPU, or READING_ALL, that no event tells of so far. */
uint64_t source_untold(const struct tree_instance *instance, uint32_t cpu);
/*
 * No more comes: take some of the rest, as source_pump() does.  To be called until `ended`; readers who keep at it get
 * all of it.
 */
void source_end(struct tree_instance *instance);
void source_close(struct tree_instance *instance);
/* Up to when all events are in the store; UINT64_MAX = all that will ever come. */
uint64_t source_known_ns(const struct tree_instance *instance);
/* Have all events up to now in the store, if they come until source_until(). */
void source_settle(struct tree_instance *instance);
/* Leave out all events up to now. */
void source_forget(struct tree_instance *instance);
/*
 * When to wait no longer for records that are under way: in TREE_SETTLE_NS; once the session has ended TREE_END_NS
 * behind its end, for all who wait together.
 */
uint64_t source_until(const struct tree *tree);
/* Leave out those of a CPU, as far as they have come. */
void source_forget_cpu(struct tree_instance *instance, uint32_t cpu);
/* Leave out what comes from now on, up to the end of the last such pause. */
void source_pause(struct tree_instance *instance);
void source_resume(struct tree_instance *instance);
/* Put the marks that are older than that into the store. */
void source_put_marks(struct tree_instance *instance, uint64_t until_ns);
/* A stack at a call that another source has told of; takes text over. */
void source_put_stack(struct tree_instance *instance, const struct tree_event *call, char *text);
/* A mark, or data, by a thread of the system, as of now; takes text over. */
int source_mark(struct tree_instance *instance, pid_t tid, enum tree_kind kind, char *text, size_t size)
	__attribute__((warn_unused_result));

/*
 * details.c: what calls are made with, and what they give, as funcgraph-args, -retval, -retaddr and func-args show it.
 * It is the text of an ENTRY or EXIT: a head, which has a number, and behind it a text that ends with a NUL.
 */
struct details_head {
	uint64_t number; /* of an ENTRY: the address that the call returns to; of an EXIT: the result */
	bool has_number, has_text;
};
/* The event has no text: false.  Else its head. */
bool details_head(struct details_head *head, const struct tree_event *event);
/* What an ENTRY tells of arguments, "(a=1, b=0x2)", or an EXIT of a result that is no number. */
const char *details_text(const struct tree_event *event);
size_t details_size(const struct tree_event *event);
/* The record tells of the thread's innermost call: true = it was taken. */
bool details_take(struct tree_instance *instance, const struct trace *trace, const struct trace_event *record);
/* The result of the slot's call of this function, which ends now, for the event's text; NULL: none is known. */
char *details_result(struct tree_source *source, uint32_t slot, uint32_t function);
/* The slot has made another record: no call ends with the result that is known. */
void details_forget(struct tree_source *source, uint32_t slot);
void details_clear(struct tree_source *source);
/* Is the event a call, or the entry of one, of which arguments may come yet?  Nobody is to consume it before. */
bool source_awaits(const struct tree_instance *instance, const struct tree_event *event);
/* Add the changes by which the session records what the tracer's options ask for. */
int details_add_changes(struct tree_instance *instance, const char *tracer, struct tree_words *changes)
	__attribute__((warn_unused_result));
/* Why options that are set do not go together, or with the instance; NULL = they do. */
const char *details_refusal(const struct tree_instance *instance);
/* Such an option has changed: -errno, which is in error_log. */
int details_follow(struct tree_open *open) __attribute__((warn_unused_result));

/* begin.c: the session's instance behind a directory. */
int begin_instance(struct tree_instance *instance, const char *const *words, size_t count, struct calltap_diag *diag)
	__attribute__((warn_unused_result));
void end_instance(struct tree_instance *instance);
/* That behind the top level: the session is the tool's own, or it becomes one of the process' session. */
int begin_tree(struct tree *tree, pid_t pid, struct calltap_diag *diag) __attribute__((warn_unused_result));

/* attach.c */
/* There is no process yet: the files say what they would if nothing were recorded of one. */
int attach_await(struct tree *tree, struct calltap_diag *diag) __attribute__((warn_unused_result));
int attach_read(struct tree_open *open, struct tree_text *out);
int attach_write(struct tree_open *open, const char *text, size_t size);

/* gates.c: an instance that no directory shows. */
typedef void gate_take(void *ctx, const struct tree_event *event);
#define GATE_SETTINGS 3u
struct gate_kind {
	const char *name;		     /* of the session's instance, behind the owner's name */
	const char *settings[GATE_SETTINGS]; /* of that instance; NULL = no more */
	/* The rest is for gate_switch(): a gate that a file switches on and off, for the whole tree.  Others have NULL.
	 */
	gate_take *take;
	int (*filters)(struct tree *tree, struct tree_words *out); /* as settings, with which it begins */
	void (*forget)(struct tree *tree);			   /* what a gate before it has told */
};
/* Begin one beside the owner, which records what these filters choose. */
int gate_begin(struct tree_instance **gate, struct tree_instance *owner, const struct gate_kind *kind,
	       const struct tree_words *filters, struct calltap_diag *diag) __attribute__((warn_unused_result));
/* A number was written to the file that switches it; returns size, or the error.  ctx: for take(). */
int gate_switch(struct tree_instance **gate, const struct gate_kind *kind, void *ctx, struct tree_open *open,
		const char *text, size_t size) __attribute__((warn_unused_result));
/* Take in what has come. */
void gate_pump(struct tree_instance *gate);
/*
 * gate_pump() and source_end() for a gate whose events wait in its store until the instance's own have come as far: the
 * gate takes in no more while many wait, for the store would overwrite the oldest.
 */
void gate_pump_held(struct tree_instance *gate);
void gate_end_held(struct tree_instance *gate, const struct tree_instance *instance);
/* Take in what has come, and hand each event on, which is gone then.  False: there is more.  gate: may be NULL. */
bool gate_drain(struct tree_instance *gate, gate_take *take, void *ctx);
/* The same with all up to now, if it comes within some time. */
void gate_settle(struct tree_instance *gate, gate_take *take, void *ctx);
/* No more is recorded; the gate still knows the functions of what was, and gate_drain() hands on the rest. */
void gate_stop(struct tree_instance *gate, gate_take *take, void *ctx);
/* Up to when, by the counter, all that it records is in its store; UINT64_MAX = no more comes. */
uint64_t gate_known_ticks(const struct tree_instance *gate);
/* Is there a gate, and does it record? */
bool gate_is_open(const struct tree_instance *gate);
/* Is something of what it has recorded to be handed on?  gate: may be NULL. */
bool gate_has_more(const struct tree_instance *gate);
/* *gate may be NULL. */
void gate_end(struct tree_instance **gate);

/* func_stacks.c: func_stack_trace and userstacktrace, stacks below the lines of calls. */
/* An option, or the tracer, has changed.  -errno with diag: stacks have two functions. */
int func_stacks_follow(struct tree_instance *instance, struct calltap_diag *diag) __attribute__((warn_unused_result));

/* profiler.c: function_profile_enabled and trace_stat/. */
int profiler_read(struct tree_open *open, struct tree_text *out);
int profiler_write(struct tree_open *open, const char *text, size_t size);
/* The calls on a CPU. */
int profiler_read_stat(struct tree_open *open, struct tree_text *out);
/* Count what has come; false: there is more. */
bool profiler_pump(struct tree *tree);
/* The top level's filters have changed. */
int profiler_filter(struct tree *tree, const char *file) __attribute__((warn_unused_result));
void profiler_destroy(struct tree *tree);

/* stacks.c: the stack tracer: stack_trace, stack_max_size, stack_trace_filter and stack_tracer_enabled. */
int stacks_read(struct tree_open *open, struct tree_text *out);
int stacks_read_size(struct tree_open *open, struct tree_text *out);
int stacks_write_size(struct tree_open *open, const char *text, size_t size);
int stacks_read_enabled(struct tree_open *open, struct tree_text *out);
int stacks_write_enabled(struct tree_open *open, const char *text, size_t size);
bool stacks_pump(struct tree *tree);
/* The functions that it is about; none: all. */
int stacks_filters(const struct tree *tree, struct tree_words *out) __attribute__((warn_unused_result));
int stacks_filter(struct tree *tree, const struct tree_words *filters) __attribute__((warn_unused_result));
void stacks_destroy(struct tree *tree);

/* parts.c */
/* An instance that is in no list; and the end of such a one. */
struct tree_instance *parts_make(struct tree *tree, const char *name);
void parts_free(struct tree_instance *instance);
struct tree_instance *parts_add(struct tree *tree, const char *name);
void parts_remove(struct tree *tree, struct tree_instance *instance);
struct tree_instance *parts_instance(const struct tree *tree, uint32_t id);
struct tree_instance *parts_named(const struct tree *tree, const char *name);
/* The slot of a thread; UINT32_MAX = no memory. */
uint32_t parts_slot(struct tree *tree, uint32_t tid);
void parts_name_slot(struct tree *tree, uint32_t slot, uint32_t pid, const char *name);
void parts_clear(struct tree *tree);

/* How far a reader of events is, and what it has to remember of each slot. */
#define READING_DEPTH 50

struct reading_slot {
	uint32_t entered[READING_DEPTH]; /* function + 1 at each depth, 0 = none */
	uint64_t passed;		 /* number of the exit that was printed with its entry; 0 = none */
	int depth;
	bool started;
};

struct tree_reading {
	uint64_t next, end; /* numbers of events */
	uint64_t index;	    /* events so far */
	struct reading_slot *slots;
	size_t slot_count;
	struct tree_store store; /* of trace: what the instance's held at the beginning */
	bool begun;		 /* the header is there */
	bool consumes;		 /* what is printed is gone */
	bool snapshot;		 /* of the snapshot */
	bool graph;		 /* lines are those of function_graph */
	bool latency;		 /* they are in the latency format, as the option was at the open */
	bool pauses;		 /* nothing is kept as long as it is open */
	uint32_t cpu;		 /* of this CPU alone, or READING_ALL */
};
#define READING_ALL UINT32_MAX

/* lines.c, graph_lines.c */
void lines_header(struct tree_instance *instance, const struct tree_store *store, bool latency, struct tree_text *out);
/* What the snapshot's file says while the snapshot is empty. */
void lines_snapshot_help(struct tree_instance *instance, struct tree_text *out);
/* Print the next event: false = there is none. */
bool lines_next(struct tree_reading *reading, struct tree_instance *instance, struct tree_text *out);
void lines_clear(struct tree_reading *reading);
/* The events that are read: the instance's, or those that it had. */
struct tree_store *lines_store(struct tree_reading *reading, struct tree_instance *instance);
void lines_time(uint64_t ns, struct tree_text *out);
/* The name of a thread, as far as it was recorded. */
static inline const char *lines_task(const struct tree_slot *slot)
{
	return slot->named ? slot->name : "<...>";
}
/* The name of the function that a CALL comes from, by the trace or by the object's file. */
void lines_caller(const struct tree_instance *instance, const struct tree_event *event, struct tree_text *out);
/* Likewise at any address of the event's process; offset: with the place in the function, as with sym-offset. */
void lines_place_at(const struct tree_instance *instance, const struct tree_event *event, uint64_t address, bool offset,
		    struct tree_text *out);
void lines_place(const struct tree_instance *instance, const struct tree_event *event, uint64_t address,
		 struct tree_text *out);
/* A TREE_STACK or TREE_USER_STACK, without the end of its last line. */
void lines_stack(struct tree_instance *instance, const struct tree_event *event, struct tree_text *out);
/* What was written to trace_marker_raw. */
void lines_data(const struct tree_event *event, struct tree_text *out);
struct reading_slot *lines_slot(struct tree_reading *reading, uint32_t slot);
/* Where the event's function lies in the process of the event's thread; 0 = nobody knows. */
uint64_t lines_address(struct tree_instance *instance, const struct tree_event *event);
const char *lines_symbol(const struct tree_instance *instance, uint32_t function);
/* Likewise; of a library with the library's name behind it, as the kernel does with modules. */
void lines_function(const struct tree_instance *instance, uint32_t function, struct tree_text *out);
/* "12.345 us ", as wide as the kernel prints it. */
void lines_duration(uint64_t ns, struct tree_text *out);

/* other_lines.c: the formats of raw, hex, bin and latency-format. */
/* Is the default format not the one that options choose? */
bool other_is_chosen(const struct tree_instance *instance);
/* A whole line, but for its end, which bin has none of. */
void other_line(struct tree_instance *instance, const struct tree_event *event, struct tree_text *out);
/* latency-format: what stands in front of the event, the index-th; next_ns: the time of the event behind it. */
void other_latency(const struct tree_instance *instance, const struct tree_event *event, uint64_t index,
		   uint64_t next_ns, struct tree_text *out);
/* What is printed above all else, and above the columns of the default format. */
void other_latency_header(struct tree_instance *instance, const struct tree_store *store, const char *tracer,
			  struct tree_text *out);
void other_latency_columns(struct tree_text *out);

void graph_header(const struct tree_instance *instance, bool latency, struct tree_text *out);
void graph_line(struct tree_reading *reading, struct tree_instance *instance, struct tree_event *event,
		struct tree_text *out);

/* cpus.c */
/* CPUs that the machine can have. */
uint32_t cpus_count(struct tree *tree);
/* The CPU that a thread of the system ran on last, as read within the last milliseconds.  now: now_ns(). */
uint16_t cpus_of_slot(struct tree *tree, uint32_t slot, uint64_t now);
/* The CPU of the record that is being taken in. */
uint16_t cpus_of_record(struct tree_instance *instance, const struct tree_taking *taking);
/* Are events of the CPU kept, by tracing_cpumask? */
bool cpus_is_wanted(const struct tree_instance *instance, uint32_t cpu);
#define CPUS_GROUP 32u /* CPUs in a word of tree_instance.cpumask */

/* cpumask.c */
int cpumask_read(struct tree_open *open, struct tree_text *out);
int cpumask_write(struct tree_open *open, const char *text, size_t size);

/* symbols.c */
int symbols_read(struct tree_open *open, struct tree_text *out);

/* formats.c */
/* The name of the which-th event, NULL past the end. */
const char *formats_name(uint32_t which);
int formats_read(struct tree_open *open, struct tree_text *out);
int formats_read_id(struct tree_open *open, struct tree_text *out);
int formats_read_page(struct tree_open *open, struct tree_text *out);
int formats_read_event(struct tree_open *open, struct tree_text *out);
/* A file that is empty. */
int formats_read_none(struct tree_open *open, struct tree_text *out);
int formats_read_enable(struct tree_open *open, struct tree_text *out);
int formats_write_enable(struct tree_open *open, const char *text, size_t size);

/* table.c: the files. */
enum tree_stream { STREAM_NONE, STREAM_TRACE, STREAM_PIPE, STREAM_RAW };

enum tree_folder {
	FOLDER_NONE,
	FOLDER_TOP, /* an instance's; 1, for that is the number of FUSE's root */
	FOLDER_OPTIONS,
	FOLDER_INSTANCES,
	FOLDER_CPUS,
	FOLDER_CPU,
	FOLDER_EVENTS,
	FOLDER_FTRACE, /* the events of the tracers */
	FOLDER_EVENT,
	FOLDER_STATS, /* trace_stat: a file for each CPU */
};

struct tree_row {
	const char *name;
	mode_t mode;
	enum tree_folder folder;   /* that it lies in */
	enum tree_folder leads_to; /* a folder; FOLDER_NONE: it is a file */
	bool top;		   /* at the top level alone */
	/* The whole text; NULL: it cannot be read, or is a stream. */
	int (*read)(struct tree_open *open, struct tree_text *out);
	/* Take what is written, which ends with a NUL; NULL: it cannot be written. */
	int (*write)(struct tree_open *open, const char *text, size_t size);
	int (*begin)(struct tree_open *open); /* at open; NULL = nothing is to be done; likewise: */
	int (*flush)(struct tree_open *open);
	void (*end)(struct tree_open *open);
	enum tree_stream stream;
};

/* The i-th row, NULL past the end. */
const struct tree_row *table_at(size_t i);

#define NODE_NAME 24 /* bytes of a name that is made: with a number in it */

/* nodes.c: a file or folder of the tree. */
struct tree_node {
	struct tree_instance *instance;
	enum tree_folder folder; /* it, or what the file lies in */
	uint32_t which;		 /* the CPU, or the event, that the folder is of */
	bool is_file;
	uint32_t row; /* of a file: of the table, or in options/ the option */
};

uint64_t node_number(const struct tree_node *node);
/* False: it has gone. */
bool node_find(const struct tree *tree, uint64_t number, struct tree_node *out);
/* NULL: it is a folder, or a file of options/. */
const struct tree_row *node_row(const struct tree_node *node);
mode_t node_mode(const struct tree_node *node);
/* The i-th of what a folder holds, with its name, which may be in `room`; false past the end. */
bool node_child(const struct tree_node *folder, uint32_t i, struct tree_node *out, const char **name,
		char room[NODE_NAME]);
bool node_named(const struct tree_node *folder, const char *name, struct tree_node *out);

/* A filter file that is being written. */
struct tree_edit {
	struct tree_words words;
	char token[512]; /* that is not complete */
	size_t token_size;
	bool too_long; /* the token that is being read has no room */
	bool changed;
};

struct tree_open {
	struct tree_instance *instance;
	const struct tree_row *row; /* NULL: a file of options/ */
	enum tree_option option;
	uint32_t which;	   /* the CPU, or the event, that its folder is of */
	int flags;	   /* as open() had them */
	pid_t writer;	   /* thread that writes just now */
	uint64_t since_ns; /* time of the open, of trace_pipe: of the read */
	uint64_t read_ns;  /* when its holder consumed events, or waited for some */
	uint64_t known_ns; /* of trace: source_known_ns(), and since when it is that */
	uint64_t known_since_ns;
	bool flushed;	       /* nothing was done with it since it, or a copy of it, was closed */
	struct tree_text text; /* of a row that is read as a whole; of a stream: what is not read yet */
	struct tree_edit *edit;
	struct tree_reading reading;
	bool read_any; /* something of the stream was read */
	void *poll;    /* who waits, by the mount */
};

static inline bool open_writes(const struct tree_open *open)
{
	return (open->flags & 3) != 0;
}

static inline bool open_reads(const struct tree_open *open)
{
	return (open->flags & 3) != 1; /* O_WRONLY */
}

static inline bool open_truncates(const struct tree_open *open, int o_trunc)
{
	return open_writes(open) && open->flags & o_trunc;
}

/* controls.c: what reading and writing the simple files do. */
int control_read_available_tracers(struct tree_open *open, struct tree_text *out);
int control_read_tracer(struct tree_open *open, struct tree_text *out);
int control_write_tracer(struct tree_open *open, const char *text, size_t size);
int control_read_tracing(struct tree_open *open, struct tree_text *out);
int control_write_tracing(struct tree_open *open, const char *text, size_t size);
int control_read_depth(struct tree_open *open, struct tree_text *out);
int control_write_depth(struct tree_open *open, const char *text, size_t size);
int control_read_threshold(struct tree_open *open, struct tree_text *out);
int control_write_threshold(struct tree_open *open, const char *text, size_t size);
int control_read_longest(struct tree_open *open, struct tree_text *out);
int control_write_longest(struct tree_open *open, const char *text, size_t size);
int control_read_clock(struct tree_open *open, struct tree_text *out);
int control_write_clock(struct tree_open *open, const char *text, size_t size);
int control_read_options(struct tree_open *open, struct tree_text *out);
int control_write_options(struct tree_open *open, const char *text, size_t size);
/* A file of options/. */
int control_read_option(struct tree_open *open, struct tree_text *out);
int control_write_option(struct tree_open *open, const char *text, size_t size);
/* A decimal number as the kernel takes it: nothing but digits, and a newline at the end; -EINVAL is noted. */
int control_number(const struct tree_open *open, const char *text, uint64_t *value) __attribute__((warn_unused_result));
/* Change one setting of the session; returns size, or the error. */
int control_change(struct tree_open *open, const char *word, size_t size) __attribute__((warn_unused_result));
/* Note an error of what is written to an open file; returns error.  at: place of the caret. */
int control_refuse(const struct tree_open *open, int error, const char *text, const char *written, int at);

/* buffers.c */
int buffer_read(struct tree_open *open, struct tree_text *out);
int buffer_write(struct tree_open *open, const char *text, size_t size);
int buffer_read_total(struct tree_open *open, struct tree_text *out);
int buffer_read_percent(struct tree_open *open, struct tree_text *out);
int buffer_write_percent(struct tree_open *open, const char *text, size_t size);
int buffer_read_page(struct tree_open *open, struct tree_text *out);
int buffer_write_page(struct tree_open *open, const char *text, size_t size);
int buffer_write_free(struct tree_open *open, const char *text, size_t size);
/* At the beginning of free_buffer, and at its end. */
int buffer_begin_free(struct tree_open *open);
void buffer_free(struct tree_open *open);
/* Of a CPU. */
int buffer_read_stats(struct tree_open *open, struct tree_text *out);
/* Does the buffer hold as much as buffer_percent asks for? */
bool buffer_is_filled(const struct tree_instance *instance);
/* Give the instance's store the room that the session's buffers have. */
void buffer_limit(struct tree_instance *instance);
/*
 * The same for a reader, which comes for each page: the session's answer is taken for true for 50 ms, as each question
 * is two messages.
 */
void buffer_limit_again(struct tree_instance *instance);

/* marker.c: what the files trace_marker and trace_marker_raw take. */
int marker_write(struct tree_open *open, const char *text, size_t size);
int marker_write_raw(struct tree_open *open, const char *text, size_t size);

/* callers.c: the file is opened to change settings. */
bool open_changes(const struct tree_open *open);
/* Such a file is not open yet, and this thread waits for that: what is to be done with it (host/remote/remote.h). */
enum remote_catch callers_catch_one(struct tree *tree, pid_t tid) __attribute__((warn_unused_result));
/* pids.c: set_ftrace_pid and set_ftrace_notrace_pid. */
int pids_read(struct tree_open *open, struct tree_text *out);
int pids_begin(struct tree_open *open);
int pids_write(struct tree_open *open, const char *text, size_t size);

/* filter_files.c: set_ftrace_filter and its like. */
extern const struct tree_filter_file {
	const char *name, *key, *empty;
	bool numbers; /* a token may be the number of a function */
	bool stacks;  /* the list is the stack tracer's */
} filter_files[5];
int filter_read(struct tree_open *open, struct tree_text *out);
int filter_begin(struct tree_open *open);
int filter_write(struct tree_open *open, const char *text, size_t size);
int filter_flush(struct tree_open *open);
void filter_end(struct tree_open *open);
int filter_read_available(struct tree_open *open, struct tree_text *out);
/* How many functions there are, of how many objects. */
int filter_read_total(struct tree_open *open, struct tree_text *out);
int filter_read_enabled(struct tree_open *open, struct tree_text *out);
int filter_read_touched(struct tree_open *open, struct tree_text *out);
int filter_read_addresses(struct tree_open *open, struct tree_text *out);

/* stream.c: trace and trace_pipe. */
int stream_begin_trace(struct tree_open *open);
int stream_begin_pipe(struct tree_open *open);
int stream_begin_snapshot(struct tree_open *open);
int stream_write_snapshot(struct tree_open *open, const char *text, size_t size);
/* A CPU's snapshot cannot be exchanged alone. */
int stream_refuse_snapshot(struct tree_open *open, const char *text, size_t size);
/* What the buffer holds becomes the snapshot, and the other way round. */
void stream_take_snapshot(struct tree_instance *instance);
void stream_end(struct tree_open *open);
void stream_end_trace(struct tree_open *open);
int stream_write_trace(struct tree_open *open, const char *text, size_t size);
/* True if a read of this place need not wait. */
bool stream_is_ready(struct tree_open *open);
/* Have what is to be read next in open->text, from its beginning, or of `trace` from `offset` on. */
void stream_fill(struct tree_open *open, size_t offset, size_t size);
/* Forget the first bytes of a stream that consumes. */
void stream_taken(struct tree_open *open, size_t size);
/* Note that the holder of the file consumes events, or waits for some.  A file that is no stream is passed over. */
void stream_note_reader(struct tree_open *open);
/* Is the row a stream that is consumed? */
bool stream_is_pipe(const struct tree_row *row);
/* Is somebody at the file who consumes events, and has not got all of them? */
bool stream_is_being_read(const struct tree_open *open);

#endif
