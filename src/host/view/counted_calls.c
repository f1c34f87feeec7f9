/*
 * Printing counts of calls (counted_calls.h).  Context: host.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <calltap/abi/record.h>

#include "../trace/trace.h"
#include "counted_calls.h"
#include "json.h"
#include "names.h"
#include "out.h"
#include "stack_names.h"

#define BAR 40u

/* A key of the map, as an event. */
struct call {
	uint64_t words[(CALLTAP_MAP_KEY + CALLTAP_EVENT_WORD_BYTES) / CALLTAP_EVENT_WORD_BYTES];
	struct trace_event event;
	uint32_t function;
	bool has_values;
};

struct row {
	char *text; /* text_of() */
	size_t key; /* of the counts, the first of those with this text */
	uint64_t count;
	struct tallied_sum sum;
};

struct table {
	const struct trace *trace;
	const struct tallies *tallies;
	bool sums, newest;
	struct row *rows;
	size_t row_count;
};

static void read_key(struct call *call, const struct table *table, size_t key)
{
	const struct tallied *count = &table->tallies->list[key];
	const unsigned char *bytes = (const unsigned char *)count->key;
	uint32_t words = 0;

	*call = (struct call){.function = (uint32_t)count->key[0]};
	for (uint32_t at = 0; at < count->size; at += CALLTAP_EVENT_WORD_BYTES) {
		uint32_t left = CALLTAP_MAP_KEY - at;

		memcpy(&call->words[words++], bytes + at,
		       left < CALLTAP_EVENT_WORD_BYTES ? left : CALLTAP_EVENT_WORD_BYTES);
	}
	call->has_values = count->type != 0;
	call->event = (struct trace_event){.kind = CALLTAP_REC_EVENT,
					   .id = calltap_event_id(count->type, 1 + words),
					   .behind = (const unsigned char *)call->words};
}

static void put_frame(void *ctx, const char *name)
{
	fprintf(ctx, "%s;", name);
}

/* "write(fd=1)", or with the stack "main;run;write(fd=1)", for free(); NULL: no memory. */
static char *text_of(const struct table *table, struct names *names, const struct call *call,
		     const struct tallied *count)
{
	struct names_text name = {"?", 1};
	char values[TRACE_EVENT_TEXT] = "", *text = NULL;
	bool shown;
	size_t size;
	FILE *stream = open_memstream(&text, &size);

	if (!stream)
		return NULL;
	if (call->function < trace_function_count(table->trace))
		name = names_function(names, call->function);
	if (call->has_values)
		(void)trace_event_text(table->trace, &call->event, values);
	if (count->has_stack)
		stack_each_name(table->tallies, table->trace, count->stack, put_frame, stream);
	/* A stack alone is no value between brackets. */
	shown = call->has_values && (values[0] || !count->has_stack);
	fprintf(stream, "%.*s%s%s%s", (int)name.length, name.text, shown ? "(" : "", shown ? values : "",
		shown ? ")" : "");
	if (!fclose(stream))
		return text;
	free(text);
	return NULL;
}

static int compare_texts(const void *a, const void *b)
{
	return strcmp(((const struct row *)a)->text, ((const struct row *)b)->text);
}

static int compare_rows(const void *a, const void *b)
{
	const struct row *left = a, *right = b;

	if (left->count != right->count)
		return left->count > right->count ? -1 : 1;
	return compare_texts(a, b);
}

/* Largest sums first: those with sign are compared so, and all of a table have one, or none has. */
static int compare_sums(const void *a, const void *b)
{
	const struct tallied_sum *left = &((const struct row *)a)->sum, *right = &((const struct row *)b)->sum;
	uint64_t flip = left->has_sign || right->has_sign ? (uint64_t)1 << 63 : 0;

	if (left->sum != right->sum)
		return (left->sum ^ flip) > (right->sum ^ flip) ? -1 : 1;
	return compare_rows(a, b);
}

