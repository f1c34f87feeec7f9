/*
 * Compiled code, on the CPU that this is built for: each instruction at its edges computes what the interpreter does,
 * registers and frames are as the C calling convention has them, and atomic instructions are atomic.  The programs are
 * not shown to the verifier: code is right for more than what it accepts.  The code for the other CPUs is read.
 */
#include <inttypes.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <bpf/interpret.h>

#include "compiled.h"
#include "program.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

static const uint64_t edges[] = {0,
				 1,
				 2,
				 7,
				 31,
				 32,
				 63,
				 64,
				 0x7ff,
				 0x800,
				 0xfff,
				 0x1000,
				 0x7fffffff,
				 0x80000000,
				 0x80000001,
				 0xffffffff,
				 0x100000000,
				 0x123456789abcdef0,
				 0x7fffffffffffffff,
				 0x8000000000000000,
				 0x8000000000000001,
				 (uint64_t)-0x80000000,
				 (uint64_t)-0x1000,
				 (uint64_t)-0x801,
				 (uint64_t)-0x800,
				 (uint64_t)-2,
				 UINT64_MAX};

/* Programs that are too long for struct program. */
struct list {
	struct bpf_insn insns[BPF_COUNT_MAX];
	uint32_t count;
};

static void put(struct list *list, unsigned code, unsigned dst, unsigned src, int off, int32_t number)
{
	assert_true(list->count < BPF_COUNT_MAX);
	list->insns[list->count++] = (struct bpf_insn){
		.code = (uint8_t)code, .dst_reg = dst & 15, .src_reg = src & 15, .off = (int16_t)off, .imm = number};
}

static void put_constant(struct list *list, unsigned reg, uint64_t number)
{
	put(list, BPF_LD | BPF_IMM | BPF_DW, reg, 0, 0, (int32_t)number);
	put(list, 0, 0, 0, 0, (int32_t)(number >> 32));
}

static void put_exit(struct list *list)
{
	put(list, BPF_JMP | BPF_EXIT, 0, 0, 0, 0);
}

static const uint64_t no_addresses[] = {0, 0x123456789abcdef0};

static compiled_function *make(const struct bpf_insn *insns, uint32_t count, const uint64_t *helpers)
{
	const struct bpf_compile job = {.insns = insns, .count = count, .helpers = helpers, .maps = no_addresses};
	const char *fault = compiled_fault(&job);

	if (fault)
		fail_msg("%s", fault);
	return compiled_make(&job);
}

static compiled_function *make_list(const struct list *list)
{
	return make(list->insns, list->count, no_addresses);
}

static _Noreturn void fail_with(const struct bpf_insn *in, uint64_t left, uint64_t right, uint64_t got, uint64_t meant)
{
	char text[BPF_TEXT_MAX];

	bpf_disassemble(text, in);
	fail_msg("%s, of 0x%" PRIx64 " and 0x%" PRIx64 ": 0x%" PRIx64 ", not 0x%" PRIx64, text, left, right, got,
		 meant);
	abort();
}

/*
 * ---- Arithmetic and jumps ----
 */

/* Registers of both operands: those of arguments, of the result, and those that calls keep; and twice the same. */
static const uint8_t pairs[][2] = {{0, 1}, {1, 0}, {2, 3}, {4, 4}, {0, 0}, {6, 9}, {9, 5}};

/* For a byte swap the same bit says something else. */
static bool has_right(const struct bpf_insn *in)
{
	return bpf_has_register(in) && (bpf_is_jump(in) || bpf_operation(in) != BPF_END);
}

/* The instruction's operands come from the context; its first register, or whether it jumps, is the result. */
static void put_case(struct list *list, const struct bpf_insn *in)
{
	list->count = 0;
	put(list, BPF_ALU64 | BPF_MOV | BPF_X, 7, 1, 0, 0);
	if (has_right(in))
		put(list, BPF_LDX | BPF_MEM | BPF_DW, in->src_reg, 7, 8, 0);
	put(list, BPF_LDX | BPF_MEM | BPF_DW, in->dst_reg, 7, 0, 0);
	list->insns[list->count++] = *in;
	if (bpf_is_jump(in)) {
		put(list, BPF_ALU64 | BPF_MOV, 0, 0, 0, 0);
		put_exit(list);
		put(list, BPF_ALU64 | BPF_MOV, 0, 0, 0, 1);
	} else {
		put(list, BPF_ALU64 | BPF_MOV | BPF_X, 0, in->dst_reg, 0, 0);
	}
	put_exit(list);
}

