/*
 * The agent's one context (agent.h).  It stands alone, so that a file that
 * reads it does not depend on another that does.
 */
#include <agent/agent.h>

struct agent agent;
