/* Sequences of events and the calls that the call stacks must close for them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support.h"

#include "host/trace/callstack.h"

/* The closed calls as text, one line per call. */
struct log {
	char text[2048];
	size_t used;
	unsigned entered;
};

static void __attribute__((format(printf, 2, 3))) log_add(struct log *log, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	log->used += (size_t)vsnprintf(log->text + log->used, sizeof(log->text) - log->used, format, args);
	va_end(args);
	assert_true(log->used < sizeof(log->text));
}

static void on_enter(void *ctx, struct callstack *stack, uint32_t thread, struct call_frame *frame)
{
	struct log *log = ctx;

	assert_true(callstack_shows(stack, thread));
	assert_ptr_equal(callstack_frame(stack, thread, callstack_depth(stack, thread) - 1), frame);
	frame->user = ++log->entered;
}

static void on_close(void *ctx, struct callstack *stack, const struct call_closed *closed)
{
	static const char *const how[] = {"returned", "unwound", "tailed", "open", "lost"};
	const struct call_frame *frame = closed->frame;
	struct log *log = ctx;

	assert_true(frame->user || !frame->enter_known);
	log_add(log, "t%u f%u %s depth %u time %llu children %llu", closed->thread, frame->function, how[closed->how],
		frame->depth, (unsigned long long)(closed->exit_ticks - frame->enter_ticks),
		(unsigned long long)frame->children_ticks);
	if (closed->away_ticks)
		log_add(log, " away %llu", (unsigned long long)closed->away_ticks);
	if (!frame->enter_known)
		log_add(log, " entered before");
	if (closed->parent)
		log_add(log, " in f%u", closed->parent->function);
	if (frame->tail)
		log_add(log, " by tail");
	log_add(log, "\n");
}

static const struct callstack_ops ops = {.on_enter = on_enter, .on_close = on_close};

/* Functions from 100 on are left out, those from 200 on are roots of trees, and 300 begins what nobody sees. */
static unsigned leave_out(void *ctx, uint32_t function)
{
	return function == 300 ? CALL_NOTREE : function < 100 ? CALL_INSIDE | CALL_OUTSIDE : 0;
}

static unsigned trees_only(void *ctx, uint32_t function)
{
	return function >= 200 ? CALL_ROOT | CALL_INSIDE : function < 100 ? CALL_INSIDE : 0;
}

static const struct callstack_ops leaving_out = {.judge = leave_out, .on_enter = on_enter, .on_close = on_close};
static const struct callstack_ops in_trees = {.judge = trees_only, .on_enter = on_enter, .on_close = on_close};

static bool is_leaf(const struct say *say)
{
	return say->kind == CALLTAP_REC_ENTRY && say->extra;
}

/* Feed says of thread 3, finish, and compare what was closed. */
static void expect_closes_by(const struct callstack_ops *by, const struct say *says, size_t count, const char *expected)
{
	struct log log = {.used = 0};
	struct callstack *stack;

	assert_int_equal(callstack_create(&stack, NULL, by, &log), 0);
	for (size_t i = 0; i < count; i++) {
		const struct trace_event event = {
			says[i].ticks, says[i].extra,	  3, says[i].id, (uint8_t)says[i].kind, NULL, 0, 0,
			false,	       is_leaf(&says[i]), 0};

		assert_int_equal(callstack_feed(stack, &event), 0);
	}
	callstack_finish(stack, UINT64_MAX);
	assert_string_equal(log.text, expected);
	callstack_destroy(stack);
}

#define EXPECT_BY(by, says, expected) expect_closes_by(by, says, sizeof(says) / sizeof(*(says)), expected)
#define EXPECT(says, expected)	      EXPECT_BY(&ops, says, expected)
#define IN(id, ticks)                                                                                                  \
	{                                                                                                              \
		CALLTAP_REC_ENTRY, id, ticks, 0                                                                        \
	}
#define LEAF(id, ticks)                                                                                                \
	{                                                                                                              \
		CALLTAP_REC_ENTRY, id, ticks, 1                                                                        \
	}
#define OUT(id, ticks)                                                                                                 \
	{                                                                                                              \
		CALLTAP_REC_EXIT, id, ticks, 0                                                                         \
	}
#define TAIL(id, ticks)                                                                                                \
	{                                                                                                              \
		CALLTAP_REC_TAIL, id, ticks, 0                                                                         \
	}
