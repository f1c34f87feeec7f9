/*
 * What a program asks for with its handlers (the verb `handlers`): some of its
 * functions' calls are to go to a slot of its own, or to that slot no more.
 *
 *     table=ADDRESS            of its struct calltap_handlers
 *     add=SLOT                 with exit=, data=, general=, pending= (0 or 1),
 *                              filter= and notrace= (host/elf/filter.h), and
 *                              address=A,B,... (within functions of its own)
 *     remove=SLOT
 *
 * Answered by the number of functions whose calls go there now.  Called in the
 * thread of the session's remote side (steer.c).  Context: host.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <host/session/session.h>

#include "handlers_impl.h"

#define LEAVE_MS      1000 /* longest wait for handlers to return: threads of a busy machine wait long for a CPU */
#define LEAVE_STEP_NS 2000000

struct ask {
	uint64_t table;
	uint32_t slot;
	bool add, remove, pending;
	struct handlers_slot wanted;
	uint64_t *addresses;
	size_t address_count;
};

static int refuse_request(struct calltap_diag *diag, const struct setting_change *word)
{
	return calltap_diag_set(diag, -EINVAL,
				"'%.20s=%.40s' cannot be asked of handlers; use the libcalltap of this "
				"tool's version",
				word->key, word->value);
}

static bool take_number(uint64_t *number, const char *text, uint64_t max, const char **rest)
{
	char *end;

	errno = 0;
	*number = strtoull(text, &end, 0);
	if (rest)
		*rest = end;
	return end != text && !errno && *number <= max && (rest || !*end);
}

static int take_addresses(struct ask *ask, const char *text, struct calltap_diag *diag)
{
	const char *rest = text;

	for (bool more = true; more; more = *rest++ == ',') {
		uint64_t *list = reallocarray(ask->addresses, ask->address_count + 1, sizeof(*list));

		if (!list)
			return calltap_diag_set(diag, -ENOMEM, "not enough memory");
		ask->addresses = list;
		if (!take_number(&list[ask->address_count], rest, UINT64_MAX, &rest))
			break;
		ask->address_count++;
	}
	return rest > text && !rest[-1] ? 0 : calltap_diag_set(diag, -EINVAL, "'%.40s' is no list of addresses", text);
}

static int take_filter(struct ask *ask, enum filter_kind kind, const char *text, struct calltap_diag *diag)
{
	int ret = filter_set_add(ask->wanted.named, kind, text, diag);

	if (!ret && kind == FILTER_NOTRACE)
		ret = filter_set_add(ask->wanted.allowed, kind, text, diag);
	return ret;
}

static int take_word(struct ask *ask, const struct setting_change *word, struct calltap_diag *diag)
{
	const struct {
		const char *key;
		bool *to;
	} choices[] = {
		{"exit", &ask->wanted.exit},
		{"data", &ask->wanted.data},
		{"general", NULL},
		{"pending", &ask->pending},
	};
	bool add = !strcmp(word->key, "add"), remove = !strcmp(word->key, "remove");
	uint64_t number;

	if (word->append)
		return refuse_request(diag, word);
	if (!strcmp(word->key, "filter"))
		return take_filter(ask, FILTER_TRACE, word->value, diag);
	if (!strcmp(word->key, "notrace"))
		return take_filter(ask, FILTER_NOTRACE, word->value, diag);
	if (!strcmp(word->key, "address"))
		return take_addresses(ask, word->value, diag);
	if (!strcmp(word->key, "table"))
		return take_number(&ask->table, word->value, UINT64_MAX, NULL) ? 0 : refuse_request(diag, word);
	if (add || remove) {
		if (ask->add || ask->remove || !take_number(&number, word->value, CALLTAP_HANDLERS_MAX - 1, NULL))
			return refuse_request(diag, word);
		ask->slot = (uint32_t)number;
		ask->add = add;
		ask->remove = remove;
		return 0;
	}
	for (size_t i = 0; i < sizeof(choices) / sizeof(choices[0]); i++)
		if (!strcmp(word->key, choices[i].key)) {
			if (!take_number(&number, word->value, 1, NULL))
				return refuse_request(diag, word);
			if (choices[i].to)
				*choices[i].to = number;
			return 0;
		}
	return refuse_request(diag, word);
}

