/*
 * What the reader's files share: the open trace and its parts.
 *
 * Context: host.  open.c walks the file, tables.c takes its chunks in,
 * access.c, clock.c and address.c answer questions, cursor.c reads the events.
 */
#ifndef HOST_TRACE_READER_H
#define HOST_TRACE_READER_H

#include "trace.h"

/* An array that grows up to a limit; new items are zero. */
struct table {
	void *items;
	uint32_t count, room;
};

struct thread_slot {
	struct trace_thread about;
	bool described;
	uint32_t first_data, end_data; /* its part of trace.data */
};

/* One DATA chunk, known from its head alone. */
struct data_ref {
	uint64_t offset; /* of the streams in the file */
	uint64_t stored; /* bytes of the streams in the file */
	uint32_t flags;	 /* of the chunk */
	struct calltap_file_data head;
};

struct info_entry {
	const char *key, *value;
};

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
	struct table threads;	/* struct thread_slot */
	struct table data;	/* struct data_ref, by thread and number */
	struct table maps;	/* struct calltap_file_map, by process and address */
	struct table kept;	/* char *: payloads that the tables point into */
	uint64_t kept_size;
	uint64_t *map_reach;  /* greatest hi of the process's maps up to here */
	uint32_t *by_address; /* functions by object and address */
	uint32_t by_address_count;

	struct calltap_file_clock first_clock, last_clock;
	bool has_clock;
	uint64_t start_ticks;
	double ticks_per_ns;
};

#define TABLE_ITEM(table, type, index) (&((type *)(table).items)[index])

/* Make index < table->count; -EBADMSG beyond limit, -ENOMEM. */
int table_reach(struct table *table, size_t item_size, uint64_t index, uint64_t limit)
	__attribute__((warn_unused_result));
/* Read exactly size bytes; -EBADMSG at the end of the file. */
int trace_read_at(const struct trace *trace, uint64_t offset, void *to, size_t size)
	__attribute__((warn_unused_result));

/* Take in one checked chunk other than DATA; *keep: payload (NUL after its end) must stay. */
int tables_take(struct trace *trace, uint32_t type, char *payload, size_t size, bool *keep)
	__attribute__((warn_unused_result));
int tables_take_data(struct trace *trace, const struct data_ref *ref) __attribute__((warn_unused_result));
/* After the last chunk: order, cross references, totals. */
int tables_settle(struct trace *trace) __attribute__((warn_unused_result));
void tables_free(struct trace *trace);

int address_settle(struct trace *trace) __attribute__((warn_unused_result));
void clock_settle(struct trace *trace);

#endif
