/*
 * Unwinding in blocks, by this process's own unwinder: functions of this program are stepped through twice, as they are
 * and led to blocks.  Both times the same instructions run, and at each of them, within the moved forms too, the
 * callers are the same.  The agent's files that answer unwinders are linked in.
 */
#include <dlfcn.h>
#include <execinfo.h>
#include <link.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unwind.h>

#include <cmocka.h>

#include <agent/agent.h>
#include "../../stock/real.h"

#define PAGE	  4096u
#define TRIES	  256u
#define STEP	  (1u << 16)
#define TRAP_FLAG 0x100
#define STEPS	  2048u
#define CALLERS	  12 /* that are looked at */
#define HEADS	  8
#define ALONE	  __attribute__((noinline, noclone, noipa, aligned(16)))

/* What agent/symbols.c and agent/debugger.c do in the agent; agent/libc.h cannot be had beside libc's own headers. */
void *agent_next(const char *name);
bool agent_is_in(uint64_t address, const struct link_map *map, const char *name);

void *agent_next(const char *name)
{
	return dlsym(RTLD_NEXT, name);
}

bool agent_is_in(uint64_t address, const struct link_map *map, const char *name)
{
	return false;
}

static unsigned told; /* regions that debuggers know */

void agent_debugger_tell_blocks(const struct agent_blocks *blocks)
{
	told++;
}

/*
 * Heads of all kinds: with a frame; with a call, its rows by the frame and by the stack pointer; with a call through a
 * register; a jump and a branch; the function's end.  `relay` calls each of them.
 */
int relay(int n, int (*function)(int)), calls_by_register(int n, int (*function)(int)), framed(int n), calls(int n),
	calls_framed(int n), branches(int n), jumps(int n), bare(int n);
__asm__(".text\n"
	".macro begin name\n"
	"	.p2align 4\n"
	"	.type \\name, @function\n"
	"\\name:\n"
	"	.cfi_startproc\n"
	".endm\n"
	".macro end name\n"
	"	.cfi_endproc\n"
	"	.size \\name, . - \\name\n"
	".endm\n"
	"begin framed\n"
	"	push %rbp\n	.cfi_def_cfa_offset 16\n	.cfi_offset %rbp, -16\n"
	"	mov %rsp, %rbp\n	.cfi_def_cfa_register %rbp\n"
	"	push %rbx\n	.cfi_offset %rbx, -24\n"
	"	lea 1(%rdi), %ebx\n"
	"	mov %ebx, %edi\n"
	"	call bare\n"
	"	add %ebx, %eax\n"
	"	pop %rbx\n"
	"	pop %rbp\n	.cfi_def_cfa %rsp, 8\n"
	"	ret\n"
	"end framed\n"
	"begin calls\n"
	"	sub $24, %rsp\n	.cfi_def_cfa_offset 32\n"
	"	call branches\n"
	"	add $24, %rsp\n	.cfi_def_cfa_offset 8\n"
	"	ret\n"
	"end calls\n"
	"begin calls_framed\n"
	"	push %rbp\n	.cfi_def_cfa_offset 16\n	.cfi_offset %rbp, -16\n"
	"	mov %rsp, %rbp\n	.cfi_def_cfa_register %rbp\n"
	"	call bare\n"
	"	pop %rbp\n	.cfi_def_cfa %rsp, 8\n"
	"	ret\n"
	"end calls_framed\n"
	"begin calls_by_register\n"
	"	push %rbx\n	.cfi_def_cfa_offset 16\n	.cfi_offset %rbx, -16\n"
	"	mov %edi, %ebx\n"
	"	call *%rsi\n"
	"	add %ebx, %eax\n"
	"	pop %rbx\n	.cfi_def_cfa_offset 8\n"
	"	ret\n"
	"end calls_by_register\n"
	"begin branches\n"
	"	test %edi, %edi\n"
	"	js 1f\n"
	"	lea (%rdi,%rdi,2), %eax\n"
	"	ret\n"
	"1:	xor %eax, %eax\n"
	"	ret\n"
	"end branches\n"
	"begin jumps\n"
	"	push %rbx\n	.cfi_def_cfa_offset 16\n	.cfi_offset %rbx, -16\n"
	"	mov %edi, %ebx\n"
	"	jmp 1f\n"
	"	nop\n"
	"1:	call branches\n"
	"	add %ebx, %eax\n"
	"	pop %rbx\n	.cfi_def_cfa_offset 8\n"
	"	ret\n"
	"end jumps\n"
	"begin bare\n"
	"	lea 7(%rdi), %eax\n"
	"	inc %eax\n"
	"	ret\n"
	"end bare\n"
	"begin relay\n"
	"	push %r12\n	.cfi_def_cfa_offset 16\n	.cfi_offset %r12, -16\n"
	"	push %r13\n	.cfi_def_cfa_offset 24\n	.cfi_offset %r13, -24\n"
	"	push %r14\n	.cfi_def_cfa_offset 32\n	.cfi_offset %r14, -32\n"
	"	mov %rsi, %r12\n"
	"	lea branches(%rip), %rsi\n"
	"	call *%r12\n"
	"	pop %r14\n	.cfi_def_cfa_offset 24\n"
	"	pop %r13\n	.cfi_def_cfa_offset 16\n"
	"	pop %r12\n	.cfi_def_cfa_offset 8\n"
	"	ret\n"
	"end relay\n");

