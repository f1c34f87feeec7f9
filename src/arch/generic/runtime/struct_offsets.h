/*
 * Offsets that every CPU's assembly uses.  In src/probe, context.c, trigger.c, profile.c and handlers.c assert that the
 * structs agree; so does src/ring/writer.c.
 *
 * Included by each CPU's offsets.h, which adds where its planes lie.
 */
#ifndef ARCH_GENERIC_RUNTIME_STRUCT_OFFSETS_H
#define ARCH_GENERIC_RUNTIME_STRUCT_OFFSETS_H

/* struct probe_thread */
#define PT_WRITER    0
#define PT_GRANULE   8
#define PT_STACK     16
#define PT_GATE	     24
#define PT_TIMED     32
#define PT_TABLE     40
#define PT_RUNNING   48
#define PT_RUNS	     56
#define PT_TREE_GATE 64
#define PT_HANDLED   72
#define PT_TREE	     80
#define PT_ROOT_GATE 96
#define PT_TICK	     128
#define PT_SAMPLE    136
#define PT_SEED	     140
#define PT_REGION    144

/* struct probe_stack */
#define PS_TOP	  0
#define PS_LOW	  8
#define PS_REST	  40
#define PS_KIND	  48
#define PS_SIGNAL 2 /* STACK_SIGNAL */

/* struct probe_region */
#define RG_LO 0
#define RG_HI 8

/* Flags in a link (probe/frames.h) */
#define FRAME_LOW_FLAGS	   7
#define FRAME_INSTANCES_AT 48 /* bits above all addresses */

/* struct ring_writer */
#define RW_CURSOR  0
#define RW_BASE	   8
#define RW_SPAN	   16
#define RW_SPAN2   24
#define RW_TIME_HI 32
#define RW_RING	   40

/* struct calltap_times; in a word of a stub, the kind of record above the id (record.h) */
#define ID_BITS	   28
#define TM_TICK	   0
#define TM_EVERY   8
#define TM_BRIEF   4096
#define EXACT_BIT  63 /* FRAME_EXACT, in a frame's link */
#define KIND_ENTRY 0x10000000
#define KIND_EXIT  0x20000000
#define TO_TAIL	   0x80000000 /* makes ENTRY TAIL */
#define BRIEF_TAIL 0x08000000 /* CALLTAP_BRIEF_TAIL */
#define BRIEF_LEAF 0x04000000 /* CALLTAP_BRIEF_LEAF */

/* The next random number is this one times RANDOM_BY and RANDOM_MORE (brief.S). */
#define RANDOM_BY   1664525
#define RANDOM_MORE 1013904223

/* struct probe_context */
#define PC_TREE_FILTER 76
#define PC_TIMED       80
#define PC_HANDLED     84
#define PC_PROFILE     88
#define PC_ENABLED     92

/* struct probe_table */
#define TB_ENTRIES 8
#define TB_DATA	   16
#define TB_FIRST   24
#define TB_SPAN	   32
#define TB_CLAIMED 40
#define TB_END	   48
#define TB_WATCH   56

/* struct calltap_profile_entry, struct calltap_profile_shape */
#define PE_BITS	     6 /* log2 of the entry's size */
#define PE_CALLS     0
#define PE_TOTAL     8
#define PE_SELF	     16
#define PE_MAX	     24
#define PE_OUTER     32
#define PE_SINCE     40
#define PE_HISTOGRAM 48
#define PP_PENDING   48		  /* struct calltap_profile */
#define PP_BYTES     64		  /* its size: the entries are behind it */
#define RING_WATCH   (140 - 4096) /* from struct calltap_profile, for the ring's head is the page below */
#define LONGEST_BITS 40		  /* of a duration that has a bucket of its own (CALLTAP_PROFILE_BUCKETS) */

/* struct calltap_triggers, struct calltap_limit */
#define TR_FUNCTIONS 4
#define TR_LIMITS    128
#define LIMIT_BITS   7
#define LIMIT_TICKS  0

/* struct probe_programs, struct calltap_program_row, struct calltap_program */
#define PG_ROWS	     0
#define PG_LIST	     8
#define PG_CODE	     16
#define PR_EXIT	     2 /* in a row */
#define PR_BITS	     4 /* log2 of a program's size */
#define PR_WORDS     10
#define PR_FLAGS     11
#define PR_HEAD	     12
#define PR_PLAIN     2 /* CALLTAP_PROGRAM_PLAIN */
#define PR_WORDS_AT  256
#define PR_CODE_MAX  0xfff000 /* CALLTAP_PROGRAM_UNWIND */
#define RECORD_ENTRY 60	      /* bit that makes a record's head that of an ENTRY */

/* struct probe_handled_table, struct calltap_handlers, struct calltap_handler */
#define HT_FUNCTIONS  0
#define HT_ROWS	      8
#define HT_BODIES     16
#define HT_HANDLERS   24
#define HT_SAVE	      40
#define HT_RESTORE    48
#define HG_GENERATION 12
#define HG_SLOTS      16
#define HS_SIZE	      72
#define HS_ENTRY      0
#define HS_EXIT	      8
#define HS_CONTEXT    16
#define HS_FLAGS      24
#define HS_BORN	      56
#define HS_GENERAL    1 /* CALLTAP_HANDLER_GENERAL_REGS */
#define HS_DATA	      2
#define HW_FIRST      8 /* CALLTAP_HANDLED_FIRST; bits below are the session's tracer's */
#define HW_SESSION    0xff
#define HW_INSTANCES  0x40
#define HW_CALL	      0x80
#define HW_RECORD     0x01 /* CALLTAP_HANDLED_RECORD */
#define HW_VALUES     0x20 /* CALLTAP_HANDLED_VALUES */

/* struct probe_handled, which ends with the CPU's registers (each offsets.h), and enum probe_handled_how */
#define H_WHO	    0
#define H_HOW	    12
#define H_SLOT	    16
#define H_AREA	    24
#define H_FUNCTION  48
#define H_CALLER    56
#define H_STACK	    64
#define H_ID	    72
#define H_DATA	    80
#define H_VECTORS   88
#define H_KEPT	    112 /* the registers */
#define HOW_CALL    0
#define HOW_ENTRY   1
#define HOW_EXIT    2
#define HOW_VECTORS 4
#define SLOT_FAST   4 /* in `slot`, with enum probe_handled_how */

/* The unit that the planes are mapped in. */
#define GRANULE_BITS 20

#endif
