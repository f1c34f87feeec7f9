/*
 * The memory of a plan (abi/control.h, PLAN): the sites of an object at their run-time addresses, and for functions
 * that no compiler has prepared their heads and the bytes of their blocks.
 *
 * Caller: plan.c.  Context: host, under the session's lock.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <calltap/abi/ring.h>

#include "images.h"

#define BLOCKS_ALIGN 16u /* of the blocks' bytes behind the heads */

_Static_assert(STOCK_BLOCKS_HEAD == CALLTAP_BLOCKS_HEAD, "one number");

static size_t round_up(size_t size, size_t to)
{
	return (size + to - 1) / to * to;
}

static void put_sites(struct calltap_site *sites, const struct image *image, uint32_t variant, uint64_t base,
		      uint64_t blocks)
{
	memcpy(sites, image->variants[variant].sites, image->site_count * sizeof(*sites));
	for (uint32_t i = 0; i < image->site_count; i++) {
		sites[i].address += i < image->block_first ? base : blocks;
		sites[i].flags |= image->off[i] ? CALLTAP_SITE_OFF : 0;
	}
}

static void put_heads(struct calltap_site *heads, const struct image *image, uint64_t base)
{
	for (uint32_t i = 0; i < image_block_sites(image); i++) {
		const struct object_site *source = image->sources[image->block_first + i];
		const struct stock_block *block = &image->blocks[i];

		heads[i] = (struct calltap_site){
			.address = base + source->address,
			.id = image->sites[image->block_first + i].id,
			.stub_off = block->offset,
			.flags = CALLTAP_SITE_HEAD,
			.length = block->length,
			.body_off = block->length,
			.tramp_off = block->island ? (int32_t)(block->island - block->head) : 0,
		};
		memcpy(heads[i].old, source->old, block->length);
	}
}

static int put_blocks(uint8_t *at, const struct image *image, uint64_t base, uint64_t blocks)
{
	size_t heads = round_up(image_block_sites(image) * sizeof(struct calltap_site), BLOCKS_ALIGN);

	put_heads((struct calltap_site *)at, image, base);
	return stock_make(at + heads, &image->layout, object_stock(image->object), image->blocks,
			  image_block_sites(image), blocks, base);
}

static int fill(int fd, const struct image *image, uint32_t variant, uint64_t base, uint64_t blocks, bool whole)
{
	size_t count = image_block_sites(image), size = image->site_count * sizeof(struct calltap_site);
	size_t rest = round_up(size, CALLTAP_PAGE);
	uint8_t *at;
	int ret = 0;

	whole &= count != 0;
	if (whole)
		size = rest + round_up(count * sizeof(struct calltap_site), BLOCKS_ALIGN) + image->layout.size;
	if (ftruncate(fd, (off_t)size))
		return -errno;
	at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (at == MAP_FAILED)
		return -errno;
	put_sites((struct calltap_site *)at, image, variant, base, blocks);
	if (whole)
		ret = put_blocks(at + rest, image, base, blocks);
	munmap(at, size);
	return ret;
}

int plan_memory(const struct image *image, uint32_t variant, uint64_t base, uint64_t blocks, bool whole)
{
	int fd = memfd_create("calltap-plan", MFD_CLOEXEC | MFD_ALLOW_SEALING), ret;

	if (fd < 0)
		return -errno;
	ret = fill(fd, image, variant, base, blocks, whole);
	if (ret) {
		close(fd);
		return ret;
	}
	fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL);
	return fd;
}
