/*
 * The dispatcher of handlers in full (handlers.h): several handlers on a function, vector registers, tail calls, and
 * the session's tracer beside them.  The agent asks here about jumps, unwinding and faults in handlers.
 *
 * Called by handlers.S on the program's thread.  Context: probe.  From begin() to end() the thread is marked as one
 * that runs handlers (thread->running).  It looks up in between which handlers to call.  So when the agent has seen a
 * thread without the mark, that thread will not call a handler that was gone before.
 */
#include <offsets.h>
#include <probe/frames.h>
#include <probe/graph.h>
#include <probe/handlers.h>
#include <probe/instances.h>
#include <probe/program.h>
#include <probe/trigger.h>

_Static_assert(offsetof(struct probe_handled_table, functions) == HT_FUNCTIONS, "handlers.S");
_Static_assert(offsetof(struct probe_handled_table, rows) == HT_ROWS, "handlers.S");
_Static_assert(offsetof(struct probe_handled_table, bodies) == HT_BODIES, "handlers.S");
_Static_assert(offsetof(struct probe_handled_table, handlers) == HT_HANDLERS, "handlers.S");
_Static_assert(offsetof(struct probe_handled_table, save) == HT_SAVE, "handlers.S");
_Static_assert(offsetof(struct probe_handled_table, restore) == HT_RESTORE, "handlers.S");
_Static_assert(offsetof(struct calltap_handlers, generation) == HG_GENERATION, "handlers.S");
_Static_assert(offsetof(struct calltap_handlers, slots) == HG_SLOTS, "handlers.S");
_Static_assert(sizeof(struct calltap_handler) == HS_SIZE, "handlers.S");
_Static_assert(offsetof(struct calltap_handler, entry) == HS_ENTRY, "handlers.S");
_Static_assert(offsetof(struct calltap_handler, exit) == HS_EXIT, "handlers.S");
_Static_assert(offsetof(struct calltap_handler, context) == HS_CONTEXT, "handlers.S");
_Static_assert(offsetof(struct calltap_handler, flags) == HS_FLAGS, "handlers.S");
_Static_assert(offsetof(struct calltap_handler, born) == HS_BORN, "handlers.S");
_Static_assert(CALLTAP_HANDLER_GENERAL_REGS == HS_GENERAL && CALLTAP_HANDLER_DATA == HS_DATA, "handlers.S");
_Static_assert(CALLTAP_HANDLED_FIRST == HW_FIRST && HW_SESSION == (1 << HW_FIRST) - 1, "handlers.S");
_Static_assert(CALLTAP_HANDLED_INSTANCES == HW_INSTANCES && CALLTAP_HANDLED_CALL == HW_CALL, "handlers.S");
_Static_assert(CALLTAP_HANDLED_RECORD == HW_RECORD && CALLTAP_HANDLED_VALUES == HW_VALUES, "handlers.S");
_Static_assert(sizeof(struct calltap_handled) == 8 && offsetof(struct calltap_handled, start) == 4, "handlers.S");
_Static_assert(offsetof(struct probe_handled, wants) == H_WHO, "handlers.S");
_Static_assert(offsetof(struct probe_handled, generation) == H_WHO + 4, "handlers.S");
_Static_assert(offsetof(struct probe_handled, how) == H_HOW, "handlers.S");
_Static_assert(offsetof(struct probe_handled, slot) == H_SLOT, "handlers.S");
_Static_assert(offsetof(struct probe_handled, area) == H_AREA, "handlers.S");
_Static_assert(offsetof(struct probe_handled, call.function) == H_FUNCTION, "handlers.S");
_Static_assert(offsetof(struct probe_handled, call.caller) == H_CALLER, "handlers.S");
_Static_assert(offsetof(struct probe_handled, call.stack) == H_STACK, "handlers.S");
_Static_assert(offsetof(struct probe_handled, call.id) == H_ID, "handlers.S");
_Static_assert(offsetof(struct probe_handled, call.flags) == H_ID + 4, "handlers.S");
_Static_assert(offsetof(struct probe_handled, call.data) == H_DATA, "handlers.S");
_Static_assert(offsetof(struct probe_handled, call.vectors) == H_VECTORS, "handlers.S");
_Static_assert(offsetof(struct probe_handled, call.registers) == H_KEPT, "handlers.S");
_Static_assert(sizeof(struct probe_handled) == H_END, "handlers.S");
_Static_assert(PROBE_HANDLED_CALL == HOW_CALL && PROBE_HANDLED_ENTRY == HOW_ENTRY, "handlers.S");
_Static_assert(PROBE_HANDLED_EXIT == HOW_EXIT && PROBE_HANDLED_VECTORS == HOW_VECTORS, "handlers.S");

