/*
 * Which files the agent puts its variables into an environment for (agent/exec_file.c): this program itself, changed in
 * many ways, and scripts.
 */
#include <elf.h>
#include <fcntl.h>
#include <stdarg.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include <agent/exec.h>

static char folder[] = "/tmp/calltap-exec-XXXXXX";
static unsigned char *bytes;
static size_t size;

static const char *path_of(const char *name)
{
	static char paths[4][128];
	static unsigned next;
	char *path = paths[next++ % 4];

	snprintf(path, sizeof(paths[0]), "%s/%s", folder, name);
	return path;
}

static const char *write_file(const char *name, const void *content, size_t length, mode_t mode)
{
	const char *path = path_of(name);
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0700);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, content, length), length);
	assert_int_equal(fchmod(fd, mode), 0);
	close(fd);
	return path;
}

static int setup(void **state)
{
	FILE *self = fopen("/proc/self/exe", "r");

	(void)state;
	fseek(self, 0, SEEK_END);
	size = (size_t)ftell(self);
	rewind(self);
	bytes = malloc(size);
	return !mkdtemp(folder) || fread(bytes, 1, size, self) != size || fclose(self);
}

static int teardown(void **state)
{
	char command[128];

	(void)state;
	free(bytes);
	snprintf(command, sizeof(command), "rm -rf %s", folder);
	return system(command);
}

static void takes_itself(void **state)
{
	(void)state;
	assert_true(exec_file_kind("/proc/self/exe") == EXEC_LOADER);
	assert_true(exec_file_kind(write_file("copy", bytes, size, 0755)) == EXEC_LOADER);
	assert_true(exec_file_kind("/bin/sh") == EXEC_LOADER);
}

static void leaves_others(void **state)
{
	(void)state;
	assert_true(exec_file_kind(NULL) == EXEC_OTHER);
	assert_true(exec_file_kind((const char *)8) == EXEC_OTHER);
	assert_true(exec_file_kind("") == EXEC_OTHER);
	assert_true(exec_file_kind("/nowhere/at-all") == EXEC_OTHER);
	assert_true(exec_file_kind("/") == EXEC_OTHER);
	assert_true(exec_file_kind("/dev/null") == EXEC_OTHER);
	assert_int_equal(mkfifo(path_of("fifo"), 0755), 0);
	assert_true(exec_file_kind(path_of("fifo")) == EXEC_OTHER);
	assert_true(exec_file_kind(write_file("empty", "", 0, 0755)) == EXEC_OTHER);
	assert_true(exec_file_kind(write_file("text", "echo\n", 5, 0755)) == EXEC_OTHER);
	assert_true(exec_file_kind(write_file("copy", bytes, size, 0644)) == EXEC_OTHER);
	assert_true(exec_file_kind(write_file("copy", bytes, size, 04755)) == EXEC_OTHER);
	assert_true(exec_file_kind(write_file("copy", bytes, size, 02755)) == EXEC_OTHER);
}

static bool takes_script(const char *line)
{
	return exec_file_kind(write_file("script", line, strlen(line), 0755)) == EXEC_LOADER;
}

static void follows_scripts(void **state)
{
	char line[400], spaces[300];

	(void)state;
	assert_true(takes_script("#!/bin/sh\n"));
	assert_true(takes_script("#! \t/bin/sh -e\n"));
	assert_true(takes_script("#!/bin/sh"));
	assert_false(takes_script("#!\n"));
	assert_false(takes_script("#!"));
	assert_false(takes_script("#!/nowhere/at-all\n"));
	snprintf(line, sizeof(line), "#!%s\n", path_of("script"));
	assert_false(takes_script(line)); /* its own interpreter */
	memset(spaces, ' ', sizeof(spaces) - 1);
	spaces[sizeof(spaces) - 1] = 0;
	snprintf(line, sizeof(line), "#!%s/bin/sh\n", spaces);
	assert_false(takes_script(line)); /* the kernel reads 256 bytes */
	memset(spaces, '/', sizeof(spaces) - 1);
	snprintf(line, sizeof(line), "#!%s/bin/sh\n", spaces);
	assert_false(takes_script(line));
}

