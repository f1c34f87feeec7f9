/* Catching in memory the text that a function writes to a struct out. */
#ifndef TEST_VIEW_SUPPORT_H
#define TEST_VIEW_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "host/view/out.h"

struct caught {
	struct out *out;
	int fd;
	char text[4096];
};

void catch_begin(struct caught *caught);
/* Close everything; returns the text that was written, NUL-terminated in caught->text. */
const char *catch_end(struct caught *caught);

#endif
