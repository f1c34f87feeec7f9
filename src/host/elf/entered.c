/*
 * Functions that are entered without a call.  The stub of a traced function replaces the return address, the word at
 * the stack pointer.  Here that word is none, and the program needs it: so these functions must not be traced.
 *
 * The kernel enters one of them where the program begins: the word is the number of arguments.  A signal's handler may
 * write the address of another one into its context's program counter.  When the handler returns, the kernel goes on
 * there, on the stack of the function that the signal has interrupted, and the word is that function's.
 *
 * The handler's store has the displacement of the program counter in a ucontext_t.  Other structures have pointers to
 * functions there, too; but a function that was entered so cannot return, and theirs mostly do.  Caller: object_open.
 * Context: host.
 */
#include "object_impl.h"

static bool never_returns(const struct object *object, uint64_t function)
{
	size_t rest;
	const uint8_t *code = object_code_at(object, function, &rest);
	uint64_t next = object_next_start(object, function);

	if (!code || !object_starts_function(object, function))
		return false;
	return object->cpu->never_returns(code, next - function < rest ? next - function : rest);
}

int object_find_entered(struct object *object)
{
	bool begins = object->entry && object_starts_function(object, object->entry);
	int error = begins ? address_list_add(&object->entered, object->entry) : 0;

	for (size_t i = 0; i < object->code_count && object->cpu->find_entered && !error; i++) {
		const struct object_code *code = &object->codes[i];
		uint64_t target;
		size_t at = 0;

		while (!error && !code->plt &&
		       (at = object->cpu->find_entered(code->bytes, code->size, at, code->address, &target)))
			if (never_returns(object, target))
				error = address_list_add(&object->entered, target);
	}
	address_list_sort(&object->entered);
	return error;
}
