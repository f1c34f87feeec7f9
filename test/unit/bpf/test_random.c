/*
 * Random programs.  One that the verifier accepts is run with random contexts: it never reaches for memory that is not
 * its own, and what the verifier knows of registers and stack in front of an instruction is true there.  The
 * compiled program does the same to registers and memory, and its code for each CPU is sound.  Programs without helpers
 * are given to the kernel, too: it accepts what the verifier accepts, and computes the same.
 *
 * BPF_PROGRAMS: how many (default 10000).  BPF_SEED: another sequence.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include <bpf/interpret.h>
#include <bpf/verify.h>

#include "compiled.h"
#include "program.h"

enum { BODY_MAX = 40, RUNS = 8, STATES_MAX = 400, CONTEXT = 64, PROGRAMS = 10000 };

static uint64_t seed = 1;

static uint32_t draw(uint32_t below)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(seed >> 33) % below;
}

static bool chance(uint32_t percent)
{
	return draw(100) < percent;
}

/* Numbers near which something changes. */
static uint64_t draw_number(void)
{
	static const uint64_t edges[] = {0,
					 1,
					 7,
					 8,
					 31,
					 32,
					 47,
					 63,
					 64,
					 255,
					 256,
					 0x7fffffff,
					 0x80000000,
					 0xffffffff,
					 0x100000000,
					 0x7fffffffffffffff,
					 0x8000000000000000,
					 UINT64_MAX};
	uint64_t number = edges[draw(sizeof(edges) / sizeof(edges[0]))] + draw(3) - 1;

	return chance(20) ? number ^ (uint64_t)draw(1u << 31) << draw(33) : number;
}

/*
 * ---- The machine ----
 */

static const struct bpf_map maps[] = {{8, 48}, {4, 16}};
static _Alignas(8) uint8_t entries[2][48];

static uint64_t look_up(void *data, const uint64_t arguments[BPF_ARGUMENTS])
{
	const uint8_t *key = (const uint8_t *)(uintptr_t)arguments[1];

	return key[0] & 1 ? 0 : (uint64_t)(uintptr_t)entries[arguments[0]];
}

static uint64_t fill(void *data, const uint64_t arguments[BPF_ARGUMENTS])
{
	memset((void *)(uintptr_t)arguments[0], 0x5a, arguments[1]);
	return arguments[1];
}

static uint64_t add_up(void *data, const uint64_t arguments[BPF_ARGUMENTS])
{
	uint64_t sum = arguments[2];

	for (uint64_t i = 0; i < arguments[1]; i++)
		sum += ((const uint8_t *)(uintptr_t)arguments[0])[i];
	return sum;
}

static const struct bpf_helper helpers[] = {
	{.name = NULL},
	{"look_up", {BPF_ARGUMENT_MAP, BPF_ARGUMENT_KEY}, BPF_RESULT_ENTRY, look_up},
	{"fill", {BPF_ARGUMENT_WRITE, BPF_ARGUMENT_SIZE}, BPF_RESULT_NUMBER, fill},
	{"add_up", {BPF_ARGUMENT_READ, BPF_ARGUMENT_SIZE0, BPF_ARGUMENT_VALUE}, BPF_RESULT_NUMBER, add_up},
};
static const uint64_t map_numbers[] = {0, 1};
static const struct bpf_machine machine = {CONTEXT, helpers, 4, maps, 2};

/*
 * ---- Programs ----
 */

static void put(struct program *program, uint8_t code, unsigned dst, unsigned src, int16_t off, int32_t number)
{
	program->insns[program->count++] =
		(struct bpf_insn){.code = code, .dst_reg = dst & 15, .src_reg = src & 15, .off = off, .imm = number};
}

/* r0 to r5 mostly; r6 holds the context, r7 to r9 what they got. */
static unsigned draw_register(void)
{
	return chance(90) ? draw(6) : draw(10);
}

