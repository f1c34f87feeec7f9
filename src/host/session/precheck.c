/*
 * Before the command runs: is there anything to trace in it and its
 * libraries, and does every filter match something?
 *
 * The libraries are those that the program's own loader lists.  Context: host.
 */
#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <host/elf/advice.h>
#include <host/elf/libraries.h>
#include <host/elf/program.h>
#include <host/files.h>

#include "found.h"
#include "session.h"

/* The loader's command line: it runs under the program's emulator, if there is one. */
static char **list_command(const struct session *session, const char *loader, const char *path)
{
	char *const arguments[] = {(char *)loader, "--list", (char *)path, NULL};
	char **line;

	if (session->emulated)
		return emulator_command(&session->emulator, loader, arguments, NULL);
	line = malloc(sizeof(arguments));
	if (line)
		memcpy(line, arguments, sizeof(arguments));
	return line;
}

/* Whose libraries are looked at. */
struct looking {
	struct session *session;
	struct found *found;
};

static int consider_library(void *ctx, const char *listed)
{
	const struct looking *looking = ctx;
	char *library = emulator_host_path(&looking->session->emulator, listed);
	int fd = library ? files_open(library) : -1, ret = 0;

	if (fd >= 0) {
		ret = found_consider(looking->found, looking->session, fd, library, true);
		close(fd);
	}
	free(library);
	return ret;
}

static int consider_libraries(struct session *session, struct found *found, const char *loader, const char *path)
{
	char *program = session->emulated ? strdup(path) : libraries_program(path);
	char **argv = program ? list_command(session, loader, program) : NULL;
	int ret = -ENOMEM;

	if (argv)
		ret = libraries_list(session->emulated ? session->emulator.path : loader, argv, consider_library,
				     &(struct looking){session, found});
	free(argv);
	free(program);
	return ret;
}

/*
 * Will the kernel start it with more rights than we have?  Then the loader
 * takes nothing from the environment (AT_SECURE).
 */
static bool gains_rights(int fd)
{
	struct statvfs mount;
	struct stat st;

	if (fstat(fd, &st) || fstatvfs(fd, &mount) || mount.f_flag & ST_NOSUID ||
	    prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1)
		return false;
	return (st.st_mode & S_ISUID && st.st_uid != getuid()) ||
	       (st.st_mode & S_ISGID && st.st_mode & S_IXGRP && st.st_gid != getgid()) ||
	       (getuid() && fgetxattr(fd, "security.capability", NULL, 0) > 0);
}

/* Programs that the agent cannot get into. */
static int closed_to_us(struct session *session, const struct object *object, int fd, const char *path,
			struct calltap_diag *diag)
{
	if (object_is_static(object) && session->emulated)
		return calltap_diag_set(diag, -ENODATA,
					"%s is linked statically, and the agent gets in by the dynamic loader; "
					"link it dynamically to trace it",
					path);
	if (!session->emulated && gains_rights(fd))
		return calltap_diag_set(
			diag, -ENODATA,
			"%s runs with another user's rights (set-uid, set-gid or capabilities), and the "
			"loader lets no agent in there; trace a copy of it, which has no such rights",
			path);
	return object_is_static(object) ? placing_create(&session->placing, fd, path, session->agent, diag) : 0;
}

/* The user wants it run all the same. */
static int warn_user(struct calltap_diag *diag)
{
	calltap_diag_print(diag, stderr);
	fprintf(stderr, "calltap: it runs now, and nothing of it is traced\n");
	*diag = (struct calltap_diag){0};
	return 0;
}

/* Agents for other CPUs lie in folders beside our own. */
char *precheck_agent(const struct session *session, const struct machine *machine)
{
	const char *native = session->options->agent_path;
	const char *name = strrchr(native, '/') + 1;
	char *path;

	if (machine == machine_native())
		return strdup(native);
	return asprintf(&path, "%.*s%s/%s", (int)(name - native), native, machine->name, name) < 0 ? NULL : path;
}

/* The program's CPU decides how it runs, with which agent, and which other programs are recorded. */
static int take_machine(struct session *session, const struct object *object, const char *path,
			struct calltap_diag *diag)
{
	const struct machine *machine = machine_find(object_machine(object));
	int ret;

