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
#include <probe/run.h>
#include <probe/thread.h>

#define PAGE_MASK (~((uint64_t)CALLTAP_PAGE - 1))

const struct probe_programs *probe_programs;
static uint32_t blind; /* 1: no system call reads memory */

void probe_program_set(const struct probe_programs *next)
{
	__atomic_store_n(&probe_programs, next, __ATOMIC_RELEASE); /* pairs with run.h */
}

void probe_program_blind(bool is)
{
	__atomic_store_n(&blind, is, __ATOMIC_SEQ_CST); /* pairs with copy_by_call() */
}

/* How many bytes from address on are constants. */
static uint64_t constants_at(uint64_t address)
{
	const struct probe_programs *all =
		__atomic_load_n(&probe_programs, __ATOMIC_ACQUIRE); /* with probe_program_set() */
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
	const struct probe_programs *all =
		__atomic_load_n(&probe_programs, __ATOMIC_ACQUIRE); /* with probe_program_set() */
	uint64_t signals;
	bool done;

	if (leads_nowhere(from, size) || !all || all->no_copies)
		return false;
	if (!probe_calls_begin(&signals))
		return false;
	/* Sequentially consistent: this thread sees the store, or the storing thread waits for this one's call. */
	done = !__atomic_load_n(&blind, __ATOMIC_SEQ_CST) && sys_copy_in(to, from, size);
	probe_calls_end(&signals);
	return done;
}

bool probe_program_copy(void *to, uint64_t from, uint64_t size)
{
	if (readable_at(from) < size)
		return copy_by_call(to, from, size);
	memcpy(to, (const void *)from, size);
	return true;
}

static uint64_t help_read(void *to, uint64_t size, uint64_t from)
{
	if (probe_program_copy(to, from, size))
		return 0;
	memset(to, 0, size);
	return (uint64_t)-EFAULT;
}

/*
 * The place of the first byte that is 0 among the 8 of a word, or 8.  The sum has a byte's highest bit set where the
 * byte was 0; a carry may set those of bytes behind the first such one, and no bit in front of it.  Times 2^(8 N) byte
 * N from the top of the other factor comes to the top: RISC-V has no instruction that counts bits.
 */
static uint64_t first_zero(uint64_t word)
{
	uint64_t zeros = (word - UINT64_C(0x0101010101010101)) & ~word & UINT64_C(0x8080808080808080);

	return zeros ? ((zeros & -zeros) >> 7) * UINT64_C(0x0001020304050607) >> 56 : 8;
}

/*
 * Copy a text up to its NUL, or all of it; returns its length.  `to` has room for all.  Each byte is read once: so the
 * length is that of the copy, also of a text that another thread changes.
 */
static uint64_t copy_until_nul(unsigned char *to, const unsigned char *from, uint64_t size)
{
	uint64_t at = 0;

	while (at + 8 <= size) {
		uint64_t word, length;

		__builtin_memcpy(&word, from + at, sizeof(word));
		__builtin_memcpy(to + at, &word, sizeof(word));
		length = first_zero(word);
		if (length < 8)
			return at + length;
		at += 8;
	}
	for (; at < size; at++) {
		to[at] = from[at];
		if (!to[at])
			break;
	}
	return at;
}

/* Copy a piece of a text that ends in its page; *length: up to its NUL, or all of it. */
static bool copy_piece(unsigned char *to, uint64_t from, uint64_t size, uint64_t *length)
{
	bool at_once = readable_at(from) >= size;

	if (!at_once && !copy_by_call(to, from, size))
		return false;
	*length = copy_until_nul(to, at_once ? (const void *)from : to, size);
	return true;
}

