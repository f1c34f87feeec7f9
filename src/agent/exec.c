/*
 * Programs that are executed with an environment that lacks the agent's variables: the agent stands in front of the
 * exec functions and posix_spawn(), and puts its variables back.  In the new program they are taken out again.
 *
 * Called on the program's threads in place of libc's functions, which do all the work: between vfork and exec too,
 * where the memory is the parent's, and in signal handlers.  So: raw system calls, a bounded stack, no memory of its
 * own, nothing written but on the stack (doc/design/loaderless.md).  Context: control.
 */
#include <elf.h>
#include <linux/prctl.h>
#include <stdarg.h>

#include <agent/agent.h>
#include <agent/libc.h>
#include <base/mem.h>
#include <base/sys.h>
#include <probe/thread.h>

#define ENTRIES_MAX  72u  /* variables of an environment that they are put back into, and a piece */
#define PIECE	     8u	  /* variables that are looked at together */
#define PATH_BYTES   512u /* of a program's path */
#define NAME_BYTES   16u  /* compared of a variable */
#define STAT_BYTES   1024u
#define SPAWN_E2BIG  7
#define SPAWN_ENOSYS 38

/* The order in an environment, behind all others. */
static const char *const names[EXEC_OWN] = {CALLTAP_ENV_PUT_BACK "=", "LD_PRELOAD=", CALLTAP_ENV_SESSION "=",
					    CALLTAP_ENV_FILTERS "="};

/* An environment with the agent's variables behind the program's. */
struct made {
	char *list[ENTRIES_MAX + EXEC_OWN + 1];
};

static bool begins(const char *text, const char *with)
{
	while (*with && *text == *with)
		text++, with++;
	return !*with;
}

/* True if the variable speaks neither of the agent nor to the loader. */
static bool is_others(const char *name)
{
	return !begins(name, CALLTAP_ENV_SESSION "=") && !begins(name, CALLTAP_ENV_PUT_BACK) &&
	       (!begins(name, "LD_") || begins(name, "LD_LIBRARY_PATH="));
}

/* True if so are all variables of a piece, which are read where there may be nothing. */
static bool are_others(char *const *variables, size_t count)
{
	char there[PIECE][NAME_BYTES], name[NAME_BYTES + 1] = "";
	uint64_t local[2] = {(uint64_t)there, count * NAME_BYTES}, remote[PIECE][2];

	for (size_t i = 0; i < count; i++) {
		remote[i][0] = (uint64_t)variables[i];
		remote[i][1] = NAME_BYTES;
	}
	if (count && SYS(process_vm_readv, sys_gettid(), local, 1, remote, count, 0) != (long)(count * NAME_BYTES))
		return false;
	for (size_t i = 0; i < count; i++) {
		memcpy(name, there[i], NAME_BYTES);
		if (!is_others(name))
			return false;
	}
	return true;
}

_Static_assert(sizeof("LD_LIBRARY_PATH=") - 1 == NAME_BYTES, "it is read as a whole");
_Static_assert(sizeof(CALLTAP_ENV_SESSION "=") - 1 <= NAME_BYTES, "so is this");

/* Read the next pointers of an environment, up to its NULL: how many; a piece, and no more than is sure to be there. */
static bool read_piece(char **to, char *const *from, size_t *count)
{
	size_t sure = (CALLTAP_PAGE - (uint64_t)from % CALLTAP_PAGE) / sizeof(*from), i = 0;

	sure = !sure ? 1 : sure < PIECE ? sure : PIECE;
	if (!sys_copy_in(to, (uint64_t)from, sure * sizeof(*from)))
		return false;
	while (i < sure && to[i])
		i++;
	*count = i;
	return true;
}

