/* Functions with handlers in the test's own process (handled.h). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <agent/agent.h>
#include "handled.h"

struct calltap_handlers handlers;
struct calltap_handled rows[HANDLED_MAX];
uint64_t seen_inside[REGISTERS] __attribute__((visibility("hidden")));
uint64_t seen_after[REGISTERS] __attribute__((visibility("hidden")));

static uint64_t bodies[HANDLED_MAX];
static struct probe_handled_table table = {
	.functions = HANDLED_MAX, .rows = rows, .bodies = bodies, .handlers = &handlers};

void check_registers(void)
{
	for (uint64_t i = 0; i < REGISTERS; i++) {
		assert_int_equal(seen_inside[i], 1000 + i);
		assert_int_equal(seen_after[i], 2000 + i);
	}
	memset(seen_inside, 0, sizeof(seen_inside));
	memset(seen_after, 0, sizeof(seen_after));
}

void handled_patch(const struct timed_function *list, uint32_t count)
{
	timed_patch(list, count);
	for (uint32_t i = 0; i < count; i++) {
		rows[i].start = timed_landing_pad(list[i].function) + code_length(CODE_USUAL);
		bodies[i] = (uint64_t)list[i].function + rows[i].start;
	}
}

void handled_start(struct fake_arena *fake, uint32_t rings)
{
	probe_thread = (struct probe_thread)PROBE_THREAD_NEW;
	/* No sub-buffer may end where each instruction is a trap: signals are blocked to open the next one. */
	fake_arena_create(fake, CALLTAP_MODE_OVERWRITE, rings, 1 << 20, 2);
	fake_start(fake);
	memset(&handlers, 0, sizeof(handlers));
	for (unsigned i = 0; i < HANDLED_MAX; i++)
		rows[i].who = 0;
	if (!table.save)
		agent_vectors_find(&table);
	probe_handled_set(&table);
}

void handled_stop(struct fake_arena *fake)
{
	probe_handled_set(NULL);
	fake_stop();
	fake_arena_destroy(fake);
}

void handled_register(unsigned slot, entry_function *entry, exit_function *exit, uint32_t flags, void *context)
{
	handlers.slots[slot] = (struct calltap_handler){
		.entry = (uint64_t)entry,
		.exit = (uint64_t)exit,
		.context = (uint64_t)context,
		.flags = flags,
		.born = ++handlers.generation,
	};
}

void handled_want(uint32_t id, uint32_t slots, uint64_t session)
{
	rows[id].who = slots << CALLTAP_HANDLED_FIRST | (uint32_t)session;
	rows[id].instances = (uint16_t)(session >> CALLTAP_HANDLED_INSTANCES_AT);
}
