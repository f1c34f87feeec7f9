/* Late ticks, as many as there is room for (late.h).  Context: host. */
#include "late.h"

static void join_pairs(struct late *late)
{
	for (uint32_t i = 0; i < late->count / 2; i++) {
		const struct calltap_file_late *one = &late->rows[(size_t)2 * i], *two = one + 1;

		late->rows[i] = (struct calltap_file_late){one->from, one->to > two->to ? one->to : two->to};
	}
	late->count /= 2;
	late->written /= 2; /* half a pair that the file has counts as not written */
}

void late_add(struct late *late, const struct calltap_file_late *row)
{
	if (late->count == LATE_MAX)
		join_pairs(late);
	late->rows[late->count++] = *row;
}
