/*
 * The simple control files: a setting of the session each, in the words and with the errors of the kernel (tree.h).
 *
 * Context: host.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <host/now.h>
#include <host/setting.h>

#include "tree.h"

#define US_NS	   1000u
#define OPTION_MAX 63 /* bytes of a word that trace_options takes */

int control_refuse(const struct tree_open *open, int error, const char *text, const char *written, int at)
{
	const char *file = open->row ? open->row->name : options_name(open->option);

	return errors_note(open->instance->tree, file, error, text, written, at);
}

int control_number(const struct tree_open *open, const char *text, uint64_t *value)
{
	size_t digits = strspn(text, "0123456789");

	if (!digits || digits > 19 || (text[digits] && strcmp(text + digits, "\n") != 0))
		return control_refuse(open, -EINVAL, "this is no decimal number", text, (int)digits);
	*value = strtoull(text, NULL, 10);
	return 0;
}

int control_change(struct tree_open *open, const char *word, size_t size)
{
	struct tree_words changes = {0};
	int ret = tree_words_add(&changes, word);

	if (!ret)
		ret = ask_change(open->instance, open->row->name, &changes);
	tree_words_clear(&changes);
	return ret ? ret : (int)size;
}

static const char *const tracers[] = {"function_graph", "function", "nop"};

int control_read_available_tracers(struct tree_open *open, struct tree_text *out)
{
	for (size_t i = 0; i < sizeof(tracers) / sizeof(tracers[0]); i++)
		tree_text_format(out, "%s%s", i ? " " : "", tracers[i]);
	tree_text_string(out, "\n");
	return 0;
}

/* The value of a setting, in a line. */
static int put_value(struct tree_open *open, const char *key, struct tree_text *out)
{
	char value[64];

	ask_value(open->instance, key, value, sizeof(value));
	if (!value[0])
		return -ENODEV;
	tree_text_format(out, "%s\n", value);
	return 0;
}

int control_read_tracer(struct tree_open *open, struct tree_text *out)
{
	return put_value(open, "tracer", out);
}

int control_write_tracer(struct tree_open *open, const char *text, size_t size)
{
	struct tree_instance *instance = open->instance;
	size_t start = strspn(text, " \t\n"), i = 0;
	struct calltap_diag diag = {.column = -1};
	char name[64], now[64];
	int ret;

	snprintf(name, sizeof(name), "%.*s", (int)strcspn(text + start, " \t\n"), text + start);
	while (i < sizeof(tracers) / sizeof(tracers[0]) && strcmp(name, tracers[i]) != 0)
		i++;
	if (i == sizeof(tracers) / sizeof(tracers[0]))
		return control_refuse(open, -EINVAL, "there is no such tracer; available_tracers lists them", text,
				      (int)start);
	ask_value(instance, "tracer", now, sizeof(now));
	if (!strcmp(now, name))
		return (int)size;
	if (instance->pipes)
		return control_refuse(open, -EBUSY, "trace_pipe is open; the tracer can be changed when it is closed",
				      text, (int)start);
	ret = limits_tracer(instance, name);
	if (ret)
		return ret;
	source_forget(instance);
	instance->changed_ns = instance->clear_ns;
	ret = func_stacks_follow(instance, &diag);
	if (ret)
		(void)control_refuse(open, ret, diag.text, text, 0); /* the tracer has changed all the same */
	return (int)size;
}

int control_read_tracing(struct tree_open *open, struct tree_text *out)
{
	tree_text_string(out, ask_is_tracing(open->instance) ? "1\n" : "0\n");
	return 0;
}

int control_write_tracing(struct tree_open *open, const char *text, size_t size)
{
	uint64_t on = 0, before = now_ns();
	int ret = control_number(open, text, &on);

	if (!ret)
		ret = control_change(open, on ? "tracing=on" : "tracing=off", size);
	for (unsigned i = 0; i < TREE_BESIDES && ret > 0; i++)
		if (open->instance->besides[i] && open->instance->besides[i]->traced)
			open->instance->besides[i]->traced(open->instance, on, before);
	return ret;
}

/* Change a limit of function_graph; NULL takes it away. */
static int change_limit(struct tree_open *open, enum tree_limit limit, const char *value, size_t size)
{
	struct tree_words values = {0};
	int ret = value ? tree_words_add(&values, value) : 0;

	if (!ret)
		ret = limits_change(open->instance, open->row->name, limit, &values);
	tree_words_clear(&values);
	return ret ? ret : (int)size;
}

int control_read_depth(struct tree_open *open, struct tree_text *out)
{
	struct tree_words values;
	int ret = limits_read(open->instance, TREE_DEPTH, &values);

	if (ret)
		return ret;
	tree_text_format(out, "%s\n", values.count ? values.list[0] : "0");
	tree_words_clear(&values);
	return 0;
}

int control_write_depth(struct tree_open *open, const char *text, size_t size)
{
	char value[32];
	uint32_t count;
	uint64_t depth = 0;
	int ret = control_number(open, text, &depth);

	if (ret)
		return ret;
	snprintf(value, sizeof(value), "%" PRIu64, depth);
	if (depth && !setting_parse_count(value, &count))
		return control_refuse(open, -EINVAL, "this depth is too large", text, 0);
	return change_limit(open, TREE_DEPTH, depth ? value : NULL, size);
}