static void check_case(const struct bpf_insn *in)
{
	bool with_register = has_right(in);
	static struct list list;
	compiled_function *compiled;

	assert_null(bpf_insn_fault(in, 1));
	put_case(&list, in);
	compiled = make_list(&list);
	for (size_t l = 0; l < COUNT_OF(edges); l++)
		for (size_t r = 0; r < (with_register ? COUNT_OF(edges) : 1); r++) {
			bool same = with_register && in->dst_reg == in->src_reg;
			uint64_t left = edges[l], right = with_register ? edges[r] : (uint64_t)(int64_t)in->imm;
			uint64_t context[] = {left, right}, got = compiled(context), meant;

			right = same ? left : right;
			meant = bpf_is_jump(in) ? bpf_compare(in, left, right) : bpf_alu(in, left, right);
			if (got != meant)
				fail_with(in, left, right, got, meant);
		}
}

static void check_with_numbers(struct bpf_insn in)
{
	in.dst_reg = 3;
	for (size_t i = 0; i < COUNT_OF(edges); i++) {
		in.imm = (int32_t)edges[i];
		check_case(&in);
	}
	in.dst_reg = 0;
	check_case(&in);
}

static void check_with_registers(struct bpf_insn in)
{
	in.code |= BPF_X;
	for (size_t i = 0; i < COUNT_OF(pairs); i++) {
		in.dst_reg = pairs[i][0] & 15;
		in.src_reg = pairs[i][1] & 15;
		check_case(&in);
	}
}

static void arithmetic_computes(void **state)
{
	static const uint8_t operations[] = {BPF_ADD, BPF_SUB, BPF_MUL, BPF_DIV, BPF_OR,  BPF_AND,
					     BPF_LSH, BPF_RSH, BPF_MOD, BPF_XOR, BPF_MOV, BPF_ARSH};
	static const uint8_t classes[] = {BPF_ALU, BPF_ALU64};

	for (size_t i = 0; i < COUNT_OF(operations) * 2; i++) {
		struct bpf_insn in = {.code = operations[i / 2] | classes[i % 2]};

		check_with_numbers(in);
		check_with_registers(in);
		in.off = BPF_SIGNED;
		if (operations[i / 2] == BPF_DIV || operations[i / 2] == BPF_MOD) {
			check_with_numbers(in);
			check_with_registers(in);
		}
		for (in.off = 8; operations[i / 2] == BPF_MOV && in.off <= (i % 2 ? 32 : 16); in.off *= 2)
			check_with_registers(in);
	}
}

static void one_operand_computes(void **state)
{
	static const uint8_t codes[] = {BPF_ALU | BPF_END, BPF_ALU | BPF_END | BPF_X, BPF_ALU64 | BPF_END};

	for (unsigned reg = 0; reg < BPF_FRAME; reg++) {
		check_case(&(struct bpf_insn){.code = BPF_ALU | BPF_NEG, .dst_reg = reg & 15});
		check_case(&(struct bpf_insn){.code = BPF_ALU64 | BPF_NEG, .dst_reg = reg & 15});
		for (size_t i = 0; i < COUNT_OF(codes) * 3; i++)
			check_case(&(struct bpf_insn){.code = codes[i / 3], .dst_reg = reg & 15, .imm = 16 << i % 3});
	}
}

static void jumps_decide(void **state)
{
	static const uint8_t operations[] = {BPF_JEQ,  BPF_JNE,	 BPF_JGT,  BPF_JGE,  BPF_JLT, BPF_JLE,
					     BPF_JSGT, BPF_JSGE, BPF_JSLT, BPF_JSLE, BPF_JSET};
	static const uint8_t classes[] = {BPF_JMP, BPF_JMP32};

	for (size_t i = 0; i < COUNT_OF(operations) * 2; i++) {
		struct bpf_insn in = {.code = operations[i / 2] | classes[i % 2], .off = 2};

		check_with_numbers(in);
		check_with_registers(in);
	}
}