#define UNWIND(count, ticks)                                                                                           \
	{                                                                                                              \
		CALLTAP_REC_UNWIND, count, ticks, 0                                                                    \
	}
#define LANDING(id, ticks)                                                                                             \
	{                                                                                                              \
		CALLTAP_REC_LANDING, id, ticks, 0                                                                      \
	}
#define LOST(ticks)                                                                                                    \
	{                                                                                                              \
		CALLTAP_REC_LOST, 0, ticks, 1                                                                          \
	}
#define STACK(address, ticks)                                                                                          \
	{                                                                                                              \
		CALLTAP_REC_STACK, 0, ticks, address                                                                   \
	}

/* Behind a loss: so many frames are left on the stack. */
#define LEFT(count, address, ticks)                                                                                    \
	{                                                                                                              \
		CALLTAP_REC_STACK, (count) + 1, ticks, address                                                         \
	}

static void nested_calls(void **state)
{
	static const struct say says[] = {IN(1, 0),   IN(2, 10), IN(2, 12),  OUT(2, 15),
					  OUT(2, 20), IN(3, 30), OUT(3, 50), OUT(1, 100)};

	EXPECT(says, "t3 f2 returned depth 2 time 3 children 0 in f2\n"
		     "t3 f2 returned depth 1 time 10 children 3 in f1\n"
		     "t3 f3 returned depth 1 time 20 children 0 in f1\n"
		     "t3 f1 returned depth 0 time 100 children 30\n");
}

static void open_at_the_end(void **state)
{
	static const struct say says[] = {IN(1, 0), IN(2, 10), IN(3, 20), OUT(3, 25)};

	EXPECT(says, "t3 f3 returned depth 2 time 5 children 0 in f2\n"
		     "t3 f2 open depth 1 time 15 children 5 in f1\n"
		     "t3 f1 open depth 0 time 25 children 15\n");
}

/* A function that tail-called stays open around its callee, whose time is not its self time. */
static void tail_calls(void **state)
{
	static const struct say says[] = {IN(1, 0),   IN(2, 10),   TAIL(3, 20), IN(4, 25),
					  OUT(4, 26), TAIL(5, 30), OUT(5, 50),	OUT(1, 60)};

	EXPECT(says, "t3 f4 returned depth 3 time 1 children 0 in f3\n"
		     "t3 f5 returned depth 3 time 20 children 0 in f3 by tail\n"
		     "t3 f3 tailed depth 2 time 30 children 21 in f2 by tail\n"
		     "t3 f2 tailed depth 1 time 40 children 30 in f1\n"
		     "t3 f1 returned depth 0 time 60 children 40\n");
}

/* f2 and f3 tail-call each other: each further round is of the calls that are open, under the true caller's name. */
static void tail_calls_in_a_loop(void **state)
{
	static const struct say says[] = {IN(1, 0),    IN(2, 10),   TAIL(3, 20), TAIL(2, 30), TAIL(3, 40),
					  TAIL(2, 50), TAIL(4, 60), OUT(4, 70),	 OUT(1, 80)};

	EXPECT(says, "t3 f2 tailed depth 3 time 10 children 0 in f3 by tail\n"
		     "t3 f3 tailed depth 2 time 20 children 10 in f2 by tail\n"
		     "t3 f2 tailed depth 3 time 10 children 0 in f3 by tail\n"
		     "t3 f3 tailed depth 2 time 20 children 10 in f2 by tail\n"
		     "t3 f4 returned depth 2 time 10 children 0 in f2 by tail\n"
		     "t3 f2 tailed depth 1 time 60 children 50 in f1\n"
		     "t3 f1 returned depth 0 time 80 children 60\n");
}

