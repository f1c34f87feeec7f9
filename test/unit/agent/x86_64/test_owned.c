/*
 * Blocks of threads by their ids (probe/owned.c), with glibc's threads: each live thread has one of its own, a new
 * thread never finds an ended one's, and what assembly finds is what C finds.
 */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include <probe/thread.h>
#include <support.h>

#define LIVE  8
#define TURNS 3000
#define MARK  77u

struct probe_thread *owned_by_offset(void);
extern const char arch_nobody[];
static const struct probe_thread *const nobody = (const void *)(arch_nobody + 16);

/* Where libc notes a thread's id: in a second thread, whose id no other word of the block is. */
static void *find_note(void *found)
{
	const char *pointer = __builtin_thread_pointer();
	uint32_t id = (uint32_t)syscall(SYS_gettid);

	for (int64_t at = 0; at < 1024 && !*(int64_t *)found; at += sizeof(id))
		if (!memcmp(pointer + at, &id, sizeof(id)))
			*(int64_t *)found = at;
	return NULL;
}

static void run(void *(*body)(void *), void *argument)
{
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, body, argument), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
}

static int set_up(void **state)
{
	static struct fake_arena arena;
	int64_t found = 0;

	(void)state;
	fake_arena_create(&arena, CALLTAP_MODE_DROP, 2, 4096, 2);
	fake_start(&arena);
	run(find_note, &found);
	arch_owners.id_offset = found;
	return found && probe_owned_init() ? 0 : -1;
}

static void test_first(void **state)
{
	struct probe_thread *block;

	(void)state;
	assert_ptr_equal(owned_by_offset(), nobody);
	block = probe_self();
	assert_ptr_not_equal(block, nobody);
	assert_ptr_equal(owned_by_offset(), block);
	assert_ptr_equal(probe_self(), block);
	assert_true(arch_block_has_id(block, getpid()));
	assert_false(arch_block_has_id(block, getpid() + 1));
	assert_int_equal(arch_block_of((uint64_t)__builtin_thread_pointer(), block), (uint64_t)block);
	assert_int_equal(block->granule, PROBE_NO_GRANULE);
	assert_ptr_equal(block->writer, &probe_writer_none);
}

static pthread_barrier_t barrier;
static struct probe_thread *blocks[LIVE];

static void *live(void *number)
{
	struct probe_thread **mine = &blocks[(uintptr_t)number];

	*mine = probe_self();
	pthread_barrier_wait(&barrier);
	(*mine)->depth = MARK + (uint32_t)(uintptr_t)number;
	pthread_barrier_wait(&barrier);
	if (probe_self() != *mine || owned_by_offset() != *mine || (*mine)->depth != MARK + (uintptr_t)number)
		*mine = NULL;
	return NULL;
}

static void test_live(void **state)
{
	pthread_t threads[LIVE];

	(void)state;
	pthread_barrier_init(&barrier, NULL, LIVE);
	for (uintptr_t i = 0; i < LIVE; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, live, (void *)i), 0);
	for (unsigned i = 0; i < LIVE; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	for (unsigned i = 0; i < LIVE; i++) {
		assert_non_null(blocks[i]);
		assert_ptr_not_equal(blocks[i], probe_self());
		for (unsigned k = 0; k < i; k++)
			assert_ptr_not_equal(blocks[i], blocks[k]);
	}
}

struct seen {
	bool clean;
	uint64_t pointer;
	const struct probe_thread *block;
};

/* A thread that leaves its block marked. */
static void *mark(void *out)
{
	struct seen *seen = out;
	bool unknown = owned_by_offset() == nobody;
	struct probe_thread *block = probe_self();

	*seen = (struct seen){unknown && !block->depth, (uint64_t)__builtin_thread_pointer(), block};
	block->depth = MARK;
	return NULL;
}

/* One after the other, at the same thread pointer: each begins clean, and few blocks serve them all. */
static void test_turns(void **state)
{
	struct seen first, seen;
	const struct probe_thread *lowest, *highest;
	unsigned same = 0;

	(void)state;
	run(mark, &first);
	lowest = highest = first.block;
	for (unsigned i = 0; i < TURNS; i++) {
		run(mark, &seen);
		assert_true(seen.clean);
		same += seen.pointer == first.pointer;
		lowest = seen.block < lowest ? seen.block : lowest;
		highest = seen.block > highest ? seen.block : highest;
	}
	assert_true(same > TURNS / 2);
	assert_true((size_t)(highest - lowest) < 64);
}

