/*
 * Putting the agent into a static program (placing.h).  Context: host.
 *
 * All that the agent takes lies in one piece of memory near the program:
 *
 *     the agent's image            relocated by the tool (attach/image.c)
 *     struct calltap_start, code   what the agent is told; how the thread calls it and goes on
 *     a region of blocks           for the functions that the agent stands in front of
 *
 * Such a function's head leads to its block, whose site leads to the agent's function; what the agent has as the
 * function behind is the block behind its site: the moved head, and the jump back.
 */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <calltap/abi/control.h>
#include <calltap/abi/start.h>
#include <host/elf/object.h>
#include <host/stock/stock.h>

#include "placing.h"

#define PAGE	  4096ull
#define CODE_OFF  2048u		/* of the code, in the page of struct calltap_start */
#define LOW	  (1ull << 31)	/* a program below this is one for a fixed address, behind which its heap grows */
#define LOW_PLACE 0x61000000ull /* above the place of blocks (target/place.c) */
#define BELOW	  (64ull << 20) /* from the agent's place to the program, at the least: for stubs and blocks */
#define STEP	  (16ull << 20)
#define TRIES	  16u

#define FILE_NAME	"libcalltap-agent.so" /* as errand.S has it */
#define FILE_NAME_BELOW 1024u		      /* of the stack pointer: nothing is there */

#ifndef MFD_EXEC
#define MFD_EXEC 0x10u
#endif

_Static_assert(sizeof(struct calltap_start) <= CODE_OFF && CODE_OFF + NATIVE_LAUNCH_MAX <= PAGE, "one page");
_Static_assert(FRONTS_MAX <= CALLTAP_START_FUNCTIONS, "all of them have room");

static uint64_t page_up(uint64_t value)
{
	return (value + PAGE - 1) & ~(PAGE - 1);
}

static bool has_version(const struct agent_image *image, const char *name, uint32_t wanted)
{
	uint64_t at = agent_image_symbol(image, name);
	uint32_t version;

	if (!at || at > image->size - sizeof(version))
		return false;
	memcpy(&version, image->bytes + at, sizeof(version));
	return version == wanted;
}

static bool is_of_this_build(const struct agent_image *image)
{
	return has_version(image, "calltap_agent_version", CALLTAP_ABI_VERSION) &&
	       has_version(image, "calltap_agent_start_version", CALLTAP_START_VERSION);
}

static int read_agent(struct placing *placing, const char *agent_path, struct calltap_diag *diag)
{
	int folder = (int)(strrchr(agent_path, '/') + 1 - agent_path), ret;
	char *path;

	if (asprintf(&path, "%.*slibcalltap-agent-static.so", folder, agent_path) < 0)
		return calltap_diag_set(diag, -ENOMEM, "not enough memory");
	ret = agent_image_read(&placing->image, path);
	if (!ret)
		ret = agent_image_relocate(&placing->image, 0);
	if (!ret && !is_of_this_build(&placing->image))
		ret = -EPROTO;
	if (ret)
		ret = calltap_diag_set(diag, ret, "cannot read %s: %s; install Calltap anew", path, strerror(-ret));
	free(path);
	return ret;
}

int placing_create(struct placing **out, int fd, const char *path, const char *agent_path, struct calltap_diag *diag)
{
	const char *refusal = native_launch_refusal();
	struct placing *placing;
	Elf64_Ehdr header;
	int ret;

	*out = NULL;
	if (refusal)
		return calltap_diag_set(diag, -ENODATA, "%s is linked statically: %s; link it dynamically to trace it",
					path, refusal);
	placing = calloc(1, sizeof(*placing));
	if (!placing)
		return calltap_diag_set(diag, -ENOMEM, "not enough memory");
	ret = object_open(&placing->object, fd, path, diag);
	if (!ret && pread(fd, &header, sizeof(header), 0) != sizeof(header))
		ret = calltap_diag_set(diag, -EIO, "cannot read %s", path);
	if (!ret)
		ret = fronts_find(&placing->fronts, placing->object, diag);
	if (!ret)
		ret = read_agent(placing, agent_path, diag);
	if (ret) {
		placing_destroy(placing);
		return ret;
	}
	placing->entry = header.e_entry;
	*out = placing;
	return 0;
}

