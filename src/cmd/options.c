/*
 * Options of all verbs; see options.h.  Context: host.
 */
#include <errno.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <host/text.h>

#include "options.h"

static void list_options(const char *letters, const struct option *options)
{
	for (; options->name; options++) {
		bool lettered = options->val > 0 && options->val < 128 && strchr(letters, options->val);

		printf("%c %d %s\n", lettered ? options->val : '-', options->has_arg != no_argument, options->name);
	}
}

static struct nearest meant; /* by the option that the verb does not have */

/* The verb's table may be gone when it refuses the option; the names stay. */
static void note_meant(const char *text, const struct option *options)
{
	char word[TEXT_FAR];

	text += strspn(text, "-");
	snprintf(word, sizeof(word), "%.*s", (int)strcspn(text, "="), text);
	meant = (struct nearest){0};
	for (; options->name; options++)
		options_near(&meant, word, options->name);
}

int options_next(int argc, char **argv, const char *letters, const struct option *options)
{
	int option;

	if (argc == 2 && strcmp(argv[1], OPTIONS_LIST) == 0) {
		list_options(letters, options);
		exit(fflush(stdout) ? EXIT_FAILURE : EXIT_SUCCESS);
	}
	option = getopt_long(argc, argv, letters, options, NULL);
	if (option == '?')
		note_meant(argv[optind - 1], options);
	return option;
}

const char *options_nearest(const struct nearest *nearest)
{
	return nearest->name && (nearest->distance <= 1 || nearest->distance <= nearest->length / 3) ? nearest->name
												     : NULL;
}

void options_near(struct nearest *nearest, const char *word, const char *name)
{
	unsigned distance = text_distance(word, name);

	if (!nearest->name || distance < nearest->distance)
		*nearest = (struct nearest){name, distance, (unsigned)strlen(word)};
}

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
	if (text[1] == '-' && options_nearest(&meant))
		return calltap_diag_set(diag, -EINVAL,
					"'%s' is no option of %s; is it --%s? 'calltap %s --help' lists them", text,
					argv[0], options_nearest(&meant), argv[0]);
	return calltap_diag_set(diag, -EINVAL, "'%s' is no option of %s: 'calltap %s --help' lists them", text, argv[0],
				argv[0]);
}