/* _Unwind_Action and _Unwind_Reason_Code of the Itanium C++ ABI's base, level I. */
#define UNWIND_CLEANUP	2
#define UNWIND_CONTINUE 8
#define FAULT_REACH	((uint64_t)8 << 20) /* bytes that a handler's stack pointer may be below its call */

/* Without handlers every slot says GENERAL_REGS: so slots that are not in use ask for no vector registers. */
static struct calltap_handlers no_handlers = {
	.slots = {[0 ... CALLTAP_HANDLERS_MAX - 1] = {.flags = CALLTAP_HANDLER_GENERAL_REGS}}};
static struct probe_handled_table no_table = {.handlers = &no_handlers};
/*
 * The table after probe_handled_stop(): no handler is called any more.  The fast path finds no functions in it, so all
 * calls come to C, which knows their number (stopped_functions).
 */
static struct probe_handled_table stopped;
struct probe_handled_table *probe_handled = &no_table;

void probe_handled_set(struct probe_handled_table *table)
{
	if (table && !table->handlers)
		table->handlers = &no_handlers;
	if (table)
		table->row_count = table->functions;
	__atomic_store_n(&probe_context.handled, table != NULL, __ATOMIC_RELEASE);
	__atomic_store_n(&probe_handled, table ? table : &no_table, __ATOMIC_RELEASE);
}

void probe_handled_stop(void)
{
	if (probe_handled == &stopped)
		return;
	/* Dispatchers that are at work find all but the functions as before.  The session's tracer goes on recording.
	 */
	stopped = *probe_handled;
	stopped.functions = 0;
	__atomic_store_n(&probe_handled, &stopped, __ATOMIC_RELEASE);
}

static struct probe_handled_table *table_now(void)
{
	return __atomic_load_n(&probe_handled, __ATOMIC_ACQUIRE); /* pairs with probe_handled_set() */
}

static bool is_exit(const struct probe_handled *handled)
{
	return (handled->how & ~PROBE_HANDLED_VECTORS) == PROBE_HANDLED_EXIT;
}

/* The slot that the call's frame is known by. */
static uint64_t slot_of(const struct probe_handled *handled)
{
	return arch_handled_slot((uint64_t)(handled + 1), is_exit(handled));
}

/* The words that the dispatcher has for the return, as recorders have them; at the exit, where the caller's address
 * goes. */
static uint64_t *return_of(const struct probe_handled *handled)
{
	return arch_handled_return((uint64_t)(handled + 1), is_exit(handled));
}

/* The stub's word; at the exit it may lie where the caller's address goes. */
static uint32_t word_of(const struct probe_handled *handled)
{
	return arch_handled_word((uint64_t)(handled + 1), is_exit(handled));
}

static struct calltap_handler *slot_at(unsigned i)
{
	return &table_now()->handlers->slots[i];
}

static uint32_t bit_of(unsigned i)
{
	return (uint32_t)1 << (CALLTAP_HANDLED_FIRST + i);
}

static uint32_t who_of(uint32_t id)
{
	uint32_t who = (uint32_t)probe_handled_row(id);

	return table_now() == &stopped ? who & HW_SESSION : who;
}

static uint64_t address_of(uint32_t id)
{
	const struct probe_handled_table *table = table_now();

	return id < table->functions && table->bodies[id] ? table->bodies[id] - table->rows[id].start : 0;
}

