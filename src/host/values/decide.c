/*
 * From a condition's tree to instructions (decide.h).  Context: host.
 *
 * Truths are places in the program, as compilers do it: a comparison jumps, or goes on.  A number is computed into r8;
 * what waits for its other operand lies in slots of the stack.  There are no loops, so each jump leads forward.
 *
 * Where ways of || and && meet again, registers that nobody needs hold what the way has left.  To the verifier these
 * are different states, each of which it would follow to the end.  So they are set to 0 there, in front of an
 * instruction to which two jumps lead: it follows one of the ways from there.
 */
#include "decide.h"
#include "emit.h"
#include "view.h"

#define OTHER	  BPF_REG_9
#define SLOTS	  16	       /* of numbers that wait */
#define SLOTS_AT  (-8 * SLOTS) /* where the event will be, which is made when the condition is true */
#define TEXT_AT	  (SLOTS_AT - 128)
#define KEPT_AT	  (TEXT_AT - 8)
#define LAST_BITS 63

_Static_assert(CONDITION_PATTERN <= 128 && KEPT_AT > WORD_AT, "a pattern has room");

/* Jumps to a place that is not known yet: each has the number of the one before, + 1, as its distance. */
struct label {
	uint32_t last;
};

struct maker {
	struct fetch *out;
	const struct condition *condition;
	uint32_t registers;
	unsigned waiting; /* slots in use */
	bool reads;	  /* some value is in memory */
	bool views;	  /* some text is a class's */
	bool result;	  /* the program is that of the return */
	struct label no;  /* the condition is false */
};

static void put_value(struct maker *maker, const struct condition_node *node);
static void put_branch(struct maker *maker, const struct condition_node *node, bool sense, struct label *label);

static const struct condition_node *node_at(const struct maker *maker, uint8_t node)
{
	return &maker->condition->nodes[node];
}

static void put_jump(struct maker *maker, struct label *label, struct bpf_insn in)
{
	in.off = (int16_t)label->last;
	put(maker->out, in);
	label->last = maker->out->count;
}

static void put_always(struct maker *maker, struct label *label)
{
	put_jump(maker, label, (struct bpf_insn){.code = BPF_JMP | BPF_JA});
}

static void put_jump_if(struct maker *maker, struct label *label, uint8_t operation, uint8_t left, int32_t number)
{
	put_jump(maker, label,
		 (struct bpf_insn){.code = (uint8_t)(BPF_JMP | BPF_K | operation), .dst_reg = left, .imm = number});
}

/* The label's jumps lead to the next instruction. */
static void place(struct maker *maker, const struct label *label)
{
	struct fetch *out = maker->out;

	if (out->count > FETCH_INSNS)
		return; /* it is refused */
	for (uint32_t at = label->last; at;) {
		struct bpf_insn *in = &out->insns[at - 1];
		uint32_t before = (uint32_t)in->off;

		in->off = (int16_t)(out->count - at);
		at = before;
	}
}

/* As place(), where the way from above comes, too. */
static void place_where_ways_meet(struct maker *maker, const struct label *label)
{
	static const uint8_t left[] = {BPF_REG_0, VALUE, OTHER, BPF_REG_1, BPF_REG_2, BPF_REG_3};

	if (!label->last)
		return;
	place(maker, label);
	for (unsigned i = 0; i < (maker->reads ? sizeof(left) : 3); i++)
		put_number(maker->out, left[i], 0);
	if (maker->reads)
		put(maker->out,
		    (struct bpf_insn){.code = BPF_ST | BPF_MEM | BPF_DW, .dst_reg = BPF_FRAME, .off = WORD_AT});
	for (int16_t at = VIEW_AT; maker->views && at < WORD_AT; at = (int16_t)(at + 8))
		put(maker->out, (struct bpf_insn){.code = BPF_ST | BPF_MEM | BPF_DW, .dst_reg = BPF_FRAME, .off = at});
	put(maker->out, (struct bpf_insn){.code = BPF_JMP | BPF_K | BPF_JEQ, .dst_reg = VALUE});
}

