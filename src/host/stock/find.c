/*
 * stock_find(): the functions of an object, each with a head or the reason why it has none (stock.h, find.h).
 * Context: host.
 */
#include <errno.h>
#include <stdlib.h>

#include "find.h"

#define TABLE_ROWS_MAX (1u << 26)

/* Compilers begin functions at such multiples, unless they are rarely run or small code was asked for. */
#define FUNCTION_ALIGN 16

/*
 * True if nothing leads to the start but jumps of one function, one of them conditional.  A compiler moves a few rarely
 * run instructions away from a function, and before its frame stands their rows are those of an entry (`xor %eax, %eax;
 * ret`).  A tail call is no conditional jump in most compilers; where it is, this may be the only caller's own
 * function: its time is its caller's then.  What has a symbol, or lies where functions do, is taken for a function.
 */
static bool is_jumped_to_as_part(const struct finding *finding, const struct start *start)
{
	return start->has_entry && !start->named && start->address % FUNCTION_ALIGN && start->jumpers == 1 &&
	       start->branched && !marks_has(&finding->used, start->address);
}

/*
 * True for a part of a function whose first row is that of a function's entry: a jump leads there as no tail call can,
 * or an exception leads into its first bytes.
 */
static bool is_led_to_as_part(const struct finding *finding, uint64_t address)
{
	if (marks_has(&finding->unfit, address))
		return true;
	for (unsigned i = 0; i < finding->cpu->block->jump_bytes; i++)
		if (marks_has(&finding->landings, address + i))
			return true;
	return false;
}

/*
 * True if something tells that a function begins there and no part of one: a symbol, a call, its address, a landing
 * pad, or jumps from several functions.  A part is reached from its own function alone, by jumps.
 */
static bool is_proven(const struct finding *finding, const struct start *start)
{
	size_t size;
	const uint8_t *code = find_code(finding->image, start->address, &size);

	if (start->jumpers > 1 || marks_has(&finding->entered, start->address))
		return true;
	return code &&
	       (finding->cpu->landing_pad(code, size) ||
		(finding->cpu->jump_bytes && finding->cpu->jump_bytes(code, size) > finding->cpu->block->jump_bytes));
}

static bool is_private(const struct finding *finding, const struct start *start)
{
	size_t size;
	const uint8_t *code = find_code(finding->image, start->address, &size);

	return finding->image->loader && finding->cpu->is_private && code && finding->cpu->is_private(code, size);
}

static bool takes_more(const struct finding *finding, const struct start *start)
{
	size_t size;
	const uint8_t *code = find_code(finding->image, start->address, &size);

	if (!code || !finding->cpu->takes_more)
		return false;
	if (size > start->end - start->address)
		size = start->end - start->address;
	return finding->cpu->takes_more(code, size, start->address);
}

stock_takes_more stock_takes_more_of(uint16_t machine)
{
	const struct find_cpu *cpu = find_cpu_of(machine);

	return cpu ? cpu->takes_more : NULL;
}

static struct stock_function judge(const struct finding *finding, const struct start *start)
{
	uint64_t size = start->end - start->address;
	struct stock_function function = {
		.address = start->address,
		.head = start->address,
		.size = size < UINT32_MAX ? (uint32_t)size : UINT32_MAX,
	};

	if (start->led)
		find_head(finding, start, &function);
	else if (start->kind == START_NO_CALLER)
		function.verdict = STOCK_NO_CALLER;
	else if (start->kind == START_FRAGMENT || start->part || is_led_to_as_part(finding, start->address) ||
		 is_jumped_to_as_part(finding, start))
		function.verdict = STOCK_FRAGMENT;
	else if (finding->cpu->needs_proof && !is_proven(finding, start))
		function.verdict = STOCK_FRAGMENT;
	else if (start->leave || is_private(finding, start))
		function.verdict = STOCK_LEAVE;
	else if (start->keeps)
		function.verdict = STOCK_RETURN_ADDRESS;
	else if (finding->has_entries && !start->has_entry && !start->inner)
		function.verdict = STOCK_NO_ROWS;
	else if (takes_more(finding, start))
		function.verdict = STOCK_OWN_RULES;
	else
		find_head(finding, start, &function);
	return function;
}

static int judge_all(struct stock_list *out, const struct finding *finding)
{
	uint64_t end = 0; /* of the last head */

	out->functions = calloc(finding->start_count + 1, sizeof(*out->functions));
	if (!out->functions)
		return -ENOMEM;
	for (size_t i = 0; i < finding->start_count; i++) {
		struct stock_function function = judge(finding, &finding->starts[i]);

		if (function.verdict == STOCK_OK && function.head < end) /* in another function's first instructions */
			function.verdict = STOCK_LED_INTO;
		if (function.verdict == STOCK_OK)
			end = function.head + function.length;
		out->functions[out->count++] = function;
	}
	return 0;
}

/* True if a head lies within reach that can have the island for a short jump at `head`. */
static bool has_island(const struct stock_list *list, size_t index, const struct stock_islands *islands)
{
	const struct stock_function *functions = list->functions;
	uint64_t head = functions[index].head, reach = islands->reach;

	for (size_t i = index; i-- > 0 && head - functions[i].head < reach;)
		if (functions[i].verdict == STOCK_OK && functions[i].host)
			return true;
	for (size_t i = index + 1; i < list->count && functions[i].head + islands->jump - head <= reach; i++)
		if (functions[i].verdict == STOCK_OK && functions[i].host)
			return true;
	return false;
}

/* Short jumps need islands. */
static void judge_islands(struct stock_list *list, uint16_t machine)
{
	const struct stock_islands islands = stock_islands_of(machine);

	for (size_t i = 0; i < list->count; i++)
		if (list->functions[i].verdict == STOCK_OK && list->functions[i].jump == islands.jump &&
		    !has_island(list, i, &islands))
			list->functions[i].verdict = STOCK_TOO_SHORT;
}

bool stock_has_cpu(uint16_t machine)
{
	return find_cpu_of(machine);
}

int stock_find(struct stock_list *out, const struct stock_image *image)
{
	struct finding finding = {
		.image = image,
		.cpu = find_cpu_of(image->machine),
		.budget = TABLE_ROWS_MAX,
	};
	int error;

	*out = (struct stock_list){0};
	if (!finding.cpu)
		return 0;
	error = marks_create(&finding.targets, image);
	if (!error)
		error = marks_create(&finding.used, image);
	if (!error)
		error = marks_create(&finding.entered, image);
	if (!error)
		error = marks_create(&finding.unfit, image);
	if (!error)
		error = marks_create(&finding.landings, image);
	if (!error)
		error = find_starts(&finding);
	if (!error)
		error = find_sweep(&finding);
	if (!error)
		error = find_closure(&finding);
	if (!error)
		error = judge_all(out, &finding);
	if (!error)
		judge_islands(out, image->machine);
	marks_destroy(&finding.targets);
	marks_destroy(&finding.used);
	marks_destroy(&finding.entered);
	marks_destroy(&finding.unfit);
	marks_destroy(&finding.landings);
	free(finding.starts);
	free(finding.edges);
	return error;
}