/* All edges, with single bits, runs of bits, and pieces of 16 bits among other pieces. */
static void constants_are_made(void **state)
{
	uint64_t seed = 1;

	for (unsigned i = 0; i < 4000; i++) {
		static struct list list;
		uint64_t number, got;

		seed = seed * 6364136223846793005u + 1442695040888963407u;
		number = edges[seed >> 33 & 15] << (seed >> 40 & 63);
		number ^= i & 1 ? UINT64_MAX : 0;
		number += i & 2 ? edges[seed >> 50 & 15] : 0;
		number = i & 4 ? number : seed >> (seed >> 58);
		number = i < COUNT_OF(edges) ? edges[i] : number;
		list.count = 0;
		put_constant(&list, i % 10, number);
		put(&list, BPF_ALU64 | BPF_MOV | BPF_X, 0, i % 10, 0, 0);
		put_exit(&list);
		got = make_list(&list)(NULL);
		if (got != number)
			fail_with(&list.insns[0], number, 0, got, number);
	}
}

/* Programs of all lengths near what a branch reaches, and of full length; the code in between is short or long. */
static uint64_t run_both(const struct list *list, uint64_t *context)
{
	const struct bpf_machine machine = {.context_size = 8};
	const struct bpf_run run = {.machine = &machine,
				    .insns = list->insns,
				    .count = list->count,
				    .context = context,
				    .steps_max = BPF_COUNT_MAX * 4};
	uint64_t meant, got = make_list(list)(context);

	assert_int_equal(bpf_interpret(&meant, &run), 0);
	if (got != meant)
		fail_msg("%u instructions: 0x%" PRIx64 ", not 0x%" PRIx64, list->count, got, meant);
	return got;
}

/* A jump over `between` instructions, then three rounds of a loop of as many. */
static void check_distance(uint32_t between, bool is_long)
{
	static struct list list;
	uint64_t context[] = {5}, other[] = {6};

	list.count = 0;
	put(&list, BPF_LDX | BPF_MEM | BPF_DW, 2, 1, 0, 0);
	put(&list, BPF_ALU64 | BPF_MOV, 0, 0, 0, 1);
	put(&list, BPF_ALU64 | BPF_MOV, 3, 0, 0, 3);
	put(&list, BPF_JMP | BPF_JNE, 2, 0, (int)between, 5);
	for (uint32_t i = 0; i < between; i++)
		if (is_long)
			put(&list, BPF_ALU64 | BPF_END, 0, 0, 0, 64);
		else
			put(&list, BPF_ALU64 | BPF_ADD, 0, 0, 0, 1);
	put(&list, BPF_ALU64 | BPF_SUB, 3, 0, 0, 1);
	put(&list, BPF_JMP32 | BPF_JSGT, 3, 0, -(int)between - 2, 0);
	put_exit(&list);
	assert_true(run_both(&list, context) == (is_long ? (between & 1 ? UINT64_C(1) << 56 : 1) : 1 + 3 * between) ||
		    !between);
	run_both(&list, other);
}

static void jumps_lead_far(void **state)
{
	for (uint32_t between = 1; between < 12; between++)
		check_distance(between, false);
	for (uint32_t between = 980; between < 1040; between++)
		check_distance(between, false);
	for (uint32_t between = 40; between < 64; between++)
		check_distance(between, true);
	check_distance(BPF_COUNT_MAX - 7, false);
	check_distance(BPF_COUNT_MAX - 7, true);
}

/*
 * ---- Memory ----
 */

enum { MEMORY = 1 << 17, MIDDLE = MEMORY / 2 };

static _Alignas(8) uint8_t memory[MEMORY], memory_before[MEMORY], memory_meant[MEMORY];

