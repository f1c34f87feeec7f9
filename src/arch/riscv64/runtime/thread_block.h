/* The agent's thread-local variable (arch/generic/runtime/static_block.h). */
#ifndef ARCH_RISCV64_RUNTIME_THREAD_BLOCK_H
#define ARCH_RISCV64_RUNTIME_THREAD_BLOCK_H

#include <arch/generic/runtime/static_block.h>

#endif
