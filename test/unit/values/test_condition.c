/*
 * Conditions: each expression as a program in the interpreter says what C says of it, and what this file's own
 * evaluator says of random ones; the verifier takes each; what makes no sense is refused where it stands.
 */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <bpf/interpret.h>
#include <bpf/verify.h>
#include <calltap/abi/program.h>
#include <host/values/condition.h>
#include <host/values/fetch.h>
#include <probe/match.h>

#include "memory.h"

static struct bpf_helper helpers[CALLTAP_HELPERS];
static struct bpf_machine machine;
static struct spec names;
static struct condition condition;
static struct fetch fetch;

/* As the target's helper, which looks at the memory first. */
static uint64_t run_match(void *data, const uint64_t arguments[BPF_ARGUMENTS])
{
	const unsigned char *text = (const unsigned char *)arguments[0];

	if (arguments[0] < NOWHERE)
		return (uint64_t)-EFAULT;
	return match_follows(text, strnlen((const char *)text, CALLTAP_PROGRAM_TEXT),
			     (const unsigned char *)arguments[1], arguments[2]);
}

static uint64_t run_match_comm(void *data, const uint64_t arguments[BPF_ARGUMENTS])
{
	const uint64_t match[BPF_ARGUMENTS] = {(uintptr_t) "worker-1", arguments[0], arguments[1]};

	return run_match(data, match);
}

/* The thread 4712 of the process 4711, at the time 7. */
static uint64_t run_pid(void *data, const uint64_t arguments[BPF_ARGUMENTS])
{
	return 4711;
}

static uint64_t run_tid(void *data, const uint64_t arguments[BPF_ARGUMENTS])
{
	return 4712;
}

static uint64_t run_time(void *data, const uint64_t arguments[BPF_ARGUMENTS])
{
	return 7;
}

static uint64_t vectors[CALLTAP_PROGRAM_VECTORS];

static uint64_t run_vector(void *data, const uint64_t arguments[BPF_ARGUMENTS])
{
	return arguments[0] < CALLTAP_PROGRAM_VECTORS ? vectors[arguments[0]] : 0;
}

/* What the program of the call keeps. */
static uint64_t kept;

static uint64_t run_keep(void *data, const uint64_t arguments[BPF_ARGUMENTS])
{
	kept = arguments[1];
	return 0;
}

/* Which numbers were told. */
static uint32_t told;

static uint64_t run_tell(void *data, const uint64_t arguments[BPF_ARGUMENTS])
{
	told |= 1u << arguments[1];
	return 0;
}

static const struct spec *find_names(const void *arg, const char *function, size_t length, bool result)
{
	return length == 1 && *function == 'f' && !result ? &names : NULL;
}

static char kind_type[] = "enum Kind", kind_names[] = "NONE=ffffffff,ONE=1,TWO=2,LOW=5";
static char other_type[] = "space::Other", other_names[] = "BELOW=fe,LOW=7,ONE=1";

static int setup(void **state)
{
	struct calltap_diag diag = {0};
	size_t length;

	memcpy(helpers, fetch_machine.helpers, sizeof(helpers));
	helpers[CALLTAP_HELPER_READ].run = run_read;
	helpers[CALLTAP_HELPER_MATCH].run = run_match;
	helpers[CALLTAP_HELPER_VECTOR].run = run_vector;
	helpers[CALLTAP_HELPER_KEEP].run = run_keep;
	helpers[CALLTAP_HELPER_MATCH_COMM].run = run_match_comm;
	helpers[CALLTAP_HELPER_PID].run = run_pid;
	helpers[CALLTAP_HELPER_TID].run = run_tid;
	helpers[CALLTAP_HELPER_TIME].run = run_time;
	helpers[CALLTAP_HELPER_TELL].run = run_tell;
	machine = fetch_machine;
	machine.helpers = helpers;
	int ret = spec_parse(
		&names, &length,
		"f a=arg1:s64 b=arg2:s64 c=arg3:s64 u=arg4:u64 small=arg1:s8 less=arg2:s8 byte=arg2:u8 half=arg3:s16 "
		"word=arg1:u32 text=arg5:string deep=+0(arg6):s32 seventh=arg7:s32 "
		"real=%xmm0 single=%xmm7:f32 far=+8(arg6):f64",
		false, &diag);

	/* As types have them; a SPEC has fewer. */
	names.fields[names.count] = (struct spec_field){.name = "kind",
							.argument = 1,
							.type = SPEC_ENUM,
							.size = 4,
							.is_signed = true,
							.c_type = kind_type,
							.more = kind_names};
	names.fields[names.count + 1] = (struct spec_field){.name = "other",
							    .argument = 2,
							    .type = SPEC_ENUM,
							    .size = 1,
							    .is_signed = true,
							    .c_type = other_type,
							    .more = other_names};
	names.count += 2;
	return ret;
}

