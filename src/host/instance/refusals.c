/*
 * What cannot be together in one recording: one table, for options of a command, for instances that are asked for, and
 * for `calltap set` (settings.h).
 *
 * A row is here only where the reason lies in what the features are.  What a recording cannot become once it has begun
 * is for who changes it (session/steer.c, instances.c).  Context: host.
 */
#include <errno.h>

#include <calltap/abi/profile.h>
#include <host/elf/filter.h>
#include <host/hook/triggers.h>
#include <host/values/values.h>
#include <tracers/tracer.h>

#include "settings.h"

/* What a recording has, or has not; bits. */
enum feature {
	LIMITS = 1,	     /* trees, a depth or a threshold */
	TRIGGERS = 2,	     /* any */
	SNAPSHOTS = 4,	     /* a trigger that takes one */
	FILES = 8,	     /* buffers are files */
	NO_EXITS = 16,	     /* the tracer sees no ends of calls */
	COUNTERS = 32,	     /* the tracer keeps sums */
	RECORDS = 64,	     /* the buffers are for records */
	NO_HISTORY = 128,    /* the buffers do not keep the newest records until somebody wants them */
	EMULATED = 256,	     /* the programs run in an emulator */
	VALUES = 512,	     /* functions tell values, or are chosen by them */
	THRESHOLD = 1024,    /* short calls are left out */
	TELLING = 2048,	     /* functions tell values */
	ADAPTIVE = 4096,     /* some calls have no times */
	ESTIMATES = 8192,    /* the tracer's sums are estimates */
	LEFT_BEHIND = 16384, /* some calls have no times, and the buffers may outlive the tool */
	UNTIMED = 32768,     /* some records have no times */
	DEPTH = 65536,	     /* calls below a depth are left out */
};

static const struct {
	unsigned one, other; /* features */
	int error;
	const char *sentence;
} refusals[] = {
	{LIMITS, NO_EXITS, -EINVAL,
	 "graph, no-graph, max-depth and threshold need the tracer function_graph; leave them out (`calltap set` takes "
	 "away one that is set: max-depth=)"},
	{COUNTERS, RECORDS, -EINVAL, "the tracer profile keeps counters and writes no trace; `calltap top` shows them"},
	{TRIGGERS, NO_EXITS | COUNTERS, -EINVAL, "triggers need the tracer function_graph"},
	{SNAPSHOTS, NO_HISTORY, -EINVAL, "a snapshot is of a flight recorder: add --mode overwrite"},
	{FILES, NO_HISTORY, -EINVAL, "--buffer-dir goes with --mode overwrite"},
	{VALUES, NO_EXITS | COUNTERS, -EINVAL,
	 "values (--args, --result, --if, --only-if) need the tracer function_graph"},
	{TELLING, THRESHOLD, -EINVAL,
	 "a call's values lie in the trace before it is known how long it takes: leave --threshold out, and give --min "
	 "to "
	 "replay"},
	{ADAPTIVE, NO_EXITS, -EINVAL, "--time adaptive needs the tracer function_graph or profile"},
	{ESTIMATES, THRESHOLD, -EINVAL,
	 "with --time adaptive it is not known how long a short call of tracer profile takes: leave --threshold out"},
	{UNTIMED, THRESHOLD | DEPTH, -EINVAL,
	 "threshold and max-depth have all calls timed, so --time adaptive would have no effect: leave one of them "
	 "out"},
	{LEFT_BEHIND, EMULATED, -EOPNOTSUPP,
	 "--time adaptive with --mode overwrite is for programs that are not emulated: how fast an emulated clock runs "
	 "is "
	 "known too late; leave one of them out"},
	{TRIGGERS, EMULATED, -EOPNOTSUPP,
	 "triggers are for programs that are not emulated: how fast an emulated clock runs is known too late"},
};

static unsigned features_of(const struct record_options *options, bool emulated)
{
	const struct filter_set *filters = options->filters;
	bool trees = filters && (filter_set_has(filters, FILTER_GRAPH) || filter_set_has(filters, FILTER_NOGRAPH));

	return (trees || options->depth_max || options->threshold_ns ? LIMITS : 0) |
	       (options->triggers ? TRIGGERS : 0) |
	       (triggers_have(options->triggers, TRIGGER_SNAPSHOT) ? SNAPSHOTS : 0) |
	       (options->buffer_dir ? FILES : 0) | (options->tracer->has_exit ? 0 : NO_EXITS) |
	       (options->tracer->counts ? COUNTERS : 0) | (options->mode != CALLTAP_MODE_PROFILE ? RECORDS : 0) |
	       (options->mode != CALLTAP_MODE_OVERWRITE ? NO_HISTORY : 0) | (emulated ? EMULATED : 0) |
	       (options->values && (options->tracer->has_exit || !values_of_calls(options->values)) ? VALUES : 0) |
	       (values_tell(options->values) ? TELLING : 0) | (options->threshold_ns ? THRESHOLD : 0) |
	       (options->adaptive ? ADAPTIVE : 0) |
	       (options->adaptive ? options->tracer->counts ? ESTIMATES : UNTIMED : 0) |
	       (options->depth_max ? DEPTH : 0) |
	       (options->adaptive && options->mode == CALLTAP_MODE_OVERWRITE ? LEFT_BEHIND : 0);
}

int settings_refuse(const struct record_options *options, bool emulated, struct calltap_diag *diag)
{
	unsigned features = features_of(options, emulated);

	for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++)
		if (features & refusals[i].one && features & refusals[i].other)
			return calltap_diag_set(diag, refusals[i].error, "%s", refusals[i].sentence);
	return 0;
}