int control_read_threshold(struct tree_open *open, struct tree_text *out)
{
	struct tree_words values;
	uint64_t ns = 0;
	int ret = limits_read(open->instance, TREE_THRESHOLD, &values);

	if (ret)
		return ret;
	if (values.count && !setting_parse_time(values.list[0], &ns))
		ns = 0;
	tree_text_format(out, "%" PRIu64 "\n", ns / 1000);
	tree_words_clear(&values);
	return 0;
}

int control_write_threshold(struct tree_open *open, const char *text, size_t size)
{
	char value[32];
	uint64_t us = 0, ns;
	int ret = control_number(open, text, &us);

	if (ret)
		return ret;
	snprintf(value, sizeof(value), "%" PRIu64 "us", us);
	if (!setting_parse_time(value, &ns))
		return control_refuse(open, -EINVAL, "this threshold is longer than an hour", text, 0);
	return change_limit(open, TREE_THRESHOLD, us ? value : NULL, size);
}

/* The longest call; what is written is where it begins anew. */
int control_read_longest(struct tree_open *open, struct tree_text *out)
{
	source_pump(open->instance);
	tree_text_format(out, "%" PRIu64 "\n", (open->instance->longest_ns + US_NS / 2) / US_NS);
	return 0;
}

int control_write_longest(struct tree_open *open, const char *text, size_t size)
{
	uint64_t us = 0;
	int ret = control_number(open, text, &us);

	if (!ret && us > UINT64_MAX / US_NS)
		ret = control_refuse(open, -EINVAL, "this is longer than any call", text, 0);
	if (ret)
		return ret;
	open->instance->longest_ns = us * US_NS;
	open->instance->measured_ns = now_ns();
	return (int)size;
}

/* All are the CPU's counter, on the scale of CLOCK_MONOTONIC: the kernel's differ in what the counter is corrected by.
 */
static const char *const clocks[] = {"mono", "local", "global"};

int control_read_clock(struct tree_open *open, struct tree_text *out)
{
	for (uint32_t i = 0; i < sizeof(clocks) / sizeof(clocks[0]); i++)
		tree_text_format(out, i == open->instance->clock ? "%s[%s]" : "%s%s", i ? " " : "", clocks[i]);
	tree_text_string(out, "\n");
	return 0;
}

/* As with the kernel the buffer is empty afterwards. */
int control_write_clock(struct tree_open *open, const char *text, size_t size)
{
	size_t start = strspn(text, " \t\n"), length = strcspn(text + start, " \t\n");

	for (uint32_t i = 0; i < sizeof(clocks) / sizeof(clocks[0]); i++) {
		if (strlen(clocks[i]) != length || strncmp(text + start, clocks[i], length) != 0)
			continue;
		open->instance->clock = i;
		source_forget(open->instance);
		return (int)size;
	}
	return control_refuse(open, -EINVAL, "the clocks are mono, local and global", text, (int)start);
}

/* Options of a tracer are listed while that is the instance's. */
int control_read_options(struct tree_open *open, struct tree_text *out)
{
	char tracer[64];

	ask_value(open->instance, "tracer", tracer, sizeof(tracer));
	for (unsigned i = 0; i < TREE_OPTIONS; i++) {
		if (options_is_listed(i, tracer))
			tree_text_format(out, "%s%s\n", options_has(open->instance, i) ? "" : "no", options_name(i));
	}
	return 0;
}

static int set_option(struct tree_open *open, enum tree_option option, bool on, const char *text, size_t size)
{
	const bool before = options_has(open->instance, option);
	struct calltap_diag diag = {.column = -1};
	const char *refusal;
	int ret;

	options_set(open->instance, option, on);
	refusal = on ? details_refusal(open->instance) : NULL;
	ret = refusal ? control_refuse(open, -EINVAL, refusal, text, 0) : 0;
	if (!ret && options_tells(option) && on != before)
		ret = details_follow(open);
	if (ret) {
		options_set(open->instance, option, before);
		return ret;
	}
	if (option != OPTION_FUNC_STACK_TRACE && option != OPTION_USERSTACKTRACE)
		return (int)size;
	ret = func_stacks_follow(open->instance, &diag);
	if (!ret)
		return (int)size;
	options_set(open->instance, option, false);
	return control_refuse(open, ret, diag.text, text, 0);
}

int control_write_options(struct tree_open *open, const char *text, size_t size)
{
	size_t start = strspn(text, " \t\n"), length = strcspn(text + start, " \t\n");
	const char *word = text + start;
	char name[OPTION_MAX + 1];
	bool off;

	if (size > OPTION_MAX)
		return control_refuse(open, -EINVAL, "an option's word is shorter", text, OPTION_MAX);
	off = length > 2 && !strncmp(word, "no", 2);
	snprintf(name, sizeof(name), "%.*s", (int)(length - (off ? 2 : 0)), word + (off ? 2 : 0));
	for (unsigned i = 0; i < TREE_OPTIONS; i++)
		if (!strcmp(name, options_name(i))) {
			return set_option(open, i, !off, text, size);
		}
	return control_refuse(open, -EINVAL, "there is no such option; trace_options lists them", text, (int)start);
}

int control_read_option(struct tree_open *open, struct tree_text *out)
{
	tree_text_string(out, options_has(open->instance, open->option) ? "1\n" : "0\n");
	return 0;
}

int control_write_option(struct tree_open *open, const char *text, size_t size)
{
	uint64_t on = 0;
	int ret = control_number(open, text, &on);

	if (ret)
		return ret;
	if (on > 1)
		return control_refuse(open, -EINVAL, "an option is 0 or 1", text, 0);
	return set_option(open, open->option, on, text, size);
}
