/*
 * `calltap mount`: the files of the kernel's tracefs, for a process or a command (mounting.h).
 *
 * Caller: main.  Context: host.
 */
#include <stdio.h>
#include <string.h>

#include "cmd.h"
#include "mounting.h"

static void print_help(void)
{
	fputs("usage: calltap mount [OPTION...] DIR [PID]\n"
	      "       calltap mount [OPTION...] DIR -- COMMAND [ARGUMENT...]\n"
	      "Mount a tree of files on the folder DIR: those of the kernel's tracefs, for this program.  Without\n"
	      "PID and COMMAND the tree waits for one: echo PID > DIR/attach.\n\n",
	      stdout);
	recording_print_options(RECORDING_MOUNT);
	fputs("\n"
	      "It ends by ^C, `fusermount3 -u DIR`, or with the process, once no file is open any more.\n",
	      stdout);
}

static int take_words(struct mounting *mounting, int argc, char **argv)
{
	/* getopt_long() has put "--" in front of all words. */
	bool command = optind > 1 && !strcmp(argv[optind - 1], "--");

	mounting->options.directory = argv[optind];
	if (!mounting->options.directory) {
		fprintf(stderr, "calltap: there is no folder to mount on; see `calltap mount --help`\n");
		return EXIT_USAGE;
	}
	if (command)
		argv[optind] = argv[optind - 1];
	optind++;
	mounting->waits = !command && !argv[optind];
	if (mounting->waits)
		return 0;
	return watching_target(&mounting->watching, argc, argv, "mount DIR");
}

int cmd_mount(int argc, char **argv)
{
	struct mounting mounting;
	int code, end, ret = mounting_init(&mounting, argv);

	while (!ret && (code = recording_next(RECORDING_MOUNT, argc, argv)) != -1) {
		if (code == OPT_HELP) {
			print_help();
			watching_clear(&mounting.watching);
			return 0;
		}
		if (code == OPT_KEEP)
			mounting.options.keep = true;
		else
			ret = recording_take(&mounting.watching.recording, code, optarg);
	}
	end = optind;
	if (!ret)
		ret = take_words(&mounting, argc, argv);
	if (!ret)
		ret = mounting_check(&mounting);
	if (!ret)
		ret = recording_check(&mounting.watching.recording, argc, argv, end);
	if (!ret)
		ret = mounting_run(&mounting);
	watching_clear(&mounting.watching);
	return ret;
}