static void compile(const char *text)
{
	struct calltap_diag diag = {0};
	size_t length;

	if (condition_parse(&condition, &length, text, find_names, NULL, &diag))
		fail_msg("%s: column %d, %s", text, diag.column, diag.text);
	fetch_compile_if(&fetch, NULL, REGISTERS, &condition, CALLTAP_VERDICT_HIDE, false);
	assert_true(fetch.count <= FETCH_INSNS);
	if (bpf_verify(&(struct bpf_verify){.machine = &fetch_machine, .insns = fetch.insns, .count = fetch.count},
		       &diag))
		fail_msg("%s: %s", text, diag.text);
}

static bool run(struct calltap_program_context *context)
{
	const struct bpf_run job = {
		.machine = &machine, .context = context, .insns = fetch.insns, .count = fetch.count};
	uint64_t verdict;

	assert_int_equal(bpf_interpret(&verdict, &job), 0);
	assert_true(verdict == CALLTAP_VERDICT_RECORD || verdict == CALLTAP_VERDICT_HIDE);
	return verdict == CALLTAP_VERDICT_RECORD;
}

static bool is_true(const char *text, struct calltap_program_context *context)
{
	compile(text);
	return run(context);
}

/* Values near which something changes. */
static const int64_t numbers[] = {
	0,   1,	  -1,	 2,	3,	    7,		63,	    64,		 127,	    128,       -128,
	255, 256, 32767, 32768, 0x7fffffff, 0x80000000, 0xffffffff, 0x100000000, INT64_MAX, INT64_MIN, INT64_MIN + 1};
#define NUMBERS (sizeof(numbers) / sizeof(numbers[0]))

/* Each is C of these variables, and a condition of values with their names. */
#define EXPRESSIONS                                                                                                    \
	X(a == 3)                                                                                                      \
	X(a == b || a < c && b != 1)                                                                                   \
	X(a & 64)                                                                                                      \
	X(a &b == b)                                                                                                   \
	X((a & b) == b)                                                                                                \
	X(a | b ^ c & 7)                                                                                               \
	X(!a == b)                                                                                                     \
	X(!(a == b) && !(b < c || a >= b))                                                                             \
	X(!(!(a > 1 && b > 1) || c))                                                                                   \
	X(~a & 0xff)                                                                                                   \
	X(-a < -b)                                                                                                     \
	X(-9223372036854775807 < a)                                                                                    \
	X(a < b == b < c)                                                                                              \
	X((a < b) + (b < c) + (a < c) >= 2)                                                                            \
	X(a < b < c)                                                                                                   \
	X(1 << 4 == 16 && a)                                                                                           \
	X((a >> 3) < (b >> 63))                                                                                        \
	X(u >> 60 > 7)                                                                                                 \
	X(u > b)                                                                                                       \
	X(a <= u)                                                                                                      \
	X(u == -1)                                                                                                     \
	X(small < 0)                                                                                                   \
	X(byte > 127 && half == byte)                                                                                  \
	X(half >= -128 && half <= word)                                                                                \
	X(word == 0xffffffff)                                                                                          \
	X(a == 0x7fffffffffffffff || a == 4294967295)                                                                  \
	X(a != 2147483648 && 18446744073709551615u != u)                                                               \
	X(7 > a && 1)                                                                                                  \
	X((a || b) && (b || c) && (a || c))                                                                            \
	X((a && b) || (b && c) || (a && c))                                                                            \
	X(seventh < 5 && seventh >= -1)                                                                                \
	X(deep == 3 || deep == -1)                                                                                     \
	X((a & 3) * 4 - (b & 7) % 3 + ((c & 15) / 3) > 6)                                                              \
	X((a & 0xffff) / ((b & 7) + 1) == (c & 0xff))                                                                  \
	X(8 - (b & 3) - 2 == 8 - ((b & 3) - 2) || 100 / 10 / 5 == (a & 3))

static void c_is_the_oracle(void **state)
{
	static const char *const texts[] = {
#define X(...) #__VA_ARGS__,
		EXPRESSIONS
#undef X
	};
	bool both[sizeof(texts) / sizeof(texts[0])][2] = {{false}};

	for (size_t e = 0; e < sizeof(texts) / sizeof(texts[0]); e++) {
		char text[200];

		snprintf(text, sizeof(text), "f: %s", texts[e]);
		if (strstr(text, "615u"))
			memmove(strstr(text, "615u") + 3, strstr(text, "615u") + 4,
				strlen(strstr(text, "615u") + 4) + 1);
		compile(text);
		for (unsigned i = 0; i < NUMBERS * NUMBERS * NUMBERS; i++) {
			int64_t a = numbers[i % NUMBERS], b = numbers[i / NUMBERS % NUMBERS];
			int64_t c = numbers[i / NUMBERS / NUMBERS], seventh = (int32_t)a, deep = (int32_t)b;
			uint64_t u = (uint64_t)c;
			int64_t small = (int8_t)a, byte = (uint8_t)b, half = (int16_t)c, word = (uint32_t)a;
			uint64_t stack[1] = {(uint64_t)a};
			int32_t memory = (int32_t)b;
			struct calltap_program_context context = {
				.arguments = {(uint64_t)a, (uint64_t)b, (uint64_t)c, u, 0, (uint64_t)&memory},
				.stack = (uint64_t)stack};
			bool truth = false;
			size_t at = 0;

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wparentheses"
#pragma GCC diagnostic ignored "-Wbool-compare"
#pragma GCC diagnostic ignored "-Wsign-compare"
#pragma GCC diagnostic ignored "-Wlogical-not-parentheses"
#pragma GCC diagnostic ignored "-Woverflow"
#define X(...)                                                                                                         \
	if (at++ == e && !((__VA_ARGS__) == 0))                                                                        \
		truth = true;
			EXPRESSIONS
#undef X
#pragma GCC diagnostic pop
			if ((a == INT64_MIN || b == INT64_MIN) && strchr(texts[e], '-'))
				continue; /* C does not say what -a and -b are */
			if (run(&context) != truth)
				fail_msg("%s with a %ld, b %ld, c %ld is %d in C", text, a, b, c, truth);
			both[e][truth] = true;
		}
		if (!both[e][0] || !both[e][1])
			fail_msg("%s is always the same", texts[e]);
	}
}