/* Make the environment with the agent's variables; false: it has them, has too many of its own, or cannot be read. */
static bool make(struct made *made, char *const *environment)
{
	size_t count = 0, piece = 0;

	do {
		count += piece;
		if (count > ENTRIES_MAX - PIECE)
			return false;
		piece = 0;
		if (environment && (!read_piece(&made->list[count], &environment[count], &piece) ||
				    !are_others(&made->list[count], piece)))
			return false;
	} while (piece);
	for (size_t i = 0; i < EXEC_OWN; i++)
		made->list[count++] = agent.variables.texts[i];
	made->list[count] = NULL;
	return true;
}

static const char *agent_path(void)
{
	return agent.variables.texts[1] + base_strlen(names[1]);
}

/* True if a program that this process executes may have the agent, as far as its rights go. */
static bool may_have_agent(void)
{
	/* Under a filter of its own any call may be the program's end; with other rights its loader is on its guard. */
	return !agent.attached && !agent.emulated && !agent.filtered && !probe_context.shared.quiet &&
	       SYS(getuid, 0, 0, 0, 0, 0, 0) == SYS(geteuid, 0, 0, 0, 0, 0, 0) &&
	       SYS(getgid, 0, 0, 0, 0, 0, 0) == SYS(getegid, 0, 0, 0, 0, 0, 0);
}

static bool may_follow(void)
{
	return probe_context.enabled && may_have_agent();
}

/* True if the agent may come by the environment. */
static bool may_put_back(void)
{
	return agent.variables.known && may_follow();
}

/* True if the file at the path is to be executed with `made`. */
static bool put_back(struct made *made, const char *path, char *const *environment)
{
	return may_put_back() && make(made, environment) && exec_file_kind(path) == EXEC_LOADER &&
	       exec_file_opens(agent_path());
}

/*
 * True if the environment asks for the agent, and the program cannot have it: then the one below is to be handed on. So
 * it is also where the agent has given up.  In another network namespace a program has the agent, which finds no tool.
 */
static bool is_hidden(const char *path, char *const *environment, struct exec_preload *found)
{
	if (agent.other_net && probe_context.enabled)
		probe_note(CALLTAP_NOTE_NET);
	return agent.variables.known && may_have_agent() && exec_hidden_find(environment, agent_path(), path, found);
}

/* The environment without the agent, in the calling function's frame: it is wanted until that returns. */
#define WITHOUT(environment, found)                                                                                    \
	exec_hidden_without(environment, agent_path(), found, __builtin_alloca(((found)->count + 1) * sizeof(char *)), \
			    __builtin_alloca((found)->length + 1))

/* libc looks for programs in the folders of its own environment's PATH. */
static const char *search_path(void)
{
	char *const *environment = &environ ? environ : NULL;

	for (; environment && *environment; environment++)
		if (begins(*environment, "PATH="))
			return *environment + sizeof("PATH=") - 1;
	return "/bin:/usr/bin";
}

/* Write the path of the file in the first folder of the list; false: it is too long. */
static bool join(char path[PATH_BYTES], const char *folders, const char *file)
{
	size_t at = 0;

	for (; *folders && *folders != ':' && at < PATH_BYTES - 1; folders++)
		path[at++] = *folders;
	if (at && at < PATH_BYTES - 1)
		path[at++] = '/';
	for (; *file && at < PATH_BYTES - 1; file++)
		path[at++] = *file;
	path[at] = 0;
	return !*file && at < PATH_BYTES - 1;
}

static bool has_slash(const char *file)
{
	while (*file && *file != '/')
		file++;
	return *file == '/';
}

/* The file that libc finds, which looks in folders for one without a slash; NULL: none. */
static const char *find(char path[PATH_BYTES], const char *file)
{
	if (has_slash(file))
		return file;
	if (!*file || !may_put_back())
		return NULL;
	for (const char *folders = search_path();; folders++) {
		if (!join(path, folders, file))
			return NULL;
		if (!sys_failed(SYS(faccessat, -100 /* AT_FDCWD */, path, 1 /* X_OK */, 0, 0, 0)))
			return path;
		while (*folders && *folders != ':')
			folders++;
		if (!*folders)
			return NULL;
	}
}

