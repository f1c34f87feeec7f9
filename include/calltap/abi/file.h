/*
 * The trace file, which `calltap record` writes and every reader opens.
 *
 * A struct calltap_file_head, then chunks to the end of the file.  A chunk is
 * a struct calltap_chunk, its payload of `stored` bytes (zstd when flagged),
 * and zero bytes up to a multiple of 8.  Everything is little-endian.  A file
 * whose last chunk is not CALLTAP_CHUNK_END was cut short: all chunks before
 * the damage are good.  Readers skip chunk types that they do not know, and
 * find the chunk after a damaged place by its magic.
 *
 * The payload of a DATA chunk opens with a struct calltap_file_data that is
 * never compressed; the flag is about the streams behind it.  So a reader
 * indexes a file by its heads alone and touches a stream when it gets there.
 *
 * A check is the low half of h after h = 0x811c9dc5, then for each 8 bytes
 * (little-endian word w; the last ones filled up with zero bytes)
 * h = (h ^ w) * 0x100000001b3, h ^= h >> 32: FNV-1a, eight bytes at a time.
 *
 * Indices and ids: `process` counts process images (an exec starts a new
 * one), `thread` counts threads over the whole trace, `object` counts object
 * files, `function` is the id in the records.  A chunk that describes an index
 * described before replaces the earlier description.  Times are raw ticks of
 * the target's clock; CLOCK chunks tie them to nanoseconds.
 */
#ifndef CALLTAP_ABI_FILE_H
#define CALLTAP_ABI_FILE_H

#include <stdint.h>

#define CALLTAP_FILE_MAGIC    "CALLTAP\n"
#define CALLTAP_FILE_VERSION  1u
#define CALLTAP_CHUNK_MAGIC   0x4b435443u /* "CTCK" */
#define CALLTAP_CHUNK_ZSTD    1u
#define CALLTAP_CHUNK_RAW_MAX (64u << 20) /* bytes; larger is damage */

struct calltap_file_head {
	char magic[8];
	uint32_t version;
	uint32_t head_size;  /* where the first chunk starts */
	uint64_t created_ns; /* CLOCK_REALTIME */
	uint32_t arch;	     /* ELF e_machine of the target */
	uint32_t reserved[9];
};

struct calltap_chunk {
	uint32_t magic;
	uint32_t type;
	uint32_t flags;
	uint32_t check;	 /* of this head with check = 0, then the stored payload; of DATA, its head only */
	uint64_t stored; /* payload bytes in the file */
	uint64_t raw;	 /* payload bytes after decompression */
};

enum calltap_chunk_type {
	CALLTAP_CHUNK_INFO = 1,	     /* "key=value\n" lines, UTF-8; later keys replace earlier ones */
	CALLTAP_CHUNK_CLOCK = 2,     /* array of struct calltap_file_clock */
	CALLTAP_CHUNK_PROCESS = 3,   /* struct calltap_file_process + exe path + NUL */
	CALLTAP_CHUNK_OBJECT = 4,    /* struct calltap_file_object + path + NUL */
	CALLTAP_CHUNK_MAP = 5,	     /* array of struct calltap_file_map */
	CALLTAP_CHUNK_FUNCTIONS = 6, /* struct calltap_file_functions, its array, strings */
	CALLTAP_CHUNK_LINES = 7,     /* struct calltap_file_lines, its array, strings */
	CALLTAP_CHUNK_THREAD = 8,    /* array of struct calltap_file_thread */
	CALLTAP_CHUNK_DATA = 9,	     /* struct calltap_file_data + three streams */
	CALLTAP_CHUNK_END = 10,	     /* struct calltap_file_end; the file is complete */
	CALLTAP_CHUNK_STACK = 11,    /* struct calltap_file_stack, its array, strings: frames open at an attach */
	CALLTAP_CHUNK_HISTORY = 12,  /* array of struct calltap_file_history: where a flight recorder's memory begins */
	CALLTAP_CHUNK_FORMATS = 13,  /* struct calltap_file_formats, its array, strings: what EVENT records hold */
	CALLTAP_CHUNK_TICKS = 14,    /* struct calltap_file_ticks, its array: when brief records were written */
	CALLTAP_CHUNK_CPUS = 15,     /* array of struct calltap_file_cpu: which CPUs threads ran on */
};

