/*
 * The verifier's walk over a program's jumps, whatever its registers hold; see verify_impl.h.  Context: host.
 */
#include <errno.h>
#include <stdlib.h>

#include "verify_impl.h"

enum mark { UNSEEN, SEEN };

struct flow {
	uint8_t *marks;	  /* enum mark, by instruction */
	uint32_t *way;	  /* instructions from the first one to the current one */
	uint8_t *next;	  /* by instruction: number of its successors that were visited */
	uint8_t *arrived; /* by instruction: number of ways that lead to it; 2 stands for more, too */
	uint32_t depth;
};

static int check_instructions(struct verifier *verifier)
{
	const struct bpf_verify *job = verifier->job;
	uint32_t *at = &verifier->at;

	if (!job->count || job->count > BPF_COUNT_MAX)
		return calltap_diag_set(verifier->diag, -EINVAL, "a program has 1 to %u instructions, not %u",
					BPF_COUNT_MAX, job->count);
	for (*at = 0; *at < job->count; *at += bpf_is_wide(&job->insns[*at]) ? 2 : 1) {
		const char *fault = bpf_insn_fault(&job->insns[*at], job->count - *at);

		if (fault)
			return calltap_diag_set(verifier->diag, -EINVAL, "instruction %u: %s", *at, fault);
	}
	return 0;
}

/* The array `to` gets the instruction's successors; returns their number. */
static unsigned successors(const struct bpf_insn *in, uint32_t at, int64_t to[2])
{
	unsigned count = 0;

	if (bpf_is_exit(in))
		return 0;
	if (!bpf_is_jump(in) || bpf_operation(in) != BPF_JA)
		to[count++] = (int64_t)at + (bpf_is_wide(in) ? 2 : 1);
	if (bpf_is_jump(in))
		to[count++] = (int64_t)at + 1 + bpf_jump_distance(in);
	return count;
}

static int visit(struct verifier *verifier, struct flow *flow, int64_t to, const bool *halves)
{
	if (to < 0 || to >= verifier->job->count || halves[to])
		return verifier_refuse(verifier, "it leads out of the program");
	flow->arrived[to] += flow->arrived[to] < 2;
	if (flow->marks[to] != UNSEEN)
		return 0;
	flow->marks[to] = SEEN;
	flow->way[flow->depth++] = (uint32_t)to;
	return 0;
}

static int walk(struct verifier *verifier, struct flow *flow, const bool *halves)
{
	int ret;

	verifier->at = 0;
	ret = visit(verifier, flow, 0, halves);
	while (!ret && flow->depth) {
		int64_t to[2];
		unsigned count;

		verifier->at = flow->way[flow->depth - 1];
		count = successors(&verifier->job->insns[verifier->at], verifier->at, to);
		if (flow->next[verifier->at] < count) {
			ret = visit(verifier, flow, to[flow->next[verifier->at]++], halves);
		} else {
			flow->depth--;
		}
	}
	for (uint32_t i = 0; i < verifier->job->count && !ret; i++) {
		verifier->at = i;
		if (flow->marks[i] == UNSEEN && !halves[i])
			ret = verifier_refuse(verifier, "nothing leads to it");
	}
	return ret;
}

int verifier_check_flow(struct verifier *verifier, bool *joins)
{
	uint32_t count = verifier->job->count;
	struct flow flow = {0};
	bool *halves;
	int ret = check_instructions(verifier);

	if (ret)
		return ret;
	halves = calloc(count, sizeof(*halves)); /* second halves of constants */
	flow.marks = calloc(count, sizeof(*flow.marks));
	flow.way = calloc(count, sizeof(*flow.way));
	flow.next = calloc(count, sizeof(*flow.next));
	flow.arrived = calloc(count, sizeof(*flow.arrived));
	if (!halves || !flow.marks || !flow.way || !flow.next || !flow.arrived) {
		ret = calltap_diag_set(verifier->diag, -ENOMEM, "not enough memory to verify a program");
	} else {
		for (uint32_t i = 0; i < count; i++)
			if (bpf_is_wide(&verifier->job->insns[i]))
				halves[++i] = true;
		ret = walk(verifier, &flow, halves);
		for (uint32_t i = 0; i < count; i++)
			joins[i] = flow.arrived[i] > 1;
	}
	free(halves);
	free(flow.marks);
	free(flow.way);
	free(flow.next);
	free(flow.arrived);
	return ret;
}
