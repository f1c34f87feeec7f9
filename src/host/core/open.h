/*
 * The calls that were open where the records of a thread begin, in a flight
 * recorder's rings: the target tells of open frames at the beginning of each
 * sub-buffer (CALLTAP_REC_OPEN), and the records say what came of them.
 *
 * Caller: history.c, thread by thread.  Context: host.  All of it is untrusted:
 * where the records do not fit to what is told, nothing is known.
 */
#ifndef HOST_CORE_OPEN_H
#define HOST_CORE_OPEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct open_call {
	uint64_t entry_ticks; /* without `timed`: the time in front of a brief record */
	uint32_t function;
	bool timed; /* the entry's time is known */
};

struct open_calls {
	/* Results: the calls that are open before the first record that is kept, outermost first. */
	struct open_call *list;
	size_t count;
	uint64_t stack, stack_then; /* by last byte: the stack of these calls; the thread's stack then */
	uint64_t first_ticks;	    /* of the first record that is kept; of a brief one, the time in front of it */
	/* Private to open.c: */
	struct open_call *now; /* the calls that are open at the current record */
	size_t now_count, now_room;
	uint64_t stack_now, from_ticks;
	bool began, landed, found, wrong, stopped;
};

/*
 * Make the words of a thread's oldest sub-buffer agree with its OPEN records, if it has any: where its first record
 * says that frames were left by a jump or an exception, these are not told any more, so the record shall take none
 * away.
 */
void open_calls_fit(uint64_t *words, size_t nwords);
/* Take the OPEN records of a thread's oldest sub-buffer, if any; records older than from_ticks are not kept. */
int open_calls_begin(struct open_calls *open, const uint64_t *words, size_t nwords, uint64_t from_ticks)
	__attribute__((warn_unused_result));
/* True if further payloads make a difference. */
bool open_calls_wants(const struct open_calls *open);
/* Take a DATA payload of the thread's.  Call it with all from that sub-buffer on, in order, while they are wanted. */
int open_calls_see(struct open_calls *open, const void *payload, size_t size) __attribute__((warn_unused_result));
/* Records are missing in between. */
void open_calls_gap(struct open_calls *open);
/* All has been seen: the list becomes empty unless all of it fits. */
void open_calls_end(struct open_calls *open);
void open_calls_destroy(struct open_calls *open);

#endif
