/*
 * The objects that are mapped: the loader's link map, at the start and whenever dlopen or dlclose changes it.
 *
 * The loader calls an empty function (r_debug.r_brk) for debuggers each time the map changes, after new objects are
 * mapped and before their constructors run.  The agent makes it call agent_debug_state() instead, which holds the
 * loading thread until the tool has patched the new objects. glibc and musl do this alike.  Contexts: control;
 * agent_debug_state() runs on the program's thread inside dlopen.
 */
#include <errno.h>

#include <calltap/abi/movers.h>
#include <agent/agent.h>
#include <agent/libc.h>
#include <base/mem.h>
#include <base/sys.h>

#define PATH_BYTES   4096u
#define OBJECTS_MAX  65536
#define LIVE_TRIES   10000 /* looks for a moment in which the loader is not at work: seconds */
#define LIVE_STEP_NS 1000000

#define DIGEST_NONE 14695981039346656037u

/* An object of the link map.  Another may come to its place, even with its dynamic section at the same address. */
struct object {
	uint64_t base, dynamic;
	uint64_t name; /* address of its path */
	uint64_t identity;
};

static uint64_t digest_with(uint64_t digest, uint64_t word)
{
	return (digest ^ word) * 1099511628211u;
}

/* A digest of all that is reported of an object, never 0. */
static uint64_t identity_of(uint64_t base, uint64_t dynamic, const char *name)
{
	uint64_t identity = digest_with(digest_with(DIGEST_NONE, base), dynamic);

	for (size_t i = 0; i < PATH_BYTES - 1 && name[i]; i++)
		identity = digest_with(identity, (unsigned char)name[i]);
	return identity + !identity;
}

static struct object object_of(const struct link_map *map, const char *name)
{
	return (struct object){
		.base = map->l_addr,
		.dynamic = (uint64_t)map->l_ld,
		.name = (uint64_t)map->l_name,
		.identity = identity_of(map->l_addr, (uint64_t)map->l_ld, name),
	};
}

/* The object at map; no thread may be changing the list. */
static struct object object_here(const struct link_map *map)
{
	return object_of(map, map->l_name ? map->l_name : "");
}

static uint64_t objects_digest(void)
{
	uint64_t digest = DIGEST_NONE;
	uint32_t n = 0;

	for (struct link_map *map = agent.loader->r_map; map && n++ < OBJECTS_MAX; map = map->l_next)
		digest = digest_with(digest, object_here(map).identity);
	return digest;
}

/* Copy a text that may be unmapped, a page at a time. */
static void copy_name(char *to, uint64_t from)
{
	size_t got = 0;

	to[0] = 0;
	while (from && got < PATH_BYTES - 1) {
		size_t part = CALLTAP_PAGE - (from + got) % CALLTAP_PAGE;

		part = part < PATH_BYTES - 1 - got ? part : PATH_BYTES - 1 - got;
		if (!sys_copy_in(to + got, from + got, part))
			break;
		to[got + part] = 0;
		if (base_strlen(to) < got + part)
			break;
		got += part;
	}
}

/* The one object of a static program. */
static struct object placed_object(void)
{
	return (struct object){
		.base = agent.placed->base,
		.dynamic = agent.placed->within,
		.identity = identity_of(agent.placed->base, agent.placed->within, ""),
	};
}

static int send_object(const struct object *object)
{
	union {
		struct calltap_msg_object message;
		char bytes[sizeof(struct calltap_msg_object) + PATH_BYTES];
	} out;

	if (agent.attached)
		copy_name(out.message.path, object->name);
	else
		base_copy_text(out.message.path, PATH_BYTES, object->name ? (const char *)object->name : "");
	out.message.head.type = CALLTAP_MSG_OBJECT;
	out.message.head.size = (uint32_t)(sizeof(out.message) + base_strlen(out.message.path) + 1);
	out.message.base = object->base;
	out.message.dynamic = object->dynamic;
	out.message.identity = identity_of(object->base, object->dynamic, out.message.path);
	/*
	 * A different object has come to the place by now: APPLY is to find that the report does not fit the mapping.
	 */
	if (out.message.identity != object->identity)
		agent.objects_seen = 0;
	return agent_send(&out, out.message.head.size);
}