static void put_alu(struct program *program)
{
	static const uint8_t operations[] = {BPF_ADD, BPF_SUB, BPF_MUL, BPF_DIV, BPF_OR,   BPF_AND, BPF_LSH,
					     BPF_RSH, BPF_MOD, BPF_XOR, BPF_MOV, BPF_ARSH, BPF_NEG, BPF_END};
	uint8_t operation = operations[draw(sizeof(operations))];
	uint8_t code = (uint8_t)(operation | (chance(50) ? BPF_ALU64 : BPF_ALU));
	unsigned dst = draw_register(), src = draw_register();
	static const int16_t extensions[] = {0, 8, 16, 32};
	int16_t off = 0;

	if (operation == BPF_NEG) {
		put(program, code, dst, 0, 0, 0);
	} else if (operation == BPF_END) {
		put(program, (uint8_t)(code | (chance(50) && (code & 7) == BPF_ALU ? BPF_X : 0)), dst, 0, 0,
		    16 << draw(3));
	} else if (chance(60)) {
		if (operation == BPF_MOV)
			off = extensions[draw((code & 7) == BPF_ALU ? 3 : 4)];
		else if (operation == BPF_DIV || operation == BPF_MOD)
			off = (int16_t)draw(2);
		put(program, code | BPF_X, dst, src, off, 0);
	} else {
		bool shifts = operation == BPF_LSH || operation == BPF_RSH || operation == BPF_ARSH;
		bool divides = operation == BPF_DIV || operation == BPF_MOD;
		int32_t number = shifts ? (int32_t)draw((code & 7) == BPF_ALU ? 32 : 64) : (int32_t)draw_number();

		put(program, code, dst, 0, 0, divides && !number ? 1 : number);
	}
}

/* How far it leads is put in later, when there is something to jump over. */
static void put_jump(struct program *program)
{
	static const uint8_t operations[] = {BPF_JEQ,  BPF_JNE,	 BPF_JGT,  BPF_JGE,  BPF_JLT, BPF_JLE,
					     BPF_JSGT, BPF_JSGE, BPF_JSLT, BPF_JSLE, BPF_JSET};
	uint8_t code = (uint8_t)(operations[draw(sizeof(operations))] | (chance(50) ? BPF_JMP : BPF_JMP32));

	if (chance(50))
		put(program, code | BPF_X, draw_register(), draw_register(), 0, 0);
	else
		put(program, code, draw_register(), 0, 0, (int32_t)draw_number());
}

static void put_atomic(struct program *program, uint8_t size, int16_t off)
{
	static const int32_t operations[] = {BPF_ADD,
					     BPF_OR,
					     BPF_AND,
					     BPF_XOR,
					     BPF_ADD | BPF_FETCH,
					     BPF_OR | BPF_FETCH,
					     BPF_XCHG,
					     BPF_CMPXCHG,
					     BPF_AND | BPF_FETCH,
					     BPF_XOR | BPF_FETCH};
	int32_t operation = operations[draw(sizeof(operations) / sizeof(operations[0]))];

	put(program, BPF_STX | BPF_ATOMIC | size, BPF_FRAME, draw_register(), off, operation);
	/*
	 * Linux 6.18 may leave r0 its upper half here on x86-64, if the numbers were equal and a jump follows: seen
	 * with `if w2 s>= -1` behind it.  RFC 9669, 5.3: "zero-extended".
	 */
	if (operation == BPF_CMPXCHG && size == BPF_W)
		put(program, BPF_ALU | BPF_MOV | BPF_X, 0, 0, 0, 0);
}

