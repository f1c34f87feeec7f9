/*
 * The agent in a process that runs already: the test is the tool, and its forked child is the process (toolside.h).
 *
 *     test_agent_attach AGENT
 */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "toolside.h"

#define FULL (CALLTAP_SITE_FULL_ENTRY | CALLTAP_SITE_FULL_EXIT | CALLTAP_SITE_GATED)
/* Site flags of outer, middle, inner and waits. */
static const uint16_t PLAIN[4], ALL_OFF[4] = {CALLTAP_SITE_OFF, CALLTAP_SITE_OFF, CALLTAP_SITE_OFF, CALLTAP_SITE_OFF},
				LIMITED[4] = {FULL, FULL, FULL, FULL},
				TREES[4] = {CALLTAP_SITE_GATED, CALLTAP_SITE_ROOT, CALLTAP_SITE_GATED, 0};

/* Lines of maps that are not the process' own, and its whole size. */
static size_t maps(const struct tool *tool, size_t *size)
{
	char path[64], line[512];
	size_t count = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/maps", tool->pid);
	file = fopen(path, "re");
	*size = 0;
	while (fgets(line, sizeof(line), file)) {
		unsigned long lo, hi;

		assert_int_equal(sscanf(line, "%lx-%lx", &lo, &hi), 2);
		*size += hi - lo;
		count++;
	}
	fclose(file);
	return count;
}

/* As before the first attach; idle, an agent may keep the pointers until the next one. */
static void text_is_own(const struct tool *tool, bool idle)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/mem", tool->pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	for (uint32_t i = 0; i < FUNCTIONS; i++) {
		uint8_t bytes[32];

		assert_int_equal(pread(fd, bytes, sizeof(bytes), (off_t)functions[i]), sizeof(bytes));
		assert_memory_equal(bytes, (void *)functions[i], sizeof(bytes));
	}
	for (uint32_t i = 0; i < 2 && !idle; i++) {
		uint64_t word;

		assert_int_equal(pread(fd, &word, 8, (off_t)&words[i]), 8);
		assert_int_equal(word, (uint64_t)words[i]);
	}
	close(fd);
}

static void it_comes_and_goes(void **state)
{
	struct calltap_msg_released released;
	struct tool tool;
	size_t first = 0, size, lines, first_lines = 0;

	tool_start(&tool);
	for (int i = 0; i < 60; i++) {
		tool_attach(&tool, 0);
		tool_set_up(&tool, 0);
		tool_begin(&tool);
		if (i % 3 == 1)
			tool_order(&tool, PARK); /* a coroutine goes to sleep within four frames */
		tool_park(true);
		tool_detach(&tool, CALLTAP_DETACH_RELEASE);
		if (i % 3 == 2) /* an answer to what the agent said before it was told to go */
			tool_tell_plan(&tool, 1, CALLTAP_PLAN_FRESH, PLAIN);
		released = tool_release(&tool);
		assert_int_equal(released.error, 0);
		assert_int_equal(released.pointers, 2);
		/* At the least the frames of the workers that wait in inner(), below outer()s. */
		assert_true(released.frames >= WORKERS * 3 + (i % 3 == 1 ? 4 : 0));
		tool_hear_end(&tool);
		tool_park(false);
		if (i % 3 == 1)
			tool_order(&tool, PARK); /* and wakes up without us */
		tool_run_on(&tool);
		text_is_own(&tool, false);
		lines = maps(&tool, &size);
		if (i == 3) {
			first = size;
			first_lines = lines;
		}
		if (i > 3) {
			assert_int_equal(size, first);
			assert_true(lines <= first_lines + 2);
		}
	}
	tool_finish(&tool);
}

/* How far a session goes before the tool dies. */
enum step { HELLO, SETUP, POINTERS, PLAN, APPLIED, DETACHED, STEPS };

