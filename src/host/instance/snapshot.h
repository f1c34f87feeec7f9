/*
 * Snapshots of a flight recorder (--mode overwrite): what is in the rings now,
 * as a whole trace file, while recording goes on.
 *
 * Caller: who answers `calltap snapshot`.  Context: host, any thread that does
 * not hold the session's lock; it takes as long as it takes to write the file,
 * and no target waits for it.
 */
#ifndef HOST_INSTANCE_SNAPSHOT_H
#define HOST_INSTANCE_SNAPSHOT_H

#include <stddef.h>
#include <stdint.h>

#include <calltap/diag.h>

struct history_call;
struct instance;

struct snapshot_options {
	size_t size;	    /* sizeof(struct snapshot_options) */
	const char *path;   /* of the file to write; an older one is replaced when this one is complete */
	int fd;		    /* path is NULL: this open file, which stays the caller's */
	const char *reason; /* for the file, NULL = none */
	const struct history_call
		*call;	     /* that it is taken for: it is in there, whatever was overwritten; NULL = none */
	uint64_t history_ns; /* only records that are younger; 0 = all there are */
};

struct snapshot_result {
	uint64_t records;
	uint64_t file_bytes;
	uint64_t overwritten; /* sub-buffers that were taken back by their writers while they were read */
	uint32_t threads;
};

/* -EOPNOTSUPP: the session does not overwrite. */
int snapshot_write(struct instance *instance, const struct snapshot_options *options, struct snapshot_result *result,
		   struct calltap_diag *diag) __attribute__((warn_unused_result));

#endif
