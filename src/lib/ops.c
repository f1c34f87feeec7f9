/*
 * Registering handlers (calltap.h): this fills a slot of the table that the agent reads, and asks the tool to have the
 * slot called.
 *
 * A slot's handlers are written last and cleared first, so that a thread that finds them finds the rest.  The tool
 * writes down who wants a function's calls before a site leads to the dispatcher, and answers a removal when no thread
 * is in a handler that ran when it came.  Context: the program's threads, with lib_own.lock held but for
 * calltap_ops_status().
 */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <host/remote/remote.h>

#include "lib.h"

#define FLAGS	   (CALLTAP_HANDLER_GENERAL_REGS | CALLTAP_HANDLER_DATA | CALLTAP_HANDLER_PENDING)
#define SLOT_FLAGS (CALLTAP_HANDLER_GENERAL_REGS | CALLTAP_HANDLER_DATA)
#define FILTER_MAX 4096

_Static_assert(CALLTAP_HANDLERS_MAX <= 32, "bits of lib_own.used");
_Static_assert(sizeof(void *) == sizeof(uint64_t), "a list of addresses is one of numbers");

struct wanted {
	const char *const *filter;
	const char *const *notrace;
	const void *const *addresses;
	size_t address_count;
};

static struct calltap_handler *slot_of(const struct calltap_ops *ops)
{
	return &ops->table->handlers.slots[ops->slot];
}

static void free_filters(char **filters)
{
	for (size_t i = 0; filters && filters[i]; i++)
		free(filters[i]);
	free(filters);
}

/* Copy one filter as the tool understands it, whose directory is another; NULL: see diag. */
static char *copy_filter(const char *filter, struct calltap_diag *diag)
{
	char path[PATH_MAX], *copy = NULL;

	if (!filter[0] || strlen(filter) > FILTER_MAX || strchr(filter, '\n')) {
		(void)calltap_diag_set(diag, -EINVAL, "a filter is one line that is not empty, of at most %d bytes",
				       FILTER_MAX);
		return NULL;
	}
	if (filter[0] == '@' && !realpath(filter + 1, path)) {
		(void)calltap_diag_set(diag, -errno, "the filters of %.300s cannot be read: %s", filter + 1,
				       strerror(errno));
		return NULL;
	}
	if (filter[0] != '@')
		copy = strdup(filter);
	else if (asprintf(&copy, "@%s", path) < 0)
		copy = NULL;
	if (!copy)
		(void)calltap_diag_set(diag, -ENOMEM, "there is no memory left");
	return copy;
}

/* *copies stays NULL when there are none: all functions, or no exception. */
static int copy_filters(char ***copies, const char *const *filters, struct calltap_diag *diag)
{
	size_t count = 0;

	*copies = NULL;
	while (filters && filters[count])
		count++;
	if (!count)
		return 0;
	*copies = calloc(count + 1, sizeof(**copies));
	if (!*copies)
		return calltap_diag_set(diag, -ENOMEM, "there is no memory left");
	for (size_t i = 0; i < count; i++) {
		(*copies)[i] = copy_filter(filters[i], diag);
		if (!(*copies)[i])
			return diag->code;
	}
	return 0;
}

static int ask_with(struct calltap_ops *ops, struct remote_handlers *asked, struct calltap_diag *diag)
{
	uint64_t functions;
	int ret = link_ask(ops->session->link, asked, &functions, diag);

	if (!ret)
		ops->functions = functions;
	if (ret == -E2BIG)
		return calltap_diag_set(diag, ret,
					"there are more filters and addresses than can be asked for at once; register "
					"them in parts, or name them in a file (filter \"@FILE\")");
	return ret;
}

static int ask_to_add(struct calltap_ops *ops, const struct wanted *wanted, struct calltap_diag *diag)
{
	char **filter = NULL, **notrace = NULL;
	struct remote_handlers asked = {
		.table = (uintptr_t)&ops->table->handlers,
		.slot = ops->slot,
		.exit = ops->exits,
		.data = ops->flags & CALLTAP_HANDLER_DATA,
		.general = ops->flags & CALLTAP_HANDLER_GENERAL_REGS,
		.pending = ops->flags & CALLTAP_HANDLER_PENDING,
		.addresses = (const uint64_t *)wanted->addresses,
		.address_count = wanted->address_count,
		.timeout_ms = (int)ops->session->link->timeout_ms,
	};
	struct calltap_diag own;
	int ret;

	if (!diag)
		diag = &own;
	if (!wanted->addresses && wanted->address_count)
		return calltap_diag_set(diag, -EINVAL, "there is a number of addresses, and no list of them");
	ret = copy_filters(&filter, wanted->filter, diag);
	if (!ret)
		ret = copy_filters(&notrace, wanted->notrace, diag);
	asked.filter = (const char *const *)filter;
	asked.notrace = (const char *const *)notrace;
	if (!ret)
		ret = ask_with(ops, &asked, diag);
	free_filters(filter);
	free_filters(notrace);
	return ret;
}

