/*
 * Memory helpers for code that runs in a target and may not call libc's: the
 * program may have replaced or instrumented them.  The compiler may call
 * memcpy and memset on its own, so mem.c defines both, hidden in the agent.
 */
#ifndef BASE_MEM_H
#define BASE_MEM_H

#include <stddef.h>
#include <stdint.h>

void *memcpy(void *restrict to, const void *restrict from, size_t size);
void *memset(void *to, int byte, size_t size);
int memcmp(const void *a, const void *b, size_t size);
size_t base_strlen(const char *text);
/* Copy with truncation; always terminated. */
void base_copy_text(char *to, size_t size, const char *from);

#endif
