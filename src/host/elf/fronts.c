/*
 * The functions of a static program that the agent stands in front of (fronts.h).  Context: host.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "advice.h"
#include "fronts.h"
#include "imports.h"
#include "stock_impl.h"

_Static_assert(FRONT_NAMES <= FRONTS_MAX, "all of them have room");

const char *front_name(uint32_t i)
{
	return i == FRONT_EXECVE ? "execve" : i < CALLTAP_POINTER_MARK ? imports_names()[i] : NULL;
}

/* Without these the program would go another way: it would be killed in a sandbox, or an exception would end it. */
static bool is_needed(uint32_t name)
{
	switch (name) {
	case CALLTAP_POINTER_DL_FIND_OBJECT:
	case CALLTAP_POINTER_DL_ITERATE_PHDR:
	case CALLTAP_POINTER_BACKTRACE:
	case CALLTAP_POINTER_PRCTL:
	case CALLTAP_POINTER_SYSCALL:
	case CALLTAP_POINTER_UNSHARE:
	case CALLTAP_POINTER_SETNS:
		return true;
	default:
		return false;
	}
}

/* musl's posix_spawn() executes on a stack of 5 KiB, most of which its own execvpe() may take. */
static uint64_t address_of(const struct front_notes *notes, uint32_t i)
{
	if (i == CALLTAP_POINTER_UNWIND_GETCFA || i == CALLTAP_POINTER_UNWIND_BACKTRACE) /* agent/unwinder.c says why */
		return 0;
	return i == FRONT_EXECVE && !notes->glibc ? 0 : notes->addresses[i];
}

static bool is_front(const struct front_notes *notes, uint64_t address)
{
	for (uint32_t i = 0; i < FRONT_NAMES; i++)
		if (address_of(notes, i) == address)
			return true;
	return false;
}

/* The analysis of stock functions, but with heads for these. */
static int find_heads(struct stock_list *list, const struct object *object)
{
	struct stock_image image = *object_view_image(object->view);
	struct stock_symbol *symbols = calloc(image.symbol_count + 1, sizeof(*symbols));
	int error;

	if (!symbols)
		return -ENOMEM;
	for (size_t i = 0; i < image.symbol_count; i++) {
		symbols[i] = image.symbols[i];
		symbols[i].led = is_front(&object->fronts, symbols[i].address);
	}
	image.symbols = symbols;
	error = stock_find(list, &image);
	free(symbols);
	return error;
}

static const struct stock_function *find_function(const struct stock_list *list, uint64_t address)
{
	for (size_t i = 0; i < list->count; i++)
		if (list->functions[i].address == address)
			return list->functions[i].verdict == STOCK_OK ? &list->functions[i] : NULL;
	return NULL;
}

static int compare_fronts(const void *a, const void *b)
{
	const struct front *left = a, *right = b;

	return (left->head > right->head) - (left->head < right->head);
}

static int take_heads(struct fronts *out, const struct object *object, const struct stock_list *list,
		      struct calltap_diag *diag)
{
	for (uint32_t i = 0; i < FRONT_NAMES; i++) {
		const char *name = front_name(i);
		uint64_t address = address_of(&object->fronts, i);
		const struct stock_function *function = address ? find_function(list, address) : NULL;
		size_t size = 0;
		const uint8_t *code = function ? object_code_at(object, function->head, &size) : NULL;
		struct front front = {.name = name};

		if (code && function->length <= size && function->length <= sizeof(front.old)) {
			front.head = function->head;
			front.length = function->length;
			memcpy(front.old, code, function->length);
			out->list[out->count++] = front;
		}
		if (!front.length && address && is_needed(i))
			return calltap_diag_set(
				diag, -ENODATA,
				"%s is linked statically, and its %s() cannot be watched, which tracing "
				"takes; link it dynamically to trace it",
				object->path, name);
	}
	qsort(out->list, out->count, sizeof(out->list[0]), compare_fronts);
	return 0;
}

int fronts_find(struct fronts *out, const struct object *object, struct calltap_diag *diag)
{
	const struct front_notes *notes = &object->fronts;
	struct stock_list list = {0};
	int ret;

	*out = (struct fronts){
		.libgcc = notes->libgcc,
		.glibc = notes->glibc,
		.musl = notes->musl,
		.old_musl = notes->musl && notes->synccall && !notes->list_lock,
	};
	if (!object->view) {
		object_no_sites_diag(object, diag);
		return diag->code;
	}
	if (object->view->refusal)
		return calltap_diag_set(diag, -ENODATA, "%s is linked statically, and cannot be traced: %s",
					object->path, object->view->refusal);
	if (!notes->named)
		return calltap_diag_set(diag, -ENODATA,
					"%s is linked statically and stripped, so the functions of libc that must be "
					"watched are not known; trace one that has its symbols, or link it dynamically",
					object->path);
	if (notes->unwinds && !notes->addresses[CALLTAP_POINTER_DL_FIND_OBJECT] &&
	    !notes->addresses[CALLTAP_POINTER_DL_ITERATE_PHDR])
		return calltap_diag_set(
			diag, -ENODATA,
			"%s is linked statically, and how it finds its unwind tables is not known; link "
			"it dynamically to trace it",
			object->path);
	ret = find_heads(&list, object);
	if (!ret)
		ret = take_heads(out, object, &list, diag);
	else
		ret = calltap_diag_set(diag, ret, "not enough memory");
	free(list.functions);
	return ret;
}