/* The program with one word of it changed. */
static bool takes_with(size_t at, const void *word, size_t length)
{
	unsigned char old[8];
	bool takes;

	memcpy(old, bytes + at, length);
	memcpy(bytes + at, word, length);
	takes = exec_file_kind(write_file("changed", bytes, size, 0755)) == EXEC_LOADER;
	memcpy(bytes + at, old, length);
	return takes;
}

static void reads_headers(void **state)
{
	const Elf64_Ehdr *header = (const Elf64_Ehdr *)bytes;
	const uint16_t machine = EM_386, many = UINT16_MAX, object = ET_REL;
	const uint8_t class = ELFCLASS32;
	const uint32_t nothing = PT_NULL;

	(void)state;
	assert_false(takes_with(offsetof(Elf64_Ehdr, e_machine), &machine, sizeof(machine)));
	assert_false(takes_with(offsetof(Elf64_Ehdr, e_phnum), &many, sizeof(many)));
	assert_false(takes_with(offsetof(Elf64_Ehdr, e_type), &object, sizeof(object)));
	assert_false(takes_with(EI_CLASS, &class, sizeof(class)));
	for (unsigned i = 0; i < header->e_phnum; i++) {
		const Elf64_Phdr *segment = (const Elf64_Phdr *)(bytes + header->e_phoff) + i;
		size_t at = header->e_phoff + i * sizeof(*segment) + offsetof(Elf64_Phdr, p_type);
		bool needed = segment->p_type == PT_INTERP || segment->p_type == PT_DYNAMIC;

		if (segment->p_type != PT_LOAD)
			assert_int_equal(takes_with(at, &nothing, sizeof(nothing)), !needed);
	}
}

/* Each byte of the headers and of the dynamic section becomes another one: whatever that says, the look ends soon. */
static void stands_damage(void **state)
{
	const Elf64_Ehdr *header = (const Elf64_Ehdr *)bytes;
	const char *path = write_file("damaged", bytes, size, 0755);
	size_t end = header->e_phoff + header->e_phnum * sizeof(Elf64_Phdr), from = 0, length = 0;
	int fd = open(path, O_WRONLY);
	unsigned taken = 0, left = 0;
	time_t began = time(NULL);

	(void)state;
	assert_true(fd >= 0);
	close(fd); /* a file that is open for writing can be looked at, but the test is not about that */
	for (unsigned i = 0; i < header->e_phnum; i++) {
		const Elf64_Phdr *segment = (const Elf64_Phdr *)(bytes + header->e_phoff) + i;

		if (segment->p_type == PT_DYNAMIC) {
			from = segment->p_offset;
			length = segment->p_filesz;
		}
	}
	for (size_t i = 0; i < end + length; i++) {
		size_t at = i < end ? i : from + i - end;

		for (unsigned bit = 0; bit < 8; bit += 7) {
			unsigned char other = bytes[at] ^ (unsigned char)(1u << bit);
			bool takes;

			fd = open(path, O_WRONLY);
			assert_int_equal(pwrite(fd, &other, 1, (off_t)at), 1);
			takes = exec_file_kind(path) == EXEC_LOADER;
			taken += takes;
			left += !takes;
			assert_int_equal(pwrite(fd, &bytes[at], 1, (off_t)at), 1);
			close(fd);
		}
	}
	assert_true(taken && left);
	assert_true(time(NULL) - began < 30);
	assert_true(exec_file_kind(path) == EXEC_LOADER);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(takes_itself),	 cmocka_unit_test(leaves_others), cmocka_unit_test(follows_scripts),
		cmocka_unit_test(reads_headers), cmocka_unit_test(stands_damage),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
