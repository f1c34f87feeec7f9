/*
 * What people type about values: line 1 is a SPEC with its FUNCTION, line 2 a condition.  Each that is taken makes a
 * program that the verifier takes, that ends in the interpreter with one of its two verdicts, and that compiles.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <bpf/compile.h>
#include <bpf/interpret.h>
#include <bpf/verify.h>
#include <host/values/fetch.h>

#include "fuzz.h"

#define TEXT_MAX 1024 /* longer than any that is typed */

enum { CODE_MAX = BPF_CODE_PER_INSN * FETCH_INSNS + BPF_CODE_MORE, REGISTERS = FETCH_REGISTERS_X86_64 };

/* The helpers, of a target in which an address is what lies there, and odd ones lead nowhere. */
static uint64_t run_read(void *data, const uint64_t arguments[BPF_ARGUMENTS])
{
	(void)data;
	memset((void *)(uintptr_t)arguments[0], arguments[2] & 1 ? 0 : (int)(arguments[2] >> 4), arguments[1]);
	return arguments[2] & 1 ? (uint64_t)-EFAULT : 0;
}

static uint64_t run_text(void *data, const uint64_t arguments[BPF_ARGUMENTS])
{
	(void)data;
	fuzz_expect(arguments[2] && arguments[2] <= CALLTAP_PROGRAM_TEXT, "a text has a bound");
	return arguments[1];
}

static uint64_t run_write(void *data, const uint64_t arguments[BPF_ARGUMENTS])
{
	(void)data;
	fuzz_expect(arguments[2] <= CALLTAP_PROGRAM_BYTES, "an event has room");
	return 0;
}

static uint64_t run_match(void *data, const uint64_t arguments[BPF_ARGUMENTS])
{
	(void)data;
	fuzz_expect(arguments[2] <= CONDITION_PATTERN, "a pattern has room");
	return arguments[0] & 1 ? (uint64_t)-EFAULT : arguments[0] >> 1 & 1;
}

static uint64_t run_vector(void *data, const uint64_t arguments[BPF_ARGUMENTS])
{
	(void)data;
	fuzz_expect(arguments[0] < CALLTAP_PROGRAM_VECTORS, "there is such a vector register");
	return 0x400921fb54442d18;
}

static uint64_t run_caller(void *data, const uint64_t arguments[BPF_ARGUMENTS])
{
	(void)data;
	(void)arguments;
	return 4711;
}

static uint64_t run_match_comm(void *data, const uint64_t arguments[BPF_ARGUMENTS])
{
	(void)data;
	fuzz_expect(arguments[1] <= CONDITION_PATTERN, "a pattern has room");
	return arguments[1] & 4 ? (uint64_t)-EFAULT : 1;
}

static uint64_t run_keep(void *data, const uint64_t arguments[BPF_ARGUMENTS])
{
	(void)data;
	(void)arguments;
	return 0;
}

/* An array of one value, which the odd indices have. */
static uint64_t value[8];

static uint64_t run_lookup(void *data, const uint64_t arguments[BPF_ARGUMENTS])
{
	(void)data;
	fuzz_expect(arguments[0] < CALLTAP_MAPS, "there is such an array");
	return *(const uint32_t *)(uintptr_t)arguments[1] & 1 ? (uintptr_t)value : 0;
}

static uint64_t run_delete(void *data, const uint64_t arguments[BPF_ARGUMENTS])
{
	(void)data;
	fuzz_expect(arguments[4] == sizeof(uint64_t), "a number has room");
	*(uint64_t *)(uintptr_t)arguments[3] = arguments[1];
	return arguments[1] & 16 ? (uint64_t)-ENOENT : 0;
}

