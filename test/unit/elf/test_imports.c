/*
 * Words that the loader fills in with functions' addresses: the words found in libraries built in several ways are
 * compared with the libraries' memory; also without section headers, cut short, and for every CPU.
 *
 * MODULE_*: the libraries; CORPUS: the folder of the fuzzer's objects.
 */
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <link.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <calltap/abi/control.h>
#include <host/elf/imports.h>

static int open_file(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		fail_msg("%s: %s", path, strerror(errno));
	return fd;
}

static size_t read_all(const char *path, struct import_pointer **pointers)
{
	int fd = open_file(path);
	size_t count = 0;

	assert_int_equal(imports_read(pointers, &count, fd, imports_names(), CALLTAP_POINTERS_TO), 0);
	close(fd);
	return count;
}

static const struct import_pointer *find(const struct import_pointer *pointers, size_t count, const char *name)
{
	for (size_t i = 0; i < count; i++)
		if (!strcmp(imports_names()[pointers[i].name], name))
			return &pointers[i];
	return NULL;
}

static void names_are_complete(void **state)
{
	(void)state;
	assert_non_null(dlopen("libgcc_s.so.1", RTLD_NOW | RTLD_GLOBAL));
	for (size_t i = 0; i < CALLTAP_POINTERS_TO; i++) {
		assert_non_null(imports_names()[i]);
		/* libc, or the unwinder, has all others on every CPU. */
		if (i != CALLTAP_POINTER_MARK && i != CALLTAP_POINTER_MCOUNT && i != CALLTAP_POINTER__MCOUNT &&
		    !dlsym(RTLD_DEFAULT, imports_names()[i]))
			fail_msg("no function %s", imports_names()[i]);
	}
}

static const char *names_of(const struct link_map *map)
{
	const ElfW(Dyn) *entry = map->l_ld;

	while (entry->d_tag != DT_STRTAB)
		entry++;
	return (const char *)entry->d_un.d_ptr; /* relocated by the loader */
}

/* Each word holds the function's address now, or leads into the object until it is first called. */
static void check_memory(const struct link_map *map, const struct import_pointer *pointer, bool now)
{
	uintptr_t value = *(const uintptr_t *)(map->l_addr + pointer->address);
	uintptr_t wanted = (uintptr_t)dlsym(RTLD_DEFAULT, imports_names()[pointer->name]);
	const Elf64_Sym *symbol = (const Elf64_Sym *)(map->l_addr + pointer->symbol);
	Dl_info info;

	assert_string_equal(names_of(map) + symbol->st_name, imports_names()[pointer->name]);
	assert_int_equal(symbol->st_shndx != SHN_UNDEF, pointer->defined);
	if (value == wanted)
		return;
	if (now || !pointer->lazy)
		fail_msg("%s: %s is not in the word at %#lx", map->l_name, imports_names()[pointer->name],
			 (unsigned long)pointer->address);
	assert_true(dladdr((void *)value, &info) && (uintptr_t)info.dli_fbase == map->l_addr);
}

static void check_module(const char *path, bool now, bool plt)
{
	void *handle = dlopen(path, now ? RTLD_NOW : RTLD_LAZY);
	struct import_pointer *pointers;
	const struct link_map *map;
	size_t count;

	if (!handle || dlinfo(handle, RTLD_DI_LINKMAP, (void *)&map))
		fail_msg("%s: %s", path, dlerror());
	count = read_all(path, &pointers);
	for (size_t i = 0; i < count; i++)
		check_memory(map, &pointers[i], now);
	assert_int_equal(count, 4);
	assert_true(find(pointers, count, "longjmp")->lazy == plt);
	assert_false(find(pointers, count, "prctl")->lazy || find(pointers, count, "prctl")->defined);
	assert_ptr_equal(map->l_addr + find(pointers, count, "prctl")->address, dlsym(handle, "imports_data"));
	assert_false(find(pointers, count, "dl_iterate_phdr")->lazy);
	assert_true(find(pointers, count, "syscall")->defined);
	free(pointers);
	dlclose(handle);
}

static void modules(void **state)
{
	(void)state;
	check_module(MODULE_LAZY, false, true);
	check_module(MODULE_NOW, true, true);
	check_module(MODULE_NO_PLT, true, false);
}

static unsigned char *load(const char *path, size_t *size)
{
	int fd = open_file(path);
	struct stat stat;
	unsigned char *bytes;

	assert_int_equal(fstat(fd, &stat), 0);
	*size = (size_t)stat.st_size;
	bytes = malloc(*size);
	assert_non_null(bytes);
	assert_int_equal(pread(fd, bytes, *size, 0), *size);
	close(fd);
	return bytes;
}

static int read_bytes(const unsigned char *bytes, size_t size, size_t *count)
{
	struct import_pointer *pointers;
	int fd = memfd_create("object", MFD_CLOEXEC), ret;

	assert_int_equal(write(fd, bytes, size), size);
	ret = imports_read(&pointers, count, fd, imports_names(), CALLTAP_POINTERS_TO);
	free(pointers);
	close(fd);
	return ret;
}

static void without_sections(void **state)
{
	size_t size, count;
	unsigned char *bytes = load(MODULE_LAZY, &size);
	Elf64_Ehdr *header = (Elf64_Ehdr *)bytes;

	(void)state;
	header->e_shoff = 0;
	header->e_shnum = header->e_shstrndx = 0;
	assert_int_equal(read_bytes(bytes, size, &count), 0);
	assert_int_equal(count, 4);
	free(bytes);
}

/* Any prefix of a file is read without harm, and never says more than the whole. */
static void cut_short(void **state)
{
	size_t size, count;
	unsigned char *bytes = load(MODULE_LAZY, &size);

	(void)state;
	for (size_t part = 0; part < size; part += part < 0x600 ? 1 : 97) {
		int ret = read_bytes(bytes, part, &count);

		assert_true(ret == 0 || ret == -ENOEXEC);
		assert_true(count <= 4);
	}
	free(bytes);
}

static void other_cpus(void **state)
{
	static const char *const files[] = {"aarch64.so", "riscv64.so"};
	static const char *const names[] = {"never", "dlsym"};

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		struct import_pointer *pointers;
		char path[512];
		size_t count;
		int fd;

		snprintf(path, sizeof(path), CORPUS "/%s", files[i]);
		fd = open_file(path);
		assert_int_equal(imports_read(&pointers, &count, fd, names, 2), 0);
		assert_int_equal(count, 1);
		assert_int_equal(pointers[0].name, 1);
		assert_true(pointers[0].lazy && !pointers[0].defined);
		free(pointers);
		close(fd);
	}
}

static void no_object(void **state)
{
	static const unsigned char text[] = "#!/bin/sh\n";
	struct import_pointer *pointers;
	size_t count;
	int fd;

	(void)state;
	assert_int_equal(read_bytes(text, sizeof(text), &count), -ENOEXEC);
	fd = open_file(CORPUS "/relocatable");
	assert_int_equal(imports_read(&pointers, &count, fd, imports_names(), CALLTAP_POINTERS_TO), -ENOEXEC);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_are_complete), cmocka_unit_test(modules),    cmocka_unit_test(without_sections),
		cmocka_unit_test(cut_short),	      cmocka_unit_test(other_cpus), cmocka_unit_test(no_object),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