static void put_constant(struct maker *maker, uint8_t to, uint64_t number)
{
	if (number + (1u << 31) <= UINT32_MAX)
		put_number(maker->out, to, (int32_t)number);
	else
		put_wide(maker->out, to, number);
}

/* What is not there makes the condition false. */
static void put_sure(void *ctx)
{
	struct maker *maker = ctx;

	put_jump_if(maker, &maker->no, BPF_JSLT, BPF_REG_0, 0);
}

/* Read into VALUE. */
static void put_sure_read(void *ctx, int32_t offset, uint32_t size)
{
	struct maker *maker = ctx;

	put_read_call(maker->out, offset, size);
	put_sure(maker);
	put_load(maker->out, VALUE, BPF_FRAME, (size_t)WORD_AT, size);
}

/* Get the field, or the address of its text, into VALUE; true: its upper bits are 0. */
static bool put_field(struct maker *maker, const struct spec_field *field)
{
	put_fetch(maker->out, field, maker->registers, put_sure_read, maker);
	return field->offset_count || is_on_stack(field, maker->registers);
}

static void put_number_field(struct maker *maker, const struct spec_field *field);

/* What has no value makes the condition false, as what is not there. */
static void put_guard(struct maker *maker, const struct spec_field *field)
{
	uint8_t operation = field->others ? BPF_JEQ : BPF_JNE;
	uint64_t wanted = field->first;

	if (!field->guard)
		return;
	put_number_field(maker, &maker->condition->fields[field->guard - 1]);
	if (field->span) {
		int32_t unused = 64 - (int32_t)condition_bits(&maker->condition->fields[field->guard - 1]);

		/* How far it is behind the first one, around the largest. */
		put_constant(maker, OTHER, field->first);
		put_alu_of(maker->out, BPF_SUB, VALUE, OTHER);
		if (unused) {
			put_alu(maker->out, BPF_LSH, VALUE, unused);
			put_alu(maker->out, BPF_RSH, VALUE, unused);
		}
		operation = field->others ? BPF_JLE : BPF_JGT;
		wanted = field->span;
	}
	put_constant(maker, OTHER, wanted);
	put_jump(maker, &maker->no,
		 (struct bpf_insn){.code = (uint8_t)(BPF_JMP | BPF_X | operation), .dst_reg = VALUE, .src_reg = OTHER});
}

static void put_number_of(struct maker *maker, const struct spec_field *field)
{
	bool is_short = put_field(maker, field), has_sign = field->type == SPEC_SIGNED || field->type == SPEC_FLOAT;
	int32_t bits = (int32_t)condition_bits(field), at = field->bits ? field->bit : 0;

	if (bits == 64 || (is_short && !field->bits && !has_sign))
		return;
	put_alu(maker->out, BPF_LSH, VALUE, 64 - bits - at);
	put_alu(maker->out, has_sign ? BPF_ARSH : BPF_RSH, VALUE, 64 - bits);
}

static void put_number_field(struct maker *maker, const struct spec_field *field)
{
	put_guard(maker, field);
	put_number_of(maker, field);
}

/* Get a floating-point number's place in their order into VALUE: the bits below the sign turn where it is set. */
static void put_place(struct maker *maker, const struct spec_field *field)
{
	uint32_t bits = condition_bits(field);

	put_number_field(maker, field);
	put_move(maker->out, OTHER, VALUE);
	put_alu(maker->out, BPF_ARSH, OTHER, 63);
	put_alu(maker->out, BPF_RSH, OTHER, (int32_t)(65 - bits));
	put_alu_of(maker->out, BPF_XOR, VALUE, OTHER);
}

static bool is_small(const struct condition_node *node)
{
	return node->kind == CONDITION_NUMBER && node->number + (1u << 31) <= UINT32_MAX;
}

/* True if the node's value takes nothing but VALUE. */
static bool is_plain(const struct maker *maker, const struct condition_node *node)
{
	const struct spec_field *field = &maker->condition->fields[node->left];

	return node->kind == CONDITION_NUMBER || (node->kind == CONDITION_FIELD && !field->offset_count &&
						  !field->guard && !is_on_stack(field, maker->registers));
}

