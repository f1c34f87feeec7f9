/*
 * The trace of a tool that is gone: read from this process's own memory while writers overwrite it, from core files of
 * it, whole, cut short and forged, and from files.
 */
#include <errno.h>
#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <host/core/core.h>

#include "scribe.h"

#define PAGE 4096u

static int memory_file(char path[64])
{
	int fd = memfd_create("trace", MFD_CLOEXEC);

	assert_true(fd >= 0);
	snprintf(path, 64, "/proc/self/fd/%d", fd);
	return fd;
}

static void living_memory_is_read(void **state)
{
	struct bench *bench = scribe_bench(16384, 16);
	struct scribe scribes[WRITERS];
	struct calltap_diag diag = {0};

	for (uint32_t i = 0; i < WRITERS; i++)
		scribe_start(&scribes[i], bench, i, i * 200);
	/* On a busy machine the reader may be away while its rings go round: it is looked at as often as it takes. */
	for (int i = 0, good = 0; good < 10; i++) {
		struct core_result result;
		struct trace *trace;
		struct seen seen;
		char path[64];
		int fd = memory_file(path);

		usleep(2000);
		assert_int_equal(core_read_process(getpid(), fd, &result, &diag), 0);
		seen = scribe_read(path, &trace);
		assert_int_equal(seen.records, result.records);
		assert_true(i < 2000);
		good += result.threads >= 2 && seen.records > 1000;
		assert_non_null(strstr(trace_info(trace, "recovered"), "process "));
		if (result.threads)
			assert_string_equal(trace_thread(trace, 0)->name, "test_core");
		trace_close(trace);
		close(fd);
	}
	for (uint32_t i = 0; i < WRITERS; i++)
		scribe_stop(&scribes[i]);
	bench_destroy(bench);
}

static void memory_without_a_recorder_has_its_sentence(void **state)
{
	struct core_result result;
	struct calltap_diag diag = {0};
	char path[64];
	int fd = memory_file(path);

	assert_int_equal(core_read_process(getpid(), fd, &result, &diag), -ENODATA);
	assert_non_null(strstr(diag.text, "--mode overwrite"));
	assert_int_equal(core_read_process(0x7ffffff0, fd, &result, &diag), -ESRCH);
	assert_int_equal(core_read_file("/proc/self/exe", fd, &result, &diag), -EINVAL);
	assert_int_equal(core_read_file("/dev/null", fd, &result, &diag), -EINVAL);
	assert_int_equal(core_read_file("/nonexistent", fd, &result, &diag), -ENOENT);
	assert_int_equal(core_read_folder("/nonexistent", fd, &result, &diag), -ENOENT);
	close(fd);
}

/* A session at rest with 1000 records in one ring, and what a core file of it would hold. */
struct left {
	struct bench *bench;
	const void *bytes[2];
	size_t sizes[2];
};

static struct left leave(void)
{
	struct left left = {.bench = scribe_bench(SUB_SIZE, 8)};
	struct scribe scribe = {.bench = left.bench, .ring = scribe_ring(left.bench, 0)};

	ring_attach(&scribe.writer, scribe.ring, gettid(), true);
	for (uint32_t i = 0; i < 1000; i++)
		scribe_put(&scribe, i);
	left.bytes[0] = left.bench->instance.tables.tables;
	left.sizes[0] = left.bench->instance.tables.size;
	left.bytes[1] = left.bench->share->arenas[0].arena;
	left.sizes[1] = left.bench->share->arenas[0].size;
	return left;
}

/* A core file with one segment each, the arena in two; returns its size. */
static size_t write_core(const char *path, const struct left *left)
{
	Elf64_Ehdr head = {.e_type = ET_CORE, .e_machine = EM_X86_64, .e_version = EV_CURRENT};
	Elf64_Phdr segments[3] = {0};
	size_t at = PAGE, parts[3] = {left->sizes[0], 2 * PAGE, left->sizes[1] - 2 * PAGE};
	const char *bytes[3] = {left->bytes[0], left->bytes[1], (const char *)left->bytes[1] + 2 * PAGE};
	FILE *file = fopen(path, "wb");

	assert_non_null(file);
	memcpy(head.e_ident, ELFMAG "\2\1\1", 7);
	head.e_phoff = head.e_ehsize = sizeof(head);
	head.e_phentsize = sizeof(segments[0]);
	head.e_phnum = 3;
	for (int i = 0; i < 3; i++) {
		segments[i] = (Elf64_Phdr){.p_type = PT_LOAD,
					   .p_flags = PF_R,
					   .p_offset = at,
					   .p_vaddr = (uint64_t)bytes[i],
					   .p_filesz = parts[i],
					   .p_memsz = parts[i]};
		at += parts[i];
	}
	assert_int_equal(fwrite(&head, sizeof(head), 1, file), 1);
	assert_int_equal(fwrite(segments, sizeof(segments), 1, file), 1);
	assert_int_equal(fseek(file, PAGE, SEEK_SET), 0);
	for (int i = 0; i < 3; i++)
		assert_int_equal(fwrite(bytes[i], parts[i], 1, file), 1);
	assert_int_equal(fclose(file), 0);
	return at;
}