static const struct bpf_machine *machine(void)
{
	static struct bpf_helper helpers[CALLTAP_HELPERS];
	static struct bpf_machine own;

	memcpy(helpers, fetch_machine.helpers, sizeof(helpers));
	helpers[CALLTAP_HELPER_READ].run = run_read;
	helpers[CALLTAP_HELPER_TEXT].run = run_text;
	helpers[CALLTAP_HELPER_WRITE].run = run_write;
	helpers[CALLTAP_HELPER_MATCH].run = run_match;
	helpers[CALLTAP_HELPER_VECTOR].run = run_vector;
	helpers[CALLTAP_HELPER_KEEP].run = run_keep;
	helpers[CALLTAP_HELPER_TELL].run = run_keep;
	helpers[CALLTAP_HELPER_TIME].run = run_caller;
	helpers[CALLTAP_HELPER_PID].run = run_caller;
	helpers[CALLTAP_HELPER_TID].run = run_caller;
	helpers[CALLTAP_HELPER_STACK].run = run_caller;
	helpers[CALLTAP_HELPER_COMM].run = run_caller;
	helpers[CALLTAP_HELPER_MATCH_COMM].run = run_match_comm;
	helpers[CALLTAP_HELPER_COUNT].run = run_write;
	helpers[CALLTAP_HELPER_FIND].run = run_caller;
	helpers[CALLTAP_HELPER_LOOKUP].run = run_lookup;
	helpers[CALLTAP_HELPER_UPDATE].run = run_caller;
	helpers[CALLTAP_HELPER_DELETE].run = run_delete;
	own = fetch_machine;
	own.helpers = helpers;
	return &own;
}

static const struct bpf_machine *machine_of(const struct fetch *fetch)
{
	return fetch_is_plain(fetch) ? &fetch_plain_machine : machine();
}

static void run(const struct fetch *fetch, bool counts)
{
	static const uint64_t edges[] = {0, 1, 2, 0x7fffffff, 0x80000000, UINT64_MAX, 0x8000000000000000, 0x7ffc0000};
	const size_t count = sizeof(edges) / sizeof(edges[0]);
	uint64_t words[sizeof(struct fetch_plain_context) / 8], verdict;
	const struct bpf_memory memory = {value, sizeof(value), true};
	const struct bpf_run job = {.machine = machine_of(fetch),
				    .insns = fetch->insns,
				    .count = fetch->count,
				    .context = words,
				    .memory = &memory,
				    .memory_count = 1};

	_Static_assert(sizeof(value) >= sizeof(struct calltap_map_sum), "room for the largest value");
	_Static_assert(sizeof(words) >= sizeof(struct calltap_program_context), "room for both");

	for (size_t first = 0; first < count; first++) {
		for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
			words[i] = edges[(first + i * 3) % count];
		fuzz_expect(!bpf_interpret(&verdict, &job), "a program stays where it may be, and ends");
		fuzz_expect(fetch_is_plain(fetch) || counts
				    ? !verdict || verdict == CALLTAP_VERDICT_AWAIT
				    : verdict == CALLTAP_VERDICT_RECORD || verdict == CALLTAP_VERDICT_HIDE,
			    "a program says whether the call is recorded");
	}
}

static void try_fetch(const struct fetch *fetch, bool counts)
{
	static uint8_t code[CODE_MAX];
	struct calltap_diag diag = {0};
	static const uint64_t maps[CALLTAP_MAPS] = {0, 1, 2};
	struct bpf_compile job = {.insns = fetch->insns, .helpers_at = -4096, .maps = maps, .bare = true};
	size_t length;
	int ret;

	if (fetch->count > FETCH_INSNS)
		return; /* refused by that (code.c) */
	ret = bpf_verify(
		&(struct bpf_verify){.machine = machine_of(fetch), .insns = fetch->insns, .count = fetch->count},
		&diag);
	fuzz_expect(!ret || ret == -E2BIG, "what was taken makes a program that the verifier takes");
	if (ret)
		return;
	job.count = fetch->count;
	fuzz_expect(!bpf_compile_x86_64(&length, code, sizeof(code), &job), "it is compiled");
	run(fetch, counts);
}