/* Compute both operands: the left one into OTHER, the right one into VALUE. */
static void put_operands(struct maker *maker, const struct condition_node *node)
{
	const struct condition_node *right = node_at(maker, node->right);
	int32_t slot = SLOTS_AT + 8 * (int32_t)maker->waiting;

	put_value(maker, node_at(maker, node->left));
	if (is_plain(maker, right)) {
		put_move(maker->out, OTHER, VALUE);
		put_value(maker, right);
		return;
	}
	if (maker->waiting == SLOTS) {
		maker->out->count = FETCH_INSNS + 1;
		return;
	}
	put(maker->out,
	    (struct bpf_insn){
		    .code = BPF_STX | BPF_MEM | BPF_DW, .dst_reg = BPF_FRAME, .src_reg = VALUE, .off = (int16_t)slot});
	maker->waiting++;
	put_value(maker, right);
	maker->waiting--;
	put_load(maker->out, OTHER, BPF_FRAME, (size_t)slot, 8);
}

/* The instruction for the operation, and whether numbers with a sign need its other form. */
static uint8_t operation_of(const struct condition_node *node)
{
	static const uint8_t operations[] = {
		[CONDITION_BIT_OR] = BPF_OR,	[CONDITION_BIT_XOR] = BPF_XOR,	[CONDITION_BIT_AND] = BPF_AND,
		[CONDITION_LEFT] = BPF_LSH,	[CONDITION_RIGHT] = BPF_ARSH,	[CONDITION_ADD] = BPF_ADD,
		[CONDITION_SUBTRACT] = BPF_SUB, [CONDITION_MULTIPLY] = BPF_MUL, [CONDITION_DIVIDE] = BPF_DIV,
		[CONDITION_REST] = BPF_MOD,
	};

	return node->kind == CONDITION_RIGHT && node->is_unsigned ? BPF_RSH : operations[node->kind];
}

static void put_operation(struct maker *maker, const struct condition_node *node)
{
	const struct condition_node *right = node_at(maker, node->right);
	bool divides = node->kind == CONDITION_DIVIDE || node->kind == CONDITION_REST;
	bool shifts = node->kind == CONDITION_LEFT || node->kind == CONDITION_RIGHT;
	struct bpf_insn in = {.code = BPF_ALU64 | operation_of(node), .dst_reg = VALUE};

	in.off = divides && !node->is_unsigned ? BPF_SIGNED : 0;
	if (is_small(right) && (!divides || right->number)) {
		put_value(maker, node_at(maker, node->left));
		in.imm = (int32_t)(shifts ? right->number & LAST_BITS : right->number);
		put(maker->out, in);
		return;
	}
	put_operands(maker, node);
	if (shifts)
		put_alu(maker->out, BPF_AND, VALUE, LAST_BITS);
	in.code |= BPF_X;
	in.dst_reg = OTHER;
	in.src_reg = VALUE;
	put(maker->out, in);
	put_move(maker->out, VALUE, OTHER);
}

/* A truth as a number. */
static void put_truth(struct maker *maker, const struct condition_node *node)
{
	struct label yes = {0}, end = {0};

	put_branch(maker, node, true, &yes);
	put_number(maker->out, VALUE, 0);
	put_always(maker, &end);
	place(maker, &yes);
	put_number(maker->out, VALUE, 1);
	place(maker, &end);
}

/* What the call has kept, as a number of 64 bits. */
static void put_kept(struct maker *maker, const struct condition_kept *kept)
{
	put_load(maker->out, VALUE, CONTEXT, offsetof(struct calltap_program_context, kept), 8);
	if (kept->bits == 64)
		return;
	put_alu(maker->out, BPF_LSH, VALUE, 64 - kept->bit - kept->bits);
	put_alu(maker->out, kept->has_sign ? BPF_ARSH : BPF_RSH, VALUE, 64 - kept->bits);
}

/* Is the node one that the call has kept for this program? */
static const struct condition_kept *kept_of(const struct maker *maker, const struct condition_node *node)
{
	return maker->result ? condition_kept(maker->condition, node) : NULL;
}

