/*
 * Leading sites from one stub to another while threads run through them (sites.h), on CPUs where a site leads to its
 * first stub for good: the head of that stub leads on to the other one.  Why each write is safe:
 * doc/design/riscv64.md, "From one stub to another".
 *
 * Two rules keep stubs from leading in a circle: a stub is made to lead to no other before anything leads to it, and
 * only a site's first stub is made to lead to another.
 *
 * Called by the agent room's control thread.  Context: control.
 */
#include <errno.h>

#include <arch.h>
#include <base/mem.h>
#include <base/sys.h>
#include <patch/sites.h>

/* A stub's veneer and its first instruction, as they were read. */
struct head {
	uint64_t stub;
	uint8_t code[ARCH_STUB_HEAD_BYTES];
	struct arch_head state;
};

/* The stub may be any address: what the site's text says.  So it is read through mem_fd. */
static bool read_head(struct head *head, const struct patch_poker *poker, uint64_t stub)
{
	head->stub = stub;
	return SYS(pread64, poker->mem_fd, head->code, sizeof(head->code), stub - ARCH_VENEER_BYTES, 0, 0) ==
		       sizeof(head->code) &&
	       arch_head_read(&head->state, head->code, stub);
}

static int write_head(struct patch_poker *poker, const struct head *head, const struct arch_write *write)
{
	return patch_poke(poker, head->stub - ARCH_VENEER_BYTES + write->offset, write->bytes, write->size);
}

/* Make the stub lead to another one, or run itself; 0 or -errno. */
static int switch_head(struct patch_poker *poker, const struct head *head, bool led)
{
	struct arch_write write = arch_head_switch(head->code, led);

	return head->state.led == led ? 0 : write_head(poker, head, &write);
}

void patch_stub_finish(uint8_t *stub)
{
	arch_veneer_make(stub - ARCH_VENEER_BYTES);
}

/* The stub is in a region of the agent's.  Where memory cannot be written through mem_fd, no stub was ever led. */
int patch_stub_reset(struct patch_poker *poker, uint64_t stub)
{
	struct head head = {.stub = stub};

	memcpy(head.code, (const void *)(stub - ARCH_VENEER_BYTES), sizeof(head.code));
	return arch_head_read(&head.state, head.code, stub) ? switch_head(poker, &head, false) : -EINVAL;
}

bool patch_site_find(struct patch_piece *piece, const struct patch_poker *poker, const struct patch_region *region,
		     const struct calltap_site *site)
{
	uint8_t code[ARCH_SITE_MAX];
	struct head head;

	*piece = patch_site_piece(region, site);
	return SYS(pread64, poker->mem_fd, code, sizeof(code), site->address, 0, 0) == sizeof(code) &&
	       arch_site_target(&piece->target, code, site->address) && read_head(&head, poker, piece->target) &&
	       head.state.target == region->lo + site->stub_off;
}

/* Make the calls that come to the stub `first` go to the stub `to`.  Where they go is written before the head. */
static bool lead(struct patch_poker *poker, uint64_t first, uint64_t to)
{
	struct head head, other;
	struct arch_write where;

	if (!read_head(&head, poker, first))
		return false;
	if (first == to)
		return !switch_head(poker, &head, false);
	return arch_veneer_lead(&where, first, to) && read_head(&other, poker, to) &&
	       !switch_head(poker, &other, false) && !write_head(poker, &head, &where) &&
	       !switch_head(poker, &head, true);
}

static bool move_one(struct patch_poker *poker, const struct patch_move *move)
{
	struct patch_piece piece;

	return patch_site_is_same(move->old, move->site) && patch_site_find(&piece, poker, move->from, move->old) &&
	       lead(poker, piece.target, move->to->lo + move->site->stub_off) &&
	       !patch_site_switch(poker, move->to, move->site, true);
}

void patch_sites_move(struct patch_poker *poker, struct patch_move *moves, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		moves[i].done = move_one(poker, &moves[i]);
}