void placing_destroy(struct placing *placing)
{
	if (!placing)
		return;
	object_close(placing->object);
	agent_image_free(&placing->image);
	free(placing);
}

/* A block for each head; two functions may have one. */
int placing_lay_out(struct placing_made *made, const struct placing *placing)
{
	const struct fronts *fronts = &placing->fronts;
	int ret;

	for (size_t i = 0; i < fronts->count; i++)
		if (!i || fronts->list[i].head != fronts->list[i - 1].head)
			made->blocks[made->block_count++] = (struct stock_block){
				.head = fronts->list[i].head,
				.length = fronts->list[i].length,
			};
	ret = stock_layout(&made->layout, object_stock(placing->object), made->blocks, made->block_count);
	made->size = page_up(placing->image.size) + PAGE + page_up(made->layout.size);
	return ret;
}

void placing_candidate(uint64_t *at, const struct placing *placing, const struct placing_made *made, unsigned try)
{
	uint64_t lo, hi;

	object_extent(placing->object, &lo, &hi);
	lo += made->base;
	hi += made->base;
	*at = hi < LOW ? LOW_PLACE + try * STEP : ((lo - BELOW - made->size) & ~(PAGE - 1)) - try * STEP;
}

static const struct stock_block *block_of(const struct placing_made *made, const struct front *front)
{
	for (size_t i = 0; i < made->block_count; i++)
		if (made->blocks[i].head == front->head)
			return &made->blocks[i];
	return NULL;
}

/* Map the file where a jump from the program reaches it. */
static int map_near(struct placing_made *made, const struct placing *placing, struct attach_launch *launch, int64_t fd)
{
	int64_t got = -ENOMEM;

	for (unsigned i = 0; i < TRIES; i++) {
		uint64_t flags = MAP_PRIVATE | MAP_FIXED_NOREPLACE;
		uint64_t arguments[] = {0, made->size, PROT_READ | PROT_WRITE, flags, (uint64_t)fd, 0};

		placing_candidate(&arguments[0], placing, made, i);
		got = attach_launch_call(launch, SYS_mmap, arguments);
		if (got == (int64_t)arguments[0])
			break;
		if (got != -EEXIST && got < 0)
			return (int)got;
		if (got > 0) { /* an older kernel's hint */
			const uint64_t unmap[6] = {(uint64_t)got, made->size};

			if (attach_launch_call(launch, SYS_munmap, unmap))
				return -ENOMEM;
			got = -EEXIST;
		}
	}
	if (got < 0)
		return (int)got;
	made->at = (uint64_t)got;
	return 0;
}

/* A file in memory of the name that the tool knows an agent by: the program's descriptor, or -errno. */
static int64_t make_file(struct attach_launch *launch)
{
	const char name[] = FILE_NAME;
	uint64_t at = native_sp(&launch->regs) - FILE_NAME_BELOW;
	uint64_t make[6] = {at, MFD_CLOEXEC | MFD_EXEC};
	char before[sizeof(name)];
	int64_t fd;

	if (attach_launch_read(launch, at, before, sizeof(before)) ||
	    attach_launch_write(launch, at, name, sizeof(name)))
		return -EFAULT;
	fd = attach_launch_call(launch, SYS_memfd_create, make);
	make[1] = MFD_CLOEXEC; /* before Linux 6.3 */
	if (fd < 0)
		fd = attach_launch_call(launch, SYS_memfd_create, make);
	return attach_launch_write(launch, at, before, sizeof(before)) ? -EFAULT : fd;
}

/* Map memory for all pieces, of a file that is open here to be written. */
static int map_pieces(struct placing_made *made, const struct placing *placing, struct attach_launch *launch)
{
	int64_t fd = make_file(launch), closed;
	char path[64];
	int ret;

	if (fd < 0)
		return (int)fd;
	snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)launch->pid, (int)fd);
	made->file = open(path, O_RDWR | O_CLOEXEC);
	ret = made->file < 0 || ftruncate(made->file, (off_t)made->size) ? -errno : map_near(made, placing, launch, fd);
	closed = attach_launch_call(launch, SYS_close, (const uint64_t[6]){(uint64_t)fd});
	return ret ? ret : (int)closed;
}