/* Numbers around those that the expressions name, in both formats. */
static const double reals[] = {0.0,
			       -0.0,
			       0.1,
			       -0.1,
			       1,
			       -1,
			       1.5,
			       -1.5,
			       16777216,
			       16777217,
			       1e-45,
			       -1e-45,
			       5e-324,
			       -5e-324,
			       3.4e38,
			       1e39,
			       -1e39,
			       2.5,
			       1e300,
			       0.1f,
			       16777218,
			       INFINITY,
			       -INFINITY,
			       NAN,
			       -NAN,
			       1.4999999,
			       1.5000001,
			       1.0000000000000002,
			       9007199254740993.0};
#define REALS (sizeof(reals) / sizeof(reals[0]))
#define REAL_EXPRESSIONS                                                                                               \
	X(real < 1.5)                                                                                                  \
	X(real <= 1.5 && single >= 1.5)                                                                                \
	X(single < 0.1)                                                                                                \
	X(single <= 0.1)                                                                                               \
	X(single == 0.1 || real == 0.1)                                                                                \
	X(single != 0.1 && real != 0.1)                                                                                \
	X(single > 0.1)                                                                                                \
	X(0.1 <= single)                                                                                               \
	X(real < 0 || single < 0)                                                                                      \
	X(real <= -0.0)                                                                                                \
	X(real == 0 && single == 0)                                                                                    \
	X(real > 0)                                                                                                    \
	X(single >= 0)                                                                                                 \
	X(!real)                                                                                                       \
	X(!(real > 1) && !(single < 1))                                                                                \
	X(real &&single)                                                                                               \
	X(real || a)                                                                                                   \
	X(single > 1e38 && real < 1e39)                                                                                \
	X(single < -1e300 || real < -1e300)                                                                            \
	X(single <= 1e300)                                                                                             \
	X(single > 1e-60 && real > 1e-320)                                                                             \
	X(single > -1e-60)                                                                                             \
	X(single == 16777217.0 || real == 1)                                                                           \
	X(single >= 16777217.0)                                                                                        \
	X(real == 16777217)                                                                                            \
	X(real != real_not)                                                                                            \
	X(1 < real && -1.5e0 != single)                                                                                \
	X(real == 9007199254740993)                                                                                    \
	X((far < 1.5) + (real < 1.5) == 1 && a > 0)                                                                    \
	X(a == 1 && far >= 0.1 || single < 1)

static void reals_are_cs(void **state)
{
	static const char *const texts[] = {
#define X(...) #__VA_ARGS__,
		REAL_EXPRESSIONS
#undef X
	};

	for (size_t e = 0; e < sizeof(texts) / sizeof(texts[0]); e++) {
		unsigned truths[2] = {0};
		char text[200];

		snprintf(text, sizeof(text), "f: %s", texts[e]);
		if (strstr(text, "real_not"))
			snprintf(text, sizeof(text), "f: real != 2.5");
		compile(text);
		for (unsigned i = 0; i < REALS * REALS * REALS; i++) {
			double real = reals[i % REALS], memory[2] = {0, reals[i / REALS / REALS]}, far = memory[1];
			const double real_not = 2.5;
			float single = (float)reals[i / REALS % REALS];
			int64_t a = (int64_t)i % 3 - 1;
			struct calltap_program_context context = {
				.arguments = {(uint64_t)a, 0, 0, 0, 0, (uint64_t)memory}};
			bool truth = false;
			size_t at = 0;

			memcpy(&vectors[0], &real, sizeof(real));
			memset(&vectors[7], 0xee, sizeof(vectors[7])); /* what is above the float says nothing */
			memcpy(&vectors[7], &single, sizeof(single));
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wparentheses"
#define X(...)                                                                                                         \
	if (at++ == e && !((__VA_ARGS__) == 0))                                                                        \
		truth = true;
			REAL_EXPRESSIONS
#undef X
#pragma GCC diagnostic pop
			if (run(&context) != truth)
				fail_msg("%s with real %a, single %a, far %a, a %ld is %d in C", text, real,
					 (double)single, far, a, truth);
			truths[truth]++;
		}
		if (!truths[0] || !truths[1])
			fail_msg("%s is always the same", texts[e]);
	}
}

