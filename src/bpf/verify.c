/*
 * The verifier's paths through a program; see verify.h.
 *
 * The verifier follows a path to its end, and keeps the other way of a jump that may go both ways for later.  Where
 * paths meet, it leaves a path whose state an earlier state covers that was followed to all of its ends.
 *
 * A program that the verifier accepts ends.  Proof: the verifier's steps are numbered in the order in which they were
 * done; a step is done when all steps that follow it are.  The running program is at each instruction in a state that
 * some step has covered.  The step of its next instruction has a lower number: it follows, or the verifier left the
 * path there for a step that was done before.  There are at most BPF_STEPS_MAX numbers, so the program runs at most
 * that many instructions.  Context: host.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "text.h"
#include "verify_impl.h"

#define KEPT_MAX 64u	/* the most states that the verifier keeps for an instruction */
#define ALL_MAX	 16384u /* and of all of the program, which are 5 KiB each */

/* The state in front of an instruction: of a path that the verifier has yet to follow, or of one that it followed. */
struct kept {
	struct bpf_state state;
	struct kept *next;
	uint32_t at;
	struct kept *parent; /* the last state that was kept on the path to it; NULL = there is none */
	uint32_t open;	     /* paths through it that have not come to an end; 0: it was followed to all of its ends */
};

struct paths {
	struct verifier verifier;
	struct kept *later; /* paths that the verifier has yet to follow */
	struct kept **seen; /* by instruction: states with which paths reached it */
	struct kept *last;  /* the last state that was kept on the current path; NULL = there is none */
	bool *joins;
	uint32_t steps;
	uint32_t kept; /* states in both lists */
};

int verifier_refuse(const struct verifier *verifier, const char *format, ...)
{
	char reason[200], text[BPF_TEXT_MAX];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(reason, sizeof(reason), format, arguments);
	va_end(arguments);
	bpf_disassemble(text, &verifier->job->insns[verifier->at]);
	return calltap_diag_set(verifier->diag, -EINVAL, "instruction %u, %s: %s", verifier->at, text, reason);
}

static int no_memory(const struct paths *paths)
{
	return calltap_diag_set(paths->verifier.diag, -ENOMEM, "not enough memory to verify a program");
}

/* Keep a state that the current path has led to. */
static int keep(struct paths *paths, struct kept **list, const struct bpf_state *state, uint32_t at)
{
	struct kept *kept = malloc(sizeof(*kept));

	if (!kept)
		return -ENOMEM;
	*kept = (struct kept){*state, *list, at, paths->last, 1};
	*list = kept;
	paths->kept++;
	return 0;
}

/* The current path has come to an end, and so have states of which it was the last one. */
static void end_path(struct paths *paths)
{
	struct kept *kept = paths->last;

	while (kept && !--kept->open)
		kept = kept->parent;
}

static void drop(struct kept *list)
{
	while (list) {
		struct kept *next = list->next;

		free(list);
		list = next;
	}
}

static int check_written(struct verifier *verifier, unsigned reg)
{
	return verifier->state.registers[reg].kind == BPF_NOTHING
		       ? verifier_refuse(verifier, "r%u was never written", reg)
		       : 0;
}

/* The address moves by a number; `distance` is that number's range. */
static int move_address(struct verifier *verifier, const struct bpf_insn *in, struct bpf_value *address,
			const struct bpf_range *distance)
{
	uint8_t operation = bpf_operation(in);

	if (bpf_class(in) != BPF_ALU64 || (operation != BPF_ADD && operation != BPF_SUB))
		return verifier_refuse(verifier, "to an address a number can be added, or taken off, with 64 bits");
	if (address->kind == BPF_MAP || address->kind == BPF_ENTRY_OR_0)
		return verifier_refuse(verifier, address->kind == BPF_MAP ? "a map has no address to count with"
									  : "the address may be 0");
	if (address->kind != BPF_OF_ENTRY && !bpf_range_is_one(distance))
		return verifier_refuse(verifier, "a place on the stack or in the context has to be known");
	address->range = bpf_range_alu(in, &address->range, distance);
	if (address->range.smin < -(INT64_C(1) << 30) || address->range.smax > INT64_C(1) << 30)
		return verifier_refuse(verifier, "the address may be anywhere: the number has to be bounded before");
	return 0;
}

