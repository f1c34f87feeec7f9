/*
 * Frames with handlers that end by exceptions, cancellation and pthread_exit: no exit handler runs for these, but for
 * all others.
 */
#include <stdexcept>

#include "handled.h"

static long entered, returned; /* the true counts; atomic */

TRACED static int thrower(int depth)
{
	handled_add(&entered);
	if (!depth)
		throw std::runtime_error("thrown");
	int below = thrower(depth - 1);
	handled_add(&returned);
	return below + 1;
}

struct Guard {
	TRACED ~Guard();
};

static long destroyed;

Guard::~Guard()
{
	handled_add(&entered);
	handled_add(&destroyed);
	handled_add(&returned);
}

TRACED static int guarded(int depth)
{
	Guard guard;

	handled_add(&entered);
	int below = depth % 2 ? thrower(depth) : depth ? guarded(depth - 1) : 0;
	handled_add(&returned);
	return below;
}

TRACED static int catching(int depth)
{
	handled_add(&entered);
	int result;
	try {
		result = guarded(depth);
	} catch (const std::runtime_error &error) {
		result = -1;
		try {
			throw;
		} catch (...) {
			result--;
		}
	}
	handled_add(&returned);
	return result;
}

static const char *const filters[] = {"*thrower*", "*guarded*", "*catching*", "*Guard*", "*ending*", NULL};

UNTRACED static struct calltap_ops *all_of(struct calltap_session *session, struct counted *of, uint32_t flags)
{
	struct calltap_ops_options options = {};

	options.entry = count_entry;
	options.exit = count_exit;
	options.context = of;
	options.flags = flags;
	options.filter = filters;
	return handled_register(session, &options);
}

UNTRACED static void held(struct calltap_ops *ops, const struct counted *of)
{
	expect("entries", of->entries, entered);
	expect("exits", of->exits + of->tails, returned);
	expect("missed", handled_status(ops).missed, 0);
	handled_off(ops);
}

UNTRACED static void throws_with(struct calltap_session *session, uint32_t flags)
{
	struct counted of = {0, 0, 0};
	struct calltap_ops *ops = all_of(session, &of, flags);

	entered = returned = 0;
	for (int i = 0; i < 2000; i++)
		always("a result", catching(i % 20), i % 20 ? -2 : 0);
	held(ops, &of);
}

UNTRACED static void throws(struct calltap_session *session)
{
	throws_with(session, GENERAL);
	throws_with(session, 0);
	printf("%ld destroyed\n", destroyed);
}

/* ---- ends of threads ---- */

TRACED static void ending(int depth, int by_exit)
{
	Guard guard;

	handled_add(&entered);
	if (depth)
		ending(depth - 1, by_exit);
	else if (by_exit)
		pthread_exit(NULL);
	else
		for (;;)
			pause(); /* until it is cancelled */
	handled_add(&returned);
}

UNTRACED static void *end_by_exit(void *)
{
	ending(10, 1);
	return NULL;
}

UNTRACED static void *end_by_cancel(void *)
{
	ending(10, 0);
	return NULL;
}

UNTRACED static void ends(struct calltap_session *session)
{
	struct counted of = {0, 0, 0};
	struct calltap_ops *ops = all_of(session, &of, 0);

	entered = returned = destroyed = 0;
	for (int i = 0; i < 20; i++) {
		long before = handled_get(&entered);
		pthread_t thread;

		pthread_create(&thread, NULL, i % 2 ? end_by_exit : end_by_cancel, NULL);
		while (handled_get(&entered) < before + 11)
			usleep(100);
		if (i % 2 == 0)
			pthread_cancel(thread);
		pthread_join(thread, NULL);
	}
	always("destructors", destroyed, 20 * 11);
	held(ops, &of);
}

/* ---- an exception that a handler throws and catches itself ---- */

UNTRACED static int throwing_entry(struct calltap_call *call, void *context)
{
	try {
		throw 5;
	} catch (int value) {
		handled_add(&((struct counted *)context)->entries);
	}
	return ANSWERED;
}

UNTRACED static void in_handlers(struct calltap_session *session)
{
	struct counted of = {0, 0, 0};
	struct calltap_ops *ops = handled_on(session, 0, throwing_entry, count_exit, &of, "*catching*");

	entered = returned = 0;
	for (int i = 0; i < 200; i++)
		always("a result", catching(i % 20), i % 20 ? -2 : 0);
	expect("entries", of.entries, 200);
	expect("exits", of.exits, 200);
	handled_off(ops);
}

/* An exception that the function does not catch, but its caller. */
UNTRACED static int leaving_entry(struct calltap_call *call, void *context)
{
	handled_add(&((struct counted *)context)->entries);
	if (((struct counted *)context)->entries % 3 == 0)
		throw 7;
	return ANSWERED;
}

UNTRACED static void out_of_handlers(struct calltap_session *session)
{
	struct counted of = {0, 0, 0};
	struct calltap_ops *ops = handled_on(session, 0, leaving_entry, count_exit, &of, "*catching*");
	long caught = 0;

	for (int i = 0; i < 300; i++) {
		try {
			always("a result", catching(i % 20), i % 20 ? -2 : 0);
		} catch (int value) {
			caught += value;
		}
	}
	expect("entries", of.entries, 300);
	expect("caught", caught, 700);
	expect("exits", of.exits, 200);
	expect("missed", handled_status(ops).missed, 0);
	handled_off(ops);
}

static const struct handled_case cases[] = {{"throws", throws},
					    {"ends", ends},
					    {"in-handlers", in_handlers},
					    {"out-of-handlers", out_of_handlers},
					    {NULL, NULL}};

int main(int argc, char **argv)
{
	return handled_run(cases, argc, argv);
}