static bool has_vectors(uint32_t bits)
{
	for (unsigned i = 0; i < CALLTAP_HANDLERS_MAX && bits >= bit_of(i); i++)
		if (bits & bit_of(i) && !(slot_at(i)->flags & CALLTAP_HANDLER_GENERAL_REGS) &&
		    (slot_at(i)->entry || slot_at(i)->exit))
			return true;
	return false;
}

static void count_missed(uint32_t bits)
{
	for (unsigned i = 0; i < CALLTAP_HANDLERS_MAX && bits >= bit_of(i); i++)
		if (bits & bit_of(i) && (slot_at(i)->entry || slot_at(i)->exit))
			__atomic_add_fetch(&slot_at(i)->missed, 1, __ATOMIC_RELAXED);
}

/* Mark the thread as one that runs no handler. */
static void end_running(struct probe_thread *thread)
{
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	__atomic_store_n(&thread->running, NULL, __ATOMIC_RELEASE); /* pairs with agent_handlers_wait() */
}

/* The stack that an address is on, also if the thread has had no event there.  Its current stack stays current. */
static const struct probe_stack *stack_of(struct probe_thread *thread, uint64_t address)
{
	struct probe_stack *before = thread->stack, *stack = probe_stack_find(thread, address);

	if (stack)
		return stack;
	stack = probe_stack_settle(thread, address);
	if (stack && before != &probe_stack_none && before != thread->stack)
		probe_stack_switch(thread, before);
	return stack;
}

/* True if the call at `there` whose handlers ran was left: the thread is farther up on the same stack now. */
static bool was_left(struct probe_thread *thread, uint64_t there, uint64_t sp)
{
	const struct probe_stack *stack = there < sp ? stack_of(thread, sp) : NULL;

	return stack && there >= stack->lowest;
}

/* Mark the thread as one that runs this call's handlers.  False: it runs another call's, or may not record. */
static bool begin(struct probe_thread *thread, struct probe_handled *handled)
{
	uint64_t running = (uint64_t)thread->running;

	if (!probe_can_record(thread))
		return false;
	/* The fast path may have begun it. */
	if (running && running != (uint64_t)handled && !was_left(thread, running, slot_of(handled)))
		return false;
	handled->slot = 0;
	/* The fast path may have counted this run already: to count it twice does no harm. */
	__atomic_store_n(&thread->runs, thread->runs + 1, __ATOMIC_RELAXED);
	__atomic_store_n(&thread->running, handled, __ATOMIC_RELEASE);
	/* agent/handlers.c has the barrier: it sees the mark, or this thread looks up what is there after a change. */
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	return true;
}

static void end(struct probe_handled *handled)
{
	if (probe_self()->running == handled)
		end_running(probe_self());
}

/* Bytes to save the vector registers in, if a handler that is to be called uses them; else 0. */
static uint64_t area_for(struct probe_handled *handled)
{
	if (!has_vectors(handled->left | handled->tail))
		return 0;
	handled->how |= PROBE_HANDLED_VECTORS;
	return table_now()->area;
}

static bool is_tail_call(uint64_t slot, uint64_t back)
{
	const struct probe_region *region;

	if (!probe_mirror_is_covered(slot) || !probe_handled_is_covered(slot) || !*arch_mirror(slot))
		return false;
	region = probe_region_of(back);
	return region && arch_stub_is_handled(back, region->lo);
}

/* Where the function will return to, which a tail call has in the mirror. */
static uint64_t caller_of(uint64_t slot, uint64_t back)
{
	return is_tail_call(slot, back) ? *arch_mirror(slot) : back;
}

bool probe_handled_waits(uint64_t slot, uint64_t back)
{
	return is_tail_call(slot, back) && (uint32_t)*arch_who(slot) & ~(uint32_t)HW_SESSION;
}

/* If the function was tail-called, its caller's frame ends here: take over that frame's exit handlers and data. */
static void take_tail(struct probe_handled *handled)
{
	uint64_t slot = slot_of(handled), back = *return_of(handled), within;

	if (!is_tail_call(slot, back))
		return;
	within = *arch_who(slot);
	handled->tail = (uint32_t)within & ~(uint32_t)HW_SESSION;
	handled->tail_generation = (uint32_t)(within >> 32);
	handled->tail_word = arch_stub_word(back);
	handled->call.data = *arch_data(slot);
	*arch_who(slot) = within & ~(uint64_t)handled->tail;
}