/* A function may be there several times: each object that calls it has a place of its own. */
static void merge_rows(struct table *table)
{
	size_t kept = 0;

	qsort(table->rows, table->row_count, sizeof(*table->rows), compare_texts);
	for (size_t i = 0; i < table->row_count; i++) {
		if (!kept || compare_texts(&table->rows[kept - 1], &table->rows[i])) {
			table->rows[kept++] = table->rows[i];
			continue;
		}
		table->rows[kept - 1].count = tallied_add(table->rows[kept - 1].count, table->rows[i].count);
		tallied_sum_merge(&table->rows[kept - 1].sum, &table->rows[i].sum);
		free(table->rows[i].text);
	}
	table->row_count = kept;
	qsort(table->rows, kept, sizeof(*table->rows), table->sums ? compare_sums : compare_rows);
}

static int make_rows(struct table *table)
{
	struct names *names;
	int ret = names_create(&names, table->trace);

	if (ret)
		return ret;
	table->rows = calloc(table->tallies->count + 1, sizeof(*table->rows));
	for (size_t i = 0; table->rows && i < table->tallies->count; i++) {
		const struct tallied *key = &table->tallies->list[i];
		struct call call;
		char *text;

		read_key(&call, table, i);
		text = text_of(table, names, &call, key);
		if (!text)
			break;
		table->rows[table->row_count++] = (struct row){text, i, key->count, key->sum};
	}
	names_destroy(names);
	if (table->row_count < table->tallies->count || !table->rows)
		return -ENOMEM;
	merge_rows(table);
	return 0;
}

/* A number of sums, whose sign is theirs, as text. */
static const char *number_text(char text[24], uint64_t number, bool has_sign)
{
	if (has_sign)
		snprintf(text, 24, "%" PRId64, (int64_t)number);
	else
		snprintf(text, 24, "%" PRIu64, number);
	return text;
}

/* What struct calltap_map_sum has, as numbers. */
struct shown_sum {
	char sum[24], average[24], least[24], most[24];
};

/* False: no call came with a number. */
static bool show_sum(struct shown_sum *out, const struct tallied_sum *sum)
{
	uint64_t flip = sum->has_sign ? (uint64_t)1 << 63 : 0;
	long double all = sum->has_sign ? (long double)(int64_t)sum->sum : (long double)sum->sum;

	if (!sum->count)
		return false;
	(void)number_text(out->sum, sum->sum, sum->has_sign);
	(void)number_text(out->least, ~sum->least ^ flip, sum->has_sign);
	(void)number_text(out->most, sum->most ^ flip, sum->has_sign);
	all /= (long double)sum->count;
	snprintf(out->average, sizeof(out->average), "%.1Lf", all < 0 && all > -0.05L ? 0 : all);
	return true;
}

static void print_sums(const struct table *table, struct out *out)
{
	uint64_t missed = 0, numberless = 0;

	out_format(out, "%12s %14s %12s %12s %12s  %s\n", "COUNT", "SUM", "AVG", "MIN", "MAX", "CALL");
	for (size_t i = 0; i < table->row_count; i++) {
		const struct row *row = &table->rows[i];
		struct shown_sum shown = {"-", "-", "-", "-"};

		(void)show_sum(&shown, &row->sum);
		out_format(out, "%12" PRIu64 " %14s %12s %12s %12s  %s\n", row->count, shown.sum, shown.average,
			   shown.least, shown.most, row->text);
		missed = tallied_add(missed, row->sum.missed);
		numberless = tallied_add(numberless, row->sum.numberless);
	}
	if (numberless)
		out_format(out, "%12" PRIu64 "  of these had no number\n", numberless);
	if (missed)
		out_format(out, "%12" PRIu64 "  numbers came when others were compared: MIN and MAX may lack them\n",
			   missed);
}

static void print_table(const struct table *table, struct out *out)
{
	if (table->sums) {
		print_sums(table, out);
	} else {
		out_format(out, "%12s  %s\n", "COUNT", "CALL");
		for (size_t i = 0; i < table->row_count; i++)
			out_format(out, "%12" PRIu64 "  %s\n", table->rows[i].count, table->rows[i].text);
	}
	if (table->tallies->others && table->newest)
		out_format(out, "%12" PRIu64 "  others, which gave way to newer ones: there is room for %u\n",
			   table->tallies->others, CALLTAP_MAP_SLOTS);
	else if (table->tallies->others)
		out_format(out,
			   "%12" PRIu64 "  others, for which there was no room: there is some for %u different ones\n",
			   table->tallies->others, CALLTAP_MAP_SLOTS);
}

