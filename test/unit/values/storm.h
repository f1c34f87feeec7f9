/*
 * Many that count at once in memory of all processes: threads with signals' handlers in the midst of their work, on a
 * map around which nobody may touch a page.
 */
#ifndef TEST_VALUES_STORM_H
#define TEST_VALUES_STORM_H

#include <stddef.h>
#include <stdint.h>

#include <calltap/abi/maps.h>

/* Memory of zeros that forked processes share; for munmap(). */
void *storm_shared(size_t size);
struct calltap_map *storm_map(void);
void storm_map_free(struct calltap_map *map);
/* The next random number, of 31 bits. */
uint32_t storm_draw(uint64_t *seed);
#define STORM_THREADS_MAX 16
/*
 * Run call(0), call(1) ... in so many threads, to their ends.  on_signal runs in the midst: for the SIGUSR1 that they
 * raise themselves, and for a SIGUSR2 each 50 us.
 */
void storm_run(unsigned threads, void *(*call)(void *), void (*on_signal)(int));

/* Run it in this process and in processes - 1 forked ones, to all their ends. */
void storm_processes(int processes, void (*run)(void));

#endif
