/*
 * tracing_cpumask: a bit for each CPU whose events are kept, in groups of 32 bits, the highest first (tree.h).
 *
 * Context: host.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tree.h"

#define GROUP_DIGITS 8u

static uint32_t count_groups(struct tree *tree)
{
	return (cpus_count(tree) + CPUS_GROUP - 1) / CPUS_GROUP;
}

/* The group with all CPUs that there are. */
static uint32_t full_group(struct tree *tree, uint32_t group)
{
	uint32_t left = cpus_count(tree) - group * CPUS_GROUP;

	return left >= CPUS_GROUP ? UINT32_MAX : (1u << left) - 1;
}

int cpumask_read(struct tree_open *open, struct tree_text *out)
{
	struct tree *tree = open->instance->tree;
	uint32_t groups = count_groups(tree), digits = (cpus_count(tree) - 1) % CPUS_GROUP / 4 + 1;

	for (uint32_t i = groups; i--; digits = GROUP_DIGITS)
		tree_text_format(out, "%0*x%s", (int)digits,
				 open->instance->cpumask ? open->instance->cpumask[i] : full_group(tree, i),
				 i ? "," : "\n");
	return 0;
}

int cpumask_write(struct tree_open *open, const char *text, size_t size)
{
	struct tree *tree = open->instance->tree;
	uint32_t groups = count_groups(tree), count = 1, *mask;
	const char *at = text;

	for (const char *comma = text; (comma = strchr(comma, ',')); comma++)
		count++;
	if (count > groups)
		return control_refuse(open, -EOVERFLOW, "there are not so many CPUs", text, 0);
	mask = calloc(groups, sizeof(*mask));
	if (!mask)
		return -ENOMEM;
	for (uint32_t i = count; i--; at++) {
		size_t digits = strspn(at, "0123456789abcdefABCDEF");

		mask[i] = (uint32_t)strtoul(at, NULL, 16);
		if (!digits || digits > GROUP_DIGITS ||
		    (i ? at[digits] != ',' : at[digits] && strcmp(at + digits, "\n") != 0)) {
			free(mask);
			return control_refuse(open, -EINVAL, "CPUs are told by a number of base 16, a bit for each",
					      text, (int)(at - text));
		}
		if (mask[i] & ~full_group(tree, i)) {
			free(mask);
			return control_refuse(open, -EOVERFLOW, "there are not so many CPUs", text, (int)(at - text));
		}
		at += digits;
	}
	free(open->instance->cpumask);
	open->instance->cpumask = mask;
	return (int)size;
}
