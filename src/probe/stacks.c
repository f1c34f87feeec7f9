/*
 * The stacks that threads run on (stacks.h), found by where they end.
 *
 * Called by graph.c when a slot is not on the current stack for sure, and by
 * the functions that the agent stands in front of.  Context: probe, slow path
 * (mmap; signals blocked while a stack is noted).
 *
 * A stack is filed under the page that holds its last byte.  The stack of a
 * slot is the nearest one at or above it that can reach down to it.
 */
#include <linux/mman.h>

#include <base/sys.h>
#include <probe/space.h>
#include <probe/open.h>
#include <probe/stacks.h>
#include <probe/thread.h>

#define PAGE_BITS     12
#define GRANULE_PAGES (1u << (GRANULE_BITS - PAGE_BITS))
#define GRANULES_UP   64u /* how many granules above a slot are searched for its stack's end */

/* How far below a stack's innermost traced frame the next one may be, where the stack's size is not known. */
#define REACH_MAIN   ((uint64_t)64 << 20)
#define REACH_THREAD ((uint64_t)8 << 20)
#define REACH_FOUND  ((uint64_t)32 << 10)
#define RAISE_PAGES  2u /* how far above its first known slot a stack may turn out to begin */

#define THREAD_SIZE ((uint64_t)8 << 20) /* a thread starts on its own stack, no farther below its control block */

/* The stacks whose last byte is in one granule, by page. */
struct stack_ends {
	uint64_t used[GRANULE_PAGES / 64];
	struct probe_stack at[GRANULE_PAGES];
};

static struct stack_ends *ends_of(uint64_t granule)
{
	struct space_leaf *leaf = space_leaf(granule);

	/* Acquire: pairs with the swap in ends_make(). */
	return leaf ? __atomic_load_n(&leaf->ends[space_index(granule)], __ATOMIC_ACQUIRE) : NULL;
}

static struct stack_ends *ends_make(uint64_t granule)
{
	struct stack_ends *ends = ends_of(granule), *none = NULL;
	struct space_leaf *leaf = space_leaf_make(granule);

	if (ends || !leaf)
		return ends;
	ends = sys_mmap(NULL, sizeof(*ends), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
			0);
	if (sys_failed((long)ends))
		return NULL;
	if (__atomic_compare_exchange_n(&leaf->ends[space_index(granule)], &none, ends, false, __ATOMIC_ACQ_REL,
					__ATOMIC_ACQUIRE))
		return ends;
	sys_munmap(ends, sizeof(*ends));
	return none;
}

void probe_stack_ends_empty(struct stack_ends *ends)
{
	/* Locked memory is not given back. */
	if (sys_failed(SYS(madvise, ends, sizeof(*ends), MADV_DONTNEED, 0, 0, 0)))
		__builtin_memset(ends, 0, sizeof(*ends));
}

static bool is_used(const struct stack_ends *ends, uint32_t page)
{
	return __atomic_load_n(&ends->used[page / 64], __ATOMIC_ACQUIRE) >> page % 64 & 1; /* pairs with mark() */
}

static void mark(struct stack_ends *ends, uint32_t page, bool used)
{
	uint64_t bit = (uint64_t)1 << page % 64;

	if (used)
		__atomic_or_fetch(&ends->used[page / 64], bit, __ATOMIC_RELEASE);
	else
		__atomic_and_fetch(&ends->used[page / 64], ~bit, __ATOMIC_RELEASE);
}

static uint64_t page_of(uint64_t address)
{
	return address >> PAGE_BITS;
}

/* The place of the lowest bit that is set; not every CPU has an instruction for it. */
static uint32_t lowest_bit(uint64_t bits)
{
	uint32_t at = 0;

	for (uint32_t width = 32; width; width /= 2)
		if (!(bits << (64 - width))) {
			bits >>= width;
			at += width;
		}
	return at;
}