static int take_words(struct ask *ask, const struct setting_change *words, size_t count, struct calltap_diag *diag)
{
	int ret = filter_set_create(&ask->wanted.named);

	if (!ret)
		ret = filter_set_create(&ask->wanted.allowed);
	if (ret)
		return calltap_diag_set(diag, ret, "not enough memory");
	for (size_t i = 0; i < count && !ret; i++)
		ret = take_word(ask, &words[i], diag);
	if (!ret && (!ask->table || ask->table % 8 || !(ask->add || ask->remove)))
		ret = calltap_diag_set(diag, -EINVAL, "handlers are asked for with table= and add= or remove=");
	ask->wanted.used = true;
	ask->wanted.by_name = filter_set_has(ask->wanted.named, FILTER_TRACE) || !ask->address_count;
	return ret;
}

static void ask_clear(struct ask *ask)
{
	handlers_slot_clear(&ask->wanted);
	free(ask->addresses);
}

static struct target *find_asker(const struct session *session, pid_t asker)
{
	struct target *target = session->targets;

	while (target && (target->pid != asker || !target->greeted || target->foreign || !live_can_be_told(target)))
		target = target->next;
	return target;
}

/* Why the process that asks is not found. */
static int tell_absent(const struct session *session, pid_t asker, struct calltap_diag *diag)
{
	bool ours = attachee_find(session, asker) || asker == session->command, over = session->ending.letting_go;

	for (const struct target *target = session->targets; target; target = target->next)
		if (target->pid == asker && !target->foreign && !target->dormant) {
			ours = true;
			over |= target->ended || target->detaching;
		}
	if (ours && over)
		return calltap_diag_set(diag, -ENOTCONN, "the session that traces process %d is ending", (int)asker);
	if (ours)
		return calltap_diag_set(diag, -EAGAIN, "the attach to process %d is not complete yet", (int)asker);
	return calltap_diag_set(diag, -EPERM,
				"process %d is not traced by this session: only a process that is has handlers",
				(int)asker);
}

/* The places of functions that are patched, by address in the process. */
static bool find_function(const struct target *target, uint64_t address, uint32_t *id)
{
	for (uint32_t i = 0; i < target->map_count; i++) {
		const struct target_map *map = &target->maps[i];
		const struct image *image = map->image;
		uint64_t at = address - map->base, end;
		uint32_t place;

		if (!image || !map->mapped || map->stubs || address < map->base ||
		    !image_function_before(image, at, &place))
			continue;
		end = image->sources[place]->function + image->sources[place]->size;
		if (at >= end && at > image->sources[place]->address + image->sources[place]->body_off)
			continue;
		*id = image->sites[place].id;
		return true;
	}
	return false;
}

/* How a message describes the functions that can have handlers. */
static const char *patched_text(const struct session *session)
{
	return session->images.all ? "can be traced" : "this recording has patched (see its filters)";
}

static int find_functions(const struct session *session, struct ask *ask, const struct target *target,
			  struct calltap_diag *diag)
{
	struct handlers_slot *slot = &ask->wanted;

	if (!ask->address_count)
		return 0;
	slot->ids = calloc(ask->address_count, sizeof(*slot->ids));
	if (!slot->ids)
		return calltap_diag_set(diag, -ENOMEM, "not enough memory");
	for (size_t i = 0; i < ask->address_count; i++)
		if (find_function(target, ask->addresses[i], &slot->ids[slot->id_count]))
			slot->id_count++;
		else if (!ask->pending)
			return calltap_diag_set(
				diag, -ENOENT,
				"no function that %s lies at 0x%" PRIx64
				" (`calltap functions` tells what can be traced, and why others cannot)",
				patched_text(session), ask->addresses[i]);
	handlers_slot_sort(slot);
	return 0;
}