/* Run a program with the middle of the memory as its context: compiled, and by the interpreter. */
static void compare_memory(const struct list *list, const struct bpf_insn *in)
{
	const struct bpf_machine machine = {.context_size = 0};
	const struct bpf_memory all = {memory, MEMORY, true};
	const struct bpf_run run = {.machine = &machine,
				    .insns = list->insns,
				    .count = list->count,
				    .context = memory + MIDDLE,
				    .memory = &all,
				    .memory_count = 1};
	uint64_t meant, got;

	memcpy(memory, memory_before, MEMORY);
	assert_int_equal(bpf_interpret(&meant, &run), 0);
	memcpy(memory_meant, memory, MEMORY);
	memcpy(memory, memory_before, MEMORY);
	got = make_list(list)(memory + MIDDLE);
	if (got != meant || memcmp(memory, memory_meant, MEMORY) != 0)
		fail_with(in, 0, 0, got, meant);
}

static void fill_memory(void)
{
	for (size_t i = 0; i < MEMORY; i++)
		memory_before[i] = (uint8_t)(i * 167 + (i >> 8) * 59 + 3);
}

/* The address is aligned; neither the register's part of it nor the offset need be. */
static void check_access(struct bpf_insn in, unsigned reg, int shift)
{
	bool loads = bpf_class(&in) == BPF_LDX;
	static struct list list;

	list.count = 0;
	if (in.off + shift > INT16_MAX)
		return;
	in.off = (int16_t)(in.off + shift);
	put(&list, BPF_ALU64 | BPF_MOV | BPF_X, 7, 1, 0, 0);
	put(&list, BPF_ALU64 | BPF_SUB, 7, 0, 0, shift);
	put_constant(&list, 0, 0x6162636465666768);
	put_constant(&list, 5, 0x8182838485868788);
	put_constant(&list, 9, 0x7172737475767778);
	in.dst_reg = (loads ? reg : 7) & 15;
	in.src_reg = (loads ? 7 : bpf_class(&in) == BPF_ST ? 0 : reg) & 15;
	assert_null(bpf_insn_fault(&in, 1));
	list.insns[list.count++] = in;
	put(&list, BPF_ALU64 | BPF_MOV | BPF_X, 0, reg, 0, 0);
	put_exit(&list);
	compare_memory(&list, &in);
}

static void accesses_reach(void **state)
{
	static const uint8_t codes[] = {BPF_LDX | BPF_MEM, BPF_LDX | BPF_MEMSX, BPF_STX | BPF_MEM, BPF_ST | BPF_MEM};
	static const uint8_t sizes[] = {BPF_B, BPF_H, BPF_W, BPF_DW};
	static const int offsets[] = {0,     8,	    16,	   240,	  248,	 256,	264,   -8,    -248,
				      -256,  -264,  1024,  2040,  2048,	 4088,	4096,  8184,  8192,
				      16376, 16384, 32760, -2048, -2056, -4096, -4104, -32768};

	fill_memory();
	for (size_t i = 0; i < COUNT_OF(codes) * COUNT_OF(sizes) * COUNT_OF(offsets); i++) {
		uint8_t size = sizes[i / COUNT_OF(codes) % COUNT_OF(sizes)];
		struct bpf_insn in = {.code = codes[i % COUNT_OF(codes)] | size,
				      .off = (int16_t)offsets[i / COUNT_OF(codes) / COUNT_OF(sizes)]};

		if (bpf_mode(&in) == BPF_MEMSX && size == BPF_DW)
			continue;
		if (bpf_class(&in) == BPF_ST)
			in.imm = i & 32 ? 0 : -0x12345678;
		check_access(in, 5, 0);
		check_access(in, 5, (int)bpf_access_size(&in) / 2);
		/* The nearest places that such an access may have, on both sides. */
		in.off = (int16_t)(in.off < INT16_MAX - 8 ? in.off + (int)bpf_access_size(&in) : in.off);
		check_access(in, 9, 0);
		in.off = (int16_t)(in.off - (int)bpf_access_size(&in) * 2 < INT16_MIN
					   ? in.off
					   : in.off - (int)bpf_access_size(&in) * 2);
		check_access(in, 0, 0);
	}
}

/* Every 8 bytes of the stack hold what was put there, whatever the size of accesses, and a copy of r10 serves as well.
 */