/* Whether the tool holds this thread, which is about to execute a static program, or to spawn one. */
static enum exec_hold ask(const char *path, bool spawns)
{
	return path && may_follow() ? exec_static_ask(path, spawns) : EXEC_LEFT;
}

/* A call of libc's has come back: a tool that still holds the thread, as it has executed nothing, lets go. */
static int come_back(enum exec_hold hold, int ret)
{
	exec_static_over(hold, !ret);
	return ret;
}

/*
 * Each function below tries with the agent's variables where they are to be put back.  A program that runs comes not
 * back. One that does not is left to libc as the caller wanted it, whose error the caller gets.
 */
int execve(const char *path, char *const *arguments, char *const *environment)
{
	struct exec_preload found;
	struct made made;
	enum exec_hold hold;

	if (!agent.next_execve)
		return -1;
	if (is_hidden(path, environment, &found))
		return agent.next_execve(path, arguments, WITHOUT(environment, &found));
	if (put_back(&made, path, environment))
		(void)agent.next_execve(path, arguments, made.list);
	hold = ask(path, false);
	return come_back(hold, agent.next_execve(path, arguments, environment));
}

int execv(const char *path, char *const *arguments)
{
	struct exec_preload found;
	struct made made;
	enum exec_hold hold;

	if (!agent.next_execv)
		return -1;
	if (agent.next_execve && &environ && is_hidden(path, environ, &found))
		return agent.next_execve(path, arguments, WITHOUT(environ, &found));
	if (agent.next_execve && &environ && put_back(&made, path, environ))
		(void)agent.next_execve(path, arguments, made.list);
	hold = ask(path, false);
	return come_back(hold, agent.next_execv(path, arguments));
}

int execvpe(const char *file, char *const *arguments, char *const *environment)
{
	char there[PATH_BYTES];
	struct exec_preload found;
	const char *path;
	struct made made;
	enum exec_hold hold;

	if (!agent.next_execvpe)
		return -1;
	path = find(there, file);
	if (is_hidden(path, environment, &found))
		return agent.next_execvpe(file, arguments, WITHOUT(environment, &found));
	if (path && put_back(&made, path, environment))
		(void)agent.next_execvpe(file, arguments, made.list);
	hold = ask(path, false);
	return come_back(hold, agent.next_execvpe(file, arguments, environment));
}

int execvp(const char *file, char *const *arguments)
{
	char there[PATH_BYTES];
	struct exec_preload found;
	const char *path;
	struct made made;
	enum exec_hold hold;

	if (!agent.next_execvp)
		return -1;
	path = find(there, file);
	if (agent.next_execvpe && &environ && is_hidden(path, environ, &found))
		return agent.next_execvpe(file, arguments, WITHOUT(environ, &found));
	if (path && agent.next_execvpe && &environ && put_back(&made, path, environ))
		(void)agent.next_execvpe(file, arguments, made.list);
	hold = ask(path, false);
	return come_back(hold, agent.next_execvp(file, arguments));
}

/* The number of arguments behind the first, as libc counts them. */
static size_t count_arguments(va_list *list)
{
	size_t count = 0;

	while (va_arg(*list, char *))
		count++;
	return count;
}

/* The first argument, `count` more, and the NULL; `list` is behind that then. */
static void take_arguments(char **to, const char *first, va_list *list, size_t count)
{
	*to++ = (char *)first;
	for (size_t i = 0; i <= count; i++)
		*to++ = va_arg(*list, char *);
}

int execl(const char *path, const char *first, ...)
{
	va_list list;
	char **arguments;
	size_t count;

	va_start(list, first);
	count = count_arguments(&list);
	va_end(list);
	arguments = __builtin_alloca((count + 2) * sizeof(*arguments)); /* as libc has it */
	va_start(list, first);
	take_arguments(arguments, first, &list, count);
	va_end(list);
	return execv(path, arguments);
}

