/*
 * Recorders of tracer function_graph and function that entry.S calls when the
 * fast path cannot do it, or when the stub says so.  Context: probe.
 *
 * slot is the stack address that holds (entry) or held (exit) the return
 * address; word is what the stub pushed: kind << 28 | function id.
 */
#ifndef PROBE_GRAPH_H
#define PROBE_GRAPH_H

#include <stdint.h>

/* 0: traced, the return address is at the mirror of slot; 1: not traced, it is still in slot. */
int probe_graph_entry(uint64_t *slot, uint32_t word);
int probe_graph_entry_root(uint64_t *slot, uint32_t word);
int probe_graph_entry_notree(uint64_t *slot, uint32_t word);
/* Each puts the return address back into slot. */
void probe_graph_exit(uint64_t *slot, uint32_t word);
void probe_graph_exit_full(uint64_t *slot, uint32_t word);
void probe_graph_exit_notree(uint64_t *slot, uint32_t word);

void probe_call(uint64_t *slot, uint32_t word);

#endif