uint64_t probe_handled_enter(struct probe_handled *handled, uint32_t how)
{
	struct probe_thread *thread = probe_self();
	uint32_t who, id;
	bool begun;

	handled->how = how;
	handled->tail = handled->left = handled->tail_word = 0;
	handled->call.data = 0;
	id = frames_id(word_of(handled));
	begun = begin(thread, handled);
	who = who_of(id);
	handled->wants = who;
	handled->generation = __atomic_load_n(&table_now()->handlers->generation, __ATOMIC_RELAXED);
	if (!begun) {
		handled->wants &= HW_SESSION;
		count_missed(who);
		return 0;
	}
	handled->left = who & ~(uint32_t)HW_SESSION;
	if (how == PROBE_HANDLED_ENTRY)
		take_tail(handled);
	return area_for(handled);
}

static void fill(struct probe_handled *handled, const struct calltap_handler *slot, uint32_t word, uint32_t flags)
{
	uint64_t frame = slot_of(handled);
	uint64_t caller = flags & CALLTAP_CALL_TAIL ? *arch_mirror(frame) : *return_of(handled);
	bool shown = handled->how & PROBE_HANDLED_VECTORS && !(slot->flags & CALLTAP_HANDLER_GENERAL_REGS);

	handled->call.function = address_of(frames_id(word));
	handled->call.caller = caller;
	handled->call.stack = arch_entry_sp(frame);
	handled->call.id = frames_id(word);
	handled->call.flags = flags;
	handled->call.vectors = shown ? arch_vectors_shown(handled->area) : NULL;
	arch_registers_show(&handled->call.registers, caller);
}

static void call_entry(struct probe_handled *handled, unsigned i, uint32_t word)
{
	struct calltap_handler *slot = slot_at(i);
	uint64_t entry = __atomic_load_n(&slot->entry, __ATOMIC_RELAXED), data = handled->call.data;

	if (!entry)
		return;
	fill(handled, slot, word, 0);
	__atomic_store_n(&handled->slot, (uint64_t)slot, __ATOMIC_RELAXED);
	if (((int (*)(struct calltap_call *, void *))entry)(&handled->call, (void *)slot->context))
		handled->wants &= ~bit_of(i);
	__atomic_store_n(&handled->slot, 0, __ATOMIC_RELAXED);
	if (!(slot->flags & CALLTAP_HANDLER_DATA))
		handled->call.data = data; /* the data is another handler's */
}

static void call_exit(struct probe_handled *handled, unsigned i, uint32_t word, uint32_t generation, uint32_t flags)
{
	struct calltap_handler *slot = slot_at(i);
	uint64_t exit = __atomic_load_n(&slot->exit, __ATOMIC_RELAXED), data = handled->call.data;

	/* The slot's handler was registered after the call was entered; the one that saw the entry is gone. */
	if (!exit || (int32_t)(generation - (uint32_t)slot->born) < 0)
		return;
	fill(handled, slot, word, CALLTAP_CALL_EXIT | flags);
	__atomic_store_n(&handled->slot, (uint64_t)slot, __ATOMIC_RELAXED);
	((void (*)(struct calltap_call *, void *))exit)(&handled->call, (void *)slot->context);
	__atomic_store_n(&handled->slot, 0, __ATOMIC_RELAXED);
	handled->call.data = data;
}

/* Take the first handler out of bits, before it is called: a fault goes on with the next.  CALLTAP_HANDLERS_MAX = none.
 */
static unsigned take(uint32_t *bits)
{
	unsigned i = 0;

	if (!(*bits & ~(uint32_t)HW_SESSION))
		return CALLTAP_HANDLERS_MAX;
	while (!(*bits & bit_of(i)))
		i++;
	__atomic_store_n(bits, *bits & ~bit_of(i), __ATOMIC_RELAXED);
	return i;
}

