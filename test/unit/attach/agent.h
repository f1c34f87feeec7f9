/* The function that the stand-in of the agent exports. */
#ifndef TEST_ATTACH_AGENT_H
#define TEST_ATTACH_AGENT_H

struct calltap_attach;

int calltap_agent_attach(struct calltap_attach *attach);

#endif
