/*
 * x86_64: blocks (arch/generic/isa/block.h).  Pure; callers: stock functions (host/stock), the tests.
 */
#ifndef ARCH_X86_64_ISA_BLOCK_H
#define ARCH_X86_64_ISA_BLOCK_H

#include "arch/generic/isa/block.h"

isa_block_maker x86_block;
extern const struct isa_block_cpu x86_block_cpu;

#endif