/* Frames are unwound, and found, by the name that they go by last; names do not count. */
static void tail_calls_and_unwinding(void **state)
{
	static const struct say counted[] = {IN(1, 0),	    TAIL(2, 10),   IN(3, 20), TAIL(4, 30),
					     UNWIND(1, 40), UNWIND(1, 50), OUT(9, 60)};
	static const struct say landed[] = {IN(1, 0),  TAIL(2, 10),    IN(3, 20),     TAIL(4, 30),
					    IN(5, 35), LANDING(2, 39), UNWIND(1, 40), OUT(2, 50)};
	static const struct say found[] = {IN(1, 0),  IN(2, 10),   TAIL(3, 20), LOST(30),
					   IN(2, 40), TAIL(5, 45), OUT(3, 50),	OUT(2, 60)};

	EXPECT(counted, "t3 f4 unwound depth 3 time 10 children 0 in f3 by tail\n"
			"t3 f3 unwound depth 2 time 20 children 10 in f2\n"
			"t3 f2 unwound depth 1 time 40 children 20 in f1 by tail\n"
			"t3 f1 unwound depth 0 time 50 children 40\n"
			"t3 f9 returned depth 0 time 60 children 50 entered before\n");
	EXPECT(landed, "t3 f5 unwound depth 4 time 5 children 0 in f4\n"
		       "t3 f4 unwound depth 3 time 10 children 5 in f3 by tail\n"
		       "t3 f3 unwound depth 2 time 20 children 10 in f2\n"
		       "t3 f2 returned depth 1 time 40 children 20 in f1 by tail\n"
		       "t3 f1 tailed depth 0 time 50 children 40\n");
	EXPECT(found, "t3 f5 unwound depth 4 time 5 children 0 in f2 by tail\n"
		      "t3 f2 unwound depth 3 time 10 children 5 in f3\n"
		      "t3 f3 returned depth 2 time 30 children 30 in f2 by tail\n"
		      "t3 f2 tailed depth 1 time 40 children 30 in f1\n"
		      "t3 f2 returned depth 1 time 0 children 0 entered before in f1\n"
		      "t3 f1 open depth 0 time 60 children 40\n");
}

static void unwinding(void **state)
{
	static const struct say says[] = {IN(1, 0),  IN(2, 10),	 IN(3, 20),  UNWIND(2, 30),
					  IN(4, 40), OUT(4, 41), OUT(1, 50), UNWIND(5, 60)};

	EXPECT(says, "t3 f3 unwound depth 2 time 10 children 0 in f2\n"
		     "t3 f2 unwound depth 1 time 20 children 10 in f1\n"
		     "t3 f4 returned depth 1 time 1 children 0 in f1\n"
		     "t3 f1 returned depth 0 time 50 children 21\n");
}

/* longjmp that nobody reported: the exit of an outer frame tells. */
static void exit_of_an_outer_frame(void **state)
{
	static const struct say says[] = {IN(1, 0), IN(2, 10), IN(3, 20), OUT(1, 50)};

	EXPECT(says, "t3 f3 unwound depth 2 time 30 children 0 in f2\n"
		     "t3 f2 unwound depth 1 time 40 children 30 in f1\n"
		     "t3 f1 returned depth 0 time 50 children 40\n");
}

/* Attached in the middle, or a fork's child: the first span is the outer call's, with what it showed. */
static void entered_before_the_trace(void **state)
{
	static const struct say says[] = {IN(1, 100), OUT(1, 110), OUT(2, 120), IN(3, 130), OUT(3, 140), TAIL(4, 150)};

	EXPECT(says, "t3 f1 returned depth 0 time 10 children 0\n"
		     "t3 f2 returned depth 0 time 20 children 10 entered before\n"
		     "t3 f3 returned depth 0 time 10 children 0\n"
		     "t3 f4 open depth 0 time 0 children 0 by tail\n");
}

/* An exit without entry leaves the open frames alone. */
static void stray_exit(void **state)
{
	static const struct say says[] = {IN(1, 0), IN(2, 10), OUT(9, 15), OUT(2, 20), OUT(1, 30)};

	EXPECT(says, "t3 f9 returned depth 2 time 0 children 0 entered before in f2\n"
		     "t3 f2 returned depth 1 time 10 children 0 in f1\n"
		     "t3 f1 returned depth 0 time 30 children 10\n");
}

/* Frames open at the loss end as lost when an outer exit shows that they are gone; newer ones as unwound. */
static void lost_exits(void **state)
{
	static const struct say says[] = {IN(1, 0), IN(2, 10), IN(3, 20), LOST(30), IN(4, 40), OUT(1, 50)};

	EXPECT(says, "t3 f4 unwound depth 3 time 10 children 0 in f3\n"
		     "t3 f3 lost depth 2 time 30 children 30 in f2\n"
		     "t3 f2 lost depth 1 time 40 children 30 in f1\n"
		     "t3 f1 returned depth 0 time 50 children 40\n");
}

static void lost_entries(void **state)
{
	static const struct say says[] = {IN(1, 0), LOST(30), OUT(7, 40), OUT(8, 45), OUT(1, 50), OUT(9, 60)};

	EXPECT(says, "t3 f7 returned depth 1 time 0 children 0 entered before in f1\n"
		     "t3 f8 returned depth 1 time 0 children 0 entered before in f1\n"
		     "t3 f1 returned depth 0 time 50 children 10\n"
		     "t3 f9 returned depth 0 time 30 children 50 entered before\n");
}

