/*
 * Files (kept.h, stock_cache.h) with the results of stock_find() and stock_find_needs().
 *
 * A file holds for exactly what these read, all of which is summed up, and for the tool that wrote it.  Context: host.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "kept.h"
#include "stock_cache.h"

#define VERSION	    3u
#define CODE_MIN    (UINT64_C(16) << 10) /* less code is read again as fast */
#define HEAD_OFFSET 255u

struct kept_head {
	char magic[8];
	uint32_t version, count;
	uint64_t seed[2];
	uint64_t image;	    /* sum of what stock_find() read */
	uint64_t functions; /* sum of the functions below */
};

struct kept_function {
	uint64_t address;
	uint32_t size;
	uint8_t head; /* from address */
	uint8_t length, jump, host, verdict;
	uint8_t unused[3];
	uint16_t block, frame; /* struct stock_need */
	uint32_t entry, common;
};

static const char MAGIC[8] = "calltapF";

static uint64_t sum_of_image(const struct stock_image *image, const uint64_t seed[2])
{
	struct kept_sum sum = kept_sum_begin(seed);

	kept_sum_tool(&sum);
	kept_sum_number(&sum, image->machine | (uint64_t)image->fixed << 16 | (uint64_t)image->loader << 17);
	kept_sum_number(&sum, image->lo);
	kept_sum_number(&sum, image->hi);
	for (size_t i = 0; i < image->section_count; i++) {
		const struct stock_section *section = &image->sections[i];

		kept_sum_number(&sum, section->address);
		kept_sum_number(&sum, section->code | section->plt << 1);
		kept_sum_number(&sum, section->size);
		kept_sum_add(&sum, section->bytes, section->bytes ? section->size : 0);
	}
	kept_sum_number(&sum, image->frames.address);
	kept_sum_add(&sum, image->frames.bytes, image->frames.size);
	for (size_t i = 0; i < image->symbol_count; i++) {
		kept_sum_number(&sum, image->symbols[i].address);
		kept_sum_number(&sum, (uint64_t)image->symbols[i].size << 4 | image->symbols[i].led << 3 |
					      image->symbols[i].part << 2 | image->symbols[i].leave << 1 |
					      image->symbols[i].twice);
	}
	kept_sum_add(&sum, image->pointed, image->pointed_count * sizeof(*image->pointed));
	kept_sum_add(&sum, image->relocated, image->relocated_count * sizeof(*image->relocated));
	kept_sum_add(&sum, image->keepers, image->keeper_count * sizeof(*image->keepers));
	return kept_sum_end(&sum);
}

static uint64_t sum_of_functions(const struct kept_head *head, const struct kept_function *functions)
{
	struct kept_sum sum = kept_sum_begin(head->seed);

	kept_sum_add(&sum, functions, head->count * sizeof(*functions));
	return kept_sum_end(&sum);
}

/* False: the functions are not what stock_find() can have said. */
static bool unpack(struct stock_function *to, const struct kept_function *from, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (from[i].verdict >= STOCK_VERDICTS || (i && from[i].address < from[i - 1].address))
			return false;
		to[i] = (struct stock_function){
			.address = from[i].address,
			.head = from[i].address + from[i].head,
			.size = from[i].size,
			.length = from[i].length,
			.jump = from[i].jump,
			.host = from[i].host,
			.verdict = from[i].verdict,
			.need = {from[i].block, from[i].frame, from[i].entry, from[i].common},
		};
	}
	return true;
}

static bool is_whole(const struct kept_head *head, size_t size)
{
	return !memcmp(head->magic, MAGIC, sizeof(MAGIC)) && head->version == VERSION &&
	       size == sizeof(*head) + head->count * sizeof(struct kept_function);
}

static bool find_kept(struct stock_list *out, const struct stock_image *image, const char *name)
{
	size_t size;
	struct kept_head *head = kept_read(name, sizeof(*head), &size);
	const struct kept_function *functions = head ? (const struct kept_function *)(head + 1) : NULL;
	bool found = false;

	if (head && is_whole(head, size) && head->functions == sum_of_functions(head, functions) &&
	    head->image == sum_of_image(image, head->seed)) {
		out->functions = calloc(head->count + 1u, sizeof(*out->functions));
		found = out->functions && unpack(out->functions, functions, head->count);
		if (found)
			out->count = head->count;
	}
	if (!found) {
		free(out->functions);
		*out = (struct stock_list){0};
	}
	free(head);
	return found;
}

/* The file's bytes, for free(); NULL = it cannot be kept. */
static struct kept_head *pack(const struct stock_list *list, const struct stock_image *image)
{
	struct kept_head *head;
	struct kept_function *to;

	if (list->count > (KEPT_FILE_MAX - sizeof(*head)) / sizeof(*to))
		return NULL;
	head = calloc(1, sizeof(*head) + list->count * sizeof(*to));
	if (!head || getrandom(head->seed, sizeof(head->seed), GRND_NONBLOCK) != sizeof(head->seed)) {
		free(head);
		return NULL;
	}
	to = (struct kept_function *)(head + 1);
	for (size_t i = 0; i < list->count; i++) {
		const struct stock_function *from = &list->functions[i];

		if (from->head - from->address > HEAD_OFFSET) {
			free(head);
			return NULL;
		}
		to[i] = (struct kept_function){.address = from->address,
					       .size = from->size,
					       .head = (uint8_t)(from->head - from->address),
					       .length = from->length,
					       .jump = from->jump,
					       .host = from->host,
					       .verdict = from->verdict,
					       .block = from->need.size,
					       .frame = from->need.frame,
					       .entry = from->need.entry,
					       .common = from->need.common};
	}
	memcpy(head->magic, MAGIC, sizeof(MAGIC));
	head->version = VERSION;
	head->count = (uint32_t)list->count;
	head->image = sum_of_image(image, head->seed);
	head->functions = sum_of_functions(head, to);
	return head;
}

static void keep(const struct stock_list *list, const struct stock_image *image, const char *name)
{
	struct kept_head *head = pack(list, image);

	if (head)
		kept_write(name, head, sizeof(*head) + head->count * sizeof(struct kept_function));
	free(head);
}

static bool is_large(const struct stock_image *image)
{
	uint64_t code = 0;

	for (size_t i = 0; i < image->section_count; i++)
		code += image->sections[i].code ? image->sections[i].size : 0;
	return code >= CODE_MIN;
}

/* Objects without a build id, as rustc's libraries are, are known by what is in them. */
static void name_of_image(char name[KEPT_NAME_SIZE], const struct stock_image *image)
{
	static const uint64_t seed[2] = {0x63616c6c746170, 0x66756e6374696f6e};
	uint64_t sum = sum_of_image(image, seed);
	uint8_t id[sizeof(sum)];

	memcpy(id, &sum, sizeof(sum));
	kept_name(name, id, sizeof(id), KEPT_FUNCTIONS);
}

int stock_cache_find(struct stock_list *out, const struct stock_image *image, const uint8_t *id, size_t id_size)
{
	bool kept = is_large(image);
	char name[KEPT_NAME_SIZE];
	int error;

	*out = (struct stock_list){0};
	if (id_size >= KEPT_ID_MIN)
		kept_name(name, id, id_size, KEPT_FUNCTIONS);
	else if (kept)
		name_of_image(name, image);
	if (kept && find_kept(out, image, name))
		return 0;
	error = stock_find(out, image);
	if (!error)
		error = stock_find_needs(out, image);
	if (!error && kept)
		keep(out, image, name);
	return error;
}