static int exit_status(pid_t pid)
{
	int status;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* A forked child's thread, whose id is another, keeps its block; the parent's keeps its own. */
static void test_fork(void **state)
{
	struct probe_thread *block = probe_self();
	pid_t pid;

	(void)state;
	block->depth = MARK;
	pid = fork();
	if (!pid) {
		bool same;

		memset(probe_context.wiped, 0, sizeof(uint32_t) * 2); /* as the kernel does: alive, pid */
		same = owned_by_offset() == nobody && probe_self() == block && owned_by_offset() == block;
		_exit(same && block->depth == MARK && arch_block_has_id(block, getpid()) ? 0 : 1);
	}
	assert_int_equal(exit_status(pid), 0);
	assert_ptr_equal(probe_self(), block);
	block->depth = 0;
}

static void test_vfork(void **state)
{
	struct probe_thread *block = probe_self();
	pid_t pid = vfork();

	(void)state;
	if (!pid)
		_exit(probe_self() == block && owned_by_offset() == block ? 0 : 1);
	assert_int_equal(exit_status(pid), 0);
	assert_ptr_equal(probe_self(), block);
}

/* A block whose writer another thread has got is nobody's; one that has another writer by then stays. */
static void test_retired(void **state)
{
	struct probe_thread *block = probe_self();
	struct ring_writer other;

	(void)state;
	arch_block_retire(block, &other);
	assert_ptr_equal(owned_by_offset(), block);
	arch_block_retire(block, block->writer);
	assert_ptr_equal(owned_by_offset(), nobody);
	assert_ptr_not_equal(probe_self(), block);
	assert_ptr_equal(owned_by_offset(), probe_self());
}

/* libc takes the id out of its note before a thread ends: such a thread records nothing, and harms no other. */
static void test_without_id(void **state)
{
	uint32_t *note = (uint32_t *)((char *)__builtin_thread_pointer() + arch_owners.id_offset), id = *note;
	const struct probe_thread *own = probe_self(), *out;

	(void)state;
	*note = 0;
	out = probe_self();
	*note = id;
	assert_ptr_not_equal(out, own);
	assert_ptr_not_equal(out, nobody);
	assert_false(arch_block_has_id(out, (int)id));
	assert_ptr_equal(probe_self(), own);
}

static void *wait_twice(void *out)
{
	struct probe_thread **seen = out;

	seen[0] = probe_self();
	seen[0]->depth = MARK;
	pthread_barrier_wait(&barrier);
	pthread_barrier_wait(&barrier);
	seen[1] = probe_self();
	seen[1]->depth += 1;
	return NULL;
}

/* A tool has let go of the process: all threads get new blocks, the living ones, too; none finds what an old one had.
 */
static void test_forgotten(void **state)
{
	struct probe_thread *seen[2], *own = probe_self();
	pthread_t thread, ended;
	struct seen before;

	(void)state;
	own->depth = MARK;
	pthread_barrier_init(&barrier, NULL, 2);
	assert_int_equal(pthread_create(&ended, NULL, mark, &before), 0);
	assert_int_equal(pthread_join(ended, NULL), 0);
	assert_int_equal(pthread_create(&thread, NULL, wait_twice, seen), 0);
	pthread_barrier_wait(&barrier);
	assert_true(arch_blocks_forget());
	assert_ptr_equal(owned_by_offset(), nobody);
	assert_int_equal(arch_block_of(before.pointer, NULL), 0);
	pthread_barrier_wait(&barrier);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(seen[1]->depth, 1);
	own = probe_self();
	assert_ptr_equal(owned_by_offset(), own);
	assert_int_equal(own->depth, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_first),	   cmocka_unit_test(test_live),	     cmocka_unit_test(test_turns),
		cmocka_unit_test(test_fork),	   cmocka_unit_test(test_vfork),     cmocka_unit_test(test_retired),
		cmocka_unit_test(test_without_id), cmocka_unit_test(test_forgotten),
	};

	return cmocka_run_group_tests(tests, set_up, NULL);
}
