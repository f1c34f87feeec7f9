/*
 * Putting the agent into a static program, which has no loader that would (doc/design/loaderless.md).
 *
 * Callers: precheck.c, spawn.c.  Context: host.
 */
#ifndef HOST_SESSION_PLACING_H
#define HOST_SESSION_PLACING_H

#include <sys/types.h>

#include <calltap/diag.h>
#include <host/attach/image.h>
#include <host/attach/launch.h>
#include <host/elf/fronts.h>

struct object;

/* What is known before the program runs. */
struct placing {
	struct object *object; /* the program, opened for this alone */
	struct fronts fronts;
	struct agent_image image;
	uint64_t entry; /* ELF address where the program begins */
};

/*
 * Prepare for the static program in fd. agent_path: the agent that loaders take, beside which the other one lies.
 * -ENODATA: the program cannot be traced, and diag says why and what helps; other errors are the tool's.
 */
int placing_create(struct placing **out, int fd, const char *path, const char *agent_path, struct calltap_diag *diag)
	__attribute__((warn_unused_result));
void placing_destroy(struct placing *placing);
/*
 * The program is held (attach_launch_reach()): put the agent into it, and let it go.  -errno, with diag: it is let go
 * of as it is, and is not traced; -ESRCH: it has ended.
 */
int placing_put(struct placing *placing, struct attach_launch *launch, struct calltap_diag *diag)
	__attribute__((warn_unused_result));

#endif
