/* Offsets in structs and stubs, and the places of the planes parallel to the stacks, for the assembly files. */
#ifndef ARCH_AARCH64_RUNTIME_OFFSETS_H
#define ARCH_AARCH64_RUNTIME_OFFSETS_H

#include "arch/generic/runtime/struct_offsets.h"

/*
 * Each pair of bits lies 32 apart, which is what one eor can flip: the upper
 * one is the plane, the lower one moves the word away from its slot within the
 * page, and leaves the low 4 bits alone: each frame has two words in 16 bytes.
 * Bit 38 takes stacks of a 48-bit address space from 0xffff... to 0xffbf...,
 * position-independent executables and heaps from 0xaaaa... to 0xaaea...; in
 * one of 39 bits, from 0x7f... to 0x3f... and from 0x55... to 0x15....  Bit 37
 * besides leads to 0xff9f..., 0xaaca..., 0x1f... and 0x35....
 */
#define MIRROR_BIT	  38
#define MIRROR_SKEW	  0x40
#define MIRROR_MASK	  (1 << MIRROR_BIT ^ MIRROR_SKEW)
#define MIRROR_MASK_BYTES 0x40, 0, 0, 0, 0x40, 0, 0, 0 /* little-endian */
#define LINK_BIT	  37
#define LINK_SKEW	  0x20
#define LINK_MASK	  (1 << LINK_BIT ^ LINK_SKEW) /* from a mirror's word to the link */
/*
 * Planes of timed frames.  Addresses are 0xffff..., 0xaaaa..., and with 39 bits 0x7f... and 0x55....  Bit 37 alone
 * leads from there to 0xffdf..., 0xaa8a..., 0x5f... and 0x75...; bits 38 and 36 lead to 0xffaf..., 0xaafa..., 0x2f...
 * and 0x05....
 */
#define ENTERED_BITS 2
#define WITHIN_BITS  5
#define TIMED_SHIFT  36
#define ENTERED_SKEW 0x480
#define WITHIN_SKEW  0x280
/*
 * The planes of dispatched frames: bits 38, 37 and 36 lead to 0xff8f..., 0xaada..., and of 39 bits to 0x0f... and
 * 0x25...; bits 37 and 36 to 0xffcf..., 0xaa9a..., 0x4f... and 0x65....
 */
#define WHO_BITS  7
#define DATA_BITS 3
#define WHO_SKEW  0x680
#define DATA_SKEW 0x8c0

/* A stub of function_graph (stub.c), from its `bl body` on, where the entry recorder returns to. */
#define STUB_BACK      4  /* where the body returns to */
#define STUB_UNTRACED  20 /* `b body` */
#define STUB_WORD      24 /* of the entry record */
#define STUB_EXIT_WORD 28
/* A stub of tracer "function": offset of its word from its `b body`. */
#define STUB_CALL_WORD 4

/* Offsets in struct probe_handled (generic/runtime/link_handled.h). */
#define H_END  360
#define H_CFA  384
#define H_LINK 30

#endif
