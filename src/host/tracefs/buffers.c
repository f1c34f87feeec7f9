/*
 * The files about an instance's buffer: its size, what is in it, and when readers of trace_pipe_raw are woken (tree.h).
 *
 * Context: host.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <host/now.h>
#include <host/setting.h>

#include "raw.h"
#include "tree.h"

#define BUFFER_MIN_KB 8u
#define ASKED_NS      50000000u /* for so long readers take the session's answer for true */

/* Bytes of a thread's buffer; 0 = not known. */
static uint64_t buffer_bytes(struct tree_instance *instance)
{
	char value[32];
	uint64_t bytes;

	ask_value(instance, "buffer", value, sizeof(value));
	return setting_parse_size(value, &bytes) ? bytes : 0;
}

int buffer_read(struct tree_open *open, struct tree_text *out)
{
	tree_text_format(out, "%" PRIu64 "\n", buffer_bytes(open->instance) >> 10);
	return 0;
}

int buffer_write(struct tree_open *open, const char *text, size_t size)
{
	char word[64], *value;
	uint64_t kb = 0, bytes;
	int ret = control_number(open, text, &kb);

	if (ret)
		return ret;
	if (!kb)
		return control_refuse(open, -EINVAL, "a buffer has a size", text, 0);
	if (kb < BUFFER_MIN_KB)
		kb = BUFFER_MIN_KB;
	snprintf(word, sizeof(word), "buffer=%" PRIu64 "K", kb);
	value = strchr(word, '=') + 1;
	if (!setting_parse_size(value, &bytes))
		return control_refuse(open, -ENOMEM, "a thread's buffer has 1 GB at the most", text, 0);
	ret = control_change(open, word, size);
	buffer_limit(open->instance);
	return ret;
}

int buffer_read_total(struct tree_open *open, struct tree_text *out)
{
	struct tree *tree = open->instance->tree;
	/* Threads have buffers; before one has recorded, it is what the kernel would have. */
	uint32_t count = tree->slot_count ? tree->slot_count : cpus_count(tree);

	tree_text_format(out, "%" PRIu64 "\n", (buffer_bytes(open->instance) >> 10) * count);
	return 0;
}

void buffer_limit(struct tree_instance *instance)
{
	instance->buffer_ns = 0;
	buffer_limit_again(instance);
}

void buffer_limit_again(struct tree_instance *instance)
{
	uint64_t now = now_ns();

	if (!instance->buffer_ns || now - instance->buffer_ns >= ASKED_NS) {
		instance->buffer_bytes = buffer_bytes(instance);
		instance->buffer_ns = now;
	}
	if (instance->buffer_bytes)
		store_limit(&instance->store,
			    instance->buffer_bytes * (instance->tree->slot_count ? instance->tree->slot_count : 1));
}

static const struct store_cpu *cpu_of(const struct tree_store *store, uint32_t cpu)
{
	static const struct store_cpu none;

	return cpu < store->cpu_count ? &store->cpus[cpu] : &none;
}

int buffer_read_stats(struct tree_open *open, struct tree_text *out)
{
	const struct tree_store *store = &open->instance->store;
	const struct tree_event *oldest;
	const struct store_cpu *cpu;
	uint64_t dropped;

	source_pump(open->instance);
	cpu = cpu_of(store, open->which);
	dropped = cpu->dropped + source_untold(open->instance, open->which);
	oldest = cpu->first ? store_at(store, cpu->first) : NULL;
	tree_text_format(out, "entries: %llu\noverrun: %llu\ncommit overrun: 0\nbytes: %llu\noldest event ts: ",
			 (unsigned long long)cpu->entries, (unsigned long long)cpu->overrun,
			 (unsigned long long)cpu->bytes);
	lines_time(oldest ? oldest->ns : 0, out);
	tree_text_string(out, "\nnow ts: ");
	lines_time(now_ns(), out);
	tree_text_format(out, "\ndropped events: %llu\nread events: %llu\n", (unsigned long long)dropped,
			 (unsigned long long)cpu->read);
	return 0;
}

int buffer_read_page(struct tree_open *open, struct tree_text *out)
{
	tree_text_format(out, "%u\n", open->instance->page_bytes >> 10);
	return 0;
}

/* As many KB as it takes to have a power of two of 4096 bytes.  Events of pages of another size would not fit. */
int buffer_write_page(struct tree_open *open, const char *text, size_t size)
{
	uint64_t kb = 0, bytes = RAW_PAGE;
	int ret = control_number(open, text, &kb);

	if (!ret && (!kb || kb > RAW_PAGE_MAX >> 10))
		ret = control_refuse(open, -EINVAL, "a sub-buffer has 4 to 512 KB", text, 0);
	if (ret)
		return ret;
	while (bytes < kb << 10)
		bytes *= 2;
	if (bytes == open->instance->page_bytes)
		return (int)size;
	open->instance->page_bytes = (uint32_t)bytes;
	source_forget(open->instance);
	return (int)size;
}

int buffer_read_percent(struct tree_open *open, struct tree_text *out)
{
	tree_text_format(out, "%u\n", open->instance->percent);
	return 0;
}

int buffer_write_percent(struct tree_open *open, const char *text, size_t size)
{
	uint64_t percent = 0;
	int ret = control_number(open, text, &percent);

	if (!ret && percent > 100)
		ret = control_refuse(open, -EINVAL, "there are at most 100 percent", text, 0);
	if (ret)
		return ret;
	open->instance->percent = (uint32_t)percent;
	return (int)size;
}

bool buffer_is_filled(const struct tree_instance *instance)
{
	const struct tree_store *store = &instance->store;

	return store->bytes >= store->bytes_max / 100 * instance->percent;
}

/* What is written does not matter: who is about to end writes something, and what follows comes with the end. */
int buffer_write_free(struct tree_open *open, const char *text, size_t size)
{
	(void)open;
	(void)text;
	return (int)size;
}

int buffer_begin_free(struct tree_open *open)
{
	open->instance->frees++;
	return 0;
}

void buffer_free(struct tree_open *open)
{
	struct tree_words changes = {0};
	bool ends;

	if (--open->instance->frees)
		return;
	ends = options_has(open->instance, OPTION_DISABLE_ON_FREE) && ask_is_tracing(open->instance);

	if (ends && !tree_words_add(&changes, "tracing=off"))
		(void)!ask_change(open->instance, open->row->name, &changes); /* its error is in error_log */
	tree_words_clear(&changes);
	source_forget(open->instance);
}