/* A STACK behind the loss says how many frames are left: so nobody takes an exit for that of an earlier call. */
static void counted_frames(void **state)
{
	static const struct say fewer[] = {STACK(8, 0), IN(1, 0),  IN(2, 10),  IN(3, 20),  LOST(30),  LEFT(1, 8, 30),
					   IN(2, 40),	IN(3, 45), OUT(3, 50), OUT(2, 60), OUT(1, 70)};
	static const struct say all[] = {STACK(8, 0), IN(1, 0),	      TAIL(2, 5), IN(3, 20),
					 LOST(30),    LEFT(2, 8, 30), OUT(3, 50), OUT(2, 60)};
	static const struct say none[] = {STACK(8, 0), IN(1, 0), IN(1, 5), LOST(30), LEFT(0, 8, 30), OUT(1, 50)};
	/* The frames of the UNWIND were gone when the others were counted. */
	static const struct say unwound[] = {STACK(8, 0), IN(1, 0),	  IN(2, 5),	  IN(3, 6),
					     LOST(30),	  LEFT(1, 8, 30), LANDING(1, 31), UNWIND(2, 31),
					     IN(4, 40),	  UNWIND(1, 45),  OUT(1, 50)};
	/* The thread has come to another stack meanwhile; the first one's frames stay. */
	static const struct say elsewhere[] = {STACK(8, 0),  IN(1, 0),	 IN(2, 10),	  STACK(16, 20), IN(3, 20),
					       STACK(8, 25), LOST(30),	 LEFT(0, 16, 30), IN(4, 40),	 OUT(4, 45),
					       STACK(8, 50), OUT(2, 60), OUT(1, 70)};

	EXPECT(fewer, "t3 f3 lost depth 2 time 10 children 0 away 10 in f2\n"
		      "t3 f2 lost depth 1 time 20 children 0 away 10 in f1\n"
		      "t3 f3 returned depth 2 time 5 children 0 in f2\n"
		      "t3 f2 returned depth 1 time 20 children 5 in f1\n"
		      "t3 f1 returned depth 0 time 70 children 40\n");
	EXPECT(all, "t3 f3 returned depth 2 time 30 children 10 in f2\n"
		    "t3 f2 returned depth 1 time 55 children 30 in f1 by tail\n"
		    "t3 f1 tailed depth 0 time 60 children 55\n");
	EXPECT(none, "t3 f1 lost depth 1 time 25 children 0 away 25 in f1\n"
		     "t3 f1 lost depth 0 time 30 children 0 away 25\n"
		     "t3 f1 returned depth 0 time 20 children 0 entered before\n");
	EXPECT(unwound, "t3 f3 lost depth 2 time 24 children 0 away 24 in f2\n"
			"t3 f2 lost depth 1 time 25 children 0 away 24 in f1\n"
			"t3 f4 unwound depth 1 time 5 children 0 in f1\n"
			"t3 f1 returned depth 0 time 50 children 30\n");
	EXPECT(elsewhere, "t3 f3 lost depth 0 time 10 children 0 away 5\n"
			  "t3 f4 returned depth 0 time 5 children 0\n"
			  "t3 f2 returned depth 1 time 50 children 5 away 25 in f1\n"
			  "t3 f1 returned depth 0 time 70 children 25 away 25\n");
}

