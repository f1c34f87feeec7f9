/* The agent's thread-local variable (arch/generic/runtime/static_block.h). */
#ifndef ARCH_AARCH64_RUNTIME_THREAD_BLOCK_H
#define ARCH_AARCH64_RUNTIME_THREAD_BLOCK_H

#include <arch/generic/runtime/static_block.h>

#endif
