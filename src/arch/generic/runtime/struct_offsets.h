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

/* struct probe_stack */
#define PS_TOP 0
#define PS_LOW 8

/* struct ring_writer */
#define RW_CURSOR  0
#define RW_BASE	   8
#define RW_SPAN	   16
#define RW_SPAN2   24
#define RW_TIME_HI 32

/* The unit that the planes are mapped in. */
#define GRANULE_BITS 20

#endif
