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

enum recording_code {
	OPT_NO_GRAPH = 256,
	OPT_MODE,
	OPT_MAX_DEPTH,
	OPT_NO_FORK,
	OPT_NO_SITES,
	OPT_NO_MATCH,
	OPT_STOCK,
	OPT_LIBCALLS,
	OPT_NO_LIBCALLS,
	OPT_MIN_SIZE,
	OPT_TIME,
	OPT_TIME_SHORT,
	OPT_TIME_TICK,
	OPT_TIME_SAMPLE,
	OPT_TIME_SMALL,
	OPT_TIME_PROFILE,
	OPT_IF,
	OPT_ONLY_IF,
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
	OPT_DURATION,
	OPT_INSTANCE,
	OPT_NAME,
	OPT_CHILDREN,
	OPT_NO_EXEC,
	OPT_EMULATOR,
	OPT_ONCE,
	OPT_JSON,
	OPT_PROGRAM_OUTPUT,
	OPT_SCREEN,
	OPT_SHOW_PID,
	OPT_SHOW_TID,
	OPT_MIN,
	OPT_DEPTH,
	OPT_ABSTIME,
	OPT_PROC,
	OPT_TAIL,
	OPT_ALL_LEVELS,
	OPT_COLOR,
	OPT_READY_FD,
	OPT_HIST,
	OPT_UNTIL,
	OPT_SUM,
	OPT_KEEP,
	OPT_HTML,
	OPT_OPEN,
	OPT_MOUNT,
	OPT_HELP = 'h',
};

/* Verbs whose options are rows of one table; bits. */
enum recording_verb {
	RECORDING_RECORD = 1,
	RECORDING_ATTACH = 2,
	RECORDING_TOP = 4,
	RECORDING_LIVE = 8,
	RECORDING_SERVE = 16,
	RECORDING_COUNT = 32,
	RECORDING_MOUNT = 64,
	RECORDING_SHELL = 128,
};

struct recording {
	struct settings settings;
	char agent[PATH_MAX];
	struct triggers *triggers; /* NULL: no trigger was asked for */
	uint64_t after_ns, history_ns, gap_ns;
	uint32_t trigger_max;
	char **argv;		  /* the verb's; argv[0] is its name */
	char *text;		  /* the options as typed */
	const char *time_profile; /* a trace that says which functions are short, or NULL */
	struct record_known *known;
	size_t known_count;
	const char *page;  /* the file for a page of the trace; "": beside the trace; NULL: not asked for */
	bool opens;	   /* show the page in a browser */
	const char *mount; /* the folder for a tree of files meanwhile, or NULL */
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
/* Do getopt_long() with the verb's rows. */
int recording_next(unsigned verb, int argc, char **argv) __attribute__((warn_unused_result));
/* Print the verb's rows as --help does. */
void recording_print_options(unsigned verb);
/* Print which calls were not recorded, and why. */
void recording_tell_losses(const struct record_result *result);
/* Print that so many system calls of the program returned early because its threads were stopped; 0 = nothing. */
void recording_tell_cut_short(uint32_t count);
/* Print losses and a summary on standard error. */
void recording_summarize(const struct recording *recording, const struct record_result *result);

#endif