/* All slots are free, as those of a process that has ended. */
static int start_anew(struct session *session)
{
	struct handlers *handlers = session->images.handlers;
	int ret = 0;

	for (uint32_t i = 0; i < CALLTAP_HANDLERS_MAX; i++)
		if (handlers->slots[i].used) {
			handlers_slot_clear(&handlers->slots[i]);
			ret |= handlers_mark(&session->images, i);
		}
	return ret;
}

/* The handlers of a session are one process's. */
static int take_over(struct session *session, struct target *target, struct calltap_diag *diag)
{
	struct handlers *handlers = session->images.handlers;
	int ret = handlers ? 0 : handlers_create(&handlers);

	if (ret)
		return calltap_diag_set(diag, ret, "cannot make memory for handlers: %s", strerror(-ret));
	session->images.handlers = handlers;
	if (handlers->owner == target)
		return 0;
	if (handlers->owner && live_can_be_told(handlers->owner) && handlers_count(handlers))
		return calltap_diag_set(diag, -EBUSY,
					"process %d of this session has handlers, and only one at a time can have them",
					(int)handlers->owner->pid);
	if (start_anew(session))
		return calltap_diag_set(diag, -ENOMEM, "not enough memory");
	handlers->owner = target;
	return 0;
}

/* All processes get to know the rows, the one that asks with the address of its own. */
static int tell_all(struct session *session, struct target *asker, uint64_t table, struct calltap_diag *diag)
{
	struct handlers *handlers = session->images.handlers;
	int ret = 0;

	for (struct target *target = session->targets; target; target = target->next)
		if (target != asker && live_can_be_told(target) && !target->handled.told)
			(void)!handlers_tell(handlers, target, 0); /* its end is seen elsewhere */
	if (asker->handled.told && asker->handled.at == table)
		return 0;
	asker->handled.error = 0;
	ret = handlers_tell(handlers, asker, table);
	if (!ret && live_wait(session) && asker->silent)
		ret = -ETIMEDOUT;
	if (!ret)
		ret = asker->handled.error;
	if (!ret)
		return 0;
	asker->handled.told = false; /* again the next time */
	return calltap_diag_set(diag, ret, "the agent in process %d cannot call handlers: %s", (int)asker->pid,
				strerror(-ret));
}

static int tell_unmatched(const struct session *session, const struct target *target, const struct ask *ask,
			  struct calltap_diag *diag)
{
	const char *text = NULL;
	enum filter_kind kind = FILTER_KINDS;
	unsigned long matches;
	uint64_t sites = 0;

	for (uint32_t i = 0; i < target->map_count; i++)
		sites += target->maps[i].mapped && target->maps[i].image ? target->maps[i].image->site_count : 0;
	if (!sites && session->images.all)
		return calltap_diag_set(diag, -ENOENT,
					"nothing that handlers ask for can be traced in process %d (`calltap functions "
					"/proc/%d/exe` says of each function why it cannot)",
					(int)target->pid, (int)target->pid);
	if (!sites)
		return calltap_diag_set(diag, -ENOENT,
					"this recording has patched no function of process %d: by its tracer (%s), its "
					"filters, or because none can be traced (`calltap functions`)",
					(int)target->pid, session->images.tracer->name);
	for (size_t i = 0; kind != FILTER_TRACE && filter_set_item(ask->wanted.named, i, &text, &kind, &matches); i++)
		;
	return calltap_diag_set(diag, -ENOENT, "no function that %s matches %s%.100s%s", patched_text(session),
				kind == FILTER_TRACE ? "'" : "", kind == FILTER_TRACE ? text : "what handlers ask for",
				kind == FILTER_TRACE ? "'" : "");
}

/* The slot takes the place of the one that was there; when that fails, that one is back. */
static int put_slot(struct session *session, struct target *target, struct ask *ask, uint64_t *functions,
		    struct calltap_diag *diag)
{
	struct handlers *handlers = session->images.handlers;
	struct handlers_slot *slot = &handlers->slots[ask->slot], before = *slot;
	int ret;