static void stack_keeps(void **state)
{
	static struct list list;

	fill_memory();
	list.count = 0;
	put(&list, BPF_ALU64 | BPF_MOV | BPF_X, 6, BPF_FRAME, 0, 0);
	for (int at = -(int)BPF_STACK_SIZE; at < 0; at += 8) {
		put(&list, BPF_ST | BPF_MEM | BPF_W, BPF_FRAME, 0, at, at * 77777);
		put(&list, BPF_ST | BPF_MEM | BPF_H, at & 8 ? 6 : BPF_FRAME, 0, at + 4, at * 7);
		put(&list, BPF_ST | BPF_MEM | BPF_B, BPF_FRAME, 0, at + 6, at / 8);
		put(&list, BPF_ST | BPF_MEM | BPF_B, at & 8 ? 6 : BPF_FRAME, 0, at + 7, at / 16);
	}
	for (int at = -(int)BPF_STACK_SIZE; at < 0; at += 8) {
		put(&list, BPF_LDX | BPF_MEM | BPF_DW, 2, at & 16 ? 6 : BPF_FRAME, at, 0);
		put(&list, BPF_STX | BPF_MEM | BPF_DW, 1, 2, at + 1024, 0);
	}
	put(&list, BPF_ALU64 | BPF_MOV, 0, 0, 0, 0);
	put_exit(&list);
	compare_memory(&list, &list.insns[0]);
}

static const int32_t atomics[] = {BPF_ADD,
				  BPF_OR,
				  BPF_AND,
				  BPF_XOR,
				  BPF_ADD | BPF_FETCH,
				  BPF_OR | BPF_FETCH,
				  BPF_AND | BPF_FETCH,
				  BPF_XOR | BPF_FETCH,
				  BPF_XCHG,
				  BPF_CMPXCHG};

/* With all registers, which go to memory afterwards; the memory holds r0's number, or not. */
static void check_atomic(int32_t operation, uint8_t size, unsigned base, unsigned from, bool finds, int off)
{
	static struct list list;
	uint64_t value = 0x9192939495969798;
	struct bpf_insn *in;

	memcpy(memory_before + MIDDLE + off, &value, sizeof(value));
	list.count = 0;
	put(&list, BPF_STX | BPF_MEM | BPF_DW, BPF_FRAME, 1, -8, 0);
	put(&list, BPF_ALU64 | BPF_MOV | BPF_X, base, 1, 0, 0);
	for (unsigned i = 0; i < BPF_FRAME; i++)
		if (i != base)
			put_constant(&list, i, 0xf1f2f3f4a5a6a7a8 + i * 0x1111111111111111);
	if (base != BPF_REG_0)
		put_constant(&list, 0, finds ? value : value + 1);
	if (base != BPF_REG_0 && size == BPF_W && finds) /* the upper half is not compared */
		put_constant(&list, 0, value ^ 0x100000000);
	in = &list.insns[list.count];
	put(&list, BPF_STX | BPF_ATOMIC | size, base, from, off, operation);
	assert_null(bpf_insn_fault(in, 1));
	for (unsigned i = 0; i < BPF_FRAME; i++)
		put(&list, BPF_STX | BPF_MEM | BPF_DW, BPF_FRAME, i, -16 - 8 * (int)i, 0);
	put(&list, BPF_LDX | BPF_MEM | BPF_DW, 1, BPF_FRAME, -8, 0);
	for (unsigned i = 0; i < BPF_FRAME; i++) {
		put(&list, BPF_LDX | BPF_MEM | BPF_DW, 2, BPF_FRAME, -16 - 8 * (int)i, 0);
		put(&list, BPF_STX | BPF_MEM | BPF_DW, 1, 2, 512 + 8 * (int)i, 0);
	}
	put(&list, BPF_ALU64 | BPF_MOV, 0, 0, 0, 0);
	put_exit(&list);
	compare_memory(&list, in);
}

static void atomics_compute(void **state)
{
	static const int offsets[] = {8, 0, -8, 2040, 2048, -2056, 4096, 32760, -32768};

	fill_memory();
	for (size_t i = 0; i < COUNT_OF(atomics) * 4; i++) {
		uint8_t size = i & 1 ? BPF_W : BPF_DW;

		for (unsigned k = 0; k < BPF_FRAME * BPF_FRAME; k++)
			check_atomic(atomics[i / 4], size, k / BPF_FRAME, k % BPF_FRAME, i & 2, 0);
		for (size_t k = 0; k < COUNT_OF(offsets); k++)
			check_atomic(atomics[i / 4], size, k & 1 ? 6 : 4, 2, i & 2, offsets[k]);
	}
}

