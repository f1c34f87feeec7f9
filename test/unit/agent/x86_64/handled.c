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

__asm__(".text\n"
	".macro set_registers base\n"
	"	i = 0\n"
	"	.irp reg, rax, rdx, rcx, rbx, rbp, rsi, rdi, r8, r9, r10, r11, r12, r13, r14, r15\n"
	"	mov $(\\base + i), %\\reg\n"
	"	i = i + 1\n"
	"	.endr\n"
	".endm\n"
	".macro note_registers where\n"
	"	i = 0\n"
	"	.irp reg, rax, rdx, rcx, rbx, rbp, rsi, rdi, r8, r9, r10, r11, r12, r13, r14, r15\n"
	"	mov %\\reg, \\where + i(%rip)\n"
	"	i = i + 8\n"
	"	.endr\n"
	".endm\n"
	".macro callee name\n"
	"	.globl \\name\n"
	"	.type \\name, @function\n"
	"\\name:\n"
	"	.fill 5, 1, 0x90\n"
	"	note_registers seen_inside\n"
	"	set_registers 2000\n"
	"	ret\n"
	".endm\n"
	"callee callee_call\n"
	"callee callee_both\n"
	".globl call_with_registers\n"
	"call_with_registers:\n"
	"	.irp reg, %rbx, %rbp, %r12, %r13, %r14, %r15, %rdi\n"
	"	push \\reg\n"
	"	.endr\n"
	"	set_registers 1000\n"
	"	call *(%rsp)\n"
	"	note_registers seen_after\n"
	"	pop %rdi\n"
	"	.irp reg, %r15, %r14, %r13, %r12, %rbp, %rbx\n"
	"	pop \\reg\n"
	"	.endr\n"
	"	ret\n");

void check_registers(void)
{
	for (uint64_t i = 0; i < REGISTERS; i++) {
		assert_int_equal(seen_inside[i], 1000 + i);
		assert_int_equal(seen_after[i], 2000 + i);
	}
	memset(seen_inside, 0, sizeof(seen_inside));
	memset(seen_after, 0, sizeof(seen_after));
}

void check_shown(const struct calltap_registers *shown, uint64_t base)
{
	const uint64_t values[] = {shown->rax, shown->rdx, shown->rcx, shown->rbx, shown->rbp,
				   shown->rsi, shown->rdi, shown->r8,  shown->r9,  shown->r10,
				   shown->r11, shown->r12, shown->r13, shown->r14, shown->r15};

	for (uint64_t i = 0; i < REGISTERS; i++)
		assert_int_equal(values[i], base + i);
}

void handled_patch(const struct timed_function *list, uint32_t count)
{
	static const uint32_t endbr = 0xfa1e0ff3;
	uint32_t word;

	timed_patch(list, count);
	for (uint32_t i = 0; i < count; i++) {
		memcpy(&word, list[i].function, sizeof(word));
		rows[i].start = (word == endbr ? 4 : 0) + 5;
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
	probe_context.timed = 0;
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
