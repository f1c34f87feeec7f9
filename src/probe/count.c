/*
 * Helpers COUNT, FIND, LOOKUP, UPDATE and DELETE (count.h): called by programs.  Context: probe.
 */
#include <asm/errno.h>

#include <base/mem.h>
#include <calltap/abi/control.h>
#include <probe/caller.h>
#include <probe/count.h>
#include <probe/maps.h>
#include <probe/program.h>

static struct calltap_map *counts;
static bool of_one_process, of_newest;
static uint64_t image_id;

void probe_counts_set(struct calltap_map *next, uint32_t flags, uint64_t image)
{
	image_id = image;
	of_one_process = flags & CALLTAP_COUNTS_ONE;
	of_newest = flags & CALLTAP_COUNTS_NEWEST;
	__atomic_store_n(&counts, next, __ATOMIC_RELEASE); /* pairs with probe_help_count() */
}

/* Threads' blocks lie at distances of all kinds. */
static uint32_t lane_of(const struct probe_thread *thread)
{
	return (uint32_t)((uint64_t)thread * 0x9e3779b97f4a7c15u >> 32);
}

/*
 * Whole words, with zeros behind the last byte.  Word by word: that is what the program has just stored, and a copy by
 * bytes, or of more than there is, would wait for it.
 */
static void make_key(uint64_t key[CALLTAP_MAP_KEY_WORDS], const unsigned char *from, uint32_t size,
		     const struct probe_run *run)
{
	uint32_t whole = size / 8, words = (run->used + 7) / 8;

	for (uint32_t i = 0; i < whole; i++)
		__builtin_memcpy(&key[i], from + (uint64_t)i * 8, 8);
	for (uint32_t i = whole; i < words; i++)
		key[i] = 0;
	for (uint32_t i = whole * 8; i < size; i++)
		((unsigned char *)key)[i] = from[i];
	if (run->used > size)
		memcpy((unsigned char *)key + size, run->bytes + size, run->used - size);
}

struct calltap_map *probe_counts(void)
{
	struct calltap_map *map = __atomic_load_n(&counts, __ATOMIC_ACQUIRE); /* with probe_counts_set() */

	/* The kernel clears `wiped` in a forked child. */
	return of_one_process && !probe_context.wiped->alive ? NULL : map;
}

/* The event's bytes as a key; false: there is none.  `context` is the first member of a run. */
static inline bool take_key(uint64_t key[CALLTAP_MAP_KEY_WORDS], const struct calltap_program_context *context,
			    const void *from, uint64_t size)
{
	const struct probe_run *run = (const struct probe_run *)context;

	if (size > run->used)
		return false;
	if (run->used <= CALLTAP_MAP_KEY)
		make_key(key, from, (uint32_t)size, run);
	return true;
}

uint64_t probe_help_count(struct calltap_program_context *context, const void *from, uint64_t size)
{
	struct calltap_map *map = probe_counts();
	uint32_t used = ((const struct probe_run *)context)->used, lane = lane_of(probe_self());
	uint64_t key[CALLTAP_MAP_KEY_WORDS];

	if (!map || !take_key(key, context, from, size))
		return 0;
	if (of_newest)
		map_count_newest(map, key, used, lane);
	else
		map_count(map, key, used, lane);
	return 0;
}

uint64_t probe_help_find(struct calltap_program_context *context, const void *from, uint64_t size)
{
	struct calltap_map *map = probe_counts();
	uint64_t key[CALLTAP_MAP_KEY_WORDS];

	return map && take_key(key, context, from, size) ? map_find(map, key, ((const struct probe_run *)context)->used)
							 : 0;
}

/* The verifier has seen that the number is of a map, and that four bytes of the index are there. */
uint64_t probe_help_lookup(uint64_t number, const void *index)
{
	struct calltap_map *map = probe_counts();
	uint32_t at;

	__builtin_memcpy(&at, index, sizeof(at));
	return map ? (uint64_t)map_lookup(map, (uint32_t)number, at, lane_of(probe_self())) : 0;
}

/* Has the map keys of that size, here?  The key is the process' own then. */
static struct calltap_map *spans_of(uint64_t words[2], uint64_t number, const void *key, uint64_t size)
{
	if (number != CALLTAP_MAP_SPANS || size != sizeof(words[0]))
		return NULL;
	__builtin_memcpy(words, key, sizeof(words[0]));
	words[1] = calltap_map_process(probe_help_pid(), image_id);
	return probe_counts();
}

uint64_t probe_help_update(uint64_t number, const void *key, uint64_t size, uint64_t value)
{
	uint64_t words[2];
	struct calltap_map *map = spans_of(words, number, key, size);

	if (!map)
		return (uint64_t)-EINVAL;
	return map_begin(map, words, value) ? 0 : (uint64_t)-ENOSPC;
}

uint64_t probe_help_delete(uint64_t number, const void *key, uint64_t size, void *to, uint64_t to_size)
{
	uint64_t words[2], value = 0;
	struct calltap_map *map = spans_of(words, number, key, size);
	bool found;

	memset(to, 0, to_size); /* all of it is written, as the verifier has it */
	if (!map || to_size != sizeof(value))
		return (uint64_t)-EINVAL;
	found = map_end(map, words, &value);
	__builtin_memcpy(to, &value, sizeof(value));
	return found ? 0 : (uint64_t)-ENOENT;
}
