/*
 * Running programs, and their helpers (program.h).
 *
 * Called by handlers.c on the program's thread.  Context: probe, slow path: helpers may make a system call.
 *
 * How an address is read that may be anything: what is surely mapped is read at once, which is the page of the call's
 * slot, the rest of a stack whose end is known for sure, and constants of objects that stay.  All else is copied by the
 * kernel, which says when it cannot. Nobody looks first and reads then: another thread may unmap it in between.
 */
#include <asm/errno.h>

#include <base/mem.h>
#include <base/sys.h>
#include <probe/match.h>
#include <probe/program.h>
#include <probe/thread.h>

#define PAGE_MASK (~((uint64_t)CALLTAP_PAGE - 1))

static const struct probe_programs *programs;
static uint32_t blind; /* 1: no system call reads memory */

void probe_program_set(const struct probe_programs *next)
{
	__atomic_store_n(&programs, next, __ATOMIC_RELEASE); /* pairs with probe_program_run() */
}

void probe_program_blind(bool is)
{
	__atomic_store_n(&blind, is, __ATOMIC_SEQ_CST); /* pairs with copy_by_call() */
}

/* How many bytes from address on are constants. */
static uint64_t constants_at(uint64_t address)
{
	const struct probe_programs *all = __atomic_load_n(&programs, __ATOMIC_ACQUIRE); /* with probe_program_set() */
	const struct probe_constants *constants = all ? all->constants : NULL;
	uint32_t lo = 0, hi = constants ? constants->count : 0;

	while (lo < hi) {
		uint32_t middle = (lo + hi) / 2;

		if (constants->list[middle].lo <= address)
			lo = middle + 1;
		else
			hi = middle;
	}
	return lo && address < constants->list[lo - 1].hi ? constants->list[lo - 1].hi - address : 0;
}

/* How many bytes from address on are surely mapped: of the stack that the thread is on, or constants. */
static uint64_t readable_at(uint64_t address)
{
	const struct probe_stack *stack = probe_self()->stack;
	uint64_t here = (uint64_t)__builtin_frame_address(0), end = (here & PAGE_MASK) + CALLTAP_PAGE;

	/* The ends of other stacks are guesses. */
	if (stack->kind & (STACK_EXACT | STACK_MAIN) && here >= stack->lowest && here < stack->end)
		end = stack->end;
	return address >= here && address < end ? end - address : constants_at(address);
}

/* Small numbers, NULL among them, and what no user address can be: no call is made for these. */
static bool leads_nowhere(uint64_t address, uint64_t size)
{
	return address < CALLTAP_PAGE || address >> ARCH_ADDRESS_BITS || (address + size) >> ARCH_ADDRESS_BITS;
}

/* Copy the program's memory by a system call; false: not all of it is there. */
static bool copy_by_call(void *to, uint64_t from, uint64_t size)
{
	uint64_t signals;
	bool done;

	if (leads_nowhere(from, size))
		return false;
	if (!probe_calls_begin(&signals))
		return false;
	/* Sequentially consistent: this thread sees the store, or the storing thread waits for this one's call. */
	done = !__atomic_load_n(&blind, __ATOMIC_SEQ_CST) && sys_copy_in(to, from, size);
	probe_calls_end(&signals);
	return done;
}

static bool copy(void *to, uint64_t from, uint64_t size)
{
	if (readable_at(from) < size)
		return copy_by_call(to, from, size);
	memcpy(to, (const void *)from, size);
	return true;
}

static uint64_t help_read(void *to, uint64_t size, uint64_t from)
{
	if (copy(to, from, size))
		return 0;
	memset(to, 0, size);
	return (uint64_t)-EFAULT;
}

static uint64_t length_of(const unsigned char *text, uint64_t most)
{
	uint64_t length = 0;

	while (length < most && text[length])
		length++;
	return length;
}

/* Copy a piece of a text that ends in its page; *length: up to its NUL, or all of it. */
static bool copy_piece(unsigned char *to, uint64_t from, uint64_t size, uint64_t *length)
{
	if (!copy(to, from, size))
		return false;
	*length = length_of(to, size);
	return true;
}

/* Copy a text without its NUL, and at most so many bytes; *flags: CALLTAP_PLACE_*.  Returns its length. */
static uint64_t copy_text(unsigned char *to, uint64_t address, uint64_t most, uint64_t *flags)
{
	uint64_t got = 0;

	*flags = 0;
	while (got < most) {
		uint64_t page = CALLTAP_PAGE - (address + got) % CALLTAP_PAGE, size = most - got, length;

		size = size < page ? size : page;
		if (!copy_piece(to + got, address + got, size, &length)) {
			*flags = CALLTAP_PLACE_FAULT;
			break;
		}
		got += length;
		if (length < size)
			break;
	}
	/* Whether a text of just so many bytes goes on is not looked up. */
	if (got == most)
		*flags = CALLTAP_PLACE_CUT;
	return got;
}

