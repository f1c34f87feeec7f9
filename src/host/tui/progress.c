/* How far a pass is; see progress.h.  Context: host. */
#include "progress.h"

#define STEP_MASK 0x3fffu /* calls between two looks at the waiting user */

void progress_of(struct progress *progress, const struct trace *trace)
{
	uint64_t records = 0;

	for (uint32_t i = 0; i < trace_thread_count(trace); i++) {
		const struct trace_thread *thread = trace_thread(trace, i);

		records += thread ? thread->records : 0;
	}
	progress->calls = records / 2;
}

void progress_begin(struct progress *progress, unsigned from_percent, unsigned percent)
{
	progress->from_percent = from_percent;
	progress->percent = percent;
	progress->seen = 0;
}

int progress_step(struct progress *progress)
{
	double part;

	if (++progress->seen & STEP_MASK || !progress->tell)
		return 0;
	part = progress->calls ? (double)progress->seen / (double)progress->calls : 1;
	return progress->tell(progress->ctx,
			      progress->from_percent + (unsigned)((part < 1 ? part : 1) * progress->percent));
}
