/*
 * aarch64: blocks (arch/generic/isa/block.h).  Pure; called by the tests today.
 */
#ifndef ARCH_AARCH64_ISA_BLOCK_H
#define ARCH_AARCH64_ISA_BLOCK_H

#include "arch/generic/isa/block.h"

isa_block_maker a64_block;
extern const struct isa_block_cpu a64_block_cpu;

#endif
