/*
 * The process that test_attach.c attaches to: its forked child.  It runs
 * traced functions on a few threads, and does what it is told to by memory that both share.
 */
#ifndef TEST_UNIT_AGENT_ATTACHED_H
#define TEST_UNIT_AGENT_ATTACHED_H

#include <stdint.h>

#define WORKERS	  4u
#define FUNCTIONS 3u

enum order { RUN, PARK, ATTACH, FORK, QUIT, LOAD };

struct shared {
	uint32_t order, done; /* `done` follows `order` */
	uint32_t park, parked, wrong, rounds;
	uint32_t own_rounds[WORKERS];
	int32_t result;
	uint64_t pointers[WORKERS + 2];
	char session[128], error[512];
	int child;
};
extern struct shared *shared;

#define LOADED "libgcc_s.so.1" /* by LOAD: it asks for _dl_find_object */

/* The process' main function, and the agent that it is to load. */
void process(void);
extern const char *agent_path;
/* Traced on the workers; and on a coroutine. */
extern const uint64_t functions[FUNCTIONS];
int waits(int x);
/* What the loader would have bound to libc's longjmp and sigaltstack. */
extern void *volatile words[2];

#endif
