/*
 * A session for the tests of a session's rooms: it writes to a file of its own, this very process is its target, and
 * the test holds the target's end of a socket.
 */
#ifndef TEST_RECORD_SUPPORT_H
#define TEST_RECORD_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "host/session/session.h"

#define SUB_SIZE  4096u
#define SUB_COUNT 4u

struct bench {
	struct session session;
	struct instance instance; /* the session's first */
	struct share *share;	  /* the process's share of the instance, without rings */
	struct record_options options;
	struct record_result result;
	int target; /* the target's end of the process's socket */
	char path[32];
	struct target process; /* last: its own last member is a message with a path */
};

struct bench *bench_create(enum calltap_mode mode);
/* The process is a stopped one from here on, whose answers are waited for once, for 5 s. */
void bench_stop(struct bench *bench);
void bench_destroy(struct bench *bench);

#endif