/*
 * ---- Atomic ----
 */

enum { THREADS = 4, ROUNDS = 20000 };

/* What the threads of a test share: the context of their program. */
struct shared {
	uint64_t word;
	pthread_barrier_t barrier;
	compiled_function *compiled;
};

/* What one thread gave, and got. */
struct worker {
	pthread_t thread;
	struct shared *shared;
	uint64_t sum;	/* of all results */
	bool passes_on; /* a result is the number that the next call is given */
	uint64_t number;
};

static void *work(void *arg)
{
	struct worker *worker = arg;
	uint64_t context[] = {(uint64_t)(uintptr_t)&worker->shared->word, worker->number};

	pthread_barrier_wait(&worker->shared->barrier);
	for (unsigned i = 0; i < ROUNDS; i++) {
		uint64_t result = worker->shared->compiled(context);

		worker->sum += result;
		if (worker->passes_on)
			context[1] = result;
	}
	worker->number = context[1];
	return NULL;
}

/* Run a program often and in all threads; it has the shared word's address and a number in its context. */
static uint64_t run_workers(const char *text, struct worker workers[THREADS])
{
	struct shared shared = {.word = 0};
	struct program program;

	assemble(&program, text);
	shared.compiled = make(program.insns, program.count, no_addresses);
	assert_int_equal(pthread_barrier_init(&shared.barrier, NULL, THREADS), 0);
	for (unsigned i = 0; i < THREADS; i++) {
		workers[i].shared = &shared;
		assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
	}
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(workers[i].thread, NULL);
	pthread_barrier_destroy(&shared.barrier);
	return shared.word;
}

/* *sum: of all results. */
static uint64_t run_together(const char *text, uint64_t *sum)
{
	struct worker workers[THREADS] = {0};
	uint64_t word = run_workers(text, workers);

	*sum = 0;
	for (unsigned i = 0; i < THREADS; i++)
		*sum += workers[i].sum;
	return word;
}

#define GET "r2 = *(u64 *)(r1 + 0); r3 = 1;"

static void threads_lose_nothing(void **state)
{
	const uint64_t all = (uint64_t)THREADS * ROUNDS;
	uint64_t sum;

	assert_int_equal(run_together(GET "lock *(u64 *)(r2 + 0) += r3; r0 = 0; exit", &sum), all);
	assert_int_equal(run_together(GET "lock *(u32 *)(r2 + 4) += r3; r0 = 0; exit", &sum), all << 32);
	/* The numbers that come back are all different. */
	assert_int_equal(run_together(GET "r3 = atomic_fetch_add((u64 *)(r2 + 0), r3); r0 = r3; exit", &sum), all);
	assert_int_equal(sum, all * (all - 1) / 2);
	assert_int_equal(run_together(GET "r3 = atomic_fetch_add((u32 *)(r2 + 0), r3); r0 = r3; exit", &sum), all);
	assert_int_equal(sum, all * (all - 1) / 2);
	/* Half of the turns find a 1. */
	assert_int_equal(run_together(GET "r3 = atomic_fetch_xor((u64 *)(r2 + 0), r3); r0 = r3; exit", &sum), 0);
	assert_int_equal(sum, all / 2);
	assert_int_equal(run_together(GET "lock *(u32 *)(r2 + 0) ^= r3; r0 = 0; exit", &sum), 0);
}

/*
 * Each thread sets a bit and clears it.  As often as one that is 0 was set, one that is 1 was cleared: the bits that
 * were found by both are as many as the rounds.
 */
static void threads_set_and_clear(void **state)
{
	static const char *const texts[] = {
		GET "r4 = -2; r3 = atomic_fetch_or((u64 *)(r2 + 0), r3); r4 = atomic_fetch_and((u64 *)(r2 + 0), r4);"
		    "r0 = r4; r0 += r3; exit",
		GET "r4 = -2; r3 = atomic_fetch_or((u32 *)(r2 + 4), r3); r4 = atomic_fetch_and((u32 *)(r2 + 4), r4);"
		    "r0 = r4; r0 += r3; exit",
	};
	uint64_t sum;

	for (size_t i = 0; i < COUNT_OF(texts); i++) {
		assert_int_equal(run_together(texts[i], &sum), 0);
		assert_int_equal(sum, (uint64_t)THREADS * ROUNDS);
	}
	assert_int_equal(run_together(GET
				      "lock *(u64 *)(r2 + 0) |= r3; r3 = -2; lock *(u64 *)(r2 + 0) &= r3; r0 = 0; exit",
				      &sum),
			 0);
}