/* The nearest stack filed in pages [*page, last]; *page becomes its page. */
static struct probe_stack *next_up(uint64_t *page, uint64_t last)
{
	for (uint64_t at = *page; at <= last;) {
		struct stack_ends *ends = ends_of(at / GRANULE_PAGES);
		uint32_t bit = at % 64;
		uint64_t bits;

		if (!ends) {
			at = (at / GRANULE_PAGES + 1) * GRANULE_PAGES;
			continue;
		}
		bits = __atomic_load_n(&ends->used[at % GRANULE_PAGES / 64], __ATOMIC_ACQUIRE) >> bit;
		if (!bits) {
			at += 64 - bit;
			continue;
		}
		at += lowest_bit(bits);
		if (at > last)
			break;
		*page = at;
		return &ends->at[at % GRANULE_PAGES];
	}
	return NULL;
}

static uint64_t reach_main(void)
{
	return REACH_MAIN < probe_context.main_stack_size ? REACH_MAIN : probe_context.main_stack_size;
}

static uint64_t reach_of(const struct probe_stack *stack)
{
	if (stack->kind & STACK_MAIN)
		return reach_main();
	return stack->kind & STACK_THREAD ? REACH_THREAD : REACH_FOUND;
}

static bool spans(const struct probe_stack *stack, uint64_t address)
{
	return address >= stack->lowest && address < stack->end;
}

static uint64_t page_end(uint64_t address)
{
	return (page_of(address) + 1) << PAGE_BITS;
}

/*
 * Where a thread's own stack is said to end: a page farther up, for a local array that is a signal stack may end in the
 * stack's last page.
 */
static uint64_t own_end(uint64_t address)
{
	return page_end(page_end(address));
}

/*
 * True if the stack is another thread's: a thread's own stack and a signal stack have one runner each.  Stacks of
 * threads that have ended stay filed.
 */
static bool is_anothers(const struct probe_thread *thread, const struct probe_stack *stack)
{
	if (stack->kind & STACK_SIGNAL)
		return stack != thread->signal;
	return (stack->kind & (STACK_THREAD | STACK_MAIN)) == STACK_THREAD &&
	       stack->end != own_end((uint64_t)__builtin_thread_pointer());
}

/* True if address can be on the stack, whose end is the next one above it. */
static bool holds(const struct probe_thread *thread, const struct probe_stack *stack, uint64_t address)
{
	if (address >= stack->end || is_anothers(thread, stack))
		return false;
	return address >= stack->lowest ||
	       (!(stack->kind & STACK_EXACT) && probe_stack_top(stack) - address < reach_of(stack));
}

/* The highest end of another stack at or below address, within reach of it; else that distance down. */
static uint64_t floor_below(uint64_t address, uint64_t reach)
{
	uint64_t bottom = address > reach ? address - reach : 0, floor = bottom, page = page_of(bottom);
	const struct probe_stack *stack;

	for (; (stack = next_up(&page, page_of(address))); page++)
		if (stack->end <= address && stack->end > floor)
			floor = stack->end;
	return floor;
}

/* The stack turns out to reach down to address. */
static void extend(struct probe_stack *stack, uint64_t address)
{
	stack->lowest = floor_below(address, reach_of(stack));
	if (!(stack->kind & STACK_ENDING))
		stack->low = stack->lowest;
}

struct probe_stack *probe_stack_find(struct probe_thread *thread, uint64_t address)
{
	uint64_t page = page_of(address), last = page + (uint64_t)GRANULES_UP * GRANULE_PAGES;
	struct probe_stack *stack = thread->stack;

	/* Not all that the stack spans: a signal stack may lie in a local array of its frames. */
	if (address >= stack->low && address <= probe_stack_top(stack) && address < stack->end)
		return stack;
	for (; (stack = next_up(&page, last)); page++)
		if (holds(thread, stack, address))
			return stack;
	return NULL;
}

/* The stack above `below` must not be taken to reach into it. */
static void fence(const struct probe_stack *below)
{
	uint64_t page = page_of(below->end - 1) + 1;
	struct probe_stack *stack = next_up(&page, page + GRANULE_PAGES);

	if (!stack || stack->kind & STACK_EXACT || stack->lowest >= below->end)
		return;
	stack->lowest = below->end;
	if (stack->low < below->end)
		stack->low = below->end;
}

/* File a stack that ends at end.  Signals are blocked. */
static struct probe_stack *file(struct probe_thread *thread, uint64_t lowest, uint64_t end, uint32_t kind)
{
	uint64_t page = page_of(end - 1);
	struct stack_ends *ends = ends_make(page / GRANULE_PAGES);
	struct probe_stack *stack;

