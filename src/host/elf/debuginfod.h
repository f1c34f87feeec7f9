/*
 * Fetching debug files from debuginfod's servers, by libdebuginfod.
 *
 * The library is loaded when it is first needed: nobody needs it to build or use the tool.  This is the only place that
 * waits for a network, and only `calltap functions --debuginfod` comes here.  Context: host.
 */
#ifndef HOST_ELF_DEBUGINFOD_H
#define HOST_ELF_DEBUGINFOD_H

#include <stddef.h>
#include <stdint.h>

#include <calltap/diag.h>

/* The library's own. */
struct debuginfod_client;
/* Called several times a second: bytes that came, and of how many (0 = that is not known yet).  Not 0 ends it. */
typedef int debuginfod_progress(struct debuginfod_client *client, long done, long all);

/*
 * Put the debug file of this build id into the library's cache, where debug_file_open() finds it.
 * -ENOENT: no server has it (without a diag). -ENOTSUP: no server is named, or there is no library. Else what went
 * wrong.
 */
int debuginfod_fetch(const uint8_t *id, size_t id_size, debuginfod_progress *progress, struct calltap_diag *diag)
	__attribute__((warn_unused_result));

#endif