/* Each thread takes the number that is there, and leaves its own: none gets lost, and none is there twice. */
static void threads_exchange(void **state)
{
	static const char *const texts[] = {
		"r2 = *(u64 *)(r1 + 0); r3 = *(u64 *)(r1 + 8); r3 = xchg_64(r2 + 0, r3); r0 = r3; exit",
		"r2 = *(u64 *)(r1 + 0); r3 = *(u64 *)(r1 + 8); r3 = xchg_32(r2 + 0, r3); r0 = r3; exit",
	};

	for (size_t t = 0; t < COUNT_OF(texts); t++) {
		struct worker workers[THREADS] = {0};
		uint64_t found;

		for (unsigned i = 0; i < THREADS; i++)
			workers[i] = (struct worker){.passes_on = true, .number = i + 1};
		found = UINT64_C(1) << run_workers(texts[t], workers);
		for (unsigned i = 0; i < THREADS; i++) {
			assert_true(workers[i].number <= THREADS);
			found |= UINT64_C(1) << workers[i].number;
		}
		assert_int_equal(found, (1 << (THREADS + 1)) - 1);
	}
}

/* An addition that is made by comparing and exchanging, and tells whether it was. */
static void threads_compare(void **state)
{
	static const char *const texts[] = {
		GET "r0 = *(u64 *)(r2 + 0); r4 = r0; r5 = r0; r5 += 1; r0 = cmpxchg_64(r2 + 0, r0, r5);"
		    "if r0 == r4 goto +2; r0 = 0; exit; r0 = 1; exit",
		GET "r0 = *(u32 *)(r2 + 0); r4 = r0; r5 = r0; r5 += 1; r0 = cmpxchg_32(r2 + 0, r0, r5);"
		    "if r0 == r4 goto +2; r0 = 0; exit; r0 = 1; exit",
	};
	uint64_t sum;

	for (size_t i = 0; i < COUNT_OF(texts); i++) {
		uint64_t word = run_together(texts[i], &sum);

		assert_int_equal(word, sum);
		assert_true(sum >= ROUNDS);
	}
}

/*
 * ---- Calls ----
 */

static compiled_function *inner;

static uint64_t call_inner(uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e)
{
	return a + 2 * b + 3 * c + 4 * d + 5 * e + inner(NULL);
}

/* The ABIs of all three CPUs have frames at multiples of 16. */
static uint64_t look_at_alignment(void)
{
	return (uint64_t)(uintptr_t)__builtin_frame_address(0) % 16;
}

/*
 * A program that writes to the registers of a mask, and perhaps to all of its stack.  It returns 0xee, and more if its
 * helper is not called with the right alignment.
 */
static void make_inner(unsigned registers, bool writes_stack)
{
	const uint64_t addresses[] = {0, (uint64_t)(uintptr_t)look_at_alignment};
	static struct list list;

	list.count = 0;
	for (int at = -(int)BPF_STACK_SIZE; writes_stack && at < 0; at += 8)
		put(&list, BPF_ST | BPF_MEM | BPF_DW, BPF_FRAME, 0, at, -1);
	for (unsigned i = 0; i < BPF_FRAME; i++)
		if (registers >> i & 1)
			put_constant(&list, i, 0xeeeeeeeeeeeeeeee);
	put(&list, BPF_JMP | BPF_CALL, 0, 0, 0, 1);
	put(&list, BPF_ALU64 | BPF_ADD, 0, 0, 0, 0xee);
	put_exit(&list);
	inner = make(list.insns, list.count, addresses);
	compiled_keep();
}