	if (!machine)
		return calltap_diag_set(diag, -ENODATA, "%s is for a CPU that cannot be recorded", path);
	session->machine = machine;
	session->emulated = machine != machine_native() || session->options->emulator;
	session->agent = precheck_agent(session, machine);
	if (!session->agent)
		return calltap_diag_set(diag, -ENOMEM, "not enough memory");
	if (access(session->agent, R_OK))
		return calltap_diag_set(diag, -ENODATA,
					"%s is for %s, and there is no %s; build Calltap where %s-gcc is found, or "
					"install its agent for that CPU",
					path, machine->name, session->agent, machine->triplet);
	if (!session->emulated)
		return 0;
	ret = emulator_find(&session->emulator, machine, session->options->emulator, diag);
	session->result->unrunnable = ret == -ENODEV;
	return ret;
}

static int no_loader(struct session *session, const char *path, const char *loader, int error,
		     struct calltap_diag *diag)
{
	session->result->unrunnable = true;
	if (session->emulated)
		return calltap_diag_set(diag, error,
					"cannot run %s: its loader %s: %s; install it (apt-get install %s), or say "
					"with QEMU_LD_PREFIX where the libraries for that CPU are",
					path, loader, strerror(-error), session->machine->package);
	return calltap_diag_set(diag, error, "cannot run %s: its loader %s: %s; install that, or link it anew", path,
				loader, strerror(-error));
}

static int look_into_libraries(struct session *session, struct found *found, const char *loader, const char *path,
			       struct calltap_diag *diag)
{
	char *host_path = emulator_host_path(&session->emulator, loader);
	int ret = !host_path ? -ENOMEM : access(host_path, X_OK) ? -errno : 0;

	/* The emulator looks for a program's loader in its folder, but not for a program. */
	if (!ret)
		ret = consider_libraries(session, found, host_path, path);
	free(host_path);
	if (ret == -ENOENT || ret == -EACCES)
		return no_loader(session, path, loader, ret, diag);
	return ret ? calltap_diag_set(diag, ret, "cannot list the libraries of %s: %s", path, strerror(-ret)) : 0;
}

static int look_into(struct session *session, struct found *found, int fd, const char *path, struct calltap_diag *diag)
{
	struct object *object = NULL;
	int ret = found_consider(found, session, fd, path, false);

	if (ret)
		return calltap_diag_set(diag, ret, "cannot read %s: %s", path, strerror(-ret));
	if (!found->count) {
		if (session->options->allow_no_sites && !session->options->emulator)
			return 0;
		/* Not an object: the reason is worth a second look.  An emulator would not run it. */
		ret = object_open(&object, fd, path, diag);
		object_close(object);
		return ret ? ret : -ENODATA;
	}
	object = found->objects[0];
	ret = take_machine(session, object, path, diag);
	if (ret)
		return ret;
	ret = closed_to_us(session, object, fd, path, diag);
	if (ret)
		return ret == -ENODATA && session->options->allow_no_sites ? warn_user(diag) : ret;
	if (object_interpreter(object))
		ret = look_into_libraries(session, found, object_interpreter(object), path, diag);
	if (!ret && found_decide(found, session))
		ret = calltap_diag_set(diag, -ENOMEM, "not enough memory");
	if (!ret)
		ret = found_check(found, session, session->options->command[0], 0, diag);
	return ret ? ret : found_match(found, session, session->options->command[0], diag);
}

const struct machine *precheck_machine(const struct session *session)
{
	const struct machine *machine = NULL;
	char *path = NULL;
	Elf64_Ehdr header;
	int fd = -1;

	if (!session->options->pid_count && !program_find(&path, session->options->command[0], false, NULL))
		fd = files_open(path);
	if (fd >= 0 && pread(fd, &header, sizeof(header), 0) == sizeof(header) &&
	    !memcmp(header.e_ident, ELFMAG, SELFMAG) && header.e_ident[EI_DATA] == ELFDATA2LSB)
		machine = machine_find(header.e_machine);
	if (fd >= 0)
		close(fd);
	free(path);
	return machine ? machine : machine_native();
}

int precheck_command(struct session *session, struct calltap_diag *diag)
{
	struct found found = {0};
	char *path = NULL;
	int fd, ret;

	session->machine = machine_native();
	ret = program_find(&path, session->options->command[0], false, diag);
	if (ret) {
		session->result->unrunnable = true;
		return ret;
	}
	fd = files_open(path);
	if (fd < 0) {
		ret = calltap_diag_set(diag, -ENODATA,
				       "%s cannot be read, so its functions are not known: %s; check its mode (chmod)",
				       path, strerror(-fd));
		if (session->options->allow_no_sites)
			ret = warn_user(diag);
	} else {
		ret = look_into(session, &found, fd, path, diag);
		close(fd);
	}
	found_clear(&found);
	session->program = path;
	session->images.machine = session->machine->id;
	return ret;
}