/* The range of the loader's code; false: the loader does not say. */
static bool loader_text(uint64_t *lo, uint64_t *hi)
{
	const ElfW(Ehdr) *header = (const ElfW(Ehdr) *)agent.loader->r_ldbase;
	const ElfW(Phdr) * segment;

	if (!header || memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 || header->e_phentsize != sizeof(*segment))
		return false;
	segment = (const ElfW(Phdr) *)(agent.loader->r_ldbase + header->e_phoff);
	for (unsigned i = 0; i < header->e_phnum; i++, segment++) {
		*lo = agent.loader->r_ldbase + segment->p_vaddr;
		*hi = *lo + segment->p_filesz;
		if (segment->p_type == PT_LOAD && segment->p_flags & PF_X &&
		    agent.loader->r_brk - *lo < segment->p_filesz)
			return true;
	}
	return false;
}

/* The places where the loader tells debuggers of a change; 0 if it does not say where its code is. */
static unsigned find_hooks(uint64_t places[CALLTAP_HOOKS_MAX])
{
	uint64_t lo, hi;

	if (!agent.loader || !agent.loader->r_brk || !loader_text(&lo, &hi))
		return 0;
	return arch_hook_places(places, CALLTAP_HOOKS_MAX, agent.loader->r_brk, lo, hi);
}

static int send_end(void)
{
	struct calltap_msg_objects_end end = {
		.head = {CALLTAP_MSG_OBJECTS_END, sizeof(end)},
		.flags = agent.no_dlhook ? CALLTAP_OBJECTS_NO_DLHOOK : 0,
		.hook_bytes = ARCH_HOOK_BYTES,
	};

	if (agent.attached && !agent.dlhook_tried)
		find_hooks(end.hooks);
	return agent_send(&end, sizeof(end));
}

static int send_placed(void)
{
	const struct object object = placed_object();

	return send_object(&object);
}

int agent_objects_send(void)
{
	uint32_t n = 0;
	int ret = 0;

	if (agent.placed)
		ret = send_placed();
	if (agent.loader)
		for (struct link_map *map = agent.loader->r_map; map && !ret && n++ < OBJECTS_MAX; map = map->l_next) {
			const struct object object = object_here(map);

			ret = send_object(&object);
		}
	return ret ? ret : send_end();
}

bool agent_loader_is_busy(void)
{
	return agent.loader && __atomic_load_n(&agent.loader->r_state, __ATOMIC_ACQUIRE) != RT_CONSISTENT;
}

/*
 * Read the list while other threads may be changing it: entries may be freed memory, so a system call copies them,
 * which fails where a load would fault.  False: the list led nowhere.
 */
static bool read_maps(struct agent_store *maps, uint64_t *digest)
{
	uint64_t at = (uint64_t)__atomic_load_n(&agent.loader->r_map, __ATOMIC_ACQUIRE);
	char name[PATH_BYTES];
	struct link_map map;
	uint32_t n = 0;

	*digest = DIGEST_NONE;
	for (; at && n++ < OBJECTS_MAX; at = (uint64_t)map.l_next) {
		struct object object;

		if (!sys_copy_in(&map, at, sizeof(map)))
			return false;
		copy_name(name, (uint64_t)map.l_name);
		object = object_of(&map, name);
		if (maps && agent_store_add(maps, &object, 1))
			return false;
		*digest = digest_with(*digest, object.identity);
	}
	return !at;
}

/* The list was read twice alike, and the loader was not at work before or after: so the list was like that. */
static bool read_settled(struct agent_store *maps, uint64_t *digest)
{
	uint64_t again;

	maps->count = 0;
	return !agent_loader_is_busy() && read_maps(maps, digest) && read_maps(NULL, &again) && again == *digest &&
	       !agent_loader_is_busy();
}