/* Ask the tool to remove a slot's handlers; it answers when no thread is in one any more. */
static int ask_to_remove(struct link *link, struct lib_table *table, unsigned slot)
{
	const struct remote_handlers asked = {.table = (uintptr_t)&table->handlers,
					      .slot = slot,
					      .remove = true,
					      .timeout_ms = (int)link->timeout_ms};
	uint64_t functions;
	int ret = link_ask(link, &asked, &functions, NULL);

	return ret == -EAGAIN || ret == -EBUSY ? -ETIMEDOUT : ret;
}

static void fill_slot(struct calltap_ops *ops, const struct calltap_ops_options *options)
{
	const bool general = options->flags & CALLTAP_HANDLER_GENERAL_REGS;
	struct calltap_handlers *handlers = &ops->table->handlers;
	struct calltap_handler *slot = slot_of(ops);
	struct lib_handler *shim = &ops->table->shims[ops->slot];
	uintptr_t entry = general ? (uintptr_t)options->entry : (uintptr_t)shim_entry;
	uintptr_t leave = general ? (uintptr_t)options->exit : (uintptr_t)shim_exit;

	*shim = (struct lib_handler){options->entry, options->exit, options->context, slot};
	slot->context = (uintptr_t)(general ? options->context : shim);
	slot->flags = options->flags & SLOT_FLAGS;
	slot->fault = 0;
	slot->fault_pc = slot->fault_address = slot->missed = 0;
	slot->born = __atomic_add_fetch(&handlers->generation, 1, __ATOMIC_ACQ_REL);
	/* Both pair with the dispatcher's loads: it finds the rest then. */
	__atomic_store_n(&slot->exit, options->exit ? leave : 0, __ATOMIC_RELEASE);
	__atomic_store_n(&slot->entry, options->entry ? entry : 0, __ATOMIC_RELEASE);
}

static void clear_slot(const struct calltap_ops *ops)
{
	__atomic_store_n(&slot_of(ops)->entry, 0, __ATOMIC_RELEASE); /* both pair with the dispatcher's loads */
	__atomic_store_n(&slot_of(ops)->exit, 0, __ATOMIC_RELEASE);
}

/*
 * Find a slot that neither this process nor, in a forked child, the parent has taken; -1: none.  A slot that was never
 * taken is better: forked children have a slot as it was then, and the tool notes who wants which calls for all of a
 * session.
 */
static int free_slot(const struct lib_own *own, const struct lib_table *table)
{
	const struct calltap_handler *slots = table->handlers.slots;
	int found = -1;

	for (int i = CALLTAP_HANDLERS_MAX - 1; i >= 0; i--)
		if (!(own->used & 1u << i) && !slots[i].entry && !slots[i].exit &&
		    (found < 0 || !slots[i].born || slots[found].born))
			found = i;
	return found;
}

/* A slot is free again if the tool says so. -ENOTCONN: the tool has ended, and the next one has to judge. */
static void give_back(struct lib_own *own, unsigned slot, int removed)
{
	if (removed == -ENOTCONN)
		own->retired |= 1u << slot;
	else if (!removed)
		own->used &= ~(1u << slot);
}

/* Free slots of a tool that has ended, if this one says that no thread is on the way to their handlers. */
static void reclaim_ops(struct lib_own *own, struct lib_table *table, struct link *link)
{
	for (unsigned i = 0; i < CALLTAP_HANDLERS_MAX; i++) {
		if (!(own->retired & 1u << i) || ask_to_remove(link, table, i))
			continue;
		own->retired &= ~(1u << i);
		own->used &= ~(1u << i);
	}
}

static int check_options(const struct calltap_ops_options *options, struct calltap_diag *diag)
{
	if (!options->entry && !options->exit)
		return calltap_diag_set(diag, -EINVAL, "there is neither an entry handler nor an exit handler");
	if (options->flags & ~FLAGS)
		return calltap_diag_set(diag, -EINVAL, "flags 0x%x are not known to this libcalltap.so",
					options->flags & ~FLAGS);
	return 0;
}

static int add_ops(struct lib_own *own, struct calltap_ops *ops, const struct calltap_ops_options *options,
		   struct calltap_diag *diag)
{
	const struct wanted wanted = {options->filter, options->notrace, options->addresses, options->address_count};
	int slot, removed, ret = link_check(ops->session->link, diag);

