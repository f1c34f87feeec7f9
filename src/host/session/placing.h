/*
 * Putting the agent into a static program, which has no loader that would (doc/design/loaderless.md): at its start
 * (placing.c), or when it runs (placing_live.c).
 *
 * Callers: precheck.c, spawn.c, the attach.  Context: host.
 */
#ifndef HOST_SESSION_PLACING_H
#define HOST_SESSION_PLACING_H

#include <sys/types.h>

#include <calltap/abi/attach.h>
#include <calltap/abi/start.h>
#include <calltap/diag.h>
#include <host/attach/attach.h>
#include <host/attach/image.h>
#include <host/attach/launch.h>
#include <host/elf/fronts.h>
#include <host/stock/stock.h>

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

/* Where the pieces lie in the program, and their bytes. */
struct placing_made {
	uint64_t base; /* of the program */
	uint64_t at, size;
	int file;	       /* that a new program's pieces are mapped from, -1 = none */
	uint64_t page, region; /* addresses of struct calltap_start, and of the fronts' blocks */
	struct stock_block blocks[FRONTS_MAX];
	size_t block_count;
	struct stock_layout layout;
	uint8_t *region_bytes; /* for free() */
	struct calltap_start start;
};

/* Between the two files.  First the size; then `base` and `at` are set, of which there are candidates. */
int placing_lay_out(struct placing_made *made, const struct placing *placing) __attribute__((warn_unused_result));
void placing_candidate(uint64_t *at, const struct placing *placing, const struct placing_made *made, unsigned try);
/* Make the image's and the region's bytes, and what `start` tells of them. */
int placing_make(struct placing_made *made, struct placing *placing) __attribute__((warn_unused_result));
/* The jump from a front's head, an ELF address, to its block: how many bytes; -errno. */
int placing_jump(uint8_t jump[16], const struct placing_made *made, const struct placing *placing, uint64_t head)
	__attribute__((warn_unused_result));

/* Tell the agent of the heads, which it leads, or gives back.  Of two functions with one head the first has it. */
int placing_tell_heads(struct placing_made *made, const struct placing *placing) __attribute__((warn_unused_result));

/* The parts that an attach brings into a static program. */
struct placing_live {
	struct attach_placed placed;
	uint64_t resident_entry; /* of an agent that is there already; 0 = none is */
	struct calltap_attach_part parts[CALLTAP_ATTACH_PARTS];
	unsigned char *bytes;
	struct attach_range jumps[FRONTS_MAX]; /* where the agent will write in the stop: all bytes but each first */
	size_t jump_count;
	uint32_t cut_short; /* as attach_times */
};

/*
 * Prepare for the program of a process.  Nothing in it is changed, but its threads are stopped for a moment.  -errno,
 * with diag: the agent cannot come in.
 */
int placing_prepare_live(struct placing_live *live, struct placing *placing, pid_t pid, struct calltap_diag *diag)
	__attribute__((warn_unused_result));
/* As placing_prepare_live(), for a guest that is held at its start: the agent leads the heads before it goes on. */
int placing_prepare_guest(struct placing_live *live, struct placing *placing, const struct attach_launch *launch,
			  struct calltap_diag *diag) __attribute__((warn_unused_result));
void placing_live_free(struct placing_live *live);

#endif