/* No UNWIND counts a leaf, which a handler interrupts: it ends with the frame around it, or by a landing in that. */
static void leaves(void **state)
{
	static const struct say returned[] = {IN(1, 0), LEAF(2, 5), IN(3, 6), OUT(3, 8), OUT(2, 10), OUT(1, 20)};
	static const struct say landed[] = {IN(1, 0),	   LEAF(2, 5),	  IN(3, 6),  LEAF(4, 7),
					    LANDING(1, 9), UNWIND(1, 10), OUT(1, 20)};
	static const struct say silent[] = {IN(1, 0),  LEAF(2, 5), LANDING(1, 9), UNWIND(0, 10),
					    IN(4, 12), OUT(4, 15), OUT(1, 20)};
	static const struct say within[] = {IN(1, 0),	  LEAF(2, 5), IN(3, 6),	  IN(4, 7),
					    UNWIND(1, 8), OUT(3, 9),  OUT(2, 10), OUT(1, 20)};
	static const struct say both[] = {IN(1, 0), LEAF(2, 5), IN(3, 6), UNWIND(2, 10), OUT(9, 20)};
	static const struct say recursion[] = {IN(1, 0),      IN(1, 1),	     LEAF(2, 5), IN(3, 6),
					       LANDING(1, 9), UNWIND(2, 10), OUT(1, 20)};
	static const struct say nowhere[] = {LEAF(2, 5), LANDING(CALLTAP_RECORD_ID_MAX, 9), UNWIND(0, 10), IN(4, 12),
					     OUT(4, 15)};
	static const struct say tailed[] = {IN(1, 0), LEAF(2, 5), TAIL(3, 8), OUT(3, 10)};

	EXPECT(returned, "t3 f3 returned depth 2 time 2 children 0 in f2\n"
			 "t3 f2 returned depth 1 time 5 children 2 in f1\n"
			 "t3 f1 returned depth 0 time 20 children 5\n");
	EXPECT(landed, "t3 f4 unwound depth 3 time 3 children 0 in f3\n"
		       "t3 f3 unwound depth 2 time 4 children 3 in f2\n"
		       "t3 f2 unwound depth 1 time 5 children 4 in f1\n"
		       "t3 f1 returned depth 0 time 20 children 5\n");
	EXPECT(silent, "t3 f2 unwound depth 1 time 5 children 0 in f1\n"
		       "t3 f4 returned depth 1 time 3 children 0 in f1\n"
		       "t3 f1 returned depth 0 time 20 children 8\n");
	EXPECT(within, "t3 f4 unwound depth 3 time 1 children 0 in f3\n"
		       "t3 f3 returned depth 2 time 3 children 1 in f2\n"
		       "t3 f2 returned depth 1 time 5 children 3 in f1\n"
		       "t3 f1 returned depth 0 time 20 children 5\n");
	EXPECT(both, "t3 f3 unwound depth 2 time 4 children 0 in f2\n"
		     "t3 f2 unwound depth 1 time 5 children 4 in f1\n"
		     "t3 f1 unwound depth 0 time 10 children 5\n"
		     "t3 f9 returned depth 0 time 20 children 10 entered before\n");
	EXPECT(recursion, "t3 f3 unwound depth 3 time 4 children 0 in f2\n"
			  "t3 f2 unwound depth 2 time 5 children 4 in f1\n"
			  "t3 f1 unwound depth 1 time 9 children 5 in f1\n"
			  "t3 f1 returned depth 0 time 20 children 9\n");
	EXPECT(nowhere, "t3 f2 unwound depth 0 time 5 children 0\n"
			"t3 f4 returned depth 0 time 3 children 0\n");
	EXPECT(tailed, "t3 f2 unwound depth 1 time 3 children 0 in f1\n"
		       "t3 f3 returned depth 1 time 2 children 0 in f1 by tail\n"
		       "t3 f1 tailed depth 0 time 10 children 5\n");
}

/* A handler that interrupted a recorder jumps: the count is right, one too small, one too big. */
static void landings(void **state)
{
	static const struct say right[] = {IN(1, 0), IN(2, 5), IN(3, 6), LANDING(1, 9), UNWIND(2, 10), OUT(1, 20)};
	static const struct say small[] = {IN(1, 0), IN(2, 5), IN(3, 6), LANDING(1, 9), UNWIND(1, 10), OUT(1, 20)};
	static const struct say big[] = {IN(1, 0), IN(2, 5), LANDING(1, 9), UNWIND(2, 10), OUT(1, 20)};
	static const struct say unknown[] = {IN(1, 0), IN(2, 5), LANDING(7, 9), UNWIND(1, 10), OUT(1, 20)};
	const char *both = "t3 f3 unwound depth 2 time 4 children 0 in f2\n"
			   "t3 f2 unwound depth 1 time 5 children 4 in f1\n"
			   "t3 f1 returned depth 0 time 20 children 5\n";
	const char *one = "t3 f2 unwound depth 1 time 5 children 0 in f1\n"
			  "t3 f1 returned depth 0 time 20 children 5\n";

	EXPECT(right, both);
	EXPECT(small, both);
	EXPECT(big, one);
	EXPECT(unknown, one);
}