/* A random expression: its text, and what it gives. */
static unsigned budget;
static int64_t variables[3];
static const char *called[3] = {"a", "b", "c"};

static int64_t grow(char *text, unsigned depth)
{
	static const char *const operators[] = {"+",  "-", "*",	 "&",  "|",  "^", "==", "!=", "<",
						"<=", ">", ">=", "&&", "||", "/", "%",	"<<", ">>"};
	char left[4000] = "", right[4000] = "";
	unsigned which = (unsigned)rand() % 18;
	int64_t l, r, results[18];

	if (!depth || budget < 2 || rand() % 8 == 0) {
		which = (unsigned)rand() % 4;
		l = which < 3 ? variables[which] : numbers[(unsigned)rand() % (NUMBERS - 2)];
		if (which < 3)
			strcpy(text, called[which]);
		else
			sprintf(text, l < 0 ? "(%ld)" : "%ld", l);
		budget -= budget > 0;
		return l;
	}
	budget--;
	if (rand() % 6 == 0) {
		which %= 3;
		l = grow(left, depth - 1);
		sprintf(text, "%c(%s)", "!-~"[which], left);
		return which == 0 ? !l : which == 1 ? (int64_t) - (uint64_t)l : ~l;
	}
	l = grow(left, depth - 1);
	r = grow(right, depth - 1);
	sprintf(text, "(%s %s %s)", left, operators[which], right);
	results[0] = (int64_t)((uint64_t)l + (uint64_t)r);
	results[1] = (int64_t)((uint64_t)l - (uint64_t)r);
	results[2] = (int64_t)((uint64_t)l * (uint64_t)r);
	results[3] = l & r;
	results[4] = l | r;
	results[5] = l ^ r;
	results[6] = l == r;
	results[7] = l != r;
	results[8] = l < r;
	results[9] = l <= r;
	results[10] = l > r;
	results[11] = l >= r;
	results[12] = l && r;
	results[13] = l || r;
	results[14] = !r ? 0 : r == -1 ? (int64_t) - (uint64_t)l : l / r;
	results[15] = !r ? l : r == -1 ? 0 : l % r;
	results[16] = (int64_t)((uint64_t)l << (r & 63));
	results[17] = l >> (r & 63);
	return results[which];
}

static void random_ones(void **state)
{
	unsigned truths = 0;

	srand(4711);
	for (unsigned i = 0; i < 4000; i++) {
		char text[8100], body[8000];
		struct calltap_program_context context = {0};
		bool truth;

		for (unsigned v = 0; v < 3; v++) {
			variables[v] = numbers[(unsigned)rand() % NUMBERS];
			context.arguments[v] = (uint64_t)variables[v];
		}
		budget = 30;
		truth = grow(body, 5) != 0;
		snprintf(text, sizeof(text), "f: %s", body);
		truths += truth;
		if (is_true(text, &context) != truth)
			fail_msg("%s with %ld, %ld, %ld is %d", text, variables[0], variables[1], variables[2], truth);
	}
	assert_in_range(truths, 1000, 3500);
}

/* Is it true, decided in two steps as in a target?  -1: nothing has room for what it keeps. */
static int is_true_of_result(const char *text, struct calltap_program_context *context, uint64_t result)
{
	struct calltap_program_context at_return = {.result = result};
	struct calltap_diag diag = {0};
	size_t length;

	if (condition_parse(&condition, &length, text, find_names, NULL, &diag)) {
		if (!strstr(diag.text, "keeps 64 bits"))
			fail_msg("%s: column %d, %s", text, diag.column, diag.text);
		return -1;
	}
	kept = 0x5555555555555555;
	for (int step = 0; step < 2; step++) {
		fetch_compile_if(&fetch, NULL, REGISTERS, &condition, CALLTAP_VERDICT_HIDE, step);
		if (bpf_verify(
			    &(struct bpf_verify){.machine = &fetch_machine, .insns = fetch.insns, .count = fetch.count},
			    &diag))
			fail_msg("%s, step %d: %s", text, step, diag.text);
		assert_true(!(fetch.flags & CALLTAP_PROGRAM_KEPT) == !condition.kept_count);
		at_return.kept = fetch.flags & CALLTAP_PROGRAM_KEPT ? kept : 0;
		if (!run(step ? &at_return : context))
			return 0;
	}
	return 1;
}

