/* Offsets in structs, and the places of the planes parallel to the stacks, for the assembly files. */
#ifndef ARCH_X86_64_RUNTIME_OFFSETS_H
#define ARCH_X86_64_RUNTIME_OFFSETS_H

#include "arch/generic/runtime/struct_offsets.h"

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
/*
 * Two more planes, of timed frames: from a link's place to the time of the entry, and from there to the callees' ticks.
 */
#define ENTERED_BIT  45
#define ENTERED_SKEW 0x880
#define WITHIN_BIT   46
#define WITHIN_SKEW  0x640
/* Two more, of frames that the dispatcher has entered: from there to who waits for the end, and to a handler's word. */
#define WHO_BIT	  44
#define WHO_SKEW  0x440
#define DATA_BIT  45
#define DATA_SKEW 0xc40

/* Offsets in struct probe_handled: registers, and the struct's size. */
#define H_RBP 144
#define H_RBX 152
#define H_R11 160
#define H_END 232

/* In a leaf's stub, from behind the call of its entry to the stub for calls with a frame (isa/stub_size.h). */
#define LEAF_TO_FRAMED 19

#endif
