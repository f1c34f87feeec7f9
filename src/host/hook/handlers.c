/*
 * Slots of handlers and the table of rows (handlers.h).
 *
 * The rows lie in memory that all targets have mapped; they can write to it,
 * so nothing is ever read back.  Callers: images.c, steer.c, conversation.c,
 * handlers_ask.c.  Context: host, under the session's lock.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <host/sealed.h>
#include <host/session/session.h>

#include "handlers_impl.h"
#include "watch.h"

/* Rows and roles; memory is taken for those in use. */
#define ROWS_SIZE (CALLTAP_HANDLED_MAX * (sizeof(struct calltap_handled) + sizeof(struct calltap_roles)))

int handlers_create(struct handlers **out)
{
	struct handlers *handlers = calloc(1, sizeof(*handlers));
	void *rows;
	int ret;

	*out = NULL;
	if (!handlers)
		return -ENOMEM;
	ret = sealed_create("calltap-handlers", ROWS_SIZE, &handlers->fd, &rows);
	if (ret) {
		free(handlers);
		return ret;
	}
	handlers->rows = rows;
	handlers->roles = (uint64_t *)(handlers->rows + CALLTAP_HANDLED_MAX);
	*out = handlers;
	return 0;
}

void handlers_slot_clear(struct handlers_slot *slot)
{
	filter_set_destroy(slot->named);
	filter_set_destroy(slot->allowed);
	free(slot->ids);
	*slot = (struct handlers_slot){0};
}

void handlers_destroy(struct handlers *handlers)
{
	if (!handlers)
		return;
	for (uint32_t i = 0; i < CALLTAP_HANDLERS_MAX; i++)
		handlers_slot_clear(&handlers->slots[i]);
	munmap(handlers->rows, ROWS_SIZE);
	close(handlers->fd);
	free(handlers);
}

uint32_t handlers_count(const struct handlers *handlers)
{
	uint32_t count = 0;

	for (uint32_t i = 0; handlers && i < CALLTAP_HANDLERS_MAX; i++)
		count += handlers->slots[i].used;
	return count;
}

bool handlers_any(const struct handlers *handlers)
{
	for (uint32_t i = 1; handlers && i < CALLTAP_INSTANCES; i++)
		if (handlers->instances[i].wants)
			return true;
	return handlers_count(handlers) != 0;
}

bool handlers_any_exit(const struct handlers *handlers)
{
	for (uint32_t i = 0; handlers && i < CALLTAP_HANDLERS_MAX; i++)
		if (handlers->slots[i].used && handlers->slots[i].exit)
			return true;
	for (uint32_t i = 1; handlers && i < CALLTAP_INSTANCES; i++)
		if (handlers->instances[i].wants && handlers->instances[i].exits)
			return true;
	return false;
}

static int compare_ids(const void *a, const void *b)
{
	uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;

	return (left > right) - (left < right);
}

void handlers_slot_sort(struct handlers_slot *slot)
{
	qsort(slot->ids, slot->id_count, sizeof(*slot->ids), compare_ids);
}

static bool is_chosen(const struct handlers_slot *slot, const struct image *image, const struct object_site *source,
		      uint32_t id)
{
	struct filter_decision decision = {0};

	if (slot->used && slot->by_name)
		decision = images_ask(slot->named, image, source);
	if (slot->used && !decision.trace && slot->id_count &&
	    bsearch(&id, slot->ids, slot->id_count, sizeof(id), compare_ids))
		filter_set_decide(slot->allowed, image->object, source, &decision);
	return decision.trace;
}

/* The filters that choose functions: of slots, then of further instances.  NULL behind the last. */
static const struct filter_set *filters_at(const struct handlers *handlers, uint32_t *place)
{
	for (; *place < CALLTAP_HANDLERS_MAX + CALLTAP_INSTANCES; ++*place) {
		const struct handlers_slot *slot = *place < CALLTAP_HANDLERS_MAX ? &handlers->slots[*place] : NULL;
		const struct filter_set *filters = slot ? (slot->used && slot->by_name ? slot->named : NULL)
							: handlers->instances[*place - CALLTAP_HANDLERS_MAX].filters;

		if (filters) {
			++*place;
			return filters;
		}
	}
	return NULL;
}

bool handlers_name_object(const struct handlers *handlers, const struct object *object)
{
	const struct filter_set *filters;
	uint32_t place = 0;

	while (handlers && (filters = filters_at(handlers, &place)))
		if (filter_set_names_object(filters, object))
			return true;
	return false;
}