static void put_stack(struct program *program)
{
	static const uint8_t sizes[] = {BPF_B, BPF_H, BPF_W, BPF_DW};
	unsigned index = draw(4), size = 1u << index;
	int16_t off = (int16_t)(-32 + (int)(size * draw(32 / size)));

	if (chance(40))
		put(program, BPF_LDX | (index < 3 && chance(30) ? BPF_MEMSX : BPF_MEM) | sizes[index], draw_register(),
		    BPF_FRAME, off, 0);
	else if (chance(30))
		put(program, BPF_ST | BPF_MEM | sizes[index], BPF_FRAME, 0, off, (int32_t)draw_number());
	else if (index >= 2 && chance(40))
		put_atomic(program, sizes[index], off);
	else
		put(program, BPF_STX | BPF_MEM | sizes[index], BPF_FRAME, draw_register(), off, 0);
}

static void put_context(struct program *program)
{
	static const uint8_t sizes[] = {BPF_B, BPF_H, BPF_W, BPF_DW};
	unsigned index = draw(4), size = 1u << index;
	int16_t off = (int16_t)(size * draw(CONTEXT / size));

	put(program, BPF_LDX | (index < 3 && chance(30) ? BPF_MEMSX : BPF_MEM) | sizes[index], draw_register(),
	    BPF_REG_6, chance(5) ? (int16_t)(off + 61) : off, 0);
}

/* Look up a value, and mostly go on if there is one, to a place in it that is bounded in some way. */
static void put_entry(struct program *program)
{
	int32_t map = (int32_t)draw(2);
	unsigned by = draw(5) + 1;

	put(program, BPF_ALU64 | BPF_MOV | BPF_X, BPF_REG_8, by, 0, 0);
	if (chance(70))
		put(program, BPF_ST | BPF_MEM | BPF_DW, BPF_FRAME, 0, -8, (int32_t)draw(4));
	put(program, BPF_ALU64 | BPF_MOV | BPF_X, BPF_REG_2, BPF_FRAME, 0, 0);
	put(program, BPF_ALU64 | BPF_ADD, BPF_REG_2, 0, 0, -8);
	put(program, BPF_LD | BPF_IMM | BPF_DW, BPF_REG_1, BPF_PSEUDO_MAP_FD, 0, map);
	put(program, 0, 0, 0, 0, 0);
	put(program, BPF_JMP | BPF_CALL, 0, 0, 0, 1);
	put(program, BPF_ALU64 | BPF_MOV | BPF_X, BPF_REG_7, 0, 0, 0);
	for (unsigned i = 1; i <= 5; i++)
		put(program, BPF_ALU64 | BPF_MOV, i, 0, 0, (int32_t)draw_number());
	put(program, BPF_ALU64 | BPF_MOV, 0, 0, 0, 1);
	if (chance(90))
		put(program, BPF_JMP | (chance(80) ? BPF_JEQ : BPF_JNE), BPF_REG_7, 0, 4, 0);
	if (chance(70))
		put(program, BPF_ALU64 | BPF_AND, BPF_REG_8, 0, 0, (int32_t)draw(48));
	else
		put(program, BPF_JMP | BPF_JGT, BPF_REG_8, 0, 2, (int32_t)draw(48));
	put(program, BPF_ALU64 | BPF_ADD | BPF_X, BPF_REG_7, BPF_REG_8, 0, 0);
	if (chance(50))
		put(program, BPF_LDX | BPF_MEM | BPF_B, draw(6), BPF_REG_7, (int16_t)(draw(4) - 1), 0);
	else
		put(program, BPF_STX | BPF_MEM | BPF_B, BPF_REG_7, draw(6), 0, 0);
	put(program, BPF_ALU64 | BPF_MOV, BPF_REG_7, 0, 0, 3);
	put(program, BPF_ALU64 | BPF_MOV, BPF_REG_8, 0, 0, 4);
}

