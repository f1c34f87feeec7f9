/* The tree where libfuse3 was not there when Calltap was built.  Context: host. */
#include <errno.h>

#include "tracefs.h"

int tracefs_mount(struct tracefs **out, const struct tracefs_options *options, struct calltap_diag *diag)
{
	(void)options;
	*out = NULL;
	return calltap_diag_set(diag, -EOPNOTSUPP,
				"this calltap was built without FUSE; install libfuse3-dev and build it again");
}

int tracefs_serve(struct tracefs *tracefs, pid_t pid, struct calltap_diag *diag)
{
	(void)tracefs;
	(void)pid;
	return calltap_diag_set(diag, -EOPNOTSUPP, "this calltap was built without FUSE");
}

bool tracefs_left_readers(const struct tracefs *tracefs)
{
	return false;
}

void tracefs_unmount(struct tracefs *tracefs)
{
	(void)tracefs;
}
