/*
 * Lisp runtimes and libraries that move stacks forbid to record a process' returns (returns.h).
 *
 * SBCL's and CMUCL's collector moves compiled code, and takes from each word on a stack that it may be a return address
 * into some; where a traced function has ours in its place, the code below it is moved.  Lisp calls libc's functions,
 * and all others, from such code.  doc/design/stock.md.  Context: host.
 */
#include <errno.h>
#include <string.h>

#include <calltap/abi/movers.h>
#include <host/elf/object.h>

#include "returns.h"
#include "session.h"

const char *returns_refused(const struct object *program)
{
	/* Symbols of interpreters that are programs, and what these do. */
	static const char *const known[][2] = {
		{"call_into_lisp", "a Lisp runtime, whose collector looks for return addresses on stacks"},
		{"throw_to_continuation", "SCM's continuations, which copy stacks away and back"},
	};
	const struct object_symbol *symbols;
	size_t count = object_symbols(program, &symbols);

	for (size_t i = 0; i < count; i++)
		for (size_t k = 0; k < sizeof(known) / sizeof(known[0]); k++)
			if (!strcmp(symbols[i].symbol, known[k][0]))
				return known[k][1];
	return NULL;
}

static bool records_returns(const struct session *session)
{
	for (uint32_t i = 0; i < CALLTAP_INSTANCES; i++)
		if (session->instances[i] && session->instances[i]->settings.options.tracer->has_exit)
			return true;
	return false;
}

bool returns_take(struct session *session, struct target *target, const struct object *object)
{
	/* Where parts of stacks are copied the agent itself ends the recording, when it is due. */
	const char *moved = calltap_mover(object_path(object)),
		   *why = target->map_count || target->untraced ? NULL : returns_refused(object);

	if (moved || why)
		session->no_returns = moved ? moved : why;
	/* Guile's functions are recorded without returns: a tracer of returns leaves them out (copiers_refuse()). */
	else if (calltap_copies_own(object_path(object)) && object_traceable(object))
		session->no_returns = "Guile's library, which copies parts of stacks away and back";
	if (!why)
		return !target->untraced;
	target->untraced = records_returns(session);
	if (target->untraced)
		session_diagnose(session,
				 "process %d uses %s, and ran untraced; its calls can be recorded with -p function",
				 (int)target->pid, why);
	return !target->untraced;
}

int returns_check(const struct session *session, bool exits, struct calltap_diag *diag)
{
	if (!exits || !session->no_returns)
		return 0;
	return calltap_diag_set(diag, -EOPNOTSUPP,
				"a process of this session uses %s; its calls can be recorded with -p function, their "
				"returns cannot",
				session->no_returns);
}