/*
 * ---- JSON ----
 */

static void put_value(void *ctx, const struct trace_value *value)
{
	struct json *json = ctx;

	json_key(json, value->name);
	if (value->kind == TRACE_VALUE_TEXT)
		json_string(json, value->text);
	else if (value->kind == TRACE_VALUE_NONE)
		json_null(json);
	else
		json_literal(json, value->text);
}

static void put_name(void *ctx, const char *name)
{
	json_string(ctx, name);
}

static void put_number(struct json *json, const char *key, const char *text, bool is)
{
	json_key(json, key);
	if (is)
		json_literal(json, text);
	else
		json_null(json);
}

static void put_sum(struct json *json, const struct tallied_sum *sum)
{
	struct shown_sum shown;
	bool is = show_sum(&shown, sum);

	put_number(json, "sum", shown.sum, is);
	put_number(json, "avg", shown.average, is);
	put_number(json, "min", shown.least, is);
	put_number(json, "max", shown.most, is);
	json_key_u64(json, "without_number", sum->numberless);
	json_key_u64(json, "not_compared", sum->missed);
}

static void put_call(struct json *json, const struct table *table, const struct row *row)
{
	const struct tallied *count = &table->tallies->list[row->key];
	struct call call;

	read_key(&call, table, row->key);
	json_object(json);
	json_key_u64(json, "count", row->count);
	if (table->sums)
		put_sum(json, &row->sum);
	json_key_string(json, "call", row->text);
	if (count->has_stack) {
		json_key(json, "stack");
		json_array(json);
		stack_each_name(table->tallies, table->trace, count->stack, put_name, json);
		json_array_end(json);
	}
	json_key(json, "values");
	json_object(json);
	if (call.has_values)
		trace_event_each_value(table->trace, &call.event, put_value, json);
	json_object_end(json);
	json_object_end(json);
}

static void print_json(const struct table *table, struct out *out)
{
	struct json json;

	json_begin(&json, out);
	json_object(&json);
	json_key(&json, "calls");
	json_array(&json);
	for (size_t i = 0; i < table->row_count; i++)
		put_call(&json, table, &table->rows[i]);
	json_array_end(&json);
	json_key_u64(&json, "others", table->tallies->others);
	json_object_end(&json);
	out_format(out, "\n");
}

/*
 * ---- Histograms ----
 */

static void name_bucket(char text[64], const struct buckets *buckets, uint32_t bucket)
{
	int64_t from = buckets->low + (int64_t)(bucket - 1) * buckets->step;

	if (buckets->kind == BUCKET_LOG2) {
		if (bucket < 2)
			snprintf(text, 64, "%s", bucket ? "0" : "(..., 0)");
		else if (bucket == 2)
			snprintf(text, 64, "1");
		else if (bucket < 65)
			snprintf(text, 64, "[%" PRIu64 ", %" PRIu64 ")", (uint64_t)1 << (bucket - 2),
				 (uint64_t)1 << (bucket - 1));
		else
			snprintf(text, 64, "[%" PRIu64 ", ...)", (uint64_t)1 << 63);
	} else if (!bucket) {
		snprintf(text, 64, "(..., %" PRId64 ")", buckets->low);
	} else if (bucket > (uint32_t)buckets->count) {
		snprintf(text, 64, "[%" PRId64 ", ...)", from);
	} else {
		snprintf(text, 64, "[%" PRId64 ", %" PRId64 ")", from, from + buckets->step);
	}
}

struct histogram_of {
	const struct tallied_ranges *ranges;
	uint32_t first, last; /* buckets that have any; first > last: none has */
	uint64_t most;
};