struct calltap_file_clock {
	uint64_t ticks;
	uint64_t mono_ns; /* CLOCK_MONOTONIC */
	uint64_t real_ns; /* CLOCK_REALTIME */
};

enum calltap_process_start {
	CALLTAP_START_SPAWN = 0, /* the command that was given */
	CALLTAP_START_FORK = 1,
	CALLTAP_START_EXEC = 2,	  /* same pid as an earlier image */
	CALLTAP_START_ATTACH = 3, /* the process ran before the recording began */
};

struct calltap_file_process {
	uint32_t process;
	uint32_t pid;
	uint32_t parent; /* process index, or UINT32_MAX */
	uint32_t start;	 /* enum calltap_process_start */
	uint64_t start_ticks;
	uint64_t end_ticks; /* 0 = not known (yet) */
};

struct calltap_file_object {
	uint32_t object;
	uint32_t build_id_size; /* <= 32 */
	uint8_t build_id[32];
};

/* An address belongs to the map that was seen last before the time in question. */
struct calltap_file_map {
	uint32_t process;
	uint32_t object; /* UINT32_MAX: the object that lay there is gone (dlclose) */
	uint64_t base;	 /* load bias: run-time address = base + ELF address */
	uint64_t lo, hi; /* run-time extent */
	uint64_t ticks;	 /* when the map was seen, or was seen to be gone */
};

struct calltap_file_function {
	uint32_t function;
	uint32_t object;
	uint64_t address; /* ELF address of the symbol */
	uint32_t size;	  /* bytes, 0 = not known */
	uint32_t name;	  /* offset in the strings; mangled, as in the symbol table */
};

struct calltap_file_functions {
	uint32_t count;
	uint32_t strings_size; /* bytes after the array, NUL-terminated strings */
};

struct calltap_file_line {
	uint32_t function;
	uint32_t line;
	uint32_t file; /* offset in the strings */
};

struct calltap_file_lines {
	uint32_t count;
	uint32_t strings_size;
};

struct calltap_file_thread {
	uint32_t thread;
	uint32_t process;
	uint32_t tid;
	uint32_t ended; /* 1: the thread ended before its process did */
	char name[16];
	uint64_t start_ticks;
	uint64_t end_ticks;  /* time of the thread's last record; 0 = not known (yet) */
	uint64_t lost;	     /* records lost in all */
	uint64_t wait_ticks; /* time spent waiting for the tool */
};

/*
 * All records of a thread from from_ticks on are there.  Older ones were overwritten or left out, but for some
 * beginnings of calls that are known otherwise, each with a LOST record of size 0 behind it.
 */
struct calltap_file_history {
	uint32_t thread;
	uint32_t reserved;
	uint64_t from_ticks;
};

/* A thread's frames, innermost first, when the trace began in the midst of its run. */
struct calltap_file_stack {
	uint32_t process;
	uint32_t tid;
	uint64_t ticks;
	uint32_t count;
	uint32_t strings_size; /* bytes after the array, NUL-terminated strings; the first is the thread's name */
	uint64_t lo, hi;       /* the mapping that the stack lies in */
};

struct calltap_file_frame {
	uint64_t address;  /* run-time address at which the function ran, or goes on after its call */
	uint64_t slot;	   /* address of the frame's return address, 0 = not known */
	uint32_t function; /* id of the function in the trace, UINT32_MAX = it is not traced */
	uint32_t name;	   /* offset in the strings; mangled; "" = not known */
};

