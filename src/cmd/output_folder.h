/*
 * A folder of files that gets its name when it is whole, as a file does with output.h.
 *
 * Caller: export.c.  Context: host.  The folder has files only, no folders.
 */
#ifndef CMD_OUTPUT_FOLDER_H
#define CMD_OUTPUT_FOLDER_H

#include <limits.h>

#include <calltap/diag.h>

struct output_folder {
	char path[PATH_MAX];
	char temporary[PATH_MAX]; /* the name until then; "" = there is none */
	int fd;
};

/* Make a new folder for path, which must not be there but as an empty folder.  -errno with diag: nothing is there. */
int output_folder_open(struct output_folder *folder, const char *path, struct calltap_diag *diag)
	__attribute__((warn_unused_result));
/* Give the folder its name; after an error (err, or one now) remove it.  Returns the error, diag tells of one now. */
int output_folder_finish(struct output_folder *folder, int err, struct calltap_diag *diag)
	__attribute__((warn_unused_result));

#endif
