/*
 * The emulator for a program of another CPU (emulator.h).  Context: host.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <host/elf/program.h>
#include <host/files.h>

#include "emulator.h"

#define PREFIX_VARIABLE "QEMU_LD_PREFIX" /* QEMU's own, the same as -L */

static int no_emulator(const struct machine *machine, struct calltap_diag *diag)
{
	return calltap_diag_set(
		diag, -ENODEV,
		"there is no %s here to run a program for %s; install it (apt-get install qemu-user-static), "
		"or name an emulator with --emulator",
		machine->emulator, machine->name);
}

/* A statically linked one is first: it cares for nothing in the environment that is meant for its program. */
static int find_qemu(struct emulator *emulator, const struct machine *machine, struct calltap_diag *diag)
{
	char name[64];

	snprintf(name, sizeof(name), "%s-static", machine->emulator);
	if (program_find(&emulator->path, name, false, diag) &&
	    program_find(&emulator->path, machine->emulator, false, diag))
		return no_emulator(machine, diag);
	emulator->words[emulator->count++] = emulator->path;
	return 0;
}

/* A command with its options, separated by spaces. */
static int take_given(struct emulator *emulator, const char *given, struct calltap_diag *diag)
{
	char *rest;

	emulator->text = strdup(given);
	if (!emulator->text)
		return calltap_diag_set(diag, -ENOMEM, "not enough memory");
	for (char *word = strtok_r(emulator->text, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
		if (emulator->count >= EMULATOR_WORDS)
			return calltap_diag_set(diag, -E2BIG, "the emulator's command has more than %d words",
						EMULATOR_WORDS);
		emulator->words[emulator->count++] = word;
	}
	if (!emulator->count)
		return calltap_diag_set(diag, -ENODEV, "--emulator wants a command, such as 'qemu-aarch64 -cpu max'");
	return program_find(&emulator->path, emulator->words[0], false, diag) ? -ENODEV : 0;
}

static bool is_folder(const char *path)
{
	struct stat st;

	return !stat(path, &st) && S_ISDIR(st.st_mode);
}

/* Where Debian's and Ubuntu's cross compilers have the libraries, unless we are told otherwise. */
static int choose_sysroot(struct emulator *emulator, const struct machine *machine)
{
	for (size_t i = 1; i + 1 < emulator->count; i++)
		if (!strcmp(emulator->words[i], "-L")) {
			emulator->sysroot = emulator->words[i + 1];
			return 0;
		}
	emulator->sysroot = getenv(PREFIX_VARIABLE);
	if (emulator->sysroot)
		return 0;
	if (asprintf(&emulator->sysroot_text, "/usr/%s", machine->triplet) < 0) {
		emulator->sysroot_text = NULL;
		return -ENOMEM;
	}
	if (is_folder(emulator->sysroot_text))
		emulator->sysroot = emulator->sysroot_text;
	return 0;
}

/*
 * QEMU with plugins counts the threads of a forked child on from its parent's,
 * but looks for the number in a table that still has the parent's, and aborts
 * (seen in 7.2; plugins/core.c, qemu_plugin_vcpu_init_hook).  Its static
 * builds have no plugins.
 */
static bool has_plugins(const char *path)
{
	static const char name[] = "qemu_plugin_vcpu_init_hook";
	int fd = files_open(path);
	struct stat st;
	void *file = MAP_FAILED;
	bool found;

	if (fd >= 0 && !fstat(fd, &st) && st.st_size)
		file = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (fd >= 0)
		close(fd);
	if (file == MAP_FAILED)
		return false;
	found = memmem(file, (size_t)st.st_size, name, strlen(name)) != NULL;
	munmap(file, (size_t)st.st_size);
	return found;
}

int emulator_find(struct emulator *emulator, const struct machine *machine, const char *given,
		  struct calltap_diag *diag)
{
	int ret;

	*emulator = (struct emulator){0};
	ret = given ? take_given(emulator, given, diag) : find_qemu(emulator, machine, diag);
	if (!ret && choose_sysroot(emulator, machine))
		ret = calltap_diag_set(diag, -ENOMEM, "not enough memory");
	if (!ret)
		emulator->kills_forks = has_plugins(emulator->path);
	return ret;
}

void emulator_destroy(struct emulator *emulator)
{
	free(emulator->path);
	free(emulator->text);
	free(emulator->sysroot_text);
	*emulator = (struct emulator){0};
}

char *emulator_host_path(const struct emulator *emulator, const char *path)
{
	char *inside;

	if (!emulator->sysroot || path[0] != '/')
		return strdup(path);
	if (asprintf(&inside, "%s%s", emulator->sysroot, path) < 0)
		return NULL;
	if (!access(inside, F_OK))
		return inside;
	free(inside);
	return strdup(path);
}

static size_t length_of(const char *const *list)
{
	size_t count = 0;

	while (list && list[count])
		count++;
	return count;
}

char **emulator_command(const struct emulator *emulator, const char *path, char *const *arguments,
			const char *const *variables)
{
	size_t arguments_count = length_of((const char *const *)arguments), at = 0;
	char **line = calloc(emulator->count + 2 + 2 * length_of(variables) + 3 + arguments_count + 1, sizeof(*line));

	if (!line)
		return NULL;
	for (size_t i = 0; i < emulator->count; i++)
		line[at++] = (char *)emulator->words[i];
	if (emulator->sysroot && emulator->sysroot == emulator->sysroot_text) {
		line[at++] = "-L";
		line[at++] = (char *)emulator->sysroot;
	}
	for (size_t i = 0; variables && variables[i]; i++) {
		line[at++] = "-E";
		line[at++] = (char *)variables[i];
	}
	if (strcmp(path, arguments[0]) != 0) {
		line[at++] = "-0";
		line[at++] = arguments[0];
	}
	line[at++] = (char *)path;
	for (size_t i = 1; i < arguments_count; i++)
		line[at++] = arguments[i];
	return line;
}

char *emulator_text(const struct emulator *emulator)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	if (!out)
		return NULL;
	for (size_t i = 0; i < emulator->count; i++)
		fprintf(out, "%s%s", i ? " " : "", emulator->words[i]);
	if (emulator->sysroot && emulator->sysroot == emulator->sysroot_text)
		fprintf(out, " -L %s", emulator->sysroot);
	if (fclose(out)) {
		free(text);
		return NULL;
	}
	return text;
}