static void put_memory(struct program *program)
{
	int32_t at = -(int32_t)draw(40);

	put(program, BPF_ALU64 | BPF_MOV | BPF_X, BPF_REG_3, draw(6), 0, 0);
	put(program, BPF_ALU64 | BPF_MOV | BPF_X, BPF_REG_2, draw(6), 0, 0);
	if (chance(80))
		put(program, BPF_ALU64 | BPF_AND, BPF_REG_2, 0, 0, (int32_t)draw(32));
	if (chance(60))
		put(program, BPF_ALU64 | BPF_ADD, BPF_REG_2, 0, 0, 1);
	put(program, BPF_ALU64 | BPF_MOV | BPF_X, BPF_REG_1, BPF_FRAME, 0, 0);
	put(program, BPF_ALU64 | BPF_ADD, BPF_REG_1, 0, 0, at);
	put(program, BPF_JMP | BPF_CALL, 0, 0, 0, 2 + (int32_t)draw(2));
	for (unsigned i = 1; i <= 5; i++)
		put(program, BPF_ALU64 | BPF_MOV, i, 0, 0, (int32_t)draw_number());
}

/*
 * Go over the instructions from `from` on a few times; none of them changes r9, which counts.  Seldom one does: then it
 * may end all the same, which the kernel does not see as well.
 */
static void put_loop(struct program *program, uint32_t from, bool for_kernel)
{
	for (uint32_t i = from; i < program->count; i++) {
		struct bpf_insn *in = &program->insns[i];

		if (in->dst_reg == BPF_REG_9 && !bpf_is_jump(in) && (for_kernel || !chance(3)))
			in->dst_reg = BPF_REG_5;
		if (bpf_class(in) == BPF_STX && bpf_mode(in) == BPF_ATOMIC && in->src_reg == BPF_REG_9)
			in->src_reg = BPF_REG_5;
		i += bpf_is_wide(in);
	}
	put(program, BPF_ALU64 | BPF_ADD, BPF_REG_9, 0, 0, -1);
	put(program, BPF_JMP | BPF_JNE, BPF_REG_9, 0, (int16_t)(from - program->count - 1), 0);
}

/* Lead each jump that has no distance yet to one of the next instructions, but not into a constant. */
static void aim(struct program *program, uint32_t from)
{
	for (uint32_t i = from; i + 1 < program->count; i++) {
		struct bpf_insn *in = &program->insns[i];
		uint32_t distance;

		if (!bpf_is_jump(in) || bpf_operation(in) == BPF_JA || in->off)
			continue;
		distance = draw(program->count - i - 1 < 12 ? program->count - i - 1 : 12);
		if (!bpf_is_wide(&program->insns[i + distance]))
			in->off = (int16_t)distance;
	}
}

static void generate(struct program *program, bool for_kernel)
{
	uint32_t body = 1 + draw(BODY_MAX), from, loop = chance(for_kernel ? 4 : 30) ? 1 + draw(8) : 0;

	program->count = 0;
	put(program, BPF_ALU64 | BPF_MOV | BPF_X, BPF_REG_6, BPF_REG_1, 0, 0);
	for (unsigned i = 0; i < 10; i++) {
		uint64_t number = draw_number();

		if (i == 6 && !for_kernel)
			continue;
		put(program, BPF_LD | BPF_IMM | BPF_DW, i, 0, 0, (int32_t)number);
		put(program, 0, 0, 0, 0, (int32_t)(number >> 32));
	}
	if (for_kernel || chance(80))
		for (int16_t at = -32; at < 0; at = (int16_t)(at + 8))
			put(program, BPF_STX | BPF_MEM | BPF_DW, BPF_FRAME, draw(6), at, 0);
	if (loop)
		put(program, BPF_ALU64 | BPF_MOV, BPF_REG_9, 0, 0, (int32_t)loop);
	from = program->count;
	while (program->count < from + body) {
		switch (draw(for_kernel ? 12 : 20)) {
		case 0:
		case 1:
		case 2:
			put_jump(program);
			break;
		case 3:
		case 4:
			put_stack(program);
			break;
		case 12:
		case 13:
		case 14:
			put_context(program);
			break;
		case 15:
			put_entry(program);
			break;
		case 16:
			put_memory(program);
			break;
		default:
			put_alu(program);
		}
	}
	/* No jump leads over the count of rounds. */
	if (loop) {
		aim(program, from);
		put_loop(program, from, for_kernel);
		from = program->count;
	}
	put(program, BPF_ALU64 | BPF_MOV | BPF_X, BPF_REG_0, draw(6), 0, 0);
	aim(program, from);
	/* All of the result in its lower half, which is what the kernel tells. */
	put(program, BPF_ALU64 | BPF_MOV | BPF_X, BPF_REG_1, BPF_REG_0, 0, 0);
	put(program, BPF_ALU64 | BPF_RSH, BPF_REG_1, 0, 0, 32);
	put(program, BPF_ALU64 | BPF_XOR | BPF_X, BPF_REG_0, BPF_REG_1, 0, 0);
	put(program, BPF_JMP | BPF_EXIT, 0, 0, 0, 0);
}