int execlp(const char *file, const char *first, ...)
{
	va_list list;
	char **arguments;
	size_t count;

	va_start(list, first);
	count = count_arguments(&list);
	va_end(list);
	arguments = __builtin_alloca((count + 2) * sizeof(*arguments)); /* as libc has it */
	va_start(list, first);
	take_arguments(arguments, first, &list, count);
	va_end(list);
	return execvp(file, arguments);
}

int execle(const char *path, const char *first, ...)
{
	char *const *environment;
	va_list list;
	char **arguments;
	size_t count;

	va_start(list, first);
	count = count_arguments(&list);
	va_end(list);
	arguments = __builtin_alloca((count + 2) * sizeof(*arguments)); /* as libc has it */
	va_start(list, first);
	take_arguments(arguments, first, &list, count);
	environment = va_arg(list, char *const *);
	va_end(list);
	return execve(path, arguments, environment);
}

/* An action may change the working directory, from which the path is looked for then. */
static bool may_move(const void *actions, const char *path)
{
	return actions && *path != '/' && has_slash(path);
}

/*
 * The file was found, so what is wrong with the agent's variables can only be their size.  Any other error is the
 * program's: its file actions must not be done twice.
 */
int posix_spawn(int *pid, const char *path, const void *actions, const void *attributes, char *const *arguments,
		char *const *environment)
{
	struct exec_preload found;
	struct made made;
	int error = SPAWN_E2BIG;
	enum exec_hold hold;

	if (!agent.next_spawn)
		return SPAWN_ENOSYS;
	if (is_hidden(may_move(actions, path) ? NULL : path, environment, &found))
		return agent.next_spawn(pid, path, actions, attributes, arguments, WITHOUT(environment, &found));
	if ((!actions || *path == '/') && put_back(&made, path, environment))
		error = agent.next_spawn(pid, path, actions, attributes, arguments, made.list);
	if (error != SPAWN_E2BIG)
		return error;
	hold = ask(path, true);
	return come_back(hold, agent.next_spawn(pid, path, actions, attributes, arguments, environment));
}

int posix_spawnp(int *pid, const char *file, const void *actions, const void *attributes, char *const *arguments,
		 char *const *environment)
{
	char there[PATH_BYTES];
	struct exec_preload found;
	int error = SPAWN_E2BIG;
	const char *path;
	struct made made;
	enum exec_hold hold;

	if (!agent.next_spawnp)
		return SPAWN_ENOSYS;
	path = find(there, file);
	if (is_hidden(may_move(actions, file) ? NULL : path, environment, &found))
		return agent.next_spawnp(pid, file, actions, attributes, arguments, WITHOUT(environment, &found));
	if (path && !may_move(actions, file) && put_back(&made, path, environment))
		error = agent.next_spawnp(pid, file, actions, attributes, arguments, made.list);
	if (error != SPAWN_E2BIG)
		return error;
	hold = ask(path, true);
	return come_back(hold, agent.next_spawnp(pid, file, actions, attributes, arguments, environment));
}

/* The path by which the loader has found the agent. */
static const char *own_path(void)
{
	const struct link_map *map = agent.loader && !agent.placed ? agent.loader->r_map : NULL;

	while (map && map->l_ld != own_dynamic)
		map = map->l_next;
	return map && map->l_name && map->l_name[0] == '/' ? map->l_name : NULL;
}

static bool is_same(const char *a, const char *b)
{
	return begins(a, b) && !a[base_strlen(b)];
}

/* Where the agent's variables begin that an agent has put back; NULL: none has. */
static char **find_put_back(char **environment)
{
	const char *path;

	for (; *environment; environment++)
		if (begins(*environment, names[0]))
			break;
	for (size_t i = 0; i < EXEC_OWN; i++)
		if (!environment[i] || !begins(environment[i], names[i]))
			return NULL;
	path = own_path();
	return environment[EXEC_OWN] || !path || !is_same(environment[1] + base_strlen(names[1]), path) ? NULL
													: environment;
}