static int write_piece(const struct placing_made *made, uint64_t at, const void *bytes, size_t size)
{
	ssize_t put = pwrite(made->file, bytes, size, (off_t)(at - made->at));

	return put == (ssize_t)size ? 0 : put < 0 ? -errno : -ENOSPC;
}

/* Lead the block of a function to the agent's function of that name, and note what is behind. */
static int lead_block(struct placing_made *made, const struct placing *placing, const struct front *front)
{
	struct calltap_start_function *told = &made->start.functions[made->start.function_count];
	const struct stock_image *view = object_stock(placing->object);
	const struct stock_block *block = block_of(made, front);
	uint64_t ours = agent_image_symbol(&placing->image, front->name);
	uint8_t bytes[16];
	int length;

	if (!ours || !block || !block->size || strlen(front->name) >= sizeof(told->name))
		return -ENOEXEC;
	memcpy(told->name, front->name, strlen(front->name) + 1);
	told->behind = made->region + block->offset + stock_site(view, bytes);
	length = stock_lead(bytes, view, made->region + block->offset, made->at + ours);
	if (length < 0)
		return length;
	made->start.function_count++;
	memcpy(made->region_bytes + block->offset, bytes, (size_t)length);
	return 0;
}

/* Make the region, and what the agent is told of it. */
static int make_region(struct placing_made *made, const struct placing *placing)
{
	int ret;

	made->region_bytes = calloc(1, made->layout.size + 1);
	if (!made->region_bytes)
		return -ENOMEM;
	ret = stock_make(made->region_bytes, &made->layout, object_stock(placing->object), made->blocks,
			 made->block_count, made->region, made->base);
	for (size_t i = 0; i < placing->fronts.count && !ret; i++)
		ret = lead_block(made, placing, &placing->fronts.list[i]);
	return ret;
}

int placing_make(struct placing_made *made, struct placing *placing)
{
	int ret = agent_image_relocate(&placing->image, made->at);

	made->page = made->at + page_up(placing->image.size);
	made->region = made->page + PAGE;
	made->start.libgcc = placing->fronts.libgcc;
	made->start.base = made->base;
	return ret ? ret : make_region(made, placing);
}

/* Write the page that the agent and the thread read. */
static int write_page(struct placing_made *made, const struct placing *placing, struct attach_launch *launch,
		      uint64_t *pc)
{
	unsigned char code[NATIVE_LAUNCH_MAX];
	uint64_t entry = agent_image_symbol(&placing->image, "calltap_agent_start");
	uint64_t place = agent_image_symbol(&placing->image, "calltap_agent_place");
	size_t begin, size;
	int ret;

	made->start.magic = CALLTAP_START_MAGIC;
	made->start.version = CALLTAP_START_VERSION;
	made->start.musl = launch->musl;
	made->start.environment = launch->environment;
	made->start.within = launch->headers;
	made->start.id_offset = launch->id_offset;
	made->start.entry = made->at + place;
	size = native_launch_code(code, sizeof(code), &launch->regs, made->at + entry, made->page, &begin);
	if (!entry || !place || !size)
		return -ENOEXEC;
	*pc = made->page + CODE_OFF + begin;
	ret = write_piece(made, made->page, &made->start, sizeof(made->start));
	return ret ? ret : write_piece(made, made->page + CODE_OFF, code, size);
}

static int protect(struct attach_launch *launch, uint64_t at, uint64_t size, int protection)
{
	const uint64_t arguments[6] = {at, size, (uint64_t)protection};

	return (int)attach_launch_call(launch, SYS_mprotect, arguments);
}

static int protect_all(const struct placing_made *made, const struct placing *placing, struct attach_launch *launch)
{
	int ret = protect(launch, made->page, made->at + made->size - made->page, PROT_READ | PROT_EXEC);

	for (unsigned i = 0; i < placing->image.part_count && !ret; i++) {
		const struct image_part *part = &placing->image.parts[i];

		if (part->protection != (PROT_READ | PROT_WRITE))
			ret = protect(launch, made->at + part->offset, part->size, part->protection);
	}
	return ret;
}