void probe_handled_run(struct probe_handled *handled)
{
	uint32_t word = is_exit(handled) ? handled->tail_word : word_of(handled);
	unsigned i;

	if (!is_exit(handled)) {
		while ((i = take(&handled->tail)) < CALLTAP_HANDLERS_MAX)
			call_exit(handled, i, handled->tail_word, handled->tail_generation, CALLTAP_CALL_TAIL);
		/* The caller's data ends here; the function's own begins with 0, also when an exit handler has faulted.
		 */
		if (handled->tail_word) {
			handled->tail_word = 0;
			handled->call.data = 0;
		}
	}
	while ((i = take(&handled->left)) < CALLTAP_HANDLERS_MAX) {
		if (is_exit(handled))
			call_exit(handled, i, word, handled->generation, 0);
		else
			call_entry(handled, i, word);
	}
}

/* Call the recorder that the function's stub would call without handlers. */
static int record_entry(uint32_t who, uint64_t slot, uint32_t word, const uint64_t *ret)
{
	if (who & CALLTAP_HANDLED_NOTREE)
		return probe_graph_entry_notree(slot, word, ret);
	if (who & CALLTAP_HANDLED_ROOT)
		return probe_graph_entry_root(slot, word, ret);
	return who & CALLTAP_HANDLED_FULL_ENTRY ? probe_graph_entry_full(slot, word, ret)
						: probe_graph_entry_in_c(slot, word, ret);
}

static void record_exit(uint32_t who, uint64_t slot, uint32_t word, uint64_t *ret)
{
	const uint32_t full = CALLTAP_HANDLED_ROOT | CALLTAP_HANDLED_FULL_ENTRY | CALLTAP_HANDLED_FULL_EXIT;

	if (!(who & CALLTAP_HANDLED_RECORD) || who & CALLTAP_HANDLED_NOTREE)
		probe_graph_exit_notree(slot, word, ret);
	else if (who & full)
		probe_trigger_exit_full(slot, word, ret);
	else
		probe_trigger_exit(slot, word, ret);
}

/* A frame of its own: a run takes room on the stack, which calls without values do not need. */
static __attribute__((noinline)) int record_entry_with_values(struct probe_handled *handled, uint64_t slot,
							      uint32_t word, const uint64_t *ret)
{
	const struct probe_call_state call = {
		&handled->call.registers, slot,	 caller_of(slot, *ret),
		frames_id(word),	  false, probe_frame_of(&handled->call.registers)};
	struct probe_run run;
	enum calltap_verdict verdict = probe_program_run(&run, &call);
	int refused = 1;

	/* Nothing is left to do for the session at the return but to open the gate. */
	if (verdict == CALLTAP_VERDICT_HIDE)
		handled->wants = (handled->wants & ~(uint32_t)HW_SESSION) | CALLTAP_HANDLED_NOTREE;
	/* Nor here but to run the return's program, of a frame that is hidden: probe_handled_entered() makes it. */
	if (verdict == CALLTAP_VERDICT_AWAIT)
		handled->wants = (handled->wants & ~(uint32_t)HW_SESSION) | CALLTAP_HANDLED_VALUES;
	else if (verdict != CALLTAP_VERDICT_LEAVE_OUT)
		refused = record_entry(handled->wants, slot, word, ret);
	if (!refused && !(*arch_link(slot) & FRAME_UNRECORDED)) {
		probe_program_record_call(probe_self(), &run);
		probe_trigger_told(slot, call.id, run.told, false);
	}
	/* The word that handlers may have for a call. */
	if (run.keeps && !(handled->wants & ~(uint32_t)HW_SESSION))
		handled->call.data = run.kept;
	return refused;
}

/*
 * Frames farther in, which were left without a return, end in the trace before the values of this one's return.  True:
 * the call's records were taken back.
 */
