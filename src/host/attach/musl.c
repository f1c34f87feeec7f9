/*
 * May a thread of a program that links musl hold one of its locks? (impl.h)
 *
 * musl comes without unwinding tables, so no unwinding gets through it.  Other proofs that a thread holds none of its
 * locks: the frames that are known end at the call of main() or of the thread's function; no word of the stack up to
 * there leads to where a lock is held; or the thread waits as only a thread does that holds none. doc/design/musl.md.
 * Context: host; what the target has in memory is untrusted.
 */
#include <string.h>

#include "impl.h"

static bool in_libc(const struct libs *libs, uint64_t pc)
{
	return pc >= libs->libc.lo && pc < libs->libc.hi;
}

/*
 * True if libc ends the program, or the thread, with the result of a call that returns to pc: main() was called there.
 */
static bool is_start(const struct libs *libs, pid_t alive, uint64_t pc)
{
	unsigned char bytes[NATIVE_PASSES_MAX];
	uint64_t to;

	if (!in_libc(libs, pc) || memory_read(alive, pc, bytes, sizeof(bytes)))
		return false;
	to = native_passes_result(bytes, pc);
	return to && (to == libs->exit || to == libs->thread_exit);
}

static uint64_t word_at(const struct stack_copy *copy, uint64_t at)
{
	uint64_t word;

	memcpy(&word, copy->bytes + (at - copy->lo), sizeof(word));
	return word;
}

/*
 * True if a signal's handler may hide what it has interrupted.  Its frame begins with the address of the code that ends
 * it.  Where the program was interrupted, libc has called it, and holds nothing meanwhile.
 */
static bool hides(const struct libs *libs, pid_t alive, const struct stack_copy *copy, uint64_t at)
{
	uint64_t saved = native_saved_pc_of_frame(at), pc = word_at(copy, at);
	unsigned char bytes[NATIVE_RESTORER_MAX];

	if (memory_read(alive, pc, bytes, sizeof(bytes)) || !native_is_restorer(bytes))
		return false;
	return saved < copy->lo || saved + sizeof(saved) > copy->hi || safe_is_special(libs, word_at(copy, saved));
}

/*
 * Cut off the frames behind a function without tables: they are a guess.  True: the frames end where the thread began.
 */
static bool cut(struct unwinder *unwinder, const struct libs *libs, pid_t alive, const struct frame *frames,
		size_t *count)
{
	for (size_t i = 0; i < *count; i++) {
		uint64_t pc = frames[i].exact ? frames[i].pc : frames[i].pc - 1;

		if (unwinder_has_rules(unwinder, pc) && !in_libc(libs, pc))
			continue;
		*count = i + 1;
		return !frames[i].exact && is_start(libs, alive, frames[i].pc);
	}
	return false;
}

/* The address of the first whole word of the stack. */
static uint64_t top_of(const struct stack_copy *copy)
{
	return (copy->values[NATIVE_DWARF_SP] + 7) & ~(uint64_t)7;
}

/*
 * True if no word of the stack leads to where a lock is held.  Each active function has called the next one, but for
 * the innermost, whose pc is looked at elsewhere: so its return address is on the stack.
 */
static bool is_clean(const struct libs *libs, pid_t alive, const struct stack_copy *copy)
{
	for (uint64_t at = top_of(copy); at >= copy->lo && at + sizeof(at) <= copy->hi; at += sizeof(at)) {
		uint64_t word = word_at(copy, at);

		if (!safe_is_special(libs, word))
			continue;
		if (is_start(libs, alive, word))
			return true;
		if (safe_is_dangerous(libs, word - 1) || hides(libs, alive, copy, at))
			return false;
	}
	return false;
}

bool musl_waits(const struct libs *libs, pid_t alive, const struct native_regs *regs, const struct stack_copy *copy)
{
	/* musl's own locks wait by futex() alone; another allocator's may sleep. */
	if (!native_waits(regs) && !(native_sleeps(regs) && libs->count == 1 && in_libc(libs, native_pc(regs))))
		return false;
	for (uint64_t at = top_of(copy); at >= copy->lo && at + sizeof(at) <= copy->hi; at += sizeof(at))
		if (in_libc(libs, word_at(copy, at)) && hides(libs, alive, copy, at))
			return false;
	return copy->hi > copy->lo;
}

bool musl_holds_nothing(struct unwinder *unwinder, const struct libs *libs, pid_t alive, const struct stack_copy *copy,
			const struct frame *frames, size_t *count)
{
	return cut(unwinder, libs, alive, frames, count) || is_clean(libs, alive, copy);
}