bool handlers_name_file(const struct handlers *handlers, const char *path, int fd)
{
	const struct filter_set *filters;
	uint32_t place = 0;

	while (handlers && (filters = filters_at(handlers, &place)))
		if (filter_set_names_file(filters, path, fd))
			return true;
	return false;
}

/* Where the function's body goes on behind the site, from its first byte. */
static uint64_t start_of(const struct object_site *source)
{
	return source->address + source->body_off - source->function;
}

static bool has_row(const struct object_site *source, uint32_t id)
{
	return id < CALLTAP_HANDLED_MAX && start_of(source) <= UINT16_MAX;
}

uint64_t handlers_instance_bit(uint32_t set)
{
	return 1ull << (CALLTAP_HANDLED_INSTANCES_AT + set - 1);
}

static struct filter_decision instance_decides(const struct images *images, uint32_t set, const struct image *image,
					       const struct object_site *source)
{
	const struct handlers_instance *instance = &images->handlers->instances[set];
	struct filter_decision decision = {0};

	if (instance->filters)
		decision = images_ask(instance->filters, image, source);
	decision.trace |= watch_waits(images->watch, set, image->object, source, instance->filters != NULL);
	return decision;
}

/* Write the function's role in the instance to the table; its roles in the others stay. */
static void write_role(struct handlers *handlers, uint32_t *roles, uint32_t id, uint32_t set,
		       const struct filter_decision *decision)
{
	uint32_t root = 1u << (set - 1), hides = root << CALLTAP_ROLES_HIDES_AT;

	*roles &= ~(root | hides);
	*roles |= (decision->root ? root : 0) | (decision->notree ? hides : 0);
	__atomic_store_n(&handlers->roles[id], *roles, __ATOMIC_RELAXED);
}

void handlers_write_roles(const struct images *images, struct image *image, uint32_t site)
{
	for (uint32_t set = 1; set < CALLTAP_INSTANCES; set++) {
		struct filter_decision decision = instance_decides(images, set, image, image->sources[site]);

		write_role(images->handlers, &image->roles[site], image->sites[site].id, set, &decision);
	}
}

int handlers_instance(struct images *images, uint32_t set, struct filter_set *filters, bool exits)
{
	struct handlers *handlers = images->handlers;
	uint64_t bit = handlers_instance_bit(set);

	handlers->instances[set] = (struct handlers_instance){
		.wants = filters || watch_of(images->watch, set), .filters = filters, .exits = exits};
	for (struct image *image = images->first; image; image = image->next) {
		if (image->site_count && !image->slots && handlers_room(image, image->site_count))
			return -ENOMEM;
		for (uint32_t i = 0; i < image->site_count; i++) {
			struct filter_decision decision = instance_decides(images, set, image, image->sources[i]);
			uint32_t id = image->sites[i].id;
			bool wanted = decision.trace && has_row(image->sources[i], id);

			image->slots[i] = wanted ? image->slots[i] | bit : image->slots[i] & ~bit;
			if (wanted)
				write_role(handlers, &image->roles[i], id, set, &decision);
		}
	}
	return 0;
}

void handlers_silence(struct session *session, uint64_t bits)
{
	for (struct image *image = session->images.first; image; image = image->next)
		for (uint32_t i = 0; image->who && i < image->site_count; i++)
			if (image->who[i] & bits)
				handlers_write(session->images.handlers, image, i, image->who[i] & ~bits);
}

uint64_t handlers_choose(const struct images *images, const struct image *image, const struct object_site *source,
			 uint32_t id)
{
	const struct handlers *handlers = images->handlers;
	uint64_t slots = 0;
	bool data = false;

	if (!handlers_any(handlers) || !has_row(source, id))
		return 0;
	for (uint32_t i = 0; i < CALLTAP_HANDLERS_MAX; i++) {
		const struct handlers_slot *slot = &handlers->slots[i];

		if ((data && slot->data) || !is_chosen(slot, image, source, id))
			continue;
		slots |= handlers_bit(i);
		data |= slot->data;
	}
	for (uint32_t set = 1; set < CALLTAP_INSTANCES; set++)
		if (instance_decides(images, set, image, source).trace)
			slots |= handlers_instance_bit(set);
	return slots;
}

/* Bits of all slots that have a word kept, but this one. */
static uint64_t others_with_data(const struct handlers *handlers, uint32_t slot)
{
	uint64_t bits = 0;

	for (uint32_t i = 0; i < CALLTAP_HANDLERS_MAX; i++)
		bits |= i != slot && handlers->slots[i].used && handlers->slots[i].data ? handlers_bit(i) : 0;
	return bits;
}