/* A program that calls the inner one, and folds what it had in registers and on the stack; *meant is the result. */
static void make_outer(struct list *list, uint64_t *meant)
{
	*meant = 0xee;
	list->count = 0;
	for (unsigned i = 1; i < BPF_FRAME; i++)
		put_constant(list, i, UINT64_C(0x0123456789abcdef) << i);
	for (int at = -(int)BPF_STACK_SIZE; at < 0; at += 8)
		put(list, BPF_ST | BPF_MEM | BPF_DW, BPF_FRAME, 0, at, at);
	put(list, BPF_JMP | BPF_CALL, 0, 0, 0, 1);
	for (unsigned i = 6; i < BPF_FRAME; i++)
		put(list, BPF_ALU64 | BPF_XOR | BPF_X, 0, i, 0, 0);
	for (int at = -(int)BPF_STACK_SIZE; at < 0; at += 8) {
		put(list, BPF_LDX | BPF_MEM | BPF_DW, 1, BPF_FRAME, at, 0);
		put(list, BPF_ALU64 | BPF_ADD | BPF_X, 0, 1, 0, 0);
	}
	put_exit(list);
	for (unsigned i = 1; i <= BPF_ARGUMENTS; i++)
		*meant += i * (UINT64_C(0x0123456789abcdef) << i);
	for (unsigned i = 6; i < BPF_FRAME; i++)
		*meant ^= UINT64_C(0x0123456789abcdef) << i;
	for (int at = -(int)BPF_STACK_SIZE; at < 0; at += 8)
		*meant += (uint64_t)(int64_t)at;
}

/* What a program does not change it need not save: with every set of the registers that calls keep. */
static void calls_keep_what_is_the_callers(void **state)
{
	const uint64_t addresses[] = {0, (uint64_t)(uintptr_t)call_inner};
	static struct list list;

	for (unsigned set = 0; set < 32; set++) {
		uint64_t meant, got;

		make_inner(0x3f | (set & 15) << 6, set & 16);
		make_outer(&list, &meant);
		got = make(list.insns, list.count, addresses)(NULL);
		if (got != meant)
			fail_msg("set %u: 0x%" PRIx64 ", not 0x%" PRIx64, set, got, meant);
	}
}

/* Where a frame has its caller's frame and the return address, in words from what the frame pointer says. */
#ifdef __riscv
enum { CALLER = -2, RETURN = -1 };
#else
enum { CALLER, RETURN };
#endif

enum { FRAMES_ARE_RIGHT = 77 };

/* A helper; its frame is the program's next, and that one's the caller's. */
static uint64_t look_at_frames(uint64_t frame_of_test)
{
	const uint64_t *own = __builtin_frame_address(0), *program;

	if (!compiled_has(own[RETURN]))
		return 1;
	program = (const uint64_t *)(uintptr_t)own[CALLER];
	if (compiled_has(program[RETURN]))
		return 2;
	return program[CALLER] == frame_of_test ? FRAMES_ARE_RIGHT : 3;
}

static void frames_can_be_walked(void **state)
{
	const uint64_t addresses[] = {0, (uint64_t)(uintptr_t)look_at_frames};
	uint64_t context[] = {(uint64_t)(uintptr_t)__builtin_frame_address(0)};
	struct program program;

	assemble(&program, "r1 = *(u64 *)(r1 + 0); call 1; exit");
	assert_int_equal(make(program.insns, program.count, addresses)(context), FRAMES_ARE_RIGHT);
}

static void maps_are_numbers(void **state)
{
	struct program program;

	assemble(&program, "r0 = map 1; exit");
	assert_true(make(program.insns, program.count, no_addresses)(NULL) == no_addresses[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(arithmetic_computes),
		cmocka_unit_test(one_operand_computes),
		cmocka_unit_test(jumps_decide),
		cmocka_unit_test(constants_are_made),
		cmocka_unit_test(jumps_lead_far),
		cmocka_unit_test(accesses_reach),
		cmocka_unit_test(stack_keeps),
		cmocka_unit_test(atomics_compute),
		cmocka_unit_test(threads_lose_nothing),
		cmocka_unit_test(threads_set_and_clear),
		cmocka_unit_test(threads_exchange),
		cmocka_unit_test(threads_compare),
		cmocka_unit_test(calls_keep_what_is_the_callers),
		cmocka_unit_test(frames_can_be_walked),
		cmocka_unit_test(maps_are_numbers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
