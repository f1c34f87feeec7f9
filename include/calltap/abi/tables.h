/*
 * The tables of a flight recorder: its trace file without the records, in memory that the targets map, too.
 *
 * Tables and arenas (ring.h) together are a whole trace.  So a core file of a target has a whole trace, and so has a
 * target whose tool was killed.  Readers find tables and arenas in memory by their magic, which stands at the start of
 * a mapping; those with the same `session` belong together.
 *
 * After `head_size` bytes of struct calltap_tables come `used` bytes of a trace file (file.h): its head, and whole
 * chunks, which never change.  The tool writes them, and publishes `used` (release) after the bytes.  When the memory
 * is full, larger tables take its place.  The CLOCK chunk in the bytes is the first sample; the last sample is
 * clocks[clock_count % 2], which is whole at any time, if clock_count is not 0.
 *
 * A session with `--time adaptive` has a struct calltap_tables_times behind struct calltap_tables, within the head.
 */
#ifndef CALLTAP_ABI_TABLES_H
#define CALLTAP_ABI_TABLES_H

#include <stdint.h>

#include <calltap/abi/file.h>

#define CALLTAP_TABLES_MAGIC   "CTTABLE\n"
#define CALLTAP_TABLES_VERSION 1u

struct calltap_tables {
	char magic[8];
	uint32_t version;
	uint32_t head_size; /* bytes, a multiple of 8 */
	uint64_t session;   /* the calltap_arena.session of the arenas that belong to the tables; random */
	uint64_t used;	    /* bytes behind the head */
	uint64_t clock_count;
	struct calltap_file_clock clocks[2];
	uint64_t reserved[5];
};

_Static_assert(sizeof(struct calltap_tables) == 128, "ABI");

#define CALLTAP_TABLES_LATE 4080 /* rows that are kept */

/*
 * When brief records (record.h) may have been written: what a TICKS chunk tells of a session that ends.  Row number n
 * is late[n % CALLTAP_TABLES_LATE].  The tool stores rows first, then `count`, then `until`, each with release; the
 * newest CALLTAP_TABLES_LATE - 1 rows stay as they are until then.  A reader loads in the opposite order.
 *
 * Nothing is known of brief records whose last time before them is `until` or later, and of those from before the
 * oldest row, where there were more.  The times of the rows go up.
 */
struct calltap_tables_times {
	uint64_t until; /* 0: nothing is known at all */
	uint64_t count; /* rows that there were so far */
	uint64_t span;	/* as in struct calltap_file_ticks */
	uint64_t reserved;
	struct calltap_file_late late[CALLTAP_TABLES_LATE];
};

_Static_assert(sizeof(struct calltap_tables) + sizeof(struct calltap_tables_times) <= 65536, "ABI");

#endif