static _Noreturn void fail_with(const struct program *program, const char *what)
{
	for (uint32_t i = 0; i < program->count; i++) {
		char text[BPF_TEXT_MAX];

		bpf_disassemble(text, &program->insns[i]);
		print_error("%3u  %s\n", i, text);
		i += bpf_is_wide(&program->insns[i]);
	}
	fail_msg("%s", what);
	abort();
}

/*
 * ---- What is known, and what is ----
 */

struct known {
	const struct program *program;
	struct bpf_state *states[PROGRAM_MAX]; /* in front of an instruction, on all paths */
	uint32_t counts[PROGRAM_MAX];
	uint64_t context;
	uint64_t checks;
	uint32_t steps; /* that the verifier has taken */
	compiled_function *compiled;
};

static void note_state(void *arg, uint32_t at, const struct bpf_state *state)
{
	struct known *known = arg;

	known->steps++;
	if (known->counts[at]++ >= STATES_MAX)
		return;
	known->states[at] = realloc(known->states[at], known->counts[at] * sizeof(*state));
	assert_non_null(known->states[at]);
	known->states[at][known->counts[at] - 1] = *state;
}

static bool is_so(const struct known *known, const struct bpf_value *value, uint64_t number, uint64_t frame)
{
	switch (value->kind) {
	case BPF_NOTHING:
		return true;
	case BPF_NUMBER:
		return bpf_range_holds(&value->range, number);
	case BPF_OF_CONTEXT:
		return bpf_range_holds(&value->range, number - known->context);
	case BPF_OF_STACK:
		return bpf_range_holds(&value->range, number - frame);
	case BPF_ENTRY_OR_0:
		if (!number)
			return true;
		/* fall through */
	case BPF_OF_ENTRY:
		return bpf_range_holds(&value->range, number - (uint64_t)(uintptr_t)entries[value->map]);
	default:
		return number == value->map;
	}
}

static bool fits(const struct known *known, const struct bpf_state *state, const uint64_t *registers,
		 const uint8_t *stack)
{
	for (unsigned i = 0; i < BPF_REGISTERS; i++)
		if (!is_so(known, &state->registers[i], registers[i], registers[BPF_FRAME]))
			return false;
	for (unsigned i = 0; i < BPF_SLOTS; i++) {
		uint64_t number;

		memcpy(&number, stack + i * 8, sizeof(number));
		if (state->stack[i].is_value && !is_so(known, &state->stack[i].value, number, registers[BPF_FRAME]))
			return false;
	}
	return true;
}

static void check_state(void *arg, uint32_t at, const uint64_t registers[BPF_REGISTERS], const uint8_t *stack)
{
	struct known *known = arg;

	if (known->counts[at] > STATES_MAX)
		return;
	known->checks++;
	for (uint32_t i = 0; i < known->counts[at]; i++)
		if (fits(known, &known->states[at][i], registers, stack))
			return;
	print_error("at instruction %u:", at);
	for (unsigned i = 0; i < BPF_REGISTERS; i++)
		print_error(" 0x%llx", (unsigned long long)registers[i]);
	print_error("\n");
	fail_with(known->program, "what the verifier knows is not so");
}

