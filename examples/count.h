/* The handler of count.c. */
#ifndef COUNT_H
#define COUNT_H

#include <calltap/calltap.h>

int count_call(struct calltap_call *call, void *context);

#endif
