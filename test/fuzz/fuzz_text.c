/*
 * Text that people type: filters and lists of filters, matched against names of every mangling, and the values of
 * options.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <host/elf/filter.h>
#include <host/elf/object_impl.h>
#include <host/elf/pattern.h>
#include <host/export/export.h>
#include <host/view/parse.h>
#include <host/view/report.h>
#include <host/view/term.h>

#include "fuzz.h"

#define TEXT_MAX    512 /* longer than any that is typed */
#define REGEX_MAX   64	/* regcomp()'s time and memory grow as they like, and it is not ours */
#define REGEX_SLOW  "{*+"
#define REGEX_SLOWS 3

static const char *const names[] = {
	"",
	"a",
	"main",
	"_ZN3foo3barEv",
	"_ZSt4sortIPiEvT_S1_",
	"_RNvC6_123foo3bar",
	"operator()(int) const",
	"ns::Class<int, char>::method(std::string const&)",
	"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab",
	"[",
	"\\",
	"\xff\x80",
};

/* Regular expressions that glibc takes for ever to compile or match say nothing about us. */
static int is_slow(const char *text)
{
	size_t slow = 0;

	for (const char *c = strpbrk(text, REGEX_SLOW); c; c = strpbrk(c + 1, REGEX_SLOW))
		slow += *c == '{' ? REGEX_SLOWS : 1;
	return strchr(text, '/') && (slow >= REGEX_SLOWS || strlen(text) > REGEX_MAX);
}

static void try_pattern(const char *text)
{
	struct pattern_fault fault = {0};
	struct pattern pattern;

	fuzz_expect(pattern_object_length(text) <= strlen(text), "an object's part is part of the filter");
	if (pattern_compile(&pattern, text, &fault)) {
		fuzz_expect(fault.column <= strlen(text), "the caret is below the filter");
		return;
	}
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		pattern_matches(&pattern, names[i]);
		pattern_may_match_demangled(&pattern, names[i]);
	}
	pattern_free(&pattern);
}

static void try_set(const char *text)
{
	struct calltap_diag diag = {0};
	struct filter_set *set;
	enum filter_kind kind;
	unsigned long matches;
	const char *item, *near[3];
	char list[33] = "@";
	int fd = input_file(text, strlen(text));

	input_path(list + 1, fd);
	if (filter_set_create(&set))
		abort();
	/* A text behind an @ would name a file of this machine. */
	if (filter_set_add(set, FILTER_TRACE, text[0] == '@' ? list : text, &diag))
		fuzz_expect(diag.text[0] && diag.column <= (int)strlen(diag.input), "an error is told");
	if (filter_set_add(set, FILTER_NOGRAPH, list, &diag))
		fuzz_expect(diag.text[0] != 0, "an error in a list is told");
	for (size_t i = 0; filter_set_item(set, i, &item, &kind, &matches); i++)
		filter_near_misses(item, NULL, 0, near, 3);
	filter_set_destroy(set);
	close(fd);
}

static void try_values(const char *text)
{
	const struct export_format *format;
	struct calltap_diag diag = {0};
	enum report_column column;
	enum term_color color;
	uint64_t value, to;
	enum report_by by;
	struct by_value *by_value = NULL;

	if (!parse_number(&value, text, 1000, "--number", &diag))
		fuzz_expect(value <= 1000, "a number is within its bound");
	if (!parse_time_range(&value, &to, text, &diag))
		fuzz_expect(value <= to, "a range is not turned round");
	if (parse_duration(&value, text, &diag) && report_parse_by(&by, &by_value, text, &diag) &&
	    report_parse_sort(&column, text, &diag) && term_parse_color(&color, text, &diag) &&
	    export_find(&format, text, &diag))
		fuzz_expect(diag.text[0] != 0, "an error is told");
	by_value_destroy(by_value);
}

static void try_addresses(const uint8_t *data, size_t size)
{
	struct address_list list = {0};
	uint64_t address = 0;

	for (size_t i = 0; i + 1 < size; i += 2) {
		address = (uint64_t)data[i] << 56 | data[i + 1];
		if (address_list_add(&list, address))
			abort();
	}
	address_list_sort(&list);
	for (size_t i = 1; i < list.count; i++)
		fuzz_expect(list.items[i - 1] < list.items[i], "a sorted list rises");
	fuzz_expect(!list.count || address_list_has(&list, address), "what was added is there");
	free(list.items);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = strndup((const char *)data, size < TEXT_MAX ? size : TEXT_MAX);

	if (!text)
		abort();
	if (!is_slow(text)) {
		try_pattern(text);
		try_set(text);
	}
	try_values(text);
	try_addresses(data, size);
	free(text);
	return 0;
}