static void put_value(struct maker *maker, const struct condition_node *node)
{
	const struct condition_kept *kept = kept_of(maker, node);

	if (kept) {
		put_kept(maker, kept);
		return;
	}
	switch (node->kind) {
	case CONDITION_NUMBER:
		put_constant(maker, VALUE, node->number);
		break;
	case CONDITION_FIELD:
		put_number_field(maker, &maker->condition->fields[node->left]);
		break;
	case CONDITION_NEGATE:
		put_value(maker, node_at(maker, node->left));
		put(maker->out, (struct bpf_insn){.code = BPF_ALU64 | BPF_NEG, .dst_reg = VALUE});
		break;
	case CONDITION_INVERT:
		put_value(maker, node_at(maker, node->left));
		put_alu(maker->out, BPF_XOR, VALUE, -1);
		break;
	case CONDITION_BIT_OR:
	case CONDITION_BIT_XOR:
	case CONDITION_BIT_AND:
	case CONDITION_LEFT:
	case CONDITION_RIGHT:
	case CONDITION_ADD:
	case CONDITION_SUBTRACT:
	case CONDITION_MULTIPLY:
	case CONDITION_DIVIDE:
	case CONDITION_REST:
		put_operation(maker, node);
		break;
	default:
		put_truth(maker, node);
	}
}

/* The jump that is taken where the comparison is `sense`. */
static uint8_t comparison_of(const struct condition_node *node, bool has_no_sign, bool sense)
{
	static const uint8_t with_sign[] = {BPF_JSLT, BPF_JSLE, BPF_JSGT, BPF_JSGE};
	static const uint8_t without[] = {BPF_JLT, BPF_JLE, BPF_JGT, BPF_JGE};
	unsigned which = node->kind - CONDITION_LESS;

	if (node->kind == CONDITION_EQUAL || node->kind == CONDITION_UNEQUAL)
		return (node->kind == CONDITION_EQUAL) == sense ? BPF_JEQ : BPF_JNE;
	/* Not less is greater or equal: the opposites are at both ends of the list. */
	which = sense ? which : 3 - which;
	return has_no_sign ? without[which] : with_sign[which];
}

static void put_comparison(struct maker *maker, const struct condition_node *node, bool sense, struct label *label)
{
	const struct condition_node *right = node_at(maker, node->right);
	uint8_t operation = comparison_of(node, condition_has_no_sign(maker->condition, node), sense);

	if (is_small(right)) {
		put_value(maker, node_at(maker, node->left));
		put_jump_if(maker, label, operation, VALUE, (int32_t)right->number);
		return;
	}
	put_operands(maker, node);
	put_jump(maker, label,
		 (struct bpf_insn){.code = (uint8_t)(BPF_JMP | BPF_X | operation), .dst_reg = OTHER, .src_reg = VALUE});
}

/* Get the text's address into VALUE; true: it has a size, which is in VIEW_SIZE. */
static bool put_text(struct maker *maker, const struct spec_field *field)
{
	const struct view_ways ways = {put_sure, put_sure_read, maker};

	put_guard(maker, field);
	if (field->type == SPEC_VIEW)
		view_put(maker->out, field, maker->registers, &ways);
	else
		(void)put_field(maker, field);
	return field->type == SPEC_VIEW;
}

/* Hand the text and the pattern, so many bytes at TEXT_AT, to the helper that compares them. */
static void put_match_call(struct maker *maker, const struct spec_field *field, bool has_size, int32_t size)
{
	enum calltap_helper helper = has_size			  ? CALLTAP_HELPER_MATCH_BYTES
				     : field->caller == SPEC_COMM ? CALLTAP_HELPER_MATCH_COMM
								  : CALLTAP_HELPER_MATCH;
	uint8_t reg = BPF_REG_1;

	if (helper != CALLTAP_HELPER_MATCH_COMM)
		put_move(maker->out, reg++, VALUE);
	if (has_size)
		put_move(maker->out, reg++, VIEW_SIZE);
	put_move(maker->out, reg, BPF_FRAME);
	put_add(maker->out, reg++, TEXT_AT);
	put_number(maker->out, reg, size);
	put_call(maker->out, helper);
}

