/*
 * Finding a function's program and running it, in the callers' own code: each function's call takes this way.
 *
 * Included by program.c and valued.c.  Context: probe.
 */
#ifndef PROBE_RUN_H
#define PROBE_RUN_H

#include <probe/program.h>

static inline const struct probe_programs *run_programs(void)
{
	return __atomic_load_n(&probe_programs, __ATOMIC_ACQUIRE); /* with probe_program_set() */
}

/* Numbers of the function's programs, as the tool has them now. */
static inline struct calltap_program_row run_row(const struct probe_programs *all, uint32_t id)
{
	struct calltap_program_row row = {0};
	uint64_t word;

	if (!all || id >= CALLTAP_HANDLED_MAX)
		return row;
	word = __atomic_load_n((const uint64_t *)&all->rows[id], __ATOMIC_ACQUIRE); /* with the tool */
	__builtin_memcpy(&row, &word, sizeof(row));
	return row;
}

/* The tool shares the tables: what they say is looked at once, and checked. */
static inline const struct calltap_program *run_find(const struct probe_programs *all, uint16_t number)
{
	const struct calltap_program *program;

	if (!number)
		return NULL;
	program = &all->list[number];
	return program->code < CALLTAP_PROGRAM_UNWIND && program->fixed <= CALLTAP_PROGRAM_BYTES &&
			       program->words <= CALLTAP_PROGRAM_WORDS
		       ? program
		       : NULL;
}

static inline void run_fill(struct calltap_program_context *context, const struct probe_call_state *call)
{
	static const uint8_t places[] = {CALLTAP_CALL_ARGUMENTS};
	const uint64_t *registers = (const uint64_t *)call->registers;

	if (call->exit) {
		for (uint32_t i = 0; i < CALLTAP_PROGRAM_ARGUMENTS; i++)
			context->arguments[i] = 0;
		context->result = registers[CALLTAP_CALL_RESULT];
		context->second = registers[CALLTAP_CALL_RESULT_SECOND];
		context->stack = 0;
	} else {
#pragma GCC unroll 8
		for (uint32_t i = 0; i < CALLTAP_PROGRAM_ARGUMENTS; i++)
			context->arguments[i] = i < sizeof(places) ? registers[places[i]] : 0;
		context->result = context->second = 0;
		context->stack = arch_entry_sp(call->slot) + CALLTAP_CALL_STACK_WORDS * sizeof(uint64_t);
	}
	context->caller = call->caller;
	context->function = call->id;
}

/*
 * Make the words of an event of its bytes: from the end, for in place a word takes more room than its bytes.  Up to 7
 * bytes behind the last one are read, and are of no meaning.
 */
static inline uint32_t run_pack(uint64_t *words, const unsigned char *bytes, uint32_t used)
{
	const uint64_t all = ~(uint64_t)0 >> 8;
	uint32_t count = (used + CALLTAP_EVENT_WORD_BYTES - 1) / CALLTAP_EVENT_WORD_BYTES;
	uint64_t mask = ~(uint64_t)0 >> (64 - 8 * (used - (count - 1) * CALLTAP_EVENT_WORD_BYTES));

	for (uint32_t i = count; i-- > 0; mask = all) {
		uint64_t word;

		__builtin_memcpy(&word, bytes + (uint64_t)i * CALLTAP_EVENT_WORD_BYTES, sizeof(word));
		words[i] = word & mask;
	}
	return count;
}

/* Run a program that has CALLTAP_PROGRAM_PLAIN: its words go to `words`, and the event's first word in front of them.
 */
static inline void run_plain(const struct calltap_registers *registers, uint64_t code, uint64_t *words, uint32_t id,
			     uint64_t head)
{
	void (*plain)(const struct calltap_registers *, void *, uint64_t, uint64_t) =
		(void (*)(const struct calltap_registers *, void *, uint64_t, uint64_t))code;

	plain(registers, (char *)words + CALLTAP_PROGRAM_WORDS_AT, id, head);
}

/* program: NULL = none.  What it has written is in `run`. */
static inline enum calltap_verdict run_program(struct probe_run *run, const struct probe_call_state *call,
					       const struct probe_programs *all, const struct calltap_program *program)
{
	const uint32_t at = (CALLTAP_PROGRAM_STACK - CALLTAP_PROGRAM_WORDS_AT) / sizeof(uint64_t);
	uint64_t verdict = CALLTAP_VERDICT_RECORD, code;
	uint32_t words;

	run->type = run->count = 0;
	run->keeps = false;
	run->told = 0;
	if (!program)
		return CALLTAP_VERDICT_RECORD;
	run_fill(&run->context, call);
	run->context.kept = call->exit && program->flags & CALLTAP_PROGRAM_KEPT ? *arch_data(call->slot) : 0;
	words = program->words; /* once: run_find() has checked it, and the tool does not change it */
	run->frame = call->frame;
	run->used = program->fixed;
	run->type = program->type;
	run->words = words ? run->stack + at : run->packed;
	code = all->code + program->code;
	if (program->flags & CALLTAP_PROGRAM_PLAIN)
		run_plain(call->registers, code, run->stack + at, call->id, 0);
	else
		verdict = arch_program_call(&run->context, code, run->stack + CALLTAP_PROGRAM_STACK / sizeof(uint64_t));
	if (verdict == CALLTAP_VERDICT_LEAVE_OUT || verdict == CALLTAP_VERDICT_HIDE || verdict == CALLTAP_VERDICT_AWAIT)
		return (enum calltap_verdict)verdict;
	if (words)
		run->count = words;
	else if (run->type && !run->count)
		run->count = run_pack(run->packed, run->bytes, run->used);
	return CALLTAP_VERDICT_RECORD;
}

#endif
