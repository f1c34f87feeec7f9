/*
 * Runs instructions at their place and at the place where a relocator has moved them to, on the CPU of the build, and
 * compares their effects: all registers, the flags, the stack, and the address at which they went on.
 *
 * Each run begins and ends with a trap, whose signal handler sets and reads the registers.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "moved.h"
#include "../support.h"

#define STACK_WORDS 64
#define PATTERNS    4 /* patterns of registers and flags, so that branches go both ways */

struct state {
	uint64_t registers[REGISTERS_MAX];
	uint64_t pc;
	uint64_t stack[STACK_WORDS];
};

/* The signal handler's state. */
static struct {
	sigjmp_buf done;
	bool running;
	struct state state;
	uint64_t cell; /* holds the landing's address */
} test;

static void on_trap(int number, siginfo_t *info, void *context)
{
	if (!test.running) {
		machine.set(context, test.state.registers, test.state.pc);
		test.running = true;
		return;
	}
	test.running = false;
	machine.get(context, test.state.registers, &test.state.pc);
	siglongjmp(test.done, 1);
}

/* Run the code with registers of a pattern; *state is what it left. */
static void run(const uint8_t *code, unsigned pattern, struct state *state)
{
	for (unsigned i = 0; i < machine.registers; i++)
		test.state.registers[i] = (pattern & 1 ? 0 : 0x0101010101010101 * i) + (pattern & 2 ? 1 : 0);
	for (unsigned i = 0; i < STACK_WORDS; i++)
		test.state.stack[i] = (uint64_t)landing;
	test.cell = (uint64_t)landing;
	test.state.registers[machine.stack] = (uint64_t)&test.state.stack[STACK_WORDS / 2];
	test.state.registers[machine.to_landing] = (uint64_t)landing;
	test.state.registers[machine.to_cell] = (uint64_t)&test.cell;
	test.state.pc = (uint64_t)code;
	if (!sigsetjmp(test.done, 1))
		machine.trap();
	*state = test.state;
}

static bool same(const struct state *here, const struct state *there, uint64_t here_end, uint64_t there_end)
{
	for (unsigned i = 0; i < machine.registers; i++) {
		if (i != machine.scratch && here->registers[i] != there->registers[i]) {
			printf("register %u: %#llx, moved: %#llx\n", i, (unsigned long long)here->registers[i],
			       (unsigned long long)there->registers[i]);
			return false;
		}
	}
	if (memcmp(here->stack, there->stack, sizeof(here->stack)) != 0) {
		printf("another stack\n");
		return false;
	}
	/* A run that went on behind the instruction did so in both places. */
	if (here->pc != there->pc && here->pc - here_end != there->pc - there_end) {
		printf("went on at %#llx, moved: %#llx\n", (unsigned long long)here->pc, (unsigned long long)there->pc);
		return false;
	}
	return true;
}

/* Returns 1 = it was moved and did the same, 0 = it cannot be moved there, -1 = it did something else. */
static int try_snippet(const struct isa_cpu *cpu, const struct snippet *snippet, uint8_t *page, unsigned scratch)
{
	uint64_t from = (uint64_t)snippet->start;
	size_t size = (size_t)(snippet->end - snippet->start);
	struct isa_out out = {page, 4096, 0, (uint64_t)page};
	struct isa_instruction in;
	struct state here, there;
	int length = cpu->decode(&in, snippet->start, size, from);
	int moved = length > 0 ? cpu->relocate(&out, snippet->start, size, from, scratch) : length;

	if (moved < 0)
		return moved == -ERANGE || moved == -ENOTSUP ? 0 : -1;
	isa_put(&out, snippet->start + length, size - (size_t)length);
	__builtin___clear_cache((char *)page, (char *)page + out.length);
	for (unsigned pattern = 0; pattern < PATTERNS; pattern++) {
		run(snippet->start, pattern, &here);
		run(page, pattern, &there);
		if (!same(&here, &there, from + (unsigned)length, (uint64_t)page + (unsigned)moved))
			return -1;
	}
	return 1;
}

/* A page so far from the snippets; NULL: there is something. */
static uint8_t *page_at(int64_t distance)
{
	uintptr_t wanted = ((uintptr_t)landing + (uintptr_t)distance) & ~(uintptr_t)4095;
	void *page = mmap((void *)wanted, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

	if (page != MAP_FAILED && (uintptr_t)page != wanted) {
		munmap(page, 4096);
		return NULL;
	}
	return page == MAP_FAILED ? NULL : page;
}

static void catch_traps(void)
{
	static uint8_t stack[1 << 16];
	stack_t alternate = {.ss_sp = stack, .ss_size = sizeof(stack)};
	struct sigaction action = {.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO | SA_ONSTACK};

	sigaltstack(&alternate, NULL);
	sigaction(SIGTRAP, &action, NULL);
}

int main(void)
{
	static const int64_t distances[] = {0x40000, -0x40000, 0x1000000, 0x30000000, 0x2000000000};
	const struct isa_cpu *cpu = isa_cpu_find(machine.cpu);
	unsigned moved = 0, refused = 0, wrong = 0, pages = 0;

	catch_traps();
	for (size_t i = 0; i < sizeof(distances) / sizeof(distances[0]); i++) {
		uint8_t *page = page_at(distances[i]);

		pages += page != NULL;
		for (const struct snippet *snippet = snippets; page && snippet < snippets_end; snippet++) {
			for (int with = 0; with < 2; with++) {
				int got = try_snippet(cpu, snippet, page, with ? machine.scratch : cpu->no_scratch);

				moved += got > 0;
				refused += got == 0;
				wrong += got < 0;
				if (got < 0)
					printf("snippet %d, %#llx away, scratch %d\n", (int)(snippet - snippets),
					       (unsigned long long)distances[i], with);
			}
		}
	}
	printf("%s: %u places, %u runs the same, %u out of reach, %u wrong\n", cpu->name, pages, moved, refused, wrong);
	return wrong || !moved || pages < 3;
}