static void put_match(struct maker *maker, const struct condition_node *node, bool sense, struct label *label)
{
	const struct spec_field *field = &maker->condition->fields[node_at(maker, node->left)->left];
	int32_t size = (node->size + 3) / 4 * 4;
	bool has_size = put_text(maker, field);

	for (int32_t at = 0; at < size; at += 4) {
		uint32_t bytes = 0;

		for (int32_t i = 0; i < 4 && at + i < node->size; i++)
			bytes |= (uint32_t)(unsigned char)maker->condition->texts[node->at + at + i] << 8 * i;
		put(maker->out, (struct bpf_insn){.code = BPF_ST | BPF_MEM | BPF_W,
						  .dst_reg = BPF_FRAME,
						  .off = (int16_t)(TEXT_AT + at),
						  .imm = (int32_t)bytes});
	}
	put_match_call(maker, field, has_size, size);
	put_jump_if(maker, &maker->no, BPF_JSLT, BPF_REG_0, 0);
	put_jump_if(maker, label, sense ? BPF_JNE : BPF_JEQ, BPF_REG_0, 0);
}

/* Jump if VALUE is on this side of the number. */
static void put_jump_beyond(struct maker *maker, struct label *label, uint8_t operation, int64_t number)
{
	put_constant(maker, OTHER, (uint64_t)number);
	put_jump(maker, label,
		 (struct bpf_insn){.code = (uint8_t)(BPF_JMP | BPF_X | operation), .dst_reg = VALUE, .src_reg = OTHER});
}

static void put_within(struct maker *maker, const struct condition_node *node, bool sense, struct label *label)
{
	struct label past = {0};

	put_place(maker, &maker->condition->fields[node->left]);
	put_jump_beyond(maker, sense ? &past : label, BPF_JSLT, (int64_t)node->number);
	put_jump_beyond(maker, label, sense ? BPF_JSLE : BPF_JSGT, node->most);
	place_where_ways_meet(maker, &past);
}

/* Jump to the label if the truth of both is `sense`, where `either` of them decides. */
static void put_both(struct maker *maker, const struct condition_node *node, bool sense, struct label *label)
{
	const struct condition_node *left = node_at(maker, node->left), *right = node_at(maker, node->right);
	bool either = node->kind == CONDITION_OR; /* the left operand's truth that is the whole's */
	struct label past = {0};

	if (sense == either) {
		put_branch(maker, left, sense, label);
		put_branch(maker, right, sense, label);
		return;
	}
	put_branch(maker, left, either, &past);
	put_branch(maker, right, sense, label);
	place_where_ways_meet(maker, &past);
}

/* Jump to the label if the node's truth is `sense`; else go on. */
static void put_branch(struct maker *maker, const struct condition_node *node, bool sense, struct label *label)
{
	switch (kept_of(maker, node) ? CONDITION_FIELD : node->kind) {
	case CONDITION_NOT:
		put_branch(maker, node_at(maker, node->left), !sense, label);
		break;
	case CONDITION_AND:
	case CONDITION_OR:
		put_both(maker, node, sense, label);
		break;
	case CONDITION_MATCH:
		put_match(maker, node, sense, label);
		break;
	case CONDITION_WITHIN:
		put_within(maker, node, sense, label);
		break;
	case CONDITION_EQUAL:
	case CONDITION_UNEQUAL:
	case CONDITION_LESS:
	case CONDITION_LESS_EQUAL:
	case CONDITION_GREATER:
	case CONDITION_GREATER_EQUAL:
		put_comparison(maker, node, sense, label);
		break;
	default:
		put_value(maker, node);
		put_jump_if(maker, label, sense ? BPF_JNE : BPF_JEQ, VALUE, 0);
	}
}

static bool is_in_memory(const struct condition *condition, uint32_t registers)
{
	for (uint32_t i = 0; i < condition->field_count; i++) {
		const struct spec_field *field = &condition->fields[i];

		if (field->offset_count || field->type == SPEC_STRING || field->type == SPEC_VIEW || field->vector ||
		    field->caller || is_on_stack(field, registers))
			return true;
	}
	return false;
}