/* Two coroutines that alternate; each is found again by its name. */
static void coroutines(void **state)
{
	static const struct say says[] = {STACK(0x1000000, 0),
					  IN(1, 0),
					  STACK(0x2000000, 10),
					  IN(2, 10),
					  STACK(0x1000000, 20),
					  IN(3, 20),
					  STACK(0x2000000, 30),
					  OUT(2, 35),
					  STACK(0x1000000, 40),
					  OUT(3, 40),
					  OUT(1, 50)};

	EXPECT(says, "t3 f2 returned depth 0 time 25 children 0 away 10\n"
		     "t3 f3 returned depth 1 time 20 children 0 away 10 in f1\n"
		     "t3 f1 returned depth 0 time 50 children 10 away 20\n");
}

/* Calls that are open when the trace ends are away since their stack was left; a new call on a stack was not there
 * before. */
static void coroutines_that_never_end(void **state)
{
	static const struct say open[] = {STACK(0x1000000, 0),	IN(1, 0), STACK(0x2000000, 10), IN(2, 10),
					  STACK(0x1000000, 30), IN(3, 35)};
	static const struct say reused[] = {
		STACK(0x1000000, 0), IN(1, 0),	 STACK(0x2000000, 10), IN(2, 10), OUT(2, 20), STACK(0x3000000, 30),
		OUT(4, 45),	     OUT(5, 50), STACK(0x1000000, 60), OUT(1, 70)};

	EXPECT(open, "t3 f3 open depth 1 time 0 children 0 in f1\n"
		     "t3 f1 open depth 0 time 35 children 0 away 20\n"
		     "t3 f2 open depth 0 time 25 children 0 away 5\n");
	EXPECT(reused, "t3 f2 returned depth 0 time 10 children 0\n"
		       "t3 f4 returned depth 0 time 0 children 0 entered before\n"
		       "t3 f5 returned depth 0 time 5 children 0 entered before\n"
		       "t3 f1 returned depth 0 time 70 children 0 away 50\n");
}

/* A stack that comes back under another name: its innermost frame's exit tells. */
static void stack_that_was_renamed(void **state)
{
	static const struct say says[] = {STACK(0x9000000, 0),	IN(1, 0),   IN(2, 5),
					  STACK(0x2000000, 10), IN(3, 10),  OUT(3, 15),
					  STACK(0x8000000, 20), OUT(2, 25), OUT(1, 30)};

	EXPECT(says, "t3 f3 returned depth 0 time 5 children 0\n"
		     "t3 f2 returned depth 1 time 20 children 0 in f1\n"
		     "t3 f1 returned depth 0 time 30 children 20\n");
}

/* A coroutine that another thread goes on with: no entry here, open there. */
static void stack_from_another_thread(void **state)
{
	static const struct say says[] = {STACK(0x9000000, 0),	IN(1, 0),  STACK(0x2000000, 10), OUT(5, 15),
					  STACK(0x9000000, 20), OUT(1, 30)};

	EXPECT(says, "t3 f5 returned depth 0 time 0 children 0 entered before\n"
		     "t3 f1 returned depth 0 time 30 children 0 away 10\n");
}

/* The thread's first stack was not named (a fork's child): it is found again by what returns there. */
static void back_to_the_first_stack(void **state)
{
	static const struct say says[] = {IN(1, 0),
					  IN(2, 5),
					  STACK(0x500000, 10),
					  IN(3, 10),
					  STACK(0x7fff0000, 20),
					  OUT(2, 30),
					  STACK(0x500000, 40),
					  OUT(3, 45),
					  STACK(0x7fff0000, 50),
					  OUT(1, 60)};

	EXPECT(says, "t3 f2 returned depth 1 time 25 children 0 away 10 in f1\n"
		     "t3 f3 returned depth 0 time 35 children 0 away 20\n"
		     "t3 f1 returned depth 0 time 60 children 15 away 20\n");
}

/* The function tracer's events open and close nothing. */
static void calls_touch_nothing(void **state)
{
	static const struct say says[] = {
		IN(1, 0), {CALLTAP_REC_CALL, 2, 5, 0x1234}, {CALLTAP_REC_WAIT, 0, 6, 9}, OUT(1, 10)};

	EXPECT(says, "t3 f1 returned depth 0 time 10 children 0\n");
}

