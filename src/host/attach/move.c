/*
 * Having stopped threads go on at other places (attach.h).
 *
 * A thread's pc changes by one request to the kernel: whoever is killed in between, the thread goes on at the one place
 * or at the other.  Context: host.
 */
#include <elf.h>
#include <errno.h>
#include <sys/ptrace.h>
#include <sys/uio.h>

#include "impl.h"

struct moving {
	const struct attach_move *moves;
	size_t count;
};

/* Tracer. */
static int move_one(const struct held *held, uint64_t pc)
{
	struct native_regs regs = held->regs;
	struct iovec registers = {&regs, sizeof(regs)};

	native_set_pc(&regs, pc);
	if (ptrace(PTRACE_SETREGSET, held->tid, NT_PRSTATUS, &registers) && errno != ESRCH)
		return -errno;
	return 0;
}

/* Tracer. */
static int move_all(struct attach_stop *stop, void *context)
{
	const struct moving *moving = context;
	int ret = 0;

	for (size_t i = 0; i < moving->count && !ret; i++) {
		const struct attach_move *move = &moving->moves[i];
		size_t k = 0;

		while (k < stop->count && stop->held[k].tid != move->thread->tid)
			k++;
		ret = k == stop->count || stop->held[k].state != HELD_STOPPED ? -ESRCH
									      : move_one(&stop->held[k], move->pc);
	}
	return ret;
}

int attach_move(struct attach_stop *stop, const struct attach_move *moves, size_t count)
{
	struct moving moving = {moves, count};

	return count ? stop_run(stop, move_all, &moving) : 0;
}
