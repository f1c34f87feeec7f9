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
#define RW_RING	   40

/* struct probe_context */
#define PC_TREE_FILTER 68
#define PC_ENABLED     80

/* struct probe_table */
#define TB_FUNCTIONS 0
#define TB_ENTRIES   8
#define TB_DATA	     16
#define TB_FIRST     24
#define TB_SPAN	     32
#define TB_CLAIMED   40
#define TB_BUCKETS   48

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
#define RING_WATCH   (140 - 4096) /* from struct calltap_profile, for the ring's head is the page below */

/* struct calltap_triggers, struct calltap_limit */
#define TR_FUNCTIONS 4
#define TR_LIMITS    128
#define LIMIT_BITS   6
#define LIMIT_TICKS  0

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