	if (ret)
		return ret;
	slot = free_slot(own, ops->table);
	if (slot < 0 && own->retired) {
		reclaim_ops(own, ops->table, ops->session->link);
		slot = free_slot(own, ops->table);
	}
	ret = slot < 0 ? link_check(ops->session->link, diag) : 0; /* the tool may have ended while it was asked */
	if (ret)
		return ret;
	if (slot < 0)
		return calltap_diag_set(diag, -ENOSPC, "%u handlers are registered already; unregister one first",
					CALLTAP_HANDLERS_MAX);
	ops->slot = (unsigned)slot;
	own->used |= 1u << slot;
	fill_slot(ops, options);
	ret = ask_to_add(ops, &wanted, diag);
	if (!ret)
		return 0;
	clear_slot(ops);
	/* The tool may have done it without an answer: then it still has noted who wants the calls. */
	removed = ret == -EINVAL || ret == -ENOENT || ret == -E2BIG ? 0 : ret;
	if (removed && removed != -ENOTCONN)
		removed = ask_to_remove(ops->session->link, ops->table, ops->slot);
	give_back(own, ops->slot, removed);
	return ret;
}

LIB_PUBLIC int calltap_ops_register(struct calltap_ops **out, struct calltap_session *session,
				    const struct calltap_ops_options *options, struct calltap_diag *diag)
{
	struct calltap_ops_options wanted = {0};
	struct calltap_ops *ops;
	struct lib_own *own;
	int ret;

	*out = NULL;
	if (!session || !options)
		return calltap_diag_set(diag, -EINVAL, "there is no session, or there are no options of handlers");
	if (options->size < offsetof(struct calltap_ops_options, context))
		return calltap_diag_set(diag, -EINVAL, "the options of handlers have no size");
	memcpy(&wanted, options, options->size < sizeof(wanted) ? options->size : sizeof(wanted));
	ret = check_options(&wanted, diag);
	if (ret)
		return ret;
	ops = calloc(1, sizeof(*ops));
	if (!ops)
		return calltap_diag_set(diag, -ENOMEM, "there is no memory left");
	*ops = (struct calltap_ops){
		.session = session, .pid = getpid(), .flags = wanted.flags, .exits = wanted.exit != NULL};
	ret = lib_enter(&own, &ops->table, diag);
	if (!ret) {
		ret = session->pid == ops->pid
			      ? add_ops(own, ops, &wanted, diag)
			      : calltap_diag_set(diag, -ECHILD,
						 "the session is the parent's; open one of this process");
		if (!ret) {
			ops->next = session->ops;
			session->ops = ops;
		}
		lib_leave(own);
	}
	if (ret)
		free(ops);
	else
		*out = ops;
	return ret;
}

LIB_PUBLIC int calltap_ops_set_filter(struct calltap_ops *ops, const char *const *filter, const char *const *notrace,
				      const void *const *addresses, size_t address_count, struct calltap_diag *diag)
{
	const struct wanted wanted = {filter, notrace, addresses, address_count};
	struct lib_table *table;
	struct lib_own *own;
	int ret;

	if (!ops)
		return calltap_diag_set(diag, -EINVAL, "there are no handlers");
	ret = lib_enter(&own, &table, diag);
	if (ret)
		return ret;
	if (ops->pid != getpid())
		ret = calltap_diag_set(diag, -ECHILD, "the handlers are the parent's; register some of this process");
	else
		ret = ask_to_add(ops, &wanted, diag);
	lib_leave(own);
	return ret;
}

static void take_out(struct calltap_ops *ops)
{
	struct calltap_ops **place = &ops->session->ops;

	while (*place != ops)
		place = &(*place)->next;
	*place = ops->next;
}

int ops_end(struct lib_own *own, struct calltap_ops *ops)
{
	int ret;

	clear_slot(ops);
	ret = ask_to_remove(ops->session->link, ops->table, ops->slot);
	if (ret && ret != -ENOTCONN)
		return ret;
	give_back(own, ops->slot, ret);
	take_out(ops);
	free(ops);
	return ret;
}

LIB_PUBLIC int calltap_ops_unregister(struct calltap_ops *ops)
{
	struct lib_table *table;
	struct lib_own *own;
	int ret;

	if (!ops)
		return 0;
	ret = lib_enter(&own, &table, NULL);
	if (ret)
		return ret;
	ret = ops->pid == getpid() ? ops_end(own, ops) : -ECHILD;
	lib_leave(own);
	return ret;
}

LIB_PUBLIC int calltap_ops_status(const struct calltap_ops *ops, struct calltap_ops_status *status)
{
	const struct calltap_handler *slot = slot_of(ops);
	struct calltap_ops_status now = {.size = status->size, .functions = ops->functions};

	if (ops->pid != getpid())
		return -ECHILD;
	if (status->size < sizeof(status->size))
		return -EINVAL;
	now.missed = __atomic_load_n(&slot->missed, __ATOMIC_RELAXED);
	now.fault = (int32_t)__atomic_load_n(&slot->fault, __ATOMIC_ACQUIRE); /* the agent writes it last */
	now.fault_pc = slot->fault_pc;
	now.fault_address = slot->fault_address;
	memcpy(status, &now, status->size < sizeof(now) ? status->size : sizeof(now));
	return 0;
}
