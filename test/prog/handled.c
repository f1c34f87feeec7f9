/*
 * Handlers at a program's functions, and what they see: counts with several threads, filters, several handlers at one
 * function, words kept from entry to exit, calls that end by a jump, the guard.
 *
 *     handled CASE
 */
#include <setjmp.h>

#include "handled.h"

#define THREADS 8
#define TURNS	20000

/* The true counts of calls; each thread counts its own and adds them here at its end. */
struct truth {
	long leaf, recurse, tail, last, left;
};

static struct truth all;
static __thread struct truth own;

UNTRACED static void truth_add(void)
{
	__atomic_add_fetch(&all.leaf, own.leaf, __ATOMIC_RELAXED);
	__atomic_add_fetch(&all.recurse, own.recurse, __ATOMIC_RELAXED);
	__atomic_add_fetch(&all.tail, own.tail, __ATOMIC_RELAXED);
	__atomic_add_fetch(&all.last, own.last, __ATOMIC_RELAXED);
	__atomic_add_fetch(&all.left, own.left, __ATOMIC_RELAXED);
	own = (struct truth){0};
}

TRACED static unsigned leaf(unsigned x)
{
	own.leaf++;
	return x * 2654435761u + 1;
}

TRACED static unsigned recurse(unsigned depth)
{
	own.recurse++;
	return depth ? recurse(depth - 1) + leaf(depth) - depth * 2654435761u : 0;
}

TRACED static unsigned last(unsigned x)
{
	own.last++;
	return x ^ 0x5a5a;
}

TRACED static unsigned tail(unsigned x)
{
	own.tail++;
	return last(x * 3);
}

TRACED static void leave(jmp_buf *to, unsigned depth)
{
	own.left++;
	if (!depth)
		longjmp(*to, 7);
	leave(to, depth - 1);
	leaf(depth);
}

UNTRACED __attribute__((noinline)) static int jump(unsigned depth)
{
	jmp_buf here;
	int back = setjmp(here);

	if (!back)
		leave(&here, depth);
	return back;
}

UNTRACED static void turn(unsigned x)
{
	always("a leaf", leaf(x), x * 2654435761u + 1);
	always("a recursion", recurse(x % 20), x % 20);
	always("a tail call", tail(x), (x * 3) ^ 0x5a5a);
	always("a jump", jump(x % 5), 7);
}

UNTRACED static void *turns(void *arg)
{
	for (unsigned x = 0; x < TURNS; x++)
		turn(x + (unsigned)(uintptr_t)arg);
	truth_add();
	return NULL;
}

