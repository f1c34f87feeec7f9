/*
 * Blocks and heads (blocks.h).  Context: control.
 */
#include <errno.h>
#include <sys/mman.h>

#include <arch.h>
#include <base/mem.h>
#include <base/sys.h>
#include <patch/blocks.h>

#define PAGE 4096ul

int patch_blocks_map(struct patch_region *out, uint64_t address, const uint8_t *code, size_t size)
{
	size_t room = (size + PAGE - 1) & ~(PAGE - 1);
	void *made = sys_mmap((void *)address, room, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	long ret;

	*out = (struct patch_region){0};
	if (sys_failed((long)made))
		return (int)(long)made;
	if (made != (void *)address) { /* a kernel that does not know MAP_FIXED_NOREPLACE */
		sys_munmap(made, room);
		return -EEXIST;
	}
	memcpy(made, code, size);
	arch_text_written(address, size);
	ret = SYS(mprotect, made, room, PROT_READ | PROT_EXEC, 0, 0, 0);
	if (sys_failed(ret)) {
		sys_munmap(made, room);
		return (int)ret;
	}
	*out = (struct patch_region){.lo = address, .hi = address + size};
	return 0;
}

int patch_heads_lead(struct patch_result *result, struct patch_poker *poker, const struct patch_region *blocks,
		     const struct calltap_site *heads, uint32_t count, const struct patch_skips *skips)
{
	*result = (struct patch_result){.region = *blocks};
	return patch_sites_apply(result, poker, heads, count, skips);
}

/* 1: the head has its own bytes; 0: others'. */
static bool restore_one(struct patch_poker *poker, const struct patch_region *blocks, const struct calltap_site *head)
{
	struct patch_piece piece = patch_site_piece(blocks, head);
	uint8_t code[ARCH_SITE_MAX];

	if (patch_piece_is(poker, &piece, piece.old))
		return true;
	arch_site_make(code, piece.address, piece.length, piece.target);
	return patch_piece_is(poker, &piece, code) && !patch_poke(poker, piece.address, piece.old, piece.length);
}

void patch_heads_restore(struct patch_restored *out, struct patch_poker *poker, const struct patch_region *blocks,
			 const struct calltap_site *heads, uint32_t count)
{
	*out = (struct patch_restored){0};
	for (uint32_t i = 0; i < count; i++) {
		if (restore_one(poker, blocks, &heads[i]))
			out->restored++;
		else
			out->left++;
	}
	out->leading = out->left;
	if (patch_sync())
		return; /* where the kernel cannot, stopping the threads has done as much */
}