int agent_objects_send_live(void)
{
	struct agent_store maps = {.size = sizeof(struct object)};
	const struct sys_timespec step = {0, LIVE_STEP_NS};
	bool settled = false;
	uint64_t digest = 0;
	int ret = 0;

	if (agent.placed)
		return agent_objects_send();
	for (int i = 0; i < LIVE_TRIES && !settled && agent.loader; i++) {
		settled = read_settled(&maps, &digest);
		if (!settled)
			SYS(nanosleep, &step, NULL, 0, 0, 0, 0);
	}
	if (!settled)
		ret = -EAGAIN;
	else
		agent.objects_seen = digest;
	for (size_t i = 0; i < maps.count && !ret; i++)
		ret = send_object(&((struct object *)maps.list)[i]);
	agent_store_empty(&maps);
	return ret ? ret : send_end();
}

static bool read_all(struct agent_store *maps, uint64_t *digest)
{
	*maps = (struct agent_store){.size = sizeof(struct object)};
	if (agent.placed) {
		const struct object object = placed_object();

		*digest = agent.objects_seen;
		return !agent_store_add(maps, &object, 1);
	}
	if (agent.loader && read_maps(maps, digest))
		return true;
	maps->count = 0;
	return false;
}

bool agent_objects_read(struct agent_store *maps)
{
	uint64_t digest;

	return read_all(maps, &digest);
}

bool agent_objects_are_reported(struct agent_store *maps)
{
	uint64_t digest;

	return read_all(maps, &digest) && digest == agent.objects_seen;
}

bool agent_objects_have(const struct agent_store *maps, uint64_t identity)
{
	const struct object *list = maps->list;

	for (size_t i = 0; i < maps->count; i++)
		if (list[i].identity == identity)
			return true;
	return !maps->count || !identity;
}

/* Objects that dlmopen() brought in stay untraced: unwinders in there could not ask the agent about stubs. */
static void note_other_spaces(void)
{
	struct probe_wiped *wiped = probe_context.wiped;

	if (agent.loader->r_version >= 2 && ((const struct agent_r_debug *)agent.loader)->next && wiped->alive)
		__atomic_fetch_or(&wiped->sets[0].arenas[0]->notes, CALLTAP_NOTE_SPACES, __ATOMIC_RELAXED);
}

/* Is any function traced by frames, which keep the caller's address elsewhere than on the stack? */
static bool traces_frames(void)
{
	for (uint32_t i = 0; i < agent.sites_count; i++)
		for (uint32_t k = 0; k < agent.sites[i].count; k++)
			if (!(agent.sites[i].list[k].flags & CALLTAP_SITE_CALL))
				return true;
	return false;
}

/* Has an object come that copies parts of stacks away and back?  Several frames would have one word of the mirror. */
static bool has_mover(void)
{
	uint32_t n = 0;

	for (struct link_map *map = agent.loader->r_map; map && n++ < OBJECTS_MAX; map = map->l_next)
		if (map->l_name && calltap_mover(map->l_name))
			return true;
	return false;
}

/* End the recording before the object's code runs: frames that are open lie farther out than all that will be moved. */
static void end_for_mover(void)
{
	struct probe_wiped *wiped = probe_context.wiped;

	if (wiped->alive)
		__atomic_fetch_or(&wiped->sets[0].arenas[0]->notes, CALLTAP_NOTE_MOVES, __ATOMIC_RELAXED);
	agent.moves = 1;
	if (agent.end_recording)
		agent.end_recording();
	probe_context.enabled = 0;
}