	if (!ends)
		return NULL;
	stack = &ends->at[page % GRANULE_PAGES];
	/* Two stacks' ends in one page: the one that has frames stays. */
	if (is_used(ends, page % GRANULE_PAGES) && stack->end != end && !probe_stack_is_empty(stack) &&
	    !is_anothers(thread, stack))
		return NULL;
	stack->end = end;
	stack->kind = kind;
	stack->from = NULL;
	stack->lowest = lowest;
	stack->low = kind & STACK_SIGNAL ? ~(uint64_t)0 : lowest; /* the fast path is not for handlers */
	/* A signal handler's frames are from before the trace for a short time only. */
	stack->rest = probe_context.rises && !(kind & STACK_SIGNAL) ? 0 : end;
	probe_stack_set_top(stack, end);
	fence(stack);
	mark(ends, page % GRANULE_PAGES, true);
	return stack;
}

/* A stack was found by a slot in its middle, and a slot farther up is seen now: the stack goes on under the new end. */
static struct probe_stack *raise(struct probe_thread *thread, uint64_t slot, uint64_t end)
{
	uint64_t page = page_of(slot) - RAISE_PAGES;
	struct probe_stack *old = next_up(&page, page_of(slot)), *raised, kept;

	if (!old || old->kind || old->end > slot || slot - old->end >= RAISE_PAGES << PAGE_BITS)
		return NULL;
	kept = *old;
	probe_stack_set_top(old, old->end); /* otherwise no stack could be filed anew under the same page */
	mark(ends_of(page / GRANULE_PAGES), page % GRANULE_PAGES, false);
	raised = file(thread, kept.lowest, end, 0);
	if (!raised)
		return NULL;
	raised->from = kept.from;
	raised->rest = probe_context.rises ? kept.rest : end;
	raised->top = probe_stack_top(&kept) < kept.end ? kept.top : raised->rest;
	if (thread->stack == old)
		thread->stack = raised;
	return raised;
}

/* Note the stack of a slot that no known one holds.  Signals are blocked. */
static struct probe_stack *find_out(struct probe_thread *thread, uint64_t slot)
{
	uint64_t own = own_end((uint64_t)__builtin_thread_pointer()), main_end = own_end(probe_context.main_stack_end);
	uint64_t end = page_end(slot);
	struct probe_stack *stack;

	/* Below the initial thread's control block may lie anybody's stack. */
	if (__builtin_thread_pointer() == probe_context.main_thread) {
		if (slot < main_end && main_end - slot < probe_context.main_stack_size)
			return file(thread, floor_below(slot, reach_main()), main_end, STACK_THREAD | STACK_MAIN);
	} else if (slot < own && own - slot < THREAD_SIZE) {
		return file(thread, floor_below(slot, REACH_THREAD), own, STACK_THREAD);
	}
	stack = raise(thread, slot, end);
	return stack ? stack : file(thread, floor_below(slot, REACH_FOUND), end, 0);
}

/*
 * `rest` and `top` change together: a signal handler in between would find a frame that is none.  Where the RISE cannot
 * be recorded, the next entry there comes here again, since the fast path ends at `top`.  While there is no room each
 * call does, and none of these records is counted as lost.
 */
void probe_stack_rise(struct probe_thread *thread, struct probe_stack *stack, uint64_t slot)
{
	uint64_t signals;

	if (slot < stack->rest || slot >= stack->end || !probe_calls_begin(&signals))
		return;
	/* A signal handler that came until now may have told of a slot farther down, and has left no frame. */
	if (slot >= stack->rest && probe_has_room(thread) && probe_record(thread, CALLTAP_REC_RISE, 0, 2, slot)) {
		stack->rest = slot + sizeof(slot);
		probe_stack_set_top(stack, stack->end);
	}
	probe_calls_end(&signals);
}

/* Record that the thread is on the stack. */
static void name_stack(struct probe_thread *thread, struct probe_stack *stack)
{
	uint32_t losses;

	/* Again where the record is the first one behind a loss. */
	do {
		losses = thread->losses;
		probe_record(thread, CALLTAP_REC_STACK, probe_open_id(thread, stack), 2, stack->end - 1);
	} while (losses != thread->losses);
}

