/*
 * Conditions: each expression as a program in the interpreter says what C says of it, and what this file's own
 * evaluator says of random ones; the verifier takes each; what makes no sense is refused where it stands.
 */
#include <errno.h>
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

static const struct spec *find_names(const void *arg, const char *function, size_t length)
{
	return length == 1 && *function == 'f' ? &names : NULL;
}

static int setup(void **state)
{
	struct calltap_diag diag = {0};
	size_t length;

	memcpy(helpers, fetch_machine.helpers, sizeof(helpers));
	helpers[CALLTAP_HELPER_READ].run = run_read;
	helpers[CALLTAP_HELPER_MATCH].run = run_match;
	machine = fetch_machine;
	machine.helpers = helpers;
	return spec_parse(&names, &length,
			  "f a=arg1:s64 b=arg2:s64 c=arg3:s64 u=arg4:u64 small=arg1:s8 byte=arg2:u8 half=arg3:s16 "
			  "word=arg1:u32 text=arg5:string deep=+0(arg6):s32 seventh=arg7:s32",
			  false, &diag);
}

static void compile(const char *text)
{
	struct calltap_diag diag = {0};
	size_t length;

	if (condition_parse(&condition, &length, text, find_names, NULL, &diag))
		fail_msg("%s: column %d, %s", text, diag.column, diag.text);
	fetch_compile_if(&fetch, NULL, REGISTERS, &condition, CALLTAP_VERDICT_HIDE);
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

/* A random expression: its text, and what it gives. */
static unsigned budget;
static int64_t variables[3];

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
			sprintf(text, "%c", 'a' + which);
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
	memset(many, 'x', sizeof(many));
	many[399] = 0;
	assert_true(says(many, "text ~ \"xx*\""));
	assert_false(says(many, "text ~ \"*y\""));
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
		{"f: ret < 0", 3, "result is known"},
		{"f: $retval < 0", 3, "result is known"},
		{"f: %xmm0 < 0", 8, "not compared so far"},
		{"f: arg7:f64 < 0", 11, "not compared so far"},
		{"f: +0(arg1):f32 < 0", 15, "not compared so far"},
		{"f: arg25", 6, "too large"},
		{"f: arg1:u7", 8, "types are"},
		{"f: a == 99999999999999999999", 8, "too large"},
		{"f: a == 3x", 9, "letter"},
		{"f: text", 7, "text is compared"},
		{"f: !text", 3, "text is compared"},
		{"f: text == 3", 11, "in quotes"},
		{"f: text < \"x\"", 8, "==, != or ~"},
		{"f: \"x\" == text", 3, "right"},
		{"f: a ~ \"x\"", 5, "type string"},
		{"f: a == text", 5, "in quotes"},
		{"f: text == \"x", 13, "second quote"},
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
	fetch_compile_if(&fetch, &spec, REGISTERS, &condition, CALLTAP_VERDICT_LEAVE_OUT);
	assert_true(fetch.count <= FETCH_INSNS);
	if (bpf_verify(&(struct bpf_verify){.machine = &fetch_machine, .insns = fetch.insns, .count = fetch.count},
		       &diag))
		fail_msg("%s: %s", text, diag.text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(c_is_the_oracle),
		cmocka_unit_test(random_ones),
		cmocka_unit_test(texts),
		cmocka_unit_test(faults_are_false),
		cmocka_unit_test(names_and_functions),
		cmocka_unit_test(what_makes_no_sense_is_refused),
		cmocka_unit_test(the_largest),
	};

	return cmocka_run_group_tests(tests, setup, NULL);
}