static void results_beside_arguments(void **state)
{
	static const int64_t small[] = {0, 1, -1, 2, 3, 7, -128, 127, 100};
	unsigned seen[3] = {0}, keeping = 0;

	called[0] = "small";
	called[1] = "less";
	called[2] = "ret:s64";
	srand(815);
	for (unsigned i = 0; i < 6000; i++) {
		char text[8100], body[8000];
		struct calltap_program_context context = {0};
		bool truth;
		int found;

		for (unsigned v = 0; v < 2; v++) {
			variables[v] = small[(unsigned)rand() % 9];
			context.arguments[v] = (uint64_t)(variables[v] & 0xff) | (uint64_t)rand() << 8;
		}
		variables[2] = numbers[(unsigned)rand() % NUMBERS];
		budget = 12;
		truth = grow(body, 4) != 0;
		snprintf(text, sizeof(text), "f: %s", body);
		found = is_true_of_result(text, &context, (uint64_t)variables[2]);
		if (found >= 0 && found != truth)
			fail_msg("%s with %ld, %ld, result %ld is %d", text, variables[0], variables[1], variables[2],
				 truth);
		seen[found < 0 ? 2 : found]++;
		keeping += found >= 0 && condition.kept_count;
	}
	assert_true(seen[0] > 500 && seen[1] > 500 && seen[2] < 3000 && keeping > 500);
	called[0] = "a";
	called[1] = "b";
	called[2] = "c";
}

/* Texts, numbers in memory, and floating-point numbers, of both. */
static void kinds_beside_arguments(void **state)
{
	static const struct {
		const char *text;
		int truth;
	} cases[] = {
		{"f: ret:string ~ \"x*\"", 1},
		{"f: ret:string == \"x\"", 0},
		{"f: ret:string ~ \"*y\" && text == \"abc\"", 1},
		{"f: ret:string ~ \"*z\" || text != \"abc\"", 0},
		{"f: text == \"b\" && ret:s32 < 0", 0},
		{"f: +4(ret):u8 == 0x79 && deep == -7", 0},
		{"f: +1(ret):u8 == 0x79 && deep == -7", 1},
		{"f: +0(ret):u8 - deep > 0x20 || word > 3 && 0", 1},
		{"f: (real < 1.5) == (ret:f64 > 2)", 0},
		{"f: (real > 1.5) == (ret:f64 > 2)", 1},
		{"f: ret:f64 < 2", 0},
		{"f: ret:f64 < 2 || ret:f64 < 1", 0},
		{"f: ret:f64 < 2 || real < 1.5", 0},
		{"f: real < 1.5 || ret:f64 < 2", 0},
		{"f: $ret:u64 > a", 1},
		{"f: a == 3 && u == 1 || $retval:u64 == 1", 0},
		{"f: a + b > ret:s64 || ret:s64 > 7", 1},
		{"f: a > ret:s64 || u > ret:s64 - 1", -1},
	};
	int32_t deep[2] = {-7, 0};
	double two = 2.5;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct calltap_program_context context = {.arguments = {7, 8, 9, 10, (uint64_t) "abc", (uint64_t)deep}};
		int found;

		memcpy(&vectors[0], &two, sizeof(two)); /* the argument's, and then the result's */
		found = is_true_of_result(cases[i].text, &context, (uint64_t) "xy");
		if (found != cases[i].truth)
			fail_msg("%s is %d", cases[i].text, found);
	}
}

/* Each question is asked by itself, whatever the condition behind them says. */
static void questions(void **state)
{
	static const char *const texts[] = {"f: a == 7",	"f: deep == 3 || 1", "f: text ~ \"a*\" && b < 0",
					    "f: text ~ \"a*\"", "f: real > 2",	     "f: !(a == 7 && b == 8)"};
	static struct condition list[6];
	struct fetch_ask asks[6];
	struct calltap_program_context context = {.arguments = {7, 8, 9, 10, (uint64_t) "abc", 16}};
	struct calltap_diag diag = {0};
	double two = 2.5;
	size_t length;

	memcpy(&vectors[0], &two, sizeof(two));
	for (uint32_t i = 0; i < 6; i++) {
		assert_int_equal(condition_parse(&list[i], &length, texts[i], find_names, NULL, &diag), 0);
		asks[i] = (struct fetch_ask){&list[i], 5 * i};
	}
	for (int truth = 0; truth < 2; truth++) {
		assert_int_equal(condition_parse(&condition, &length, truth ? "f: a == 7" : "f: a == 8", find_names,
						 NULL, &diag),
				 0);
		fetch_compile_asking(&fetch, NULL, REGISTERS, &condition, CALLTAP_VERDICT_HIDE, false, asks, 6);
		if (bpf_verify(
			    &(struct bpf_verify){.machine = &fetch_machine, .insns = fetch.insns, .count = fetch.count},
			    &diag))
			fail_msg("%s", diag.text);
		told = 0;
		assert_int_equal(run(&context), truth);
		/* What deep leads to is not there. */
		assert_int_equal(told, 1u | 1u << 15 | 1u << 20);
	}
}