static void go_until(struct tool *tool, enum step last)
{
	if (last == HELLO)
		return;
	tool_set_up(tool, 0);
	tool_hear_objects(tool);
	if (last == SETUP)
		return;
	tool_send_pointers(tool);
	if (last == POINTERS)
		return;
	tool_send_plan(tool, 1, CALLTAP_PLAN_STOPPED, PLAIN);
	if (last == PLAN)
		return;
	tool_park(true);
	assert_int_equal(tool_apply(tool, 0, 0).error, 0);
	tool_park(false);
	tool_run_on(tool);
	if (last == APPLIED)
		return;
	tool_detach(tool, CALLTAP_DETACH_RELEASE);
}

/* Check which functions are recorded from now on. */
static void see(const struct tool *tool, bool outers, bool middles, bool inners)
{
	uint64_t entries[5] = {0}, before[RINGS], until;

	tool_run_on(tool); /* none is in a call any more that began before */
	for (uint32_t i = 0; i < RINGS; i++)
		before[i] = tool_ring(tool, i)->opened;
	until = tool_recorded(tool) + 3 * WORKERS;
	for (int i = 0; tool_recorded(tool) < until && i < 1000; i++)
		tool_run_on(tool);
	tool_park(true);
	for (uint32_t i = 0; i < RINGS * SUBS; i++) {
		const struct calltap_subbuf *sub =
			(const void *)((const char *)tool_ring(tool, i / SUBS) + PAGE + i % SUBS * SUB);
		const uint64_t *word = (const uint64_t *)(sub + 1), *end = (const uint64_t *)((const char *)sub + SUB);

		if (sub->number <= before[i / SUBS])
			continue;
		for (; word < end; word += calltap_record_words(*word))
			if (calltap_record_kind(*word) == CALLTAP_REC_ENTRY && calltap_record_id(*word) < 5)
				entries[calltap_record_id(*word)]++;
	}
	tool_park(false);
	assert_int_equal(entries[1] != 0, outers);
	assert_int_equal(entries[2] != 0, middles);
	assert_int_equal(entries[3] != 0, inners);
}

static void it_is_steered(void **state)
{
	struct tool tool;

	tool_begin_all(&tool, 0);
	tool_send_plan(&tool, 2, CALLTAP_PLAN_STUBS, LIMITED);
	tool_set(&tool, 0, 1);
	tool_send_plan(&tool, 3, CALLTAP_PLAN_STUBS, TREES);
	tool.plan_moved = 1ul << 40; /* as if for a library that has been closed meanwhile */
	tool_tell_plan(&tool, 4, CALLTAP_PLAN_STUBS, TREES);
	tool.plan_moved = 0;
	assert_int_equal(((struct calltap_msg_plan_done *)tool_hear(&tool, CALLTAP_MSG_PLAN_DONE))->error, -ESTALE);
	tool_set(&tool, 0, 0);
	for (int i = 0; i < 4; i++) {
		see(&tool, true, true, true);
		tool_set(&tool, 2, 0);
		tool_lead_to(&tool, 2, true);
		see(&tool, true, true, false);
		tool_set(&tool, 0, 1);
		tool_lead_to(&tool, 3, true);
		see(&tool, false, true, true);
		tool_lead_to(&tool, i % 2 ? 1 : 2, false); /* by whichever plan */
		tool_set(&tool, 2, 0);
		tool_lead_to(&tool, 2, true);
		see(&tool, true, true, false); /* a thread that was outside all trees is not shut out */
		tool_set(&tool, 0, 0);
		tool_lead_to(&tool, 1, true);
		see(&tool, true, true, true);
		tool_set(&tool, 2, 0);
		tool_lead_to(&tool, 2, true);
		see(&tool, true, true, false); /* a frame that was deep then is not deep now */
		tool_set(&tool, 0, 0);
		tool_lead_to(&tool, i % 2 ? 1 : 2, true);
	}
	tool_let_go(&tool);
	text_is_own(&tool, false);
	tool_finish(&tool);
}

