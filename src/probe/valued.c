/*
 * The usual calls of functions that tell values (program.h), in as few steps as C takes.
 *
 * Called by the dispatcher on the program's thread, for calls that no handler and no further instance waits for; calls
 * of plain programs, which most are, it does itself.  Context: probe.  At a return a plain program writes the record
 * itself: its room is taken before, and its head, which makes it one, is written last.  So all else is done by then,
 * and no registers have to be kept for afterwards.  What is not usual takes the long way with the program run already.
 */
#include <probe/handlers.h>
#include <probe/program.h>
#include <probe/run.h>
#include <probe/usual.h>

#define VALUES CALLTAP_HANDLED_VALUES

_Static_assert(offsetof(struct probe_programs, rows) == PG_ROWS && offsetof(struct probe_programs, list) == PG_LIST &&
		       offsetof(struct probe_programs, code) == PG_CODE,
	       "handlers.S");
_Static_assert(offsetof(struct calltap_program_row, entry) == 0 && sizeof(struct calltap_program_row) == 8 &&
		       offsetof(struct calltap_program_row, exit) == PR_EXIT,
	       "handlers.S");
_Static_assert(sizeof(struct calltap_program) == 1 << PR_BITS && offsetof(struct calltap_program, code) == 0 &&
		       offsetof(struct calltap_program, words) == PR_WORDS &&
		       offsetof(struct calltap_program, flags) == PR_FLAGS &&
		       offsetof(struct calltap_program, head) == PR_HEAD,
	       "handlers.S");
_Static_assert(PR_PLAIN == CALLTAP_PROGRAM_PLAIN && PR_WORDS_AT == CALLTAP_PROGRAM_WORDS_AT &&
		       PR_CODE_MAX == CALLTAP_PROGRAM_UNWIND && CALLTAP_REC_ENTRY == 1 << (RECORD_ENTRY - 60),
	       "handlers.S");

/* The frame of a call that is not recorded, nor is what it calls.  False: it is hidden by another one already. */
static bool hide(uint64_t slot, uint32_t id, const uint64_t *ret)
{
	if (probe_graph_entry_notree(slot, id, ret))
		return false;
	usual_note_who(slot, *arch_link(slot), CALLTAP_HANDLED_NOTREE | probe_trigger_who(id));
	return true;
}

/* The long way for a call whose program has run. */
static COLD int enter_values_anew(uint64_t slot, uint32_t id, const uint64_t *ret, const struct probe_run *run,
				  enum calltap_verdict verdict)
{
	uint32_t own = OWN | VALUES, awaits = verdict == CALLTAP_VERDICT_AWAIT ? VALUES : 0;

	arch_string_forward();
	if (verdict == CALLTAP_VERDICT_HIDE && hide(slot, id, ret))
		return 0;
	if (verdict != CALLTAP_VERDICT_RECORD || probe_graph_entry_in_c(slot, id, ret))
		own = 0;
	if (!own && probe_graph_entry_hidden(slot, id, ret)) {
		if (awaits)
			probe_count_untraced(0);
		return 1;
	}
	usual_note_who(slot, *arch_link(slot), own | awaits | probe_trigger_who(id));
	if (awaits)
		probe_program_keep(run, slot);
	if (own && !(*arch_link(slot) & FRAME_UNRECORDED)) {
		probe_program_keep(run, slot);
		probe_program_record_call(probe_self(), run);
		probe_trigger_told(slot, id, run->told, false);
	}
	return 0;
}

static inline uint64_t head_of(uint32_t type, uint32_t words, uint64_t now)
{
	return calltap_record_make(CALLTAP_REC_EVENT, calltap_event_id(type, 1 + words), (uint32_t)now);
}

static inline void put_event(uint64_t *slot, const struct probe_run *run, uint64_t now)
{
	ring_put_all(slot, head_of(run->type, run->count, now), run->words, run->count);
}

/* Record what a plain program leaves.  It writes the record's head itself, last. */
static inline void put_plain(uint64_t *slot, const struct calltap_registers *saved, const struct probe_programs *all,
			     const struct calltap_program *program, uint32_t id, uint64_t now)
{
	run_plain(saved, all->code + program->code, slot + 1, id, (uint64_t)program->head << 32 | (uint32_t)now);
}

static inline uint64_t *take(struct ring_writer *writer, uint32_t words, uint64_t now)
{
	return writer->time_hi == now >> 32 ? ring_take(writer, words) : NULL;
}

/* Record the event at a call, with the function's ENTRY in front of it, where the ring has room as it is. */
static bool put_entry(struct ring_writer *writer, const struct probe_run *run, uint32_t id, uint64_t now)
{
	uint64_t *slot = take(writer, 2 + run->count, now);

	if (!slot)
		return false;
	ring_put(slot, calltap_record_make(CALLTAP_REC_ENTRY, id, (uint32_t)now));
	put_event(slot + 1, run, now);
	return true;
}

