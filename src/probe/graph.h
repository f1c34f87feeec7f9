/*
 * Recorders of tracer function_graph and function that entry.S calls when the
 * fast path cannot do it, or when the stub says so.  Context: probe.
 *
 * slot is what the frame is known by; word is the stub's: kind << 28 | function
 * id.  ret are the words that the recorder keeps the return with: the caller's
 * address, and what else the CPU's arch_frame_open() wants.
 */
#ifndef PROBE_GRAPH_H
#define PROBE_GRAPH_H

#include <stdbool.h>
#include <stdint.h>

/* 0: traced, the return address is at the mirror of slot; 1: not traced. */
int probe_graph_entry(uint64_t slot, uint32_t word, const uint64_t *ret);
/* Entry by a stub whose exit goes through C; probe_graph_entry() is for stubs whose exit may be the fast one. */
int probe_graph_entry_in_c(uint64_t slot, uint32_t word, const uint64_t *ret);
/* Entry by a stub whose exit goes through C; the frame counts for the depth limit. */
int probe_graph_entry_full(uint64_t slot, uint32_t word, const uint64_t *ret);
int probe_graph_entry_root(uint64_t slot, uint32_t word, const uint64_t *ret);
int probe_graph_entry_notree(uint64_t slot, uint32_t word, const uint64_t *ret);
/* Entry of a function that leaves no record and no filter behind: its return comes by a stub, and no more. */
int probe_graph_entry_hidden(uint64_t slot, uint32_t word, const uint64_t *ret);
/* Exits: each puts the return address back into *ret. */
void probe_graph_exit(uint64_t slot, uint32_t word, uint64_t *ret);
void probe_graph_exit_full(uint64_t slot, uint32_t word, uint64_t *ret);
void probe_graph_exit_notree(uint64_t slot, uint32_t word, uint64_t *ret);
/* Exits of functions that have triggers. */
void probe_trigger_exit(uint64_t slot, uint32_t word, uint64_t *ret);
void probe_trigger_exit_full(uint64_t slot, uint32_t word, uint64_t *ret);

/* The program of the function's call, or of its return (exit), has bits to tell of the frame. */
void probe_trigger_told(uint64_t slot, uint32_t id, uint32_t told, bool exit);

void probe_call(uint64_t caller, uint32_t word);

#endif