/*
 * ---- Compiled ----
 */

static uint64_t look_up_called(uint64_t map, uint64_t key)
{
	return look_up(NULL, (uint64_t[BPF_ARGUMENTS]){map, key});
}

static uint64_t fill_called(uint64_t at, uint64_t size)
{
	return fill(NULL, (uint64_t[BPF_ARGUMENTS]){at, size});
}

static uint64_t add_up_called(uint64_t at, uint64_t size, uint64_t number)
{
	return add_up(NULL, (uint64_t[BPF_ARGUMENTS]){at, size, number});
}

static compiled_function *compile(const struct program *program)
{
	const uint64_t addresses[] = {0, (uint64_t)(uintptr_t)look_up_called, (uint64_t)(uintptr_t)fill_called,
				      (uint64_t)(uintptr_t)add_up_called};
	const struct bpf_compile job = {
		.insns = program->insns, .count = program->count, .helpers = addresses, .maps = map_numbers};

	return compiled_make(&job);
}

/* Nothing is called here; constants of several lengths take the place of the helpers' addresses. */
static void check_code(const struct program *program)
{
	static const uint64_t addresses[] = {0, 0x0123456789abcdef, 0x7fffdeadb000, 0x4010};
	const struct bpf_compile job = {
		.insns = program->insns, .count = program->count, .helpers = addresses, .maps = map_numbers};
	const char *fault = compiled_fault(&job);

	if (fault)
		fail_with(program, fault);
}

static void run_accepted(const struct program *program, struct known *known)
{
	const struct bpf_memory memory[] = {{entries[0], 48, true}, {entries[1], 16, true}};
	_Alignas(8) uint64_t context[CONTEXT / 8];
	struct bpf_run run = {&machine, program->insns, program->count, context,     NULL, memory,
			      2,	check_state,	known,		known->steps};
	uint8_t before[sizeof(entries)], after[sizeof(entries)];
	uint64_t result;

	known->context = (uint64_t)(uintptr_t)context;
	for (unsigned i = 0; i < CONTEXT / 8; i++)
		context[i] = draw_number();
	for (unsigned i = 0; i < sizeof(before); i++)
		before[i] = (uint8_t)draw(256);
	memcpy(entries, before, sizeof(entries));
	if (bpf_interpret(&result, &run))
		fail_with(program, "a program that was accepted went wrong");
	memcpy(after, entries, sizeof(entries));
	memcpy(entries, before, sizeof(entries));
	if (known->compiled(context) != result || memcmp(after, entries, sizeof(entries)))
		fail_with(program, "the compiled program does something else");
}

static uint32_t programs_wanted(void)
{
	const char *text = getenv("BPF_PROGRAMS");

	return text ? (uint32_t)atol(text) : PROGRAMS;
}

static void what_the_verifier_knows_is_so(void **state)
{
	uint32_t wanted = programs_wanted(), accepted = 0;
	uint64_t checks = 0;

	for (uint32_t i = 0; i < wanted; i++) {
		struct program program;
		struct known known = {.program = &program};
		struct bpf_verify job = {&machine, program.insns, 0, note_state, &known};
		struct calltap_diag diag = {0};
		int ret;

		generate(&program, false);
		job.count = program.count;
		ret = bpf_verify(&job, &diag);
		assert_true(!ret || ret == -EINVAL || ret == -E2BIG);
		accepted += !ret;
		if (!ret) {
			check_code(&program);
			known.compiled = compile(&program);
		}
		for (int run = 0; !ret && run < RUNS; run++)
			run_accepted(&program, &known);
		checks += known.checks;
		for (uint32_t k = 0; k < program.count; k++)
			free(known.states[k]);
	}
	print_message("%u of %u programs accepted, %llu states compared\n", accepted, wanted,
		      (unsigned long long)checks);
	assert_true(accepted > wanted / 10);
}

