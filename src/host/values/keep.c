/*
 * What a call keeps of its arguments for the part of a condition that is about the result (condition.h).
 *
 * A call's program decides what is about arguments alone: where that makes the whole condition false, the call is left
 * out at once.  Of the rest it keeps the largest parts that are about arguments alone: a truth is a bit, a number as
 * many bits as its type has.  Context: host.  Pure.
 */
#include "condition.h"

static bool is_truth(uint8_t kind)
{
	return kind == CONDITION_MATCH || kind == CONDITION_WITHIN || kind == CONDITION_NOT || kind == CONDITION_OR ||
	       kind == CONDITION_AND || (kind >= CONDITION_EQUAL && kind <= CONDITION_GREATER_EQUAL);
}

/* Keep the node, of which only the truth is asked if `truth`. */
static bool keep(struct condition *condition, uint8_t at, bool truth)
{
	const struct condition_node *node = &condition->nodes[at];
	struct condition_kept *kept = &condition->kept[condition->kept_count];
	const struct spec_field *field = &condition->fields[node->left];

	if (condition->kept_count == CONDITION_KEPT)
		return false;
	*kept = (struct condition_kept){.node = at, .bit = (uint8_t)condition->kept_bits, .bits = 64, .has_sign = true};
	kept->truth = truth || is_truth(node->kind);
	if (kept->truth) {
		kept->bits = 1;
		kept->has_sign = false;
	} else if (node->kind == CONDITION_FIELD) {
		kept->bits = (uint8_t)condition_bits(field);
		kept->has_sign = field->type == SPEC_SIGNED;
	}
	condition->kept_count++;
	condition->kept_bits += kept->bits;
	return condition->kept_bits <= CONDITION_KEPT_BITS;
}

/* Keep what is about arguments in the node. */
static bool keep_in(struct condition *condition, uint8_t at, bool truth)
{
	const struct condition_node *node = &condition->nodes[at];
	bool truths = node->kind == CONDITION_NOT || node->kind == CONDITION_OR || node->kind == CONDITION_AND;

	if (!(node->uses & CONDITION_AT_CALL))
		return true;
	if (!(node->uses & CONDITION_AT_RETURN))
		return keep(condition, at, truth);
	return keep_in(condition, node->left, truths) &&
	       (node->kind < CONDITION_OR || keep_in(condition, node->right, truths));
}

/* As above of parts that are joined by &&: what is about arguments alone was true where there is a return. */
static bool keep_in_all(struct condition *condition, uint8_t at)
{
	const struct condition_node *node = &condition->nodes[at];

	if (node->kind == CONDITION_AND)
		return keep_in_all(condition, node->left) && keep_in_all(condition, node->right);
	return !(node->uses & CONDITION_AT_RETURN) || keep_in(condition, at, true);
}

bool condition_keep(struct condition *condition)
{
	condition->kept_count = condition->kept_bits = 0;
	return keep_in_all(condition, condition->root);
}

const struct condition_kept *condition_kept(const struct condition *condition, const struct condition_node *node)
{
	for (uint32_t i = 0; i < condition->kept_count; i++)
		if (&condition->nodes[condition->kept[i].node] == node)
			return &condition->kept[i];
	return NULL;
}
