/*
 * The options that `calltap record`, `attach`, `top`, `live` and `serve` share, the way to the agent, and the messages
 * at the end.  Context: host.
 */
#ifndef CMD_RECORDING_H
#define CMD_RECORDING_H

#include <getopt.h>
#include <limits.h>
#include <stdbool.h>

#include <calltap/diag.h>
#include <host/instance/settings.h>

#define RECORDING_OUTPUT "calltap.data"

enum {
	EXIT_USAGE = 1,
	EXIT_NOTHING = 2,
};

/* Options of one verb only are numbered from here. */
#define RECORDING_OWN 512

enum recording_code {
	OPT_NO_GRAPH = 256,
	OPT_MODE,
	OPT_MAX_DEPTH,
	OPT_NO_FORK,
	OPT_NO_SITES,
	OPT_NO_MATCH,
	OPT_PERF_MAP,
	OPT_BUFFER_DIR,
	OPT_SNAPSHOT_WHEN,
	OPT_START_WHEN,
	OPT_STOP_WHEN,
	OPT_STACK_WHEN,
	OPT_RUN_WHEN,
	OPT_AFTER,
	OPT_HISTORY,
	OPT_TRIGGER_GAP,
	OPT_TRIGGER_MAX,
	OPT_HELP = 'h',
};

/* For getopt_long(), before a verb's own. */
#define RECORDING_SHORT ":hp:l:n:g:b:o:t:qv"
#define RECORDING_LONG                                                                                                 \
	{"tracer", required_argument, NULL, 'p'}, {"trace", required_argument, NULL, 'l'},                             \
		{"notrace", required_argument, NULL, 'n'}, {"graph", required_argument, NULL, 'g'},                    \
		{"no-graph", required_argument, NULL, OPT_NO_GRAPH}, {"buffer", required_argument, NULL, 'b'},         \
		{"output", required_argument, NULL, 'o'}, {"mode", required_argument, NULL, OPT_MODE},                 \
		{"max-depth", required_argument, NULL, OPT_MAX_DEPTH}, {"threshold", required_argument, NULL, 't'},    \
		{"no-fork", no_argument, NULL, OPT_NO_FORK}, {"allow-no-sites", no_argument, NULL, OPT_NO_SITES},      \
		{"allow-no-match", no_argument, NULL, OPT_NO_MATCH}, {"perf-map", no_argument, NULL, OPT_PERF_MAP},    \
		{"buffer-dir", required_argument, NULL, OPT_BUFFER_DIR},                                               \
		{"snapshot-when", required_argument, NULL, OPT_SNAPSHOT_WHEN},                                         \
		{"start-when", required_argument, NULL, OPT_START_WHEN},                                               \
		{"stop-when", required_argument, NULL, OPT_STOP_WHEN},                                                 \
		{"stack-when", required_argument, NULL, OPT_STACK_WHEN},                                               \
		{"run-when", required_argument, NULL, OPT_RUN_WHEN}, {"after", required_argument, NULL, OPT_AFTER},    \
		{"history", required_argument, NULL, OPT_HISTORY},                                                     \
		{"trigger-gap", required_argument, NULL, OPT_TRIGGER_GAP},                                             \
		{"trigger-max", required_argument, NULL, OPT_TRIGGER_MAX}, {"quiet", no_argument, NULL, 'q'},          \
		{"verbose", no_argument, NULL, 'v'},                                                                   \
	{                                                                                                              \
		"help", no_argument, NULL, OPT_HELP                                                                    \
	}

struct recording {
	struct settings settings;
	char agent[PATH_MAX];
	struct triggers *triggers; /* NULL: no trigger was asked for */
	uint64_t after_ns, history_ns, gap_ns;
	uint32_t trigger_max;
	char **argv; /* the verb's; argv[0] is its name */
	char *text;  /* the options as typed */
	bool quiet;
};

/* Set the defaults; argv: as for getopt_long().  Call recording_clear() in any case. */
int recording_init(struct recording *recording, char **argv) __attribute__((warn_unused_result));
void recording_clear(struct recording *recording);
/* Take one of the shared options, as getopt_long() returned it; EXIT_USAGE after a message. */
int recording_take(struct recording *recording, int code, const char *value) __attribute__((warn_unused_result));
/*
 * Check that the options fit together, and find the agent. argv[1..end) is what was typed.  EXIT_USAGE: after a
 * message.
 */
int recording_check(struct recording *recording, int argc, char **argv, int end) __attribute__((warn_unused_result));
/* Print the shared part of --help. mode: the default for full buffers. */
void recording_print_options(const char *mode);
void recording_print_triggers(void);
/* Print which calls were not recorded, and why. */
void recording_tell_losses(const struct record_result *result);
/* Print losses and a summary on standard error. */
void recording_summarize(const struct recording *recording, const struct record_result *result);

#endif
