/*
 * Offsets that every CPU's entry.S uses; src/probe/thread.c and
 * src/ring/writer.c assert that the structs agree.
 *
 * Included by each CPU's offsets.h, which adds where its planes lie.
 */
#ifndef ARCH_GENERIC_RUNTIME_STRUCT_OFFSETS_H
#define ARCH_GENERIC_RUNTIME_STRUCT_OFFSETS_H

/* struct probe_thread */
#define PT_WRITER  0
#define PT_GRANULE 8
#define PT_STACK   16
#define PT_GATE	   24
#define PT_TIMED   32
#define PT_TABLE   40

/* struct probe_stack */
#define PS_TOP 0
#define PS_LOW 8
#define PS_END 24

/* struct ring_writer */
#define RW_CURSOR  0
#define RW_BASE	   8
#define RW_SPAN	   16
#define RW_SPAN2   24
#define RW_TIME_HI 32

/* struct probe_table */
#define TB_FUNCTIONS 0
#define TB_ENTRIES   8
#define TB_DATA	     16
#define TB_FIRST     24
#define TB_SPAN	     32
#define TB_CLAIMED   40
#define TB_BUCKETS   48

/* struct calltap_profile_entry, struct calltap_ring */
#define PE_BITS	     6 /* its size */
#define PE_CALLS     0
#define PE_TOTAL     8
#define PE_SELF	     16
#define PE_MAX	     24
#define PE_OUTER     32
#define PE_SINCE     40
#define PE_HISTOGRAM 48
#define PP_PENDING   48		  /* struct calltap_profile */
#define RING_WATCH   (140 - 4096) /* from there */

/* struct calltap_triggers, struct calltap_limit */
#define TR_FUNCTIONS 4
#define TR_LIMITS    128
#define LIMIT_BITS   6
#define LIMIT_TICKS  0

/* The unit that the planes are mapped in. */
#define GRANULE_BITS 20

#endif
