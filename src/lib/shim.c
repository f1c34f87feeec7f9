/*
 * Shims around handlers that may call whatever they like: they keep errno, and note that the thread is in a handler, so
 * that a call of the library's from there is refused instead of waiting for itself.
 *
 * Handlers of general registers only are called without a shim: they call nothing.  Caller: the agent's dispatcher,
 * anywhere in the program.  Context: as of a signal handler.
 */
#include <errno.h>
#include <sys/uio.h>
#include <unistd.h>

#include "lib.h"

#define MARK 0x7c4a1e0d2b96f853u

/* Several words: a frame that comes to lie over the marks may leave a hole, but hardly one of that size. */
#define MARKS 6

struct running {
	volatile uint64_t marks[MARKS]; /* each is MARK ^ its address while the handler runs */
	int error;
};

static uint64_t mark_of(const struct running *running, unsigned i)
{
	return MARK ^ (uintptr_t)&running->marks[i];
}

/* In the block that each thread has from its start: no memory is ever allocated here. */
static __thread struct {
	struct running *frame; /* NULL: the thread is in no handler */
	const struct calltap_handler *slot;
	uint64_t born; /* the slot's `born` when the handler began */
} current __attribute__((tls_model("initial-exec")));

static void begin(struct running *running, const struct lib_handler *handler)
{
	running->error = errno;
	for (unsigned i = 0; i < MARKS; i++)
		running->marks[i] = mark_of(running, i);
	current.slot = handler->slot;
	current.born = handler->slot->born;
	current.frame = running;
}

static void end(struct running *running)
{
	current.frame = NULL;
	running->marks[0] = 0;
	errno = running->error;
}

int shim_entry(struct calltap_call *call, void *context)
{
	const struct lib_handler *handler = context;
	struct running running;
	int answer;

	begin(&running, handler);
	answer = handler->entry(call, handler->context);
	end(&running);
	return answer;
}

void shim_exit(struct calltap_call *call, void *context)
{
	const struct lib_handler *handler = context;
	struct running running;

	begin(&running, handler);
	handler->exit(call, handler->context);
	end(&running);
}

static bool has_gone(struct running *running)
{
	uint64_t marks[MARKS];
	struct iovec here = {marks, sizeof(marks)}, there = {running, sizeof(marks)};
	int error = errno;
	ssize_t got = process_vm_readv(gettid(), &here, 1, &there, 1, 0);
	bool gone = got < 0 ? errno == EFAULT : got < (ssize_t)sizeof(marks);

	for (unsigned i = 0; got == (ssize_t)sizeof(marks) && i < MARKS; i++)
		gone |= marks[i] != mark_of(running, i);
	errno = error;
	return gone;
}

/*
 * A handler that faulted, or was left by longjmp() or an exception, has not come back here.  Then the slot tells (born,
 * fault), or the handler's frame lies below this one, or other calls have written over its marks, or its memory is
 * gone: the kernel is asked.
 */
bool shim_is_running(void)
{
	struct running *running = current.frame;
	bool gone;

	if (!running)
		return false;
	gone = current.slot->born != current.born || __atomic_load_n(&current.slot->fault, __ATOMIC_ACQUIRE) ||
	       (uintptr_t)__builtin_frame_address(0) > (uintptr_t)running || has_gone(running);
	if (gone)
		current.frame = NULL;
	return !gone;
}