static __attribute__((noinline)) bool record_exit_values(const struct probe_handled *handled, uint64_t slot)
{
	struct probe_thread *thread = probe_self();
	struct probe_stack *stack;
	struct probe_run run;
	const struct probe_call_state call = {&handled->call.registers,	     slot, *arch_mirror(slot),
					      frames_id(handled->tail_word), true, 0};
	bool awaited = !(handled->wants & CALLTAP_HANDLED_RECORD);
	enum calltap_verdict verdict;

	if (!probe_can_record(thread) || (*arch_link(slot) & FRAME_UNRECORDED && !awaited))
		return false;
	/* The word of what was kept may be a handler's (below). */
	if (awaited && handled->wants & ~(uint32_t)HW_SESSION && probe_program_takes(call.id))
		return false;
	verdict = probe_program_run(&run, &call);
	if (awaited) /* the program has counted: its call is not recorded */
		return false;
	probe_trigger_told(slot, call.id, run.told, true);
	/* Where handlers have the word in which what was kept would be, nobody knows the verdict. */
	if (handled->wants & ~(uint32_t)HW_SESSION && probe_program_takes(call.id))
		verdict = CALLTAP_VERDICT_RECORD;
	stack = run.type || verdict != CALLTAP_VERDICT_RECORD ? probe_stack_settle(thread, slot) : NULL;
	if (!stack)
		return false;
	frames_settle(thread, stack, slot, true);
	if (verdict != CALLTAP_VERDICT_RECORD)
		return probe_verdict_tell(thread, &run, call.id, verdict);
	probe_program_record(thread, &run);
	return false;
}

/* What a call is made with, behind its CALL: no return is waited for. */
static __attribute__((noinline)) void record_call_values(const struct probe_handled *handled, uint64_t slot,
							 uint32_t word, uint64_t caller)
{
	const struct probe_call_state call = {
		&handled->call.registers, slot,	 caller,
		frames_id(word),	  false, probe_frame_of(&handled->call.registers)};
	struct probe_thread *thread = probe_self();
	struct probe_run run;

	if (probe_can_record(thread) && probe_program_run(&run, &call) == CALLTAP_VERDICT_RECORD)
		probe_program_record_call(thread, &run);
}

/* The record of the tracer function. */
static void record_call(struct probe_handled *handled, uint64_t slot, uint32_t word)
{
	uint64_t caller = caller_of(slot, *return_of(handled));

	probe_call(caller, word);
	if (handled->wants & CALLTAP_HANDLED_VALUES)
		record_call_values(handled, slot, word, caller);
	handled->wants &= ~(CALLTAP_HANDLED_CALL | CALLTAP_HANDLED_VALUES);
}

int probe_handled_entered(struct probe_handled *handled)
{
	uint32_t word = probe_instances_word(word_of(handled), handled->wants);
	uint64_t slot = slot_of(handled);
	int refused = 1;

	if (handled->wants & CALLTAP_HANDLED_CALL)
		record_call(handled, slot, word);
	if ((handled->how & ~PROBE_HANDLED_VECTORS) == PROBE_HANDLED_CALL) {
		if (handled->wants & CALLTAP_HANDLED_INSTANCES && probe_can_record(probe_self()))
			probe_instances_call(probe_self(), word, caller_of(slot, *return_of(handled)));
		else if (handled->wants & CALLTAP_HANDLED_INSTANCES)
			probe_instances_missed(word);
		end(handled);
		return 0;
	}
	/* The stub was there before the table: no handler waits for the call. */
	if (!__atomic_load_n(&probe_context.handled, __ATOMIC_ACQUIRE)) {
		end(handled);
		return 1;
	}
	if (handled->wants & CALLTAP_HANDLED_RECORD)
		refused = handled->wants & CALLTAP_HANDLED_VALUES
				  ? record_entry_with_values(handled, slot, word, return_of(handled))
				  : record_entry(handled->wants, slot, word, return_of(handled));
	if (refused) {
		/* VALUES alone: the return's program is waited for. */
		handled->wants &=
			~(uint32_t)HW_SESSION | (handled->wants & CALLTAP_HANDLED_RECORD ? 0 : CALLTAP_HANDLED_VALUES);
		refused = probe_graph_entry_hidden(slot, word, return_of(handled));
		if (refused && handled->wants & CALLTAP_HANDLED_VALUES)
			probe_count_untraced(0);
	}
	if (!refused) {
		/* The call's exit comes by the dispatcher if anybody waits for it. */
		handled->wants = (handled->wants & ~CALLTAP_HANDLED_INSTANCES) | probe_instances_who(*arch_link(slot)) |
				 probe_trigger_who(frames_id(word));
		*arch_data(slot) = handled->call.data;
		*arch_who(slot) = (uint64_t)handled->generation << 32 | handled->wants;
	}
	end(handled);
	return refused;
}

