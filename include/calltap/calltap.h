/*
 * Handlers of a program's own for the calls of its functions: libcalltap.so.
 *
 * A program opens a session on itself, and registers functions that are called
 * when others are entered and left, chosen by name or by address.  It needs no
 * recording, but may have one at the same time.  doc/handlers.md is the guide,
 * calltap(3) the reference.
 *
 * Words: an *entry handler* is called before the first instruction of a
 * function's body, an *exit handler* when it has returned.  Both run on the
 * calling thread, one call at a time for each thread: calls that come while a
 * handler runs there are counted (`missed`), not handled.
 *
 * Functions return 0 or -errno.  Those with a struct calltap_diag fill it with
 * one sentence when they fail; it may be NULL.  All but those of struct
 * calltap_call may be called by any thread, but from no handler (-EDEADLK) and
 * no signal handler; they may wait, and none of them is a cancellation point.
 * In a forked child the parent's session is not to be used (-ECHILD), while
 * handlers go on being called there.
 */
#ifndef CALLTAP_CALLTAP_H
#define CALLTAP_CALLTAP_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/types.h>

#include <calltap/call.h>
#include <calltap/diag.h>

#ifdef __cplusplus
extern "C" {
#endif

#define CALLTAP_CHECKED __attribute__((warn_unused_result))

struct calltap_session;
struct calltap_ops;

struct calltap_session_options {
	size_t size;	  /* sizeof(struct calltap_session_options) */
	const char *tool; /* path of the `calltap` command; NULL: the one that belongs to the library, else in PATH */
	uint32_t timeout_ms; /* longest wait for an answer of the tool; 0 = 30 s */
	uint32_t reserved;   /* 0 */
};

/*
 * Open a session on the calling process.  A recording of it that there is
 * (calltap record, calltap attach) is used; else the tool is started, which
 * attaches to the process and stays until the session is closed, or the
 * process has ended.  options: may be NULL.  A program may open several: they
 * share the tool.  Not from a constructor, while the loader is at work: start a
 * thread there, or wait for main().
 *
 * -ENOENT: the tool is not found.  -ETIMEDOUT: it does not answer.  -ENOTSUP,
 * -EPERM, -EBUSY, ...: the process cannot be attached to; the sentence tells
 * the reason and the remedy.
 */
int calltap_session_open(struct calltap_session **out, const struct calltap_session_options *options,
			 struct calltap_diag *diag) CALLTAP_CHECKED;

/*
 * Unregister the session's ops, and close the session.  When no other session uses a tool that the library has started,
 * that tool lets go of the process, and has ended when this returns: the functions have the bytes of their files again.
 * All ops of the session are gone.  Called from a handler, this does nothing.  In a forked child it only gives memory
 * and descriptors back.  session: may be NULL.
 */
void calltap_session_close(struct calltap_session *session);

#define CALLTAP_HANDLERS_MAX 24u /* ops that can be registered at once in a process */

/*
 * The handlers use no vector and no x87 registers, which are not saved for
 * them: they are compiled with -mgeneral-regs-only, and call nothing that is
 * not.  errno is not kept for them either.  Such handlers are cheaper.
 */
#define CALLTAP_HANDLER_GENERAL_REGS 1u
/* calltap_call.data is kept from a call's entry to its exit; only one ops with this may be on a function. */
#define CALLTAP_HANDLER_DATA 2u
/* No error that no function matches: objects that are loaded later may have some. */
#define CALLTAP_HANDLER_PENDING 4u

struct calltap_ops_options {
	size_t size; /* sizeof(struct calltap_ops_options) */
	/*
	 * Not 0: the exit handlers of this call are not called.  NULL: no entry handler.  The structure, and what it
	 * points to, are there until the handler returns.
	 */
	int (*entry)(struct calltap_call *call, void *context);
	/* NULL: none.  A call that ends by an exception or longjmp() has no exit. */
	void (*exit)(struct calltap_call *call, void *context);
	void *context;	/* argument of entry and exit */
	uint32_t flags; /* CALLTAP_HANDLER_* */
	uint32_t reserved;
	/*
	 * The functions to handle: those that a filter matches, less those that a notrace matches; and those that an
	 * address lies in.  Filters are as of `calltap record --trace`: a glob, object:glob, /expression/, @file.  Each
	 * list ends with NULL, or is NULL.  With neither filter nor address: all.
	 */
	const char *const *filter;
	const char *const *notrace;
	const void *const *addresses;
	size_t address_count;
};

/*
 * Register handlers.  They may be called before this returns.  Strings and
 * lists are copied.
 *
 * -EINVAL: an argument is not valid.  -ENOENT: no function matches that can be
 * traced.  -ENOSPC: CALLTAP_HANDLERS_MAX are registered.  -EBUSY: another ops
 * keeps data on one of the functions.  -EOPNOTSUPP: not possible together with
 * the recording of the process.  -E2BIG: too many filters and addresses.
 * -ENOTCONN: the tool has ended; open a session anew.
 */
int calltap_ops_register(struct calltap_ops **out, struct calltap_session *session,
			 const struct calltap_ops_options *options, struct calltap_diag *diag) CALLTAP_CHECKED;

/*
 * Have the handlers of ops called for other functions.  Threads may be within the handlers meanwhile.  After an error
 * they are called for the functions that they were called for before.
 */
int calltap_ops_set_filter(struct calltap_ops *ops, const char *const *filter, const char *const *notrace,
			   const void *const *addresses, size_t address_count,
			   struct calltap_diag *diag) CALLTAP_CHECKED;

/*
 * Unregister.  When this returns 0, no thread is in one of the handlers, nor
 * will be: their code and context may go, and ops is gone.  Calls that are open
 * have no exit handler called.
 *
 * -ETIMEDOUT: a handler has not returned within a second; none will be called any more,
 * ops is still there, and may be unregistered again.  -ENOTCONN: the tool has
 * ended before; ops is gone, none is called any more, but one that was running
 * may run still.  -EDEADLK, -ECHILD: nothing was done.  ops: may be NULL.
 */
int calltap_ops_unregister(struct calltap_ops *ops);

struct calltap_ops_status {
	size_t size;	    /* sizeof(struct calltap_ops_status), set by the caller */
	uint64_t functions; /* functions that the filter has chosen, as of its last change */
	uint64_t missed;    /* calls that came while a handler ran on their thread */
	int32_t fault;	    /* the signal by which a handler was disabled, 0 = none */
	uint32_t reserved;
	uint64_t fault_pc, fault_address; /* the faulting instruction, and the address that it wanted to reach */
};

/* Fill *status.  Asks nobody, never waits: may be called from a handler.  -ECHILD. */
int calltap_ops_status(const struct calltap_ops *ops, struct calltap_ops_status *status) CALLTAP_CHECKED;

/*
 * Load a library into a process that runs, as a dlopen() of its own would; the library stays there.  One of the
 * process' threads does that, and is where it was when this returns.  The library's constructors should do little:
 * start a thread, which opens a session and registers handlers.  library: a path.
 *
 * -ENOENT: there is no such file, or no tool.  -ELIBACC: the loader refuses;
 * the sentence has its words.  Others as for calltap_session_open().
 */
int calltap_process_load(pid_t pid, const char *library, struct calltap_diag *diag) CALLTAP_CHECKED;

/* ---- questions that a handler may ask of a call; inline, compiled into the handler ---- */

/* The n-th integer or pointer argument, from 0, by the CPU's System V ABI; in an entry handler.  Structures that are
 * passed by value and long double take places of their own; vector arguments none. */
static inline uint64_t calltap_call_argument(const struct calltap_call *call, unsigned n)
{
	static const unsigned char places[] = {CALLTAP_CALL_ARGUMENTS};

	if (n < sizeof(places))
		return ((const uint64_t *)&call->registers)[places[n]];
	return ((const uint64_t *)(uintptr_t)call->stack)[n - sizeof(places) + CALLTAP_CALL_STACK_WORDS];
}

/* The function's result, if it is an integer or a pointer; in an exit handler, but not after a tail call. */
static inline uint64_t calltap_call_result(const struct calltap_call *call)
{
	return ((const uint64_t *)&call->registers)[CALLTAP_CALL_RESULT];
}

/* The n-th argument of type double, from 0 to 7.  Not for handlers of general registers only: 0 there. */
static inline double calltap_call_float_argument(const struct calltap_call *call, unsigned n)
{
	double value = 0;

	if (call->vectors && n < 8)
		memcpy(&value,
		       (const char *)call->vectors + CALLTAP_CALL_VECTORS_FLOATS + CALLTAP_CALL_VECTORS_STEP * n,
		       sizeof(value));
	return value;
}

/* The function's result, if it is a double; in an exit handler. */
static inline double calltap_call_float_result(const struct calltap_call *call)
{
	return calltap_call_float_argument(call, 0);
}

#ifdef __cplusplus
}
#endif

#endif
