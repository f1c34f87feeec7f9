/*
 * Options that are refused; see options.h.  Context: host.
 */
#include <errno.h>
#include <getopt.h>

#include "options.h"

int options_refuse(struct calltap_diag *diag, int option, char **argv)
{
	const char *text = argv[optind - 1];
	char letter[3] = {'-', (char)optopt, '\0'};

	/* In a word of several letters getopt stands still on the word, and optopt says which letter it was. */
	if (text[0] != '-' || (text[1] != '-' && optopt))
		text = letter;
	if (option == ':')
		return calltap_diag_set(diag, -EINVAL, "option '%s' needs a value: 'calltap %s --help' tells which",
					argv[optind - 1], argv[0]);
	return calltap_diag_set(diag, -EINVAL, "'%s' is no option of %s: 'calltap %s --help' lists them", text, argv[0],
				argv[0]);
}
