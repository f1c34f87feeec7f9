/* Programs that count; see counting.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include <bpf/compile.h>
#include <bpf/interpret.h>
#include <host/values/fetch.h>
#include <probe/maps.h>

#include "counting.h"
#include "memory.h"

enum { CODE_MAX = FETCH_INSNS * BPF_CODE_PER_INSN + BPF_CODE_MORE };

struct calltap_map *counting_map;
bool counting_absent;
uint64_t counting_time, counting_pid;
_Thread_local uint32_t counting_lane;

static const struct fetch *loaded;
static uint8_t *native;

static uint64_t run_lookup(void *data, const uint64_t arguments[BPF_ARGUMENTS])
{
	const uint32_t *index = (const uint32_t *)(uintptr_t)arguments[1];

	if (counting_absent)
		return 0;
	return (uintptr_t)map_lookup(counting_map, (uint32_t)arguments[0], *index, counting_lane);
}

/* Events without texts: all of a key is what the program hands over. */
static uint64_t run_find(void *data, const uint64_t arguments[BPF_ARGUMENTS])
{
	uint64_t key[CALLTAP_MAP_KEY_WORDS] = {0};

	if (counting_absent)
		return 0;
	assert_true(arguments[2] <= sizeof(key));
	memcpy(key, (const void *)(uintptr_t)arguments[1], arguments[2]);
	return map_find(counting_map, key, (uint32_t)arguments[2]);
}

static uint64_t call_find(uint64_t context, uint64_t from, uint64_t size)
{
	return run_find(NULL, (uint64_t[BPF_ARGUMENTS]){context, from, size});
}

static uint64_t call_lookup(uint64_t map, uint64_t index)
{
	return run_lookup(NULL, (uint64_t[BPF_ARGUMENTS]){map, index});
}

static uint64_t run_time(void *data, const uint64_t arguments[BPF_ARGUMENTS])
{
	return counting_time;
}

/* The key that the agent makes of a program's. */
static void span_key(uint64_t words[2], uint64_t number, uint64_t key, uint64_t size)
{
	assert_int_equal(number, CALLTAP_MAP_SPANS);
	assert_int_equal(size, 8);
	memcpy(words, (const void *)(uintptr_t)key, size);
	words[1] = calltap_map_process(counting_pid, 0);
}

static uint64_t call_update(uint64_t number, uint64_t key, uint64_t size, uint64_t value)
{
	uint64_t words[2];

	span_key(words, number, key, size);
	return counting_absent || !map_begin(counting_map, words, value) ? (uint64_t)-1 : 0;
}

static uint64_t call_delete(uint64_t number, uint64_t key, uint64_t size, uint64_t to, uint64_t to_size)
{
	uint64_t words[2];

	span_key(words, number, key, size);
	assert_int_equal(to_size, 8);
	*(uint64_t *)(uintptr_t)to = 0;
	return counting_absent || !map_end(counting_map, words, (uint64_t *)(uintptr_t)to) ? (uint64_t)-1 : 0;
}

static uint64_t run_update(void *data, const uint64_t arguments[BPF_ARGUMENTS])
{
	return call_update(arguments[0], arguments[1], arguments[2], arguments[3]);
}

static uint64_t run_delete(void *data, const uint64_t arguments[BPF_ARGUMENTS])
{
	return call_delete(arguments[0], arguments[1], arguments[2], arguments[3], arguments[4]);
}

static uint64_t call_time(void)
{
	return counting_time;
}

static uint64_t call_read(uint64_t to, uint64_t size, uint64_t from)
{
	return run_read(NULL, (uint64_t[BPF_ARGUMENTS]){to, size, from});
}

void counting_load(const struct fetch *fetch)
{
	static const uint64_t maps[CALLTAP_MAPS] = {CALLTAP_MAP_RANGES, CALLTAP_MAP_SUMS, CALLTAP_MAP_SPANS};
	const uint64_t helpers[CALLTAP_HELPERS] = {
		[CALLTAP_HELPER_READ] = (uintptr_t)call_read,	  [CALLTAP_HELPER_FIND] = (uintptr_t)call_find,
		[CALLTAP_HELPER_LOOKUP] = (uintptr_t)call_lookup, [CALLTAP_HELPER_UPDATE] = (uintptr_t)call_update,
		[CALLTAP_HELPER_DELETE] = (uintptr_t)call_delete, [CALLTAP_HELPER_TIME] = (uintptr_t)call_time};
	const struct bpf_compile job = {.insns = fetch->insns, .count = fetch->count, .helpers = helpers, .maps = maps};
	size_t length;

	loaded = fetch;
	if (!native)
		native = mmap(NULL, CODE_MAX, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (!counting_map)
		counting_map = mmap(NULL, sizeof(*counting_map), PROT_READ | PROT_WRITE,
				    MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	assert_true(native != MAP_FAILED && counting_map != MAP_FAILED);
	assert_int_equal(COMPILE_NATIVE(&length, native, CODE_MAX, &job), 0);
	__builtin___clear_cache((char *)native, (char *)native + length);
}

uint64_t counting_interpret(const struct calltap_program_context *context)
{
	const struct bpf_memory memory = {counting_map, sizeof(*counting_map), true};
	struct bpf_helper helpers[CALLTAP_HELPERS];
	struct bpf_machine machine = fetch_machine;
	struct calltap_program_context copy = *context;
	const struct bpf_run job = {.machine = &machine,
				    .insns = loaded->insns,
				    .count = loaded->count,
				    .context = &copy,
				    .memory = &memory,
				    .memory_count = 1};
	uint64_t verdict;

	memcpy(helpers, fetch_machine.helpers, sizeof(helpers));
	helpers[CALLTAP_HELPER_READ].run = run_read;
	helpers[CALLTAP_HELPER_FIND].run = run_find;
	helpers[CALLTAP_HELPER_LOOKUP].run = run_lookup;
	helpers[CALLTAP_HELPER_UPDATE].run = run_update;
	helpers[CALLTAP_HELPER_DELETE].run = run_delete;
	helpers[CALLTAP_HELPER_TIME].run = run_time;
	machine.helpers = helpers;
	assert_int_equal(bpf_interpret(&verdict, &job), 0);
	return verdict;
}

uint64_t counting_run(const struct calltap_program_context *context)
{
	struct calltap_program_context copy = *context;

	return ((uint64_t(*)(void *))(uintptr_t)native)(&copy);
}