/* True if the program's heads are what the file has: it may have been replaced. */
static bool heads_are_known(const struct placing_made *made, const struct placing *placing,
			    const struct attach_launch *launch)
{
	for (size_t i = 0; i < placing->fronts.count; i++) {
		const struct front *front = &placing->fronts.list[i];
		uint8_t now[sizeof(front->old)];

		if (attach_launch_read(launch, made->base + front->head, now, front->length) ||
		    memcmp(now, front->old, front->length) != 0)
			return false;
	}
	return true;
}

int placing_jump(uint8_t jump[16], const struct placing_made *made, const struct placing *placing, uint64_t head)
{
	for (size_t i = 0; i < made->block_count; i++)
		if (made->blocks[i].head == head)
			return stock_lead(jump, object_stock(placing->object), made->base + head,
					  made->region + made->blocks[i].offset);
	return -ENOEXEC;
}

int placing_tell_heads(struct placing_made *made, const struct placing *placing)
{
	for (size_t i = 0; i < placing->fronts.count; i++) {
		const struct front *front = &placing->fronts.list[i];
		struct calltap_start_function *told = &made->start.functions[i];
		uint8_t jump[16];
		int length;

		if (i && placing->fronts.list[i - 1].head == front->head)
			continue;
		length = placing_jump(jump, made, placing, front->head);
		if (length < 0)
			return length;
		if ((size_t)length > sizeof(told->jump) || (unsigned)length > front->length)
			return -ENOEXEC;
		told->head = made->base + front->head;
		told->length = (uint8_t)length;
		memcpy(told->old, front->old, (size_t)length);
		memcpy(told->jump, jump, (size_t)length);
	}
	return 0;
}

/* The last step but letting go: from here on the program's functions lead to the agent's. */
static int lead_heads(const struct placing_made *made, const struct placing *placing,
		      const struct attach_launch *launch)
{
	uint8_t jumps[FRONTS_MAX][16];
	int lengths[FRONTS_MAX];

	if (!heads_are_known(made, placing, launch))
		return -ESTALE;
	for (size_t i = 0; i < made->block_count; i++) {
		lengths[i] = placing_jump(jumps[i], made, placing, made->blocks[i].head);
		if (lengths[i] < 0)
			return lengths[i];
	}
	for (size_t i = 0; i < made->block_count; i++) {
		int ret = attach_launch_write(launch, made->base + made->blocks[i].head, jumps[i], (size_t)lengths[i]);

		if (ret)
			return ret;
	}
	return 0;
}

static int put(struct placing_made *made, struct placing *placing, struct attach_launch *launch, uint64_t *pc)
{
	int ret = placing_lay_out(made, placing);

	made->base = launch->entry - placing->entry;
	if (!ret)
		ret = map_pieces(made, placing, launch);
	if (!ret)
		ret = placing_make(made, placing);
	if (!ret)
		ret = placing_tell_heads(made, placing);
	if (!ret)
		ret = write_piece(made, made->at, placing->image.bytes, placing->image.size);
	if (!ret)
		ret = write_piece(made, made->region, made->region_bytes, made->layout.size);
	if (!ret)
		ret = write_page(made, placing, launch, pc);
	if (!ret)
		ret = protect_all(made, placing, launch);
	return ret ? ret : lead_heads(made, placing, launch);
}

int placing_put(struct placing *placing, struct attach_launch *launch, struct calltap_diag *diag)
{
	struct placing_made made = {.file = -1};
	uint64_t pc;
	int ret = put(&made, placing, launch, &pc);

	free(made.region_bytes);
	if (made.file >= 0)
		close(made.file);
	if (!ret)
		return attach_launch_go(launch, pc);
	/* Heads are led last, and all or none: a write that fails there is that of a process that is gone. */
	attach_launch_leave(launch);
	return calltap_diag_set(diag, ret, "the agent could not be put into the program: %s; it runs untraced",
				strerror(-ret));
}