static bool says(const char *text, const char *expression)
{
	struct calltap_program_context context = {.arguments = {7, 8, 9, 10, (uint64_t)text}};
	char whole[300];

	snprintf(whole, sizeof(whole), "f:%s", expression);
	return is_true(whole, &context);
}

static void texts(void **state)
{
	char many[400];

	assert_true(says("abc", "text == \"abc\""));
	assert_false(says("abcd", "text == \"abc\""));
	assert_false(says("ab", "text == \"abc\""));
	assert_false(says("abc", "text != \"abc\""));
	assert_true(says("abcd", "text != \"abc\""));
	assert_true(says("", "text == \"\""));
	assert_false(says("a", "text == \"\""));
	assert_true(says("lib.so", "text ~ \"*.so\""));
	assert_false(says("lib.so.1", "text ~ \"*.so\""));
	assert_true(says("lib.so.so", "text ~ \"*.so\""));
	assert_true(says("/etc/passwd", "text ~ \"/etc/*\""));
	assert_true(says("/etc/", "text ~ \"/etc/*\""));
	assert_true(says("axbyc", "text ~ \"a?b?c\""));
	assert_false(says("abc", "text ~ \"a?b?c\""));
	assert_true(says("", "text ~ \"*\""));
	assert_false(says("", "text ~ \"?\""));
	assert_true(says("aXbXXc", "text ~ \"a*b*c\""));
	assert_false(says("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "text ~ \"*a*a*a*a*a*b\""));
	assert_true(says("a*c", "text ~ \"a\\*c\""));
	assert_false(says("abc", "text ~ \"a\\*c\""));
	assert_true(says("a*c", "text == \"a*c\""));
	assert_true(says("a[1]", "text ~ \"a\\[?]\""));
	assert_true(says("say \"x\"\n", "text == \"say \\\"x\\\"\\n\""));
	assert_true(says("a: b || c", "text == \"a: b || c\" && arg1 == 7"));
	assert_true(says("x", "text == \"y\" || text == \"x\""));
	assert_true(says("x", "(text == \"y\" || a == 7) && (text == \"z\" || b == 8) && (text ~ \"x*\" || 0)"));
	assert_true(says("x", "arg5:string[3] == \"x\""));
	assert_true(says("x", "text != NULL && text ~ \"x\""));
	assert_false(says("x", "text == NULL || text == 0"));
	assert_true(says(NULL, "text == NULL && text == 0 && NULL == 0"));
	assert_false(says(NULL, "text != NULL"));
	memset(many, 'x', sizeof(many));
	many[399] = 0;
	assert_true(says(many, "text ~ \"xx*\""));
	assert_false(says(many, "text ~ \"*y\""));
}

/* Words and letters that mean numbers. */
static void constants(void **state)
{
	static const char *const are[] = {
		"kind == NONE && kind < ONE",
		"other == BELOW && other == -2",
		"kind != Kind::LOW && other != space::Other::LOW && Other::LOW == 7 && Kind::LOW == 5",
		"(ONE | TWO) == 3 && ~TWO == -3 && space::BELOW == -2",
		"true && !false && (a == -1) == true && NULL == false",
		"c == 'a' && '\\n' == 10 && '\\'' == 39 && 'a' + 1 == 'b' && '\\0' == 0 && '\\x41' == 65",
		"real == nan && nan == real && !(real != nan)",
		"single != nan && single == -inf && single < 0 && single < inf && far == inf && far > 1e308",
		"real == nan || real <= inf",
		"!(real < inf) && !(real >= -inf)",
		"text && !(!text) && text == \"\\303\\xa4\\x41\" && text ~ \"\\303*A\"",
		"NULL != text && !(0 == text)",
	};
	double far[2] = {0, INFINITY}, real = NAN;
	float single = -INFINITY;
	struct calltap_program_context context = {.arguments = {(uint64_t)-1, 0xfe, 'a', 1,
								(uint64_t) "\303\xa4"
									   "A",
								(uint64_t)far}};

	memcpy(&vectors[0], &real, sizeof(real));
	memcpy(&vectors[7], &single, sizeof(single));
	for (size_t i = 0; i < sizeof(are) / sizeof(are[0]); i++) {
		char text[200];

		snprintf(text, sizeof(text), "f: %s", are[i]);
		if (!is_true(text, &context))
			fail_msg("%s is false", text);
	}
	context.arguments[4] = 0;
	assert_true(is_true("f: !text && text == NULL && NULL == text", &context));
	assert_false(is_true("f: text", &context));
	assert_false(is_true("f: text && a", &context));
	real = 3;
	memcpy(&vectors[0], &real, sizeof(real));
	assert_true(is_true("f: real != nan && !(real == nan)", &context));
	assert_false(is_true("f: real == nan || nan == real", &context));
}

