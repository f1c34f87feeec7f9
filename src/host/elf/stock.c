/*
 * Stock functions as sites: the analysis of host/stock applied to an object, for functions that no compiler prepared.
 *
 * Callers: who opens objects.  Context: host.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "stock_cache.h"
#include "stock_impl.h"

static enum site_verdict verdict_of(const struct object *object, const struct stock_function *function,
				    const struct object_symbol *symbol)
{
	static const uint8_t verdicts[STOCK_VERDICTS] = {
		[STOCK_OK] = SITE_OK,
		[STOCK_TOO_SHORT] = SITE_TOO_SHORT,
		[STOCK_LED_INTO] = SITE_LED_INTO,
		[STOCK_RETURN_ADDRESS] = SITE_LOOKS_AT_CALLER,
		[STOCK_NO_ROWS] = SITE_NO_ROWS,
		[STOCK_NO_CALLER] = SITE_LOOKS_AT_CALLER,
		[STOCK_LEAVE] = SITE_LOOKS_AT_CALLER,
		[STOCK_UNKNOWN_CODE] = SITE_UNKNOWN_CODE,
		[STOCK_CANNOT_MOVE] = SITE_CANNOT_MOVE,
		[STOCK_RELOCATED] = SITE_RELOCATED,
		[STOCK_OWN_RULES] = SITE_OWN_RULES,
	};

	if (object->view->own)
		return SITE_OWN;
	if (object->view->walked || (object->view->named && !symbol))
		return SITE_RUNTIME;
	if (object->entry && object->entry - function->address < function->size)
		return SITE_LOOKS_AT_CALLER;
	if (symbol && symbol->verdict != SITE_OK)
		return (enum site_verdict)symbol->verdict;
	/* Where heads have islands in others, only what the analysis has left alone may be left alone. */
	if (object->cpu->find_entered && address_list_has(&object->entered, function->address))
		return SITE_LOOKS_AT_CALLER;
	return (enum site_verdict)verdicts[function->verdict];
}

/* The first of the compiled sites that ends behind an address; site_count = none. */
static size_t site_behind(const struct object *object, size_t count, uint64_t address)
{
	size_t low = 0, high = count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		const struct object_site *site = &object->sites[middle];

		if (site->address + (site->span ? site->span : 1u) <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* True if the function has a site that its compiler made. */
static bool has_site(const struct object *object, size_t count, const struct stock_function *function)
{
	size_t at = site_behind(object, count, function->address);

	return at < count && (object->sites[at].function == function->address ||
			      object->sites[at].address - function->address < function->size);
}

/* True if a compiled site needs bytes of the head. */
static bool is_taken(const struct object *object, size_t count, const struct stock_function *function, uint8_t length)
{
	size_t at = site_behind(object, count, function->head);

	return at < count &&
	       object->sites[at].address + (uint64_t)(int64_t)object->sites[at].tramp_off < function->head + length;
}

static int add(struct object *object, size_t count, const struct stock_function *function)
{
	const struct object_symbol *symbol = object_symbol_at(object, function->address);
	struct object_site site = {
		.address = function->head,
		.function = function->address,
		.size = function->size,
		.kind = SITE_STOCK,
		.verdict = (uint8_t)verdict_of(object, function, symbol),
		.length = function->jump,
		.span = function->length,
		.host_span = function->host,
		.body_off = function->length,
		.code_off = function->length,
		.need = function->need,
		.named = symbol ? (uint32_t)(symbol - object->symbols) + 1 : 0,
		.symbol = symbol ? symbol->symbol : "",
	};
	size_t size = 0;
	const uint8_t *code = object_code_at(object, function->head, &size);

	if (function->length > sizeof(site.old) || (site.verdict == SITE_OK && size < function->length))
		return 0;
	if (code)
		memcpy(site.old, code, size < sizeof(site.old) ? size : sizeof(site.old));
	if (site.verdict == SITE_OK && is_taken(object, count, function, function->length))
		site.verdict = SITE_TOO_SHORT;
	if (site.host_span > size || is_taken(object, count, function, site.host_span))
		site.host_span = 0;
	if (site.verdict == SITE_OK && !object_is_near(object, site.address))
		site.verdict = SITE_TOO_FAR;
	return object_add_site(object, &site);
}

static int add_all(struct object *object, const struct stock_list *list)
{
	size_t compiled = object->site_count;
	int error = 0;

	for (size_t i = 0; i < list->count && !error; i++) {
		const struct stock_function *function = &list->functions[i];

		if (function->verdict == STOCK_FRAGMENT)
			error = address_list_add(&object->fragments, function->address);
		else if (!has_site(object, compiled, function))
			error = add(object, compiled, function);
	}
	return object_renew_sites(object, compiled, error);
}

int object_find_stock(struct object *object)
{
	struct stock_list list = {0};
	int error;

	if (!object->view || object->view->refusal)
		return 0;
	error = stock_cache_find(&list, object_view_image(object->view), object->build_id, object->build_id_size);
	if (!error)
		error = add_all(object, &list);
	free(list.functions);
	return error;
}

const struct stock_image *object_stock(const struct object *object)
{
	return object->view && !object->view->refusal ? object_view_image(object->view) : NULL;
}

bool object_is_fragment(const struct object *object, uint64_t address)
{
	return address_list_has(&object->fragments, address);
}