/*
 * ---- The kernel ----
 */

static long bpf(int command, union bpf_attr *attr)
{
	return syscall(SYS_bpf, command, attr, sizeof(*attr));
}

static int load(const struct program *program, char *log, uint32_t log_size)
{
	static const char license[] = "GPL";
	union bpf_attr attr = {
		.prog_type = BPF_PROG_TYPE_SCHED_CLS,
		.insns = (uint64_t)(uintptr_t)program->insns,
		.insn_cnt = program->count,
		.license = (uint64_t)(uintptr_t)license,
		.log_buf = (uint64_t)(uintptr_t)log,
		.log_size = log_size,
		.log_level = log ? 1 : 0,
	};

	return (int)bpf(BPF_PROG_LOAD, &attr);
}

static uint32_t run_in_kernel(int fd)
{
	uint8_t packet[64] = {0};
	union bpf_attr attr = {.test = {
				       .prog_fd = (uint32_t)fd,
				       .data_size_in = sizeof(packet),
				       .data_in = (uint64_t)(uintptr_t)packet,
			       }};

	assert_int_equal(bpf(BPF_PROG_TEST_RUN, &attr), 0);
	return attr.test.retval;
}

/* False: the paths through its loop are too many for the kernel, which so does not judge it. */
static bool compare_with_kernel(const struct program *program, uint64_t result)
{
	static char log[1 << 20];
	int fd = load(program, NULL, 0);

	if (fd < 0) {
		(void)!load(program, log, sizeof(log));
		if (strstr(log, "BPF program is too large") || strstr(log, "jumps is too complex"))
			return false;
		print_error("%s\n", strlen(log) > 600 ? log + strlen(log) - 600 : log);
		fail_with(program, "the kernel refuses what was accepted");
	}
	if (run_in_kernel(fd) != (uint32_t)result)
		fail_with(program, "the kernel computes something else");
	close(fd);
	return true;
}

static bool kernel_loads(void)
{
	struct program program;
	int fd;

	assemble(&program, "r0 = 0; exit");
	fd = load(&program, NULL, 0);
	if (fd < 0)
		print_message("the kernel loads no program: %s\n", strerror(errno));
	else
		close(fd);
	return fd >= 0;
}

static void the_kernel_agrees(void **state)
{
	const struct bpf_machine none = {.context_size = 0};
	uint32_t wanted = programs_wanted(), accepted = 0, judged = 0;
	uint64_t context[CONTEXT / 8] = {0}, result;
	bool loads = kernel_loads();
	struct program program;

	for (uint32_t i = 0; i < wanted; i++) {
		struct bpf_verify job = {.machine = &none, .insns = program.insns};
		struct bpf_run run = {
			.machine = &none, .insns = program.insns, .context = context, .steps_max = BPF_STEPS_MAX};
		struct calltap_diag diag = {0};

		generate(&program, true);
		job.count = run.count = program.count;
		if (bpf_verify(&job, &diag))
			continue;
		accepted++;
		assert_int_equal(bpf_interpret(&result, &run), 0);
		check_code(&program);
		if (compile(&program)(context) != result)
			fail_with(&program, "the compiled program computes something else");
		judged += loads && compare_with_kernel(&program, result);
	}
	print_message("%u of %u programs accepted, %u judged by the kernel\n", accepted, wanted, judged);
	assert_true(accepted > wanted / 10);
	assert_true(!loads || judged > accepted / 10 * 9);
	if (!loads)
		skip();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_the_verifier_knows_is_so),
		cmocka_unit_test(the_kernel_agrees),
	};

	if (getenv("BPF_SEED"))
		seed = strtoull(getenv("BPF_SEED"), NULL, 0);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
