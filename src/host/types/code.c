/*
 * The code of a function, from its object's file (impl.h).  Context: host.  The file is untrusted.
 */
#include <elf.h>
#include <unistd.h>

#include "impl.h"

#define SEGMENTS 64u

size_t code_read(int fd, uint64_t address, uint8_t *out, size_t size)
{
	Elf64_Phdr segments[SEGMENTS];
	Elf64_Ehdr head;
	size_t count;
	ssize_t got;

	if (fd < 0 || pread(fd, &head, sizeof(head), 0) != sizeof(head) || head.e_phentsize != sizeof(segments[0]) ||
	    head.e_phoff > INT64_MAX)
		return 0;
	count = head.e_phnum < SEGMENTS ? head.e_phnum : SEGMENTS;
	if (pread(fd, segments, count * sizeof(segments[0]), (off_t)head.e_phoff) !=
	    (ssize_t)(count * sizeof(segments[0])))
		return 0;
	for (size_t i = 0; i < count; i++) {
		uint64_t from = address - segments[i].p_vaddr;

		if (segments[i].p_type != PT_LOAD || address < segments[i].p_vaddr || from >= segments[i].p_filesz ||
		    segments[i].p_offset > INT64_MAX - from)
			continue;
		if (size > segments[i].p_filesz - from)
			size = (size_t)(segments[i].p_filesz - from);
		got = pread(fd, out, size, (off_t)(segments[i].p_offset + from));
		return got > 0 ? (size_t)got : 0;
	}
	return 0;
}