/* The loader calls this in place of its empty function. */
static void agent_debug_state(void)
{
	uint64_t digest, signals;
	uint32_t seen;

	/* Without a control thread of this process' own nobody writes to its text. */
	if (probe_context.wiped->alive && agent.loader->r_state != RT_ADD)
		agent_text_unmapping(agent.loader->r_state == RT_DELETE);
	if (agent.loader->r_state != RT_CONSISTENT || !probe_context.enabled)
		return;
	note_other_spaces();
	digest = objects_digest();
	if (digest == agent.objects_seen)
		return;
	agent.objects_seen = digest;
	if (has_mover() && traces_frames()) {
		end_for_mover();
		return;
	}
	if (!probe_calls_begin(&signals))
		return; /* the tool cannot be asked from a sandbox; it says so */
	if (!probe_context.wiped->alive)
		probe_context.on_new_process();
	seen = __atomic_load_n(&agent.ready, __ATOMIC_ACQUIRE);
	if (__atomic_load_n(&agent.live, __ATOMIC_ACQUIRE) && probe_context.wiped->alive) {
		agent_hold_start();
		__atomic_add_fetch(&probe_context.wiped->sets[0].arenas[0]->request, 1, __ATOMIC_SEQ_CST);
		ring_bell(probe_context.shared.board);
		agent_wait_ready(seen, AGENT_READY_MS);
	}
	probe_calls_end(&signals);
}

static bool is_in_reach(uint64_t place)
{
	return place - (uint64_t)agent_debug_state + ARCH_HOOK_REACH < 2 * ARCH_HOOK_REACH;
}

/*
 * A place in the list, in which the hook stands before its bytes are written, and until they are restored: program
 * threads may fork at any moment, and the child knows its hooks by the list alone.
 */
static struct agent_dlhook *note_hook(uint64_t place)
{
	struct agent_dlhook *made = agent.dlhooks;

	while (made < agent.dlhooks + agent.dlhook_count && made->at)
		made++;
	if (made == agent.dlhooks + CALLTAP_HOOKS_MAX)
		return NULL;
	memcpy(made->old, (const void *)place, sizeof(made->old));
	__atomic_store_n(&made->at, place, __ATOMIC_RELEASE);
	if (made == agent.dlhooks + agent.dlhook_count)
		__atomic_store_n(&agent.dlhook_count, agent.dlhook_count + 1, __ATOMIC_RELEASE);
	return made;
}

/* Called before any other thread runs, or while all are stopped and none is at the place. */
static int hook(uint64_t place)
{
	struct agent_dlhook *made;
	uint8_t code[ARCH_HOOK_BYTES];
	int ret;

	/* A hook may be left that could not be taken back at the end of an earlier session. */
	for (uint32_t i = 0; i < agent.dlhook_count; i++)
		if (agent.dlhooks[i].at == place)
			return 0;
	made = note_hook(place);
	if (!made)
		return -ENOSPC;
	arch_jump_make(code, place, (uint64_t)agent_debug_state);
	ret = patch_poke_fresh(&agent.poker, place, code, sizeof(code));
	if (ret)
		__atomic_store_n(&made->at, 0, __ATOMIC_RELEASE);
	return ret;
}

void agent_dlhook_install(void)
{
	uint64_t places[CALLTAP_HOOKS_MAX];
	unsigned count = find_hooks(places);

	agent.dlhook_tried = 1;
	agent.no_dlhook = !agent.placed; /* a static program has one object for good */
	if (!count)
		return;
	agent.objects_seen = objects_digest();
	for (unsigned i = 0; i < count; i++)
		if (!is_in_reach(places[i]) || hook(places[i]))
			return; /* a change may be missed, or be noticed late */
	agent.no_dlhook = 0;
}

void agent_dlhook_remove(void)
{
	bool stays = false;

	agent.dlhook_tried = 0;
	for (uint32_t i = 0; i < agent.dlhook_count; i++) {
		struct agent_dlhook *made = &agent.dlhooks[i];

		if (made->at && patch_hook_restore(&agent.poker, made->at, (uint64_t)agent_debug_state, made->old))
			stays = true; /* the hook does nothing */
		else
			__atomic_store_n(&made->at, 0, __ATOMIC_RELEASE); /* after its bytes: see note_hook() */
	}
	if (!stays)
		__atomic_store_n(&agent.dlhook_count, 0, __ATOMIC_RELEASE);
}
