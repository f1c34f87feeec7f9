/* The agent's thread-local variable (arch/generic/runtime/static_block.h). */
#ifndef ARCH_X86_64_RUNTIME_THREAD_BLOCK_H
#define ARCH_X86_64_RUNTIME_THREAD_BLOCK_H

#include <arch/generic/runtime/static_block.h>

#endif
