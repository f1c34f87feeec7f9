/* What entry.S knows of structs and of the planes parallel to the stacks. */
#ifndef ARCH_RISCV64_RUNTIME_OFFSETS_H
#define ARCH_RISCV64_RUNTIME_OFFSETS_H

#include "arch/generic/runtime/struct_offsets.h"

/*
 * Flipping bit 36 takes an Sv39 stack at 0x3f_ffff_... to 0x2f_ffff_..., heaps
 * at 0x2a_aaaa_... to 0x3a_aaaa_... and a low executable's memory to
 * 0x10_0000_...; bit 35 besides, to 0x27..., 0x32... and 0x18....  With larger
 * address spaces they lie 64 GiB away.  The skews (see x86-64's) are what xori
 * takes, and leave the low 4 bits alone: each frame has two words in 16 bytes.
 */
#define MIRROR_BIT	  36
#define MIRROR_SKEW	  0x400
#define MIRROR_MASK_BYTES 0, 0x04, 0, 0, 0x10, 0, 0, 0 /* 1 << MIRROR_BIT ^ MIRROR_SKEW, little-endian */
#define LINK_BIT	  35
#define LINK_SKEW	  0x200
/* Of timed frames: bit 37 and 35, to 0x17..., 0x02... and 0x28...; bit 37 alone, to 0x1f..., 0x0a... and 0x20.... */
#define ENTERED_BITS 5
#define WITHIN_BITS  4
#define TIMED_SHIFT  35
#define ENTERED_SKEW 0x900
#define WITHIN_SKEW  0x100
/* The planes of dispatched frames: bits 37 and 36, to 0x0f..., 0x1a... and 0x30...; bits 37 to 35, to 0x07..., 0x12...
 * and 0x38.... */
#define WHO_BITS  6
#define DATA_BITS 7
#define WHO_SKEW  0x300
#define DATA_SKEW 0xb00

/* Where the stub's words lie. */
#define STUB_ENTRY_WORD 20 /* from where the entry recorder returns to */
#define STUB_EXIT_WORD	0  /* behind what jumped to the recorder */
#define STUB_CALL_WORD	0

/* Of struct probe_handled (generic/runtime/link_handled.h). */
#define H_END  368
#define H_CFA  400
#define H_LINK 1

#endif