static void look(struct histogram_of *all, const struct table *table)
{
	*all = (struct histogram_of){.ranges = &table->tallies->ranges, .first = BUCKETS_MAX + 2};
	for (uint32_t i = 0; i < BUCKETS_MAX + 2; i++) {
		uint64_t count = all->ranges->counts[i];

		if (!count)
			continue;
		all->first = i < all->first ? i : all->first;
		all->last = i;
		all->most = count > all->most ? count : all->most;
	}
}

static void print_bars(const struct histogram_of *all, const struct counted_options *options, struct out *out)
{
	static const char bar[] = "########################################";

	_Static_assert(sizeof(bar) == BAR + 1, "a full bar");
	out_format(out, "%12s  %s\n", "COUNT", "VALUE");
	for (uint32_t i = all->first; i <= all->last; i++) {
		char name[64];
		int length = (int)((long double)all->ranges->counts[i] * BAR / (long double)all->most);

		name_bucket(name, &options->buckets, i);
		out_format(out, "%12" PRIu64 "  %-44s |%.*s\n", all->ranges->counts[i], name, length, bar);
	}
	if (all->ranges->numberless)
		out_format(out, "%12" PRIu64 "  calls without a number\n", all->ranges->numberless);
}

static void print_buckets(const struct histogram_of *all, const struct counted_options *options, struct out *out)
{
	struct json json;

	json_begin(&json, out);
	json_object(&json);
	json_key(&json, "histogram");
	json_array(&json);
	for (uint32_t i = all->first; i <= all->last; i++) {
		char name[64];

		name_bucket(name, &options->buckets, i);
		json_object(&json);
		json_key_string(&json, "values", name);
		json_key_u64(&json, "count", all->ranges->counts[i]);
		json_object_end(&json);
	}
	json_array_end(&json);
	json_key_u64(&json, "without_number", all->ranges->numberless);
	json_key_u64(&json, "others", 0); /* each number has a bucket */
	json_object_end(&json);
	out_format(out, "\n");
}

static void print_histogram(const struct table *table, const struct counted_options *options, struct out *out)
{
	struct histogram_of all;

	look(&all, table);
	(options->json ? print_buckets : print_bars)(&all, options, out);
}

/*
 * ---- All ----
 */

static bool take_part(int64_t *value, const char **text)
{
	char *end;

	errno = 0;
	*value = strtoll(*text, &end, 10);
	if (end == *text || errno)
		return false;
	*text = *end == ':' ? end + 1 : end;
	return true;
}

int counted_take_hist(struct counted_options *options, const char *text, struct calltap_diag *diag)
{
	const char *at = text + sizeof("linear:") - 1;
	int64_t low, step, buckets;

	if (!strcmp(text, "log2")) {
		options->buckets.kind = BUCKET_LOG2;
		return 0;
	}
	if (!strncmp(text, "linear:", sizeof("linear:") - 1) && take_part(&low, &at) && take_part(&step, &at) &&
	    take_part(&buckets, &at) && !*at && step > 0 && step <= INT32_MAX && buckets > 0 &&
	    buckets <= BUCKETS_MAX && low >= -BUCKET_LOW_MAX && low <= BUCKET_LOW_MAX) {
		options->buckets = (struct buckets){
			.kind = BUCKET_LINEAR, .low = low, .step = (int32_t)step, .count = (int32_t)buckets};
		return 0;
	}
	return calltap_diag_set(diag, -EINVAL,
				"'%s' is no histogram: it is log2, or linear:LOW:STEP:N, with up to %u buckets, as in "
				"linear:0:100:20",
				text, BUCKETS_MAX);
}

int counted_print(const struct tallies *tallies, const struct trace *trace, const struct counted_options *options,
		  struct out *out)
{
	struct table table = {.tallies = tallies, .trace = trace, .sums = options->sums, .newest = options->newest};
	int ret;

	if (options->until) {
		counted_print_spans(tallies, trace, options, out);
		return 0;
	}
	if (options->buckets.kind) {
		print_histogram(&table, options, out);
		return 0;
	}
	ret = make_rows(&table);
	if (!ret)
		(options->json ? print_json : print_table)(&table, out);
	for (size_t i = 0; i < table.row_count; i++)
		free(table.rows[i].text);
	free(table.rows);
	return ret;
}
