/*
 * Coverage for scripts/coverage.py, linked into the agent and every program of a separate build that nobody uses
 * otherwise.
 *
 * The compiler calls __sanitizer_cov_trace_pc() in each basic block (-fsanitize-coverage=trace-pc).  The function sets
 * a byte for the place of the call.  The bytes are in a file that is named by the object's build id and that all
 * processes map: so they add up, forks included, and outlive a kill -9.  The agent is freestanding, so this file is,
 * too.
 */
#include <elf.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include <arch.h>

/* Called by what the compiler puts into each function. */
void __sanitizer_cov_trace_pc(void);

extern const Elf64_Ehdr __ehdr_start __attribute__((visibility("hidden")));
extern const char etext[] __attribute__((visibility("hidden")));

static uint8_t *places; /* one per byte from the object's start to its code's end; NULL = not counted */

/* The build id of the object that this is linked into; NULL = none. */
static const uint8_t *build_id(uint32_t *size)
{
	const char *base = (const char *)&__ehdr_start;
	const Elf64_Phdr *segment = (const void *)(base + __ehdr_start.e_phoff), *text = segment;

	while (text->p_type != PT_LOAD)
		text++; /* the first one holds the header */
	base -= text->p_vaddr - text->p_offset;
	for (unsigned i = 0; i < __ehdr_start.e_phnum; i++, segment++) {
		const char *note = base + segment->p_vaddr, *end = note + segment->p_memsz;

		while (segment->p_type == PT_NOTE && note + sizeof(Elf64_Nhdr) <= end) {
			const Elf64_Nhdr *head = (const void *)note;
			const char *content = note + sizeof(*head) + ((head->n_namesz + 3) & ~3u);

			*size = head->n_descsz;
			if (head->n_type == NT_GNU_BUILD_ID)
				return (const uint8_t *)content;
			note = content + ((head->n_descsz + 3) & ~3u);
		}
	}
	return NULL;
}

static void __attribute__((constructor(101))) map_places(void)
{
	static const char digits[] = "0123456789abcdef", folder[] = COVERAGE_FOLDER "/";
	const long length = etext - (const char *)&__ehdr_start;
	char path[sizeof(folder) + 128];
	uint32_t size = 0, at = 0;
	const uint8_t *id = build_id(&size);
	long fd, got = -1;

	for (; at < sizeof(folder) - 1; at++)
		path[at] = folder[at];
	for (uint32_t i = 0; id && i < size && i < 32; i++) {
		path[at++] = digits[id[i] >> 4];
		path[at++] = digits[id[i] & 15];
	}
	path[at] = 0;
	fd = arch_syscall(SYS_openat, AT_FDCWD, (long)path, O_RDWR | O_CREAT | O_CLOEXEC, 0666, 0, 0);
	if (fd < 0)
		return; /* another root or user: the process is not counted */
	if (arch_syscall(SYS_ftruncate, fd, length, 0, 0, 0, 0) == 0)
		got = arch_syscall(SYS_mmap, 0, length, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (got > 0)
		places = (uint8_t *)got;
	arch_syscall(SYS_close, fd, 0, 0, 0, 0, 0);
}

void __sanitizer_cov_trace_pc(void)
{
	if (places)
		places[(const char *)__builtin_return_address(0) - (const char *)&__ehdr_start] = 1;
}