/*
 * Records of one thread in order, split by column so that they compress:
 *   heads   count x uint32_t: kind << 28 | id
 *   times   for each record that is not brief, LEB128 of the zigzag difference
 *           of the full time (ticks) to the one before (modulo 2^64); the first
 *           one to base_ticks.  When brief records come first, base_ticks is that of the last time before them.
 *   extras  the words behind the heads of longer records, 8 bytes each, in order; calltap_record_words() tells how many
 * TIME records are dropped: each record's full time is in the stream.
 */
struct calltap_file_data {
	uint32_t thread;
	uint32_t count;
	uint64_t base_ticks;  /* of the first record */
	uint64_t last_ticks;  /* greatest time in the chunk */
	uint32_t times_size;  /* bytes */
	uint32_t extras_size; /* bytes */
	uint64_t number;      /* counts up per thread from 0; a gap is lost data */
	uint32_t check;	      /* of the streams as stored; trace_writer_chunk() fills it in */
	uint32_t events;      /* EVENT records in the chunk */
};

/*
 * A brief record (record.h) is younger than the last record before it, in its thread, that has a time, and older than
 * the next one that has.  Besides, it is not more than `span` ticks younger than that last one; or, if that one's time
 * is within a row of the array, no later than the row's `to`.  Of several TICKS chunks the greatest span holds, and all
 * rows.  A row without an end (UINT64_MAX) says besides that records may have been written later than the trace's end
 * tells.  doc/design/clock.md has the argument.
 */
struct calltap_file_ticks {
	uint64_t span;
	uint32_t count; /* rows */
	uint32_t reserved;
};

struct calltap_file_late {
	uint64_t from, to; /* both included */
};

/*
 * The thread ran on the CPU at that time.  Rows of a thread are in the order of time.  Nothing is known of the time
 * between two rows but what they tell.
 */
struct calltap_file_cpu {
	uint32_t thread;
	uint32_t cpu; /* the kernel's number, from 0 */
	uint64_t ticks;
};

/* Flags of a field: the meaning of its bytes. */
#define CALLTAP_FIELD_SIGNED 1u /* a number with a sign; without this, and without TEXT: a number without a sign */
#define CALLTAP_FIELD_TEXT   2u /* UTF-8 up to its size or the first zero byte */
#define CALLTAP_FIELD_PLACED                                                                                           \
	4u		     /* with TEXT: the four bytes are a struct calltap_event_place, which says where it is     \
			      */
#define CALLTAP_FIELD_HEX 8u /* a number to be shown in base 16 */
/* A value of the innermost open call: an argument, or its result.  All fields of the type are of one of these. */
#define CALLTAP_FIELD_ARGUMENT 16u
#define CALLTAP_FIELD_RESULT   32u
/* No values, and not shown: the id of the function whose call it is, and a bit for each field that was not read. */
#define CALLTAP_FIELD_FUNCTION 64u
#define CALLTAP_FIELD_FAULTS   128u
/* How a number is shown; readers that do not know these show it as a number. */
#define CALLTAP_FIELD_BOOL 256u
#define CALLTAP_FIELD_CHAR 512u
/*
 * A number that has names: `more` is "NAME=1f" and others behind commas, with values in base 16 of the number's size.
 * A value that has no name itself is shown as names of bits, if all names together are made of single bits.
 */
#define CALLTAP_FIELD_ENUM 1024u
/* With TEXT, behind the event's bytes: a value that is not available; `more` says why. */
#define CALLTAP_FIELD_MISSING 2048u
/*
 * A number of 4 or 8 bytes is a float or a double (IEEE 754).  With TEXT and MISSING, for readers that do not know it,
 * a long double: of 10 bytes x86's, of 16 bytes IEEE 754's binary128.
 */
#define CALLTAP_FIELD_FLOAT 4096u
/*
 * A structure: the fields behind it whose names begin with its own and a point are its members; a name with two points
 * is of a structure within.  As a number it is the address that the structure was read from, and its bit of FAULTS says
 * that there was none; else it is MISSING for readers that do not know GROUP.
 */
