/*
 * Programs that cannot have the agent, though the environment asks for it: it cannot be seen from where they are (in
 * another root, or as something was mounted over it), or they are 32-bit ones.  Their loader would complain of it on
 * the program's stderr.
 *
 * The program gets an environment that does not ask for the agent, and runs untraced, as do those that it executes; the
 * tool tells of it (CALLTAP_NOTE_HIDDEN, _NARROW).  Called by exec.c, on the program's thread, also between vfork and
 * exec and in signal handlers: raw system calls, and no memory but what the caller hands in.  Context: control.
 */
#include <agent/agent.h>
#include <agent/exec.h>
#include <base/mem.h>
#include <base/sys.h>
#include <probe/thread.h>

#define ENTRIES_MAX 8192u
#define TEXT_MAX    4096u
#define AT_FDCWD    -100
#define R_OK	    4

static const char name[] = "LD_PRELOAD=";

/* How many bytes from the address on are on one page, `most` at the most: if one can be read, all can. */
static size_t sure_from(uint64_t address, size_t most)
{
	size_t sure = CALLTAP_PAGE - address % CALLTAP_PAGE;

	return sure < most ? sure : most;
}

/* Copy the pointer out of an environment, which may lie where nothing is. */
static bool read_entry(char *const *environment, size_t i, const char **text)
{
	return sys_copy_in(text, (uint64_t)&environment[i], sizeof(*text));
}

static bool is_preload(const char *text)
{
	char there[sizeof(name) - 1];
	size_t sure = sure_from((uint64_t)text, sizeof(there));

	if (!sys_copy_in(there, (uint64_t)text, sure) || memcmp(there, name, sure) != 0)
		return false;
	return sure == sizeof(there) || (sys_copy_in(there + sure, (uint64_t)text + sure, sizeof(there) - sure) &&
					 !memcmp(there, name, sizeof(there)));
}

/* The length of a text that is there as a whole; 0 = it is not, or is too long. */
static size_t length_of(const char *text)
{
	char there[64];
	size_t length = 0, sure;

	while (length < TEXT_MAX) {
		sure = sure_from((uint64_t)text + length, sizeof(there));
		if (!sys_copy_in(there, (uint64_t)text + length, sure))
			return 0;
		for (size_t i = 0; i < sure; i++)
			if (!there[i])
				return length + i;
		length += sure;
	}
	return 0;
}

static bool is_between(char c)
{
	return c == ':' || c == ' ' || !c;
}

/* The agent's path as an element of the list; NULL = it is none. */
static const char *find_path(const char *list, const char *path)
{
	size_t length = base_strlen(path);

	for (const char *at = list; *at; at++)
		if ((at == list || is_between(at[-1])) && base_strlen(at) >= length && !memcmp(at, path, length) &&
		    is_between(at[length]))
			return at;
	return NULL;
}

/* Why the program cannot have the agent; 0: it can. */
static uint32_t why_not(const char *own, const char *program)
{
	if (SYS(faccessat, AT_FDCWD, own, R_OK, 0, 0, 0) != 0)
		return CALLTAP_NOTE_HIDDEN;
	return program && exec_file_is_narrow(program) ? CALLTAP_NOTE_NARROW : 0;
}

bool exec_hidden_find(char *const *environment, const char *own, const char *program, struct exec_preload *found)
{
	const char *text;

	*found = (struct exec_preload){.at = ENTRIES_MAX};
	if (!environment)
		return false;
	found->why = why_not(own, program);
	for (; found->why; found->count++) {
		if (found->count == ENTRIES_MAX || !read_entry(environment, found->count, &text))
			return false;
		if (!text)
			break;
		if (found->at == ENTRIES_MAX && is_preload(text)) {
			found->at = found->count;
			found->length = length_of(text);
		}
	}
	return found->at < ENTRIES_MAX && found->length && find_path(environment[found->at] + sizeof(name) - 1, own);
}

char *const *exec_hidden_without(char *const *environment, const char *own, const struct exec_preload *found,
				 char **list, char *text)
{
	const char *old = environment[found->at], *from = find_path(old + sizeof(name) - 1, own);
	size_t before = (size_t)(from - old), length = base_strlen(own), count = 0;

	memcpy(text, old, before);
	length += from[length] != 0;			    /* what is between it and the next one */
	before -= !old[before + length] && from[-1] != '='; /* or between it and the last one */
	memcpy(text + before, from + length, found->length - (size_t)(from - old) - length + 1);
	for (size_t i = 0; i < found->count; i++)
		if (i != found->at)
			list[count++] = environment[i];
		else if (text[sizeof(name) - 1])
			list[count++] = text;
	list[count] = NULL;
	probe_note(found->why);
	return list;
}