/* helper TEXT; `context` is the first member of a run. */
static uint64_t help_text(struct calltap_program_context *context, uint64_t address, uint64_t most)
{
	struct probe_run *run = (struct probe_run *)context;
	uint64_t room = CALLTAP_PROGRAM_BYTES - run->used, at = run->used, got, flags;

	most = most < CALLTAP_PROGRAM_TEXT ? most : CALLTAP_PROGRAM_TEXT;
	most = most < room ? most : room;
	got = copy_text(run->bytes + at, address, most, &flags);
	if (!address)
		flags = CALLTAP_PLACE_NULL;
	run->used = (uint32_t)(at + got);
	return at | (got | flags) << 16;
}

/*
 * Make the words of an event of its bytes: from the end, for in place a word takes more room than its bytes.  Up to 7
 * bytes behind the last one are read, and are of no meaning.
 */
static uint32_t pack(uint64_t *words, const unsigned char *bytes, uint32_t used)
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

/*
 * Without texts the event is this alone: it becomes words at once, for each copy waits for the last one's stores, of
 * which it takes two at a time.
 */
static uint64_t help_write(struct calltap_program_context *context, const void *from, uint64_t size)
{
	struct probe_run *run = (struct probe_run *)context;

	if (size && size == run->used)
		run->count = pack(run->words, from, (uint32_t)size);
	else if (size < run->used)
		memcpy(run->bytes, from, size);
	return 0;
}

static uint64_t help_match(uint64_t address, const unsigned char *pattern, uint64_t size)
{
	unsigned char text[CALLTAP_PROGRAM_TEXT];
	uint64_t flags, length = copy_text(text, address, sizeof(text), &flags);

	if (flags & CALLTAP_PLACE_FAULT)
		return (uint64_t)-EFAULT;
	return match_follows(text, length, pattern, size);
}

/* VECTOR is the agent's (agent/programs.c): this room touches no vector register. */
const uint64_t probe_program_helpers[CALLTAP_HELPERS] = {
	[CALLTAP_HELPER_READ] = (uint64_t)help_read,
	[CALLTAP_HELPER_TEXT] = (uint64_t)help_text,
	[CALLTAP_HELPER_WRITE] = (uint64_t)help_write,
	[CALLTAP_HELPER_MATCH] = (uint64_t)help_match,
};

/* The tool shares the tables: what they say is looked at once, and checked. */
static const struct calltap_program *program_of(const struct probe_programs *all, uint32_t id, bool exit)
{
	const struct calltap_program *program;
	uint16_t number;

	if (!all || id >= CALLTAP_HANDLED_MAX)
		return NULL;
	number = __atomic_load_n(exit ? &all->rows[id].exit : &all->rows[id].entry,
				 __ATOMIC_ACQUIRE); /* with the tool */
	program = &all->list[number];
	return number && program->code < CALLTAP_PROGRAM_UNWIND && program->fixed <= CALLTAP_PROGRAM_BYTES ? program
													   : NULL;
}

static void fill_context(struct calltap_program_context *context, const struct probe_call_state *call)
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

enum calltap_verdict probe_program_run(struct probe_run *run, const struct probe_call_state *call)
{
	const struct probe_programs *all = __atomic_load_n(&programs, __ATOMIC_ACQUIRE); /* with probe_program_set() */
	const struct calltap_program *program = program_of(all, call->id, call->exit);
	uint64_t verdict;

	run->type = 0;
	if (!program)
		return CALLTAP_VERDICT_RECORD;
	fill_context(&run->context, call);
	run->used = program->fixed;
	run->type = program->type;
	run->count = 0;
	verdict = arch_program_call(&run->context, all->code + program->code);
	if (verdict != CALLTAP_VERDICT_LEAVE_OUT && verdict != CALLTAP_VERDICT_HIDE)
		verdict = CALLTAP_VERDICT_RECORD;
	if (run->type && !run->count && verdict == CALLTAP_VERDICT_RECORD)
		run->count = pack(run->words, run->bytes, run->used);
	return (enum calltap_verdict)verdict;
}

static inline void put_event(uint64_t *slot, const struct probe_run *run, uint64_t now)
{
	ring_put_all(slot,
		     calltap_record_make(CALLTAP_REC_EVENT, calltap_event_id(run->type, 1 + run->count), (uint32_t)now),
		     run->words, run->count);
}

bool probe_program_put(const struct probe_thread *thread, const struct probe_run *run, uint64_t now)
{
	struct ring_writer *writer = thread->writer;
	uint64_t *slot = writer->time_hi == now >> 32 ? ring_take(writer, 1 + run->count) : NULL;

	if (slot)
		put_event(slot, run, now);
	return slot != NULL;
}

bool probe_program_put_entry(const struct probe_thread *thread, const struct probe_run *run, uint32_t id, uint64_t now)
{
	struct ring_writer *writer = thread->writer;
	uint64_t *slot = writer->time_hi == now >> 32 ? ring_take(writer, 2 + run->count) : NULL;

	if (!slot)
		return false;
	ring_put(slot, calltap_record_make(CALLTAP_REC_ENTRY, id, (uint32_t)now));
	put_event(slot + 1, run, now);
	return true;
}

bool probe_program_waits(uint32_t id)
{
	const struct probe_programs *all = __atomic_load_n(&programs, __ATOMIC_ACQUIRE); /* as above */

	return program_of(all, id, true) != NULL;
}

void probe_program_record(struct probe_thread *thread, const struct probe_run *run)
{
	if (run->type)
		(void)probe_event(thread, 0, run->type, run->words, run->count); /* a loss is counted there */
}