static void the_tool_may_die_at_any_step(void **state)
{
	struct tool tool;
	bool leftovers = false;

	tool_start(&tool);
	for (int i = 0; i < 3 * STEPS; i++) {
		enum step step = (enum step)(i % STEPS);

		tool_attach(&tool, leftovers ? CALLTAP_HELLO_LEFTOVERS : 0);
		if (leftovers) {
			const struct calltap_msg_regions *regions = tool_hear(&tool, CALLTAP_MSG_REGIONS);

			assert_true(regions->count <= 1);
			tool_park(true);
			assert_int_equal(tool_release(&tool).error, 0);
			tool_park(false);
		}
		go_until(&tool, step);
		close(tool.socket);
		tool.socket = -1;
		tool_run_on(&tool);
		leftovers = step > HELLO;
		while (true) { /* the agent lets go by itself */
			tool_order(&tool, ATTACH);
			if (shared->result != -EBUSY)
				break;
			usleep(1000);
		}
		assert_int_equal(shared->result, 0);
		tool_accept(&tool, CALLTAP_HELLO_ATTACHED | (leftovers ? CALLTAP_HELLO_LEFTOVERS : 0));
		text_is_own(&tool, true);
		close(tool.socket);
		usleep(2000);
	}
	tool_finish(&tool);
}

static void a_second_tool_is_refused(void **state)
{
	struct tool tool;

	tool_begin_all(&tool, 0);
	tool_order(&tool, ATTACH);
	assert_int_equal(shared->result, -EBUSY);
	tool_detach(&tool, 0);
	tool_finish(&tool);
}

static void a_site_that_a_thread_is_in_is_left_alone(void **state)
{
	struct calltap_msg_apply_done done;
	struct tool tool;

	tool_start(&tool);
	tool_attach(&tool, 0);
	tool_set_up(&tool, 0);
	tool_hear_objects(&tool);
	tool_send_plan(&tool, 1, CALLTAP_PLAN_STOPPED, ALL_OFF);
	tool_park(true);
	done = tool_apply(&tool, CALLTAP_APPLY_LEAVE_LOADER, tool_site(functions[1]));
	assert_int_equal(done.error, 0);
	assert_int_equal(done.patched, 3);
	assert_int_equal(done.failed, 1);
	assert_int_equal(done.flags, CALLTAP_OBJECTS_NO_DLHOOK);
	tool_park(false);
	tool_run_on(&tool);
	assert_int_equal(tool_recorded(&tool), 0); /* all are switched off */
	tool_park(true);
	done = tool_apply(&tool, 0, 0); /* the loader's hook is made up for */
	assert_int_equal(done.error, 0);
	assert_int_equal(done.patched, 0);
	assert_int_equal(done.flags, 0);
	tool_park(false);
	tool_detach(&tool, CALLTAP_DETACH_RELEASE);
	tool_park(true);
	assert_int_equal(tool_release(&tool).error, 0);
	tool_park(false);
	tool_finish(&tool);
}

static void a_recording_goes_on_without_the_tool(void **state)
{
	struct tool tool;
	uint64_t before;

	tool_begin_all(&tool, CALLTAP_SETUP_KEEP);
	close(tool.socket);
	tool.socket = -1;
	usleep(50000);
	before = tool_recorded(&tool);
	for (int i = 0; tool_recorded(&tool) < before + 2 * RINGS && i < 100; i++)
		tool_run_on(&tool);
	assert_true(tool_recorded(&tool) >= before + 2 * RINGS);
	tool_attach(&tool, CALLTAP_HELLO_LEFTOVERS);
	assert_int_equal(((struct calltap_msg_regions *)tool_hear(&tool, CALLTAP_MSG_REGIONS))->count, 1);
	text_is_own(&tool, true);
	tool_park(true);
	assert_int_equal(tool_release(&tool).error, 0);
	tool_park(false);
	tool_set_up(&tool, 0);
	tool_begin(&tool);
	tool_detach(&tool, 0);
	tool_finish(&tool);
}

/* Pages of a ring's data that there are. */
static uint32_t data_pages(const struct tool *tool, uint32_t ring)
{
	unsigned char there[SUB * SUBS / PAGE];
	uint32_t count = 0;

	assert_int_equal(mincore((char *)tool_ring(tool, ring) + PAGE, SUB * SUBS, there), 0);
	for (uint32_t i = 0; i < sizeof(there); i++)
		count += there[i] & 1;
	return count;
}