UNTRACED static void run_threads(unsigned long count)
{
	pthread_t threads[THREADS];

	for (unsigned long i = 0; i < count; i++)
		always("a thread", pthread_create(&threads[i], NULL, turns, (void *)(i * 1000)), 0);
	for (unsigned long i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
}

static const char *const names[] = {"leaf", "recurse", "tail", "last", "leave"};

/* Every call of every thread, once; the entries and exits of each function by themselves. */
UNTRACED static void count_with(struct calltap_session *session, unsigned long threads, uint32_t flags)
{
	struct counted of[5] = {0};
	struct calltap_ops *ops[5];
	const long *truth = &all.leaf;

	for (int i = 0; i < 5; i++)
		ops[i] = handled_on(session, flags, count_entry, count_exit, &of[i], names[i]);
	if (threads)
		run_threads(threads);
	else
		turns(NULL);
	for (int i = 0; i < 5; i++) {
		int jumps = i == 2 && (of[i].tails || !of[i].exits); /* gcc makes no jump of it without optimization */

		expect(names[i], of[i].entries, truth[i]);
		expect("its exits", jumps ? of[i].tails : of[i].exits, i == 4 ? 0 : truth[i]);
		expect("missed", handled_status(ops[i]).missed, 0);
		handled_off(ops[i]);
		printf("%s: %ld\n", names[i], truth[i]);
	}
	turn(1);
	expect("entries after unregister", of[0].entries, all.leaf);
}

UNTRACED static void one_thread(struct calltap_session *session)
{
	count_with(session, 0, GENERAL);
}

UNTRACED static void eight_threads(struct calltap_session *session)
{
	count_with(session, THREADS, GENERAL);
}

UNTRACED static void eight_threads_vectors(struct calltap_session *session)
{
	count_with(session, THREADS, 0);
}

/* ---- who is called: several on one function ---- */

static int order[64], order_count;

UNTRACED static int ordered_entry(struct calltap_call *call, void *context)
{
	order[order_count++] = (int)(intptr_t)context;
	return ANSWERED;
}

BY_GENERALS static int refusing_entry(struct calltap_call *call, void *context)
{
	handled_add(&((struct counted *)context)->entries);
	return (calltap_call_argument(call, 0) & 1) != 0;
}

/* As many as there may be, each called each time; the next one is refused with a sentence. */
UNTRACED static void several(struct calltap_session *session)
{
	struct counted of[CALLTAP_HANDLERS_MAX] = {0};
	struct calltap_ops *ops[CALLTAP_HANDLERS_MAX], *more;
	const char *const filters[] = {"leaf", NULL};
	const struct calltap_ops_options options = {.entry = count_entry, .context = &of[0], .filter = filters};
	struct calltap_diag diag;
	long calls = 0;
	int code;

	for (int i = 0; i < CALLTAP_HANDLERS_MAX; i++) {
		ops[i] = handled_on(session, i % 2 ? 0 : GENERAL, i % 3 ? count_entry : NULL,
				    i % 3 == 1 ? NULL : count_exit, &of[i], i % 2 ? "leaf" : "lea*");
		leaf(calls++);
	}
	code = handled_try(&more, session, &options, &diag);
	expect("one too many is refused", code < 0 && diag.text[0] && !more, 1);
	for (int i = 0; i < CALLTAP_HANDLERS_MAX; i++) {
		int which = i * 7 % CALLTAP_HANDLERS_MAX;

		leaf(calls++);
		handled_off(ops[which]);
		expect("entries", of[which].entries, which % 3 ? calls - which : 0);
		expect("exits", of[which].exits, which % 3 == 1 ? 0 : calls - which);
	}
	printf("%ld calls\n", calls);
}

UNTRACED static void in_order(struct calltap_session *session)
{
	struct calltap_ops *ops[5];

	for (int i = 0; i < 5; i++)
		ops[i] = handled_on(session, 0, ordered_entry, NULL, (void *)(intptr_t)i, "leaf");
	leaf(1);
	expect("entry handlers called", order_count, 5);
	for (int i = 0; i < 5 && handled_checks; i++)
		expect("in the order in which they were registered", order[i], i);
	for (int i = 0; i < 5; i++)
		handled_off(ops[i]);
}

/* Entry handlers that want no exit for some calls; others still get them. */
UNTRACED static void refusing(struct calltap_session *session)
{
	struct counted of = {0}, other = {0};
	struct calltap_ops *ops = handled_on(session, GENERAL, refusing_entry, count_exit, &of, "leaf");
	struct calltap_ops *beside = handled_on(session, GENERAL, count_entry, count_exit, &other, "leaf");

	for (unsigned x = 0; x < 1000; x++)
		leaf(x);
	expect("entries", of.entries, 1000);
	expect("exits of even numbers", of.exits, 500);
	expect("exits of the other", other.exits, 1000);
	handled_off(ops);
	handled_off(beside);
}

/* ---- a word kept from entry to exit ---- */

static long kept;

BY_GENERALS static int keep_entry(struct calltap_call *call, void *context)
{
	expect("a word at first", (long)call->data, 0);
	call->data = calltap_call_argument(call, 0) * 77 + call->stack;
	return ANSWERED;
}

BY_GENERALS static void keep_exit(struct calltap_call *call, void *context)
{
	expect("the word", (call->data - call->stack) % 77, 0);
	handled_add(&kept);
}

UNTRACED static void data(struct calltap_session *session)
{
	struct calltap_ops *ops =
		handled_on(session, CALLTAP_HANDLER_DATA | GENERAL, keep_entry, keep_exit, NULL, "recurse");
	const char *const filters[] = {"recurse", NULL};
	const struct calltap_ops_options options = {
		.entry = keep_entry, .exit = keep_exit, .flags = CALLTAP_HANDLER_DATA, .filter = filters};
	struct calltap_ops *second;
	struct calltap_diag diag;

	expect("a second one that keeps a word", handled_try(&second, session, &options, &diag), session ? -EBUSY : 0);
	expect("its sentence", diag.text[0] != 0, 1);
	run_threads(4);
	expect("words", kept, all.recurse);
	handled_off(ops);
	ops = handled_register(session, &options); /* now it may */
	recurse(10);
	expect("words", kept, all.recurse + 11);
	handled_off(ops);
	printf("%ld words\n", all.recurse);
}

/* ---- the guard ---- */

static struct counted inner;

UNTRACED static int calling_entry(struct calltap_call *call, void *context)
{
	handled_add(&((struct counted *)context)->entries);
	always("a leaf within a handler", leaf(3), 3 * 2654435761u + 1);
	always("and a recursion", recurse(4), 4);
	return ANSWERED;
}

UNTRACED static void calling_exit(struct calltap_call *call, void *context)
{
	handled_add(&((struct counted *)context)->exits);
	always("a leaf within an exit handler", leaf(5), 5 * 2654435761u + 1);
}

/* Handlers call what they are called for: those calls have no handlers, are counted, and nothing is confused. */
UNTRACED static void guard(struct calltap_session *session)
{
	struct counted of = {0};
	struct calltap_ops *ops = handled_on(session, 0, calling_entry, calling_exit, &of, "leaf");
	struct calltap_ops *other = handled_on(session, GENERAL, count_entry, count_exit, &inner, "recurse");

	for (unsigned x = 0; x < 1000; x++)
		always("a leaf", leaf(x), x * 2654435761u + 1);
	expect("entries", of.entries, 1000);
	expect("exits", of.exits, 1000);
	/* In the entry handler its own leaf and the recursion's four, in the exit handler one. */
	expect("missed", handled_status(ops).missed, 6000);
	expect("of the other", handled_status(other).missed, 5000);
	expect("entries of the other", inner.entries, 0);
	recurse(3);
	expect("entries of the other then", inner.entries, 4);
	handled_off(ops);
	handled_off(other);
}

static jmp_buf out_of_handler;

UNTRACED static int jumping_entry(struct calltap_call *call, void *context)
{
	struct counted *of = context;

	handled_add(&of->entries);
	if (of->entries % 3 == 0)
		longjmp(out_of_handler, 1);
	return ANSWERED;
}

UNTRACED __attribute__((noinline)) static int jumped_out(unsigned x)
{
	if (setjmp(out_of_handler))
		return 1;
	leaf(x);
	return 0;
}

/* A handler that never returns: the next call has handlers again. */
UNTRACED static void jumping(struct calltap_session *session)
{
	struct counted of = {0};
	struct calltap_ops *ops = handled_on(session, 0, jumping_entry, count_exit, &of, "leaf");
	long jumps = 0;

	for (unsigned x = 0; x < 3000; x++)
		jumps += jumped_out(x);
	expect("entries", of.entries, 3000);
	expect("jumps", jumps, 1000);
	expect("exits", of.exits, 2000);
	expect("missed", handled_status(ops).missed, 0);
	handled_off(ops);
}

static const struct handled_case cases[] = {
	{"one-thread", one_thread},
	{"eight-threads", eight_threads},
	{"eight-threads-vectors", eight_threads_vectors},
	{"several", several},
	{"in-order", in_order},
	{"refusing", refusing},
	{"data", data},
	{"guard", guard},
	{"jumping", jumping},
	{NULL, NULL},
};

int main(int argc, char **argv)
{
	return handled_run(cases, argc, argv);
}