#define RELAYED ((int (*)(int))(void *)calls_by_register) /* relay() gives it the second argument */
static int (*const functions[])(int) = {framed, calls, calls_framed, RELAYED, branches, jumps, bare};
#define FUNCTIONS (sizeof(functions) / sizeof(functions[0]))

static struct real self;
static uint64_t base;
static struct stock_layout layout;
static struct stock_region region;

/* An instruction, and the callers of the function that it belongs to. */
struct step {
	uint64_t pc;
	uint64_t callers[CALLERS];
	bool whole; /* it is an instruction of the program's own, or the first one of a moved form */
};

struct steps {
	struct step list[STEPS];
	unsigned count;
};
static struct steps plain, led, *stepped;

struct walk {
	uint64_t pc;
	bool found;
	unsigned count;
	struct step *step;
};

static _Unwind_Reason_Code look(struct _Unwind_Context *context, void *arg)
{
	struct walk *walk = arg;
	uint64_t ip = _Unwind_GetIP(context);

	if (!walk->found) { /* the handler, and the kernel's frame */
		walk->found = ip == walk->pc;
		return _URC_NO_REASON;
	}
	if (walk->count < CALLERS)
		walk->step->callers[walk->count++] = ip;
	return walk->count < CALLERS ? _URC_NO_REASON : _URC_END_OF_STACK;
}

/* The offset in its block of an address in the region; NULL: it is in none. */
static const struct stock_block *block_at(uint64_t pc, unsigned *offset)
{
	for (size_t i = 0; i < self.count; i++) {
		*offset = (unsigned)(pc - region.at - self.blocks[i].offset);
		if (pc - region.at - self.blocks[i].offset < self.blocks[i].size)
			return &self.blocks[i];
	}
	return NULL;
}

/* The program's own instruction that an address in a block stands for: 0 = a part of one, or what blocks add. */
static uint64_t own_pc(uint64_t pc)
{
	unsigned offset = 0, from;
	const struct stock_block *block = block_at(pc, &offset);

	assert_non_null(block);
	if (!offset || !stock_out_of_block(&region, block, offset, &from) || from == block->length)
		return 0;
	return base + block->head + from;
}

static bool is_ours(uint64_t pc)
{
	return region.at && pc - region.at < layout.code_size;
}

static bool is_head(uint64_t pc)
{
	for (size_t i = 0; region.at && i < self.count; i++)
		if (pc == base + self.blocks[i].head)
			return true;
	return false;
}

static void on_trap(int signal, siginfo_t *info, void *arg)
{
	ucontext_t *context = arg;
	uint64_t pc = (uint64_t)context->uc_mcontext.gregs[REG_RIP];
	struct walk walk = {.pc = pc};
	struct step *step = &stepped->list[stepped->count];

	if (info->si_code == SI_KERNEL) { /* int3: begin or end */
		context->uc_mcontext.gregs[REG_EFL] ^= TRAP_FLAG;
		return;
	}
	if (stepped->count == STEPS)
		abort();
	*step = (struct step){.pc = pc, .whole = !is_head(pc)};
	if (is_ours(pc)) {
		step->whole = own_pc(pc);
		step->pc = own_pc(pc);
	}
	walk.step = step;
	_Unwind_Backtrace(look, &walk);
	stepped->count++;
}

