/*
 * What a user can set of a recording, as words: typed as options of a command
 * (--max-depth 3), or as key=value to a session that runs (max-depth=3).
 *
 * Callers: the commands, and who answers `calltap set`.  Context: host.
 *
 * Keys: tracing (on, off), tracer, mode, buffer, max-depth, threshold, time
 * (exact, adaptive), time-short, time-sample, and the filters trace, notrace, graph and no-graph, of which there may be
 * many.
 */
#ifndef HOST_INSTANCE_SETTINGS_H
#define HOST_INSTANCE_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <calltap/diag.h>
#include <host/session/record.h>
#include <host/setting.h>

struct settings {
	/* Keys are about tracer, mode, buffer_bytes, limits, filters, and whose calls have times. */
	struct record_options options;
	bool tracing;
	bool new_values; /* options.values have changed: the functions that they name have to be there */
};

/*
 * Take one value as an option of a command; filters are added.  -EINVAL: no
 * such key or value, with a sentence in diag, and where a filter is wrong its
 * text and a caret.
 */
int setting_take(struct settings *settings, const char *key, const char *value, struct calltap_diag *diag)
	__attribute__((warn_unused_result));

/*
 * The settings of a session after these changes.  out->options.filters is a
 * set of its own, for filter_set_destroy(), when 0 is returned; nothing of
 * `now` is changed.  -EINVAL with `key=value` and a caret in diag.  The word
 * allow-no-match=1 among the changes lets all filters match nothing so far.
 */
int settings_change(struct settings *out, const struct settings *now, const struct setting_change *changes,
		    size_t count, struct calltap_diag *diag) __attribute__((warn_unused_result));

/*
 * refusals.c: refuse what cannot be together, such as a depth and the tracer `function`; tracer, mode, limits, filters,
 * triggers and buffer_dir are looked at.  emulated: the programs run in an emulator, as far as it is known.
 */
int settings_refuse(const struct record_options *options, bool emulated, struct calltap_diag *diag)
	__attribute__((warn_unused_result));

/* Every setting, one key=value in a line (key+=value for a further filter), as they can be set. */
void settings_print(const struct settings *settings, FILE *stream);

#endif
