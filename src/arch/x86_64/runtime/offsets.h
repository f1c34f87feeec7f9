/*
 * Offsets that entry.S uses; src/probe/thread.c and src/ring/writer.c assert
 * that the structs agree.
 */
#ifndef ARCH_X86_64_RUNTIME_OFFSETS_H
#define ARCH_X86_64_RUNTIME_OFFSETS_H

#define PT_WRITER  0
#define PT_GRANULE 8
#define PT_TOP     16
#define PT_GATE    24

#define RW_CURSOR  0
#define RW_LIMIT   8
#define RW_TIME_HI 16

/* Farthest from one traced frame to the next inner one on the same stack, bytes. */
#define STACK_NEAR 0x100000

/* The planes parallel to the stacks (arch.h), and the unit they are mapped in. */
#define MIRROR_BIT   45
#define LINK_BIT     44
#define GRANULE_BITS 20

#endif
