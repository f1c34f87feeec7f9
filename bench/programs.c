/*
 * The cost of a call of a compiled eBPF program, beside C that does the same, and beside the interpreter.
 *
 * Each program has a call's registers as its context: words, of which the first two are arguments.  The helper copies a
 * record of 24 bytes to memory, for one thread alone.  Prints "NAME-program NS",
 * "NAME-c NS" and "NAME-interpreted NS" for each: the smallest of several rounds, per call.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include <bpf/compile.h>
#include <bpf/interpret.h>
#include <bpf/text.h>
#include <bpf/verify.h>

enum { ROUNDS = 7, INSNS = 256, RECORDS = 1024, WORDS = 20 };

typedef uint64_t function(void *context);

static struct record {
	uint64_t words[3];
} records[RECORDS];

static uint64_t position;

__attribute__((noinline)) static uint64_t take_record(uint64_t at, uint64_t size)
{
	struct record *record = &records[position++ % RECORDS];

	if (size > sizeof(*record))
		return 0;
	memcpy(record, (const void *)(uintptr_t)at, size);
	return size;
}

static uint64_t take_for_interpreter(void *data, const uint64_t arguments[BPF_ARGUMENTS])
{
	return take_record(arguments[0], arguments[1]);
}

__attribute__((noinline)) static uint64_t nothing(void *context)
{
	return 0;
}

__attribute__((noinline)) static uint64_t filter(void *context)
{
	const uint64_t *words = context;

	return (uint32_t)words[0] == 3 && words[1] > 4096;
}

__attribute__((noinline)) static uint64_t record(void *context)
{
	const uint64_t *words = context;
	struct record made = {{0x10001, words[0], words[1]}};

	return take_record((uint64_t)(uintptr_t)&made, sizeof(made));
}

__attribute__((noinline)) static uint64_t compute(void *context)
{
	const uint64_t *words = context;
	uint64_t a = words[0], b = words[1];

	for (int i = 0; i < 8; i++) {
		a ^= b << 13;
		b += a >> 7;
		a *= 0x9e3779b1;
		b = (uint32_t)b | 1;
		a = a / b + (uint32_t)((uint32_t)a + (uint32_t)b);
	}
	return a;
}

#define ROUND                                                                                                          \
	"r4 = r3; r4 <<= 13; r2 ^= r4; r4 = r2; r4 >>= 7; r3 += r4; r2 *= r5; w3 = w3; r3 |= 1;"                       \
	"r4 = r2; w4 += w3; r2 /= r3; r2 += r4;"

static const struct work {
	const char *name, *text;
	function *in_c;
} works[] = {
	{"nothing", "r0 = 0; exit", nothing},
	{"filter",
	 "r0 = 0; r2 = *(u32 *)(r1 + 0); if w2 != 3 goto +3; r2 = *(u64 *)(r1 + 8); if r2 <= 4096 goto +1; r0 = 1; "
	 "exit",
	 filter},
	{"record",
	 "r2 = *(u64 *)(r1 + 0); r3 = *(u64 *)(r1 + 8); *(u64 *)(r10 - 24) = 0x10001; *(u64 *)(r10 - 16) = r2;"
	 "*(u64 *)(r10 - 8) = r3; r1 = r10; r1 += -24; r2 = 24; call 1; exit",
	 record},
	{"compute",
	 "r2 = *(u64 *)(r1 + 0); r3 = *(u64 *)(r1 + 8); r5 = 0x9e3779b1 ll;" ROUND ROUND ROUND ROUND ROUND ROUND ROUND
		 ROUND "r0 = r2; exit",
	 compute},
};

static const struct bpf_helper helpers[] = {
	{.name = NULL},
	{"record", {BPF_ARGUMENT_READ, BPF_ARGUMENT_SIZE}, BPF_RESULT_NUMBER, take_for_interpreter},
};
static const struct bpf_machine machine = {WORDS * 8, helpers, 2, NULL, 0};

static uint64_t context[WORDS] = {7, 0x123456789abcdef, 3};
static struct bpf_insn insns[INSNS];
static struct bpf_run job = {.machine = &machine, .insns = insns};

static uint64_t interpreted(void *words)
{
	uint64_t result;

	job.context = words;
	if (bpf_interpret(&result, &job))
		abort();
	return result;
}

static function *compile(const char *text)
{
	const uint64_t addresses[] = {0, (uint64_t)(uintptr_t)take_record};
	struct bpf_compile compiling = {insns, 0, addresses, NULL};
	struct bpf_verify verifying = {.machine = &machine, .insns = insns};
	const size_t room = INSNS * BPF_CODE_PER_INSN + BPF_CODE_MORE;
	struct calltap_diag diag = {0};
	size_t length;
	void *code;

	if (bpf_assemble(insns, &compiling.count, INSNS, text, &diag)) {
		fprintf(stderr, "%s\n", diag.text);
		exit(1);
	}
	verifying.count = job.count = compiling.count;
	if (bpf_verify(&verifying, &diag)) {
		fprintf(stderr, "%s\n", diag.text);
		exit(1);
	}
	code = mmap(NULL, room, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (code == MAP_FAILED || COMPILE_NATIVE(&length, code, room, &compiling))
		exit(1);
	__builtin___clear_cache((char *)code, (char *)code + length);
	return (function *)(uintptr_t)code;
}

static double now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1e9 + now.tv_nsec;
}

static double smallest(function *called, long calls)
{
	double best = 1e18;

	for (int i = 0; i < ROUNDS; i++) {
		double start = now_ns(), spent;

		for (long k = 0; k < calls; k++)
			called(context);
		spent = now_ns() - start;
		best = spent < best ? spent : best;
	}
	return best / calls;
}

int main(int argc, char **argv)
{
	long calls = argc > 1 ? atol(argv[1]) : 1000000;

	for (size_t i = 0; i < sizeof(works) / sizeof(works[0]); i++) {
		function *compiled = compile(works[i].text);

		if (compiled(context) != works[i].in_c(context) || interpreted(context) != works[i].in_c(context)) {
			fprintf(stderr, "%s: the program computes something else\n", works[i].name);
			return 1;
		}
		printf("%s-program %.3f\n", works[i].name, smallest(compiled, calls));
		printf("%s-c %.3f\n", works[i].name, smallest(works[i].in_c, calls));
		printf("%s-interpreted %.3f\n", works[i].name, smallest(interpreted, calls / 50));
	}
	return 0;
}