static bool ends_at(uint64_t address)
{
	unsigned char next;

	return probe_program_copy(&next, address, 1) && !next;
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
	if (got == most && !ends_at(address + got))
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

/* Copy bytes, at most so many, up to the first page that is not there; *flags: CALLTAP_PLACE_*.  Returns their number.
 */
static uint64_t copy_bytes(unsigned char *to, uint64_t address, uint64_t size, uint64_t *flags)
{
	uint64_t got = 0;

	*flags = 0;
	while (got < size) {
		uint64_t page = CALLTAP_PAGE - (address + got) % CALLTAP_PAGE, piece = size - got;

		piece = piece < page ? piece : page;
		if (!probe_program_copy(to + got, address + got, piece)) {
			*flags = CALLTAP_PLACE_FAULT;
			break;
		}
		got += piece;
	}
	return got;
}

/* helper BYTES; `context` is the first member of a run. */
static uint64_t help_bytes(struct calltap_program_context *context, uint64_t address, uint64_t size, uint64_t most,
			   uint64_t of)
{
	struct probe_run *run = (struct probe_run *)context;
	uint64_t room = CALLTAP_PROGRAM_BYTES - run->used, at = run->used, got, flags;

	if (!of)
		return at | (uint64_t)CALLTAP_PLACE_NULL << 16;
	if (size >> ARCH_ADDRESS_BITS || (size && leads_nowhere(address, size)))
		return at | (uint64_t)CALLTAP_PLACE_FAULT << 16;
	most = most < CALLTAP_PROGRAM_TEXT ? most : CALLTAP_PROGRAM_TEXT;
	if (size > most || size > room) {
		if (room < sizeof(size))
			return at | (uint64_t)CALLTAP_PLACE_CUT << 16;
		room -= sizeof(size);
		most = most < room ? most : room;
	}
	got = copy_bytes(run->bytes + at, address, size < most ? size : most, &flags);
	run->used = (uint32_t)(at + got);
	if (!flags && got < size) {
		flags = CALLTAP_PLACE_CUT;
		__builtin_memcpy(run->bytes + run->used, &size, sizeof(size));
		run->used += sizeof(size);
	}
	return at | (got | flags) << 16;
}

/*
 * Without texts the event is this alone: it becomes words at once, for each copy waits for the last one's stores, of
 * which it takes two at a time.
 */
static uint64_t help_write(struct calltap_program_context *context, const void *from, uint64_t size)
{
	struct probe_run *run = (struct probe_run *)context;

	if (size && size == run->used)
		run->count = run_pack(run->packed, from, (uint32_t)size);
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

static uint64_t help_match_bytes(uint64_t address, uint64_t size, const unsigned char *pattern, uint64_t pattern_size)
{
	unsigned char text[CALLTAP_PROGRAM_TEXT];
	uint64_t flags, length = copy_bytes(text, address, size < sizeof(text) ? size : sizeof(text), &flags);

	if (flags & CALLTAP_PLACE_FAULT)
		return (uint64_t)-EFAULT;
	return match_follows(text, length, pattern, pattern_size);
}

static uint64_t help_keep(struct calltap_program_context *context, uint64_t number)
{
	struct probe_run *run = (struct probe_run *)context;

	run->keeps = true;
	run->kept = number;
	return 0;
}

static uint64_t help_tell(struct calltap_program_context *context, uint64_t number)
{
	struct probe_run *run = (struct probe_run *)context;

	run->told |= (uint32_t)1 << (number & 31);
	return 0;
}

/* VECTOR is the agent's (agent/programs.c): this room touches no vector register. */
const uint64_t probe_program_helpers[CALLTAP_HELPERS] = {
	[CALLTAP_HELPER_READ] = (uint64_t)help_read,   [CALLTAP_HELPER_TEXT] = (uint64_t)help_text,
	[CALLTAP_HELPER_WRITE] = (uint64_t)help_write, [CALLTAP_HELPER_MATCH] = (uint64_t)help_match,
	[CALLTAP_HELPER_BYTES] = (uint64_t)help_bytes, [CALLTAP_HELPER_MATCH_BYTES] = (uint64_t)help_match_bytes,
	[CALLTAP_HELPER_TELL] = (uint64_t)help_tell,   [CALLTAP_HELPER_KEEP] = (uint64_t)help_keep,
};

enum calltap_verdict probe_program_run(struct probe_run *run, const struct probe_call_state *call)
{
	const struct probe_programs *all = run_programs();

	return run_program(run, call, all,
			   run_find(all, call->exit ? run_row(all, call->id).exit : run_row(all, call->id).entry));
}

uint32_t probe_program_type(uint32_t id)
{
	const struct probe_programs *all = run_programs();
	const struct calltap_program *program = run_find(all, run_row(all, id).entry);

	return program ? program->type : 0;
}

bool probe_program_takes(uint32_t id)
{
	const struct probe_programs *all = run_programs();
	const struct calltap_program *program = run_find(all, run_row(all, id).exit);

	return program && program->flags & CALLTAP_PROGRAM_KEPT;
}

void probe_program_record_call(struct probe_thread *thread, const struct probe_run *run)
{
	struct ring_writer *writer = thread->writer;

	if (!writer->lost || !run->type) {
		probe_program_record(thread, run);
		return;
	}
	/* The last record is lost, which is the ENTRY. */
	arch_local_count(&writer->lost, 1);
	if (writer->ring)
		arch_local_count(&writer->ring->lost, 1);
}

void probe_program_record(struct probe_thread *thread, const struct probe_run *run)
{
	if (run->type)
		(void)probe_event(thread, 0, run->type, run->words, run->count); /* a loss is counted there */
}
