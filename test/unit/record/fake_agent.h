/*
 * A made-up agent, for tests of what a session tells its processes: a thread
 * that notes what it is sent, answers as an agent does, and in place of the
 * server thread takes its own answers in.  The session's one process is the
 * test itself, and the sites are those of the test's functions.
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
	bool alpha, beta;	      /* of SWITCH: they are in it */
	uint64_t alpha_who, beta_who; /* what the rows said before it */
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
	uint32_t alpha, beta; /* their places among the image's sites */
	struct heard heard[HEARD_MAX];
	uint32_t heard_count;
	bool deaf;			    /* it gives no answer */
	const struct calltap_handled *rows; /* as the last HANDLERS brought them; NULL = none has come */
	/* What a test's agent does with a message beside that, with the session's lock; NULL = nothing. */
	void (*more)(struct fake_agent *agent, struct heard *entry, const union fake_message *message, int fd);

	pthread_t thread;
	sem_t caught_up; /* the end of what was sent has been heard */
	bool ending;
};

/* A session with such a tracer; free with fake_agent_end(). */
struct fake_agent *fake_agent_create(const char *tracer);
/* The test's functions become sites. */
void fake_agent_decide(struct fake_agent *agent);
/* The session can be asked, and the agent hears. */
void fake_agent_begin(struct fake_agent *agent);
void fake_agent_end(struct fake_agent *agent);

/* For `more`: take the rows that HANDLERS brings, and answer. */
void fake_agent_take_rows(struct fake_agent *agent, const struct calltap_msg_handlers *message, int fd, int error);
/* Who wants the function at that place among the image's sites; 0 without rows. */
uint64_t fake_agent_who(const struct fake_agent *agent, uint32_t at);

/* Ask for a change as `calltap set` does; what it has sent is heard once this returns. */
int fake_agent_set(struct fake_agent *agent, const char *word, struct calltap_diag *diag);

/* All that was sent so far has been heard once this returns. */
void fake_agent_wait(struct fake_agent *agent);

/* The folder of sockets: set-up and teardown of a group of tests. */
int fake_folder_make(void **state);
int fake_folder_remove(void **state);

#endif
