/*
 * x86-64: leaves, functions whose body may run with the stack some words lower than its caller left it.
 *
 * Pure; callers: the reader of ELF files (host), the tests.
 */
#ifndef ARCH_X86_64_ISA_LEAF_H
#define ARCH_X86_64_ISA_LEAF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define X86_LEAF_MAX 4096 /* bytes of a function that is looked at */

/*
 * True if these bytes, from the body's first one to the function's end, are a leaf's: they call nothing, jump nowhere
 * but within themselves, and name the stack pointer in no instruction but a plain return.
 */
bool x86_is_leaf(const uint8_t *body, size_t size);

#endif