/* Until all rings that threads have are full. */
static void fill_rings(const struct tool *tool)
{
	uint32_t used = 0, full = 0;

	for (int turn = 0; (!used || full < used) && turn < 5000; turn++) {
		tool_run_on(tool);
		used = full = 0;
		for (uint32_t i = 0; i < RINGS; i++) {
			used += tool_ring(tool, i)->opened > 0;
			full += tool_ring(tool, i)->opened > SUBS;
		}
	}
	assert_true(used >= WORKERS);
	assert_int_equal(full, used);
}

static void wait_for_its_end(const struct tool *tool)
{
	do {
		usleep(1000);
		tool_order(tool, ATTACH);
	} while (shared->result == -EBUSY);
	assert_int_equal(shared->result, 0);
}

/* A tool that has ended the connection itself still reads. */
static void rings_are_given_back_if_nobody_reads(bool reads_on)
{
	struct calltap_arena *arena;
	struct tool tool;

	tool_begin_all(&tool, 0);
	fill_rings(&tool);
	arena = (struct calltap_arena *)tool.arena_memory;
	if (reads_on)
		__atomic_fetch_or(&arena->notes, CALLTAP_NOTE_READ_ON, __ATOMIC_SEQ_CST);
	close(tool.socket);
	tool.socket = -1;
	wait_for_its_end(&tool);
	for (uint32_t i = 0; i < RINGS; i++) {
		const struct calltap_ring *ring = tool_ring(&tool, i);

		assert_int_equal(ring->magic, CALLTAP_RING_MAGIC);
		if (!ring->opened)
			continue;
		assert_true(ring->opened > SUBS); /* counters run on */
		if (reads_on)
			assert_int_equal(data_pages(&tool, i), SUB * SUBS / PAGE);
		else /* the open sub-buffer, and one that was opened meanwhile */
			assert_true(data_pages(&tool, i) <= 2 * SUB / PAGE);
	}
	assert_int_equal(arena->magic, CALLTAP_ARENA_MAGIC);
	tool_run_on(&tool);
	tool_accept(&tool, CALLTAP_HELLO_ATTACHED | CALLTAP_HELLO_LEFTOVERS);
	text_is_own(&tool, true);
	tool_finish(&tool);
}

static void a_tool_that_died_leaves_no_records(void **state)
{
	rings_are_given_back_if_nobody_reads(false);
}

static void a_tool_that_reads_on_finds_them(void **state)
{
	rings_are_given_back_if_nobody_reads(true);
}

static void a_forked_child_is_followed_or_let_be(void **state)
{
	struct tool tool;
	int process_socket;

	tool_begin_all(&tool, 0);
	process_socket = tool.socket;
	tool_order_only(FORK);
	tool_accept(&tool, CALLTAP_HELLO_FORKED); /* the child connects at its first traced call */
	assert_int_equal(tool.hello.plans, 1);
	tool_set_up(&tool, 0);
	tool_tell(&tool, &(struct calltap_msg){CALLTAP_MSG_GO, 8}, NULL, 0);
	tool_hear_end(&tool);
	tool_await(&tool);
	assert_int_equal(shared->result, 0);
	tool.socket = process_socket;
	tool_park(true);
	tool_detach(&tool, CALLTAP_DETACH_RELEASE);
	tool_order_only(FORK); /* between the two */
	tool_await(&tool);
	assert_int_equal(shared->result, 0);
	assert_int_equal(tool_release(&tool).error, 0);
	tool_order(&tool, FORK); /* and after */
	assert_int_equal(shared->result, 0);
	tool_park(false);
	tool_finish(&tool);
}