static void threads_are_apart(void **state)
{
	struct log log = {.used = 0};
	struct callstack *stack;
	const struct trace_event events[] = {{0, 0, 0, 1, CALLTAP_REC_ENTRY, NULL, 0, 0, false, false, 0},
					     {5, 0, 9, 1, CALLTAP_REC_ENTRY, NULL, 0, 0, false, false, 0},
					     {7, 0, 0, 1, CALLTAP_REC_EXIT, NULL, 0, 0, false, false, 0},
					     {9, 0, 9, 1, CALLTAP_REC_EXIT, NULL, 0, 0, false, false, 0}};

	assert_int_equal(callstack_create(&stack, NULL, &ops, &log), 0);
	for (int i = 0; i < 4; i++)
		assert_int_equal(callstack_feed(stack, &events[i]), 0);
	assert_int_equal(callstack_depth(stack, 9), 0);
	assert_int_equal(callstack_depth(stack, 1000), 0);
	assert_null(callstack_frame(stack, 9, 0));
	assert_string_equal(log.text, "t0 f1 returned depth 0 time 7 children 0\n"
				      "t9 f1 returned depth 0 time 4 children 0\n");
	callstack_destroy(stack);
}

/* A million frames down and up, and as many stray exits on top: linear, or this takes hours. */
static void deep_recursion(void **state)
{
	enum { DEEP = 1000000 };
	const struct callstack_ops none = {.on_enter = NULL};
	struct trace_event event = {.kind = CALLTAP_REC_ENTRY, .id = 1};
	struct callstack *stack;

	assert_int_equal(callstack_create(&stack, NULL, &none, NULL), 0);
	for (; event.ticks < DEEP; event.ticks++)
		assert_int_equal(callstack_feed(stack, &event), 0);
	assert_int_equal(callstack_depth(stack, 0), DEEP);
	event.kind = CALLTAP_REC_EXIT;
	event.id = 2;
	for (; event.ticks < 2 * DEEP; event.ticks++)
		assert_int_equal(callstack_feed(stack, &event), 0);
	assert_int_equal(callstack_depth(stack, 0), DEEP);
	event.id = 1;
	for (; event.ticks < 3 * DEEP; event.ticks++)
		assert_int_equal(callstack_feed(stack, &event), 0);
	assert_int_equal(callstack_depth(stack, 0), 0);
	callstack_destroy(stack);
}

/* Tail calls of ever the same functions, or of ever other ones, go on without end: depth stays small. */
static void endless_tail_calls(void **state)
{
	enum { MANY = 1000000, LEVELS = 32 };
	const struct callstack_ops none = {.on_enter = NULL};

	for (unsigned functions = 1; functions <= MANY; functions *= 10) {
		struct trace_event event = {.kind = CALLTAP_REC_ENTRY};
		struct callstack *stack;
		uint32_t deepest = 0;

		assert_int_equal(callstack_create(&stack, NULL, &none, NULL), 0);
		assert_int_equal(callstack_feed(stack, &event), 0);
		event.kind = CALLTAP_REC_TAIL;
		for (; event.ticks < MANY; event.ticks++) {
			event.id = (event.id + 1) % functions;
			assert_int_equal(callstack_feed(stack, &event), 0);
			if (callstack_depth(stack, 0) > deepest)
				deepest = callstack_depth(stack, 0);
		}
		assert_int_equal(deepest, functions < LEVELS ? functions + 1 : LEVELS);
		event.kind = CALLTAP_REC_EXIT;
		assert_int_equal(callstack_feed(stack, &event), 0);
		assert_int_equal(callstack_depth(stack, 0), 0);
		callstack_destroy(stack);
	}
}

/* A hidden call's own time is its caller's, what it calls is the caller's, and depths have no gap. */
static void hidden_calls(void **state)
{
	static const struct say nested[] = {IN(1, 0),	  IN(100, 10), IN(2, 20),  OUT(2, 25),
					    IN(101, 30),  IN(3, 35),   OUT(3, 37), OUT(101, 40),
					    OUT(100, 50), IN(2, 60),   OUT(2, 61), OUT(1, 70)};
	static const struct say outside[] = {IN(100, 0),   IN(1, 10),  IN(101, 15),
					     OUT(101, 16), OUT(1, 20), OUT(100, 30)};
	static const struct say unwound[] = {IN(1, 0), IN(100, 10), IN(2, 20), UNWIND(2, 30), IN(3, 35), OUT(1, 40)};
	static const struct say deeper[] = {IN(1, 0), IN(300, 10), IN(2, 20), OUT(2, 25), OUT(300, 30), OUT(1, 40)};

	EXPECT_BY(&leaving_out, nested,
		  "t3 f2 returned depth 1 time 5 children 0 in f1\n"
		  "t3 f3 returned depth 1 time 2 children 0 in f1\n"
		  "t3 f2 returned depth 1 time 1 children 0 in f1\n"
		  "t3 f1 returned depth 0 time 70 children 8\n");
	EXPECT_BY(&leaving_out, outside, "t3 f1 returned depth 0 time 10 children 0\n");
	EXPECT_BY(&leaving_out, unwound,
		  "t3 f2 unwound depth 1 time 10 children 0 in f1\n"
		  "t3 f3 unwound depth 1 time 5 children 0 in f1\n"
		  "t3 f1 returned depth 0 time 40 children 15\n");
	EXPECT_BY(&leaving_out, deeper, "t3 f1 returned depth 0 time 40 children 0\n");
}

