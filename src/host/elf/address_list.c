/*
 * A growing list of addresses, and sorting (object_impl.h).  Context: host.
 */
#include <errno.h>
#include <stdlib.h>

#include "object_impl.h"

int address_list_add(struct address_list *list, uint64_t address)
{
	if (list->count == list->capacity) {
		size_t capacity = list->capacity ? list->capacity * 2 : 16;
		uint64_t *items = reallocarray(list->items, capacity, sizeof(*items));

		if (!items)
			return -ENOMEM;
		list->items = items;
		list->capacity = capacity;
	}
	list->items[list->count++] = address;
	return 0;
}

void object_sort(void *items, size_t count, size_t size, int (*compare)(const void *, const void *))
{
	const char *item = items;

	for (size_t i = 1; i < count; i++, item += size) {
		if (compare(item, item + size) > 0) {
			qsort(items, count, size, compare);
			return;
		}
	}
}

static int compare_addresses(const void *a, const void *b)
{
	uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;

	return (left > right) - (left < right);
}

void address_list_sort(struct address_list *list)
{
	size_t kept = 0;

	if (!list->count)
		return;
	object_sort(list->items, list->count, sizeof(*list->items), compare_addresses);
	for (size_t i = 1; i < list->count; i++) {
		if (list->items[i] != list->items[kept])
			list->items[++kept] = list->items[i];
	}
	list->count = kept + 1;
}

size_t address_list_above(const struct address_list *list, uint64_t address)
{
	size_t lo = 0, hi = list->count;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (list->items[mid] <= address)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

bool address_list_has(const struct address_list *list, uint64_t address)
{
	size_t above = address_list_above(list, address);

	return above && list->items[above - 1] == address;
}
