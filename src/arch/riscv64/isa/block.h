/*
 * riscv64: blocks (arch/generic/isa/block.h).  Pure; callers: host/stock.
 */
#ifndef ARCH_RISCV64_ISA_BLOCK_H
#define ARCH_RISCV64_ISA_BLOCK_H

#include "arch/generic/isa/block.h"

isa_block_maker rv_block;
extern const struct isa_block_cpu rv_block_cpu;

#endif
