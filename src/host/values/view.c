/*
 * Finding the text of a class (view.h).  No jumps: the verifier would follow all ways.  Context: host.
 */
#include <host/types/types.h>

#include "view.h"

#define FRONT 24 /* bytes in front of a text at which its size lies */

_Static_assert(WORD_AT - VIEW_AT >= (int)TYPES_VIEW && -LIST_AT <= (int)BPF_STACK_SIZE, "an object has room");

/* to = r4 ? to : otherwise, of which r4 is all ones or 0; `otherwise` is lost. */
static void put_choice(struct fetch *out, uint8_t to, uint8_t otherwise)
{
	put_alu_of(out, BPF_XOR, to, otherwise);
	put_alu_of(out, BPF_AND, to, BPF_REG_4);
	put_alu_of(out, BPF_XOR, to, otherwise);
}

/* TYPE_VIEW_SHORT: the text is a long one, which was loaded, or in the object. */
static void put_short(struct fetch *out, int32_t at)
{
	put_load(out, BPF_REG_1, BPF_FRAME, (size_t)at, 1);
	put_move(out, BPF_REG_4, BPF_REG_1);
	put_alu(out, BPF_AND, BPF_REG_4, 1);
	put(out, (struct bpf_insn){.code = BPF_ALU64 | BPF_NEG, .dst_reg = BPF_REG_4});
	put_alu(out, BPF_RSH, BPF_REG_1, 1);
	put_choice(out, VIEW_SIZE, BPF_REG_1);
	put_move(out, BPF_REG_1, VIEW_OF);
	put_add(out, BPF_REG_1, 1);
	put_choice(out, VALUE, BPF_REG_1);
}

void view_put_at(struct fetch *out, const struct spec_view *view, int32_t at, const struct view_ways *ways)
{
	put_load_anywhere(out, VALUE, BPF_REG_1, at + view->address_at, 8);
	if (view->how == TYPE_VIEW_FRONT) {
		put_read_call(out, -FRONT, 8);
		ways->check(ways->ctx);
		put_add(out, VALUE, FRONT);
		put_load(out, VIEW_SIZE, BPF_FRAME, (size_t)WORD_AT, 8);
		return;
	}
	put_load_anywhere(out, VIEW_SIZE, BPF_REG_1, at + view->size_at, view->size_bytes);
	/* Four bytes may have a sign; a size below 0, or of 2 GiB, is a fault (helper BYTES). */
	if (view->size_bytes == 4) {
		put_alu(out, BPF_LSH, VIEW_SIZE, 32);
		put_alu(out, BPF_ARSH, VIEW_SIZE, 32);
	}
	if (view->how == TYPE_VIEW_END)
		put_alu_of(out, BPF_SUB, VIEW_SIZE, VALUE);
	else if (view->how == TYPE_VIEW_SHORT)
		put_short(out, at);
	else if (view->element > 1)
		put_alu(out, BPF_MUL, VIEW_SIZE, (int32_t)view->element);
}

void view_put_object(struct fetch *out, const struct spec_view *view, const struct view_ways *ways)
{
	put_move(out, VIEW_OF, VALUE);
	put_move(out, BPF_REG_1, BPF_FRAME);
	put_add(out, BPF_REG_1, VIEW_AT);
	put_number(out, BPF_REG_2, view->size);
	put_move(out, BPF_REG_3, VALUE);
	put_call(out, CALLTAP_HELPER_READ);
	ways->check(ways->ctx);
}

static void put_word(struct fetch *out, int32_t at, const struct spec_field *field, uint32_t registers)
{
	put_base(out, field, registers);
	put(out,
	    (struct bpf_insn){
		    .code = BPF_STX | BPF_MEM | BPF_DW, .dst_reg = BPF_FRAME, .src_reg = VALUE, .off = (int16_t)at});
}

void view_put(struct fetch *out, const struct spec_field *field, uint32_t registers, const struct view_ways *ways)
{
	const struct spec_field second = {.argument = field->second_argument, .vector = field->second_vector};
	struct spec_field address = *field;

	if (field->at_address) {
		address.type = SPEC_STRING; /* its last offset leads to the object */
		put_fetch(out, &address, registers, ways->read, ways->ctx);
		view_put_object(out, &field->view, ways);
	} else if (is_on_stack(field, registers)) {
		put_base(out, field, registers);
		put_add(out, VALUE, 8 * (int32_t)(field->argument - registers - 1));
		view_put_object(out, &field->view, ways);
	} else {
		put_number(out, VIEW_OF, 1);
		put_word(out, VIEW_AT, field, registers);
		if (field->view.size > 8)
			put_word(out, VIEW_AT + 8, &second, registers);
	}
	view_put_at(out, &field->view, VIEW_AT, ways);
}
