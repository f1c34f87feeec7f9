/*
 * Points at instructions that are no no-ops: blocks, and the heads that lead to them (arch/generic/isa/block.h).
 *
 * A block's first bytes are a site like any other (sites.h): plans, stubs, switching and moving work on it.  A head is
 * written once, and is no site: it is never switched off, for it replaced what the program has to run.
 * doc/design/patching.md, "Points", has the states and who may be where.
 *
 * Called by the agent room.  Context: control.
 */
#ifndef PATCH_BLOCKS_H
#define PATCH_BLOCKS_H

#include <patch/sites.h>

/*
 * Map blocks at the address that their code was made for, a multiple of the page size, and make them executable.  The
 * first CALLTAP_BLOCKS_HEAD bytes are no block's: an address is put there, by which a tool knows the region.
 * -EEXIST: something lies there; make the code for another place.
 */
int patch_blocks_map(struct patch_region *out, uint64_t address, const uint8_t *code, size_t size)
	__attribute__((warn_unused_result));

/*
 * Lead heads to their blocks: of a struct calltap_site for a head, `stub_off` is the block's offset in the region,
 * `length` and `old` are the head's.  All threads are stopped, or none has come to the object; none is within a head
 * but at its first byte, nor returns there from a signal handler, but within the skips.  The blocks' sites are written
 * before.  As patch_sites_apply(), a head whose bytes differ is left alone and counted as failed.
 */
int patch_heads_lead(struct patch_result *result, struct patch_poker *poker, const struct patch_region *blocks,
		     const struct calltap_site *heads, uint32_t count, const struct patch_skips *skips)
	__attribute__((warn_unused_result));

/* Unmap blocks: no thread is in one, and no head leads there. */
void patch_blocks_unmap(const struct patch_region *blocks);

/*
 * Write the heads' own bytes back.  All threads are stopped; one may be within a block, which stays: it goes on behind
 * the head.  A head with others' bytes is left, and counted; as leading, too, unless they are its own but for a
 * breakpoint of one byte.
 */
void patch_heads_restore(struct patch_restored *out, struct patch_poker *poker, const struct patch_region *blocks,
			 const struct calltap_site *heads, uint32_t count);

#endif