/* Where the library keeps its symbol of the name and the word that the loader fills in, less its base. */
static void find_import(const char *name, uint64_t *symbol, uint64_t *word)
{
	struct link_map *map = dlopen(LOADED, RTLD_NOW);
	const Elf64_Sym *symbols = NULL;
	const char *strings = NULL;
	const Elf64_Rela *relocations[2] = {NULL, NULL};
	size_t sizes[2] = {0, 0};

	assert_non_null(map);
	for (const Elf64_Dyn *entry = map->l_ld; entry->d_tag != DT_NULL; entry++) {
		const void *at = (const void *)entry->d_un.d_ptr;

		if (entry->d_tag == DT_SYMTAB)
			symbols = at;
		else if (entry->d_tag == DT_STRTAB)
			strings = at;
		else if (entry->d_tag == DT_RELA || entry->d_tag == DT_JMPREL)
			relocations[entry->d_tag == DT_JMPREL] = at;
		else if (entry->d_tag == DT_RELASZ || entry->d_tag == DT_PLTRELSZ)
			sizes[entry->d_tag == DT_PLTRELSZ] = entry->d_un.d_val / sizeof(Elf64_Rela);
	}
	*symbol = *word = 0;
	for (int i = 0; i < 2; i++)
		for (size_t k = 0; k < sizes[i]; k++) {
			const Elf64_Sym *of = &symbols[ELF64_R_SYM(relocations[i][k].r_info)];

			if (!ELF64_R_SYM(relocations[i][k].r_info) || strcmp(strings + of->st_name, name) != 0)
				continue;
			*symbol = (uint64_t)of - map->l_addr;
			*word = relocations[i][k].r_offset;
		}
	assert_true(*symbol != 0);
}

static uint64_t word_at(const struct tool *tool, uint64_t address)
{
	char path[64];
	uint64_t word = 0;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/mem", tool->pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_int_equal(pread(fd, &word, sizeof(word), (off_t)address), sizeof(word));
	close(fd);
	return word;
}

/* The library's base, of a report. */
static uint64_t hear_base(struct tool *tool)
{
	const struct calltap_msg_object *object = (const void *)tool->message;
	uint64_t base = 0;

	for (;;) {
		struct pollfd poll_ = {tool->socket, POLLIN, 0};

		assert_int_equal(poll(&poll_, 1, PATIENCE), 1);
		assert_true(recv(tool->socket, tool->message, sizeof(tool->message), 0) > 0);
		if (object->head.type == CALLTAP_MSG_OBJECTS_END)
			return base;
		assert_int_equal(object->head.type, CALLTAP_MSG_OBJECT);
		if (strstr(object->path, LOADED))
			base = object->base;
	}
}

static void what_is_loaded_later_leads_to_the_agent(void **state)
{
	const struct calltap_msg go = {CALLTAP_MSG_GO, sizeof(go)}, rescan = {CALLTAP_MSG_RESCAN, sizeof(rescan)};
	union {
		struct calltap_msg_pointers message;
		uint8_t bytes[sizeof(struct calltap_msg_pointers) + 2 * sizeof(struct calltap_pointer)];
	} out = {.message = {.head = {CALLTAP_MSG_POINTERS, sizeof(out)}, .count = 2, .flags = CALLTAP_POINTERS_FRESH}};
	uint64_t symbol = 0, word = 0, base, before, libcs;
	struct tool tool;

	tool_start(&tool);
	find_import("_dl_find_object", &symbol, &word);
	libcs = (uint64_t)dlsym(RTLD_DEFAULT, "_dl_find_object");
	tool_attach(&tool, 0);
	tool_set_up(&tool, 0);
	tool_begin(&tool);
	tool_order_only(LOAD);
	for (int i = 0; !((struct calltap_arena *)tool.arena_memory)->request; i++) {
		assert_true(i < PATIENCE);
		usleep(1000);
	}
	/* A message that answers an earlier report lets nobody go, and nothing is done for it. */
	tool_tell(&tool, &go, NULL, 0);
	tool_tell_plan(&tool, 2, CALLTAP_PLAN_FRESH, PLAIN);
	assert_int_equal(((struct calltap_msg_plan_done *)tool_hear(&tool, CALLTAP_MSG_PLAN_DONE))->error, -ETIMEDOUT);
	usleep(20000);
	assert_true(shared->done != shared->order);
	tool_tell(&tool, &rescan, NULL, 0);
	base = hear_base(&tool);
	assert_true(base != 0);
	before = word_at(&tool, base + symbol + 8);
	out.message.base = base;
	out.message.pointers[0] =
		(struct calltap_pointer){base + symbol, CALLTAP_POINTER_DL_FIND_OBJECT, CALLTAP_POINTER_SYMBOL};
	out.message.pointers[1] =
		(struct calltap_pointer){base + word, CALLTAP_POINTER_DL_FIND_OBJECT, CALLTAP_POINTER_WORD};
	tool_tell(&tool, &out, NULL, 0);
	tool_tell(&tool, &go, NULL, 0);
	tool_await(&tool);
	assert_true(word_at(&tool, base + word) != 0);
	assert_true(word_at(&tool, base + word) != libcs);
	tool_park(true);
	tool_detach(&tool, CALLTAP_DETACH_RELEASE);
	assert_int_equal(tool_release(&tool).pointers, 4);
	tool_park(false);
	assert_int_equal(word_at(&tool, base + word), libcs);
	assert_int_equal(word_at(&tool, base + symbol + 8), before);
	text_is_own(&tool, false);
	tool_finish(&tool);
}