/* Go on if each of the parts that are joined by && is true, of those that this program decides. */
static void put_all(struct maker *maker, const struct condition_node *node)
{
	if (node->kind == CONDITION_AND) {
		put_all(maker, node_at(maker, node->left));
		put_all(maker, node_at(maker, node->right));
	} else if (maker->result == !!(node->uses & CONDITION_AT_RETURN)) {
		put_branch(maker, node, false, &maker->no);
	}
}

/* Put what the call keeps into the word for it. */
static void put_keep(struct maker *maker, const struct condition_kept *kept)
{
	const struct condition_node *node = node_at(maker, kept->node);

	if (kept->truth)
		put_truth(maker, node);
	else
		put_value(maker, node);
	if (kept->bits < 64) {
		put_alu(maker->out, BPF_LSH, VALUE, 64 - kept->bits);
		put_alu(maker->out, BPF_RSH, VALUE, 64 - kept->bits - kept->bit);
	}
	put_load(maker->out, OTHER, BPF_FRAME, (size_t)KEPT_AT, 8);
	put_alu_of(maker->out, BPF_OR, VALUE, OTHER);
	put(maker->out,
	    (struct bpf_insn){
		    .code = BPF_STX | BPF_MEM | BPF_DW, .dst_reg = BPF_FRAME, .src_reg = VALUE, .off = KEPT_AT});
}

static void put_keeps(struct maker *maker)
{
	const struct bpf_insn clear = {.code = BPF_ST | BPF_MEM | BPF_DW, .dst_reg = BPF_FRAME, .off = KEPT_AT};
	const struct condition *condition = maker->condition;
	struct label past = {0};

	put(maker->out, clear);
	for (uint32_t i = 0; i < condition->kept_count; i++)
		put_keep(maker, &condition->kept[i]);
	put_move(maker->out, BPF_REG_1, CONTEXT);
	put_load(maker->out, BPF_REG_2, BPF_FRAME, (size_t)KEPT_AT, 8);
	put_call(maker->out, CALLTAP_HELPER_KEEP);
	/* Each truth has made two ways. */
	put(maker->out, clear);
	maker->reads = true;
	put_jump_if(maker, &past, BPF_JEQ, BPF_REG_0, 0);
	place_where_ways_meet(maker, &past);
}

void decide_compile(struct fetch *out, const struct condition *condition, uint32_t registers, int32_t otherwise,
		    bool result)
{
	struct maker maker = {.out = out,
			      .condition = condition,
			      .registers = registers,
			      .reads = is_in_memory(condition, registers),
			      .result = result};
	struct label yes = {0};

	for (uint32_t i = 0; i < condition->field_count; i++)
		maker.views |= condition->fields[i].type == SPEC_VIEW;
	put_all(&maker, &condition->nodes[condition->root]);
	if (condition->kept_count) {
		out->flags = CALLTAP_PROGRAM_KEPT;
		if (!result)
			put_keeps(&maker);
	}
	if (!maker.no.last)
		return;
	put_always(&maker, &yes);
	place(&maker, &maker.no);
	put_number(out, BPF_REG_0, otherwise);
	put(out, (struct bpf_insn){.code = BPF_JMP | BPF_EXIT});
	place(&maker, &yes);
}

void decide_ask(struct fetch *out, const struct condition *condition, uint32_t registers, int32_t number, bool result)
{
	struct maker maker = {
		.out = out, .condition = condition, .registers = registers, .reads = true, .result = result};

	for (uint32_t i = 0; i < condition->field_count; i++)
		maker.views |= condition->fields[i].type == SPEC_VIEW;
	put_branch(&maker, &condition->nodes[condition->root], false, &maker.no);
	put_move(out, BPF_REG_1, CONTEXT);
	put_number(out, BPF_REG_2, number);
	put_call(out, CALLTAP_HELPER_TELL);
	place_where_ways_meet(&maker, &maker.no);
}