	*slot = ask->wanted;
	ret = additions_decide(session);
	if (!ret)
		ret = handlers_mark(&session->images, ask->slot);
	*functions = handlers_functions(target, handlers_bit(ask->slot));
	if (ret == -EBUSY)
		ret = calltap_diag_set(diag, ret,
				       "one of the functions has a handler with a word kept for each call "
				       "(CALLTAP_HANDLER_DATA) already, and there is room for one");
	else if (ret)
		ret = calltap_diag_set(diag, ret, "not enough memory");
	else if (!*functions && !ask->pending)
		ret = tell_unmatched(session, target, ask, diag);
	if (!ret)
		ret = tell_all(session, target, ask->table, diag);
	if (!ret)
		ret = apply_all(session, diag);
	if (!ret || ret == -ETIMEDOUT) {
		ask->wanted = before; /* to be cleared */
		return ret;
	}
	*slot = before;
	if (handlers_mark(&session->images, ask->slot))
		session_diagnose(session, "handlers of process %d were lost: not enough memory", (int)target->pid);
	return ret;
}

static int take_away(struct session *session, struct ask *ask, struct calltap_diag *diag)
{
	struct handlers_slot *slot = &session->images.handlers->slots[ask->slot];
	int ret;

	if (!slot->used)
		return 0;
	handlers_slot_clear(slot);
	ret = handlers_mark(&session->images, ask->slot);
	if (!ret)
		ret = apply_all(session, diag);
	if (ret && ret != -ETIMEDOUT) {
		handlers_silence(session, handlers_bit(ask->slot));
		ret = 0;
	}
	return ret;
}

static void pause_unlocked(struct session *session)
{
	const struct timespec step = {0, LEAVE_STEP_NS};

	session_unlock(session);
	nanosleep(&step, NULL);
	session_lock(session);
}

/* Wait until every handler that runs now in the process has returned. */
static int wait_left(struct session *session, struct target *target, struct calltap_diag *diag)
{
	uint64_t until = clock_now_ns() + LEAVE_MS * 1000000ull;

	while (live_can_be_told(target) && target->handled.told) {
		if (handlers_send_wait(target))
			return 0; /* it ends */
		if (live_wait(session) && target->silent)
			return calltap_diag_set(diag, -ETIMEDOUT,
						"the agent in process %d does not answer (is the process stopped?)",
						(int)target->pid);
		if (target->handled.error != -EAGAIN)
			return 0;
		if (clock_now_ns() > until)
			return calltap_diag_set(diag, -EAGAIN, "handlers of process %d still run", (int)target->pid);
		pause_unlocked(session);
	}
	return 0;
}

static int carry_out(struct session *session, struct ask *ask, pid_t asker, uint64_t *functions,
		     struct calltap_diag *diag)
{
	struct target *target = find_asker(session, asker);
	struct handlers *handlers = session->images.handlers;
	int ret;

	if (!target)
		return tell_absent(session, asker, diag);
	if (ask->remove) {
		ret = handlers && handlers->owner == target ? take_away(session, ask, diag) : 0;
		if (!ret || (ret == -ETIMEDOUT && !target->silent))
			ret = wait_left(session, target, diag);
		return ret;
	}
	ret = find_functions(session, ask, target, diag);
	if (!ret)
		ret = take_over(session, target, diag);
	if (!ret)
		ret = put_slot(session, target, ask, functions, diag);
	if (ret != -ETIMEDOUT)
		return ret;
	/* Other processes of the session may be stopped. */
	return target->silent ? calltap_diag_set(diag, ret,
						 "the agent in process %d does not answer (is the process stopped?)",
						 (int)target->pid)
			      : 0;
}

int handlers_ask(struct session *session, pid_t asker, const struct setting_change *words, size_t count, FILE *answer,
		 struct calltap_diag *diag)
{
	struct ask ask = {0};
	uint64_t functions = 0;
	int ret = take_words(&ask, words, count, diag);

	if (!ret) {
		session_lock(session);
		ret = live_turn_begin(session);
		if (ret) {
			ret = calltap_diag_set(diag, ret, "the attach is not complete yet; nothing was changed");
		} else {
			ret = carry_out(session, &ask, asker, &functions, diag);
			live_turn_end(session);
		}
		session_unlock(session);
	}
	if (!ret)
		fprintf(answer, "functions=%" PRIu64 "\n", functions);
	ask_clear(&ask);
	return ret;
}