static void who_calls(void **state)
{
	static const char *const always[] = {"$tid == 4712 && a == 7",	       "$pid == $tid - 1",
					     "b == 8 && $time % 4 == 3",       "$comm == \"worker-1\" && a == 7",
					     "a == 8 || $comm ~ \"worker-*\"", "$comm != \"worker\""};
	static const char *const never[] = {"$tid == 4711", "a == 7 && $pid != 4711", "$comm == \"worker\"",
					    "!($comm ~ \"*1\")", "$time & 8"};

	for (size_t i = 0; i < sizeof(always) / sizeof(always[0]); i++)
		assert_true(says("", always[i]));
	for (size_t i = 0; i < sizeof(never) / sizeof(never[0]); i++)
		assert_false(says("", never[i]));
}

/* Who calls is known at the call, and beside a result, too: nothing is kept for it. */
static void who_calls_beside_a_result(void **state)
{
	struct calltap_program_context context = {.arguments = {7, 8}};
	struct calltap_diag diag = {0};
	size_t length;

	assert_int_equal(condition_parse(&condition, &length, "f: $tid == 1 && ret:s32 < 0", find_names, NULL, &diag),
			 0);
	assert_int_equal(condition_uses(&condition), CONDITION_AT_RETURN);
	assert_int_equal(condition.kept_count, 0);
	assert_int_equal(condition_parse(&condition, &length, "f: $tid == 4712 && ($comm ~ \"no*\" || ret:s32 < 0)",
					 find_names, NULL, &diag),
			 0);
	assert_int_equal(condition.kept_count, 0);
	fetch_compile_if(&fetch, NULL, REGISTERS, &condition, CALLTAP_VERDICT_HIDE, true);
	context = (struct calltap_program_context){.result = (uint32_t)-5};
	assert_true(run(&context));
	context.result = 5;
	assert_false(run(&context));
}

static void faults_are_false(void **state)
{
	static const char *const never[] = {
		"deep == 0",
		"deep != 0",
		"!(deep == 0)",
		"deep || 1",
		"text == \"\"",
		"text != \"\"",
		"!(text ~ \"*\")",
		"a == 1 || deep == 3 || 1",
		"+0(arg1:u8) || 1",
		"seventh == 0",
		"+8(+0(arg6)):string ~ \"*\"",
		"(deep == 0) + 1",
	};
	struct calltap_program_context context = {.arguments = {7, 8, 9, 10, 16, 24}, .stack = 32};

	for (size_t i = 0; i < sizeof(never) / sizeof(never[0]); i++) {
		char text[100];

		snprintf(text, sizeof(text), "f: %s", never[i]);
		if (!strstr(text, "arg1:u8") && is_true(text, &context))
			fail_msg("%s is true", text);
	}
	/* What && and || leave out is not read. */
	assert_true(is_true("f: a == 7 || deep == 3", &context));
	assert_true(is_true("f: !(a == 8 && text == \"x\")", &context));
}

static void names_and_functions(void **state)
{
	static const struct {
		const char *text;
		size_t function;
	} cases[] = {
		{"f:a==1", 1},
		{"f : a==1", 1},
		{"libc.so.6:open: arg1", 14},
		{"libc.so.6:open:arg2 & 64", 14},
		{"std::vector<int>::at: arg2:u32 > 5", 20},
		{"operator new(unsigned long): arg1:u64 > 100", 27},
		{"/^ab:c$/: $arg1:s32 == +8(arg2):u16 + 1", 8},
		{"g: arg1 == -1 && +8(+0(arg2)):string ~ \"a: b\"", 1},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct calltap_diag diag = {0};
		size_t length = 0;

		if (condition_parse(&condition, &length, cases[i].text, find_names, NULL, &diag))
			fail_msg("%s: column %d, %s", cases[i].text, diag.column, diag.text);
		assert_int_equal(length, cases[i].function);
	}
}

