/*
 * Bit maps of an image's code, and finding a place in it (find.h).  Context: host.
 */
#include <errno.h>
#include <stdlib.h>

#include "find.h"

int marks_create(struct marks *marks, const struct stock_image *image)
{
	marks->image = image;
	marks->maps = calloc(image->section_count + 1, sizeof(*marks->maps));
	if (!marks->maps)
		return -ENOMEM;
	for (size_t i = 0; i < image->section_count; i++) {
		if (!image->sections[i].code || !image->sections[i].bytes)
			continue;
		marks->maps[i] = calloc(image->sections[i].size / 8 + 1, 1);
		if (!marks->maps[i])
			return -ENOMEM;
	}
	return 0;
}

void marks_destroy(struct marks *marks)
{
	for (size_t i = 0; marks->maps && i < marks->image->section_count; i++)
		free(marks->maps[i]);
	free(marks->maps);
	marks->maps = NULL;
}

const struct stock_section *find_section(const struct stock_image *image, uint64_t address, size_t *index)
{
	size_t low = 0, high = image->section_count;

	while (low < high) { /* the first one that begins behind the address */
		size_t middle = low + (high - low) / 2;

		if (image->sections[middle].address <= address)
			low = middle + 1;
		else
			high = middle;
	}
	for (size_t i = low; i-- > 0;) {
		const struct stock_section *section = &image->sections[i];

		*index = i;
		if (address - section->address < section->size)
			return section->bytes ? section : NULL;
		if (section->size) /* an empty one may lie within another */
			break;
	}
	return NULL;
}

const uint8_t *find_bytes(const struct stock_image *image, uint64_t address, size_t *size)
{
	size_t index;
	const struct stock_section *section = find_section(image, address, &index);

	*size = section ? section->size - (address - section->address) : 0;
	return section ? section->bytes + (address - section->address) : NULL;
}

const uint8_t *find_code(const struct stock_image *image, uint64_t address, size_t *size)
{
	size_t index;
	const struct stock_section *section = find_section(image, address, &index);

	if (!section || !section->code) {
		*size = 0;
		return NULL;
	}
	*size = section->size - (address - section->address);
	return section->bytes + (address - section->address);
}

void marks_set(struct marks *marks, uint64_t address)
{
	size_t index;
	const struct stock_section *section = find_section(marks->image, address, &index);
	uint64_t bit;

	if (!section || !marks->maps[index])
		return;
	bit = address - section->address;
	marks->maps[index][bit / 8] |= (uint8_t)(1u << bit % 8);
}

bool marks_has(const struct marks *marks, uint64_t address)
{
	size_t index;
	const struct stock_section *section = find_section(marks->image, address, &index);
	uint64_t bit;

	if (!section || !marks->maps[index])
		return false;
	bit = address - section->address;
	return marks->maps[index][bit / 8] >> bit % 8 & 1;
}