uint64_t probe_handled_leave(struct probe_handled *handled, uint32_t how)
{
	uint64_t slot, within;
	uint32_t who;
	bool begun;

	handled->how = how;
	slot = slot_of(handled);
	within = *arch_who(slot);
	handled->tail = handled->left = 0;
	handled->tail_word = word_of(handled); /* what follows may put the caller's address there */
	handled->wants = (uint32_t)within;
	handled->generation = (uint32_t)(within >> 32);
	handled->call.data = *arch_data(slot);
	begun = handled->wants & ~(uint32_t)HW_SESSION && begin(probe_self(), handled);
	who = handled->wants;
	if (who & CALLTAP_HANDLED_VALUES && record_exit_values(handled, slot))
		who &= ~CALLTAP_HANDLED_RECORD;
	record_exit(who, slot, handled->tail_word, return_of(handled));
	if (begun)
		handled->left = handled->wants & ~(uint32_t)HW_SESSION;
	else
		count_missed(handled->wants);
	return area_for(handled);
}

int probe_handled_left(struct probe_handled *handled)
{
	end(handled);
	return 0;
}

void probe_handled_jump(uint64_t sp)
{
	struct probe_thread *thread = probe_self();
	uint64_t running = (uint64_t)thread->running;
	const struct probe_stack *stack;

	if (!running || !probe_can_record(thread))
		return;
	stack = stack_of(thread, running);
	/* The thread goes farther up on the handler's stack; or leaves a signal stack, whose signal handler is over. */
	if (was_left(thread, running, sp) || (stack && stack->kind & STACK_SIGNAL && stack_of(thread, sp) != stack))
		end_running(thread);
}

int probe_handled_unwound(int version, int actions, uint64_t exception_class, void *exception, void *context)
{
	(void)version;
	(void)exception_class;
	(void)exception;
	(void)context;
	if (actions & UNWIND_CLEANUP && probe_self()->running)
		end_running(probe_self());
	return UNWIND_CONTINUE;
}

/* True if *handled is still a call whose handler runs.  A call that was left unnoticed may be overwritten. */
static bool is_whole(const struct probe_handled *handled)
{
	uint64_t slots = (uint64_t)table_now()->handlers->slots, slot = handled->slot - slots;

	return slot < sizeof(table_now()->handlers->slots) && slot % sizeof(struct calltap_handler) == 0 &&
	       handled->call.stack == arch_entry_sp(slot_of(handled));
}

struct probe_handled *probe_handled_faulted(uint64_t sp)
{
	struct probe_handled *handled = probe_self()->running;

	if (!handled || sp >= (uint64_t)handled || (uint64_t)handled - sp > FAULT_REACH)
		return NULL;
	/* The fast path leaves most fields unset, and keeps `how` in the low bits of `slot`. */
	if (handled->slot & SLOT_FAST) {
		handled->how = handled->slot & (SLOT_FAST - 1);
		handled->slot &= ~(uint64_t)7;
		handled->left = handled->tail = handled->tail_word = 0;
		handled->wants = handled->generation = 0;
		handled->call.data = 0;
	}
	return is_whole(handled) ? handled : NULL;
}

void probe_handled_disable(struct probe_handled *handled, uint32_t signal, uint64_t pc, uint64_t address)
{
	struct calltap_handler *slot = (struct calltap_handler *)handled->slot;

	handled->wants &= ~bit_of((unsigned)(slot - table_now()->handlers->slots));
	handled->slot = 0;
	__atomic_store_n(&slot->entry, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&slot->exit, 0, __ATOMIC_RELAXED);
	slot->fault_pc = pc;
	slot->fault_address = address;
	__atomic_store_n(&slot->fault, signal, __ATOMIC_RELEASE); /* pairs with calltap_ops_status() and shim.c */
}
