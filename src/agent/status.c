/*
 * Reading files of /proc in which the kernel tells facts about the process: numbers in lines of "Name: value", or in a
 * row behind blanks.
 *
 * Called by the agent's other files.  Context: control, on any thread.
 */
#include <fcntl.h>

#include <agent/agent.h>
#include <base/mem.h>
#include <base/sys.h>

bool agent_read_text(const char *path, char *text, size_t size)
{
	long fd = SYS(openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0, 0, 0), got;

	if (sys_failed(fd))
		return false;
	got = SYS(read, fd, text, size - 1, 0, 0, 0);
	sys_close((int)fd);
	if (sys_failed(got))
		return false;
	text[got] = 0;
	return true;
}

const char *agent_behind_name(const char *text)
{
	const char *behind = NULL;

	for (; *text; text++)
		if (*text == ')')
			behind = text + 1;
	return behind;
}

uint64_t agent_field(const char *text, unsigned field)
{
	uint64_t value = 0;

	for (unsigned at = 0; *text && at <= field; text++) {
		at += *text == ' ';
		if (at == field && *text >= '0' && *text <= '9')
			value = value * 10 + (uint64_t)(*text - '0');
	}
	return value;
}

uint32_t agent_number_after(const char *text, const char *name)
{
	size_t length = base_strlen(name);
	uint32_t value = 0;

	for (; *text; text++) {
		if (text[0] != '\n' || memcmp(text + 1, name, length) != 0)
			continue;
		for (text += 1 + length; *text == '\t' || *text == ' '; text++)
			;
		for (; *text >= '0' && *text <= '9'; text++)
			value = value * 10 + (uint32_t)(*text - '0');
		return value;
	}
	return 0;
}