static void another_map_than_was_reported(void **state)
{
	const struct calltap_msg rescan = {CALLTAP_MSG_RESCAN, sizeof(rescan)};
	struct tool tool;

	tool_start(&tool);
	tool_attach(&tool, 0);
	tool_set_up(&tool, 0);
	tool_hear_objects(&tool);
	tool_send_plan(&tool, 1, CALLTAP_PLAN_STOPPED, PLAIN);
	tool_order(&tool, LOAD);
	tool_park(true);
	assert_int_equal(tool_apply(&tool, 0, 0).error, -ESTALE);
	text_is_own(&tool, false);
	tool_park(false);
	tool_tell(&tool, &rescan, NULL, 0);
	assert_true(hear_base(&tool) != 0);
	tool_park(true);
	assert_int_equal(tool_apply(&tool, 0, 0).patched, 4);
	tool_park(false);
	tool_detach(&tool, 0);
	tool_finish(&tool);
}

/* Where an object's sites and pointers were, another object's text may lie, or anybody's memory. */
static void what_has_gone_is_left_alone(void **state)
{
	struct calltap_msg_apply_done done;
	uint64_t before[2];
	struct tool tool;

	tool_start(&tool);
	tool_attach(&tool, 0);
	tool_set_up(&tool, 0);
	tool_hear_objects(&tool);
	for (unsigned i = 0; i < 2; i++)
		before[i] = word_at(&tool, (uint64_t)&words[i]);
	tool.identity = 12345; /* the identity of no object */
	tool_send_pointers(&tool);
	tool_send_plan(&tool, 1, CALLTAP_PLAN_STOPPED, PLAIN);
	tool_park(true);
	done = tool_apply(&tool, 0, 0);
	assert_int_equal(done.error, 0);
	assert_int_equal(done.patched + done.failed + done.pointers, 0);
	text_is_own(&tool, false);
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(word_at(&tool, (uint64_t)&words[i]), before[i]);
	tool_park(false);
	tool_detach(&tool, 0);
	tool_finish(&tool);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_comes_and_goes),
		cmocka_unit_test(it_is_steered),
		cmocka_unit_test(the_tool_may_die_at_any_step),
		cmocka_unit_test(another_map_than_was_reported),
		cmocka_unit_test(what_has_gone_is_left_alone),
		cmocka_unit_test(what_is_loaded_later_leads_to_the_agent),
		cmocka_unit_test(a_second_tool_is_refused),
		cmocka_unit_test(a_site_that_a_thread_is_in_is_left_alone),
		cmocka_unit_test(a_recording_goes_on_without_the_tool),
		cmocka_unit_test(a_tool_that_died_leaves_no_records),
		cmocka_unit_test(a_tool_that_reads_on_finds_them),
		cmocka_unit_test(a_forked_child_is_followed_or_let_be),
	};

	return tool_take_arguments(argc, argv) ? cmocka_run_group_tests(tests, NULL, NULL) : 1;
}