/* Of names that share a frame, those that are shown stay in order; a name whose callees are all hidden returns. */
static void hidden_tail_calls(void **state)
{
	static const struct say middle[] = {IN(1, 0), IN(2, 10), TAIL(100, 20), TAIL(3, 30), OUT(3, 40), OUT(1, 50)};
	static const struct say last[] = {IN(1, 0), IN(2, 10), TAIL(100, 20), OUT(100, 40), OUT(1, 50)};
	static const struct say first[] = {IN(1, 0), IN(100, 10), TAIL(2, 20), TAIL(3, 30), OUT(3, 40), OUT(1, 50)};

	EXPECT_BY(&leaving_out, middle,
		  "t3 f3 returned depth 2 time 10 children 0 in f2 by tail\n"
		  "t3 f2 tailed depth 1 time 30 children 10 in f1\n"
		  "t3 f1 returned depth 0 time 50 children 30\n");
	EXPECT_BY(&leaving_out, last,
		  "t3 f2 returned depth 1 time 30 children 0 in f1\n"
		  "t3 f1 returned depth 0 time 50 children 30\n");
	EXPECT_BY(&leaving_out, first,
		  "t3 f3 returned depth 2 time 10 children 0 in f2 by tail\n"
		  "t3 f2 tailed depth 1 time 20 children 10 in f1\n"
		  "t3 f1 returned depth 0 time 50 children 20\n");
}

/* Calls in trees alone, an exit that was entered before, and what is left out within a tree. */
static void trees(void **state)
{
	static const struct say says[] = {IN(1, 0),    IN(200, 10),  IN(2, 20),	   IN(100, 22),
					  IN(3, 23),   OUT(3, 24),   OUT(100, 25), OUT(2, 30),
					  IN(201, 40), OUT(201, 45), OUT(200, 50), IN(2, 60),
					  OUT(2, 61),  OUT(1, 70),   OUT(9, 80),   OUT(200, 90)};

	EXPECT_BY(&in_trees, says,
		  "t3 f3 returned depth 2 time 1 children 0 in f2\n"
		  "t3 f2 returned depth 1 time 10 children 1 in f200\n"
		  "t3 f201 returned depth 1 time 5 children 0 in f200\n"
		  "t3 f200 returned depth 0 time 40 children 15\n"
		  "t3 f200 returned depth 0 time 90 children 40 entered before\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nested_calls),
		cmocka_unit_test(open_at_the_end),
		cmocka_unit_test(tail_calls),
		cmocka_unit_test(tail_calls_in_a_loop),
		cmocka_unit_test(tail_calls_and_unwinding),
		cmocka_unit_test(unwinding),
		cmocka_unit_test(exit_of_an_outer_frame),
		cmocka_unit_test(entered_before_the_trace),
		cmocka_unit_test(stray_exit),
		cmocka_unit_test(lost_exits),
		cmocka_unit_test(lost_entries),
		cmocka_unit_test(counted_frames),
		cmocka_unit_test(landings),
		cmocka_unit_test(leaves),
		cmocka_unit_test(coroutines),
		cmocka_unit_test(coroutines_that_never_end),
		cmocka_unit_test(stack_that_was_renamed),
		cmocka_unit_test(stack_from_another_thread),
		cmocka_unit_test(back_to_the_first_stack),
		cmocka_unit_test(calls_touch_nothing),
		cmocka_unit_test(threads_are_apart),
		cmocka_unit_test(deep_recursion),
		cmocka_unit_test(endless_tail_calls),
		cmocka_unit_test(hidden_calls),
		cmocka_unit_test(hidden_tail_calls),
		cmocka_unit_test(trees),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
