/*
 * The tables of tracer `profile` in the arenas of processes (abi/profile.h).
 *
 * Caller: profile.c.  Context: host, under the session's lock.
 */
#ifndef HOST_HOOK_PROFILE_TABLES_H
#define HOST_HOOK_PROFILE_TABLES_H

#include <host/session/session.h>

/* Add everything that the share's tables hold. */
int profile_add_share(struct profile_sums *sums, const struct share *share) __attribute__((warn_unused_result));
/* Add sums to sums; histograms: those, too. */
int profile_add_sums(struct profile_sums *sums, const struct profile_sums *more, bool histograms)
	__attribute__((warn_unused_result));
/* Add a function's histogram in the share's tables to *histogram, which is made when it is NULL. */
int profile_add_histogram(uint64_t **histogram, const struct share *share, uint32_t function)
	__attribute__((warn_unused_result));

/* Have the callers of this function counted in all tables of the share. */
void profile_watch_in(const struct share *share, uint32_t function);
/* Hand out what is counted; take's result other than 0 ends it. */
int profile_each_caller(const struct share *share, uint32_t function,
			int (*take)(void *ctx, const struct target *target, uint64_t address, uint64_t calls,
				    uint64_t total),
			void *ctx) __attribute__((warn_unused_result));

#endif