int probe_values_entered(uint64_t slot, uint32_t id, const uint64_t *ret, const struct calltap_registers *saved)
{
	const struct probe_call_state call = {saved, slot, *ret, id, false, probe_frame_before()};
	const struct probe_programs *all = run_programs();
	struct calltap_program_row numbers = run_row(all, id);
	struct probe_thread *thread = probe_self();
	enum calltap_verdict verdict;
	bool usual, timed = usual_is_timed();
	struct probe_run run;
	uint64_t now;

	arch_string_forward();
	verdict = run_program(&run, &call, all, run_find(all, numbers.entry));
	usual = !usual_is_unusual(thread, slot, id, timed);
	/* Nobody waits for its return: it goes on as a function that is not traced. */
	if (verdict == CALLTAP_VERDICT_LEAVE_OUT && usual)
		return 1;
	/* Its return's program alone waits: the frame of a call that is hidden. */
	if (verdict == CALLTAP_VERDICT_AWAIT && usual) {
		probe_program_keep(&run, slot);
		usual_push(thread->stack, slot, FRAME_UNRECORDED, VALUES, timed ? arch_clock() : 0, ret, timed);
		return 0;
	}
	now = arch_clock();
	if (__builtin_expect(verdict != CALLTAP_VERDICT_RECORD || !usual, 0) ||
	    !(run.count ? put_entry(thread->writer, &run, id, now)
			: probe_put_usual(thread->writer, CALLTAP_REC_ENTRY, id, now)))
		return enter_values_anew(slot, id, ret, &run, verdict);
	probe_program_keep(&run, slot);
	/* A return without a program comes as that of a function without values. */
	usual_push(thread->stack, slot, 0, numbers.exit ? OWN | VALUES : OWN, now, ret, timed);
	return 0;
}

/* The call's result is not one that was asked for. */
static COLD void leave_out(uint64_t slot, uint32_t id, uint64_t *ret, struct probe_run *run,
			   enum calltap_verdict verdict, uint64_t now)
{
	struct probe_thread *thread = probe_self();
	bool gone = probe_verdict_tell(thread, run, id, verdict);

	if (usual_is_told(id))
		usual_leave_told(slot, id, gone ? 0 : OWN, ret);
	else if (!gone && !probe_put_usual(thread->writer, CALLTAP_REC_EXIT, id, now))
		usual_leave_by_calls(slot, id, OWN, ret);
	else
		usual_pop(thread->stack, slot, *arch_link(slot), ret);
}

/* A return whose program is not plain, or that is not usual. */
static __attribute__((noinline)) void leave_values(uint64_t slot, uint32_t id, uint64_t *ret,
						   const struct calltap_registers *saved, uint64_t now)
{
	const struct probe_call_state call = {saved, slot, *arch_mirror(slot), id, true, 0};
	const struct probe_programs *all = run_programs();
	struct probe_thread *thread = probe_self();
	enum calltap_verdict verdict;
	struct probe_run run;
	uint64_t *place = NULL;

	arch_string_forward();
	verdict = run_program(&run, &call, all, run_find(all, run_row(all, id).exit));
	if (__builtin_expect(run.told, 0))
		probe_trigger_told(slot, id, run.told, true);
	if (verdict != CALLTAP_VERDICT_RECORD) {
		leave_out(slot, id, ret, &run, verdict, now);
		return;
	}
	if (run.count && !usual_is_told(id))
		place = take(thread->writer, 2 + run.count, now);
	if (__builtin_expect(place != NULL, 1)) {
		put_event(place, &run, now);
		ring_put(place + 1 + run.count, calltap_record_make(CALLTAP_REC_EXIT, id, (uint32_t)now));
		usual_pop(thread->stack, slot, *arch_link(slot), ret);
		return;
	}
	probe_program_record(thread, &run);
	if (usual_is_told(id))
		usual_leave_told(slot, id, OWN, ret);
	else
		usual_leave_by_calls(slot, id, OWN, ret);
}

/* A call that waits for its return's program, and for nothing else: no record is written, so no ring is looked for. */
static __attribute__((noinline)) void leave_awaited(uint64_t slot, uint32_t id, uint64_t *ret,
						    const struct calltap_registers *saved)
{
	const struct probe_call_state call = {saved, slot, *arch_mirror(slot), id, true, 0};
	const struct probe_programs *all = run_programs();
	struct probe_run run;

	arch_string_forward();
	(void)run_program(&run, &call, all, run_find(all, run_row(all, id).exit));
	if (usual_is_told(id))
		usual_leave_told(slot, id, 0, ret);
	else
		usual_pop(probe_self()->stack, slot, *arch_link(slot), ret);
}

/* The values come first, with the time of the return; what fetching them takes is not the call's. */
void probe_values_left(uint64_t slot, uint32_t id, uint64_t *ret, const struct calltap_registers *saved)
{
	const struct probe_programs *all = run_programs();
	const struct calltap_program *program = run_find(all, run_row(all, id).exit);
	struct probe_thread *thread = probe_self();
	uint64_t now, *place = NULL;

	if (__builtin_expect(*arch_link(slot) & FRAME_UNRECORDED, 0)) {
		leave_awaited(slot, id, ret, saved);
		return;
	}
	now = arch_clock();
	if (__builtin_expect(!probe_context.enabled || !probe_context.wiped->alive || !thread->writer->ring, 0)) {
		usual_leave_by_calls(slot, id, OWN, ret);
		return;
	}
	if (program && program->flags & CALLTAP_PROGRAM_PLAIN && !usual_is_told(id))
		place = take(thread->writer, 2u + program->words, now);
	if (!place) {
		leave_values(slot, id, ret, saved, now);
		return;
	}
	ring_put(place + 1 + program->words, calltap_record_make(CALLTAP_REC_EXIT, id, (uint32_t)now));
	usual_pop(thread->stack, slot, *arch_link(slot), ret);
	put_plain(place, saved, all, program, id, now);
}
