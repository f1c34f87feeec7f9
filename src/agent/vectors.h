/*
 * Where one pair of functions saves and restores the vector registers on all
 * machines of a CPU (<cpu>/vectors.S), and one reads them.  Used by vectors.c.
 */
#ifndef AGENT_VECTORS_H
#define AGENT_VECTORS_H

void agent_vectors_save(void *area);
void agent_vectors_restore(const void *area);
uint64_t agent_vectors_low(uint64_t number); /* helper VECTOR */

#endif
