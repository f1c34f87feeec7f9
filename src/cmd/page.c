/*
 * The page of a trace (page.h).  Context: host.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "host/html/html.h"
#include "host/text.h"
#include "opener.h"
#include "output.h"
#include "page.h"

#define TRACE_END ".data"
#define PAGE_END  ".html"

/* Compare the trace with `after`, if there is one, and write the page. */
static int compare_and_write(struct reading *reading, struct reading *after)
{
	const struct diff_options options = {.size = sizeof(options), .with_tree = true};
	struct diff_input inputs[SIDES];
	struct diff diff;
	int err;

	if (!after)
		return html_write(reading->trace, &reading->filter, NULL, reading->out, &reading->walk, &reading->diag);
	inputs[SIDE_A] = (struct diff_input){reading->trace, &reading->filter, SIDE_A, &reading->walk, 1};
	inputs[SIDE_B] = (struct diff_input){after->trace, &after->filter, SIDE_B, &after->walk, 1};
	err = diff_run(&diff, inputs, SIDES, &options, &reading->diag);
	if (!err)
		err = html_write(reading->trace, &reading->filter, &diff, reading->out, &reading->walk, &reading->diag);
	diff_clear(&diff);
	return err;
}

int page_write(struct reading *reading, struct reading *after, const char *path, bool *named)
{
	struct output output;
	int err = output_open_public(&output, path, &reading->diag), flushed;

	*named = false;
	if (err)
		return err;
	err = out_create(&reading->out, output.fd);
	if (!err && strcmp(path, "-") == 0)
		reading_yield(reading);
	if (!err)
		err = compare_and_write(reading, after);
	if (err && reading->out)
		out_discard(reading->out);
	flushed = out_destroy(reading->out);
	reading->out = NULL;
	headway_end(&reading->headway);
	err = output_finish_public(&output, err ? err : flushed, &reading->diag);
	*named = !err && output.temporary[0];
	return err;
}

void page_tell(const char *path, bool opens)
{
	struct calltap_diag diag = {.column = -1};
	char size[TIMETEXT_MAX];
	struct stat file;

	if (stat(path, &file) == 0)
		fprintf(stderr, "calltap: %s (%s) is %s a browser\n", path, sizetext((uint64_t)file.st_size, size),
			opens ? "the page for" : "to be opened in");
	if (opens && opener_open(path, &diag))
		calltap_diag_print(&diag, stderr);
}

/* The page's name: the one asked for, or the trace's with ".html" instead of ".data". */
static int name_page(char path[PATH_MAX], const struct recording *recording)
{
	const char *trace = recording->settings.options.output;
	size_t size = strlen(trace), end = strlen(TRACE_END);

	if (recording->page && *recording->page)
		return snprintf(path, PATH_MAX, "%s", recording->page) < PATH_MAX ? 0 : -ENAMETOOLONG;
	if (size > end && trace[size - end - 1] != '/' && !strcmp(trace + size - end, TRACE_END))
		size -= end;
	return snprintf(path, PATH_MAX, "%.*s%s", (int)size, trace, PAGE_END) < PATH_MAX ? 0 : -ENAMETOOLONG;
}

int page_check(const struct recording *recording)
{
	const struct record_options *options = &recording->settings.options;

	if (!recording->page || strcmp(recording->page, options->output) != 0)
		return 0;
	fprintf(stderr, "calltap: %s cannot be both the trace and its page: give one of them another name\n",
		recording->page);
	return EXIT_USAGE;
}

void page_of_recording(const struct recording *recording)
{
	struct reading reading;
	char path[PATH_MAX];
	bool named = false;
	int err;

	if ((!recording->page && !recording->opens) || !recording->settings.options.output)
		return;
	reading_init(&reading, "html", "");
	reading.input = recording->settings.options.output;
	err = name_page(path, recording);
	if (err)
		calltap_diag_set(&reading.diag, err,
				 "the page's name is too long: give a shorter one with --html=FILE");
	if (!err)
		err = reading_open(&reading);
	if (!err)
		err = page_write(&reading, NULL, path, &named);
	if (reading_close(&reading, err) || !named)
		return;
	if (!recording->quiet || recording->opens)
		page_tell(path, recording->opens);
}
