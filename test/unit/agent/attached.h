/*
 * The process to which test_attach.c attaches: its forked child.  The child runs traced functions on a few threads,
 * and takes orders from the test in memory that both share.
 */
#ifndef TEST_UNIT_AGENT_ATTACHED_H
#define TEST_UNIT_AGENT_ATTACHED_H

#include <stdint.h>

#define WORKERS	  4u
#define FUNCTIONS 3u

enum order { RUN, PARK, ATTACH, FORK, FORK_ATTACH, QUIT, LOAD };

struct shared {
	uint32_t order, done; /* the process sets `done` to `order` when it has obeyed */
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
/* Functions that the workers call, and one that a coroutine calls. */
extern const uint64_t functions[FUNCTIONS];
int waits(int x);
/* Words that a loader would have bound to libc's longjmp and sigaltstack. */
extern void *volatile words[2];

#endif