void probe_stack_switch(struct probe_thread *thread, struct probe_stack *stack)
{
	uint32_t switches;

	if (thread->stack == &probe_stack_none && stack->kind & STACK_THREAD) {
		/* The thread's first event: frames left on its stack belong to a thread that had the memory before. */
		probe_stack_set_top(stack, stack->end);
		stack->kind &= ~STACK_ENDING;
		stack->low = stack->lowest;
	}
	stack->from = thread->stack;
	/*
	 * A signal handler that comes before the store may switch, and goes back to the stack before: then record this
	 * one again.  A handler that comes after the store goes back to this one.
	 */
	switches = ++thread->switches;
	name_stack(thread, stack);
	thread->stack = stack;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	if (thread->switches != switches)
		name_stack(thread, stack);
}

void probe_stack_leave(struct probe_thread *thread, struct probe_stack *stack)
{
	struct probe_stack *back = stack->from;

	/* The store first: the next handler is still on the signal stack, and then switches to it again. */
	thread->switches++;
	thread->stack = back;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	/* A signal handler's events may be the thread's first: the next event names its stack. */
	if (back != &probe_stack_none)
		name_stack(thread, back);
}

struct probe_stack *probe_stack_settle(struct probe_thread *thread, uint64_t slot)
{
	struct probe_stack *stack = probe_stack_find(thread, slot);
	uint64_t signals;

	if (!stack) {
		if (!probe_calls_begin(&signals))
			return NULL;
		stack = find_out(thread, slot);
		probe_calls_end(&signals);
		if (!stack)
			return NULL;
	}
	if (!spans(stack, slot))
		extend(stack, slot);
	if (stack != thread->stack)
		probe_stack_switch(thread, stack);
	return stack;
}

void probe_stack_ends(struct probe_stack *stack)
{
	struct calltap_ring *ring = probe_self()->writer->ring;

	if (!(stack->kind & STACK_THREAD))
		return;
	if (ring)
		ring->ending = 1;
	stack->kind |= STACK_ENDING;
	stack->low = ~(uint64_t)0;
}

/* How far above a stack others are looked for that reach down into it. */
#define OVERLAP_PAGES ((uint64_t)4 * GRANULE_PAGES)

struct probe_stack *probe_stack_overlapping(uint64_t lo, uint64_t hi, uint32_t kind)
{
	uint64_t page = page_of(lo);
	struct probe_stack *stack;

	for (; (stack = next_up(&page, page_of(hi) + OVERLAP_PAGES)); page++) {
		if (stack->kind & STACK_THREAD || stack->end <= lo || stack->lowest >= hi)
			continue;
		/* A signal stack may be a local array of what runs on another stack. */
		if (kind & STACK_SIGNAL && stack->lowest <= lo && stack->end >= hi && !probe_stack_is_empty(stack))
			continue;
		/* fence() keeps such a stack off [lo, hi). */
		if (!(stack->kind & STACK_EXACT) && stack->end > hi)
			continue;
		return stack;
	}
	return NULL;
}

void probe_stack_forget(struct probe_stack *stack)
{
	uint64_t page = page_of(stack->end - 1);

	mark(ends_of(page / GRANULE_PAGES), page % GRANULE_PAGES, false);
	stack->low = stack->lowest = ~(uint64_t)0;
	probe_stack_set_top(stack, stack->end);
}

void probe_stack_announce(struct probe_thread *thread, uint64_t lo, uint64_t hi, uint32_t kind)
{
	struct probe_stack *stack;
	uint64_t signals;

	if (!probe_calls_begin(&signals))
		return;
	stack = file(thread, lo, hi, kind | STACK_EXACT);
	if (kind & STACK_SIGNAL)
		thread->signal = stack;
	probe_calls_end(&signals);
}

void probe_stack_disable(struct probe_thread *thread)
{
	struct probe_stack *stack = thread->signal;

	thread->signal = NULL;
	if (!stack)
		return;
	if (probe_stack_is_empty(stack)) {
		probe_stack_forget(stack);
		return;
	}
	/* Frames are left on it: a coroutine's stack from now on. */
	stack->kind &= ~STACK_SIGNAL;
	stack->low = stack->lowest;
	probe_stack_set_top(stack, probe_stack_top(stack));
}