static int check_alu(struct verifier *verifier, const struct bpf_insn *in)
{
	struct bpf_value *to = &verifier->state.registers[in->dst_reg];
	struct bpf_value right = verifier_number(bpf_range_of((uint64_t)(int64_t)in->imm));
	uint8_t operation = bpf_operation(in);
	bool unary = operation == BPF_NEG || operation == BPF_END, moves = operation == BPF_MOV;
	int ret = moves ? 0 : check_written(verifier, in->dst_reg);

	if (in->dst_reg == BPF_FRAME)
		return verifier_refuse(verifier, "r10 can be read only");
	if (!ret && !unary && bpf_has_register(in)) {
		right = verifier->state.registers[in->src_reg];
		ret = check_written(verifier, in->src_reg);
	}
	if (ret)
		return ret;
	if (moves && bpf_class(in) == BPF_ALU64 && !in->off) {
		*to = right;
		return 0;
	}
	if (verifier_is_address(&right) && operation == BPF_ADD && to->kind == BPF_NUMBER) {
		struct bpf_value sum = right;

		ret = move_address(verifier, in, &sum, &to->range);
		*to = sum;
		return ret;
	}
	if (verifier_is_address(&right))
		return verifier_refuse(verifier, "r%u is an address", in->src_reg);
	if (!moves && verifier_is_address(to))
		return unary ? verifier_refuse(verifier, "r%u is an address", in->dst_reg)
			     : move_address(verifier, in, to, &right.range);
	*to = verifier_number(bpf_range_alu(in, moves ? &right.range : &to->range, &right.range));
	return 0;
}

static int check_wide(struct verifier *verifier, const struct bpf_insn *in)
{
	struct bpf_value *to = &verifier->state.registers[in->dst_reg];

	if (in->dst_reg == BPF_FRAME)
		return verifier_refuse(verifier, "r10 can be read only");
	*to = verifier_number(bpf_range_of(bpf_wide_value(in)));
	if (in->src_reg != BPF_PSEUDO_MAP_FD)
		return 0;
	if (in->imm < 0 || (uint32_t)in->imm >= verifier->job->machine->map_count)
		return verifier_refuse(verifier, "there is no map %d", in->imm);
	*to = (struct bpf_value){BPF_MAP, (uint32_t)in->imm, 0, bpf_range_of(0)};
	return 0;
}

/* True if the jump compares its left operand with 0, for being equal or not. */
static bool asks_for_zero(const struct bpf_insn *in, const struct bpf_value *right)
{
	return bpf_class(in) == BPF_JMP && (bpf_operation(in) == BPF_JEQ || bpf_operation(in) == BPF_JNE) &&
	       right->kind == BPF_NUMBER && bpf_range_is_one(&right->range) && !right->range.umin;
}

/* The state learns that a conditional jump jumps, or does not.  Returns false if that cannot happen. */
static bool decide(struct bpf_state *state, const struct bpf_insn *in, bool jumps)
{
	struct bpf_value *left = &state->registers[in->dst_reg];
	struct bpf_value number = verifier_number(bpf_range_of((uint64_t)(int64_t)in->imm));
	struct bpf_value *right = bpf_has_register(in) ? &state->registers[in->src_reg] : &number;

	if (left->kind == BPF_ENTRY_OR_0) {
		verifier_settle_entry(state, left->id, (bpf_operation(in) == BPF_JEQ) == jumps);
		return true;
	}
	if (left->kind != BPF_NUMBER)
		return (bpf_operation(in) == BPF_JNE) == jumps; /* no other address is 0 */
	if (left == right) {					/* knowledge of one operand is knowledge of the other */
		struct bpf_range copy = left->range;

		bpf_range_decide(in, jumps, &left->range, &copy);
		return !bpf_range_is_empty(&left->range) && !bpf_range_is_empty(&copy);
	}
	bpf_range_decide(in, jumps, &left->range, &right->range);
	return !bpf_range_is_empty(&left->range) && !bpf_range_is_empty(&right->range);
}

/* Go on behind the jump, and keep its target for later, if both are possible; *ends: neither is. */
static int check_jump(struct paths *paths, const struct bpf_insn *in, bool *ends)
{
	struct verifier *verifier = &paths->verifier;
	uint32_t target = (uint32_t)((int64_t)verifier->at + 1 + bpf_jump_distance(in));
	struct bpf_value number = verifier_number(bpf_range_of((uint64_t)(int64_t)in->imm));
	const struct bpf_value *left = &verifier->state.registers[in->dst_reg], *right = &number;
	struct bpf_state other;
	bool jumps, goes_on;
	int ret;

	if (bpf_operation(in) == BPF_JA) {
		verifier->at = target;
		return 0;
	}
	ret = check_written(verifier, in->dst_reg);
	if (!ret && bpf_has_register(in)) {
		right = &verifier->state.registers[in->src_reg];
		ret = check_written(verifier, in->src_reg);
	}
	if (ret)
		return ret;
	if (verifier_is_address(right) || (verifier_is_address(left) && !asks_for_zero(in, right)))
		return verifier_refuse(verifier, "an address can only be compared with 0, by == and !=");
	other = verifier->state;
	jumps = decide(&other, in, true);
	goes_on = decide(&verifier->state, in, false);
	*ends = !jumps && !goes_on;
	if (jumps && goes_on && paths->kept >= 2 * ALL_MAX)
		return calltap_diag_set(verifier->diag, -E2BIG,
					"the program has more than %u paths that are to be followed later", ALL_MAX);
	if (jumps && goes_on) {
		if (keep(paths, &paths->later, &other, target))
			return no_memory(paths);
		if (paths->last)
			paths->last->open++;
	}
	if (jumps && !goes_on) {
		verifier->state = other;
		verifier->at = target;
	} else {
		verifier->at++;
	}
	return 0;
}

