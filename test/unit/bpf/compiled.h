/* Compiled programs: those of this CPU are run, those of all CPUs are looked at. */
#ifndef TEST_UNIT_BPF_COMPILED_H
#define TEST_UNIT_BPF_COMPILED_H

#include <stdbool.h>
#include <stdint.h>

#include <bpf/compile.h>

typedef uint64_t compiled_function(void *context);

/*
 * Compile for the CPU that this runs on.  The function is there until the next one is made.  A program that does not
 * compile fails the test.
 */
compiled_function *compiled_make(const struct bpf_compile *job);

/* The function that was made last stays. */
void compiled_keep(void);

/* True if an address lies in the code of the function that was made last. */
bool compiled_has(uint64_t address);

/*
 * Compile for all CPUs, and read the code with their decoders: it consists of instructions and ends with one, jumps
 * lead to instructions of its own, it calls as often as the program and returns as often, and nothing else leads out of
 * it or knows where it lies.  With less room than it needs, it is refused and nothing is written behind the room.
 * Returns what is wrong, or NULL.
 */
const char *compiled_fault(const struct bpf_compile *job);

#endif
