/*
 * Offsets that entry.S uses; src/probe/thread.c and src/ring/writer.c assert
 * that the structs agree.
 */
#ifndef ARCH_X86_64_RUNTIME_OFFSETS_H
#define ARCH_X86_64_RUNTIME_OFFSETS_H

#define PT_WRITER  0
#define PT_GRANULE 8
#define PT_STACK   16
#define PT_GATE	   24

#define PS_TOP 0
#define PS_LOW 8

#define RW_CURSOR  0
#define RW_BASE	   8
#define RW_SPAN	   16
#define RW_SPAN2   24
#define RW_TIME_HI 32

/*
 * The planes parallel to the stacks (arch.h).  The skews move a word half a
 * page away from its slot: a store at the same place in another page looks
 * like one to the slot itself to the CPU's store forwarding, which costs some
 * 30 ns a call.  doc/design/stubs.md has the measurement.
 */
#define MIRROR_BIT	  45
#define MIRROR_SKEW	  0x840
#define MIRROR_MASK_BYTES 0x40, 0x08, 0, 0, 0, 0x20, 0, 0 /* 1 << MIRROR_BIT ^ MIRROR_SKEW, little-endian */
#define LINK_BIT	  44
#define LINK_SKEW	  0x400

/* The unit that the planes are mapped in. */
#define GRANULE_BITS 20

#endif