static int check_exit(struct verifier *verifier)
{
	const struct bpf_value *result = &verifier->state.registers[0];

	if (result->kind == BPF_NUMBER)
		return 0;
	return verifier_refuse(verifier, result->kind == BPF_NOTHING ? "r0 was never written" : "r0 is an address");
}

/* Follow the path over one instruction; *ends: the path is over. */
static int take_step(struct paths *paths, bool *ends)
{
	struct verifier *verifier = &paths->verifier;
	const struct bpf_insn *in = &verifier->job->insns[verifier->at];
	int ret;

	switch (bpf_class(in)) {
	case BPF_ALU:
	case BPF_ALU64:
		ret = check_alu(verifier, in);
		break;
	case BPF_LD:
		ret = check_wide(verifier, in);
		verifier->at += !ret;
		break;
	case BPF_LDX:
	case BPF_ST:
	case BPF_STX:
		ret = in->dst_reg == BPF_FRAME && bpf_class(in) == BPF_LDX
			      ? verifier_refuse(verifier, "r10 can be read only")
			      : verifier_access(verifier, in);
		break;
	default:
		*ends = bpf_is_exit(in);
		if (*ends)
			return check_exit(verifier);
		if (bpf_is_jump(in))
			return check_jump(paths, in, ends);
		ret = verifier_call(verifier, in);
	}
	verifier->at += !ret;
	return ret;
}

/*
 * *seen: an earlier state of this instruction covers the current one, and is done.  Otherwise the current one is kept.
 * A state that is not done lies on the current path, which has come back: if all is as it was then, it does so for
 * ever.
 */
static int was_seen(struct paths *paths, bool *seen)
{
	const struct verifier *verifier = &paths->verifier;
	uint32_t count = 0;

	*seen = false;
	if (!paths->joins[verifier->at])
		return 0;
	for (const struct kept *kept = paths->seen[verifier->at]; kept && !*seen; kept = kept->next, count++) {
		bool covers = verifier_covers(&kept->state, &verifier->state);

		if (covers && kept->open && verifier_covers(&verifier->state, &kept->state))
			return verifier_refuse(verifier, "it is come back to with nothing changed: a loop without end");
		*seen = covers && !kept->open;
	}
	/* A path that meets no state is followed on its own. */
	if (*seen || count >= KEPT_MAX || paths->kept >= ALL_MAX)
		return 0;
	if (keep(paths, &paths->seen[verifier->at], &verifier->state, verifier->at))
		return no_memory(paths);
	paths->last = paths->seen[verifier->at];
	return 0;
}

static int follow(struct paths *paths)
{
	struct verifier *verifier = &paths->verifier;
	bool ends = false;
	int ret = 0;

	while (!ret && !ends) {
		if (++paths->steps > BPF_STEPS_MAX)
			return calltap_diag_set(verifier->diag, -E2BIG,
						"the program's paths take more than %u steps to verify", BPF_STEPS_MAX);
		if (verifier->job->step)
			verifier->job->step(verifier->job->arg, verifier->at, &verifier->state);
		ret = was_seen(paths, &ends);
		if (!ret && !ends)
			ret = take_step(paths, &ends);
	}
	end_path(paths);
	return ret;
}

static int follow_all(struct paths *paths)
{
	struct verifier *verifier = &paths->verifier;
	struct bpf_value *registers = verifier->state.registers;
	int ret;

	registers[BPF_REG_1] = (struct bpf_value){BPF_OF_CONTEXT, 0, 0, bpf_range_of(0)};
	registers[BPF_FRAME] = (struct bpf_value){BPF_OF_STACK, 0, 0, bpf_range_of(0)};
	verifier->at = 0;
	ret = follow(paths);
	while (!ret && paths->later) {
		struct kept *next = paths->later;

		paths->later = next->next;
		verifier->state = next->state;
		verifier->at = next->at;
		paths->last = next->parent;
		paths->kept--;
		free(next);
		ret = follow(paths);
	}
	return ret;
}

int bpf_verify(const struct bpf_verify *verify, struct calltap_diag *diag)
{
	struct paths *paths = calloc(1, sizeof(*paths));
	int ret;

	if (!paths)
		return calltap_diag_set(diag, -ENOMEM, "not enough memory to verify a program");
	paths->verifier.job = verify;
	paths->verifier.diag = diag;
	paths->joins = calloc(verify->count + 1, sizeof(*paths->joins));
	paths->seen = calloc(verify->count + 1, sizeof(*paths->seen));
	if (!paths->joins || !paths->seen) {
		ret = no_memory(paths);
	} else {
		ret = verifier_check_flow(&paths->verifier, paths->joins);
		if (!ret)
			ret = follow_all(paths);
	}
	for (uint32_t i = 0; paths->seen && i < verify->count; i++)
		drop(paths->seen[i]);
	drop(paths->later);
	free(paths->seen);
	free(paths->joins);
	free(paths);
	return ret;
}