static void what_makes_no_sense_is_refused(void **state)
{
	static const struct {
		const char *text;
		int column;
		const char *why;
	} cases[] = {
		{"f", 1, "says not which"},
		{"f:", 2, "value or a number is missing"},
		{"f: a = 3", 5, "compared by =="},
		{"f: a 3", 5, "operator is missing"},
		{"f: a ==", 7, "value or a number is missing"},
		{"f: (a == 3", 10, "')' is missing"},
		{"f: a == 3)", 9, "operator is missing"},
		{"f: z == 3", 3, "no value"},
		{"g: a == 3", 3, "no value"},
		{"f: ret < 0", 3, "type of this result"},
		{"f: $retval < 0", 3, "type of this result"},
		{"f: real + 1 < 2", 8, "takes part in nothing else"},
		{"f: real < real", 8, "takes part in nothing else"},
		{"f: real < a", 8, "takes part in nothing else"},
		{"f: -real < 2", 3, "takes part in nothing else"},
		{"f: a < 1.5", 5, "with a floating-point value, and no other"},
		{"f: 1.5", 6, "with a floating-point value, and no other"},
		{"f: real < 1e999", 10, "too large"},
		{"f: real < 1.5f", 13, "letter"},
		{"f: arg25", 6, "too large"},
		{"f: arg1:u7", 8, "types are"},
		{"f: a == 99999999999999999999", 8, "too large"},
		{"f: a == 3x", 9, "letter"},
		{"f: -text", 3, "text is compared"},
		{"f: text + 1", 8, "text is compared"},
		{"f: kind == LOW", 11, "two types"},
		{"f: kind == Kind::LOWER", 11, "no value"},
		{"f: kind == Other::", 11, "no value"},
		{"f: real < nan", 8, "== nan and != nan"},
		{"f: a == nan", 5, "no other"},
		{"f: a == ''", 8, "letter is missing"},
		{"f: a == 'ab'", 8, "is one"},
		{"f: a == '\\377'", 8, "ASCII"},
		{"f: text == \"\\q\"", 12, "no such escape"},
		{"f: text == \"\\x\"", 12, "digits"},
		{"f: text == \"\\0\"", 12, "byte of 0"},
		{"f: text == \"\\477\"", 12, "at the most"},
		{"f: text == 3", 11, "in quotes"},
		{"f: text < \"x\"", 8, "==, != or ~"},
		{"f: \"x\" == text", 3, "right"},
		{"f: $comm == NULL", 12, "in quotes"},
		{"f: $comm + 1", 9, "==, != or ~"},
		{"f: $tid ~ \"x\"", 8, "type string"},
		{"f: $stack == 1", 3, "not compared"},
		{"f: $who == 1", 3, "a value is"},
		{"f: a ~ \"x\"", 5, "type string"},
		{"f: a == text", 5, "in quotes"},
		{"f: text == \"x", 13, "second quote"},
		{"f: a && text == \"x:y", 20, "second quote"},
		{"f: text ~ \"x: y z: w", 20, "second quote"},
		{"1 ? 2 : 3", 2, "no '?'"},
		{"f: a ? b : c", 5, "no '?'"},
		{"f: a == 3 ? b : c", 10, "no '?'"},
		{"f: a == zz && arg1:u8 == 3", 8, "no value"},
		{"f:a == zz && ret:s32 == 3", 7, "no value"},
		{"f: a \"x\"", 5, "right of"},
		{"f: text ~ \"[a]\"", 11, "\\["},
		{"f: u < 0", 5, "never below 0"},
		{"f: u >= -1", 5, "never below 0"},
		{"f: 0 > u", 5, "never below 0"},
		{"f: ((((((((((((((((((((((((((((((((((1))))))))))))))))))))))))))))))))))", 19, "too deeply"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct calltap_diag diag = {0};
		size_t length;

		if (!condition_parse(&condition, &length, cases[i].text, find_names, NULL, &diag))
			fail_msg("'%s' was taken", cases[i].text);
		if (!strstr(diag.text, cases[i].why) || diag.column != cases[i].column)
			fail_msg("'%s': column %d, %s", cases[i].text, diag.column, diag.text);
	}
}

/* What is too large is refused, and what is not is taken by the verifier in front of the most values. */
static void the_largest(void **state)
{
	struct calltap_diag diag = {0};
	char text[3000] = "f: ", values[2000] = "f";
	struct spec spec;
	size_t length;

	for (int i = 0; i < 15; i++)
		strcat(text, "(a == 1 || deep == 3) && ");
	strcat(text, "text ~ \"x\"");
	assert_int_equal(condition_parse(&condition, &length, text, find_names, NULL, &diag), -EINVAL);
	assert_non_null(strstr(diag.text, "more than 64"));
	strcpy(text, "f: ");
	for (int i = 0; i < 7; i++)
		strcat(text, "(a == 1 || deep == 3) && ");
	strcat(text, "text ~ \"x\"");
	for (int i = 0; i < 16; i++)
		strcat(values, " +1(+2(+3(+4(+5(+6(arg24)))))):u64");
	assert_int_equal(spec_parse(&spec, &length, values, false, &diag), 0);
	assert_int_equal(condition_parse(&condition, &length, text, find_names, NULL, &diag), 0);
	fetch_compile_if(&fetch, &spec, REGISTERS, &condition, CALLTAP_VERDICT_LEAVE_OUT, false);
	assert_true(fetch.count <= FETCH_INSNS);
	if (bpf_verify(&(struct bpf_verify){.machine = &fetch_machine, .insns = fetch.insns, .count = fetch.count},
		       &diag))
		fail_msg("%s: %s", text, diag.text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(c_is_the_oracle),
		cmocka_unit_test(reals_are_cs),
		cmocka_unit_test(random_ones),
		cmocka_unit_test(results_beside_arguments),
		cmocka_unit_test(kinds_beside_arguments),
		cmocka_unit_test(questions),
		cmocka_unit_test(texts),
		cmocka_unit_test(constants),
		cmocka_unit_test(faults_are_false),
		cmocka_unit_test(names_and_functions),
		cmocka_unit_test(who_calls),
		cmocka_unit_test(who_calls_beside_a_result),
		cmocka_unit_test(what_makes_no_sense_is_refused),
		cmocka_unit_test(the_largest),
	};

	return cmocka_run_group_tests(tests, setup, NULL);
}