ALONE static void run(struct steps *into)
{
	into->count = 0;
	stepped = into;
	for (unsigned i = 0; i < FUNCTIONS; i++) {
		volatile int result;

		__asm__ volatile("int3");
		result = relay(5, functions[i]);
		__asm__ volatile("int3");
		(void)result;
	}
}

/* Keep the blocks of this test's functions alone. */
static void choose(void)
{
	size_t kept = 0;

	for (size_t i = 0; i < self.count; i++) {
		bool wanted = self.blocks[i].head + base == (uint64_t)relay;

		for (unsigned k = 0; k < FUNCTIONS; k++)
			wanted |= self.blocks[i].head + base == (uint64_t)functions[k];
		if (wanted)
			self.blocks[kept++] = self.blocks[i];
	}
	assert_int_equal(kept, HEADS);
	self.count = kept;
}

static void map_region(void)
{
	uint64_t near = (base + self.end + STEP) & ~(uint64_t)(STEP - 1);
	uint8_t *bytes = malloc(layout.size);

	for (unsigned i = 0; i < TRIES && !region.at; i++) {
		void *at = (void *)(near + i * STEP);
		void *made = mmap(at, layout.size, PROT_READ | PROT_WRITE,
				  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

		if (made == at)
			region.at = (uint64_t)at;
	}
	assert_true(region.at != 0);
	assert_int_equal(stock_make(bytes, &layout, &self.image, self.blocks, self.count, region.at, base), 0);
	memcpy((void *)region.at, bytes, layout.size);
	free(bytes);
	assert_int_equal(mprotect((void *)region.at, layout.size, PROT_READ | PROT_EXEC), 0);
	assert_int_equal(
		agent_blocks_add(region.at, region.at + layout.size, region.at + layout.header_off, layout.header_size),
		0);
}

/* Lead the heads to their blocks. */
static void lead(void)
{
	for (size_t i = 0; i < self.count; i++) {
		uint8_t *head = (uint8_t *)(base + self.blocks[i].head);
		uint64_t page = (uint64_t)head & ~(uint64_t)(PAGE - 1);
		int32_t distance = (int32_t)(region.at + self.blocks[i].offset - (uint64_t)head - 5);

		assert_true(self.blocks[i].size != 0);
		assert_int_equal(mprotect((void *)page, 2 * PAGE, PROT_READ | PROT_WRITE | PROT_EXEC), 0);
		head[0] = 0xe9;
		memcpy(head + 1, &distance, sizeof(distance));
	}
}

static int find_base(struct dl_phdr_info *info, size_t size, void *data)
{
	base = info->dlpi_addr; /* the program comes first */
	return 1;
}

static void callers_are_found_at_every_instruction(void **state)
{
	struct steps *const into[] = {&plain, &led};
	unsigned in_blocks = 0;

	for (volatile unsigned i = 0; i < 2; i++) { /* volatile: both are run from one place */
		run(into[i]);
		if (into[i] == &plain) {
			map_region();
			lead();
		}
	}
	assert_true(plain.count > 100 && plain.count < STEPS);
	for (unsigned i = 0, k = 0; i < led.count; i++) {
		const struct step *step = &led.list[i];

		assert_true(k < plain.count);
		/* A part of a moved form, or what blocks add, belongs to the function that runs before it or behind. */
		if (step->whole)
			assert_int_equal(step->pc, plain.list[k].pc);
		else
			in_blocks++;
		if (memcmp(step->callers, plain.list[k].callers, sizeof(step->callers)) != 0 &&
		    (step->whole || !k || memcmp(step->callers, plain.list[k - 1].callers, sizeof(step->callers)) != 0))
			fail_msg("step %u, at %#llx", i, (unsigned long long)step->pc);
		k += step->whole;
		assert_true(i + 1 < led.count || k == plain.count);
	}
	assert_true(in_blocks > 3 * FUNCTIONS);
}

struct found {
	bool blocks, main;
};

static int find(struct dl_phdr_info *info, size_t size, void *data)
{
	struct found *found = data;

	found->main |= info->dlpi_addr == base && !*info->dlpi_name;
	if (strcmp(info->dlpi_name, "[calltap blocks]") != 0)
		return 0;
	found->blocks = true;
	assert_int_equal(info->dlpi_addr, 0);
	assert_int_equal(info->dlpi_phdr[0].p_vaddr, region.at);
	assert_int_equal(info->dlpi_phdr[0].p_memsz, layout.size);
	assert_int_equal(info->dlpi_phdr[1].p_type, PT_GNU_EH_FRAME);
	assert_int_equal(info->dlpi_phdr[1].p_vaddr, region.at + layout.header_off);
	return 0;
}

static void unwinders_are_answered(void **state)
{
	struct found found = {0};
	struct dl_find_object result;

	assert_int_equal(told, 1);
	assert_ptr_equal(agent_blocks_of(region.at), &agent.blocks[0]);
	assert_null(agent_blocks_of(region.at + layout.size));
	assert_null(agent_blocks_of(region.at - 1));
	dl_iterate_phdr(find, &found);
	assert_true(found.main && found.blocks);
	assert_int_equal(_dl_find_object((void *)region.at, &result), 0);
	assert_ptr_equal(result.dlfo_map_start, (void *)region.at);
	assert_ptr_equal(result.dlfo_eh_frame, (void *)(region.at + layout.header_off));
}

static int pass_over(struct dl_phdr_info *info, size_t size, void *data)
{
	return 1;
}

/* Who asks for an address in a block is noted: the memory may not go while it reads. */
static void who_asks_is_noted(void **state)
{
	uint64_t asked[4] = {0, 0, region.at - 1, 0};

	memset(agent.unwinders, 0, sizeof(agent.unwinders));
	dl_iterate_phdr(pass_over, asked);
	assert_int_equal(agent.unwinders[0], 0);
	asked[2] = region.at + 3;
	dl_iterate_phdr(pass_over, asked);
	assert_int_not_equal(agent.unwinders[0], 0);
}

static int traced_depth;
static void *traced[2][CALLERS];

/* Called by a function whose call was moved. */
ALONE static int ask(int n)
{
	traced_depth = backtrace(traced[n], CALLERS);
	return n;
}

/* No return address lies in a block, so a backtrace that a call makes has none. */
static void calls_leave_no_block_behind(void **state)
{
	int depth;

	depth = calls_by_register(0, ask);
	assert_int_equal(depth, 0);
	assert_true(traced_depth > 2);
	for (int i = 0; i < traced_depth; i++)
		assert_false(is_ours((uint64_t)traced[0][i]));
	assert_in_range((uint64_t)traced[0][1], (uint64_t)calls_by_register, (uint64_t)calls_by_register + 15);
}

static void damaged_regions_are_refused(void **state)
{
	uint64_t at = region.at;

	assert_int_equal(agent_blocks_add(at, at + layout.size, at + layout.header_off, layout.header_size), 0);
	assert_int_equal(agent.blocks_count, 1); /* it is known */
	assert_int_equal(agent_blocks_add(PAGE, PAGE, PAGE, 0), -EINVAL);
	assert_int_equal(agent_blocks_add(PAGE, 2 * PAGE, 2 * PAGE - 8, 16), -EINVAL);
	assert_int_equal(agent_blocks_add(PAGE, 2 * PAGE, PAGE - 8, 16), -EINVAL);
	assert_int_equal(agent_blocks_add(PAGE, 2 * PAGE, PAGE, ~(uint64_t)0), -EINVAL);
}

static int setup(void **state)
{
	struct sigaction action = {.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO};

	agent_unwind_init();
	dl_iterate_phdr(find_base, NULL);
	assert_true(real_open(&self, "/proc/self/exe"));
	choose();
	assert_int_equal(stock_layout(&layout, &self.image, self.blocks, self.count), 0);
	region = (struct stock_region){.image = &self.image, .base = base};
	return sigaction(SIGTRAP, &action, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(callers_are_found_at_every_instruction),
		cmocka_unit_test(unwinders_are_answered),
		cmocka_unit_test(who_asks_is_noted),
		cmocka_unit_test(calls_leave_no_block_behind),
		cmocka_unit_test(damaged_regions_are_refused),
	};

	return cmocka_run_group_tests(tests, setup, NULL);
}