static int read_core(const struct left *left, const char *core, struct seen *seen, bool *whole)
{
	struct core_result result;
	struct calltap_diag diag = {0};
	struct trace *trace;
	char path[64];
	int fd = memory_file(path), ret = core_read_file(core, fd, &result, &diag);

	if (!ret) {
		*seen = scribe_read(path, &trace);
		*whole = !trace_damage(trace);
		if (result.threads)
			assert_int_equal(trace_thread(trace, 0)->tid, gettid());
		trace_close(trace);
	} else {
		assert_true(diag.text[0]);
	}
	close(fd);
	return ret;
}

static void core_files_are_read(void **state)
{
	struct left left = leave();
	struct seen seen;
	char path[64];
	bool whole;

	snprintf(path, sizeof(path), "%s.core", left.bench->path);
	write_core(path, &left);
	assert_int_equal(read_core(&left, path, &seen, &whole), 0);
	assert_true(whole);
	assert_int_equal(seen.records, 1000);
	assert_int_equal(seen.next[0], 1000);
	unlink(path);
	bench_destroy(left.bench);
}

static void those_that_were_cut_short_as_far_as_they_go(void **state)
{
	struct left left = leave();
	struct seen seen;
	char path[64];
	size_t size;
	bool whole;

	snprintf(path, sizeof(path), "%s.core", left.bench->path);
	size = write_core(path, &left);
	/* In the second sub-buffer, before the arena's rings, in the tables. */
	assert_int_equal(truncate(path, (off_t)(PAGE + left.sizes[0] + 2 * PAGE + SUB_SIZE + 100)), 0);
	assert_int_equal(read_core(&left, path, &seen, &whole), 0);
	assert_false(whole);
	assert_true(seen.records > 300 && seen.records < 500);
	assert_int_equal(truncate(path, (off_t)(PAGE + left.sizes[0] + 100)), 0);
	assert_int_equal(read_core(&left, path, &seen, &whole), 0);
	assert_int_equal(seen.records, 0);
	assert_int_equal(truncate(path, PAGE + 150), 0);
	assert_int_equal(read_core(&left, path, &seen, &whole), -EBADMSG);
	assert_int_equal(truncate(path, 200), 0);
	assert_true(read_core(&left, path, &seen, &whole) < 0);
	assert_true(size > 200);
	unlink(path);
	bench_destroy(left.bench);
}

static void scribbled_memory_is_no_danger(void **state)
{
	struct left left = leave();
	struct calltap_tables *tables = left.bench->instance.tables.tables;
	struct calltap_arena *arena = left.bench->share->arenas[0].arena;
	struct calltap_ring *ring = scribe_ring(left.bench, 0);
	uint64_t seed = 1, stride = arena->ring_stride;
	char path[64];

	snprintf(path, sizeof(path), "%s.core", left.bench->path);
	for (int i = 0; i < 200; i++) {
		unsigned char *where[] = {(unsigned char *)tables, (unsigned char *)arena, (unsigned char *)ring,
					  (unsigned char *)ring + CALLTAP_PAGE};
		size_t sizes[] = {sizeof(*tables), sizeof(*arena), sizeof(*ring), 64};
		unsigned char *at;
		struct seen seen;
		unsigned char old;
		bool whole;

		seed = seed * 6364136223846793005u + 1442695040888963407u;
		at = where[i % 4] + (seed >> 33) % sizes[i % 4];
		old = *at;
		*at = (unsigned char)(seed >> 40);
		/* A record's id is none of those that the reader checks when its sub-buffer is another's. */
		if (where[i % 4] != (unsigned char *)ring + CALLTAP_PAGE) {
			write_core(path, &left);
			(void)read_core(&left, path, &seen, &whole);
		}
		*at = old;
		assert_int_equal(arena->ring_stride, stride);
	}
	unlink(path);
	bench_destroy(left.bench);
}

static void files_are_read(void **state)
{
	struct left left = leave();
	struct core_result result;
	struct calltap_diag diag = {0};
	struct trace *trace;
	struct seen seen;
	char folder[] = "/tmp/calltap-test-XXXXXX", path[64];
	int fd;

	assert_non_null(mkdtemp(folder));
	for (int i = 0; i < 2; i++) {
		FILE *file;

		snprintf(path, sizeof(path), "%s/%d", folder, i);
		file = fopen(path, "wb");
		assert_non_null(file);
		assert_int_equal(fwrite(left.bytes[i], left.sizes[i], 1, file), 1);
		assert_int_equal(fclose(file), 0);
	}
	fd = memory_file(path);
	assert_int_equal(core_read_folder(folder, fd, &result, &diag), 0);
	seen = scribe_read(path, &trace);
	assert_null(trace_damage(trace));
	assert_int_equal(seen.records, 1000);
	trace_close(trace);
	close(fd);
	for (int i = 0; i < 2; i++) {
		snprintf(path, sizeof(path), "%s/%d", folder, i);
		unlink(path);
	}
	rmdir(folder);
	bench_destroy(left.bench);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(memory_without_a_recorder_has_its_sentence),
		cmocka_unit_test(living_memory_is_read),
		cmocka_unit_test(core_files_are_read),
		cmocka_unit_test(those_that_were_cut_short_as_far_as_they_go),
		cmocka_unit_test(scribbled_memory_is_no_danger),
		cmocka_unit_test(files_are_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
