/*
 * A made-up agent, for tests of the messages of a session to its processes: a thread that notes each message, answers
 * as an agent does, and hands its own answers to the session in place of the server thread.  The session's one process
 * is the test itself, and the sites are those of the test's functions.
 */
#ifndef TEST_RECORD_FAKE_AGENT_H
#define TEST_RECORD_FAKE_AGENT_H

#include <semaphore.h>

#include "support.h"

#define HEARD_MAX	 256u
#define FAKE_PATIENCE_MS 30000u

/* Functions that tests choose among by name. */
void alpha(void);
void beta(void);
void gamma_ray(void);

/* A message that the agent has got. */
struct heard {
	uint32_t type, on, count, live;
	uint64_t plan, at;
	struct calltap_msg_set set;
	bool alpha, beta;	      /* SWITCH: alpha or beta is in it */
	uint64_t alpha_who, beta_who; /* SWITCH: what the rows said before */
};

union fake_message {
	struct calltap_msg head;
	struct calltap_msg_set set;
	struct calltap_msg_plan plan;
	struct calltap_msg_switch change;
	struct calltap_msg_handlers handlers;
	char bytes[CALLTAP_MSG_MAX];
};

struct fake_agent {
	struct bench *bench;
	struct image *image;
	uint32_t alpha, beta; /* indices of alpha and beta among the image's sites */
	struct heard heard[HEARD_MAX];
	uint32_t heard_count;
	bool deaf;			    /* the agent gives no answer */
	const struct calltap_handled *rows; /* as the last HANDLERS brought them; NULL = none has come */
	/* More that a test's agent does with a message, called with the session's lock; NULL = nothing. */
	void (*more)(struct fake_agent *agent, struct heard *entry, const union fake_message *message, int fd);

	pthread_t thread;
	sem_t caught_up; /* posted when the agent has received all messages */
	bool ending;
};

/* Make a session with this tracer and an agent; free with fake_agent_end(). */
struct fake_agent *fake_agent_create(const char *tracer);
/* Make the test's functions sites. */
void fake_agent_decide(struct fake_agent *agent);
/* Start the session's socket and the agent's thread. */
void fake_agent_begin(struct fake_agent *agent);
void fake_agent_end(struct fake_agent *agent);

/* For `more`: take the rows that HANDLERS brings, and answer. */
void fake_agent_take_rows(struct fake_agent *agent, const struct calltap_msg_handlers *message, int fd, int error);
/* The row of the function with that index among the image's sites; 0 without rows. */
uint64_t fake_agent_who(const struct fake_agent *agent, uint32_t at);

/* Ask for a change as `calltap set` does; at the return the agent has received all messages about it. */
int fake_agent_set(struct fake_agent *agent, const char *word, struct calltap_diag *diag);

/* Wait until the agent has received all messages that were sent so far. */
void fake_agent_wait(struct fake_agent *agent);

/* The folder of sockets: set-up and teardown of a group of tests. */
int fake_folder_make(void **state);
int fake_folder_remove(void **state);

#endif