#define CALLTAP_FIELD_GROUP   8192u
#define CALLTAP_FIELD_CUT     16384u /* with GROUP: it has more members; with TEXT: it goes on if it has no NUL here */
#define CALLTAP_FIELD_POINTER 32768u /* an address: 0 is NULL */
/* With PLACED: where CALLTAP_PLACE_CUT is set, the size of all of it in the program follows it, as 8 bytes. */
#define CALLTAP_FIELD_COUNTED 65536u
/*
 * No value: what the text of the row before is a list of.  Its size and flags are those of one element, and its offset
 * is of no meaning.  A TEXT is an element of any size that is not shown, unless
 *   - it has CHAR: a text that ends with the element or before;
 *   - it is PLACED: the text of one of the list's first elements.  Such rows stand behind the one that tells of all
 *     elements, have the list's name, and their offsets are in the event; or
 *   - it has GROUP: a structure.  Rows of ELEMENT behind it whose names begin with its own and a point are its members,
 *     with their offsets in one element.  One that is a list has the row of its own elements behind it, of its name;
 *   - the row behind it has ELEMENT and its name: a list itself.
 * CUT says of a list or a text within, and of a structure, that it goes on.
 */
#define CALLTAP_FIELD_ELEMENT 131072u
/*
 * The first member of a structure that may have a value or none: where this number has a name (ENUM), the name is
 * shown in place of the structure, and what the other fields have means nothing.  Else the other member, or the
 * structure that its members are of, is shown in place of it; one that is called by that name itself with "Some(" and
 * ")" around it if the name is "None", and else "{" and "}".
 */
#define CALLTAP_FIELD_GUARD 262144u
/*
 * The first member of a structure that has one of several structures, as this number's name tells (ENUM), under that
 * name and a point; what fields of other names have means nothing.  "NAME=1f:3" says that the structure has three
 * fields, some of which may not be described; "NAME=*:3" is that of all numbers without a name.
 */
#define CALLTAP_FIELD_VARIANT 524288u
/* A number's bits that are the field: the first one, and how many, each a number of 6 bits; 0 bits: all of them. */
#define CALLTAP_FIELD_BIT_AT  20
#define CALLTAP_FIELD_BITS_AT 26

/*
 * A row of a FORMATS chunk: one field of a type of events (record.h).  The rows of a type follow each other and have
 * equal names.  A later chunk that has rows of the type replaces them.  Numbers are of 1, 2, 4 or 8 bytes,
 * little-endian.
 */
struct calltap_file_field {
	uint32_t type;
	uint32_t name;	 /* name of the type; offset in the strings */
	uint32_t field;	 /* name of the field; offset in the strings */
	uint32_t c_type; /* the field's declaration in C, for people; offset in the strings */
	uint32_t offset; /* in the event's bytes */
	uint32_t size;	 /* bytes, 0 = up to the event's end */
	uint32_t flags;	 /* CALLTAP_FIELD_* */
	uint32_t more;	 /* with ENUM and MISSING: offset in the strings; else 0 */
};

struct calltap_file_formats {
	uint32_t count;	       /* rows */
	uint32_t strings_size; /* bytes after the array, NUL-terminated strings */
};

struct calltap_file_end {
	uint64_t records;
	uint64_t lost;
	uint64_t ticks;
	int32_t status; /* wait status of the command, -1 = not known */
	uint32_t reserved;
};

_Static_assert(sizeof(struct calltap_file_head) == 64, "format");
_Static_assert(sizeof(struct calltap_chunk) == 32, "format");
_Static_assert(sizeof(struct calltap_file_thread) == 64, "format");
_Static_assert(sizeof(struct calltap_file_data) == 48, "format");
_Static_assert(sizeof(struct calltap_file_field) == 32, "format");
_Static_assert(sizeof(struct calltap_file_history) == 16, "format");
_Static_assert(sizeof(struct calltap_file_ticks) == 16, "format");
_Static_assert(sizeof(struct calltap_file_cpu) == 16, "format");

#endif