int handlers_room(struct image *image, size_t sites)
{
	image->slots = calloc(sites ? sites : 1, sizeof(*image->slots));
	image->who = calloc(sites ? sites : 1, sizeof(*image->who));
	image->roles = calloc(sites ? sites : 1, sizeof(*image->roles));
	return image->slots && image->who && image->roles ? 0 : -ENOMEM;
}

int handlers_mark(const struct images *images, uint32_t slot)
{
	const struct handlers_slot *entry = &images->handlers->slots[slot];
	uint64_t bit = handlers_bit(slot), others = entry->data ? others_with_data(images->handlers, slot) : 0;
	int ret = 0;

	for (struct image *image = images->first; image; image = image->next) {
		if (image->site_count && !image->slots && handlers_room(image, image->site_count))
			return -ENOMEM;
		for (uint32_t i = 0; i < image->site_count; i++) {
			const struct object_site *source = image->sources[i];
			uint32_t id = image->sites[i].id;
			bool chosen = is_chosen(entry, image, source, id) && has_row(source, id);

			image->slots[i] = chosen ? image->slots[i] | bit : image->slots[i] & ~bit;
			if (chosen && image->slots[i] & others)
				ret = -EBUSY;
		}
	}
	return ret;
}

void handlers_write(struct handlers *handlers, struct image *image, uint32_t site, uint64_t who)
{
	const struct object_site *source = image->sources[site];
	uint64_t start = start_of(source);
	uint64_t *row = (uint64_t *)&handlers->rows[image->sites[site].id];

	image->who[site] = who;
	if (who >> CALLTAP_HANDLED_INSTANCES_AT)
		who |= CALLTAP_HANDLED_INSTANCES;
	/* The dispatcher loads the row as one word: so all its parts are of one choice. */
	__atomic_store_n(row, who | start << CALLTAP_HANDLED_START_AT, __ATOMIC_RELAXED);
}

int handlers_tell(const struct handlers *handlers, struct target *target, uint64_t at)
{
	const struct calltap_msg_handlers message = {
		.head = {CALLTAP_MSG_HANDLERS, sizeof(message)},
		.functions = CALLTAP_HANDLED_MAX,
		.handlers = at,
	};
	int ret = channel_send(target->socket, &message, sizeof(message), &handlers->fd, 1);

	if (ret)
		return ret;
	target->handled.told = true;
	target->handled.at = at;
	target->owed.handlers++;
	return 0;
}

int handlers_welcome(const struct session *session, struct target *target, const struct target *parent)
{
	if (!session->images.handlers)
		return 0;
	if (target->row.start != CALLTAP_START_FORK)
		return handlers_tell(session->images.handlers, target, 0);
	target->handled.told = parent && parent->handled.told;
	return 0;
}

int handlers_answer(struct session *session, struct target *target, const struct calltap_msg_handlers_done *done)
{
	if (!target->owed.handlers || done->error > 0)
		return -EPROTO;
	target->owed.handlers--;
	target->handled.error = done->error;
	target->silent = target->owed.handlers && target->silent;
	pthread_cond_broadcast(&session->answered);
	return 0;
}

uint64_t handlers_handled(const struct handlers *handlers)
{
	return handlers && handlers->owner ? handlers_functions(handlers->owner, UINT64_MAX) : 0;
}

uint64_t handlers_functions(const struct target *target, uint64_t slots)
{
	uint64_t count = 0;

	for (uint32_t i = 0; i < target->map_count; i++) {
		const struct target_map *map = &target->maps[i];

		if (!map->mapped || map->stubs || !map->image || !map->image->slots)
			continue;
		for (uint32_t k = 0; k < map->image->site_count; k++)
			count += (map->image->slots[k] & slots) != 0;
	}
	return count;
}

int handlers_send_wait(struct target *target)
{
	const struct calltap_msg wait = {CALLTAP_MSG_HANDLERS_WAIT, sizeof(wait)};
	int ret = channel_send(target->socket, &wait, sizeof(wait), NULL, 0);

	target->owed.handlers += !ret;
	return ret;
}

void handlers_settle(struct session *session)
{
	bool any = false;

	if (!handlers_any(session->images.handlers))
		return;
	for (struct target *target = session->targets; target; target = target->next)
		any |= live_can_be_told(target) && target->handled.told && !handlers_send_wait(target);
	if (any && live_wait(session))
		return; /* who does not answer has both as soon as it goes on */
}
