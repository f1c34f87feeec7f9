/*
 * calltap record: options, and the session's rooms.  Context: host.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <cmd/cmd.h>
#include <host/session/record.h>

#include "beside.h"
#include "page.h"
#include "recording.h"

enum {
	EXIT_NOT_RUN = 126, /* as a shell's, like EXIT_NOT_FOUND */
	EXIT_NOT_FOUND = 127,
	EXIT_LEFT = 130, /* as a shell's after ^C */
};

static void print_help(void)
{
	printf("Usage: calltap record [OPTIONS] [--] COMMAND [ARGUMENTS]\n\n"
	       "Run COMMAND under trace and write what its functions did to a file.\n\n");
	recording_print_options(RECORDING_RECORD);
	printf("\n"
	       "The exit status is COMMAND's own; 2 when there is nothing to trace, 1 for a wrong option\n"
	       "or a trace file that cannot be written, 126 or 127 when COMMAND cannot be run or found.\n");
}

/* End as the command did: the same status, or the same signal. */
static int end_like(int status)
{
	struct rlimit no_core = {0, 0};

	if (WIFEXITED(status))
		return WEXITSTATUS(status);
	setrlimit(RLIMIT_CORE, &no_core);
	fflush(NULL);
	signal(WTERMSIG(status), SIG_DFL);
	raise(WTERMSIG(status));
	return 128 + WTERMSIG(status);
}

static int exit_status(const struct record_result *result, int error)
{
	if (result->left)
		return EXIT_LEFT;
	if (result->ran)
		return end_like(result->wait_status);
	if (error == -ENODATA || error == -ENOEXEC)
		return EXIT_NOTHING;
	if (!result->unrunnable)
		return EXIT_USAGE;
	return error == -ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_RUN;
}

static int record(struct recording *recording)
{
	struct record_result result;
	struct calltap_diag diag = {0};
	struct beside beside;
	int ret = beside_prepare(&beside, recording);

	if (ret)
		return ret;
	ret = record_run(&recording->settings.options, &result, &diag);
	if (ret)
		calltap_diag_print(&diag, stderr);
	beside_finish(&beside);
	recording_summarize(recording, &result);
	if (result.ran)
		page_of_recording(recording);
	return exit_status(&result, ret);
}

int cmd_record(int argc, char **argv)
{
	struct recording recording;
	int code, ret = recording_init(&recording, argv);

	while (!ret && (code = recording_next(RECORDING_RECORD, argc, argv)) != -1) {
		if (code == OPT_HELP) {
			print_help();
			recording_clear(&recording);
			return 0;
		}
		ret = recording_take(&recording, code, optarg);
	}
	recording.settings.options.command = argv + optind;
	if (!ret && !argv[optind]) {
		fprintf(stderr, "calltap: there is no command to record; see `calltap record --help`\n");
		ret = EXIT_USAGE;
	}
	if (!ret)
		ret = page_check(&recording);
	if (!ret)
		ret = recording_check(&recording, argc, argv, optind);
	if (!ret)
		ret = record(&recording);
	recording_clear(&recording);
	return ret;
}