/*
 * The environment ends before them, and what the kernel tells is found behind it by who goes on to there: two entries
 * that say nothing take their place.
 */
static void take_out(char **from)
{
	static const uint64_t nothing[EXEC_OWN] = {AT_IGNORE, 0, AT_IGNORE, 0};

	for (size_t i = 0; i < EXEC_OWN; i++)
		memset(from[i], 0, base_strlen(from[i]));
	from[0] = NULL;
	memcpy(from + 1, nothing, sizeof(nothing));
}

/* The number in the n-th field (from 1) of /proc/PID/stat, of which this is the part behind the name. */
static uint64_t stat_field(const char *text, unsigned n)
{
	return agent_field(text, n - 2);
}

/*
 * /proc/PID/environ ends where the kernel has noted it: let that be where the variables began.  The kernel takes all
 * that it has noted of the kind, or nothing; the rest is what it has told (Linux, kernel/sys.c,
 * validate_prctl_map_addr()). Where it does not take it, zeros are left there.
 */
static void shorten(uint64_t begin, uint64_t end)
{
	char text[STAT_BYTES];
	const char *rest =
		agent_read_text("/proc/thread-self/stat", text, sizeof(text)) ? agent_behind_name(text) : NULL;
	struct prctl_mm_map map = {.exe_fd = ~0u};

	if (!rest || stat_field(rest, 51) != end || stat_field(rest, 50) > begin)
		return;
	map.start_code = stat_field(rest, 26);
	map.end_code = stat_field(rest, 27);
	map.start_stack = stat_field(rest, 28);
	map.start_data = stat_field(rest, 45);
	map.end_data = stat_field(rest, 46);
	map.start_brk = stat_field(rest, 47);
	map.arg_start = stat_field(rest, 48);
	map.arg_end = stat_field(rest, 49);
	map.env_start = stat_field(rest, 50);
	map.env_end = begin;
	map.brk = (uint64_t)SYS(brk, 0, 0, 0, 0, 0, 0);
	SYS(prctl, PR_SET_MM, PR_SET_MM_MAP, &map, sizeof(map), 0, 0);
}

void exec_environment_clean(char **environment, bool calls)
{
	char **from = environment ? find_put_back(environment) : NULL;
	uint64_t begin, end;

	if (!from)
		return;
	begin = (uint64_t)from[0];
	end = (uint64_t)from[EXEC_OWN - 1] + base_strlen(from[EXEC_OWN - 1]) + 1;
	agent.put_back = 1;
	take_out(from);
	if (calls)
		shorten(begin, end);
}

static bool write_text(uint32_t i, const char *value)
{
	char *text = agent.variables.texts[i];
	size_t length = base_strlen(names[i]);

	if (length + base_strlen(value) >= EXEC_TEXT_MAX)
		return false;
	memcpy(text, names[i], length);
	memcpy(text + length, value, base_strlen(value) + 1);
	return true;
}

void exec_variables_note(const char *session, const char *filters)
{
	const char *path = own_path();

	agent.variables.known = path && write_text(0, "1") && write_text(1, path) && write_text(2, session) &&
				write_text(3, filters ? filters : "0");
}

void agent_exec_init(void)
{
	agent.next_execve = (agent_execve_fn *)agent_next("execve");
	agent.next_execv = (agent_execv_fn *)agent_next("execv");
	agent.next_execvp = (agent_execv_fn *)agent_next("execvp");
	agent.next_execvpe = (agent_execve_fn *)agent_next("execvpe");
	agent.next_spawn = (agent_spawn_fn *)agent_next("posix_spawn");
	agent.next_spawnp = (agent_spawn_fn *)agent_next("posix_spawnp");
}
