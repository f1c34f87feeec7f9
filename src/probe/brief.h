/*
 * Calls without times (`--time adaptive`): what entry and exit do when the fast recorders (brief.S) cannot.
 *
 * A function whose site has CALLTAP_SITE_BRIEF leaves records without a time while the tool says so (abi/times.h).
 * Here a record always gets its time.  doc/design/clock.md has the argument.  Context: probe.
 */
#ifndef PROBE_BRIEF_H
#define PROBE_BRIEF_H

#include <stdint.h>

/* As probe_graph_entry() and probe_graph_exit(). */
int probe_brief_entry(uint64_t slot, uint32_t word, const uint64_t *ret);
void probe_brief_exit(uint64_t slot, uint32_t word, uint64_t *ret);

#endif