/* spec or condition may be NULL; result: of the return. */
static void try_program(const struct spec *spec, const struct condition *condition, bool result)
{
	static const struct buckets all[] = {
		{.kind = BUCKET_NONE}, {.kind = BUCKET_LOG2}, {BUCKET_LINEAR, -BUCKET_LOW_MAX, INT32_MAX, BUCKETS_MAX}};
	static const enum fetch_part parts[2][2] = {{FETCH_COUNT, FETCH_KEEP_KEY},
						    {FETCH_COUNT_RESULT, FETCH_SUM_RESULT}};
	static const struct spec none = {.count = 0};
	static struct fetch fetch;

	_Static_assert(!CALLTAP_VERDICT_LEAVE_OUT, "as run() has it");
	fetch_compile_if(&fetch, spec, REGISTERS, condition, CALLTAP_VERDICT_HIDE, result);
	try_fetch(&fetch, false);
	for (size_t i = 0; spec && i < sizeof(all) / sizeof(all[0]); i++) {
		if (all[i].kind && (spec->count != 1 || !bucket_suits(&spec->fields[0])))
			continue;
		fetch_compile_count(&fetch, result ? FETCH_COUNT_RESULT : FETCH_COUNT, spec, REGISTERS, condition,
				    &all[i]);
		try_fetch(&fetch, true);
	}
	if (!result) {
		fetch_compile_count(&fetch, FETCH_AWAIT, spec ? spec : &none, REGISTERS, condition, &all[0]);
		try_fetch(&fetch, true);
	}
	if (spec && spec->count == 1 && bucket_suits(&spec->fields[0])) {
		struct spec ending = *spec; /* of a span; a beginning's program has less */

		ending.span = SPEC_ENDS;
		fetch_compile_count(&fetch, result ? FETCH_COUNT_RESULT : FETCH_COUNT, &ending, REGISTERS, condition,
				    &all[1]);
		try_fetch(&fetch, true);
	}
	if (spec && spec->count && bucket_suits(&spec->fields[spec->count - 1])) {
		struct spec summed = *spec; /* the last number, by those in front of it */

		summed.count--;
		summed.sums = true;
		for (size_t i = 0; i < 2; i++) {
			fetch_compile_count(&fetch, parts[result][i], &summed, REGISTERS, condition, &all[0]);
			try_fetch(&fetch, true);
		}
	}
}

static const struct spec *find_names(const void *arg, const char *function, size_t length, bool result)
{
	(void)result;
	return length == 1 && function[0] == 'f' ? arg : function[0] == 't' ? &condition_later : NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = strndup((const char *)data, size < TEXT_MAX ? size : TEXT_MAX), *second;
	static struct condition condition;
	bool has_spec = false, has_condition = false;
	struct calltap_diag diag = {0};
	struct spec spec = {0};
	size_t function;

	if (!text)
		abort();
	second = strchr(text, '\n');
	if (second)
		*second++ = 0;
	(void)spec_is_function(text);
	if (!spec_parse(&spec, &function, text, second && second[0] == '<', &diag)) {
		has_spec = !spec_has_path(&spec);
		fuzz_expect(function <= strlen(text), "FUNCTION is part of the text");
		fuzz_expect(spec.count && spec.count <= SPEC_FIELDS, "fields are bounded");
		if (spec_has_path(&spec))
			spec_clear(&spec); /* its fields are nothing before types were asked */
		else
			try_program(&spec, NULL, false);
	} else {
		fuzz_expect(diag.text[0] && diag.column <= (int)strlen(diag.input), "an error is told");
	}
	if (second && !condition_parse(&condition, &function, second, find_names, &spec, &diag)) {
		has_condition = true;
		fuzz_expect(function <= strlen(second), "FUNCTION is part of the text");
		fuzz_expect(condition.node_count <= CONDITION_NODES && condition.field_count <= CONDITION_NODES,
			    "nodes are bounded");
		for (int result = 0; result < 2 && !condition.waits; result++)
			try_program(has_spec ? &spec : NULL, &condition, result);
	}
	fuzz_taken = has_spec || has_condition;
	spec_clear(&spec);
	free(text);
	return 0;
}
